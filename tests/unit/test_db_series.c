// Series of metrics: what charts are made of is kept beside the reports, and is always the same as
// what the reports say: in any order, after runs are rolled back, in files of an older version,
// while these are converted, and after kills.
#include "support/db.h"

#include "base/assert.h"
#include "base/rng.h"
#include <signal.h>
#include <sys/wait.h>

enum { MAX_POINTS = 20000 };

// --- what should be there

struct expected {
    int64_t steps[MAX_POINTS];
    double values[MAX_POINTS];
    int runs[MAX_POINTS];
    size_t n;
};

static struct expected model;

static void model_add(int run, int64_t steps, double value)
{
    size_t i = model.n++;
    assert_true(model.n <= MAX_POINTS);
    for (; i > 0 && model.steps[i - 1] > steps; i--) {
        model.steps[i] = model.steps[i - 1];
        model.values[i] = model.values[i - 1];
        model.runs[i] = model.runs[i - 1];
    }
    model.steps[i] = steps;
    model.values[i] = value;
    model.runs[i] = run;
}

static void model_roll_back(int run, int64_t from)
{
    size_t n = 0;
    for (size_t i = 0; i < model.n; i++) {
        if (model.steps[i] >= from && model.runs[i] < run) continue;
        model.steps[n] = model.steps[i];
        model.values[n] = model.values[i];
        model.runs[n++] = model.runs[i];
    }
    model.n = n;
}

// --- reports

static void add_report(struct db_tx *tx, int64_t trial, int run, const char *group, int64_t steps,
                       double value)
{
    struct arena a = ARENA_INIT;
    struct doc *metrics = doc_new(&a, DOC_MAP);
    doc_set(metrics, STR("loss"),
            isfinite(value) ? doc_new_double(&a, value) : doc_new_str(&a, "NaN"));
    doc_set(metrics, STR("odd \"name\""), doc_new_int(&a, steps));
    doc_set(metrics, STR("words"), doc_new_str(&a, "no number"));
    const struct metric_report row = {.trial_id = trial,
                                      .run_id = run,
                                      .group = group,
                                      .steps_completed = steps,
                                      .time_us = 1000000 + 10 * steps,
                                      .metrics = metrics};
    db_metrics_add(tx, &row);
    arena_done(&a);
}

static void add_many(int64_t trial, int64_t first, int64_t last)
{
    struct db_tx *tx = db_tx_new(db);
    for (int64_t i = first; i < last; i++) {
        double value = sin((double)i) * 100;
        add_report(tx, trial, 1, "training", i, value);
        model_add(1, i, value);
    }
    must_run(tx);
}

static void end_trial(int64_t trial)
{
    struct db_tx *tx = db_tx_new(db);
    db_trial_save(tx,
                  &(struct trial){.id = trial, .experiment_id = 1, .number = trial, .end_us = 1});
    must_run(tx);
}

// --- what is there

static struct db_series read_series(const char *name, int64_t from, int64_t to, int64_t max)
{
    struct db_series s = {.trial_id = 1,
                          .group = "training",
                          .name = name,
                          .from = from,
                          .to = to,
                          .max_points = max};
    if (db_series_read(reader, &s, &arena, &err)) fail_msg("%s", err.msg);
    return s;
}

static void check_all(void)
{
    struct db_series s = read_series("loss", INT64_MIN, INT64_MAX, 1000000);
    assert_int_equal(s.n, model.n);
    for (size_t i = 0; i < s.n; i++) {
        const struct db_bucket *b = &s.buckets[i];
        assert_int_equal(b->steps, model.steps[i]);
        assert_int_equal(b->time_us, 1000000 + 10 * b->steps);
        assert_int_equal(b->n, isfinite(model.values[i]));
        if (b->n) assert_true(b->last == model.values[i]);
    }
    assert_int_equal(read_series("odd \"name\"", INT64_MIN, INT64_MAX, 1000000).n, model.n);
    assert_int_equal(read_series("words", INT64_MIN, INT64_MAX, 1000000).n, 0);
    assert_int_equal(read_series("nothing", INT64_MIN, INT64_MAX, 10).n, 0);
}

