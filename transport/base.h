/* SPDX-License-Identifier: BSD-3-Clause */
/* The few words that every file of the transport uses. */
#ifndef VBN_BASE_H
#define VBN_BASE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/queue.h>

#include <infiniband/verbs.h>

#include "verbena.h"

#define vbn_container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define vbn_likely(x)                       __builtin_expect(!!(x), 1)
#define vbn_unlikely(x)                     __builtin_expect(!!(x), 0)
#define VBN_COLD                            __attribute__((cold, noinline))
#define VBN_INLINE                          inline __attribute__((always_inline))
#define VBN_MS_NS                           1000000u

static inline uint64_t vbn_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t vbn_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Copies LEN bytes, mostly few: to call memcpy() takes longer than to move them. */
static inline void vbn_copy(void *to, const void *from, size_t len)
{
    uint64_t first, last;

    if (vbn_likely(len - 8 <= 8)) {
        memcpy(&first, from, 8);
        memcpy(&last, (const char *)from + len - 8, 8);
        memcpy(to, &first, 8);
        memcpy((char *)to + len - 8, &last, 8);
    } else if (len) {
        memcpy(to, from, len);
    }
}

/*
 * What a work request's wr_id points to: the handler of its completion. Of a completion with an
 * error only wr_id, status, qp_num and vendor_err mean anything.
 */
struct vbn_comp {
    void (*done)(struct vbn_comp *comp, const struct ibv_wc *wc);
};

/* True where sequence number A comes before B; both wrap. */
static inline bool vbn_seq_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

#endif
