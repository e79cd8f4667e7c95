// client/shipper.h: the thread that delivers a journal to the master: in order, one request at a
// time, again and again while the master is away.
#pragma once

#include "client/journal.h"
#include "http/http.h"

struct shipper;

// j stays the caller's and must outlive it.
int shipper_start(struct journal *j, const struct http_client_opts *master, struct shipper **out,
                  det_err *err);

void shipper_wake(struct shipper *s); // something was added

// The first refusal that was not reported yet: *err is filled and its code returned; 0: none.
int shipper_take_error(struct shipper *s, det_err *err);

// Waits until everything was delivered (0), or nothing more can be (the error says why), or
// timeout_us have passed (DET_ETIMEOUT), or somebody wants it to end (DET_ECANCELED).
int shipper_drain(struct shipper *s, int64_t timeout_us, det_err *err);

void shipper_stop(struct shipper *s); // at once; frees it

// Whether a failed call is worth repeating: nobody was there, or they had no time or space.
bool is_transient(int code);