// Of a thinned series: the least and the greatest value, and every point in a bucket.
static void check_thinned(int64_t from, int64_t to, int64_t max)
{
    struct db_series s = read_series("loss", from, to, max);
    double low = INFINITY, high = -INFINITY, got_low = INFINITY, got_high = -INFINITY;
    int64_t n = 0;
    for (size_t i = 0; i < model.n; i++) {
        bool inside = model.steps[i] >= from && model.steps[i] <= to && isfinite(model.values[i]);
        if (!inside) continue;
        low = fmin(low, model.values[i]);
        high = fmax(high, model.values[i]);
        n++;
    }
    assert_true((int64_t)s.n <= max);
    for (size_t i = 0; i < s.n; i++) {
        const struct db_bucket *b = &s.buckets[i];
        assert_true(!i || b->steps > s.buckets[i - 1].steps);
        assert_true(b->steps >= from && b->steps <= to);
        if (!b->n) continue;
        assert_true(b->min <= b->last && b->last <= b->max);
        got_low = fmin(got_low, b->min);
        got_high = fmax(got_high, b->max);
    }
    assert_int_equal(s.n_points, n);
    assert_true(low == got_low && high == got_high);
}

static struct metric_summary find_summary(const char *name)
{
    struct db_list list;
    assert_int_equal(db_metric_summaries(reader, 1, &arena, &list, &err), 0);
    const struct metric_summary *all = list.items;
    for (size_t i = 0; i < list.n; i++)
        if (!strcmp(all[i].name, name) && !strcmp(all[i].group, "training")) return all[i];
    return (struct metric_summary){0};
}

static void check_summary(void)
{
    double low = INFINITY, high = -INFINITY, sum = 0, last = 0;
    int64_t n = 0;
    for (size_t i = 0; i < model.n; i++) {
        if (!isfinite(model.values[i])) continue;
        low = fmin(low, model.values[i]);
        high = fmax(high, model.values[i]);
        sum += model.values[i];
        last = model.values[i];
        n++;
    }
    struct metric_summary s = find_summary("loss");
    assert_int_equal(s.count, n);
    assert_true(fabs(s.sum - sum) <= 1e-9 * (1 + fabs(sum)) * (double)(n + 1));
    if (n) assert_true(s.min == low && s.max == high && s.last == last);
}

// --- tests

static void test_series__are_what_was_reported(void **state)
{
    (void)state;
    model.n = 0;
    for (int64_t i = 0; i < 5000; i += 50) { // before and behind each border of a span
        add_many(1, i, i + 50);
        if (i % 1000 == 0) db_wait_tidy(db);
        if (i % 250 == 0) check_all();
    }
    db_wait_tidy(db);
    check_all();
    assert_in_range(ask_database("SELECT count(*) FROM metric_spans"), 15, 19);
    for (int64_t max = 1; max < 10000; max = max * 3 + 1) {
        check_thinned(INT64_MIN, INT64_MAX, max);
        if (max > 100) check_thinned(700, 4321, max); // fewer: borders are those of spans
    }
    check_summary();
}

static void test_series__of_a_trial_that_has_ended_are_in_chunks(void **state)
{
    (void)state;
    model.n = 0;
    add_many(1, 0, 300);
    end_trial(1);
    db_wait_tidy(db);
    assert_int_equal(ask_database("SELECT max(lastSteps) FROM metric_spans"),
                     255); // the rest is short
    add_many(1, 300, 400);
    end_trial(1);
    db_wait_tidy(db);
    assert_int_equal(ask_database("SELECT max(lastSteps) FROM metric_spans"), 399);
    assert_int_equal(ask_database("SELECT count(*) FROM metric_due"), 0);
    check_all();
    check_thinned(INT64_MIN, INT64_MAX, 10);
}

static void test_series__borders_hold_for_steps_and_for_times(void **state)
{
    (void)state;
    model.n = 0;
    add_many(1, 0, 2000);
    db_wait_tidy(db);
    struct db_series s = read_series("loss", 700, 1400, 10000);
    assert_int_equal(s.n, 701);
    assert_int_equal(s.buckets[0].steps, 700);
    assert_int_equal(s.buckets[700].steps, 1400);
    s.by_time = true;
    s.from = 1000000 + 7000;
    s.to = 1000000 + 14005;
    assert_int_equal(db_series_read(reader, &s, &arena, &err), 0);
    assert_int_equal(s.n, 701);
    s.max_points = 10;
    assert_int_equal(db_series_read(reader, &s, &arena, &err), 0);
    assert_int_equal(s.n, 10);
    assert_int_equal(s.n_points, 701);
    assert_int_equal(s.buckets[9].steps, 1400);
}

