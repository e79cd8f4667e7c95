// Unit module.c: finds and loads the code of a trial.
#include "runner/module.h"

#include "base/assert.h"
#include "base/str.h"
#include "runner/compile.h"
#include <dlfcn.h>
#include <sys/stat.h>

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

int module_load(const struct module *module, det_err *err)
{
    struct arena arena = ARENA_INIT;
    int rc = module->kind == MODULE_C ? load_source(module->path, &arena, err)
                                      : load(with_slash(module->path, &arena), err);
    arena_done(&arena);
    return rc;
}

// --- finding

// What a module may be, by the end of its file's name.
static const struct {
    const char *suffix;
    enum module_kind kind;
} kinds[] = {
    {".c", MODULE_C},
    {".so", MODULE_LIBRARY},
    {".py", MODULE_PYTHON},
    {"/__init__.py", MODULE_PYTHON},
};

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static const char *with_slashes(const char *name, struct arena *arena)
{
    char *path = arena_strdup(arena, name);
    for (char *p = path; *p; p++)
        if (*p == '.') *p = '/';
    return path;
}

// Those files that there are; modules of Python may be named with dots.
static int find_all(const char *name, struct arena *arena, struct module *out)
{
    int n = 0;
    for (size_t i = 0; i < STATIC_LEN(kinds); i++) {
        const char *path = arena_printf(arena, "%s%s", name, kinds[i].suffix);
        if (kinds[i].kind == MODULE_PYTHON && !is_file(path))
            path = arena_printf(arena, "%s%s", with_slashes(name, arena), kinds[i].suffix);
        if (is_file(path)) out[n++] = (struct module){kinds[i].kind, path};
    }
    return n;
}

static bool has_suffix(const char *name, struct module *out)
{
    for (size_t i = 0; i < STATIC_LEN(kinds); i++) {
        if (!str_ends(str_from(name), str_from(kinds[i].suffix))) continue;
        *out = (struct module){kinds[i].kind, name};
        return true;
    }
    return false;
}

int module_find(const char *name, struct arena *arena, struct module *out, det_err *err)
{
    struct module found[STATIC_LEN(kinds)];
    if (has_suffix(name, out)) {
        if (is_file(out->path)) return det_ok(err);
        return det_fail(err, DET_ENOTFOUND, "there is no file '%s'", name);
    }
    int n = find_all(name, arena, found);
    // A library is what a source was compiled to.
    if (n == 2 && found[0].kind == MODULE_C && found[1].kind == MODULE_LIBRARY) n = 1;
    if (!n)
        return det_fail(err, DET_ENOTFOUND, "there is no '%s.py', '%s.c' or '%s.so'", name, name,
                        name);
    if (n > 1)
        return det_fail(err, DET_EINVAL,
                        "both '%s' and '%s' could be meant by '%s': name the one that is, with its "
                        "suffix",
                        found[0].path, found[1].path, name);
    *out = found[0];
    return det_ok(err);
}
