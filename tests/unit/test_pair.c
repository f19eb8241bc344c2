/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts with each other, over the simulated fabric: connecting from both sides, ending in any
 * order. */
#include "pair.h"

static uint64_t counter(int n, size_t offset)
{
    struct vbn_counters c = {.size = sizeof(c)};
    uint64_t value;

    vbn_counters(side[n].ctx, &c);
    memcpy(&value, (char *)&c + offset, sizeof(value));
    return value;
}

#define COUNTER(n, field) counter(n, offsetof(struct vbn_counters, field))

static void nobody_failed(void)
{
    for (int i = 0; i < SIDES_MAX; i++)
        if (side[i].failures)
            fail_msg("side %d: %s", i, side[i].reason);
}

/* --- talking ---------------------------------------------------------------------------------- */

static void talk(const struct fabric_node_attr *attr, void (*tweak)(struct vbn_options *))
{
    uint64_t rng = 1;

    pair_open(3, 1, NULL, attr, tweak);
    for (unsigned n = 0; n < 3000; n++) {
        int a = (int)(unit_random(&rng) % 3), b = (a + 1 + (int)(unit_random(&rng) % 2)) % 3;
        int rc = pair_send(a, b, unit_random(&rng) % 1025);

        assert_true(rc == VBN_OK || rc == VBN_ERR_AGAIN);
        if (rc || n % 50 == 0)
            pair_turn();
    }
    pair_until(pair_quiet, 1000);
    nobody_failed();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(COUNTER(i, conns_made), 2);
        assert_int_equal(COUNTER(i, bad_messages), 0);
    }
    pair_close();
    pair_teardown(NULL);
}

static void no_srq(struct vbn_options *opts)
{
    opts->use_srq = false;
}

static void cramped(struct vbn_options *opts)
{
    opts->window = VBN_WINDOW_MIN;
    opts->sq_depth = 4;
    opts->tx_buffers = 64;
    opts->inline_limit = 0;
    opts->signal_period = 1024;
}

static void all_messages_once_and_in_order(void **state)
{
    struct fabric_node_attr plain = {0}, bare = {.no_srq = true, .max_inline = -1},
                            iwarp = {.transport = FABRIC_IWARP}, v6 = {.family = AF_INET6},
                            local = {.family = AF_INET6, .link_local = true};

    (void)state;
    talk(&plain, NULL);
    talk(&plain, no_srq);
    talk(&plain, cramped);
    talk(&bare, NULL);
    talk(&iwarp, NULL);
    talk(&iwarp, cramped);
    talk(&v6, NULL);
    talk(&local, NULL);
}

static void sequence_numbers_wrap(void **state)
{
    (void)state;
    pair_open(2, 1, NULL, NULL, NULL);
    for (int a = 0; a < 2; a++) {
        vbn_endpoint_t *ep = pair_endpoint(a, 1 - a);

        ep->tx_next = ep->tx_acked = ep->rx_next = UINT32_MAX - 100;
    }
    for (unsigned n = 0; n < 500; n++) {
        while (pair_send(n % 2, 1 - n % 2, n) == VBN_ERR_AGAIN)
            pair_turn();
    }
    pair_until(pair_quiet, 1000);
    nobody_failed();
    assert_true(pair_endpoint(0, 1)->tx_next < 1000);
    pair_close();
}

/* An idle connection costs nothing: neither side thanks the other for its thanks. */
static void idle_connections_are_silent(void **state)
{
    uint64_t acks;

    (void)state;
    pair_open(2, 1, NULL, NULL, NULL);
    assert_int_equal(pair_send(0, 1, 100), VBN_OK);
    pair_until(pair_quiet, 100);
    pair_pass(50);
    acks = COUNTER(0, acks_sent) + COUNTER(1, acks_sent);
    assert_true(acks > 0);
    pair_pass(500);
    assert_int_equal(COUNTER(0, acks_sent) + COUNTER(1, acks_sent), acks);
    pair_close();
}

/* --- both connect at once --------------------------------------------------------------------- */

static void both_at_once(void **state)
{
    unsigned crossed = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct fabric_config config = {.latency_ns = 5000, .cm_jitter_ns = seed * 3000};

        pair_open(2, seed, &config, NULL, NULL);
        assert_int_equal(pair_send(0, 1, 20), VBN_OK);
        for (uint64_t i = 0; i < seed % 4; i++)
            pair_turn();
        assert_int_equal(pair_send(1, 0, 20), VBN_OK);
        pair_until(pair_quiet, 3000);
        nobody_failed();
        for (int i = 0; i < 2; i++)
            assert_int_equal(COUNTER(i, conns_made), 1);
        crossed += COUNTER(0, conns_crossed) + COUNTER(1, conns_crossed) > 0;
        pair_close();
        pair_teardown(NULL);
    }
    assert_in_range(crossed, 5, 60);
}

/* --- RDMA ------------------------------------------------------------------------------------- */

static unsigned char memory[2][4096];
static vbn_mem_t *mem[2];
static unsigned ended;
static int status;

static void done(void *arg, vbn_endpoint_t *ep, int rc)
{
    (void)arg, (void)ep;
    ended++;
    status = rc;
}

static bool one_ended(void)
{
    return ended == 1;
}

static void register_memory(void)
{
    ended = 0;
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < sizeof(memory[i]); k++)
            memory[i][k] = (unsigned char)(i * 100 + k * 3);
        fabric_enter(side[i].rank);
        assert_int_equal(vbn_mem_register(side[i].ctx, memory[i], sizeof(memory[i]),
                                          VBN_ACCESS_LOCAL_WRITE | VBN_ACCESS_REMOTE_READ |
                                              VBN_ACCESS_REMOTE_WRITE,
                                          &mem[i]),
                         VBN_OK);
    }
}

static void deregister_memory(void)
{
    for (int i = 0; i < 2; i++) {
        fabric_enter(side[i].rank);
        vbn_mem_deregister(mem[i]);
    }
}

