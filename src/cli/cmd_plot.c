// Unit cmd_plot.c: det experiment plot, det trial plot: curves in the terminal, or as SVG.
#include "cli/cmd.h"

#include "base/number.h"
#include "cli/plotted.h"
#include "cli/show.h"
#include "sys/fs.h"
#include <langinfo.h>
#include <locale.h>

enum {
    MAX_PLOTS = 12,
    DEFAULT_WIDTH = 80,
    DEFAULT_HEIGHT = 12,
    SVG_POINTS = 500,
    MAX_SVG = 64 << 20
};

static const char *const styles[] = {
    [PLOT_BRAILLE] = "braille", [PLOT_BLOCKS] = "blocks", [PLOT_LETTERS] = "letters"};

struct drawing {
    const struct call *call;
    struct remote r;
    struct plotted_query query;
    struct plot_text_opts text;
    bool has_style;
    const char *svg; // a file, or NULL
    struct plot plots[MAX_PLOTS];
    size_t n;
};

// --- options

// A whole number from low to high; out is left alone if the option was not given.
static bool read_int(const struct call *call, const char *name, int low, int high, int *out)
{
    const char *text = call_option(call, name);
    int64_t value;
    if (!text) return true;
    if (!number_to_int(str_from(text), 10, &value) || value < low || value > high) {
        print_error("--%s must be a number from %d to %d, found '%s'", name, low, high, text);
        return false;
    }
    *out = (int)value;
    return true;
}

static bool read_style(struct drawing *d)
{
    const char *text = call_option(d->call, "style");
    d->has_style = text != NULL;
    for (int i = 0; text && i < (int)STATIC_LEN(styles); i++)
        if (!strcmp(text, styles[i])) {
            d->text.style = (enum plot_style)i;
            return true;
        }
    if (text) print_error("--style must be braille, blocks or letters, found '%s'", text);
    return !text;
}

static bool read_options(struct drawing *d)
{
    const struct call *call = d->call;
    const char *smooth = call_option(call, "smooth");
    const size_t shown = show_width();
    d->text.width = shown < 1000 ? (int)shown : DEFAULT_WIDTH;
    d->text.height = DEFAULT_HEIGHT;
    d->text.colours = print_has_colours();
    d->svg = call_option(call, "svg");
    d->query.by_time = call_option(call, "time");
    if (smooth && (!number_to_double(str_from(smooth), &d->query.smooth) || d->query.smooth < 0 ||
                   d->query.smooth > 0.99)) {
        print_error("--smooth must be a number from 0 to 0.99, found '%s'", smooth);
        return false;
    }
    return read_int(call, "width", 24, 1000, &d->text.width) &&
           read_int(call, "height", 3, 1000, &d->text.height) && read_style(d);
}

// Braille where it can be shown; letters where nothing else tells lines apart.
static enum plot_style usual_style(const struct drawing *d, const struct plot *p)
{
    setlocale(LC_CTYPE, "");
    const bool utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
    return utf8 && (d->text.colours || p->n_lines == 1) ? PLOT_BRAILLE : PLOT_LETTERS;
}

// --- which metrics

// "loss" is a metric of any group, "training.loss" that of one.
static bool is_meant(const struct metric_ref *m, const char *text)
{
    const size_t n = strlen(m->group);
    if (!strcmp(m->name, text)) return true;
    return !strncmp(text, m->group, n) && text[n] == '.' && !strcmp(m->name, text + n + 1);
}

static bool is_training(const struct metric_ref *m)
{
    return !strcmp(m->group, "training");
}

static bool is_chosen(const struct drawing *d, const struct metric_ref *m, size_t place)
{
    bool any = false;
    for (int i = 0; i < d->call->n_given; i++) {
        if (strcmp(d->call->given[i]->name, "metric") != 0) continue;
        any = true;
        if (is_meant(m, d->call->values[i])) return true;
    }
    // Unless told: what the search looks at, and one of training, as the web page does.
    const bool is_first = !place || (is_training(m) && !is_training(m - 1));
    return !any && (is_first || !strcmp(d->call->command->noun, "trial"));
}

static bool check_names(const struct drawing *d, const struct metric_ref *all, size_t n)
{
    for (int i = 0; i < d->call->n_given; i++) {
        bool found = strcmp(d->call->given[i]->name, "metric") != 0;
        for (size_t k = 0; k < n; k++)
            found = found || is_meant(&all[k], d->call->values[i]);
        if (found) continue;
        struct buf names = BUF_INIT(2048);
        for (size_t k = 0; k < n; k++)
            buf_printf(&names, "%s%s.%s", k ? ", " : "", all[k].group, all[k].name);
        print_error("no metric '%s' was reported; there is %s", d->call->values[i],
                    n ? buf_str(&names).ptr : "none yet");
        buf_done(&names);
        return false;
    }
    return true;
}

