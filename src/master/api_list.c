// Unit api_list.c: answers that are lists of records. A long one is put together by a worker, so
// that nobody waits for a hundred thousand records.
#include "master/api.h"

#include "base/mem.h"

enum { MAX_INLINE = 1000 }; // records

const char *const api_orders[] = {"ORDER_BY_ASC", "ORDER_BY_DESC", NULL};

static struct db_page page_of(const struct api_page *page)
{
    return (struct db_page){.after = page->after,
                            .offset = page->offset,
                            .limit = page->limit,
                            .sort = page->sort_by,
                            .descending = page->order_by,
                            .want_total = true};
}

// The key of the last record, as text.
static const char *last_key(struct arena *arena, const struct field_table *table,
                            const struct db_list *list, const char *key)
{
    const struct field *f = field_find_row(table->fields, table->n, str_from(key));
    const char *member = (const char *)list->items + (list->n - 1) * table->size + f->offset;
    if (f->type == FIELD_INT)
        return arena_printf(arena, "%lld", (long long)*(const int64_t *)member);
    return *(const char *const *)member;
}

static void put_list(struct buf *out, const char *name, const struct field_table *table,
                     const struct db_list *list, const char *key)
{
    struct arena arena = ARENA_INIT;
    struct json_writer w;
    json_init(&w, out, 0);
    json_open_map(&w);
    json_key(&w, name);
    json_open_list(&w);
    for (size_t i = 0; i < list->n; i++) {
        api_put_record(&w, &arena, table, (const char *)list->items + i * table->size);
        arena_done(&arena);
    }
    json_close(&w);
    json_key(&w, "pagination");
    json_open_map(&w);
    json_key(&w, "total");
    json_put_int(&w, list->total);
    if (list->n && (int64_t)list->n < list->total) {
        json_key(&w, "next");
        json_put_str(&w, last_key(&arena, table, list, key));
    }
    json_close(&w);
    json_close(&w);
    arena_done(&arena);
}

void api_reply_list(struct http_request *req, const char *name, const struct field_table *table,
                    const struct db_list *list, const char *key)
{
    struct buf out = BUF_INIT(API_MAX_REPLY);
    put_list(&out, name, table, list, key);
    http_reply_json(req, 200, &out);
}

// --- long ones

struct listing {
    struct http_request *req;
    const struct api_list *what;
    struct db_filter filter;
    struct db_page page;
    struct viewer viewer;
    struct db_reader *reader;
    struct buf out;
    det_err err;
    int rc;
};

static void find(struct listing *l)
{
    struct db_list list;
    l->rc = l->what->find(l->reader, &l->filter, &l->page, l->req->arena, &list, &l->err);
    for (size_t i = 0; !l->rc && l->what->hide && i < list.n; i++)
        l->what->hide(&l->viewer, (char *)list.items + i * l->what->table->size);
    if (!l->rc) put_list(&l->out, l->what->name, l->what->table, &list, l->what->key);
}

static void find_in_background(void *ctx)
{
    struct listing *l = ctx;
    struct master *m = l->req->user;
    l->rc = db_reader_open(m->db, &l->reader, &l->err); // a reader belongs to one thread
    if (!l->rc) find(l);
    db_reader_close(l->reader);
}

static void answer(void *ctx)
{
    struct listing *l = ctx;
    if (l->rc)
        http_reply_error(l->req, &l->err);
    else
        http_reply_json(l->req, 200, &l->out);
}

int api_list(struct http_request *req, const struct api_list *what, const struct db_filter *filter,
             const struct api_page *page, det_err *err)
{
    struct master *m = req->user;
    struct listing *l = arena_alloc(req->arena, sizeof *l);
    *l = (struct listing){.req = req,
                          .what = what,
                          .filter = *filter,
                          .page = page_of(page),
                          .viewer = auth_viewer(req),
                          .out = BUF_INIT(API_MAX_REPLY)};
    if (page->limit < 0 || page->limit > MAX_INLINE) {
        worker_run(m->worker, find_in_background, answer, l);
        return http_later(req);
    }
    l->reader = m->reader;
    find(l);
    if (l->rc)
        *err = l->err;
    else
        answer(l);
    return l->rc;
}

struct doc *api_list_doc(struct arena *arena, const char *const *items, size_t n)
{
    struct doc *list = doc_new(arena, DOC_LIST);
    for (size_t i = 0; i < n; i++)
        doc_append(list, doc_new_str(arena, items[i]));
    return n ? list : NULL;
}
