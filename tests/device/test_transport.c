/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport on a real device: several contexts in one process talk over its queue pairs.
 * Run by `tests/rxe/run`; without a device every test fails.
 */
#include "verbena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define NODES_MAX 8
#define AM_DATA   7
#define AM_ECHO   8
#define LIMIT_S   300 /* a hang ends here, however loaded the machine */

struct node {
    vbn_context_t *ctx;
    unsigned index, count;
    vbn_endpoint_t *to[NODES_MAX];
    uint64_t sent[NODES_MAX], got[NODES_MAX], echoes;
    int failed; /* last status of the error handler */
    int failures;
    bool echo;
};

static struct node nodes[NODES_MAX];

static void set_options(struct vbn_options *o, struct node *n);

/* --- fixtures --------------------------------------------------------------------------------- */

static void on_error(void *arg, vbn_endpoint_t *ep, int status, const char *reason)
{
    struct node *n = arg;

    assert_non_null(ep);
    assert_non_null(reason);
    n->failed = status;
    n->failures++;
}

static unsigned char pattern(unsigned from, uint64_t seq, size_t at)
{
    return (unsigned char)(from * 31 + seq * 7 + at * 13 + (at >> 8));
}

/* Messages are: from (4), sequence (8), pattern. Short ones only have the pattern's start. */
static void on_data(void *arg, vbn_endpoint_t *ep, uint8_t id, void *data, size_t len)
{
    struct node *n = arg;
    struct {
        uint64_t seq;
        uint32_t from, len;
    } head;
    const unsigned char *body = (unsigned char *)data + sizeof(head);

    assert_int_equal(id, AM_DATA);
    assert_int_equal((uintptr_t)data % (len < 1024 ? 16 : 2), 0);
    assert_true(len >= sizeof(head));
    memcpy(&head, data, sizeof(head));
    assert_int_equal(head.len, len - sizeof(head));
    assert_true(head.from < NODES_MAX);
    assert_int_equal(head.seq, n->got[head.from]); /* in order, once */
    n->got[head.from]++;
    for (size_t i = 0; i < head.len; i++)
        if (body[i] != pattern(head.from, head.seq, i))
            fail_msg("byte %zu of message %llu is wrong", i, (unsigned long long)head.seq);
    if (n->echo)
        while (vbn_am_send(ep, AM_ECHO, NULL, 0) == VBN_ERR_AGAIN)
            ; /* a callback may send; buffers are there */
}

static void on_echo(void *arg, vbn_endpoint_t *ep, uint8_t id, void *data, size_t len)
{
    (void)ep, (void)id, (void)data;
    assert_int_equal(len, 0);
    ((struct node *)arg)->echoes++;
}

static void open_nodes(unsigned count, void (*tweak)(struct vbn_options *, struct node *))
{
    unsigned char addr[NODES_MAX][VBN_ADDRESS_MAX];
    size_t len[NODES_MAX];
    struct vbn_error err;

    memset(nodes, 0, sizeof(nodes));
    for (unsigned i = 0; i < count; i++) {
        struct vbn_options o;

        vbn_options_init(&o, sizeof(o));
        nodes[i].index = i;
        nodes[i].count = count;
        set_options(&o, &nodes[i]);
        if (tweak)
            tweak(&o, &nodes[i]);
        if (vbn_open(&o, &nodes[i].ctx, &err))
            fail_msg("vbn_open: %s", err.text);
        vbn_am_handler(nodes[i].ctx, AM_DATA, on_data, &nodes[i]);
        vbn_am_handler(nodes[i].ctx, AM_ECHO, on_echo, &nodes[i]);
        len[i] = sizeof(addr[i]);
        assert_int_equal(vbn_address(nodes[i].ctx, addr[i], &len[i]), 0);
    }
    for (unsigned i = 0; i < count; i++)
        for (unsigned k = 0; k < count; k++)
            if (i != k)
                assert_int_equal(
                    vbn_endpoint_create(nodes[i].ctx, addr[k], len[k], NULL, &nodes[i].to[k], &err),
                    0);
}

static void set_options(struct vbn_options *o, struct node *n)
{
    o->callback_arg = n;
    o->endpoint_error = on_error;
}

static void progress_all(void)
{
    for (unsigned i = 0; i < NODES_MAX; i++)
        if (nodes[i].ctx)
            vbn_progress(nodes[i].ctx);
}

static time_t limit;

static bool in_time(void)
{
    if (time(NULL) < limit)
        return true;
    fail_msg("not finished within %d s", LIMIT_S);
    return false;
}

