// Unit routes.c: all routes there are, in the order in which they are tried.
#include "master/routes.h"

#include "base/assert.h"

const struct http_table *master_tables(size_t *n)
{
    static const struct http_table *const parts[] = {
        &cluster_routes, &user_routes,      &create_routes,  &experiment_routes, &steer_routes,
        &trial_routes,   &task_routes,      &log_routes,     &checkpoint_routes, &queue_routes,
        &event_routes,   &isolation_routes, &browser_routes, &series_routes,     &table_routes,
        &session_routes, &config_routes,    &code_routes,    &search_routes,
    };
    static struct http_table all[STATIC_LEN(parts)];
    for (size_t i = 0; i < STATIC_LEN(parts); i++)
        all[i] = *parts[i];
    *n = STATIC_LEN(parts);
    return all;
}
