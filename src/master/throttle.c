// Unit throttle.c: counts guesses at passwords. Called by api_user.c, in the loop's thread.
#include "master/throttle.h"

#include "base/assert.h"
#include "base/mem.h"
#include <string.h>

enum { N_COUNTS = 16384, N_KNOWN = 4096 };

static const int64_t window_us = 60 * 1000000;

// Guesses within a window that begins with the first one.
struct throttle_count {
    int64_t since_us;
    int n;
};

struct known {
    uint64_t pair; // 0: none
    struct throttle_count count;
};

struct throttle {
    struct hash_key key;
    struct throttle_count names[N_COUNTS], addresses[N_COUNTS];
    struct known known[N_KNOWN];
};

struct throttle *throttle_new(const struct hash_key *key)
{
    struct throttle *t = xcalloc(1, sizeof *t);
    t->key = *key;
    return t;
}

void throttle_free(struct throttle *t)
{
    free(t);
}

static uint64_t hash_text(const struct throttle *t, const char *text)
{
    return hash_bytes(&t->key, text, strlen(text));
}

static bool has_room(struct throttle_count *c, int max, int64_t now_us, int64_t *wait_us)
{
    if (now_us - c->since_us >= window_us) *c = (struct throttle_count){0, 0};
    if (c->n < max) return true;
    *wait_us = MAX(*wait_us, c->since_us + window_us - now_us);
    return false;
}

static void count(struct throttle_count *c, int64_t now_us)
{
    if (!c->n) c->since_us = now_us;
    c->n++;
}

bool throttle_take(struct throttle *t, const char *name, const char *address, int64_t now_us,
                   struct guess *out, int64_t *wait_us)
{
    const uint64_t parts[] = {hash_text(t, name), hash_text(t, address)};
    struct throttle_count *of_name = &t->names[parts[0] % N_COUNTS];
    struct throttle_count *of_address = &t->addresses[parts[1] % N_COUNTS];
    *out = (struct guess){.pair = hash_bytes(&t->key, parts, sizeof parts) | 1};
    *wait_us = 0;
    struct known *known = &t->known[out->pair / 2 % N_KNOWN];
    bool name_has = has_room(of_name, THROTTLE_NAME, now_us, wait_us);
    if (has_room(of_address, THROTTLE_ADDRESS, now_us, wait_us) && name_has) {
        out->counted[0] = of_name;
        out->counted[1] = of_address;
    } else if (known->pair == out->pair &&
               has_room(&known->count, THROTTLE_KNOWN, now_us, wait_us)) {
        out->counted[0] = &known->count;
    }
    for (size_t i = 0; i < STATIC_LEN(out->counted) && out->counted[i]; i++)
        count(out->counted[i], now_us);
    return out->counted[0];
}

void throttle_was_right(struct throttle *t, const struct guess *guess)
{
    struct known *known = &t->known[guess->pair / 2 % N_KNOWN];
    for (size_t i = 0; i < STATIC_LEN(guess->counted) && guess->counted[i]; i++)
        if (guess->counted[i]->n) guess->counted[i]->n--;
    if (known->pair != guess->pair) *known = (struct known){.pair = guess->pair};
}
