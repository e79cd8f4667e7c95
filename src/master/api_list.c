// Unit api_list.c: answers that are lists of records, from the database or from memory. They are
// made by threads that read, and long ones piece by piece (feed.c).
#include "master/feed.h"

#include "base/assert.h"
#include "base/mem.h"

enum { SLICE = 100, DEFAULT_LIMIT = 100 }; // records

// --- parameters

const char *const api_orders[] = {"ORDER_BY_ASC", "ORDER_BY_DESC", NULL};
const struct field api_text_item = {.type = FIELD_STR};

static const struct field states_fields[] = {API_PAGE_FIELDS(struct api_states, page),
                                             API_STATES_FIELD(struct api_states, states)};
const struct field_table api_states_table = {.size = sizeof(struct api_states),
                                             FIELD_ROWS(states_fields)};

// The page is the first member, so these rows describe a struct api_page.
static const struct field page_fields[] = {API_PAGE_FIELDS(struct api_states, page)};
const struct field_table api_page_table = {.size = sizeof(struct api_page),
                                           FIELD_ROWS(page_fields)};

static const struct field slice_fields[] = {
    {.name = "offset",
     .type = FIELD_INT,
     .offset = offsetof(struct api_page, offset),
     .help = "How many to pass over.",
     FIELD_MIN(0)},
    {.name = "limit",
     .type = FIELD_INT,
     .offset = offsetof(struct api_page, limit),
     .def = "-1",
     .help = "How many at most; -1: all.",
     FIELD_MIN(-1)},
};
const struct field_table api_slice_table = {.size = sizeof(struct api_page),
                                            FIELD_ROWS(slice_fields)};

// --- records, piece by piece

struct listing {
    const struct api_list *what;
    struct db_filter filter;
    struct db_page page;
    struct viewer viewer;
    struct db_cursor cursor;
    int64_t n_left; // to be sent
    int64_t n_sent, total;
    const char *last; // key of the last record
    struct json_writer w;
};

// The key of the last record, as text.
static const char *last_key(struct arena *arena, const struct api_list *what,
                            const struct db_list *list)
{
    const struct field_table *table = what->table;
    const struct field *f = field_find_row(table->fields, table->n, str_from(what->key));
    const char *member = (const char *)list->items + (list->n - 1) * table->size + f->offset;
    if (f->type == FIELD_INT)
        return arena_printf(arena, "%lld", (long long)*(const int64_t *)member);
    return arena_strdup(arena, *(const char *const *)member);
}

void api_put_pagination(struct json_writer *w, int64_t total, const char *next)
{
    json_key(w, "pagination");
    json_open_map(w);
    if (total >= 0) {
        json_key(w, "total");
        json_put_int(w, total);
    }
    if (next) {
        json_key(w, "next");
        json_put_str(w, next);
    }
    json_close(w);
}

static int find(struct listing *l, struct db_reader *r, int64_t limit, struct arena *arena,
                struct db_list *out, det_err *err)
{
    l->page.limit = limit;
    l->page.want_total = !l->cursor.is_set && !l->n_sent;
    return l->what->find(r, &l->filter, &l->page, arena, out, err);
}

static int put_slice(struct feed *f, struct db_reader *r, bool *more, det_err *err)
{
    struct listing *l = f->source;
    struct arena arena = ARENA_INIT, record = ARENA_INIT;
    struct db_list list = {0};
    int64_t limit = MIN(l->n_left, SLICE);
    int rc = find(l, r, limit, &arena, &list, err);
    for (size_t i = 0; !rc && i < list.n; i++) {
        char *row = (char *)list.items + i * l->what->table->size;
        if (l->what->hide) l->what->hide(&l->viewer, row);
        api_put_record(&l->w, &record, l->what->table, row);
        arena_done(&record);
    }
    if (!rc) {
        if (l->page.want_total) l->total = list.total;
        if (list.n) l->last = last_key(&f->arena, l->what, &list);
        if (l->cursor.text) l->cursor.text = arena_strdup(&f->arena, l->cursor.text);
        l->page.offset = 0; // the cursor is behind it
        l->n_sent += (int64_t)list.n;
        l->n_left -= (int64_t)list.n;
        *more = (int64_t)list.n == limit;
    }
    arena_done(&arena);
    return rc;
}

// There is another record behind the last one.
static bool has_next(struct listing *l, struct db_reader *r)
{
    struct arena arena = ARENA_INIT;
    struct db_list list = {0};
    bool found = l->cursor.is_set && !find(l, r, 1, &arena, &list, NULL) && list.n;
    arena_done(&arena);
    return found;
}

static int next_piece(struct feed *f, struct db_reader *r, det_err *err)
{
    struct listing *l = f->source;
    bool more = true;
    int rc = 0;
    if (!l->w.out) {
        json_init(&l->w, &f->out, 0);
        json_open_map(&l->w);
        json_key(&l->w, l->what->name);
        json_open_list(&l->w);
    }
    while (!rc && more && l->n_left && f->out.len < FEED_PIECE_BYTES)
        rc = put_slice(f, r, &more, err);
    if (rc || (more && l->n_left)) return rc;
    json_close(&l->w);
    api_put_pagination(&l->w, MAX(l->total, l->n_sent), more && has_next(l, r) ? l->last : NULL);
    json_close(&l->w);
    f->state = FEED_ENDS;
    return 0;
}

static const char *copy_text(struct arena *arena, const char *text)
{
    return text ? arena_strdup(arena, text) : NULL;
}

static const struct doc *copy_doc(struct arena *arena, const struct doc *doc)
{
    return doc ? doc_copy(arena, doc) : NULL;
}

int api_list(struct http_request *req, const struct api_list *what, const struct db_filter *filter,
             const struct api_page *page, det_err *err)
{
    struct feed *f = feed_new(req, &(struct feed_opts){.next = next_piece});
    struct listing *l = arena_alloc(&f->arena, sizeof *l);
    struct arena *a = &f->arena;
    l->what = what;
    l->viewer = auth_viewer(req);
    l->filter = *filter;
    l->filter.states = copy_doc(a, filter->states);
    l->filter.users = copy_doc(a, filter->users);
    l->filter.labels = copy_doc(a, filter->labels);
    l->filter.name = copy_text(a, filter->name);
    l->filter.description = copy_text(a, filter->description);
    l->page = (struct db_page){.after = copy_text(a, page->after),
                               .offset = page->offset,
                               .sort = copy_text(a, page->sort_by),
                               .descending = page->order_by,
                               .cursor = &l->cursor};
    l->n_left = page->limit < 0 ? INT64_MAX : page->limit ? page->limit : DEFAULT_LIMIT;
    f->source = l;
    return feed_begin(f, err);
}

struct api_slice api_slice(const struct api_page *page, size_t n)
{
    size_t first = (size_t)MIN(page->offset, (int64_t)n), left = n - first;
    size_t wanted = page->limit < 0 ? left : (size_t)MIN(page->limit, (int64_t)left);
    return (struct api_slice){first, first + wanted};
}

struct doc *api_list_doc(struct arena *arena, const char *const *items, size_t n)
{
    struct doc *list = doc_new(arena, DOC_LIST);
    for (size_t i = 0; i < n; i++)
        doc_append(list, doc_new_str(arena, items[i]));
    return n ? list : NULL;
}