static void close_nodes(void)
{
    bool busy = true;

    while (busy && in_time()) {
        busy = false;
        for (unsigned i = 0; i < NODES_MAX; i++)
            if (nodes[i].ctx && vbn_shutdown(nodes[i].ctx))
                busy = true;
        progress_all();
    }
    for (unsigned i = 0; i < NODES_MAX; i++)
        if (nodes[i].ctx)
            assert_int_equal(vbn_close(nodes[i].ctx), 0);
    memset(nodes, 0, sizeof(nodes));
}

static int set_limit(void **state)
{
    (void)state;
    limit = time(NULL) + LIMIT_S;
    return 0;
}

static bool send_one(struct node *n, unsigned to, size_t body_len)
{
    static unsigned char body[1 << 18];
    struct {
        uint64_t seq;
        uint32_t from, len;
    } head = {n->sent[to], n->index, (uint32_t)body_len};
    struct iovec iov[2] = {{&head, sizeof(head)}, {body, body_len}};
    int rc;

    for (size_t i = 0; i < body_len; i++)
        body[i] = pattern(n->index, head.seq, i);
    rc = vbn_am_send(n->to[to], AM_DATA, iov, 2);
    if (rc == VBN_ERR_AGAIN)
        return false;
    assert_int_equal(rc, 0);
    n->sent[to]++;
    return true;
}

static bool all_arrived(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        for (unsigned k = 0; k < count; k++)
            if (nodes[i].sent[k] != nodes[k].got[i])
                return false;
    return true;
}

/* Every pair exchanges ROUNDS messages of lengths up to the limit; all start at once. */
static void exchange(unsigned count, unsigned rounds)
{
    struct vbn_attr attr = {.size = sizeof(attr)};

    vbn_query(nodes[0].ctx, &attr);
    for (bool done = false; !done && in_time();) {
        done = true;
        for (unsigned i = 0; i < count; i++)
            for (unsigned k = 0; k < count; k++) {
                uint64_t seq = nodes[i].sent[k];

                if (i == k || seq == rounds)
                    continue;
                done = false;
                send_one(&nodes[i], k, seq % 3 ? seq % 300 : (seq * 977) % (attr.max_am_len - 15));
            }
        progress_all();
    }
    while (!all_arrived(count) && in_time())
        progress_all();
}

/* --- tests
 * ---------------------------------------------------------------------------------------- */

static void test_pair(void **state)
{
    (void)state;
    open_nodes(2, NULL);
    exchange(2, 2000);
    close_nodes();
}

static void test_eight_at_once(void **state)
{
    (void)state;
    open_nodes(8, NULL);
    exchange(8, 100);
    close_nodes();
}

static void no_srq(struct vbn_options *o, struct node *n)
{
    (void)n;
    o->use_srq = false;
}

static void test_own_receive_queues(void **state)
{
    struct vbn_attr attr = {.size = sizeof(attr)};

    (void)state;
    open_nodes(3, no_srq);
    vbn_query(nodes[0].ctx, &attr);
    assert_false(attr.srq);
    exchange(3, 500);
    close_nodes();
}

static void tiny(struct vbn_options *o, struct node *n)
{
    (void)n;
    o->window = 4;
    o->sq_depth = 4;
    o->srq_depth = 64;
    o->tx_buffers = 64;
    o->cq_size = 256;
    o->inline_limit = 0;
    o->eager_limit = 1024;
}

static void test_smallest_limits(void **state)
{
    (void)state;
    open_nodes(4, tiny);
    exchange(4, 500);
    close_nodes();
}

/* Data that fill whole packets, whose head the receiver knows but for what counts in it. */
static void test_whole_packets(void **state)
{
    struct vbn_counters counters = {.size = sizeof(counters)};
    struct vbn_attr attr = {.size = sizeof(attr)};

    (void)state;
    open_nodes(2, NULL);
    for (uint64_t n = 0; n < 300 && in_time(); progress_all()) {
        if (nodes[0].sent[1] == n)
            send_one(&nodes[0], 1, 4096);
        if (nodes[1].sent[0] == n)
            send_one(&nodes[1], 0, n % 2 ? 8192 : 4096);
        n += nodes[0].sent[1] > n && nodes[1].sent[0] > n;
    }
    while (!all_arrived(2) && in_time())
        progress_all();
    for (unsigned i = 0; i < 2; i++) {
        vbn_query(nodes[i].ctx, &attr);
        vbn_counters(nodes[i].ctx, &counters);
        if (attr.iwarp)
            assert_int_equal(counters.bare_msgs, 0);
        else
            assert_true(counters.bare_msgs >= 200);
        assert_int_equal(counters.bad_messages, 0);
    }
    close_nodes();
}