static void put_and_get(void **state)
{
    vbn_endpoint_t *ep;

    (void)state;
    pair_open(2, 1, NULL, NULL, NULL);
    register_memory();
    ep = pair_endpoint(0, 1);
    assert_int_equal(vbn_put(ep, memory[0], mem[0], (uintptr_t)memory[1] + 100,
                             vbn_mem_rkey(mem[1]), 1000, done, NULL),
                     VBN_OK);
    pair_until(one_ended, 1000);
    assert_int_equal(status, VBN_OK);
    assert_memory_equal(memory[1] + 100, memory[0], 1000);
    ended = 0;
    memory[1][3000] ^= 0xff;
    fabric_enter(side[0].rank);
    assert_int_equal(vbn_get(ep, memory[0] + 2000, mem[0], (uintptr_t)memory[1] + 2500,
                             vbn_mem_rkey(mem[1]), 1000, done, NULL),
                     VBN_OK);
    pair_until(one_ended, 1000);
    assert_int_equal(status, VBN_OK);
    assert_memory_equal(memory[0] + 2000, memory[1] + 2500, 1000);
    deregister_memory();
    pair_close();
}

static void limits_of_copies(struct vbn_options *opts)
{
    opts->rndv_limit = 3000;
    opts->rndv_registered = 1500;
}

static struct vbn_op tagged[2];

static bool both_over(void)
{
    return tagged[0].status != VBN_PENDING && tagged[1].status != VBN_PENDING;
}

/* A message of LEN bytes at FROM that side 1 has ROOM for at memory[1]. */
static void start_message(unsigned char *from, size_t len, size_t room)
{
    int rc;

    memset(memory[1], 0, sizeof(memory[1]));
    fabric_enter(side[1].rank);
    assert_int_equal(vbn_tag_recv(side[1].ctx, NULL, memory[1], room, 7, VBN_TAG_MAX, &tagged[1]),
                     VBN_PENDING);
    fabric_enter(side[0].rank);
    rc = vbn_tag_send(pair_endpoint(0, 1), from, len, 7, &tagged[0]);
    assert_true(rc == VBN_OK || rc == VBN_PENDING);
}

/* Sends LEN bytes at FROM to memory[1]; returns how many reads and puts it took. */
static uint64_t moves_for(unsigned char *from, size_t len)
{
    uint64_t before = COUNTER(1, gets) + COUNTER(0, puts);

    start_message(from, len, sizeof(memory[1]));
    pair_until(both_over, 1000);
    assert_int_equal(tagged[0].status, VBN_OK);
    assert_int_equal(tagged[1].status, VBN_OK);
    assert_memory_equal(memory[1], from, len);
    return COUNTER(1, gets) + COUNTER(0, puts) - before;
}

/* The longest messages that are copied, REGISTERED bytes from registered memory, or other ones. */
static void longest_copied(const struct fabric_node_attr *attr, size_t registered)
{
    static unsigned char plain[4096];

    pair_open(2, 1, NULL, attr, limits_of_copies);
    register_memory();
    vbn_mem_lend(mem[0]); /* as the transport table's is */
    memset(plain, 0x5a, sizeof(plain));
    assert_int_equal(moves_for(memory[0], registered), 0);
    assert_int_equal(moves_for(memory[0], registered + 1), 1);
    assert_int_equal(moves_for(plain, 3000), 0);
    assert_int_equal(moves_for(plain, 3001), 1);
}

static void registered_memory_is_offered_sooner(void **state)
{
    (void)state;
    longest_copied(NULL, 1500);
    assert_int_equal(COUNTER(0, puts), 0);
    deregister_memory();
    pair_close();
}

/* Soft-RoCE's are unsound, soft-iWARP's slow. */
static void bad_reads_are_not_asked_for(void **state)
{
    struct fabric_node_attr soft[] = {{.soft_roce = true},
                                      {.transport = FABRIC_IWARP, .soft_iwarp = true}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        longest_copied(&soft[i], 3000); /* the receiver would have to ask */
        assert_int_equal(COUNTER(1, gets), 0);
        deregister_memory();
        pair_close();
    }
}

/* More than a request takes, and less room than that: the sender puts what there is room for. */
static void messages_put_piece_by_piece(void **state)
{
    struct fabric_node_attr soft = {.soft_roce = true, .max_msg_bytes = 1000};
    size_t len = sizeof(memory[0]), room = 3500;

    (void)state;
    pair_open(2, 1, NULL, &soft, limits_of_copies);
    register_memory();
    vbn_mem_lend(mem[0]);
    start_message(memory[0], len, room);
    pair_until(both_over, 1000);
    assert_int_equal(tagged[0].status, VBN_OK);
    assert_int_equal(tagged[1].status, VBN_ERR_TRUNCATED);
    assert_int_equal(tagged[1].len, len);
    assert_memory_equal(memory[1], memory[0], room);
    for (size_t i = room; i < sizeof(memory[1]); i++)
        assert_int_equal(memory[1][i], 0);
    assert_int_equal(COUNTER(0, puts), 4);
    deregister_memory();
    pair_close();
}

/* The key of side OWNER's memory is wrong: both hear of it, and nobody waits for ever. */
static void message_that_cannot_be_moved(bool soft, int owner, const char *why)
{
    struct fabric_node_attr attr = {.soft_roce = soft};
    struct fabric_config quiet = {.quiet = true};

    pair_open(2, 1, &quiet, &attr, limits_of_copies);
    register_memory();
    for (int i = 0; i < 2; i++)
        vbn_mem_lend(mem[i]);
    mem[owner]->mr->rkey ^= 1;
    start_message(memory[0], 3500, sizeof(memory[1]));
    pair_endpoint(1, 0); /* its address, to ask by */
    pair_until(both_over, 5000);
    mem[owner]->mr->rkey ^= 1;
    assert_int_equal(tagged[1 - owner].status, VBN_ERR_PROTOCOL);
    assert_int_equal(tagged[owner].status, VBN_ERR_PEER_LOST);
    assert_contains(side[1 - owner].reason, why);
    fabric_violations_clear();
    deregister_memory();
    pair_close();
}

static void message_that_cannot_be_read(void **state)
{
    (void)state;
    message_that_cannot_be_moved(false, 0, "a tagged message cannot be read");
}

