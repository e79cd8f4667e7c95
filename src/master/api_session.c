// Unit api_session.c: routes about sessions of users: which there are, and ending one.
#include "master/routes.h"

static void put_time(struct json_writer *w, const char *key, int64_t us, struct arena *arena)
{
    json_key(w, key);
    json_put_doc(w, timestamp_codec.write(arena, &us));
}

static void put_session(struct json_writer *w, const struct http_request *req,
                        const struct session_shown *s)
{
    json_open_map(w);
    json_key(w, "id");
    json_put_str(w, s->id);
    json_key(w, "userId");
    json_put_int(w, s->row.user_id);
    put_time(w, "expiresAt", s->row.expires_us, req->arena);
    json_key(w, "current");
    json_put_bool(w, str_eq(s->hash, identity_of(req)->hash));
    json_close(w);
}

// Whose sessions the caller sees: an administrator all (0), others their own.
static int64_t shown_user(const struct http_request *req)
{
    const struct identity *who = identity_of(req);
    return who->user.admin ? 0 : who->session.user_id;
}

static int list_sessions(struct http_request *req, det_err *err)
{
    const struct api_page *page = req->query;
    struct buf out = BUF_INIT(API_MAX_REPLY);
    struct json_writer w;
    size_t n;
    (void)err;
    const struct session_shown *all = sessions_list(req->user, shown_user(req), req->arena, &n);
    const struct api_slice slice = api_slice(page, n);
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, "sessions");
    json_open_list(&w);
    for (size_t i = slice.first; i < slice.end; i++)
        put_session(&w, req, &all[i]);
    json_close(&w);
    api_put_pagination(&w, (int64_t)n, NULL);
    json_close(&w);
    http_reply_json(req, 200, &out);
    return 0;
}

static int delete_session(struct http_request *req, det_err *err)
{
    size_t n;
    const struct session_shown *all = sessions_list(req->user, shown_user(req), req->arena, &n);
    for (size_t i = 0; i < n; i++) {
        if (!str_eqz(http_param(req, "session"), all[i].id)) continue;
        int rc;
        struct db_tx *tx = api_begin(req, &rc, err);
        if (!tx) return rc;
        session_end(req->user, all[i].hash, tx);
        return api_finish(req, tx, 0, NULL);
    }
    return det_fail(err, DET_ENOTFOUND, "there is no such session, or it is somebody else's");
}

static const struct http_route routes[] = {
    {HTTP_GET, "/api/v1/sessions", .handle = list_sessions, .query = &api_slice_table,
     .summary = "Sessions of the caller; an administrator sees those of all users."},
    {HTTP_DELETE, "/api/v1/sessions/{session}", .handle = delete_session,
     .summary = "Ends a session."},
};

const struct http_table session_routes = HTTP_TABLE(routes);
