// client/client.h: what other layers need of the client besides det/client.h.
#pragma once

#include "det/client.h"
#include "http/http.h"

// Delivers the journals in a folder that programs left behind when they died, and removes those
// that were delivered as a whole. Who started the programs calls it when they have ended.
// DET_ETIMEOUT if the master did not take everything in time; then it can be called again.
int client_deliver(const char *folder, const struct http_client_opts *master, int64_t timeout_us,
                   det_err *err);