// Late reports, values that are no numbers, runs that go back, ends and restarts, in any order.
static void test_series__are_what_was_reported_whatever_happens(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        int64_t next = 0;
        int run = 1;
        if (seed) {
            db_tear_down(state);
            db_set_up(state);
        }
        model.n = 0;
        for (uint64_t i = 0; i < 50; i++) {
            uint64_t r = rng_u64(seed, 0, i), what = r % 10;
            struct db_tx *tx = db_tx_new(db);
            if (what == 0 && next > 0) {
                int64_t from = (int64_t)(r >> 8) % next;
                run++;
                model_roll_back(run, from);
                db_metrics_roll_back(tx, 1, run, "training", from);
                next = from;
            }
            for (int64_t k = (int64_t)(r >> 32) % 200; k >= 0; k--) {
                int64_t steps = next++ * 2;
                double value = what == 3 && k % 7 == 0 ? NAN : sin((double)steps) + (double)what;
                add_report(tx, 1, run, "training", steps, value);
                model_add(run, steps, value);
            }
            if (what == 1 && next > 10) // between two that are there
                for (int64_t k = 0; k < 40; k++) {
                    int64_t steps = (int64_t)((r >> 16) + (uint64_t)k * 37) % next * 2 + 1;
                    bool is_there = false;
                    for (size_t x = 0; x < model.n; x++)
                        is_there = is_there || model.steps[x] == steps;
                    if (is_there || steps > 2 * next - 3) continue;
                    add_report(tx, 1, run, "training", steps, (double)k);
                    model_add(run, steps, (double)k);
                }
            next = MAX(next, model.n ? model.steps[model.n - 1] / 2 + 1 : 0);
            must_run(tx);
            if (what == 5) end_trial(1);
            if (what == 6) db_wait_tidy(db);
            if (what == 7) {
                db_stop();
                db_start();
            }
            if (i % 6 == 0) check_all();
        }
        check_all();
        db_wait_tidy(db);
        check_all();
        check_thinned(INT64_MIN, INT64_MAX, 100);
        struct db_tx *tx = db_tx_new(db); // rebuilds the summary
        db_metrics_roll_back(tx, 1, run + 1, "training", 1000000);
        must_run(tx);
        check_summary();
    }
}

static void test_series__spans_that_late_reports_make_long_are_cut(void **state)
{
    (void)state;
    struct db_tx *tx = db_tx_new(db);
    model.n = 0;
    for (int64_t i = 0; i <= 600; i++) {
        add_report(tx, 1, 1, "training", 100 * i, 1);
        model_add(1, 100 * i, 1);
    }
    must_run(tx);
    db_wait_tidy(db);
    tx = db_tx_new(db);
    for (int64_t i = 0; i < 3000; i++) {
        int64_t steps = 100 * (i / 30) + i % 30 + 1;
        add_report(tx, 1, 1, "training", steps, (double)i);
        model_add(1, steps, (double)i);
    }
    must_run(tx);
    check_all();
    assert_true(ask_database("SELECT max(count) FROM metric_chunks") <= 1024);
    check_thinned(INT64_MIN, INT64_MAX, 50);
}

static void make_old(void)
{
    run_sql("DROP TABLE metric_spans; DROP TABLE metric_chunks; DROP TABLE metric_due;"
            "DROP TABLE experiment_labels;"
            "ALTER TABLE experiments DROP COLUMN logRetentionDays;"
            "ALTER TABLE allocations DROP COLUMN assignedTime;"
            "ALTER TABLE allocations DROP COLUMN fromBatch; ALTER TABLE allocations DROP COLUMN "
            "toBatch;"
            "DROP TABLE samples; DROP INDEX log_chunks_trial; DROP INDEX log_chunks_uncounted;"
            "ALTER TABLE log_chunks DROP COLUMN nLines;"
            "CREATE INDEX log_chunks_trial ON log_chunks(trialId, id);"
            "DELETE FROM settings WHERE name = 'series_below'; PRAGMA user_version = 4");
}

