/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"
#include "fake.h"

#include "qpmap.h"

#define COUNT 3000

static struct vbn_qpmap map;

static int setup(void **state)
{
    (void)state;
    memset(&map, 0, sizeof(map));
    unit_wrap_reset();
    return 0;
}

static bool empty(void)
{
    for (int i = 0; i < 256; i++)
        if (map.node[i])
            return false;
    return true;
}

/* Any pointer will do: the map never follows it. */
static struct vbn_conn *conn(uint32_t n)
{
    return (struct vbn_conn *)(uintptr_t)(n * 16 + 16);
}

static void finds_what_was_put_in(void **state)
{
    static const uint32_t nums[] = {0, 1, 0xff, 0x100, 0xffff, 0x10000, 0x123456, 0xffffff};

    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        assert_null(vbn_qpmap_find(&map, nums[i]));
        assert_int_equal(vbn_qpmap_insert(&map, nums[i], conn(i)), VBN_OK);
    }
    for (uint32_t i = 0; i < 8; i++) {
        assert_ptr_equal(vbn_qpmap_find(&map, nums[i]), conn(i));
        assert_null(vbn_qpmap_find(&map, nums[i] ^ 0x020202));
    }
    for (uint32_t i = 0; i < 8; i++) {
        vbn_qpmap_remove(&map, nums[i]);
        assert_null(vbn_qpmap_find(&map, nums[i]));
        for (uint32_t k = i + 1; k < 8; k++)
            assert_ptr_equal(vbn_qpmap_find(&map, nums[k]), conn(k));
    }
    assert_true(empty());
}

/* Many, at random, put in and taken out, beside a plain list. */
static void many_at_random(void **state)
{
    static uint32_t num[COUNT];
    static bool in[COUNT];
    uint64_t rng = 5;

    (void)state;
    for (uint32_t i = 0; i < COUNT; i++) /* dense and sparse parts */
        num[i] = i % 2 ? i : (uint32_t)(unit_random(&rng) & 0xfff000) | (i & 0xfff);
    for (int round = 0; round < 20 * COUNT; round++) {
        uint32_t i = (uint32_t)(unit_random(&rng) % COUNT);

        if (in[i]) {
            assert_ptr_equal(vbn_qpmap_find(&map, num[i]), conn(i));
            vbn_qpmap_remove(&map, num[i]);
            in[i] = false;
        } else if (!vbn_qpmap_find(&map, num[i])) {
            assert_int_equal(vbn_qpmap_insert(&map, num[i], conn(i)), VBN_OK);
            in[i] = true;
        }
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        if (!in[i])
            continue;
        assert_ptr_equal(vbn_qpmap_find(&map, num[i]), conn(i));
        vbn_qpmap_remove(&map, num[i]);
    }
    assert_true(empty());
}

static void without_memory_nothing_is_left(void **state)
{
    (void)state;
    for (unsigned nth = 1; nth <= 2; nth++) { /* the node, the leaf */
        unit_fail_alloc(nth);
        assert_int_equal(vbn_qpmap_insert(&map, 0x123456, conn(1)), VBN_ERR_NO_MEMORY);
        assert_true(empty());
        assert_null(vbn_qpmap_find(&map, 0x123456));
    }
    assert_int_equal(vbn_qpmap_insert(&map, 0x123456, conn(1)), VBN_OK);
    unit_fail_alloc(1); /* a second leaf of the same node */
    assert_int_equal(vbn_qpmap_insert(&map, 0x120000, conn(2)), VBN_ERR_NO_MEMORY);
    assert_ptr_equal(vbn_qpmap_find(&map, 0x123456), conn(1));
    vbn_qpmap_remove(&map, 0x123456);
    assert_true(empty());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(finds_what_was_put_in, setup),
        cmocka_unit_test_setup(many_at_random, setup),
        cmocka_unit_test_setup(without_memory_nothing_is_left, setup),
    };

    return cmocka_run_group_tests_name("qpmap", tests, NULL, NULL);
}
