// Unit cmd_master.c: det master: runs the master in the foreground; and det shim, which the master
// starts around every task.
#include "cli/cmd.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/number.h"
#include "cli/own_master.h"
#include "master/master.h"
#include "sys/log.h"
#include "task/task.h"
#include <limits.h>
#include <unistd.h>

enum { DEFAULT_PORT = 8080 };

static const char *data_dir(const struct call *call, struct arena *arena)
{
    const char *given = call_option(call, "data"), *home = getenv("DET_HOME");
    const char *xdg = getenv("XDG_DATA_HOME"), *user = getenv("HOME");
    if (given) return given;
    if (home) return home;
    if (xdg) return arena_printf(arena, "%s/det", xdg);
    return user ? arena_printf(arena, "%s/.local/share/det", user) : NULL;
}

// The program that is running now, and one beside it.
static const char *own_path(struct arena *arena, const char *sibling)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n < 0) return NULL;
    path[n] = 0;
    char *slash = strrchr(path, '/');
    if (!sibling) return arena_strdup(arena, path);
    return arena_printf(arena, "%.*s/%s", (int)(slash - path), path, sibling);
}

static bool read_number(const struct call *call, const char *name, int64_t low, int64_t high,
                        int64_t *out)
{
    const char *text = call_option(call, name);
    if (!text) return true;
    if (number_to_int(str_from(text), 10, out) && *out >= low && *out <= high) return true;
    print_error("--%s must be a number between %lld and %lld, found '%s'", name, (long long)low,
                (long long)high, text);
    return false;
}

// "16G", "512M": in units of 1024.
static bool read_size(const struct call *call, const char *name, int64_t *out)
{
    static const char units[] = "KMGT";
    const char *text = call_option(call, name);
    if (!text) return true;
    struct str number = {text, strspn(text, "0123456789")};
    const char *unit = text[number.len] ? strchr(units, text[number.len]) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    bool good = number.len && strlen(text) == number.len + (unit ? 1 : 0) &&
                number_to_int(number, 10, out) && *out > 0 && *out <= INT64_MAX >> shift;
    if (good)
        *out <<= shift;
    else
        print_error("--%s must be a size such as 512M or 16G, found '%s'", name, text);
    return good;
}

// The settings, each from its option or its default.
static bool read_settings(const struct call *call, struct arena *arena, struct master_settings *out)
{
    struct diag_list diags = DIAG_INIT(arena);
    struct field_ctx ctx = {.arena = arena, .diags = &diags};
    const struct field_table *t = &master_settings_table;
    field_read(&ctx, t, NULL, out);
    for (size_t i = 0; i < t->n; i++) {
        const struct field *f = &t->fields[i];
        void *member = (char *)out + f->offset;
        char *option = arena_strdup(arena, f->name);
        for (char *c = option; *c; c++)
            if (*c == '_') *c = '-';
        if (f->type == FIELD_BOOL && call_option(call, option)) *(bool *)member = true;
        if (f->type == FIELD_INT &&
            !read_number(call, option, (int64_t)f->min, (int64_t)f->max, member))
            return false;
    }
    return true;
}

static bool check_tls(const struct call *call)
{
    bool has_cert = call_option(call, "tls-cert"), has_key = call_option(call, "tls-key");
    if (has_cert == has_key) return true;
    print_error("--tls-cert and --tls-key go together: --%s is missing",
                has_cert ? "tls-key" : "tls-cert");
    return false;
}

static int run_recover(const char *dir)
{
    struct buf report = BUF_INIT(1 << 20);
    det_err err;
    int rc = master_recover(dir, &report, &err);
    print_data(buf_str(&report));
    buf_done(&report);
    if (rc) print_error("%s", err.msg);
    return rc ? EXIT_FAILED : EXIT_OK;
}

static int run_master(const struct call *call)
{
    struct arena arena = ARENA_INIT;
    int64_t port = DEFAULT_PORT, slots = 0, memory = 0, processes = 0;
    const char *dir = data_dir(call, &arena), *self = own_path(&arena, NULL);
    const char *const shim[] = {self, "shim", NULL};
    int status = EXIT_USAGE;
    struct master_settings settings = {0};
    det_err err;
    if (!read_settings(call, &arena, &settings) || !read_number(call, "port", 0, 65535, &port) ||
        !read_number(call, "slots", 1, 4096, &slots) || !read_size(call, "task-memory", &memory) ||
        !read_number(call, "task-processes", 1, 4194304, &processes) || !check_tls(call))
        goto out;
    status = EXIT_FAILED;
    if (!dir || !self) {
        print_error("there is no place for data: give --data, or set DET_HOME or HOME");
        goto out;
    }
    if (call_option(call, "recover")) {
        status = run_recover(dir);
        goto out;
    }
    if (call_option(call, "debug")) log_set_level(LOG_DEBUG);
    const struct master_opts opts = {
        .settings = settings,
        .data_dir = dir,
        .host = call_option(call, "listen"),
        .port = (int)port,
        .n_slots = (int)slots,
        .tls = call_option(call, "tls"),
        .tls_cert = call_option(call, "tls-cert"),
        .tls_key = call_option(call, "tls-key"),
        .insecure = call_option(call, "insecure"),
        .isolation = call_option(call, "isolation"),
        .task_memory_bytes = memory,
        .n_task_processes = processes,
        .shim = shim,
        .runner = own_path(&arena, "det-run"),
        .ui_dir = call_option(call, "ui-dir"),
        .version = DET_VERSION,
    };
    status = EXIT_OK;
    if (master_run(&opts, &err)) {
        print_error("%s", err.msg);
        status = EXIT_FAILED;
    }
out:
    arena_done(&arena);
    return status;
}

static const struct option master_options[] = {
    OWN_MASTER_OPTIONS // its rows end with a comma
    {"recover", 0, NULL,
     "Runs no master, but mends its database: what can be read of it, and the newest backup for "
     "what cannot. Says what is lost."},
    {"debug", 0, NULL, "Logs more."},
};

const struct command cmd_master = {
    .noun = "master",
    .args = "",
    .help =
        "Runs the master in the foreground. It keeps experiments, runs their trials and answers "
        "all other commands. Tasks go on when it is stopped, and the next master finds them. After "
        "SIGHUP it reads its certificate again.",
    .example = "det master --listen 0.0.0.0 --tls",
    .options = master_options,
    .n_options = sizeof master_options / sizeof *master_options,
    .run = run_master,
};

static int run_shim(const struct call *call)
{
    bool second = call->n_args > 1 && !strcmp(call->args[1], TASK_SECOND_SHIM);
    det_err err;
    int rc = second ? task_shim_finish(call->args[0], TASK_LOCK_FD, &err)
                    : task_shim_run(call->args[0], TASK_LOCK_FD, &err);
    if (!rc) return EXIT_OK;
    print_error("%s", err.msg);
    return EXIT_FAILED;
}

const struct command cmd_shim = {
    .noun = "shim",
    .internal = true,
    .args = "DIR [after]",
    .min_args = 1,
    .max_args = 2,
    .help =
        "Runs one task and writes down what becomes of it; or cleans up after such a process was "
        "killed. The master starts this; people have no use for it.",
    .example = "det shim /var/lib/det/run/7",
    .run = run_shim,
};
