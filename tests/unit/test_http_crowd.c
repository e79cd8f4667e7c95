// Who gets a connection when there are many: nobody can take the places of all others.
#include "support/serve.h"

#include <poll.h>

static int n_later; // written by the server's thread, read when it is known to wait
static struct http_request *waiting[16];

static int handle_ok(struct http_request *req, det_err *err)
{
    (void)err;
    http_reply(req, 200, "text/plain", STR("fine"));
    return 0;
}

static int handle_large(struct http_request *req, det_err *err)
{
    static char zeros[16 << 20];
    (void)err;
    http_reply_static(req, 200, "text/plain", (struct str){zeros, sizeof zeros});
    return 0;
}

static int handle_later(struct http_request *req, det_err *err)
{
    (void)err;
    waiting[n_later++] = req;
    return http_later(req);
}

// Tokens are numbers of users; that of 0 has no limit.
static int authenticate(struct http_request *req, enum http_auth needed, det_err *err)
{
    const char *token = http_token(req);
    (void)needed;
    if (!token) return det_fail(err, DET_EAUTH, "who are you");
    int64_t user = strtoll(token, NULL, 10);
    return http_claim(req, user, user == 0, err);
}

static const struct http_route routes[] = {
    {HTTP_GET, "/open", HTTP_AUTH_NONE, .handle = handle_ok},
    {HTTP_GET, "/large", HTTP_AUTH_NONE, .handle = handle_large},
    {HTTP_GET, "/later", HTTP_AUTH_NONE, .handle = handle_later},
    {HTTP_GET, "/mine", HTTP_AUTH_USER, .handle = handle_ok},
};
static const struct http_table tables[] = {HTTP_TABLE(routes)};

static struct serve serve;

static void start(struct http_limits limits)
{
    n_later = 0;
    serve_start(&serve, &(struct http_server_opts){.tables = tables,
                                                   .n_tables = 1,
                                                   .authenticate = authenticate,
                                                   .limits = limits});
}

static int teardown(void **state)
{
    (void)state;
    serve_stop(&serve);
    return 0;
}

// A connection from one of this machine's many addresses: 127.0.0.<last>. Its first byte is sent:
// before, the server does not even see it.
static bool has_begun[4096]; // by descriptor

static int dial_from(int last)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)serve.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(0x7F000000u + (unsigned)last)};
    struct timeval patience = {.tv_sec = 30};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (bind(fd, (struct sockaddr *)&from, sizeof from) ||
        connect(fd, (struct sockaddr *)&to, sizeof to))
        fail_msg("cannot connect from 127.0.0.%d", last);
    say(fd, "G");
    has_begun[fd] = true;
    return fd;
}

// Sends a request on a connection that is kept, and returns the status; 0: it was closed.
static int ask(int fd, const char *path, const char *token)
{
    char text[256];
    struct buf out = BUF_INIT(1 << 16);
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s%s%s\r\n", path,
             token ? "Authorization: Bearer " : "", token ? token : "", token ? "\r\n" : "");
    char c;
    const char *rest = text + has_begun[fd];
    has_begun[fd] = false;
    if (send(fd, rest, strlen(rest), MSG_NOSIGNAL) < 0) return 0;
    while (!out.ptr || !strstr(out.ptr, "\r\n\r\n")) {
        if (recv(fd, &c, 1, 0) != 1) break;
        buf_addc(&out, c);
    }
    int status = status_of(buf_str(&out).ptr);
    char body[512];
    const char *length = status ? strstr(out.ptr, "Content-Length: ") : NULL;
    size_t n = length ? (size_t)strtoll(length + 16, NULL, 10) : 0;
    if (n && recv(fd, body, n < sizeof body ? n : sizeof body, MSG_WAITALL) < 0) status = 0;
    buf_done(&out);
    return status;
}

static bool is_closed(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char c;
    return poll(&p, 1, 10000) == 1 && recv(fd, &c, 1, MSG_PEEK) <= 0;
}

static bool is_open(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 0;
}

static void close_all(const int *fds, int n)
{
    for (int i = 0; i < n; i++)
        close(fds[i]);
}

static void test_anonymous__of_one_address_make_room_for_each_other(void **state)
{
    (void)state;
    enum { N = 10, LIMIT = 3 };
    int fds[N];
    start((struct http_limits){.per_address = LIMIT});
    for (int i = 0; i < N; i++)
        fds[i] = dial_from(1);
    for (int i = 0; i < N - LIMIT; i++) // the oldest go first
        assert_true(is_closed(fds[i]));
    for (int i = N - LIMIT; i < N; i++)
        assert_int_equal(ask(fds[i], "/open", NULL), 200);
    close_all(fds, N);
}

static void test_anonymous__of_other_addresses_are_not_concerned(void **state)
{
    (void)state;
    enum { N = 10 };
    int fds[N];
    start((struct http_limits){.per_address = 3});
    int other = dial_from(2);
    for (int i = 0; i < N; i++)
        fds[i] = dial_from(1);
    assert_true(is_closed(fds[0]));
    assert_int_equal(ask(other, "/open", NULL), 200);
    close_all(fds, N);
    close(other);
}

static bool two_wait(const struct http_stats *stats)
{
    return stats->n_waiting == 2;
}

