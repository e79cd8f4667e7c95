// Unit requests.c: the master of tests/support/requests.h.
#include "support/requests.h"

#include "base/assert.h"
#include "doc/json.h"
#include "base/number.h"
#include "master/auth.h"
#include "support/fake_rm.h"
#include "sys/log.h"
#include <fcntl.h>
#include <ftw.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_ANSWER = 64 << 20, MAX_TURNS = 50 };

static char root[64], data_dir[80];
static int history = -1;
static struct master *m;
static struct arena arena; // as long as the master
static const char *admin_token, *user_token;

// --- passwords: hashing is made to take long, and would take all of the time

static struct requests_hashing hashing;

const struct requests_hashing *requests_hashing(void)
{
    return &hashing;
}

int crypto_pwhash_str(char out[crypto_pwhash_STRBYTES], const char *password, unsigned long long n,
                      unsigned long long ops, size_t memory)
{
    (void)n;
    hashing.ops = ops;
    hashing.memory = memory;
    snprintf(out, crypto_pwhash_STRBYTES, "plain:%.100s", password);
    return 0;
}

int crypto_pwhash_str_verify(const char hash[crypto_pwhash_STRBYTES], const char *password,
                             unsigned long long n)
{
    char other[crypto_pwhash_STRBYTES];
    hashing.n_verified++;
    snprintf(hashing.last_verified, sizeof hashing.last_verified, "%s", hash);
    return crypto_pwhash_str(other, password, n, hashing.ops, hashing.memory) ||
                   strcmp(hash, other) != 0
               ? -1
               : 0;
}

// --- rows

// As people write it: without the kinds of the parameters.
static void write_name(const struct http_route *row, struct buf *out)
{
    buf_printf(out, "%s ", http_method_name(row->method));
    for (const char *p = row->path; *p; p++) {
        if (*p == ':') p = strchr(p, '}');
        if (*p != '*') buf_addc(out, *p);
    }
}

struct named_row {
    const struct http_route *row;
    char *name;
};

static const struct named_row *all_rows(size_t *n)
{
    static struct named_row rows[256];
    static size_t n_rows;
    size_t n_tables;
    const struct http_table *tables = master_tables(&n_tables);
    for (size_t t = 0; t < n_tables && !rows[0].name; t++)
        n_rows += tables[t].n;
    ASSERT(n_rows <= STATIC_LEN(rows));
    for (size_t t = 0, at = 0; t < n_tables && !rows[n_rows - 1].name; t++)
        for (size_t i = 0; i < tables[t].n; i++) {
            struct buf name = BUF_INIT(1024);
            write_name(&tables[t].rows[i], &name);
            rows[at++] = (struct named_row){&tables[t].rows[i], buf_take(&name)};
        }
    *n = n_rows;
    return rows;
}

static const struct http_route *find_row(struct str text)
{
    size_t n, sum = 0;
    const struct named_row *rows = all_rows(&n);
    for (size_t i = 0; i < n; i++)
        if (str_eqz(text, rows[i].name)) return rows[i].row;
    for (size_t i = 0; i < text.len; i++)
        sum = sum * 31 + (unsigned char)text.ptr[i];
    return rows[sum % n].row;
}

// --- what is alive

static struct live_allocation *some_allocation(void)
{
    return m->allocations.n ? m->allocations.items[0].value : NULL;
}

static void add_living(struct str name, struct buf *out)
{
    static const struct {
        const char *name, *value;
    } others[] = {{"user", "2"}, {"slot", "0"}, {"uuid", "11111111-2222-4333-8444-555555555555"}};
    const struct live_allocation *a = some_allocation();
    const struct live_trial *t = a ? a->trial : NULL;
    for (size_t i = 0; i < STATIC_LEN(others); i++)
        if (str_eqz(name, others[i].name)) buf_addz(out, others[i].value);
    if (str_eqz(name, "trial")) buf_printf(out, "%lld", t ? (long long)t->row.id : 1);
    if (str_eqz(name, "experiment"))
        buf_printf(out, "%lld", t ? (long long)t->row.experiment_id : 1);
    if (t && str_eqz(name, "alloc")) buf_addz(out, a->row.id);
    if (t && str_eqz(name, "task")) buf_addz(out, t->row.task_id);
    if (t && str_eqz(name, "job")) buf_addz(out, t->experiment->job.id);
}

static const char *token_of(char who)
{
    const struct live_allocation *a = some_allocation();
    static const char order[] = "autn";
    if (!strchr(order, who)) who = order[(unsigned char)who % 4];
    if (who == 't') return a ? a->session_token : "ended";
    return who == 'a' ? admin_token : who == 'u' ? user_token : NULL;
}

