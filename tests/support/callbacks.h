// tests/support/callbacks.h: a callback that counts every event and writes a trace of them.
#pragma once

#include "det/trial.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct counter {
    int startups, shutdowns, training_starts, validations, validation_ends, epoch_starts,
        epoch_ends, batches, workloads, save_starts, writes, uploads, batch_metrics;
    int fail_in_epoch; // on_training_epoch_start fails there; 0: never
    det_context *ctx;  // to stop at the end of workload stop_at
    int stop_at;
    char trace[8192];
};

static inline void trace_add(struct counter *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static inline void trace_add(struct counter *c, const char *fmt, ...)
{
    size_t n = strlen(c->trace);
    va_list args;
    va_start(args, fmt);
    if (n) c->trace[n++] = ' ';
    vsnprintf(c->trace + n, sizeof c->trace - n, fmt, args);
    va_end(args);
}

static inline int count_startup(void *self, int64_t first, const char *checkpoint, det_err *err)
{
    struct counter *c = self;
    (void)err;
    c->startups++;
    trace_add(c, "startup(%d%s)", (int)first, checkpoint ? " resumed" : "");
    return 0;
}

static inline int count_training_start(void *self, det_err *err)
{
    struct counter *c = self;
    (void)err;
    c->training_starts++;
    trace_add(c, "start");
    return 0;
}

static inline int count_validation_start(void *self, det_err *err)
{
    struct counter *c = self;
    (void)err;
    c->validations++;
    trace_add(c, "val");
    return 0;
}

static inline int count_batch_end(void *self, int64_t batch_idx, det_err *err)
{
    struct counter *c = self;
    (void)err;
    c->batches += batch_idx == c->batches;
    return 0;
}

static inline int count_validation_epoch_start(void *self, det_err *err)
{
    (void)err;
    trace_add(self, "val_epoch");
    return 0;
}

static inline int count_validation_epoch_end(void *self, const det_metrics *batches, det_err *err)
{
    (void)err;
    trace_add(self, "val_epoch_end(%d)", (int)det_metrics_rows(batches));
    return 0;
}

static inline int count_validation_end(void *self, const det_metrics *metrics, det_err *err)
{
    struct counter *c = self;
    (void)err;
    c->validation_ends++;
    trace_add(c, "val_end(%s)", det_metrics_name(metrics, 0));
    return 0;
}

static inline int count_epoch_start(void *self, int64_t epoch_idx, det_err *err)
{
    struct counter *c = self;
    c->epoch_starts++;
    trace_add(c, "epoch(%d)", (int)epoch_idx);
    if (c->fail_in_epoch && epoch_idx == c->fail_in_epoch)
        return det_fail(err, DET_EIO, "the disk is full of eels");
    return 0;
}

static inline int count_epoch_end(void *self, int64_t epoch_idx, det_err *err)
{
    struct counter *c = self;
    (void)err;
    c->epoch_ends++;
    trace_add(c, "epoch_end(%d)", (int)epoch_idx);
    return 0;
}

static inline int count_workload_end(void *self, const det_metrics *averages,
                                     const det_metrics *batches, det_err *err)
{
    struct counter *c = self;
    (void)averages, (void)err;
    c->workloads++;
    c->batch_metrics += (int)det_metrics_rows(batches);
    trace_add(c, "workload(%d)", (int)det_metrics_rows(batches));
    if (c->stop_at && c->workloads == c->stop_at) det_context_set_stop_requested(c->ctx, true);
    return 0;
}

static inline int count_save_start(void *self, det_value *checkpoint, det_err *err)
{
    struct counter *c = self;
    (void)err;
    c->save_starts++;
    trace_add(c, "save");
    det_value_set(checkpoint, "of_mine", det_value_int(c->save_starts));
    return 0;
}

static inline det_value *count_state(void *self, det_err *err)
{
    struct counter *c = self;
    (void)err;
    trace_add(c, "state");
    return det_value_int(c->epoch_starts);
}

static inline int count_load_start(void *self, det_value *checkpoint, det_err *err)
{
    (void)err;
    trace_add(self, "load(%s)", det_value_get(checkpoint, "of_mine") ? "mine" : "");
    return 0;
}

static inline int count_load_state(void *self, const det_value *state, det_err *err)
{
    int64_t n = -1;
    det_value_as_int(state, &n, err);
    trace_add(self, "load_state(%d)", (int)n);
    return 0;
}

static inline int count_write_end(void *self, const char *dir, det_err *err)
{
    struct counter *c = self;
    (void)err;
    c->writes++;
    char path[512];
    snprintf(path, sizeof path, "%s/note.txt", dir);
    FILE *f = fopen(path, "w");
    if (f) fclose(f);
    trace_add(c, "write_end");
    return 0;
}

static inline int count_upload_end(void *self, const char *uuid, det_err *err)
{
    struct counter *c = self;
    (void)err;
    c->uploads++;
    trace_add(c, "upload_end(%d)", (int)strlen(uuid));
    return 0;
}

static inline void count_shutdown(void *self)
{
    struct counter *c = self;
    c->shutdowns++;
    trace_add(c, "shutdown");
}

static const det_callback_ops counting = {
    .on_trial_startup = count_startup,
    .on_checkpoint_load_start = count_load_start,
    .load_state_dict = count_load_state,
    .on_training_start = count_training_start,
    .on_validation_start = count_validation_start,
    .on_validation_epoch_start = count_validation_epoch_start,
    .on_validation_epoch_end = count_validation_epoch_end,
    .on_validation_end = count_validation_end,
    .on_training_epoch_start = count_epoch_start,
    .on_training_batch_end = count_batch_end,
    .on_training_epoch_end = count_epoch_end,
    .on_training_workload_end = count_workload_end,
    .on_checkpoint_save_start = count_save_start,
    .state_dict = count_state,
    .on_checkpoint_write_end = count_write_end,
    .on_checkpoint_upload_end = count_upload_end,
    .on_trial_shutdown = count_shutdown,
};
