// What the server promises to handlers and to well-behaved clients.
#include "support/serve.h"

#include "doc/json.h"

// --- a small API

struct point {
    int64_t x;
    const char *name;
    bool flag;
    LIST_OF(int64_t) ids;
};

static const struct field id_item = {.name = "", .type = FIELD_INT};

// clang-format off
static const struct field point_rows[] = {
    {"x", FIELD_INT, offsetof(struct point, x), .def = "7", FIELD_RANGE(0, 100), .help = "Where."},
    {"longName", FIELD_STR, offsetof(struct point, name), .help = "What."},
    {"flag", FIELD_BOOL, offsetof(struct point, flag), .help = "Whether."},
    {"ids", FIELD_LIST, offsetof(struct point, ids), .item = &id_item, .help = "Which."},
};
// clang-format on
static const struct field_table point_table = {.size = sizeof(struct point),
                                               FIELD_ROWS(point_rows)};

static struct http_request *waiting;
static struct http_stream *stream;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int n_waiting, n_closed;

static void count(int *counter)
{
    pthread_mutex_lock(&lock);
    ++*counter;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void wait_for(const int *counter, int value)
{
    pthread_mutex_lock(&lock);
    while (*counter < value)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static int handle_echo(struct http_request *req, det_err *err)
{
    (void)err;
    http_reply_output(req, req->input ? req->input : req->query);
    return 0;
}

static int handle_item(struct http_request *req, det_err *err)
{
    if (http_param_int(req, "id") == 13) return det_fail(err, DET_ESTATE, "item 13 is \"broken\"");
    struct str name = http_param(req, "name");
    http_reply(req, 200, "text/plain",
               str_from(arena_printf(req->arena, "%lld:%.*s", (long long)http_param_int(req, "id"),
                                     STR_ARG(name))));
    return 0;
}

static int handle_rest(struct http_request *req, det_err *err)
{
    (void)err;
    http_reply(req, 200, "text/plain", http_param(req, "path"));
    return 0;
}

static int handle_later(struct http_request *req, det_err *err)
{
    (void)err;
    waiting = req;
    count(&n_waiting);
    return http_later(req);
}

static int handle_who(struct http_request *req, det_err *err)
{
    (void)err;
    http_reply(req, 200, "text/plain", str_from(req->identity));
    return 0;
}

static void on_closed(void *ctx)
{
    (void)ctx;
    count(&n_closed);
}

static int handle_events(struct http_request *req, det_err *err)
{
    (void)err;
    stream = http_stream_start(req, &(struct http_stream_opts){.closed = on_closed});
    count(&n_waiting);
    return 0;
}

static int handle_changes(struct http_request *req, det_err *err)
{
    (void)err;
    const struct http_stream_opts opts = {.closed = on_closed, .resyncs = true};
    stream = http_stream_start(req, &opts);
    count(&n_waiting);
    return 0;
}

static void pull_line(void *ctx, struct http_stream *s)
{
    int *n = ctx;
    char line[64];
    snprintf(line, sizeof line, "{\"n\":%d}\n", ++*n);
    http_stream_write(s, str_from(line));
    if (*n == 1000) http_stream_end(s);
}

static int handle_lines(struct http_request *req, det_err *err)
{
    (void)err;
    int *n = arena_alloc(req->arena, sizeof *n);
    http_stream_start(req, &(struct http_stream_opts){.pull = pull_line, .ctx = n});
    return 0;
}

static int handle_file(struct http_request *req, det_err *err)
{
    return http_reply_file(req, temp_path("file"), "application/octet-stream", "a \"b\"/c", err);
}

static int authenticate(struct http_request *req, enum http_auth needed, det_err *err)
{
    const char *token = http_token(req);
    if (!token) return det_fail(err, DET_EAUTH, "log in first");
    if (needed == HTTP_AUTH_ADMIN && strcmp(token, "root") != 0)
        return det_fail(err, DET_EDENIED, "only root may do this");
    req->identity = (void *)(uintptr_t)token;
    return 0;
}

// clang-format off
static const struct http_route routes[] = {
    {HTTP_POST, "/echo", HTTP_AUTH_NONE, .handle = handle_echo, .max_body = 1000, .input = &point_table, .output = &point_table},
    {HTTP_GET, "/echo", HTTP_AUTH_NONE, .handle = handle_echo, .query = &point_table, .output = &point_table},
    {HTTP_GET, "/items/{id:int}/{name}", HTTP_AUTH_NONE, .handle = handle_item},
    {HTTP_GET, "/rest/{path*}", HTTP_AUTH_NONE, .handle = handle_rest},
    {HTTP_POST, "/later", HTTP_AUTH_NONE, .handle = handle_later},
    {HTTP_GET, "/events", HTTP_AUTH_NONE, .handle = handle_events, .content = HTTP_EVENTS},
    {HTTP_GET, "/changes", HTTP_AUTH_NONE, .handle = handle_changes, .content = HTTP_EVENTS},
    {HTTP_GET, "/lines", HTTP_AUTH_NONE, .handle = handle_lines, .content = HTTP_LINES},
    {HTTP_GET, "/file", HTTP_AUTH_NONE, .handle = handle_file, .content = HTTP_BYTES},
    {HTTP_GET, "/me", HTTP_AUTH_USER, .handle = handle_who},
    {HTTP_POST, "/admin", HTTP_AUTH_ADMIN, .handle = handle_who},
};
// clang-format on
static const struct http_table tables[] = {HTTP_TABLE(routes)};

static struct serve serve;

static int setup(void **state)
{
    (void)state;
    const struct http_server_opts opts = {
        .tables = tables, .n_tables = 1, .authenticate = authenticate};
    n_waiting = n_closed = 0;
    serve_start(&serve, &opts);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    serve_stop(&serve);
    return 0;
}

// One request on a connection of its own.
static const char *ask(struct buf *out, const char *head, const char *body)
{
    char text[4096];
    snprintf(text, sizeof text,
             "%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
             "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
             head, strlen(body), body);
    int fd = dial(&serve);
    say(fd, text);
    buf_clear(out);
    return hear_all(fd, out);
}

#define assert_answer(response, status, text)                             \
    do {                                                                  \
        const char *r_ = (response);                                      \
        if (status_of(r_) != (status) || !strstr(body_of(r_), text))      \
            fail_msg("expected %d '%s', got:\n%s", (status), (text), r_); \
    } while (0)

// --- routes

static void test_route__finds_parameters_and_decodes_them_after_splitting(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1 << 20);
    assert_answer(ask(&out, "GET /items/42/a%20b", ""), 200, "42:a b");
    assert_answer(ask(&out, "GET /items/42/a%2Fb", ""), 200, "42:a/b");
    assert_answer(ask(&out, "GET /items/x/a", ""), 404, "there is nothing at GET /items/x/a");
    assert_answer(ask(&out, "GET /items/42/", ""), 404, "");
    assert_answer(ask(&out, "GET /items/42/a%00b", ""), 400, "not UTF-8");
    assert_answer(ask(&out, "GET /items/42/%ff", ""), 400, "not UTF-8");
    assert_answer(ask(&out, "GET /items/42/%4", ""), 400, "not UTF-8");
    assert_answer(ask(&out, "GET /items/99999999999999999999/a", ""), 404, "");
    assert_answer(ask(&out, "GET /rest/a/b%2e/../c", ""), 200, "a/b./../c");
    buf_done(&out);
}

static void test_route__tells_a_wrong_method_from_a_wrong_path(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1 << 20);
    assert_answer(ask(&out, "DELETE /echo", ""), 405, "but POST, GET is");
    assert_non_null(strstr(out.ptr, "Allow: POST, GET\r\n"));
    assert_answer(ask(&out, "BREW /echo", ""), 405, "");
    assert_answer(ask(&out, "HEAD /echo", ""), 200, "");
    assert_string_equal(body_of(out.ptr), "");
    buf_done(&out);
}

