/* SPDX-License-Identifier: BSD-3-Clause */
/* The built-in operations on each type, element by element. */
#include "coll_unit.h"
#include "verbena_coll.h"

#include <complex.h>

#define COUNT 37 /* so that a vectorised loop has a rest */

/* What KIND makes of A and B as whole numbers. */
static int64_t whole(enum vbn_op_kind kind, int64_t a, int64_t b)
{
    switch (kind) {
    case VBN_SUM:
        return a + b;
    case VBN_PROD:
        return a * b;
    case VBN_MIN:
        return a < b ? a : b;
    case VBN_MAX:
        return a > b ? a : b;
    case VBN_LAND:
        return a && b;
    case VBN_LOR:
        return a || b;
    case VBN_LXOR:
        return !a != !b;
    case VBN_BAND:
        return a & b;
    case VBN_BOR:
        return a | b;
    case VBN_BXOR:
        return a ^ b;
    default:
        fail();
        return 0;
    }
}

/* SIGN: the lowest value that A takes is -4, or 0. */
#define CHECK(type, dtype, sign, first, last)                                                      \
    for (int k = (first); k <= (last); k++) {                                                      \
        type in[COUNT + 1], out[COUNT + 1];                                                        \
                                                                                                   \
        for (int i = 0; i <= COUNT; i++) {                                                         \
            in[i] = (type)(i % 9 - 4 * (sign));                                                    \
            out[i] = (type)(i % 5);                                                                \
        }                                                                                          \
        assert_int_equal(vbn_reduce_local(in, out, COUNT, dtype, (enum vbn_op_kind)k), VBN_OK);    \
        for (int i = 0; i < COUNT; i++)                                                            \
            assert_true(out[i] == (type)whole((enum vbn_op_kind)k, i % 9 - 4 * (sign), i % 5));    \
        assert_true(out[COUNT] == (type)(COUNT % 5));                                              \
    }

static void numbers(void **state)
{
    (void)state;
    CHECK(int8_t, VBN_INT8, 1, VBN_SUM, VBN_BXOR)
    CHECK(int16_t, VBN_INT16, 1, VBN_SUM, VBN_BXOR)
    CHECK(int32_t, VBN_INT32, 1, VBN_SUM, VBN_BXOR)
    CHECK(int64_t, VBN_INT64, 1, VBN_SUM, VBN_BXOR)
    CHECK(uint8_t, VBN_UINT8, 0, VBN_SUM, VBN_BXOR)
    CHECK(uint16_t, VBN_UINT16, 0, VBN_SUM, VBN_BXOR)
    CHECK(uint32_t, VBN_UINT32, 0, VBN_SUM, VBN_BXOR)
    CHECK(uint64_t, VBN_UINT64, 0, VBN_SUM, VBN_BXOR)
    CHECK(float, VBN_FLOAT, 1, VBN_SUM, VBN_MAX)
    CHECK(double, VBN_DOUBLE, 1, VBN_SUM, VBN_MAX)
    CHECK(long double, VBN_LONG_DOUBLE, 1, VBN_SUM, VBN_MAX)
    CHECK(float complex, VBN_FLOAT_COMPLEX, 1, VBN_SUM, VBN_PROD)
    CHECK(double complex, VBN_DOUBLE_COMPLEX, 1, VBN_SUM, VBN_PROD)
    CHECK(bool, VBN_BOOL, 0, VBN_LAND, VBN_LXOR)
}

/* A pair type: lower, equal and higher values on either side. */
#define CHECK_PAIR(type, dtype)                                                                    \
    do {                                                                                           \
        struct pair {                                                                              \
            type value;                                                                            \
            int index;                                                                             \
        } in[4] = {{1, 5}, {2, 5}, {2, 9}, {3, 5}}, low[4] = {{2, 7}, {2, 7}, {2, 7}, {2, 7}},     \
          high[4] = {{2, 7}, {2, 7}, {2, 7}, {2, 7}};                                              \
                                                                                                   \
        assert_int_equal(vbn_dtype_size(dtype), sizeof(struct pair));                              \
        assert_int_equal(vbn_reduce_local(in, low, 4, dtype, VBN_MINLOC), VBN_OK);                 \
        assert_int_equal(vbn_reduce_local(in, high, 4, dtype, VBN_MAXLOC), VBN_OK);                \
        assert_true(low[0].value == 1 && low[0].index == 5 && high[0].index == 7);                 \
        assert_true(low[1].index == 5 && high[1].index == 5);                                      \
        assert_true(low[2].index == 7 && high[2].index == 7);                                      \
        assert_true(low[3].index == 7 && high[3].value == 3 && high[3].index == 5);                \
    } while (0)

