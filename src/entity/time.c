// Unit time.c: points in time as RFC 3339 text, UTC.
#include "entity/entity.h"

#include "base/assert.h"
#include "base/number.h"

enum { US_PER_S = 1000000, S_PER_DAY = 86400 };

// Days since 1970-01-01 of a date in the proleptic Gregorian calendar, by counting years from
// March.
static int64_t days_of(int64_t year, int month, int day)
{
    int64_t y = year - (month <= 2);
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static void date_of(int64_t days, int64_t *year, int *month, int *day)
{
    int64_t z = days + 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;
    *day = (int)(doy - (153 * mp + 2) / 5 + 1);
    *month = (int)(mp < 10 ? mp + 3 : mp - 9);
    *year = yoe + era * 400 + (*month <= 2);
}

void time_format(int64_t unix_us, char out[TIME_TEXT_BYTES])
{
    const int64_t us_per_day = (int64_t)S_PER_DAY * US_PER_S;
    int64_t days = unix_us / us_per_day, rest = unix_us % us_per_day, year;
    int month, day;
    if (rest < 0) days--, rest += us_per_day;
    date_of(days, &year, &month, &day);
    int s = (int)(rest / US_PER_S);
    snprintf(out, TIME_TEXT_BYTES, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", (int)(year % 10000),
             month, day, s / 3600, s / 60 % 60, s % 60, (int)(rest % US_PER_S));
}

// n digits at the front of *rest and the sign behind them.
static bool take(struct str *rest, size_t n, char sign, int *out)
{
    int64_t x;
    if (rest->len < n || !number_to_int((struct str){rest->ptr, n}, 10, &x) || x < 0) return false;
    *rest = (struct str){rest->ptr + n, rest->len - n};
    *out = (int)x;
    if (!sign) return true;
    if (!rest->len || rest->ptr[0] != sign) return false;
    *rest = (struct str){rest->ptr + 1, rest->len - 1};
    return true;
}

// ".123", up to nine digits; those beyond microseconds are dropped.
static bool take_fraction(struct str *rest, int *out_us)
{
    *out_us = 0;
    if (!rest->len || rest->ptr[0] != '.') return true;
    int scale = US_PER_S / 10;
    size_t i = 1;
    for (; i < rest->len && rest->ptr[i] >= '0' && rest->ptr[i] <= '9'; i++, scale /= 10)
        *out_us += (rest->ptr[i] - '0') * scale;
    *rest = (struct str){rest->ptr + i, rest->len - i};
    return i > 1;
}

// "Z" or "+01:30", in seconds east.
static bool take_zone(struct str *rest, int *out_s)
{
    *out_s = 0;
    if (str_eqz(*rest, "Z") || str_eqz(*rest, "z")) return true;
    if (rest->len != 6 || (rest->ptr[0] != '+' && rest->ptr[0] != '-')) return false;
    int sign = rest->ptr[0] == '-' ? -1 : 1, h, m;
    *rest = (struct str){rest->ptr + 1, rest->len - 1};
    if (!take(rest, 2, ':', &h) || !take(rest, 2, 0, &m)) return false;
    *out_s = sign * (h * 3600 + m * 60);
    return h < 24 && m < 60;
}

int time_parse(const char *text, int64_t *out_us, det_err *err)
{
    struct str rest = str_from(text);
    int year, month, day, h, m, s, us, zone;
    bool good = take(&rest, 4, '-', &year) && take(&rest, 2, '-', &month) &&
                take(&rest, 2, 'T', &day) && take(&rest, 2, ':', &h) && take(&rest, 2, ':', &m) &&
                take(&rest, 2, 0, &s) && take_fraction(&rest, &us) && take_zone(&rest, &zone);
    if (!good || month < 1 || month > 12 || day < 1 || day > 31 || h > 23 || m > 59 || s > 60)
        return det_fail(err, DET_EINVAL, "'%.40s' is not a time such as 2026-01-31T10:20:30Z",
                        text);
    int64_t seconds = days_of(year, month, day) * S_PER_DAY + h * 3600 + m * 60 + s - zone;
    *out_us = seconds * US_PER_S + us;
    return det_ok(err);
}
