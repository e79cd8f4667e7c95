// Unit curl.c: loads libcurl, which needs thirty other libraries.
#include "http/curl.h"

#include "base/assert.h"
#include <pthread.h>

struct curl_functions libcurl;

static const char *const names[] = {CURL_FUNCTIONS(LIBRARY_NAME)};

// The one of Debian that uses GnuTLS, as libmicrohttpd does; else the usual one.
static struct library library = {
    .files = {"libcurl-gnutls.so.4", "libcurl.so.4"},
    .package = "libcurl3-gnutls",
    .names = names,
    .n = STATIC_LEN(names),
    .functions = &libcurl,
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init(void)
{
    libcurl.global_init(CURL_GLOBAL_DEFAULT);
}

int curl_load(det_err *err)
{
    int rc = library_load(&library, err);
    if (!rc) pthread_once(&once, init);
    return rc;
}
