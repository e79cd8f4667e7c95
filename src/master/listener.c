// Unit listener.c: where the master is reached and as whom: certificate, socket, address.
#include "master/state.h"

#include "base/assert.h"
#include "base/number.h"
#include "master/api.h"
#include "master/local.h"
#include "master/settings.h"
#include "master/routes.h"
#include "sys/fs.h"
#include "sys/log.h"
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_PEM_BYTES = 1 << 20 };

// --- the certificate

// That of the configuration, or one that is made once and kept: clients on other machines have a
// copy of it.
static int find_certificate(struct master *m, det_err *err)
{
    const struct tls_config *tls = &m->cfg->tls;
    if (tls->enabled == TRI_FALSE || (!tls->cert && tls->enabled == TRI_UNSET)) return 0;
    m->tls_cert = tls->cert;
    m->tls_key = tls->key;
    if (m->tls_cert) return 0;
    m->tls_cert = arena_printf(&m->arena, "%s/tls-cert.pem", m->data_dir);
    m->tls_key = arena_printf(&m->arena, "%s/tls-key.pem", m->data_dir);
    if (http_certificate_is_valid(m->tls_cert) && !access(m->tls_key, F_OK)) return 0;
    log_info("making a certificate, '%s'; clients on other machines need a copy of it",
             m->tls_cert);
    return http_make_certificate(m->tls_cert, m->tls_key, http_near_host(m->cfg->listen), err);
}

// A copy of the certificate in use, whatever becomes of the file that it was read from. Tasks see
// the directory that it is in, so they see it change; everybody else knows it by its older name.
static int publish_certificate(struct master *m, det_err *err)
{
    const char *path = arena_printf(&m->arena, "%s/public/master.pem", m->data_dir);
    const char *name = arena_printf(&m->arena, "%s/master.pem", m->data_dir);
    unlink(name);
    if (!m->tls_cert) {
        unlink(path); // of a master that had one
        return 0;
    }
    if (symlink("public/master.pem", name) < 0) return fs_fail(err, "make", name);
    struct buf pem = BUF_INIT(MAX_PEM_BYTES);
    struct fs_writer file = FS_WRITER_INIT;
    mode_t mask = umask(0022); // a certificate is no secret
    int rc = fs_read(m->tls_cert, &pem, err);
    if (!rc) rc = fs_writer_open(&file, path, err);
    if (!rc) rc = fs_writer_add(&file, pem.ptr, pem.len, err);
    if (!rc) rc = fs_writer_commit(&file, err);
    fs_writer_close(&file);
    umask(mask);
    buf_done(&pem);
    m->cert_file = path;
    return rc;
}

// --- the address

// A shim that cleans up after another one delivers to where the master is now.
static void tell_shims(const struct master *m)
{
    const char *const variables[][2] = {{"DET_MASTER", m->url},
                                        {"DET_MASTER_CERT_FILE", m->cert_file},
                                        {"DET_MASTER_CERT_NAME", m->cert_name}};
    for (size_t i = 0; i < STATIC_LEN(variables); i++)
        if (variables[i][1])
            setenv(variables[i][0], variables[i][1], 1);
        else
            unsetenv(variables[i][0]);
}

static void set_address(struct master *m)
{
    const char *host = http_near_host(m->cfg->listen), *scheme = m->tls_cert ? "https" : "http";
    int port = http_server_port(m->server);
    m->url = arena_printf(&m->arena, strchr(host, ':') ? "%s://[%s]:%d" : "%s://%s:%d", scheme,
                          host, port);
    if (m->tls_cert) {
        struct buf name = BUF_INIT(1024);
        http_certificate_name(m->tls_cert, host, &name);
        m->cert_name = arena_strdup(&m->arena, buf_str(&name).ptr);
        buf_done(&name);
    }
    tell_shims(m);
}

// --- the server

static struct http_server *listen_on(struct master *m, int port, det_err *err)
{
    struct http_server_opts opts = {.host = m->cfg->listen,
                                    .port = port,
                                    .tls_cert = m->tls_cert,
                                    .tls_key = m->tls_key,
                                    .insecure = m->cfg->insecure,
                                    .limits = settings_limits(&m->cfg->limits),
                                    .user = m,
                                    .authenticate = auth_check,
                                    .work = api_work,
                                    .otherwise = &page_route};
    opts.tables = master_tables(&opts.n_tables);
    return http_server_new(m->loop, &opts, err);
}

static int last_port(struct master *m, struct db_reader *r)
{
    const char *text;
    int64_t port;
    if (db_setting_find(r, "port", &m->arena, &text, NULL)) return 0;
    return number_to_int(str_from(text), 10, &port) ? (int)port : 0;
}

// Tasks that run on know the address of last time, so that one is tried first.
static int open_server(struct master *m, struct db_reader *r, det_err *err)
{
    int last = m->cfg->port ? 0 : last_port(m, r);
    char text[32];
    if (last) m->server = listen_on(m, last, err);
    if (!m->server) m->server = listen_on(m, (int)m->cfg->port, err);
    if (!m->server) return err->code;
    snprintf(text, sizeof text, "%d", http_server_port(m->server));
    struct db_tx *tx = db_tx_new(m->db);
    db_setting_save(tx, "port", text);
    db_tx_submit_must(tx, NULL, NULL);
    return 0;
}

int listener_open(struct master *m, struct db_reader *r, det_err *err)
{
    int rc = find_certificate(m, err);
    if (!rc) rc = open_server(m, r, err);
    if (!rc) rc = publish_certificate(m, err);
    if (!rc) set_address(m);
    return rc;
}

// --- a renewed certificate

// Tasks that run look for the name that they were told when they began.
static void compare_names(const char *before, const char *now)
{
    if (!str_eqz(str_from(before), now))
        log_warn("the new certificate is for '%s', the one before was for '%s'; tasks that run "
                 "will not trust it",
                 now, before);
}

void listener_renew(struct master *m)
{
    const char *file = m->tls_cert, *name = m->cert_name;
    det_err err;
    if (!file && !m->opts.config_file)
        log_info("signal 1: there is neither a configuration nor a certificate to read again");
    if (!file) return;
    if (http_server_renew(m->server, &err)) {
        log_error("signal 1: the certificate stays as it was: %s", err.msg);
        return;
    }
    log_info("signal 1: the certificate '%s' was read again", file);
    int rc = publish_certificate(m, &err);
    if (!rc) set_address(m);
    if (!rc) rc = local_announce(m, &err);
    if (rc)
        log_error("programs on this machine do not know the new certificate: %s", err.msg);
    else
        compare_names(name, m->cert_name);
}
