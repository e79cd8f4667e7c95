// Unit python.c: which Python the user works with. Called when an experiment is created.
#include "cli/python.h"

#include "http/http.h"
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

static const char *program_in(struct arena *arena, const char *folder)
{
    const char *path = arena_printf(arena, "%s/python3", folder);
    return access(path, X_OK) == 0 ? path : NULL;
}

static const char *beside_us(struct arena *arena)
{
    char us[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", us, sizeof us - 1);
    if (n < 0) return NULL;
    us[n] = 0;
    char *slash = strrchr(us, '/');
    if (!slash) return NULL;
    *slash = 0;
    return program_in(arena, us);
}

const char *python_of_caller(struct arena *arena, const char *master_url)
{
    const char *named = getenv("DET_PYTHON"), *venv = getenv("VIRTUAL_ENV"), *found = NULL;
    if (!http_is_local(master_url)) return NULL;
    if (named && named[0] == '/') return named;
    if (venv && venv[0] == '/') found = program_in(arena, arena_printf(arena, "%s/bin", venv));
    return found ? found : beside_us(arena);
}
