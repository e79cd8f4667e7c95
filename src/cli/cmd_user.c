// Unit cmd_user.c: det user login, logout, create, change-password; det template set.
#include "cli/cmd.h"

#include "base/number.h"
#include "cli/remote.h"
#include "sys/fs.h"
#include <stdio.h>
#include <termios.h>
#include <unistd.h>

enum { MAX_PASSWORD = 1024 };

// From the terminal without showing it, or a line of standard input.
static bool ask_password(const char *prompt, char out[MAX_PASSWORD])
{
    struct termios old, quiet;
    bool terminal = isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &old);
    if (terminal) {
        quiet = old;
        quiet.c_lflag &= ~(tcflag_t)ECHO;
        fprintf(stderr, "%s: ", prompt);
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
    }
    bool ok = fgets(out, MAX_PASSWORD, stdin);
    if (terminal) {
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &old);
        fputc('\n', stderr);
    }
    if (!ok) {
        print_error("there is no password to read on standard input");
        return false;
    }
    out[strcspn(out, "\r\n")] = 0;
    return true;
}

static void add(struct remote *r, struct doc *map, const char *key, const char *text)
{
    doc_set(map, str_from(key), doc_new_str(&r->arena, text));
}

// A sentence. Returns EXIT_OK.
static int say(const char *fmt, ...)
{
    struct buf line = BUF_INIT(4096);
    va_list args;
    va_start(args, fmt);
    buf_vprintf(&line, fmt, args);
    va_end(args);
    buf_addc(&line, '\n');
    print_data(buf_str(&line));
    buf_done(&line);
    return EXIT_OK;
}

static int run_login(const struct call *call)
{
    struct remote r;
    char password[MAX_PASSWORD];
    det_err err;
    int status = EXIT_FAILED;
    if (!remote_open(&r, call) || !ask_password("Password", password)) goto out;
    struct doc *body = doc_new(&r.arena, DOC_MAP);
    add(&r, body, "username", call->args[0]);
    add(&r, body, "password", password);
    const struct doc *answer = remote_call(&r, HTTP_POST, body, "/auth/login");
    if (!answer) goto out;
    if (login_keep(r.url, doc_text(answer, "token"), &err)) {
        print_error("%s", err.msg);
        goto out;
    }
    status = say("Logged in to %s as %s.", r.url, call->args[0]);
out:
    explicit_bzero(password, sizeof password);
    remote_close(&r);
    return status;
}

static int run_logout(const struct call *call)
{
    struct remote r;
    det_err err;
    int status = EXIT_FAILED;
    bool open = remote_open(&r, call);
    if (open && !r.logged_in) {
        status = say("You are not logged in.");
    } else if (open && remote_call(&r, HTTP_POST, NULL, "/auth/logout")) {
        if (login_keep(r.url, NULL, &err))
            print_error("%s", err.msg);
        else
            status = say("Logged out of %s.", r.url);
    }
    remote_close(&r);
    return status;
}

static int run_user_create(const struct call *call)
{
    struct remote r;
    char password[MAX_PASSWORD];
    int status = EXIT_FAILED;
    if (remote_open(&r, call) && ask_password("Password of the new user", password)) {
        struct doc *body = doc_new(&r.arena, DOC_MAP);
        add(&r, body, "username", call->args[0]);
        add(&r, body, "password", password);
        if (call_option(call, "admin"))
            doc_set(body, str_from("admin"), doc_new_bool(&r.arena, true));
        if (remote_call(&r, HTTP_POST, body, "/users"))
            status = say("User '%s' is created.", call->args[0]);
    }
    explicit_bzero(password, sizeof password);
    remote_close(&r);
    return status;
}

// The number of a user, by name; that of the caller without one. 0 after the error was printed.
static int64_t user_number(struct remote *r, const char *name)
{
    if (!name) return doc_whole(doc_find(remote_get(r, "/me"), "user"), "id");
    const struct doc *users = doc_find(remote_get(r, "/users"), "users");
    for (const struct doc *u = users ? users->first : NULL; u; u = u->next)
        if (!strcmp(doc_text(u, "username"), name)) return doc_whole(u, "id");
    if (users) print_error("there is no user '%s'", name);
    return 0;
}

static int run_change_password(const struct call *call)
{
    struct remote r;
    char password[MAX_PASSWORD];
    int status = EXIT_FAILED;
    int64_t id = remote_open(&r, call) ? user_number(&r, call->n_args ? call->args[0] : NULL) : 0;
    if (id && ask_password("New password", password)) {
        struct doc *body = doc_new(&r.arena, DOC_MAP);
        add(&r, body, "password", password);
        if (remote_call(&r, HTTP_PATCH, body, "/users/%lld", (long long)id))
            status = say("The password%s%s is changed.", call->n_args ? " of " : "",
                         call->n_args ? call->args[0] : "");
    }
    explicit_bzero(password, sizeof password);
    remote_close(&r);
    return status;
}

