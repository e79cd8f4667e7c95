// What a server with a certificate promises, to clients of all kinds.
#include "support/serve.h"

#include "sys/fs.h"
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LARGE = 8 << 20, N_LINES = 2000, DAY_S = 24 * 3600 };

static char *large;
static struct http_request *waiting;
static struct serve serve;
static char url[64];

// --- a small API

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

static int handle_length(struct http_request *req, det_err *err)
{
    (void)err;
    http_reply(req, 200, "text/plain",
               str_from(arena_printf(req->arena, "%zu %d", req->body.len,
                                     !memcmp(req->body.ptr, large, req->body.len))));
    return 0;
}

static int handle_file(struct http_request *req, det_err *err)
{
    return http_reply_file(req, temp_path("file"), "text/plain", NULL, err);
}

static void answer(void *ctx)
{
    (void)ctx;
    http_reply(waiting, 200, "text/plain", STR("at last"));
}

// Answered by a later turn of the loop, as after a group commit.
static int handle_later(struct http_request *req, det_err *err)
{
    (void)err;
    waiting = req;
    loop_post(serve.loop, answer, NULL);
    return http_later(req);
}

static void pull_event(void *ctx, struct http_stream *s)
{
    int *n = ctx;
    char text[64];
    snprintf(text, sizeof text, "{\"n\":%d}", ++*n);
    http_send_event(s, NULL, NULL, str_from(text));
    if (*n == N_LINES) http_stream_end(s);
}

static int handle_events(struct http_request *req, det_err *err)
{
    (void)err;
    int *n = arena_alloc(req->arena, sizeof *n);
    *n = 0;
    http_stream_start(req, &(struct http_stream_opts){.pull = pull_event, .ctx = n});
    return 0;
}

// clang-format off
static const struct http_route routes[] = {
    {HTTP_GET, "/", HTTP_AUTH_NONE, .handle = handle_ok},
    {HTTP_GET, "/large", HTTP_AUTH_NONE, .handle = handle_large},
    {HTTP_POST, "/length", HTTP_AUTH_NONE, .handle = handle_length, .max_body = LARGE},
    {HTTP_GET, "/file", HTTP_AUTH_NONE, .handle = handle_file, .content = HTTP_BYTES},
    {HTTP_GET, "/later", HTTP_AUTH_NONE, .handle = handle_later},
    {HTTP_GET, "/events", HTTP_AUTH_NONE, .handle = handle_events, .content = HTTP_EVENTS},
};
// clang-format on
static const struct http_table tables[] = {HTTP_TABLE(routes)};

// --- certificates

// One that its own key has signed, for one name, valid from and until so many days from now.
static void make_certificate(const char *cert_file, const char *key_file, const char *name,
                             int from_days, int until_days)
{
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t crt;
    gnutls_datum_t cert_pem, key_pem;
    gnutls_x509_privkey_init(&key);
    gnutls_x509_crt_init(&crt);
    gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                 GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
    gnutls_x509_crt_set_version(crt, 3);
    gnutls_x509_crt_set_serial(crt, "\1", 1);
    gnutls_x509_crt_set_activation_time(crt, time(NULL) + (time_t)from_days * DAY_S);
    gnutls_x509_crt_set_expiration_time(crt, time(NULL) + (time_t)until_days * DAY_S);
    gnutls_x509_crt_set_dn(crt, "CN=a server", NULL);
    gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_DNSNAME, name, (unsigned)strlen(name), 0);
    gnutls_x509_crt_set_key(crt, key);
    assert_int_equal(gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0), 0);
    gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &cert_pem);
    gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &key_pem);
    det_err err;
    unlink(cert_file);
    unlink(key_file);
    assert_ok(fs_create(cert_file, str_from((char *)cert_pem.data), &err), &err);
    assert_ok(fs_create(key_file, str_from((char *)key_pem.data), &err), &err);
    chmod(key_file, 0600);
    gnutls_free(cert_pem.data);
    gnutls_free(key_pem.data);
    gnutls_x509_crt_deinit(crt);
    gnutls_x509_privkey_deinit(key);
}

static struct http_server_opts opts_with(const char *cert, const char *key)
{
    return (struct http_server_opts){
        .tables = tables, .n_tables = 1, .tls_cert = cert, .tls_key = key};
}

static void start(struct serve *s, struct http_server_opts opts)
{
    serve_start(s, &opts);
    snprintf(url, sizeof url, "https://127.0.0.1:%d", s->port);
}

