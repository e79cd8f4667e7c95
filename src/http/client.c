// Unit client.c: libcurl, one call at a time, that another thread can end.
#include "http/address.h"
#include "http/curl.h"
#include "http/exchange.h"
#include "http/sse.h"

#include "doc/json.h"
#include "base/mem.h"
#include "base/number.h"
#include "sys/interrupt.h"
#include <stdatomic.h>
#include <strings.h>

enum {
    CONNECT_TIMEOUT_MS = 5000,
    CALL_TIMEOUT_US = 30 * 1000000,
    MAX_ANSWER_BYTES = 64 << 20,
    MAX_PROBLEM_BYTES = 64 << 10,
    STREAM_SILENCE_S = 60, // an event stream has a heartbeat every 15 s
    TLS_WANTED = 426,      // how a server with TLS answers plain HTTP; see tls.c
    NOT_NOW = 503,
    MAX_ENDPOINTS = 16,
};

// One of the addresses of a server.
struct endpoint {
    char *url;
    // If the certificate is to be for another name than that of the url: curl looks for the host of
    // its URL in it, so it gets an URL with that name, and is told where to connect.
    char *named_url;
    struct curl_slist *connect_to;
};

struct http_client {
    struct endpoint endpoints[MAX_ENDPOINTS];
    int n_endpoints, at; // at: the one that answered last
    char *token, *ca_file, *hint;
    int64_t timeout_us;
    CURLM *multi; // holds the connection between calls
    CURL *easy;
    _Atomic bool canceled;
};

// --- life

