// What is written is read again: records, lists, metrics, logs.
#include "support/db.h"

static struct trial a_trial(int64_t id, int64_t experiment_id)
{
    return (struct trial){.id = id,
                          .experiment_id = experiment_id,
                          .request_id = "r",
                          .task_id = "1.r",
                          .state = EXP_ACTIVE,
                          .seed = 7,
                          .searcher_metric = NAN,
                          .progress = NAN};
}

static struct experiment an_experiment(int64_t id, const char *name)
{
    return (struct experiment){.id = id,
                               .name = name,
                               .state = EXP_ACTIVE,
                               .progress = NAN,
                               .best_metric = NAN,
                               .user_id = 1,
                               .start_us = 1000 + id};
}

static void test_db__keeps_every_field_of_an_experiment(void **state)
{
    (void)state;
    const char *labels[] = {"a", "b\"c"};
    struct experiment e = {.id = 3,
                           .kind = EXPERIMENT_GENERIC,
                           .state = EXP_STOPPING_KILLED,
                           .name = "n",
                           .description = "d'; DROP TABLE trials; --",
                           .notes = "",
                           .labels = {labels, 2},
                           .archived = true,
                           .user_id = 9,
                           .forked_from = {true, 2},
                           .progress = 0.25,
                           .start_us = 123456789,
                           .end_us = 0,
                           .n_trials = 4,
                           .searcher_type = "random",
                           .searcher_metric = NULL,
                           .smaller_is_better = true,
                           .best_trial_id = {false, 0},
                           .best_metric = NAN,
                           .resource_pool = "default",
                           .job_id = "j",
                           .code = "c",
                           .reason = "because"};
    struct experiment f;
    struct db_tx *tx = db_tx_new(db);
    db_experiment_save(tx, &e);
    must_run(tx);
    assert_int_equal(db_experiment_find(reader, 3, &arena, &f, &err), 0);
    const char *before = as_json(field_write(&arena, &experiment_table, &e, false));
    assert_string_equal(as_json(field_write(&arena, &experiment_table, &f, false)), before);
    assert_string_equal(f.labels.items[1], "b\"c");
    assert_true(isnan(f.best_metric));
}

static void test_db__saving_again_replaces(void **state)
{
    (void)state;
    struct trial t = a_trial(5, 1), found;
    struct db_tx *tx = db_tx_new(db);
    t.hparams = doc_of("{lr: 0.5, layers: [1, 2]}");
    db_trial_save(tx, &t);
    t.state = EXP_COMPLETED;
    t.end_us = 99;
    db_trial_save(tx, &t);
    must_run(tx);
    assert_int_equal(db_trial_find(reader, 5, &arena, &found, &err), 0);
    assert_int_equal(found.state, EXP_COMPLETED);
    assert_int_equal(found.end_us, 99);
    assert_string_equal(as_json(found.hparams), "{\"lr\":0.5,\"layers\":[1,2]}");
    assert_null(found.best_validation);
}

static void test_db__missing_records_are_named(void **state)
{
    (void)state;
    struct trial t;
    struct checkpoint c;
    assert_int_equal(db_trial_find(reader, 8, &arena, &t, &err), DET_ENOTFOUND);
    assert_string_equal(err.msg, "there is no trial 8");
    assert_int_equal(db_checkpoint_find(reader, "u-1", &arena, &c, &err), DET_ENOTFOUND);
    assert_string_equal(err.msg, "there is no checkpoint 'u-1'");
}

