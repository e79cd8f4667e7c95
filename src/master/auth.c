// Unit auth.c: tokens and who they speak for.
#include "master/auth.h"

#include "base/assert.h"
#include "master/browser.h"
#include "master/throttle.h"
#include "sys/clock.h"
#include "sys/fs.h"
#include <sodium.h>
#include <sys/stat.h>

enum { TOKEN_BYTES = 32 };

static int read_key(struct master *m, const char *path, det_err *err)
{
    struct buf key = BUF_INIT(sizeof m->token_key);
    int rc = fs_read(path, &key, err);
    if (!rc && key.len != sizeof m->token_key)
        rc = det_fail(err, DET_ECORRUPT, "'%s' is not a key", path);
    if (!rc) memcpy(m->token_key, key.ptr, sizeof m->token_key);
    buf_done(&key);
    return rc;
}

static int make_key(struct master *m, const char *path, det_err *err)
{
    struct fs_writer w;
    randombytes_buf(m->token_key, sizeof m->token_key);
    mode_t mask = umask(0077);
    int rc = fs_writer_open(&w, path, err);
    if (!rc) rc = fs_writer_add(&w, m->token_key, sizeof m->token_key, err);
    if (!rc) rc = fs_writer_commit(&w, err);
    fs_writer_close(&w);
    umask(mask);
    return rc;
}

int auth_open(struct master *m, det_err *err)
{
    if (sodium_init() < 0) return det_fail(err, DET_EIO, "there is no source of random numbers");
    const char *path = arena_printf(&m->arena, "%s/secret.key", m->data_dir);
    int rc = read_key(m, path, err);
    if (rc == DET_ENOTFOUND) rc = make_key(m, path, err);
    if (rc) return rc;
    struct hash_key random;
    randombytes_buf(&random, sizeof random);
    m->throttle = throttle_new(&random);
    return 0;
}

void auth_close(struct master *m)
{
    sodium_memzero(m->token_key, sizeof m->token_key);
    throttle_free(m->throttle);
}

struct str auth_hash(const struct master *m, const char *token, struct arena *arena)
{
    unsigned char *hash = arena_alloc(arena, AUTH_HASH_BYTES);
    crypto_generichash(hash, AUTH_HASH_BYTES, (const unsigned char *)token, strlen(token),
                       m->token_key, sizeof m->token_key);
    return (struct str){(const char *)hash, AUTH_HASH_BYTES};
}

static const char *new_session(struct master *m, const struct session *session,
                               struct live_allocation *a, struct arena *arena, struct db_tx *tx)
{
    unsigned char random[TOKEN_BYTES];
    char *token = arena_alloc(arena, 2 * TOKEN_BYTES + 1);
    randombytes_buf(random, sizeof random);
    sodium_bin2hex(token, 2 * TOKEN_BYTES + 1, random, sizeof random);
    struct str hash = auth_hash(m, token, arena);
    session_add(m, hash, session, a);
    db_session_save(tx, hash, session);
    return token;
}

const char *auth_new_session(struct master *m, int64_t user_id, int64_t expires_us,
                             struct arena *arena, struct db_tx *tx)
{
    const struct session session = {.user_id = user_id, .expires_us = expires_us};
    session_end_oldest(m, user_id, tx);
    return new_session(m, &session, NULL, arena, tx);
}

const char *auth_new_task_session(struct live_allocation *a, struct arena *arena, struct db_tx *tx)
{
    const struct live_experiment *e = a->trial->experiment;
    const struct session session = {
        .user_id = e->row.user_id, .allocation_id = a->row.id, .trial_id = a->row.trial_id};
    return new_session(e->master, &session, a, arena, tx);
}

static bool has_param(const struct http_request *req, const char *name)
{
    const char *at = strstr(req->route->path, name);
    size_t n = strlen(name);
    return at && (at[n] == '}' || at[n] == ':' || at[n] == '*');
}

// Whatever a route is about must be the task's own. A job may also read checkpoints of its user's
// trials; whether they are is found out by auth_may_see().
static int check_task(struct http_request *req, struct identity *who, enum http_auth needed,
                      det_err *err)
{
    const struct trial *t = &who->trial->row;
    bool is_job = who->trial->experiment->row.kind == EXPERIMENT_GENERIC;
    if (needed == HTTP_AUTH_JOB && is_job) return http_claim(req, who->session.user_id, true, err);
    bool own = needed == HTTP_AUTH_TASK || needed == HTTP_AUTH_ANY;
    if (needed == HTTP_AUTH_JOB) own = has_param(req, "{trial");
    if (has_param(req, "{trial")) own = own && http_param_int(req, "trial") == t->id;
    if (has_param(req, "{experiment"))
        own = own && http_param_int(req, "experiment") == t->experiment_id;
    if (has_param(req, "{alloc"))
        own = own && str_eqz(http_param(req, "alloc"), who->allocation->row.id);
    if (has_param(req, "{task")) own = own && str_eqz(http_param(req, "task"), t->task_id);
    if (!own) return det_fail(err, DET_EDENIED, "a task may only call what is about its own trial");
    return http_claim(req, who->session.user_id, true, err);
}

