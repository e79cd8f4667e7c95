// cli/own_master.h: a master of the user's own on this machine, as another process. Private to the
// layer.
#pragma once

#include "base/str.h"
#include "master/master.h"
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// Options of 'det master' that 'det up' hands on.
#define OWN_MASTER_OPTIONS                                                                         \
    {"data", 'd', "DIR",                                                                           \
     "Where everything is kept; $DET_HOME or ~/.local/share/det if not given."},                   \
        {"port", 'p', "N", "Port to listen on; 8080 if not given, 0: any free one."},              \
        {"slots", 's', "N", "How many slots this machine has; its GPUs, or one, if not given."},   \
        {"listen", 'l', "ADDRESS",                                                                 \
         "Address to listen on; 127.0.0.1, for this machine only, if not given. 0.0.0.0 is for "   \
         "all of its networks, and needs --tls."},                                                 \
        {"tls", 0, NULL,                                                                           \
         "Speaks https. Without --tls-cert the master makes a certificate for itself; programs "   \
         "on this machine trust it, those elsewhere need a copy of DIR/master.pem "                \
         "(DET_MASTER_CERT_FILE)."},                                                               \
        {"tls-cert", 0, "FILE",                                                                    \
         "The certificate (PEM) for https, and those that lead to its "                            \
         "authority."},                                                                            \
        {"tls-key", 0, "FILE", "The key (PEM) of --tls-cert."},                                    \
        {"isolation", 0, "MODE",                                                                   \
         "What tasks are kept from: none, private (det's own files and other processes), strict "  \
         "(and they write nowhere but in their own directories) or users (private, and each user " \
         "runs as a Unix user; for root). private with one user and strict with several, if not "  \
         "given."},                                                                                \
        {"task-memory", 0, "SIZE",                                                                 \
         "How much memory a task may use, such as 16G; any, if not given."},                       \
        {"task-processes", 0, "N",                                                                 \
         "How many processes and threads a task may have; any number, if not given."},             \
        {"ui-dir", 0, "DIR",                                                                       \
         "Reads the files of the web page from there, for those who work on it; those that are "   \
         "built in, if not given."},                                                               \
        {"insecure", 0, NULL,                                                                      \
         "Lets --listen be any address without TLS. Whoever can see the network can read "         \
         "passwords and tokens."},                                                                 \
        MASTER_SETTINGS(NUMBER_OPTION, FLAG_OPTION)

#define NUMBER_OPTION(member, name, otherwise, least, most, help) {name, 0, "N", help},
#define FLAG_OPTION(member, name, help) {name, 0, NULL, help},

enum own_master_life {
    OUTLIVES_US, // in the background
    DIES_WITH_US,
};

// Whether the master that was started with this data directory (home_dir) answers, and where.
bool own_master_answers(char *url, size_t size);

// Starts 'det master' with the options (up to a NULL) and waits until it answers. Its output goes
// to <data>/master.log. 0 after the error was printed.
pid_t own_master_start(const char *const *options, enum own_master_life life);

// Lets it end. False, after saying so, if it does not.
bool own_master_stop(pid_t pid);
