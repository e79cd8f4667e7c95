// master/settings.h: what the person who runs the master has decided, and what of it is in force.
// Private to the layer.
//
// m->cfg is never changed, but replaced when the file is read again: threads may go on with the one
// they have. All of them live as long as the master.
#pragma once

#include "master/state.h"

void settings_open(struct master *m); // m->cfg and m->settings

// The file has changed: takes what can change while the master runs, and says of the rest that it
// needs a restart. What is wrong changes nothing.
void settings_reload(struct master *m);

// For the server, as far as the system allows.
struct http_limits settings_limits(const struct limits_config *limits);