static void test_anonymous__who_wait_for_an_answer_stay(void **state)
{
    (void)state;
    enum { N = 10 };
    int fds[N], busy[2];
    start((struct http_limits){.per_address = 3});
    for (int i = 0; i < 2; i++) {
        busy[i] = dial_from(1);
        say(busy[i], "ET /later HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    serve_wait(&serve, two_wait);
    for (int i = 0; i < N; i++)
        fds[i] = dial_from(1);
    for (int i = 0; i < N - 1; i++)
        assert_true(is_closed(fds[i]));
    assert_true(is_open(busy[0]) && is_open(busy[1]));
    assert_int_equal(ask(fds[N - 1], "/open", NULL), 200);
    close_all(fds, N);
    close_all(busy, 2);
}

// An answer that nobody reads is no reason to wait.
static void test_anonymous__who_do_not_read_are_not_waited_for(void **state)
{
    (void)state;
    int fds[3];
    start((struct http_limits){.per_address = 3});
    for (int i = 0; i < 3; i++) {
        fds[i] = dial_from(1);
        say(fds[i], "ET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    int late = dial_from(1);
    assert_int_equal(ask(late, "/open", NULL), 200);
    close_all(fds, 3);
    close(late);
}

static void test_anonymous__cannot_have_what_is_reserved(void **state)
{
    (void)state;
    enum { N = 20, LIMIT = 10, RESERVE = 4 };
    int fds[N];
    start((struct http_limits){.connections = LIMIT, .reserve = RESERVE, .per_address = 1});
    for (int i = 0; i < N; i++)
        fds[i] = dial_from(1 + i);
    for (int i = 0; i < N - (LIMIT - RESERVE); i++)
        assert_true(is_closed(fds[i]));
    for (int i = N - (LIMIT - RESERVE); i < N; i++)
        assert_int_equal(ask(fds[i], "/open", NULL), 200);
    close_all(fds, N);
}

static void test_users__keep_their_connections_whatever_anonymous_ones_do(void **state)
{
    (void)state;
    enum { N_USERS = 6, N_ANONYMOUS = 100 };
    int users[N_USERS], anonymous[N_ANONYMOUS];
    start((struct http_limits){.connections = 20, .per_address = 5});
    for (int i = 0; i < N_USERS; i++) {
        users[i] = dial_from(1); // the same address as the crowd to come
        assert_int_equal(ask(users[i], "/mine", "7"), 200);
    }
    for (int i = 0; i < N_ANONYMOUS; i++) {
        anonymous[i] = dial_from(1 + i % 50);
        assert_int_equal(ask(users[i % N_USERS], "/mine", "7"), 200);
    }
    int late = dial_from(1);
    assert_int_equal(ask(late, "/mine", "8"), 200);
    for (int i = 0; i < N_USERS; i++)
        assert_int_equal(ask(users[i], "/mine", "7"), 200);
    close_all(users, N_USERS);
    close_all(anonymous, N_ANONYMOUS);
    close(late);
}

static bool two_are_open(const struct http_stats *stats)
{
    return stats->n_connections == 2;
}

static void test_user__with_too_many_connections_is_told(void **state)
{
    (void)state;
    int fds[4];
    start((struct http_limits){.per_user = 2, .per_address = 2});
    for (int i = 0; i < 3; i++)
        fds[i] = dial_from(1), assert_int_equal(ask(fds[i], "/mine", "7"), i < 2 ? 200 : 429);
    assert_true(is_closed(fds[2]));
    fds[3] = dial_from(1);
    assert_int_equal(ask(fds[3], "/mine", "8"), 200); // others are not concerned
    close(fds[3]);
    assert_int_equal(ask(fds[0], "/mine", "7"), 200); // nor those that are there
    close(fds[2]);
    serve_wait(&serve, two_are_open);
    close(fds[1]);
    fds[1] = dial_from(1);
    while (ask(fds[1], "/mine", "7") != 200) { // when the server has seen that one has gone
        close(fds[1]);
        fds[1] = dial_from(1);
    }
    close_all(fds, 2);
}

static void test_users__leave_room_for_those_without_a_limit(void **state)
{
    (void)state;
    enum { LIMIT = 10, RESERVE = 3 };
    int fds[LIMIT + 1];
    char token[16];
    start((struct http_limits){.connections = LIMIT, .reserve = RESERVE});
    for (int i = 0; i < LIMIT - RESERVE; i++) {
        snprintf(token, sizeof token, "%d", 100 + i);
        fds[i] = dial_from(1);
        assert_int_equal(ask(fds[i], "/mine", token), 200);
    }
    int refused = dial_from(1);
    assert_int_equal(ask(refused, "/mine", "99"), 429);
    assert_true(is_closed(refused));
    close(refused);
    for (int i = LIMIT - RESERVE; i < LIMIT + 1; i++) { // one more than there are
        fds[i] = dial_from(1);
        assert_int_equal(ask(fds[i], "/mine", "0"), 200);
    }
    close_all(fds, LIMIT + 1);
}

static void test_connection__belongs_to_who_asked_last(void **state)
{
    (void)state;
    int fds[3];
    start((struct http_limits){.per_user = 1});
    for (int i = 0; i < 2; i++)
        fds[i] = dial_from(1);
    assert_int_equal(ask(fds[0], "/mine", "7"), 200);
    assert_int_equal(ask(fds[0], "/mine", "8"), 200); // so that of 7 is free again
    assert_int_equal(ask(fds[1], "/mine", "7"), 200);
    assert_int_equal(ask(fds[0], "/mine", "7"), 429);
    close_all(fds, 2);
}

#define T(f) cmocka_unit_test_teardown(f, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_anonymous__of_one_address_make_room_for_each_other),
        T(test_anonymous__of_other_addresses_are_not_concerned),
        T(test_anonymous__who_wait_for_an_answer_stay),
        T(test_anonymous__who_do_not_read_are_not_waited_for),
        T(test_anonymous__cannot_have_what_is_reserved),
        T(test_users__keep_their_connections_whatever_anonymous_ones_do),
        T(test_user__with_too_many_connections_is_told),
        T(test_users__leave_room_for_those_without_a_limit),
        T(test_connection__belongs_to_who_asked_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
