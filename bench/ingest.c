// Load for a master: trials that report metrics over connections that stay open. bench/master.py
// runs it.
//
//     ingest PORT REPORTS RATE SECONDS TRIAL:TOKEN...
//
// REPORTS: in one request; RATE: reports each second, of all trials together, 0 for as fast as they
// are acknowledged.
// Prints one line of JSON: requests, reports, seconds, and milliseconds until the acknowledgement.
#include "base/assert.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/number.h"
#include "sys/clock.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_ANSWER = 4096, MAX_BODY = 16 << 20, AT_ONCE = 64 };

struct connection {
    int fd;
    struct str trial, token;
    int64_t number, step, sent_us;
    int64_t due_us; // when to send
    struct buf request;
    size_t n_sent, n_answer;
    char answer[MAX_ANSWER];
};

struct load {
    int64_t port, n_connections, n_reports, rate, seconds;
    int epoll;
    struct connection **connections;
    int64_t end_us;
    int64_t *waits_us;
    size_t n_waits, cap_waits;
};

static void fail(const char *text)
{
    fprintf(stderr, "ingest: %s\n", text);
    exit(1);
}

static void watch(const struct load *load, struct connection *c, uint32_t events, int how)
{
    struct epoll_event event = {.events = events, .data.ptr = c};
    if (epoll_ctl(load->epoll, how, c->fd, &event) < 0) fail("cannot wait for a connection");
}

static void write_body(struct connection *c, const struct load *load, struct buf *body)
{
    buf_addz(body, "{\"trialRunId\":1,\"reports\":[");
    for (int64_t i = 0; i < load->n_reports; i++) {
        c->step++;
        buf_printf(body,
                   "%s{\"group\":\"training\",\"stepsCompleted\":%lld,"
                   "\"reportTime\":\"2026-01-01T00:00:00.000000Z\","
                   "\"metrics\":{\"loss\":%.6f,\"accuracy\":0.875}}",
                   i ? "," : "", (long long)c->step, 1.0 / (double)c->step);
    }
    buf_addz(body, "]}");
}

static void make_request(struct connection *c, const struct load *load)
{
    struct buf body = BUF_INIT(MAX_BODY);
    write_body(c, load, &body);
    buf_clear(&c->request);
    buf_printf(
        &c->request,
        "POST /api/v1/trials/%.*s/metrics HTTP/1.1\r\nHost: 127.0.0.1:%lld\r\n"
        "Authorization: Bearer %.*s\r\nContent-Type: application/json\r\n"
        "Idempotency-Key: 00000000-0000-4000-8000-%012lld:%lld\r\nContent-Length: %zu\r\n\r\n",
        STR_ARG(c->trial), (long long)load->port, STR_ARG(c->token), (long long)c->number,
        (long long)c->step, body.len);
    buf_add(&c->request, body.ptr, body.len);
    buf_done(&body);
    c->n_sent = c->n_answer = 0;
}

static void go_on_sending(struct load *load, struct connection *c)
{
    ssize_t n = send(c->fd, c->request.ptr + c->n_sent, c->request.len - c->n_sent, MSG_DONTWAIT);
    if (n > 0) c->n_sent += (size_t)n;
    watch(load, c, c->n_sent < c->request.len ? EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD);
}

static int64_t interval_us(const struct load *load)
{
    return load->rate ? load->n_reports * load->n_connections * 1000000 / load->rate : 0;
}

// The time that counts is the one when it was due: a master that is late for one is late for all
// that wait behind it.
static void ask(struct load *load, struct connection *c)
{
    make_request(c, load);
    c->sent_us = load->rate ? c->due_us : clock_mono_us();
    c->due_us += interval_us(load);
    go_on_sending(load, c);
}

static struct connection *connect_one(struct load *load, int64_t number, const char *who)
{
    struct connection *c = xcalloc(1, sizeof *c);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)load->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    c->number = number;
    c->step = clock_mono_us(); // beyond those of any run before
    c->token = str_from(who);
    c->trial = str_cut(&c->token, ':');
    c->due_us = clock_mono_us() + interval_us(load) * number / load->n_connections;
    c->request = (struct buf)BUF_INIT(MAX_BODY + 1024);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof to) < 0)
        fail("cannot connect to the master");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    watch(load, c, EPOLLIN, EPOLL_CTL_ADD);
    return c;
}

static void note_wait(struct load *load, int64_t wait_us)
{
    if (load->n_waits == load->cap_waits) {
        load->cap_waits = load->cap_waits ? 2 * load->cap_waits : 1 << 16;
        load->waits_us = xrealloc(load->waits_us, load->cap_waits * sizeof *load->waits_us);
    }
    load->waits_us[load->n_waits++] = wait_us;
}

