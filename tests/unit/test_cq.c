/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: their budget, the second one, polling in batches, and a poll that fails. */
#include "lone.h"

#include "wait.h"

#include <errno.h>

static vbn_context_t *ctx;

static void tweak(struct vbn_options *opts)
{
    opts->cq_size = 1024; /* of which the shared receives take 256 */
    opts->poll_batch = 4;
}

static int setup(void **state)
{
    lone_setup(state);
    ctx = lone_open(tweak);
    return 0;
}

static int teardown(void **state)
{
    lone_close(ctx);
    return lone_teardown(state);
}

/* --- the budget ------------------------------------------------------------------------------- */

static void shared_receives_have_their_share(void **state)
{
    (void)state;
    assert_int_equal(ctx->cqs.count, 1);
    assert_int_equal(ctx->cqs.cq[0]->size, 1024);
    assert_int_equal(ctx->cqs.cq[0]->reserved, ctx->rx.max);
    assert_int_equal(ctx->cqs.cq[0]->cq->cqe, 1024);
}

static void second_queue_when_the_first_is_full(void **state)
{
    uint32_t room = 1024 - ctx->rx.max;
    struct vbn_cq *a = vbn_cq_reserve(ctx, room - 10), *b, *c;

    (void)state;
    assert_ptr_equal(a, ctx->cqs.cq[0]);
    assert_ptr_equal(vbn_cq_reserve(ctx, 10), a); /* to the last entry */
    b = vbn_cq_reserve(ctx, 1);
    assert_non_null(b);
    assert_ptr_not_equal(b, a);
    assert_int_equal(ctx->cqs.count, 2);
    assert_int_equal(b->reserved, ctx->rx.max + 1); /* any queue may get shared receives */
    vbn_cq_release(a, 10);
    c = vbn_cq_reserve(ctx, 10);
    assert_ptr_equal(c, a); /* what was given back is used again */
    assert_int_equal(ctx->cqs.count, 2);
    vbn_cq_release(a, room);
    vbn_cq_release(b, 1);
}

static void a_new_queue_wakes_as_well(void **state)
{
    struct vbn_cq *b;

    (void)state;
    unit.tick_ns = UNIT_MS;
    assert_int_equal(vbn_wait(ctx, 10), 0);
    assert_true(fake_cq_armed(ctx->cqs.cq[0]->cq));
    b = vbn_cq_reserve(ctx, 1024 - ctx->rx.max);
    assert_ptr_equal(b, ctx->cqs.cq[0]);
    b = vbn_cq_reserve(ctx, 1);
    assert_ptr_equal(b, ctx->cqs.cq[1]);
    assert_true(fake_cq_armed(b->cq)); /* another thread may be asleep */
    assert_int_equal(vbn_wait(ctx, 10), 0);
    assert_true(fake_cq_armed(b->cq));
    vbn_cq_release(b, 1);
    vbn_cq_release(ctx->cqs.cq[0], 1024 - ctx->rx.max);
}

static void no_further_queue(void **state)
{
    uint32_t room = 1024 - ctx->rx.max;
    struct vbn_cq *a = vbn_cq_reserve(ctx, room);

    (void)state;
    fake_fail(FAKE_CREATE_CQ, 1, ENOSPC);
    errno = 0;
    assert_null(vbn_cq_reserve(ctx, 1));
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(ctx->cqs.count, 1);
    for (unsigned nth = 1; nth <= 2; nth++) {
        unit_fail_alloc(nth);
        assert_null(vbn_cq_reserve(ctx, 1));
        assert_true(unit_alloc_failed());
        assert_int_equal(ctx->cqs.count, 1);
        assert_int_equal(a->reserved, 1024);
    }
    vbn_cq_release(a, room);
}

static void within_what_the_device_has(void **state)
{
    (void)state;
    lone_close(ctx);
    lone_device->attr.max_cqe = 300;
    ctx = lone_open(tweak);
    assert_int_equal(ctx->cqs.cq[0]->size, 300);
    assert_true(ctx->rx.max <= 150); /* receives leave half of it to the others */
}

