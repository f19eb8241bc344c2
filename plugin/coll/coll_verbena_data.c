/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI's data as the collectives layer wants them: movement in bytes of contiguous blocks,
 * reductions by type and operation. What is not contiguous is packed by Open MPI.
 */
#include "coll_verbena.h"

#include "../btl/btl_verbena.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

/* --- types and operations ------------------------------------------------------------------------
 */

#define TYPES_MAX 128 /* Fortran indices of predefined types */

static signed char dtype_of[TYPES_MAX]; /* by Fortran index: enum vbn_dtype, or -1 */

static void learn(MPI_Datatype type, int dtype)
{
    int i = type->d_f_to_c_index;

    if (i >= 0 && i < TYPES_MAX)
        dtype_of[i] = (signed char)dtype;
}

static int integer(bool is_signed, size_t bytes)
{
    int first = is_signed ? VBN_INT8 : VBN_UINT8;

    return bytes == 1 ? first : bytes == 2 ? first + 1 : bytes == 4 ? first + 2 : first + 3;
}

/* Fortran's, whose sizes are its compiler's: DTYPE is that of BYTES, WIDE of twice as many. */
static void learn_fortran(MPI_Datatype type, size_t bytes, enum vbn_dtype dtype,
                          enum vbn_dtype wide)
{
    size_t size = 0;

    ompi_datatype_type_size(type, &size);
    if (size == bytes || size == 2 * bytes)
        learn(type, size == bytes ? dtype : wide);
}

void coll_verbena_types_init(void)
{
    memset(dtype_of, -1, sizeof(dtype_of));
    learn(MPI_SIGNED_CHAR, VBN_INT8);
    learn(MPI_UNSIGNED_CHAR, VBN_UINT8);
    learn(MPI_BYTE, VBN_UINT8);
    learn(MPI_SHORT, integer(true, sizeof(short)));
    learn(MPI_UNSIGNED_SHORT, integer(false, sizeof(short)));
    learn(MPI_INT, integer(true, sizeof(int)));
    learn(MPI_UNSIGNED, integer(false, sizeof(int)));
    learn(MPI_LONG, integer(true, sizeof(long)));
    learn(MPI_UNSIGNED_LONG, integer(false, sizeof(long)));
    learn(MPI_LONG_LONG, integer(true, sizeof(long long)));
    learn(MPI_UNSIGNED_LONG_LONG, integer(false, sizeof(long long)));
    learn(MPI_INT8_T, VBN_INT8);
    learn(MPI_INT16_T, VBN_INT16);
    learn(MPI_INT32_T, VBN_INT32);
    learn(MPI_INT64_T, VBN_INT64);
    learn(MPI_UINT8_T, VBN_UINT8);
    learn(MPI_UINT16_T, VBN_UINT16);
    learn(MPI_UINT32_T, VBN_UINT32);
    learn(MPI_UINT64_T, VBN_UINT64);
    learn(MPI_FLOAT, VBN_FLOAT);
    learn(MPI_DOUBLE, VBN_DOUBLE);
    learn(MPI_LONG_DOUBLE, VBN_LONG_DOUBLE);
    learn(MPI_C_FLOAT_COMPLEX, VBN_FLOAT_COMPLEX);
    learn(MPI_C_DOUBLE_COMPLEX, VBN_DOUBLE_COMPLEX);
    learn(MPI_C_BOOL, VBN_BOOL);
    learn(MPI_FLOAT_INT, VBN_FLOAT_INT);
    learn(MPI_DOUBLE_INT, VBN_DOUBLE_INT);
    learn(MPI_LONG_INT, VBN_LONG_INT);
    learn(MPI_2INT, VBN_INT_INT);
    learn(MPI_SHORT_INT, VBN_SHORT_INT);
    learn(MPI_LONG_DOUBLE_INT, VBN_LONG_DOUBLE_INT);
    learn_fortran(MPI_INTEGER, sizeof(int32_t), VBN_INT32, VBN_INT64);
    learn_fortran(MPI_REAL, sizeof(float), VBN_FLOAT, VBN_DOUBLE);
    learn_fortran(MPI_DOUBLE_PRECISION, sizeof(float), VBN_FLOAT, VBN_DOUBLE);
    learn_fortran(MPI_COMPLEX, 2 * sizeof(float), VBN_FLOAT_COMPLEX, VBN_DOUBLE_COMPLEX);
    learn_fortran(MPI_DOUBLE_COMPLEX, 2 * sizeof(float), VBN_FLOAT_COMPLEX, VBN_DOUBLE_COMPLEX);
}