// --- input

static void test_input__becomes_a_struct_with_defaults(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1 << 20);
    assert_answer(ask(&out, "POST /echo", "{\"long_name\":\"n\",\"x\":\"12\"}"), 200,
                  "{\"x\":12,\"longName\":\"n\",\"flag\":false,\"ids\":");
    assert_answer(ask(&out, "POST /echo", ""), 200, "{\"x\":7,");
    assert_answer(ask(&out, "GET /echo?x=3&long_name=a%26b+c&flag=true&ids=1,2&ids=3&z=1", ""), 200,
                  "{\"x\":3,\"longName\":\"a&b c\",\"flag\":true,\"ids\":[1,2,3]}");
    buf_done(&out);
}

static void test_input__that_is_wrong_is_refused_with_reasons(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1 << 20);
    assert_answer(
        ask(&out, "POST /echo", "{\"x\":101,\"flag\":3}"), 400,
        "\"errors\":[{\"path\":\"x\",\"detail\":\"must be between 0 and 100, found 101\"},"
        "{\"path\":\"flag\"");
    assert_answer(ask(&out, "POST /echo", "{\"x\":1,"), 400, "body");
    assert_answer(ask(&out, "POST /echo", "[]"), 400, "must be a map");
    assert_answer(ask(&out, "POST /echo", "{\"longName\":\"a\",\"long_name\":\"b\"}"), 400,
                  "twice");
    assert_answer(ask(&out, "GET /echo?x=abc", ""), 400, "\"path\":\"x\"");
    assert_answer(ask(&out, "POST /echo", "{\"long_nam\":\"n\"}"), 400,
                  "\"path\":\"long_nam\",\"detail\":\"unknown field; did you mean 'longName'?\"");
    buf_done(&out);
}

