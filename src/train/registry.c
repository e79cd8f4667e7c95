// Unit registry.c: the trials there are. Entries are memory of the modules they are in, which enter
// and leave them as they are loaded and unloaded.
#include "train/registry.h"

#include "base/buf.h"
#include "train/train.h"
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static det_trial_entry *first;

void det_trial_register(det_trial_entry *entry)
{
    pthread_mutex_lock(&lock);
    entry->next = first;
    first = entry;
    pthread_mutex_unlock(&lock);
}

void det_trial_unregister(det_trial_entry *entry)
{
    pthread_mutex_lock(&lock);
    for (det_trial_entry **at = &first; *at; at = &(*at)->next)
        if (*at == entry) {
            *at = entry->next;
            break;
        }
    pthread_mutex_unlock(&lock);
}

const char *registry_name(const det_trial_ops *ops)
{
    const char *name = "(no name)";
    pthread_mutex_lock(&lock);
    for (const det_trial_entry *e = first; e; e = e->next)
        if (e->ops == ops) name = e->name;
    pthread_mutex_unlock(&lock);
    return name;
}

// "A, B"
static void list_names(struct buf *out)
{
    for (const det_trial_entry *e = first; e; e = e->next)
        buf_printf(out, "%s%s", out->len ? ", " : "", e->name);
}

const det_trial_entry *trial_find(const char *name, det_err *err)
{
    const det_trial_entry *found = NULL;
    struct buf names = BUF_INIT(512);
    pthread_mutex_lock(&lock);
    const det_trial_entry *only = first && !first->next ? first : NULL;
    for (const det_trial_entry *e = first; e && name; e = e->next)
        if (str_eq(str_from(e->name), str_from(name))) found = e;
    if (!name && only) found = only;
    list_names(&names);
    pthread_mutex_unlock(&lock);
    if (!found)
        det_fail(err, DET_ENOTFOUND, "there is no trial %s%s%s; found: %s", name ? "'" : "",
                 name ? name : "that is the only one", name ? "'" : "",
                 names.len ? names.ptr : "none (DET_TRIAL makes one known)");
    buf_done(&names);
    return found;
}