// Answers are short and have their length in the head: they are complete when the body "{}" is.
static void read_answer(struct load *load, struct connection *c)
{
    ssize_t n = recv(c->fd, c->answer + c->n_answer, MAX_ANSWER - 1 - c->n_answer, MSG_DONTWAIT);
    if (n <= 0) fail("the master closed a connection");
    c->n_answer += (size_t)n;
    c->answer[c->n_answer] = 0;
    if (!strstr(c->answer, "\r\n\r\n{")) return;
    if (strncmp(c->answer, "HTTP/1.1 200", 12) != 0) fail(c->answer);
    if (c->answer[c->n_answer - 1] != '}') return;
    note_wait(load, clock_mono_us() - c->sent_us);
    c->n_answer = 0;
    c->request.len = c->n_sent = 0; // nothing is under way
    if (!load->rate && c->sent_us < load->end_us) ask(load, c);
}

static bool is_idle(const struct connection *c)
{
    return !c->request.len;
}

// Returns when the next one is due.
static int64_t ask_those_due(struct load *load, int64_t now_us)
{
    int64_t next_us = now_us + 1000000;
    for (int64_t i = 0; i < load->n_connections; i++) {
        struct connection *c = load->connections[i];
        if (!is_idle(c)) continue;
        if (c->due_us <= now_us) ask(load, c);
        if (is_idle(c)) next_us = MIN(next_us, c->due_us);
    }
    return next_us;
}

static bool is_busy(const struct load *load)
{
    for (int64_t i = 0; i < load->n_connections; i++)
        if (!is_idle(load->connections[i])) return true;
    return false;
}

static void handle(struct load *load, struct connection *c)
{
    if (c->n_sent < c->request.len)
        go_on_sending(load, c);
    else
        read_answer(load, c);
}

static void run(struct load *load)
{
    struct epoll_event ready[AT_ONCE];
    int64_t now_us = clock_mono_us();
    if (!load->rate) ask_those_due(load, INT64_MAX - 1000000);
    while (now_us < load->end_us || is_busy(load)) {
        int64_t next_us = now_us + 10000;
        if (load->rate && now_us < load->end_us) next_us = ask_those_due(load, now_us);
        int wait_ms = (int)MAX((next_us - now_us) / 1000, 0);
        int n = epoll_wait(load->epoll, ready, AT_ONCE, load->rate ? wait_ms : 10000);
        if (n == 0 && !load->rate) fail("the master does not answer");
        for (int i = 0; i < n; i++)
            handle(load, ready[i].data.ptr);
        now_us = clock_mono_us();
    }
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double part_ms(const struct load *load, double part)
{
    return (double)load->waits_us[(size_t)((double)(load->n_waits - 1) * part)] / 1e3;
}

static int64_t number(const char *text)
{
    int64_t x;
    if (!number_to_int(str_from(text), 10, &x) || x < 0) fail("a number was expected");
    return x;
}

static void connect_all(struct load *load, char **who)
{
    load->connections = xcalloc((size_t)load->n_connections, sizeof *load->connections);
    for (int64_t i = 0; i < load->n_connections; i++)
        load->connections[i] = connect_one(load, i, who[i]);
}

static void disconnect_all(struct load *load)
{
    for (int64_t i = 0; i < load->n_connections; i++) {
        struct connection *c = load->connections[i];
        close(c->fd);
        buf_done(&c->request);
        free(c);
    }
    free(load->connections);
}

int main(int argc, char **argv)
{
    if (argc < 6) fail("usage: ingest PORT REPORTS RATE SECONDS TRIAL:TOKEN...");
    struct load load = {.port = number(argv[1]),
                        .n_reports = number(argv[2]),
                        .rate = number(argv[3]),
                        .seconds = number(argv[4]),
                        .n_connections = argc - 5};
    load.epoll = epoll_create1(EPOLL_CLOEXEC);
    connect_all(&load, argv + 5);
    int64_t begin_us = clock_mono_us();
    load.end_us = begin_us + load.seconds * 1000000;
    run(&load);
    double seconds = (double)(clock_mono_us() - begin_us) / 1e6;
    if (!load.n_waits) fail("nothing was acknowledged");
    qsort(load.waits_us, load.n_waits, sizeof *load.waits_us, compare);
    printf("{\"requests\": %zu, \"reports\": %lld, \"seconds\": %.3f, \"p50_ms\": %.2f, "
           "\"p99_ms\": %.2f, \"max_ms\": %.2f}\n",
           load.n_waits, (long long)load.n_waits * (long long)load.n_reports, seconds,
           part_ms(&load, 0.5), part_ms(&load, 0.99), part_ms(&load, 1));
    disconnect_all(&load);
    free(load.waits_us);
    close(load.epoll);
    return 0;
}