static bool builtin_op(struct ompi_op_t *op, enum vbn_op_kind *kind)
{
    static const struct {
        MPI_Op op;
        enum vbn_op_kind kind;
    } known[] = {
        {MPI_SUM, VBN_SUM},   {MPI_MIN, VBN_MIN},       {MPI_MAX, VBN_MAX},
        {MPI_PROD, VBN_PROD}, {MPI_LAND, VBN_LAND},     {MPI_LOR, VBN_LOR},
        {MPI_LXOR, VBN_LXOR}, {MPI_BAND, VBN_BAND},     {MPI_BOR, VBN_BOR},
        {MPI_BXOR, VBN_BXOR}, {MPI_MINLOC, VBN_MINLOC}, {MPI_MAXLOC, VBN_MAXLOC},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (op == known[i].op) {
            *kind = known[i].kind;
            return true;
        }
    return false;
}

/* Whatever operation and type the layer does not know: Open MPI's own way of doing it. */
static void reduce_by_mpi(const void *in, void *inout, size_t count, void *arg)
{
    const coll_verbena_call_t *call = arg;

    while (count > 0) {
        int some = count < INT_MAX ? (int)count : INT_MAX;

        PMPI_Reduce_local(in, inout, some, call->op_type, call->op);
        in = (const char *)in + (size_t)some * call->args.elem_size;
        inout = (char *)inout + (size_t)some * call->args.elem_size;
        count -= (size_t)some;
    }
}

bool coll_verbena_is_dense(ompi_datatype_t *type)
{
    ptrdiff_t lb, extent, true_lb, true_extent;
    size_t size;

    ompi_datatype_get_extent(type, &lb, &extent);
    ompi_datatype_get_true_extent(type, &true_lb, &true_extent);
    ompi_datatype_type_size(type, &size);
    return lb == 0 && true_lb == 0 && extent >= 0 && (size_t)extent == size &&
           (size_t)true_extent == size &&
           opal_datatype_is_contiguous_memory_layout(&type->super, 2);
}

bool coll_verbena_reduction(coll_verbena_call_t *call, ompi_datatype_t *type, struct ompi_op_t *op)
{
    int index = type->d_f_to_c_index, commutes = 0;
    int dtype = index >= 0 && index < TYPES_MAX ? dtype_of[index] : -1;
    size_t size;

    if (dtype >= 0 && builtin_op(op, &call->args.op) &&
        vbn_op_valid(call->args.op, (enum vbn_dtype)dtype)) {
        call->args.dtype = (enum vbn_dtype)dtype;
        return true;
    }
    if (!coll_verbena_is_dense(type))
        return false;
    ompi_datatype_type_size(type, &size);
    PMPI_Op_commutative(op, &commutes);
    call->op = op;
    call->op_type = type;
    call->args.dtype = VBN_BYTES;
    call->args.elem_size = size;
    call->user_op = (struct vbn_user_op){reduce_by_mpi, call, commutes != 0};
    call->args.user_op = &call->user_op;
    return size > 0;
}

/* --- buffers
 * --------------------------------------------------------------------------------------- */

#define LEND_BYTES 8192u /* less is copied into messages anyway */

static int block_count(const coll_verbena_view_t *view, int i)
{
    return view->counts ? view->counts[i] : view->count;
}

static char *block_at(const coll_verbena_view_t *view, int i)
{
    ptrdiff_t lb, extent, at;

    ompi_datatype_get_extent(view->type, &lb, &extent);
    at = view->displs ? view->displs[i] : (ptrdiff_t)i * view->count;
    return (char *)view->user + at * extent;
}

/* Sizes, and offsets of blocks that follow one another; returns their sum. */
static size_t lay_out(const coll_verbena_view_t *view, size_t size, size_t *sizes, size_t *offsets)
{
    size_t at = 0;

    for (int i = 0; i < view->blocks; i++) {
        size_t bytes = (size_t)block_count(view, i) * size;

        if (sizes)
            sizes[i] = bytes;
        if (offsets)
            offsets[i] = at;
        at += bytes;
    }
    return at;
}

static ptrdiff_t displacement(const coll_verbena_view_t *view, int i, size_t size)
{
    return (ptrdiff_t)view->displs[i] * (ptrdiff_t)size;
}

/* Offsets of blocks that lie where the caller says, from the first of them, where VIEW->bytes goes;
 * returns where the last of them ends. An empty one may be said to lie anywhere. */
static size_t displace(coll_verbena_view_t *view, size_t size, size_t *offsets)
{
    ptrdiff_t first = PTRDIFF_MAX, end = PTRDIFF_MIN;

    for (int i = 0; i < view->blocks; i++) {
        ptrdiff_t at = displacement(view, i, size);
        ptrdiff_t behind = at + (ptrdiff_t)view->counts[i] * (ptrdiff_t)size;

        if (!view->counts[i])
            continue;
        first = at < first ? at : first;
        end = behind > end ? behind : end;
    }
    if (first > end)
        first = end = 0;
    for (int i = 0; i < view->blocks; i++)
        offsets[i] = view->counts[i] ? (size_t)(displacement(view, i, size) - first) : 0;
    view->bytes = (char *)view->user + first;
    return (size_t)(end - first);
}

/* Moves COUNT elements from the user's memory to PACKED, or back. MPI_Pack() would count their
 * bytes in an int. */
static void convert(void *user, size_t count, const ompi_datatype_t *type, void *packed, size_t len,
                    bool in)
{
    struct iovec piece = {packed, len};
    uint32_t pieces = 1;
    opal_convertor_t convertor;

    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    if (in) {
        opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &type->super, count,
                                                 user, 0, &convertor);
        opal_convertor_pack(&convertor, &piece, &pieces, &len);
    } else {
        opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &type->super, count,
                                                 user, 0, &convertor);
        opal_convertor_unpack(&convertor, &piece, &pieces, &len);
    }
    OBJ_DESTRUCT(&convertor);
}

