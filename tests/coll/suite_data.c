/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD   64u
#define NOTHING 0x5a /* what is not written keeps this */

struct affine {
    uint32_t a, b;
};

/* IN comes first: x → a·x + b of IN, then of INOUT. */
static void affine_compose(const void *in, void *inout, size_t count, void *arg)
{
    const struct affine *x = in;
    struct affine *y = inout;

    (void)arg;
    for (size_t i = 0; i < count; i++) {
        struct affine z = {x[i].a * y[i].a, x[i].b * y[i].a + y[i].b};

        y[i] = z;
    }
}

static const struct vbn_user_op affine_op = {affine_compose, NULL, false};

static const struct {
    enum vbn_dtype dtype;
    size_t elem;
    enum vbn_op_kind op;
    bool reduces;
} flavours[FLAVOURS] = {
    [FLAVOUR_INT32_SUM] = {VBN_INT32, 4, VBN_SUM, true},
    [FLAVOUR_AFFINE] = {VBN_BYTES, sizeof(struct affine), VBN_SUM, true},
    [FLAVOUR_BYTES] = {VBN_BYTES, 1, VBN_SUM, false},
    [FLAVOUR_BYTES3] = {VBN_BYTES, 3, VBN_SUM, false},
    [FLAVOUR_DOUBLE_MAX] = {VBN_DOUBLE, 8, VBN_MAX, true},
    [FLAVOUR_INT8_BXOR] = {VBN_INT8, 1, VBN_BXOR, true},
    [FLAVOUR_MINLOC] = {VBN_DOUBLE_INT, 16, VBN_MINLOC, true},
};

bool flavour_reduces(enum flavour flavour)
{
    return flavours[flavour].reduces;
}

bool coll_reduces(enum vbn_coll coll)
{
    return coll == VBN_COLL_REDUCE || coll == VBN_COLL_ALLREDUCE ||
           coll == VBN_COLL_REDUCE_SCATTER || coll == VBN_COLL_REDUCE_SCATTER_BLOCK ||
           coll == VBN_COLL_SCAN || coll == VBN_COLL_EXSCAN;
}

bool coll_rooted(enum vbn_coll coll)
{
    return coll == VBN_COLL_BCAST || coll == VBN_COLL_REDUCE || coll == VBN_COLL_GATHER ||
           coll == VBN_COLL_GATHERV || coll == VBN_COLL_SCATTER || coll == VBN_COLL_SCATTERV;
}

bool coll_has_blocks(enum vbn_coll coll)
{
    return coll != VBN_COLL_BARRIER && coll != VBN_COLL_BCAST && coll != VBN_COLL_REDUCE &&
           coll != VBN_COLL_ALLREDUCE && coll != VBN_COLL_SCAN && coll != VBN_COLL_EXSCAN;
}

static uint32_t mix(uint32_t rank, size_t i)
{
    uint64_t x = ((uint64_t)rank << 40) + i + 1;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(x >> 32);
}

/* COUNT elements that RANK gives, from its FIRST on. */
static void give(enum flavour flavour, uint32_t rank, size_t first, size_t count, uint8_t *to)
{
    size_t elem = flavours[flavour].elem;

    for (size_t i = 0; i < count; i++, to += elem) {
        uint32_t x = mix(rank, first + i), more[4] = {x, x * 7, 0, 0};
        double real = (double)(x % 1000);

        if (flavour == FLAVOUR_AFFINE)
            more[0] |= 1;
        if (flavour == FLAVOUR_DOUBLE_MAX || flavour == FLAVOUR_MINLOC) {
            real = flavour == FLAVOUR_MINLOC ? x % 3 : real;
            memcpy(more, &real, sizeof(real));
            more[2] = rank;
        }
        memcpy(to, more, elem);
    }
}

static void combine(enum flavour flavour, const uint8_t *in, uint8_t *inout, size_t count)
{
    if (flavour == FLAVOUR_AFFINE)
        affine_compose(in, inout, count, NULL);
    else
        vbn_reduce_local(in, inout, count, flavours[flavour].dtype, flavours[flavour].op);
}

