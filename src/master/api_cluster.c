// Unit api_cluster.c: routes about the master itself: health, numbers, the description of the API.
#include "master/routes.h"

#include "sys/clock.h"
#include <unistd.h>

static int get_info(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    struct buf out = BUF_INIT(4096);
    struct json_writer w;
    (void)err;
    json_init(&w, &out, 0);
    json_open_map(&w);
    json_key(&w, "version");
    json_put_str(&w, m->opts.version);
    json_key(&w, "clusterId");
    json_put_str(&w, m->cluster_id);
    json_key(&w, "clusterName");
    json_put_str(&w, "det");
    json_close(&w);
    http_reply_json(req, 200, &out);
    return 0;
}

static int get_health(struct http_request *req, det_err *err)
{
    (void)err;
    http_reply_empty(req);
    return 0;
}

static int get_ready(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    int rc = db_refuses(m->db, err);
    if (rc) return rc;
    if (m->checking)
        return det_fail(err, DET_EUNREACHABLE, "the database is being checked; try again soon");
    http_reply_empty(req);
    return 0;
}

struct counts {
    int trials[EXP_N_STATE], allocations[ALLOCATION_N_STATE];
};

static void count(const struct master *m, struct counts *out)
{
    *out = (struct counts){{0}, {0}};
    for (size_t i = 0; i < m->trials.n; i++) {
        const struct live_trial *t = m->trials.items[i].value;
        out->trials[t->row.state]++;
        if (t->allocation) out->allocations[t->allocation->row.state]++;
    }
}

static void put_states(struct buf *out, const char *name, const int *counts,
                       const char *const *states)
{
    for (int i = 0; states[i]; i++) {
        char label[80];
        snprintf(label, sizeof label, "state=\"%s\"", states[i]);
        prom_sample(out, name, label, counts[i]);
    }
}

static void put_slots(struct buf *out, struct master *m)
{
    size_t n, busy = 0;
    const struct rm_slot *slots = rm_slots(m->rm, &n);
    for (size_t i = 0; i < n; i++)
        busy += slots[i].token != 0;
    prom_family(out, "det_slots", PROM_GAUGE, "Slots of this machine.");
    prom_sample(out, "det_slots", "state=\"busy\"", (double)busy);
    prom_sample(out, "det_slots", "state=\"free\"", (double)(n - busy));
}

static void put_http(struct buf *out, struct master *m)
{
    const struct http_stats *s = http_server_stats(m->server);
    prom_family(out, "det_http_requests_total", PROM_COUNTER, "Requests answered, by status.");
    for (int i = 1; i < 6; i++) {
        char label[32];
        snprintf(label, sizeof label, "code=\"%dxx\"", i);
        prom_sample(out, "det_http_requests_total", label, (double)s->n_status[i]);
    }
    prom_family(out, "det_http_connections", PROM_GAUGE, "Open connections.");
    prom_sample(out, "det_http_connections", NULL, s->n_connections);
    prom_family(out, "det_http_crowded_total", PROM_COUNTER,
                "Connections closed to make room for others.");
    prom_sample(out, "det_http_crowded_total", NULL, (double)s->n_crowded);
    prom_family(out, "det_http_streams", PROM_GAUGE, "Open event streams.");
    prom_sample(out, "det_http_streams", NULL, s->n_streams);
}

static void put_lengths(struct buf *out, const char *name, uint64_t n_turns,
                        const struct loop_lengths *l, const char *help)
{
    char label[32], sample[64];
    prom_family(out, name, PROM_HISTOGRAM, help);
    snprintf(sample, sizeof sample, "%s_bucket", name);
    for (int i = 0; i < LOOP_N_BOUNDS; i++) {
        snprintf(label, sizeof label, "le=\"%g\"", (double)loop_bounds_us[i] / 1e6);
        prom_sample(out, sample, label, (double)l->n_within[i]);
    }
    prom_sample(out, sample, "le=\"+Inf\"", (double)n_turns);
    snprintf(sample, sizeof sample, "%s_sum", name);
    prom_sample(out, sample, NULL, (double)l->total_us / 1e6);
    snprintf(sample, sizeof sample, "%s_count", name);
    prom_sample(out, sample, NULL, (double)n_turns);
}

