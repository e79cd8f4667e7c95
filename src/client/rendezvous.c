// Unit rendezvous.c: which machines an allocation is on, as the environment says.
#include "client/core.h"

#include "doc/json.h"
#include <stdlib.h>

enum { INFO_MAX_BYTES = 1 << 20 };

static int fail(const char *text, const char *what, det_err *err)
{
    return det_fail(
        err, DET_EINVAL,
        "DET_RENDEZVOUS_INFO must be {\"container_addrs\": [...], \"container_rank\": N, "
        "\"container_slot_counts\": [...]}, but %s: '%.200s'",
        what, text);
}

// One entry of both lists.
static bool read_machine(const struct doc *address, const struct doc *count, const char **text,
                         int *slots)
{
    int64_t n;
    if (address->kind != DOC_STR || !count || !doc_integer(count, &n) || n < 0 || n > INT16_MAX)
        return false;
    *text = address->text.ptr;
    *slots = (int)n;
    return true;
}

static int read_info(struct arena *arena, const char *text, det_rendezvous *out, det_err *err)
{
    struct diag_list diags = DIAG_INIT(arena);
    const struct json_opts opts = {.source = "DET_RENDEZVOUS_INFO", .max_bytes = INFO_MAX_BYTES};
    const struct doc *info = json_parse(arena, str_from(text), &opts, &diags);
    if (!info) return diag_fail(&diags, err);
    const struct doc *addresses = doc_find(info, "container_addrs");
    const struct doc *counts = doc_find(info, "container_slot_counts");
    int64_t rank = -1;
    doc_integer(doc_find(info, "container_rank"), &rank);
    size_t n = addresses && addresses->kind == DOC_LIST ? addresses->n : 0;
    if (!n) return fail(text, "there is no address", err);
    if (!counts || counts->kind != DOC_LIST || counts->n != n)
        return fail(text, "the lists differ in length", err);
    if (rank < 0 || (size_t)rank >= n) return fail(text, "the rank is not one of them", err);
    const char **texts = arena_array(arena, n, sizeof *texts);
    int *slots = arena_array(arena, n, sizeof *slots);
    for (size_t i = 0; i < n; i++)
        if (!read_machine(doc_at(addresses, i), doc_at(counts, i), &texts[i], &slots[i]))
            return fail(text, "an address or a number of slots is none", err);
    *out = (det_rendezvous){(int)rank, (int)n, texts, slots};
    return det_ok(err);
}

int client_rendezvous(struct arena *arena, int n_slots, det_rendezvous *out, det_err *err)
{
    static const char *const here[] = {"127.0.0.1"};
    const char *text = getenv("DET_RENDEZVOUS_INFO");
    if (text && *text) return read_info(arena, text, out, err);
    int *slots = arena_alloc(arena, sizeof *slots);
    *slots = n_slots;
    *out = (det_rendezvous){0, 1, here, slots};
    return det_ok(err);
}

int det_core_rendezvous(det_core *core, const det_rendezvous **out, det_err *err)
{
    if (!core->rendezvous) {
        det_rendezvous *r = arena_alloc(&core->arena, sizeof *r);
        int rc = client_rendezvous(&core->arena, core->info.size, r, err);
        if (rc) return rc;
        core->rendezvous = r;
    }
    *out = core->rendezvous;
    return det_ok(err);
}
