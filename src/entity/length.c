// Unit length.c: training lengths and their conversion.
#include "entity/entity.h"

#include "base/assert.h"

const char *length_unit_name(enum length_unit unit)
{
    static const char *const names[] = {"", "batches", "records", "epochs", "units", "time"};
    return names[unit];
}

int length_to_batches(struct length length, int64_t records_per_epoch, int64_t batch_size,
                      int64_t *out, det_err *err)
{
    ASSERT(batch_size > 0 && length.amount >= 0);
    int64_t records = length.amount;
    switch (length.unit) {
    case LENGTH_BATCHES:
    case LENGTH_UNITS:
        *out = length.amount;
        return det_ok(err);
    case LENGTH_RECORDS:
        break;
    case LENGTH_EPOCHS:
        if (records_per_epoch < 1)
            return det_fail(
                err, DET_EINVAL,
                "%lld epochs cannot be converted to batches: records_per_epoch is not set",
                (long long)length.amount);
        if (__builtin_mul_overflow(records, records_per_epoch, &records))
            return det_fail(err, DET_ELIMIT, "%lld epochs of %lld records are too many",
                            (long long)length.amount, (long long)records_per_epoch);
        break;
    case LENGTH_NONE:
    case LENGTH_TIME:
        return det_fail(err, DET_EINVAL, "a length in %s cannot be converted to batches",
                        length.unit == LENGTH_TIME ? "values of a time metric" : "no unit");
    }
    *out = records ? MAX(1, records / batch_size) : 0;
    return det_ok(err);
}
