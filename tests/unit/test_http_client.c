// What the client promises, against the real server.
#include "support/serve.h"

#include "http/sse.h"

static struct http_stream *stream;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int n_hanging;

static int handle_echo(struct http_request *req, det_err *err)
{
    (void)err;
    const char *key = http_header(req, "Idempotency-Key"), *token = http_token(req);
    http_reply(req, 201, "application/json",
               str_from(arena_printf(req->arena,
                                     "{\"method\":\"%s\",\"body\":\"%.*s\",\"key\":\"%s\","
                                     "\"token\":\"%s\",\"q\":\"%s\",\"segment\":\"%s\"}",
                                     http_method_name(req->route->method), STR_ARG(req->body),
                                     key ? key : "", token ? token : "",
                                     http_query(req, "q") ? http_query(req, "q") : "",
                                     http_param(req, "x").ptr)));
    return 0;
}

static int handle_fail(struct http_request *req, det_err *err)
{
    http_set_header(req, "Retry-After", "7");
    return det_fail(err, DET_EBUSY, "come back later");
}

static _Atomic bool is_standby;

static int handle_turn(struct http_request *req, det_err *err)
{
    if (is_standby) return det_fail(err, DET_EUNREACHABLE, "not my turn");
    http_reply(req, 200, "text/plain", STR("mine"));
    return 0;
}

static int handle_plain(struct http_request *req, det_err *err)
{
    (void)err;
    http_reply(req, 502, "text/html", STR("<html>"));
    return 0;
}

static int handle_hang(struct http_request *req, det_err *err)
{
    (void)err;
    pthread_mutex_lock(&lock);
    n_hanging++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return http_later(req);
}

static void pull_events(void *ctx, struct http_stream *s)
{
    int *n = ctx;
    char id[16];
    snprintf(id, sizeof id, "%d", ++*n);
    http_send_event(s, id, *n % 2 ? "odd" : NULL, STR("first\nsecond"));
    if (*n == 4) http_stream_end(s);
}

static int handle_events(struct http_request *req, det_err *err)
{
    (void)err;
    const char *last = http_header(req, "Last-Event-ID");
    int *n = arena_alloc(req->arena, sizeof *n);
    if (last) *n = last[0] - '0';
    stream = http_stream_start(req, &(struct http_stream_opts){.pull = pull_events, .ctx = n});
    return 0;
}

static int handle_lines(struct http_request *req, det_err *err)
{
    (void)err;
    http_reply(req, 200, "text/plain", STR("a\r\nb\n\nlast"));
    return 0;
}

// clang-format off
static const struct http_route routes[] = {
    {HTTP_GET, "/echo/{x}", HTTP_AUTH_NONE, .handle = handle_echo},
    {HTTP_POST, "/echo/{x}", HTTP_AUTH_NONE, .handle = handle_echo},
    {HTTP_PATCH, "/echo/{x}", HTTP_AUTH_NONE, .handle = handle_echo},
    {HTTP_DELETE, "/echo/{x}", HTTP_AUTH_NONE, .handle = handle_echo},
    {.path = "/fail", HTTP_AUTH_NONE, .handle = handle_fail},
    {.path = "/turn", HTTP_AUTH_NONE, .handle = handle_turn},
    {.path = "/plain", HTTP_AUTH_NONE, .handle = handle_plain},
    {.path = "/hang", HTTP_AUTH_NONE, .handle = handle_hang},
    {.path = "/events", HTTP_AUTH_NONE, .handle = handle_events, .content = HTTP_EVENTS},
    {.path = "/lines", HTTP_AUTH_NONE, .handle = handle_lines},
};
// clang-format on
static const struct http_table tables[] = {HTTP_TABLE(routes)};

static struct serve serve;
static struct http_client *client;
static det_err err;

static struct http_client *connect_to(int port)
{
    char url[64];
    snprintf(url, sizeof url, "127.0.0.1:%d/", port);
    struct http_client *c = http_client_new(
        &(struct http_client_opts){.url = url, .token = "secret", .hint = HTTP_MASTER_HINT}, &err);
    assert_non_null(c);
    return c;
}

static int setup(void **state)
{
    (void)state;
    serve_start(&serve, &(struct http_server_opts){.tables = tables, .n_tables = 1});
    client = connect_to(serve.port);
    err = (det_err){0};
    n_hanging = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    http_client_free(client);
    serve_stop(&serve);
    return 0;
}

static void count_connections(void *ctx)
{
    *(int *)ctx = http_server_stats(serve.server)->n_connections;
}

