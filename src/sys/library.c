// Unit library.c: dlopen, with tables instead of the linker.
#include "sys/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int find_all(struct library *l, void *handle, det_err *err)
{
    for (size_t i = 0; i < l->n; i++) {
        void *function = dlsym(handle, l->names[i]);
        if (!function)
            return det_fail(err, DET_ENOTFOUND, "%s has no %s; a newer %s is needed", l->files[0],
                            l->names[i], l->package);
        memcpy((char *)l->functions + i * sizeof function, &function, sizeof function);
    }
    return 0;
}

static int load(struct library *l, det_err *err)
{
    void *handle = NULL;
    for (size_t i = 0; !handle && i < 2 && l->files[i]; i++)
        handle = dlopen(l->files[i], RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return det_fail(err, DET_ENOTFOUND,
                        "this needs the library %s, which cannot be loaded; install the package %s",
                        l->files[0], l->package);
    int rc = find_all(l, handle, err);
    l->is_loaded = !rc;
    return rc;
}

int library_load(struct library *library, det_err *err)
{
    pthread_mutex_lock(&lock);
    int rc = library->is_loaded ? 0 : load(library, err);
    pthread_mutex_unlock(&lock);
    return rc;
}
