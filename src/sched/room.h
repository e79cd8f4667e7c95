// sched/room.h: how much room the agents have, and where a request fits. Private to the layer.
//   room_init  room_fit  room_take  room_hold  room_leave  room_return  room_largest
#pragma once

#include "sched/sched.h"

// Of one agent, in slots or in auxiliary places.
struct room_agent {
    int total;
    int used;    // by what runs, stops, or starts in this pass
    int leaving; // the part of used that stops
    int held;    // for requests that wait for it
};

struct room {
    const struct sched_view *view;
    bool aux; // counts auxiliary places
    struct room_agent *agents;
    int *candidates; // scratch of room_fit
    struct sched_place *places;
};

// When the room is wanted, from the strictest to the most patient.
enum room_when {
    ROOM_NOW,
    ROOM_FREED, // when what is stopping has stopped
    ROOM_IDLE,  // when everything has ended
    ROOM_EVER,  // if nothing else, and nobody waiting, was there
};

// With the places of everything that runs or stops taken.
void room_init(struct room *room, const struct sched_view *view, bool aux, struct arena *arena);

// Where request fits; returns the number of places (valid until the next call), 0: nowhere.
size_t room_fit(struct room *room, const struct sched_request *request, enum room_when when);

void room_take(struct room *room, const struct sched_place *places, size_t n);
void room_hold(struct room *room, const struct sched_place *places, size_t n);
void room_leave(struct room *room, const struct sched_request *running);
void room_return(struct room *room, const struct sched_request *running); // undoes room_leave

// The most that a request could get: of one agent, or of all that are idle.
int room_largest(const struct room *room, const struct sched_request *request, enum room_when when);
