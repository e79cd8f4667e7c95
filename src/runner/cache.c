// Unit cache.c: the folders of runner/cache.h.
#include "runner/cache.h"

#include "sys/dir.h"
#include <stdlib.h>
#include <unistd.h>

const char *cache_folder(const char *name, struct arena *arena, det_err *err)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const char *folder = NULL;
    int fd;
    if (cache && cache[0] == '/')
        folder = arena_printf(arena, "%s/det/%s", cache, name);
    else if (home && home[0] == '/')
        folder = arena_printf(arena, "%s/.cache/det/%s", home, name);
    else
        det_fail(err, DET_ENOTFOUND, "nowhere to keep %s: $HOME is not set", name);
    if (!folder || dir_open(folder, DIR_CREATE, &fd, err)) return NULL;
    close(fd);
    return folder;
}
