// Unit einsum.c: sums of products in Einstein's notation, as matrix products of two tensors at a
// time.
#include "tensor/ops.h"

#include <ctype.h>

// Labels: letters as they are, dims of an ellipsis as ELLIPSIS, ELLIPSIS + 1, ... from the last.
enum { ELLIPSIS = 128, N_LABELS = ELLIPSIS + DET_MAX_DIMS };

struct labels {
    int n;
    uint8_t v[DET_MAX_DIMS];
};

static int label_at(const struct labels *l, int label)
{
    for (int i = 0; i < l->n; i++)
        if (l->v[i] == label) return i;
    return -1;
}

struct einsum {
    const char *equation;
    int64_t size[N_LABELS]; // 0: not there yet
    int n_ellipsis;         // dims of the longest one
    int uses[N_LABELS];     // operands and results that still want the label
    struct labels out;
};

static bool fail(const struct einsum *e, const char *what)
{
    det_raise(DET_EINVAL, "einsum: '%.80s': %s", e->equation, what);
    return false;
}

// --- reading the equation

static bool add_label(const struct einsum *e, struct labels *l, int label)
{
    if (l->n == DET_MAX_DIMS) return fail(e, "more dims than a tensor has");
    l->v[l->n++] = (uint8_t)label;
    return true;
}

// The labels of one operand or of the result up to a comma or an arrow. n_ellipsis: dims behind
// "...", -1 if it must not be there.
static bool read_labels(const struct einsum *e, const char **at, int n_ellipsis, struct labels *l)
{
    bool seen = false;
    l->n = 0;
    for (; **at && **at != ',' && **at != '-'; (*at)++) {
        if (**at == ' ') continue;
        if (isalpha((unsigned char)**at)) {
            if (!add_label(e, l, **at)) return false;
            continue;
        }
        if (**at != '.' || (*at)[1] != '.' || (*at)[2] != '.' || seen)
            return fail(e, "wants letters, one ..., commas and ->");
        if (n_ellipsis < 0) return fail(e, "... has no dims here");
        *at += 2;
        seen = true;
        for (int i = n_ellipsis; i-- > 0;)
            if (!add_label(e, l, ELLIPSIS + i)) return false;
    }
    return true;
}

static int count_letters(const char *at)
{
    int n = 0;
    for (; *at && *at != ',' && *at != '-'; at++)
        n += isalpha((unsigned char)*at) != 0;
    return n;
}

// A size of 1 broadcasts to what the label is elsewhere, but not within one operand.
static bool note_sizes(struct einsum *e, const struct labels *l, const det_tensor *x)
{
    for (int d = 0; d < l->n; d++) {
        int label = l->v[d], before = label_at(l, label);
        int64_t *size = &e->size[label], here = x->shape[d];
        int64_t other = before < d ? x->shape[before] : e->uses[label] ? *size : here;
        bool broadcasts = before == d && (here == 1 || other == 1);
        if (here != other && !broadcasts) {
            det_raise(DET_ESHAPE, "einsum: '%.80s': %c is %lld and, in %s, %lld", e->equation,
                      label >= ELLIPSIS ? '.' : label, (long long)other, TENSOR_TEXT(x),
                      (long long)here);
            return false;
        }
        if (before == d) *size = here == 1 ? other : here;
    }
    for (int d = 0; d < l->n; d++)
        e->uses[l->v[d]] += label_at(l, l->v[d]) == d;
    return true;
}

static bool read_operand(struct einsum *e, const char **at, const det_tensor *x, struct labels *l)
{
    if (!x) return fail(e, "an operand is NULL");
    int rest = x->ndim - count_letters(*at);
    if (!read_labels(e, at, rest, l)) return false;
    if (l->n != x->ndim) {
        det_raise(DET_ESHAPE, "einsum: '%.80s': %d labels for %s", e->equation, l->n,
                  TENSOR_TEXT(x));
        return false;
    }
    e->n_ellipsis = MAX(e->n_ellipsis, rest);
    return note_sizes(e, l, x);
}

// Without an arrow: what stands behind "...", and the letters that are there once, in their order.
static bool implied_result(struct einsum *e, const struct labels *in, int n)
{
    int times[N_LABELS] = {0};
    for (int i = 0; i < n; i++)
        for (int d = 0; d < in[i].n; d++)
            times[in[i].v[d]]++;
    for (int i = e->n_ellipsis; i-- > 0;)
        if (!add_label(e, &e->out, ELLIPSIS + i)) return false;
    for (int c = 0; c < ELLIPSIS; c++)
        if (times[c] == 1 && !add_label(e, &e->out, c)) return false;
    return true;
}

static bool read_result(struct einsum *e, const char *at, const struct labels *in, int n)
{
    if (!*at) {
        if (!implied_result(e, in, n)) return false;
    } else {
        if (at[0] != '-' || at[1] != '>') return fail(e, "wants -> before the result");
        at += 2;
        if (!read_labels(e, &at, e->n_ellipsis, &e->out)) return false;
        if (*at) return fail(e, "more than one result");
    }
    for (int i = 0; i < e->out.n; i++) {
        if (!e->uses[e->out.v[i]]) return fail(e, "a label of the result is in no operand");
        if (label_at(&e->out, e->out.v[i]) != i) return fail(e, "a label is twice in the result");
        e->uses[e->out.v[i]]++;
    }
    return true;
}

// --- computing

struct term {
    det_tensor *x;
    struct labels l;
};

