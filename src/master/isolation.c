// Unit isolation.c: the kinds of sandboxes that work here, and which one is in force. Called when
// the master starts, when a task starts, and by who wants to know.
#include "master/isolation.h"

#include "base/assert.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/number.h"
#include "master/confine.h"
#include "sys/log.h"

enum { N_MODES = SANDBOX_USERS + 1 };

// --- what works

// A sandbox like that of a task.
static int try_mode(struct master *m, enum sandbox_mode mode, det_err *err)
{
    const char *work = arena_printf(&m->arena, "%s/work", m->data_dir);
    struct sandbox_mount mount = {.host = work, .path = work};
    struct sandbox s = {.mode = mode, .uid = 65534, .gid = 65534};
    s.hidden.items = (const char *[]){m->data_dir};
    s.hidden.n = 1;
    s.covered.items = (const char *[]){"/home", "/root"};
    s.covered.n = 2;
    s.mounts.items = &mount;
    s.mounts.n = 1;
    if (mode == SANDBOX_NONE) return det_ok(err);
    return sandbox_try(&s, err);
}

static void note_refusal(struct isolation *i, enum sandbox_mode mode, const det_err *why)
{
    i->works[mode] = false;
    snprintf(i->why[mode], sizeof i->why[mode], "%s", why->msg);
}

// Strict is private and more: where it works, private does.
static int try_modes(struct master *m, det_err *err)
{
    struct isolation *i = m->isolation;
    det_err why = {0};
    for (int mode = 0; mode < N_MODES; mode++)
        i->works[mode] = true; // until it does not
    if (i->asked != ISOLATION_DEFAULT) {
        int rc = try_mode(m, (enum sandbox_mode)i->asked, &why);
        return rc ? det_fail(err, rc, "isolation: %s does not work here: %s",
                             sandbox_mode_names[i->asked], why.msg)
                  : 0;
    }
    if (!try_mode(m, SANDBOX_STRICT, &why)) return 0;
    note_refusal(i, SANDBOX_STRICT, &why);
    if (try_mode(m, SANDBOX_PRIVATE, &why)) note_refusal(i, SANDBOX_PRIVATE, &why);
    return 0;
}

// --- limits

static int find_limits(struct master *m, det_err *err)
{
    struct isolation *i = m->isolation;
    const struct hash_key plain = {{0}};
    if (!m->cfg->task_memory.value && !m->cfg->task_processes.value) return 0;
    const char *name =
        arena_printf(&m->arena, TASK_CGROUP_PREFIX "%016llx",
                     (unsigned long long)hash_bytes(&plain, m->data_dir, strlen(m->data_dir)));
    limits_find(name, &m->arena, &i->limits);
    if (m->cfg->task_processes.value && i->limits.processes == LIMITS_NONE)
        return det_fail(err, DET_EUNSUPPORTED,
                        "task_processes does not work here: the kernel does not limit root, and "
                        "there are no cgroups that can be written");
    return 0;
}

void isolation_explain_limits(const struct master *m, struct buf *memory, struct buf *processes)
{
    const struct isolation *i = m->isolation;
    if (m->cfg->task_memory.value)
        buf_printf(memory, "%lld bytes, by %s", (long long)m->cfg->task_memory.value,
                   limits_means_names[i->limits.memory]);
    else
        buf_addz(memory, "not limited; see task_memory in the configuration of the master");
    if (m->cfg->task_processes.value)
        buf_printf(processes, "%lld, by %s", (long long)m->cfg->task_processes.value,
                   limits_means_names[i->limits.processes]);
    else
        buf_addz(processes, "not limited; see task_processes in the configuration of the master");
}

// --- what is in force

static enum sandbox_mode wanted_mode(const struct master *m)
{
    const struct isolation *i = m->isolation;
    if (i->asked != ISOLATION_DEFAULT) return (enum sandbox_mode)i->asked;
    return i->users.n > 1 ? SANDBOX_STRICT : SANDBOX_PRIVATE;
}

enum sandbox_mode isolation_mode(const struct master *m)
{
    const struct isolation *i = m->isolation;
    enum sandbox_mode mode = wanted_mode(m);
    while (!i->works[mode])
        mode--; // none works always
    return mode;
}

void isolation_explain(const struct master *m, struct buf *out)
{
    enum sandbox_mode wanted = wanted_mode(m), mode = isolation_mode(m);
    if (wanted == mode) return;
    buf_printf(out, "tasks should be isolated as with isolation: %s, but they are as with %s: %s",
               sandbox_mode_names[wanted], sandbox_mode_names[mode], m->isolation->why[wanted]);
}

