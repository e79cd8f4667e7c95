// Unit certificate.c: certificates that a server makes for itself, and the names in certificates.
#include "http/http.h"

#include "sys/clock.h"
#include "sys/fs.h"
#include <arpa/inet.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VALID_DAYS = 3650, DAY_S = 24 * 3600, MAX_PEM_BYTES = 1 << 20 };

// --- making one

static int add_name(gnutls_x509_crt_t crt, const char *name)
{
    unsigned char address[sizeof(struct in6_addr)];
    if (inet_pton(AF_INET, name, address) == 1)
        return gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_IPADDRESS, address,
                                                    sizeof(struct in_addr), GNUTLS_FSAN_APPEND);
    if (inet_pton(AF_INET6, name, address) == 1)
        return gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_IPADDRESS, address,
                                                    sizeof(struct in6_addr), GNUTLS_FSAN_APPEND);
    return gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_DNSNAME, name,
                                                (unsigned)strlen(name), GNUTLS_FSAN_APPEND);
}

static int add_names(gnutls_x509_crt_t crt, const char *host)
{
    char machine[HOST_NAME_MAX + 1] = "";
    const char *const names[] = {"localhost", "127.0.0.1", "::1", machine, host};
    if (gethostname(machine, sizeof machine - 1)) machine[0] = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool is_known = !names[i] || !*names[i];
        for (size_t k = 0; !is_known && k < i; k++)
            is_known = !strcmp(names[k], names[i]);
        int rc = is_known ? 0 : add_name(crt, names[i]);
        if (rc < 0) return rc;
    }
    return gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0,
                                         *machine ? machine : "localhost",
                                         (unsigned)strlen(*machine ? machine : "localhost"));
}

// For a server and nothing else: who trusts it does not trust what it might sign.
static int fill(gnutls_x509_crt_t crt, gnutls_x509_privkey_t key, const char *host)
{
    unsigned char serial[16], id[64];
    size_t n_id = sizeof id;
    time_t now = (time_t)(clock_unix_us() / 1000000);
    int rc = gnutls_rnd(GNUTLS_RND_NONCE, serial, sizeof serial);
    serial[0] = (serial[0] & 0x7f) | 0x01; // positive, and of full length
    if (rc >= 0) rc = gnutls_x509_crt_set_version(crt, 3);
    if (rc >= 0) rc = gnutls_x509_crt_set_serial(crt, serial, sizeof serial);
    if (rc >= 0) rc = gnutls_x509_crt_set_activation_time(crt, now - DAY_S); // clocks differ
    if (rc >= 0) rc = gnutls_x509_crt_set_expiration_time(crt, now + (time_t)VALID_DAYS * DAY_S);
    if (rc >= 0) rc = add_names(crt, host);
    if (rc >= 0) rc = gnutls_x509_crt_set_key(crt, key);
    if (rc >= 0) rc = gnutls_x509_crt_set_basic_constraints(crt, 0, -1);
    if (rc >= 0) rc = gnutls_x509_crt_set_key_usage(crt, GNUTLS_KEY_DIGITAL_SIGNATURE);
    if (rc >= 0) rc = gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_SERVER, 0);
    if (rc >= 0) rc = gnutls_x509_crt_get_key_id(crt, GNUTLS_KEYID_USE_SHA1, id, &n_id);
    if (rc >= 0) rc = gnutls_x509_crt_set_subject_key_id(crt, id, n_id);
    if (rc >= 0) rc = gnutls_x509_crt_set_authority_key_id(crt, id, n_id);
    return rc < 0 ? rc : gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0);
}

static int write_private(const char *path, const gnutls_datum_t *pem, det_err *err)
{
    struct fs_writer w = FS_WRITER_INIT;
    mode_t mask = umask(0077);
    int rc = fs_writer_open(&w, path, err);
    if (!rc) rc = fs_writer_add(&w, pem->data, pem->size, err);
    if (!rc) rc = fs_writer_commit(&w, err);
    fs_writer_close(&w);
    umask(mask);
    return rc;
}

int http_make_certificate(const char *cert_file, const char *key_file, const char *host,
                          det_err *err)
{
    gnutls_x509_privkey_t key = NULL;
    gnutls_x509_crt_t crt = NULL;
    gnutls_datum_t key_pem = {0}, crt_pem = {0};
    gnutls_x509_privkey_init(&key);
    gnutls_x509_crt_init(&crt);
    int rc = gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                          GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
    if (rc >= 0) rc = fill(crt, key, host);
    if (rc >= 0)
        rc = gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN,
                                               &key_pem);
    if (rc >= 0) rc = gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &crt_pem);
    if (rc < 0)
        rc = det_fail(err, DET_EIO, "cannot make a certificate: %s", gnutls_strerror(rc));
    else if (!(rc = write_private(key_file, &key_pem, err)))
        rc = write_private(cert_file, &crt_pem, err);
    if (key_pem.data) gnutls_memset(key_pem.data, 0, key_pem.size);
    gnutls_free(key_pem.data);
    gnutls_free(crt_pem.data);
    gnutls_x509_crt_deinit(crt);
    gnutls_x509_privkey_deinit(key);
    return rc;
}

// --- reading one

static bool read_first(const char *file, gnutls_x509_crt_t crt)
{
    struct buf text = BUF_INIT(MAX_PEM_BYTES);
    bool ok = !fs_read(file, &text, NULL);
    if (ok) {
        const gnutls_datum_t pem = {(unsigned char *)text.ptr, (unsigned)text.len};
        ok = gnutls_x509_crt_import(crt, &pem, GNUTLS_X509_FMT_PEM) >= 0;
    }
    buf_done(&text);
    return ok;
}

bool http_certificate_is_valid(const char *file)
{
    gnutls_x509_crt_t crt = NULL;
    gnutls_x509_crt_init(&crt);
    bool valid = read_first(file, crt) &&
                 gnutls_x509_crt_get_expiration_time(crt) > (time_t)(clock_unix_us() / 1000000);
    gnutls_x509_crt_deinit(crt);
    return valid;
}

// The first name of the given kind that is not a pattern.
static bool find_name(gnutls_x509_crt_t crt, struct buf *out)
{
    char name[256];
    int type = 0;
    for (unsigned i = 0; type != GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE; i++) {
        size_t n = sizeof name - 1;
        type = gnutls_x509_crt_get_subject_alt_name(crt, i, name, &n, NULL);
        if (type != GNUTLS_SAN_DNSNAME || name[0] == '*') continue;
        name[n] = 0;
        buf_addz(out, name);
        return true;
    }
    size_t n = sizeof name;
    if (gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name, &n) < 0)
        return false;
    buf_addz(out, name);
    return true;
}

void http_certificate_name(const char *file, const char *host, struct buf *out)
{
    gnutls_x509_crt_t crt = NULL;
    gnutls_x509_crt_init(&crt);
    if (!read_first(file, crt) || gnutls_x509_crt_check_hostname(crt, host) || !find_name(crt, out))
        buf_addz(out, host);
    gnutls_x509_crt_deinit(crt);
}
