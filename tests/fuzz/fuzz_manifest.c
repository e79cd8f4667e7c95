// Fuzz target manifest: whatever is accepted names only files inside, and is the one text of what
// it says.
#include "fuzz.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/path.h"
#include "storage/manifest.h"

static void check(const struct manifest *m)
{
    struct arena arena = ARENA_INIT;
    struct manifest again;
    struct buf text = BUF_INIT(MANIFEST_MAX_BYTES);
    manifest_encode(m, &text);
    for (size_t i = 0; i < m->files.n; i++)
        ASSERT(path_is_plain(str_from(m->files.items[i].name)));
    ASSERT(!manifest_parse(buf_str(&text), &arena, &again, NULL));
    ASSERT(again.files.n == m->files.n && again.saved_us == m->saved_us);
    buf_done(&text);
    arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = xmalloc(size); // of this size exactly, so that reading beyond it is noticed
    if (size) memcpy(bytes, data, size);
    struct arena arena = ARENA_INIT;
    struct manifest m = {0};
    det_err err = {0};
    int rc = manifest_parse((struct str){bytes, size}, &arena, &m, &err);
    ASSERT(rc == 0 || (rc == DET_ECORRUPT && err.msg[0]));
    if (!rc) check(&m);
    arena_done(&arena);
    free(bytes);
    return 0;
}
