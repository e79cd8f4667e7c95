// master/local.h: how the user who started the master gets in. Private to the layer.
#pragma once

#include "master/state.h"

enum { LOCAL_USER_ID = 1 }; // the first one: the user who started the master comes in as this one

// Makes the first user if there is none.
int local_first_user(struct master *m, struct db_reader *r, det_err *err);

// Writes master.json: where the master is, and a token for who may read that file.
int local_announce(struct master *m, det_err *err);

// If the session of that token has ended, there is a new one, and soon the file has its token.
void local_renew(struct master *m);
