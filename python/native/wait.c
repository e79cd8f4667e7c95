// Unit wait.c: C that waits lets other threads of Python run, and a person end it.
#include "native.h"

#include "sys/interrupt.h"

// Handlers of signals are Python code and run here, in the main thread; one that raises ends the
// wait, and its exception stays with this thread.
static bool has_signal(void)
{
    PyGILState_STATE state = PyGILState_Ensure();
    bool raised = PyErr_CheckSignals() != 0;
    PyGILState_Release(state);
    return raised;
}

PyThreadState *wait_begin(void)
{
    interrupt_wanted = has_signal;
    return PyEval_SaveThread();
}

void wait_end(PyThreadState *state)
{
    PyEval_RestoreThread(state);
    interrupt_wanted = NULL;
}
