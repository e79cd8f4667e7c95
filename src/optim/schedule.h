// optim/schedule.h: the inside of learning-rate schedules. Private to the layer.
#pragma once

#include "optim/optimizer.h"

// What a rule of the table needs to know; lists have one number per group.
union rule_data {
    struct step_rule {
        int64_t step_size;
        double gamma;
    } step;
    struct multi_step_rule {
        int64_t *milestone; // one may be there several times
        int n;
        double gamma;
    } multi_step;
    struct exponential_rule {
        double gamma;
    } exponential;
    struct cosine_rule {
        int64_t t_max;
        double eta_min;
    } cosine;
    struct restarts_rule {
        int64_t t_0, t_i, t_mult, t_cur;
        double eta_min;
    } restarts;
    struct linear_rule {
        double start_factor, end_factor;
        int64_t total_iters;
    } linear;
    struct polynomial_rule {
        int64_t total_iters;
        double power;
    } polynomial;
    struct lambda_rule {
        double (*factor)(int64_t step, int group, void *user);
        void *user;
    } lambda;
    struct one_cycle_rule {
        int64_t total_steps;
        bool linear, cycle_momentum, use_beta1;
        int n_phases;
        struct one_cycle_phase {
            double end_step;
            int start_lr, end_lr, start_momentum, end_momentum; // rows of schedule_settings
        } phase[3];
    } one_cycle;
    struct cyclic_rule {
        double total_size, step_ratio, gamma;
        int mode; // det_cyclic_mode
        bool cycle_momentum;
        double *max_lr, *base_momentum, *max_momentum;
    } cyclic;
    struct plateau_rule {
        double factor, threshold, eps, best, mode_worse;
        int64_t patience, cooldown, cooldown_counter, num_bad_epochs;
        int mode, threshold_mode; // rows of their lists of choices: 0 is min, rel
        double *min_lr;
    } plateau;
    struct phased_cosine_rule {
        int64_t total, warmup, cooldown; // in updates
        double k_decay, lr_min, min_ratio, warmup_start, warmup_ratio;
        bool as_upstream;
    } phased_cosine;
    struct wsd_rule {
        int64_t total, warmup, n_checkpoints;
        double decay_ratio, lr_min, warmup_start;
        bool inverse, is_continuation;
    } wsd;
    struct field_rule {
        double *base; // values when the schedule was made
        char *field;
        det_field_fn value;
        void *user;
    } field;
};

// One row of the table of schedules.
struct lr_rule {
    const char *name; // torch's class
    const struct setting *settings;
    // Before the new rates are computed, last_epoch already counted on. False: a sticky error was
    // set.
    bool (*advance)(det_lr_scheduler *s);
    // The group's new learning rate from the present one.
    double (*lr)(const det_lr_scheduler *s, int group, double lr);
    double (*momentum)(const det_lr_scheduler *s, int group); // NULL, or NaN: leave it alone
    void (*on_metric)(det_lr_scheduler *s, double metric);    // instead of all the above
    // What the tables cannot say.
    void (*save)(const det_lr_scheduler *s, det_value *dict);
    int (*load)(det_lr_scheduler *s, const det_value *dict, bool commit, det_err *err);
    void (*done)(det_lr_scheduler *s);
};

struct det_lr_scheduler {
    union rule_data rule_data; // first: offsets in the rules' tables start here
    const struct lr_rule *rule;
    det_optimizer *opt;
    int n_groups;
    int64_t last_epoch, step_count;
    double *base_lr, *last_lr; // one per group
};

// A schedule before its first step: remembers the initial rate of each group. NULL if opt is NULL
// or an error waits.
det_lr_scheduler *schedule_begin(const struct lr_rule *rule, det_optimizer *opt);
// The step that torch takes when a schedule is made. Returns s, or frees it and returns NULL.
det_lr_scheduler *schedule_start(det_lr_scheduler *s);
// A list with the same number for each group.
double *schedule_list(const det_lr_scheduler *s, double value);
struct hyper *schedule_hyper(const det_lr_scheduler *s, int group);

// The inside of a row { .key = ..., } in a rule's table of settings.
#define RULE(rule, member, type_) .offset = offsetof(struct rule, member), .type = (type_)