static void say(struct master *m)
{
    struct buf text = BUF_INIT(4096);
    isolation_explain(m, &text);
    if (text.len) log_warn("%s", text.ptr);
    log_info("isolation of tasks: %s", sandbox_mode_names[isolation_mode(m)]);
    buf_done(&text);
}

// By what they are kept depends on the machine.
static void say_limits(struct master *m)
{
    struct buf memory = BUF_INIT(4096), processes = BUF_INIT(4096);
    isolation_explain_limits(m, &memory, &processes);
    if (m->cfg->task_memory.value) log_info("memory of a task: %s", memory.ptr);
    if (m->cfg->task_processes.value) log_info("processes of a task: %s", processes.ptr);
    buf_done(&memory);
    buf_done(&processes);
}

int isolation_open(struct master *m, det_err *err)
{
    m->isolation = xcalloc(1, sizeof *m->isolation);
    m->isolation->asked = m->cfg->isolation == ISOLATION_BY_USERS
                              ? ISOLATION_DEFAULT
                              : (int)(SANDBOX_NONE + (m->cfg->isolation - ISOLATION_NONE));
    int rc = try_modes(m, err);
    if (!rc) rc = find_limits(m, err);
    if (!rc) confine_find_places(m);
    return rc;
}

// --- users

static void forget_user(struct known_user *u)
{
    if (!u) return;
    free(u->username);
    free(u);
}

void isolation_close(struct master *m)
{
    if (!m->isolation) return;
    for (size_t k = 0; k < m->isolation->users.n; k++)
        forget_user(m->isolation->users.items[k].value);
    set_done(&m->isolation->users);
    free(m->isolation);
}

const struct known_user *isolation_user(const struct master *m, int64_t id)
{
    return set_find(&m->isolation->users, id);
}

bool isolation_knows(const struct master *m, int64_t user_id)
{
    return isolation_user(m, user_id);
}

void isolation_note_user(struct master *m, const struct user *row)
{
    struct isolation *i = m->isolation;
    struct known_user *u = set_find(&i->users, row->id);
    enum sandbox_mode before = isolation_mode(m);
    if (!u) {
        u = xcalloc(1, sizeof *u);
        set_add(&i->users, row->id, u);
    }
    free(u->username);
    u->username = xstrdup(row->username);
    u->is_admin = row->admin;
    if (isolation_mode(m) != before && i->is_open) say(m);
}

// "<uid> <gid>"
static const char *link_setting(struct arena *arena, int64_t user_id)
{
    return arena_printf(arena, "agent_user.%lld", (long long)user_id);
}

static void read_link(struct master *m, struct db_reader *r, int64_t user_id, struct arena *arena)
{
    struct known_user *u = set_find(&m->isolation->users, user_id);
    const char *text;
    if (db_setting_find(r, link_setting(arena, user_id), arena, &text, NULL)) return;
    struct str rest = str_from(text);
    number_to_int(str_cut(&rest, ' '), 10, &u->link.uid);
    number_to_int(rest, 10, &u->link.gid);
}

int isolation_read_users(struct master *m, struct db_reader *r, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct db_list list = {0};
    int rc = db_users_list(r, NULL, &arena, &list, err);
    for (size_t k = 0; !rc && k < list.n; k++) {
        const struct user *row = &((const struct user *)list.items)[k];
        isolation_note_user(m, row);
        read_link(m, r, row->id, &arena);
    }
    arena_done(&arena);
    if (rc) return rc;
    m->isolation->is_open = true;
    say(m);
    say_limits(m);
    return 0;
}

int isolation_find_link(const struct master *m, int64_t user_id, struct agent_user *out,
                        det_err *err)
{
    const struct known_user *u = isolation_user(m, user_id);
    if (!u) return det_fail(err, DET_ENOTFOUND, "there is no user %lld", (long long)user_id);
    if (!u->link.uid)
        return det_fail(err, DET_ENOTFOUND,
                        "user '%s' is linked with no Unix user; tasks run as the one of that name",
                        u->username);
    *out = u->link;
    return 0;
}

void isolation_link(struct master *m, int64_t user_id, const struct agent_user *link,
                    struct db_tx *tx)
{
    struct arena arena = ARENA_INIT;
    struct known_user *u = set_find(&m->isolation->users, user_id);
    char text[64] = "0 0";
    if (link) snprintf(text, sizeof text, "%lld %lld", (long long)link->uid, (long long)link->gid);
    if (u) u->link = link ? *link : (struct agent_user){0};
    db_setting_save(tx, link_setting(&arena, user_id), text);
    arena_done(&arena);
}
