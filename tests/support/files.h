// tests/support/files.h: a folder for the files of a test, and checks of calls that can fail.
#pragma once

#include "support/test.h"

#include "det/err.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The call succeeded; if not, its message is shown.
#define assert_ok(call, err)                                    \
    do {                                                        \
        if ((call) != 0) fail_msg("%s: %s", #call, (err)->msg); \
    } while (0)

// err is of that code and its message holds that text.
#define assert_failed_with(err, wanted, text)                                                      \
    do {                                                                                           \
        if ((err)->code != (wanted) || !strstr((err)->msg, text))                                  \
            fail_msg("got %s '%s', expected %s '...%s...'", det_err_name((err)->code), (err)->msg, \
                     det_err_name(wanted), text);                                                  \
    } while (0)

// The folder of this test program, made on first use; temp_path(name) is inside of it. Group
// teardown temp_remove deletes it with all that is in it.
static char temp_folder[64];

static inline const char *temp_path(const char *name)
{
    static char paths[4][128];
    static int turn;
    if (!temp_folder[0]) {
        snprintf(temp_folder, sizeof temp_folder, "/tmp/det-test-XXXXXX");
        if (!mkdtemp(temp_folder)) abort();
    }
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", temp_folder, name);
    return path;
}

static inline int temp_remove(void **state)
{
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -rf '%s'", temp_folder);
    return temp_folder[0] ? system(command) : 0;
}

static inline void write_bytes(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f)) fail_msg("cannot write %s", path);
}
