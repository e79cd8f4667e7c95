// client/core.h: what a det_core is, for the files of this layer.
#pragma once

#include "client/client.h"
#include "client/journal.h"
#include "client/shipper.h"
#include "client/watcher.h"
#include "entity/entity.h"
#include "storage/storage.h"
#include <stdatomic.h>
#include <sys/types.h>

// What the environment says.
struct settings {
    const char *master, *token; // master NULL: local
    const char *ca_file, *cert_name;
    const char *allocation;
    const char *storage, *latest_checkpoint;
    const char *latest_storage; // where that is, if it is not in storage; NULL: it is
    const char *folder;
    const struct doc *values; // {"hparams": {...}, "data": {...}, "config": {...}}
    struct length length;     // of a local run
    int64_t patience_us;
};

// Reads the environment, and opts where it says nothing. Everything lives in the arena.
int settings_read(const det_core_opts *opts, struct arena *arena, struct settings *out,
                  det_core_info *info, det_err *err);

struct det_search_op {
    det_core *core;
    struct length length;
    int64_t asked; // the length as the master knows it
    bool is_complete;
};

struct det_core {
    struct arena arena;
    struct settings settings;
    det_core_info info;
    struct http_client *client; // for calls that wait; NULL: local
    struct journal *journal;    // NULL: not the chief
    struct shipper *shipper;    // NULL: local
    struct watcher *watcher;    // NULL: local
    struct store *store;        // opened when it is needed
    int64_t last_batches;       // reported
    struct det_search_op op;
    bool has_op;
    _Atomic bool has_acked;
    const char *ack_path;
    const char *restored; // path of the latest checkpoint, once it was asked for
    det_rendezvous *rendezvous;
    pid_t owner;    // a child that it forks has no part in it
    det_core *next; // of those to be closed at exit
};

// Puts a report into the journal, durably: a POST of body, a JSON document of one line. Fails with
// what became of earlier reports.
int core_report(det_core *core, const char *path, const struct buf *body, det_err *err);

// The same for what may be forgotten when the machine loses its power.
int core_mention(det_core *core, const char *path, const struct buf *body, det_err *err);

// Calls once() until it succeeds, fails for good, or the master has been away for too long.
int core_persist(int (*once)(void *ctx, det_err *err), void *ctx, det_err *err);

// A GET that is repeated while the master is away. The answer lives in the arena.
int core_ask(det_core *core, const char *path, struct arena *arena, struct doc **out, det_err *err);

struct api_path {
    char text[128];
};

struct api_path core_trial_path(const det_core *core, const char *what); // ".../trials/7/metrics"

int core_check_chief(const det_core *core, const char *what, det_err *err);
void core_acknowledge_end(det_core *core); // so that the master starts the trial again if need be
