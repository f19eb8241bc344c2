/* SPDX-License-Identifier: BSD-3-Clause */
/* Types of elements and the built-in operations on them: plain loops that a compiler vectorises. */
#include "config.h"

#include "dtype.h"

#include <complex.h>

/* GCC does so at -O2 only where the count is known. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("tree-loop-vectorize", "vect-cost-model=dynamic")
#endif

struct float_int {
    float value;
    int index;
};
struct double_int {
    double value;
    int index;
};
struct long_int {
    long value;
    int index;
};
struct int_int {
    int value;
    int index;
};
struct short_int {
    short value;
    int index;
};
struct long_double_int {
    long double value;
    int index;
};

/* One loop: A is IN's element, B is INOUT's, RESULT an expression of them. */
#define LOOP(name, type, result)                                                                   \
    VBN_CLONES static void name(const void *in, void *inout, size_t count, void *arg)              \
    {                                                                                              \
        const type *restrict x = in;                                                               \
        type *restrict y = inout; /* NOLINT(bugprone-macro-parentheses) */                         \
                                                                                                   \
        (void)arg;                                                                                 \
        for (size_t i = 0; i < count; i++) {                                                       \
            type a = x[i];                                                                         \
            type b = y[i];                                                                         \
                                                                                                   \
            y[i] = (type)(result);                                                                 \
        }                                                                                          \
    }

