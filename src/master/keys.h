// master/keys.h: requests that may come twice and are done once. Private to the layer.
//
// A key is any text, or "<UUID>:<number>": the numbers of one UUID come in order, each after the
// one before was answered. Of those only the last one is kept, on disk and with the allocation.
#pragma once

#include "master/auth.h"

// DET_EINVAL if it cannot be a key.
int key_is_used(struct http_request *req, const char *key, bool *out, det_err *err);
void key_use(const char *key, struct db_tx *tx);

// The transaction that uses it has ended. Only after that is key_is_used() true.
void key_settled(struct master *m, int64_t allocation_token, const char *key, int code);
