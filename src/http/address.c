// Unit address.c: addresses of servers, as people write them and as the client needs them.
#include "http/address.h"

#include "base/assert.h"
#include "base/buf.h"
#include "http/http.h"
#include <stdlib.h>
#include <strings.h>

enum { MAX_ADDRESS_BYTES = 64 << 10 };

struct str address_host_port(const char *url)
{
    const char *host = strstr(url, "://") + strlen("://");
    return (struct str){host, strcspn(host, "/")};
}

struct str address_host(const char *url)
{
    struct str host = address_host_port(url);
    if (host.len && host.ptr[0] == '[') { // an IPv6 address
        struct str inner = {host.ptr + 1, host.len - 1};
        return str_cut(&inner, ']');
    }
    return str_cut(&host, ':');
}

// ":8080", or empty.
static struct str port_of(struct str host_port)
{
    const char *start = host_port.ptr, *end = start + host_port.len;
    if (host_port.len && *start == '[') start = memchr(start, ']', host_port.len);
    const char *colon = start ? memchr(start, ':', (size_t)(end - start)) : NULL;
    return colon ? (struct str){colon, (size_t)(end - colon)} : (struct str){end, 0};
}

static char *take(struct buf *url)
{
    bool fits = buf_ok(url);
    char *out = buf_take(url);
    if (fits) return out;
    free(out);
    return NULL;
}

char *address_complete(const char *text)
{
    struct str rest = str_from(text);
    const char *colon = strstr(text, "://");
    struct str scheme = colon ? (struct str){text, (size_t)(colon - text)} : STR("http");
    if (colon) rest = str_from(colon + strlen("://"));
    while (rest.len && rest.ptr[rest.len - 1] == '/')
        rest.len--;
    struct str path = rest, host = str_cut(&path, '/');
    if (!host.len) return NULL;
    struct buf url = BUF_INIT(MAX_ADDRESS_BYTES);
    bool is_plain = scheme.len == 4 && !strncasecmp(scheme.ptr, "http", 4);
    buf_printf(&url, "%.*s://%.*s", STR_ARG(scheme), STR_ARG(host));
    if (is_plain && !port_of(host).len) buf_addz(&url, ":8080");
    if (path.ptr) buf_printf(&url, "/%.*s", STR_ARG(path));
    return take(&url);
}

char *address_with_host(const char *url, const char *host)
{
    struct str old = address_host_port(url), port = port_of(old);
    bool is_v6 = strchr(host, ':');
    struct buf out = BUF_INIT(MAX_ADDRESS_BYTES);
    buf_printf(&out, "%.*s%s%s%s%s", (int)(old.ptr - url), url, is_v6 ? "[" : "", host,
               is_v6 ? "]" : "", port.ptr);
    return take(&out);
}

bool address_is_tls(const char *url)
{
    return !strncasecmp(url, "https://", strlen("https://"));
}

bool address_is_local(const char *url)
{
    struct str host = address_host(url);
    return str_eqz(host, "localhost") || str_starts(host, STR("127.")) || str_eqz(host, "::1");
}

bool http_is_local(const char *url)
{
    char *complete = address_complete(url);
    bool is_local = complete && address_is_local(complete);
    free(complete);
    return is_local;
}

const char *http_master_address(void)
{
    static const char *const names[] = {"DET_MASTER", "DETERMINED_MASTER"};
    for (size_t i = 0; i < STATIC_LEN(names); i++) {
        const char *address = getenv(names[i]);
        if (address && *address) return address;
    }
    return NULL;
}

void http_encode_path(struct buf *out, struct str path)
{
    while (path.ptr) {
        http_encode(out, str_cut(&path, '/'));
        if (path.ptr) buf_addc(out, '/');
    }
}

void http_encode(struct buf *out, struct str text)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c && strchr(plain, c))
            buf_addc(out, (char)c);
        else
            buf_printf(out, "%%%02X", c);
    }
}
