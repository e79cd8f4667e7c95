// master/keys.h: requests that may come twice and are done once. Private to the layer.
//
// A key is any text, or "<UUID>:<number>": the numbers of one UUID come in order, each after the
// one before was answered. Of those only the last one is kept, on disk and with the allocation.
// "<UUID>:<first>-<last>" is a request with as many items, which have these numbers: whoever sends
// what was not answered again may put more or fewer of them together.
#pragma once

#include "master/auth.h"

struct key_found {
    bool used;      // all was done before
    size_t n_done;  // if not: the first items that were
    bool must_read; // that is not known yet: return http_read(req, key_read)
};

// DET_EINVAL if it cannot be a key of a request with so many items.
int key_find(struct http_request *req, const char *key, size_t n_items, struct key_found *out,
             det_err *err);
int key_read(struct http_request *req, det_err *err);
void key_use(const char *key, struct db_tx *tx);

// Keys of the same scope must not be in use at the same time.
struct str key_scope(const char *key);

// The transaction that uses it has ended. Only after that is it found.
void key_written(struct master *m, int64_t allocation_token, const char *key, int code);
