// master/logs.h: those who follow a log. Private to the layer.
#pragma once

#include "master/state.h"

// Answers with a stream of a trial's lines, from after_id on: the first in a row's read, the second
// in its handle.
void logs_read_from(struct http_request *req, const struct log_filter *filter);
int logs_follow(struct http_request *req, det_err *err);

void logs_wake(struct master *m, int64_t trial_id); // there may be something new
void logs_wake_all(struct master *m);