/* WIDE is unsigned and no narrower than int: sums and products wrap rather than overflow. */
#define INTEGER(name, type, wide)                                                                  \
    LOOP(name##_sum, type, (wide)a + (wide)b)                                                      \
    LOOP(name##_prod, type, (wide)a *(wide)b)                                                      \
    LOOP(name##_min, type, a < b ? a : b)                                                          \
    LOOP(name##_max, type, a > b ? a : b)                                                          \
    LOOP(name##_land, type, a &&b)                                                                 \
    LOOP(name##_lor, type, a || b)                                                                 \
    LOOP(name##_lxor, type, !a != !b)                                                              \
    LOOP(name##_band, type, a &b)                                                                  \
    LOOP(name##_bor, type, a | b)                                                                  \
    LOOP(name##_bxor, type, a ^ b)

#define REAL(name, type)                                                                           \
    LOOP(name##_sum, type, a + b)                                                                  \
    LOOP(name##_prod, type, a *b)                                                                  \
    LOOP(name##_min, type, a < b ? a : b)                                                          \
    LOOP(name##_max, type, a > b ? a : b)

#define COMPLEX(name, type)                                                                        \
    LOOP(name##_sum, type, a + b)                                                                  \
    LOOP(name##_prod, type, a *b)

/* The better value, and of equal ones the lower index. */
#define PAIR(name)                                                                                 \
    LOOP(name##_minloc, struct name,                                                               \
         a.value < b.value || (a.value == b.value && a.index < b.index) ? a : b)                   \
    LOOP(name##_maxloc, struct name,                                                               \
         a.value > b.value || (a.value == b.value && a.index < b.index) ? a : b)

/* clang-format off */
INTEGER(int8, int8_t, uint32_t)
INTEGER(int16, int16_t, uint32_t)
INTEGER(int32, int32_t, uint32_t)
INTEGER(int64, int64_t, uint64_t)
INTEGER(uint8, uint8_t, uint32_t)
INTEGER(uint16, uint16_t, uint32_t)
INTEGER(uint32, uint32_t, uint32_t)
INTEGER(uint64, uint64_t, uint64_t)
REAL(float, float)
REAL(double, double)
REAL(long_double, long double)
COMPLEX(float_complex, float complex)
COMPLEX(double_complex, double complex)
LOOP(bool_land, bool, a &&b)
LOOP(bool_lor, bool, a || b)
LOOP(bool_lxor, bool, a != b)
PAIR(float_int)
PAIR(double_int)
PAIR(long_int)
PAIR(int_int)
PAIR(short_int)
PAIR(long_double_int)

#define INTEGER_OPS(name)                                                                          \
    {[VBN_SUM] = name##_sum, [VBN_PROD] = name##_prod, [VBN_MIN] = name##_min,                     \
     [VBN_MAX] = name##_max, [VBN_LAND] = name##_land, [VBN_LOR] = name##_lor,                     \
     [VBN_LXOR] = name##_lxor, [VBN_BAND] = name##_band, [VBN_BOR] = name##_bor,                   \
     [VBN_BXOR] = name##_bxor}
#define REAL_OPS(name)                                                                             \
    {[VBN_SUM] = name##_sum, [VBN_PROD] = name##_prod, [VBN_MIN] = name##_min,                     \
     [VBN_MAX] = name##_max}
#define COMPLEX_OPS(name) {[VBN_SUM] = name##_sum, [VBN_PROD] = name##_prod}
#define PAIR_OPS(name)    {[VBN_MINLOC] = name##_minloc, [VBN_MAXLOC] = name##_maxloc}

static const struct {
    const char *name;
    size_t size;
    vbn_reduce_fn op[VBN_OP_KIND_COUNT];
} dtypes[VBN_DTYPE_COUNT] = {
    [VBN_BYTES] = {"bytes", 1, {NULL}},
    [VBN_INT8] = {"int8", sizeof(int8_t), INTEGER_OPS(int8)},
    [VBN_INT16] = {"int16", sizeof(int16_t), INTEGER_OPS(int16)},
    [VBN_INT32] = {"int32", sizeof(int32_t), INTEGER_OPS(int32)},
    [VBN_INT64] = {"int64", sizeof(int64_t), INTEGER_OPS(int64)},
    [VBN_UINT8] = {"uint8", sizeof(uint8_t), INTEGER_OPS(uint8)},
    [VBN_UINT16] = {"uint16", sizeof(uint16_t), INTEGER_OPS(uint16)},
    [VBN_UINT32] = {"uint32", sizeof(uint32_t), INTEGER_OPS(uint32)},
    [VBN_UINT64] = {"uint64", sizeof(uint64_t), INTEGER_OPS(uint64)},
    [VBN_FLOAT] = {"float", sizeof(float), REAL_OPS(float)},
    [VBN_DOUBLE] = {"double", sizeof(double), REAL_OPS(double)},
    [VBN_LONG_DOUBLE] = {"long_double", sizeof(long double), REAL_OPS(long_double)},
    [VBN_FLOAT_COMPLEX] = {"float_complex", sizeof(float complex), COMPLEX_OPS(float_complex)},
    [VBN_DOUBLE_COMPLEX] = {"double_complex", sizeof(double complex), COMPLEX_OPS(double_complex)},
    [VBN_BOOL] = {"bool", sizeof(bool),
                  {[VBN_LAND] = bool_land, [VBN_LOR] = bool_lor, [VBN_LXOR] = bool_lxor}},
    [VBN_FLOAT_INT] = {"float_int", sizeof(struct float_int), PAIR_OPS(float_int)},
    [VBN_DOUBLE_INT] = {"double_int", sizeof(struct double_int), PAIR_OPS(double_int)},
    [VBN_LONG_INT] = {"long_int", sizeof(struct long_int), PAIR_OPS(long_int)},
    [VBN_INT_INT] = {"int_int", sizeof(struct int_int), PAIR_OPS(int_int)},
    [VBN_SHORT_INT] = {"short_int", sizeof(struct short_int), PAIR_OPS(short_int)},
    [VBN_LONG_DOUBLE_INT] = {"long_double_int", sizeof(struct long_double_int),
                             PAIR_OPS(long_double_int)},
};
/* clang-format on */

static const char *const op_names[VBN_OP_KIND_COUNT] = {
    [VBN_SUM] = "sum",   [VBN_PROD] = "prod", [VBN_MIN] = "min",       [VBN_MAX] = "max",
    [VBN_LAND] = "land", [VBN_LOR] = "lor",   [VBN_LXOR] = "lxor",     [VBN_BAND] = "band",
    [VBN_BOR] = "bor",   [VBN_BXOR] = "bxor", [VBN_MINLOC] = "minloc", [VBN_MAXLOC] = "maxloc",
};

const char *vbn_dtype_name(uint64_t dtype)
{
    return dtype < VBN_DTYPE_COUNT ? dtypes[dtype].name : "?";
}

const char *vbn_op_name(uint64_t kind)
{
    if (kind == VBN_OP_USER)
        return "user-defined";
    return kind < VBN_OP_KIND_COUNT ? op_names[kind] : "?";
}

vbn_reduce_fn vbn_op_function(enum vbn_op_kind kind, enum vbn_dtype dtype)
{
    if ((unsigned)dtype >= VBN_DTYPE_COUNT || (unsigned)kind >= VBN_OP_KIND_COUNT)
        return NULL;
    return dtypes[dtype].op[kind];
}

size_t vbn_dtype_size(enum vbn_dtype dtype)
{
    return (unsigned)dtype < VBN_DTYPE_COUNT ? dtypes[dtype].size : 0;
}

bool vbn_op_valid(enum vbn_op_kind kind, enum vbn_dtype dtype)
{
    return vbn_op_function(kind, dtype) != NULL;
}

int vbn_reduce_local(const void *in, void *inout, size_t count, enum vbn_dtype dtype,
                     enum vbn_op_kind kind)
{
    vbn_reduce_fn fn = vbn_op_function(kind, dtype);

    if (!fn || (count && (!in || !inout)))
        return VBN_ERR_INVALID;
    if (count)
        fn(in, inout, count, NULL);
    return VBN_OK;
}