static void test_reply_from_callback(void **state)
{
    (void)state;
    open_nodes(2, NULL);
    nodes[1].echo = true;
    for (unsigned i = 0; i < 500; i++) {
        while (!send_one(&nodes[0], 1, i))
            progress_all();
        while (nodes[0].echoes <= i && in_time())
            progress_all();
    }
    close_nodes();
}

static void on_done(void *arg, vbn_endpoint_t *ep, int status)
{
    (void)ep;
    *(int *)arg = status;
}

static void put_and_get(size_t len)
{
    enum { GUARD = 64, PENDING = 1 };
    unsigned char *a = malloc(len + 2 * GUARD), *b = malloc(len + 2 * GUARD);
    vbn_mem_t *ma, *mb;
    int status = PENDING;

    for (size_t i = 0; i < len + 2 * GUARD; i++) {
        a[i] = pattern(1, len, i);
        b[i] = 0xee;
    }
    assert_int_equal(
        vbn_mem_register(nodes[0].ctx, a, len + 2 * GUARD, VBN_ACCESS_LOCAL_WRITE, &ma), 0);
    assert_int_equal(vbn_mem_register(nodes[1].ctx, b, len + 2 * GUARD,
                                      VBN_ACCESS_REMOTE_READ | VBN_ACCESS_REMOTE_WRITE, &mb),
                     0);
    assert_int_equal(vbn_put(nodes[0].to[1], a + GUARD, ma, (uintptr_t)b + GUARD, vbn_mem_rkey(mb),
                             len, on_done, &status),
                     0);
    while (status == PENDING && in_time())
        progress_all();
    assert_int_equal(status, 0);
    send_one(&nodes[0], 1, 0); /* delivered after the data */
    while (!all_arrived(2) && in_time())
        progress_all();
    assert_memory_equal(a + GUARD, b + GUARD, len);
    for (unsigned i = 0; i < GUARD; i++)
        assert_true(b[i] == 0xee && b[GUARD + len + i] == 0xee);
    memset(a, 0, len + 2 * GUARD);
    status = PENDING;
    assert_int_equal(vbn_get(nodes[0].to[1], a + GUARD, ma, (uintptr_t)b + GUARD, vbn_mem_rkey(mb),
                             len, on_done, &status),
                     0);
    while (status == PENDING && in_time())
        progress_all();
    assert_int_equal(status, 0);
    assert_memory_equal(a + GUARD, b + GUARD, len);
    for (unsigned i = 0; i < GUARD; i++)
        assert_true(a[i] == 0 && a[GUARD + len + i] == 0);
    vbn_mem_deregister(ma);
    vbn_mem_deregister(mb);
    free(a);
    free(b);
}

static void test_put_get(void **state)
{
    static const size_t sizes[] = {1, 2, 7, 64, 4095, 4096, 4097, 65536, 1000003, 8388608};

    (void)state;
    open_nodes(2, NULL);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        put_and_get(sizes[i]);
    close_nodes();
}

static void count_done(void *arg, vbn_endpoint_t *ep, int status)
{
    (void)ep;
    assert_int_equal(status, 0);
    ++*(int *)arg;
}

enum { RMAS = 400, RMA_MAX = 65536, RMA_GAP = 16, RMA_NEAR = 5, RMA_FAR = 6 };

/* One side's puts and gets, each with a place of its own in both memories. */
struct rmas {
    unsigned char *near, *far; /* far: the peer's */
    vbn_mem_t *near_mem, *far_mem;
    int started, done;
};

static size_t rma_len(int n)
{
    return (size_t)(n * 977) % RMA_MAX + 1;
}

/* Behind those before it, and a gap. */
static size_t rma_place(int n)
{
    size_t at = RMA_GAP;

    while (n-- > 0)
        at += rma_len(n) + RMA_GAP;
    return at;
}

static bool rma_is_get(int n)
{
    return n % 2;
}

/* The two memories differ in every byte. */
static void rmas_init(struct rmas *r, unsigned i)
{
    size_t len = rma_place(RMAS);

    *r = (struct rmas){.near = malloc(len), .far = malloc(len)};
    for (size_t k = 0; k < len; k++) {
        r->near[k] = pattern(i, RMA_NEAR, k);
        r->far[k] = pattern(i, RMA_FAR, k);
    }
    assert_int_equal(
        vbn_mem_register(nodes[i].ctx, r->near, len, VBN_ACCESS_LOCAL_WRITE, &r->near_mem), 0);
    assert_int_equal(vbn_mem_register(nodes[1 - i].ctx, r->far, len,
                                      VBN_ACCESS_REMOTE_READ | VBN_ACCESS_REMOTE_WRITE,
                                      &r->far_mem),
                     0);
}

