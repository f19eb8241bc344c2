/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric's own memory: work requests and messages come and go by the million, so they are
 * cut from slabs and kept on one free list a size. Failing allocations are injected into the
 * program under test, never in here; the wrappers ask sim_pool_is_inside().
 */
#include "sim.h"

enum { POOL_MIN_SHIFT = 6, POOL_CLASSES = 11, SLAB_BYTES = 256 * 1024 };

struct free_item {
    struct free_item *next;
};

struct slab {
    struct slab *next;
    max_align_t align;
};

static struct free_item *free_items[POOL_CLASSES];
static struct slab *slabs;
static bool is_inside;
static uint64_t total_bytes;

static void *must(void *ptr)
{
    if (!ptr)
        abort();
    return ptr;
}

void *sim_zalloc(size_t bytes)
{
    is_inside = true;
    void *ptr = must(calloc(1, bytes));
    is_inside = false;
    total_bytes += bytes;
    return ptr;
}

void *sim_regrow(void *old, size_t bytes)
{
    is_inside = true;
    void *ptr = must(realloc(old, bytes));
    is_inside = false;
    return ptr;
}

void sim_release(void *ptr)
{
    is_inside = true;
    free(ptr);
    is_inside = false;
}

bool sim_pool_is_inside(void)
{
    return is_inside;
}

uint64_t sim_pool_bytes(void)
{
    return total_bytes;
}

static unsigned class_of(size_t bytes)
{
    unsigned shift = POOL_MIN_SHIFT;
    while (((size_t)1 << shift) < bytes)
        shift++;
    return shift - POOL_MIN_SHIFT;
}

static void slab_cut(unsigned class)
{
    size_t item_bytes = (size_t)1 << (class + POOL_MIN_SHIFT);
    struct slab *slab = sim_zalloc(sizeof(*slab) + SLAB_BYTES);
    slab->next = slabs;
    slabs = slab;
    char *base = (char *)(slab + 1);
    for (size_t at = 0; at + item_bytes <= SLAB_BYTES; at += item_bytes) {
        struct free_item *item = (struct free_item *)(base + at);
        item->next = free_items[class];
        free_items[class] = item;
    }
}

void *sim_pool_get(size_t bytes)
{
    unsigned class = class_of(bytes);
    if (class >= POOL_CLASSES)
        return sim_zalloc(bytes);
    if (!free_items[class])
        slab_cut(class);
    struct free_item *item = free_items[class];
    free_items[class] = item->next;
    return item;
}

void sim_pool_put(void *ptr, size_t bytes)
{
    unsigned class = class_of(bytes);
    if (class >= POOL_CLASSES) {
        sim_release(ptr);
        return;
    }
    struct free_item *item = ptr;
    item->next = free_items[class];
    free_items[class] = item;
}

void sim_pool_fini(void)
{
    while (slabs) {
        struct slab *slab = slabs;
        slabs = slab->next;
        sim_release(slab);
    }
    memset(free_items, 0, sizeof(free_items));
    total_bytes = 0;
}
