// master/auth.h: who calls. Private to the layer.
#pragma once

#include "master/state.h"

// What the database says about the Idempotency-Key of a request.
struct key_read {
    bool is_read;
    uint64_t at; // see record_writes_now()
    bool used;
    int64_t last; // number of its journal; 0: none
};

// Left in http_request.identity. What it points to is on the loop and nobody else's, except texts,
// which live as long as the request.
struct identity {
    struct session session;
    struct user user;         // whose session it is; not of a task
    struct live_trial *trial; // of a task
    struct live_allocation *allocation;
    struct key_read key; // stays when the rights are checked again
    struct str hash;     // of the session
    bool is_local;       // with the token of master.json
    bool is_browser;     // with a cookie
};

static inline struct identity *identity_of(const struct http_request *req)
{
    return req->identity;
}

int auth_open(struct master *m, det_err *err); // the key that tokens are hashed with
void auth_close(struct master *m);

// For the server. A task may only call what is about its own trial, and that is decided here, by
// the names of the route's parameters.
int auth_check(struct http_request *req, enum http_auth needed, det_err *err);

// A new token, in the arena, that counts from now on; the database gets its hash. If tx fails,
// nobody must hear of it.
const char *auth_new_session(struct master *m, int64_t user_id, int64_t expires_us,
                             struct arena *arena, struct db_tx *tx);
const char *auth_new_task_session(struct live_allocation *a, struct arena *arena, struct db_tx *tx);
struct str auth_hash(const struct master *m, const char *token, struct arena *arena);

// Who looks at something: of a request, or of a stream that goes on.
struct viewer {
    int64_t user_id;
    bool admin;
    bool all_private; // the master says that every experiment is
};

struct viewer auth_viewer(const struct http_request *req);

// Whether what belongs to a user is the viewer's own, or they are an administrator.
bool viewer_owns(const struct viewer *v, int64_t owner_id);

// Whether they may read the code, the logs and the files of an experiment.
bool viewer_may_read(const struct viewer *v, const struct experiment *row);

// Takes out of the record what the viewer may not see.
void viewer_hide(const struct viewer *v, struct experiment *row);

// DET_EDENIED unless the caller owns what belongs to a user, or is an administrator.
int auth_may_change(const struct http_request *req, int64_t owner_id, det_err *err);

// DET_EDENIED if the caller is a task of another user than the experiment's.
int auth_may_see(const struct http_request *req, const struct experiment *row, det_err *err);

// DET_EDENIED unless the caller may read the code, the logs and the files of an experiment.
int auth_may_read(const struct http_request *req, const struct experiment *row, det_err *err);

// --- sessions.c: users and sessions as they are in memory. The database has them, too: functions
// with a transaction change both.

void sessions_open(struct master *m);
int sessions_load(struct master *m, struct db_reader *r, det_err *err); // after the allocations
void sessions_close(struct master *m);

const struct user *user_find(const struct master *m, int64_t id); // NULL: none
void user_put(struct master *m, const struct user *row);          // new, or in place of an old one

// a: the task's, if it is one. Known from now on.
struct live_session *session_add(struct master *m, struct str hash, const struct session *row,
                                 struct live_allocation *a);
const struct session *session_find(const struct master *m, struct str hash,
                                   struct live_allocation **allocation); // NULL: none
void session_end(struct master *m, struct str hash, struct db_tx *tx);   // tx NULL: only in memory
void session_end_oldest(struct master *m, int64_t user_id, struct db_tx *tx);   // if there are many
void sessions_end_of_user(struct master *m, int64_t user_id, struct db_tx *tx); // not of tasks
void sessions_end_expired(struct master *m, struct db_tx *tx);

// Sessions of users, not of tasks, nor the one of master.json. id is what people know one by, and
// says nothing about its token: the beginning of the hash.
enum { SESSION_ID_BYTES = 17 }; // with the NUL
struct session_shown {
    char id[SESSION_ID_BYTES];
    struct session row;
    struct str hash;
};
// Of one user, or, with 0, of all; newest last. In the arena.
struct session_shown *sessions_list(const struct master *m, int64_t user_id, struct arena *a,
                                    size_t *n);

// The run has ended: its token is worth nothing any more.
void auth_forget_session(struct master *m, struct live_allocation *a);