static void test_series__of_an_older_version_are_converted(void **state)
{
    (void)state;
    ONLY_FILES();
    model.n = 0;
    add_many(1, 0, 3000);
    struct db_tx *tx = db_tx_new(db);
    for (int64_t trial = 2; trial < 400; trial++)
        for (int i = 0; i < 70; i++)
            add_report(tx, trial, 1, "training", i, 1);
    must_run(tx);
    db_stop();
    make_old();
    db_start();
    check_all(); // whether or not it has begun
    add_many(1, 3000, 3010);
    check_all();
    db_wait_tidy(db);
    check_all();
    assert_int_equal(ask_database("SELECT count(*) FROM metric_spans WHERE trialId = 1"), 12);
    assert_int_equal(ask_database("SELECT count(DISTINCT trialId) FROM metric_spans"), 399);
    assert_int_equal(ask_database("SELECT count(*) FROM settings WHERE name = 'series_below'"), 0);
    check_thinned(INT64_MIN, INT64_MAX, 30);
}

static void test_series__converting_survives_kills(void **state)
{
    (void)state;
    ONLY_FILES();
    model.n = 0;
    for (int64_t i = 0; i < 20000; i += 1000)
        add_many(1, i, i + 1000);
    db_stop();
    make_old();
    for (int64_t goal = 1; goal <= 60; goal += 20) {
        pid_t child = fork();
        if (!child) {
            struct db *own;
            if (db_open(db_path, NULL, &own, NULL)) _exit(1);
            pause();
        }
        while (ask_database("SELECT count(*) FROM sqlite_schema WHERE name = 'metric_spans'") < 1 ||
               ask_database("SELECT count(*) FROM metric_spans") < goal)
            assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
    }
    db_start();
    check_all();
    db_wait_tidy(db);
    check_all();
    assert_int_equal(ask_database("SELECT count(*) FROM metric_spans"), 78); // the rest is short
}

static void test_series__deleted_trials_leave_nothing(void **state)
{
    (void)state;
    struct db_tx *tx = db_tx_new(db);
    model.n = 0;
    db_experiment_save(tx, &(struct experiment){.id = 1, .name = "x"});
    db_trial_save(tx, &(struct trial){.id = 1, .experiment_id = 1, .number = 1});
    must_run(tx);
    add_many(1, 0, 3000);
    db_wait_tidy(db);
    tx = db_tx_new(db);
    db_experiment_delete(tx, 1);
    must_run(tx);
    db_wait_tidy(db);
    assert_int_equal(ask_database("SELECT count(*) FROM metric_chunks"), 0);
    assert_int_equal(ask_database("SELECT count(*) FROM metric_spans"), 0);
    assert_int_equal(ask_database("SELECT count(*) FROM metrics"), 0);
}

static void test_series__damage_is_noticed(void **state)
{
    (void)state;
    static const char *const damages[] = {"x''", "x'02'", "x'01FFFFFFFFFFFFFFFFFF7F'",
                                          "substr(points, 1, 100)", "points || x'00'"};
    model.n = 0;
    add_many(1, 0, 600);
    db_wait_tidy(db);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        char text[128];
        snprintf(text, sizeof text, "UPDATE metric_chunks SET points = %s", damages[i]);
        db_stop();
        run_sql(text);
        db_start();
        struct db_series s = {.trial_id = 1,
                              .group = "training",
                              .name = "loss",
                              .from = INT64_MIN,
                              .to = INT64_MAX,
                              .max_points = 1000};
        assert_int_equal(db_series_read(reader, &s, &arena, &err), DET_ECORRUPT);
    }
}

