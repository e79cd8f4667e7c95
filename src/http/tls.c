// Unit tls.c: a certificate and its key, checked before they are used; and clients that do not know
// that they should speak TLS. Called by server.c.
#include "http/tls.h"

#include "base/mem.h"
#include "sys/clock.h"
#include "sys/fs.h"
#include "sys/log.h"
#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <microhttpd.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

enum { WARN_DAYS = 14, DAY_S = 24 * 3600 };

// --- files

static gnutls_datum_t datum_of(const struct buf *text)
{
    struct str s = buf_str(text);
    return (gnutls_datum_t){.data = (unsigned char *)(uintptr_t)s.ptr, .size = (unsigned)s.len};
}

static const char *date_text(time_t when, char out[32])
{
    struct tm tm;
    gmtime_r(&when, &tm);
    strftime(out, 32, "%Y-%m-%d %H:%M UTC", &tm);
    return out;
}

static int check_dates(const char *file, gnutls_x509_crt_t crt, det_err *err)
{
    time_t now = (time_t)(clock_unix_us() / 1000000);
    time_t from = gnutls_x509_crt_get_activation_time(crt);
    time_t until = gnutls_x509_crt_get_expiration_time(crt);
    char date[32];
    if (until <= now)
        return det_fail(err, DET_EINVAL,
                        "the certificate '%s' expired on %s; clients would refuse it, so a new one "
                        "is needed",
                        file, date_text(until, date));
    if (from > now)
        return det_fail(err, DET_EINVAL,
                        "the certificate '%s' is not valid before %s; check the clock of this "
                        "machine",
                        file, date_text(from, date));
    if (until - now < (time_t)WARN_DAYS * DAY_S)
        log_warn("the certificate '%s' expires on %s", file, date_text(until, date));
    return 0;
}

// The first of the file is the server's; those that follow lead to an authority.
static int read_certificate(const char *file, struct buf *text, gnutls_x509_crt_t *out,
                            det_err *err)
{
    gnutls_x509_crt_t *list = NULL;
    unsigned n = 0;
    int rc = fs_read(file, text, err);
    if (rc) return det_wrap(err, "the certificate of the server");
    const gnutls_datum_t datum = datum_of(text);
    rc = gnutls_x509_crt_list_import2(&list, &n, &datum, GNUTLS_X509_FMT_PEM, 0);
    if (rc < 0)
        return det_fail(err, DET_EINVAL,
                        "'%s' should have a certificate in PEM form "
                        "(-----BEGIN CERTIFICATE-----): %s",
                        file, gnutls_strerror(rc));
    *out = list[0];
    for (unsigned i = 1; i < n; i++)
        gnutls_x509_crt_deinit(list[i]);
    gnutls_free(list);
    return check_dates(file, *out, err);
}

