// http/tls.h: what a server needs to speak TLS. Private to the layer.
#pragma once

#include "base/buf.h"
#include "det/err.h"

struct MHD_Connection;

// TLS 1.2 and 1.3, with forward secrecy and authenticated encryption only.
#define TLS_PRIORITIES                                                                        \
    "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-RSA:+ECDHE-ECDSA:+DHE-RSA:" \
    "-CIPHER-ALL:+AES-256-GCM:+CHACHA20-POLY1305:+AES-128-GCM:%SERVER_PRECEDENCE"

// Reads both files after making sure that clients can accept what they would be shown: the key is
// nobody else's and belongs to the certificate, which is valid today. cert and key have a maximum.
int tls_read(const char *cert_file, const char *key_file, struct buf *cert, struct buf *key,
             det_err *err);

// Called once for each new connection: a client that speaks plain HTTP is told so.
void tls_greet(struct MHD_Connection *connection);
