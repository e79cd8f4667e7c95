// Unit browser.c: cookies, one-time codes, and which requests of a browser count.
#include "master/browser.h"

#include "base/mem.h"
#include "master/routes.h"
#include "sys/clock.h"
#include <sodium.h>
#include <strings.h>

enum { SECRET_BYTES = 32, MAX_CODES_OF_USER = 8 };

// --- cookies

// Cookies are the same for all ports of a machine, where several masters may be.
static const char *cookie_name(const struct master *m, struct arena *arena)
{
    return arena_printf(arena, "%sdet_session_%d", m->tls_cert ? "__Host-" : "",
                        http_server_port(m->server));
}

const char *browser_cookie(struct http_request *req)
{
    return http_cookie(req, cookie_name(req->user, req->arena));
}

static struct str hash_as(const struct master *m, const char *kind, const char *secret,
                          struct arena *arena)
{
    return auth_hash(m, arena_printf(arena, "%s:%s", kind, secret), arena);
}

struct str browser_hash(const struct master *m, const char *cookie, struct arena *arena)
{
    return hash_as(m, "cookie", cookie, arena);
}

static void set_cookie(struct http_request *req, const char *value, int64_t seconds)
{
    const struct master *m = req->user;
    http_set_header(req, "Set-Cookie",
                    arena_printf(req->arena,
                                 "%s=%s; Path=/; Max-Age=%lld; HttpOnly; "
                                 "SameSite=Strict%s",
                                 cookie_name(m, req->arena), value, (long long)seconds,
                                 m->tls_cert ? "; Secure" : ""));
}

static const char *new_secret(struct arena *arena)
{
    unsigned char random[SECRET_BYTES];
    char *text = arena_alloc(arena, 2 * SECRET_BYTES + 1);
    randombytes_buf(random, sizeof random);
    return sodium_bin2hex(text, 2 * SECRET_BYTES + 1, random, sizeof random);
}

struct str browser_new_session(struct http_request *req, int64_t user_id, struct db_tx *tx)
{
    struct master *m = req->user;
    const char *cookie = new_secret(req->arena);
    const struct session row = {
        .user_id = user_id,
        .expires_us = clock_unix_us() + (int64_t)BROWSER_SESSION_S * 1000000,
    };
    struct str hash = browser_hash(m, cookie, req->arena);
    session_end_oldest(m, user_id, tx);
    session_add(m, hash, &row, NULL);
    db_session_save(tx, hash, &row);
    set_cookie(req, cookie, BROWSER_SESSION_S);
    return hash;
}

void browser_forget_cookie(struct http_request *req)
{
    set_cookie(req, "", 0);
}

// --- whose page has made a request

// "https://det.example.org:8443" is the page of the host "det.example.org:8443". Behind a proxy
// that speaks TLS for us, the page has another scheme than we do.
static bool is_our_page(const struct http_request *req, const char *origin)
{
    const struct master *m = req->user;
    const char *host = http_header(req, "Host");
    struct str rest = str_from(origin ? origin : "");
    bool is_safe = str_starts(rest, STR("https://")), is_plain = str_starts(rest, STR("http://"));
    size_t n = is_safe ? strlen("https://") : strlen("http://");
    if (!host || (!is_safe && (!is_plain || m->tls_cert))) return false;
    return !strcasecmp(rest.ptr + n, host);
}

static int refuse(det_err *err)
{
    return det_fail(err, DET_EDENIED,
                    "a browser's session counts only for requests of det's own page: the header "
                    "%s is needed, and Origin must be this host",
                    BROWSER_HEADER);
}

int browser_check_change(struct http_request *req, det_err *err)
{
    bool good = http_header(req, BROWSER_HEADER) && is_our_page(req, http_header(req, "Origin"));
    return good ? 0 : refuse(err);
}

// What only reads is of no use to others, who do not get the answer; but it costs.
int browser_check(struct http_request *req, det_err *err)
{
    const char *from = http_header(req, "Sec-Fetch-Site");
    if (req->route->method != HTTP_GET) return browser_check_change(req, err);
    bool is_foreign = from && strcasecmp(from, "same-origin") != 0 && strcasecmp(from, "none") != 0;
    return is_foreign ? refuse(err) : 0;
}

// --- codes: in memory only, for a minute

struct code {
    uint8_t hash[AUTH_HASH_BYTES];
    int64_t user_id, user_modified_us; // another password ends them
    int64_t expires_us;                // of the monotonic clock
    struct code *next;
};

struct browsers {
    struct code *codes; // the newest first
};

void browser_open(struct master *m)
{
    m->browsers = xcalloc(1, sizeof *m->browsers);
}

