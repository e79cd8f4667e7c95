// Pictures of curves: the same lines, axes and marks in a terminal and as SVG; nothing that users wrote acts on either.
#include "support/test.h"

#include "base/assert.h"
#include "plot/plot.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double ramp[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

static struct plot plot_of(const struct plot_line *lines, size_t n)
{
    return (struct plot){.title = "loss", .x_title = "batches", .lines = lines, .n_lines = n};
}

static void expect_text(const struct plot *p, const struct plot_text_opts *opts, const char *wanted)
{
    struct buf out = BUF_INIT(1 << 20);
    det_err err;
    assert_int_equal(plot_text(p, opts, &out, &err), 0);
    if (strcmp(buf_str(&out).ptr, wanted)) fputs(buf_str(&out).ptr, stderr);
    assert_string_equal(buf_str(&out).ptr, wanted);
    buf_done(&out);
}

static void test_plot__a_line_in_braille(void **state)
{
    (void)state;
    const struct plot_line line = {.label = "trial 1", .n = 11, .x = ramp, .y = ramp};
    const struct plot p = plot_of(&line, 1);
    expect_text(&p, &(struct plot_text_opts){.width = 24, .height = 5},
                "loss  (over batches)\n"
                "10 ┤                ⣀⠤⠔⠒\n"
                "   │            ⣀⠤⠒⠉\n"
                "   │       ⢀⣀⠤⠔⠊\n"
                "   │   ⢀⡠⠔⠊⠁\n"
                " 0 ┤⠤⠒⠊⠁\n"
                "   └┬─────────┬────────┬\n"
                "    0         5       10\n"
                "    ━━ trial 1\n");
}