static void test_call__sends_and_receives(void **state)
{
    (void)state;
    struct http_answer answer;
    struct buf path = BUF_INIT(1000);
    buf_addz(&path, "/echo/");
    http_encode(&path, STR("a/b c"));
    buf_addz(&path, "?q=");
    http_encode(&path, STR("x&y=1+1"));
    struct http_call call = {HTTP_PATCH, buf_str(&path).ptr, .body = STR("hello"),
                             .idempotency_key = "k1"};
    assert_ok(http_call(client, &call, &answer, &err), &err);
    assert_int_equal(answer.status, 201);
    assert_string_equal(answer.body.ptr, "{\"method\":\"PATCH\",\"body\":\"hello\",\"key\":\"k1\","
                                         "\"token\":\"secret\",\"q\":\"x&y=1+1\","
                                         "\"segment\":\"a/b c\"}");
    http_answer_done(&answer);
    static const enum http_method methods[] = {HTTP_GET, HTTP_POST, HTTP_DELETE};
    for (int i = 0; i < 3; i++) {
        struct arena arena = ARENA_INIT;
        struct doc *doc;
        call = (struct http_call){methods[i], .path = "/echo/1"};
        assert_ok(http_call_json(client, &call, &arena, &doc, &err), &err);
        assert_string_equal(doc_find(doc, "method")->text.ptr, http_method_name(methods[i]));
        arena_done(&arena);
    }
    int n_connections = 0;
    serve_call(&serve, count_connections, &n_connections);
    assert_int_equal(n_connections, 1); // all over the same one
    buf_done(&path);
}

static void test_failure__has_the_servers_message_and_code(void **state)
{
    (void)state;
    struct http_call call = {.path = "/fail"};
    assert_int_equal(http_call(client, &call, NULL, &err), DET_EBUSY);
    assert_string_equal(err.msg, "come back later");
    call.path = "/plain";
    assert_int_equal(http_call(client, &call, NULL, &err), DET_EUNREACHABLE);
    assert_failed_with(&err, DET_EUNREACHABLE, "answered 502");
    call.path = "/nothing";
    assert_int_equal(http_call(client, &call, NULL, &err), DET_ENOTFOUND);
    call.path = "/lines";
    struct arena arena = ARENA_INIT;
    struct doc *doc;
    assert_int_equal(http_call_json(client, &call, &arena, &doc, &err), DET_ECORRUPT);
    arena_done(&arena);
    call.max_bytes = 3;
    assert_int_equal(http_call(client, &call, NULL, &err), DET_ELIMIT);
}

static void test_failure__of_an_unreachable_server_says_what_to_do(void **state)
{
    (void)state;
    struct http_call call = {.path = "/lines"};
    struct serve other;
    serve_start(&other, &(struct http_server_opts){.tables = tables, .n_tables = 1});
    struct http_client *c = connect_to(other.port);
    assert_ok(http_call(c, &call, NULL, &err), &err);
    serve_stop(&other);
    assert_int_equal(http_call(c, &call, NULL, &err), DET_EUNREACHABLE);
    assert_failed_with(&err, DET_EUNREACHABLE, "det up");
    // It comes back when the server does.
    serve_start(&other,
                &(struct http_server_opts){.tables = tables, .n_tables = 1, .port = other.port});
    assert_ok(http_call(c, &call, NULL, &err), &err);
    http_client_free(c);
    serve_stop(&other);
}

static void test_timeout__ends_the_call(void **state)
{
    (void)state;
    struct http_call call = {.path = "/hang", .timeout_us = 50000};
    int rc = http_call(client, &call, NULL, &err);
    assert_int_equal(rc, DET_ETIMEOUT);
}

static void *cancel_when_hanging(void *arg)
{
    pthread_mutex_lock(&lock);
    while (!n_hanging)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    http_client_cancel(arg);
    return NULL;
}

static void test_cancel__ends_a_call_of_another_thread(void **state)
{
    (void)state;
    pthread_t thread;
    struct http_call call = {.path = "/hang", .timeout_us = -1};
    pthread_create(&thread, NULL, cancel_when_hanging, client);
    assert_int_equal(http_call(client, &call, NULL, &err), DET_ECANCELED);
    pthread_join(thread, NULL);
    assert_int_equal(http_call(client, &call, NULL, &err), DET_ECANCELED);
}

static bool add_line(void *ctx, struct str line)
{
    buf_printf(ctx, "[%.*s]", STR_ARG(line));
    return !str_eqz(line, "b");
}

