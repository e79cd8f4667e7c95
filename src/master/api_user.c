// Unit api_user.c: routes about users: logging in and out, accounts, passwords. Passwords are
// hashed with argon2id, in the background; guessing is slowed down.
#include "master/routes.h"

#include "base/assert.h"
#include "base/utf8.h"
#include "master/browser.h"
#include "master/feed.h"
#include "master/isolation.h"
#include "master/local.h"
#include "master/throttle.h"
#include "sys/clock.h"
#include "sys/log.h"
#include <sodium.h>

enum { MAX_PASSWORD_BYTES = 1024 };

static const int64_t session_us = 30LL * 24 * 3600 * 1000000;

// --- logging in

struct login_body {
    const char *username, *password;
    bool cookie;
};

static const struct field login_fields[] = {
    {.name = "username",
     .type = FIELD_STR,
     .offset = offsetof(struct login_body, username),
     .required = true,
     .help = "Name."},
    {.name = "password",
     .type = FIELD_STR,
     .offset = offsetof(struct login_body, password),
     .required = true,
     .secret = true,
     .help = "Password."},
    {.name = "cookie",
     .type = FIELD_BOOL,
     .offset = offsetof(struct login_body, cookie),
     .help = "For browsers: the session is a cookie, and there is no token in the answer."},
};
static const struct field_table login_table = {.size = sizeof(struct login_body),
                                               FIELD_ROWS(login_fields)};

struct login {
    struct http_request *req;
    struct guess guess;
    const char *username, *password, *hash;
    const char *token; // NULL: the session is a cookie
    struct str session;
    struct user user;
    bool known, good, cookie;
};

// Of a password that nobody knows, for names that there are not: the answer must take as long as
// for others.
static const char dummy_hash[] = "$argon2id$v=19$m=65536,t=2,p=1$+wKJP94lwGVVtgKRGE9JW"
                                 "A$0y2TJm3thekH6xzDzKeevb7X3WQgFeLAee3cTHK2QyQ";

static void verify(void *ctx, void *own)
{
    struct login *l = ctx;
    (void)own;
    l->good = !crypto_pwhash_str_verify(l->hash, l->password, strlen(l->password)) && l->known;
}

static void on_session(void *ctx, int code, const det_err *err)
{
    struct login *l = ctx;
    struct buf out = BUF_INIT(1 << 16);
    struct json_writer w;
    if (code) {
        session_end(l->req->user, l->session, NULL);
        http_reply_error(l->req, err);
        return;
    }
    json_init(&w, &out, 0);
    json_open_map(&w);
    if (l->token) json_key(&w, "token");
    if (l->token) json_put_str(&w, l->token);
    json_key(&w, "user");
    api_put_record(&w, l->req->arena, &user_table, &l->user);
    json_close(&w);
    http_reply_json(l->req, 200, &out);
}

// While the password was hashed: it may be another one now, and must not open a session any more.
static bool has_changed(const struct master *m, const struct user *row)
{
    const struct user *now = user_find(m, row->id);
    return record_write_is_pending(m, RECORD_USER, row->id) || now->modified_us != row->modified_us;
}

static void verified(void *ctx)
{
    struct login *l = ctx;
    struct master *m = l->req->user;
    det_err err;
    if (l->known && has_changed(m, &l->user)) {
        api_begin_again(l->req);
        return;
    }
    if (!l->good) {
        log_warn("a login as '%.60s' from %s failed", l->username, http_peer(l->req));
        det_fail(&err, DET_EAUTH, "the name or the password is wrong");
        http_reply_error(l->req, &err);
        return;
    }
    throttle_was_right(m->throttle, &l->guess);
    struct db_tx *tx = db_tx_new(m->db);
    if (l->cookie) {
        l->session = browser_new_session(l->req, l->user.id, tx);
    } else {
        int64_t expires_us = clock_unix_us() + session_us;
        l->token = auth_new_session(m, l->user.id, expires_us, l->req->arena, tx);
        l->session = auth_hash(m, l->token, l->req->arena);
    }
    db_tx_submit(tx, on_session, l);
}

// Of whom the password would be.
static int find_password(struct http_request *req, det_err *err)
{
    const struct login_body *body = req->input;
    struct login *l = arena_alloc(req->arena, sizeof *l);
    (void)err;
    l->known = !db_user_find_name(req->reader, body->username, req->arena, &l->user, NULL) &&
               l->user.active &&
               !db_password_find(req->reader, l->user.id, req->arena, &l->hash, NULL);
    if (!l->known) l->hash = dummy_hash;
    req->found = l;
    return 0;
}

// Before the password is looked at: those that are tried at the same time count, too.
static int count_guess(struct http_request *req, const char *name, struct guess *out, det_err *err)
{
    struct master *m = req->user;
    int64_t wait_us;
    if (throttle_take(m->throttle, name, http_peer_network(req), clock_mono_us(), out, &wait_us))
        return 0;
    int64_t wait_s = wait_us / 1000000 + 1;
    http_set_header(req, "Retry-After", arena_printf(req->arena, "%lld", (long long)wait_s));
    return det_fail(err, DET_EBUSY, "too many failed logins; try again in %lld s",
                    (long long)wait_s);
}

