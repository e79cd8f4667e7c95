// storage/storage.h: checkpoints: directories that are complete and whole, or not there at all.
//
// A store is a base directory. A checkpoint is <base>/<uuid>/ with any files in it and a
// manifest.json, written last, that knows the size and checksum (CRC-32C) of each of them and of
// itself. It is written in <base>/.tmp-<uuid>/, synced, and then renamed, so it becomes visible at
// the moment it is durable; a process that dies before leaves a .tmp- directory for store_clean().
//
//     struct ckpt *c;
//     if (ckpt_begin(store, &(struct ckpt_info){.steps_completed = 100}, &c, err)) return ...;
//     int rc = ckpt_put(c, CKPT_LOOP, text, err);
//     const char *path = rc ? NULL : ckpt_path(c, CKPT_STATE, err);
//     if (!path || det_pth_save(path, state, err)) return ckpt_abort(c), ...;
//     return ckpt_commit(c, &info, err); // c is gone, whatever happened
//
// A manifest is input like any other: it can name only regular files inside its own directory.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "det/err.h"
#include "entity/entity.h"
#include <stdbool.h>
#include <stddef.h>

// Files that every checkpoint of a trial has.
#define CKPT_STATE "state-dict.pth"          // weights, optimizers, schedules, callbacks
#define CKPT_CONFIG "config.json"            // experiment configuration, hyperparameters
#define CKPT_LOOP "loop.json"                // position and counters
#define CKPT_METADATA "metadata.json"        // the user's
#define CKPT_ARCHITECTURE "architecture.txt" // the layers of the models, for people
#define CKPT_CODE "code"                     // directory: what was trained with
#define CKPT_RNG_FORMAT "rng-%d.json"        // of each rank
#define CKPT_MANIFEST "manifest.json"        // written by ckpt_commit()

// --- the store: a base directory. Its functions may be called from several threads.

struct store;

// Makes the directory if it is missing.
int store_open(const char *base, struct store **out, det_err *err);

// For a place that others choose: storage_path (NULL: none) must be host_path or below it after "."
// and ".." are resolved, and nothing below host_path may be a symbolic link. DET_ENOTFOUND if
// host_path does not exist: that is a mount that is missing.
int store_open_below(const char *host_path, const char *storage_path, struct store **out,
                     det_err *err);
void store_close(struct store *s);

// Removes what processes that are no longer there left unfinished: half-written checkpoints and
// half-deleted ones. What a living process is writing is left alone. *n_removed may be NULL.
int store_clean(struct store *s, int *n_removed, det_err *err);

// --- writing one checkpoint

struct ckpt_info {
    struct uuid id;          // all zero: ckpt_begin() draws one
    int64_t trial_id;        // 0 for a trial that no master knows
    int64_t steps_completed; // batches
    int64_t saved_us;        // since 1970; set by ckpt_commit(), rising within a store
    int64_t n_bytes;         // of all files but the manifest; set by ckpt_commit()
};

struct ckpt;

int ckpt_begin(struct store *s, const struct ckpt_info *info, struct ckpt **out, det_err *err);

// Where a file of this name is to be written: "…/.tmp-1f3a…/code/model_def.c". Directories in the
// name are made if need be. Valid until the next call. NULL with err if the name leads elsewhere.
const char *ckpt_path(struct ckpt *c, const char *name, det_err *err);

// Writes a file of this content.
int ckpt_put(struct ckpt *c, const char *name, struct str content, det_err *err);

// Syncs and sums up every file, writes the manifest, renames the directory. On failure (DET_ENOSPC,
// DET_EIO; DET_EINVAL for links, pipes and names that are not UTF-8; DET_ESTATE if there is a
// checkpoint of this id) nothing has happened and the space is free again. Frees c. *out may be
// NULL.
int ckpt_commit(struct ckpt *c, struct ckpt_info *out, det_err *err);
void ckpt_abort(struct ckpt *c); // removes all of it, frees c

// --- writing in the background: one thread, one checkpoint at a time

struct ckpt_writer;

struct ckpt_job {
    struct ckpt_info info;
    // Writes the files; in the writer's thread. ctx must hold a copy of all that is written.
    int (*write)(void *ctx, struct ckpt *c, det_err *err);
    // Afterwards, in the thread that calls ckpt_writer_*(): frees ctx. info is what was committed,
    // NULL if that failed.
    void (*done)(void *ctx, const struct ckpt_info *info);
    void *ctx;
};

struct ckpt_writer *ckpt_writer_new(struct store *s, det_err *err);

// Waits for the checkpoint before this one, then starts. If the one before failed, that is the
// result, once, and this one was not started: its done() was not called.
int ckpt_writer_start(struct ckpt_writer *w, const struct ckpt_job *job, det_err *err);

// Calls done() if the checkpoint in flight is complete, without waiting; gives its error, once.
int ckpt_writer_poll(struct ckpt_writer *w, det_err *err);

// The same, after waiting for it.
int ckpt_writer_wait(struct ckpt_writer *w, det_err *err);
void ckpt_writer_free(struct ckpt_writer *w); // waits; what failed now is lost

// --- reading

struct ckpt_damage {
    const char *name;   // of its directory
    const char *reason; // "'state-dict.pth' has 10 bytes instead of 20"
};

// Lives in the arena that was given.
struct ckpt_list {
    struct ckpt_info *items; // newest first
    size_t n;
    struct ckpt_damage *damaged; // of any trial: a damaged manifest does not tell
    size_t n_damaged;
};

// All checkpoints of a trial by their manifests; the other files are not looked at.
int ckpt_list(struct store *s, int64_t trial_id, struct arena *arena, struct ckpt_list *out,
              det_err *err);

// Compares every file with the manifest. DET_ECORRUPT says what is wrong, DET_ENOTFOUND that there
// is no such checkpoint. *out may be NULL.
int ckpt_verify(struct store *s, struct uuid id, struct ckpt_info *out, det_err *err);

// The newest checkpoint of a trial that is whole. *skipped lists those that are not; its arena is
// the caller's. DET_ENOTFOUND if there is none.
int ckpt_find_newest(struct store *s, int64_t trial_id, struct arena *arena, struct ckpt_info *out,
                     struct ckpt_list *skipped, det_err *err);

// The path of a checkpoint's file, or of the checkpoint itself if name is NULL. Lives in the arena.
const char *ckpt_file(const struct store *s, struct uuid id, const char *name, struct arena *arena);

// Deletes a checkpoint; it disappears at once and as a whole. DET_ENOTFOUND if there is none.
int ckpt_delete(struct store *s, struct uuid id, det_err *err);

// --- which ones to keep: a pure function

struct keep_item {
    int64_t trial_id, steps_completed;
    bool has_metric; // a validation at steps_completed
    double metric;   // the searcher's; NaN is worse than any number
    bool pinned;     // used elsewhere: kept in any case
};

// How many to keep. KEEP_ALL keeps all.
struct keep_policy {
    int64_t experiment_best, trial_best, trial_latest;
    bool larger_is_better;
};

#define KEEP_ALL INT64_MAX

// keep[i] says whether items[i] is among the best of all, the best of its trial or the latest of
// its trial. Among equals the earlier item wins.
void keep_choose(const struct keep_item *items, size_t n, const struct keep_policy *policy,
                 bool *keep);
