// Unit rendezvous.c: who else belongs to this allocation.
#include "client/core.h"

// {"container_addrs": [...], "container_rank": 0, "container_slot_counts": [...]}
static int read_info(det_core *core, const struct doc *info, det_rendezvous *out, det_err *err)
{
    const struct doc *addresses = doc_find(info, "container_addrs");
    const struct doc *slots = doc_find(info, "container_slot_counts");
    int64_t rank = 0;
    size_t n = addresses && addresses->kind == DOC_LIST ? addresses->n : 0;
    doc_integer(doc_find(info, "container_rank"), &rank);
    if (!n || rank < 0 || (size_t)rank >= n)
        return det_fail(err, DET_ECORRUPT, "the rendezvous info names rank %lld of %zu",
                        (long long)rank, n);
    const char **texts = arena_array(&core->arena, n, sizeof *texts);
    int *counts = arena_array(&core->arena, n, sizeof *counts);
    for (size_t i = 0; i < n; i++) {
        const struct doc *address = doc_at(addresses, i);
        int64_t count = 1;
        doc_integer(doc_at(slots, i), &count);
        texts[i] = address->kind == DOC_STR ? address->text.ptr : "";
        counts[i] = (int)count;
    }
    *out = (det_rendezvous){(int)rank, (int)n, texts, counts};
    return det_ok(err);
}

static void alone(det_core *core, det_rendezvous *out)
{
    static const char *const here[] = {"127.0.0.1"};
    int *slots = arena_alloc(&core->arena, sizeof *slots);
    *slots = core->info.size;
    *out = (det_rendezvous){0, 1, here, slots};
}

int det_core_rendezvous(det_core *core, const det_rendezvous **out, det_err *err)
{
    int rc = 0;
    if (!core->rendezvous) {
        det_rendezvous *r = arena_alloc(&core->arena, sizeof *r);
        if (core->settings.rendezvous)
            rc = read_info(core, core->settings.rendezvous, r, err);
        else
            alone(core, r);
        if (rc) return rc;
        core->rendezvous = r;
    }
    *out = core->rendezvous;
    return det_ok(err);
}
