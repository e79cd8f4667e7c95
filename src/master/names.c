// Unit names.c: which of two files of one name counts, or how a file could also be a directory,
// would be anybody's guess: that is found out while an archive is read.
#include "master/names.h"

#include "base/mem.h"
#include <sodium.h>

void names_init(struct names *s)
{
    *s = (struct names){0};
    randombytes_buf(&s->key, sizeof s->key);
}

void names_done(struct names *s)
{
    free(s->items);
    s->items = NULL;
}

// Where the name with this hash is, or would be.
static uint64_t *place_of(const struct names *s, uint64_t hash)
{
    size_t i = (hash >> 1) % s->cap;
    while (s->items[i] && (s->items[i] ^ hash) > 1)
        i = (i + 1) % s->cap;
    return &s->items[i];
}

static void grow(struct names *s)
{
    uint64_t *old = s->items;
    size_t n_old = s->cap;
    s->cap = n_old ? 2 * n_old : 256;
    s->items = xcalloc(s->cap, sizeof *s->items);
    for (size_t i = 0; i < n_old; i++)
        if (old[i]) *place_of(s, old[i]) = old[i];
    free(old);
}

// Returns false if it was there already.
static bool add(struct names *s, struct str path, bool folder, bool *was_folder)
{
    if (2 * s->n >= s->cap) grow(s);
    uint64_t hash = hash_bytes(&s->key, path.ptr, path.len) | 2; // never 0
    uint64_t *place = place_of(s, hash & ~(uint64_t)1);
    *was_folder = *place & 1;
    if (*place) return false;
    *place = (hash & ~(uint64_t)1) | folder;
    s->n++;
    return true;
}

static int refuse(struct str path, bool twice, det_err *err)
{
    return det_fail(err, DET_EINVAL,
                    twice ? "the archive has two files '%.*s'"
                          : "the archive has '%.*s' as a file and as a directory",
                    (int)path.len, path.ptr);
}

int names_add(struct names *s, struct str path, bool folder, det_err *err)
{
    bool was_folder;
    bool is_new = add(s, path, folder, &was_folder);
    if (!is_new && !(folder && was_folder)) return refuse(path, !folder && !was_folder, err);
    while (is_new) { // what is above a directory that was there is there, too
        while (path.len && path.ptr[path.len - 1] != '/')
            path.len--;
        if (!path.len) break;
        path.len--;
        is_new = add(s, path, true, &was_folder);
        if (!is_new && !was_folder) return refuse(path, false, err);
    }
    return 0;
}
