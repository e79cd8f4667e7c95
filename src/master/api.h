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

#include "base/json.h"
#include "master/auth.h"

// A transaction for a request that changes something. NULL: return *rc. Refuses when the disk is
// full, and answers a request whose Idempotency-Key was used before.
struct db_tx *api_begin(struct http_request *req, int *rc, det_err *err);

// Handles the request again, from its beginning, when all that was submitted is durable. Return it.
int api_again(struct http_request *req);

// The same for a request with n_items of a kind, of which the first *n_done were done before.
struct db_tx *api_begin_items(struct http_request *req, size_t n_items, size_t *n_done, int *rc,
                              det_err *err);

// After a failure (rc) throws the transaction away and returns rc; else submits it and answers when
// it is durable: with json (taken), or {}.
int api_finish(struct http_request *req, struct db_tx *tx, int rc, struct buf *json);

// The same with a function that is called when it is durable, or has failed, and answers itself.
// Until then nothing has happened.
int api_finish_later(struct http_request *req, struct db_tx *tx,
                     void (*done)(void *ctx, int code, const det_err *err), void *ctx);

// For a request that has waited: what it is about may have ended, and then it is refused.
int api_authenticate_again(struct http_request *req, det_err *err);

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
     .help = "How many records to pass over.", FIELD_RANGE(0, 1000000)},                           \
    {.name = "limit", .type = FIELD_INT, .offset = offsetof(owner, page.limit), .def = "100",      \
     .help = "How many records at most; -1: all.", FIELD_RANGE(-1, 1000000)},                      \
    {.name = "sortBy", .type = FIELD_STR, .offset = offsetof(owner, page.sort_by),                 \
     .help = "Name of a field."},                                                                  \
    {.name = "orderBy", .type = FIELD_ENUM, .offset = offsetof(owner, page.order_by),              \
     .help = "Direction.", .values = api_orders, .def = "ORDER_BY_ASC"}
// clang-format on

extern const char *const api_orders[];

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

// {"name": [records], "pagination": {...}}, at once or, if there may be many, later. Return it.
int api_list(struct http_request *req, const struct api_list *what, const struct db_filter *filter,
             const struct api_page *page, det_err *err);

// The same of records that were found.
void api_reply_list(struct http_request *req, const char *name, const struct field_table *table,
                    const struct db_list *list, const char *key);

// A list of texts as a document, for filters; NULL if it is empty.
struct doc *api_list_doc(struct arena *arena, const char *const *items, size_t n);

struct live_experiment *api_live_experiment(struct http_request *req, det_err *err);
