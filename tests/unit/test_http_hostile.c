// What the server does with clients that are slow, confused or evil.
#include "support/serve.h"

#include <poll.h>

enum { LARGE = 32 << 20, BODY_LIMIT = 64 << 10 };

static char *large;

static int handle_ok(struct http_request *req, det_err *err)
{
    (void)err;
    http_reply(req, 200, "text/plain", STR("fine"));
    return 0;
}

static int handle_large(struct http_request *req, det_err *err)
{
    (void)err;
    http_reply_static(req, 200, "text/plain", (struct str){large, LARGE});
    return 0;
}

static const struct field_table nothing = {.size = 1};

// clang-format off
static const struct http_route routes[] = {
    {HTTP_GET, "/", HTTP_AUTH_NONE, .handle = handle_ok},
    {HTTP_POST, "/", HTTP_AUTH_NONE, .handle = handle_ok, .max_body = BODY_LIMIT},
    {HTTP_POST, "/json", HTTP_AUTH_NONE, .handle = handle_ok, .input = &nothing, .max_body = 1 << 20},
    {HTTP_GET, "/large", HTTP_AUTH_NONE, .handle = handle_large},
};
// clang-format on
static const struct http_table tables[] = {HTTP_TABLE(routes)};

static struct serve serve;

static void start(struct http_server_opts opts)
{
    opts.tables = tables;
    opts.n_tables = 1;
    serve_start(&serve, &opts);
}

static int setup(void **state)
{
    (void)state;
    large = calloc(1, LARGE);
    // Short times, so that the tests are; what is tested is that the end comes, not when.
    start((struct http_server_opts){
        .head_timeout_us = 200000, .idle_timeout_us = 200000, .min_bytes_per_s = 1 << 20});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    serve_stop(&serve);
    free(large);
    return 0;
}

static const char *send_all(struct buf *out, const char *text)
{
    int fd = dial(&serve);
    say(fd, text);
    shutdown(fd, SHUT_WR);
    buf_clear(out);
    return hear_all(fd, out);
}

