/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datatypes of mixed kinds: an array of structures sent from one layout into another, the same
 * through MPI_PACKED, values gathered from absolute addresses, and a matrix transposed on the way.
 * Padding and whatever else does not belong to a type must stay as it was.
 */
#include "common.h"
#include "programs.h"

#include <complex.h>
#include <stdlib.h>
#include <string.h>

enum {
    TAG_RECORD = 1,
    TAG_PACKED,
    TAG_ABSOLUTE,
    TAG_MATRIX,
    TAG_WIDE,
    SHORTS = 3,
    UNTOUCHED = 0x5a
};

/* The same fields in two layouts; both have padding, the second also a field of its own. */
struct plain {
    char letter;
    double real;
    short shorts[SHORTS];
    int number;
};

struct spread {
    int number;
    int own;
    short shorts[SHORTS];
    double real;
    char letter;
};

/* The order of the signature: letter, real, shorts, number. */
static MPI_Datatype record_type(const MPI_Aint offsets[4], size_t extent)
{
    MPI_Datatype fields, type;
    MPI_Type_create_struct(4, (int[]){1, 1, SHORTS, 1}, offsets,
                           (MPI_Datatype[]){MPI_CHAR, MPI_DOUBLE, MPI_SHORT, MPI_INT}, &fields);
    MPI_Type_create_resized(fields, 0, (MPI_Aint)extent, &type);
    MPI_Type_free(&fields);
    MPI_Type_commit(&type);
    return type;
}

static MPI_Datatype plain_type(void)
{
    const MPI_Aint offsets[] = {offsetof(struct plain, letter), offsetof(struct plain, real),
                                offsetof(struct plain, shorts), offsetof(struct plain, number)};
    return record_type(offsets, sizeof(struct plain));
}

static MPI_Datatype spread_type(void)
{
    const MPI_Aint offsets[] = {offsetof(struct spread, letter), offsetof(struct spread, real),
                                offsetof(struct spread, shorts), offsetof(struct spread, number)};
    return record_type(offsets, sizeof(struct spread));
}

/* Field by field, so that the padding keeps the bytes it had. */
static void plain_fill(struct plain *record, int source, int index)
{
    uint64_t random = hash_of((uint64_t)source, (uint64_t)index, TAG_RECORD);
    record->letter = (char)random;
    record->real = (double)(random >> 20) / 7;
    for (int i = 0; i < SHORTS; i++)
        record->shorts[i] = (short)(random >> (8 * i));
    record->number = (int)(random >> 32);
}

static void spread_fill(struct spread *record, int source, int index)
{
    struct plain plain;
    plain_fill(&plain, source, index);
    record->letter = plain.letter;
    record->real = plain.real;
    memcpy(record->shorts, plain.shorts, sizeof plain.shorts);
    record->number = plain.number;
}

static void bytes_check(const void *got, const void *expected, size_t len_bytes, int source)
{
    const unsigned char *a = got, *b = expected;
    if (memcmp(a, b, len_bytes) == 0)
        return;
    for (size_t i = 0; i < len_bytes; i++)
        expect(a[i] == b[i], "from rank %d: byte %zu of %zu is 0x%02x, expected 0x%02x", source, i,
               len_bytes, a[i], b[i]);
}

static void check_spread(const struct spread *in, int source, int count)
{
    size_t len_bytes = (size_t)count * sizeof *in;
    struct spread *expected = guarded_alloc(len_bytes);
    memset(expected, UNTOUCHED, len_bytes);
    for (int i = 0; i < count; i++)
        spread_fill(&expected[i], source, i);
    bytes_check(in, expected, len_bytes, source);
    guarded_free(expected);
}