static void small_queues(struct vbn_options *opts)
{
    opts->cq_size = 256; /* the default of sq_depth is half of it */
}

static void deep_send_queues(struct vbn_options *opts)
{
    opts->sq_depth = 16384; /* as many as entries by default */
}

/* Receives take half of a queue at most, one queue pair no more than the rest. */
static void one_queue_pair_does_not_need_more(void **state)
{
    static void (*const tweaks[])(struct vbn_options *) = {small_queues, deep_send_queues};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        lone_close(ctx);
        ctx = lone_open(tweaks[i]);
        for (uint32_t peer = 7; peer < 10; peer++)
            lone_connect(ctx, peer);
        for (uint32_t k = 0; k < ctx->cqs.count; k++)
            assert_in_range(ctx->cqs.cq[k]->reserved, 0, ctx->cqs.cq[k]->size);
    }
}

/* --- polling ---------------------------------------------------------------------------------- */

#define MANY 11

struct item {
    struct vbn_comp comp;
    unsigned number;
};
static struct item item[MANY];
static unsigned order[MANY], done;

static void item_done(struct vbn_comp *comp, const struct ibv_wc *wc)
{
    assert_int_equal(wc->wr_id, (uintptr_t)comp);
    order[done++] = ((struct item *)comp)->number;
}

static void complete(struct vbn_cq *cq, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        struct ibv_wc wc = {.wr_id = (uintptr_t)&item[i].comp};

        item[i] = (struct item){.comp.done = item_done, .number = i};
        fake_completion(cq->cq, &wc);
    }
}

static void one_batch_from_each_queue(void **state)
{
    struct vbn_cq *a = ctx->cqs.cq[0], *b;

    (void)state;
    vbn_cq_reserve(ctx, 1024 - ctx->rx.max);
    b = vbn_cq_reserve(ctx, 1);
    done = 0;
    assert_int_equal(vbn_cqs_poll(ctx), 0);
    complete(a, 0, 9);
    complete(b, 9, 11);
    assert_int_equal(vbn_cqs_poll(ctx), 4 + 2);
    assert_int_equal(vbn_cqs_poll(ctx), 4);
    assert_int_equal(vbn_cqs_poll(ctx), 1);
    assert_int_equal(vbn_cqs_poll(ctx), 0);
    assert_int_equal(done, MANY);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(order[i], i); /* in the queue's order */
    assert_int_equal(order[4], 9);
    assert_int_equal(order[10], 8);
}

static void poll_that_fails_ends_all_connections(void **state)
{
    struct vbn_conn *first = lone_connect(ctx, 7), *second = lone_accept(ctx, 200);

    (void)state;
    vbn_endpoint_claim(second->ep, NULL);
    assert_int_equal(vbn_endpoint_connected(first->ep), true);
    fake_fail(FAKE_POLL_CQ, 1, EIO);
    lone_progress(ctx);
    assert_int_equal(unit.failures, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(unit.failed[i].status, VBN_ERR_PEER_LOST);
        assert_contains(unit.failed[i].reason, "polling the completion queue failed");
        assert_contains(unit.failed[i].reason, "fake0");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(shared_receives_have_their_share, setup, teardown),
        cmocka_unit_test_setup_teardown(second_queue_when_the_first_is_full, setup, teardown),
        cmocka_unit_test_setup_teardown(a_new_queue_wakes_as_well, setup, teardown),
        cmocka_unit_test_setup_teardown(no_further_queue, setup, teardown),
        cmocka_unit_test_setup_teardown(within_what_the_device_has, setup, teardown),
        cmocka_unit_test_setup_teardown(one_queue_pair_does_not_need_more, setup, teardown),
        cmocka_unit_test_setup_teardown(one_batch_from_each_queue, setup, teardown),
        cmocka_unit_test_setup_teardown(poll_that_fails_ends_all_connections, setup, teardown),
    };

    return cmocka_run_group_tests_name("cq", tests, NULL, NULL);
}
