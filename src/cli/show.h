// cli/show.h: answers of the master as people and programs want them. Private to the layer.
#pragma once

#include "args/args.h"
#include "doc/json.h"

#define FORMAT_OPTIONS                                                                     \
    {"json", 0, NULL, "Prints JSON."}, {"yaml", 0, NULL, "Prints YAML."},                  \
    {                                                                                      \
        "csv", 0, NULL, "Prints comma-separated values, with the names in the first line." \
    }

enum { SHOW_MAX_COLUMNS = 16 };

enum show_as {
    SHOW_PLAIN,
    SHOW_STATE,   // STATE_ACTIVE -> ACTIVE
    SHOW_TIME,    // to the second, in the zone of the user
    SHOW_PERCENT, // 0.25 -> 25 %
    SHOW_BYTES,   // 1536 -> 1.5 KB
    SHOW_LINES,   // of a record: each item of a list has a line of its own
};

struct column {
    const char *title;
    const char *key; // "a.b": member b of member a
    enum show_as as;
    // What becomes of it in a table that is too wide for the terminal. By default it stays.
    bool cut; // may be shortened: names and the like
    int drop; // may be left out: those with the largest number first; 0: never
};

// A table that fits the terminal, or the format that the call's options ask for (which then has
// everything, not just the columns). Returns the exit status.
int show_list(const struct call *call, const struct doc *list, const struct column *columns,
              size_t n);

// The same of a list that comes in parts: each with the same struct, which is zeroed at first, then
// NULL at the end. What was shown is forgotten, so the widths of a table are those of its
// beginning. Not for --csv.
struct show_parts {
    bool began;
    size_t width[SHOW_MAX_COLUMNS];
    bool dropped[SHOW_MAX_COLUMNS];
    struct json_writer w;
    struct buf json;
};
void show_part(const struct call *call, struct show_parts *parts, const struct doc *list,
               const struct column *columns, size_t n);

// Characters that fit into a line of the terminal; SIZE_MAX if there is none.
size_t show_width(void);

// A line of comma-separated values.
void show_csv_line(struct buf *out, const struct str *cells, size_t n);
// The value as it is in a cell, appended.
void show_csv_value(struct buf *out, const struct doc *value);

// One record as lines "Title  value".
int show_record(const struct call *call, const struct doc *record, const struct column *columns,
                size_t n);

// The document itself, as JSON or (without --json) YAML.
int show_doc(const struct call *call, const struct doc *doc);

// One value as text, appended.
void show_value(struct buf *out, const struct doc *value, enum show_as as);