static void message_that_cannot_be_put(void **state)
{
    (void)state;
    message_that_cannot_be_moved(true, 1, "a tagged message cannot be put");
}

/* What goes beyond the peer's memory ends with EXPECTED, after so many ATTEMPTS, and alone: all
 * others go on. */
static void the_peer_refuses(enum fabric_transport transport, bool put, int expected,
                             unsigned attempts)
{
    struct fabric_node_attr attr = {.transport = transport};
    struct fabric_config quiet = {.quiet = true};
    uint64_t beyond = (uintptr_t)memory[1] + 4000;
    vbn_endpoint_t *ep;
    uint32_t rkey;

    pair_open(2, 1, &quiet, &attr, NULL);
    register_memory();
    ep = pair_endpoint(0, 1);
    rkey = vbn_mem_rkey(mem[1]);
    if (put)
        assert_int_equal(vbn_put(ep, memory[0], mem[0], beyond, rkey, 1000, done, NULL), VBN_OK);
    else
        assert_int_equal(vbn_get(ep, memory[0], mem[0], beyond, rkey, 1000, done, NULL), VBN_OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal(pair_send(0, 1, i % 2 ? 500 : 20), VBN_OK);
    pair_until(one_ended, 1000);
    assert_int_equal(status, expected);
    pair_until(pair_quiet, 1000);
    assert_int_equal(side[0].failures + side[1].failures, 0);
    assert_int_equal(side[1].got[0], 5);
    assert_int_equal(fabric_violations(), attempts); /* the fabric minds, too, and each time */
    assert_contains(fabric_violation_text(0), "outside its region");
    fabric_violations_clear();
    deregister_memory();
    pair_close();
}

static void puts_and_gets_that_the_peer_refuses(void **state)
{
    (void)state;
    the_peer_refuses(FABRIC_ROCE, true, VBN_ERR_INVALID, 2);
    the_peer_refuses(FABRIC_ROCE, false, VBN_ERR_INVALID, 2);
}

/* All that is told is that the stream has ended. */
static void puts_and_gets_that_the_peer_refuses_on_iwarp(void **state)
{
    (void)state;
    the_peer_refuses(FABRIC_IWARP, true, VBN_ERR_DEVICE, 32);
    the_peer_refuses(FABRIC_IWARP, false, VBN_ERR_DEVICE, 32);
}

enum { TIGHT = 20 };
static struct vbn_op tight_sends[TIGHT], tight_recvs[TIGHT];

static void tight(struct vbn_options *opts)
{
    opts->window = 8;
    opts->sq_depth = 4;
    opts->unexpected_limit = 0; /* early messages stay in their receive buffers */
}

static bool all_received(void)
{
    for (int i = 0; i < TIGHT; i++)
        if (tight_recvs[i].status == VBN_PENDING)
            return false;
    return true;
}

/* Buffers that become free while the send queue is full: the peer, who has no credit left even to
 * acknowledge, is told when there is room, although nothing else is sent then. */
static void credits_wait_for_room(void **state)
{
    struct fabric_config late = {.ack_jitter_ns = 20000000}; /* completions, behind what answers */
    unsigned char word[TIGHT] = {0};

    (void)state;
    pair_open(2, 1, &late, NULL, tight);
    pair_endpoint(1, 0);
    fabric_enter(side[0].rank);
    for (int i = 0; i < TIGHT; i++)
        assert_true(vbn_tag_send(pair_endpoint(0, 1), "x", 1, 7, &tight_sends[i]) >= 0);
    pair_pass(200);
    assert_int_equal(vbn_flow_credits(&side[0].to[1]->conn->flow), 1);
    fabric_enter(side[1].rank);
    while (vbn_qp_has_room(&side[1].to[0]->conn->q))
        assert_int_equal(pair_send(1, 0, 20), VBN_OK);
    for (int i = 0; i < TIGHT; i++)
        assert_true(vbn_tag_recv(side[1].ctx, NULL, &word[i], 1, 7, VBN_TAG_MAX, &tight_recvs[i]) >=
                    0);
    pair_until(all_received, 1000);
    pair_until(pair_quiet, 1000);
    pair_close();
}

static bool side_0_got_one(void)
{
    return side[0].got[1] == 1;
}

/* There the accepting side may speak only after it was spoken to: also where that was no message.
 */
static void iwarp_peer_that_only_puts(void **state)
{
    struct fabric_node_attr iwarp = {.transport = FABRIC_IWARP};

    (void)state;
    pair_open(2, 1, NULL, &iwarp, NULL);
    register_memory();
    assert_int_equal(vbn_put(pair_endpoint(0, 1), memory[0], mem[0], (uintptr_t)memory[1],
                             vbn_mem_rkey(mem[1]), 100, done, NULL),
                     VBN_OK);
    pair_until(one_ended, 1000);
    assert_int_equal(pair_send(1, 0, 20), VBN_OK);
    pair_until(side_0_got_one, 1000);
    deregister_memory();
    pair_close();
}

/* --- ends ------------------------------------------------------------------------------------- */

static void close_endpoint(int a, int b)
{
    fabric_enter(side[a].rank);
    vbn_endpoint_close(side[a].to[b]);
    side[a].to[b] = NULL;
}

/* All that A had sent arrives, B hears no complaint, and both may begin again. */
static void closed_by_one(void **state)
{
    (void)state;
    pair_open(2, 1, NULL, NULL, NULL);
    for (int i = 0; i < 40; i++)
        assert_int_equal(pair_send(0, 1, 500), VBN_OK);
    pair_endpoint(1, 0);
    close_endpoint(0, 1);
    pair_until(pair_quiet, 1000);
    pair_pass(50);
    nobody_failed();
    assert_null(side[0].ctx->endpoints);
    assert_int_equal(pair_send(1, 0, 20), VBN_ERR_CLOSED);
    close_endpoint(1, 0);
    pair_pass(50);
    assert_null(side[1].ctx->endpoints);
    assert_true(TAILQ_EMPTY(&side[0].ctx->conns) && TAILQ_EMPTY(&side[1].ctx->conns));
    for (int i = 0; i < 2; i++)
        side[i].sent[1 - i] = side[1 - i].got[i] = 0;
    assert_int_equal(pair_send(1, 0, 20), VBN_OK);
    pair_until(pair_quiet, 1000);
    nobody_failed();
    pair_close();
}

static void closed_by_both(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct fabric_config config = {
            .latency_ns = 3000, .jitter_ns = 20000, .cm_jitter_ns = 50000};

        pair_open(2, seed, &config, NULL, NULL);
        assert_int_equal(pair_send(0, 1, 20), VBN_OK);
        pair_endpoint(1, 0);
        pair_until(pair_quiet, 1000);
        assert_int_equal(pair_send(1, 0, 900), VBN_OK);
        pair_until(pair_quiet, 1000);
        pair_pass(10);
        close_endpoint((int)(seed % 2), 1 - (int)(seed % 2));
        for (uint64_t i = 0; i < seed / 8; i++)
            pair_turn();
        close_endpoint(1 - (int)(seed % 2), (int)(seed % 2));
        pair_pass(50);
        nobody_failed();
        for (int i = 0; i < 2; i++) {
            assert_null(side[i].ctx->endpoints);
            assert_true(TAILQ_EMPTY(&side[i].ctx->conns));
            assert_int_equal(COUNTER(i, conns_lost), 0);
        }
        pair_close();
        pair_teardown(NULL);
    }
}