static int read_key(const char *file, struct buf *text, gnutls_x509_privkey_t key, det_err *err)
{
    struct stat st;
    int rc = fs_read(file, text, err);
    if (rc) return det_wrap(err, "the key of the server");
    const gnutls_datum_t datum = datum_of(text);
    rc = gnutls_x509_privkey_import2(key, &datum, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (rc < 0)
        return det_fail(err, DET_EINVAL,
                        "'%s' should have a private key in PEM form (-----BEGIN PRIVATE KEY-----) "
                        "that needs no passphrase: %s",
                        file, gnutls_strerror(rc));
    if (stat(file, &st)) return fs_fail(err, "look at", file);
    if (S_ISREG(st.st_mode) && (st.st_mode & S_IRWXO))
        return det_fail(err, DET_EINVAL,
                        "the key '%s' may be used by everybody on this machine (mode %03o); it "
                        "should be its owner's alone: chmod 600 '%s'",
                        file, (unsigned)st.st_mode & 0777, file);
    return 0;
}

static bool belong_together(gnutls_x509_crt_t crt, gnutls_x509_privkey_t key)
{
    unsigned char a[64], b[64];
    size_t n_a = sizeof a, n_b = sizeof b;
    return gnutls_x509_crt_get_key_id(crt, GNUTLS_KEYID_USE_SHA256, a, &n_a) >= 0 &&
           gnutls_x509_privkey_get_key_id(key, GNUTLS_KEYID_USE_SHA256, b, &n_b) >= 0 &&
           n_a == n_b && !memcmp(a, b, n_a);
}

int tls_read(const char *cert_file, const char *key_file, struct buf *cert, struct buf *key,
             det_err *err)
{
    gnutls_x509_crt_t crt = NULL;
    gnutls_x509_privkey_t private = NULL;
    gnutls_x509_privkey_init(&private);
    int rc = read_certificate(cert_file, cert, &crt, err);
    if (!rc) rc = read_key(key_file, key, private, err);
    if (!rc && !belong_together(crt, private))
        rc = det_fail(err, DET_EINVAL,
                      "the key '%s' does not belong to the certificate '%s'; the certificate of "
                      "the server must be the first in its file",
                      key_file, cert_file);
    if (crt) gnutls_x509_crt_deinit(crt);
    gnutls_x509_privkey_deinit(private);
    return rc;
}

// --- renewed files

// Connections use one as long as they live, so it is kept as long as the server.
struct tls_identity {
    gnutls_certificate_credentials_t credentials;
    struct tls_identity *before;
};

static struct tls_identity *identity_new(const struct buf *cert, const struct buf *key,
                                         det_err *err)
{
    const gnutls_datum_t chain = datum_of(cert), private = datum_of(key);
    struct tls_identity *t = xcalloc(1, sizeof *t);
    int rc = gnutls_certificate_allocate_credentials(&t->credentials);
    if (rc >= 0)
        rc = gnutls_certificate_set_x509_key_mem(t->credentials, &chain, &private,
                                                 GNUTLS_X509_FMT_PEM);
    if (rc >= 0) return t;
    tls_forget(t);
    det_fail(err, DET_EINVAL, "the certificate cannot be used: %s", gnutls_strerror(rc));
    return NULL;
}

int tls_renew(struct tls_identity **latest, const char *cert_file, const char *key_file,
              det_err *err)
{
    struct buf cert = BUF_INIT(TLS_MAX_PEM_BYTES), key = BUF_INIT(TLS_MAX_PEM_BYTES);
    int rc = tls_read(cert_file, key_file, &cert, &key, err);
    struct tls_identity *t = rc ? NULL : identity_new(&cert, &key, err);
    if (t) {
        t->before = *latest;
        *latest = t;
    } else if (!rc) {
        rc = DET_EINVAL;
    }
    if (key.ptr) explicit_bzero(key.ptr, key.len);
    buf_done(&cert);
    buf_done(&key);
    return rc;
}

void tls_forget(struct tls_identity *latest)
{
    for (struct tls_identity *before; latest; latest = before) {
        before = latest->before;
        if (latest->credentials) gnutls_certificate_free_credentials(latest->credentials);
        free(latest);
    }
}

// --- clients that speak plain HTTP: the first byte of a TLS handshake is 22, that of a request a
// letter. GnuTLS would just hang up.

static const char plain_answer[] =
    "HTTP/1.1 426 Upgrade Required\r\n"
    "Upgrade: TLS/1.2\r\n"
    "Connection: Upgrade, close\r\n"
    "Content-Type: application/problem+json\r\n"
    "\r\n"
    "{\"title\":\"upgrade required\",\"status\":426,"
    "\"detail\":\"this server speaks TLS: its address begins with https://\"}\n";

static ssize_t pull(gnutls_transport_ptr_t fd, void *to, size_t n)
{
    return recv((int)(intptr_t)fd, to, n, 0);
}

static ssize_t pull_first(gnutls_transport_ptr_t ctx, void *to, size_t n)
{
    gnutls_session_t session = ctx;
    gnutls_transport_ptr_t in, out;
    char request[4096];
    gnutls_transport_get_ptr2(session, &in, &out);
    int fd = (int)(intptr_t)out;
    ssize_t n_seen = recv(fd, request, 1, MSG_PEEK);
    if (n_seen > 0 && request[0] >= 'A' && request[0] <= 'Z') {
        // What was not read when the connection is closed would make the answer get lost.
        while (recv(fd, request, sizeof request, MSG_DONTWAIT) > 0)
            ;
        send(fd, plain_answer, sizeof plain_answer - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        return 0;
    }
    if (n_seen <= 0) return n_seen;
    gnutls_transport_set_ptr2(session, out, out);
    gnutls_transport_set_pull_function(session, pull);
    return pull(out, to, n);
}

void tls_greet(struct MHD_Connection *connection, const struct tls_identity *latest)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (!info) return;
    gnutls_session_t session = info->tls_session;
    if (latest) gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, latest->credentials);
    gnutls_transport_set_ptr2(session, session, gnutls_transport_get_ptr(session));
    gnutls_transport_set_pull_function(session, pull_first);
}

void tls_send(struct MHD_Connection *connection, struct str bytes)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (info) gnutls_record_send(info->tls_session, bytes.ptr, bytes.len);
}
