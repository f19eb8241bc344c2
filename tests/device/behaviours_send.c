/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that succeed: what arrives, what completes, and in which order. */
#include "behaviours.h"

#include <string.h>

/* --- messages --------------------------------------------------------------------------------- */

static void send_arrives_with_its_length(void **state)
{
    static const uint32_t lengths[] = {1, 64, 4096, 4097, 30000};
    struct ibv_wc wc;

    (void)state;
    connect_usual();
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        fill(&a, 0, lengths[i], (uint8_t)i);
        assert_int_equal(post_recv(&ba, 100, 40000), 0);
        assert_int_equal(post_send(&ab, 0, lengths[i], IBV_SEND_SIGNALED), 0);
        wc = expect_received(&ba, 100, IBV_WC_SUCCESS);
        assert_int_equal(wc.byte_len, lengths[i]);
        assert_int_equal(wc.opcode, IBV_WC_RECV);
        assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, 0);
        expect_bytes(&b, 100, lengths[i], (uint8_t)i);
        wc = expect_sent(&ab, 0, IBV_WC_SUCCESS);
        assert_int_equal(wc.opcode, IBV_WC_SEND);
    }
}

static void empty_send_arrives(void **state)
{
    struct ibv_send_wr wr = request(IBV_WR_SEND, NULL, IBV_SEND_SIGNALED);

    (void)state;
    connect_usual();
    post_recv(&ba, 0, 64);
    post_recv(&ba, 64, 64);
    wr.wr_id = 7;
    wr.num_sge = 0;
    assert_int_equal(post(&ab, &wr), 0);
    assert_int_equal(expect_received(&ba, 0, IBV_WC_SUCCESS).byte_len, 0);
    expect_sent(&ab, 7, IBV_WC_SUCCESS);
    assert_int_equal(post_send(&ab, 8, 0, IBV_SEND_SIGNALED), 0); /* an entry of no length */
    assert_int_equal(expect_received(&ba, 64, IBV_WC_SUCCESS).byte_len, 0);
    expect_sent(&ab, 8, IBV_WC_SUCCESS);
}

static void immediate_data_arrives(void **state)
{
    struct ibv_sge sge = sge_of(&a, 0, 10);
    struct ibv_send_wr wr = request(IBV_WR_SEND_WITH_IMM, &sge, IBV_SEND_SIGNALED);
    struct ibv_wc wc;

    (void)state;
    connect_usual();
    post_recv(&ba, 0, 64);
    wr.imm_data = htobe32(0x12345678);
    assert_int_equal(post(&ab, &wr), 0);
    wc = expect_received(&ba, 0, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RECV);
    assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
    assert_int_equal(wc.imm_data, htobe32(0x12345678));
    expect_sent(&ab, 0, IBV_WC_SUCCESS);
}

static void pieces_are_gathered_and_scattered(void **state)
{
    struct ibv_sge from[2] = {sge_of(&a, 0, 30), sge_of(&a, 1030, 50)};
    struct ibv_sge to[2] = {sge_of(&b, 200, 10), sge_of(&b, 310, 100)};
    struct ibv_recv_wr recv = {.wr_id = 5, .sg_list = to, .num_sge = 2}, *bad;
    struct ibv_send_wr wr = request(IBV_WR_SEND, from, IBV_SEND_SIGNALED);

    (void)state;
    connect_usual();
    fill(&a, 0, 30, 0);
    fill(&a, 1030, 50, 30);
    wr.num_sge = 2;
    world_enter(B);
    assert_int_equal(ibv_post_recv(ba.qp, &recv, &bad), 0);
    assert_int_equal(post(&ab, &wr), 0);
    assert_int_equal(expect_received(&ba, 5, IBV_WC_SUCCESS).byte_len, 80);
    expect_bytes(&b, 200, 10, 0);
    expect_bytes(&b, 310, 70, 10);
    expect_sent(&ab, 0, IBV_WC_SUCCESS);
}

