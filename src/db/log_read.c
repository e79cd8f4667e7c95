// Unit log_read.c: the lines of a log that a filter lets through. Whole chunks are passed over
// where what is noted beside them says that nothing in them can match.
//
// A trial's log is, in the order of the numbers: chunks; lines of a database of before there were
// chunks, which have not been moved yet (see tidy.c); more chunks.
#include "db/log_write.h"

#include "base/assert.h"
#include <limits.h>

enum {
    DEFAULT_LIMIT = 1000,
    MAX_PAGE_BYTES = 32 << 20,
    MARK_LINES = 1000,
    CHUNKS_AT_ONCE = 16, // a server sends all that was asked for, needed or not
    LINES_AT_ONCE = 1000,
};

struct scan {
    struct db_reader *r;
    const struct log_filter *f;
    int64_t low, high;                        // numbers of lines: more than, less than
    int64_t levels, ranks, sources, stdtypes; // bits that may match
    int64_t limit;
    struct wanted wanted;
    struct log_walk *walk; // lines are counted, and out has marks; NULL: they are listed
    struct growing marks;  // struct log_mark
    int64_t next_mark;     // at the line with this many thousands before it
    struct growing out;    // struct log_line, or struct log_mark of what was found
    int64_t n_bytes;       // of text in it
    int64_t n_looked;      // bytes of text gone through
    int64_t last;          // number of the line that was looked at last
    bool full;             // that is enough
    struct log_line head;  // of the line before: as it was found,
    struct log_line copy;  // and its words in the arena of the result
};

// --- what matches

static int64_t level_bits(const struct doc *names)
{
    int64_t bits = 0;
    for (const struct doc *d = names->first; d; d = d->next)
        for (int i = 0; log_level_names[i]; i++)
            if (str_eqz(d->text, log_level_names[i])) bits |= INT64_C(1) << i;
    return bits;
}

static int64_t word_bits(const struct doc *words, int64_t (*bit)(const char *word))
{
    int64_t bits = 0;
    for (const struct doc *d = words->first; d; d = d->next)
        bits |= bit(d->text.ptr);
    return bits;
}

static int64_t rank_bits(const struct doc *ranks)
{
    int64_t bits = 0;
    for (const struct doc *d = ranks->first; d; d = d->next)
        bits |= chunk_rank_bit((struct opt_int){true, d->integer});
    return bits;
}

static void prepare(struct scan *s)
{
    const struct log_filter *f = s->f;
    s->low = f->after_id;
    s->high = f->before_id ? f->before_id : INT64_MAX;
    s->limit = f->limit ? f->limit : DEFAULT_LIMIT;
    s->wanted = (struct wanted){f->search, f->any_case};
    s->levels = f->levels ? level_bits(f->levels) : -1;
    s->ranks = f->ranks ? rank_bits(f->ranks) : -1;
    s->sources = f->sources ? word_bits(f->sources, chunk_source_bit) : -1;
    s->stdtypes = f->stdtypes ? word_bits(f->stdtypes, chunk_stdtype_bit) : -1;
}

static bool has_word(const struct doc *words, const char *word)
{
    for (const struct doc *d = words ? words->first : NULL; d; d = d->next)
        if (word && str_eqz(d->text, word)) return true;
    return !words;
}

static bool has_rank(const struct doc *ranks, struct opt_int rank)
{
    for (const struct doc *d = ranks ? ranks->first : NULL; d; d = d->next)
        if (rank.is_set && d->integer == rank.value) return true;
    return !ranks;
}

static bool passes(const struct scan *s, const struct log_line *line)
{
    const struct log_filter *f = s->f;
    return line->id > s->low && line->id < s->high && (s->levels >> line->level & 1) &&
           (!f->after_us || line->time_us > f->after_us) &&
           (!f->before_us || line->time_us < f->before_us) && has_rank(f->ranks, line->rank) &&
           has_word(f->sources, line->source) && has_word(f->stdtypes, line->stdtype);
}

static bool contains(const struct scan *s, const struct log_line *line)
{
    return !s->f->search || wanted_in(&s->wanted, str_from(line->log));
}

