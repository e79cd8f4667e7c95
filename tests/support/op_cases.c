// Unit op_cases.c: parser and generator of op_cases.h.
#include "support/op_cases.h"

#include "base/rng.h"
#include <ctype.h>
#include <math.h>

static void malformed(const struct op_case *c)
{
    fprintf(stderr, "%s: malformed case: %s\n", c->op->name, c->text);
    abort();
}

// term = number | letter; product = term [* term]...; sum = product [+ product]...; a leading -
// negates
static double expression(struct op_case *c, const char **p)
{
    double sum = 0;
    for (;;) {
        double product = 1;
        for (;;) {
            double sign = 1;
            if (**p == '-') sign = -1, (*p)++;
            if (isdigit((unsigned char)**p) || **p == '.') {
                char *end;
                product *= sign * strtod(*p, &end);
                *p = end;
            } else if (isalpha((unsigned char)**p)) {
                product *= sign * (double)c->letter[(unsigned char)*(*p)++];
            } else {
                malformed(c);
            }
            if (**p != '*') break;
            (*p)++;
        }
        sum += product;
        if (**p != '+') return sum;
        (*p)++;
    }
}

static void skip_spaces(const char **p)
{
    while (**p == ' ')
        (*p)++;
}

static void parse_input(struct op_case *c, const char **p)
{
    int i = c->n_in++;
    if (i >= CASE_MAX_IN) malformed(c);
    if (**p == '-') {
        (*p)++;
        return;
    }
    int n = 0;
    while (**p && **p != ':' && n < 15)
        c->name[i][n++] = *(*p)++;
    if (*(*p)++ != ':') malformed(c);
    c->kind[i] = *(*p)++;
    if (c->kind[i] == 'i') c->below[i] = (int64_t)expression(c, p);
    if (*(*p)++ != '[') malformed(c);
    while (**p && **p != ']') {
        c->shape[i][c->ndim[i]++] = (int64_t)expression(c, p);
        if (**p == ',') (*p)++;
    }
    if (*(*p)++ != ']') malformed(c);
}

static const struct attr_field *find_attr(struct op_case *c, const char *name, size_t len)
{
    for (const struct attr_field *f = c->op->attrs; f && f->name; f++)
        if (strlen(f->name) == len && !memcmp(f->name, name, len)) return f;
    malformed(c);
    return NULL;
}

static void parse_attr(struct op_case *c, const char **p)
{
    const char *name = *p;
    while (**p && **p != '=')
        (*p)++;
    const struct attr_field *f = find_attr(c, name, (size_t)(*p - name));
    (*p)++;
    char *at = c->attr + f->offset;
    struct dims d = {0};
    double v = expression(c, p);
    d.v[d.n++] = (int64_t)v;
    while (**p == ',') {
        (*p)++;
        d.v[d.n++] = (int64_t)expression(c, p);
    }
    switch (f->type) {
    case ATTR_INT:
        *(int64_t *)at = (int64_t)v;
        break;
    case ATTR_REAL:
        *(double *)at = v;
        break;
    case ATTR_BOOL:
        *(bool *)at = v != 0;
        break;
    case ATTR_PAIR:
        ((int64_t *)at)[0] = d.v[0];
        ((int64_t *)at)[1] = d.v[d.n > 1];
        break;
    case ATTR_DIMS:
        *(struct dims *)at = d;
        break;
    }
}