/* What ranks 0 … LAST give, reduced in rank order: COUNT elements from FIRST. */
static void reduce_given(const struct coll_case *c, uint32_t last, size_t first, size_t count,
                         uint8_t *to)
{
    size_t len = count * flavours[c->flavour].elem;
    uint8_t *in = malloc(len + 1);

    give(c->flavour, last, first, count, to);
    while (last-- > 0) {
        give(c->flavour, last, first, count, in);
        combine(c->flavour, in, to, count);
    }
    free(in);
}

/* How much FROM has for TO where that differs; some have nothing. */
static size_t count_for(const struct coll_case *c, uint32_t from, uint32_t to)
{
    if (c->coll == VBN_COLL_ALLTOALLV && c->in_place && from > to)
        return count_for(c, to, from); /* in place both ways are alike */
    return c->count * ((from * 3 + to * 5) % 4) / 2;
}

static size_t block_count(const struct coll_case *c, uint32_t i)
{
    return count_for(c, 1, i);
}

/* SIZE counts and displacements, with one element between the blocks; returns where they end. */
static size_t lay_out(const struct coll_case *c, size_t *counts, size_t *displs, uint32_t from,
                      bool to_me, bool apart)
{
    size_t end = 0;

    for (uint32_t i = 0; i < c->size; i++) {
        if (c->coll == VBN_COLL_ALLTOALLV)
            counts[i] = to_me ? count_for(c, i, from) : count_for(c, from, i);
        else
            counts[i] = block_count(c, i);
        displs[i] = end;
        end += counts[i] + (apart ? 1 : 0);
    }
    return end;
}

static uint8_t *buffer(size_t len)
{
    uint8_t *buf = malloc(len + 2 * GUARD);

    memset(buf, NOTHING, len + 2 * GUARD);
    return buf;
}

static void make_buffers(struct part *part, size_t send_len, size_t recv_len)
{
    part->send_len = send_len;
    part->recv_len = recv_len;
    part->send = buffer(send_len);
    part->send_want = buffer(send_len);
    part->recv = buffer(recv_len);
    part->recv_want = buffer(recv_len);
}

static uint8_t *data(uint8_t *buf)
{
    return buf + GUARD;
}

/* Sizes of the two buffers, in elements, and the arrays. */
static void sizes_of(const struct coll_case *c, uint32_t rank, struct part *part, size_t *send,
                     size_t *recv)
{
    size_t *rc = part->counts, *rd = rc + c->size, *sc = rd + c->size, *sd = sc + c->size;
    bool v = c->coll == VBN_COLL_ALLGATHERV || c->coll == VBN_COLL_GATHERV ||
             c->coll == VBN_COLL_SCATTERV;
    size_t all, sends;

    all = lay_out(c, rc, rd, rank, true, c->coll != VBN_COLL_REDUCE_SCATTER);
    sends = lay_out(c, sc, sd, rank, false, true);
    part->args.recvcounts = rc;
    part->args.rdispls = rd;
    part->args.sendcounts = sc;
    part->args.sdispls = sd;
    part->args.count = v ? block_count(c, rank) : c->count;
    *send = *recv = part->args.count;
    switch (c->coll) {
    case VBN_COLL_ALLGATHER:
    case VBN_COLL_GATHER:
        *recv = c->count * c->size;
        break;
    case VBN_COLL_ALLGATHERV:
    case VBN_COLL_GATHERV:
        *recv = all;
        break;
    case VBN_COLL_SCATTER:
    case VBN_COLL_REDUCE_SCATTER_BLOCK:
        *send = c->count * c->size;
        *recv = c->in_place && c->coll != VBN_COLL_SCATTER ? *send : c->count;
        break;
    case VBN_COLL_SCATTERV:
        *send = sends;
        break;
    case VBN_COLL_REDUCE_SCATTER:
        *send = all;
        *recv = c->in_place ? all : rc[rank];
        break;
    case VBN_COLL_ALLTOALL:
        *send = *recv = c->count * c->size;
        break;
    case VBN_COLL_ALLTOALLV:
        *send = sends;
        *recv = all;
        break;
    default:
        break;
    }
}

