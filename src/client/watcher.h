// client/watcher.h: the thread that waits for the master to ask for an end.
#pragma once

#include "http/http.h"

struct watcher;

// path: of the allocation's signal, to which a timeout is added.
int watcher_start(const char *path, const struct http_client_opts *master, struct watcher **out,
                  det_err *err);
void watcher_stop(struct watcher *w);

bool watcher_should_end(const struct watcher *w); // an atomic load
// Until the first answer. False: somebody wanted it to end (sys/interrupt.h).
bool watcher_wait(struct watcher *w);
