// Lengths: conversion to batches.
#include "support/test.h"

#include "entity/entity.h"

static int64_t batches(enum length_unit unit, int64_t amount, int64_t records_per_epoch,
                       int64_t batch_size)
{
    int64_t out = -1;
    det_err err;
    struct length l = {unit, amount};
    return length_to_batches(l, records_per_epoch, batch_size, &out, &err) ? err.code : out;
}

static void test_length__partial_batches_are_dropped(void **state)
{
    (void)state;
    assert_int_equal(batches(LENGTH_BATCHES, 7, 0, 32), 7);
    assert_int_equal(batches(LENGTH_UNITS, 7, 0, 32), 7);
    assert_int_equal(batches(LENGTH_RECORDS, 64, 0, 32), 2);
    assert_int_equal(batches(LENGTH_RECORDS, 95, 0, 32), 2);
    assert_int_equal(batches(LENGTH_EPOCHS, 3, 60000, 64), 2812);
}

static void test_length__anything_is_at_least_one_batch_except_nothing(void **state)
{
    (void)state;
    assert_int_equal(batches(LENGTH_RECORDS, 1, 0, 32), 1);
    assert_int_equal(batches(LENGTH_EPOCHS, 1, 10, 32), 1);
    assert_int_equal(batches(LENGTH_RECORDS, 0, 0, 32), 0);
    assert_int_equal(batches(LENGTH_EPOCHS, 0, 10, 32), 0);
}

static void test_length__some_lengths_have_no_batches(void **state)
{
    (void)state;
    assert_int_equal(batches(LENGTH_EPOCHS, 3, 0, 32), DET_EINVAL);
    assert_int_equal(batches(LENGTH_TIME, 3, 100, 32), DET_EINVAL);
    assert_int_equal(batches(LENGTH_NONE, 0, 100, 32), DET_EINVAL);
    assert_int_equal(batches(LENGTH_EPOCHS, INT64_MAX, 2, 32), DET_ELIMIT);
}

RUN_TESTS(cmocka_unit_test(test_length__partial_batches_are_dropped),
          cmocka_unit_test(test_length__anything_is_at_least_one_batch_except_nothing),
          cmocka_unit_test(test_length__some_lengths_have_no_batches))
