/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory: access rights, what errors mean, bounds, and the locked-memory limit. */
#include "lone.h"

#include <errno.h>
#include <sys/resource.h>

static vbn_context_t *ctx;
static char memory[4096];

static int setup(void **state)
{
    lone_setup(state);
    ctx = lone_open(NULL);
    return 0;
}

static int teardown(void **state)
{
    lone_close(ctx);
    return lone_teardown(state);
}

/* The verbs access rights that ACCESS was registered with. */
static unsigned flags_of(unsigned access)
{
    vbn_mem_t *mem;
    unsigned flags;

    assert_int_equal(vbn_mem_register(ctx, memory, sizeof(memory), access, &mem), VBN_OK);
    flags = mem->mr->handle;
    assert_int_equal(vbn_mem_rkey(mem), mem->mr->rkey);
    assert_ptr_equal(mem->mr->addr, memory);
    assert_int_equal(mem->mr->length, sizeof(memory));
    assert_ptr_equal(mem->mr->pd, ctx->device.pd);
    vbn_mem_deregister(mem);
    return flags;
}

static void access_rights(void **state)
{
    const unsigned lw = IBV_ACCESS_LOCAL_WRITE, rw = IBV_ACCESS_REMOTE_WRITE,
                   rr = IBV_ACCESS_REMOTE_READ, ra = IBV_ACCESS_REMOTE_ATOMIC;

    (void)state;
    assert_int_equal(flags_of(VBN_ACCESS_LOCAL), 0);
    assert_int_equal(flags_of(VBN_ACCESS_LOCAL_WRITE), lw);
    assert_int_equal(flags_of(VBN_ACCESS_REMOTE_READ), rr);
    assert_int_equal(flags_of(VBN_ACCESS_REMOTE_WRITE), lw | rw); /* verbs want both */
    assert_int_equal(flags_of(VBN_ACCESS_REMOTE_ATOMIC), lw | ra);
    assert_int_equal(flags_of(15), lw | rw | rr | ra);
}

