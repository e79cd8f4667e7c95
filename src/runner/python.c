// Unit python.c: finds the interpreter of a task, and makes virtual environments. Called by exec.c.
#include "runner/python.h"

#include "args/args.h"
#include "base/assert.h"
#include "base/hash.h"
#include "runner/cache.h"
#include "sys/dir.h"
#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MAX_FILE = 1 << 20, MAX_DEPTH = 8 };

// --- the interpreter

static const char *in_path(const char *name, struct arena *arena)
{
    struct str rest = str_from(getenv("PATH"));
    while (rest.ptr) {
        struct str folder = str_cut(&rest, ':');
        const char *path = arena_printf(arena, "%.*s/%s", STR_ARG(folder), name);
        if (folder.len && access(path, X_OK) == 0) return path;
    }
    return NULL;
}

static int find_interpreter(const char *python, struct arena *arena, const char **out, det_err *err)
{
    struct stat st;
    if (!python) {
        *out = in_path("python3", arena);
        return *out ? det_ok(err)
                    : det_fail(err, DET_ENOTFOUND, "there is no python3 in the PATH of this task");
    }
    if (stat(python, &st) == 0 && S_ISDIR(st.st_mode))
        python = arena_printf(arena, "%s/bin/python3", python);
    if (access(python, X_OK))
        return det_fail(
            err, DET_ENOTFOUND,
            "cannot use '%s' as environment.python: %s; name an interpreter or a virtual "
            "environment of this machine",
            python, strerror(errno));
    *out = python;
    return det_ok(err);
}

void python_use(struct arena *arena, const char *python)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", python);
    const char *bin = dirname(folder), *path = getenv("PATH");
    const char *venv = arena_printf(arena, "%.*s", (int)(strlen(bin) - strlen("/bin")), bin);
    setenv("DET_PYTHON", python, 1);
    setenv("PATH", path ? arena_printf(arena, "%s:%s", bin, path) : bin, 1);
    if (str_ends(str_from(bin), STR("/bin")) &&
        access(arena_printf(arena, "%s/pyvenv.cfg", venv), F_OK) == 0)
        setenv("VIRTUAL_ENV", venv, 1);
    else
        unsetenv("VIRTUAL_ENV");
}

// --- what an environment is made from

struct content {
    struct buf text; // everything that makes a difference
    struct arena *arena;
};

static int add_file(struct content *c, const char *path, int depth, det_err *err);

static const char *path_in(struct arena *arena, const char *folder, struct str name)
{
    if (name.len && name.ptr[0] == '/') return arena_strndup(arena, name.ptr, name.len);
    return arena_printf(arena, "%s/%.*s", folder, STR_ARG(name));
}

// A package that is a file (./mini-1.0-py3-none-any.whl) is another one when its bytes are.
static int add_package(struct content *c, struct str line, det_err *err)
{
    const struct hash_key key = {{3, 0}};
    struct stat st;
    struct str bytes;
    struct str name = {line.ptr, 0};
    while (name.len < line.len && !strchr(" \t\r;#", line.ptr[name.len]))
        name.len++;
    const char *path = path_in(c->arena, ".", name); // as pip has it: seen from where it runs
    if (!name.len || stat(path, &st) || !S_ISREG(st.st_mode) || !st.st_size) return det_ok(err);
    int rc = fs_map(path, &bytes, err);
    if (rc) return rc;
    buf_printf(&c->text, "%zu %016llx\n", bytes.len,
               (unsigned long long)hash_bytes(&key, bytes.ptr, bytes.len));
    fs_unmap(bytes);
    return det_ok(err);
}

// A line that names a file counts as what is in it.
static int add_line(struct content *c, struct str line, const char *folder, int depth, det_err *err)
{
    static const char *const options[] = {"-r", "--requirement", "-c", "--constraint"};
    while (line.len && (line.ptr[0] == ' ' || line.ptr[0] == '\t'))
        line = (struct str){line.ptr + 1, line.len - 1};
    buf_printf(&c->text, "%.*s\n", STR_ARG(line));
    for (size_t i = 0; i < STATIC_LEN(options); i++) {
        struct str option = str_from(options[i]);
        if (!str_starts(line, option) || line.len <= option.len ||
            !strchr(" =", line.ptr[option.len]))
            continue;
        struct str name = {line.ptr + option.len + 1, line.len - option.len - 1};
        while (name.len && strchr(" \t\r", name.ptr[name.len - 1]))
            name.len--;
        return add_file(c, path_in(c->arena, folder, name), depth + 1, err);
    }
    return add_package(c, line, err);
}

static int add_file(struct content *c, const char *path, int depth, det_err *err)
{
    struct buf text = BUF_INIT(MAX_FILE);
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    if (depth > MAX_DEPTH)
        return det_fail(err, DET_ELIMIT, "'%s': files of requirements name each other too deeply",
                        path);
    int rc = fs_read(path, &text, err);
    const char *inner = arena_strdup(c->arena, dirname(folder));
    for (struct str rest = buf_str(&text); !rc && rest.ptr;)
        rc = add_line(c, str_cut(&rest, '\n'), inner, depth, err);
    buf_done(&text);
    return rc ? det_wrap(err, "requirements") : 0;
}

