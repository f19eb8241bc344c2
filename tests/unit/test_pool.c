/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools over fake registrations: growth, limits, order, alignment, and every way to fail. */
#include "lone.h"

#include <errno.h>
#include <unistd.h>

#define OBJ_LEN 72
#define BUF_LEN 1000

struct thing {
    struct vbn_pool_obj obj;
    unsigned inits;
    char rest[OBJ_LEN - sizeof(struct vbn_pool_obj) - sizeof(unsigned)];
};

static vbn_context_t *ctx;
static struct vbn_pool pool;

static int setup(void **state)
{
    lone_setup(state);
    ctx = lone_open(NULL);
    return 0;
}

static int teardown(void **state)
{
    vbn_pool_fini(&pool);
    lone_close(ctx);
    return lone_teardown(state);
}

static void init_thing(struct vbn_pool *p, struct vbn_pool_obj *obj)
{
    struct thing *t = (struct thing *)obj;

    assert_ptr_equal(p, &pool);
    assert_int_equal(t->inits, 0); /* zeroed, and called once */
    assert_true(!p->buf_size || (obj->buf && obj->lkey));
    t->inits++;
}

static void make(size_t buf_len, uint32_t max)
{
    vbn_pool_init(&pool, ctx, sizeof(struct thing), buf_len, max, init_thing);
}

/* --- life ------------------------------------------------------------------------------------- */

static void init_allocates_nothing(void **state)
{
    unsigned mrs = fake_count(FAKE_REG_MR);

    (void)state;
    unit_fail_alloc(1);
    make(BUF_LEN, 100);
    assert_false(unit_alloc_failed());
    assert_int_equal(fake_count(FAKE_REG_MR), mrs);
    assert_int_equal(pool.count, 0);
}

static void objects_and_buffers_lie_apart_and_aligned(void **state)
{
    struct vbn_pool_obj *obj[100];

    (void)state;
    make(BUF_LEN, 100);
    for (int i = 0; i < 100; i++) {
        obj[i] = vbn_pool_get(&pool);
        assert_non_null(obj[i]);
        assert_int_equal(((struct thing *)obj[i])->inits, 1);
        assert_int_equal((uintptr_t)obj[i] % 64, 0);
        assert_int_equal((uintptr_t)obj[i]->buf % 64, 0);
        memset(obj[i]->buf, i, BUF_LEN);
        memset(((struct thing *)obj[i])->rest, i, sizeof(((struct thing *)obj[i])->rest));
    }
    for (int i = 0; i < 100; i++) {
        for (int k = 0; k < BUF_LEN; k++)
            assert_int_equal(((unsigned char *)obj[i]->buf)[k], i);
        assert_int_equal((unsigned char)((struct thing *)obj[i])->rest[0], i);
        assert_int_equal(((struct thing *)obj[i])->inits, 1);
    }
}

static void last_in_first_out(void **state)
{
    struct vbn_pool_obj *a, *b;

    (void)state;
    make(BUF_LEN, 100);
    a = vbn_pool_get(&pool);
    b = vbn_pool_get(&pool);
    vbn_pool_put(&pool, a);
    vbn_pool_put(&pool, b);
    assert_ptr_equal(vbn_pool_get(&pool), b);
    assert_ptr_equal(vbn_pool_get(&pool), a);
}

static void without_buffers_nothing_is_registered(void **state)
{
    unsigned mrs = fake_count(FAKE_REG_MR);

    (void)state;
    make(0, 100);
    assert_null(vbn_pool_get(&pool)->buf);
    assert_int_equal(fake_count(FAKE_REG_MR), mrs);
}

/* --- growth and limits ------------------------------------------------------------------------ */

static void grows_to_the_limit_and_no_further(void **state)
{
    unsigned mrs = fake_count(FAKE_REG_MR), got = 0;
    struct vbn_pool_obj *first = NULL, *obj;

    (void)state;
    make(BUF_LEN, 1000);
    while ((obj = vbn_pool_get(&pool))) {
        got++;
        assert_true(pool.count <= 1000);
        assert_int_equal(pool.count - pool.free_count, got);
        if (!first)
            first = obj;
    }
    assert_int_equal(got, 1000);
    assert_true(fake_count(FAKE_REG_MR) - mrs <= 7); /* slabs double */
    vbn_pool_put(&pool, first);
    assert_ptr_equal(vbn_pool_get(&pool), first);
    assert_null(vbn_pool_get(&pool));
}

static void reserve_makes_what_is_missing(void **state)
{
    unsigned mrs = fake_count(FAKE_REG_MR);

    (void)state;
    make(BUF_LEN, 100);
    assert_int_equal(vbn_pool_reserve(&pool, 20), VBN_OK);
    assert_int_equal(pool.count, 20);
    assert_int_equal(pool.free_count, 20);
    assert_int_equal(vbn_pool_reserve(&pool, 10), VBN_OK);
    assert_int_equal(pool.count, 20);
    assert_int_equal(vbn_pool_reserve(&pool, 100), VBN_OK);
    assert_int_equal(pool.count, 100);
    assert_int_equal(fake_count(FAKE_REG_MR) - mrs, 2);
    assert_int_equal(vbn_pool_reserve(&pool, 101), VBN_ERR_NO_MEMORY);
    assert_int_equal(pool.count, 100);
}