// Nothing but numbers decides which lines it lets through.
static bool lets_all_through(const struct log_filter *f)
{
    return !f->after_us && !f->before_us && !f->ranks && !f->sources && !f->stdtypes && !f->levels;
}

// --- what is found

// Lines in a row have the same words, mostly.
static const char *keep_word(struct scan *s, const char *word, const char *before, const char *copy)
{
    if (!word) return NULL;
    return word == before ? copy : arena_strdup(s->out.arena, word);
}

static void keep(struct scan *s, const struct log_line *line)
{
    struct log_line *out = grow(&s->out);
    const struct log_line *head = &s->head, *copy = &s->copy;
    size_t n = strlen(line->log);
    *out = *line;
    out->allocation_id =
        keep_word(s, line->allocation_id, head->allocation_id, copy->allocation_id);
    out->agent_id = keep_word(s, line->agent_id, head->agent_id, copy->agent_id);
    out->container_id = keep_word(s, line->container_id, head->container_id, copy->container_id);
    out->source = keep_word(s, line->source, head->source, copy->source);
    out->stdtype = keep_word(s, line->stdtype, head->stdtype, copy->stdtype);
    out->log = arena_strndup(s->out.arena, line->log, n);
    s->head = *line;
    s->copy = *out;
    s->n_bytes += (int64_t)n;
    s->full = (int64_t)s->out.n >= s->limit || s->n_bytes >= MAX_PAGE_BYTES;
}

// --- what is counted

// Lines from this one on are let through. Whenever another thousand is full there is a mark,
// however the walk is divided into slices.
static void mark(struct scan *s, int64_t id)
{
    int64_t line = s->walk->n_lines;
    if (line / MARK_LINES < s->next_mark) return;
    *(struct log_mark *)grow(&s->marks) = (struct log_mark){line, id};
    s->next_mark = line / MARK_LINES + 1;
}

static void count(struct scan *s, const struct log_line *line)
{
    mark(s, line->id);
    if (s->f->search && contains(s, line)) {
        *(struct log_mark *)grow(&s->out) = (struct log_mark){s->walk->n_lines, line->id};
        s->full = (int64_t)s->out.n >= s->limit;
    }
    s->walk->n_lines++;
}

static void look_at(struct scan *s, const struct log_line *line)
{
    if (s->full) return;
    if (passes(s, line)) {
        if (s->walk)
            count(s, line);
        else if (contains(s, line))
            keep(s, line);
    }
    s->last = line->id;
}

static void note_effort(struct scan *s, int64_t n_bytes)
{
    s->n_looked += n_bytes;
    s->full |= s->f->max_effort && s->n_looked >= s->f->max_effort;
}

// --- chunks

// In a walk, lines without what is wanted count, too; those of a chunk without any are known.
static bool can_pass_over(const struct scan *s, const struct chunk *chunk)
{
    return !s->walk || (chunk->n_lines && chunk->id > s->low && lets_all_through(s->f));
}

static int look_at_chunk(struct scan *s, const struct rows *row, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct chunk chunk;
    struct chunk_lines lines = {0};
    log_read_chunk(row, &arena, &chunk);
    bool is_known = can_pass_over(s, &chunk);
    int rc = chunk_unpack(&chunk, is_known ? &s->wanted : NULL, &arena, &lines, err);
    if (!rc && s->walk && !lines.n) {
        mark(s, chunk.id);
        s->walk->n_lines += chunk.n_lines;
    }
    for (size_t i = 0; !rc && i < lines.n; i++)
        look_at(s, &lines.items[s->f->newest_first ? lines.n - 1 - i : i]);
    s->head = (struct log_line){0}; // its words go with the arena
    if (!s->full) s->last = s->f->newest_first ? chunk.id : chunk.last_id;
    note_effort(s, chunk.n_bytes);
    arena_done(&arena);
    return rc;
}

// The chunk that has the line, or the first one.
static int find_chunk(struct scan *s, int64_t line, int64_t *out, det_err *err)
{
    const struct value values[] = {VALUE_OF_INT(s->f->trial_id), VALUE_OF_INT(line)};
    return statement_number(&s->r->c, SQL_CHUNK_OF, values, 2, 0, out, err);
}