// --- requests

static struct buf last_body = BUF_INIT(MAX_ANSWER);

const char *requests_body(void)
{
    return buf_str(&last_body).ptr;
}

// Part of a request line: what would end it, or is no text, is encoded.
static void add_safe(struct buf *out, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c > ' ' && c < 127)
            buf_addc(out, (char)c);
        else
            buf_printf(out, "%%%02X", c);
    }
}

static void add_path(struct buf *out, const char *pattern, struct str params)
{
    for (const char *p = pattern; *p; p++) {
        if (*p != '{') {
            buf_addc(out, *p);
            continue;
        }
        struct str name = {p + 1, strcspn(p + 1, ":*}")};
        struct str value = str_cut(&params, '/');
        if (value.len)
            add_safe(out, value);
        else
            add_living(name, out);
        p = strchr(p, '}');
    }
}

static void write_request(struct buf *out, const struct http_route *row, struct str how,
                          struct str body)
{
    struct str key = how, query = str_cut(&key, '#'), params = str_cut(&query, '?');
    struct str who = str_cut(&params, '/');
    const char *token = token_of(who.len ? who.ptr[0] : 'a');
    buf_printf(out, "%s ", http_method_name(row->method));
    add_path(out, row->path, params);
    if (query.ptr) buf_addc(out, '?');
    if (query.ptr) add_safe(out, query);
    buf_addz(out, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    if (token) buf_printf(out, "Authorization: Bearer %s\r\n", token);
    if (key.ptr) buf_addz(out, "Idempotency-Key: ");
    if (key.ptr) add_safe(out, key);
    if (key.ptr) buf_addz(out, "\r\n");
    buf_printf(out, "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n", body.len);
    buf_add(out, body.ptr, body.len);
}

// --- answers

static bool is_json(struct str text)
{
    struct arena scratch = ARENA_INIT;
    struct diag_list diags = DIAG_INIT(&scratch);
    const struct json_opts opts = {.max_bytes = MAX_ANSWER, .max_depth = JSON_WRITER_DEPTH};
    bool good = json_parse(&scratch, text, &opts, &diags) != NULL;
    arena_done(&scratch);
    return good;
}

// The type in a head, without its parameters, is this one.
static bool says(const char *head, const char *type)
{
    static const char name[] = "\r\nContent-Type: ";
    const char *found = strcasestr(head, name);
    size_t n = strcspn(type, ";");
    return found && !strncmp(found + strlen(name), type, n);
}

static bool is_declared(const struct http_route *row, const char *head)
{
    return row->content == HTTP_BYTES || says(head, http_content_type(row->content)) ||
           says(head, "text/event-stream");
}

static bool is_good(const struct http_route *row, const struct buf *answer)
{
    const char *text = buf_str(answer).ptr, *end = strstr(text, "\r\n\r\n");
    int64_t status;
    if (strncmp(text, "HTTP/1.1 ", 9) != 0 || !end) return false;
    if (!number_to_int((struct str){text + 9, 3}, 10, &status)) return false;
    if (status < 200 || status == 500) return false;
    struct str body = {end + 4, answer->len - (size_t)(end + 4 - text)};
    bool is_problem = says(text, "application/problem+json");
    if (status >= 300 ? !is_problem : !is_declared(row, text)) return false;
    return is_json(body) || !(is_problem || says(text, "application/json"));
}

// An answer that goes on, or one that comes when something happens.
static bool may_wait(const struct http_route *row, const struct buf *answer)
{
    return (answer->len && says(answer->ptr, "text/event-stream")) ||
           strstr(row->path, "/signals/preemption");
}

// What the request has set off, too.
static bool turn(int fd, struct buf *answer)
{
    char bytes[16384];
    ssize_t n = -1;
    loop_run_once(m->loop, 0);
    while ((n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        buf_add(answer, bytes, (size_t)n);
    if (n == 0) return false;
    if (!workers_drain(m)) db_wait(m->db);
    return true;
}

static int send_request(const struct http_route *row, struct str how, struct str body)
{
    int ends[2], n_turns = 0;
    struct buf request = BUF_INIT(4 << 20), answer = BUF_INIT(MAX_ANSWER);
    write_request(&request, row, how, body);
    ASSERT(buf_ok(&request));
    ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    ASSERT(http_server_adopt(m->server, ends[1], NULL) == 0);
    for (size_t sent = 0; n_turns < MAX_TURNS; n_turns++) {
        ssize_t n = send(ends[0], request.ptr + sent, request.len - sent, MSG_NOSIGNAL);
        if (n > 0) sent += (size_t)n;
        if (!turn(ends[0], &answer)) break;
    }
    bool good = n_turns < MAX_TURNS ? is_good(row, &answer) : may_wait(row, &answer);
    if (!good) fprintf(stderr, "%.2000s\n---\n%s\n", request.ptr, buf_str(&answer).ptr);
    ASSERT(good && !m->failure.code);
    int64_t status = 0;
    if (answer.len) number_to_int((struct str){answer.ptr + 9, 3}, 10, &status);
    close(ends[0]);
    const char *head = answer.len ? strstr(answer.ptr, "\r\n\r\n") : NULL;
    buf_clear(&last_body);
    if (head) buf_addz(&last_body, head + 4);
    buf_done(&request);
    buf_done(&answer);
    return (int)status;
}

// What was set off comes to its end.
static void let_go(void)
{
    for (int i = 0; i < 12; i++) {
        loop_run_once(m->loop, 0);
        workers_drain(m);
        db_wait(m->db);
    }
}

static int act(struct str text)
{
    struct str line = str_cut(&text, '\n');
    if (str_starts(line, STR("exit"))) {
        fake_rm_exit(m->rm, line.len > 5 ? line.ptr[5] - '0' : 0);
        let_go();
        return 0;
    }
    struct str how = str_cut(&text, '\n');
    return send_request(find_row(line), how, text.ptr ? text : STR(""));
}

// --- the master

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void open_master(void)
{
    det_err err;
    struct diag_list diags = DIAG_INIT(&arena);
    struct master_config config;
    const struct master_config_opts none = {0};
    ASSERT(!master_config_read(&arena, STR("{isolation: none, port: 0}"), &none, &config, &diags));
    const struct master_opts opts = {
        .config = &config, .data_dir = data_dir, .runner = "det-run", .version = "0"};
    m = master_new(&opts, &err);
    ASSERT(m);
}

void requests_close(void)
{
    if (!m) return;
    master_free(m);
    open_master();
    master_free(m);
    m = NULL;
    buf_done(&last_body);
    arena_done(&arena);
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_experiment(void)
{
    static const char config[] =
        "{name: x, entrypoint: x, max_restarts: 1, resources: {slots_per_trial: 1},"
        " hyperparameters: {a: {type: double, minval: 0, maxval: 1}}, searcher: {name: random,"
        " metric: loss, max_trials: 2, max_length: {batches: 9}}}";
    struct buf story = BUF_INIT(4096);
    buf_printf(&story, "POST /api/v1/experiments\nu\n{\"config\": \"%s\"}", config);
    act(buf_str(&story));
    buf_done(&story);
    let_go(); // to the start of its tasks
}

static const char *new_session(int64_t user)
{
    struct db_tx *tx = db_tx_new(m->db);
    const char *token = auth_new_session(m, user, 0, &arena, tx);
    db_tx_submit(tx, NULL, NULL);
    db_wait(m->db);
    return token;
}

static void make_folder(void)
{
    bool has_memory = access("/dev/shm", W_OK) == 0;
    char path[80];
    snprintf(root, sizeof root, "%s/det-requests-XXXXXX", has_memory ? "/dev/shm" : "/tmp");
    ASSERT(mkdtemp(root));
    snprintf(data_dir, sizeof data_dir, "%s/data", root);
    snprintf(path, sizeof path, "%s/history", root);
    if (history >= 0) close(history);
    history = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ASSERT(history >= 0);
}

void requests_open(void)
{
    log_set_level(LOG_ERROR);
    requests_close();
    make_folder();
    open_master();
    admin_token = new_session(1);
    act(STR("POST /api/v1/users\na\n{\"username\": \"ann\", \"password\": \"password\"}"));
    user_token = new_session(2);
}

int requests_tell(struct str story)
{
    static const char end = REQUESTS_END;
    int status = 0;
    if (!story.len) return 0;
    ASSERT(write(history, story.ptr, story.len) >= 0 && write(history, &end, 1) == 1);
    while (story.ptr) {
        if (!some_allocation()) make_experiment();
        status = act(str_cut(&story, end));
    }
    return status;
}

void requests_tell_all(void)
{
    size_t n;
    const struct named_row *rows = all_rows(&n);
    for (const char *who = "autn"; *who; who++)
        for (size_t i = 0; i < n; i++) {
            struct buf story = BUF_INIT(1024);
            buf_printf(&story, "%s\n%c\n{}", rows[i].name, *who);
            requests_tell(buf_str(&story));
            buf_done(&story);
        }
}

void requests_read_on_the_loop(void)
{
    struct db_reader *reader;
    if (!db_reader_open(m->db, &reader, NULL)) db_reader_close(reader);
}

size_t requests_crowd(void)
{
    return m ? m->experiments.n : 0;
}