static void assert_serves(void)
{
    struct buf out = BUF_INIT(1 << 20);
    send_all(&out, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_int_equal(status_of(buf_str(&out).ptr), 200);
    buf_done(&out);
}

// --- slow

// Sends a byte now and then on every connection, until the server has closed all of them.
static void drip(const char *begin, const char *byte)
{
    enum { N = 50 };
    struct pollfd fds[N];
    int n_open = N;
    for (int i = 0; i < N; i++) {
        fds[i] = (struct pollfd){.fd = dial(&serve), .events = POLLIN};
        say(fds[i].fd, begin);
    }
    while (n_open) {
        if (poll(fds, N, 20) < 0) fail_msg("poll failed");
        for (int i = 0; i < N; i++) {
            if (fds[i].fd < 0) continue;
            bool is_closed = (fds[i].revents & (POLLIN | POLLHUP | POLLERR)) ||
                             send(fds[i].fd, byte, 1, MSG_NOSIGNAL) < 0;
            if (!is_closed) continue;
            close(fds[i].fd);
            fds[i].fd = -1;
            n_open--;
        }
    }
}

static void test_slow__head_is_cut_off_though_bytes_keep_coming(void **state)
{
    (void)state;
    drip("GET / HTTP/1.1\r\nHost: localhost\r\nX: ", "x");
    assert_serves();
}

static void test_slow__request_line_is_cut_off(void **state)
{
    (void)state;
    drip("GET /", "a");
    assert_serves();
}

static void test_slow__body_is_cut_off(void **state)
{
    (void)state;
    drip("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50000\r\n\r\n", "x");
    drip("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n", "x");
    assert_serves();
}

static bool is_alone(const struct http_stats *stats)
{
    return stats->n_connections == 0;
}

static void test_slow__reader_is_cut_off(void **state)
{
    (void)state;
    int fd = dial(&serve);
    say(fd, "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
    serve_wait(&serve, is_alone);
    close(fd);
    assert_serves();
}

static void test_idle__connection_is_closed(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1 << 20);
    int fd = dial(&serve), silent = dial(&serve);
    say(fd, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_int_equal(status_of(hear_all(fd, &out)), 200);
    buf_clear(&out);
    hear_all(silent, &out);
    buf_done(&out);
}

// --- confused

static void test_client__that_closed_its_half_gets_its_answer(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1 << 20);
    assert_int_equal(
        status_of(
            send_all(&out, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc")),
        200);
    buf_done(&out);
}

static void test_client__that_vanishes_leaves_nothing_behind(void **state)
{
    (void)state;
    static const char *const beginnings[] = {
        "",
        "G",
        "GET / HTTP/1.1\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nab",
        "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"};
    struct linger reset = {.l_onoff = 1};
    for (int i = 0; i < 60; i++) {
        int fd = dial(&serve);
        say(fd, beginnings[i % 6]);
        if (i % 2) setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(fd);
    }
    serve_wait(&serve, is_alone);
    assert_serves();
}

static void test_nonsense__is_refused(void **state)
{
    (void)state;
    static const char *const nonsense[] = {
        "\r\n\r\n\r\n",
        "hello\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",                       // no host
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", // somebody expects TLS
        "GET / HTTP/1.1\r\nHost: localhost\r\nno colon here\r\n\r\n",
    };
    struct buf out = BUF_INIT(1 << 20);
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        send_all(&out, nonsense[i]);
        if (strstr(buf_str(&out).ptr, "fine")) fail_msg("answered '%s'", nonsense[i]);
    }
    assert_serves();
    buf_done(&out);
}

// --- evil

static void test_smuggling__is_refused_and_the_connection_closed(void **state)
{
    (void)state;
    // Behind each stands a second request, which must never be seen as one of its own.
    static const char *const framings[] = {
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
        "Content-Length: 4\r\nContent-Length: 5",
        "Content-Length: 4\r\nContent-Length: 4",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: identity",
        "Content-Length: +4",
        "Content-Length: -4",
        "Content-Length: 4 4",
        "Content-Length: 0x4",
        "Content-Length: 4,4",
        "Content-Length: 99999999999999999999",
        "Content-Length : 4",
        "Transfer-Encoding : chunked",
        "X: y\r\n Content-Length: 4\r\nContent-Length: 4\r\nContent-Length: 0",
    };
    struct buf out = BUF_INIT(1 << 20);
    for (size_t i = 0; i < sizeof framings / sizeof *framings; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "POST / HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n"
                 "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                 framings[i]);
        send_all(&out, text);
        const char *answer = buf_str(&out).ptr;
        if (strstr(answer, "fine") || strstr(answer, "HTTP/1.1 2"))
            fail_msg("'%s' was understood: %s", framings[i], answer);
        if (strncmp(answer, "HTTP/1.1 ", 9) != 0 || strstr(answer + 9, "HTTP/1.1 "))
            fail_msg("'%s' was not answered once: %s", framings[i], answer);
    }
    buf_done(&out);
}

static void test_host__of_others_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        int status;
    } rows[] = {{"localhost", 200},
                {"LOCALHOST:8080", 200},
                {"127.0.0.1:1", 200},
                {"[::1]:8080", 200},
                {"evil.example", 421},
                {"localhost.evil.example", 421},
                {"127.0.0.1.nip.io", 421},
                {"localhost:", 200},
                {"localhost:80@evil.example", 421},
                {"localhost@evil.example", 421},
                {"localhost:80:80", 421},
                {"localhost:808080", 421},
                {"localhost:8a", 421},
                {"localhost/evil.example", 421},
                {"[::1]evil.example", 421},
                {"[::1", 421},
                {"localhost, evil.example", 421}};
    struct buf out = BUF_INIT(1 << 20);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256];
        snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
                 rows[i].host);
        assert_int_equal(status_of(send_all(&out, text)), rows[i].status);
    }
    buf_done(&out);
}

static void test_host__given_twice_is_refused(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1 << 20);
    send_all(&out, "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n");
    assert_int_equal(status_of(buf_str(&out).ptr), 400);
    buf_done(&out);
}

static void test_length__that_is_no_number_is_a_problem_in_json(void **state)
{
    (void)state;
    static const char *const lengths[] = {"", "abc", "-1", "1 1", "99999999999999999999999"};
    struct buf out = BUF_INIT(1 << 20);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char text[256];
        int fd = dial(&serve);
        snprintf(text, sizeof text,
                 "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %s\r\n\r\nbody",
                 lengths[i]);
        say(fd, text); // the client goes on listening: it is the server that closes
        buf_clear(&out);
        hear_all(fd, &out);
        assert_int_equal(status_of(out.ptr), 400);
        assert_non_null(strstr(out.ptr, "Content-Type: application/problem+json"));
        assert_non_null(strstr(out.ptr, "Connection: close"));
        assert_null(strstr(out.ptr + 9, "HTTP/1.1 "));
    }
    assert_serves();
    buf_done(&out);
}

