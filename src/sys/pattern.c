// Unit pattern.c: PCRE2 with a deadline. Its own limit counts steps from each place where a match
// may begin, and so allows half a minute for 64 KB. But it can be made to call a function before
// every item of a pattern that it tries, and that function has a clock.
#include "sys/pattern.h"

#include "base/assert.h"
#include "base/mem.h"
#include "sys/clock.h"
#include "sys/library.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum {
    MAX_PARENS = 50,
    MAX_STEPS = 1000000, // from one place on; time is what counts
    MAX_DEPTH = 10000,
    MAX_HEAP_KB = 4096,
    STEPS_PER_LOOK = 256, // at the clock
};

// clang-format off
#define PCRE2_FUNCTIONS(F)                                                                         \
    F(pcre2, compile_8) F(pcre2, code_free_8) F(pcre2, get_error_message_8) F(pcre2, match_8)      \
    F(pcre2, compile_context_create_8) F(pcre2, compile_context_free_8)                            \
    F(pcre2, set_max_pattern_length_8) F(pcre2, set_parens_nest_limit_8)                           \
    F(pcre2, match_context_create_8) F(pcre2, match_context_free_8) F(pcre2, set_match_limit_8)    \
    F(pcre2, set_depth_limit_8) F(pcre2, set_heap_limit_8) F(pcre2, set_callout_8)                 \
    F(pcre2, match_data_create_8) F(pcre2, match_data_free_8)
// clang-format on

static struct {
    PCRE2_FUNCTIONS(LIBRARY_MEMBER)
} pcre2;
static const char *const names[] = {PCRE2_FUNCTIONS(LIBRARY_NAME)};
static struct library library = {.files = {"libpcre2-8.so.0"},
                                 .package = "libpcre2-8-0",
                                 .names = names,
                                 .n = STATIC_LEN(names),
                                 .functions = &pcre2};

struct pattern {
    pcre2_code_8 *code;
};

struct matcher {
    pcre2_match_context_8 *context;
    pcre2_match_data_8 *data;
    int64_t left_us, end_us; // of all searches; when this one has to end, by the monotonic clock
    uint32_t n_steps;
};

// --- compiling

static bool is_quantifier(char c)
{
    return c && strchr("*+?{", c);
}

static bool ends_with_any(struct str s)
{
    size_t n_escapes = 0;
    if (s.len <= 2 || s.ptr[s.len - 1] != '*' || s.ptr[s.len - 2] != '.') return false;
    while (n_escapes + 3 <= s.len && s.ptr[s.len - 3 - n_escapes] == '\\')
        n_escapes++;
    return n_escapes % 2 == 0;
}

// ".*" at either end says nothing about whether there is something in between, but makes PCRE2 try
// every place in a line. It is there only because other programs match whole lines.
static struct str trim(const char *text)
{
    struct str s = str_from(text);
    if (strstr(text, "\\Q") || strstr(text, "\\c")) return s; // there it may mean something else
    while (s.len > 2 && str_starts(s, STR(".*")) && !is_quantifier(s.ptr[2]))
        s = (struct str){s.ptr + 2, s.len - 2};
    while (ends_with_any(s))
        s.len -= 2;
    return s;
}

static pcre2_code_8 *compile(struct str text, int *why, size_t *at)
{
    pcre2_compile_context_8 *context = pcre2.compile_context_create_8(NULL);
    const uint32_t options =
        PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_AUTO_CALLOUT | PCRE2_NEVER_BACKSLASH_C;
    if (!context) abort(); // as xmalloc() does
    pcre2.set_max_pattern_length_8(context, PATTERN_MAX_BYTES);
    pcre2.set_parens_nest_limit_8(context, MAX_PARENS);
    pcre2_code_8 *code =
        pcre2.compile_8((const uint8_t *)text.ptr, text.len, options, why, at, context);
    pcre2.compile_context_free_8(context);
    return code;
}

static bool is_too_much(int why)
{
    return why == PCRE2_ERROR_PATTERN_TOO_LARGE || why == PCRE2_ERROR_PATTERN_STRING_TOO_LONG ||
           why == PCRE2_ERROR_PARENTHESES_NEST_TOO_DEEP ||
           why == PCRE2_ERROR_PATTERN_TOO_COMPLICATED || why == PCRE2_ERROR_HEAP_FAILED;
}

int pattern_new(const char *text, struct pattern **out, det_err *err)
{
    int rc = library_load(&library, err), why;
    size_t at, n = strlen(text);
    if (rc) return rc;
    if (n > PATTERN_MAX_BYTES)
        return det_fail(err, DET_ELIMIT, "a pattern has at most %d bytes, this one has %zu",
                        PATTERN_MAX_BYTES, n);
    struct str short_text = trim(text);
    pcre2_code_8 *code = compile(short_text, &why, &at);
    if (!code) {
        char words[256];
        pcre2.get_error_message_8(why, (uint8_t *)words, sizeof words);
        return det_fail(err, is_too_much(why) ? DET_ELIMIT : DET_EINVAL, "%s, at character %zu",
                        words, (size_t)(short_text.ptr - text) + at + 1);
    }
    struct pattern *p = xmalloc(sizeof *p);
    *p = (struct pattern){code};
    *out = p;
    return 0;
}

void pattern_free(struct pattern *p)
{
    if (!p) return;
    pcre2.code_free_8(p->code);
    free(p);
}

// --- searching

static int look_at_clock(pcre2_callout_block_8 *block, void *ctx)
{
    struct matcher *m = ctx;
    (void)block;
    if (++m->n_steps % STEPS_PER_LOOK || clock_mono_us() < m->end_us) return 0;
    return PCRE2_ERROR_CALLOUT;
}

struct matcher *matcher_new(int64_t budget_us)
{
    struct matcher *m = xcalloc(1, sizeof *m);
    m->left_us = budget_us;
    return m; // the rest when there is a pattern: then the library is loaded
}

void matcher_free(struct matcher *m)
{
    if (!m) return;
    if (m->data) pcre2.match_data_free_8(m->data);
    if (m->context) pcre2.match_context_free_8(m->context);
    free(m);
}

static void open_matcher(struct matcher *m)
{
    m->context = pcre2.match_context_create_8(NULL);
    m->data = pcre2.match_data_create_8(1, NULL);
    if (!m->context || !m->data) abort(); // as xmalloc() does
    pcre2.set_match_limit_8(m->context, MAX_STEPS);
    pcre2.set_depth_limit_8(m->context, MAX_DEPTH);
    pcre2.set_heap_limit_8(m->context, MAX_HEAP_KB);
    pcre2.set_callout_8(m->context, look_at_clock, m);
}

enum pattern_result pattern_search(const struct pattern *p, struct str text, struct matcher *m)
{
    int64_t begin_us = clock_mono_us();
    if (m->left_us <= 0) return PATTERN_SPENT;
    if (!m->context) open_matcher(m);
    m->end_us = begin_us + MIN(m->left_us, PATTERN_SEARCH_US);
    int rc = pcre2.match_8(p->code, (const uint8_t *)text.ptr, MIN(text.len, PATTERN_MAX_TEXT), 0,
                           0, m->data, m->context);
    m->left_us -= clock_mono_us() - begin_us;
    if (rc == PCRE2_ERROR_NOMATCH) return PATTERN_MISSING;
    return rc >= 0 ? PATTERN_FOUND : PATTERN_GAVE_UP;
}
