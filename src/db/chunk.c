// Unit chunk.c: packs and unpacks the lines of a chunk. Called by whoever writes or reads logs.
#include "db/chunk.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/find.h"
#include "base/mem.h"
#include "db/varint.h"
#include <zstd.h>

// Compressing a few lines costs more than it saves.
enum { PLAIN = 0, ZSTD = 1, ZSTD_LEVEL = 3, MIN_BYTES = 512 };

// --- what lines have in common

// Words of a head, in the order in which they are packed.
#define HEAD_WORDS(line)                                                                   \
    {                                                                                      \
        &(line)->allocation_id, &(line)->agent_id, &(line)->container_id, &(line)->source, \
            &(line)->stdtype                                                               \
    }

enum { N_WORDS = 5 };

static bool same_word(const char *a, const char *b)
{
    return a == b || (a && b && str_eqz(str_from(a), b));
}

static bool same_head(const struct log_line *a, const struct log_line *b)
{
    return a->level == b->level && a->rank.is_set == b->rank.is_set &&
           (!a->rank.is_set || a->rank.value == b->rank.value) &&
           same_word(a->stdtype, b->stdtype) && same_word(a->allocation_id, b->allocation_id) &&
           same_word(a->source, b->source) && same_word(a->agent_id, b->agent_id) &&
           same_word(a->container_id, b->container_id);
}

int64_t chunk_rank_bit(struct opt_int rank)
{
    enum { LAST = 61 };
    if (!rank.is_set) return 1;
    return INT64_C(2) << (rank.value >= 0 && rank.value < LAST ? rank.value : LAST);
}

static int64_t word_bit(const char *word, const char *const *known)
{
    int64_t bit = 2;
    if (!word) return 1;
    for (; *known && !str_eqz(str_from(*known), word); known++)
        bit <<= 1;
    return bit;
}

int64_t chunk_source_bit(const char *source)
{
    static const char *const known[] = {"task", "shim", "master", NULL};
    return word_bit(source, known);
}

int64_t chunk_stdtype_bit(const char *stdtype)
{
    static const char *const known[] = {"stdout", "stderr", NULL};
    return word_bit(stdtype, known);
}

// --- packing

static void put_head(struct buf *out, const struct log_line *line)
{
    const char *const *const words[N_WORDS] = HEAD_WORDS(line);
    varint_put(out, (uint64_t)line->level);
    varint_put(out, line->rank.is_set);
    varint_put_distance(out, line->rank.is_set ? line->rank.value : 0);
    for (int i = 0; i < N_WORDS; i++) {
        buf_addc(out, *words[i] != NULL);
        if (*words[i]) buf_add(out, *words[i], strlen(*words[i]) + 1);
    }
}

// The number of the head that each line has, and the first line that has it.
struct heads {
    uint32_t *of_line;
    const struct log_line **first;
    size_t n;
};

// Heads repeat. Only the latest are looked at, because a task can send as many as it likes.
static void find_heads(const struct log_line *lines, size_t n, struct arena *a, struct heads *out)
{
    enum { LATEST = 32 };
    out->of_line = arena_array(a, n, sizeof *out->of_line);
    out->first = arena_array(a, n, sizeof *out->first);
    for (size_t i = 0; i < n; i++) {
        size_t low = out->n > LATEST ? out->n - LATEST : 0, h = out->n;
        while (h > low && !same_head(out->first[h - 1], &lines[i]))
            h--;
        if (h == low) out->first[(h = ++out->n) - 1] = &lines[i];
        out->of_line[i] = (uint32_t)h - 1;
    }
}

static void put_lines(struct buf *out, const struct log_line *lines, size_t n)
{
    struct arena arena = ARENA_INIT;
    struct heads heads = {0};
    find_heads(lines, n, &arena, &heads);
    varint_put(out, heads.n);
    for (size_t i = 0; i < heads.n; i++)
        put_head(out, heads.first[i]);
    varint_put(out, n);
    for (size_t i = 0; i < n; i++)
        varint_put_distance(out, i ? lines[i].id - lines[i - 1].id : 0);
    for (size_t i = 0; i < n; i++)
        varint_put_distance(out, lines[i].time_us - (i ? lines[i - 1].time_us : 0));
    for (size_t i = 0; i < n; i++)
        varint_put(out, heads.of_line[i]);
    for (size_t i = 0; i < n; i++)
        buf_add(out, lines[i].log, strlen(lines[i].log) + 1);
    arena_done(&arena);
}