static void remove_code(struct code **at)
{
    struct code *c = *at;
    *at = c->next;
    sodium_memzero(c, sizeof *c);
    free(c);
}

void browser_close(struct master *m)
{
    while (m->browsers && m->browsers->codes)
        remove_code(&m->browsers->codes);
    free(m->browsers);
}

// Those that are over, and the oldest of a user who has many.
static void forget_codes(struct browsers *b, int64_t user_id, int64_t now_us)
{
    int n = 0;
    for (struct code **at = &b->codes; *at;) {
        n += (*at)->user_id == user_id;
        bool is_over =
            (*at)->expires_us <= now_us || ((*at)->user_id == user_id && n >= MAX_CODES_OF_USER);
        if (is_over)
            remove_code(at);
        else
            at = &(*at)->next;
    }
}

static int post_code(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    const struct user *user = &identity_of(req)->user;
    const char *secret = new_secret(req->arena);
    struct code *c = xcalloc(1, sizeof *c);
    struct buf out = BUF_INIT(4096);
    struct json_writer w;
    char time[TIME_TEXT_BYTES];
    (void)err;
    int64_t now_us = clock_mono_us();
    forget_codes(m->browsers, user->id, now_us);
    memcpy(c->hash, hash_as(m, "code", secret, req->arena).ptr, sizeof c->hash);
    c->user_id = user->id;
    c->user_modified_us = user->modified_us;
    c->expires_us = now_us + (int64_t)BROWSER_CODE_S * 1000000;
    c->next = m->browsers->codes;
    m->browsers->codes = c;
    time_format(clock_unix_us() + (int64_t)BROWSER_CODE_S * 1000000, time);
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, "code");
    json_put_str(&w, secret);
    json_key(&w, "expiresAt");
    json_put_str(&w, time);
    json_close(&w);
    http_reply_json(req, 200, &out);
    return 0;
}

// The user that a code is for, once; NULL: nobody.
static const struct user *use_code(struct master *m, const char *secret, struct arena *arena)
{
    struct str hash = hash_as(m, "code", secret, arena);
    struct code **at = &m->browsers->codes;
    forget_codes(m->browsers, 0, clock_mono_us());
    while (*at && sodium_memcmp((*at)->hash, hash.ptr, hash.len) != 0)
        at = &(*at)->next;
    if (!*at) return NULL;
    const struct user *user = user_find(m, (*at)->user_id);
    bool good = user && user->active && user->modified_us == (*at)->user_modified_us;
    remove_code(at);
    return good ? user : NULL;
}

struct redeem_body {
    const char *code;
};

static const struct field redeem_fields[] = {
    {.name = "code",
     .type = FIELD_STR,
     .offset = offsetof(struct redeem_body, code),
     .required = true,
     .secret = true,
     .help = "What POST /api/v1/auth/codes has given."},
};
static const struct field_table redeem_table = {.size = sizeof(struct redeem_body),
                                                FIELD_ROWS(redeem_fields)};

struct redeem {
    struct http_request *req;
    struct user user;
    struct str hash;
};

static void on_redeemed(void *ctx, int code, const det_err *err)
{
    const struct redeem *r = ctx;
    if (!code) {
        api_reply_record(r->req, "user", &user_table, &r->user);
        return;
    }
    session_end(r->req->user, r->hash, NULL);
    http_reply_error(r->req, err);
}

static int post_redeem(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    const struct redeem_body *body = req->input;
    struct redeem *r = arena_alloc(req->arena, sizeof *r);
    int rc = browser_check_change(req, err);
    if (!rc) rc = db_refuses(m->db, err);
    if (rc) return rc;
    const struct user *user = use_code(m, body->code, req->arena);
    if (!user)
        return det_fail(err, DET_EAUTH,
                        "the code is not good: it can be used once, within %d s; 'det open' makes "
                        "another one",
                        BROWSER_CODE_S);
    r->req = req;
    r->user = *user;
    r->user.username = arena_strdup(req->arena, user->username);
    if (user->display_name) r->user.display_name = arena_strdup(req->arena, user->display_name);
    struct db_tx *tx = db_tx_new(m->db);
    r->hash = browser_new_session(req, user->id, tx);
    db_tx_submit(tx, on_redeemed, r);
    return http_later(req);
}

static const struct http_route routes[] = {
    {HTTP_POST, "/api/v1/auth/codes", .handle = post_code,
     .summary = "Gives a code with which a browser gets a session, once, within a minute."},
    {HTTP_POST, "/api/v1/auth/redeem", .auth = HTTP_AUTH_NONE, .handle = post_redeem,
     .input = &redeem_table, .summary = "Gives a browser a session (a cookie) for a code."},
};

const struct http_table browser_routes = HTTP_TABLE(routes);
