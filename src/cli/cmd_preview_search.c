// Unit cmd_preview_search.c: det preview-search: what a search will do, without a master.
#include "cli/cmd.h"

#include "doc/json.h"
#include "doc/yaml.h"
#include "cli/input.h"
#include "search/search.h"

// Not known: the training code decides.
static void put_length(struct json_writer *w, double length)
{
    if (length > 0)
        json_put_int(w, (int64_t)length);
    else
        json_put_null(w);
}

static void put_rungs(struct json_writer *w, const struct plan_rung *rungs, size_t n)
{
    json_open_list(w);
    for (size_t i = 0; i < n; i++) {
        json_open_map(w);
        json_key(w, "length");
        put_length(w, (double)rungs[i].length);
        json_key(w, "trials");
        json_put_int(w, rungs[i].n_trials);
        json_close(w);
    }
    json_close(w);
}

static void put_bracket(struct json_writer *w, const struct plan_bracket *b)
{
    json_open_map(w);
    json_key(w, "rungs");
    json_put_int(w, (int64_t)b->rungs.n);
    json_key(w, "trials");
    json_put_int(w, b->n_trials);
    json_key(w, "concurrent");
    json_put_int(w, b->n_concurrent);
    json_key(w, "lengths");
    put_rungs(w, b->rungs.items, b->rungs.n);
    json_close(w);
}

static void write_json(const struct exp_config *cfg, const struct search_plan *plan,
                       struct buf *out)
{
    struct json_writer w;
    json_init(&w, out, 2);
    json_open_map(&w);
    json_key(&w, "searcher");
    json_put_str(&w, searcher_kind_name(cfg->searcher.kind));
    json_key(&w, "trials");
    json_put_int(&w, plan->n_trials);
    json_key(&w, "units");
    put_length(&w, plan->units);
    json_key(&w, "unit");
    json_put_str(&w, search_unit(cfg));
    json_key(&w, "lengths");
    put_rungs(&w, plan->lengths.items, plan->lengths.n);
    json_key(&w, "brackets");
    json_open_list(&w);
    for (size_t i = 0; i < plan->brackets.n; i++)
        put_bracket(&w, &plan->brackets.items[i]);
    json_close(&w);
    json_close(&w);
    buf_addc(out, '\n');
}

static void write_rungs(const char *unit, const struct plan_rung *rungs, size_t n, struct buf *out)
{
    for (size_t i = 0; i < n; i++) {
        if (!rungs[i].n_trials) continue;
        buf_printf(out, "  %8lld  ", (long long)rungs[i].n_trials);
        if (rungs[i].length) {
            buf_addz(out, "trained for ");
            add_amount(out, (double)rungs[i].length, unit);
            buf_addc(out, '\n');
        } else {
            buf_addz(out, "trained as long as the code decides\n");
        }
    }
}

static void write_text(const struct exp_config *cfg, const struct search_plan *plan,
                       struct buf *out)
{
    const char *unit = search_unit(cfg);
    buf_printf(out, "%s: ", searcher_kind_name(cfg->searcher.kind));
    add_amount(out, (double)plan->n_trials, "trials");
    if (plan->units > 0) {
        buf_addz(out, ", ");
        add_amount(out, plan->units, unit);
        buf_addz(out, " in all");
    }
    buf_addc(out, '\n');
    write_rungs(unit, plan->lengths.items, plan->lengths.n, out);
    for (size_t i = 0; plan->brackets.n > 1 && i < plan->brackets.n; i++) {
        const struct plan_bracket *b = &plan->brackets.items[i];
        buf_printf(out, "bracket %zu: ", i + 1);
        add_amount(out, (double)b->n_trials, "trials");
        buf_addz(out, " in ");
        add_amount(out, (double)b->rungs.n, "rungs");
        buf_printf(out, ", %lld at a time\n", (long long)b->n_concurrent);
        write_rungs(unit, b->rungs.items, b->rungs.n, out);
    }
}

static int run_preview(const struct call *call)
{
    struct arena arena = ARENA_INIT;
    struct buf text = BUF_INIT(YAML_MAX_BYTES), out = BUF_INIT(1 << 24);
    struct exp_config cfg;
    struct search_plan plan;
    det_err err;
    int status = input_read_search(call->args[0], &arena, &text, &cfg);
    if (status != EXIT_OK) goto out;
    if (search_preview(&cfg, &arena, &plan, &err)) {
        print_error("%s", err.msg);
        status = EXIT_FAILED;
        goto out;
    }
    (call_option(call, "json") ? write_json : write_text)(&cfg, &plan, &out);
    print_data(buf_str(&out));
out:
    buf_done(&out);
    buf_done(&text);
    arena_done(&arena);
    return status;
}

static const struct option preview_options[] = {
    {"json", 0, NULL, "Prints JSON."},
};

static const struct command rows[] = {
    {
        .noun = "preview-search",
        .args = "FILE",
        .min_args = 1,
        .max_args = 1,
        .help = "Shows how many trials a search trains for how long. Nothing is run; '-' reads "
                "standard "
                "input.",
        .example = "det preview-search adaptive.yaml",
        .options = preview_options,
        .n_options = sizeof preview_options / sizeof *preview_options,
        .run = run_preview,
    },
};

const struct command_table cmd_preview_search_commands = COMMAND_TABLE(rows);