// A server with the certificate that it makes for itself.
static int setup(void **state)
{
    (void)state;
    det_err err;
    const char *cert = temp_path("cert.pem"), *key = temp_path("key.pem");
    assert_ok(http_make_certificate(cert, key, NULL, &err), &err);
    start(&serve, opts_with(cert, key));
    return 0;
}

// The same, with little patience.
static int setup_hasty(void **state)
{
    (void)state;
    det_err err;
    const char *cert = temp_path("cert.pem"), *key = temp_path("key.pem");
    assert_ok(http_make_certificate(cert, key, NULL, &err), &err);
    struct http_server_opts opts = opts_with(cert, key);
    opts.head_timeout_us = 300000;
    opts.min_bytes_per_s = 64 << 20;
    start(&serve, opts);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    serve_stop(&serve);
    return 0;
}

// --- clients

static int call_with(const struct http_client_opts *opts, const struct http_call *call,
                     struct http_answer *out, det_err *err)
{
    struct http_client *client = http_client_new(opts, err);
    if (!client) return err->code;
    int rc = http_call(client, call, out, err);
    http_client_free(client);
    return rc;
}

static void assert_answers(const struct http_call *call, struct str expected)
{
    det_err err = {0};
    struct http_answer out = {0};
    const struct http_client_opts opts = {.url = url, .ca_file = temp_path("cert.pem")};
    assert_ok(call_with(&opts, call, &out, &err), &err);
    assert_true(str_eq(buf_str(&out.body), expected));
    http_answer_done(&out);
}

static void assert_refuses(const struct http_client_opts *opts, const char *text)
{
    det_err err = {0};
    assert_int_not_equal(call_with(opts, &(struct http_call){.path = "/"}, NULL, &err), 0);
    assert_failed_with(&err, DET_EUNREACHABLE, text);
}

// --- answers of all kinds

static void test_answers__of_all_kinds_come_through(void **state)
{
    (void)state;
    det_err err = {0};
    const struct str all = {large, LARGE};
    unlink(temp_path("file"));
    assert_ok(fs_create(temp_path("file"), all, &err), &err);
    assert_answers(&(struct http_call){.path = "/"}, STR("fine"));
    assert_answers(&(struct http_call){.path = "/later"}, STR("at last"));
    assert_answers(&(struct http_call){.path = "/large"}, all);
    assert_answers(&(struct http_call){.path = "/file"}, all);
    char text[32];
    snprintf(text, sizeof text, "%d 1", (int)LARGE);
    assert_answers(&(struct http_call){.method = HTTP_POST, .path = "/length", .body = all},
                   str_from(text));
}

static bool count_event(void *ctx, const struct http_event *event)
{
    int *n = ctx, number = 0;
    sscanf(event->data.ptr, "{\"n\":%d}", &number);
    assert_int_equal(number, ++*n);
    return true;
}

static void test_connection__is_kept_over_streams_and_waits(void **state)
{
    (void)state;
    det_err err = {0};
    int n = 0;
    struct http_client *client = http_client_new(
        &(struct http_client_opts){.url = url, .ca_file = temp_path("cert.pem")}, &err);
    assert_non_null(client);
    for (int i = 0; i < 3; i++) {
        n = 0;
        assert_ok(http_call(client, &(struct http_call){.path = "/later"}, NULL, &err), &err);
        const struct http_call events = {.path = "/events"};
        assert_ok(http_call_events(client, &events, count_event, &n, &err), &err);
        assert_int_equal(n, N_LINES);
    }
    http_client_free(client);
}

// --- whom to trust

static void test_unknown_certificate__is_not_trusted(void **state)
{
    (void)state;
    make_certificate(temp_path("other.pem"), temp_path("other-key.pem"), "localhost", -1, 30);
    assert_refuses(&(struct http_client_opts){.url = url}, "set DET_MASTER_CERT_FILE");
    assert_refuses(&(struct http_client_opts){.url = url}, url);
    assert_refuses(&(struct http_client_opts){.url = url, .ca_file = temp_path("other.pem")},
                   "is not to be trusted");
    assert_refuses(&(struct http_client_opts){.url = url, .ca_file = "/nowhere.pem"},
                   "'/nowhere.pem'");
}