// A label that is there twice stands for a diagonal.
static void take_diagonals(struct term *t)
{
    for (int i = 0; i < t->l.n; i++) {
        int again = i + 1;
        while (again < t->l.n && t->l.v[again] != t->l.v[i])
            again++;
        if (again == t->l.n) continue;
        uint8_t label = t->l.v[i];
        t->x = det_diagonal(t->x, 0, i, again);
        memmove(t->l.v + again, t->l.v + again + 1, (size_t)(t->l.n - again - 1));
        memmove(t->l.v + i, t->l.v + i + 1, (size_t)(t->l.n - 1 - i - 1));
        t->l.v[t->l.n - 2] = label;
        t->l.n--;
        i--;
    }
}

// Sums over what nobody else wants.
static void drop_unused(const struct einsum *e, struct term *t)
{
    int64_t dims[DET_MAX_DIMS];
    int n = 0, kept = 0;
    for (int d = 0; d < t->l.n; d++) {
        if (e->uses[t->l.v[d]] > 1)
            t->l.v[kept++] = t->l.v[d];
        else
            dims[n++] = d;
    }
    t->l.n = kept;
    if (n) t->x = det_sum_over(t->x, dims, n, false);
}

// Labels of a and b by what becomes of them.
struct roles {
    struct labels batch, left, right, summed;
};

static struct roles find_roles(const struct einsum *e, const struct term *a, const struct term *b)
{
    struct roles r = {0};
    for (int i = 0; i < a->l.n; i++) {
        uint8_t label = a->l.v[i];
        struct labels *to = label_at(&b->l, label) < 0 ? &r.left
                            : e->uses[label] > 2       ? &r.batch
                                                       : &r.summed;
        to->v[to->n++] = label;
    }
    for (int i = 0; i < b->l.n; i++)
        if (label_at(&a->l, b->l.v[i]) < 0) r.right.v[r.right.n++] = b->l.v[i];
    return r;
}

static int64_t size_of(const struct einsum *e, const struct labels *l)
{
    int64_t size = 1;
    for (int i = 0; i < l->n; i++)
        size *= e->size[l->v[i]];
    return size;
}

// t as (parts[0], parts[1], parts[2]), sizes of 1 in an ellipsis expanded.
static det_tensor *as_matrices(const struct einsum *e, const struct term *t,
                               const struct labels *const parts[3])
{
    int64_t order[DET_MAX_DIMS], shape[DET_MAX_DIMS], flat[3];
    int n = 0;
    for (int p = 0; p < 3; p++) {
        flat[p] = size_of(e, parts[p]);
        for (int i = 0; i < parts[p]->n; i++) {
            order[n] = label_at(&t->l, parts[p]->v[i]);
            shape[n++] = e->size[parts[p]->v[i]];
        }
    }
    return det_reshape(det_expand(det_permute(t->x, order, n), shape, n), flat, 3);
}

static bool append(const struct einsum *e, struct labels *to, const struct labels *from)
{
    for (int i = 0; i < from->n; i++)
        if (!add_label(e, to, from->v[i])) return false;
    return true;
}

// The product of two terms, summed over what neither a later term nor the result wants.
static bool multiply(struct einsum *e, struct term *a, const struct term *b)
{
    const struct roles r = find_roles(e, a, b);
    det_tensor *x = as_matrices(e, a, (const struct labels *[]){&r.batch, &r.left, &r.summed});
    det_tensor *y = as_matrices(e, b, (const struct labels *[]){&r.batch, &r.summed, &r.right});
    det_tensor *z = r.summed.n ? det_matmul(x, y) : det_mul(x, y);
    for (int i = 0; i < r.batch.n; i++)
        e->uses[r.batch.v[i]]--;
    a->l.n = 0;
    if (!append(e, &a->l, &r.batch) || !append(e, &a->l, &r.left) || !append(e, &a->l, &r.right))
        return false;
    int64_t shape[DET_MAX_DIMS];
    for (int i = 0; i < a->l.n; i++)
        shape[i] = e->size[a->l.v[i]];
    a->x = det_reshape(z, shape, a->l.n);
    return !sticky_failed();
}

static det_tensor *in_order(const struct einsum *e, const struct term *t)
{
    int64_t order[DET_MAX_DIMS], shape[DET_MAX_DIMS];
    for (int i = 0; i < e->out.n; i++) {
        order[i] = label_at(&t->l, e->out.v[i]);
        shape[i] = e->size[e->out.v[i]];
    }
    return det_expand(det_permute(t->x, order, e->out.n), shape, e->out.n);
}

enum { MAX_TERMS = 16 };

static det_tensor *compute(struct einsum *e, struct term *t, int n)
{
    for (int i = 0; i < n; i++) {
        take_diagonals(&t[i]);
        drop_unused(e, &t[i]);
    }
    for (int i = 1; i < n && !sticky_failed(); i++) {
        if (!multiply(e, &t[0], &t[i])) return NULL;
        drop_unused(e, &t[0]);
    }
    return sticky_failed() ? NULL : in_order(e, &t[0]);
}

det_tensor *det_einsum(const char *equation, det_tensor *const *x, int n)
{
    struct einsum e = {.equation = equation ? equation : ""};
    struct term term[MAX_TERMS];
    struct labels labels[MAX_TERMS];
    const char *at = e.equation;
    if (sticky_failed()) return NULL;
    if (n < 1 || n > MAX_TERMS || !x || !equation) {
        det_raise(DET_EINVAL, "einsum: %d operands; wants 1 to %d", x ? n : 0, MAX_TERMS);
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        if (!read_operand(&e, &at, x[i], &labels[i])) return NULL;
        bool more = *at == ',';
        if (more != (i < n - 1)) {
            fail(&e, "another number of operands");
            return NULL;
        }
        at += more;
        term[i] = (struct term){x[i], labels[i]};
    }
    if (!read_result(&e, at, labels, n)) return NULL;
    return compute(&e, term, n);
}
