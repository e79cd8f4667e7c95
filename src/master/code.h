// master/code.h: the code of experiments: archives that people upload and tasks run in. Private to the
// layer. All functions take their time and may be called by any thread.
#pragma once

#include "base/str.h"
#include "det/err.h"
#include <stdint.h>

enum {
    CODE_MAX_UPLOAD = 96 << 20,
    CODE_MAX_BYTES = 512 << 20, // unpacked
    CODE_MAX_FILES = 100000,
    CODE_MAX_PATH = 1024, // bytes of a name, so that the whole path is one for the system
    CODE_NAME_BYTES = 65,
    CODE_HASH_BYTES = 16,
};

struct code_info {
    char name[CODE_NAME_BYTES]; // from the content
    int64_t n_files, n_bytes;
};

// Looks through an archive (tar, plain or compressed) and keeps it in dir under its name.
// DET_EINVAL for anything but files and directories with names that stay below; DET_ELIMIT.
int code_keep(struct str archive, const char *dir, struct code_info *out, det_err *err);

// Unpacks a kept archive into a directory, which is made.
int code_unpack(const char *archive, const char *dir, det_err *err);

// A file of a kept archive.
struct code_file {
    const char *name;
    int64_t n_bytes;
    struct str content;            // up to the first max_content bytes; valid during the call
    uint8_t hash[CODE_HASH_BYTES]; // of all of it
};

struct code_reading {
    const char *only;   // the content of this file alone; NULL: of all
    size_t max_content; // of each file
    // Called for each file, in the order of the archive. Fails: the reading ends with that.
    int (*use)(void *ctx, const struct code_file *file, det_err *err);
    void *ctx;
};

int code_read(const char *archive, const struct code_reading *reading, det_err *err);