static void rmas_fini(struct rmas *r)
{
    vbn_mem_deregister(r->near_mem);
    vbn_mem_deregister(r->far_mem);
    free(r->near);
    free(r->far);
}

static void rma_start(struct rmas *r, unsigned i)
{
    vbn_endpoint_t *to = nodes[i].to[1 - i];
    size_t at = rma_place(r->started), len = rma_len(r->started);
    uintptr_t remote = (uintptr_t)r->far + at;
    uint32_t rkey = vbn_mem_rkey(r->far_mem);
    int rc;

    if (rma_is_get(r->started))
        rc = vbn_get(to, r->near + at, r->near_mem, remote, rkey, len, count_done, &r->done);
    else
        rc = vbn_put(to, r->near + at, r->near_mem, remote, rkey, len, count_done, &r->done);
    assert_true(rc == 0 || rc == VBN_ERR_AGAIN);
    r->started += rc == 0;
}

static void expect_pattern(const unsigned char *memory, unsigned i, unsigned whose, size_t at,
                           size_t len)
{
    for (size_t k = at; k < at + len; k++)
        if (memory[k] != pattern(i, whose, k))
            fail_msg("side %u: byte %zu of %zu at %zu is wrong", i, k - at, len, at);
}

/* Each has brought all its bytes to where they belong, and none elsewhere. */
static void rmas_check(const struct rmas *r, unsigned i)
{
    for (int n = 0; n <= RMAS; n++) {
        size_t at = rma_place(n), len = n < RMAS ? rma_len(n) : 0;
        unsigned whose = rma_is_get(n) ? RMA_FAR : RMA_NEAR;

        expect_pattern(r->near, i, RMA_NEAR, at - RMA_GAP, RMA_GAP);
        expect_pattern(r->far, i, RMA_FAR, at - RMA_GAP, RMA_GAP);
        expect_pattern(r->near, i, whose, at, len);
        expect_pattern(r->far, i, whose, at, len);
    }
}

/* More gets and puts than any queue holds, both ways at once, between messages. */
static void test_many_puts_gets(void **state)
{
    struct rmas rmas[2];

    (void)state;
    open_nodes(2, NULL);
    for (unsigned i = 0; i < 2; i++)
        rmas_init(&rmas[i], i);
    while ((rmas[0].done < RMAS || rmas[1].done < RMAS) && in_time()) {
        for (unsigned i = 0; i < 2; i++) {
            int n = rmas[i].started;

            if (n < RMAS)
                rma_start(&rmas[i], i);
            if (n % 7 == 0)
                send_one(&nodes[i], 1 - i, rma_len(n) % 5000);
        }
        progress_all();
    }
    while (!all_arrived(2) && in_time())
        progress_all();
    for (unsigned i = 0; i < 2; i++) {
        rmas_check(&rmas[i], i);
        rmas_fini(&rmas[i]);
    }
    close_nodes();
}

static void test_bad_arguments(void **state)
{
    static char buf[4096];
    vbn_mem_t *mem;
    int status;

    (void)state;
    open_nodes(2, NULL);
    assert_int_equal(vbn_mem_register(nodes[0].ctx, buf, 0, VBN_ACCESS_LOCAL, &mem),
                     VBN_ERR_INVALID);
    assert_int_equal(vbn_mem_register(nodes[0].ctx, buf, sizeof(buf), VBN_ACCESS_LOCAL, &mem), 0);
    assert_int_equal(vbn_put(nodes[0].to[1], buf + 1, mem, 0, 0, sizeof(buf), on_done, &status),
                     VBN_ERR_INVALID);
    assert_int_equal(vbn_put(nodes[0].to[1], buf, mem, 0, 0, 0, on_done, &status), VBN_ERR_INVALID);
    struct iovec big = {buf, 1u << 30};
    assert_int_equal(vbn_am_send(nodes[0].to[1], AM_DATA, &big, 1), VBN_ERR_INVALID);
    vbn_mem_deregister(mem);
    close_nodes();
}

/* A key that is not the peer's fails both queue pairs, under traffic, and once more where the put
 * is tried again: it ends with an error, and alone. On iWARP nobody tells why, and it is tried 32
 * times. The other contexts live on in any case. */
