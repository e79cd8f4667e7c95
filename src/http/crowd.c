// Unit crowd.c: counts connections by who has them. Called by server.c.
#include "http/crowd.h"

#include "base/assert.h"
#include "base/mem.h"
#include "sys/entropy.h"

struct crowd_owner {
    enum owner_kind kind;
    char name[64]; // an address, or the number of a user
    int n;
    struct seat *first, *last;
    struct crowd_owner *next; // in the bucket
};

int crowd_init(struct crowd *crowd, const struct http_limits *limits, det_err *err)
{
    *crowd = (struct crowd){.limits = *limits};
    return entropy_read(&crowd->key, sizeof crowd->key, err);
}

// --- owners

static struct crowd_owner **bucket_of(struct crowd *crowd, enum owner_kind kind, const char *name)
{
    uint64_t hash = hash_bytes(&crowd->key, name, strlen(name)) + (uint64_t)kind;
    return &crowd->owners[hash % CROWD_BUCKETS];
}

static struct crowd_owner *find_or_add(struct crowd *crowd, enum owner_kind kind, const char *name)
{
    struct crowd_owner **bucket = bucket_of(crowd, kind, name), *o = *bucket;
    while (o && (o->kind != kind || strcmp(o->name, name) != 0))
        o = o->next;
    if (o) return o;
    o = xcalloc(1, sizeof *o);
    o->kind = kind;
    snprintf(o->name, sizeof o->name, "%s", name);
    o->next = *bucket;
    *bucket = o;
    return o;
}

static void remove_if_empty(struct crowd *crowd, struct crowd_owner *o)
{
    if (o->n) return;
    struct crowd_owner **at = bucket_of(crowd, o->kind, o->name);
    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    free(o);
}

// --- seats: into and out of the lists of their owner and of all anonymous ones

static void link_anonymous(struct crowd *crowd, struct seat *s)
{
    s->before_anonymous = crowd->last_anonymous;
    s->after_anonymous = NULL;
    *(s->before_anonymous ? &s->before_anonymous->after_anonymous : &crowd->first_anonymous) = s;
    crowd->last_anonymous = s;
}

static void unlink_anonymous(struct crowd *crowd, struct seat *s)
{
    *(s->before_anonymous ? &s->before_anonymous->after_anonymous : &crowd->first_anonymous) =
        s->after_anonymous;
    *(s->after_anonymous ? &s->after_anonymous->before_anonymous : &crowd->last_anonymous) =
        s->before_anonymous;
}

static void sit(struct crowd *crowd, struct seat *s, struct crowd_owner *o)
{
    s->owner = o;
    s->before = o->last;
    s->after = NULL;
    *(s->before ? &s->before->after : &o->first) = s;
    o->last = s;
    o->n++;
    crowd->n_of[o->kind]++;
    if (o->kind == OWNER_NETWORK) link_anonymous(crowd, s);
}

static void stand_up(struct crowd *crowd, struct seat *s)
{
    struct crowd_owner *o = s->owner;
    if (!o) return;
    *(s->before ? &s->before->after : &o->first) = s->after;
    *(s->after ? &s->after->before : &o->last) = s->before;
    s->owner = NULL;
    o->n--;
    crowd->n_of[o->kind]--;
    if (o->kind == OWNER_NETWORK) unlink_anonymous(crowd, s);
    remove_if_empty(crowd, o);
}

// --- what happens to connections

// Who waits for an answer goes last.
static struct seat *quietest_of(const struct crowd_owner *o)
{
    for (struct seat *s = o->first; s; s = s->after)
        if (!s->is_busy) return s;
    return o->first;
}

static struct seat *quietest_anonymous(const struct crowd *crowd)
{
    for (struct seat *s = crowd->first_anonymous; s; s = s->after_anonymous)
        if (!s->is_busy) return s;
    return crowd->first_anonymous;
}

struct seat *crowd_enter(struct crowd *crowd, struct seat *seat, const char *network)
{
    const struct http_limits *max = &crowd->limits;
    struct crowd_owner *o = find_or_add(crowd, OWNER_NETWORK, network);
    struct seat *out = NULL;
    *seat = (struct seat){0};
    sit(crowd, seat, o);
    crowd->n++;
    if (o->n > max->per_address)
        out = quietest_of(o);
    else if (crowd->n_of[OWNER_NETWORK] > max->connections - max->reserve ||
             crowd->n > max->connections)
        out = quietest_anonymous(crowd);
    if (out == seat && o->n <= max->per_address) out = NULL; // it may be one that has no limit
    if (out) stand_up(crowd, out);
    return out;
}

void crowd_leave(struct crowd *crowd, struct seat *seat)
{
    stand_up(crowd, seat);
    crowd->n--;
}

void crowd_set_busy(struct crowd *crowd, struct seat *seat, bool is_busy)
{
    struct crowd_owner *o = seat->owner;
    seat->is_busy = is_busy;
    if (!o || is_busy) return;
    if (seat != o->last) { // so it is not the only one, and its owner stays
        stand_up(crowd, seat);
        sit(crowd, seat, o);
    } else if (o->kind == OWNER_NETWORK) {
        unlink_anonymous(crowd, seat);
        link_anonymous(crowd, seat);
    }
}

int crowd_claim(struct crowd *crowd, struct seat *seat, int64_t user, bool unlimited, det_err *err)
{
    const struct http_limits *max = &crowd->limits;
    enum owner_kind kind = unlimited ? OWNER_UNLIMITED : OWNER_USER;
    char name[32];
    snprintf(name, sizeof name, "%lld", (long long)user);
    if (!seat->owner) return det_fail(err, DET_EBUSY, "the connection is being closed");
    if (seat->owner->kind == kind && !strcmp(seat->owner->name, name)) return 0;
    stand_up(crowd, seat);
    sit(crowd, seat, find_or_add(crowd, kind, name));
    if (unlimited) return 0;
    if (seat->owner->n > max->per_user)
        return det_fail(err, DET_EBUSY, "the user has %d connections, more than anybody may have",
                        seat->owner->n);
    if (crowd->n_of[OWNER_USER] > max->connections - max->reserve)
        return det_fail(err, DET_EBUSY, "there are too many connections; try again later");
    return 0;
}
