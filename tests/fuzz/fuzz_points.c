// Fuzz target points: any bytes are packed points of a metric or are refused; what can be unpacked
// can be packed again and stays the same.
#include "fuzz.h"

#include "base/assert.h"
#include "base/mem.h"
#include "db/points.h"

static void check_again(const struct points *points, struct arena *arena)
{
    struct buf packed = BUF_INIT(64 << 20);
    struct points copy;
    points_pack(points, &packed);
    ASSERT(!points_unpack(buf_str(&packed), arena, &copy, NULL) && copy.n == points->n);
    ASSERT(!memcmp(copy.items, points->items, copy.n * sizeof *copy.items));
    points_summarize(points);
    buf_done(&packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = ARENA_INIT;
    char *bytes =
        xmalloc(MAX(size, 1)); // of this size exactly, so that reading beyond it is noticed
    if (size) memcpy(bytes, data, size);
    struct points points = {0};
    if (!points_unpack((struct str){bytes, size}, &arena, &points, NULL))
        check_again(&points, &arena);
    arena_done(&arena);
    free(bytes);
    return 0;
}
