// Unit sessions.c: users and their sessions, all of them in memory, so that finding out who calls
// reads nothing. They are few: only administrators make users, and a user who logs in over and over
// again ends the oldest session each time.
#include "master/auth.h"

#include "base/mem.h"
#include "sys/clock.h"
#include "sys/log.h"
#include <sodium.h>

enum { N_BUCKETS = 4096, MAX_SESSIONS = 1000 }; // of a user, without those of tasks

struct live_session {
    uint8_t hash[AUTH_HASH_BYTES];
    struct session row;                 // without allocation_id
    struct live_allocation *allocation; // of a task; NULL: of a user
    struct live_session *next;          // in the bucket
    struct live_session *older, *newer; // of the same user, if it expires
};

struct sessions {
    struct live_session *buckets[N_BUCKETS];
};

struct live_user {
    struct user row;
    struct arena arena; // of the row's texts
    struct live_session *oldest, *newest;
    int n_sessions;
};

// --- users

const struct user *user_find(const struct master *m, int64_t id)
{
    const struct live_user *u = set_find(&m->users, id);
    return u ? &u->row : NULL;
}

void user_put(struct master *m, const struct user *row)
{
    struct live_user *u = set_find(&m->users, row->id);
    if (!u) {
        u = xcalloc(1, sizeof *u);
        set_add(&m->users, row->id, u);
    }
    struct arena arena = ARENA_INIT; // the row may be the one that is replaced
    struct user copy = *row;
    copy.username = arena_strdup(&arena, row->username);
    if (row->display_name) copy.display_name = arena_strdup(&arena, row->display_name);
    arena_done(&u->arena);
    u->arena = arena;
    u->row = copy;
}

// --- sessions: hashes are keyed, so nobody can choose ones that meet in a bucket

static struct live_session **place_of(const struct master *m, const void *hash)
{
    uint32_t first;
    memcpy(&first, hash, sizeof first);
    struct live_session **at = &m->sessions->buckets[first % N_BUCKETS];
    while (*at && sodium_memcmp((*at)->hash, hash, AUTH_HASH_BYTES) != 0)
        at = &(*at)->next;
    return at;
}

static void link_user(struct live_user *u, struct live_session *s)
{
    s->older = u->newest;
    *(u->newest ? &u->newest->newer : &u->oldest) = s;
    u->newest = s;
    u->n_sessions++;
}

static void unlink_user(struct live_user *u, struct live_session *s)
{
    *(s->older ? &s->older->newer : &u->oldest) = s->newer;
    *(s->newer ? &s->newer->older : &u->newest) = s->older;
    u->n_sessions--;
}

// The user in whose list a session is. The one in master.json, which does not end by itself, and
// those of tasks are in none.
static struct live_user *owner_of(const struct master *m, const struct live_session *s)
{
    return s->allocation || !s->row.expires_us ? NULL : set_find(&m->users, s->row.user_id);
}

static void forget(struct master *m, struct live_session **at)
{
    struct live_session *s = *at;
    struct live_user *u = owner_of(m, s);
    if (u) unlink_user(u, s);
    if (s->allocation) s->allocation->session = NULL;
    *at = s->next;
    free(s);
}

struct live_session *session_add(struct master *m, struct str hash, const struct session *row,
                                 struct live_allocation *a)
{
    struct live_session *s = xcalloc(1, sizeof *s), **at = place_of(m, hash.ptr);
    memcpy(s->hash, hash.ptr, sizeof s->hash);
    s->row = *row;
    s->row.allocation_id = NULL;
    s->allocation = a;
    if (*at) forget(m, at); // it is the same one
    s->next = *at;
    *at = s;
    struct live_user *u = owner_of(m, s);
    if (u) link_user(u, s);
    if (a) a->session = s;
    return s;
}

const struct session *session_find(const struct master *m, struct str hash,
                                   struct live_allocation **allocation)
{
    const struct live_session *s = *place_of(m, hash.ptr);
    *allocation = s ? s->allocation : NULL;
    return s ? &s->row : NULL;
}

void session_end(struct master *m, struct str hash, struct db_tx *tx)
{
    struct live_session **at = place_of(m, hash.ptr);
    if (*at) forget(m, at);
    if (tx) db_session_delete(tx, hash);
}