void case_parse(struct op_case *c, const struct op *op, const char *text, uint64_t seed)
{
    memset(c, 0, sizeof *c);
    c->op = op;
    c->text = text;
    for (int l = 'a'; l <= 'z'; l++) {
        c->letter[l] = 1 + (int64_t)rng_below(seed, 1, (uint64_t)l, 5);
        c->letter[toupper(l)] = 6 + (int64_t)rng_below(seed, 2, (uint64_t)l, 7);
    }
    const char *p = text;
    if (!strncmp(p, "dense|", 6)) c->dense_only = true, p += 6;
    if (!strncmp(p, "exact|", 6)) c->shapes_only = true, p += 6;
    if (!strncmp(p, "stops|", 6)) c->gradient_stops = true, p += 6;
    for (skip_spaces(&p); *p && *p != ';'; skip_spaces(&p))
        parse_input(c, &p);
    if (*p++ != ';') malformed(c);
    skip_spaces(&p);
    const char *attrs = p;
    for (; *p && *p != ';'; skip_spaces(&p))
        parse_attr(c, &p);
    snprintf(c->attr_text, sizeof c->attr_text, "%.*s", (int)(p - attrs), attrs);
    if (*p++ != ';') malformed(c);
    skip_spaces(&p);
    snprintf(c->expr, sizeof c->expr, "%s", p);
}

bool case_input_is_float(const struct op_case *c, int i)
{
    return c->name[i][0] && strchr("fpuodnc", c->kind[i]);
}

static double value(const struct op_case *c, int input, int64_t k, uint64_t seed)
{
    uint64_t stream = 100 + (uint64_t)input;
    double u = rng_unit(seed, stream, (uint64_t)k), g = rng_normal(seed, stream, (uint64_t)k);
    switch (c->kind[input]) {
    case 'f':
        return g;
    case 'p':
    case 'w':
    case 'c':
        return 0.5 + 1.5 * u;
    case 'o':
        return 1.2 + 2 * u;
    case 'u':
        return 1.8 * u - 0.9;
    case 'd':
        return floor(8 * u - 4) + 0.1 + 0.3 * fmod(1000 * u, 1);
    case 'n':
        return u < 0.1 ? NAN : u < 0.2 ? INFINITY : u < 0.3 ? -INFINITY : u < 0.4 ? 0 : g;
    case 's':
        return u < 0.5 ? -1 : 1;
    case 'b':
        return u < 0.5;
    case 'i':
        return (double)rng_below(seed, stream, (uint64_t)k, (uint64_t)c->below[input]);
    default:
        malformed(c);
        return 0;
    }
}

static void normalize_rows(det_tensor *t)
{
    double *v = t->data;
    int64_t n = t->ndim ? t->shape[t->ndim - 1] : 1;
    for (int64_t at = 0; at < t->numel; at += n) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += v[at + i];
        for (int64_t i = 0; i < n; i++)
            v[at + i] /= sum;
    }
}

// The same values behind other strides.
static det_tensor *relayout(det_tensor *t, enum case_layout layout)
{
    if (!t || layout == LAYOUT_DENSE || t->ndim == 0) return t;
    int64_t order[DET_MAX_DIMS], shape[DET_MAX_DIMS];
    for (int d = 0; d < t->ndim; d++) {
        order[d] = t->ndim - 1 - d;
        shape[d] = t->shape[d];
    }
    if (layout == LAYOUT_TRANSPOSED)
        return det_permute(det_contiguous(det_permute(t, order, t->ndim)), order, t->ndim);
    shape[t->ndim - 1] *= 2;
    det_tensor *wide = det_zeros((det_dtype)t->dtype, shape, t->ndim);
    det_tensor *stepped = det_slice(wide, t->ndim - 1, 0, shape[t->ndim - 1], 2);
    det_copy_(stepped, t);
    return stepped;
}

det_tensor *case_input(const struct op_case *c, int i, det_dtype dtype, enum case_layout layout,
                       uint64_t seed)
{
    if (!c->name[i][0]) return NULL;
    det_tensor *t = det_empty(DET_F64, c->shape[i], c->ndim[i]);
    if (!t) return NULL;
    for (int64_t k = 0; k < t->numel; k++)
        ((double *)t->data)[k] = value(c, i, k, seed);
    if (c->kind[i] == 'c') normalize_rows(t);
    det_dtype to = c->kind[i] == 'b' ? DET_BOOL : c->kind[i] == 'i' ? DET_I64 : dtype;
    return relayout(det_to(t, to), layout);
}
