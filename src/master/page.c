// Unit page.c: the web page: one document for all addresses that are not the API's, and the files
// it is made of. They are in the program, or in a directory while somebody works on them.
#include "master/assets.h"
#include "master/routes.h"

#include "base/path.h"
#include "sys/dir.h"
#include <stdlib.h>
#include <unistd.h>

static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; font-src 'self'; worker-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static const char no_page[] =
    "This det was built without its web page, because npm was missing; all commands and the API "
    "(/api/openapi.json) work without it.\n";

static const char document[] = "index.html";

static const char *type_of(const char *path)
{
    static const struct {
        const char *ending, *type;
    } types[] = {
        {".html", "text/html; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".svg", "image/svg+xml"},
        {".png", "image/png"},
        {".ico", "image/x-icon"},
        {".woff2", "font/woff2"},
        {".json", "application/json"},
        {".webmanifest", "application/manifest+json"},
        {".txt", "text/plain; charset=utf-8"},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (str_ends(str_from(path), str_from(types[i].ending))) return types[i].type;
    return "application/octet-stream";
}

static int compare_path(const void *path, const void *asset)
{
    return str_order(str_from(path), str_from(((const struct asset *)asset)->path));
}

static const struct asset *find_asset(const char *path)
{
    if (!n_assets) return NULL;
    return bsearch(path, assets, n_assets, sizeof *assets, compare_path);
}

// Names with a hash in them mean the same for ever.
static bool is_immutable(const char *path)
{
    return str_starts(str_from(path), STR("assets/"));
}

static bool accepts_gzip(const struct http_request *req)
{
    struct str rest = str_from(http_header(req, "Accept-Encoding"));
    while (rest.ptr) {
        struct str how = str_cut(&rest, ','), name = str_cut(&how, ';');
        while (name.len && name.ptr[0] == ' ')
            name = (struct str){name.ptr + 1, name.len - 1};
        bool is_refused = how.ptr && (str_eqz(how, "q=0") || str_eqz(how, "q=0.0"));
        if (str_eqz(name, "gzip")) return !is_refused;
    }
    return false;
}

static void set_headers(struct http_request *req, const char *caching)
{
    http_set_header(req, "Content-Security-Policy", policy);
    http_set_header(req, "Cross-Origin-Opener-Policy", "same-origin");
    http_set_header(req, "Cache-Control", caching);
}

static void reply_asset(struct http_request *req, const struct asset *a)
{
    const char *known = http_header(req, "If-None-Match");
    bool packed = a->packed.ptr && accepts_gzip(req);
    set_headers(req, is_immutable(a->path) ? "public, max-age=31536000, immutable" : "no-cache");
    http_set_header(req, "ETag", a->etag);
    http_set_header(req, "Vary", "Accept-Encoding");
    if (known && strstr(known, a->etag)) {
        http_reply_static(req, 304, type_of(a->path), STR(""));
        return;
    }
    if (packed) http_set_header(req, "Content-Encoding", "gzip");
    http_reply_static(req, 200, type_of(a->path), packed ? a->packed : a->plain);
}

static int fail_missing(const struct http_request *req, det_err *err)
{
    return det_fail(err, DET_ENOTFOUND, "there is nothing at GET /%.200s",
                    http_param(req, "path").ptr);
}

// The document is for every address that a person might see, but not where a program expects
// something else.
static bool is_address(const char *path)
{
    static const char *const others[] = {"api", "api/", "assets/"};
    if (str_eqz(str_from(path), others[0])) return false;
    for (size_t i = 1; i < sizeof others / sizeof *others; i++)
        if (str_starts(str_from(path), str_from(others[i]))) return false;
    return true;
}

// --- from a directory

static int read_file(struct http_request *req, det_err *err)
{
    const struct master *m = req->user;
    const char *path = http_param(req, "path").ptr;
    int dir = -1, fd = -1;
    int rc = dir_open(m->cfg->ui_dir, 0, &dir, err);
    bool is_there = !rc && path_is_plain(str_from(path)) && !dir_open_file(dir, path, &fd, NULL);
    if (!rc && !is_there) path = document;
    if (!rc && !is_there && !is_address(http_param(req, "path").ptr))
        rc = fail_missing(req, err);
    else if (!rc && !is_there)
        rc = dir_open_file(dir, document, &fd, err);
    if (dir >= 0) close(dir);
    if (rc) return rc;
    set_headers(req, "no-store");
    return http_reply_open_file(req, fd, type_of(path), NULL, err);
}

static int get_page(struct http_request *req, det_err *err)
{
    const struct master *m = req->user;
    const char *path = http_param(req, "path").ptr;
    if (m->cfg->ui_dir) return http_read(req, read_file);
    const struct asset *a = find_asset(path);
    if (!a && is_address(path)) a = find_asset(document);
    if (a) {
        reply_asset(req, a);
        return 0;
    }
    if (*path) return fail_missing(req, err);
    http_reply_static(req, 200, http_content_type(HTTP_TEXT), STR(no_page));
    return 0;
}

const struct http_route page_route = {HTTP_GET,
                                      "/{path*}",
                                      .auth = HTTP_AUTH_NONE,
                                      .handle = get_page,
                                      .content = HTTP_BYTES,
                                      .summary = "The web page."};