static int post_login(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    const struct login_body *body = req->input;
    struct login *l = req->found;
    l->req = req;
    l->username = body->username;
    l->password = body->password;
    l->cookie = body->cookie;
    int rc = l->cookie ? browser_check_change(req, err) : 0;
    if (rc) return rc;
    if (strlen(body->password) > MAX_PASSWORD_BYTES)
        return det_fail(err, DET_EINVAL, "a password has at most %d bytes", MAX_PASSWORD_BYTES);
    rc = count_guess(req, l->username, &l->guess, err);
    if (rc) return rc;
    worker_run(m->workers[WORK_HASH], &(struct work){verify, verified, l, api_who(req)});
    return http_later(req);
}

static int post_logout(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    int rc;
    struct db_tx *tx = api_begin(req, &rc, err);
    if (!tx) return rc;
    session_end(m, identity_of(req)->hash, tx);
    if (identity_of(req)->is_local) local_renew(m);
    if (identity_of(req)->is_browser) browser_forget_cookie(req);
    return api_finish(req, tx, 0, NULL);
}

// --- accounts

static int get_me(struct http_request *req, det_err *err)
{
    (void)err;
    api_reply_record(req, "user", &user_table, &identity_of(req)->user);
    return 0;
}

static int find_users(struct db_reader *r, const struct db_filter *filter,
                      const struct db_page *page, struct arena *a, struct db_list *out,
                      det_err *err)
{
    (void)filter;
    return db_users_list(r, page, a, out, err);
}

static int list_users(struct http_request *req, det_err *err)
{
    static const struct api_list what = {"users", &user_table, "id", find_users, NULL};
    return api_list(req, &what, &(struct db_filter){0}, req->query, err);
}

struct user_body {
    const char *username, *display_name, *password;
    int admin, active; // enum tri
};

#define F(kind, member, ...) .type = kind, .offset = offsetof(struct user_body, member), __VA_ARGS__
static const struct field user_fields[] = {
    {.name = "username", F(FIELD_STR, username, .help = "Name to log in with.")},
    {.name = "displayName", F(FIELD_STR, display_name, .help = "Name to show.")},
    {.name = "password", F(FIELD_STR, password, .secret = true, .help = "Password.")},
    {.name = "admin", F(FIELD_TRI, admin, .help = "May manage users and slots.")},
    {.name = "active", F(FIELD_TRI, active, .help = "May log in.")},
};
#undef F
static const struct field_table user_body_table = {.size = sizeof(struct user_body),
                                                   FIELD_ROWS(user_fields)};

// What people see of a user, and what logs and lists show.
static int check_names(const struct user_body *body, det_err *err)
{
    enum { MAX_USERNAME_BYTES = 60, MAX_DISPLAY_BYTES = 200 };
    const char *shown = body->display_name ? body->display_name : "";
    if (body->username && (!*body->username || strlen(body->username) > MAX_USERNAME_BYTES))
        return det_fail(err, DET_EINVAL, "a username has 1 to %d bytes", MAX_USERNAME_BYTES);
    if (strlen(shown) > MAX_DISPLAY_BYTES)
        return det_fail(err, DET_EINVAL, "a display name has at most %d bytes", MAX_DISPLAY_BYTES);
    if (utf8_has_control(str_from(body->username)) || utf8_has_control(str_from(shown)))
        return det_fail(err, DET_EINVAL, "names of users have no control characters");
    return 0;
}

// A change of an account, whose password may have to be hashed first.
struct account {
    struct http_request *req;
    struct user row;
    const struct user_body *changes; // to be made when it is written; NULL: it is new
    const char *password;            // NULL: unchanged
    char hash[crypto_pwhash_STRBYTES];
    bool hashed;
};

static void hash_password(void *ctx, void *own)
{
    struct account *a = ctx;
    (void)own;
    a->hashed =
        !crypto_pwhash_str(a->hash, a->password, strlen(a->password),
                           crypto_pwhash_OPSLIMIT_INTERACTIVE, crypto_pwhash_MEMLIMIT_INTERACTIVE);
}

static void on_account(void *ctx, int code, const det_err *err)
{
    struct account *a = ctx;
    if (code) {
        http_reply_error(a->req, err);
        return;
    }
    user_put(a->req->user, &a->row);
    isolation_note_user(a->req->user, &a->row);
    api_reply_record(a->req, "user", &user_table, &a->row);
}

static void save_account(void *ctx);

static void save_again(void *ctx, int code, const det_err *err)
{
    struct account *a = ctx;
    if (code)
        http_reply_error(a->req, err);
    else
        save_account(a);
}

