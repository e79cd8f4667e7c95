// Unit wire.c: writer and reader of wire.h.
#include "support/wire.h"

#include "base/mem.h"

static _Noreturn void garbage(const char *line)
{
    fprintf(stderr, "wire: cannot read '%s'\n", line);
    abort();
}

// --- writing

static void write_str(FILE *out, const char *s)
{
    fprintf(out, "S %zu\n%s\n", strlen(s), s);
}

static void write_tensor(FILE *out, det_tensor *t)
{
    det_scope_begin();
    const void *data = det_data(t);
    fprintf(out, "T %s %d", det_dtype_name(det_dtype_of(t)), det_ndim(t));
    for (int d = 0; d < det_ndim(t); d++)
        fprintf(out, " %lld", (long long)det_size(t, d));
    fprintf(out, "\n");
    fwrite(data, det_dtype_size(det_dtype_of(t)), (size_t)det_numel(t), out);
    fprintf(out, "\n");
    det_scope_end();
}

static void write_items(FILE *out, const det_value *v, char letter)
{
    fprintf(out, "%c %d\n", letter, det_value_len(v));
    for (int i = 0; i < det_value_len(v); i++) {
        int64_t number;
        const char *key = det_value_key(v, i, &number);
        if (key)
            write_str(out, key);
        else if (letter == 'D')
            fprintf(out, "I %lld\n", (long long)number);
        wire_write(out, det_value_at(v, i));
    }
}

void wire_write(FILE *out, const det_value *v)
{
    bool b = false;
    int64_t i = 0;
    double f = 0;
    const char *s = "";
    switch (det_value_kind(v)) {
    case DET_KIND_NONE:
        fprintf(out, "N\n");
        break;
    case DET_KIND_BOOL:
        det_value_as_bool(v, &b, NULL), fprintf(out, "B %d\n", b);
        break;
    case DET_KIND_INT:
        det_value_as_int(v, &i, NULL), fprintf(out, "I %lld\n", (long long)i);
        break;
    case DET_KIND_FLOAT:
        det_value_as_float(v, &f, NULL), fprintf(out, "F %a\n", f);
        break;
    case DET_KIND_STR:
        det_value_as_str(v, &s, NULL), write_str(out, s);
        break;
    case DET_KIND_TENSOR:
        write_tensor(out, det_value_as_tensor(v));
        break;
    case DET_KIND_OBJECT: // of another engine
        break;
    case DET_KIND_LIST:
        write_items(out, v, 'L');
        break;
    case DET_KIND_TUPLE:
        write_items(out, v, 'U');
        break;
    case DET_KIND_DICT:
        write_items(out, v, 'D');
        break;
    }
}

// --- reading

static bool read_line(FILE *in, char *line, int size)
{
    if (!fgets(line, size, in)) return false;
    line[strcspn(line, "\n")] = 0;
    return true;
}

static void read_bytes(FILE *in, void *to, size_t n)
{
    if (fread(to, 1, n, in) != n || fgetc(in) != '\n') garbage("too few bytes");
}

static char *read_str(FILE *in, const char *line)
{
    size_t n = strtoull(line + 2, NULL, 10);
    char *s = xcalloc(n + 1, 1);
    read_bytes(in, s, n);
    return s;
}

static det_dtype dtype_named(const char *name, const char *line)
{
    for (int d = 0; d < DET_N_DTYPES; d++)
        if (!strcmp(name, det_dtype_name((det_dtype)d))) return (det_dtype)d;
    garbage(line);
}

static det_value *read_tensor(FILE *in, const char *line)
{
    char name[8];
    int ndim = 0, used = 0;
    int64_t shape[DET_MAX_DIMS];
    if (sscanf(line, "T %7s %d%n", name, &ndim, &used) != 2 || ndim > DET_MAX_DIMS) garbage(line);
    char *rest = (char *)(uintptr_t)line + used;
    for (int d = 0; d < ndim; d++)
        shape[d] = strtoll(rest, &rest, 10);
    det_scope_begin();
    det_tensor *t = det_empty(dtype_named(name, line), shape, ndim);
    size_t n_bytes = (size_t)det_numel(t) * det_dtype_size(det_dtype_of(t));
    void *bytes = xmalloc(n_bytes);
    read_bytes(in, bytes, n_bytes);
    det_write(t, bytes);
    free(bytes);
    det_value *v = det_value_tensor(t);
    det_scope_end();
    return v;
}

static void read_item_of_dict(FILE *in, det_value *dict)
{
    char line[128];
    if (!read_line(in, line, sizeof line)) garbage("end of input");
    char *key = line[0] == 'S' ? read_str(in, line) : NULL;
    int64_t number = strtoll(line + 2, NULL, 10);
    if (key)
        det_value_set(dict, key, wire_read(in));
    else
        det_value_set_int(dict, number, wire_read(in));
    free(key);
}

static det_value *read_items(FILE *in, const char *line, det_value *v)
{
    for (long n = strtol(line + 2, NULL, 10); n > 0; n--) {
        if (line[0] == 'D')
            read_item_of_dict(in, v);
        else
            det_value_push(v, wire_read(in));
    }
    return v;
}

static det_value *read_string(FILE *in, const char *line)
{
    char *s = read_str(in, line);
    det_value *v = det_value_str(s);
    free(s);
    return v;
}

det_value *wire_read(FILE *in)
{
    char line[128];
    if (!read_line(in, line, sizeof line)) return NULL;
    switch (line[0]) {
    case 'N':
        return det_value_none();
    case 'B':
        return det_value_bool(line[2] == '1');
    case 'I':
        return det_value_int(strtoll(line + 2, NULL, 10));
    case 'F':
        return det_value_float(strtod(line + 2, NULL));
    case 'S':
        return read_string(in, line);
    case 'T':
        return read_tensor(in, line);
    case 'L':
        return read_items(in, line, det_value_list());
    case 'U':
        return read_items(in, line, det_value_tuple());
    case 'D':
        return read_items(in, line, det_value_dict());
    default:
        garbage(line);
    }
}
