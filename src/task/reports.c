// Unit reports.c: what the programs of a task wrote down, but could not tell the master any more.
// Called by shim.c when they have ended.
#include "task/shim.h"

#include "client/client.h"

// A master that is away comes back; nobody waits for the result of the task meanwhile.
static const int64_t patience_us = 600 * INT64_C(1000000);

static const char *find_variable(const struct task_spec *spec, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < spec->env.n; i++) {
        const char *text = spec->env.items[i];
        if (!strncmp(text, name, n) && text[n] == '=') return text + n + 1;
    }
    return NULL;
}

int task_deliver_reports(const struct task_spec *spec, const char *dir, det_err *err)
{
    const char *master = find_variable(spec, "DET_MASTER");
    const char *token = find_variable(spec, "DET_SESSION_TOKEN");
    if (!master || !token) return det_ok(err);
    const struct http_client_opts opts = {.url = master,
                                          .token = token,
                                          .ca_file = find_variable(spec, "DET_MASTER_CERT_FILE"),
                                          .cert_name = find_variable(spec, "DET_MASTER_CERT_NAME")};
    return client_deliver(dir, &opts, patience_us, err);
}