static void close_under_load(int turns)
{
    uint64_t ns;

    pair_open(2, 1, NULL, NULL, NULL);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(pair_send(0, 1, 500), VBN_OK);
        assert_int_equal(pair_send(1, 0, 500), VBN_OK);
    }
    for (int i = 0; i < turns; i++)
        pair_turn();
    assert_int_equal(pair_close_side(0, &ns), VBN_OK);
    assert_true(ns < 50 * (uint64_t)UNIT_MS);
    pair_pass(20);
    assert_int_equal(side[1].got[0], 50);
    assert_int_equal(side[1].failures, 0);
    assert_int_equal(pair_send(1, 0, 20), VBN_ERR_CLOSED);
    pair_close();
}

/* The context closes while the peer still sends: what it had is delivered, what comes is not. At
 * each point of the way to their connection, which both ask for. */
static void context_closed_under_load(void **state)
{
    for (int turns = 0; turns < 30; turns++) {
        close_under_load(turns);
        pair_teardown(state);
    }
}

static bool side_0_failed(void)
{
    return side[0].failures > 0;
}

static void peer_killed(void **state)
{
    (void)state;
    pair_open(3, 1, NULL, NULL, NULL);
    for (int b = 1; b < 3; b++)
        assert_int_equal(pair_send(0, b, 20), VBN_OK);
    pair_until(pair_quiet, 1000);
    fabric_rank_kill(side[1].rank);
    pair_until(side_0_failed, 1000);
    assert_ptr_equal(side[0].failed, side[0].to[1]);
    assert_int_equal(side[0].status, VBN_ERR_PEER_LOST);
    assert_int_equal(vbn_am_send(side[0].to[1], PAIR_ID, NULL, 0), VBN_ERR_PEER_LOST);
    assert_int_equal(pair_send(0, 2, 20), VBN_OK); /* life goes on */
    pair_pass(100);
    assert_int_equal(side[2].got[0], 2);
    assert_int_equal(side[0].failures, 1);
}

static void patient(struct vbn_options *opts)
{
    opts->connect_timeout_ms = 500;
}

static void nobody_listens(void **state)
{
    uint64_t start;

    (void)state;
    pair_open(2, 1, NULL, NULL, patient);
    assert_int_equal(pair_close_side(1, NULL), VBN_OK);
    start = fabric_now_ns();
    assert_int_equal(pair_send(0, 1, 20), VBN_OK);
    pair_until(side_0_failed, 5000);
    assert_int_equal(side[0].status, VBN_ERR_UNREACHABLE);
    assert_contains(side[0].reason, "500 ms");
    assert_in_range((fabric_now_ns() - start) / UNIT_MS, 500, 1500);
    pair_pass(1000);
    assert_int_equal(side[0].failures, 1);
    assert_int_equal(pair_send(0, 1, 20), VBN_ERR_UNREACHABLE);
}

/* A host that falls silent answers nothing; the connection manager's own patience is far longer. */
static void silent_host(void **state)
{
    (void)state;
    pair_open(2, 1, NULL, NULL, patient);
    fabric_node_power_off(side[1].node);
    assert_int_equal(pair_send(0, 1, 20), VBN_OK);
    pair_until(side_0_failed, 3000);
    assert_int_equal(side[0].status, VBN_ERR_UNREACHABLE);
}

static void close_is_bounded_beside_a_silent_host(void **state)
{
    uint64_t ns;

    (void)state;
    pair_open(2, 1, NULL, NULL, NULL);
    assert_int_equal(pair_send(0, 1, 20), VBN_OK);
    pair_until(pair_quiet, 1000);
    fabric_node_power_off(side[1].node);
    for (int i = 0; i < 10; i++)
        assert_int_equal(pair_send(0, 1, 500), VBN_OK);
    assert_int_equal(pair_close_side(0, &ns), VBN_ERR_TIMEOUT);
    assert_in_range(ns / UNIT_MS, 100, 110);
    assert_contains(unit.log[VBN_LOG_WARN], "100 ms");
}

static void link_that_flaps(void **state)
{
    (void)state;
    pair_open(2, 1, NULL, NULL, NULL);
    assert_int_equal(pair_send(0, 1, 20), VBN_OK);
    pair_until(pair_quiet, 1000);
    fabric_link_set(side[0].node, false);
    assert_int_equal(pair_send(0, 1, 20), VBN_OK);
    pair_pass(1);
    fabric_link_set(side[0].node, true);
    pair_until(pair_quiet, 60000);
    nobody_failed();
    pair_close();
}

static void device_removed(void **state)
{
    (void)state;
    pair_open(2, 1, NULL, NULL, NULL);
    assert_int_equal(pair_send(0, 1, 20), VBN_OK);
    pair_until(pair_quiet, 1000);
    fabric_device_remove(side[0].node);
    pair_until(side_0_failed, 1000);
    assert_int_equal(side[0].status, VBN_ERR_PEER_LOST);
    pair_pass(100);
    assert_int_equal(side[0].failures, 1);
}

