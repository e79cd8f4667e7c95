// Unit yaml_error.c: translates libyaml's complaints into what a person should do about them, and
// points at the place to look at, which is often not where the parser stopped.
#include "doc/yaml_error.h"

#include "base/assert.h"
#include "base/utf8.h"
#include <ctype.h>

struct complaint {
    const yaml_parser_t *parser;
    struct str text;
    struct doc_pos pos; // where to point
    struct diag_list *diags;
};

static void say(const struct complaint *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void say(const struct complaint *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    diag_vadd(c->diags, DIAG_ERROR, c->pos, NULL, fmt, args);
    va_end(args);
}

static void point_at(struct complaint *c, yaml_mark_t mark)
{
    c->pos.line = (int)mark.line + 1;
    c->pos.column = (int)mark.column + 1;
}

// Without its line break; empty beyond the end.
static struct str line_at(struct str text, int line)
{
    struct str s = {NULL, 0};
    while (line-- > 0)
        s = str_cut(&text, '\n');
    return s.ptr ? s : STR("");
}

static size_t indent_of(struct str line)
{
    size_t i = 0;
    while (i < line.len && line.ptr[i] == ' ')
        i++;
    return i;
}

// The byte at a position. Columns count characters, and what stands before is walked as such.
static int char_at(struct str text, struct doc_pos pos)
{
    struct str line = line_at(text, pos.line);
    for (int column = 1; line.len && column < pos.column; column++)
        utf8_next(&line);
    return line.len ? (unsigned char)line.ptr[0] : '\n';
}

// Is the line "key:value", with the space forgotten?
static bool lacks_space_after_colon(struct str line)
{
    size_t i = indent_of(line);
    size_t start = i;
    while (i < line.len && (isalnum((unsigned char)line.ptr[i]) || strchr("_-", line.ptr[i])))
        i++;
    if (i == start || i + 1 >= line.len || line.ptr[i] != ':') return false;
    return !isspace((unsigned char)line.ptr[i + 1]) && !memmem(line.ptr, line.len, ": ", 2);
}

static bool explain_missing_space(struct complaint *c, int line)
{
    struct str at = line_at(c->text, line);
    if (!lacks_space_after_colon(at)) return false;
    c->pos.line = line;
    c->pos.column = (int)((const char *)memchr(at.ptr, ':', at.len) - at.ptr) + 1;
    say(c, "a space is missing after the ':'");
    return true;
}

static void explain_token(struct complaint *c)
{
    int ch = char_at(c->text, c->pos);
    if (ch == '\t')
        say(c, "a tab is used to indent; YAML wants spaces");
    else if (isgraph(ch))
        say(c, "a value cannot start with '%c'; put it in quotes", ch);
    else
        say(c, "a value cannot start with this character; put it in quotes");
}

static void explain_tab(struct complaint *c)
{
    say(c, "a tab is used to indent; YAML wants spaces");
}

static void explain_bracket(struct complaint *c)
{
    int line = c->pos.line;
    point_at(c, c->parser->context_mark);
    int open = char_at(c->text, c->pos);
    say(c, "this '%c' is not closed, or a ',' is missing before line %d", open, line);
}

static void explain_quote(struct complaint *c)
{
    if (!strstr(c->parser->context ? c->parser->context : "", "quoted")) {
        say(c, "the text ends in the middle of a value");
        return;
    }
    point_at(c, c->parser->context_mark);
    say(c, "this quote is never closed");
}

static void explain_key(struct complaint *c)
{
    struct str line = line_at(c->text, c->pos.line);
    bool first = indent_of(line) + 1 == (size_t)c->pos.column;
    if (!first)
        say(c, "unexpected text after a value; if it belongs to it, put the whole value in quotes");
    else if (char_at(c->text, c->pos) == '-')
        say(c, "a list item where 'key: value' is expected; indent it like the list it belongs to");
    else
        say(c, "this line is indented like none of the lines above it");
}

static void explain_colon(struct complaint *c)
{
    struct str line = line_at(c->text, c->pos.line);
    struct str before = {line.ptr, MIN((size_t)c->pos.column - 1, line.len)};
    if (memmem(before.ptr, before.len, ": ", 2)) {
        say(c, "a second ': ' in one line; put the value in quotes if it belongs to it");
        return;
    }
    if (explain_missing_space(c, c->pos.line - 1)) return;
    say(c, "no ':' is expected here; is this line indented too far, or a quote missing?");
}

static void explain_no_colon(struct complaint *c)
{
    point_at(c, c->parser->context_mark);
    if (explain_missing_space(c, c->pos.line)) return;
    say(c, "this line should be 'key: value', but there is no ': ' in it");
}

static void explain_item(struct complaint *c)
{
    say(c, "a list item ('- ...') is expected here; check the indentation");
}

static void explain_no_value(struct complaint *c)
{
    say(c, "a value is missing here, or it starts with a character that needs quotes");
}

static void explain_bytes(struct complaint *c)
{
    struct str rest = {c->text.ptr, MIN(c->parser->problem_offset, c->text.len)};
    c->pos.line = c->pos.column = 1;
    while (rest.len) {
        c->pos.column++;
        if (utf8_next(&rest) != '\n') continue;
        c->pos.line++;
        c->pos.column = 1;
    }
    if (strstr(c->parser->problem, "control"))
        say(c, "control character 0x%02x is not allowed", (unsigned)c->parser->problem_value);
    else
        say(c, "this is not UTF-8 text (byte 0x%02x)", (unsigned)c->parser->problem_value & 0xFF);
}

static const struct {
    const char *problem;
    void (*explain)(struct complaint *c);
} explanations[] = {
    {"found character that cannot start any token", explain_token},
    {"found a tab character where an indentation space is expected", explain_tab},
    {"did not find expected ',' or ']'", explain_bracket},
    {"did not find expected ',' or '}'", explain_bracket},
    {"found unexpected end of stream", explain_quote},
    {"found unexpected document indicator", explain_quote},
    {"did not find expected key", explain_key},
    {"mapping values are not allowed in this context", explain_colon},
    {"could not find expected ':'", explain_no_colon},
    {"did not find expected '-' indicator", explain_item},
    {"did not find expected node content", explain_no_value},
};

void yaml_explain(const yaml_parser_t *parser, struct str text, const char *source,
                  struct diag_list *diags)
{
    struct complaint c = {.parser = parser, .text = text, .pos = {source, 1, 1}, .diags = diags};
    const char *problem = parser->problem ? parser->problem : "out of memory";
    if (parser->error == YAML_READER_ERROR && parser->problem) {
        explain_bytes(&c);
        return;
    }
    point_at(&c, parser->problem_mark);
    for (size_t i = 0; i < STATIC_LEN(explanations); i++) {
        if (strcmp(problem, explanations[i].problem) != 0) continue;
        explanations[i].explain(&c);
        return;
    }
    say(&c, "%s%s%s", parser->context ? parser->context : "", parser->context ? ": " : "", problem);
}