static void pairs(void **state)
{
    (void)state;
    CHECK_PAIR(float, VBN_FLOAT_INT);
    CHECK_PAIR(double, VBN_DOUBLE_INT);
    CHECK_PAIR(long, VBN_LONG_INT);
    CHECK_PAIR(int, VBN_INT_INT);
    CHECK_PAIR(short, VBN_SHORT_INT);
    CHECK_PAIR(long double, VBN_LONG_DOUBLE_INT);
}

/* Worked out by hand, over and over. */
static const struct {
    double complex in, out, sum, product;
} complex_cases[] = {
    {1 + 2 * I, 3 + 4 * I, 4 + 6 * I, -5 + 10 * I},
    {-1 + 0.5 * I, 2 - 2 * I, 1 - 1.5 * I, -1 + 3 * I},
    {3 - I, -2 - 5 * I, 1 - 6 * I, -11 - 13 * I},
    {I, I, 2 * I, -1},
};

#define CHECK_COMPLEX(type, dtype, kind, result)                                                   \
    do {                                                                                           \
        type in[COUNT + 1], out[COUNT + 1];                                                        \
                                                                                                   \
        for (int i = 0; i <= COUNT; i++) {                                                         \
            in[i] = (type)complex_cases[i % 4].in;                                                 \
            out[i] = (type)complex_cases[i % 4].out;                                               \
        }                                                                                          \
        assert_int_equal(vbn_reduce_local(in, out, COUNT, dtype, kind), VBN_OK);                   \
        for (int i = 0; i < COUNT; i++)                                                            \
            assert_true(out[i] == (type)complex_cases[i % 4].result);                              \
        assert_true(out[COUNT] == (type)complex_cases[COUNT % 4].out);                             \
    } while (0)

static void complex_numbers(void **state)
{
    (void)state;
    CHECK_COMPLEX(float complex, VBN_FLOAT_COMPLEX, VBN_SUM, sum);
    CHECK_COMPLEX(float complex, VBN_FLOAT_COMPLEX, VBN_PROD, product);
    CHECK_COMPLEX(double complex, VBN_DOUBLE_COMPLEX, VBN_SUM, sum);
    CHECK_COMPLEX(double complex, VBN_DOUBLE_COMPLEX, VBN_PROD, product);
}

/* Sums wrap, as those of unsigned numbers do; the sanitizer says nothing. */
static void sums_wrap(void **state)
{
    int32_t in = INT32_MAX, out = 1;
    uint16_t a = 65535, b = 65535;

    (void)state;
    assert_int_equal(vbn_reduce_local(&in, &out, 1, VBN_INT32, VBN_SUM), VBN_OK);
    assert_int_equal(out, INT32_MIN);
    assert_int_equal(vbn_reduce_local(&a, &b, 1, VBN_UINT16, VBN_PROD), VBN_OK);
    assert_int_equal(b, 1);
}

static void what_is_not_there_is_refused(void **state)
{
    double x = 1, y = 2;

    (void)state;
    assert_false(vbn_op_valid(VBN_BAND, VBN_DOUBLE));
    assert_false(vbn_op_valid(VBN_LAND, VBN_FLOAT));
    assert_false(vbn_op_valid(VBN_MIN, VBN_DOUBLE_COMPLEX));
    assert_false(vbn_op_valid(VBN_SUM, VBN_DOUBLE_INT));
    assert_false(vbn_op_valid(VBN_MINLOC, VBN_DOUBLE));
    assert_false(vbn_op_valid(VBN_SUM, VBN_BOOL));
    assert_false(vbn_op_valid(VBN_SUM, VBN_BYTES));
    assert_false(vbn_op_valid((enum vbn_op_kind) - 1, VBN_INT32));
    assert_false(vbn_op_valid(VBN_SUM, VBN_DTYPE_COUNT));
    assert_int_equal(vbn_dtype_size(VBN_DTYPE_COUNT), 0);
    assert_int_equal(vbn_reduce_local(&x, &y, 1, VBN_DOUBLE, VBN_BXOR), VBN_ERR_INVALID);
    assert_int_equal(vbn_reduce_local(NULL, &y, 1, VBN_DOUBLE, VBN_SUM), VBN_ERR_INVALID);
    assert_int_equal(vbn_reduce_local(NULL, NULL, 0, VBN_DOUBLE, VBN_SUM), VBN_OK);
    assert_true(y == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(pairs),
        cmocka_unit_test(complex_numbers),
        cmocka_unit_test(sums_wrap),
        cmocka_unit_test(what_is_not_there_is_refused),
    };

    return cmocka_run_group_tests_name("dtype", tests, NULL, NULL);
}