static void test_db__other_nouns(void **state)
{
    (void)state;
    struct db_tx *tx = db_tx_new(db);
    db_allocation_save(tx, &(struct allocation){.id = "1.r.1",
                                                .trial_id = 5,
                                                .run_id = 1,
                                                .exit = EXIT_TASK_FAILED,
                                                .exit_status = 139});
    db_job_save(tx, &(struct job){.id = "j", .experiment_id = 1, .priority = 42, .weight = 0.5});
    db_user_save(tx, &(struct user){.id = 1, .username = "ann", .active = true});
    db_password_save(tx, 1, "$argon2id$x");
    db_template_save(tx, &(struct config_template){.name = "t", .config = "a: 1", .user_id = 1});
    db_session_save(tx, STR("\0hash"), &(struct session){.user_id = 1, .expires_us = 50});
    db_session_save(tx, STR("\1hash"), &(struct session){.allocation_id = "1.r.1", .trial_id = 5});
    db_config_save(tx, 1, STR("{}"), STR("a: 1\n"));
    db_searcher_save(tx, 1, STR("{\"rng\":1}"));
    db_setting_save(tx, "cluster_id", "c");
    must_run(tx);

    struct allocation al;
    struct job j;
    struct user u;
    struct config_template t;
    struct db_list sessions;
    struct str complete, original, snapshot;
    const char *text;
    assert_int_equal(db_allocation_find(reader, "1.r.1", &arena, &al, &err), 0);
    assert_int_equal(al.exit, EXIT_TASK_FAILED);
    assert_int_equal(al.exit_status, 139);
    assert_int_equal(db_job_find(reader, "j", &arena, &j, &err), 0);
    assert_true(j.weight == 0.5);
    assert_int_equal(db_user_find_name(reader, "ann", &arena, &u, &err), 0);
    assert_int_equal(u.id, 1);
    assert_int_equal(db_password_find(reader, 1, &arena, &text, &err), 0);
    assert_string_equal(text, "$argon2id$x");
    assert_int_equal(db_template_find(reader, "t", &arena, &t, &err), 0);
    assert_string_equal(t.config, "a: 1");
    assert_int_equal(db_sessions_list(reader, &arena, &sessions, &err), 0);
    const struct stored_session *s = sessions.items; // one that does not end comes first
    assert_int_equal(sessions.n, 2);
    assert_true(str_eq(s[0].hash, STR("\1hash")) && str_eq(s[1].hash, STR("\0hash")));
    assert_string_equal(s[0].row.allocation_id, "1.r.1");
    assert_int_equal(s[0].row.trial_id, 5);
    assert_int_equal(s[1].row.user_id, 1);
    assert_int_equal(db_config_find(reader, 1, &arena, &complete, &original, &err), 0);
    assert_string_equal(original.ptr, "a: 1\n");
    assert_int_equal(db_searcher_find(reader, 1, &arena, &snapshot, &err), 0);
    assert_string_equal(snapshot.ptr, "{\"rng\":1}");
    assert_int_equal(db_setting_find(reader, "cluster_id", &arena, &text, &err), 0);

    tx = db_tx_new(db);
    db_sessions_delete_expired(tx, 50);
    db_sessions_delete_of_allocation(tx, "1.r.1");
    db_template_delete(tx, "t");
    must_run(tx);
    assert_int_equal(db_sessions_list(reader, &arena, &sessions, &err), 0);
    assert_int_equal(sessions.n, 0);
    assert_int_equal(db_template_find(reader, "t", &arena, &t, &err), DET_ENOTFOUND);
}

// Which of the two comes first does not matter, nor that nothing of it is durable yet.
static void test_db__checkpoints_know_the_metric_of_their_step(void **state)
{
    (void)state;
    static const char *const uuids[] = {"before", "after", "elsewhere", "text", "odd"};
    static const char *const names[] = {"loss", "loss", "loss", "word", "a \" in \\ it"};
    static const double wanted[] = {0.25, 0.25, NAN, NAN, 0.5};
    const struct metric_report r = {.trial_id = 5,
                                    .run_id = 1,
                                    .group = "validation",
                                    .steps_completed = 10,
                                    .metrics =
                                        doc_of("{loss: 0.25, word: NaN, 'a \" in \\ it': 0.5}")};
    struct checkpoint c = {.trial_id = 5, .searcher_metric = NAN};
    struct db_tx *tx = db_tx_new(db);
    for (int i = 0; i < 5; i++) {
        c.uuid = uuids[i];
        c.steps_completed = i == 2 ? 20 : 10;
        db_checkpoint_save(tx, &c);
        db_checkpoint_rate_by(tx, c.uuid, names[i]);
        if (i == 0) {
            db_metrics_add(tx, &r);
            db_checkpoint_rate(tx, 5, 10, 0.25);
        }
    }
    db_checkpoint_rate_by(tx, "after", NULL);
    must_run(tx);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(db_checkpoint_find(reader, uuids[i], &arena, &c, &err), 0);
        assert_true(c.searcher_metric == wanted[i] ||
                    (isnan(wanted[i]) && isnan(c.searcher_metric)));
    }
}

