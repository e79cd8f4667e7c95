// Program op_parity: makes the calls that op_parity.py sends and answers with their results.
//
// A case is lines up to "end": statements of op_calls.h, and "show NAME" for what to answer with.
// Behind the lines of from, borrow and write comes "data N" and N bytes. The answer to a case is,
// for each shown tensor, a line "NAME TYPE [SHAPE] REQUIRES_GRAD" and its elements, row-major, or
// "NAME none"; then "done". If a call failed it is the line "error CODE MESSAGE" alone. Each case
// runs with one thread and with two; if the answers differ in a bit, it is "unstable" alone.
#include "op_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STATEMENTS = 96, MAX_NAMES = 64, MAX_LINE = 1024 };

struct statement {
    char text[MAX_LINE];
    void *block; // malloc'd, of exactly the size of the data, so that a sanitizer sees its ends
    void *data;  // the first element, in block
    size_t n_bytes;
};

struct script {
    struct statement *statement;
    int n;
};

static _Noreturn void wrong_input(const char *what, const char *line)
{
    fprintf(stderr, "op_parity: %s: '%s'\n", what, line);
    exit(2);
}

// "data OFFSET BYTES": what is behind it becomes the data of the last statement, OFFSET bytes into
// a block. The offset takes borrowed memory off the alignment that malloc gives.
static void read_data(struct statement *s, const char *line)
{
    size_t offset = 0;
    if (sscanf(line, "data %zu %zu", &offset, &s->n_bytes) != 2) wrong_input("bad data", line);
    s->block = malloc(offset + s->n_bytes + (offset + s->n_bytes == 0));
    if (!s->block) wrong_input("no memory for", line);
    s->data = (char *)s->block + offset;
    if (fread(s->data, 1, s->n_bytes, stdin) != s->n_bytes) wrong_input("short", line);
}

// Reads one case. False at the end of the input.
static bool read_script(struct script *script)
{
    char line[MAX_LINE];
    script->n = 0;
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (!strcmp(line, "end")) return true;
        if (!strncmp(line, "data ", 5) && script->n > 0) {
            read_data(&script->statement[script->n - 1], line);
            continue;
        }
        if (script->n == MAX_STATEMENTS) wrong_input("too many statements", line);
        struct statement *s = &script->statement[script->n++];
        memset(s, 0, sizeof *s);
        memcpy(s->text, line, sizeof line);
    }
    return false;
}

static void free_data(struct script *script)
{
    for (int i = 0; i < script->n; i++)
        free(script->statement[i].block);
}

struct names {
    struct named_tensor v[MAX_NAMES];
    int n;
};

static void bind(struct names *names, const char *name, det_tensor *tensor)
{
    if (names->n == MAX_NAMES || strlen(name) >= sizeof names->v[0].name)
        wrong_input("too many or too long names", name);
    struct named_tensor *t = &names->v[names->n++];
    snprintf(t->name, sizeof t->name, "%s", name);
    t->tensor = tensor;
}

static void show(const struct names *names, const char *name, FILE *answer)
{
    det_tensor *t = NULL;
    for (int k = 0; k < names->n; k++)
        if (!strcmp(names->v[k].name, name)) t = names->v[k].tensor;
    const void *data = t ? det_data(t) : NULL;
    if (!t || (!data && det_numel(t) > 0)) {
        fprintf(answer, "%s none\n", name);
        return;
    }
    fprintf(answer, "%s %s [", name, det_dtype_name(det_dtype_of(t)));
    for (int d = 0; d < det_ndim(t); d++)
        fprintf(answer, "%s%lld", d ? "," : "", (long long)det_shape(t)[d]);
    fprintf(answer, "] %d\n", det_has_requires_grad(t));
    size_t bytes = (size_t)det_numel(t) * det_dtype_size(det_dtype_of(t));
    if (bytes) fwrite(data, 1, bytes, answer);
}

static void run_statement(const struct statement *s, struct names *names, FILE *answer)
{
    char text[MAX_LINE], *word[CALL_MAX_WORDS], *save = NULL;
    memcpy(text, s->text, sizeof text);
    int n = 0, equals = -1;
    for (char *w = strtok_r(text, " ", &save); w && n < CALL_MAX_WORDS;
         w = strtok_r(NULL, " ", &save)) {
        if (!strcmp(w, "=")) equals = n;
        word[n++] = w;
    }
    if (n == 2 && !strcmp(word[0], "show")) {
        show(names, word[1], answer);
        return;
    }
    struct call c = {.known = names->v, .n_known = names->n, .data = s->data};
    int function = equals + 1;
    if (function >= n) wrong_input("no function", s->text);
    c.n_out = equals < 0 ? 0 : equals;
    for (int k = function + 1; k < n; k++) {
        if (strchr(word[k], '='))
            c.option[c.n_option++] = word[k];
        else
            c.arg[c.n_arg++] = word[k];
    }
    call_function(&c, word[function]);
    for (int k = 0; k < c.n_out; k++)
        bind(names, word[k], c.out[k]);
}

// Runs all statements; returns the answer, to be freed.
static char *run_script(const struct script *script, int threads, size_t *size)
{
    char *text = NULL;
    struct names names = {.n = 0};
    det_err err;
    FILE *answer = open_memstream(&text, size);
    if (!answer) wrong_input("no memory for", "the answer");
    det_set_threads(threads);
    det_manual_seed(1);
    det_set_grad_enabled(true);
    det_scope_begin();
    for (int i = 0; i < script->n; i++)
        run_statement(&script->statement[i], &names, answer);
    if (det_check(&err)) {
        rewind(answer);
        fprintf(answer, "error %s %s\n", det_err_name(err.code), err.msg);
    } else {
        fprintf(answer, "done\n");
    }
    det_scope_end();
    fclose(answer);
    return text;
}

// Data that a call could write to is put back before the second run.
static char *saved_data(const struct script *script)
{
    size_t n = 0;
    for (int i = 0; i < script->n; i++)
        n += script->statement[i].n_bytes;
    char *copy = malloc(n + 1), *at = copy;
    if (!copy) wrong_input("no memory for", "a copy of the data");
    for (int i = 0; i < script->n; i++) {
        if (script->statement[i].n_bytes)
            memcpy(at, script->statement[i].data, script->statement[i].n_bytes);
        at += script->statement[i].n_bytes;
    }
    return copy;
}

static void restore_data(const struct script *script, const char *copy)
{
    for (int i = 0; i < script->n; i++) {
        if (script->statement[i].n_bytes)
            memcpy(script->statement[i].data, copy, script->statement[i].n_bytes);
        copy += script->statement[i].n_bytes;
    }
}

static void answer_case(const struct script *script)
{
    size_t n_one = 0, n_two = 0;
    char *copy = saved_data(script);
    char *one = run_script(script, 1, &n_one);
    restore_data(script, copy);
    char *two = run_script(script, 2, &n_two);
    if (n_one == n_two && !memcmp(one, two, n_one))
        fwrite(one, 1, n_one, stdout);
    else
        puts("unstable");
    fflush(stdout);
    free(copy);
    free(one);
    free(two);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--list")) {
        call_list();
        return 0;
    }
    struct script script = {.statement = calloc(MAX_STATEMENTS, sizeof *script.statement)};
    if (!script.statement) wrong_input("no memory for", "a case");
    while (read_script(&script)) {
        answer_case(&script);
        free_data(&script);
    }
    free(script.statement);
    return 0;
}
