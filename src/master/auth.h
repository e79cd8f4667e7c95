// master/auth.h: who calls. Private to the layer.
#pragma once

#include "master/state.h"

// Left in http_request.identity.
struct identity {
    struct session session;
    struct user user;         // whose session it is; of a task: who owns the experiment
    struct live_trial *trial; // of a task
    struct live_allocation *allocation;
    bool is_local; // with the token of master.json
    bool waits;    // the request is answered later
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

// A new token, in the arena; the database gets its hash.
const char *auth_new_session(struct master *m, const struct session *session, struct arena *arena,
                             struct db_tx *tx);
struct str auth_hash(const struct master *m, const char *token, struct arena *arena);

// The run has ended: its token is worth nothing any more.
void auth_forget_session(struct master *m, struct live_allocation *a);

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
