// doc/doc.h: a document: what YAML or JSON text says, and where it says it.
//   doc_new_*  doc_append  doc_set  doc_share  doc_copy  doc_find  doc_at  doc_equal  doc_kind_name
//
// Nodes live in an arena and are not changed once the document is complete; so whole subtrees can
// be part of several documents: doc_share() makes a new node with the same content. Maps keep the
// order of the text.
//
//     for (const struct doc *e = map->first; e; e = e->next)
//         printf("%s is a %s\n", e->key.ptr, doc_kind_name(e->kind));
#pragma once

#include "base/arena.h"
#include "base/str.h"
#include <stdint.h>

enum doc_kind { DOC_NULL, DOC_BOOL, DOC_INT, DOC_DOUBLE, DOC_STR, DOC_LIST, DOC_MAP };

struct doc_pos {
    const char *source; // file name; NULL: not from a text
    int line, column;   // from 1, column in characters; 0: not known
};

struct doc {
    enum doc_kind kind;
    struct doc_pos pos;
    struct doc *next; // in the list or map this node is in
    struct str key;   // in a map
    struct doc_pos key_pos;
    union {
        bool boolean;
        int64_t integer;
        double number;
        struct str text; // valid UTF-8, no NUL inside, one behind it
        struct {
            struct doc *first, *last;
            size_t n;
        };
    };
};

struct doc *doc_new(struct arena *a, enum doc_kind kind);
struct doc *doc_new_bool(struct arena *a, bool value);
struct doc *doc_new_int(struct arena *a, int64_t value);
struct doc *doc_new_double(struct arena *a, double value);
struct doc *doc_new_str(struct arena *a, const char *text); // copied; NULL gives a null

// A node with the content of another one, in no list or map yet.
struct doc *doc_share(struct arena *a, const struct doc *node);

// The same in another arena, with all that is below it. Positions are not kept.
struct doc *doc_copy(struct arena *a, const struct doc *node);

// Appends a node that is in no list or map yet. The key is borrowed and must not be in the map.
void doc_append(struct doc *list, struct doc *item);
void doc_set(struct doc *map, struct str key, struct doc *value);

// Borrowed; NULL if there is no such entry. node may be NULL or of another kind.
const struct doc *doc_find(const struct doc *map, const char *key);
const struct doc *doc_at(const struct doc *list, size_t index);

// The number in an integer or double node; as an integer only if it is whole (1e3, 2.0). False for
// other kinds, and for NULL.
bool doc_number(const struct doc *node, double *out);
bool doc_integer(const struct doc *node, int64_t *out);

// Same kinds and values; the order of maps and the places in the text do not matter. 1 and 1.0
// differ.
bool doc_equal(const struct doc *a, const struct doc *b);

const char *doc_kind_name(enum doc_kind kind); // "a map", "an integer"
