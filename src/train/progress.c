// Unit progress.c: the bar and the lines that tell a person how training goes. Called by the trainer
// and by det-run.
#include "train/progress.h"

#include "base/assert.h"
#include "sys/clock.h"
#include <math.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096, BAR_CHARS = 24, BAR_LEAST = 5, REDRAW_US = 100000 };

void progress_init(struct progress *p, FILE *out)
{
    *p = (struct progress){.out = out,
                           .is_terminal = isatty(fileno(out)),
                           .begin_us = clock_mono_us(),
                           .metrics = BUF_INIT(LINE_MAX_BYTES),
                           .line = BUF_INIT(LINE_MAX_BYTES),
                           .words = BUF_INIT(LINE_MAX_BYTES)};
}

static void take_bar_away(struct progress *p)
{
    if (p->drawn_us) fputs("\r\033[K", p->out);
    p->drawn_us = 0;
}

void progress_done(struct progress *p)
{
    take_bar_away(p);
    fflush(p->out);
    buf_done(&p->metrics);
    buf_done(&p->line);
    buf_done(&p->words);
}

// "loss 0.2503  error 0.1"
static void put_metrics(struct buf *out, const det_metrics *m)
{
    for (int i = 0; i < det_metrics_len(m); i++) {
        double value = det_metrics_at(m, 0, i);
        if (isnan(value)) value = NAN; // which sign it has says nothing
        buf_printf(out, "%s%s %.4g", i ? "  " : "", det_metrics_name(m, i), value);
    }
}

// "1:02:03" or "2:03"
static void put_duration(struct buf *out, double seconds)
{
    if (!(seconds < 1e6)) {
        buf_addz(out, "-:--");
        return;
    }
    int64_t s = (int64_t)ceil(seconds);
    if (s >= 3600)
        buf_printf(out, "%lld:%02lld:%02lld", (long long)(s / 3600), (long long)(s / 60 % 60),
                   (long long)(s % 60));
    else
        buf_printf(out, "%lld:%02lld", (long long)(s / 60), (long long)(s % 60));
}

// "batch 300  43%  812 batches/s  0:12 left"; without the rate if there is no room for it.
static void put_position(const struct progress *p, struct buf *out, const det_report *r, bool rate)
{
    double seconds = (double)(clock_mono_us() - p->first_us) * 1e-6;
    int64_t batches = r->batches - p->first_batches;
    double done = r->progress - p->first_progress;
    buf_printf(out, "batch %lld  %3.0f%%", (long long)r->batches, r->progress * 100);
    if (batches < 1 || seconds <= 0) return;
    if (rate) buf_printf(out, "  %.4g batches/s", (double)batches / seconds);
    buf_addz(out, "  ");
    put_duration(out, done > 0 ? seconds * (1 - r->progress) / done : INFINITY);
    buf_addz(out, " left");
}

