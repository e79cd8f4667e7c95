// master/routes.h: tables of routes. Private to the layer.
#pragma once

#include "master/api.h"

extern const struct http_table create_routes, event_routes, experiment_routes, steer_routes,
    trial_routes, task_routes, log_routes, checkpoint_routes, queue_routes, user_routes,
    cluster_routes, isolation_routes, browser_routes, series_routes, table_routes, session_routes,
    config_routes, code_routes, search_routes;

// What answers for every path that no table has: the web page.
extern const struct http_route page_route;