static bool add_event(void *ctx, const struct http_event *e)
{
    buf_printf(ctx, "%s %s %.*s|", e->id, e->type, STR_ARG(e->data));
    return true;
}

static void test_streams__arrive_as_lines_and_events(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1000);
    struct http_call call = {.path = "/lines"};
    assert_ok(http_call_lines(client, &call, add_line, &out, &err), &err);
    assert_string_equal(out.ptr, "[a][b]"); // ended by the callback
    buf_clear(&out);
    call = (struct http_call){.path = "/events", .last_event_id = "2"};
    assert_ok(http_call_events(client, &call, add_event, &out, &err), &err);
    assert_string_equal(out.ptr, "3 odd first\nsecond|4 message first\nsecond|");
    buf_clear(&out);
    call = (struct http_call){.path = "/fail"};
    assert_int_equal(http_call_events(client, &call, add_event, &out, &err), DET_EBUSY);
    assert_string_equal(err.msg, "come back later");
    buf_done(&out);
}

static bool keep_line(void *ctx, struct str line)
{
    buf_printf(ctx, "[%.*s]", STR_ARG(line));
    return true;
}

static void test_lines__do_not_depend_on_the_pieces(void **state)
{
    (void)state;
    static const char text[] = "a\r\nb\rc\n\n\r\rd";
    for (size_t step = 1; step < sizeof text; step++) {
        struct buf out = BUF_INIT(1000);
        struct line_reader r = {.line = BUF_INIT(100), .on_line = keep_line, .ctx = &out};
        for (size_t i = 0; i < strlen(text); i += step)
            line_reader_add(
                &r, (struct str){text + i, i + step < strlen(text) ? step : strlen(text) - i});
        line_reader_end(&r);
        assert_string_equal(out.ptr, "[a][b][c][][][][d]");
        line_reader_done(&r);
        buf_done(&out);
    }
}

static void test_address__must_make_sense(void **state)
{
    (void)state;
    static const char *const bad[] = {"ftp://x", "http://a b"};
    struct http_call call = {.path = "/lines"};
    assert_null(http_client_new(&(struct http_client_opts){.url = ""}, &err));
    assert_null(http_client_new(&(struct http_client_opts){.url = "http://"}, &err));
    assert_failed_with(&err, DET_EINVAL, "'http://' is not the address");
    assert_null(http_client_new(&(struct http_client_opts){.url = "http://a,,http://b"}, &err));
    assert_failed_with(&err, DET_EINVAL, "'' is not the address");
    for (int i = 0; i < 2; i++) {
        struct http_client *c = http_client_new(&(struct http_client_opts){.url = bad[i]}, &err);
        assert_int_equal(http_call(c, &call, NULL, &err), DET_EINVAL);
        http_client_free(c);
    }
}

// A master and those that wait to take over.
static void test_addresses__the_one_that_answers_is_found_and_kept(void **state)
{
    (void)state;
    struct http_call call = {.path = "/turn"};
    struct serve other;
    char url[128];
    serve_start(&other, &(struct http_server_opts){.tables = tables, .n_tables = 1});
    snprintf(url, sizeof url, "127.0.0.1:%d,http://127.0.0.1:%d", other.port, serve.port);
    struct http_client *c = http_client_new(&(struct http_client_opts){.url = url}, &err);
    assert_ok(http_call(c, &call, NULL, &err), &err);
    serve_stop(&other);
    for (int i = 0; i < 3; i++) // also while a connection is open that is none any more
        if (!http_call(c, &call, NULL, &err)) break;
    assert_ok(http_call(c, &call, NULL, &err), &err);
    // All are asked before one gives up; what somebody says counts more than that nobody is there.
    is_standby = true;
    assert_int_equal(http_call(c, &call, NULL, &err), DET_EUNREACHABLE);
    assert_string_equal(err.msg, "not my turn");
    is_standby = false;
    assert_ok(http_call(c, &call, NULL, &err), &err);
    http_client_free(c);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
RUN_TESTS(T(test_call__sends_and_receives), T(test_failure__has_the_servers_message_and_code),
          T(test_failure__of_an_unreachable_server_says_what_to_do), T(test_timeout__ends_the_call),
          T(test_cancel__ends_a_call_of_another_thread),
          T(test_streams__arrive_as_lines_and_events), T(test_lines__do_not_depend_on_the_pieces),
          T(test_address__must_make_sense),
          T(test_addresses__the_one_that_answers_is_found_and_kept))
