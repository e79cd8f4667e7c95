// http/listen.h: the socket that a server accepts connections from.
#pragma once

#include "det/err.h"

// host is an address or "localhost". port 0: the system chooses; *bound says which.
int listen_open(const char *host, int port, int *fd, int *bound, det_err *err);