/* After a failure everything of the connection goes at once, not only after some deadline. */
static void without_recovery(struct vbn_options *opts)
{
    opts->recovery_timeout_ms = 0;
}

static void nothing_lingers_after_a_failure(void **state)
{
    struct fabric_counters before, after;

    (void)state;
    pair_open(2, 1, NULL, NULL, without_recovery);
    fabric_counters(&before);
    for (int i = 0; i < 5; i++)
        assert_int_equal(pair_send(0, 1, i % 2 ? 500 : 20), VBN_OK);
    pair_until(pair_quiet, 1000);
    for (int i = 0; i < 5; i++)
        assert_int_equal(pair_send(0, 1, i % 2 ? 500 : 20), VBN_OK);
    fabric_qp_fail(side[0].to[1]->conn->q.qp_num);
    pair_pass(200);
    assert_int_equal(side[0].failures, 1);
    assert_int_equal(side[1].failures, 1);
    fabric_counters(&after);
    assert_int_equal(after.qps, before.qps);
    assert_int_equal(after.ids, before.ids);
}

/* --- tagged messages where something is short ---------------------------------------------------
 */

static struct vbn_op sends[1000], mutual[200], receive;
static unsigned char bytes[2][65536];

static void nothing_early(struct vbn_options *opts)
{
    opts->unexpected_limit = 0;
}

static int tag_send(int from, int to, size_t len, uint64_t tag, struct vbn_op *op)
{
    fabric_enter(side[from].rank);
    return vbn_tag_send(pair_endpoint(from, to), bytes[0], len, tag, op);
}

/* Two sides that are connected, for side 0 has sent a message that nobody has asked for. */
static void open_and_greet(void (*tweak)(struct vbn_options *opts))
{
    pair_open(2, 1, NULL, NULL, tweak);
    pair_endpoint(1, 0);
    assert_true(tag_send(0, 1, 1, 1, &sends[0]) >= 0);
    pair_pass(50);
}

static bool receive_is_over(void)
{
    return receive.status != VBN_PENDING;
}

/* What was under way when its endpoint was closed arrives, from nobody. */
static void receive_of_who_was_closed(void **state)
{
    (void)state;
    open_and_greet(NULL);
    fabric_enter(side[1].rank);
    assert_int_equal(vbn_tag_recv(side[1].ctx, NULL, bytes[1], 1, 2, VBN_TAG_MAX, &receive),
                     VBN_PENDING);
    assert_true(tag_send(0, 1, 1, 2, &sends[1]) >= 0);
    close_endpoint(1, 0);
    pair_until(receive_is_over, 1000);
    assert_int_equal(receive.status, VBN_OK);
    assert_null(receive.peer);
    pair_close();
}

static bool offer_is_refused(void)
{
    return vbn_tag_of(&receive)->state == VBN_TAG_REFUSED;
}

/* What cannot be registered comes in parts, also where nothing else is waited for and no more may
 * come early. */
static void refused_while_nothing_may_be_early(void **state)
{
    (void)state;
    open_and_greet(nothing_early);
    memset(bytes[0], 0x5a, sizeof(bytes[0]));
    fabric_enter(side[1].rank);
    assert_int_equal(
        vbn_tag_recv(side[1].ctx, NULL, bytes[1], sizeof(bytes[1]), 2, VBN_TAG_MAX, &receive),
        VBN_PENDING);
    assert_int_equal(tag_send(0, 1, sizeof(bytes[0]), 2, &sends[1]), VBN_PENDING);
    fabric_config()->verbs_fail_ppm = 1000000;
    pair_until(offer_is_refused, 1000);
    fabric_config()->verbs_fail_ppm = 0;
    pair_until(receive_is_over, 20000);
    assert_int_equal(receive.status, VBN_OK);
    assert_memory_equal(bytes[0], bytes[1], sizeof(bytes[0]));
    pair_close();
}

/* --- what a peer still owes lies behind messages that are held: these are taken for it ----------
 */

enum { FLOOD = 200, OFFERED = FLOOD }; /* more than any window here */

static void nothing_early_and_late_acks(struct vbn_options *opts)
{
    opts->unexpected_limit = 0;
    opts->ack_delay_us = 1000000;
}

static void open_with(const struct fabric_node_attr *attr, void (*tweak)(struct vbn_options *opts))
{
    pair_open(2, 1, NULL, attr, tweak);
    pair_endpoint(1, 0);
    assert_int_equal(pair_send(0, 1, 20), VBN_OK);
    assert_int_equal(pair_send(1, 0, 20), VBN_OK);
    pair_until(pair_quiet, 1000);
}

static void open_and_know(const struct fabric_node_attr *attr)
{
    open_with(attr, nothing_early);
}

/* Side 0 sends more than side 1 takes while it has asked for nothing. */
static void flood(void)
{
    for (int i = 0; i < FLOOD; i++)
        assert_true(tag_send(0, 1, 1, 1, &sends[i]) >= 0);
}

static unsigned held_by(int n, int of)
{
    unsigned count = 0;
    struct vbn_rxbuf *buf;

    STAILQ_FOREACH(buf, &side[n].to[of]->tag.held, held_entry)
    {
        count++;
    }
    return count;
}

static bool is_blocked(void)
{
    return side[0].to[1]->conn && !STAILQ_EMPTY(&side[1].to[0]->tag.held) &&
           vbn_flow_credits(&side[0].to[1]->conn->flow) <= 1;
}

static void receive_tag_2(int n)
{
    fabric_enter(side[n].rank);
    assert_int_equal(
        vbn_tag_recv(side[n].ctx, NULL, bytes[1], sizeof(bytes[1]), 2, VBN_TAG_MAX, &receive),
        VBN_PENDING);
}

static bool offered_is_over(void)
{
    return sends[OFFERED].status != VBN_PENDING && receive_is_over();
}

