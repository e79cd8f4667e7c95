// Unit record.c: the small JSON files of an allocation's directory, by field tables. Called by the
// shim and by who follows it.
#include "task/shim.h"

#include "base/json.h"
#include "sys/fs.h"

enum { MAX_BYTES = 16 << 20 };

#define SPEC(member) offsetof(struct task_spec, member)
#define SLOT(member) offsetof(struct task_slot, member)
#define EXIT(member) offsetof(struct task_exit, member)
#define SHIM(member) offsetof(struct shim_record, member)

// struct proc_id as fields can have it.
struct shim_record {
    int64_t pid, start;
    const char *boot;
};

// clang-format off
static const struct field text_item = {.type = FIELD_STR};
static const struct field int_item = {.type = FIELD_INT};

static const struct field slot_rows[] = {
    {"id", FIELD_INT, SLOT(id), .required = true, FIELD_MIN(0), .help = "Number of the slot."},
    {"cpus", FIELD_LIST, SLOT(cpus), .item = &int_item, .help = "Processors; none: any."},
};
static const struct field_table slot_table = {.size = sizeof(struct task_slot),
                                              FIELD_ROWS(slot_rows)};
static const struct field slot_item = {.type = FIELD_TABLE, .table = &slot_table};

static const struct field spec_rows[] = {
    {"token", FIELD_INT, SPEC(token), .required = true, FIELD_MIN(1), .help = "Of the allocation."},
    {"argv", FIELD_LIST, SPEC(argv), .required = true, .item = &text_item, .help = "What to run."},
    {"launch", FIELD_LIST, SPEC(launch), .item = &text_item, .help = "Launch layer."},
    {"env", FIELD_LIST, SPEC(env), .item = &text_item, .help = "NAME=value."},
    {"workdir", FIELD_STR, SPEC(workdir), .help = "Where to run it."},
    {"slots", FIELD_LIST, SPEC(slots), .item = &slot_item, .help = "Slots of the machine."},
    {"rank_per_slot", FIELD_BOOL, SPEC(rank_per_slot), .help = "One process for each slot."},
    {"port", FIELD_INT, SPEC(port), FIELD_RANGE(0, 65535), .help = "MASTER_PORT; 0: none."},
    {"grace_us", FIELD_INT, SPEC(grace_us), FIELD_MIN(0), .help = "From SIGTERM to SIGKILL."},
    {"log_max_bytes", FIELD_INT, SPEC(log_max_bytes), .required = true, FIELD_MIN(1),
     .help = "Limit of the log."},
};
static const struct field_table spec_table = {.size = sizeof(struct task_spec),
                                              FIELD_ROWS(spec_rows)};

static const char *const end_names[] = {"succeeded", "failed", "not started", "lost", NULL};

static const struct field exit_rows[] = {
    {"token", FIELD_INT, EXIT(token), .required = true, .help = "Of the allocation."},
    {"end", FIELD_ENUM, EXIT(end), .required = true, .values = end_names, .help = "How."},
    {"code", FIELD_INT, EXIT(code), .required = true, .help = "Status of the rank that failed."},
    {"signal", FIELD_INT, EXIT(signal), .required = true, .help = "That ended it."},
    {"rank", FIELD_INT, EXIT(rank), .required = true, .help = "The first that failed."},
    {"asked", FIELD_BOOL, EXIT(asked), .required = true, .help = "It was told to stop."},
    {"why", FIELD_STR, EXIT(why), .help = "In words."},
    {"started_us", FIELD_INT, EXIT(started_us), .required = true, .help = "Since 1970."},
    {"ended_us", FIELD_INT, EXIT(ended_us), .required = true, .help = "Since 1970."},
};
static const struct field_table exit_table = {.size = sizeof(struct task_exit),
                                              FIELD_ROWS(exit_rows)};

static const struct field shim_rows[] = {
    {"pid", FIELD_INT, SHIM(pid), .required = true, FIELD_RANGE(1, INT32_MAX), .help = "Number."},
    {"start", FIELD_INT, SHIM(start), .required = true, .help = "Clock ticks after the boot."},
    {"boot", FIELD_STR, SHIM(boot), .required = true, .help = "Which boot."},
};
static const struct field_table shim_table = {.size = sizeof(struct shim_record),
                                              FIELD_ROWS(shim_rows)};