void session_end_oldest(struct master *m, int64_t user_id, struct db_tx *tx)
{
    struct live_user *u = set_find(&m->users, user_id);
    while (u && u->n_sessions >= MAX_SESSIONS)
        session_end(m, (struct str){(const char *)u->oldest->hash, AUTH_HASH_BYTES}, tx);
}

static void forget_if(struct master *m, bool (*is_over)(const struct live_session *s, int64_t x),
                      int64_t x)
{
    for (size_t i = 0; i < N_BUCKETS; i++)
        for (struct live_session **at = &m->sessions->buckets[i]; *at;)
            if (is_over(*at, x))
                forget(m, at);
            else
                at = &(*at)->next;
}

static bool is_of_user(const struct live_session *s, int64_t user_id)
{
    return !s->allocation && s->row.user_id == user_id;
}

static bool has_expired(const struct live_session *s, int64_t now_us)
{
    return s->row.expires_us && s->row.expires_us <= now_us;
}

void sessions_end_of_user(struct master *m, int64_t user_id, struct db_tx *tx)
{
    forget_if(m, is_of_user, user_id);
    db_sessions_delete_of_user(tx, user_id);
}

void sessions_end_expired(struct master *m, struct db_tx *tx)
{
    int64_t now = clock_unix_us();
    forget_if(m, has_expired, now);
    db_sessions_delete_expired(tx, now);
}

static void show_session(struct session_shown *out, const struct live_session *s, struct arena *a)
{
    sodium_bin2hex(out->id, sizeof out->id, s->hash, (sizeof out->id - 1) / 2);
    out->row = s->row;
    out->hash =
        (struct str){arena_strndup(a, (const char *)s->hash, sizeof s->hash), sizeof s->hash};
}

struct session_shown *sessions_list(const struct master *m, int64_t user_id, struct arena *a,
                                    size_t *n)
{
    size_t n_all = 0;
    for (size_t i = 0; i < m->users.n; i++)
        n_all += (size_t)((const struct live_user *)m->users.items[i].value)->n_sessions;
    struct session_shown *out = arena_array(a, n_all + 1, sizeof *out);
    *n = 0;
    for (size_t i = 0; i < m->users.n; i++) {
        const struct live_user *u = m->users.items[i].value;
        if (user_id && u->row.id != user_id) continue;
        for (const struct live_session *s = u->oldest; s; s = s->newer)
            show_session(&out[(*n)++], s, a);
    }
    return out;
}

void auth_forget_session(struct master *m, struct live_allocation *a)
{
    if (a->session) forget(m, place_of(m, a->session->hash));
}

// --- the beginning and the end

static void add_stored(struct master *m, const struct stored_session *s)
{
    const struct live_trial *t = set_find(&m->trials, s->row.trial_id);
    struct live_allocation *a = t ? t->allocation : NULL;
    if (!s->row.allocation_id)
        session_add(m, s->hash, &s->row, NULL);
    else if (a && str_eqz(str_from(s->row.allocation_id), a->row.id))
        session_add(m, s->hash, &s->row, a);
}

int sessions_load(struct master *m, struct db_reader *r, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct db_list users = {0}, sessions = {0};
    int rc = db_users_list(r, NULL, &arena, &users, err);
    if (!rc) rc = db_sessions_list(r, &arena, &sessions, err);
    const struct user *rows = users.items;
    for (size_t i = 0; !rc && i < users.n; i++)
        user_put(m, &rows[i]);
    const struct stored_session *stored = sessions.items;
    for (size_t i = 0; !rc && i < sessions.n; i++)
        add_stored(m, &stored[i]);
    arena_done(&arena);
    return rc;
}

void sessions_open(struct master *m)
{
    m->sessions = xcalloc(1, sizeof *m->sessions);
}

static bool is_any(const struct live_session *s, int64_t x)
{
    (void)s, (void)x;
    return true;
}

void sessions_close(struct master *m)
{
    if (!m->sessions) return;
    forget_if(m, is_any, 0);
    free(m->sessions);
    for (size_t i = 0; i < m->users.n; i++) {
        struct live_user *u = m->users.items[i].value;
        arena_done(&u->arena);
        free(u);
    }
    set_done(&m->users);
}
