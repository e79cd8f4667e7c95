// Unit workers.c: the threads of the master, each kind of work with its own, so that a crowd that
// guesses passwords delays no upload, and an upload delays nobody who reads.
#include "master/state.h"

static int open_reader(void *ctx, void **own, det_err *err)
{
    struct db_reader *reader = NULL;
    int rc = db_reader_open(ctx, &reader, err);
    *own = reader;
    return rc;
}

static void close_reader(void *own)
{
    db_reader_close(own);
}

int workers_open(struct master *m, det_err *err)
{
    const struct worker_opts opts[N_WORK] = {
        [WORK_READ] = {.n_threads = 3, .open = open_reader, .close = close_reader, .ctx = m->db},
        [WORK_FILES] = {.n_threads = 2},
        [WORK_HASH] = {.n_threads = 2}, // each takes 64 MB while it hashes
        [WORK_LOGS] = {.n_threads = 2},
    };
    for (int i = 0; i < N_WORK; i++) {
        m->workers[i] = worker_new(m->loop, &opts[i], err);
        if (!m->workers[i]) return err->code;
    }
    return 0;
}

bool workers_drain(struct master *m)
{
    bool any = false;
    for (int i = 0; i < N_WORK; i++)
        if (m->workers[i] && worker_drain(m->workers[i])) any = true;
    return any;
}

void workers_close(struct master *m)
{
    for (int i = 0; i < N_WORK; i++)
        worker_free(m->workers[i]);
}
