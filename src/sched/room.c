// Unit room.c: picks agents for a request. Called by the policies. Knows nothing of order or
// shares.
#include "sched/room.h"

#include "base/assert.h"
#include "base/rng.h"

// Slots, or the one auxiliary place.
static int request_need(const struct sched_request *request)
{
    return MAX(request->n_slots, 1);
}

static int place_size(struct sched_place place)
{
    return MAX(place.n_slots, 1);
}

void room_init(struct room *room, const struct sched_view *view, bool aux, struct arena *arena)
{
    size_t n = view->n_agents;
    *room = (struct room){
        .view = view,
        .aux = aux,
        .agents = arena_array(arena, n, sizeof *room->agents),
        .candidates = arena_array(arena, n, sizeof *room->candidates),
        .places = arena_array(arena, n, sizeof *room->places),
    };
    for (size_t i = 0; i < n; i++)
        room->agents[i].total = aux ? view->agents[i].n_aux : view->agents[i].n_slots;
    for (size_t i = 0; i < view->n_requests; i++) {
        const struct sched_request *r = &view->requests[i];
        if (r->state == SCHED_PENDING || (r->n_slots == 0) != aux) continue;
        room_take(room, r->places, r->n_places);
        if (r->state == SCHED_STOPPING) room_leave(room, r);
    }
}

void room_take(struct room *room, const struct sched_place *places, size_t n)
{
    for (size_t i = 0; i < n; i++)
        room->agents[places[i].agent].used += place_size(places[i]);
}

void room_hold(struct room *room, const struct sched_place *places, size_t n)
{
    for (size_t i = 0; i < n; i++)
        room->agents[places[i].agent].held += place_size(places[i]);
}

void room_leave(struct room *room, const struct sched_request *running)
{
    for (size_t i = 0; i < running->n_places; i++)
        room->agents[running->places[i].agent].leaving += place_size(running->places[i]);
}

void room_return(struct room *room, const struct sched_request *running)
{
    for (size_t i = 0; i < running->n_places; i++)
        room->agents[running->places[i].agent].leaving -= place_size(running->places[i]);
}

// A held slot need not be free yet: who takes room now must leave enough of what comes free later.
static int available(const struct room_agent *a, enum room_when when)
{
    int freed = a->total - (a->used - a->leaving) - a->held;
    switch (when) {
    case ROOM_NOW:
        return MAX(0, MIN(a->total - a->used, freed));
    case ROOM_FREED:
        return MAX(0, freed);
    case ROOM_IDLE:
        return MAX(0, a->total - a->held);
    case ROOM_EVER:
        return a->total;
    }
    return 0;
}

static bool is_allowed(const struct room *room, const struct sched_request *request, int agent)
{
    if (room->view->agents[agent].draining) return false;
    for (size_t i = 0; i < request->n_excluded; i++)
        if (request->excluded[i] == agent) return false;
    return true;
}

// Between equal agents a request always prefers the same one, but not all requests the same one.
static uint64_t preference(const struct room *room, const struct sched_request *request, int agent)
{
    return rng_u64((uint64_t)request->id, 0, (uint64_t)room->view->agents[agent].id);
}

// Which of two agents with enough room is the better one? When others have to end first, the one
// that will have room soonest; so a request that waits goes on waiting for the same agent.
static bool is_better(const struct room *room, const struct sched_request *request,
                      enum room_when when, int a, int b)
{
    const struct room_agent *x = &room->agents[a], *y = &room->agents[b];
    if (when == ROOM_IDLE) {
        int soon_a = available(x, ROOM_FREED), soon_b = available(y, ROOM_FREED);
        if (soon_a != soon_b) return soon_a > soon_b;
    } else if (room->view->fitting == SCHED_FIT_BEST) {
        int free_a = available(x, when), free_b = available(y, when);
        if (free_a != free_b) return free_a < free_b;
    } else {
        int64_t part_a = (int64_t)available(x, when) * y->total;
        int64_t part_b = (int64_t)available(y, when) * x->total;
        if (part_a != part_b) return part_a > part_b;
    }
    uint64_t like_a = preference(room, request, a), like_b = preference(room, request, b);
    return like_a != like_b ? like_a > like_b : a < b;
}

static size_t fit_one(struct room *room, const struct sched_request *request, enum room_when when)
{
    int need = request_need(request), best = -1;
    for (int i = 0; i < (int)room->view->n_agents; i++) {
        if (!is_allowed(room, request, i) || available(&room->agents[i], when) < need) continue;
        if (best < 0 || is_better(room, request, when, i, best)) best = i;
    }
    if (best < 0) return 0;
    room->places[0] = (struct sched_place){best, request->n_slots};
    return 1;
}

// Agents that are wholly available, the largest first, the better first among equals. Insertion
// sort: there are few, and mostly none.
static int list_idle(struct room *room, const struct sched_request *request, enum room_when when)
{
    int n = 0;
    for (int i = 0; i < (int)room->view->n_agents; i++) {
        int total = room->agents[i].total;
        if (!is_allowed(room, request, i) || !total) continue;
        if (available(&room->agents[i], when) < total) continue;
        int at = n++;
        for (; at > 0; at--) {
            int before = room->candidates[at - 1], size = room->agents[before].total;
            if (size > total || (size == total && !is_better(room, request, when, i, before)))
                break;
            room->candidates[at] = before;
        }
        room->candidates[at] = i;
    }
    return n;
}

// Takes whole agents as long as they are not too many; 0: there is a rest that fits none.
static size_t fill_whole(struct room *room, const int *agents, int n, int need)
{
    size_t n_places = 0;
    for (int i = 0; i < n && need > 0; i++) {
        int size = room->agents[agents[i]].total;
        if (size > need) continue;
        room->places[n_places++] = (struct sched_place){agents[i], size};
        need -= size;
    }
    return need == 0 ? n_places : 0;
}

static size_t fit_several(struct room *room, const struct sched_request *request,
                          enum room_when when)
{
    int need = request->n_slots, n = list_idle(room, request, when), n_equal;
    for (int i = 0; i < n; i += n_equal) {
        int size = room->agents[room->candidates[i]].total;
        for (n_equal = 1; i + n_equal < n; n_equal++)
            if (room->agents[room->candidates[i + n_equal]].total != size) break;
        size_t n_places = fill_whole(room, room->candidates + i, n_equal, need);
        if (n_places) return n_places;
    }
    return room->view->heterogeneous ? fill_whole(room, room->candidates, n, need) : 0;
}

size_t room_fit(struct room *room, const struct sched_request *request, enum room_when when)
{
    size_t n = fit_one(room, request, when);
    if (n || request->one_agent || request->n_slots <= 1) return n;
    return fit_several(room, request, when);
}

int room_largest(const struct room *room, const struct sched_request *request, enum room_when when)
{
    int most = 0, idle = 0;
    for (int i = 0; i < (int)room->view->n_agents; i++) {
        if (!is_allowed(room, request, i)) continue;
        int here = available(&room->agents[i], when);
        most = MAX(most, here);
        if (here == room->agents[i].total) idle += here;
    }
    return request->one_agent ? most : MAX(most, idle);
}
