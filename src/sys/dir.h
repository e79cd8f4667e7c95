// sys/dir.h: directories, held open by descriptor. Below one that is open, a name is a relative
// path whose steps are never symbolic links, so that whoever can write there cannot lead us
// elsewhere.
//   dir_open  dir_open_below  dir_open_file  dir_read_file  dir_list  dir_remove  dir_sync
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "det/err.h"
#include <stdbool.h>
#include <stddef.h>

enum {
    DIR_CREATE = 1,  // makes what is missing of the path
    DIR_DURABLE = 2, // and makes the names of what it made durable
};

// Opens a directory. Links in the path are followed: it is the word of whoever runs the program.
int dir_open(const char *path, int flags, int *out, det_err *err);

// name must be path_is_plain().
int dir_open_below(int dir, const char *name, int flags, int *out, det_err *err);

// Opens a regular file for reading. DET_ECORRUPT if something else has the name.
int dir_open_file(int dir, const char *name, int *out, det_err *err);

// Replaces the content of out by that of a regular file. DET_ELIMIT beyond out->max bytes.
int dir_read_file(int dir, const char *name, struct buf *out, det_err *err);

enum dir_kind { DIR_FILE, DIR_FOLDER, DIR_OTHER }; // other: a link, a pipe, a device

struct dir_entry {
    const char *name;
    enum dir_kind kind;
};

struct dir_entries {
    struct dir_entry *items;
    size_t n;
};

// What is directly in a directory, sorted by name (as bytes). Lives in the arena. path is for
// messages.
int dir_list(int dir, const char *path, struct arena *arena, struct dir_entries *out, det_err *err);

// Removes a file or a whole directory, however deep; links inside are removed, not followed, and
// what is mounted inside is left alone, which is an error. Nothing of that name is none.
int dir_remove(int dir, const char *name, det_err *err);

// Makes the names in a directory durable. path is for messages.
int dir_sync(int dir, const char *path, det_err *err);
