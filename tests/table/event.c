/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting, the descriptor for a host's own loop, and threads. */
#include "ends.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* What connecting takes may still be under way. */
static void settle(void)
{
    for (int quiet = 0; quiet < 50;)
        quiet = step() ? 0 : quiet + 1;
}

static void exchange(uint64_t tag)
{
    struct vbn_op send, recv;
    char in;

    post_recv(&b, b.peer, &in, 1, tag, VBN_TAG_MAX, &recv);
    post_send(&a, "x", 1, tag, &send);
    assert_int_equal(finish(&recv), VBN_OK);
    assert_int_equal(finish(&send), VBN_OK);
}

static void wait_ends_by_its_timeout(void **state)
{
    uint64_t start;

    (void)state;
    exchange(1);
    settle();
    start = now_ms();
    while (now_ms() - start < 100)
        assert_true(tr->wait(b.port, 100) >= 0);
    assert_true(now_ms() - start < 30000);
    assert_true(tr->wait(b.port, 0) >= 0);
}

static uint64_t processor_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* A message that does not come, for VERBENA_TEST_LATE_S seconds. */
static void waiting_takes_no_processor(void **state)
{
    const char *late_s = getenv("VERBENA_TEST_LATE_S");
    uint64_t lasts_ms = late_s ? strtoull(late_s, NULL, 10) * 1000 : 1000, start, used_us;
    struct vbn_op recv;
    char in;

    (void)state;
    exchange(1);
    settle();
    post_recv(&b, b.peer, &in, 1, 2, VBN_TAG_MAX, &recv);
    start = now_ms();
    used_us = processor_us();
    while (now_ms() - start < lasts_ms)
        assert_true(tr->wait(b.port, (int)(lasts_ms - (now_ms() - start)) + 1) >= 0);
    used_us = processor_us() - used_us;
    print_message("%s: %.2f %% of a processor while waiting\n", tr->name,
                  (double)used_us / (double)lasts_ms / 10);
    assert_in_range(used_us, 0, lasts_ms * 1000 / 4);
    assert_int_equal(tr->cancel(b.port, &recv), VBN_OK);
    finish(&recv);
}

struct sender {
    struct end *from;
    unsigned delay_us;
    int count;
    atomic_int received;
};

/*
 * Sends from a thread of its own; its port is its alone meanwhile. What a send has taken may still
 * wait, for credits for instance: the sender makes progress until it has arrived.
 */
static void *send_late(void *arg)
{
    struct sender *sender = arg;

    for (int i = 0; i < sender->count; i++) {
        struct vbn_op op = {.done = NULL};

        usleep(sender->delay_us);
        tr->send(sender->from->peer, &i, sizeof(i), 1, &op);
        while (atomic_load(&sender->received) <= i)
            if (tr->progress(sender->from->port) == 0)
                sched_yield();
    }
    return NULL;
}

#define PATIENCE_MS 20000

/* What is left of it since START_MS. */
static int patience_ms(uint64_t start_ms)
{
    uint64_t passed_ms = now_ms() - start_ms;

    return passed_ms < PATIENCE_MS ? (int)(PATIENCE_MS - passed_ms) : 0;
}

/* A wake-up that were lost would cost all patience: nothing else ends a wait within the hour. */
static void wait_wakes_for_a_message(void **state)
{
    struct sender sender = {.from = &a, .delay_us = 2000, .count = 100};
    pthread_t thread;
    uint64_t start;

    (void)state;
    exchange(1);
    settle();
    ends_set_back();
    start = now_ms();
    assert_int_equal(pthread_create(&thread, NULL, send_late, &sender), 0);
    for (int i = 0; i < sender.count; i++) {
        struct vbn_op recv;
        int in = -1;

        post_recv(&b, b.peer, &in, sizeof(in), 1, VBN_TAG_MAX, &recv);
        while (recv.status == VBN_PENDING)
            tr->wait(b.port, patience_ms(start));
        assert_int_equal(in, i);
        atomic_store(&sender.received, i + 1);
    }
    pthread_join(thread, NULL);
    assert_int_not_equal(patience_ms(start), 0);
}

