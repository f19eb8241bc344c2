/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool.h"
#include "context.h"
#include "mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE  (2u << 20)
#define SLAB_OBJS  32u /* objects of a first slab */
#define CACHE_LINE 64u
#define RETRY_NS   100000000u /* after memory was short */

struct vbn_pool_slab {
    SLIST_ENTRY(vbn_pool_slab) next;
    char *objs;
    uint32_t count;
    void *bufs; /* NULL where the pool has no buffers */
    size_t bufs_len;
    struct ibv_mr *mr;
};

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Huge pages save the device translations; a shortage of them is no error. */
static void *map_pages(size_t len)
{
    const int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    void *mem = MAP_FAILED;

    if (len % HUGE_PAGE == 0)
        mem = mmap(NULL, len, prot, flags | MAP_HUGETLB, -1, 0);
    if (mem == MAP_FAILED)
        mem = mmap(NULL, len, prot, flags, -1, 0);
    return mem == MAP_FAILED ? NULL : mem;
}

void vbn_pool_init(struct vbn_pool *pool, vbn_context_t *ctx, size_t obj_size, size_t buf_size,
                   uint32_t max, void (*init)(struct vbn_pool *, struct vbn_pool_obj *))
{
    *pool = (struct vbn_pool){
        .ctx = ctx,
        .obj_size = round_up(obj_size, CACHE_LINE),
        .buf_size = round_up(buf_size, CACHE_LINE),
        .max = max,
        .limit = max,
        .init = init,
    };
    SLIST_INIT(&pool->free);
    SLIST_INIT(&pool->slabs);
}

static int slab_map(struct vbn_pool *pool, struct vbn_pool_slab *slab, uint32_t count)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    slab->bufs_len = round_up(count * pool->buf_size, page);
    if (slab->bufs_len >= HUGE_PAGE)
        slab->bufs_len = round_up(slab->bufs_len, HUGE_PAGE);
    slab->bufs = map_pages(slab->bufs_len);
    if (!slab->bufs)
        return VBN_ERR_NO_MEMORY;
    slab->mr = vbn_mem_reg_mr(pool->ctx, slab->bufs, slab->bufs_len, IBV_ACCESS_LOCAL_WRITE);
    if (!slab->mr) {
        munmap(slab->bufs, slab->bufs_len);
        return vbn_mem_lock_limit() == UINT64_MAX ? VBN_ERR_NO_MEMORY : VBN_ERR_MEMLOCK;
    }
    return VBN_OK;
}

static void slab_free(struct vbn_pool_slab *slab)
{
    if (slab->bufs) {
        ibv_dereg_mr(slab->mr);
        munmap(slab->bufs, slab->bufs_len);
    }
    free(slab->objs);
    free(slab);
}

static void slab_fill(struct vbn_pool *pool, struct vbn_pool_slab *slab, uint32_t count)
{
    for (uint32_t i = count; i-- > 0;) {
        struct vbn_pool_obj *obj = (struct vbn_pool_obj *)(slab->objs + i * pool->obj_size);

        if (slab->bufs) {
            obj->buf = (char *)slab->bufs + i * pool->buf_size;
            obj->lkey = slab->mr->lkey;
        }
        if (pool->init)
            pool->init(pool, obj);
        vbn_pool_put(pool, obj);
    }
    slab->count = count;
    pool->count += count;
}

static int pool_grow(struct vbn_pool *pool, uint32_t count)
{
    struct vbn_pool_slab *slab = calloc(1, sizeof(*slab));
    int rc = VBN_ERR_NO_MEMORY;

    if (!slab)
        return rc;
    slab->objs = aligned_alloc(CACHE_LINE, count * pool->obj_size);
    if (!slab->objs)
        goto free_slab;
    if (pool->buf_size) {
        rc = slab_map(pool, slab, count);
        if (rc)
            goto free_slab;
    }
    memset(slab->objs, 0, count * pool->obj_size);
    slab_fill(pool, slab, count);
    SLIST_INSERT_HEAD(&pool->slabs, slab, next);
    return VBN_OK;

free_slab:
    free(slab->objs);
    free(slab);
    return rc;
}

int vbn_pool_reserve(struct vbn_pool *pool, uint32_t count)
{
    int rc = VBN_OK;

    if (count > pool->limit)
        return VBN_ERR_NO_MEMORY;
    if (count > pool->count)
        rc = pool_grow(pool, count - pool->count);
    return rc;
}

/* Doubles, so that slabs are few, but by no more than a huge page: buffers are pinned memory. */
static uint32_t next_slab(const struct vbn_pool *pool)
{
    size_t page = HUGE_PAGE / (pool->buf_size ? pool->buf_size : pool->obj_size);
    size_t count = vbn_min(pool->count, page);

    return (uint32_t)vbn_min(vbn_max(count, SLAB_OBJS), pool->max - pool->count);
}

void vbn_pool_look_again(struct vbn_pool *pool)
{
    if (pool->max < pool->limit && vbn_now_ns(pool->ctx) >= pool->retry_ns)
        pool->max = pool->limit;
}

struct vbn_pool_obj *vbn_pool_get_grown(struct vbn_pool *pool)
{
    uint32_t count;

    vbn_pool_look_again(pool);
    count = next_slab(pool);
    while (count && pool_grow(pool, count) != VBN_OK)
        count /= 2; /* close to a limit, a smaller slab may still fit */
    if (count)
        return vbn_pool_get(pool);
    if (pool->count < pool->max)
        pool->retry_ns = vbn_now_ns(pool->ctx) + RETRY_NS;
    pool->max = pool->count;
    return NULL;
}

void vbn_pool_each(struct vbn_pool *pool, void (*fn)(void *arg, struct vbn_pool_obj *obj),
                   void *arg)
{
    struct vbn_pool_slab *slab;

    SLIST_FOREACH(slab, &pool->slabs, next)
    {
        for (uint32_t i = 0; i < slab->count; i++)
            fn(arg, (struct vbn_pool_obj *)(slab->objs + i * pool->obj_size));
    }
}

void vbn_pool_fini(struct vbn_pool *pool)
{
    while (!SLIST_EMPTY(&pool->slabs)) {
        struct vbn_pool_slab *slab = SLIST_FIRST(&pool->slabs);

        SLIST_REMOVE_HEAD(&pool->slabs, next);
        slab_free(slab);
    }
}