// The ids of a list of trials.
static const char *ids_of(const struct db_list *list)
{
    const struct trial *t = list->items;
    char *text = "";
    for (size_t i = 0; i < list->n; i++)
        text = arena_printf(&arena, "%s%s%lld", text, i ? " " : "", (long long)t[i].id);
    return text;
}

static void test_db__lists_in_pages_of_any_order(void **state)
{
    (void)state;
    static const double metrics[] = {0.5, NAN, 0.1, 0.5, 0.3};
    struct db_tx *tx = db_tx_new(db);
    for (int i = 0; i < 5; i++) {
        struct trial t = a_trial(i + 1, 1);
        t.searcher_metric = metrics[i];
        db_trial_save(tx, &t);
    }
    struct trial other = a_trial(6, 2);
    db_trial_save(tx, &other);
    must_run(tx);
    const struct db_filter of_one = {.experiment_id = 1};
    static const struct {
        struct db_page page;
        const char *ids;
    } cases[] = {
        {{.limit = 2}, "1 2"},
        {{.limit = 2, .after = "2"}, "3 4"},
        {{.limit = 9, .after = "4"}, "5"},
        {{.limit = 2, .descending = true}, "5 4"},
        {{.limit = 2, .descending = true, .after = "4"}, "3 2"},
        {{.limit = 2, .offset = 1}, "2 3"},
        {{.limit = -1, .sort = "searcherMetricValue"}, "3 5 1 4 2"},
        {{.limit = 2, .sort = "searcherMetricValue", .after = "5"}, "1 4"},
        {{.limit = 2, .sort = "searcherMetricValue", .after = "1"}, "4 2"},
        {{.limit = 2, .sort = "searcherMetricValue", .after = "2"}, ""},
        {{.limit = 3, .sort = "searcherMetricValue", .after = "4", .descending = true}, "1 5 3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct db_list list;
        assert_int_equal(db_trials_list(reader, &of_one, &cases[i].page, &arena, &list, &err), 0);
        assert_string_equal(ids_of(&list), cases[i].ids);
    }
    struct db_list list;
    const struct db_page bad = {.sort = "hparams; --"}, total = {.limit = 1, .want_total = true};
    assert_int_equal(db_trials_list(reader, &of_one, &bad, &arena, &list, &err), DET_EINVAL);
    assert_string_equal(err.msg, "trials cannot be sorted by 'hparams; --'");
    assert_int_equal(db_trials_list(reader, &of_one, &total, &arena, &list, &err), 0);
    assert_int_equal(list.total, 5);
}

static void test_db__filters_experiments(void **state)
{
    (void)state;
    const char *labels[] = {"x", "y"};
    struct db_tx *tx = db_tx_new(db);
    struct experiment e = an_experiment(1, "Alpha");
    e.labels.items = labels, e.labels.n = 2;
    db_experiment_save(tx, &e);
    e = an_experiment(2, "beta");
    e.labels.items = labels, e.labels.n = 1;
    e.state = EXP_COMPLETED, e.archived = true, e.end_us = 5, e.user_id = 2;
    db_experiment_save(tx, &e);
    must_run(tx);
    const struct {
        struct db_filter filter;
        size_t n;
    } cases[] = {
        {{.name = "ALPH"}, 1},
        {{.name = "%"}, 0},
        {{.labels = doc_of("[x]")}, 2},
        {{.labels = doc_of("[y, x]")}, 1},
        {{.labels = doc_of("[z]")}, 0},
        {{.archived = TRI_FALSE}, 1},
        {{.states = doc_of("[STATE_COMPLETED, STATE_ERROR]")}, 1},
        {{.users = doc_of("[1, 2]")}, 2},
        {{.unfinished = true}, 1},
    };
    struct db_list list;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(db_experiments_list(reader, &cases[i].filter, NULL, &arena, &list, &err),
                         0);
        assert_int_equal(list.n, cases[i].n);
    }
    assert_int_equal(db_labels_list(reader, &arena, &list, &err), 0);
    assert_int_equal(list.n, 2);
    assert_string_equal(((const char **)list.items)[1], "y");
}

