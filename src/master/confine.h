// master/confine.h: what isolation.c and confine.c share. Private to both.
#pragma once

#include "master/isolation.h"

enum { ISOLATION_DEFAULT = -1 };

struct known_user {
    char *username;
    bool is_admin;
    struct agent_user link; // uid 0: none
};

struct isolation {
    int asked; // enum sandbox_mode, or ISOLATION_DEFAULT
    bool works[SANDBOX_USERS + 1];
    char why[SANDBOX_USERS + 1][512]; // it does not
    struct limits_place limits;
    struct set users; // of struct known_user, by id
    bool is_open;
    // Places on this machine; NULL: there is none.
    const char *home;               // of the master's own Unix user
    const char *config;             // where the tokens of those who logged in are
    const char *secrets[5];         // files and directories elsewhere that tasks must not read
    const char *programs, *headers; // of det itself
};

const struct known_user *isolation_user(const struct master *m, int64_t id); // NULL: unknown

void confine_find_places(struct master *m);
