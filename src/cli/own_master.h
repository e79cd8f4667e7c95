// cli/own_master.h: a master of the user's own on this machine, as another process. Private to the
// layer.
#pragma once

#include "base/arena.h"
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// Options of 'det master' and 'det up' that are keys of the master's configuration, and go before
// what its file says: OPTION(name, letter, argument, key, help).
// clang-format off
#define MASTER_KEY_OPTIONS(OPTION)                                                                  \
    OPTION("port", 'p', "N", "port", "Port to listen on; 8080 if not given, 0: any free one.")      \
    OPTION("slots", 's', "N", "slots",                                                              \
           "How many slots this machine has; its GPUs, or one, if not given.")                      \
    OPTION("listen", 'l', "ADDRESS", "listen",                                                      \
           "Address to listen on; 127.0.0.1, for this machine only, if not given. 0.0.0.0 is for "  \
           "all of its networks, and needs --tls.")                                                 \
    OPTION("tls", 0, NULL, "tls.enabled",                                                           \
           "Speaks https. Without --tls-cert the master makes a certificate for itself; programs "  \
           "on this machine trust it, those elsewhere need a copy of DIR/master.pem "               \
           "(DET_MASTER_CERT_FILE).")                                                               \
    OPTION("tls-cert", 0, "FILE", "tls.cert",                                                       \
           "The certificate (PEM) for https, and those that lead to its authority.")                \
    OPTION("tls-key", 0, "FILE", "tls.key", "The key (PEM) of --tls-cert.")                         \
    OPTION("db", 0, "URL", "db",                                                                    \
           "The database, if it is in a server: postgresql://USER@HOST/NAME. A second master with " \
           "the same waits as a standby. A file in DIR, if not given.")                             \
    OPTION("isolation", 0, "MODE", "isolation",                                                     \
           "What tasks are kept from: none, private (det's own files and other processes), strict " \
           "(and they write nowhere but in their own directories) or users (private, and each "     \
           "user runs as a Unix user; for root). private with one user and strict with several, "   \
           "if not given.")                                                                         \
    OPTION("task-memory", 0, "SIZE", "task_memory",                                                 \
           "How much memory a task may use, such as 16G; any, if not given.")                       \
    OPTION("task-processes", 0, "N", "task_processes",                                              \
           "How many processes and threads a task may have; any number, if not given.")             \
    OPTION("ui-dir", 0, "DIR", "ui_dir",                                                            \
           "Reads the files of the web page from there, for those who work on it; those that are "  \
           "built in, if not given.")                                                               \
    OPTION("insecure", 0, NULL, "insecure",                                                         \
           "Lets --listen be any address without TLS. Whoever can see the network can read "        \
           "passwords and tokens.")                                                                 \
    OPTION("max-connections", 0, "N", "limits.max_connections",                                     \
           "How many connections there may be at a time; 10000 if not given.")                      \
    OPTION("max-connections-per-address", 0, "N", "limits.max_connections_per_address",             \
           "How many of them one address may have without a token; 256 if not given.")              \
    OPTION("max-connections-per-user", 0, "N", "limits.max_connections_per_user",                   \
           "How many of them one user may have; 2000 if not given. Tasks and the user who started " \
           "the master have no limit.")                                                             \
    OPTION("reserved-connections", 0, "N", "limits.reserved_connections",                           \
           "How many of them are kept from users and from those without a token, so that tasks "    \
           "and the user who started the master always get through; 1000 if not given.")            \
    OPTION("private", 0, NULL, "private",                                                           \
           "Treats every experiment as if its configuration said 'private: true'.")
// clang-format on

#define MASTER_OPTION_ROW(name, letter, arg, key, help) {name, letter, arg, help},

// Options of 'det master' that 'det up' hands on. Ends with a comma.
#define OWN_MASTER_OPTIONS                                                           \
    {"data", 'd', "DIR",                                                             \
     "Where everything is kept; $DET_HOME or ~/.local/share/det if not given."},     \
        {"config", 'c', "FILE",                                                      \
         "The configuration of the master (YAML). Options go before what it says."}, \
        MASTER_KEY_OPTIONS(MASTER_OPTION_ROW)

enum own_master_life {
    OUTLIVES_US, // in the background
    DIES_WITH_US,
};

// Whether the master that was started with this data directory (home_dir) answers, and where.
bool own_master_answers(char *url, size_t size);

// From now on masters are started with this configuration; NULL: with none. False after the error
// was printed.
bool own_master_keep_config(const char *file);

// Starts 'det master' with the options (up to a NULL) and waits until it answers. Its output goes
// to <data>/master.log. 0 after the error was printed.
pid_t own_master_start(const char *const *options, enum own_master_life life);

// Lets it end. False, after saying so, if it does not.
bool own_master_stop(pid_t pid);