static char *copy_or_null(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

static const char *url_of(const struct http_client *client)
{
    return client->endpoints[client->at].url;
}

static void expect_name(struct endpoint *e, const char *name)
{
    struct str host = address_host(e->url), where = address_host_port(e->url);
    if (!name || !*name || !address_is_tls(e->url) || str_eqz(host, name)) return;
    struct buf rule = BUF_INIT(64 << 10);
    bool has_port = where.ptr[where.len - 1] != ']' && where.len > host.len;
    buf_printf(&rule, "::%.*s%s", STR_ARG(where), has_port ? "" : ":");
    e->named_url = address_with_host(e->url, name);
    e->connect_to = libcurl.slist_append(NULL, buf_str(&rule).ptr);
    buf_done(&rule);
}

// One, or several with commas between them.
static int add_endpoints(struct http_client *client, const struct http_client_opts *opts,
                         det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct str rest = str_from(opts->url ? opts->url : "");
    int rc = 0;
    do {
        struct str one = str_cut(&rest, ',');
        char *url = address_complete(arena_strndup(&arena, one.ptr, one.len));
        if (!url)
            rc = det_fail(err, DET_EINVAL, "'%.*s' is not the address of a server", STR_ARG(one));
        else if (client->n_endpoints == MAX_ENDPOINTS)
            rc = det_fail(err, DET_EINVAL, "'%s' has more than %d addresses", opts->url,
                          MAX_ENDPOINTS);
        else
            client->endpoints[client->n_endpoints++].url = url;
        if (rc) break;
        expect_name(&client->endpoints[client->n_endpoints - 1], opts->cert_name);
    } while (rest.len);
    arena_done(&arena);
    return rc;
}

struct http_client *http_client_new(const struct http_client_opts *opts, det_err *err)
{
    if (curl_load(err)) return NULL;
    struct http_client *client = xcalloc(1, sizeof *client);
    int rc = add_endpoints(client, opts, err);
    client->token = copy_or_null(opts->token);
    client->ca_file = copy_or_null(opts->ca_file);
    client->hint = copy_or_null(opts->hint);
    client->timeout_us = opts->timeout_us ? opts->timeout_us : CALL_TIMEOUT_US;
    client->multi = libcurl.multi_init();
    client->easy = libcurl.easy_init();
    if (!rc && client->multi && client->easy) return client;
    if (!rc) det_fail(err, DET_ENOMEM, "cannot start an HTTP client");
    http_client_free(client);
    return NULL;
}

void http_client_free(struct http_client *client)
{
    if (!client) return;
    libcurl.easy_cleanup(client->easy);
    libcurl.multi_cleanup(client->multi);
    for (int i = 0; i < client->n_endpoints; i++) {
        libcurl.slist_free_all(client->endpoints[i].connect_to);
        free(client->endpoints[i].named_url);
        free(client->endpoints[i].url);
    }
    free(client->token);
    free(client->ca_file);
    free(client->hint);
    free(client);
}

void http_client_cancel(struct http_client *client)
{
    atomic_store(&client->canceled, true);
    libcurl.multi_wakeup(client->multi);
}

void http_answer_done(struct http_answer *answer)
{
    if (answer) buf_done(&answer->body);
}

// --- a call

// Where the bytes of the answer go.
struct sink {
    struct http_client *client;
    struct buf body;           // all of it; of a stream, only what a refusal says
    struct line_reader *lines; // of a stream of lines
    http_line_fn on_piece;     // of any other
    void *ctx;
    bool wants_no_more, was_interrupted;
    CURLcode result;
    long status;
    bool was_sent; // there was a connection
    char why[CURL_ERROR_SIZE];
};

static bool is_stream(const struct sink *sink)
{
    return sink->lines || sink->on_piece;
}

static size_t on_bytes(char *bytes, size_t size, size_t n, void *ctx)
{
    struct sink *sink = ctx;
    size_t n_bytes = size * n;
    long status = 0;
    libcurl.easy_getinfo(sink->client->easy, CURLINFO_RESPONSE_CODE, &status);
    if (!is_stream(sink) || status / 100 != 2) {
        buf_add(&sink->body, bytes, n_bytes);
        return buf_ok(&sink->body) ? n_bytes : 0;
    }
    if (sink->on_piece) {
        sink->wants_no_more = !sink->on_piece(sink->ctx, (struct str){bytes, n_bytes});
        return sink->wants_no_more ? 0 : n_bytes;
    }
    if (line_reader_add(sink->lines, (struct str){bytes, n_bytes})) return n_bytes;
    sink->wants_no_more = buf_ok(&sink->lines->line);
    return 0;
}

static struct curl_slist *add_header(struct curl_slist *list, const char *name, const char *value)
{
    struct buf line = BUF_INIT(64 << 10);
    if (!value) return list;
    buf_printf(&line, "%s: %s", name, value);
    struct curl_slist *longer =
        buf_ok(&line) ? libcurl.slist_append(list, buf_str(&line).ptr) : NULL;
    buf_done(&line);
    return longer ? longer : list;
}

static struct curl_slist *headers_of(const struct http_client *client, const struct http_call *call,
                                     bool streams)
{
    struct curl_slist *list = libcurl.slist_append(NULL, "Expect:"); // we do not wait to be asked
    struct buf bearer = BUF_INIT(64 << 10);
    if (client->token) buf_printf(&bearer, "Bearer %s", client->token);
    list = add_header(list, "Authorization", client->token ? buf_str(&bearer).ptr : NULL);
    if (call->method != HTTP_GET)
        list = add_header(list, "Content-Type",
                          call->content_type ? call->content_type : http_content_type(HTTP_JSON));
    list = add_header(list, "Idempotency-Key", call->idempotency_key);
    list = add_header(list, "Last-Event-ID", call->last_event_id);
    if (client->endpoints[client->at].named_url) {
        struct str host = address_host_port(url_of(client));
        buf_clear(&bearer);
        buf_printf(&bearer, "%.*s", STR_ARG(host));
        list = add_header(list, "Host", buf_str(&bearer).ptr);
    }
    list = add_header(list, "Accept", streams ? "*/*" : http_content_type(HTTP_JSON));
    buf_done(&bearer);
    return list;
}

static void set_body(CURL *easy, const struct http_call *call)
{
    if (call->method == HTTP_GET) return;
    libcurl.easy_setopt(easy, CURLOPT_POSTFIELDS, call->body.ptr ? call->body.ptr : "");
    libcurl.easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body.len);
    libcurl.easy_setopt(easy, CURLOPT_CUSTOMREQUEST, http_method_name(call->method));
}

