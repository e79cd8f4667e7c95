// master/master.h: the process that keeps experiments, runs their trials and answers everybody.
//   master_run  master_tables  master_settings_table
//
// One event loop; everything below happens in its thread, one thing at a time. A change is made in
// memory and handed to the database as one transaction; who asked for it hears when it is durable.
//
//     return master_run(&(struct master_opts){.data_dir = "/home/a/.local/share/det"}, &err);
#pragma once

#include "det/err.h"
#include "http/http.h"

// What the person who runs a master decides. A row is a member of struct master_settings, an option
// of 'det master' and a row of master_settings_table: NUMBER(member, option, default, least, most,
// help), FLAG(member, option, help).
// clang-format off
#define MASTER_SETTINGS(NUMBER, FLAG)                                                             \
    NUMBER(max_connections, "max-connections", "10000", 16, 1000000,                              \
           "How many connections there may be at a time; 10000 if not given.")                    \
    NUMBER(max_connections_per_address, "max-connections-per-address", "256", 1, 1000000,         \
           "How many of them one address may have without a token; 256 if not given.")            \
    NUMBER(                                                                                       \
        max_connections_per_user, "max-connections-per-user", "2000", 1, 1000000,                 \
        "How many of them one user may have; 2000 if not given. Tasks and the user who started "  \
        "the master have no limit.")                                                              \
    NUMBER(                                                                                       \
        reserved_connections, "reserved-connections", "1000", 1, 1000000,                         \
        "How many of them are kept from users and from those without a token, so that tasks and " \
        "the user who started the master always get through; 1000 if not given.")                 \
    FLAG(private, "private",                                                                      \
         "Treats every experiment as if its configuration said 'private: true'.")

// clang-format on

#define MASTER_NUMBER(member, ...) int64_t member;
#define MASTER_FLAG(member, ...) bool member;
struct master_settings {
    MASTER_SETTINGS(MASTER_NUMBER, MASTER_FLAG)
};
#undef MASTER_NUMBER
#undef MASTER_FLAG

extern const struct field_table master_settings_table;

struct master_opts {
    struct master_settings settings;
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
    const char *ui_dir;      // the web page is read from there; NULL: the one that is built in
    const char *version;
    void (*ready)(void *ctx, const char *url); // called once, when requests are answered; or NULL
    void *ctx;
};

// Runs until SIGINT or SIGTERM, or the end of its terminal; after another SIGHUP it reads its
// certificate again. Tasks go on without it, and the next master finds them again.
int master_run(const struct master_opts *opts, det_err *err);

// Every route, for references and tests.
const struct http_table *master_tables(size_t *n);

// Mends the database in the directory of a master that does not run: db_recover() in db/db.h.
int master_recover(const char *data_dir, struct buf *report, det_err *err);