static void report(struct db_tx *tx, int64_t run, const char *group, int64_t steps,
                   const char *metrics)
{
    const struct metric_report m = {.trial_id = 1,
                                    .run_id = run,
                                    .group = group,
                                    .steps_completed = steps,
                                    .time_us = 10 * steps,
                                    .metrics = doc_of(metrics)};
    db_metrics_add(tx, &m);
    db_trial_advance(tx, 1, steps);
}

static struct metric_summary summary_of(const char *group, const char *name)
{
    struct db_list list;
    assert_int_equal(db_metric_summaries(reader, 1, &arena, &list, &err), 0);
    const struct metric_summary *s = list.items;
    for (size_t i = 0; i < list.n; i++)
        if (!strcmp(s[i].group, group) && !strcmp(s[i].name, name)) return s[i];
    return (struct metric_summary){.count = 0};
}

static struct db_list all_metrics(int64_t trial_id, int64_t after)
{
    struct db_metrics from = {.trial_id = trial_id, .after = after, .arena = &arena};
    struct db_list list = {0};
    assert_int_equal(db_metrics_page(reader, &from, 1000000, &arena, &list, &err), 0);
    assert_false(from.has_more);
    return list;
}

// Any page size gives the same reports in the same order: by step, then group. No step is torn.
static void test_db__metrics_in_pages(void **state)
{
    (void)state;
    struct db_tx *tx = db_tx_new(db);
    for (int i = 0; i < 200; i++) {
        report(tx, 1, "b", i * 10, "{x: 1}");
        if (i % 3 == 0) report(tx, 1, "a", i * 10, "{x: 1}");
        if (i < 5) report(tx, 1, "c", i, "{x: 1}");
    }
    must_run(tx);
    struct db_list all = all_metrics(1, -1);
    const struct metric_report *m = all.items;
    assert_int_equal(all.n, 200 + 67 + 5);
    for (size_t i = 1; i < all.n; i++)
        assert_true(m[i - 1].steps_completed < m[i].steps_completed ||
                    (m[i - 1].steps_completed == m[i].steps_completed &&
                     strcmp(m[i - 1].group, m[i].group) < 0));
    for (int64_t size = 1; size < 100; size = size * 2 + 1) {
        struct db_metrics from = {.trial_id = 1, .after = -1, .skip = 7, .arena = &arena};
        struct db_list page;
        size_t at = 7;
        do {
            assert_int_equal(db_metrics_page(reader, &from, size, &arena, &page, &err), 0);
            const struct metric_report *p = page.items;
            for (size_t i = 0; i < page.n; i++, at++)
                assert_true(p[i].steps_completed == m[at].steps_completed &&
                            !strcmp(p[i].group, m[at].group));
            assert_true((int64_t)page.n < size + 3);
            assert_true(at == all.n || !page.n ||
                        m[at].steps_completed > p[page.n - 1].steps_completed);
        } while (from.has_more);
        assert_int_equal(at, all.n);
    }
    struct db_metrics one = {.trial_id = 1, .group = "c", .after = 1, .arena = &arena};
    struct db_list page;
    assert_int_equal(db_metrics_page(reader, &one, 100, &arena, &page, &err), 0);
    assert_int_equal(page.n, 3);
    struct db_metrics none = {.trial_id = 9, .after = -1, .arena = &arena};
    assert_int_equal(db_metrics_page(reader, &none, 100, &arena, &page, &err), 0);
    assert_true(page.n == 0 && !none.has_more);
}