static void inline_buffer_is_free_after_the_post(void **state)
{
    (void)state;
    connect_usual();
    fill(&a, 0, 64, 1);
    assert_int_equal(post_send(&ab, 0, 64, IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
    fill(&a, 0, 64, 99); /* before a receive is there, so before it could leave */
    post_recv(&ba, 0, 64);
    expect_received(&ba, 0, IBV_WC_SUCCESS);
    expect_bytes(&b, 0, 64, 1);
    expect_sent(&ab, 0, IBV_WC_SUCCESS);
}

static void inline_bytes_need_no_key(void **state)
{
    uint8_t local[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct ibv_sge sge = {(uintptr_t)local, sizeof(local), 0};
    struct ibv_send_wr wr = request(IBV_WR_SEND, &sge, IBV_SEND_SIGNALED | IBV_SEND_INLINE);

    (void)state;
    connect_usual();
    post_recv(&ba, 0, 64);
    assert_int_equal(post(&ab, &wr), 0);
    expect_received(&ba, 0, IBV_WC_SUCCESS);
    expect_bytes(&b, 0, 8, 1);
    expect_sent(&ab, 0, IBV_WC_SUCCESS);
}

/* --- remote access ---------------------------------------------------------------------------- */

static uint64_t remote_at(uint32_t offset)
{
    return (uintptr_t)b.memory + offset;
}

static void write_and_read_move_bytes(void **state)
{
    struct ibv_wc wc;

    (void)state;
    connect_usual();
    fill(&a, 0, 10000, 3);
    assert_int_equal(
        post_rdma(&ab, IBV_WR_RDMA_WRITE, sge_of(&a, 0, 10000), remote_at(500), b.mr->rkey), 0);
    wc = expect_sent(&ab, 0, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RDMA_WRITE);
    expect_bytes(&b, 500, 10000, 3);
    assert_int_equal(
        post_rdma(&ab, IBV_WR_RDMA_READ, sge_of(&a, 20000, 10000), remote_at(500), b.mr->rkey), 0);
    wc = expect_sent(&ab, 20000, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
    assert_int_equal(wc.byte_len, 10000);
    expect_bytes(&a, 20000, 10000, 3);
    expect_silence(&b, b.recv_cq);
}

static void write_with_immediate_takes_a_receive(void **state)
{
    struct ibv_sge sge = sge_of(&a, 0, 100);
    struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE_WITH_IMM, &sge, IBV_SEND_SIGNALED);
    struct ibv_wc wc;

    (void)state;
    connect_usual();
    fill(&a, 0, 100, 9);
    post_recv(&ba, 0, 0);
    wr.wr.rdma.remote_addr = remote_at(300);
    wr.wr.rdma.rkey = b.mr->rkey;
    wr.imm_data = htobe32(77);
    assert_int_equal(post(&ab, &wr), 0);
    wc = expect_received(&ba, 0, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
    assert_int_equal(wc.imm_data, htobe32(77));
    assert_int_equal(wc.byte_len, 100);
    expect_bytes(&b, 300, 100, 9);
    expect_sent(&ab, 0, IBV_WC_SUCCESS);
}

static void write_with_immediate_waits_for_a_receive(void **state)
{
    struct ibv_sge sge = sge_of(&a, 0, 100);
    struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE_WITH_IMM, &sge, IBV_SEND_SIGNALED);

    (void)state;
    connect_usual();
    wr.wr.rdma.remote_addr = remote_at(300);
    wr.wr.rdma.rkey = b.mr->rkey;
    assert_int_equal(post(&ab, &wr), 0);
    expect_silence(&a, a.send_cq);
    post_recv(&ba, 0, 0);
    expect_received(&ba, 0, IBV_WC_SUCCESS);
    expect_sent(&ab, 0, IBV_WC_SUCCESS);
}

static void atomics_return_what_was_there(void **state)
{
    struct ibv_sge sge = sge_of(&a, 0, 8);
    struct ibv_send_wr wr = request(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, IBV_SEND_SIGNALED);
    uint64_t *word = (uint64_t *)(void *)b.memory, *was = (uint64_t *)(void *)a.memory;

    (void)state;
    connect_usual();
    *word = 40;
    wr.wr.atomic.remote_addr = (uintptr_t)word;
    wr.wr.atomic.rkey = b.mr->rkey;
    wr.wr.atomic.compare_add = 2;
    assert_int_equal(post(&ab, &wr), 0);
    assert_int_equal(expect_sent(&ab, 0, IBV_WC_SUCCESS).opcode, IBV_WC_FETCH_ADD);
    assert_int_equal(*was, 40);
    assert_int_equal(*word, 42);
    wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    wr.wr.atomic.compare_add = 42;
    wr.wr.atomic.swap = 5;
    assert_int_equal(post(&ab, &wr), 0);
    assert_int_equal(expect_sent(&ab, 0, IBV_WC_SUCCESS).opcode, IBV_WC_COMP_SWAP);
    assert_int_equal(*was, 42);
    assert_int_equal(*word, 5);
}

static void empty_write_looks_at_no_key(void **state)
{
    (void)state;
    connect_usual();
    assert_int_equal(post_rdma(&ab, IBV_WR_RDMA_WRITE, sge_of(&a, 0, 0), 0, 0), 0);
    expect_sent(&ab, 0, IBV_WC_SUCCESS);
    assert_int_equal(post_rdma(&ab, IBV_WR_RDMA_READ, sge_of(&a, 1, 0), 0, 0), 0);
    expect_sent(&ab, 1, IBV_WC_SUCCESS);
}

/* More reads than may be under way wait for their turn. */
static void reads_beyond_the_depth_wait(void **state)
{
    (void)state;
    connect_usual();
    fill(&b, 0, 1600, 0);
    for (uint32_t i = 0; i < 16; i++)
        assert_int_equal(post_rdma(&ab, IBV_WR_RDMA_READ, sge_of(&a, i * 100, 100),
                                   remote_at(i * 100), b.mr->rkey),
                         0);
    for (uint32_t i = 0; i < 16; i++)
        expect_sent(&ab, i * 100, IBV_WC_SUCCESS);
    expect_bytes(&a, 0, 1600, 0);
}

/* --- order ------------------------------------------------------------------------------------ */

static void unsignaled_sends_complete_in_silence(void **state)
{
    (void)state;
    connect_usual();
    for (uint32_t i = 0; i < 8; i++)
        post_recv(&ba, i, 64);
    for (uint32_t i = 0; i < 7; i++)
        assert_int_equal(post_send(&ab, i, 1, 0), 0);
    for (uint32_t i = 0; i < 7; i++)
        expect_received(&ba, i, IBV_WC_SUCCESS);
    expect_silence(&a, a.send_cq);
    assert_int_equal(post_send(&ab, 7, 1, IBV_SEND_SIGNALED), 0);
    expect_received(&ba, 7, IBV_WC_SUCCESS);
    expect_sent(&ab, 7, IBV_WC_SUCCESS);
    expect_silence(&a, a.send_cq);
}

/* One completion polled gives back the room of all requests up to it. */
static void signaled_send_retires_those_before(void **state)
{
    (void)state;
    connect_usual();
    for (uint32_t round = 0; round < 5; round++) {
        for (uint32_t i = 0; i < usual.sends; i++) {
            post_recv(&ba, i, 64);
            assert_int_equal(post_send(&ab, i, 1, i + 1 == usual.sends ? IBV_SEND_SIGNALED : 0), 0);
        }
        for (uint32_t i = 0; i < usual.sends; i++)
            expect_received(&ba, i, IBV_WC_SUCCESS);
        expect_sent(&ab, usual.sends - 1, IBV_WC_SUCCESS);
    }
}

static void requests_complete_in_order(void **state)
{
    (void)state;
    connect_usual();
    for (uint32_t i = 0; i < 12; i += 3) {
        post_recv(&ba, i, 64);
        assert_int_equal(
            post_rdma(&ab, IBV_WR_RDMA_READ, sge_of(&a, i, 20000), remote_at(0), b.mr->rkey), 0);
        assert_int_equal(post_send(&ab, i + 1, 1, IBV_SEND_SIGNALED), 0);
        assert_int_equal(
            post_rdma(&ab, IBV_WR_RDMA_WRITE, sge_of(&a, i + 2, 1), remote_at(50000), b.mr->rkey),
            0);
    }
    for (uint32_t i = 0; i < 12; i++)
        expect_sent(&ab, i, IBV_WC_SUCCESS);
    for (uint32_t i = 0; i < 12; i += 3)
        expect_received(&ba, i, IBV_WC_SUCCESS);
}

/* A message that arrived tells that a write posted before it has. */
static void write_is_there_when_the_next_send_arrives(void **state)
{
    (void)state;
    connect_usual();
    for (uint8_t i = 1; i < 10; i++) {
        fill(&a, 0, 20000, i);
        post_recv(&ba, 40000, 64);
        post_rdma(&ab, IBV_WR_RDMA_WRITE, sge_of(&a, 0, 20000), remote_at(0), b.mr->rkey);
        post_send(&ab, 30000, 1, IBV_SEND_SIGNALED);
        expect_received(&ba, 40000, IBV_WC_SUCCESS);
        expect_bytes(&b, 0, 20000, i);
        expect_sent(&ab, 0, IBV_WC_SUCCESS);
        expect_sent(&ab, 30000, IBV_WC_SUCCESS);
    }
}

static const struct CMUnitTest tests[] = {
    BEHAVIOUR(send_arrives_with_its_length),
    BEHAVIOUR(empty_send_arrives),
    BEHAVIOUR(immediate_data_arrives),
    BEHAVIOUR(pieces_are_gathered_and_scattered),
    BEHAVIOUR(inline_buffer_is_free_after_the_post),
    BEHAVIOUR(inline_bytes_need_no_key),
    BEHAVIOUR(write_and_read_move_bytes),
    BEHAVIOUR(write_with_immediate_takes_a_receive),
    BEHAVIOUR(write_with_immediate_waits_for_a_receive),
    BEHAVIOUR(atomics_return_what_was_there),
    BEHAVIOUR(empty_write_looks_at_no_key),
    BEHAVIOUR(reads_beyond_the_depth_wait),
    BEHAVIOUR(unsignaled_sends_complete_in_silence),
    BEHAVIOUR(signaled_send_retires_those_before),
    BEHAVIOUR(requests_complete_in_order),
    BEHAVIOUR(write_is_there_when_the_next_send_arrives),
};

const struct behaviours behaviours_send = BEHAVIOURS(tests);
