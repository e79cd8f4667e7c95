// master/master.h: the process that keeps experiments, runs their trials and answers everybody.
//   master_run  master_tables
//
// One event loop; everything below happens in its thread, one thing at a time. A change is made in
// memory and handed to the database as one transaction; who asked for it hears when it is durable.
//
//     return master_run(&(struct master_opts){.data_dir = "/home/a/.local/share/det"}, &err);
#pragma once

#include "det/err.h"
#include "http/http.h"

struct master_opts {
    const char *data_dir;           // made if it is not there
    const char *host;               // to listen on; NULL: 127.0.0.1
    int port;                       // 0: the one of last time, or any
    int n_slots;                    // 0: what the machine has
    bool tls;                       // https, with a certificate of its own unless there is one:
    const char *tls_cert, *tls_key; // PEM files
    bool insecure;                  // beyond this machine without TLS
    const char *isolation;          // none, private, strict, users; NULL: as many users demand
    int64_t task_memory_bytes, n_task_processes; // limits of a task; 0: none
    const char *const *shim; // program and arguments of a task's shim, up to a NULL
    const char *runner;      // program that runs trials named module:Class
    const char *version;
    void (*ready)(void *ctx, const char *url); // called once, when requests are answered; or NULL
    void *ctx;
};

// Runs until SIGINT or SIGTERM, or the end of its terminal; after another SIGHUP it reads its
// certificate again. Tasks go on without it, and the next master finds them again.
int master_run(const struct master_opts *opts, det_err *err);

// Every route, for references and tests.
const struct http_table *master_tables(size_t *n);
