/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pool of objects, each with a buffer in registered memory of its own (or none). Objects and
 * buffers lie apart, so that what a device writes never touches what we keep about it.
 *
 * Memory comes in slabs that double in size up to the pool's limit and stay until vbn_pool_fini().
 * The free list is last-in first-out: a buffer just used is used next.
 */
#ifndef VBN_POOL_H
#define VBN_POOL_H

#include "base.h"

/* Every pooled object begins with this. `buf` and `lkey` never change. */
struct vbn_pool_obj {
    SLIST_ENTRY(vbn_pool_obj) next;
    void *buf;
    uint32_t lkey;
};

struct vbn_pool_slab;

struct vbn_pool {
    SLIST_HEAD(, vbn_pool_obj) free;
    vbn_context_t *ctx;
    size_t obj_size, buf_size;
    uint32_t count, free_count; /* objects: made, and free now */
    uint32_t max, limit;        /* to be had as far as is known, and allowed */
    uint64_t retry_ns;          /* when it is tried again to have more than `max` */
    void (*init)(struct vbn_pool *pool, struct vbn_pool_obj *obj);
    SLIST_HEAD(, vbn_pool_slab) slabs;
};

/*
 * Prepares a pool of at most MAX objects of OBJ_SIZE bytes with BUF_SIZE registered bytes each (0:
 * none). INIT (may be NULL) is called once for each object when it is made. Allocates nothing.
 */
void vbn_pool_init(struct vbn_pool *pool, vbn_context_t *ctx, size_t obj_size, size_t buf_size,
                   uint32_t max, void (*init)(struct vbn_pool *, struct vbn_pool_obj *));

/* Makes objects until there are at least COUNT. 0, VBN_ERR_NO_MEMORY or VBN_ERR_MEMLOCK. */
int vbn_pool_reserve(struct vbn_pool *pool, uint32_t count);

/* Where memory for more was short a while ago: it may be no more. */
VBN_COLD void vbn_pool_look_again(struct vbn_pool *pool);

/* Makes a further slab and takes an object from it; NULL at the limit, and where memory is short.
 */
VBN_COLD struct vbn_pool_obj *vbn_pool_get_grown(struct vbn_pool *pool);

/* Calls FN for each object there is, free or not. */
void vbn_pool_each(struct vbn_pool *pool, void (*fn)(void *arg, struct vbn_pool_obj *obj),
                   void *arg);

/* Frees everything, used or not. The device must not be using any buffer. */
void vbn_pool_fini(struct vbn_pool *pool);

static inline struct vbn_pool_obj *vbn_pool_get(struct vbn_pool *pool)
{
    struct vbn_pool_obj *obj = SLIST_FIRST(&pool->free);

    if (vbn_unlikely(!obj))
        return vbn_pool_get_grown(pool);
    SLIST_REMOVE_HEAD(&pool->free, next);
    pool->free_count--;
    return obj;
}

/* Objects that may still be got, free ones and those not made yet. */
static inline uint32_t vbn_pool_left(const struct vbn_pool *pool)
{
    return pool->free_count + (pool->max - pool->count);
}

static inline void vbn_pool_put(struct vbn_pool *pool, struct vbn_pool_obj *obj)
{
    SLIST_INSERT_HEAD(&pool->free, obj, next);
    pool->free_count++;
}

#endif