static void test_input__must_be_declared_as_json(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1 << 20);
    int fd = dial(&serve);
    say(fd, "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
            "Connection: close\r\nContent-Length: 2\r\n\r\n{}");
    assert_answer(hear_all(fd, &out), 415, "Content-Type: application/json");
    buf_done(&out);
}

// --- answers

static void test_failure__becomes_a_problem_with_the_errors_status(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1 << 20);
    assert_answer(ask(&out, "GET /items/13/a", ""), 409, "\"code\":\"DET_ESTATE\"");
    assert_non_null(strstr(out.ptr, "Content-Type: application/problem+json\r\n"));
    assert_non_null(strstr(out.ptr, "item 13 is \\\"broken\\\""));
    struct arena arena = ARENA_INIT;
    struct diag_list diags = DIAG_INIT(&arena);
    const struct doc *doc = json_parse(&arena, str_from(body_of(out.ptr)), NULL, &diags);
    assert_int_equal(doc_find(doc, "status")->integer, 409);
    assert_int_equal(doc_find(doc_find(doc, "error"), "code")->integer, 409);
    arena_done(&arena);
    buf_done(&out);
}

static void answer_waiting(void *ctx)
{
    (void)ctx;
    http_reply_empty(waiting);
}

static void test_answer__may_come_later(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1 << 20), other = BUF_INIT(1 << 20);
    int fd = dial(&serve);
    say(fd, "POST /later HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    wait_for(&n_waiting, 1);
    assert_answer(ask(&other, "GET /items/1/meanwhile", ""), 200, "1:meanwhile");
    serve_call(&serve, answer_waiting, NULL);
    assert_int_equal(status_of(hear_until(fd, &out, "{}")), 200);
    close(fd);
    buf_done(&out);
    buf_done(&other);
}

static void test_connection__serves_pipelined_requests_in_order(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1 << 20);
    int fd = dial(&serve);
    say(fd, "GET /items/1/a HTTP/1.1\r\nHost: localhost\r\n\r\n"
            "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            "Transfer-Encoding: chunked\r\n\r\n2\r\n{\"\r\n6\r\nx\": 9}\r\n0\r\n\r\n"
            "GET /items/2/b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    hear_all(fd, &out);
    const char *first = strstr(out.ptr, "1:a"), *second = strstr(out.ptr, "{\"x\":9,"),
               *third = strstr(out.ptr, "2:b");
    assert_true(first && second && third && first < second && second < third);
    buf_done(&out);
}

static void test_file__is_sent_whole_with_a_safe_name(void **state)
{
    (void)state;
    enum { N = 300000 };
    struct buf out = BUF_INIT(1 << 20);
    char *bytes = malloc(N);
    for (int i = 0; i < N; i++)
        bytes[i] = (char)(i % 251 + 1);
    write_bytes(temp_path("file"), bytes, N);
    ask(&out, "GET /file", "");
    assert_int_equal(status_of(out.ptr), 200);
    assert_non_null(strstr(out.ptr, "filename=\"a _b__c\""));
    const char *body = body_of(out.ptr);
    assert_int_equal(out.ptr + out.len - body, N);
    assert_memory_equal(body, bytes, N);
    free(bytes);
    unlink(temp_path("file"));
    assert_answer(ask(&out, "GET /file", ""), 404, "No such file");
    buf_done(&out);
}

// --- rights

static void test_auth__is_asked_before_the_handler(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1 << 20);
    assert_answer(ask(&out, "GET /me", ""), 401, "log in first");
    assert_non_null(strstr(out.ptr, "WWW-Authenticate: Bearer"));
    assert_answer(ask(&out, "GET /me HTTP/1.1\r\nAuthorization: Bearer ann\r\nX:", ""), 200, "ann");
    assert_answer(ask(&out, "POST /admin HTTP/1.1\r\nauthorization: bearer ann\r\nX:", "abc"), 403,
                  "only root");
    assert_answer(
        ask(&out, "GET /me HTTP/1.1\r\nGrpc-Metadata-x-allocation-token: Bearer task\r\nX:", ""),
        200, "task");
    buf_done(&out);
}