// With a checksum: damage is noticed when the lines are read.
static size_t compress(struct str plain, char *out, size_t max)
{
    ZSTD_CCtx *ctx = ZSTD_createCCtx();
    ASSERT(ctx);
    ZSTD_CCtx_setParameter(ctx, ZSTD_c_compressionLevel, ZSTD_LEVEL);
    ZSTD_CCtx_setParameter(ctx, ZSTD_c_checksumFlag, 1);
    size_t n = ZSTD_compress2(ctx, out, max, plain.ptr, plain.len);
    ASSERT(!ZSTD_isError(n)); // there is space, and the parameters are ours
    ZSTD_freeCCtx(ctx);
    return n;
}

static struct str seal(struct str plain, struct arena *a)
{
    size_t max = ZSTD_compressBound(plain.len), n = plain.len;
    char *bytes = xmalloc(1 + max);
    if (plain.len >= MIN_BYTES) n = compress(plain, bytes + 1, max);
    bytes[0] = n < plain.len ? ZSTD : PLAIN;
    if (bytes[0] == PLAIN) memcpy(bytes + 1, plain.ptr, n = plain.len);
    struct str sealed = {arena_strndup(a, bytes, 1 + n), 1 + n};
    free(bytes);
    return sealed;
}

void chunk_pack(const struct log_line *lines, size_t n, struct arena *a, struct chunk *out)
{
    struct buf plain = BUF_INIT(CHUNK_MAX_BYTES);
    ASSERT(n > 0);
    *out = (struct chunk){.id = lines[0].id,
                          .last_id = lines[n - 1].id,
                          .trial_id = lines[0].trial_id,
                          .n_lines = (int64_t)n,
                          .first_us = lines[0].time_us,
                          .last_us = lines[0].time_us};
    for (size_t i = 0; i < n; i++) {
        out->first_us = MIN(out->first_us, lines[i].time_us);
        out->last_us = MAX(out->last_us, lines[i].time_us);
        out->levels |= INT64_C(1) << lines[i].level;
        out->ranks |= chunk_rank_bit(lines[i].rank);
        out->sources |= chunk_source_bit(lines[i].source);
        out->stdtypes |= chunk_stdtype_bit(lines[i].stdtype);
        out->n_bytes += (int64_t)strlen(lines[i].log);
    }
    put_lines(&plain, lines, n);
    ASSERT(buf_ok(&plain)); // requests are limited to less
    out->open = out->n_bytes < CHUNK_OPEN_BYTES;
    out->bytes = seal(buf_str(&plain), a);
    buf_done(&plain);
}

// Empty lines take memory, too.
static size_t weight(const struct log_line *line)
{
    return 16 + strlen(line->log);
}

size_t chunk_goal(const struct log_line *lines, size_t n)
{
    size_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += weight(&lines[i]);
    return total / MAX(1, (total + CHUNK_BYTES / 2) / CHUNK_BYTES);
}

size_t chunk_cut(const struct log_line *lines, size_t n, size_t goal)
{
    size_t taken = 0, i = 0;
    while (i < n && taken < goal)
        taken += weight(&lines[i++]);
    return MAX(1, i);
}

// --- unpacking

// A text that ends with NUL, where it lies.
static const char *take_text(struct varint_input *in)
{
    const char *text = in->at;
    const char *nul = in->bad ? NULL : memchr(text, 0, (size_t)(in->end - text));
    if (!nul) {
        in->bad = true;
        return "";
    }
    in->at = nul + 1;
    return text;
}

// Of things that have so many bytes at least.
static size_t take_count(struct varint_input *in, size_t min_bytes)
{
    uint64_t n = varint_take(in);
    if (n > (size_t)(in->end - in->at) / min_bytes) in->bad = true;
    return in->bad ? 0 : (size_t)n;
}

