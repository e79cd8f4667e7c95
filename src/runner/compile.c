// Unit compile.c: runs the system's compiler, and remembers what it made.
//
// The name of a cached library is a hash of the preprocessed source, so it depends on every header
// as well, and of the compiler's command line.
#include "runner/compile.h"

#include "base/assert.h"
#include "base/hash.h"
#include "runner/cache.h"
#include "sys/dir.h"
#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MAX_WORDS = 64, OUR_WORDS = 16 };

struct command_line {
    char *words[MAX_WORDS + 1];
    int n;
};

static void add_word(struct command_line *line, const char *word, struct arena *arena)
{
    ASSERT(line->n < MAX_WORDS);
    line->words[line->n++] = arena_strdup(arena, word);
}

// $CC may have several words: "ccache gcc".
static int add_compiler(struct command_line *line, struct arena *arena, det_err *err)
{
    const char *compiler = getenv("CC");
    if (!compiler || !*compiler) compiler = "cc";
    for (struct str rest = str_from(compiler); rest.ptr;) {
        struct str word = str_cut(&rest, ' ');
        if (line->n == MAX_WORDS - OUR_WORDS)
            return det_fail(err, DET_EINVAL, "$CC has more than %d words", line->n);
        if (word.len) add_word(line, arena_strndup(arena, word.ptr, word.len), arena);
    }
    return det_ok(err);
}

// The headers next to this program: <prefix>/bin/det-run, or a build folder somewhere in the
// sources.
static const char *find_headers(struct arena *arena, det_err *err)
{
    enum { LEVELS = 4 };
    char here[4096];
    ssize_t n = readlink("/proc/self/exe", here, sizeof here - 1);
    here[MAX(n, 0)] = 0;
    for (int i = 0; i < LEVELS; i++) {
        char *slash = strrchr(here, '/');
        if (!slash) break;
        *slash = 0;
        const char *folder = arena_printf(arena, "%s/include", here);
        if (access(arena_printf(arena, "%s/det/det.h", folder), R_OK) == 0) return folder;
    }
    det_fail(err, DET_ENOTFOUND, "the headers of det are not where this program is installed");
    return NULL;
}

static int begin_line(struct command_line *line, const char *source, struct arena *arena,
                      det_err *err)
{
    static const char *const flags[] = {"-std=gnu11", "-O2", "-g", "-Wall", "-fPIC",
                                        // What a warning about would be followed by a crash.
                                        "-Werror=implicit-function-declaration",
                                        "-Werror=incompatible-pointer-types",
                                        "-Werror=int-conversion", "-Werror=return-type", "-I"};
    const char *headers = find_headers(arena, err);
    if (!headers) return DET_ENOTFOUND;
    *line = (struct command_line){0};
    int rc = add_compiler(line, arena, err);
    if (rc) return rc;
    for (size_t i = 0; i < STATIC_LEN(flags); i++)
        add_word(line, flags[i], arena);
    add_word(line, headers, arena);
    add_word(line, source, arena);
    return det_ok(err);
}

static int run_line(struct command_line *line, const char *source, det_err *err)
{
    pid_t child;
    int status = 0;
    int error = posix_spawnp(&child, line->words[0], NULL, NULL, line->words, environ);
    if (error)
        return det_fail(err, DET_ENOTFOUND, "cannot run the compiler '%s': %s", line->words[0],
                        strerror(error));
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return det_ok(err);
    if (WIFSIGNALED(status)) // it has said nothing
        return det_fail(err, DET_EIO, "the compiler was killed by signal %d at '%s'",
                        WTERMSIG(status), source);
    return det_fail(err, DET_EINVAL, "'%s' does not compile", source);
}

static uint64_t hash_line(const struct command_line *line, struct str text, uint64_t key)
{
    struct hash_key k = {{key, 0}};
    for (int i = 0; i < line->n; i++)
        k.k[1] = hash_bytes(&k, line->words[i], strlen(line->words[i]));
    return hash_bytes(&k, text.ptr, text.len);
}

// "8f0c…1b": what the library depends on, as a name.
static const char *name_of(struct command_line line, const char *temp, struct arena *arena,
                           det_err *err)
{
    const char *source = line.words[line.n - 1];
    struct command_line plain = line;
    struct str text;
    add_word(&line, "-E", arena);
    add_word(&line, "-o", arena);
    add_word(&line, temp, arena);
    if (run_line(&line, source, err) || fs_map(temp, &text, err)) return NULL;
    unsigned long long first = hash_line(&plain, text, 1), second = hash_line(&plain, text, 2);
    fs_unmap(text);
    return arena_printf(arena, "%016llx%016llx", first, second);
}

static int make_library(struct command_line line, const char *temp, const char *library,
                        struct arena *arena, det_err *err)
{
    const char *source = line.words[line.n - 1];
    add_word(&line, "-shared", arena);
    add_word(&line, "-o", arena);
    add_word(&line, temp, arena);
    add_word(&line, "-lm", arena);
    int rc = run_line(&line, source, err);
    if (!rc && rename(temp, library) < 0) rc = fs_fail(err, "create", library);
    return rc;
}

// A file that is ours alone: numbers of processes are used again, and in several namespaces.
static char *make_temp(const char *folder, struct arena *arena, det_err *err)
{
    char *path = arena_printf(arena, "%s/.tmp-XXXXXX", folder);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        fs_fail(err, "create", path);
        return NULL;
    }
    close(fd);
    return path;
}

const char *compile_library(const char *source, bool anew, struct arena *arena, det_err *err)
{
    struct command_line line;
    const char *folder = cache_folder("models", arena, err);
    if (!folder || begin_line(&line, source, arena, err)) return NULL;
    const char *temp = make_temp(folder, arena, err);
    if (!temp) return NULL;
    const char *name = name_of(line, temp, arena, err);
    const char *library = name ? arena_printf(arena, "%s/%s.so", folder, name) : NULL;
    bool is_there = library && access(library, R_OK) == 0;
    if (library && (anew || !is_there) && make_library(line, temp, library, arena, err))
        library = NULL;
    unlink(temp);
    return library;
}