// As it is now: others may have changed it while the password was hashed.
static int make_changes(struct account *a, det_err *err)
{
    const struct user_body *c = a->changes;
    const struct master *m = a->req->user;
    if (a->password && !a->hashed)
        return det_fail(err, DET_ENOMEM, "there is no memory to hash the password");
    if (!c) return 0;
    const struct user *now = user_find(m, a->row.id);
    ASSERT(now);
    a->row = *now;
    a->row.username = arena_strdup(a->req->arena, now->username);
    if (now->display_name) a->row.display_name = arena_strdup(a->req->arena, now->display_name);
    if (c->username) a->row.username = c->username;
    if (c->display_name) a->row.display_name = c->display_name;
    if (c->admin) a->row.admin = c->admin == TRI_TRUE;
    if (c->active) a->row.active = c->active == TRI_TRUE;
    return 0;
}

// Other sessions of the user end when the password changes or the account is closed.
static void save_account(void *ctx)
{
    struct account *a = ctx;
    struct master *m = a->req->user;
    det_err err;
    if (record_write_is_pending(m, RECORD_USER, a->row.id)) {
        db_tx_submit(db_tx_new(m->db), save_again, a);
        return;
    }
    if (make_changes(a, &err)) {
        http_reply_error(a->req, &err);
        return;
    }
    struct db_tx *tx = db_tx_new(m->db);
    a->row.modified_us = clock_unix_us();
    record_write_begin(m, RECORD_USER, a->row.id);
    db_user_save(tx, &a->row);
    if (a->password) db_password_save(tx, a->row.id, a->hash);
    if (a->password || !a->row.active) sessions_end_of_user(m, a->row.id, tx);
    if (a->row.id == LOCAL_USER_ID) local_renew(m);
    db_tx_submit(tx, on_account, a);
}

static int change_account(struct http_request *req, struct account *a, det_err *err)
{
    struct master *m = req->user;
    if (a->password && (strlen(a->password) < 8 || strlen(a->password) > MAX_PASSWORD_BYTES))
        return det_fail(err, DET_EINVAL, "a password has 8 to %d bytes", MAX_PASSWORD_BYTES);
    a->req = req;
    if (a->password)
        worker_run(m->workers[WORK_HASH],
                   &(struct work){hash_password, save_account, a, api_who(req)});
    else
        save_account(a);
    return http_later(req);
}

static int post_user(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    const struct user_body *body = req->input;
    struct account *a = arena_alloc(req->arena, sizeof *a);
    if (!body->username) return det_fail(err, DET_EINVAL, "a user needs a username");
    int rc = check_names(body, err);
    if (rc) return rc;
    a->row = (struct user){.id = m->next_user++,
                           .username = body->username,
                           .display_name = body->display_name,
                           .admin = body->admin == TRI_TRUE,
                           .active = body->active != TRI_FALSE};
    a->password = body->password;
    return change_account(req, a, err);
}

static int patch_user(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    const struct user_body *body = req->input;
    const struct identity *who = identity_of(req);
    struct account *a = arena_alloc(req->arena, sizeof *a);
    const struct user *user = user_find(m, http_param_int(req, "user"));
    if (!user)
        return det_fail(err, DET_ENOTFOUND, "there is no user %lld",
                        (long long)http_param_int(req, "user"));
    int rc = auth_may_change(req, user->id, err);
    if (rc) return rc;
    a->row.id = user->id;
    if ((body->admin || body->active || body->username) && !who->user.admin)
        return det_fail(err, DET_EDENIED, "only an administrator may change this");
    if (user->id == LOCAL_USER_ID && (body->admin == TRI_FALSE || body->active == TRI_FALSE))
        return det_fail(err, DET_EINVAL,
                        "user '%s' stays active and an administrator: whoever starts the master "
                        "comes in as this user",
                        user->username);
    rc = check_names(body, err);
    if (rc) return rc;
    a->changes = body;
    a->password = body->password;
    return change_account(req, a, err);
}

static const struct http_route routes[] = {
    {HTTP_POST, "/api/v1/auth/login", .auth = HTTP_AUTH_NONE, .read = find_password,
     .handle = post_login, .input = &login_table,
     .summary = "Gives a token for a name and a password."},
    {HTTP_POST, "/api/v1/auth/logout", .handle = post_logout, .summary = "Ends the session."},
    {HTTP_GET, "/api/v1/me", .handle = get_me, .summary = "Who is calling."},
    {HTTP_GET, "/api/v1/users", .read = list_users, .handle = feed_answer, .query = &api_page_table,
     .summary = "Lists users."},
    {HTTP_POST, "/api/v1/users", .auth = HTTP_AUTH_ADMIN, .handle = post_user,
     .input = &user_body_table, .summary = "Makes a user."},
    {HTTP_PATCH, "/api/v1/users/{user:int}", .handle = patch_user, .input = &user_body_table,
     .summary = "Changes a user."},
};

const struct http_table user_routes = HTTP_TABLE(routes);
