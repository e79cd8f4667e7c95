// http/curl.h: libcurl, loaded by the first client. Private to the layer.
#pragma once

#include "sys/library.h"
#include <curl/curl.h>

// clang-format off
#define CURL_FUNCTIONS(F)                                                                           \
    F(curl, global_init)                                                                            \
    F(curl, easy_init) F(curl, easy_cleanup) F(curl, easy_reset) F(curl, easy_setopt)               \
    F(curl, easy_getinfo) F(curl, easy_strerror)                                                    \
    F(curl, multi_init) F(curl, multi_cleanup) F(curl, multi_add_handle)                            \
    F(curl, multi_remove_handle) F(curl, multi_perform) F(curl, multi_poll)                         \
    F(curl, multi_info_read) F(curl, multi_wakeup)                                                  \
    F(curl, slist_append) F(curl, slist_free_all)
// clang-format on

struct curl_functions {
    CURL_FUNCTIONS(LIBRARY_MEMBER)
};

extern struct curl_functions libcurl; // after curl_load()

int curl_load(det_err *err);
