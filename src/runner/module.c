// Unit module.c: finds and loads the code of a trial.
#include "runner/module.h"

#include "runner/compile.h"
#include <dlfcn.h>
#include <unistd.h>

static int load(const char *path, det_err *err)
{
    if (dlopen(path, RTLD_NOW | RTLD_LOCAL)) return det_ok(err);
    return det_fail(err, DET_EINVAL, "cannot load the trial: %s", dlerror());
}

static int load_source(const char *source, struct arena *arena, det_err *err)
{
    const char *library = compile_library(source, false, arena, err);
    if (!library) return DET_EINVAL;
    if (!load(library, err)) return 0;
    // The cache may hold a file that a crash of the machine left damaged.
    library = compile_library(source, true, arena, err);
    return library ? load(library, err) : DET_EINVAL;
}

// A path for dlopen(), which looks elsewhere for names without a slash.
static const char *with_slash(const char *path, struct arena *arena)
{
    return strchr(path, '/') ? path : arena_printf(arena, "./%s", path);
}

int module_load(const char *name, det_err *err)
{
    struct arena arena = ARENA_INIT;
    const char *source = arena_printf(&arena, "%s.c", name);
    const char *library = arena_printf(&arena, "%s.so", name);
    int rc;
    if (access(source, F_OK) == 0)
        rc = load_source(source, &arena, err);
    else if (access(library, F_OK) == 0)
        rc = load(with_slash(library, &arena), err);
    else
        rc = det_fail(err, DET_ENOTFOUND, "there is neither '%s' nor '%s'", source, library);
    arena_done(&arena);
    return rc;
}