// Some of those from one number on and before another. *next: the number of the first that is left
// (newest first: of the last that was looked at); 0: none is.
static int look_at_some(struct scan *s, int64_t from, int64_t to, int64_t *next, det_err *err)
{
    const struct log_filter *f = s->f;
    const struct value values[] = {VALUE_OF_INT(f->trial_id),
                                   VALUE_OF_INT(from),
                                   VALUE_OF_INT(to),
                                   VALUE_OF_INT(f->after_us ? f->after_us : INT64_MIN),
                                   VALUE_OF_INT(f->before_us ? f->before_us : INT64_MAX),
                                   VALUE_OF_INT(s->levels),
                                   VALUE_OF_INT(s->ranks),
                                   VALUE_OF_INT(s->sources),
                                   VALUE_OF_INT(s->stdtypes),
                                   VALUE_OF_INT(CHUNKS_AT_ONCE)};
    struct rows r;
    int n = 0, code = 0;
    int64_t last = 0;
    rows_start(&s->r->c, f->newest_first ? SQL_CHUNKS_DOWN : SQL_CHUNKS_UP, values,
               STATIC_LEN(values), &r);
    for (; !code && !s->full && rows_next(&r); n++) {
        last = rows_int(&r, 0);
        code = look_at_chunk(s, &r, err);
    }
    *next = n < CHUNKS_AT_ONCE || s->full ? 0 : f->newest_first ? last : last + 1;
    return rows_end(&r, code, err);
}

// Those with lines between two numbers, exclusive.
static int look_at_chunks(struct scan *s, int64_t low, int64_t high, det_err *err)
{
    int64_t from = 0, next = 1;
    if (s->full || high <= low) return 0;
    int rc = find_chunk(s, low, &from, err);
    while (!rc && next && from < high) {
        rc = look_at_some(s, from, high, &next, err);
        if (s->f->newest_first)
            high = next;
        else
            from = next;
    }
    return rc;
}

// One chunk, by number.
static int look_at_one(struct scan *s, int64_t id, det_err *err)
{
    const struct value value = VALUE_OF_INT(id);
    struct rows r;
    rows_start(&s->r->c, SQL_CHUNK_FIND, &value, 1, &r);
    return rows_end(&r, rows_next(&r) ? look_at_chunk(s, &r, err) : 0, err);
}

// Counts lines of chunks without unpacking them, where that can be.
static int count_chunks(struct scan *s, int64_t low, int64_t high, det_err *err)
{
    int64_t from = 0;
    struct rows r;
    if (high <= low) return 0;
    int code = find_chunk(s, low, &from, err);
    if (code) return code;
    const struct value values[] = {VALUE_OF_INT(s->f->trial_id), VALUE_OF_INT(from),
                                   VALUE_OF_INT(high)};
    rows_start(&s->r->c, SQL_CHUNK_COUNTS, values, STATIC_LEN(values), &r);
    while (!code && !s->full && rows_next(&r)) {
        int64_t id = rows_int(&r, 0), last = rows_int(&r, 1), n = rows_int(&r, 2);
        if (last <= s->low) continue;
        if (!n || id <= s->low) {
            code = look_at_one(s, id, err);
            continue;
        }
        mark(s, id);
        s->walk->n_lines += n;
        s->last = last;
    }
    return rows_end(&r, code, err);
}

static int walk_chunks(struct scan *s, int64_t low, int64_t high, det_err *err)
{
    bool only_counts = s->walk && !s->f->search && lets_all_through(s->f);
    return (only_counts ? count_chunks : look_at_chunks)(s, low, high, err);
}

// --- lines of before there were chunks

struct line_range {
    int64_t first, last; // 0: there are none
};

static int find_rows(struct scan *s, struct line_range *out, det_err *err)
{
    const struct value id = VALUE_OF_INT(s->f->trial_id);
    struct rows r;
    rows_start(&s->r->c, SQL_OLD_LINES_RANGE, &id, 1, &r);
    if (rows_next(&r)) *out = (struct line_range){rows_int(&r, 0), rows_int(&r, 1)};
    return rows_end(&r, 0, err);
}

