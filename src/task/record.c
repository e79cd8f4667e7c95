// Unit record.c: the small JSON files of an allocation's directory, by field tables. Called by the
// shim and by who follows it.
#include "task/shim.h"

#include "doc/json.h"
#include "sys/dir.h"
#include "sys/fs.h"
#include <unistd.h>

// Of a specification, which has the environment of a task in it, and of the others.
enum { MAX_BYTES = 16 << 20, MAX_SMALL_BYTES = 64 << 10 };

#define SPEC(member) offsetof(struct task_spec, member)
#define SLOT(member) offsetof(struct task_slot, member)
#define EXIT(member) offsetof(struct task_exit, member)
#define SHIM(member) offsetof(struct shim_record, member)
#define BOX(member) offsetof(struct sandbox, member)
#define MOUNT(member) offsetof(struct sandbox_mount, member)

// Two struct proc_id of one boot, as fields can have them.
struct shim_record {
    int64_t pid, start, init_pid, init_start;
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

static const struct field mount_rows[] = {
    {"host", FIELD_STR, MOUNT(host), .required = true, .help = "What is mounted."},
    {"path", FIELD_STR, MOUNT(path), .required = true, .help = "Where the task sees it."},
    {"read_only", FIELD_BOOL, MOUNT(read_only), .help = "It can only be read."},
    {"asked", FIELD_BOOL, MOUNT(asked), .help = "A user wants it."},
};
static const struct field_table mount_table = {.size = sizeof(struct sandbox_mount),
                                               FIELD_ROWS(mount_rows)};
static const struct field mount_item = {.type = FIELD_TABLE, .table = &mount_table};

static const struct field sandbox_rows[] = {
    {"mode", FIELD_ENUM, BOX(mode), .def = "none", .values = sandbox_mode_names, .help = "Kind."},
    {"hidden", FIELD_LIST, BOX(hidden), .item = &text_item, .help = "Not to be seen at all."},
    {"covered", FIELD_LIST, BOX(covered), .item = &text_item, .help = "Empty unless mounted."},
    {"mounts", FIELD_LIST, BOX(mounts), .item = &mount_item, .help = "What the task gets."},
    {"guarded", FIELD_BOOL, BOX(guarded), .help = "Not every directory can be asked for."},
    {"shm_bytes", FIELD_INT, BOX(shm_bytes), FIELD_MIN(0), .help = "Of /dev/shm; 0: any."},
    {"uid", FIELD_INT, BOX(uid), FIELD_RANGE(0, UINT32_MAX), .help = "Unix user."},
    {"gid", FIELD_INT, BOX(gid), FIELD_RANGE(0, UINT32_MAX), .help = "Unix group."},
    {"groups", FIELD_LIST, BOX(groups), .item = &int_item, .help = "Further groups."},
    {"memory_bytes", FIELD_INT, BOX(limits.memory_bytes), FIELD_MIN(0), .help = "Limit; 0: none."},
    {"processes", FIELD_INT, BOX(limits.n_processes), FIELD_MIN(0), .help = "Limit; 0: none."},
    {"memory_cgroup", FIELD_STR, BOX(limits.memory_cgroup), .help = "Where memory is counted."},
    {"process_cgroup", FIELD_STR, BOX(limits.process_cgroup), .help = "Where processes are."},
};
static const struct field_table sandbox_table = {.size = sizeof(struct sandbox),
                                                 FIELD_ROWS(sandbox_rows)};

static const struct field spec_rows[] = {
    {"token", FIELD_INT, SPEC(token), .required = true, FIELD_MIN(1), .help = "Of the allocation."},
    {"argv", FIELD_LIST, SPEC(argv), .required = true, .item = &text_item, .help = "What to run."},
    {"launch", FIELD_LIST, SPEC(launch), .item = &text_item, .help = "Launch layer."},
    {"env", FIELD_LIST, SPEC(env), .item = &text_item, .help = "NAME=value."},
    {"withheld", FIELD_STR, SPEC(withheld), .help = "Variables that are not passed on."},
    {"workdir", FIELD_STR, SPEC(workdir), .help = "Where to run it."},
    {"slots", FIELD_LIST, SPEC(slots), .item = &slot_item, .help = "Slots of the machine."},
    {"rank_per_slot", FIELD_BOOL, SPEC(rank_per_slot), .help = "One process for each slot."},
    {"port", FIELD_IGNORED, .help = "Shims choose ports; in specifications of older masters."},
    {"grace_us", FIELD_INT, SPEC(grace_us), FIELD_MIN(0), .help = "From SIGTERM to SIGKILL."},
    {"log_max_bytes", FIELD_INT, SPEC(log_max_bytes), .required = true, FIELD_MIN(1),
     .help = "Limit of the log."},
    {"sandbox", FIELD_TABLE, SPEC(sandbox), .table = &sandbox_table, .help = "What it can see."},
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
    {"said", FIELD_STR, EXIT(said), .help = "The last that the rank wrote to stderr."},
    {"started_us", FIELD_INT, EXIT(started_us), .required = true, .help = "Since 1970."},
    {"ended_us", FIELD_INT, EXIT(ended_us), .required = true, .help = "Since 1970."},
};
static const struct field_table exit_table = {.size = sizeof(struct task_exit),
                                              FIELD_ROWS(exit_rows)};

static const struct field shim_rows[] = {
    {"pid", FIELD_INT, SHIM(pid), .required = true, FIELD_RANGE(1, INT32_MAX), .help = "Number."},
    {"start", FIELD_INT, SHIM(start), .required = true, .help = "Clock ticks after the boot."},
    {"boot", FIELD_STR, SHIM(boot), .required = true, .help = "Which boot."},
    {"init_pid", FIELD_INT, SHIM(init_pid), .help = "Of the sandbox's first process; 0: none."},
    {"init_start", FIELD_INT, SHIM(init_start), .help = "Clock ticks after the boot."},
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

// What is in the directory may have been put there by the task: anything, under any name.
static int read_text(const char *dir, const char *name, struct buf *out, det_err *err)
{
    int fd, rc = dir_open(dir, 0, &fd, err);
    if (rc) return rc;
    rc = dir_read_file(fd, name, out, err);
    close(fd);
    return rc;
}

struct source {
    const char *dir, *name;
    const struct field_table *table;
    size_t max_bytes;
};

static int load(const struct source *from, struct arena *arena, void *out, det_err *err)
{
    const char *path = arena_printf(arena, "%s/%s", from->dir, from->name);
    const struct json_opts opts = {.source = path, .max_bytes = from->max_bytes};
    struct diag_list diags = DIAG_INIT(arena);
    struct field_ctx ctx = {.arena = arena, .diags = &diags};
    struct buf text = BUF_INIT(from->max_bytes);
    det_err why = {0};
    int rc = read_text(from->dir, from->name, &text, err);
    if (rc) goto out;
    struct doc *doc = json_parse(arena, buf_str(&text), &opts, &diags);
    if (doc) doc = field_normalize(&ctx, from->table, doc);
    if (doc && !diags.n_errors) field_read(&ctx, from->table, doc, out);
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
    const struct source from = {dir, "spec.json", &spec_table, MAX_BYTES};
    int rc = load(&from, arena, &spec, err);
    if (!rc) rc = check_spec(&spec, arena_printf(arena, "%s/spec.json", dir), err);
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
    const struct source from = {dir, "exit.json", &exit_table, MAX_SMALL_BYTES};
    int rc = load(&from, arena, &record, err);
    if (!rc) *out = record;
    return rc;
}

int task_shim_save(const char *dir, const struct proc_id *id, const struct proc_id *init,
                   det_err *err)
{
    const struct shim_record record = {id->pid, id->start, init->pid, init->start, id->boot};
    return save(dir, "shim.json", &shim_table, &record, fs_writer_publish, err);
}

static int load_shim(const char *dir, struct proc_id *shim, struct proc_id *init, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct shim_record record = {0};
    const struct source from = {dir, "shim.json", &shim_table, MAX_SMALL_BYTES};
    int rc = load(&from, &arena, &record, err);
    if (!rc) {
        *shim = (struct proc_id){.pid = record.pid, .start = record.start};
        *init = (struct proc_id){.pid = record.init_pid, .start = record.init_start};
        snprintf(shim->boot, sizeof shim->boot, "%s", record.boot);
        memcpy(init->boot, shim->boot, sizeof init->boot);
    }
    arena_done(&arena);
    return rc;
}

int task_shim_load(const char *dir, struct proc_id *out, det_err *err)
{
    struct proc_id init;
    return load_shim(dir, out, &init, err);
}

int task_init_load(const char *dir, struct proc_id *out, det_err *err)
{
    struct proc_id shim;
    return load_shim(dir, &shim, out, err);
}