/* One turn of a host's loop, which sleeps no longer than SLEEP_MS. */
static void turn(struct end *end, int fd, int sleep_ms)
{
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    int timeout_ms = 12345;

    if (tr->arm(end->port, &timeout_ms) == VBN_OK) {
        assert_true(timeout_ms >= -1);
        poll(&pfd, 1, timeout_ms < 0 || timeout_ms > sleep_ms ? sleep_ms : timeout_ms);
    }
    tr->progress(end->port);
}

/* As above. */
static void descriptor_wakes_for_a_message(void **state)
{
    struct sender sender = {.from = &a, .delay_us = 1000, .count = 200};
    pthread_t thread;
    uint64_t start;
    int fd = tr->event_fd(b.port);

    (void)state;
    assert_true(fd >= 0);
    exchange(1);
    settle();
    ends_set_back();
    start = now_ms();
    assert_int_equal(pthread_create(&thread, NULL, send_late, &sender), 0);
    for (int i = 0; i < sender.count; i++) {
        struct vbn_op recv;
        int in = -1;

        post_recv(&b, b.peer, &in, sizeof(in), 1, VBN_TAG_MAX, &recv);
        while (recv.status == VBN_PENDING)
            turn(&b, fd, patience_ms(start));
        assert_int_equal(in, i);
        atomic_store(&sender.received, i + 1);
        assert_int_equal(tr->event_fd(b.port), fd);
    }
    pthread_join(thread, NULL);
    assert_int_not_equal(patience_ms(start), 0);
}

/* A cancelled receive is something to do. */
static void arm_sees_what_is_over(void **state)
{
    struct vbn_op recv;
    int timeout_ms;
    char in;

    (void)state;
    exchange(1);
    settle();
    post_recv(&b, b.peer, &in, 1, 2, VBN_TAG_MAX, &recv);
    while (tr->arm(b.port, &timeout_ms) == VBN_ERR_AGAIN)
        step();
    assert_int_equal(tr->cancel(b.port, &recv), VBN_OK);
    if (recv.status == VBN_PENDING)
        assert_int_equal(tr->arm(b.port, &timeout_ms), VBN_ERR_AGAIN);
    assert_int_equal(finish(&recv), VBN_ERR_CANCELED);
}

/* --- threads ---------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 300 };

/* Sends to itself over both ports, with tags of its own. */
static void *talk(void *arg)
{
    uint64_t tag = (uint64_t)(uintptr_t)arg;

    for (int i = 0; i < ROUNDS; i++) {
        struct vbn_op send = {.done = NULL}, recv = {.done = NULL};
        int in = -1, status;

        status = tr->recv(b.port, b.peer, &in, sizeof(in), tag, VBN_TAG_MAX, &recv);
        if (status != VBN_OK && status != VBN_PENDING)
            return NULL;
        status = tr->send(a.peer, &i, sizeof(i), tag, &send);
        while (__atomic_load_n(&recv.status, __ATOMIC_ACQUIRE) == VBN_PENDING ||
               (status == VBN_PENDING &&
                __atomic_load_n(&send.status, __ATOMIC_ACQUIRE) == VBN_PENDING)) {
            tr->progress(a.port);
            tr->progress(b.port);
        }
        if (in != i)
            return NULL;
    }
    return arg;
}

static void threads_share_ports(void **state)
{
    pthread_t threads[THREADS];

    (void)state;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, talk, (void *)(i + 1)), 0);
    for (uintptr_t i = 0; i < THREADS; i++) {
        void *result;

        pthread_join(threads[i], &result);
        assert_ptr_equal(result, (void *)(i + 1));
    }
}

const struct CMUnitTest event_tests[] = {
    TABLE_TEST(arm_sees_what_is_over),
};
const size_t event_test_count = sizeof(event_tests) / sizeof(event_tests[0]);

/* For worlds whose time is real. */
const struct CMUnitTest timed_tests[] = {
    TABLE_TEST(wait_ends_by_its_timeout),
    TABLE_TEST(waiting_takes_no_processor),
    cmocka_unit_test_setup_teardown(wait_wakes_for_a_message, ends_open_clocked, ends_close),
    cmocka_unit_test_setup_teardown(descriptor_wakes_for_a_message, ends_open_clocked, ends_close),
    cmocka_unit_test_setup_teardown(threads_share_ports, ends_open_multithreaded, ends_close),
};
const size_t timed_test_count = sizeof(timed_tests) / sizeof(timed_tests[0]);
