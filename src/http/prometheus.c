// Unit prometheus.c: the text format of Prometheus, version 0.0.4.
#include "http/http.h"

#include "base/number.h"
#include <math.h>

void prom_family(struct buf *out, const char *name, enum prom_type type, const char *help)
{
    static const char *const words[] = {
        [PROM_COUNTER] = "counter", [PROM_GAUGE] = "gauge", [PROM_HISTOGRAM] = "histogram"};
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, words[type]);
}

void prom_sample(struct buf *out, const char *name, const char *labels, double value)
{
    buf_addz(out, name);
    if (labels) buf_printf(out, "{%s}", labels);
    buf_addc(out, ' ');
    if (isnan(value))
        buf_addz(out, "NaN");
    else if (isinf(value))
        buf_addz(out, value > 0 ? "+Inf" : "-Inf");
    else
        buf_add_double(out, value);
    buf_addc(out, '\n');
}
