// Fuzz target config: a configuration that is accepted is complete: written and read again it means
// the same. Text after a line "%%" is of lower precedence. Text that starts with "#job" is that of
// a job.
#include "fuzz.h"

#include "base/assert.h"
#include "base/mem.h"
#include "doc/yaml.h"
#include "config/config.h"

static const struct doc *check(struct arena *arena, struct str text, const struct config_opts *opts,
                               bool job, struct diag_list *diags)
{
    if (job) {
        struct job_config cfg;
        return job_config_read(arena, text, opts, &cfg, diags)
                   ? NULL
                   : job_config_write(arena, &cfg, CONFIG_WHOLE);
    }
    struct exp_config cfg;
    return exp_config_read(arena, text, opts, &cfg, diags)
               ? NULL
               : exp_config_write(arena, &cfg, CONFIG_WHOLE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = xmalloc(size); // of this size exactly, so that reading beyond it is noticed
    if (size) memcpy(bytes, data, size);
    struct str text = {bytes, size};
    struct config_text below = {.source = "below"};
    struct config_opts opts = {.source = "fuzz", .default_seed = 1, .below = &below};
    const char *mark = memmem(bytes, size, "\n%%\n", 4);
    if (mark) {
        text.len = (size_t)(mark - bytes) + 1;
        below.text = (struct str){mark + 4, size - text.len - 3};
        opts.n_below = 1;
    }
    bool job = str_starts(text, STR("#job"));
    struct arena arena = ARENA_INIT;
    struct diag_list diags = DIAG_INIT(&arena);
    const struct doc *first = check(&arena, text, &opts, job, &diags);
    ASSERT(!first == (diags.n_errors > 0));
    if (first) {
        struct buf written = BUF_INIT(64 << 20);
        yaml_write(first, &written);
        if (buf_ok(&written) && written.len <= YAML_MAX_BYTES) {
            const struct doc *second = check(&arena, buf_str(&written), NULL, job, &diags);
            ASSERT(second && doc_equal(first, second));
        }
        buf_done(&written);
    }
    arena_done(&arena);
    free(bytes);
    return 0;
}
