// Fuzz target chunk: any bytes are packed lines of a log or are refused; what can be unpacked can
// be packed again and stays the same.
#include "fuzz.h"

#include "base/assert.h"
#include "base/mem.h"
#include "db/chunk.h"

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static void check_again(const struct chunk_lines *lines, struct arena *arena)
{
    struct chunk again;
    struct chunk_lines copy;
    for (size_t i = 1; i < lines->n; i++) // numbers of lines go up, as far as this one is concerned
        lines->items[i].id = lines->items[0].id + (int64_t)i;
    chunk_pack(lines->items, lines->n, arena, &again);
    ASSERT(!chunk_unpack(&again, NULL, arena, &copy, NULL) && copy.n == lines->n);
    for (size_t i = 0; i < copy.n; i++) {
        const struct log_line *a = &lines->items[i], *b = &copy.items[i];
        ASSERT(a->id == b->id && a->time_us == b->time_us && a->level == b->level);
        ASSERT(same_text(a->log, b->log) && same_text(a->source, b->source));
        ASSERT(same_text(a->stdtype, b->stdtype) && same_text(a->agent_id, b->agent_id));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = ARENA_INIT;
    char *bytes = xmalloc(size); // of this size exactly, so that reading beyond it is noticed
    if (size) memcpy(bytes, data, size);
    const struct chunk chunk = {.id = 7, .last_id = 9, .trial_id = 1, .bytes = {bytes, size}};
    struct chunk_lines lines = {0};
    if (!chunk_unpack(&chunk, NULL, &arena, &lines, NULL)) check_again(&lines, &arena);
    arena_done(&arena);
    free(bytes);
    return 0;
}