static int terminal_columns(FILE *out)
{
    struct winsize size;
    return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// "batch 300  43%  812 batches/s  0:12 left  loss 0.25"
static void put_words(struct progress *p, const det_report *r, bool rate)
{
    buf_clear(&p->words);
    put_position(p, &p->words, r, rate);
    if (p->metrics.len) buf_printf(&p->words, "  %s", p->metrics.ptr);
}

// The bar has what the words leave; metrics are worth more.
static void put_bar(struct buf *out, double progress, int width)
{
    int full = (int)(progress * width);
    if (width < BAR_LEAST) return;
    buf_addc(out, '[');
    for (int i = 0; i < width; i++)
        buf_addc(out, i < full ? '=' : i == full ? '>' : ' ');
    buf_addz(out, "] ");
}

static void draw_bar(struct progress *p, const det_report *r)
{
    int64_t now = clock_mono_us();
    if (p->drawn_us && now - p->drawn_us < REDRAW_US) return;
    // One column less than there are: in the last one some terminals begin a new line.
    int room = terminal_columns(p->out) - 1;
    put_words(p, r, true);
    if ((int)p->words.len > room) put_words(p, r, false);
    buf_clear(&p->line);
    put_bar(&p->line, r->progress, MIN(room - (int)p->words.len - 3, BAR_CHARS));
    buf_addz(&p->line, p->words.ptr);
    fprintf(p->out, "\r%.*s\033[K", MIN((int)p->line.len, room), p->line.ptr);
    fflush(p->out);
    p->drawn_us = now;
}

static void print_line(struct progress *p)
{
    take_bar_away(p);
    fprintf(p->out, "%s\n", p->line.ptr);
    fflush(p->out);
}

static void report_training(struct progress *p, const det_report *r)
{
    buf_clear(&p->metrics);
    put_metrics(&p->metrics, r->metrics);
    if (p->is_terminal) return; // the bar shows them
    buf_clear(&p->line);
    put_position(p, &p->line, r, true);
    buf_printf(&p->line, "  %s", p->metrics.ptr);
    print_line(p);
}

static void report_validation(struct progress *p, const det_report *r)
{
    buf_clear(&p->line);
    buf_printf(&p->line, "batch %lld  epoch %lld  validation: ", (long long)r->batches,
               (long long)r->epochs);
    put_metrics(&p->line, r->metrics);
    print_line(p);
}

static void report_checkpoint(struct progress *p, const det_report *r)
{
    buf_clear(&p->line);
    buf_printf(&p->line, "batch %lld  checkpoint %s%s", (long long)r->batches, r->text,
               r->is_best ? " (best)" : "");
    print_line(p);
}

static void report_warning(struct progress *p, const char *text)
{
    buf_clear(&p->line);
    buf_printf(&p->line, "warning: %s", text);
    print_line(p);
}

void progress_report(struct progress *p, const det_report *r)
{
    if (!p->first_us) {
        p->first_us = clock_mono_us();
        p->first_batches = r->batches;
        p->first_progress = r->progress;
    }
    switch (r->kind) {
    case DET_REPORT_BATCH:
        if (p->is_terminal) draw_bar(p, r);
        break;
    case DET_REPORT_TRAINING:
        report_training(p, r);
        break;
    case DET_REPORT_VALIDATION:
        report_validation(p, r);
        break;
    case DET_REPORT_CHECKPOINT:
        report_checkpoint(p, r);
        break;
    case DET_REPORT_WARNING:
        report_warning(p, r->text);
        break;
    }
}

// A nan among the numbers of the last line is easily overlooked.
static void warn_of_nan(struct progress *p, const char *kind, const det_metrics *m)
{
    for (int i = 0; i < det_metrics_len(m); i++) {
        if (!isnan(det_metrics_at(m, 0, i))) continue;
        buf_clear(&p->line);
        buf_printf(&p->line,
                   "warning: the last %s metric '%s' is not a number (nan), so the model is of no "
                   "use; is the learning rate too high?",
                   kind, det_metrics_name(m, i));
        print_line(p);
        return;
    }
}

void progress_result(struct progress *p, const det_result *r)
{
    double seconds = (double)(clock_mono_us() - p->begin_us) * 1e-6;
    buf_clear(&p->line);
    buf_printf(&p->line, "%s after %lld batches (%lld epochs), seed %llu, %.3g s",
               r->stop_reason == DET_STOP_LENGTH ? "finished" : "stopped", (long long)r->batches,
               (long long)r->epochs, (unsigned long long)r->seed, seconds);
    if (r->validation) buf_addz(&p->line, "; validation: ");
    put_metrics(&p->line, r->validation);
    if (r->best_validation && r->best_batches != r->batches) {
        buf_printf(&p->line, "; best at batch %lld: ", (long long)r->best_batches);
        put_metrics(&p->line, r->best_validation);
    } else if (r->best_validation) {
        buf_addz(&p->line, ", the best");
    }
    print_line(p);
    warn_of_nan(p, "training", r->training);
    warn_of_nan(p, "validation", r->validation);
}