static void assert_tag_2_has_come(void)
{
    pair_until(offered_is_over, 5000);
    assert_int_equal(sends[OFFERED].status, VBN_OK);
    assert_int_equal(receive.status, VBN_OK);
    assert_memory_equal(bytes[0], bytes[1], sizeof(bytes[0]));
}

/* Devices whose receivers read, and such whose ask. */
static const struct fabric_node_attr readers_and_askers[] = {
    {.soft_roce = false},
    {.soft_roce = true},
    {.transport = FABRIC_IWARP, .soft_iwarp = false},
    {.transport = FABRIC_IWARP, .soft_iwarp = true},
};
#define READERS_AND_ASKERS (sizeof(readers_and_askers) / sizeof(readers_and_askers[0]))

/* Side 1's send ends by FIN; where side 0 asks, by what follows ASK. */
static void answer_to_an_offer_behind_what_is_held(void **state)
{
    (void)state;
    memset(bytes[0], 0x5a, sizeof(bytes[0]));
    for (size_t i = 0; i < READERS_AND_ASKERS; i++) {
        open_and_know(&readers_and_askers[i]);
        receive_tag_2(0);
        flood();
        pair_until(is_blocked, 1000);
        assert_int_equal(tag_send(1, 0, sizeof(bytes[0]), 2, &sends[OFFERED]), VBN_PENDING);
        assert_tag_2_has_come();
        pair_close();
        pair_teardown(NULL);
    }
}

/* Side 1's receive has found its offer, and is not posted any more, when the flood comes. */
static void put_that_was_asked_for_behind_what_is_held(void **state)
{
    (void)state;
    memset(bytes[0], 0xa5, sizeof(bytes[0]));
    for (size_t i = 0; i < READERS_AND_ASKERS; i++) {
        open_and_know(&readers_and_askers[i]);
        receive_tag_2(1);
        assert_int_equal(tag_send(0, 1, sizeof(bytes[0]), 2, &sends[OFFERED]), VBN_PENDING);
        flood();
        assert_tag_2_has_come();
        pair_close();
        pair_teardown(NULL);
    }
}

static bool place_is_known(void)
{
    return side[0].to[1]->tag.place_count == 1;
}

static void withdrawal_behind_what_is_held(void **state)
{
    (void)state;
    open_and_know(NULL);
    fabric_enter(side[1].rank);
    assert_int_equal(vbn_tag_recv_ready(side[1].to[0], bytes[1], sizeof(bytes[1]), 2, &receive),
                     VBN_PENDING);
    pair_until(place_is_known, 1000);
    flood();
    fabric_enter(side[1].rank);
    assert_int_equal(vbn_tag_cancel(side[1].ctx, &receive), VBN_OK);
    pair_until(receive_is_over, 5000);
    assert_int_equal(receive.status, VBN_ERR_CANCELED);
    pair_close();
}

/* Who awaits nothing goes on to hold them. */
static void holds_again_afterwards(void **state)
{
    unsigned sent = 0;

    (void)state;
    answer_to_an_offer_behind_what_is_held(state);
    open_and_know(NULL);
    flood();
    pair_until(is_blocked, 1000);
    pair_pass(500);
    assert_true(is_blocked());
    for (int i = 0; i < FLOOD; i++)
        sent += sends[i].status == VBN_OK;
    assert_in_range(sent, 1, FLOOD / 2);
}

static bool side_0_took_all(void)
{
    for (int i = 0; i < FLOOD; i++)
        if (mutual[i].status == VBN_PENDING)
            return false;
    return true;
}

/* Windows are wide, and rings are there, after COUNT messages either way. */
static void open_and_talk(const struct fabric_node_attr *attr, int count)
{
    open_and_know(attr);
    for (int i = 0; i < count; i++)
        if (pair_send(0, 1, 20) || pair_send(1, 0, 20) || i % 50 == 0)
            pair_turn();
    pair_until(pair_quiet, 1000);
}

static void flood_each_other(void)
{
    flood();
    for (int i = 0; i < FLOOD; i++)
        assert_true(tag_send(1, 0, 1, 1, &sends[FLOOD + i]) >= 0);
}

/* Both hold all that the other may send, and want to acknowledge it and to look whether it has been
 * seen; then one receives: the other hears of that, though it had no credit to spare. */
static void who_holds_can_tell_of_credits(void **state)
{
    static const int before[] = {0, 3000};
    static char byte[FLOOD];

    (void)state;
    for (int k = 0; k < 2; k++) {
        open_and_talk(NULL, before[k]);
        flood_each_other();
        pair_pass(5000);
        assert_false(STAILQ_EMPTY(&side[0].to[1]->tag.held));
        assert_false(STAILQ_EMPTY(&side[1].to[0]->tag.held));
        for (int i = 0; i < FLOOD; i++) {
            fabric_enter(side[0].rank);
            assert_true(vbn_tag_recv(side[0].ctx, NULL, &byte[i], 1, 1, VBN_TAG_MAX, &mutual[i]) >=
                        0);
        }
        pair_until(side_0_took_all, 5000);
        pair_close();
        pair_teardown(NULL);
    }
}

/* Side 0, or both, send as much as the other takes, which acknowledges nothing by itself yet. */
static void fill(int count)
{
    const vbn_endpoint_t *ep[] = {side[0].to[1], side[1].to[0]};

    pair_pass(100);
    while (vbn_tx_may_send(ep[0]) || (count == 2 && vbn_tx_may_send(ep[1]))) {
        for (int i = 0; i < count; i++)
            while (vbn_tx_may_send(ep[i]))
                assert_int_equal(tag_send(i, 1 - i, 1, 1, &sends[0]), VBN_OK);
        pair_pass(2);
    }
}

/* On iWARP the peer's acknowledgement ends a put; the put's own credit is not enough for it. */
static void put_while_messages_are_held(void **state)
{
    static const struct fabric_node_attr iwarp = {.transport = FABRIC_IWARP};

    (void)state;
    open_with(&iwarp, nothing_early_and_late_acks);
    register_memory();
    assert_int_equal(tag_send(0, 1, 1, 1, &sends[0]), VBN_OK); /* the only one that is kept */
    pair_pass(3000);
    fill(1);
    fabric_enter(side[1].rank);
    assert_int_equal(vbn_put(side[1].to[0], memory[1], mem[1], (uintptr_t)memory[0],
                             vbn_mem_rkey(mem[0]), 100, done, NULL),
                     VBN_OK);
    pair_until(one_ended, 5000);
    deregister_memory();
    pair_close();
}