/* What RANK has before: in SEND, or in place in RECV. */
static void fill_given(const struct coll_case *c, uint32_t rank, struct part *part, bool in_place)
{
    size_t elem = flavours[c->flavour].elem, first = 0;
    uint8_t *to = in_place ? data(part->recv) : data(part->send);
    const size_t *displs = in_place ? part->args.rdispls : part->args.sdispls;
    const size_t *counts = in_place ? part->args.recvcounts : part->args.sendcounts;

    switch (c->coll) {
    case VBN_COLL_BCAST:
        if (rank == c->root)
            give(c->flavour, rank, 0, c->count, data(part->recv));
        return;
    case VBN_COLL_ALLGATHER:
    case VBN_COLL_GATHER:
        first = in_place ? c->count * rank : 0;
        give(c->flavour, rank, 0, c->count, to + first * elem);
        return;
    case VBN_COLL_ALLGATHERV:
    case VBN_COLL_GATHERV:
        first = in_place ? displs[rank] : 0;
        give(c->flavour, rank, 0, block_count(c, rank), to + first * elem);
        return;
    case VBN_COLL_SCATTERV:
    case VBN_COLL_ALLTOALLV:
        for (uint32_t i = 0; i < c->size; i++)
            give(c->flavour, rank, i * 100000u, counts[i], to + displs[i] * elem);
        return;
    default:
        give(c->flavour, rank, 0, (in_place ? part->recv_len : part->send_len) / elem, to);
        return;
    }
}

/* What is gathered of all ranks. */
static void want_gathered(const struct coll_case *c, struct part *part)
{
    size_t elem = flavours[c->flavour].elem;
    bool v = c->coll == VBN_COLL_ALLGATHERV || c->coll == VBN_COLL_GATHERV;

    for (uint32_t i = 0; i < c->size; i++)
        give(c->flavour, i, 0, v ? block_count(c, i) : c->count,
             data(part->recv_want) + (v ? part->args.rdispls[i] : c->count * i) * elem);
}

static void want_exchanged(const struct coll_case *c, uint32_t rank, struct part *part)
{
    size_t elem = flavours[c->flavour].elem;
    uint8_t *to = data(part->recv_want);

    for (uint32_t i = 0; i < c->size; i++)
        if (c->coll == VBN_COLL_ALLTOALL)
            give(c->flavour, i, c->count * rank, c->count, to + c->count * i * elem);
        else
            give(c->flavour, i, rank * 100000u, part->args.recvcounts[i],
                 to + part->args.rdispls[i] * elem);
}

static void fill_wanted(const struct coll_case *c, uint32_t rank, struct part *part)
{
    uint8_t *to = data(part->recv_want);

    switch (c->coll) {
    case VBN_COLL_BCAST:
        give(c->flavour, c->root, 0, c->count, to);
        break;
    case VBN_COLL_REDUCE:
        if (rank == c->root)
            reduce_given(c, c->size - 1, 0, c->count, to);
        break;
    case VBN_COLL_ALLREDUCE:
        reduce_given(c, c->size - 1, 0, c->count, to);
        break;
    case VBN_COLL_REDUCE_SCATTER:
        reduce_given(c, c->size - 1, part->args.rdispls[rank], part->args.recvcounts[rank], to);
        break;
    case VBN_COLL_REDUCE_SCATTER_BLOCK:
        reduce_given(c, c->size - 1, c->count * rank, c->count, to);
        break;
    case VBN_COLL_SCAN:
        reduce_given(c, rank, 0, c->count, to);
        break;
    case VBN_COLL_EXSCAN:
        if (rank)
            reduce_given(c, rank - 1, 0, c->count, to);
        break;
    case VBN_COLL_GATHER:
    case VBN_COLL_GATHERV:
        if (rank == c->root)
            want_gathered(c, part);
        break;
    case VBN_COLL_ALLGATHER:
    case VBN_COLL_ALLGATHERV:
        want_gathered(c, part);
        break;
    case VBN_COLL_SCATTER:
        give(c->flavour, c->root, c->count * rank, c->count, to);
        break;
    case VBN_COLL_SCATTERV:
        give(c->flavour, c->root, rank * 100000u, block_count(c, rank), to);
        break;
    case VBN_COLL_ALLTOALL:
    case VBN_COLL_ALLTOALLV:
        want_exchanged(c, rank, part);
        break;
    default:
        break;
    }
}

