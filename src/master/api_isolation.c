// Unit api_isolation.c: routes about the master for those who use it, and about the Unix users that
// tasks run as.
#include "master/isolation.h"
#include "master/routes.h"

static void put_text(struct json_writer *w, const char *key, const char *text)
{
    json_key(w, key);
    json_put_str(w, text);
}

static int get_info(struct http_request *req, det_err *err)
{
    const struct master *m = req->user;
    struct buf out = BUF_INIT(64 << 10), missing = BUF_INIT(4096);
    struct buf memory = BUF_INIT(256), processes = BUF_INIT(256);
    struct json_writer w;
    (void)err;
    isolation_explain(m, &missing);
    isolation_explain_limits(m, &memory, &processes);
    json_init(&w, &out, 0);
    json_open_map(&w);
    put_text(&w, "version", m->opts.version);
    put_text(&w, "clusterId", m->cluster_id);
    put_text(&w, "url", m->url);
    put_text(&w, "dataDir", m->data_dir);
    put_text(&w, "database", db_name(m->db));
    put_text(&w, "isolation", sandbox_mode_names[isolation_mode(m)]);
    put_text(&w, "notInForce", missing.len ? missing.ptr : "");
    put_text(&w, "taskMemory", memory.ptr);
    put_text(&w, "taskProcesses", processes.ptr);
    put_text(&w, "configFile", m->opts.config_file);
    json_key(&w, "settings");
    json_put_doc(&w, m->settings);
    json_close(&w);
    http_reply_json(req, 200, &out);
    buf_done(&missing);
    buf_done(&memory);
    buf_done(&processes);
    return 0;
}

// --- Unix users

#define F(member, ...) \
    .type = FIELD_INT, .offset = offsetof(struct agent_user, member), .required = true, __VA_ARGS__
static const struct field link_fields[] = {
    {.name = "uid", F(uid, FIELD_RANGE(1, UINT32_MAX - 1), .help = "Number of the Unix user.")},
    {.name = "gid", F(gid, FIELD_RANGE(0, UINT32_MAX - 1), .help = "Number of the Unix group.")},
};
#undef F
static const struct field_table link_table = {.size = sizeof(struct agent_user),
                                              FIELD_ROWS(link_fields)};

static int get_link(struct http_request *req, det_err *err)
{
    struct agent_user link;
    int rc = isolation_find_link(req->user, http_param_int(req, "user"), &link, err);
    if (!rc) api_reply_record(req, "agentUser", &link_table, &link);
    return rc;
}

static int set_link(struct http_request *req, const struct agent_user *link, det_err *err)
{
    struct master *m = req->user;
    int64_t id = http_param_int(req, "user");
    int rc;
    if (!isolation_knows(m, id))
        return det_fail(err, DET_ENOTFOUND, "there is no user %lld", (long long)id);
    struct db_tx *tx = api_begin(req, &rc, err);
    if (!tx) return rc;
    isolation_link(m, id, link, tx);
    return api_finish(req, tx, 0, NULL);
}

static int put_link(struct http_request *req, det_err *err)
{
    return set_link(req, req->input, err);
}

static int delete_link(struct http_request *req, det_err *err)
{
    return set_link(req, NULL, err);
}

static const struct http_route routes[] = {
    {HTTP_GET, "/api/v1/master/info", .handle = get_info,
     .summary = "The master, and how it isolates tasks."},
    {HTTP_GET, "/api/v1/users/{user:int}/agent-user", .handle = get_link,
     .summary = "The Unix user that a user is linked with."},
    {HTTP_PUT, "/api/v1/users/{user:int}/agent-user", .auth = HTTP_AUTH_ADMIN, .handle = put_link,
     .input = &link_table, .summary = "Links a user with a Unix user."},
    {HTTP_DELETE, "/api/v1/users/{user:int}/agent-user", .auth = HTTP_AUTH_ADMIN,
     .handle = delete_link, .summary = "Ends the link with a Unix user."},
};

const struct http_table isolation_routes = HTTP_TABLE(routes);
