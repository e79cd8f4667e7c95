// doc/json.h: JSON text to documents and back, and a writer that needs no document.
//   json_parse  json_find_number  json_quoted  json_writer: json_init  json_open_map  json_open_list  json_close  json_key
//   json_put_*
//
//     struct json_writer w;
//     json_init(&w, &out, 0);
//     json_open_map(&w);
//     json_key(&w, "trial");
//     json_put_int(&w, 7);
//     json_close(&w);                      // {"trial":7}
//
// JSON has no NaN and no infinities: they are written as the strings "NaN", "Infinity" and
// "-Infinity".
#pragma once

#include "doc/diag.h"
#include "doc/doc.h"

enum { JSON_MAX_DEPTH = 64, JSON_MAX_BYTES = 1 << 20 };

struct json_opts {
    const char *source; // for messages and positions; borrowed by the document
    size_t max_bytes;   // 0: JSON_MAX_BYTES
    int max_depth;      // 0: JSON_MAX_DEPTH, at most JSON_WRITER_DEPTH
};

// Strict RFC 8259: duplicate keys, NUL characters, damaged UTF-8, integers beyond 64 bits and
// anything after the value are errors. opts may be NULL. On failure NULL, and one error in diags.
struct doc *json_parse(struct arena *arena, struct str text, const struct json_opts *opts,
                       struct diag_list *diags);

// The number of a map under a key, as json_quoted() writes it; also "NaN" and the infinities. The text
// is not checked: for one that was written by the functions below. False: there is none.
bool json_find_number(struct str map, struct str quoted, double *out);
struct str json_quoted(struct str text, struct arena *a); // "text", in the arena

enum { JSON_WRITER_DEPTH = 256 };

struct json_writer {
    struct buf *out;
    int indent; // spaces per level; 0: everything in one line
    int depth;
    bool after_key, has_items;
    char closer[JSON_WRITER_DEPTH];
};

void json_init(struct json_writer *w, struct buf *out, int indent);
void json_open_map(struct json_writer *w);
void json_open_list(struct json_writer *w);
void json_close(struct json_writer *w); // closes the innermost map or list
void json_key(struct json_writer *w, const char *key);
void json_keyn(struct json_writer *w, struct str key);
void json_put_null(struct json_writer *w);
void json_put_bool(struct json_writer *w, bool value);
void json_put_int(struct json_writer *w, int64_t value);
void json_put_double(struct json_writer *w, double value);
void json_put_rounded(struct json_writer *w, double value); // nine digits; not finite: null
void json_put_str(struct json_writer *w, const char *text); // NULL: null
void json_put_strn(struct json_writer *w, struct str text); // damaged UTF-8 becomes U+FFFD
void json_put_json(struct json_writer *w, struct str json); // text that is JSON already
void json_put_doc(struct json_writer *w, const struct doc *doc);