static void test_name__must_be_that_of_the_certificate(void **state)
{
    (void)state;
    const char *cert = temp_path("named.pem"), *key = temp_path("named-key.pem");
    struct serve other;
    make_certificate(cert, key, "det.example.org", -1, 30);
    start(&other, opts_with(cert, key));
    struct http_client_opts opts = {.url = url, .ca_file = cert};
    assert_refuses(&opts, "set DET_MASTER_CERT_NAME");
    opts.cert_name = "other.example.org";
    assert_refuses(&opts, "is for somebody else");
    opts.cert_name = "det.example.org";
    det_err err = {0};
    assert_ok(call_with(&opts, &(struct http_call){.path = "/"}, NULL, &err), &err);
    struct buf name = BUF_INIT(256);
    http_certificate_name(cert, "127.0.0.1", &name);
    assert_string_equal(buf_str(&name).ptr, "det.example.org");
    buf_done(&name);
    serve_stop(&other);
}

static void test_own_certificate__is_for_all_names_of_this_machine(void **state)
{
    (void)state;
    struct stat st;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    const char *names[] = {"localhost", "127.0.0.1", "::1", host, "192.0.2.7"};
    det_err err = {0};
    const char *cert = temp_path("made.pem"), *key = temp_path("made-key.pem");
    assert_ok(http_make_certificate(cert, key, "192.0.2.7", &err), &err);
    assert_int_equal(stat(key, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_true(http_certificate_is_valid(cert));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct buf name = BUF_INIT(256);
        http_certificate_name(cert, names[i], &name);
        assert_string_equal(buf_str(&name).ptr, names[i]);
        buf_done(&name);
    }
}

// --- who does not speak as the server does

static void test_plain_client__is_told_to_use_https(void **state)
{
    (void)state;
    char plain[64];
    snprintf(plain, sizeof plain, "http://127.0.0.1:%d", serve.port);
    assert_refuses(&(struct http_client_opts){.url = plain}, "begins with https://");
    struct buf out = BUF_INIT(1 << 20);
    int fd = dial(&serve);
    say(fd, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const char *heard = hear_all(fd, &out);
    assert_int_equal(status_of(heard), 426);
    assert_null(strstr(heard, "fine"));
    buf_done(&out);
}

static void test_tls_client__of_a_plain_server_is_told_to_use_http(void **state)
{
    (void)state;
    struct serve other;
    start(&other, opts_with(NULL, NULL));
    assert_refuses(&(struct http_client_opts){.url = url}, "begins with http://");
    serve_stop(&other);
}

// A TLS connection by hand: 0 if the handshake was completed.
static int shake_hands(gnutls_session_t *session, int fd, const char *priorities)
{
    static gnutls_certificate_credentials_t credentials;
    if (!credentials) gnutls_certificate_allocate_credentials(&credentials);
    gnutls_init(session, GNUTLS_CLIENT);
    gnutls_priority_set_direct(*session, priorities, NULL);
    gnutls_credentials_set(*session, GNUTLS_CRD_CERTIFICATE, credentials);
    gnutls_transport_set_int(*session, fd);
    int rc;
    do
        rc = gnutls_handshake(*session);
    while (rc < 0 && !gnutls_error_is_fatal(rc));
    return rc;
}

static void test_old_versions__are_refused(void **state)
{
    (void)state;
    const struct {
        const char *priorities;
        bool is_good;
    } cases[] = {
        {"NORMAL:-VERS-ALL:+VERS-TLS1.3", true},
        {"NORMAL:-VERS-ALL:+VERS-TLS1.2", true},
        {"NORMAL:-VERS-ALL:+VERS-TLS1.1:%VERIFY_ALLOW_SIGN_WITH_SHA1", false},
        {"NORMAL:-VERS-ALL:+VERS-TLS1.2:-CIPHER-ALL:+AES-128-CBC", false},
        {"NORMAL:-VERS-ALL:+VERS-TLS1.2:-KX-ALL:+RSA", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gnutls_session_t session;
        int fd = dial(&serve), rc = shake_hands(&session, fd, cases[i].priorities);
        if ((rc == 0) != cases[i].is_good)
            fail_msg("%s: %s", cases[i].priorities, gnutls_strerror(rc));
        gnutls_deinit(session);
        close(fd);
    }
}

// A page of somebody else's cannot show its own name in our certificate, so any Host is good.
static void test_host__may_be_any_name_of_the_server(void **state)
{
    (void)state;
    static const char request[] = "GET / HTTP/1.1\r\nHost: det.example.org:8080\r\n\r\n";
    char heard[4096] = "";
    gnutls_session_t session;
    int fd = dial(&serve);
    assert_int_equal(shake_hands(&session, fd, "NORMAL"), 0);
    gnutls_record_send(session, request, sizeof request - 1);
    ssize_t n;
    do
        n = gnutls_record_recv(session, heard, sizeof heard - 1);
    while (n < 0 && !gnutls_error_is_fatal((int)n));
    assert_int_equal(status_of(heard), 200);
    gnutls_deinit(session);
    close(fd);
}

// --- the slow

static bool has_no_connections(const struct http_stats *stats)
{
    return stats->n_connections == 0;
}

static void test_slow__handshake_is_cut_off(void **state)
{
    (void)state;
    static const char *const beginnings[] = {"", "\x16", "\x16\x03\x01\x02"};
    struct buf out = BUF_INIT(1 << 20);
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
        int fd = dial(&serve);
        if (*beginnings[i]) say(fd, beginnings[i]);
        hear_all(fd, &out); // fails if the server does not close it
    }
    buf_done(&out);
    serve_wait(&serve, has_no_connections);
}

static void test_slow__request_and_reader_are_cut_off(void **state)
{
    (void)state;
    static const char *const requests[] = {"GET / HTT",
                                           "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"};
    int fds[2];
    gnutls_session_t sessions[2];
    for (int i = 0; i < 2; i++) {
        int few = 4096;
        fds[i] = dial(&serve);
        setsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &few, sizeof few);
        if (!shake_hands(&sessions[i], fds[i], "NORMAL")) // else this machine is the slow one
            gnutls_record_send(sessions[i], requests[i], strlen(requests[i]));
    }
    serve_wait(&serve, has_no_connections); // though both are still open here
    for (int i = 0; i < 2; i++) {
        gnutls_deinit(sessions[i]);
        close(fds[i]);
    }
}

// --- files that are of no use

static void assert_cannot_start(const char *cert, const char *key, const char *text)
{
    det_err err = {0};
    struct loop *loop = loop_new(&err);
    const struct http_server_opts opts = opts_with(cert, key);
    assert_null(http_server_new(loop, &opts, &err));
    if (!strstr(err.msg, text)) fail_msg("'%s' should have '%s'", err.msg, text);
    loop_free(loop);
}

static void test_files__that_cannot_be_used_are_named(void **state)
{
    (void)state;
    char cert[128], key[128], other[128], other_key[128];
    snprintf(cert, sizeof cert, "%s", temp_path("a.pem"));
    snprintf(key, sizeof key, "%s", temp_path("a-key.pem"));
    snprintf(other, sizeof other, "%s", temp_path("b.pem"));
    snprintf(other_key, sizeof other_key, "%s", temp_path("b-key.pem"));
    make_certificate(cert, key, "localhost", -1, 30);
    make_certificate(other, other_key, "localhost", -30, -1);
    assert_cannot_start("/nowhere.pem", key, "'/nowhere.pem'");
    assert_cannot_start(cert, "/nowhere.pem", "'/nowhere.pem'");
    assert_cannot_start(key, cert, "a-key.pem' should have a certificate in PEM form");
    assert_cannot_start(cert, cert, "a.pem' should have a private key in PEM form");
    assert_cannot_start(cert, other_key, "b-key.pem' does not belong to the certificate");
    assert_cannot_start(other, other_key, "b.pem' expired on ");
    make_certificate(other, other_key, "localhost", 2, 30);
    assert_cannot_start(other, other_key, "b.pem' is not valid before ");
    chmod(key, 0644);
    assert_cannot_start(cert, key, "(mode 644); it should be its owner's alone: chmod 600 ");
    assert_false(http_certificate_is_valid("/nowhere.pem"));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_answers__of_all_kinds_come_through),
        T(test_connection__is_kept_over_streams_and_waits),
        T(test_unknown_certificate__is_not_trusted),
        T(test_name__must_be_that_of_the_certificate),
        T(test_own_certificate__is_for_all_names_of_this_machine),
        T(test_plain_client__is_told_to_use_https),
        T(test_tls_client__of_a_plain_server_is_told_to_use_http),
        T(test_old_versions__are_refused),
        T(test_host__may_be_any_name_of_the_server),
        cmocka_unit_test_setup_teardown(test_slow__handshake_is_cut_off, setup_hasty, teardown),
        cmocka_unit_test_setup_teardown(test_slow__request_and_reader_are_cut_off, setup_hasty,
                                        teardown),
        cmocka_unit_test(test_files__that_cannot_be_used_are_named),
    };
    large = malloc(LARGE);
    for (size_t i = 0; i < LARGE; i++)
        large[i] = (char)(i * 2654435761u >> 24);
    int rc = cmocka_run_group_tests(tests, NULL, temp_remove);
    free(large);
    return rc;
}