static int set_active(const struct call *call, bool active)
{
    struct remote r;
    int status = EXIT_FAILED;
    int64_t id = remote_open(&r, call) ? user_number(&r, call->args[0]) : 0;
    struct doc *body = doc_new(&r.arena, DOC_MAP);
    doc_set(body, str_from("active"), doc_new_bool(&r.arena, active));
    if (id && remote_call(&r, HTTP_PATCH, body, "/users/%lld", (long long)id))
        status = say(active ? "User '%s' may log in." : "User '%s' may not log in any more.",
                     call->args[0]);
    remote_close(&r);
    return status;
}

static int run_activate(const struct call *call)
{
    return set_active(call, true);
}

static int run_deactivate(const struct call *call)
{
    return set_active(call, false);
}

// The body of the request: numbers of both options; NULL after the error was printed.
static struct doc *read_link(struct remote *r, const struct call *call)
{
    static const char *const options[] = {"agent-uid", "agent-gid"}, *const keys[] = {"uid", "gid"};
    struct doc *body = doc_new(&r->arena, DOC_MAP);
    for (size_t i = 0; i < STATIC_LEN(options); i++) {
        const char *text = call_option(call, options[i]);
        int64_t number;
        if (!text || !number_to_int(str_from(text), 10, &number)) {
            print_error("--%s must be a number, found %s", options[i], text ? text : "nothing");
            return NULL;
        }
        doc_set(body, str_from(keys[i]), doc_new_int(&r->arena, number));
    }
    return body;
}

static int run_link(const struct call *call)
{
    struct remote r;
    int status = EXIT_FAILED;
    bool ends = call_option(call, "unlink");
    int64_t id = remote_open(&r, call) ? user_number(&r, call->args[0]) : 0;
    struct doc *body = id && !ends ? read_link(&r, call) : NULL;
    if (id && !ends && !body) status = EXIT_USAGE;
    if (id && (ends || body) &&
        remote_call(&r, ends ? HTTP_DELETE : HTTP_PUT, body, "/users/%lld/agent-user",
                    (long long)id))
        status = ends ? say("Tasks of '%s' run as the Unix user of that name.", call->args[0])
                      : say("Tasks of '%s' run as the Unix user with number %s.", call->args[0],
                            call_option(call, "agent-uid"));
    remote_close(&r);
    return status;
}

static int run_template_set(const struct call *call)
{
    struct remote r;
    struct buf text = BUF_INIT(1 << 20);
    det_err err;
    int status = EXIT_FAILED;
    if (!remote_open(&r, call)) goto out;
    if (fs_read(call->args[1], &text, &err)) {
        print_error("%s", err.msg);
        goto out;
    }
    struct doc *body = doc_new(&r.arena, DOC_MAP);
    add(&r, body, "config", buf_str(&text).ptr);
    if (remote_call(&r, HTTP_PUT, body, "/templates/%s", remote_segment(&r, call->args[0])))
        status = say("Template '%s' is stored.", call->args[0]);
out:
    buf_done(&text);
    remote_close(&r);
    return status;
}

static const struct option plain_options[] = {MASTER_OPTION};
static const struct option create_options[] = {MASTER_OPTION,
                                               {"admin", 0, NULL, "May manage users and slots."}};

static const struct option link_options[] = {
    MASTER_OPTION,
    {"agent-uid", 0, "N", "Number of the Unix user; not 0."},
    {"agent-gid", 0, "N", "Number of the Unix group."},
    {"unlink", 0, NULL, "Ends the link instead."},
};

static const struct command rows[] = {
    COMMAND("user", "login", "NAME", 1, 1, plain_options, run_login,
            "Logs in; the token is kept in ~/.config/det. The password is read from the terminal, "
            "or from "
            "a line of standard input.",
            "det user login ada"),
    COMMAND("user", "logout", "", 0, 0, plain_options, run_logout,
            "Logs out and forgets the token.", "det user logout"),
    COMMAND("user", "create", "NAME", 1, 1, create_options, run_user_create, "Creates a user.",
            "det user create ada"),
    COMMAND("user", "change-password", "[NAME]", 0, 1, plain_options, run_change_password,
            "Changes a password: your own, or, for admins, that of others.",
            "det user change-password"),
    COMMAND("user", "activate", "NAME", 1, 1, plain_options, run_activate,
            "Lets a user log in again.", "det user activate ada"),
    COMMAND("user", "deactivate", "NAME", 1, 1, plain_options, run_deactivate,
            "Ends the sessions of a user, who cannot log in until 'det user activate'.",
            "det user deactivate ada"),
    COMMAND(
        "user", "link-with-agent-user", "NAME", 1, 1, link_options, run_link,
        "Lets the tasks of a user run as a Unix user, where the master isolates users from each "
        "other (det master --isolation users). Without a link it is the Unix user of the same "
        "name.",
        "det user link-with-agent-user ada --agent-uid 1001 --agent-gid 1001"),
    COMMAND("template", "set", "NAME FILE", 2, 2, plain_options, run_template_set,
            "Stores a part of a configuration that experiments can be created with.",
            "det template set gpu gpu.yaml"),
};

const struct command_table cmd_user_commands = COMMAND_TABLE(rows);
