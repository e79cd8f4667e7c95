// http/tls.h: what a server needs to speak TLS. Private to the layer.
#pragma once

#include "base/buf.h"
#include "det/err.h"

struct MHD_Connection;

enum { TLS_MAX_PEM_BYTES = 1 << 20 };

// TLS 1.2 and 1.3, with forward secrecy and authenticated encryption only.
#define TLS_PRIORITIES                                                                        \
    "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-RSA:+ECDHE-ECDSA:+DHE-RSA:" \
    "-CIPHER-ALL:+AES-256-GCM:+CHACHA20-POLY1305:+AES-128-GCM:%SERVER_PRECEDENCE"

// Reads both files after making sure that clients can accept what they would be shown: the key is
// nobody else's and belongs to the certificate, which is valid today. cert and key have a maximum.
int tls_read(const char *cert_file, const char *key_file, struct buf *cert, struct buf *key,
             det_err *err);

// What a server shows instead of what it was started with; see tls_renew().
struct tls_identity;

// Reads both files again. New connections see what is in them; *latest is as before after a
// failure.
int tls_renew(struct tls_identity **latest, const char *cert_file, const char *key_file,
              det_err *err);
void tls_forget(struct tls_identity *latest); // and all before it; when there are no connections

// Called once for each new connection: a client that speaks plain HTTP is told so. latest may be
// NULL: nothing was renewed.
void tls_greet(struct MHD_Connection *connection, const struct tls_identity *latest);

// Sends what fits now.
void tls_send(struct MHD_Connection *connection, struct str bytes);