static bool is_unacknowledged(int n)
{
    return !STAILQ_EMPTY(&side[n].to[1 - n]->unacked);
}

/* Each has sent as much as the other takes, and no more; who closes waits for acknowledgements.
 * Whether some are missing depends on how many messages went before. */
static void closes_while_both_hold(void **state)
{
    static const struct fabric_node_attr iwarp = {.transport = FABRIC_IWARP};
    unsigned missing = 0;

    (void)state;
    for (int before = 0; before < 4; before++) {
        open_and_know(&iwarp);
        for (int i = 0; i < before; i++)
            assert_int_equal(pair_send(0, 1, 20), VBN_OK);
        fill(2);
        pair_pass(1000);
        missing += is_unacknowledged(0) || is_unacknowledged(1);
        assert_int_equal(pair_close_side(is_unacknowledged(0) ? 0 : 1, NULL), VBN_OK);
        pair_close();
        pair_teardown(NULL);
    }
    assert_true(missing > 0);
}

static bool all_is_acknowledged(void)
{
    return !is_unacknowledged(0);
}

/* Side 0 spends its last credit on an acknowledgement of messages to which side 1 has nothing to
 * add, and side 1 holds all that side 0 has sent. */
static void says_farewell_while_its_messages_are_held(void **state)
{
    (void)state;
    for (int more = 1; more < 6; more++) {
        open_and_know(NULL);
        fill(1);
        pair_until(all_is_acknowledged, 1000);
        for (int i = 0; i < more; i++)
            assert_int_equal(pair_send(1, 0, 20), VBN_OK);
        pair_pass(100);
        assert_true(held_by(1, 0) > 0);
        assert_int_equal(pair_close_side(0, NULL), VBN_OK);
        assert_int_equal(side[1].failures, 0);
        pair_close();
        pair_teardown(NULL);
    }
}

/* Whether N's host may sleep, however often it makes progress before. */
static bool may_sleep(int n)
{
    int timeout_ms = 0, rc = VBN_ERR_AGAIN;

    for (int i = 0; i < 1000 && rc == VBN_ERR_AGAIN; i++) {
        pair_turn();
        fabric_enter(side[n].rank);
        rc = vbn_arm(side[n].ctx, &timeout_ms);
    }
    return rc == VBN_OK && timeout_ms != 0;
}

static void sleeps_with_messages_held(void **state)
{
    (void)state;
    pair_open(2, 1, NULL, NULL, nothing_early);
    pair_endpoint(1, 0);
    for (int i = 0; i < 3; i++)
        assert_true(tag_send(0, 1, 1, 1, &sends[i]) >= 0);
    pair_pass(50);
    assert_false(STAILQ_EMPTY(&side[1].to[0]->tag.held));
    assert_true(may_sleep(1));
    pair_close();
}

static void sleeps_with_sends_that_wait(void **state)
{
    (void)state;
    open_and_greet(NULL);
    side[1].asleep = true;
    for (int i = 1; i < 1000; i++)
        assert_true(tag_send(0, 1, 1, 1, &sends[i]) >= 0);
    pair_pass(50);
    assert_false(TAILQ_EMPTY(&side[0].to[1]->tag.sends));
    assert_true(may_sleep(0));
}

static void a_send_that_waits_is_registered_once(void **state)
{
    struct vbn_tag_op *t = vbn_tag_of(&sends[1]);
    const vbn_mem_t *region;

    (void)state;
    open_and_greet(NULL);
    side[1].asleep = true;
    while (pair_send(0, 1, 20) == VBN_OK)
        ;
    assert_int_equal(tag_send(0, 1, sizeof(bytes[0]), 1, &sends[1]), VBN_PENDING);
    fabric_enter(side[0].rank);
    region = t->mem;
    assert_non_null(region);
    fabric_config()->verbs_fail_ppm = 1000000; /* another registration would fail */
    for (int i = 0; i < 100; i++)
        vbn_progress(side[0].ctx);
    assert_ptr_equal(t->mem, region);
    fabric_config()->verbs_fail_ppm = 0;
    side[1].asleep = false;
}

/* As by default: an active message can hold more than is copied of registered memory. */
static void eager_of_16_kib(struct vbn_options *opts)
{
    opts->eager_limit = 16448;
}

static void rndv_of_4_kib(struct vbn_options *opts)
{
    eager_of_16_kib(opts);
    opts->rndv_limit = 4096;
}

/* A message of the port's eager_limit leaves although nobody receives it. */
static void leaves_alone(void (*tweak)(struct vbn_options *opts), bool registered)
{
    struct vbn_port_attr attr = {.size = sizeof(attr)};
    vbn_port_t *port;
    vbn_mem_t *region;

    pair_open(2, 1, NULL, NULL, tweak);
    pair_endpoint(1, 0);
    assert_int_equal(vbn_rc_port(side[0].ctx, &port), VBN_OK);
    vbn_rc_transport()->attr(port, &attr);
    fabric_enter(side[0].rank);
    if (registered) {
        assert_int_equal(vbn_mem_register(side[0].ctx, bytes[0], sizeof(bytes[0]),
                                          VBN_ACCESS_REMOTE_READ, &region),
                         VBN_OK);
        vbn_mem_lend(region);
    }
    assert_true(tag_send(0, 1, attr.eager_limit, 1, &sends[0]) >= 0);
    pair_pass(1000);
    assert_int_equal(sends[0].status, VBN_OK);
    vbn_rc_transport()->close(port);
    pair_teardown(NULL);
}

static void eager_messages_leave_alone(void **state)
{
    (void)state;
    leaves_alone(eager_of_16_kib, false);
    leaves_alone(eager_of_16_kib, true);
    leaves_alone(rndv_of_4_kib, false);
}