// While a turn lasts nobody else is answered, so this is how long anybody may have had to wait.
static void put_loop(struct buf *out, const struct master *m)
{
    const struct loop_times *t = loop_times(m->loop);
    put_lengths(out, "det_loop_turn_seconds", t->n_turns, &t->elapsed,
                "How long the turns of the master's loop took.");
    put_lengths(out, "det_loop_turn_cpu_seconds", t->n_turns, &t->used,
                "What they used of a processor.");
    prom_family(out, "det_loop_longest_turn_seconds", PROM_GAUGE, "The longest of them so far.");
    prom_sample(out, "det_loop_longest_turn_seconds", NULL, (double)t->elapsed.longest_us / 1e6);
}

static int get_metrics(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    struct buf out = BUF_INIT(1 << 20);
    struct counts c;
    (void)err;
    count(m, &c);
    prom_family(&out, "det_experiments", PROM_GAUGE, "Experiments that have not ended.");
    prom_sample(&out, "det_experiments", NULL, (double)m->experiments.n);
    prom_family(&out, "det_trials", PROM_GAUGE, "Trials that have not ended, by state.");
    put_states(&out, "det_trials", c.trials, exp_state_names);
    prom_family(&out, "det_allocations", PROM_GAUGE, "Runs that have not ended, by state.");
    put_states(&out, "det_allocations", c.allocations, allocation_state_names);
    put_slots(&out, m);
    put_http(&out, m);
    put_loop(&out, m);
    prom_family(&out, "det_database_full", PROM_GAUGE, "Whether the disk is full.");
    prom_sample(&out, "det_database_full", NULL, db_is_full(m->db));
    prom_family(&out, "det_start_time_seconds", PROM_GAUGE, "When the master started.");
    prom_sample(&out, "det_start_time_seconds", NULL, (double)m->start_us / 1e6);
    http_reply(req, 200, "text/plain; version=0.0.4; charset=utf-8", buf_str(&out));
    buf_done(&out);
    return 0;
}

static int get_openapi(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    struct buf out = BUF_INIT(4 << 20);
    static const struct http_schema records[] = {
        {"experiment", &experiment_table},
        {"trial", &trial_table},
        {"allocation", &allocation_table},
        {"checkpoint", &checkpoint_table},
        {"report", &metric_report_table},
        {"summary", &metric_summary_table},
        {"logLine", &log_line_table},
        {"job", &job_table},
        {"user", &user_table},
        {"template", &config_template_table},
    };
    const struct http_api_info info = {.title = "det",
                                       .version = m->opts.version,
                                       .description = "Trains deep-learning models.",
                                       .schemas = records,
                                       .n_schemas = sizeof records / sizeof *records};
    size_t n;
    (void)err;
    const struct http_table *tables = master_tables(&n);
    http_openapi(tables, n, &info, &out);
    http_reply_json(req, 200, &out);
    return 0;
}

static const struct http_route routes[] = {
    {HTTP_GET, "/info", .auth = HTTP_AUTH_NONE, .handle = get_info,
     .summary = "Version and names."},
    {HTTP_GET, "/api/v1/master", .auth = HTTP_AUTH_NONE, .handle = get_info,
     .summary = "Version and names."},
    {HTTP_GET, "/healthz", .auth = HTTP_AUTH_NONE, .handle = get_health,
     .summary = "The process answers."},
    {HTTP_GET, "/readyz", .auth = HTTP_AUTH_NONE, .handle = get_ready,
     .summary = "Reports and changes can be taken."},
    {HTTP_GET, "/metrics", .handle = get_metrics, .content = HTTP_TEXT,
     .summary = "Numbers for Prometheus."},
    {HTTP_GET, "/api/openapi.json", .auth = HTTP_AUTH_NONE, .handle = get_openapi,
     .summary = "This description."},
};

const struct http_table cluster_routes = HTTP_TABLE(routes);
