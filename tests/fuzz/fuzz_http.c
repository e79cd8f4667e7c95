// Fuzz target http: a connection on which anything is said. Whatever it is, the answer (if any) is
// HTTP, and afterwards the connection is gone.
#include "fuzz.h"

#include "base/assert.h"
#include "http/http.h"
#include <sys/socket.h>
#include <unistd.h>

struct item {
    int64_t x;
    const char *name;
    bool flag;
    LIST_OF(int64_t) ids;
    const struct doc *more;
};

#define I(member) offsetof(struct item, member)
static const struct field id_item = {.name = "", .type = FIELD_INT};
// clang-format off
static const struct field item_rows[] = {
    {"x", FIELD_INT, I(x), .def = "7", FIELD_RANGE(0, 100)},
    {"longName", FIELD_STR, I(name), .help = ""},
    {"flag", FIELD_BOOL, I(flag), .help = ""},
    {"ids", FIELD_LIST, I(ids), .item = &id_item},
    {"more", FIELD_MAP, I(more), .help = ""},
};
// clang-format on
static const struct field_table item_table = {.size = sizeof(struct item), FIELD_ROWS(item_rows)};

static int handle_item(struct http_request *req, det_err *err)
{
    http_cookie(req, "auth");
    if (http_param_int(req, "id") == 13) return det_fail(err, DET_ESTATE, "broken");
    http_reply_output(req, req->query);
    return 0;
}

static int handle_post(struct http_request *req, det_err *err)
{
    (void)err;
    http_reply_output(req, req->input);
    return 0;
}

static int handle_rest(struct http_request *req, det_err *err)
{
    (void)err;
    http_reply(req, 200, "text/plain", http_param(req, "path"));
    return 0;
}

static void pull(void *ctx, struct http_stream *stream)
{
    http_send_event(stream, "1", "x", (struct str){ctx, strlen(ctx)});
    http_stream_end(stream);
}

static int handle_events(struct http_request *req, det_err *err)
{
    (void)err;
    const char *id = http_header(req, "Last-Event-ID");
    http_stream_start(req, &(struct http_stream_opts){
                               .pull = pull, .ctx = (void *)(uintptr_t)(id ? id : "none")});
    return 0;
}

static int authenticate(struct http_request *req, enum http_auth needed, det_err *err)
{
    (void)needed;
    return http_token(req) ? 0 : det_fail(err, DET_EAUTH, "who are you?");
}

// clang-format off
static const struct http_route routes[] = {
    {HTTP_GET, "/items/{id:int}/{name}", HTTP_AUTH_NONE, .handle = handle_item,
     .query = &item_table, .output = &item_table},
    {HTTP_DELETE, "/items/{id:int}/{name}", .handle = handle_item, .query = &item_table,
     .output = &item_table},
    {HTTP_POST, "/items", HTTP_AUTH_NONE, .handle = handle_post, .max_body = 500,
     .input = &item_table, .output = &item_table},
    {HTTP_GET, "/rest/{path*}", HTTP_AUTH_NONE, .handle = handle_rest},
    {HTTP_GET, "/events", HTTP_AUTH_NONE, .handle = handle_events, .content = HTTP_EVENTS},
};
// clang-format on
static const struct http_table tables[] = {HTTP_TABLE(routes)};

static struct loop *loop;

static struct http_server *server(void)
{
    static struct http_server *one;
    if (one) return one;
    loop = loop_new(NULL);
    one = http_server_new(
        loop,
        &(struct http_server_opts){.tables = tables, .n_tables = 1, .authenticate = authenticate},
        NULL);
    ASSERT(one);
    return one;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char http[] = "HTTP/1.1 ";
    char answer[4096];
    struct http_server *s = server();
    int ends[2], socket_type = SOCK_STREAM | SOCK_NONBLOCK;
    ssize_t n;
    ASSERT(socketpair(AF_UNIX, socket_type, 0, ends) == 0);
    if (size && send(ends[0], data, size, MSG_NOSIGNAL) < 0) size = 0;
    ASSERT(http_server_adopt(s, ends[1], NULL) == 0);
    // The end must come after everything was read: libmicrohttpd sees it as an event of its own.
    for (int i = 0; i < 4; i++)
        loop_run_once(loop, 0);
    shutdown(ends[0], SHUT_WR);
    bool is_first = true;
    for (int i = 0; (n = recv(ends[0], answer, sizeof answer, 0)) != 0; i++) {
        if (n > 0 && is_first) ASSERT(!memcmp(answer, http, MIN((size_t)n, strlen(http))));
        if (n > 0) is_first = false;
        if (n < 0 && http_server_stats(s)->n_connections == 0) break;
        ASSERT(i < 10000);
        loop_run_once(loop, 0);
    }
    close(ends[0]);
    for (int i = 0; http_server_stats(s)->n_connections; i++) {
        ASSERT(i < 10000);
        loop_run_once(loop, 0);
    }
    return 0;
}
