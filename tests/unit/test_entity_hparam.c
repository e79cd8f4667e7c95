// Hyperparameter trees: leaves, assembled values, grid counts; and UUIDs.
#include "support/docs.h"

#include "entity/entity.h"

// {a: {b: int 0..4, c: const "k"}, d: {}, e: categorical [1, 2]}
static struct hparam *tree(void)
{
    static const struct doc *vals[2];
    static struct hparam ab[2], root[3], top;
    vals[0] = doc_new_int(&arena, 1);
    vals[1] = doc_new_int(&arena, 2);
    ab[0] = (struct hparam){.kind = HP_INT, .name = "b", .integer = {0, 4}, .count = {true, 3}};
    ab[1] = (struct hparam){.kind = HP_CONST, .name = "c", .constant = doc_new_str(&arena, "k")};
    root[0] = (struct hparam){.kind = HP_GROUP, .name = "a", .group = {ab, 2}};
    root[1] = (struct hparam){.kind = HP_GROUP, .name = "d"};
    root[2] = (struct hparam){.kind = HP_CATEGORICAL, .name = "e", .categorical = {vals, 2}};
    top = (struct hparam){.kind = HP_GROUP, .name = "", .group = {root, 3}};
    return &top;
}

static void test_hparam__leaves_come_in_order(void **state)
{
    (void)state;
    const struct hparam **leaves;
    assert_int_equal(hparam_leaves(tree(), &arena, &leaves), 3);
    assert_string_equal(leaves[0]->name, "b");
    assert_string_equal(leaves[1]->name, "c");
    assert_string_equal(leaves[2]->name, "e");
}

static void test_hparam__values_take_the_shape_of_the_tree(void **state)
{
    (void)state;
    const struct doc *values[] = {doc_new_int(&arena, 4), NULL, doc_new_double(&arena, 0.5)};
    assert_string_equal(as_json(hparam_assemble(tree(), values, &arena)),
                        "{\"a\":{\"b\":4,\"c\":\"k\"},\"d\":{},\"e\":0.5}");
}

static void test_hparam__grid_counts(void **state)
{
    (void)state;
    struct hparam hp = {.kind = HP_INT, .integer = {0, 4}};
    assert_int_equal(hparam_grid_count(&hp), 0);
    hp.count = (struct opt_int){true, 3};
    assert_int_equal(hparam_grid_count(&hp), 3);
    hp.count.value = 100; // no more than there are integers
    assert_int_equal(hparam_grid_count(&hp), 5);
    hp.integer.min = INT64_MIN / 2;
    assert_int_equal(hparam_grid_count(&hp), 100);
    hp = (struct hparam){.kind = HP_LOG, .log = {10, -5, -3}, .count = {true, 7}};
    assert_int_equal(hparam_grid_count(&hp), 7);
    assert_int_equal(hparam_grid_count(&tree()->group.items[2]), 2);
    assert_int_equal(hparam_grid_count(&tree()->group.items[0].group.items[1]), 1);
}

static void test_uuid__text_and_back(void **state)
{
    (void)state;
    uint8_t random[16];
    for (int i = 0; i < 16; i++)
        random[i] = (uint8_t)(255 - i);
    char text[UUID_TEXT_BYTES];
    struct uuid id = uuid_v4(random), again;
    uuid_format(id, text);
    assert_string_equal(text, "fffefdfc-fbfa-49f8-b7f6-f5f4f3f2f1f0");
    assert_int_equal(uuid_parse("FFFEFDFC-FBFA-49F8-B7F6-F5F4F3F2F1F0", &again, NULL), 0);
    assert_memory_equal(&id, &again, sizeof id);
}

static void test_uuid__refuses_other_text(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "fffefdfc",
                                      "fffefdfcfbfa49f8b7f6f5f4f3f2f1f0",
                                      "gffefdfc-fbfa-49f8-b7f6-f5f4f3f2f1f0",
                                      "fffefdfc-fbfa-49f8-b7f6-f5f4f3f2f1f00",
                                      "fffefdfc-fbfa-49f8-b7f6-f5f4f3f2f1f",
                                      "fffefdfcf-bfa-49f8-b7f6-f5f4f3f2f1f0"};
    struct uuid id;
    det_err err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(uuid_parse(bad[i], &id, &err), DET_EINVAL);
    assert_string_equal(err.msg, "'fffefdfcf-bfa-49f8-b7f6-f5f4f3f2f1f0' is not a UUID");
}

RUN_TESTS(DOC_TEST(test_hparam__leaves_come_in_order),
          DOC_TEST(test_hparam__values_take_the_shape_of_the_tree),
          DOC_TEST(test_hparam__grid_counts), DOC_TEST(test_uuid__text_and_back),
          DOC_TEST(test_uuid__refuses_other_text))
