// Unit callback.c: the list of callbacks. Called by trainer.c, callback_ema.c.
#include "accel/accel.h"

#include "base/buf.h"
#include "base/mem.h"

det_accel_callback *det_accel_callback_new(const det_accel_callback_ops *ops, void *self)
{
    if (!ops || !ops->name) {
        det_raise(DET_EINVAL, "callback: it has no table of events, or no name");
        if (ops && ops->free) ops->free(self);
        return NULL;
    }
    det_accel_callback *c = xcalloc(1, sizeof *c);
    c->ops = ops;
    c->self = self;
    return c;
}

void det_accel_callback_free(det_accel_callback *c)
{
    if (!c) return;
    if (c->ops->free) c->ops->free(c->self);
    free(c);
}

static bool has(const struct callback_list *list, const char *name)
{
    for (int i = 0; i < list->n; i++)
        if (str_eqz(str_from(list->item[i]->ops->name), name)) return true;
    return false;
}

static void refuse_duplicate(const struct callback_list *list, const char *name)
{
    struct buf names = BUF_INIT(DET_ERR_MSG_MAX / 2);
    for (int i = 0; i < list->n; i++)
        buf_printf(&names, "%s%s", i ? ", " : "", list->item[i]->ops->name);
    det_raise(DET_EINVAL, "callbacks: there is a %s already, among %s", name, buf_str(&names).ptr);
    buf_done(&names);
}

bool callbacks_add(struct callback_list *list, det_accel_callback *c)
{
    if (!c) return !sticky_failed();
    if (has(list, c->ops->name)) {
        refuse_duplicate(list, c->ops->name);
        det_accel_callback_free(c);
        return false;
    }
    list->item = xrealloc(list->item, (size_t)(list->n + 1) * sizeof *list->item);
    list->item[list->n++] = c;
    return true;
}

void callbacks_done(struct callback_list *list)
{
    for (int i = 0; i < list->n; i++)
        det_accel_callback_free(list->item[i]);
    free(list->item);
    *list = (struct callback_list){0};
}