static void move(void *user, size_t count, ompi_datatype_t *type, void *packed, bool in)
{
    size_t len;

    ompi_datatype_type_size(type, &len);
    len *= count;
    if (len && coll_verbena_is_dense(type))
        memcpy(in ? packed : user, in ? user : packed, len);
    else if (len)
        convert(user, count, type, packed, len, in);
}

void coll_verbena_pack(const void *user, size_t count, ompi_datatype_t *type, void *packed)
{
    move((void *)(uintptr_t)user, count, type, packed, true);
}

void coll_verbena_unpack(void *user, size_t count, ompi_datatype_t *type, const void *packed)
{
    move(user, count, type, (void *)(uintptr_t)packed, false);
}

static void move_all(const coll_verbena_view_t *view, size_t size, bool in)
{
    char *at = view->packed;

    for (int i = 0; i < view->blocks; i++) {
        size_t count = (size_t)block_count(view, i);

        move(block_at(view, i), count, view->type, at, in);
        at += count * size;
    }
}

static int *copy_ints(const int *from, int count)
{
    int *to = malloc((size_t)count * sizeof(*to) + 1);

    if (to)
        memcpy(to, from, (size_t)count * sizeof(*to));
    return to;
}

/* The caller's arrays may be gone by the time that the call is over. False: no memory. */
static bool keep_arrays(coll_verbena_view_t *view)
{
    if (!view->counts)
        return true;
    view->counts = copy_ints(view->counts, view->blocks);
    view->displs = copy_ints(view->displs, view->blocks);
    return view->counts && view->displs;
}

static void free_packed(coll_verbena_view_t *view)
{
    free(view->packed);
    free(view->counts);
    free(view->displs);
    view->packed = NULL;
    view->counts = view->displs = NULL;
}

static bool view_packed(coll_verbena_view_t *view, size_t size, bool read, bool written,
                        size_t *sizes, size_t *offsets)
{
    size_t len = lay_out(view, size, sizes, offsets);

    view->packed = malloc(len + 1);
    if (!keep_arrays(view) || !view->packed) {
        free_packed(view);
        return false;
    }
    view->unpack = written;
    view->bytes = view->packed;
    if (read)
        move_all(view, size, true);
    return true;
}

bool coll_verbena_view(coll_verbena_view_t *view, const void *user, int blocks, int count,
                       const int *counts, const int *displs, ompi_datatype_t *type, bool read,
                       bool written, size_t *sizes, size_t *offsets)
{
    size_t size, sum;

    ompi_datatype_type_size(type, &size);
    *view = (coll_verbena_view_t){
        .user = (void *)(uintptr_t)user,
        .type = type,
        .blocks = blocks,
        .count = count,
        .counts = (int *)(uintptr_t)counts,
        .displs = (int *)(uintptr_t)displs,
    };
    if (!coll_verbena_is_dense(type))
        return view_packed(view, size, read, written, sizes, offsets);
    view->bytes = view->user;
    sum = lay_out(view, size, sizes, offsets);
    view->span = displs ? displace(view, size, offsets) : sum;
    if (view->span > 2 * sum) /* registered, what is between the blocks would be pinned */
        view->span = 0;
    return true;
}

void coll_verbena_view_lend(coll_verbena_view_t *view, mca_btl_base_module_t *btl, uint32_t access)
{
    if (view->span < LEND_BYTES)
        return;
    view->btl = btl;
    view->handle = btl->btl_register_mem(btl, NULL, view->bytes, view->span, access);
    if (btl_verbena_handle_mem(view->handle))
        vbn_mem_lend(btl_verbena_handle_mem(view->handle));
}

static void reclaim(coll_verbena_view_t *view)
{
    if (btl_verbena_handle_mem(view->handle))
        vbn_mem_reclaim(btl_verbena_handle_mem(view->handle));
    view->btl->btl_deregister_mem(view->btl, view->handle);
    view->handle = NULL;
}

void coll_verbena_view_end(coll_verbena_view_t *view, bool good)
{
    size_t size;

    if (view->handle)
        reclaim(view);
    if (!view->packed)
        return;
    ompi_datatype_type_size(view->type, &size);
    if (view->unpack && good)
        move_all(view, size, false);
    free_packed(view);
}
