// Fuzz target yaml: a document that was read can be written, and reads back as the same.
#include "fuzz.h"

#include "base/assert.h"
#include "base/mem.h"
#include "doc/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = xmalloc(size); // of this size exactly, so that reading beyond it is noticed
    if (size) memcpy(text, data, size);
    struct arena arena = ARENA_INIT;
    struct diag_list diags = DIAG_INIT(&arena);
    struct doc *first = yaml_parse(&arena, (struct str){text, size}, "fuzz", &diags);
    ASSERT(first ? !diags.n_errors : diags.n_errors == 1);
    if (first) {
        struct buf written = BUF_INIT(64 << 20);
        yaml_write(first, &written);
        // Indentation may make it longer than what can be read.
        if (buf_ok(&written) && written.len <= YAML_MAX_BYTES) {
            struct doc *second = yaml_parse(&arena, buf_str(&written), "written", &diags);
            ASSERT(second && doc_equal(first, second));
        }
        buf_done(&written);
    }
    arena_done(&arena);
    free(text);
    return 0;
}