static void set_timeouts(CURL *easy, const struct http_client *client, const struct http_call *call,
                         bool streams)
{
    int64_t timeout_us = call->timeout_us ? call->timeout_us : client->timeout_us;
    if (streams && !call->timeout_us) timeout_us = -1;
    libcurl.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    if (timeout_us > 0) {
        libcurl.easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)((timeout_us + 999) / 1000));
    } else if (streams) {
        libcurl.easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
        libcurl.easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)STREAM_SILENCE_S);
    }
}

static void set_tls(CURL *easy, const struct http_client *client)
{
    libcurl.easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2); // at least
    if (client->ca_file) {
        libcurl.easy_setopt(easy, CURLOPT_CAINFO, client->ca_file);
        libcurl.easy_setopt(easy, CURLOPT_CAPATH, NULL); // and nobody else
    }
    const struct endpoint *e = &client->endpoints[client->at];
    if (e->connect_to) libcurl.easy_setopt(easy, CURLOPT_CONNECT_TO, e->connect_to);
}

static void prepare(struct http_client *client, const struct http_call *call, struct sink *sink)
{
    CURL *easy = client->easy;
    libcurl.easy_reset(easy);
    libcurl.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    libcurl.easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    libcurl.easy_setopt(easy, CURLOPT_USERAGENT, "det");
    libcurl.easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
    libcurl.easy_setopt(easy, CURLOPT_WRITEDATA, sink);
    libcurl.easy_setopt(easy, CURLOPT_ERRORBUFFER, sink->why);
    if (address_is_local(url_of(client)))
        libcurl.easy_setopt(easy, CURLOPT_PROXY, ""); // whatever the environment says
    set_tls(easy, client);
    set_timeouts(easy, client, call, is_stream(sink));
    set_body(easy, call);
}

// Runs the call that was prepared until it ends or is canceled.
static CURLcode transfer(struct http_client *client, bool *was_interrupted)
{
    CURLcode result = CURLE_ABORTED_BY_CALLBACK;
    int running = 1, n_left, wait_ms = interrupt_wanted ? INTERRUPT_POLL_US / 1000 : 1000;
    libcurl.multi_add_handle(client->multi, client->easy);
    while (running && !atomic_load(&client->canceled) && !*was_interrupted) {
        libcurl.multi_perform(client->multi, &running);
        if (running) libcurl.multi_poll(client->multi, NULL, 0, wait_ms, NULL);
        *was_interrupted = running && interrupted();
    }
    for (CURLMsg *m; (m = libcurl.multi_info_read(client->multi, &n_left));)
        if (m->msg == CURLMSG_DONE) result = m->data.result;
    libcurl.multi_remove_handle(client->multi, client->easy);
    return result;
}

static void perform_once(struct http_client *client, const struct http_call *call,
                         struct sink *sink)
{
    const struct endpoint *e = &client->endpoints[client->at];
    struct buf url = BUF_INIT(64 << 10);
    struct curl_slist *headers = headers_of(client, call, is_stream(sink));
    buf_printf(&url, "%s%s", e->named_url ? e->named_url : e->url, call->path);
    prepare(client, call, sink);
    libcurl.easy_setopt(client->easy, CURLOPT_URL, buf_ok(&url) ? buf_str(&url).ptr : "");
    libcurl.easy_setopt(client->easy, CURLOPT_HTTPHEADER, headers);
    sink->result = transfer(client, &sink->was_interrupted);
    curl_off_t ready_us = 0;
    libcurl.easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &sink->status);
    libcurl.easy_getinfo(client->easy, CURLINFO_PRETRANSFER_TIME_T, &ready_us);
    sink->was_sent = ready_us > 0;
    libcurl.easy_setopt(client->easy, CURLOPT_ERRORBUFFER, NULL); // the sink is gone before it
    libcurl.slist_free_all(headers);
    buf_done(&url);
}

// Nothing has come of it, for sure: nobody was there, or said that it is not their turn.
static bool may_ask_others(const struct http_client *client, const struct sink *sink)
{
    if (client->n_endpoints == 1 || atomic_load(&client->canceled)) return false;
    if (sink->result == CURLE_OK) return sink->status == NOT_NOW;
    return !sink->was_sent && !sink->status && !sink->wants_no_more;
}

