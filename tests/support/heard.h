// tests/support/heard.h: what the master of support/fake_master.h was told, and a second run of a
// trial that it knows.
#pragma once

#include "support/fake_master.h"

// The place of the first one among all that was heard.
static inline int heard_index(const char *path)
{
    for (int i = 0; i < fake.n_heard; i++)
        if (strstr(fake.heard[i].path, path)) return i;
    fail_msg("the master did not hear of '%s'", path);
    return -1;
}

static inline void assert_heard(const char *path, int n, const char *text)
{
    const char *body = fake_heard(path, n);
    if (!body || !strstr(body, text))
        fail_msg("%s: expected '%s', found '%s'", path, text, body ? body : "nothing");
}

// The one that the master heard of last.
static inline void set_latest_checkpoint(void)
{
    char uuid[37] = "";
    const char *body = NULL;
    for (int i = 0; fake_heard("checkpoints", i); i++)
        body = fake_heard("checkpoints", i);
    assert_non_null(body);
    const char *at = strstr(body, "\"uuid\":\"");
    assert_non_null(at);
    memcpy(uuid, at + strlen("\"uuid\":\""), 36);
    setenv("DET_LATEST_CHECKPOINT", uuid, 1);
}

static inline void give_operation(void *ctx)
{
    const char *operation = ctx;
    fake_forget();
    fake.has_completed = fake.preempt = false;
    fake.operation = operation;
}

// As the second run, from the newest checkpoint.
static inline void begin_again(const char *operation)
{
    set_latest_checkpoint();
    serve_call(&fake.serve, give_operation, (void *)(uintptr_t)operation);
    setenv("DET_TRIAL_RUN_ID", "2", 1);
}
