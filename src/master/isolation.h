// master/isolation.h: what tasks are kept from, on this machine, by this master. Private to the
// layer.
//
// Which kind of sandbox a task gets is decided when it starts: the one that was asked for with
// --isolation, or else private as long as there is one user, and strict from the second on.
#pragma once

#include "master/state.h"
#include "sandbox/sandbox.h"

struct isolation;

// Finds out what works here, and says what does not. Fails if something was asked for that does not
// work. Before the master has threads.
int isolation_open(struct master *m, det_err *err);
void isolation_close(struct master *m);

// Which users there are; a later change of one.
int isolation_read_users(struct master *m, struct db_reader *r, det_err *err);
void isolation_note_user(struct master *m, const struct user *row);

enum sandbox_mode isolation_mode(const struct master *m); // of a task that starts now

// What is not in force although it should be, in a sentence; empty: nothing.
void isolation_explain(const struct master *m, struct buf *out);
// How memory and processes of a task are limited: "8 GiB, by cgroup v2".
void isolation_explain_limits(const struct master *m, struct buf *memory, struct buf *processes);

// Refuses bind mounts and storages that are directories of the master.
int isolation_check(const struct live_experiment *e, det_err *err);

bool isolation_knows(const struct master *m, int64_t user_id); // there is such a user

// --- the Unix users of users

struct agent_user {
    int64_t uid, gid;
};
// DET_ENOTFOUND if the user has none but that of the same name.
int isolation_find_link(const struct master *m, int64_t user_id, struct agent_user *out,
                        det_err *err);
// link NULL: the one of the same name.
void isolation_link(struct master *m, int64_t user_id, const struct agent_user *link,
                    struct db_tx *tx);

// --- for one task

// What is decided by the loop; the rest is found out by a worker.
struct confinement {
    struct arena *arena; // of all texts
    struct sandbox sandbox;
    const char *username;    // SANDBOX_USERS: of the owner
    struct agent_user link;  // uid 0: none
    const char *cache;       // of the owner: apart from that of others
    const char *home;        // set by confine_prepare(): of the Unix user; NULL: as it is
    bool is_homeless;        // the same: he has no directory of his own
    const char *own_dirs[5]; // to be made, and to be given to the Unix user, up to a NULL
};

void confine(const struct live_allocation *a, struct confinement *out);
int confine_prepare(struct confinement *c, const char *workdir, det_err *err);
