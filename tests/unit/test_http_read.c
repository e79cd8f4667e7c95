// What the server promises to routes that read: another thread does it, and the loop does not wait.
#include "support/serve.h"

#include <stdatomic.h>

struct note {
    const char *text;
    LIST_OF(int64_t) ids;
};

static const struct field id_item = {.type = FIELD_INT};
static const struct field note_rows[] = {
    {.name = "text", .type = FIELD_STR, .offset = offsetof(struct note, text), .help = "What."},
    {.name = "ids",
     .type = FIELD_LIST,
     .offset = offsetof(struct note, ids),
     .item = &id_item,
     .help = "Which."},
};
static const struct field_table note_table = {.size = sizeof(struct note), FIELD_ROWS(note_rows)};

static struct serve s;
static struct worker *worker;
static int connection = 7; // stands for what a thread reads with
static _Atomic bool may_call;
static _Atomic int n_read;

static int open_own(void *ctx, void **own, det_err *err)
{
    (void)err;
    *own = ctx;
    return 0;
}

static void work(struct http_request *req, const struct work *w)
{
    (void)req;
    worker_run(worker, w);
}

static int authenticate(struct http_request *req, enum http_auth needed, det_err *err)
{
    (void)req, (void)needed;
    return may_call ? 0 : det_fail(err, DET_EAUTH, "log in first");
}

static bool is_loop(void)
{
    return pthread_equal(pthread_self(), s.thread);
}

static int read_number(struct http_request *req, det_err *err)
{
    if (is_loop() || !req->reader) return det_fail(err, DET_ESTATE, "this is the loop");
    if (http_param_int(req, "n") == 13) return det_fail(err, DET_ENOTFOUND, "there is no 13");
    n_read++;
    req->found = arena_printf(req->arena, "%d", *(const int *)req->reader);
    return 0;
}

static int answer_number(struct http_request *req, det_err *err)
{
    if (read_number(req, err)) return err->code;
    http_reply(req, 200, "text/plain", str_from(req->found));
    return 0;
}

static int handle_number(struct http_request *req, det_err *err)
{
    if (!is_loop() || req->reader) return det_fail(err, DET_ESTATE, "this is not the loop");
    http_reply(req, 200, "text/plain", str_from(req->found));
    return 0;
}

// Finds out in the handler that something has to be read.
static int handle_asking(struct http_request *req, det_err *err)
{
    return req->found ? handle_number(req, err) : http_read(req, read_number);
}

static struct loop_timer timer;

static void go_on(void *ctx)
{
    http_again(ctx);
}

// Waits once, and then begins anew.
static int handle_again(struct http_request *req, det_err *err)
{
    if (n_read == 2) return handle_number(req, err);
    timer = (struct loop_timer){.fn = go_on, .ctx = req};
    loop_timer_set(s.loop, &timer, 0);
    return http_later(req);
}

static int read_and_lose(struct http_request *req, det_err *err)
{
    may_call = false;
    return read_number(req, err);
}

static pthread_t parsed_in;

static void read_ids(struct field_ctx *ctx, const struct field *f, const struct doc *value,
                     void *member)
{
    (void)ctx, (void)f, (void)value;
    parsed_in = pthread_self();
    *(int64_t *)member = 1;
}

static const struct field_codec spy = {.size = sizeof(int64_t), .syntax = "x", .read = read_ids};
static const struct field long_rows[] = {
    {.name = "text", .type = FIELD_CODEC, .codec = &spy, .help = "What."}};
static const struct field_table long_table = {.size = sizeof(int64_t), FIELD_ROWS(long_rows)};

static int handle_empty(struct http_request *req, det_err *err)
{
    if (!is_loop()) return det_fail(err, DET_ESTATE, "this is not the loop");
    http_reply_empty(req);
    return 0;
}

static const struct http_route routes[] = {
    {HTTP_GET, "/answer/{n:int}", .read = answer_number},
    {HTTP_GET, "/find/{n:int}", .read = read_number, .handle = handle_number},
    {HTTP_GET, "/ask/{n:int}", .handle = handle_asking},
    {HTTP_GET, "/again/{n:int}", .read = read_number, .handle = handle_again},
    {HTTP_GET, "/lose/{n:int}", .read = read_and_lose, .handle = handle_number},
    {HTTP_POST, "/find/{n:int}", .read = read_number, .handle = handle_number,
     .input = &note_table},
    {HTTP_POST, "/long", .handle = handle_empty, .input = &long_table},
};
static const struct http_table tables[] = {HTTP_TABLE(routes)};