static void test_connection__survives_a_refused_request_with_a_body(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1 << 20);
    int fd = dial(&serve);
    say(fd, "POST /admin HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n");
    say(fd, "some body");
    say(fd, "GET /items/5/next HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    hear_all(fd, &out);
    assert_int_equal(status_of(out.ptr), 401);
    assert_non_null(strstr(out.ptr, "5:next"));
    buf_done(&out);
}

// --- streams

static void send_two(void *ctx)
{
    (void)ctx;
    http_send_event(stream, "1", "metrics", STR("{\"a\":1}"));
    http_send_event(stream, NULL, NULL, STR("two\nlines"));
}

static void end_stream(void *ctx)
{
    (void)ctx;
    http_stream_end(stream);
}

static void test_events__reach_the_client_as_they_happen(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1 << 20);
    int fd = dial(&serve);
    say(fd, "GET /events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    hear_until(fd, &out, "\r\n\r\n");
    assert_non_null(strstr(out.ptr, "Content-Type: text/event-stream"));
    wait_for(&n_waiting, 1);
    serve_call(&serve, send_two, NULL);
    hear_until(fd, &out, "id: 1\nevent: metrics\ndata: {\"a\":1}\n\n");
    hear_until(fd, &out, "data: two\ndata: lines\n\n");
    assert_int_equal(n_closed, 0);
    serve_call(&serve, end_stream, NULL);
    hear_all(fd, &out);
    wait_for(&n_closed, 1);
    buf_done(&out);
}

static void flood(void *ctx)
{
    (void)ctx;
    char line[1024];
    memset(line, 'x', sizeof line);
    for (int i = 0; i < 20000; i++) // more than any socket buffer and the queue
        http_stream_write(stream, (struct str){line, sizeof line});
}

