// Unit dialect.c: SQL into the words of an engine; see db/dialect.h.
#include "db/dialect.h"

#include <ctype.h>

static const struct dialect_word sqlite_words[] = {
    {"GREATEST", "max"},
    {"LEAST", "min"},
    {"INFINITY", "9e999"},
    {NULL, NULL},
};

// Texts are compared byte by byte, as SQLite does, whatever language the database has.
static const struct dialect_word postgres_words[] = {
    {"INTEGER", "BIGINT"},
    {"REAL", "DOUBLE PRECISION"},
    {"TEXT", "TEXT COLLATE \"C\""},
    {"BLOB", "BYTEA"},
    {"WITHOUT", ""}, // ROWID
    {"ROWID", ""},
    {"ifnull", "coalesce"},
    {"instr", "strpos"},
    {"INFINITY", "'Infinity'::float8"},
    {"IMMEDIATE", ""}, // of BEGIN: there is one writer
    {"DEFERRED", "ISOLATION LEVEL REPEATABLE READ READ ONLY"},
    {NULL, NULL},
};

const struct dialect sqlite_dialect = {.words = sqlite_words, .parameter = '?'};
const struct dialect postgres_dialect = {
    .words = postgres_words, .parameter = '$', .quotes_names = true};

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool has_both_cases(struct str word)
{
    bool large = false, small = false;
    for (size_t i = 0; i < word.len; i++) {
        large |= isupper((unsigned char)word.ptr[i]) != 0;
        small |= islower((unsigned char)word.ptr[i]) != 0;
    }
    return large && small;
}

static void write_word(const struct dialect *d, struct str word, struct buf *out)
{
    for (const struct dialect_word *w = d->words; w->word; w++)
        if (str_eqz(word, w->word)) {
            buf_addz(out, w->means);
            return;
        }
    const char *quote = d->quotes_names && has_both_cases(word) ? "\"" : "";
    buf_printf(out, "%s%.*s%s", quote, STR_ARG(word), quote);
}

// Up to the same mark again: a text, or a name that has its quotes already.
static size_t quoted_length(struct str rest)
{
    size_t n = 1;
    while (n < rest.len && rest.ptr[n] != rest.ptr[0])
        n++;
    return n < rest.len ? n + 1 : n;
}

void dialect_write(const struct dialect *d, struct str text, struct buf *out)
{
    for (size_t i = 0, n; i < text.len; i += n) {
        struct str rest = {text.ptr + i, text.len - i};
        char c = rest.ptr[0];
        for (n = 0; n < rest.len && is_word(rest.ptr[n]);)
            n++;
        if (n && !isdigit((unsigned char)c)) {
            write_word(d, (struct str){rest.ptr, n}, out);
        } else if (n) {
            buf_add(out, rest.ptr, n);
        } else if (c == '\'' || c == '"') {
            n = quoted_length(rest);
            buf_add(out, rest.ptr, n);
        } else {
            n = 1;
            buf_addc(out, c == '?' ? d->parameter : c);
        }
    }
}
