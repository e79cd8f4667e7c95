// master/master.h: the process that keeps experiments, runs their trials and answers everybody.
//   master_run  master_tables  master_read_config
//
// One event loop; everything below happens in its thread, one thing at a time. A change is made in
// memory and handed to the database as one transaction; who asked for it hears when it is durable.
//
//     struct master_config config;
//     if (master_read_config(&arena, "det.yaml", NULL, &config, &diags)) ...
//     return master_run(&(struct master_opts){.data_dir = "/var/lib/det", .config = &config},
//     &err);
#pragma once

#include "config/config.h"
#include "det/err.h"
#include "http/http.h"

struct master_opts {
    const char *data_dir; // made if it is not there
    const struct master_config *config;
    const char *config_file;   // that config was read from, and is read from again; NULL: none
    const struct doc *options; // that went before it
    const char *const *shim;   // program and arguments of a task's shim, up to a NULL
    const char *runner;        // program that runs trials named module:Class
    const char *version;
    void (*ready)(void *ctx, const char *url); // called once, when requests are answered; or NULL
    int stop_fd; // readable: a master that waits as a standby ends; 0: none
    void *ctx;
};

// The configuration of a master: a file (NULL: none), and options that go before it. What is wrong
// is in diags. Everything lives in the arena.
int master_read_config(struct arena *arena, const char *file, const struct doc *options,
                       struct master_config *out, struct diag_list *diags);

// Runs until SIGINT or SIGTERM, or the end of its terminal; after another SIGHUP it reads its
// configuration and its certificate again. Tasks go on without it, and the next master finds them
// again.
int master_run(const struct master_opts *opts, det_err *err);

// Every route, for references and tests.
const struct http_table *master_tables(size_t *n);

// Mends the database in the directory of a master that does not run: db_recover() in db/db.h.
int master_recover(const char *data_dir, struct buf *report, det_err *err);
