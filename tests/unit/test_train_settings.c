// Hyperparameters and other settings: typed reading, and errors that help.
#include "support/files.h"
#include "support/onevar.h"
#include "support/training.h"
#include "train/train.h"

static void test_hparams__are_read_by_type(void **state)
{
    (void)state;
    det_trainer *t = lab_init(.hparams = "{n: 3, rate: 0.5, big: 1e3, deep: {er: {x: 7}}, "
                                         "layers: [8, 16], name: adam, flag: true, a.b: 2}");
    assert_int_equal(det_hparam_int(t, "n"), 3);
    assert_int_equal(det_hparam_int(t, "big"), 1000);
    assert_near(det_hparam_double(t, "rate"), 0.5, 0);
    assert_near(det_hparam_double(t, "n"), 3, 0);
    assert_int_equal(det_hparam_int(t, "deep.er.x"), 7);
    assert_int_equal(det_hparam_int(t, "layers.1"), 16);
    assert_int_equal(det_config_len(det_hparams(t), "layers"), 2);
    assert_string_equal(det_hparam_str(t, "name"), "adam");
    assert_true(det_hparam_bool(t, "flag"));
    assert_int_equal(det_hparam_int(t, "a.b"), 2);
    assert_true(det_config_has(det_hparams(t), "deep.er"));
    assert_false(det_config_has(det_hparams(t), "deep.est"));
    assert_fine();
    det_trainer_free(t);
}

static void test_hparams__errors_name_key_and_place(void **state)
{
    (void)state;
    det_trainer *t = lab_init(.hparams = "{learning_rate: 0.5, name: adam}");
    det_hparam_double(t, "leaning_rate");
    assert_raised(DET_ENOTFOUND,
                  "hyperparameter 'leaning_rate' is not defined (did you mean 'learning_rate'?); "
                  "define it under 'hyperparameters:' of the experiment configuration");
    det_hparam_int(t, "learning_rate");
    assert_raised(DET_EINVAL, "hyperparameter 'learning_rate' is a number (0.5), expected an "
                              "integer");
    det_hparam_int(t, "name");
    assert_raised(DET_EINVAL, "'name' is a string ('adam'), expected an integer");
    det_config_str(det_data_config(t), "url");
    assert_raised(DET_ENOTFOUND, "data setting 'url' is not defined");
    det_trainer_free(t);
}

static void test_init__refuses_bad_text(void **state)
{
    (void)state;
    assert_null(lab_init(.hparams = "[1, 2]"));
    assert_raised(DET_EINVAL, "hparams: expected a map, found a list");
    assert_null(lab_init(.config = "/nowhere.yaml"));
    assert_raised(DET_ENOTFOUND, "/nowhere.yaml");
    // NULL is accepted by everything that follows.
    assert_null(det_build_trial(NULL, &OneVarTrial));
    assert_null(det_train(NULL, NULL, .max_length = det_batches(1)));
    det_trainer_free(NULL);
}

static const char *search_config(void)
{
    const char *path = temp_path("search.yaml");
    static const char text[] = "name: x\n"
                               "data: {url: here, trial_id: 777}\n"
                               "hyperparameters:\n"
                               "  global_batch_size: 8\n"
                               "  learning_rate: {type: log, base: 10, minval: -4, maxval: -1}\n"
                               "searcher: {name: random, metric: loss, max_trials: 2, "
                               "max_length: {batches: 4}}\n"
                               "optimizations: {aggregation_frequency: 2}\n"
                               "reproducibility: {experiment_seed: 123}\n"
                               "entrypoint: model_def:OneVarTrial\n";
    write_bytes(path, text, sizeof text - 1);
    return path;
}

static void test_init__puts_given_values_above_the_configuration(void **state)
{
    (void)state;
    const char *path = search_config();
    assert_null(lab_init(.config = path));
    assert_raised(DET_EINVAL, "'learning_rate' is to be searched for: give it a value");
    det_trainer *t = lab_init(.config = path, .hparams = "{learning_rate: 0.25, more: 1}");
    assert_near(det_hparam_double(t, "learning_rate"), 0.25, 0);
    assert_int_equal(det_hparam_int(t, "global_batch_size"), 8);
    assert_int_equal(det_hparam_int(t, "more"), 1);
    assert_string_equal(det_config_str(det_data_config(t), "url"), "here");
    assert_int_equal(det_config_int(det_data_config(t), "trial_id"), 777);
    assert_int_equal(det_trainer_seed(t), 123);
    assert_int_equal(det_shard_batch_size(t, 9), 9);
    const det_result *r = train_ok(t, det_build_trial(t, &OneVarTrial));
    assert_int_equal(r->batches, 4);
    assert_near(det_metrics_get(r->training, "weight"), (0 + 0.5 + 0.5 + 0.75) / 4, 1e-6);
    det_trainer_free(t);
}

