// Unit search.c: operations of the searcher.
#include "client/core.h"

#include "doc/json.h"
#include <math.h>

// --- asking

// {"op": {"validateAfter": {"length": 50, "unit": "epochs"}}, "completed": false}. A length of 0
// leaves it to the program: then it is that of the configuration, as in a local run.
static int read_op(det_core *core, const struct doc *answer, det_err *err)
{
    static const enum length_unit units[] = {LENGTH_EPOCHS, LENGTH_BATCHES, LENGTH_RECORDS,
                                             LENGTH_UNITS, LENGTH_TIME};
    const struct doc *op = doc_find(doc_find(answer, "op"), "validateAfter");
    const struct doc *length = doc_find(op, "length"), *unit = doc_find(op, "unit");
    const struct doc *completed = doc_find(answer, "completed");
    struct length out = {LENGTH_UNITS, 0};
    if (!op || (completed && completed->kind == DOC_BOOL && completed->boolean)) return 0;
    if (!length || !doc_integer(length, &out.amount) || out.amount < 0)
        return det_fail(err, DET_ECORRUPT, "the master gave an operation without a length");
    for (int i = 0; unit && unit->kind == DOC_STR && i < 5; i++)
        if (str_eqz(unit->text, length_unit_name(units[i]))) out.unit = units[i];
    core->op = (struct det_search_op){.core = core, .asked = out.amount, .length = out};
    if (!out.amount) core->op.length = core->settings.length;
    return 1;
}

static int next_local(det_core *core)
{
    if (core->has_op) return 0;
    const struct length length = core->settings.length;
    core->op = (struct det_search_op){.core = core, .asked = length.amount, .length = length};
    return 1;
}

static int next_of_master(det_core *core, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct api_path path = core_trial_path(core, "searcher/operation");
    struct doc *answer;
    // The answer depends on what the searcher knows: everything we said must have arrived.
    int rc = core->shipper ? shipper_drain(core->shipper, INT64_MAX / 4, err) : 0;
    if (!rc) rc = core_ask(core, path.text, &arena, &answer, err);
    if (!rc) rc = read_op(core, answer, err);
    arena_done(&arena);
    return rc;
}

int det_core_next_search_op(det_core *core, det_search_op **out, det_err *err)
{
    if (core->has_op && !core->op.is_complete)
        return det_fail(err, DET_ESTATE, "the operation before this one was not completed");
    int rc = core->info.is_local ? next_local(core) : next_of_master(core, err);
    if (rc < 0) return rc;
    det_ok(err);
    core->has_op = true;
    if (rc == 1)
        *out = &core->op;
    else
        core_acknowledge_end(core);
    return rc;
}

// --- lengths

static int length_in(const det_search_op *op, enum length_unit unit, int64_t *out, det_err *err)
{
    if (op->length.unit != unit && op->length.unit != LENGTH_UNITS)
        return det_fail(err, DET_EINVAL, "the length of training was configured in %s, not in %s",
                        length_unit_name(op->length.unit), length_unit_name(unit));
    *out = op->length.amount;
    return det_ok(err);
}

int det_search_op_epochs(const det_search_op *op, int64_t *out, det_err *err)
{
    return length_in(op, LENGTH_EPOCHS, out, err);
}

int det_search_op_batches(const det_search_op *op, int64_t *out, det_err *err)
{
    return length_in(op, LENGTH_BATCHES, out, err);
}

int det_search_op_records(const det_search_op *op, int64_t *out, det_err *err)
{
    return length_in(op, LENGTH_RECORDS, out, err);
}

int64_t det_search_op_length(const det_search_op *op)
{
    return op->length.amount;
}

const char *det_search_op_unit(const det_search_op *op)
{
    return length_unit_name(op->length.unit);
}

// --- reporting

int det_search_op_report_progress(det_search_op *op, double units, det_err *err)
{
    det_core *core = op->core;
    int rc = core_check_chief(core, "reporting progress", err);
    if (rc) return rc;
    if (!isfinite(units) || units < 0)
        return det_fail(err, DET_EINVAL, "progress must be a number of at least 0, found %g",
                        units);
    if (op->is_complete && units != (double)op->length.amount)
        return det_fail(err, DET_ESTATE, "the operation is complete already");
    struct buf body = BUF_INIT(256);
    struct json_writer w;
    json_init(&w, &body, 0);
    json_open_map(&w);
    json_key(&w, "progress");
    json_put_double(&w, units);
    json_close(&w);
    rc = core_mention(core, core_trial_path(core, "progress").text, &body, err);
    buf_done(&body);
    return rc;
}

int det_search_op_complete(det_search_op *op, double metric, det_err *err)
{
    det_core *core = op->core;
    int rc = core_check_chief(core, "completing an operation", err);
    if (rc) return rc;
    if (op->is_complete) return det_fail(err, DET_ESTATE, "the operation is complete already");
    struct buf body = BUF_INIT(256);
    struct json_writer w;
    json_init(&w, &body, 0);
    json_open_map(&w);
    json_key(&w, "op");
    json_open_map(&w);
    json_key(&w, "length");
    json_put_int(&w, op->asked);
    json_close(&w);
    json_key(&w, "searcherMetric");
    json_put_double(&w, metric);
    json_close(&w);
    rc = core_report(core, core_trial_path(core, "searcher/completed_operation").text, &body, err);
    if (!rc) op->is_complete = true;
    buf_done(&body);
    return rc;
}
