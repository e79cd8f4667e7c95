// cli/submit.h: the configuration that a command sends: a file, changed by --config, checked before
// anything is sent. Messages name the place where a person wrote what is wrong. Private to the
// layer.
#pragma once

#include "args/args.h"
#include "config/config.h"

struct submission {
    bool job;
    struct doc *doc;        // with the places of the file and of the options; NULL: no options
    const char *text;       // what the master gets
    const char *source;     // what it was read from, for messages
    struct config_text low; // what a template or an older configuration says; no source: nothing
};

// All of these print what is wrong, and then return false.
bool submission_read(struct arena *arena, const char *path, struct submission *s);
bool submission_change(struct arena *arena, const struct call *call, struct submission *s);
bool submission_check(struct arena *arena, const struct submission *s);

// A copy of a document that the master gave: what it says is from source, wherever it stands.
struct doc *submission_copy(struct arena *arena, const struct doc *config, const char *source);