static void take_head(struct varint_input *in, struct log_line *out)
{
    const char **const words[N_WORDS] = HEAD_WORDS(out);
    uint64_t level = varint_take(in);
    if (level > LOG_LEVEL_CRITICAL) in->bad = true;
    out->level = in->bad ? LOG_LEVEL_UNSPECIFIED : (enum log_level)level;
    out->rank.is_set = varint_take(in) != 0;
    out->rank.value = varint_take_distance(in);
    for (int i = 0; i < N_WORDS; i++)
        if (varint_take(in)) *words[i] = take_text(in);
}

// Up to the texts.
static void take_columns(struct varint_input *in, const struct chunk *c, struct arena *a,
                         struct chunk_lines *out)
{
    size_t n_heads = take_count(in, 3 + N_WORDS);
    struct log_line *heads = arena_array(a, n_heads, sizeof *heads);
    for (size_t i = 0; i < n_heads && !in->bad; i++)
        take_head(in, &heads[i]);
    size_t n = take_count(in, 4);
    int64_t *ids = arena_array(a, n, sizeof *ids), *times = arena_array(a, n, sizeof *times);
    for (size_t i = 0; i < n && !in->bad; i++)
        ids[i] = varint_add(i ? ids[i - 1] : c->id, varint_take_distance(in));
    for (size_t i = 0; i < n && !in->bad; i++)
        times[i] = varint_add(i ? times[i - 1] : 0, varint_take_distance(in));
    out->items = arena_array(a, n, sizeof *out->items);
    for (size_t i = 0; i < n && !in->bad; i++) {
        uint64_t head = varint_take(in);
        if (head >= n_heads) {
            in->bad = true;
            break;
        }
        out->items[i] = heads[head];
        out->items[i].id = ids[i];
        out->items[i].time_us = times[i];
        out->items[i].trial_id = c->trial_id;
    }
    out->n = in->bad ? 0 : n;
}

static int damaged(const struct chunk *c, det_err *err)
{
    return det_fail(err, DET_ECORRUPT, "lines %lld to %lld of the log of trial %lld are damaged",
                    (long long)c->id, (long long)c->last_id, (long long)c->trial_id);
}

static int decompress(const struct chunk *c, struct arena *a, struct str *out, det_err *err)
{
    struct str packed = {c->bytes.ptr + 1, c->bytes.len - 1};
    if (!c->bytes.len) return damaged(c, err);
    if (c->bytes.ptr[0] == PLAIN) {
        *out = (struct str){arena_strndup(a, packed.ptr, packed.len), packed.len};
        return 0;
    }
    unsigned long long size = ZSTD_getFrameContentSize(packed.ptr, packed.len);
    if (c->bytes.ptr[0] != ZSTD || size > CHUNK_MAX_BYTES) return damaged(c, err);
    char *plain = arena_alloc(a, size + 1);
    size_t n = ZSTD_decompress(plain, size, packed.ptr, packed.len);
    if (ZSTD_isError(n) || n != size) return damaged(c, err);
    *out = (struct str){plain, n};
    return 0;
}

bool wanted_in(const struct wanted *wanted, struct str text)
{
    if (!wanted->text) return true;
    struct str what = str_from(wanted->text);
    if (wanted->any_case) return find_any_case(text, what);
    return memmem(text.ptr, text.len, what.ptr, what.len);
}

int chunk_unpack(const struct chunk *c, const struct wanted *wanted, struct arena *a,
                 struct chunk_lines *out, det_err *err)
{
    struct chunk_lines lines = {0};
    struct str plain = {0};
    int rc = decompress(c, a, &plain, err);
    if (rc) return rc;
    *out = lines;
    if (wanted && !wanted_in(wanted, plain)) return 0;
    struct varint_input in = {plain.ptr, plain.ptr + plain.len, false};
    take_columns(&in, c, a, &lines);
    for (size_t i = 0; i < lines.n; i++)
        lines.items[i].log = take_text(&in);
    if (in.bad || !lines.n || in.at != in.end) return damaged(c, err);
    *out = lines;
    return 0;
}
