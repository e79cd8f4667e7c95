// Unit cmd_open.c: det open: the web page in a browser, logged in by a code that is good once. The
// code is in no command line, which everybody on the machine can see, but in a file of the user's.
#include "cli/cmd.h"

#include "base/number.h"
#include "cli/remote.h"
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <spawn.h>
#include <stdlib.h>
#include <unistd.h>

extern char **environ;

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

static void say(const char *text)
{
    print_data(str_from(text));
}

// --- the address

// One that logs in, and goes on to the page of the experiment. NULL after the error was printed.
static const char *make_address(struct remote *r, const char *experiment)
{
    const char *page = "/";
    if (experiment) {
        const char *id = remote_segment(r, experiment);
        if (!remote_get(r, "/experiments/%s", id)) return NULL;
        page = arena_printf(&r->arena, "/experiments/%s", id);
    }
    const struct doc *answer = remote_call(r, HTTP_POST, NULL, "/auth/codes");
    if (!answer) return NULL;
    det_err err;
    if (http_call(r->client, &(struct http_call){.path = "/login"}, NULL, &err)) {
        if (err.code == DET_ENOTFOUND)
            print_error("the master at %s was built without its web page (npm was missing); "
                        "'det experiment plot' draws curves in the terminal",
                        r->url);
        else
            print_error("%s", err.msg);
        return NULL;
    }
    return arena_printf(&r->arena, "%s/login#code=%s&next=%s", r->url, doc_text(answer, "code"),
                        remote_segment(r, page));
}

// --- a browser

static void add_attribute(struct buf *out, const char *text)
{
    for (; *text; text++)
        if (strchr("&<>\"'", *text))
            buf_printf(out, "&#%d;", *text);
        else
            buf_addc(out, *text);
}

// A page that leads to the address. Returns its path, NULL after the error was printed.
static const char *write_redirect(struct arena *arena, const char *address)
{
    struct buf html = BUF_INIT(64 << 10);
    det_err err;
    buf_addz(&html, "<!doctype html>\n<meta charset=\"utf-8\">\n<title>det</title>\n"
                    "<meta http-equiv=\"refresh\" content=\"0;url=");
    add_attribute(&html, address);
    buf_addz(&html, "\">\n<a href=\"");
    add_attribute(&html, address);
    buf_addz(&html, "\">det</a>\n");
    const char *path = settings_keep(arena, "open.html", buf_str(&html), &err);
    if (!path) print_error("%s", err.msg);
    buf_done(&html);
    return path;
}

static bool start_browser(struct arena *arena, const char *address)
{
    const char *program = is_set("BROWSER") ? getenv("BROWSER") : "xdg-open";
    const char *file = write_redirect(arena, address);
    if (!file) return false;
    struct buf encoded = BUF_INIT(64 << 10);
    buf_addz(&encoded, "file://");
    http_encode_path(&encoded, str_from(file));
    char *argv[] = {arena_strdup(arena, program), buf_take(&encoded), NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    pid_t pid;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    for (int fd = 0; fd < 3; fd++)
        posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID);
    int code = posix_spawnp(&pid, program, &actions, &attr, argv, environ);
    if (code) print_warning("cannot start %s: %s", program, strerror(code));
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    free(argv[1]);
    return !code;
}

// --- without a browser here

static bool is_local(const char *url)
{
    static const char *const hosts[] = {"127.", "localhost", "[::1]"};
    const char *host = strstr(url, "://");
    for (size_t i = 0; host && i < STATIC_LEN(hosts); i++)
        if (!strncmp(host + 3, hosts[i], strlen(hosts[i]))) return true;
    return false;
}

// "ssh -N -L 8080:127.0.0.1:8080 ada@10.0.0.5", for who came by ssh to a master that only this
// machine reaches; NULL: no need, or no idea.
static const char *forward_command(struct arena *arena, const char *url)
{
    char from[64], from_port[8], host[64], port[8];
    const char *connection = getenv("SSH_CONNECTION"), *colon = strrchr(url, ':');
    const struct passwd *me = getpwuid(geteuid());
    int64_t number;
    if (!connection || !is_local(url) || !colon) return NULL;
    if (sscanf(connection, "%63s %7s %63s %7s", from, from_port, host, port) != 4) return NULL;
    if (!number_to_int(str_from(colon + 1), 10, &number)) return NULL;
    const char *at = strcmp(port, "22") ? arena_printf(arena, " -p %s", port) : "";
    return arena_printf(arena, "ssh -N -L %lld:%s%s %s@%s", (long long)number,
                        strstr(url, "://") + 3, at, me ? me->pw_name : "USER", host);
}

static void explain(struct arena *arena, const char *url, const char *address)
{
    const char *forward = forward_command(arena, url);
    if (forward)
        say(arena_printf(arena,
                         "Only this machine reaches the master. On your own, let ssh forward its "
                         "port:\n\n    %s\n\nThen open, within a minute of this command:\n\n",
                         forward));
    else
        say("Open this in a browser, within a minute:\n\n");
    say(arena_printf(arena, "    %s\n", address));
}

static int run_open(const struct call *call)
{
    struct remote r;
    int64_t id;
    const char *experiment = call->n_args ? call->args[0] : NULL, *address = NULL;
    if (experiment && !number_to_int(str_from(experiment), 10, &id)) {
        print_error("'%s' is not the number of an experiment", experiment);
        return EXIT_USAGE;
    }
    if (remote_open(&r, call)) address = make_address(&r, experiment);
    const bool has_screen = is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
    if (address && call_option(call, "print"))
        say(arena_printf(&r.arena, "%s\n", address));
    else if (address && has_screen && start_browser(&r.arena, address))
        say(arena_printf(&r.arena,
                         "A browser opens %s. If none does, 'det open --print' prints an address "
                         "for one.\n",
                         r.url));
    else if (address)
        explain(&r.arena, r.url, address);
    remote_close(&r);
    return address ? EXIT_OK : EXIT_FAILED;
}

static const struct option options[] = {
    MASTER_OPTION,
    {"print", 0, NULL,
     "Prints the address, which is good once and for a minute, and nothing else."},
};

static const struct command rows[] = {
    {
        .noun = "open",
        .args = "[EXPERIMENT]",
        .max_args = 1,
        .help = "Opens the web page of the master in a browser, without asking for a password. "
                "Where there is no screen, it says what to do; over ssh, how to forward the port.",
        .example = "det open 3",
        .options = options,
        .n_options = STATIC_LEN(options),
        .run = run_open,
    },
};

const struct command_table cmd_open_commands = COMMAND_TABLE(rows);
