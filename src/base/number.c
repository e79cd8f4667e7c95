// Unit number.c: text to number and back. strtod and printf follow the locale of the program that
// we are a library of, so the decimal point is exchanged on the way in and out.
#include "base/number.h"

#include "base/assert.h"
#include <ctype.h>
#include <float.h>
#include <limits.h>
#include <locale.h>
#include <math.h>

enum { NUMBER_MAX = 400 }; // characters; longer than any double written out

static int digit_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return 99;
}

bool number_to_int(struct str text, int base, int64_t *out)
{
    bool negative = text.len && text.ptr[0] == '-';
    size_t i = text.len && (negative || text.ptr[0] == '+');
    if (i == text.len) return false;
    int64_t value = 0;
    for (; i < text.len; i++) {
        int digit = digit_value(text.ptr[i]);
        if (digit >= base) return false;
        // Counting downwards for negative numbers, because INT64_MIN has no positive partner.
        if (__builtin_mul_overflow(value, base, &value)) return false;
        if (__builtin_add_overflow(value, negative ? -digit : digit, &value)) return false;
    }
    *out = value;
    return true;
}

static size_t skip_digits(struct str text, size_t i)
{
    while (i < text.len && isdigit((unsigned char)text.ptr[i]))
        i++;
    return i;
}

// Says whether text is a number, and where its decimal point is (or text.len).
static bool scan_decimal(struct str text, size_t *point)
{
    size_t i = text.len && (text.ptr[0] == '-' || text.ptr[0] == '+');
    size_t start = i, n_digits;
    i = skip_digits(text, i);
    n_digits = i - start;
    *point = text.len;
    if (i < text.len && text.ptr[i] == '.') {
        *point = i;
        start = ++i;
        i = skip_digits(text, i);
        n_digits += i - start;
    }
    if (!n_digits) return false;
    if (i < text.len && (text.ptr[i] == 'e' || text.ptr[i] == 'E')) {
        i++;
        if (i < text.len && (text.ptr[i] == '-' || text.ptr[i] == '+')) i++;
        start = i;
        i = skip_digits(text, i);
        if (i == start) return false;
    }
    return i == text.len;
}

bool number_is_decimal(struct str text)
{
    size_t point;
    return scan_decimal(text, &point);
}

bool number_to_double(struct str text, double *out)
{
    size_t point;
    if (text.len > NUMBER_MAX || !scan_decimal(text, &point)) return false;
    char copy[NUMBER_MAX + MB_LEN_MAX + 1];
    bool has_point = point < text.len;
    struct str tail = {text.ptr + point + has_point, text.len - point - has_point};
    snprintf(copy, sizeof copy, "%.*s%s%.*s", (int)point, text.ptr,
             has_point ? localeconv()->decimal_point : "", STR_ARG(tail));
    double value = strtod(copy, NULL);
    if (isinf(value)) return false;
    *out = value;
    return true;
}

// By hand: large states are mostly integers, and printf takes ten times as long.
void buf_add_int(struct buf *b, int64_t value)
{
    char text[20], *at = text + sizeof text; // up to 19 digits and a sign
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do
        *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0) *--at = '-';
    buf_add(b, at, (size_t)(text + sizeof text - at));
}

// Whole numbers that 15 digits can write, without an exponent. Not -0.0, whose sign would be lost.
static bool is_short_integer(double value)
{
    return fabs(value) < 1e15 && value == (double)(int64_t)value && !(value == 0 && signbit(value));
}

void buf_add_double(struct buf *b, double value)
{
    ASSERT(isfinite(value));
    if (is_short_integer(value)) {
        buf_add_int(b, (int64_t)value);
        buf_addz(b, ".0");
        return;
    }
    char text[64];
    // 15 digits are always enough to come from text to a double and back; 17 from a double to text
    // and back. Only subnormal numbers, which hold less, may need fewer than a normal one prints.
    int digits = fabs(value) < DBL_MIN ? 1 : DBL_DIG;
    do {
        snprintf(text, sizeof text, "%.*g", digits, value);
    } while (digits++ < DBL_DECIMAL_DIG && strtod(text, NULL) != value);

    const char *local = localeconv()->decimal_point;
    const char *point = strstr(text, local);
    size_t n_head = point ? (size_t)(point - text) : strcspn(text, "e");
    buf_add(b, text, n_head);
    buf_addz(b, point ? "." : ".0");
    buf_addz(b, text + n_head + (point ? strlen(local) : 0));
}

static void add_fixed(struct buf *b, uint64_t scaled, int n_decimals)
{
    char text[32], *at = text + sizeof text;
    for (; n_decimals && scaled % 10 == 0; n_decimals--)
        scaled /= 10;
    for (int i = 0; i < n_decimals; i++, scaled /= 10)
        *--at = (char)('0' + scaled % 10);
    if (n_decimals) *--at = '.';
    do
        *--at = (char)('0' + scaled % 10);
    while (scaled /= 10);
    buf_add(b, at, (size_t)(text + sizeof text - at));
}

enum { ROUNDED_DIGITS = 9 };

// Very small or very large.
static void add_scientific(struct buf *b, double size)
{
    const double unit = 1e8; // one digit less
    int exponent = (int)floor(log10(size));
    uint64_t digits = (uint64_t)(size / pow(10, exponent) * unit + 0.5);
    if (digits >= (uint64_t)(10 * unit)) {
        digits /= 10;
        exponent++;
    }
    add_fixed(b, digits, ROUNDED_DIGITS - 1);
    buf_addc(b, 'e');
    buf_add_int(b, exponent);
}

void buf_add_rounded(struct buf *b, double value)
{
    static const double powers[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6, 1e7,
                                    1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14};
    const double size = fabs(value);
    int n_decimals = 0;
    ASSERT(isfinite(value));
    if (value < 0) buf_addc(b, '-');
    if (size != 0 && size < 1e-290) { // no power of ten is near
        buf_add_double(b, size);
        return;
    }
    if (size != 0 && (size < 1e-5 || size >= 1e15)) {
        add_scientific(b, size);
        return;
    }
    while (size != 0 && n_decimals < 14 && size * powers[n_decimals] < powers[ROUNDED_DIGITS - 1])
        n_decimals++;
    add_fixed(b, (uint64_t)(size * powers[n_decimals] + 0.5), n_decimals);
}
