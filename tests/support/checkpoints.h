// tests/support/checkpoints.h: small checkpoints in a store of their own.
#pragma once

#include "storage/storage.h"
#include "support/files.h"

static inline struct store *new_store(const char *name)
{
    struct store *s = NULL;
    det_err err = {0};
    assert_ok(store_open(temp_path(name), &s, &err), &err);
    return s;
}

// A checkpoint with a large and a small file, a directory, and content that depends on steps.
static inline int write_files(struct ckpt *c, int64_t steps, det_err *err)
{
    char text[64], large[20000];
    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (char)(i * 31 + (size_t)steps);
    snprintf(text, sizeof text, "{\"steps\": %lld}", (long long)steps);
    int rc = ckpt_put(c, CKPT_STATE, (struct str){large, sizeof large}, err);
    if (!rc) rc = ckpt_put(c, CKPT_LOOP, str_from(text), err);
    if (!rc) rc = ckpt_put(c, "code/model_def.c", STR("int main(void) {}\n"), err);
    if (!rc) rc = ckpt_put(c, "empty", STR(""), err);
    return rc;
}

static inline struct ckpt_info save(struct store *s, int64_t trial_id, int64_t steps)
{
    const struct ckpt_info info = {.trial_id = trial_id, .steps_completed = steps};
    struct ckpt_info saved = {0};
    struct ckpt *c = NULL;
    det_err err = {0};
    assert_ok(ckpt_begin(s, &info, &c, &err), &err);
    assert_ok(write_files(c, steps, &err), &err);
    assert_ok(ckpt_commit(c, &saved, &err), &err);
    return saved;
}