static bool only_at_root(enum vbn_coll coll)
{
    return coll_rooted(coll) && coll != VBN_COLL_BCAST;
}

void part_make(const struct coll_case *c, uint32_t rank, struct part *part)
{
    bool scatters = c->coll == VBN_COLL_SCATTER || c->coll == VBN_COLL_SCATTERV;
    bool in_place = c->in_place && (!only_at_root(c->coll) || rank == c->root);
    size_t elem = flavours[c->flavour].elem, send = 0, recv = 0;

    memset(part, 0, sizeof(*part));
    part->args = (struct vbn_coll_args){.size = sizeof(part->args),
                                        .coll = c->coll,
                                        .root = c->root,
                                        .dtype = flavours[c->flavour].dtype,
                                        .op = flavours[c->flavour].op,
                                        .elem_size = elem};
    if (c->flavour == FLAVOUR_AFFINE)
        part->args.user_op = &affine_op;
    part->counts = calloc(4 * (size_t)c->size, sizeof(size_t));
    if (c->coll != VBN_COLL_BARRIER)
        sizes_of(c, rank, part, &send, &recv);
    make_buffers(part, send * elem, recv * elem);
    if (c->coll == VBN_COLL_BARRIER)
        return;
    fill_given(c, rank, part, in_place && !scatters);
    memcpy(part->send_want, part->send, part->send_len + 2 * GUARD);
    memcpy(part->recv_want, part->recv, part->recv_len + 2 * GUARD);
    if (!(in_place && scatters))
        fill_wanted(c, rank, part);
    part->args.sendbuf = in_place && !scatters ? VBN_IN_PLACE : data(part->send);
    part->args.recvbuf = in_place && scatters ? VBN_IN_PLACE : data(part->recv);
    if (c->coll == VBN_COLL_REDUCE_SCATTER)
        part->args.rdispls = NULL;
}

/* In place, reduce-scatter may leave anything behind the result. */
static size_t behind_result(const struct part *part)
{
    const struct vbn_coll_args *args = &part->args;
    bool anything = args->sendbuf == VBN_IN_PLACE && (args->coll == VBN_COLL_REDUCE_SCATTER ||
                                                      args->coll == VBN_COLL_REDUCE_SCATTER_BLOCK);

    return anything ? 1 : 0;
}

static const char *check_result(const struct part *part, const struct coll_case *c, uint32_t rank)
{
    size_t elem = flavours[c->flavour].elem, count = c->count;

    if (c->coll == VBN_COLL_REDUCE_SCATTER)
        count = part->args.recvcounts[rank];
    return memcmp(part->recv + GUARD, part->recv_want + GUARD, count * elem) ? "a wrong result"
                                                                             : NULL;
}

const char *part_check(const struct part *part, const struct coll_case *c, uint32_t rank)
{
    size_t all = part->recv_len + 2 * GUARD;

    if (memcmp(part->send, part->send_want, part->send_len + 2 * GUARD) != 0)
        return "the send buffer was written";
    if (memcmp(part->recv, part->recv_want, GUARD) != 0 ||
        memcmp(part->recv + all - GUARD, part->recv_want + all - GUARD, GUARD) != 0)
        return "memory around the receive buffer was written";
    if (behind_result(part))
        return check_result(part, c, rank);
    return memcmp(part->recv, part->recv_want, all) ? "a wrong result" : NULL;
}

void part_free(struct part *part)
{
    free(part->send);
    free(part->send_want);
    free(part->recv);
    free(part->recv_want);
    free(part->counts);
}