static const char *copy(const char *text, struct arena *arena)
{
    return text ? arena_strdup(arena, text) : NULL;
}

static int check_user(struct http_request *req, struct identity *who, enum http_auth needed,
                      det_err *err)
{
    const struct user *user = user_find(req->user, who->session.user_id);
    if (!user || !user->active) return det_fail(err, DET_EAUTH, "the user is not active");
    who->user = *user;
    who->user.username = copy(user->username, req->arena);
    who->user.display_name = copy(user->display_name, req->arena);
    if (needed == HTTP_AUTH_TASK)
        return det_fail(err, DET_EDENIED, "only the task itself may call this");
    if (needed == HTTP_AUTH_ADMIN && !user->admin)
        return det_fail(err, DET_EDENIED, "only an administrator may do this");
    return http_claim(req, who->user.id, who->is_local, err);
}

static void set_task(struct http_request *req, struct identity *who, struct live_allocation *a)
{
    who->allocation = a;
    who->trial = a->trial;
    who->session = (struct session){.user_id = a->trial->experiment->row.user_id,
                                    .allocation_id = copy(a->row.id, req->arena),
                                    .trial_id = a->row.trial_id};
}

// The session that a request names: by a token, else by a browser's cookie.
static int read_session(struct http_request *req, struct identity *who, det_err *err)
{
    const char *token = http_token(req), *cookie = token ? NULL : browser_cookie(req);
    if (!token && !cookie)
        return det_fail(err, DET_EAUTH, "a token is needed: log in, or use the one of master.json");
    who->is_browser = !token;
    who->hash = token ? auth_hash(req->user, token, req->arena)
                      : browser_hash(req->user, cookie, req->arena);
    return token ? 0 : browser_check(req, err);
}

int auth_check(struct http_request *req, enum http_auth needed, det_err *err)
{
    struct master *m = req->user;
    struct identity *who = req->identity ? req->identity : arena_alloc(req->arena, sizeof *who);
    struct live_allocation *a;
    *who = (struct identity){.key = who->key};
    int rc = read_session(req, who, err);
    if (rc) return rc;
    req->identity = who;
    const struct session *session = session_find(m, who->hash, &a);
    if (!session) return det_fail(err, DET_EAUTH, "the token is not known; log in again");
    who->session = *session;
    if (session->expires_us && session->expires_us <= clock_unix_us())
        return det_fail(err, DET_EAUTH, "the token has expired; log in again");
    who->is_local = !sodium_memcmp(who->hash.ptr, m->local_hash, sizeof m->local_hash);
    if (!a) return check_user(req, who, needed, err);
    set_task(req, who, a);
    return check_task(req, who, needed, err);
}

// --- what belongs to whom

struct viewer auth_viewer(const struct http_request *req)
{
    const struct master *m = req->user;
    const struct identity *who = identity_of(req);
    return (struct viewer){
        .user_id = who->session.user_id, .admin = who->user.admin, .all_private = m->cfg->private};
}

bool viewer_owns(const struct viewer *v, int64_t owner_id)
{
    return v->admin || v->user_id == owner_id;
}

bool viewer_may_read(const struct viewer *v, const struct experiment *row)
{
    return viewer_owns(v, row->user_id) || !(row->private || v->all_private);
}

void viewer_hide(const struct viewer *v, struct experiment *row)
{
    // Who knows the name of code can create an experiment with it.
    if (!viewer_may_read(v, row)) row->code = NULL;
}

int auth_may_change(const struct http_request *req, int64_t owner_id, det_err *err)
{
    const struct viewer v = auth_viewer(req);
    if (viewer_owns(&v, owner_id)) return 0;
    return det_fail(err, DET_EDENIED, "it belongs to another user");
}

int auth_may_see(const struct http_request *req, const struct experiment *row, det_err *err)
{
    const struct identity *who = identity_of(req);
    if (!who->trial || who->session.user_id == row->user_id) return 0;
    return det_fail(err, DET_EDENIED, "a job may only read checkpoints of its own user's trials");
}

int auth_may_read(const struct http_request *req, const struct experiment *row, det_err *err)
{
    const struct viewer v = auth_viewer(req);
    int rc = auth_may_see(req, row, err);
    if (rc || viewer_may_read(&v, row)) return rc;
    return det_fail(err, DET_EDENIED,
                    "experiment %lld is private: only its owner and administrators may read this",
                    (long long)row->id);
}
