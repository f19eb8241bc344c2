/* SPDX-License-Identifier: BSD-3-Clause */
/* Arithmetic of ranks and blocks: pure functions that algorithms share. */
#ifndef VBN_PEERS_H
#define VBN_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* (RANK + DISTANCE) mod SIZE, and back; RANK < SIZE, DISTANCE ≤ SIZE < 2^31. */
static inline uint32_t vbn_ahead(uint32_t rank, uint32_t distance, uint32_t size)
{
    uint32_t sum = rank + distance;

    return sum >= size ? sum - size : sum;
}

static inline uint32_t vbn_behind(uint32_t rank, uint32_t distance, uint32_t size)
{
    return vbn_ahead(rank, size - distance, size);
}

/* ⌈log2 N⌉, N ≥ 1. */
static inline unsigned vbn_log2_ceil(uint64_t n)
{
    return n <= 1 ? 0 : 64u - (unsigned)__builtin_clzll(n - 1);
}

/* The largest power of two that is at most N, N ≥ 1. */
static inline uint32_t vbn_pow2_floor(uint32_t n)
{
    return 1u << (31u - (unsigned)__builtin_clz(n));
}

/* ⌈log_RADIX N⌉. */
static inline unsigned vbn_log_ceil(uint64_t n, uint64_t radix)
{
    unsigned log = 0;

    for (uint64_t reach = 1; reach < n; reach *= radix)
        log++;
    return log;
}

/* COUNT elements cut in PARTS as evenly as can be: where part I starts; part PARTS starts at the
 * end. */
static inline size_t vbn_part(size_t count, size_t parts, size_t i)
{
    size_t rest = count % parts;

    return count / parts * i + (i < rest ? i : rest);
}

/*
 * The fold to a power of two: the first 2 * (size - pow2) ranks go in pairs (2i, 2i + 1), of which
 * one goes on. So every survivor stands for one or two neighbouring ranks, in rank order.
 */
struct vbn_fold {
    uint32_t pow2, extra; /* survivors; pairs */
};

static inline struct vbn_fold vbn_fold(uint32_t size)
{
    struct vbn_fold fold = {vbn_pow2_floor(size), size - vbn_pow2_floor(size)};

    return fold;
}

/* The survivors' number that stands for RANK, and the first rank that survivor N stands for. */
static inline uint32_t vbn_fold_number(struct vbn_fold fold, uint32_t rank)
{
    return rank < 2 * fold.extra ? rank / 2 : rank - fold.extra;
}

static inline uint32_t vbn_fold_first(struct vbn_fold fold, uint32_t n)
{
    return n < fold.extra ? 2 * n : n + fold.extra;
}

/* Whether RANK is of a pair. */
static inline bool vbn_fold_paired(struct vbn_fold fold, uint32_t rank)
{
    return rank < 2 * fold.extra;
}

#endif