static void each_slab_is_registered_whole(void **state)
{
    struct vbn_pool_obj *obj;

    (void)state;
    make(BUF_LEN, 64);
    assert_int_equal(vbn_pool_reserve(&pool, 32), VBN_OK);
    obj = vbn_pool_get(&pool);
    assert_int_equal((uintptr_t)obj->buf % (size_t)sysconf(_SC_PAGESIZE), 0); /* the lowest first */
}

/* --- failures --------------------------------------------------------------------------------- */

static void registration_fails(void **state)
{
    (void)state;
    make(BUF_LEN, 100);
    fake_fail(FAKE_REG_MR, 1, ENOMEM);
    assert_int_equal(vbn_pool_reserve(&pool, 10), VBN_ERR_NO_MEMORY);
    assert_int_equal(pool.count, 0);
    unit_memlock(65536);
    fake_fail(FAKE_REG_MR, 1, ENOMEM);
    assert_int_equal(vbn_pool_reserve(&pool, 10), VBN_ERR_MEMLOCK);
    assert_int_equal(pool.count, 0);
    assert_int_equal(vbn_pool_reserve(&pool, 10), VBN_OK);
}

/* A pool of large buffers does not pin twice what is asked of it. */
static void slabs_stay_within_a_huge_page(void **state)
{
    const size_t buf_len = 8208;
    unsigned got = 0;

    (void)state;
    make(buf_len, 4096);
    while (got < 1100 && vbn_pool_get(&pool))
        got++;
    assert_int_equal(got, 1100);
    assert_true(pool.count * buf_len <= 1100 * buf_len + (2u << 20));
}

static void growth_shrinks_to_what_fits(void **state)
{
    unsigned got = 0;

    (void)state;
    lone_device->max_mr_len = 16384; /* 16 buffers of 1024 bytes */
    make(BUF_LEN, 100);
    while (vbn_pool_get(&pool) && got < 1000)
        got++;
    assert_int_equal(got, 100);
}

static void growth_gives_up_in_the_end(void **state)
{
    struct vbn_pool_obj *obj;

    (void)state;
    make(BUF_LEN, 100);
    assert_int_equal(vbn_pool_reserve(&pool, 4), VBN_OK);
    fake_fail(FAKE_REG_MR, 0, ENOMEM);
    for (int i = 0; i < 4; i++)
        assert_non_null(obj = vbn_pool_get(&pool));
    assert_null(vbn_pool_get(&pool));
    assert_int_equal(pool.count, 4);
    vbn_pool_put(&pool, obj);
    assert_ptr_equal(vbn_pool_get(&pool), obj);
    assert_null(vbn_pool_get(&pool));
}

/* What was short, locked memory perhaps, may be there again; it is not asked for each time. */
static void growth_that_failed_is_tried_again(void **state)
{
    (void)state;
    make(BUF_LEN, UINT32_MAX);
    assert_int_equal(vbn_pool_reserve(&pool, 4), VBN_OK);
    for (int i = 0; i < 4; i++)
        assert_non_null(vbn_pool_get(&pool));
    fake_fail(FAKE_REG_MR, 0, ENOMEM);
    assert_null(vbn_pool_get(&pool));
    assert_int_equal(vbn_pool_left(&pool), 0);
    fake_fail(FAKE_REG_MR, UINT32_MAX, 0);
    assert_null(vbn_pool_get(&pool));
    unit.now_ns += 100 * UNIT_MS;
    assert_non_null(vbn_pool_get(&pool));
    assert_true(vbn_pool_left(&pool) > 1000);
}

static void memory_fails_at_each_step(void **state)
{
    int live = fake_live();

    (void)state;
    make(BUF_LEN, 100);
    for (unsigned nth = 1; nth <= 2; nth++) { /* the slab's head, the objects */
        unit_fail_alloc(nth);
        assert_int_equal(vbn_pool_reserve(&pool, 10), VBN_ERR_NO_MEMORY);
        assert_true(unit_alloc_failed());
        assert_int_equal(pool.count, 0);
        assert_int_equal(fake_live(), live);
    }
    unit_fail_alloc(0);
    assert_int_equal(vbn_pool_reserve(&pool, 10), VBN_OK);
}

static void fini_gives_everything_back(void **state)
{
    int live = fake_live();

    (void)state;
    make(BUF_LEN, 1000);
    for (int i = 0; i < 300; i++) /* in use or not */
        assert_non_null(vbn_pool_get(&pool));
    assert_true(fake_live() > live);
    vbn_pool_fini(&pool);
    assert_int_equal(fake_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(init_allocates_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(objects_and_buffers_lie_apart_and_aligned, setup, teardown),
        cmocka_unit_test_setup_teardown(last_in_first_out, setup, teardown),
        cmocka_unit_test_setup_teardown(without_buffers_nothing_is_registered, setup, teardown),
        cmocka_unit_test_setup_teardown(grows_to_the_limit_and_no_further, setup, teardown),
        cmocka_unit_test_setup_teardown(reserve_makes_what_is_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(each_slab_is_registered_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(registration_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(slabs_stay_within_a_huge_page, setup, teardown),
        cmocka_unit_test_setup_teardown(growth_shrinks_to_what_fits, setup, teardown),
        cmocka_unit_test_setup_teardown(growth_gives_up_in_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(growth_that_failed_is_tried_again, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_fails_at_each_step, setup, teardown),
        cmocka_unit_test_setup_teardown(fini_gives_everything_back, setup, teardown),
    };

    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
