// Unit yaml_scalar.c: text of a plain scalar to a typed value.
#include "doc/yaml_scalar.h"

#include "base/assert.h"
#include "base/number.h"
#include <math.h>
#include <strings.h>

static bool is_one_of(struct str text, const char *const *words)
{
    for (; *words; words++)
        if (str_eqz(text, *words)) return true;
    return false;
}

static bool all_in(struct str text, const char *set)
{
    for (size_t i = 0; i < text.len; i++)
        if (!text.ptr[i] || !strchr(set, text.ptr[i])) return false;
    return text.len > 0;
}

static struct str without_sign(struct str text)
{
    bool sign = text.len && (text.ptr[0] == '-' || text.ptr[0] == '+');
    return (struct str){text.ptr + sign, text.len - sign};
}

static bool resolve_int(struct str text, struct doc *out, bool *fits)
{
    struct str digits = without_sign(text);
    int base = 10;
    if (all_in(digits, "0123456789")) {
        digits = text;
    } else if (str_starts(text, STR("0x")) || str_starts(text, STR("0o"))) {
        base = text.ptr[1] == 'x' ? 16 : 8;
        digits = (struct str){text.ptr + 2, text.len - 2};
        if (!all_in(digits, base == 16 ? "0123456789abcdefABCDEF" : "01234567")) return false;
    } else {
        return false;
    }
    out->kind = DOC_INT;
    *fits = number_to_int(digits, base, &out->integer);
    return true;
}

static bool resolve_double(struct str text, struct doc *out, bool *fits)
{
    static const char *const infinities[] = {".inf", ".Inf", ".INF", NULL};
    static const char *const nans[] = {".nan", ".NaN", ".NAN", NULL};
    out->kind = DOC_DOUBLE;
    if (is_one_of(without_sign(text), infinities)) {
        out->number = text.ptr[0] == '-' ? -INFINITY : INFINITY;
        return true;
    }
    if (is_one_of(text, nans)) {
        out->number = NAN;
        return true;
    }
    if (!number_is_decimal(text)) return false;
    *fits = number_to_double(text, &out->number);
    return true;
}

bool yaml_resolve(struct str text, struct doc *out)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    bool fits = true;
    if (is_one_of(text, nulls)) {
        out->kind = DOC_NULL;
        out->text = (struct str){NULL, 0};
    } else if (is_one_of(text, trues) || is_one_of(text, falses)) {
        out->kind = DOC_BOOL;
        out->boolean = text.ptr[0] == 't' || text.ptr[0] == 'T';
    } else if (!resolve_int(text, out, &fits) && !resolve_double(text, out, &fits)) {
        out->kind = DOC_STR;
        out->text = text;
    }
    return fits;
}

const char *yaml_1_1_meaning(struct str text)
{
    static const char *const booleans[] = {"y", "n", "yes", "no", "on", "off", NULL};
    if (text.len <= 3)
        for (int i = 0; booleans[i]; i++)
            if (strlen(booleans[i]) == text.len && !strncasecmp(text.ptr, booleans[i], text.len))
                return "a boolean";
    struct str digits = without_sign(text);
    if (!digits.len || digits.ptr[0] < '0' || digits.ptr[0] > '9') return NULL;
    if (digits.len > 1 && digits.ptr[0] == '0' && all_in(digits, "01234567"))
        return "an octal number";
    if (all_in(digits, "0123456789_") && memchr(digits.ptr, '_', digits.len)) return "a number";
    if (all_in(digits, "0123456789:") && memchr(digits.ptr, ':', digits.len) &&
        digits.ptr[digits.len - 1] != ':')
        return "a number in base 60";
    return NULL;
}
