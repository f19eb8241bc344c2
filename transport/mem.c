/* SPDX-License-Identifier: BSD-3-Clause */
#include "mem.h"
#include "context.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool may_lock_all(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}, {0}};

    if (syscall(SYS_capget, &head, data) != 0)
        return false;
    return data[CAP_IPC_LOCK / 32].effective & (1u << (CAP_IPC_LOCK % 32));
}

uint64_t vbn_mem_lock_limit(void)
{
    struct rlimit lim;

    if (getrlimit(RLIMIT_MEMLOCK, &lim) != 0 || lim.rlim_cur == RLIM_INFINITY || may_lock_all())
        return UINT64_MAX;
    return lim.rlim_cur;
}

struct ibv_mr *vbn_mem_reg_mr(vbn_context_t *ctx, void *addr, size_t len, int access)
{
    return ibv_reg_mr(ctx->device.pd, addr, len, access);
}

static int access_flags(const vbn_context_t *ctx, unsigned access)
{
    int flags = 0;

    if (access & VBN_ACCESS_LOCAL_WRITE)
        flags |= IBV_ACCESS_LOCAL_WRITE;
    if (access & VBN_ACCESS_REMOTE_READ)
        flags |= IBV_ACCESS_REMOTE_READ;
    if (access & VBN_ACCESS_REMOTE_WRITE)
        flags |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
    if (access & VBN_ACCESS_REMOTE_ATOMIC)
        flags |= IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE;
    /* On iWARP the sink of an RDMA read is written by the peer (RFC 5040, 2.1); where reads are
     * not good, tagged messages are put. */
    if ((ctx->device.iwarp || !ctx->device.good_reads) && (access & VBN_ACCESS_LOCAL_WRITE))
        flags |= IBV_ACCESS_REMOTE_WRITE;
    return flags;
}

bool vbn_mem_takes_puts(const vbn_mem_t *mem)
{
    return access_flags(mem->ctx, mem->access) & IBV_ACCESS_REMOTE_WRITE;
}

int vbn_mem_make(vbn_context_t *ctx, void *addr, size_t len, unsigned access, vbn_mem_t **mem)
{
    const unsigned all = VBN_ACCESS_LOCAL_WRITE | VBN_ACCESS_REMOTE_READ | VBN_ACCESS_REMOTE_WRITE |
                         VBN_ACCESS_REMOTE_ATOMIC;
    struct vbn_mem *m;
    int err;

    if (!addr || !len || (access & ~all))
        return VBN_ERR_INVALID;
    m = malloc(sizeof(*m));
    if (!m)
        return VBN_ERR_NO_MEMORY;
    *m = (struct vbn_mem){.ctx = ctx, .access = access};
    m->mr = vbn_mem_reg_mr(ctx, addr, len, access_flags(ctx, access));
    if (!m->mr) {
        err = errno;
        free(m);
        if (err == EFAULT || err == EINVAL || err == EACCES)
            return VBN_ERR_INVALID;
        return vbn_mem_lock_limit() == UINT64_MAX ? VBN_ERR_NO_MEMORY : VBN_ERR_MEMLOCK;
    }
    LIST_INSERT_HEAD(&ctx->mems, m, entry);
    *mem = m;
    return VBN_OK;
}

static void end(vbn_mem_t *mem)
{
    LIST_REMOVE(mem, entry);
    ibv_dereg_mr(mem->mr);
    free(mem);
}

void vbn_mem_drop(vbn_mem_t *mem)
{
    if (mem->lends)
        LIST_REMOVE(mem, lent_entry);
    mem->lends = 0;
    mem->dropped = true;
    if (!mem->messages)
        end(mem);
}

int vbn_mem_register(vbn_context_t *ctx, void *addr, size_t len, unsigned access, vbn_mem_t **mem)
{
    int rc;

    vbn_lock(ctx);
    rc = vbn_mem_make(ctx, addr, len, access, mem);
    vbn_unlock(ctx);
    return rc;
}

void vbn_mem_deregister(vbn_mem_t *mem)
{
    vbn_context_t *ctx = mem->ctx;

    vbn_lock(ctx);
    vbn_mem_drop(mem);
    vbn_unlock(ctx);
}

void vbn_mem_lend(vbn_mem_t *mem)
{
    vbn_lock(mem->ctx);
    if (mem->lends++ == 0)
        LIST_INSERT_HEAD(&mem->ctx->lent_mems, mem, lent_entry);
    vbn_unlock(mem->ctx);
}

void vbn_mem_reclaim(vbn_mem_t *mem)
{
    vbn_lock(mem->ctx);
    if (--mem->lends == 0)
        LIST_REMOVE(mem, lent_entry);
    vbn_unlock(mem->ctx);
}

vbn_mem_t *vbn_mem_for(vbn_context_t *ctx, void *addr, size_t len, unsigned access, bool make)
{
    vbn_mem_t *mem;

    LIST_FOREACH(mem, &ctx->lent_mems, lent_entry)
    {
        if ((mem->access & access) == access && vbn_mem_holds(mem, addr, len))
            break;
    }
    if (!mem && make && vbn_mem_make(ctx, addr, len, access, &mem) == VBN_OK)
        mem->dropped = true;
    if (mem)
        mem->messages++;
    return mem;
}

void vbn_mem_done(vbn_mem_t *mem)
{
    if (--mem->messages == 0 && mem->dropped)
        end(mem);
}

void vbn_mem_fini(vbn_context_t *ctx)
{
    struct vbn_mem *mem, *next;

    for (mem = LIST_FIRST(&ctx->mems); mem; mem = next) {
        next = LIST_NEXT(mem, entry);
        end(mem);
    }
}

uint32_t vbn_mem_rkey(const vbn_mem_t *mem)
{
    return mem->mr->rkey;
}