// The same interpreter at the same place is the same; one that was replaced is another.
static int add_interpreter(struct content *c, const char *python, det_err *err)
{
    struct stat st;
    char full[PATH_MAX];
    if (!realpath(python, full) || stat(full, &st)) return fs_fail(err, "read", python);
    buf_printf(&c->text, "%s %s %lld %lld\n", python, full, (long long)st.st_size,
               (long long)st.st_mtim.tv_sec);
    return det_ok(err);
}

static int name_of(const struct python_opts *opts, const char *python, struct arena *arena,
                   const char **out, det_err *err)
{
    struct content c = {BUF_INIT(16 << 20), arena};
    int rc = add_interpreter(&c, python, err);
    for (int i = 0; !rc && i < opts->n_requirements; i++)
        rc = add_line(&c, str_from(opts->requirements[i]), ".", 0, err);
    const struct hash_key keys[] = {{{1, 0}}, {{2, 0}}};
    if (!rc)
        *out = arena_printf(arena, "%016llx%016llx",
                            (unsigned long long)hash_bytes(&keys[0], c.text.ptr, c.text.len),
                            (unsigned long long)hash_bytes(&keys[1], c.text.ptr, c.text.len));
    buf_done(&c.text);
    return rc;
}

// --- making one

// Packages of the interpreter stay visible, behind those that are installed: the environment adds to
// what there is, and the package of det itself need not be installed again.
static const char maker[] =
    "import os, subprocess, sys, venv\n"
    "folder, *words = sys.argv[1:]\n"
    "venv.create(folder, with_pip=True, symlinks=True, clear=True)\n"
    "python = os.path.join(folder, 'bin', 'python3')\n"
    "where = \"import sysconfig; print(sysconfig.get_path('purelib'))\"\n"
    "site = subprocess.run([python, '-c', where], check=True, capture_output=True, text=True)\n"
    "with open(os.path.join(site.stdout.strip(), 'zz_interpreter.pth'), 'w') as file:\n"
    "    file.writelines(path + '\\n' for path in sys.path if path.endswith('-packages'))\n"
    "pip = [python, '-m', 'pip', 'install', '--disable-pip-version-check', '--no-input']\n"
    "sys.exit(subprocess.run([*pip, '--progress-bar', 'off', *words]).returncode)\n";

// "-r file" is two words of a command line; others have no blanks that matter to pip.
static int add_words(const char **argv, int n, const char *line, struct arena *arena)
{
    struct str rest = str_from(line);
    if (line[0] != '-') {
        argv[n++] = line;
        return n;
    }
    argv[n++] = arena_strndup(arena, rest.ptr, strcspn(line, " ="));
    rest = (struct str){line + strcspn(line, " ="), rest.len - strcspn(line, " =")};
    if (rest.len > 1) argv[n++] = arena_strndup(arena, rest.ptr + 1, rest.len - 1);
    return n;
}

static int run_maker(const struct python_opts *opts, const char *python, const char *folder,
                     struct arena *arena, det_err *err)
{
    const char **argv = arena_array(arena, 2 * (size_t)opts->n_requirements + 8, sizeof *argv);
    int n = 0, status = 0;
    pid_t pid;
    argv[n++] = python;
    argv[n++] = "-c";
    argv[n++] = maker;
    argv[n++] = folder;
    for (int i = 0; i < opts->n_requirements; i++)
        n = add_words(argv, n, opts->requirements[i], arena);
    posix_spawn_file_actions_t actions; // all of it is about the environment, nothing is data
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    int error = posix_spawn(&pid, python, &actions, NULL, (char **)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error) return det_fail(err, DET_EIO, "cannot run '%s': %s", python, strerror(error));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return det_ok(err);
    return det_fail(err, DET_EINVAL,
                    "the environment of environment.requirements could not be made with '%s'; what "
                    "was said about it is above (on Debian, virtual environments need the package "
                    "python3-venv)",
                    python);
}

// A file that is written last says that all the rest is there.
static int make(const struct python_opts *opts, const char *python, const char *folder,
                struct arena *arena, det_err *err)
{
    const char *mark = arena_printf(arena, "%s/.complete", folder);
    struct fs_writer file = FS_WRITER_INIT;
    if (access(mark, F_OK) == 0) return det_ok(err);
    print_warning("making the environment of environment.requirements in '%s'", folder);
    int rc = run_maker(opts, python, folder, arena, err);
    if (!rc) rc = fs_writer_open(&file, mark, err);
    if (!rc) rc = fs_writer_commit(&file, err);
    fs_writer_close(&file);
    return rc;
}

int python_find(const struct python_opts *opts, struct arena *arena, const char **out, det_err *err)
{
    const char *python = NULL, *name = NULL, *cache;
    int rc = find_interpreter(opts->python, arena, &python, err);
    *out = python;
    if (rc || !opts->n_requirements) return rc;
    rc = name_of(opts, python, arena, &name, err);
    if (rc) return rc;
    cache = cache_folder("environments", arena, err);
    if (!cache) return err->code;
    const char *folder = arena_printf(arena, "%s/%s", cache, name);
    const char *lock = arena_printf(arena, "%s.lock", folder);
    int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || flock(fd, LOCK_EX) < 0)
        rc = fs_fail(err, "lock", lock);
    else
        rc = make(opts, python, folder, arena, err);
    if (fd >= 0) close(fd);
    *out = arena_printf(arena, "%s/bin/python3", folder);
    return rc;
}