static int open_server(void **state)
{
    (void)state;
    static const struct worker_opts threads = {
        .n_threads = 2, .open = open_own, .ctx = &connection};
    serve_start(&s,
                &(struct http_server_opts){
                    .tables = tables, .n_tables = 1, .authenticate = authenticate, .work = work});
    worker = worker_new(s.loop, &threads, NULL);
    may_call = true;
    n_read = 0;
    return 0;
}

static int close_server(void **state)
{
    (void)state;
    worker_free(worker);
    serve_stop(&s);
    return 0;
}

static const char *ask(struct buf *out, const char *line, const char *body)
{
    struct buf request = BUF_INIT(1 << 20);
    int fd = dial(&s);
    buf_clear(out);
    buf_printf(&request, "%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", line);
    if (body)
        buf_printf(&request, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                   strlen(body));
    buf_printf(&request, "\r\n%s", body ? body : "");
    say(fd, buf_str(&request).ptr);
    buf_done(&request);
    return hear_all(fd, out);
}

static void expect(const char *line, const char *body, int status, const char *text)
{
    struct buf out = BUF_INIT(1 << 20);
    const char *got = ask(&out, line, body);
    if (status_of(got) != status || !strstr(body_of(got), text))
        fail_msg("%s: expected %d with '%s', got '%s'", line, status, text, got);
    buf_done(&out);
}

static void test_read__may_answer(void **state)
{
    (void)state;
    expect("GET /answer/1", NULL, 200, "7");
    expect("HEAD /answer/1", NULL, 200, "");
    expect("GET /answer/13", NULL, 404, "there is no 13");
}

static void test_read__leaves_what_it_found_for_the_handler(void **state)
{
    (void)state;
    expect("GET /find/1", NULL, 200, "7");
    expect("GET /find/13", NULL, 404, "there is no 13");
    expect("POST /find/1", "{\"text\": \"x\", \"ids\": [1]}", 200, "7");
    expect("POST /find/1", "{\"ids\": \"no list\"}", 400, "ids");
}

static void test_read__can_be_asked_for_by_a_handler(void **state)
{
    (void)state;
    expect("GET /ask/1", NULL, 200, "7");
    assert_int_equal(n_read, 1);
    expect("GET /ask/13", NULL, 404, "there is no 13");
}

static void test_again__reads_again(void **state)
{
    (void)state;
    expect("GET /again/1", NULL, 200, "7");
    assert_int_equal(n_read, 2);
}

static void test_rights__that_are_lost_meanwhile_are_gone(void **state)
{
    (void)state;
    expect("GET /lose/1", NULL, 401, "log in first");
    assert_int_equal(n_read, 1);
}

// Who sends a megabyte must not make others wait until it is parsed.
static void test_bodies__that_are_long_are_parsed_elsewhere(void **state)
{
    (void)state;
    struct buf body = BUF_INIT(1 << 20);
    expect("POST /long", "{\"text\": \"x\"}", 200, "{}");
    assert_true(pthread_equal(parsed_in, s.thread));
    buf_addz(&body, "{\"text\": \"");
    for (int i = 0; i < 100000; i++)
        buf_addc(&body, 'x');
    buf_addz(&body, "\"}");
    expect("POST /long", buf_str(&body).ptr, 200, "{}");
    assert_false(pthread_equal(parsed_in, s.thread));
    body.ptr[body.len - 1] = ',';
    expect("POST /long", buf_str(&body).ptr, 400, "body");
    buf_done(&body);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, open_server, close_server)

RUN_TESTS(TEST(test_read__may_answer), TEST(test_read__leaves_what_it_found_for_the_handler),
          TEST(test_read__can_be_asked_for_by_a_handler), TEST(test_again__reads_again),
          TEST(test_rights__that_are_lost_meanwhile_are_gone),
          TEST(test_bodies__that_are_long_are_parsed_elsewhere))