static void test_plot__letters_tell_lines_apart_without_colours(void **state)
{
    (void)state;
    static const double down[] = {10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
    const struct plot_line lines[] = {
        {.label = "trial 1", .n = 11, .x = ramp, .y = ramp},
        {.label = "trial 2", .ink = 1, .n = 11, .x = ramp, .y = down}};
    const struct plot p = plot_of(lines, 2);
    expect_text(&p, &(struct plot_text_opts){.width = 24, .height = 3, .style = PLOT_LETTERS},
                "loss  (over batches)\n"
                "10 +bbbbb         aaaaaa\n"
                "   |     aaaaaaaaa\n"
                " 0 +aaaaa         bbbbbb\n"
                "   ++---------+--------+\n"
                "    0         5       10\n"
                "    a: trial 1\n"
                "    b: trial 2\n");
}

static void test_plot__blocks_and_colours(void **state)
{
    (void)state;
    const struct plot_line line = {.label = "trial 4", .ink = 9, .n = 11, .x = ramp, .y = ramp};
    const struct plot p = plot_of(&line, 1);
    struct buf out = BUF_INIT(1 << 20);
    det_err err;
    const struct plot_text_opts opts = {
        .width = 40, .height = 4, .style = PLOT_BLOCKS, .colours = true};
    assert_int_equal(plot_text(&p, &opts, &out, &err), 0);
    assert_non_null(strstr(buf_str(&out).ptr, "▄▀"));
    assert_non_null(
        strstr(buf_str(&out).ptr, "\x1b[38;5;208m")); // the tenth line has the second colour
    buf_done(&out);
}

static void test_plot__values_that_are_missing_are_gaps(void **state)
{
    (void)state;
    static const double y[] = {1, 1, NAN, INFINITY, 1, 1, -INFINITY, 1, NAN, 1, 1};
    const struct plot_line line = {.label = "a", .n = 11, .x = ramp, .y = y};
    const struct plot p = plot_of(&line, 1);
    expect_text(&p, &(struct plot_text_opts){.width = 27, .height = 3, .style = PLOT_LETTERS},
                "loss  (over batches)\n"
                "1.1 +\n"
                "1.0 +aaa     aaaa   a   aaa\n"
                "0.9 +\n"
                "    ++----------+---------+\n"
                "     0          5        10\n"
                "     a: a\n");
}

static void test_plot__a_logarithm_leaves_out_what_has_none(void **state)
{
    (void)state;
    static const double y[] = {1000, 100, 10, 1, 0, -1};
    const struct plot_line line = {.label = "a", .n = 6, .x = ramp, .y = y};
    struct plot p = plot_of(&line, 1);
    p.log = true;
    expect_text(&p, &(struct plot_text_opts){.width = 24, .height = 7, .style = PLOT_LETTERS},
                "loss  (over batches, logarithmic)\n"
                "    |aa\n"
                "    |  aaa\n"
                "100 +     aaa\n"
                "    |        aaa\n"
                "    |           aaa\n"
                "    |              aaa\n"
                "  1 +                 aa\n"
                "    ++-----------+------\n"
                "     0           2\n"
                "     a: a\n");
}

static void expect_refusal(const struct plot *p, int width, int height, const char *words)
{
    struct buf out = BUF_INIT(1 << 20);
    det_err err;
    const struct plot_text_opts opts = {.width = width, .height = height};
    assert_int_equal(plot_text(p, &opts, &out, &err), DET_EINVAL);
    assert_non_null(strstr(err.msg, words));
    assert_int_equal(out.len, 0);
    buf_done(&out);
}

static void test_plot__nothing_to_see_is_an_error(void **state)
{
    (void)state;
    static const double none[] = {NAN, INFINITY}, negative[] = {-1, 0};
    const struct plot_line nothing = {.label = "a", .n = 2, .x = ramp, .y = none};
    const struct plot_line below = {.label = "a", .n = 2, .x = ramp, .y = negative};
    const struct plot_line line = {.label = "a", .n = 2, .x = ramp, .y = ramp};
    struct plot p = plot_of(&nothing, 1), empty = plot_of(NULL, 0), q = plot_of(&below, 1);
    const struct plot good = plot_of(&line, 1);
    expect_refusal(&p, 80, 10, "loss: there is no value to draw");
    expect_refusal(&empty, 80, 10, "there is no value to draw");
    q.log = true;
    expect_refusal(&q, 80, 10, "there is no value above 0 to draw");
    expect_refusal(&good, 10, 10, "24 to 1000 characters wide");
    expect_refusal(&good, 80, 2, "from 3 to 1000 high, found 80 and 2");
}

// Whatever the numbers are, there is a picture, and its marks are within it.
static void test_plot__extreme_values(void **state)
{
    (void)state;
    static const double cases[][2] = {
        {-1e300, 1e300}, {1e-308, 2e-308},       {1e16, 1e16 + 2}, {5, 5},
        {0, 0},          {-1e-9, 1e9},           {1e300, 1e301},   {3, 3.0000001},
        {1e-5, 1.2e-5},  {123456789, 123456790}, {-5, -4},         {1.1, 1.9}};
    for (size_t i = 0; i < STATIC_LEN(cases); i++)
        for (int k = 0; k < 12; k++) {
            const struct plot_line line = {
                .label = "a", .n = 2, .x = k & 1 ? cases[i] : ramp, .y = cases[i]};
            struct plot p = plot_of(&line, 1);
            struct buf out = BUF_INIT(1 << 20);
            det_err err;
            p.log = k & 2;
            p.x_axis = k & 4 ? PLOT_SECONDS : PLOT_NUMBERS;
            const struct plot_text_opts opts = {
                .width = 80, .height = 10, .style = (enum plot_style)(k % 3)};
            int rc = plot_text(&p, &opts, &out, &err);
            assert_true(!rc || p.log || i == 6);
            rc = plot_svg(&p, 1, &out, &err);
            assert_true(!rc || p.log || i == 6);
            assert_null(strstr(buf_str(&out).ptr, "nan"));
            buf_done(&out);
        }
}

static void test_plot__durations_are_marked_as_people_say_them(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *marks[3];
    } cases[] = {{0.9, {"0.5 s"}},         {45, {"30 s", "45 s"}}, {600, {"5 min", "10 min"}},
                 {400, {"2 min"}},         {9000, {"2 h"}},        {40000, {"6 h"}},
                 {400000, {"2 d", "4 d"}}, {4e7, {"365 d"}}};
    for (size_t i = 0; i < STATIC_LEN(cases); i++) {
        const double x[] = {0, cases[i].seconds};
        const struct plot_line line = {.label = "a", .n = 2, .x = x, .y = ramp};
        struct plot p = plot_of(&line, 1);
        struct buf out = BUF_INIT(1 << 20);
        det_err err;
        p.x_axis = PLOT_SECONDS;
        assert_int_equal(
            plot_text(&p, &(struct plot_text_opts){.width = 60, .height = 3}, &out, &err), 0);
        for (int k = 0; k < 3 && cases[i].marks[k]; k++)
            if (!strstr(buf_str(&out).ptr, cases[i].marks[k]))
                fail_msg("%s is not in\n%s", cases[i].marks[k], buf_str(&out).ptr);
        buf_done(&out);
    }
}

