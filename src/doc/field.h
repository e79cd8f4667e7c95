// doc/field.h: field tables: the rows from which documents are checked, become structs, and are
// documented.
//   field_normalize  field_merge  field_read  field_write  field_find  field_error  field_missing
//   field_warn
//
// A table describes one struct, a row one member. What a user wrote goes through
//
//     field_normalize  old spellings and short forms become those of today; knows all keys
//     field_merge      texts of lower precedence (templates, cluster defaults) fill the gaps
//     field_read       types, ranges, defaults; fills the struct
//     field_write      the struct as a document again, with every default
//
// All errors are collected, each with its place, its path, what was found and what is allowed. A
// null is the same as a key that is not there. A key that has no effect gets a warning, unless its
// value is the default: then nothing was asked for.
#pragma once

#include "doc/diag.h"
#include "doc/doc.h"
#include "base/opt.h"

struct field;
struct field_table;

// A list member: LIST_OF(const char *) labels;
#define LIST_OF(type) \
    struct {          \
        type *items;  \
        size_t n;     \
    }

enum field_type {
    FIELD_BOOL,    // bool
    FIELD_TRI,     // enum tri: true, false or left open
    FIELD_INT,     // int64_t
    FIELD_OPT_INT, // struct opt_int
    FIELD_DOUBLE,  // double
    FIELD_STR,     // const char *; NULL: not set
    FIELD_ENUM,    // int: index into values
    FIELD_LIST,    // LIST_OF(...) of what item describes
    FIELD_MAP,     // const struct doc *: a map with any content, kept as it is; NULL: not set
    FIELD_TABLE,   // struct described by table
    FIELD_CODEC,   // anything; codec reads and writes it
    FIELD_OLD,     // an old name: convert() gives the value of the row `into`
    FIELD_IGNORED, // accepted without any effect; a warning says so
    FIELD_REFUSED, // known, but wrong here; help is the message. Beside `into` it is a warning
};

// What the routines below are working on. path is maintained by them.
struct field_ctx {
    struct arena *arena;
    struct diag_list *diags;
    const struct field_path *path;
    int n_wrong;      // values found to be wrong so far
    const void *user; // for hooks
};

// Returns the value in today's form (or value itself); NULL after a field_error().
typedef const struct doc *(*field_convert_fn)(struct field_ctx *ctx, const struct doc *value);

// Both values are there and in normal form.
typedef const struct doc *(*field_merge_fn)(struct field_ctx *ctx, const struct field *f,
                                            const struct doc *high, const struct doc *low);

struct field_codec {
    size_t size;        // of the member
    const char *syntax; // for the reference: "a size such as 4 GiB"
    void (*read)(struct field_ctx *ctx, const struct field *f, const struct doc *value,
                 void *member);
    struct doc *(*write)(struct arena *arena, const void *member);
};

struct field {
    const char *name;
    enum field_type type;
    size_t offset;
    const char *help;                // one or two sentences
    const char *def;                 // default, as YAML (strings as they are); NULL: not set, zero
    bool required;                   // an error if missing
    bool secret;                     // shown as asterisks
    bool open_min;                   // min itself is not allowed
    double min, max;                 // range of numbers; both 0: any
    const char *const *values;       // FIELD_ENUM: up to a NULL; "" stands for "not set"
    const struct field *item;        // FIELD_LIST
    const struct field_table *table; // FIELD_TABLE
    const struct field_codec *codec; // FIELD_CODEC
    const char *into;                // FIELD_OLD, FIELD_REFUSED
    const char *no_effect;           // why this key does nothing here; NULL: it is obeyed
    field_convert_fn convert;        // FIELD_OLD, or short forms of any other type
    field_merge_fn merge;            // NULL: maps and tables key by key, else the higher value
    const char *merge_key;           // for field_merge_union
    void (*check)(struct field_ctx *ctx, const struct doc *value, const void *member);
};

#define FIELD_MIN(x) .min = (x), .max = __builtin_inf()
#define FIELD_ABOVE(x) FIELD_MIN(x), .open_min = true
#define FIELD_RANGE(lo, hi) .min = (lo), .max = (hi)