static void nothing_early_and_small_queue(struct vbn_options *opts)
{
    opts->unexpected_limit = 0;
    opts->window = 80;
    opts->srq_depth = 2048;
}

static bool have_each_other(void)
{
    return side[0].to[1]->conn && side[1].to[0]->conn;
}

static void nothing_early_and_few_buffers(struct vbn_options *opts)
{
    opts->unexpected_limit = 0;
    opts->srq_depth = 64;
    opts->ring_peers = 0;
}

/* Sends all that side 1 takes; then the connection breaks, and another one takes as much. */
static int flood_and_break(int n)
{
    while (vbn_tx_may_send(side[0].to[1]))
        assert_true(tag_send(0, 1, 1, 1, &sends[n++]) >= 0);
    pair_pass(100);
    fabric_qp_fail(side[0].to[1]->conn->q.qp_num);
    pair_pass(100);
    pair_until(have_each_other, 1000);
    return n;
}

/* However many messages of one peer are held: what is waited for finds a buffer, and so does what
 * comes when they have been taken. */
static void held_messages_leave_buffers_to_others(void **state)
{
    int n = 0;

    (void)state;
    pair_open(3, 1, NULL, NULL, nothing_early_and_few_buffers);
    pair_endpoint(1, 0);
    pair_endpoint(1, 2);
    assert_int_equal(pair_send(0, 1, 20), VBN_OK);
    assert_int_equal(pair_send(2, 1, 20), VBN_OK);
    pair_until(pair_quiet, 1000);
    for (int i = 0; i < 30; i++)
        n = flood_and_break(n);
    assert_true(held_by(1, 0) > 64);
    receive_tag_2(1);
    assert_true(tag_send(2, 1, 1, 2, &sends[n]) >= 0);
    pair_until(receive_is_over, 1000);
    for (int i = 0; i < n; i++) {
        fabric_enter(side[1].rank);
        if (vbn_tag_recv(side[1].ctx, NULL, bytes[1], 1, 1, VBN_TAG_MAX, &receive) == VBN_PENDING)
            pair_until(receive_is_over, 1000);
        assert_int_equal(receive.status, VBN_OK);
    }
    receive_tag_2(1);
    assert_true(tag_send(0, 1, 1, 2, &sends[n]) >= 0);
    pair_until(receive_is_over, 1000);
    pair_close();
}

/* Messages that are held keep their receive buffers, also those of former connections: others'
 * windows are not made of these. */
static void held_messages_take_nobodys_window(void **state)
{
    const struct fabric_node_attr iwarp = {.transport = FABRIC_IWARP};
    int n = 0;

    (void)state;
    pair_open(3, 1, NULL, &iwarp, nothing_early_and_small_queue);
    pair_endpoint(1, 0);
    for (int i = 0; i < 3000; i++) /* the window widens */
        if (pair_send(0, 1, 200) || i % 90 == 0)
            pair_turn();
    pair_until(pair_quiet, 1000);
    assert_int_equal(pair_send(2, 1, 20), VBN_OK);
    pair_until(pair_quiet, 1000);
    for (int i = 0; i < 200; i++)
        assert_true(tag_send(0, 1, 200, 1, &sends[n++]) >= 0);
    pair_pass(100);
    assert_true(held_by(1, 0) > 40);
    fabric_qp_fail(side[0].to[1]->conn->q.qp_num);
    pair_pass(100);
    pair_until(have_each_other, 1000);
    for (int i = 0; i < 3000; i++) { /* in bursts, as any peer may */
        if (pair_send(2, 1, 200) || i % 90 == 0)
            pair_turn();
        if (i % 300 == 299) { /* side 1 computes */
            side[1].asleep = true;
            pair_pass(3);
            side[1].asleep = false;
        }
    }
    pair_pass(1000);
    assert_int_equal(side[1].got[2], side[2].sent[1]);
    assert_int_equal(COUNTER(2, conns_lost), 0);
    assert_true(side[1].ctx->rx.stale > 0);
    for (int i = 0; i < n; i++) {
        fabric_enter(side[1].rank);
        if (vbn_tag_recv(side[1].ctx, NULL, bytes[1], sizeof(bytes[1]), 1, VBN_TAG_MAX, &receive) ==
            VBN_PENDING)
            pair_until(receive_is_over, 20000);
    }
    assert_int_equal(side[1].ctx->rx.stale, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_teardown(name, pair_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_messages_once_and_in_order),
        T(sequence_numbers_wrap),
        T(idle_connections_are_silent),
        cmocka_unit_test(both_at_once),
        T(put_and_get),
        T(registered_memory_is_offered_sooner),
        T(bad_reads_are_not_asked_for),
        T(messages_put_piece_by_piece),
        T(message_that_cannot_be_read),
        T(message_that_cannot_be_put),
        T(credits_wait_for_room),
        T(puts_and_gets_that_the_peer_refuses),
        T(puts_and_gets_that_the_peer_refuses_on_iwarp),
        T(iwarp_peer_that_only_puts),
        T(closed_by_one),
        cmocka_unit_test(closed_by_both),
        T(context_closed_under_load),
        T(peer_killed),
        T(nobody_listens),
        T(silent_host),
        T(close_is_bounded_beside_a_silent_host),
        T(link_that_flaps),
        T(device_removed),
        T(nothing_lingers_after_a_failure),
        T(receive_of_who_was_closed),
        T(refused_while_nothing_may_be_early),
        T(answer_to_an_offer_behind_what_is_held),
        T(put_that_was_asked_for_behind_what_is_held),
        T(withdrawal_behind_what_is_held),
        T(holds_again_afterwards),
        T(who_holds_can_tell_of_credits),
        T(put_while_messages_are_held),
        T(closes_while_both_hold),
        T(sleeps_with_messages_held),
        T(sleeps_with_sends_that_wait),
        T(a_send_that_waits_is_registered_once),
        T(eager_messages_leave_alone),
        T(held_messages_take_nobodys_window),
        T(held_messages_leave_buffers_to_others),
        T(says_farewell_while_its_messages_are_held),
    };

    return cmocka_run_group_tests_name("pair", tests, NULL, NULL);
}
