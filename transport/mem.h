/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory: the one place that calls ibv_reg_mr, for pools and for users. */
#ifndef VBN_MEM_H
#define VBN_MEM_H

#include "base.h"

struct vbn_mem {
    vbn_context_t *ctx;
    struct ibv_mr *mr;
    unsigned access;                /* of enum vbn_access */
    unsigned lends;                 /* while there are any, tagged messages in it may use it */
    uint32_t messages;              /* tagged ones that use it now */
    bool dropped;                   /* goes with the last of them */
    LIST_ENTRY(vbn_mem) entry;      /* in ctx->mems */
    LIST_ENTRY(vbn_mem) lent_entry; /* in ctx->lent_mems */
};

/*
 * Pinned bytes that the process may have by RLIMIT_MEMLOCK, or UINT64_MAX where the limit does
 * not bind (unlimited, or CAP_IPC_LOCK).
 */
uint64_t vbn_mem_lock_limit(void);

/* Registers; returns NULL with errno set by the device or the kernel. */
struct ibv_mr *vbn_mem_reg_mr(vbn_context_t *ctx, void *addr, size_t len, int access);

/* vbn_mem_register() and _deregister() with the lock held. */
int vbn_mem_make(vbn_context_t *ctx, void *addr, size_t len, unsigned access, vbn_mem_t **mem);
void vbn_mem_drop(vbn_mem_t *mem);

/*
 * A region for one tagged message that holds these bytes and allows ACCESS: one that is lent, or if
 * MAKE one of its own. NULL: none. It stays, though it be dropped, until vbn_mem_done().
 */
vbn_mem_t *vbn_mem_for(vbn_context_t *ctx, void *addr, size_t len, unsigned access, bool make);
void vbn_mem_done(vbn_mem_t *mem);

/* Whether peers may write to MEM. */
bool vbn_mem_takes_puts(const vbn_mem_t *mem);

/* Ends the user's registrations that are left when the context closes. */
void vbn_mem_fini(vbn_context_t *ctx);

static inline bool vbn_mem_holds(const struct vbn_mem *mem, const void *addr, size_t len)
{
    uintptr_t base = (uintptr_t)mem->mr->addr, at = (uintptr_t)addr;

    return at >= base && len <= mem->mr->length && at - base <= mem->mr->length - len;
}

#endif