// Asks the next one. If that is not there, what the one before has said is the answer.
static void ask_next(struct http_client *client, const struct http_call *call, struct sink *sink)
{
    struct sink before = *sink;
    int at = client->at;
    sink->body = BUF_INIT(before.body.max);
    sink->status = 0;
    *sink->why = '\0';
    client->at = (at + 1) % client->n_endpoints;
    perform_once(client, call, sink);
    if (before.status && may_ask_others(client, sink)) {
        struct sink other = *sink;
        *sink = before;
        before = other;
        client->at = at;
    }
    buf_done(&before.body);
}

// Of several addresses one is that of the server; the others wait to take over.
static void perform(struct http_client *client, const struct http_call *call, struct sink *sink)
{
    perform_once(client, call, sink);
    for (int i = 1; i < client->n_endpoints && may_ask_others(client, sink); i++)
        ask_next(client, call, sink);
    bool broke = sink->result != CURLE_OK && !sink->wants_no_more && sink->was_sent;
    if (broke)
        client->at = (client->at + 1) % client->n_endpoints; // the next call begins elsewhere
}

// --- what went wrong

static int code_of_status(long status)
{
    static const int codes[] = {
#define CODE(name, value, text, http) value,
        DET_ERRORS(CODE)
#undef CODE
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (det_err_http(codes[i]) == status) return codes[i];
    if (status == 502 || status == TLS_WANTED) return DET_EUNREACHABLE;
    return status / 100 == 5 ? DET_EIO : DET_EINVAL;
}

// A server that answers, but not as whom we want to talk to.
static int fail_tls(const struct http_client *client, const struct sink *sink, det_err *err)
{
    const char *why = *sink->why ? sink->why : libcurl.easy_strerror(sink->result);
    switch ((int)sink->result) {
    case CURLE_SSL_CONNECT_ERROR:
        return det_fail(err, DET_EUNREACHABLE,
                        "%s does not speak TLS as expected: %s; the address of a master without "
                        "TLS begins with http://",
                        url_of(client), why);
    case CURLE_SSL_CACERT_BADFILE:
        return det_fail(err, DET_EUNREACHABLE,
                        "cannot use the certificates in '%s' to check %s: %s; DET_MASTER_CERT_FILE "
                        "should name a PEM file",
                        client->ca_file ? client->ca_file : "", url_of(client), why);
    case CURLE_PEER_FAILED_VERIFICATION:
        if (strstr(why, "does not match"))
            return det_fail(err, DET_EUNREACHABLE,
                            "the certificate of %s is for somebody else: %s; if that is the right "
                            "one, set DET_MASTER_CERT_NAME to the name in it",
                            url_of(client), why);
        const char *more = strstr(why, ". CAfile"); // which is ours, or not known to anybody
        return det_fail(err, DET_EUNREACHABLE,
                        "the certificate of %s is not to be trusted: %.*s; to trust it, set "
                        "DET_MASTER_CERT_FILE to a copy of it (<data>/master.pem of the master) or "
                        "to the certificate of who signed it",
                        url_of(client), (int)(more ? (size_t)(more - why) : strlen(why)), why);
    }
    return 0;
}

static int fail_transport(const struct http_client *client, const struct sink *sink, det_err *err)
{
    const char *why = libcurl.easy_strerror(sink->result);
    if (atomic_load(&client->canceled) || sink->was_interrupted)
        return det_fail(err, DET_ECANCELED, "canceled");
    if (sink->result == CURLE_WRITE_ERROR)
        return det_fail(err, DET_ELIMIT, "the answer of %s is too large", url_of(client));
    if (sink->result == CURLE_OPERATION_TIMEDOUT && sink->was_sent)
        return det_fail(err, DET_ETIMEOUT, "%s took too long to answer", url_of(client));
    if (sink->result == CURLE_URL_MALFORMAT || sink->result == CURLE_UNSUPPORTED_PROTOCOL)
        return det_fail(err, DET_EINVAL, "'%s' is not the address of a server: %s", url_of(client),
                        why);
    int rc = fail_tls(client, sink, err);
    if (rc) return rc;
    if (sink->status)
        return det_fail(err, DET_EUNREACHABLE, "the connection to %s broke: %s", url_of(client),
                        why);
    return det_fail(err, DET_EUNREACHABLE, "cannot reach %s: %s%s%s", url_of(client), why,
                    client->hint ? "; " : "", client->hint ? client->hint : "");
}

static int fail_status(const struct http_client *client, const struct sink *sink, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct diag_list diags = DIAG_INIT(&arena);
    const struct doc *doc = json_parse(&arena, buf_str(&sink->body), NULL, &diags);
    const struct doc *detail = doc_find(doc, "detail");
    if (!detail) detail = doc_find(doc, "message");
    int rc;
    if (detail && detail->kind == DOC_STR)
        rc = det_fail(err, code_of_status(sink->status), "%s", detail->text.ptr);
    else
        rc = det_fail(err, code_of_status(sink->status), "%s answered %ld", url_of(client),
                      sink->status);
    if (sink->status == TLS_WANTED) det_wrap(err, "%s", url_of(client));
    arena_done(&arena);
    return rc;
}

static int judge(const struct http_client *client, const struct sink *sink, det_err *err)
{
    if (sink->wants_no_more) return 0;
    if (sink->result != CURLE_OK) return fail_transport(client, sink, err);
    return sink->status / 100 == 2 ? 0 : fail_status(client, sink, err);
}

// --- calls

int http_call(struct http_client *client, const struct http_call *call, struct http_answer *out,
              det_err *err)
{
    struct sink sink = {.client = client};
    curl_off_t retry_after = 0;
    sink.body.max = call->max_bytes ? call->max_bytes : MAX_ANSWER_BYTES;
    perform(client, call, &sink);
    libcurl.easy_getinfo(client->easy, CURLINFO_RETRY_AFTER, &retry_after);
    int rc = judge(client, &sink, err);
    if (rc || !out) {
        buf_done(&sink.body);
        return rc;
    }
    *out = (struct http_answer){(int)sink.status, retry_after, sink.body};
    return 0;
}

int http_call_json(struct http_client *client, const struct http_call *call, struct arena *arena,
                   struct doc **out, det_err *err)
{
    struct http_answer answer;
    int rc = http_call(client, call, &answer, err);
    if (rc) return rc;
    struct diag_list diags = DIAG_INIT(arena);
    const struct json_opts opts = {.max_bytes = answer.body.max};
    struct doc *doc = json_parse(arena, buf_str(&answer.body), &opts, &diags);
    if (doc)
        *out = doc;
    else
        rc = det_fail(err, DET_ECORRUPT, "%s answered something that is not JSON", url_of(client));
    http_answer_done(&answer);
    return rc;
}

int http_call_pieces(struct http_client *client, const struct http_call *call,
                     http_line_fn on_piece, void *ctx, det_err *err)
{
    struct sink sink = {
        .client = client, .body = BUF_INIT(MAX_PROBLEM_BYTES), .on_piece = on_piece, .ctx = ctx};
    perform(client, call, &sink);
    int rc = judge(client, &sink, err);
    buf_done(&sink.body);
    return rc;
}

int http_call_lines(struct http_client *client, const struct http_call *call, http_line_fn on_line,
                    void *ctx, det_err *err)
{
    struct line_reader lines = {.line = BUF_INIT(LINE_MAX_BYTES), .on_line = on_line, .ctx = ctx};
    struct sink sink = {.client = client, .body = BUF_INIT(MAX_PROBLEM_BYTES), .lines = &lines};
    perform(client, call, &sink);
    int rc = judge(client, &sink, err);
    if (!rc && !sink.wants_no_more) line_reader_end(&lines);
    line_reader_done(&lines);
    buf_done(&sink.body);
    return rc;
}

int http_call_events(struct http_client *client, const struct http_call *call,
                     http_event_fn on_event, void *ctx, det_err *err)
{
    struct sse_reader events;
    sse_init(&events, on_event, ctx);
    int rc = http_call_lines(client, call, sse_add_line, &events, err);
    if (!rc && !buf_ok(&events.data))
        rc = det_fail(err, DET_ELIMIT, "an event of %s is too large", url_of(client));
    sse_done(&events);
    return rc;
}
