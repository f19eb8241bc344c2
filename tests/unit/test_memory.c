/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a connected peer costs in memory: a thousand processes that are all connected to one, over
 * the simulated fabric, in which the transport's allocations are counted.
 */
#include "unit.h"

#include "context.h"
#include "../sim/fabric.h"

#include <stdlib.h>

enum {
    PEERS = 1024,
    ID = 7,
    PEER_BYTES_MAX = 16 << 10,
    POOL_BYTES_MAX = 64 << 20,
    TURNS_MAX = 100000
};

struct process {
    int rank;
    vbn_context_t *ctx;
    unsigned got;
};

static struct process hub, peer[PEERS];

static uint64_t clock_ns(void *arg)
{
    (void)arg;
    return fabric_now_ns() + 1;
}

static uint64_t random_bits(void *arg)
{
    (void)arg;
    return fabric_random(UINT64_MAX);
}

static void take(void *arg, vbn_endpoint_t *ep, uint8_t id, void *data, size_t len)
{
    struct process *p = arg;

    (void)ep, (void)id, (void)data, (void)len;
    p->got++;
}

static void open_process(struct process *p, struct vbn_options *opts)
{
    struct vbn_error err;

    *p = (struct process){.rank = fabric_rank_add(fabric_node_add(NULL))};
    opts->clock_ns = clock_ns;
    opts->random = random_bits;
    opts->callback_arg = p;
    fabric_enter(p->rank);
    if (vbn_open(opts, &p->ctx, &err))
        fail_msg("%s", err.text);
    vbn_am_handler(p->ctx, ID, take, p);
}

/* The hub has the options of every user, its peers only what they need. */
static void open_all(void)
{
    struct vbn_options opts;

    vbn_options_init(&opts, sizeof(opts));
    open_process(&hub, &opts);
    opts.srq_depth = opts.tx_buffers = 64;
    opts.cq_size = 256;
    for (int i = 0; i < PEERS; i++)
        open_process(&peer[i], &opts);
}

static vbn_endpoint_t *endpoint(const struct process *from, const struct process *to)
{
    unsigned char addr[VBN_ADDRESS_MAX];
    size_t len = sizeof(addr);
    struct vbn_error err;
    vbn_endpoint_t *ep;

    assert_int_equal(vbn_address(to->ctx, addr, &len), VBN_OK);
    fabric_enter(from->rank);
    if (vbn_endpoint_create(from->ctx, addr, len, NULL, &ep, &err))
        fail_msg("%s", err.text);
    return ep;
}

static void progress(const struct process *p)
{
    fabric_enter(p->rank);
    for (int i = 0; i < 70; i++) /* the slow side is looked at, too */
        vbn_progress(p->ctx);
}

static void turn(void)
{
    progress(&hub);
    for (int i = 0; i < PEERS; i++)
        progress(&peer[i]);
    fabric_advance(100000);
}

static void turn_until_got(unsigned by_hub, unsigned by_each)
{
    for (int n = 0; n < TURNS_MAX; n++) {
        bool over = hub.got == by_hub;

        for (int i = 0; i < PEERS; i++)
            over &= peer[i].got == by_each;
        if (over)
            return;
        turn();
    }
    fail_msg("not all have arrived");
}

static void send_one(struct process *from, vbn_endpoint_t *ep)
{
    struct iovec iov = {"a", 1};

    fabric_enter(from->rank);
    assert_int_equal(vbn_am_send(ep, ID, &iov, 1), VBN_OK);
}

static uint64_t pool_bytes(const struct vbn_pool *pool)
{
    return (uint64_t)pool->count * (pool->obj_size + pool->buf_size);
}

static uint64_t pools_of(const vbn_context_t *ctx)
{
    return pool_bytes(&ctx->rx.pool) + pool_bytes(&ctx->msgs) + pool_bytes(&ctx->rmas);
}

static uint64_t all_pools(void)
{
    uint64_t bytes = pools_of(hub.ctx);

    for (int i = 0; i < PEERS; i++)
        bytes += pools_of(peer[i].ctx);
    return bytes;
}

static void close_all(void)
{
    size_t left;

    do {
        fabric_enter(hub.rank);
        left = vbn_shutdown(hub.ctx);
        for (int i = 0; i < PEERS; i++) {
            fabric_enter(peer[i].rank);
            left += vbn_shutdown(peer[i].ctx);
        }
        turn();
    } while (left);
    fabric_enter(hub.rank);
    assert_int_equal(vbn_close(hub.ctx), VBN_OK);
    for (int i = 0; i < PEERS; i++) {
        fabric_enter(peer[i].rank);
        assert_int_equal(vbn_close(peer[i].ctx), VBN_OK);
    }
    assert_int_equal(fabric_destroy(), 0);
}

/* Both ends of a connection are counted, and cost the same. */
static void a_thousand_peers(void **state)
{
    uint64_t before, pools_before, grown, each;

    (void)state;
    fabric_create(1, NULL);
    open_all();
    before = fabric_alloc_bytes();
    pools_before = all_pools();
    for (int i = 0; i < PEERS; i++) {
        send_one(&peer[i], endpoint(&peer[i], &hub));
    }
    turn_until_got(PEERS, 0);
    for (int i = 0; i < PEERS; i++) {
        send_one(&hub, endpoint(&hub, &peer[i]));
    }
    turn_until_got(PEERS, 1);
    grown = fabric_alloc_bytes() - before - (all_pools() - pools_before);
    each = grown / PEERS / 2;
    printf("# %d peers: %llu bytes each, beside pools of %llu bytes\n", PEERS,
           (unsigned long long)each, (unsigned long long)pools_of(hub.ctx));
    assert_in_range(each, 1, PEER_BYTES_MAX);
    assert_in_range(pools_of(hub.ctx), 1, POOL_BYTES_MAX);
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_thousand_peers)};

    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
