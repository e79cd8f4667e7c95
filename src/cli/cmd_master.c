// Unit cmd_master.c: det master: runs the master in the foreground; and det shim, which the master
// starts around every task.
#include "cli/cmd.h"

#include "base/arena.h"
#include "base/buf.h"
#include "cli/own_master.h"
#include "cli/remote.h"
#include "cli/show.h"
#include "det/version.h"
#include "doc/yaml.h"
#include "master/master.h"
#include "sys/init.h"
#include "sys/log.h"
#include "task/task.h"
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

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

// --- the configuration: a file, and options that go before it

static const struct {
    const char *option, *key;
} key_options[] = {
#define KEY_ROW(name, letter, arg, key, help) {name, key},
    MASTER_KEY_OPTIONS(KEY_ROW)
#undef KEY_ROW
};

static const char *key_of(const char *option)
{
    for (size_t i = 0; i < STATIC_LEN(key_options); i++)
        if (!strcmp(key_options[i].option, option)) return key_options[i].key;
    return NULL;
}

// A map in another one, which is made if it is not there.
static struct doc *section_of(struct arena *arena, struct doc *map, struct str name,
                              const struct doc_pos *pos)
{
    for (struct doc *d = map->first; d; d = d->next)
        if (str_eq(d->key, name)) return d;
    struct doc *section = doc_new(arena, DOC_MAP);
    section->pos = section->key_pos = *pos;
    doc_set(map, name, section);
    return section;
}

// The value of an option, as the file would have it: texts are texts, whatever they look like.
static struct doc *option_value(struct arena *arena, const struct field *f, const char *text,
                                const char *source)
{
    struct diag_list diags = DIAG_INIT(arena);
    if (f->type == FIELD_BOOL || f->type == FIELD_TRI) return doc_new_bool(arena, true);
    struct doc *value =
        f->type == FIELD_STR ? NULL : yaml_parse(arena, str_from(text), source, &diags);
    return value ? value : doc_new_str(arena, text);
}

// Sets "a.b" of the map.
static void put_option(struct arena *arena, struct doc *map, const char *key, const char *text,
                       const char *source)
{
    const struct doc_pos pos = {.source = source};
    const struct field_table *table = &master_config_table;
    for (struct str rest = str_from(key);;) {
        struct str name = str_cut(&rest, '.');
        const struct field *f = field_find_row(table->fields, table->n, name);
        ASSERT(f);
        name = str_from(f->name);
        if (f->type == FIELD_TABLE) {
            map = section_of(arena, map, name, &pos);
            table = f->table;
            continue;
        }
        struct doc *value = option_value(arena, f, text, source);
        value->pos = value->key_pos = pos;
        doc_set(map, name, value);
        return;
    }
}

// The last one of a name counts.
static bool is_last(const struct call *call, int i)
{
    for (int k = i + 1; k < call->n_given; k++)
        if (call->given[k] == call->given[i]) return false;
    return true;
}

static const struct doc *options_doc(const struct call *call, struct arena *arena)
{
    struct doc *map = doc_new(arena, DOC_MAP);
    for (int i = 0; i < call->n_given; i++) {
        const char *name = call->given[i]->name, *key = key_of(name);
        if (key && is_last(call, i))
            put_option(arena, map, key, call->values[i], arena_printf(arena, "--%s", name));
    }
    return map;
}

// False after what is wrong was printed.
static bool read_config(const char *file, const struct doc *options, struct arena *arena,
                        struct master_config *out)
{
    struct diag_list diags = DIAG_INIT(arena);
    int rc = master_read_config(arena, file, options, out, &diags);
    print_diags(&diags);
    return !rc;
}

static int run_config_check(const struct call *call)
{
    struct arena arena = ARENA_INIT;
    struct master_config config;
    bool good = read_config(call->args[0], NULL, &arena, &config);
    if (good) show_doc(call, master_config_write(&arena, &config));
    arena_done(&arena);
    return good ? EXIT_OK : EXIT_USAGE;
}

static int run_config_reference(const struct call *call)
{
    struct buf out = BUF_INIT(1 << 20);
    (void)call;
    config_reference(&master_config_table, &out);
    print_data(buf_str(&out));
    buf_done(&out);
    return EXIT_OK;
}

// --- running

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

static int run(const struct call *call, struct arena *arena, const char *dir)
{
    const char *self = own_path(arena, NULL), *file = call_option(call, "config");
    const char *const shim[] = {self, "shim", NULL};
    const struct doc *options = options_doc(call, arena);
    struct master_config config;
    det_err err;
    char full[PATH_MAX]; // it is read again later
    if (file && realpath(file, full)) file = full;
    if (!read_config(file, options, arena, &config)) return EXIT_USAGE;
    const struct master_opts opts = {
        .data_dir = dir,
        .config = &config,
        .config_file = file,
        .options = options,
        .shim = shim,
        .runner = own_path(arena, "det-run"),
        .version = DET_VERSION,
    };
    if (!self || master_run(&opts, &err)) {
        print_error("%s", self ? err.msg : "cannot find this program in /proc/self/exe");
        return EXIT_FAILED;
    }
    return EXIT_OK;
}

static int run_master(const struct call *call)
{
    struct arena arena = ARENA_INIT;
    const char *given = call_option(call, "data"), *dir = given ? given : home_default(&arena);
    int status = EXIT_FAILED;
    init_stay_behind(); // it may be all that runs in a container
    if (call_option(call, "debug")) log_set_level(LOG_DEBUG);
    if (!dir)
        print_error("there is no place for data: give --data, or set DET_HOME or HOME");
    else if (call_option(call, "recover"))
        status = run_recover(dir);
    else
        status = run(call, &arena, dir);
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

static const struct option check_options[] = {{"json", 0, NULL, "Prints JSON instead of YAML."}};

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

static const struct command rows[] = {
    {
        .noun = "master",
        .args = "",
        .help = "Runs the master in the foreground. It keeps experiments, runs their trials and "
                "answers all other commands. Tasks go on when it is stopped, and the next master "
                "finds them. After SIGHUP it reads its configuration and its certificate again.",
        .example = "det master --listen 0.0.0.0 --tls",
        .options = master_options,
        .n_options = sizeof master_options / sizeof *master_options,
        .run = run_master,
    },
    COMMAND("master", "config check", "FILE", 1, 1, check_options, run_config_check,
            "Checks a configuration of a master and prints it with all defaults. Everything that "
            "is wrong is reported at once, with its place.",
            "det master config check det.yaml"),
    {
        .noun = "master",
        .verb = "config reference",
        .args = "",
        .help = "Prints all keys of the configuration of a master with their values, defaults and "
                "meaning, as Markdown.",
        .example = "det master config reference",
        .run = run_config_reference,
    },
    {
        .noun = "shim",
        .internal = true,
        .args = "DIR [after]",
        .min_args = 1,
        .max_args = 2,
        .help = "Runs one task and writes down what becomes of it; or cleans up after such a "
                "process was killed. The master starts this; people have no use for it.",
        .example = "det shim /var/lib/det/run/7",
        .run = run_shim,
    },
};

const struct command_table cmd_master_commands = COMMAND_TABLE(rows);
