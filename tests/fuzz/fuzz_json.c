// Fuzz target json: a document that was read can be written, and reads back as the same.
#include "fuzz.h"

#include "base/assert.h"
#include "doc/json.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = xmalloc(size); // of this size exactly, so that reading beyond it is noticed
    if (size) memcpy(text, data, size);
    struct arena arena = ARENA_INIT;
    struct diag_list diags = DIAG_INIT(&arena);
    struct doc *first = json_parse(&arena, (struct str){text, size}, NULL, &diags);
    ASSERT(first ? !diags.n_errors : diags.n_errors == 1);
    if (first) {
        struct buf written = BUF_INIT(64 << 20);
        struct json_writer w;
        json_init(&w, &written, 0);
        json_put_doc(&w, first);
        const struct json_opts opts = {.max_bytes = 64 << 20};
        struct doc *second = json_parse(&arena, buf_str(&written), &opts, &diags);
        ASSERT(second && doc_equal(first, second));
        buf_done(&written);
    }
    arena_done(&arena);
    free(text);
    return 0;
}
