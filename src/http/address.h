// http/address.h: addresses of servers, for the client. Private to the layer.
#pragma once

#include "base/str.h"

// "localhost" is http://localhost:8080. A path at the end is kept, for masters behind a proxy. NULL
// if it names no host; else to be freed.
char *address_complete(const char *text);

// Of a complete address: "127.0.0.1:8080", "[::1]:8080", "det.example.org"; and without the port
// and brackets.
struct str address_host_port(const char *url);
struct str address_host(const char *url);

bool address_is_tls(const char *url);
bool address_is_local(const char *url);

// The address with another host; to be freed.
char *address_with_host(const char *url, const char *host);
