// client/client.h: what other layers need of the client besides det/client.h.
#pragma once

#include "base/arena.h"
#include "det/client.h"
#include "http/http.h"

// Whether a master has started this program: then det_core_init() talks to it.
bool client_is_task(void);

// The machines that this program runs on, as DET_RENDEZVOUS_INFO says; without it, this one, with
// n_slots. What it points to lives in the arena.
int client_rendezvous(struct arena *arena, int n_slots, det_rendezvous *out, det_err *err);

// det_core_close() of a program that has no time: waits for the master so long only (negative: as long
// as was set at init).
int client_close(det_core *core, int64_t patience_us, det_err *err);

// The directory that checkpoints of a program are kept in.
const char *client_storage(det_core *core);

// Tells the master of a checkpoint that is complete in that directory but did not come from
// det_checkpoint_begin().
int client_report_checkpoint(det_core *core, const char *uuid, int64_t batches_trained,
                             det_err *err);

// Brings a checkpoint of the cluster here, through the master: that of the uuid or, if it is NULL,
// the best of a trial by the searcher's metric (the latest if it has none). *dir is its folder,
// below that of the task, and lives as long as core. Several processes of one task share it.
// DET_EDENIED if the trial belongs to another user.
int client_fetch_checkpoint(det_core *core, int64_t trial_id, const char *uuid, const char **dir,
                            det_err *err);

// Delivers the journals in a folder that programs left behind when they died, and removes those
// that were delivered as a whole. Who started the programs calls it when they have ended.
// DET_ETIMEOUT if the master did not take everything in time; then it can be called again.
// DET_ESTATE if one of the programs lives on and has a journal.
int client_deliver(const char *folder, const struct http_client_opts *master, int64_t timeout_us,
                   det_err *err);
