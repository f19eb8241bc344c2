/* SPDX-License-Identifier: BSD-3-Clause */
#include "ring.h"
#include "context.h"
#include "error.h"

#include <stdlib.h>

#define LOOK_MIN_NS (1 * VBN_MS_NS)
#define LOOK_MAX_NS (32 * VBN_MS_NS)

/* --- what is said --------------------------------------------------------------------------------
 */

/* Now, or with the acknowledgement that is owed. */
static void say(struct vbn_conn *conn)
{
    conn->ring.say = true;
    if (!vbn_tx_ack(conn))
        vbn_rx_owe_ack(conn);
}

struct vbn_wire_ring vbn_ring_word(struct vbn_conn *conn)
{
    struct vbn_ring_in *in = &conn->ring.in;
    bool offered = in->count % 2;

    in->told = in->count;
    conn->ring.say = false; /* if it cannot be posted the connection has failed */
    return (struct vbn_wire_ring){
        .addr = offered ? (uintptr_t)in->slots : 0,
        .rkey = offered ? in->mr->rkey : 0,
        .count = in->count,
        .heard = conn->ring.out.heard,
    };
}

/* --- our ring ------------------------------------------------------------------------------------
 */

static void drop(struct vbn_conn *conn)
{
    struct vbn_rings *rings = &conn->ctx->rings;
    struct vbn_ring_in *in = &conn->ring.in;
    uint32_t i = 0;

    while (rings->conns[i] != conn)
        i++;
    rings->conns[i] = rings->conns[--rings->count];
    ibv_dereg_mr(in->mr);
    free(in->slots);
    in->slots = NULL;
}