static void test_init__takes_what_a_task_is_given(void **state)
{
    (void)state;
    setenv("DET_HPARAMS", "{\"learning_rate\": 0.125, \"global_batch_size\": 2}", 1);
    setenv("DET_TRIAL_SEED", "77", 1);
    det_trainer *t = lab_init();
    unsetenv("DET_HPARAMS");
    unsetenv("DET_TRIAL_SEED");
    assert_near(det_hparam_double(t, "learning_rate"), 0.125, 0);
    assert_int_equal(det_trainer_seed(t), 77);
    det_trainer_free(t);
}

static void test_init__takes_the_data_of_a_job(void **state)
{
    (void)state;
    setenv("DET_EXPERIMENT_CONFIG",
           "{\"entrypoint\": \"./predict\", \"data\": {\"trial_id\": 777}, "
           "\"resources\": {\"slots\": 8}}",
           1);
    det_trainer *t = lab_init();
    assert_int_equal(det_config_int(det_data_config(t), "trial_id"), 777);
    assert_int_equal(det_hparam_int(t, "trial_id"), 0); // there are no hyperparameters
    assert_raised(DET_ENOTFOUND, "hyperparameter 'trial_id' is not defined");
    det_trainer_free(t);

    setenv("DET_EXPERIMENT_CONFIG", "{\"entrypoint\": \"./predict\", \"slots\": 8}", 1);
    assert_null(lab_init());
    assert_raised(DET_EINVAL, "slots");
    unsetenv("DET_EXPERIMENT_CONFIG");
}

static char seen_settings[128];

static int configured_init(void *self, det_context *ctx, det_err *err)
{
    const det_config *data = det_data_config(ctx);
    snprintf(seen_settings, sizeof seen_settings, "%s %lld %lld", det_config_str(data, "url"),
             (long long)det_config_int(data, "trial_id"),
             (long long)det_config_int(det_context_experiment_config(ctx),
                                       "searcher.max_length.batches"));
    return onevar_init(self, ctx, err);
}

static void test_checkpoint__brings_its_configuration(void **state)
{
    (void)state;
    char dir[300];
    det_trial_ops ops = OneVarTrial;
    ops.init = configured_init;
    det_trainer *t = lab_init(.config = search_config(), .hparams = "{learning_rate: 0.25}");
    const det_result *r =
        train_ok(t, det_build_trial(t, &ops), .checkpoint_dir = temp_path("configured"));
    snprintf(dir, sizeof dir, "%s", r->checkpoint);
    det_trainer_free(t);
    assert_string_equal(seen_settings, "here 777 4");

    setenv("DET_EXPERIMENT_CONFIG", "{\"entrypoint\": \"./p\", \"data\": {\"trial_id\": 9}}", 1);
    t = lab_init();
    unsetenv("DET_EXPERIMENT_CONFIG");
    det_load_checkpoint_trial(t, &ops, .directory = dir);
    assert_fine();
    assert_string_equal(seen_settings, "here 9 4"); // the job's own data setting comes first
    det_trainer_free(t);
}

static void test_checkpoint__of_the_cluster_needs_a_cluster(void **state)
{
    (void)state;
    det_err err;
    det_trainer *t = lab_init();
    assert_null(det_load_checkpoint_trial(t, &OneVarTrial, .trial_id = 777));
    assert_int_equal(det_check(&err), DET_ESTATE);
    assert_non_null(strstr(err.msg, "'det job run'"));
    assert_null(det_load_checkpoint_trial(t, &OneVarTrial, .trial_id = 777, .directory = "x"));
    assert_int_equal(det_check(&err), DET_EINVAL);
    assert_null(det_load_checkpoint_trial(t, &OneVarTrial, .directory = NULL));
    assert_int_equal(det_check(&err), DET_EINVAL);
    det_trainer_free(t);
}

static void test_init__seeds_the_random_numbers(void **state)
{
    (void)state;
    double value[3];
    const uint64_t seeds[] = {5, 5, 6};
    for (int i = 0; i < 3; i++) {
        det_trainer *t = lab_init(.seed = seeds[i]);
        value[i] = lab_draw();
        det_trainer_free(t);
    }
    assert_true(value[0] == value[1] && value[1] != value[2]);
    det_trainer *t = lab_init(.seed = 0); // a seed as good as any
    assert_int_equal(det_trainer_seed(t), 0);
    det_trainer_free(t);
    t = lab_init(); // a new one each time, and it can be asked for
    assert_true(det_trainer_seed(t) != 0);
    det_trainer_free(t);
}

// --- contexts

