// Unit local.c: the user who starts a master is its administrator, without any password: who may
// read the file may come in.
#include "master/local.h"

#include "doc/json.h"
#include "base/mem.h"
#include "master/auth.h"
#include "sys/clock.h"
#include "sys/fs.h"
#include "sys/log.h"
#include <sys/stat.h>
#include <unistd.h>

// A change that the start of the master waits for.
struct outcome {
    int code;
    det_err err;
};

static void note(void *ctx, int code, const det_err *err)
{
    struct outcome *o = ctx;
    o->code = code;
    o->err = *err;
}

static int run(struct db *db, struct db_tx *tx, det_err *err)
{
    struct outcome o = {0};
    db_tx_submit(tx, note, &o);
    db_wait(db);
    return o.code ? det_fail(err, o.code, "%s", o.err.msg) : 0;
}

int local_first_user(struct master *m, struct db_reader *r, det_err *err)
{
    struct user row;
    if (!db_user_find(r, LOCAL_USER_ID, &m->arena, &row, err)) return 0;
    struct db_tx *tx = db_tx_new(m->db);
    row = (struct user){.id = LOCAL_USER_ID,
                        .username = "admin",
                        .admin = true,
                        .active = true,
                        .modified_us = clock_unix_us()};
    db_user_save(tx, &row);
    m->next_user = LOCAL_USER_ID + 1;
    return run(m->db, tx, err);
}

// The token of last time, if it is still good: programs that run on keep working.
static const char *old_token(struct master *m, const char *path)
{
    struct buf text = BUF_INIT(1 << 16);
    struct diag_list diags = DIAG_INIT(&m->arena);
    struct live_allocation *a;
    const char *token = NULL;
    if (!fs_read(path, &text, NULL)) {
        const struct doc *d = json_parse(&m->arena, buf_str(&text), NULL, &diags);
        const struct doc *t = doc_find(d, "token");
        if (t && t->kind == DOC_STR) token = t->text.ptr;
    }
    buf_done(&text);
    return token && session_find(m, auth_hash(m, token, &m->arena), &a) ? token : NULL;
}

static int write_file(struct master *m, const char *path, const char *token, det_err *err)
{
    struct buf text = BUF_INIT(1 << 16);
    struct json_writer w;
    struct fs_writer file;
    json_init(&w, &text, 2);
    json_open_map(&w);
    json_key(&w, "url");
    json_put_str(&w, m->url);
    json_key(&w, "token");
    json_put_str(&w, token);
    if (m->cert_file) {
        json_key(&w, "cert");
        json_put_str(&w, m->cert_file);
        json_key(&w, "certName");
        json_put_str(&w, m->cert_name);
    }
    json_key(&w, "pid");
    json_put_int(&w, getpid());
    json_close(&w);
    buf_addc(&text, '\n');
    mode_t mask = umask(0077);
    int rc = fs_writer_open(&file, path, err);
    if (!rc) rc = fs_writer_add(&file, text.ptr, text.len, err);
    if (!rc) rc = fs_writer_commit(&file, err);
    fs_writer_close(&file);
    umask(mask);
    buf_done(&text);
    return rc;
}

static const char *path_of(struct master *m)
{
    return arena_printf(&m->arena, "%s/master.json", m->data_dir);
}

struct late_file {
    struct master *master;
    const char *token;
};

static void write_late(void *ctx, int code, const det_err *why)
{
    struct late_file *f = ctx;
    det_err err = *why;
    if (!code) code = write_file(f->master, path_of(f->master), f->token, &err);
    if (code) log_error("programs on this machine do not find the master: %s", err.msg);
    free(f);
}

static void announce_later(struct master *m, const char *token, struct db_tx *tx)
{
    struct late_file *f = xmalloc(sizeof *f);
    *f = (struct late_file){m, token};
    db_tx_submit_must(tx, write_late, f);
}

static const char *new_token(struct master *m, struct db_tx *tx)
{
    const char *token = auth_new_session(m, LOCAL_USER_ID, 0, &m->arena, tx);
    memcpy(m->local_hash, auth_hash(m, token, &m->arena).ptr, sizeof m->local_hash);
    return token;
}

void local_renew(struct master *m)
{
    struct live_allocation *a;
    struct db_tx *tx;
    if (session_find(m, (struct str){(const char *)m->local_hash, sizeof m->local_hash}, &a))
        return;
    tx = db_tx_new(m->db);
    announce_later(m, new_token(m, tx), tx);
}

// A token that is announced is good, hence in the database. That may take as long as its check.
int local_announce(struct master *m, det_err *err)
{
    const char *token = old_token(m, path_of(m));
    struct db_tx *tx = NULL;
    if (token) {
        memcpy(m->local_hash, auth_hash(m, token, &m->arena).ptr, sizeof m->local_hash);
    } else {
        tx = db_tx_new(m->db);
        token = new_token(m, tx);
    }
    if (tx && db_is_checking(m->db)) {
        announce_later(m, token, tx);
        return 0;
    }
    int rc = tx ? run(m->db, tx, err) : 0;
    return rc ? rc : write_file(m, path_of(m), token, err);
}
