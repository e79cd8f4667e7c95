// Unit resources.c: the resources section, of experiments and of jobs.
#include "config/tables.h"

#include "base/assert.h"
#include "base/number.h"
#include <ctype.h>
#include <math.h>
#include <strings.h>

#define R(member) offsetof(struct resources_config, member)
#define D(member) offsetof(struct device, member)

// "", "b", "k", "kB", "KiB", "m" ... "PiB": every unit is a power of 1024, as container engines
// have it.
static bool unit_scale(struct str unit, double *scale)
{
    static const char letters[] = "bkmgtp";
    *scale = 1;
    if (!unit.len) return true;
    const char *letter = strchr(letters, unit.ptr[0] | 0x20); // in lower case
    if (!letter) return false;
    *scale = ldexp(1, 10 * (int)(letter - letters));
    struct str rest = {unit.ptr + 1, unit.len - 1};
    bool bytes = (rest.len == 1 && !strncasecmp(rest.ptr, "b", 1)) ||
                 (rest.len == 2 && !strncasecmp(rest.ptr, "ib", 2));
    return !rest.len || (bytes && letter != letters);
}

// "4 GiB", "512m", "1.5GB", "100"
static bool parse_bytes(struct str text, double *out)
{
    struct str number = text;
    while (number.len && isalpha((unsigned char)number.ptr[number.len - 1]))
        number.len--;
    struct str unit = {text.ptr + number.len, text.len - number.len};
    if (number.len && number.ptr[number.len - 1] == ' ') number.len--;
    double scale;
    bool digits = number.len && strspn(number.ptr, "0123456789.") >= number.len &&
                  number.ptr[0] != '.' && number.ptr[number.len - 1] != '.';
    if (!digits || !unit_scale(unit, &scale) || !number_to_double(number, out)) return false;
    *out *= scale;
    return *out < 0x1p62;
}

static void read_bytes(struct field_ctx *ctx, const struct field *f, const struct doc *value,
                       void *member)
{
    (void)f;
    struct opt_int *out = member;
    double n_bytes;
    int64_t whole;
    if (doc_integer(value, &whole) && whole >= 0)
        *out = (struct opt_int){true, whole};
    else if (value->kind == DOC_STR && parse_bytes(value->text, &n_bytes))
        *out = (struct opt_int){true, (int64_t)n_bytes};
    else
        field_error(ctx, value, "must be a number of bytes or a size such as '4 GiB', found %s",
                    field_show(ctx, value));
}

static struct doc *write_bytes(struct arena *arena, const void *member)
{
    const struct opt_int *n = member;
    return n->is_set ? doc_new_int(arena, n->value) : doc_new(arena, DOC_NULL);
}

const struct field_codec bytes_codec = {
    .size = sizeof(struct opt_int),
    .syntax = "a number of bytes, or a size such as 4 GiB",
    .read = read_bytes,
    .write = write_bytes,
};

// "/dev/a:/dev/b:mode" is short for a map.
static const struct doc *convert_device(struct field_ctx *ctx, const struct doc *value)
{
    static const char *const keys[] = {"host_path", "container_path", "mode"};
    if (value->kind != DOC_STR) return value;
    struct doc *map = doc_new(ctx->arena, DOC_MAP);
    map->pos = value->pos;
    struct str rest = value->text;
    for (size_t i = 0; i < STATIC_LEN(keys) && rest.ptr; i++) {
        struct str part = str_cut(&rest, ':');
        struct doc *d = doc_new_str(ctx->arena, arena_strndup(ctx->arena, part.ptr, part.len));
        d->pos = d->key_pos = value->pos;
        doc_set(map, str_from(keys[i]), d);
    }
    if (!rest.ptr && map->n >= 2) return map;
    field_error(ctx, value,
                "must be 'host_path:container_path' or 'host_path:container_path:mode', found %s",
                field_show(ctx, value));
    return NULL;
}

// clang-format off
static const struct field device_rows[] = {
    {"host_path", FIELD_STR, D(host_path), .required = true, .check = check_absolute,
     .help = "The device on the host."},
    {"container_path", FIELD_STR, D(container_path), .required = true, .check = check_absolute,
     .help = "The device as the task sees it."},
    {"mode", FIELD_STR, D(mode), .def = "mrw",
     .help = "What the task may do: m (make), r (read), w (write)."},
};
// clang-format on

static const struct field_table device_table = {.size = sizeof(struct device),
                                                FIELD_ROWS(device_rows)};
static const struct field device_item = {
    .name = "", .type = FIELD_TABLE, .table = &device_table, .convert = convert_device};

// clang-format off
#define COMMON_ROWS                                                                                \
    {"max_slots", FIELD_OPT_INT, R(max_slots), FIELD_MIN(0),                                       \
     .help = "How many slots may be in use at the same time, over all trials."},                   \
    {"weight", FIELD_DOUBLE, R(weight), .def = "1", FIELD_ABOVE(0),                                \
     .help = "The share of the cluster under the fair-share scheduler, relative to others."},      \
    {"priority", FIELD_OPT_INT, R(priority), FIELD_RANGE(1, 99),                                   \
     .help = "1 is served first, 99 last. Without it, the default of the resource pool."},         \
    {"resource_pool", FIELD_STR, R(resource_pool), .def = "",                                      \
     .help = "The pool to run in. Empty means the default pool."},                                 \
    {"shm_size", FIELD_CODEC, R(shm_bytes), .codec = &bytes_codec,                                 \
     .help = "The size of the shared memory of a task."},                                          \
    {"devices", FIELD_LIST, R(devices), .item = &device_item, .merge = field_merge_union,          \
     .merge_key = "container_path", .no_effect = "All tasks see the same devices.",                \
     .help = "Devices of the host that the task may use."},                                        \
    {"is_single_node", FIELD_TRI, R(is_single_node),                                               \
     .help = "Whether all slots must be on one machine."},                                         \
    {"agent_label", FIELD_IGNORED, .help = "Agents have no labels any more; use resource_pool."},  \
    {"native_parallel", FIELD_IGNORED, .help = "It has no meaning any more."}

static const struct field experiment_rows[] = {
    {"slots_per_trial", FIELD_INT, R(slots), .def = "1", FIELD_RANGE(0, 1000000),
     .help = "The number of slots (GPUs, or CPU slots) of each trial. 0 runs without any."},
    {"slots", FIELD_REFUSED, .into = "slots_per_trial",
     .help = "is for jobs (det job run); an experiment sets slots_per_trial"},
    COMMON_ROWS,
};
static const struct field job_rows[] = {
    {"slots", FIELD_INT, R(slots), .def = "1", FIELD_RANGE(0, 1000000),
     .help = "The number of slots (GPUs, or CPU slots). 0 runs without any."},
    {"slots_per_trial", FIELD_REFUSED, .into = "slots",
     .help = "is for experiments; a job sets slots"},
    COMMON_ROWS,
};
// clang-format on

static void check_resources(struct field_ctx *ctx, const struct doc *map, void *self)
{
    const struct resources_config *r = self;
    if (r->max_slots.is_set && r->max_slots.value < r->slots)
        field_error(ctx, doc_find(map, "max_slots"),
                    "max_slots must not be less than the %lld slots of one task, found %lld",
                    (long long)r->slots, (long long)r->max_slots.value);
}

const struct field_table experiment_resources_table = {
    .size = sizeof(struct resources_config), FIELD_ROWS(experiment_rows), .check = check_resources};
const struct field_table job_resources_table = {
    .size = sizeof(struct resources_config), FIELD_ROWS(job_rows), .check = check_resources};
