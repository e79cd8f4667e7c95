// Unit tree.c: trees of values as bytes, for other ranks. Not a file format: it is read by the
// program that wrote it. What is damaged all the same is an error.
#include "train/engine_ranks.h"

enum { DEPTH_MAX = 256 };

// --- packing

static void put_u32(struct buf *out, uint32_t n)
{
    buf_add(out, &n, sizeof n);
}

static void put_text(struct buf *out, const char *text)
{
    struct str s = str_from(text);
    put_u32(out, (uint32_t)s.len);
    buf_add(out, s.ptr, s.len);
}

static void put_tensor(struct buf *out, det_tensor *t)
{
    const void *data = det_data(t);
    int32_t head[] = {(int32_t)det_dtype_of(t), det_ndim(t)};
    buf_add(out, head, sizeof head);
    buf_add(out, det_shape(t), (size_t)det_ndim(t) * sizeof(int64_t));
    if (data) buf_add(out, data, (size_t)det_numel(t) * det_dtype_size(det_dtype_of(t)));
}

static void put_scalar(struct buf *out, const det_value *v)
{
    bool b = false;
    int64_t i = 0;
    double f = 0;
    const char *s = "";
    switch (det_value_kind(v)) {
    case DET_V_BOOL:
        det_value_as_bool(v, &b, NULL);
        buf_add(out, &b, sizeof b);
        break;
    case DET_V_INT:
        det_value_as_int(v, &i, NULL);
        buf_add(out, &i, sizeof i);
        break;
    case DET_V_FLOAT:
        det_value_as_float(v, &f, NULL);
        buf_add(out, &f, sizeof f);
        break;
    case DET_V_STR:
        det_value_as_str(v, &s, NULL);
        put_text(out, s);
        break;
    default:
        break;
    }
}

static void put_key(struct buf *out, const det_value *dict, int index)
{
    int64_t number = 0;
    const char *key = det_value_key(dict, index, &number);
    buf_addc(out, key ? 1 : 0);
    if (key)
        put_text(out, key);
    else
        buf_add(out, &number, sizeof number);
}

static void put_tree(struct buf *out, const det_value *v)
{
    det_kind kind = det_value_kind(v);
    buf_addc(out, (char)kind);
    if (kind == DET_V_TENSOR) {
        put_tensor(out, det_value_as_tensor(v));
    } else if (kind == DET_V_LIST || kind == DET_V_TUPLE || kind == DET_V_DICT) {
        put_u32(out, (uint32_t)det_value_len(v));
        for (int i = 0; i < det_value_len(v); i++) {
            if (kind == DET_V_DICT) put_key(out, v, i);
            put_tree(out, det_value_at(v, i));
        }
    } else {
        put_scalar(out, v);
    }
}

int tree_pack(const det_value *tree, struct buf *out, det_err *err)
{
    bool grad_before = det_set_grad_enabled(false);
    det_scope_begin();
    put_tree(out, tree);
    int rc = det_check(err);
    det_scope_end();
    det_set_grad_enabled(grad_before);
    if (!rc && !buf_ok(out))
        rc = det_fail(err, DET_ELIMIT, "what ranks exchange is more than %zu bytes", out->max);
    return rc;
}

// --- unpacking

struct reader {
    struct str rest;
    int depth;
    bool damaged;
};

// NULL if there are not so many bytes left.
static const char *take(struct reader *r, size_t n)
{
    if (n > r->rest.len) r->damaged = true;
    if (r->damaged) return NULL;
    const char *at = r->rest.ptr;
    r->rest = (struct str){at + n, r->rest.len - n};
    return at;
}

static void get(struct reader *r, void *out, size_t n)
{
    const char *at = take(r, n);
    if (at)
        memcpy(out, at, n);
    else
        memset(out, 0, n);
}

static struct str get_text(struct reader *r)
{
    uint32_t n;
    get(r, &n, sizeof n);
    const char *at = take(r, n);
    return at ? (struct str){at, n} : STR("");
}

static det_value *get_tensor(struct reader *r)
{
    int32_t head[2];
    int64_t shape[DET_MAX_DIMS] = {0};
    get(r, head, sizeof head);
    r->damaged |= head[0] < 0 || head[0] >= DET_N_DTYPES || head[1] < 0 || head[1] > DET_MAX_DIMS;
    if (r->damaged) return NULL;
    get(r, shape, (size_t)head[1] * sizeof *shape);
    size_t n = det_dtype_size((det_dtype)head[0]);
    for (int i = 0; i < head[1]; i++) {
        r->damaged |= shape[i] < 0 || (shape[i] && n > SIZE_MAX / (size_t)shape[i]);
        n *= (size_t)shape[i];
    }
    const char *at = take(r, n);
    return at ? det_value_tensor(det_from((det_dtype)head[0], shape, head[1], at)) : NULL;
}

static det_value *get_tree(struct reader *r);

static void get_items(struct reader *r, det_value *to, bool is_dict)
{
    uint32_t n;
    get(r, &n, sizeof n);
    for (uint32_t i = 0; i < n && !r->damaged; i++) {
        char has_text = 0;
        int64_t number = 0;
        struct str key = {0};
        if (is_dict) get(r, &has_text, 1);
        if (is_dict && has_text) key = get_text(r);
        if (is_dict && !has_text) get(r, &number, sizeof number);
        det_value *item = get_tree(r);
        if (!is_dict) {
            det_value_push(to, item);
        } else if (has_text) {
            char *text = strndup(key.ptr, key.len);
            det_value_set(to, text, item);
            free(text);
        } else {
            det_value_set_int(to, number, item);
        }
    }
}

static det_value *get_container(struct reader *r, det_kind kind)
{
    det_value *v = kind == DET_V_LIST    ? det_value_list()
                   : kind == DET_V_TUPLE ? det_value_tuple()
                                         : det_value_dict();
    if (r->depth == DEPTH_MAX) r->damaged = true;
    r->depth++;
    get_items(r, v, kind == DET_V_DICT);
    r->depth--;
    return v;
}

static det_value *get_tree(struct reader *r)
{
    char kind = 0, b;
    int64_t i;
    double f;
    struct str s;
    get(r, &kind, 1);
    switch ((det_kind)kind) {
    case DET_V_BOOL:
        get(r, &b, 1);
        return det_value_bool(b != 0);
    case DET_V_INT:
        get(r, &i, sizeof i);
        return det_value_int(i);
    case DET_V_FLOAT:
        get(r, &f, sizeof f);
        return det_value_float(f);
    case DET_V_STR:
        s = get_text(r);
        return det_value_strn(s.ptr, s.len);
    case DET_V_TENSOR:
        return get_tensor(r);
    case DET_V_LIST:
    case DET_V_TUPLE:
    case DET_V_DICT:
        return get_container(r, (det_kind)kind);
    case DET_V_NONE:
        break;
    }
    r->damaged |= kind != DET_V_NONE;
    return det_value_none();
}

det_value *tree_unpack(struct str bytes, det_err *err)
{
    struct reader r = {.rest = bytes};
    bool grad_before = det_set_grad_enabled(false);
    det_scope_begin();
    det_value *tree = get_tree(&r);
    int rc = det_check(err);
    det_scope_end();
    det_set_grad_enabled(grad_before);
    if (!rc && (r.damaged || r.rest.len))
        rc = det_fail(err, DET_ECORRUPT, "what another rank has sent is damaged");
    if (!rc) return tree;
    det_value_free(tree);
    return NULL;
}