static void test_stream__of_a_client_that_lags_behind_is_dropped(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(64 << 20);
    int fd = dial(&serve);
    say(fd, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    wait_for(&n_waiting, 1);
    serve_call(&serve, flood, NULL);
    hear_all(fd, &out); // closed without the end of the chunks
    assert_null(strstr(out.ptr, "\r\n0\r\n\r\n"));
    wait_for(&n_closed, 1);
    buf_done(&out);
}

static void flood_events(void *ctx)
{
    int *n_next = ctx;
    char text[4096];
    for (int i = 0; i < 5000; i++) { // 20 MB
        snprintf(text, sizeof text, "%-*d", (int)sizeof text - 1, (*n_next)++);
        http_send_event(stream, NULL, "change", str_from(text));
    }
}

struct queued {
    size_t n;
};

static void look_at_queue(void *ctx)
{
    ((struct queued *)ctx)->n = http_stream_queued(stream);
}

// Every event that comes is whole: what does not fit is missing, and an event says so.
static void test_changes__are_replaced_by_a_word_if_the_client_lags_behind(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(64 << 20);
    struct queued queued;
    int n_next = 1;
    int fd = dial(&serve);
    say(fd, "GET /changes HTTP/1.0\r\n\r\n"); // 1.0 knows no chunks
    wait_for(&n_waiting, 1);
    for (int i = 0; i < 3; i++) {
        serve_call(&serve, flood_events, &n_next);
        serve_call(&serve, look_at_queue, &queued);
        assert_true(queued.n < 1 << 20);
    }
    hear_until(fd, &out, "event: resync\ndata: {}\n\n");
    serve_call(&serve, send_two, NULL); // it goes on
    hear_until(fd, &out, "data: two\ndata: lines\n\n");
    serve_call(&serve, end_stream, NULL);
    hear_all(fd, &out);
    int n_events = 0, n_resyncs = 0;
    struct str rest = str_from(body_of(out.ptr));
    for (const char *end; (end = memmem(rest.ptr, rest.len, "\n\n", 2)); n_events++) {
        struct str one = {rest.ptr, (size_t)(end - rest.ptr)};
        n_resyncs += str_eqz(one, "event: resync\ndata: {}");
        bool is_change = str_starts(one, STR("event: change\ndata: "));
        if (is_change) assert_int_equal(one.len, strlen("event: change\ndata: ") + 4095);
        rest = (struct str){end + 2, rest.len - one.len - 2};
    }
    assert_int_equal(rest.len, 0);
    assert_true(n_resyncs >= 1);
    assert_true(n_events > 3);
    buf_done(&out);
}

// In the server's thread, whose stream and count these are.
static void beat_dead_stream(void *ctx)
{
    bool *is_closed = ctx;
    *is_closed = n_closed;
    if (!n_closed) http_stream_write(stream, STR(":\n\n"));
}

static void test_stream__ends_when_the_client_is_gone(void **state)
{
    (void)state;
    int fd = dial(&serve);
    say(fd, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    wait_for(&n_waiting, 1);
    close(fd);
    bool is_closed = false;
    for (int i = 0; i < 1000 && !is_closed; i++)
        serve_call(&serve, beat_dead_stream, &is_closed);
    wait_for(&n_closed, 1);
}

static void test_lines__are_pulled_until_the_end(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1 << 20);
    int fd = dial(&serve);
    say(fd, "GET /lines HTTP/1.0\r\n\r\n"); // 1.0 knows no chunks
    hear_all(fd, &out);
    assert_non_null(strstr(out.ptr, "{\"n\":1}\n{\"n\":2}\n"));
    assert_non_null(strstr(out.ptr, "{\"n\":1000}\n"));
    buf_done(&out);
}

// --- life

static void test_server__stops_with_streams_and_requests_waiting(void **state)
{
    (void)state;
    int a = dial(&serve), b = dial(&serve);
    struct buf out = BUF_INIT(1 << 20);
    say(a, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    wait_for(&n_waiting, 1);
    say(b, "POST /later HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    wait_for(&n_waiting, 2);
    serve_stop(&serve);
    assert_int_equal(n_closed, 1);
    assert_string_equal(body_of(hear_all(b, &out)), "");
    close(a);
    buf_done(&out);
    setup(NULL);
}

static void test_server__says_why_it_cannot_listen(void **state)
{
    (void)state;
    det_err err = {0};
    struct loop *loop = loop_new(&err);
    struct http_server_opts opts = {.port = serve.port};
    assert_null(http_server_new(loop, &opts, &err));
    assert_failed_with(&err, DET_ESTATE, "Address already in use");
    opts = (struct http_server_opts){.host = "0.0.0.0"};
    assert_null(http_server_new(loop, &opts, &err));
    assert_failed_with(&err, DET_EINVAL, "without TLS");
    opts = (struct http_server_opts){.tls_cert = "/nowhere.pem"};
    assert_null(http_server_new(loop, &opts, &err));
    assert_failed_with(&err, DET_EINVAL, "both a certificate and a key");
    loop_free(loop);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_route__finds_parameters_and_decodes_them_after_splitting),
        T(test_route__tells_a_wrong_method_from_a_wrong_path),
        T(test_input__becomes_a_struct_with_defaults),
        T(test_input__that_is_wrong_is_refused_with_reasons),
        T(test_input__must_be_declared_as_json),
        T(test_failure__becomes_a_problem_with_the_errors_status),
        T(test_answer__may_come_later),
        T(test_connection__serves_pipelined_requests_in_order),
        T(test_file__is_sent_whole_with_a_safe_name),
        T(test_auth__is_asked_before_the_handler),
        T(test_connection__survives_a_refused_request_with_a_body),
        T(test_events__reach_the_client_as_they_happen),
        T(test_stream__of_a_client_that_lags_behind_is_dropped),
        T(test_changes__are_replaced_by_a_word_if_the_client_lags_behind),
        T(test_stream__ends_when_the_client_is_gone),
        T(test_lines__are_pulled_until_the_end),
        T(test_server__stops_with_streams_and_requests_waiting),
        T(test_server__says_why_it_cannot_listen),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