static void test_bad_keys(void **state)
{
    struct vbn_attr attr = {.size = sizeof(attr)};
    struct vbn_counters counters = {.size = sizeof(counters)};
    static char buf[4096];
    vbn_mem_t *mem;

    (void)state;
    open_nodes(3, NULL);
    vbn_query(nodes[0].ctx, &attr);
    assert_int_equal(vbn_mem_register(nodes[0].ctx, buf, sizeof(buf), VBN_ACCESS_LOCAL, &mem), 0);
    for (unsigned round = 1; round <= 5; round++) {
        int status = 1;

        exchange(3, 20 * round - 10);
        assert_int_equal(vbn_put(nodes[0].to[1], buf, mem, 4096, 0xdeadbeef, 64, on_done, &status),
                         0);
        exchange(3, 20 * round);
        while (status == 1 && in_time())
            progress_all();
        assert_int_equal(status, attr.iwarp ? VBN_ERR_DEVICE : VBN_ERR_INVALID);
    }
    exchange(3, 110); /* by the last recovery */
    vbn_counters(nodes[0].ctx, &counters);
    assert_int_equal(nodes[0].failures, 0);
    if (attr.iwarp) /* whose stream may have ended of something else, too */
        assert_in_range(counters.recoveries, 160, 200);
    else
        assert_int_equal(counters.recoveries, 10);
    for (unsigned i = 0; i < 50; i++)
        while (!send_one(&nodes[0], 2, 100) && in_time())
            progress_all();
    while (nodes[2].got[0] != nodes[0].sent[2] && in_time())
        progress_all();
    vbn_mem_deregister(mem);
    close_nodes();
}

/* Closed with everything queued and in flight: what was accepted is delivered. */
static void test_close_while_busy(void **state)
{
    (void)state;
    open_nodes(2, NULL);
    for (unsigned i = 0; i < 200; i++)
        if (!send_one(&nodes[0], 1, i * 10))
            break;
    uint64_t sent = nodes[0].sent[1];
    while (vbn_shutdown(nodes[0].ctx) && in_time())
        progress_all();
    assert_int_equal(nodes[1].got[0], sent);
    assert_int_equal(vbn_am_send(nodes[1].to[0], AM_DATA, NULL, 0), VBN_ERR_CLOSED);
    assert_int_equal(nodes[1].failures, 0);
    close_nodes();
}

static void quick_close(struct vbn_options *o, struct node *n)
{
    (void)n;
    o->close_timeout_ms = 300;
}

/* The peer does not take part: close is bounded all the same. */
static void test_close_alone(void **state)
{
    (void)state;
    open_nodes(2, quick_close);
    assert_true(send_one(&nodes[0], 1, 10));
    assert_int_equal(vbn_close(nodes[0].ctx), VBN_ERR_TIMEOUT);
    nodes[0].ctx = NULL;
    close_nodes();
}

static void test_many_lives(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 30; i++) {
        open_nodes(2, NULL);
        exchange(2, 2);
        close_nodes();
    }
}

static void other_key(struct vbn_options *o, struct node *n)
{
    o->job_key = n->index;
}

static void test_other_job(void **state)
{
    unsigned char addr[VBN_ADDRESS_MAX];
    size_t len = sizeof(addr);
    vbn_endpoint_t *ep;

    (void)state;
    open_nodes(1, NULL);
    struct vbn_options o;
    vbn_options_init(&o, sizeof(o));
    set_options(&o, &nodes[1]);
    nodes[1].index = 1;
    other_key(&o, &nodes[1]);
    assert_int_equal(vbn_open(&o, &nodes[1].ctx, NULL), 0);
    assert_int_equal(vbn_address(nodes[0].ctx, addr, &len), 0);
    assert_int_equal(vbn_endpoint_create(nodes[1].ctx, addr, len, NULL, &ep, NULL),
                     VBN_ERR_REFUSED);
    close_nodes();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_pair, set_limit),
        cmocka_unit_test_setup(test_eight_at_once, set_limit),
        cmocka_unit_test_setup(test_own_receive_queues, set_limit),
        cmocka_unit_test_setup(test_smallest_limits, set_limit),
        cmocka_unit_test_setup(test_whole_packets, set_limit),
        cmocka_unit_test_setup(test_reply_from_callback, set_limit),
        cmocka_unit_test_setup(test_put_get, set_limit),
        cmocka_unit_test_setup(test_many_puts_gets, set_limit),
        cmocka_unit_test_setup(test_bad_arguments, set_limit),
        cmocka_unit_test_setup(test_bad_keys, set_limit),
        cmocka_unit_test_setup(test_close_while_busy, set_limit),
        cmocka_unit_test_setup(test_close_alone, set_limit),
        cmocka_unit_test_setup(test_many_lives, set_limit),
        cmocka_unit_test_setup(test_other_job, set_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
