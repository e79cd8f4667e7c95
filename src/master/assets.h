// master/assets.h: the files of the web page, as scripts/make-assets has put them into the program.
// Private to the layer.
#pragma once

#include "base/str.h"
#include <stddef.h>

struct asset {
    const char *path; // "index.html", "assets/app-1f3a.js"
    const char *etag; // with its quotation marks
    struct str plain;
    struct str packed; // with gzip; ptr NULL: that would not be shorter
};

// By path; none if the program was built without the page.
extern const struct asset assets[];
extern const size_t n_assets;
