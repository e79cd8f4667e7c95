// Unit privileges.c: what a process may do, given up for good. Called by box.c.
#include "sandbox/box.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

bool privileges_are_full(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    if (syscall(SYS_capget, &head, data) < 0) return false;
    const uint32_t needed = 1u << CAP_SYS_ADMIN | 1u << CAP_SYS_CHROOT | 1u << CAP_SETPCAP;
    return geteuid() == 0 && (data[0].effective & needed) == needed;
}

int privileges_set_groups(const struct sandbox *s)
{
    gid_t groups[SANDBOX_MAX_GROUPS];
    if (s->mode != SANDBOX_USERS) return 0;
    if (s->groups.n > SANDBOX_MAX_GROUPS) return EINVAL;
    for (size_t i = 0; i < s->groups.n; i++)
        groups[i] = (gid_t)s->groups.items[i];
    return setgroups(s->groups.n, groups) < 0 ? errno : 0;
}

static int become_user(const struct sandbox *s)
{
    int error = privileges_set_groups(s);
    if (error || s->mode != SANDBOX_USERS) return error;
    gid_t gid = (gid_t)s->gid;
    uid_t uid = (uid_t)s->uid;
    return setresgid(gid, gid, gid) || setresuid(uid, uid, uid) ? errno : 0;
}

// A program gets no more by being run than what the bounding set has, root's and setuid ones
// included; and no_new_privs takes from the latter even their user.
int privileges_drop(const struct sandbox *s, const char **what)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[2] = {{0}};
    const unsigned long locked = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                                 SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    *what = "give up capabilities";
    for (unsigned long cap = 0; cap < 64; cap++)
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL) return errno;
    if (prctl(PR_SET_SECUREBITS, locked, 0, 0, 0) < 0) return errno;
    *what = "become the task's user";
    int error = become_user(s);
    if (error) return error;
    *what = "give up capabilities";
    if (syscall(SYS_capset, &head, none) < 0) return errno;
    *what = "refuse new privileges";
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? errno : 0;
}