static void test_host__that_is_missing_is_a_problem_in_json(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1 << 20);
    const char *answer = send_all(&out, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_int_equal(status_of(answer), 400);
    assert_non_null(strstr(answer, "application/problem+json"));
    assert_non_null(strstr(answer, "Host"));
    assert_int_equal(status_of(send_all(&out, "GET / HTTP/1.0\r\n\r\n")), 200);
    buf_done(&out);
}

static void test_head__that_is_too_large_is_refused(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(1 << 20), out = BUF_INIT(1 << 20);
    buf_addz(&text, "GET / HTTP/1.1\r\nHost: localhost\r\nX: ");
    for (int i = 0; i < 100000; i++)
        buf_addc(&text, 'x');
    int fd = dial(&serve);
    send(fd, text.ptr, text.len, MSG_NOSIGNAL);
    int status = status_of(hear_all(fd, &out));
    assert_true(status == 431 || status == 0); // closing with bytes unread may cost the answer
    buf_clear(&text);
    buf_clear(&out);
    buf_addz(&text, "GET / HTTP/1.1\r\nHost: localhost\r\n");
    for (int i = 0; i < 10000; i++)
        buf_printf(&text, "h%d: v\r\n", i);
    fd = dial(&serve);
    send(fd, text.ptr, text.len, MSG_NOSIGNAL);
    status = status_of(hear_all(fd, &out));
    assert_true(status == 431 || status == 0);
    assert_serves();
    buf_done(&text);
    buf_done(&out);
}

static void test_body__that_is_too_large_is_refused_before_it_is_read(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1 << 20);
    int fd = dial(&serve);
    say(fd, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n");
    assert_int_equal(status_of(hear_until(fd, &out, "\r\n\r\n")), 413);
    close(fd);
    buf_done(&out);
}

static void test_body__that_grows_too_large_is_refused(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1 << 20), text = BUF_INIT(1 << 20);
    buf_addz(&text, "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    buf_printf(&text, "%x\r\n", BODY_LIMIT + 1);
    for (int i = 0; i <= BODY_LIMIT; i++)
        buf_addc(&text, 'x');
    buf_addz(&text, "\r\n0\r\n\r\n");
    assert_int_equal(status_of(send_all(&out, text.ptr)), 413);
    // One that never ends is not read for ever.
    int fd = dial(&serve);
    buf_clear(&out);
    buf_clear(&text);
    buf_addz(&text, "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "fffffff\r\n");
    while (send(fd, text.ptr, text.len, MSG_NOSIGNAL) > 0)
        ;
    close(fd);
    assert_serves();
    buf_done(&out);
    buf_done(&text);
}

static void test_body__that_is_nested_deeply_is_refused(void **state)
{
    (void)state;
    enum { DEPTH = 100000 };
    struct buf out = BUF_INIT(1 << 20), text = BUF_INIT(1 << 20);
    buf_printf(&text,
               "POST /json HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
               "Connection: close\r\nContent-Length: %d\r\n\r\n",
               DEPTH);
    for (int i = 0; i < DEPTH; i++)
        buf_addc(&text, '[');
    assert_int_equal(status_of(send_all(&out, text.ptr)), 400);
    buf_done(&out);
    buf_done(&text);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_slow__head_is_cut_off_though_bytes_keep_coming),
        T(test_slow__request_line_is_cut_off),
        T(test_slow__body_is_cut_off),
        T(test_slow__reader_is_cut_off),
        T(test_idle__connection_is_closed),
        T(test_client__that_closed_its_half_gets_its_answer),
        T(test_client__that_vanishes_leaves_nothing_behind),
        T(test_nonsense__is_refused),
        T(test_smuggling__is_refused_and_the_connection_closed),
        T(test_host__of_others_is_refused),
        T(test_host__given_twice_is_refused),
        T(test_length__that_is_no_number_is_a_problem_in_json),
        T(test_host__that_is_missing_is_a_problem_in_json),
        T(test_head__that_is_too_large_is_refused),
        T(test_body__that_is_too_large_is_refused_before_it_is_read),
        T(test_body__that_grows_too_large_is_refused),
        T(test_body__that_is_nested_deeply_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
