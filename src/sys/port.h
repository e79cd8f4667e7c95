// sys/port.h: TCP ports of this machine that nobody uses.
//   port_take  port_take_from  port_return
//
//     struct port port;
//     if (port_take(&port, err)) return err->code;
//     ...                                    // tell another program to listen on port.number
//     port_return(&port);                    // when that program has ended
#pragma once

#include "det/err.h"

struct port {
    int number;
    int lock; // a descriptor: no other process of ours takes the port while this one is open
};

#define PORT_NONE ((struct port){.lock = -1})

// A port that no socket of this machine is bound to, and that no other program that asks here, of
// whatever user, is given until it is returned or this process ends. It is below those that the
// system gives to outgoing connections. DET_ELIMIT if there is none.
int port_take(struct port *out, det_err *err);
// One of the n ports from first on.
int port_take_from(int first, int n, struct port *out, det_err *err);
void port_return(struct port *port); // nothing happens to PORT_NONE