// Some of those between two numbers. *next: the number of the last; 0: no more are left.
static int look_at_some_rows(struct scan *s, int64_t low, int64_t high, int64_t *next, det_err *err)
{
    const struct value values[] = {VALUE_OF_INT(s->f->trial_id), VALUE_OF_INT(low),
                                   VALUE_OF_INT(high), VALUE_OF_INT(LINES_AT_ONCE)};
    struct rows r;
    int n = 0, code = 0;
    *next = 0;
    rows_start(&s->r->c, s->f->newest_first ? SQL_OLD_LINES_DOWN : SQL_OLD_LINES_UP, values,
               STATIC_LEN(values), &r);
    for (; !code && !s->full && rows_next(&r); n++) {
        struct arena arena = ARENA_INIT;
        struct log_line line;
        code = record_read(&r, &tables[NOUN_LOG_LINE], &arena, &line, err);
        if (!code) look_at(s, &line);
        if (!code) note_effort(s, (int64_t)strlen(line.log));
        if (!code) *next = line.id;
        s->head = (struct log_line){0};
        arena_done(&arena);
    }
    if (n < LINES_AT_ONCE || s->full) *next = 0;
    return rows_end(&r, code, err);
}

static int look_at_rows(struct scan *s, const struct line_range *rows, det_err *err)
{
    int64_t low = s->low, high = s->high, next = rows->last;
    int rc = 0;
    while (!rc && !s->full && next) {
        rc = look_at_some_rows(s, low, high, &next, err);
        if (s->f->newest_first)
            high = next;
        else
            low = next;
    }
    return rc;
}

// --- all of it

static int look_at_all(struct scan *s, det_err *err)
{
    struct line_range rows = {0};
    int rc = find_rows(s, &rows, err);
    if (rc) return rc;
    int64_t before = rows.last ? MIN(s->high, rows.first) : s->low;
    int64_t behind = rows.last ? MAX(s->low, rows.last) : s->low;
    if (s->f->newest_first) {
        rc = walk_chunks(s, behind, s->high, err);
        if (!rc) rc = look_at_rows(s, &rows, err);
        return rc ? rc : walk_chunks(s, s->low, before, err);
    }
    rc = walk_chunks(s, s->low, before, err);
    if (!rc) rc = look_at_rows(s, &rows, err);
    return rc ? rc : walk_chunks(s, behind, s->high, err);
}

// In one snapshot: lines may be on their way from rows to chunks.
static int scan_all(struct scan *s, det_err *err)
{
    struct connection *c = &s->r->c;
    prepare(s);
    int rc = connection_snapshot(c, err);
    if (rc) return rc;
    rc = look_at_all(s, err);
    connection_leave(c);
    return rc;
}

int db_logs_list(struct db_reader *r, const struct log_filter *filter, struct arena *a,
                 struct db_list *out, det_err *err)
{
    struct scan s = {.r = r, .f = filter, .out = {.arena = a, .size = sizeof(struct log_line)}};
    int rc = scan_all(&s, err);
    if (rc) return rc;
    *out = (struct db_list){
        .items = s.out.items, .n = s.out.n, .next = s.full ? s.last : 0, .seen = s.last};
    return 0;
}

int db_logs_walk(struct db_reader *r, const struct log_filter *filter, struct log_walk *walk,
                 struct arena *a, det_err *err)
{
    struct log_filter f = *filter;
    struct scan s = {.r = r,
                     .f = &f,
                     .walk = walk,
                     .last = walk->seen,
                     .next_mark = (walk->n_lines + MARK_LINES - 1) / MARK_LINES,
                     .marks = {.arena = a, .size = sizeof(struct log_mark)},
                     .out = {.arena = a, .size = sizeof(struct log_mark)}};
    f.after_id = walk->seen;
    f.newest_first = false;
    int rc = scan_all(&s, err);
    if (rc) return rc;
    walk->seen = s.last;
    walk->at_end = !s.full;
    walk->marks.items = (struct log_mark *)s.marks.items;
    walk->marks.n = s.marks.n;
    walk->found.items = (struct log_mark *)s.out.items;
    walk->found.n = s.out.n;
    return 0;
}
