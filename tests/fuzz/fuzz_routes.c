// Fuzz target routes: requests to a master, with all of its routes, as in tests/support/requests.h.
// A master is used for a number of inputs; they are in the file history beside its data, as one
// input, in case that an earlier one has to do with a crash.
#include "fuzz.h"

#include "support/requests.h"
#include <stdlib.h>

enum { INPUTS_PER_MASTER = 200, MAX_CROWD = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int n_inputs;
    if (n_inputs == 0) atexit(requests_close);
    if (n_inputs++ % INPUTS_PER_MASTER == 0 || requests_crowd() > MAX_CROWD) requests_open();
    requests_tell((struct str){(const char *)data, size});
    return 0;
}