static void test_db__metrics_join_and_add_up(void **state)
{
    (void)state;
    struct db_tx *tx = db_tx_new(db);
    struct trial t = a_trial(1, 1);
    db_trial_save(tx, &t);
    report(tx, 1, "training", 100, "{loss: 2.0, note: hi}");
    report(tx, 1, "training", 200, "{loss: 1.0}");
    report(tx, 1, "training", 200, "{acc: .nan}");
    report(tx, 1, "validation", 200, "{err: 3}");
    must_run(tx);
    struct db_list list;
    assert_int_equal(db_metrics_list(reader, 1, "training", 0, 0, &arena, &list, &err), 0);
    assert_int_equal(list.n, 2);
    const struct metric_report *m = list.items;
    assert_string_equal(as_json(m[0].metrics), "{\"loss\":2.0,\"note\":\"hi\"}");
    assert_string_equal(as_json(m[1].metrics), "{\"loss\":1.0,\"acc\":\"NaN\"}");
    list = all_metrics(1, 100);
    assert_int_equal(list.n, 2);
    struct metric_summary s = summary_of("training", "loss");
    assert_int_equal(s.count, 2);
    assert_true(s.sum == 3.0 && s.min == 1.0 && s.max == 2.0 && s.last == 1.0);
    assert_int_equal(db_trial_find(reader, 1, &arena, &t, &err), 0);
    assert_int_equal(t.total_batches, 200);
}

static void test_db__a_new_run_outdates_what_lies_ahead(void **state)
{
    (void)state;
    struct db_tx *tx = db_tx_new(db);
    report(tx, 1, "training", 100, "{loss: 3}");
    report(tx, 1, "training", 200, "{loss: 2}");
    report(tx, 1, "validation", 200, "{err: 5}");
    report(tx, 1, "training", 300, "{loss: 9}");
    db_metrics_roll_back(tx, 1, 2, "training", 200); // of the same group from there, else beyond
    report(tx, 2, "training", 200, "{loss: 1}");
    must_run(tx);
    struct db_list list = all_metrics(1, 0);
    const struct metric_report *m = list.items;
    assert_int_equal(list.n, 3);
    assert_int_equal(m[1].run_id, 2);
    assert_string_equal(m[2].group, "validation");
    struct metric_summary s = summary_of("training", "loss");
    assert_int_equal(s.count, 2);
    assert_true(s.sum == 4.0 && s.min == 1.0 && s.max == 3.0 && s.last == 1.0);
    assert_int_equal(summary_of("validation", "err").count, 1);
}

static void test_db__series_keep_their_spikes(void **state)
{
    (void)state;
    struct db_tx *tx = db_tx_new(db);
    for (int i = 1; i <= 1000; i++)
        report(tx, 1, "training", i,
               i == 500   ? "{loss: 77}"
               : i == 501 ? "{loss: -77}"
                          : "{loss: 1}");
    must_run(tx);
    const struct metric_report which = {.trial_id = 1, .group = "training"};
    struct db_list list;
    assert_int_equal(db_metric_series(reader, &which, "loss", 40, &arena, &list, &err), 0);
    const struct metric_point *p = list.items;
    double low = 0, high = 0;
    assert_in_range(list.n, 20, 40);
    assert_int_equal(list.total, 1000);
    for (size_t i = 0; i < list.n; i++) {
        low = fmin(low, p[i].value);
        high = fmax(high, p[i].value);
        assert_true(!i || p[i].steps > p[i - 1].steps);
    }
    assert_true(low == -77 && high == 77);
    assert_int_equal(db_metric_series(reader, &which, "loss", 2000, &arena, &list, &err), 0);
    assert_int_equal(list.n, 1000);
    assert_int_equal(db_metric_series(reader, &which, "none", 40, &arena, &list, &err), 0);
    assert_int_equal(list.n, 0);
}

