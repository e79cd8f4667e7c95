// master/api.h: what handlers have in common. Private to the layer.
//
//     static int handle_pause(struct http_request *req, det_err *err)
//     {
//         int rc;
//         struct db_tx *tx = api_begin(req, &rc, err);
//         if (!tx) return rc;                      // refused, or done before
//         rc = experiment_do(e, EXPERIMENT_PAUSE, NULL, tx, err);
//         return api_finish(req, tx, rc, NULL);    // answers when it is durable
//     }
#pragma once

#include "doc/json.h"
#include "master/auth.h"

// A transaction for a request that changes something. NULL: return *rc. Refuses when the disk is
// full, and answers a request whose Idempotency-Key was used before.
struct db_tx *api_begin(struct http_request *req, int *rc, det_err *err);

// Handles the request again, from its beginning, when all that was submitted is durable. Return it.
// Whoever has said http_later() before calls api_begin_again().
int api_again(struct http_request *req);
void api_begin_again(struct http_request *req);

// The same for a request with n_items of a kind, of which the first *n_done were done before.
struct db_tx *api_begin_items(struct http_request *req, size_t n_items, size_t *n_done, int *rc,
                              det_err *err);

// After a failure (rc) throws the transaction away and returns rc; else submits it and answers when
// it is durable: with json (taken), or {}.
int api_finish(struct http_request *req, struct db_tx *tx, int rc, struct buf *json);

// The same with a function that is called when it is durable, or has failed, and answers itself.
// Until then nothing has happened.
int api_finish_later(struct http_request *req, struct db_tx *tx, db_done_fn done, void *ctx);
// The same for what has happened in memory already.
int api_finish_must(struct http_request *req, struct db_tx *tx, db_done_fn done, void *ctx);

// A number for a text that nobody outside can choose.
int64_t api_hash(const struct master *m, struct str text);

// On whose behalf a request is worked on.
int64_t api_who(const struct http_request *req);

// For the server: threads that read do it.
void api_work(struct http_request *req, const struct work *work);

enum { API_MAX_REPLY = 256 << 20 };

// {"name": record}
void api_reply_record(struct http_request *req, const char *name, const struct field_table *table,
                      const void *record);
void api_put_record(struct json_writer *w, struct arena *arena, const struct field_table *table,
                    const void *record);

// The member "warnings": a list of texts, without those of other levels.
void api_put_warnings(struct json_writer *w, const struct diag_list *diags);

// Parameters that all lists take.
struct api_page {
    const char *after, *sort_by;
    int64_t offset, limit;
    int order_by;
};

// clang-format off
#define API_PAGE_FIELDS(owner, page)                                                               \
    {.name = "after", .type = FIELD_STR, .offset = offsetof(owner, page.after),                    \
     .help = "Key of the last record of the page before."},                                        \
    {.name = "offset", .type = FIELD_INT, .offset = offsetof(owner, page.offset),                  \
     .help = "How many records to pass over.", FIELD_MIN(0)},                                      \
    {.name = "limit", .type = FIELD_INT, .offset = offsetof(owner, page.limit), .def = "100",      \
     .help = "How many records at most; -1: all.", FIELD_MIN(-1)},                                 \
    {.name = "sortBy", .type = FIELD_STR, .offset = offsetof(owner, page.sort_by),                 \
     .help = "Name of a field."},                                                                  \
    {.name = "orderBy", .type = FIELD_ENUM, .offset = offsetof(owner, page.order_by),              \
     .help = "Direction.", .values = api_orders, .def = "ORDER_BY_ASC"}

#define API_STATES_FIELD(owner, member)                                                            \
    {.name = "states", .type = FIELD_LIST, .offset = offsetof(owner, member),                      \
     .item = &api_text_item, .help = "One of these states."}
// clang-format on

extern const char *const api_orders[];
extern const struct field api_text_item;

// The parameters of a list that is filtered by nothing but states, and of one that is not filtered.
struct api_states {
    struct api_page page;
    LIST_OF(const char *) states;
};
extern const struct field_table api_states_table; // of struct api_states
extern const struct field_table api_page_table;   // of struct api_page
extern const struct field_table api_slice_table;  // the same: offset and limit only, for lists that
                                                  // are short, or in memory

// A kind of list; key is the field that `after` refers to.
struct api_list {
    const char *name;
    const struct field_table *table;
    const char *key;
    int (*find)(struct db_reader *r, const struct db_filter *filter, const struct db_page *page,
                struct arena *a, struct db_list *out, det_err *err);
    // Takes out of a record what the caller may not see; NULL: there is nothing of that kind.
    void (*hide)(const struct viewer *v, void *record);
};

// {"name": [records], "pagination": {...}}. For a row's read; its handle is feed_answer (feed.h).
int api_list(struct http_request *req, const struct api_list *what, const struct db_filter *filter,
             const struct api_page *page, det_err *err);

// Which of n things are asked for.
struct api_slice {
    size_t first, end;
};
struct api_slice api_slice(const struct api_page *page, size_t n);

// "pagination": {...}; total -1: nobody has counted; next NULL: this is the last page.
void api_put_pagination(struct json_writer *w, int64_t total, const char *next);

// A list of texts as a document, for filters; NULL if it is empty.
struct doc *api_list_doc(struct arena *arena, const char *const *items, size_t n);

struct live_experiment *api_live_experiment(struct http_request *req, det_err *err);

// A configuration that somebody is writing, maybe on top of a template: fields of a body.
struct api_draft {
    const char *config, *template_name;
};
// clang-format off
#define API_DRAFT_FIELDS(owner, draft)                                                             \
    {.name = "config", .type = FIELD_STR, .offset = offsetof(owner, draft.config),                 \
     .required = true, .help = "YAML or JSON."},                                                   \
    {.name = "template", .type = FIELD_STR, .offset = offsetof(owner, draft.template_name),        \
     .help = "Name of a template."}
// clang-format on

// How to read it. In a row's read. DET_ENOTFOUND: there is no such template.
int api_draft_opts(struct http_request *req, const struct api_draft *draft, struct config_opts *out,
                   det_err *err);

// The stored configuration, as the caller may see it, and what was said about it. In a row's read.
int api_show_config(struct http_request *req, const struct experiment *row, const struct doc **out,
                    struct diag_list *warnings, det_err *err);