/* Twice: straight from one layout into the other, then packed by the sender. */
static void records(const struct job *job, int count)
{
    int right = (job->rank + 1) % job->size, left = (job->rank + job->size - 1) % job->size;
    MPI_Datatype from = plain_type(), into = spread_type();
    struct plain *out = guarded_alloc((size_t)count * sizeof *out);
    struct spread *in = guarded_alloc((size_t)count * sizeof *in);
    int packed_size = 0, position = 0;
    for (int i = 0; i < count; i++)
        plain_fill(&out[i], job->rank, i);

    step("%d structures from one layout into another", count);
    memset(in, UNTOUCHED, (size_t)count * sizeof *in);
    MPI_Sendrecv(out, count, from, right, TAG_RECORD, in, count, into, left, TAG_RECORD,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check_spread(in, left, count);

    step("%d structures packed", count);
    memset(in, UNTOUCHED, (size_t)count * sizeof *in);
    MPI_Pack_size(count, from, MPI_COMM_WORLD, &packed_size);
    void *packed = guarded_alloc((size_t)packed_size);
    MPI_Pack(out, count, from, packed, packed_size, &position, MPI_COMM_WORLD);
    MPI_Sendrecv(packed, position, MPI_PACKED, right, TAG_PACKED, in, count, into, left, TAG_PACKED,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check_spread(in, left, count);

    guarded_free(packed);
    guarded_free(in);
    guarded_free(out);
    MPI_Type_free(&from);
    MPI_Type_free(&into);
}

/* Two arrays far apart in memory become one message, and two again, by absolute addresses. */
static void absolute(const struct job *job, int count)
{
    int right = (job->rank + 1) % job->size, left = (job->rank + job->size - 1) % job->size;
    size_t len_bytes = (size_t)count;
    struct transfer in[2], out[2];
    MPI_Datatype types[2];
    MPI_Aint addresses[4];
    step("%d bytes each from two absolute addresses", count);
    for (int i = 0; i < 2; i++) {
        transfer_begin_recv(&in[i], &(struct message){left, job->rank, i, len_bytes, 0});
        transfer_begin_send(&out[i], &(struct message){job->rank, right, i, len_bytes, 0});
        MPI_Get_address(in[i].bytes, &addresses[i]);
        MPI_Get_address(out[i].bytes, &addresses[2 + i]);
    }
    for (int i = 0; i < 2; i++) {
        MPI_Type_create_hindexed(2, (int[]){count, count}, &addresses[2 * i], MPI_BYTE, &types[i]);
        MPI_Type_commit(&types[i]);
    }
    MPI_Sendrecv(MPI_BOTTOM, 1, types[1], right, TAG_ABSOLUTE, MPI_BOTTOM, 1, types[0], left,
                 TAG_ABSOLUTE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2; i++) {
        message_check(&in[i].message, in[i].bytes);
        transfer_end(&in[i]);
        transfer_end(&out[i]);
        MPI_Type_free(&types[i]);
    }
}

/* Rows leave one after the other and arrive as columns; every int lies alone in memory. */
static void transposed(const struct job *job, int rows, int columns)
{
    int right = (job->rank + 1) % job->size, left = (job->rank + job->size - 1) % job->size;
    int total = rows * columns;
    int *out = guarded_alloc((size_t)total * sizeof(int));
    int *in = guarded_alloc((size_t)total * sizeof(int));
    MPI_Datatype line, column;
    step("a matrix of %d by %d transposed", rows, columns);
    MPI_Type_vector(columns, 1, rows, MPI_INT, &line);
    MPI_Type_create_resized(line, 0, sizeof(int), &column);
    MPI_Type_commit(&column);
    for (int i = 0; i < total; i++) {
        out[i] = job->rank * 1000003 + i;
        in[i] = -1;
    }
    MPI_Sendrecv(out, total, MPI_INT, right, TAG_MATRIX, in, rows, column, left, TAG_MATRIX,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < total; i++) {
        int expected = left * 1000003 + i, got = in[i % columns * rows + i / columns];
        expect(got == expected, "row %d column %d from rank %d is %d, expected %d", i / columns,
               i % columns, left, got, expected);
    }
    MPI_Type_free(&column);
    MPI_Type_free(&line);
    guarded_free(in);
    guarded_free(out);
}

static long double complex number_of(int rank, int i)
{
    return (long double)(rank * 1000003 + i) + (long double)i * I;
}

/* COUNT numbers of rank FROM's have come, to every other place. What pads a number in memory need
 * not come with it: Open MPI 5.0 leaves it out where a message takes several pieces. */
static void numbers_check(const long double complex *in, int count, int from)
{
    for (int i = 0; i < 2 * count; i += 2) {
        const unsigned char *gap = (const unsigned char *)&in[i + 1];
        expect(in[i] == number_of(from, i), "number %d of %d from rank %d is wrong", i / 2, count,
               from);
        for (size_t k = 0; k < sizeof in[0]; k++)
            expect(gap[k] == UNTOUCHED, "byte %zu behind number %d of %d was written", k, i / 2,
                   count);
    }
}

/* Each number of the largest elements that there are, up to MOST, every other one of an array. Who
 * sends in pieces has to leave the end of a piece empty where the next element does not fit. */
static void wide(const struct job *job, int most)
{
    int right = (job->rank + 1) % job->size, left = (job->rank + job->size - 1) % job->size;
    size_t len_bytes = 2 * (size_t)most * sizeof(long double complex);
    long double complex *out = guarded_alloc(len_bytes), *in = guarded_alloc(len_bytes);
    for (int i = 0; i < 2 * most; i++)
        out[i] = number_of(job->rank, i);
    for (int count = 1; count <= most; count++) {
        MPI_Datatype type;
        step("%d complex numbers", count);
        MPI_Type_vector(count, 1, 2, MPI_C_LONG_DOUBLE_COMPLEX, &type);
        MPI_Type_commit(&type);
        memset(in, UNTOUCHED, len_bytes);
        MPI_Sendrecv(out, 1, type, right, TAG_WIDE, in, 1, type, left, TAG_WIDE, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        numbers_check(in, count, left);
        MPI_Type_free(&type);
    }
    guarded_free(in);
    guarded_free(out);
}

void run_records(const struct job *job)
{
    static const int counts[] = {0, 1, 100, 3000, 20000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        records(job, counts[i]);
        absolute(job, counts[i] * 9);
    }
    transposed(job, 10, 7);
    transposed(job, 123, 57);
    transposed(job, 301, 203);
    wide(job, 1540); /* beyond the eager limit of soft-RoCE */
}