static void test_db__logs_by_filter(void **state)
{
    (void)state;
    struct db_tx *tx = db_tx_new(db);
    for (int i = 0; i < 10; i++) {
        const struct log_line line = {.trial_id = 1 + i % 2,
                                      .time_us = 1000 * i,
                                      .log = i == 4 ? "found it\n" : "x\n",
                                      .level = i < 6 ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR,
                                      .rank = {i != 2, i % 3},
                                      .stdtype = "stdout"};
        db_log_add(tx, &line);
    }
    must_run(tx);
    const struct {
        struct log_filter filter;
        size_t n;
        int64_t first;
    } cases[] = {
        {{.trial_id = 1}, 5, 1},
        {{.trial_id = 1, .after_id = 3}, 3, 5},
        {{.trial_id = 1, .newest_first = true, .limit = 2}, 2, 9},
        {{.trial_id = 1, .search = "found"}, 1, 5},
        {{.trial_id = 1, .levels = doc_of("[LOG_LEVEL_ERROR]")}, 2, 7},
        {{.trial_id = 2, .ranks = doc_of("[0]")}, 2, 4},
        {{.trial_id = 1, .after_us = 2000, .before_us = 6000}, 1, 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct db_list list;
        assert_int_equal(db_logs_list(reader, &cases[i].filter, &arena, &list, &err), 0);
        assert_int_equal(list.n, cases[i].n);
        assert_int_equal(((const struct log_line *)list.items)[0].id, cases[i].first);
    }
    tx = db_tx_new(db);
    db_logs_delete(tx, 1, 5000);
    must_run(tx);
    db_wait_tidy(db);
    struct db_list list;
    assert_int_equal(db_logs_list(reader, &cases[0].filter, &arena, &list, &err), 0);
    assert_int_equal(list.n, 2);
}

static void test_db__deleting_an_experiment_takes_all_that_is_its(void **state)
{
    (void)state;
    struct db_tx *tx = db_tx_new(db);
    for (int64_t id = 1; id <= 2; id++) {
        struct experiment e = an_experiment(id, "n");
        struct trial t = a_trial(id, id);
        db_experiment_save(tx, &e);
        db_trial_save(tx, &t);
        db_config_save(tx, id, STR("{}"), STR(""));
        db_log_add(tx, &(struct log_line){.trial_id = id, .log = "x"});
    }
    report(tx, 1, "training", 1, "{loss: 1}");
    must_run(tx);
    tx = db_tx_new(db);
    db_experiment_delete(tx, 1);
    must_run(tx);
    db_wait_tidy(db);
    struct experiment e;
    struct trial t;
    struct db_list list;
    struct str a, b;
    assert_int_equal(db_experiment_find(reader, 1, &arena, &e, &err), DET_ENOTFOUND);
    assert_int_equal(db_trial_find(reader, 1, &arena, &t, &err), DET_ENOTFOUND);
    assert_int_equal(db_config_find(reader, 1, &arena, &a, &b, &err), DET_ENOTFOUND);
    list = all_metrics(1, 0);
    assert_int_equal(list.n, 0);
    assert_int_equal(summary_of("training", "loss").count, 0);
    assert_int_equal(db_logs_list(reader, &(struct log_filter){.trial_id = 1}, &arena, &list, &err),
                     0);
    assert_int_equal(list.n, 0);
    assert_int_equal(db_trial_find(reader, 2, &arena, &t, &err), 0);
    int64_t next[3];
    assert_int_equal(db_next_ids(reader, &next[0], &next[1], &next[2], &err), 0);
    assert_int_equal(next[0], 3);
    assert_int_equal(next[2], 1);
}

RUN_TESTS(DB_TEST(test_db__keeps_every_field_of_an_experiment),
          DB_TEST(test_db__saving_again_replaces), DB_TEST(test_db__missing_records_are_named),
          DB_TEST(test_db__checkpoints_know_the_metric_of_their_step),
          DB_TEST(test_db__other_nouns), DB_TEST(test_db__lists_in_pages_of_any_order),
          DB_TEST(test_db__filters_experiments), DB_TEST(test_db__metrics_join_and_add_up),
          DB_TEST(test_db__metrics_in_pages), DB_TEST(test_db__a_new_run_outdates_what_lies_ahead),
          DB_TEST(test_db__series_keep_their_spikes), DB_TEST(test_db__logs_by_filter),
          DB_TEST(test_db__deleting_an_experiment_takes_all_that_is_its))
