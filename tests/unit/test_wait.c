/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting: how long it polls before it sleeps, and what lies on the way from the wake-up to the
 * message. (Sleeping and waking over real devices: tests/table/event.c.)
 */
#include "lone.h"

#include <poll.h>
#include <pthread.h>

static vbn_context_t *ctx;
static unsigned polled_us;     /* of the present wait */
static uint64_t message_at_ns; /* when a message comes; 0: none does */
static bool message_wakes;     /* it comes when the queues are armed */

static void message_done(struct vbn_comp *comp, const struct ibv_wc *wc)
{
    assert_int_equal(wc->wr_id, (uintptr_t)comp);
}
static struct vbn_comp message = {.done = message_done};

static void message_comes(void)
{
    struct ibv_wc wc = {.wr_id = (uintptr_t)&message, .status = IBV_WC_SUCCESS};

    message_at_ns = 0;
    message_wakes = false;
    fake_completion(ctx->cqs.cq[0]->cq, &wc);
}

/* Each look at the clock takes a microsecond, or all of the time where the queues are armed. */
static uint64_t clock_ns(void *arg)
{
    (void)arg;
    if (ctx && ctx->armed) {
        unit.now_ns += 10 * UNIT_MS;
        if (message_wakes)
            message_comes();
        return unit.now_ns;
    }
    polled_us++;
    unit.now_ns += 1000;
    if (message_at_ns && unit.now_ns >= message_at_ns)
        message_comes();
    return unit.now_ns;
}

static void tweak(struct vbn_options *opts)
{
    opts->clock_ns = clock_ns;
    opts->wait_spin_us = 200;
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

/* How long a wait polled, whose message comes after US; 0: that ends by its timeout. */
static unsigned polled(unsigned us)
{
    ctx->armed = false;
    polled_us = 0;
    message_at_ns = us ? unit.now_ns + 1000ull * us : 0;
    assert_int_equal(vbn_wait(ctx, 1), us > 0);
    return polled_us;
}

static void no_polling_where_it_is_in_vain(void **state)
{
    (void)state;
    assert_in_range(polled(0), 195, 210);
    assert_in_range(polled(0), 95, 110);
    assert_in_range(polled(0), 45, 60);
    assert_in_range(polled(0), 20, 35);
    for (int i = 4; i < 16; i++)
        assert_in_range(polled(0), 10, 25);
    assert_in_range(polled(0), 195, 210); /* a try */
    for (int i = 17; i < 32; i++)
        assert_in_range(polled(0), 10, 25);
    assert_in_range(polled(100), 95, 110); /* another one, and not in vain */
    assert_in_range(polled(0), 195, 210);
}

static void tweak_threads(struct vbn_options *opts)
{
    tweak(opts);
    opts->multithreaded = true;
}

static bool is_readable(int fd)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};

    return poll(&polled, 1, 0) == 1;
}

/* Asleep, it is woken by a message. */
static void wake(void)
{
    message_wakes = true;
    assert_int_equal(vbn_wait(ctx, 1000), 1);
    assert_false(message_wakes);
}

/* Its event costs a system call, for which the message does not wait: the next sleep takes it. */
static void a_message_is_taken_before_its_event(void **state)
{
    int timeout_ms;

    (void)state;
    for (int i = 0; i < 3; i++) {
        wake();
        assert_true(is_readable(vbn_event_fd(ctx)));
    }
    assert_int_equal(vbn_wait(ctx, 100), 0); /* and is not woken by it once more */
    assert_false(is_readable(vbn_event_fd(ctx)));
    wake();
    assert_int_equal(vbn_arm(ctx, &timeout_ms), VBN_OK);
    assert_false(is_readable(vbn_event_fd(ctx)));
    assert_true(fake_cq_armed(ctx->cqs.cq[0]->cq));
}

/* Another one may be asleep on the same descriptor. */
static void threads_find_the_queues_armed(void **state)
{
    (void)state;
    lone_close(ctx);
    ctx = lone_open(tweak_threads);
    wake();
    assert_false(is_readable(vbn_event_fd(ctx)));
    assert_true(fake_cq_armed(ctx->cqs.cq[0]->cq));
}

/* --- with other threads -------------------------------------------------------------------------
 */

static int armed_rc, armed_timeout_ms;
static unsigned later;

static void *arm_it(void *arg)
{
    (void)arg;
    armed_rc = vbn_arm(ctx, &armed_timeout_ms);
    return NULL;
}

static void later_done(struct vbn_comp *comp, const struct ibv_wc *wc)
{
    (void)comp;
    (void)wc;
    later++;
}
static struct vbn_comp later_comp = {.done = later_done};

/* A callback that takes its time: another message comes, then another thread arms. */
static void slow_callback(struct vbn_comp *comp, const struct ibv_wc *wc)
{
    struct ibv_wc second = {.wr_id = (uintptr_t)&later_comp, .status = IBV_WC_SUCCESS};
    pthread_t thread;

    (void)comp;
    (void)wc;
    vbn_unlock(ctx);
    fake_completion(ctx->cqs.cq[0]->cq, &second);
    assert_int_equal(pthread_create(&thread, NULL, arm_it, NULL), 0);
    pthread_join(thread, NULL);
    vbn_lock(ctx);
}
static struct vbn_comp slow = {.done = slow_callback};

/* The other one has looked before that message came, and may turn to something else. */
static void nobody_sleeps_beside_anothers_look(void **state)
{
    struct ibv_wc first = {.wr_id = (uintptr_t)&slow, .status = IBV_WC_SUCCESS};

    (void)state;
    lone_close(ctx);
    ctx = lone_open(tweak_threads);
    ctx->armed = false;
    armed_rc = VBN_OK;
    fake_completion(ctx->cqs.cq[0]->cq, &first);
    assert_true(vbn_progress(ctx) > 0);
    assert_int_equal(armed_rc, VBN_ERR_AGAIN);
    assert_int_equal(armed_timeout_ms, 0);
    assert_true(vbn_progress(ctx) > 0);
    assert_int_equal(later, 1);
}

static struct vbn_op op;
static bool watched;
static unsigned trapped;

static void trap(struct vbn_op *o)
{
    (void)o;
    trapped++;
}

int __real_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);

/* Here another thread may run that has seen the status, and uses the memory for something else. */
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
    int rc = __real_pthread_mutex_unlock(m);

    if (watched && op.status != VBN_PENDING)
        op.done = trap;
    return rc;
}

static void an_operation_that_is_over_may_be_gone(void **state)
{
    char in;

    (void)state;
    lone_close(ctx);
    ctx = lone_open(tweak_threads);
    op.done = NULL;
    assert_int_equal(vbn_tag_recv(ctx, NULL, &in, 1, 1, VBN_TAG_MAX, &op), VBN_PENDING);
    watched = true;
    assert_int_equal(vbn_tag_cancel(ctx, &op), VBN_OK);
    vbn_progress(ctx);
    watched = false;
    assert_int_equal(op.status, VBN_ERR_CANCELED);
    assert_ptr_equal(op.done, trap); /* the test is one of what it says */
    assert_int_equal(trapped, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_message_is_taken_before_its_event, setup, teardown),
        cmocka_unit_test_setup_teardown(no_polling_where_it_is_in_vain, setup, teardown),
        cmocka_unit_test_setup_teardown(threads_find_the_queues_armed, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_sleeps_beside_anothers_look, setup, teardown),
        cmocka_unit_test_setup_teardown(an_operation_that_is_over_may_be_gone, setup, teardown),
    };

    return cmocka_run_group_tests_name("wait", tests, NULL, NULL);
}