static void test_plot__svg_has_the_same_marks_and_a_path_for_each_line(void **state)
{
    (void)state;
    static const double low[] = {0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    const struct plot_line lines[] = {
        {.label = "trial 1", .n = 11, .x = ramp, .y = ramp, .low = low, .high = ramp},
        {.label = "trial 9", .ink = 8, .n = 11, .x = ramp, .y = low}};
    const struct plot p = plot_of(lines, 2);
    const struct plot both[] = {p, p};
    struct buf out = BUF_INIT(1 << 20);
    det_err err;
    assert_int_equal(plot_svg(both, 2, &out, &err), 0);
    const char *svg = buf_str(&out).ptr;
    int n = 0;
    for (const char *at = svg; (at = strstr(at, "<path class=\"line\"")); at++)
        n++;
    assert_int_equal(n, 2 * (2 + 2)); // lines, and those of the list
    assert_non_null(strstr(svg, "class=\"span\""));
    assert_non_null(strstr(svg, "stroke-dasharray")); // the ninth has the first colour again
    assert_non_null(strstr(svg, ">10</text>"));
    assert_non_null(strstr(svg, "<title>trial 9</title>"));
    assert_string_equal(svg + out.len - 7, "</svg>\n");
    buf_done(&out);
}

static void test_plot__texts_of_users_are_only_texts(void **state)
{
    (void)state;
    const struct plot_line line = {
        .label = "</text><script>alert(1)</script>", .n = 2, .x = ramp, .y = ramp};
    const struct plot p = {
        .title = "\x1b]0;mine\a\"&<b>\xe2\x80\xae", .x_title = "x", .lines = &line, .n_lines = 1};
    struct buf out = BUF_INIT(1 << 20);
    det_err err;
    assert_int_equal(plot_text(&p, &(struct plot_text_opts){.width = 80, .height = 3}, &out, &err),
                     0);
    assert_null(strchr(buf_str(&out).ptr, '\x1b'));
    assert_null(strstr(buf_str(&out).ptr, "\xe2\x80\xae"));
    buf_clear(&out);
    assert_int_equal(plot_svg(&p, 1, &out, &err), 0);
    assert_null(strstr(buf_str(&out).ptr, "<script"));
    assert_null(strchr(buf_str(&out).ptr, '\x1b'));
    assert_non_null(strstr(buf_str(&out).ptr, "&lt;/text&gt;&lt;script"));
    assert_non_null(strstr(buf_str(&out).ptr, "&quot;&amp;&lt;b&gt;"));
    buf_done(&out);
}

static void test_plot__long_names_are_cut(void **state)
{
    (void)state;
    char name[3000];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    const struct plot_line line = {.label = name, .n = 2, .x = ramp, .y = ramp};
    struct plot p = plot_of(&line, 1);
    struct buf out = BUF_INIT(1 << 20);
    det_err err;
    p.title = name;
    assert_int_equal(plot_text(&p, &(struct plot_text_opts){.width = 50, .height = 3}, &out, &err),
                     0);
    struct str rest = buf_str(&out);
    while (rest.ptr)
        assert_true(str_cut(&rest, '\n').len <= 3 * 50);
    assert_non_null(strstr(buf_str(&out).ptr, "xxx..."));
    buf_done(&out);
}

RUN_TESTS(cmocka_unit_test(test_plot__a_line_in_braille),
          cmocka_unit_test(test_plot__letters_tell_lines_apart_without_colours),
          cmocka_unit_test(test_plot__blocks_and_colours),
          cmocka_unit_test(test_plot__values_that_are_missing_are_gaps),
          cmocka_unit_test(test_plot__a_logarithm_leaves_out_what_has_none),
          cmocka_unit_test(test_plot__nothing_to_see_is_an_error),
          cmocka_unit_test(test_plot__extreme_values),
          cmocka_unit_test(test_plot__durations_are_marked_as_people_say_them),
          cmocka_unit_test(test_plot__svg_has_the_same_marks_and_a_path_for_each_line),
          cmocka_unit_test(test_plot__texts_of_users_are_only_texts),
          cmocka_unit_test(test_plot__long_names_are_cut))