static int asking_init(void *self, det_context *ctx, det_err *err)
{
    assert_int_equal(det_context_rank(ctx), 0);
    assert_int_equal(det_context_size(ctx), 1);
    assert_int_equal(det_context_global_batch_size(ctx), 8);
    assert_int_equal(det_context_per_slot_batch_size(ctx), 8);
    assert_int_equal(det_context_trial_seed(ctx), 9);
    assert_int_equal(det_context_trial_id(ctx), 0);
    det_context_current_batch(ctx);
    assert_raised(DET_ESTATE, "det_context_current_batch: training has not begun");
    return onevar_init(self, ctx, err);
}

static int asking_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct onevar *m = self;
    assert_int_equal(det_context_current_batch(m->ctx), step->batch_idx);
    assert_int_equal(det_context_current_epoch(m->ctx), step->epoch_idx);
    assert_int_equal(step->epoch_idx, step->batch_idx / 8);
    assert_int_equal(det_context_is_epoch_start(m->ctx), step->batch_idx % 8 == 0);
    assert_int_equal(det_context_is_epoch_end(m->ctx), step->batch_idx % 8 == 7);
    assert_ptr_equal(step->model, m->model);
    return onevar_train_batch(self, step, out, err);
}

static void test_context__knows_where_it_is(void **state)
{
    (void)state;
    det_trial_ops ops = OneVarTrial;
    ops.init = asking_init;
    ops.train_batch = asking_batch;
    det_trainer *t = lab_init(.hparams = "{learning_rate: 0.5, global_batch_size: 8}", .seed = 9);
    train_ok(t, det_build_trial(t, &ops), .max_length = det_batches(17));
    det_trainer_free(t);
}

// --- the registry

DET_TRIAL(Second) = {.size = 1};

static void test_registry__finds_trials_by_name(void **state)
{
    (void)state;
    det_err err;
    assert_ptr_equal(trial_find("OneVarTrial", &err)->ops, &OneVarTrial);
    assert_ptr_equal(trial_find("Second", &err)->ops, &Second);
    assert_null(trial_find("MNISTTrial", &err));
    assert_err(err, DET_ENOTFOUND, "there is no trial 'MNISTTrial'; found: ");
    assert_non_null(strstr(err.msg, "OneVarTrial"));
    assert_null(trial_find(NULL, &err)); // there are two
    assert_err(err, DET_ENOTFOUND, "Second");
}

// One table for several trials, as a binding for another language has it.
static const char *seen_arg;

static int named_init(void *self, det_context *ctx, det_err *err)
{
    seen_arg = det_context_arg(ctx);
    return onevar_init(self, ctx, err);
}

static int named_fail(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    (void)self, (void)step, (void)out;
    return det_fail(err, DET_EINVAL, "as planned");
}

static void test_registry__one_table_serves_trials_of_several_names(void **state)
{
    (void)state;
    det_err err;
    static char first[] = "first", second[] = "second";
    det_trial_ops ops = OneVarTrial;
    ops.init = named_init;
    ops.train_batch = named_fail;
    det_trial_entry entry = {.name = "ByName", .ops = &ops, .arg = first};
    det_trial_register(&entry);
    const struct train_task task = {.trial = trial_find("ByName", &err),
                                    .engine = lab_engine,
                                    .hparams = NULL,
                                    .opts = {.max_length = det_batches(1)}};
    assert_int_equal(train_run(&task, &err), DET_ENOTFOUND); // no learning rate
    assert_string_equal(seen_arg, "first");
    det_trial_unregister(&entry);
    assert_null(trial_find("ByName", &err));

    det_trainer *t = lab_init(.hparams = "{learning_rate: 0.5, global_batch_size: 8}");
    det_trial *trial = det_build_trial(t, &ops, .name = "model_def:Mine", .arg = second);
    assert_string_equal(seen_arg, "second");
    assert_null(det_train(t, trial, .max_length = det_batches(1)));
    assert_raised(DET_EINVAL, "trial model_def:Mine, train_batch, batch 0: as planned");
    det_trainer_free(t);
}

static const struct CMUnitTest tests[] = {
    LAB_TEST(test_hparams__are_read_by_type),
    LAB_TEST(test_hparams__errors_name_key_and_place),
    LAB_TEST(test_init__refuses_bad_text),
    LAB_TEST(test_init__puts_given_values_above_the_configuration),
    LAB_TEST(test_init__takes_what_a_task_is_given),
    LAB_TEST(test_init__takes_the_data_of_a_job),
    LAB_TEST(test_checkpoint__brings_its_configuration),
    LAB_TEST(test_checkpoint__of_the_cluster_needs_a_cluster),
    LAB_TEST(test_init__seeds_the_random_numbers),
    LAB_TEST(test_context__knows_where_it_is),
    LAB_TEST(test_registry__finds_trials_by_name),
    LAB_TEST(test_registry__one_table_serves_trials_of_several_names),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
