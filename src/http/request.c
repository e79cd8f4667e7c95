// Unit request.c: what handlers ask a request for.
#include "http/exchange.h"

#include "base/assert.h"
#include <strings.h>

static const struct exchange *of(const struct http_request *req)
{
    return (const struct exchange *)req;
}

const char *http_query(const struct http_request *req, const char *name)
{
    for (const struct pair *p = of(req)->query.first; p; p = p->next)
        if (!strcmp(p->name, name)) return p->value;
    return NULL;
}

const char *http_header(const struct http_request *req, const char *name)
{
    return pairs_find(&of(req)->headers, name);
}

const char *http_cookie(struct http_request *req, const char *name)
{
    struct str rest = str_from(http_header(req, "Cookie"));
    while (rest.ptr) {
        struct str one = str_cut(&rest, ';');
        while (one.len && one.ptr[0] == ' ')
            one = (struct str){one.ptr + 1, one.len - 1};
        struct str key = str_cut(&one, '=');
        if (one.ptr && str_eqz(key, name)) return arena_strndup(req->arena, one.ptr, one.len);
    }
    return NULL;
}

const char *http_token(struct http_request *req)
{
    static const char *const headers[] = {"Authorization", "X-Allocation-Token",
                                          "Grpc-Metadata-X-Allocation-Token"};
    static const char scheme[] = "Bearer ";
    for (size_t i = 0; i < STATIC_LEN(headers); i++) {
        const char *value = http_header(req, headers[i]);
        if (value && !strncasecmp(value, scheme, strlen(scheme))) return value + strlen(scheme);
    }
    return NULL;
}

const char *http_peer(const struct http_request *req)
{
    return of(req)->peer->address;
}

const char *http_peer_network(const struct http_request *req)
{
    return of(req)->peer->network;
}

int http_claim(struct http_request *req, int64_t user, bool unlimited, det_err *err)
{
    struct exchange *x = exchange_of(req);
    int rc = x->claim(x, user, unlimited, err);
    if (rc) http_set_header(req, "Connection", "close");
    return rc;
}