static bool read_plots(struct drawing *d, const struct doc *experiment)
{
    struct metric_ref *all;
    size_t n;
    if (!plotted_metrics(&d->r, experiment, &all, &n) || !check_names(d, all, n)) return false;
    for (size_t i = 0; i < n && d->n < MAX_PLOTS; i++) {
        if (!is_chosen(d, &all[i], i)) continue;
        struct plot *p = &d->plots[d->n];
        if (!plotted_read(&d->r, &d->query, &all[i], p)) return false;
        p->log = call_option(d->call, "log");
        d->n += p->n_lines > 0;
    }
    if (!d->n) print_error("nothing was reported yet");
    return d->n > 0;
}

// --- output

static bool print_plots(struct drawing *d)
{
    struct buf out = BUF_INIT(MAX_SVG);
    det_err err;
    int rc = 0;
    for (size_t i = 0; !rc && i < d->n; i++) {
        struct plot_text_opts opts = d->text;
        if (!d->has_style) opts.style = usual_style(d, &d->plots[i]);
        if (i) buf_addc(&out, '\n');
        rc = plot_text(&d->plots[i], &opts, &out, &err);
    }
    if (rc)
        print_error("%s", err.msg);
    else
        print_log(buf_str(&out));
    buf_done(&out);
    return !rc;
}

static bool write_svg(struct drawing *d)
{
    struct buf out = BUF_INIT(MAX_SVG);
    struct fs_writer file = FS_WRITER_INIT;
    det_err err;
    const bool to_stdout = !strcmp(d->svg, "-");
    int rc = plot_svg(d->plots, d->n, &out, &err);
    if (!rc && !buf_ok(&out)) rc = det_fail(&err, DET_ELIMIT, "the picture is too large");
    if (!rc && to_stdout) print_data(buf_str(&out));
    if (!rc && !to_stdout) rc = fs_writer_open(&file, d->svg, &err);
    if (!rc && !to_stdout) rc = fs_writer_add(&file, out.ptr, out.len, &err);
    if (!rc && !to_stdout) rc = fs_writer_commit(&file, &err);
    fs_writer_close(&file);
    if (rc) print_error("%s", err.msg);
    buf_done(&out);
    return !rc;
}

// experiment: the number of one, or NULL; trial likewise.
static bool draw(struct drawing *d, const char *experiment, const char *trial)
{
    const struct doc *about;
    if (trial) {
        about = doc_find(remote_get(&d->r, "/trials/%s", remote_segment(&d->r, trial)), "trial");
        if (!about) return false;
        experiment = arena_printf(&d->r.arena, "%lld", (long long)doc_whole(about, "experimentId"));
        d->query.trials = remote_segment(&d->r, trial);
    }
    d->query.experiment = remote_segment(&d->r, experiment);
    d->query.max_points = d->svg ? SVG_POINTS : 2 * d->text.width;
    about = doc_find(remote_get(&d->r, "/experiments/%s", d->query.experiment), "experiment");
    return about && read_plots(d, about) && (d->svg ? write_svg(d) : print_plots(d));
}

static int run_plot(const struct call *call)
{
    struct drawing d = {.call = call, .query.trials = "best:8"};
    const bool is_trial = !strcmp(call->command->noun, "trial");
    bool good = false;
    if (!remote_check_id(call) || !read_options(&d)) return EXIT_USAGE;
    if (remote_open(&d.r, call)) {
        const char *trials = is_trial ? NULL : call_option(call, "trials");
        if (trials) d.query.trials = remote_segment(&d.r, trials);
        good = draw(&d, is_trial ? NULL : call->args[0], is_trial ? call->args[0] : NULL);
    }
    remote_close(&d.r);
    return good ? EXIT_OK : EXIT_FAILED;
}

#define PLOT_OPTIONS                                                                              \
    MASTER_OPTION,                                                                                \
        {"metric", 0, "NAME",                                                                     \
         "What to draw, such as loss or validation.loss; can be given several times."},           \
        {"log", 0, NULL, "Draws the logarithm."},                                                 \
        {"time", 0, NULL, "Draws over the time since a trial started, instead of over batches."}, \
        {"smooth", 0, "WEIGHT",                                                                   \
         "Draws a moving average; from 0 to 0.99, the higher the smoother."},                     \
        {"svg", 0, "FILE", "Writes a picture (SVG) instead; '-' is standard output."},            \
        {"style", 0, "STYLE",                                                                     \
         "braille, blocks or letters. What the terminal can show, if not given."},                \
        {"width", 0, "N", "Characters; as wide as the terminal, if not given."},                  \
    {                                                                                             \
        "height", 0, "N", "Characters of each picture; 12 if not given."                          \
    }

static const struct option experiment_options[] = {
    PLOT_OPTIONS,
    {"trials", 0, "WHICH", "Numbers with commas between them, best:N or all; best:8 if not given."},
};
static const struct option trial_options[] = {PLOT_OPTIONS};

static const struct command rows[] = {
    COMMAND(
        "experiment", "plot", "ID", 1, 1, experiment_options, run_plot,
        "Draws curves of an experiment's trials: the metric of the search, and those of training.",
        "det experiment plot 3 --metric loss --log --trials best:5"),
    COMMAND("trial", "plot", "ID", 1, 1, trial_options, run_plot,
            "Draws the curves of all metrics that a trial has reported.",
            "det trial plot 12 --smooth 0.9 --svg loss.svg"),
};

const struct command_table cmd_plot_commands = COMMAND_TABLE(rows);
