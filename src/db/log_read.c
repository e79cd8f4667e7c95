// Unit log_read.c: the lines of a log that a filter lets through. Whole chunks are passed over
// where what is noted beside them says that nothing in them can match.
//
// A trial's log is, in the order of the numbers: chunks; lines of a database of before there were
// chunks, which have not been moved yet (see tidy.c); more chunks.
#include "db/log_write.h"

#include "base/assert.h"
#include <limits.h>

enum { DEFAULT_LIMIT = 1000, MAX_PAGE_BYTES = 32 << 20 };

struct scan {
    struct db_reader *r;
    const struct log_filter *f;
    int64_t low, high;                        // numbers of lines: more than, less than
    int64_t levels, ranks, sources, stdtypes; // bits that may match
    int64_t limit;
    struct growing out;   // struct log_line
    int64_t n_bytes;      // of text in it
    int64_t n_looked;     // bytes of text gone through
    int64_t last;         // number of the line that was looked at last
    bool full;            // that is enough
    struct log_line head; // of the line before: as it was found,
    struct log_line copy; // and its words in the arena of the result
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

static bool matches(const struct scan *s, const struct log_line *line)
{
    const struct log_filter *f = s->f;
    return line->id > s->low && line->id < s->high && (s->levels >> line->level & 1) &&
           (!f->after_us || line->time_us > f->after_us) &&
           (!f->before_us || line->time_us < f->before_us) && has_rank(f->ranks, line->rank) &&
           has_word(f->sources, line->source) && has_word(f->stdtypes, line->stdtype) &&
           (!f->search || strstr(line->log, f->search));
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

static void look_at(struct scan *s, const struct log_line *line)
{
    if (s->full) return;
    if (matches(s, line)) keep(s, line);
    s->last = line->id;
}

static void note_effort(struct scan *s, int64_t n_bytes)
{
    s->n_looked += n_bytes;
    s->full |= s->f->max_effort && s->n_looked >= s->f->max_effort;
}

// --- chunks

static int look_at_chunk(struct scan *s, sqlite3_stmt *row, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct chunk chunk;
    struct chunk_lines lines = {0};
    log_read_chunk(row, &arena, &chunk);
    int rc = chunk_unpack(&chunk, s->f->search, &arena, &lines, err);
    for (size_t i = 0; !rc && i < lines.n; i++)
        look_at(s, &lines.items[s->f->newest_first ? lines.n - 1 - i : i]);
    s->head = (struct log_line){0}; // its words go with the arena
    if (!s->full) s->last = s->f->newest_first ? chunk.id : chunk.last_id;
    note_effort(s, chunk.n_bytes);
    arena_done(&arena);
    return rc;
}

// The chunk that has the line, or the first one.
static int64_t chunk_of(struct scan *s, int64_t line)
{
    sqlite3_stmt *q = connection_statement(&s->r->c, SQL_CHUNK_OF);
    int64_t id = 0;
    if (!q) return 0;
    sqlite3_bind_int64(q, 1, s->f->trial_id);
    sqlite3_bind_int64(q, 2, line);
    if (sqlite3_step(q) == SQLITE_ROW) id = sqlite3_column_int64(q, 0);
    sqlite3_reset(q);
    return id;
}

// Those with lines between two numbers, exclusive.
static int look_at_chunks(struct scan *s, int64_t low, int64_t high, det_err *err)
{
    if (s->full || high <= low) return 0;
    sqlite3_stmt *q =
        connection_statement(&s->r->c, s->f->newest_first ? SQL_CHUNKS_DOWN : SQL_CHUNKS_UP);
    const int64_t values[] = {s->f->trial_id,
                              chunk_of(s, low),
                              high,
                              s->f->after_us ? s->f->after_us : INT64_MIN,
                              s->f->before_us ? s->f->before_us : INT64_MAX,
                              s->levels,
                              s->ranks,
                              s->sources,
                              s->stdtypes};
    int rc = q ? SQLITE_OK : sqlite3_errcode(s->r->c.sql), code = 0;
    for (int i = 0; rc == SQLITE_OK && i < (int)STATIC_LEN(values); i++)
        rc = sqlite3_bind_int64(q, i + 1, values[i]);
    while (rc == SQLITE_OK && !code && !s->full && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        code = look_at_chunk(s, q, err);
        rc = SQLITE_OK;
    }
    if (rc != SQLITE_OK && rc != SQLITE_DONE) code = sqlite_fail(s->r->c.sql, rc, err);
    if (q) sqlite3_reset(q);
    return code;
}

// --- lines of before there were chunks

struct line_range {
    int64_t first, last; // 0: there are none
};

static int find_rows(struct scan *s, struct line_range *out, det_err *err)
{
    sqlite3_stmt *q = connection_statement(&s->r->c, SQL_OLD_LINES_RANGE);
    int rc = q ? sqlite3_bind_int64(q, 1, s->f->trial_id) : sqlite3_errcode(s->r->c.sql);
    if (rc == SQLITE_OK) rc = sqlite3_step(q);
    if (rc == SQLITE_ROW)
        *out = (struct line_range){sqlite3_column_int64(q, 0), sqlite3_column_int64(q, 1)};
    int code = rc == SQLITE_ROW ? 0 : sqlite_fail(s->r->c.sql, rc, err);
    if (q) sqlite3_reset(q);
    return code;
}

static int look_at_rows(struct scan *s, const struct line_range *rows, det_err *err)
{
    struct arena arena = ARENA_INIT;
    if (s->full || !rows->last) return 0;
    sqlite3_stmt *q =
        connection_statement(&s->r->c, s->f->newest_first ? SQL_OLD_LINES_DOWN : SQL_OLD_LINES_UP);
    const int64_t values[] = {s->f->trial_id, s->low, s->high};
    int rc = q ? SQLITE_OK : sqlite3_errcode(s->r->c.sql), code = 0;
    for (int i = 0; rc == SQLITE_OK && i < (int)STATIC_LEN(values); i++)
        rc = sqlite3_bind_int64(q, i + 1, values[i]);
    while (rc == SQLITE_OK && !code && !s->full && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        struct log_line line;
        code = record_read(q, &tables[NOUN_LOG_LINE], &arena, &line, err);
        if (!code) look_at(s, &line);
        if (!code) note_effort(s, (int64_t)strlen(line.log));
        s->head = (struct log_line){0};
        arena_done(&arena);
        rc = SQLITE_OK;
    }
    if (rc != SQLITE_OK && rc != SQLITE_DONE) code = sqlite_fail(s->r->c.sql, rc, err);
    if (q) sqlite3_reset(q);
    arena_done(&arena);
    return code;
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
        rc = look_at_chunks(s, behind, s->high, err);
        if (!rc) rc = look_at_rows(s, &rows, err);
        return rc ? rc : look_at_chunks(s, s->low, before, err);
    }
    rc = look_at_chunks(s, s->low, before, err);
    if (!rc) rc = look_at_rows(s, &rows, err);
    return rc ? rc : look_at_chunks(s, behind, s->high, err);
}

int db_logs_list(struct db_reader *r, const struct log_filter *filter, struct arena *a,
                 struct db_list *out, det_err *err)
{
    struct scan s = {.r = r, .f = filter, .out = {.arena = a, .size = sizeof(struct log_line)}};
    prepare(&s);
    // In one snapshot: lines may be on their way from rows to chunks.
    int rc = sqlite3_exec(r->c.sql, "BEGIN", NULL, NULL, NULL);
    if (rc != SQLITE_OK) return sqlite_fail(r->c.sql, rc, err);
    rc = look_at_all(&s, err);
    sqlite3_exec(r->c.sql, "COMMIT", NULL, NULL, NULL);
    if (rc) return rc;
    *out = (struct db_list){
        .items = s.out.items, .n = s.out.n, .next = s.full ? s.last : 0, .seen = s.last};
    return 0;
}