static void offer(struct vbn_conn *conn)
{
    vbn_context_t *ctx = conn->ctx;
    struct vbn_ring_in *in = &conn->ring.in;
    char *slots = aligned_alloc(VBN_RING_BYTES, VBN_RING_BYTES);
    struct ibv_mr *mr = NULL;

    if (slots) {
        memset(slots, 0, VBN_RING_BYTES);
        mr = vbn_mem_reg_mr(ctx, slots, VBN_RING_BYTES,
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    }
    if (!mr) { /* messages come without it, too */
        free(slots);
        return;
    }
    in->slots = slots;
    in->mr = mr;
    in->next = slots;
    in->used = true;
    in->count++;
    ctx->rings.conns[ctx->rings.count++] = conn;
    say(conn);
}

/* CONN's peer shall write no more, once it has taken up the offer. */
static void withdraw(struct vbn_conn *conn)
{
    struct vbn_ring_in *in = &conn->ring.in;

    if (in->count % 2 == 0 || in->heard != in->count || conn->state != VBN_CONN_ESTABLISHED)
        return;
    in->count++;
    say(conn);
}

/* Another peer would like one: those unused since that was asked last make way. */
static void make_room(struct vbn_rings *rings)
{
    for (uint32_t i = 0; i < rings->count; i++) {
        struct vbn_ring_in *in = &rings->conns[i]->ring.in;

        if (!in->used)
            withdraw(rings->conns[i]);
        in->used = false;
    }
}

void vbn_ring_consider(struct vbn_conn *conn)
{
    struct vbn_rings *rings = &conn->ctx->rings;
    struct vbn_ring_in *in = &conn->ring.in;
    bool slept = in->sleeps != rings->sleeps;

    in->came = 0;
    in->sleeps = rings->sleeps;
    if (slept || in->slots || !rings->max || conn->version < VBN_WIRE_RINGS ||
        conn->state != VBN_CONN_ESTABLISHED || conn->ctx->closing)
        return;
    if (rings->count < rings->max)
        offer(conn);
    else
        make_room(rings);
}

void vbn_rings_rest(vbn_context_t *ctx)
{
    struct vbn_rings *rings = &ctx->rings;

    rings->sleeps++;
    for (uint32_t i = 0; i < rings->count; i++)
        withdraw(rings->conns[i]);
}

static bool may_be_written(const struct vbn_rings *rings)
{
    for (uint32_t i = 0; i < rings->count; i++)
        if (rings->conns[i]->ep->conn == rings->conns[i])
            return true;
    return false;
}

/* A peer that writes and then looks at nothing else for long is seen the later, the longer there
 * has been nothing to see. */
uint64_t vbn_rings_look_ns(vbn_context_t *ctx, uint64_t now)
{
    struct vbn_rings *rings = &ctx->rings;

    if (!may_be_written(rings)) {
        rings->quiet_ns = 0;
        return UINT64_MAX;
    }
    if (!rings->quiet_ns || rings->quiet_msgs != ctx->counters.rx_msgs)
        rings->quiet_ns = now;
    rings->quiet_msgs = ctx->counters.rx_msgs;
    return now + vbn_min(vbn_max((now - rings->quiet_ns) / 8, LOOK_MIN_NS), LOOK_MAX_NS);
}

/* --- the peer's ----------------------------------------------------------------------------------
 */

static void open_out(struct vbn_conn *conn, const struct vbn_wire_ring *word)
{
    struct vbn_ring_out *out = &conn->ring.out;

    out->room = conn->ep->ring_denied ? 0 : VBN_RING_ROOM + 1;
    out->next = 0;
    out->addr = word->addr;
    out->put.wr.rdma.rkey = word->rkey;
    for (uint32_t i = 0; i < VBN_RING_SLOTS; i++)
        out->seq[i] = conn->ep->tx_acked - 1;
}

/*
 * Each side changes its count by one, once the other has told that it has heard of the last change.
 * A word may have been overtaken by messages in a ring, but not by another word.
 */
bool vbn_ring_told(struct vbn_conn *conn, const struct vbn_wire_ring *word)
{
    struct vbn_ring_out *out = &conn->ring.out;
    struct vbn_ring_in *in = &conn->ring.in;

    if (conn->version < VBN_WIRE_RINGS || conn->ctx->device.iwarp ||
        (word->heard != in->told && word->heard != in->heard))
        return false;
    in->heard = word->heard;
    if (in->slots && in->count % 2 == 0 && in->heard == in->count)
        drop(conn); /* what was written into it came before this */
    if (word->count == out->heard)
        return true;
    if (word->count != (uint16_t)(out->heard + 1))
        return false;
    out->heard = word->count;
    out->room = 0;
    if (word->count % 2)
        open_out(conn, word);
    say(conn);
    return true;
}

void vbn_ring_denied(struct vbn_conn *conn)
{
    if (conn->ring.out.room)
        conn->ep->ring_denied = true;
}

/* --- life ----------------------------------------------------------------------------------------
 */

void vbn_ring_init(struct vbn_conn *conn)
{
    struct vbn_ring_out *out = &conn->ring.out;

    out->put =
        (struct ibv_send_wr){.sg_list = &conn->q.sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
    out->asked = conn->ep->tx_acked - 1;
    conn->ring.in.sleeps = conn->ctx->rings.sleeps;
}

void vbn_ring_fini(struct vbn_conn *conn)
{
    if (conn->ring.in.slots)
        drop(conn);
}

/* iWARP promises nothing of memory that a write has not been followed up for: no side offers one.
 */
int vbn_rings_init(vbn_context_t *ctx, struct vbn_error *err)
{
    struct vbn_rings *rings = &ctx->rings;

    if (ctx->device.iwarp || !ctx->opts.ring_peers)
        return VBN_OK;
    rings->conns = calloc(ctx->opts.ring_peers, sizeof(struct vbn_conn *));
    if (!rings->conns)
        return vbn_error_set(err, VBN_ERR_NO_MEMORY, "out of memory");
    rings->max = (uint32_t)ctx->opts.ring_peers;
    return VBN_OK;
}

void vbn_rings_fini(vbn_context_t *ctx)
{
    free(ctx->rings.conns);
    vbn_rx_free_own(ctx->rings.spare);
}
