// db/chunk.h: a chunk of a log: some lines of one trial in a row, packed. Private to the layer.
//
// A log is a list of chunks instead of a row for each line: it takes a fifth of its text on disk,
// and to write a megabyte of it is a few statements. What a reader filters by is kept beside the
// packed lines, so that chunks without a match are passed over.
//
// Packed lines are a byte that says how (plain or zstd), then: the different heads that lines have
// (level, rank, where from), and for each line the distance of its number and of its time from the
// line before, its head and its text, each of these in a column of its own, because like compresses
// well with like.
#pragma once

#include "base/arena.h"
#include "entity/entity.h"
#include <stdint.h>

enum {
    CHUNK_BYTES = 64 << 10,      // of text that a full chunk has, about
    CHUNK_OPEN_BYTES = 32 << 10, // one with less is open: it is joined with what follows
    CHUNK_MAX_BYTES = 64 << 20,  // unpacked; anything larger is damaged
};

struct chunk {
    int64_t id, last_id; // numbers of the first and last line
    int64_t trial_id;
    int64_t first_us, last_us;        // the earliest and the latest line
    int64_t levels;                   // bit of each level that a line has
    int64_t ranks, sources, stdtypes; // the same, see chunk_rank_bit() and so on
    int64_t n_bytes;                  // of text
    int64_t n_lines;                  // 0: nobody has counted them
    bool open;
    struct str bytes; // packed
};

// Lines of one trial, by number, at least one; out->bytes lives in the arena.
void chunk_pack(const struct log_line *lines, size_t n, struct arena *a, struct chunk *out);

// How much of so many lines belongs in a chunk, so that all chunks get about the same size; and how
// many lines (at least one) that is.
size_t chunk_goal(const struct log_line *lines, size_t n);
size_t chunk_cut(const struct log_line *lines, size_t n, size_t goal);

// A text that lines are searched for.
struct wanted {
    const char *text; // NULL: anything
    bool any_case;    // of ASCII letters
};
bool wanted_in(const struct wanted *wanted, struct str text);

// The text of all lines is looked through first: *out is left empty if what is wanted (NULL:
// anything) is in none of them. Lines live in the arena; DET_ECORRUPT if these are no packed lines.
struct chunk_lines {
    struct log_line *items;
    size_t n;
};
int chunk_unpack(const struct chunk *c, const struct wanted *wanted, struct arena *a,
                 struct chunk_lines *out, det_err *err);

// The bit that stands for a rank; large ones share one. For a word; unknown ones share one. NULL
// has a bit, too.
int64_t chunk_rank_bit(struct opt_int rank);
int64_t chunk_source_bit(const char *source);
int64_t chunk_stdtype_bit(const char *stdtype);
