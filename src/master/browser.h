// master/browser.h: sessions of browsers. Private to the layer.
//
// A browser has its session in a cookie, which it sends along whoever has made the request: the
// page of det, or a page of somebody else that the user looks at in another tab. So a request by
// cookie counts only if the browser says that our own page made it.
//
// A person who has a token, as every local user has, gets into the page without a password: by a
// code that is good once, and for a minute.
#pragma once

#include "master/auth.h"

enum { BROWSER_CODE_S = 60, BROWSER_SESSION_S = 30 * 24 * 3600 };

// The header that requests by cookie need if they change something, with any value: no page of
// another site can set one.
#define BROWSER_HEADER "X-Det-Request"

void browser_open(struct master *m);
void browser_close(struct master *m);

// The session in the cookie of a request; NULL: there is none.
const char *browser_cookie(struct http_request *req);

// How a session of that cookie is known. A token in a cookie is nobody's, nor is a cookie that is
// sent as a token.
struct str browser_hash(const struct master *m, const char *cookie, struct arena *arena);

// DET_EDENIED unless our own page has made the request, as far as that matters.
int browser_check(struct http_request *req, det_err *err);
// The same for a request that makes a session.
int browser_check_change(struct http_request *req, det_err *err);

// A session of the user that counts from now on, as a cookie of the answer. If tx fails, nobody
// must hear of it. Returns the hash.
struct str browser_new_session(struct http_request *req, int64_t user_id, struct db_tx *tx);
void browser_forget_cookie(struct http_request *req); // the browser shall
