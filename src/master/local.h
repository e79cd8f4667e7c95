// master/local.h: how the user who started the master gets in. Private to the layer.
#pragma once

#include "master/state.h"

// Makes the first user if there is none.
int local_first_user(struct master *m, struct db_reader *r, det_err *err);

// Writes master.json: where the master is, and a token for who may read that file.
int local_announce(struct master *m, det_err *err);