static void test_series__best_trials_and_names(void **state)
{
    (void)state;
    struct db_tx *tx = db_tx_new(db);
    static const double values[] = {3, NAN, 1, 2, NAN, 5};
    for (int64_t i = 0; i < 6; i++) {
        db_trial_save(tx, &(struct trial){.id = i + 1,
                                          .experiment_id = 7,
                                          .number = i + 1,
                                          .searcher_metric = values[i]});
        add_report(tx, i + 1, 1, i % 2 ? "training" : "validation", 1, 1);
    }
    must_run(tx);
    struct db_list list;
    struct experiment e = {.id = 7, .smaller_is_better = true};
    static const int64_t up[] = {3, 4, 1, 6, 2}, down[] = {6, 1, 4};
    assert_int_equal(db_best_trials(reader, &e, 5, &arena, &list, &err), 0);
    assert_int_equal(list.n, 5);
    assert_memory_equal(list.items, up, sizeof up);
    e.smaller_is_better = false;
    assert_int_equal(db_best_trials(reader, &e, 3, &arena, &list, &err), 0);
    assert_memory_equal(list.items, down, sizeof down);
    assert_int_equal(db_metric_names(reader, 7, &arena, &list, &err), 0);
    const struct metric_name *names = list.items;
    assert_int_equal(list.n, 4);
    assert_string_equal(names[0].group, "training");
    assert_string_equal(names[0].name, "loss");
    assert_int_equal(names[0].n_trials, 3);
}

// --- what trials use

static void add_sample(struct db_tx *tx, int64_t second, double cpu, int64_t memory, double gpu)
{
    const struct usage_sample sample = {second * 1000000, cpu, memory, gpu,
                                        isnan(gpu) ? -1 : memory / 2};
    db_sample_add(tx, 1, &sample);
}

static struct db_list samples(int64_t max_points)
{
    struct db_list list = {0};
    assert_int_equal(db_samples_list(reader, 1, max_points, &arena, &list, &err), 0);
    return list;
}

static void test_samples__are_thinned_out(void **state)
{
    (void)state;
    struct db_tx *tx = db_tx_new(db);
    assert_int_equal(samples(10).n, 0);
    for (int i = 0; i < 1000; i++)
        add_sample(tx, i, i % 2 ? 2 : 1, i == 500 ? 9000 : 100, i < 500 ? NAN : 0.25);
    add_sample(tx, 999, 2, 100, 0.25); // the same moment again
    must_run(tx);
    assert_int_equal(samples(1000).n, 1000);
    struct db_list list = samples(10);
    const struct usage_sample *all = list.items;
    assert_int_equal(list.n, 10);
    for (size_t i = 0; i < list.n; i++) {
        assert_true(fabs(all[i].cpu - 1.5) < 1e-9);
        assert_int_equal(all[i].memory_bytes, i == 5 ? 9000 : 100);
        assert_int_equal(all[i].time_us, (int64_t)(100 * i + 99) * 1000000);
        assert_int_equal(isnan(all[i].gpu), i < 5);
        assert_int_equal(all[i].gpu_memory_bytes, i < 5 ? -1 : i == 5 ? 4500 : 50);
    }
}

static void test_samples__go_with_their_trial(void **state)
{
    (void)state;
    const struct experiment e = {.id = 1};
    const struct trial t = {.id = 1, .experiment_id = 1, .number = 1};
    struct db_tx *tx = db_tx_new(db);
    db_experiment_save(tx, &e);
    db_trial_save(tx, &t);
    for (int i = 0; i < 3000; i++)
        add_sample(tx, i, 1, 1, NAN);
    must_run(tx);
    tx = db_tx_new(db);
    db_experiment_delete(tx, 1);
    must_run(tx);
    db_wait_tidy(db);
    assert_int_equal(ask_database("SELECT count(*) FROM samples"), 0);
}

RUN_TESTS(DB_TEST(test_samples__are_thinned_out), DB_TEST(test_samples__go_with_their_trial),
          DB_TEST(test_series__are_what_was_reported),
          DB_TEST(test_series__of_a_trial_that_has_ended_are_in_chunks),
          DB_TEST(test_series__borders_hold_for_steps_and_for_times),
          DB_TEST(test_series__are_what_was_reported_whatever_happens),
          DB_TEST(test_series__spans_that_late_reports_make_long_are_cut),
          DB_TEST(test_series__of_an_older_version_are_converted),
          DB_TEST(test_series__converting_survives_kills),
          DB_TEST(test_series__deleted_trials_leave_nothing),
          DB_TEST(test_series__damage_is_noticed), DB_TEST(test_series__best_trials_and_names))