// One kind of a tagged union: further rows of the same struct.
struct field_variant {
    const char *tag;
    const struct field *fields;
    size_t n;
    bool open;           // other keys are allowed too; they are kept in a map at
    size_t rest_offset;  // (const struct doc *)
    const char *refused; // why whoever runs what was read refuses this kind; NULL: it does not
};

struct field_table {
    size_t size; // of the struct
    const struct field *fields;
    size_t n;
    // Tagged unions: the key `tag` chooses the variant; its index is stored at tag_offset (int).
    const char *tag;
    const char *tag_help;
    bool tag_optional; // then index 0 must be a variant named "": no rows of its own
    size_t tag_offset;
    const struct field_variant *variants;
    size_t n_variants;
    // Rules between fields; map may be NULL. Only called when all fields are good, those of nested
    // tables aside, unless the rules can stand bad ones (which are zero).
    void (*check)(struct field_ctx *ctx, const struct doc *map, void *self);
    bool check_always;
};

#define FIELD_ROWS(array) .fields = (array), .n = sizeof(array) / sizeof *(array)

// NULL if doc is not a map; otherwise a document with known keys only. A null in it stands for a
// value that was wrong and is left unset, or that is to be left unset without complaint.
struct doc *field_normalize(struct field_ctx *ctx, const struct field_table *table,
                            const struct doc *doc);

// Of two normalized documents; high wins. Either may be NULL (then the other one is the result).
const struct doc *field_merge(struct field_ctx *ctx, const struct field_table *table,
                              const struct doc *high, const struct doc *low);

// Rules for lists, for field.merge: all of low's items, then high's; or high's items and those of
// low that are not among them, compared as a whole or by the value of their merge_key.
const struct doc *field_merge_append(struct field_ctx *ctx, const struct field *f,
                                     const struct doc *high, const struct doc *low);
const struct doc *field_merge_union(struct field_ctx *ctx, const struct field *f,
                                    const struct doc *high, const struct doc *low);

// Merges free maps key by key, all the way down, where both sides are open to it; else high wins,
// unless it is an open null.
const struct doc *field_merge_maps(struct field_ctx *ctx, const struct doc *high,
                                   const struct doc *low, bool (*is_open)(const struct doc *value));

// Fills *out (zeroed by the caller) from a normalized document, or from nothing but defaults if
// that is NULL.
void field_read(struct field_ctx *ctx, const struct field_table *table, const struct doc *doc,
                void *out);

#define FIELD_MASK "********" // instead of a secret

// The document of a struct: every row, in the order of the table; what is not set is null.
struct doc *field_write(struct arena *arena, const struct field_table *table, const void *self,
                        bool mask_secrets);

// The variant that map's tag names; NULL if there is none.
const struct field_variant *field_variant_of(const struct field_table *table,
                                             const struct doc *map);

// The row of that name: among the common ones, those of map's variant, and only then those of other
// variants (whose fields a document of lower precedence may have). NULL if there is none.
const struct field *field_find(const struct field_table *table, const struct doc *map,
                               struct str name);

const struct field *field_find_row(const struct field *rows, size_t n, struct str name);

// Reports at value's place (which may be NULL: no place), with the current path; hooks use these.
void field_error(struct field_ctx *ctx, const struct doc *value, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void field_missing(struct field_ctx *ctx, const struct doc *map, const char *fmt, ...)
    __attribute__((format(printf, 3, 4))); // the same, of what should be in the map
void field_warn(struct field_ctx *ctx, const struct doc *value, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// One step of the path, on the stack of whoever walks down.
struct field_path {
    const struct field_path *up;
    struct str key; // empty pointer: an index
    size_t index;
};

// "key" or "[index]" below the current path: use around a call, then put the old path back.
struct field_path field_at_key(const struct field_ctx *ctx, struct str key);
struct field_path field_at_index(const struct field_ctx *ctx, size_t index);

// A value for messages: "'x'", "0.5", "a list". Lives in the arena.
const char *field_show(struct field_ctx *ctx, const struct doc *value);

// The layout of every LIST_OF(), and the size of the member that a row describes.
struct field_list {
    void *items;
    size_t n;
};
size_t field_size(const struct field *f);