/* There the sink of an RDMA read is written by the peer (RFC 5040, 2.1). */
static void access_rights_on_iwarp(void **state)
{
    (void)state;
    ctx->device.iwarp = true;
    assert_int_equal(flags_of(VBN_ACCESS_LOCAL), 0);
    assert_int_equal(flags_of(VBN_ACCESS_LOCAL_WRITE),
                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_int_equal(flags_of(VBN_ACCESS_REMOTE_READ), IBV_ACCESS_REMOTE_READ);
}

static void bad_arguments(void **state)
{
    unsigned calls = fake_count(FAKE_REG_MR);
    vbn_mem_t *mem;

    (void)state;
    assert_int_equal(vbn_mem_register(ctx, NULL, 10, 0, &mem), VBN_ERR_INVALID);
    assert_int_equal(vbn_mem_register(ctx, memory, 0, 0, &mem), VBN_ERR_INVALID);
    assert_int_equal(vbn_mem_register(ctx, memory, 10, 16, &mem), VBN_ERR_INVALID);
    assert_int_equal(vbn_mem_register(ctx, memory, 10, ~0u, &mem), VBN_ERR_INVALID);
    assert_int_equal(fake_count(FAKE_REG_MR), calls);
}

static int failing_with(int error)
{
    int live = fake_live(), rc;
    vbn_mem_t *mem;

    fake_fail(FAKE_REG_MR, 1, error);
    rc = vbn_mem_register(ctx, memory, sizeof(memory), VBN_ACCESS_LOCAL, &mem);
    assert_int_equal(fake_live(), live);
    return rc;
}

static void errors_of_the_kernel(void **state)
{
    (void)state;
    assert_int_equal(failing_with(EFAULT), VBN_ERR_INVALID); /* not mapped */
    assert_int_equal(failing_with(EINVAL), VBN_ERR_INVALID);
    assert_int_equal(failing_with(EACCES), VBN_ERR_INVALID); /* read-only */
    assert_int_equal(failing_with(ENOMEM), VBN_ERR_NO_MEMORY);
    unit_memlock(64 * 1024);
    assert_int_equal(failing_with(ENOMEM), VBN_ERR_MEMLOCK);
    assert_int_equal(failing_with(EFAULT), VBN_ERR_INVALID);
    unit_fail_alloc(1);
    assert_int_equal(failing_with(0), VBN_ERR_NO_MEMORY);
}

/* The fixture looks for what is left. */
static void close_ends_registrations(void **state)
{
    vbn_mem_t *mems[3];

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(vbn_mem_register(ctx, memory, 100, VBN_ACCESS_LOCAL, &mems[i]), VBN_OK);
    vbn_mem_deregister(mems[1]);
}

static vbn_mem_t *for_message(size_t at, size_t len, bool make)
{
    return vbn_mem_for(ctx, memory + at, len, VBN_ACCESS_REMOTE_READ, make);
}

/* As often as it was lent, it has to be reclaimed. */
static void messages_find_what_is_lent(void **state)
{
    vbn_mem_t *mem;

    (void)state;
    assert_int_equal(vbn_mem_register(ctx, memory, 1000, VBN_ACCESS_REMOTE_READ, &mem), VBN_OK);
    assert_null(for_message(0, 1000, false));
    vbn_mem_lend(mem);
    vbn_mem_lend(mem);
    assert_ptr_equal(for_message(10, 990, false), mem);
    vbn_mem_done(mem);
    assert_null(for_message(10, 991, false));
    assert_null(vbn_mem_for(ctx, memory, 10, VBN_ACCESS_LOCAL_WRITE, false));
    vbn_mem_reclaim(mem);
    assert_ptr_equal(for_message(10, 990, true), mem);
    vbn_mem_done(mem);
    vbn_mem_reclaim(mem);
    assert_null(for_message(0, 1000, false));
    vbn_mem_deregister(mem);
}

static unsigned regions_left(void)
{
    const vbn_mem_t *mem;
    unsigned n = 0;

    LIST_FOREACH(mem, &ctx->mems, entry)
    n++;
    return n;
}

static void regions_end_with_their_last_message(void **state)
{
    vbn_mem_t *mem, *own;

    (void)state;
    assert_int_equal(vbn_mem_register(ctx, memory, 1000, VBN_ACCESS_REMOTE_READ, &mem), VBN_OK);
    vbn_mem_lend(mem);
    assert_ptr_equal(for_message(0, 10, false), mem);
    assert_ptr_equal(for_message(0, 10, false), mem);
    vbn_mem_deregister(mem);
    assert_null(for_message(0, 10, false));
    own = for_message(0, 10, true);
    assert_ptr_not_equal(own, mem);
    assert_int_equal(regions_left(), 2);
    vbn_mem_done(own);
    vbn_mem_done(mem);
    assert_int_equal(regions_left(), 1);
    vbn_mem_done(mem);
    assert_int_equal(regions_left(), 0);
}

static void locked_memory_limit(void **state)
{
    (void)state;
    unit_memlock(65536);
    assert_int_equal(vbn_mem_lock_limit(), 65536);
    unit_memlock((uint64_t)RLIM_INFINITY - 1);
    assert_int_equal(vbn_mem_lock_limit(), (uint64_t)RLIM_INFINITY - 1);
    unit_memlock(UINT64_MAX); /* with CAP_IPC_LOCK no limit binds */
    assert_int_equal(vbn_mem_lock_limit(), UINT64_MAX);
}

static void bounds(void **state)
{
    struct ibv_mr mr = {.addr = memory + 100, .length = 1000};
    struct vbn_mem mem = {.mr = &mr};
    char *base = memory + 100;

    (void)state;
    assert_true(vbn_mem_holds(&mem, base, 1));
    assert_true(vbn_mem_holds(&mem, base, 1000));
    assert_true(vbn_mem_holds(&mem, base + 999, 1));
    assert_false(vbn_mem_holds(&mem, base - 1, 1));
    assert_false(vbn_mem_holds(&mem, base - 1, 1000));
    assert_false(vbn_mem_holds(&mem, base, 1001));
    assert_false(vbn_mem_holds(&mem, base + 999, 2));
    assert_false(vbn_mem_holds(&mem, base + 1001, 1));
    assert_false(vbn_mem_holds(&mem, base + 500, SIZE_MAX)); /* the sum wraps */
    assert_false(vbn_mem_holds(&mem, base + 500, SIZE_MAX - 400));
    assert_false(vbn_mem_holds(&mem, NULL, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(access_rights, setup, teardown),
        cmocka_unit_test_setup_teardown(access_rights_on_iwarp, setup, teardown),
        cmocka_unit_test_setup_teardown(messages_find_what_is_lent, setup, teardown),
        cmocka_unit_test_setup_teardown(regions_end_with_their_last_message, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_arguments, setup, teardown),
        cmocka_unit_test_setup_teardown(errors_of_the_kernel, setup, teardown),
        cmocka_unit_test_setup_teardown(close_ends_registrations, setup, teardown),
        cmocka_unit_test_setup_teardown(locked_memory_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(bounds, setup, teardown),
    };

    return cmocka_run_group_tests_name("mem", tests, NULL, NULL);
}
