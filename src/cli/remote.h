// cli/remote.h: the master that a command talks to. Private to the layer.
//
// Its address is, in this order: -m, what the environment says (http_master_address), the master
// that the user started on this machine (<data>/master.json). The token is that of 'det user login'
// for this address, else the one in master.json.
#pragma once

#include "args/args.h"
#include "doc/doc.h"
#include "http/http.h"

#define MASTER_OPTION                                                             \
    {                                                                             \
        "master", 'm', "ADDRESS", "The master to talk to, instead of DET_MASTER." \
    }

struct remote {
    struct arena arena; // answers live here
    struct http_client *client;
    const char *url;
    bool logged_in; // with a token of 'det user login'
    bool about_job; // the master calls it an experiment, the user does not
};

// False after the error was printed. End with remote_close in any case.
bool remote_open(struct remote *r, const struct call *call);
void remote_close(struct remote *r);

// Calls a path below /api/v1 and reads the answer; body may be NULL. NULL after the error was
// printed.
const struct doc *remote_call(struct remote *r, enum http_method method, const struct doc *body,
                              const char *path, ...) __attribute__((format(printf, 4, 5)));
const struct doc *remote_get(struct remote *r, const char *path, ...)
    __attribute__((format(printf, 2, 3)));

// Whether the first argument is a number if the command's row calls it ID. False after the error
// was printed.
bool remote_check_id(const struct call *call);

// The bytes of an answer into a file. False after the error was printed.
bool remote_download(struct remote *r, const char *api_path, const char *file);

// text as one segment of a path; lives in the arena.
const char *remote_segment(struct remote *r, const char *text);

// Where a master that the user starts keeps everything unless told otherwise: $DET_HOME,
// $XDG_DATA_HOME/det or ~/.local/share/det. NULL if none of these is set.
const char *home_default(struct arena *arena);

// Where the one that the user started last does: $DET_HOME, or what home_choose() was told, or the
// default.
const char *home_dir(struct arena *arena);
int home_choose(const char *dir, det_err *err); // NULL: the default
void home_forget(const char *dir);              // if it is the chosen one

// {"url", "token", "pid"}, and "cert", "certName" with TLS, of the master that the user started on
// this machine; NULL: none is known.
const struct doc *home_master(struct arena *arena);

// Whom to trust as opts->url: what the master that the user started says of itself, else what
// DET_MASTER_CERT_FILE and DET_MASTER_CERT_NAME say.
void remote_trust(const struct doc *home_master, struct http_client_opts *opts);

// Tokens of 'det user login', one per address. A NULL token forgets it.
int login_keep(const char *url, const char *token, det_err *err);

// A file of the user's settings, which nobody else can read; its path, NULL on failure.
const char *settings_keep(struct arena *arena, const char *name, struct str text, det_err *err);

// Members of answers.
const char *doc_text(const struct doc *map, const char *key); // "" if there is none
int64_t doc_whole(const struct doc *map, const char *key);    // 0 if there is none