// clang-format on

static int save(const char *dir, const char *name, const struct field_table *table,
                const void *self, int (*finish)(struct fs_writer *w, det_err *err), det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct buf text = BUF_INIT(MAX_BYTES);
    struct fs_writer file = FS_WRITER_INIT;
    struct json_writer w;
    int rc;
    json_init(&w, &text, 1);
    json_put_doc(&w, field_write(&arena, table, self, false));
    if (!buf_ok(&text)) {
        rc = det_fail(err, DET_ELIMIT, "%s is larger than %d bytes", name, MAX_BYTES);
        goto out;
    }
    rc = fs_writer_open(&file, arena_printf(&arena, "%s/%s", dir, name), err);
    if (!rc) rc = fs_writer_add(&file, text.ptr, text.len, err);
    if (!rc) rc = finish(&file, err);
out:
    fs_writer_close(&file);
    buf_done(&text);
    arena_done(&arena);
    return rc;
}

static int load(const char *path, const struct field_table *table, struct arena *arena, void *out,
                det_err *err)
{
    const struct json_opts opts = {.source = path, .max_bytes = MAX_BYTES};
    struct diag_list diags = DIAG_INIT(arena);
    struct field_ctx ctx = {.arena = arena, .diags = &diags};
    struct buf text = BUF_INIT(MAX_BYTES);
    det_err why = {0};
    int rc = fs_read(path, &text, err);
    if (rc) goto out;
    struct doc *doc = json_parse(arena, buf_str(&text), &opts, &diags);
    if (doc) doc = field_normalize(&ctx, table, doc);
    if (doc && !diags.n_errors) field_read(&ctx, table, doc, out);
    if (diag_fail(&diags, &why)) rc = det_fail(err, DET_ECORRUPT, "%.700s", why.msg);
out:
    buf_done(&text);
    return rc;
}

int task_spec_save(const char *dir, const struct task_spec *spec, det_err *err)
{
    return save(dir, "spec.json", &spec_table, spec, fs_writer_publish, err);
}

static int check_spec(const struct task_spec *spec, const char *path, det_err *err)
{
    if (!spec->argv.n || !spec->argv.items[0][0])
        return det_fail(err, DET_ECORRUPT, "%s: argv is empty", path);
    if (spec->rank_per_slot && !spec->slots.n)
        return det_fail(err, DET_ECORRUPT, "%s: a rank for each slot, but no slots", path);
    return det_ok(err);
}

int task_spec_load(const char *dir, struct arena *arena, struct task_spec *out, det_err *err)
{
    struct task_spec spec = {0};
    const char *path = arena_printf(arena, "%s/spec.json", dir);
    int rc = load(path, &spec_table, arena, &spec, err);
    if (!rc) rc = check_spec(&spec, path, err);
    if (!rc) *out = spec;
    return rc;
}

int task_exit_save(const char *dir, const struct task_exit *exit, det_err *err)
{
    return save(dir, "exit.json", &exit_table, exit, fs_writer_commit, err);
}

int task_exit_load(const char *dir, struct arena *arena, struct task_exit *out, det_err *err)
{
    struct task_exit record = {0};
    int rc = load(arena_printf(arena, "%s/exit.json", dir), &exit_table, arena, &record, err);
    if (!rc) *out = record;
    return rc;
}

int task_shim_save(const char *dir, const struct proc_id *id, det_err *err)
{
    const struct shim_record record = {id->pid, id->start, id->boot};
    return save(dir, "shim.json", &shim_table, &record, fs_writer_publish, err);
}

int task_shim_load(const char *dir, struct proc_id *out, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct shim_record record = {0};
    int rc = load(arena_printf(&arena, "%s/shim.json", dir), &shim_table, &arena, &record, err);
    if (!rc) {
        *out = (struct proc_id){.pid = record.pid, .start = record.start};
        snprintf(out->boot, sizeof out->boot, "%s", record.boot);
    }
    arena_done(&arena);
    return rc;
}
