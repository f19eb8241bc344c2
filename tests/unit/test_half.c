/* SPDX-License-Identifier: BSD-3-Clause */
/* Half of a connection: its blob, what joining asks of the device, and each of these failing. */
#include "lone.h"

#include "half.h"

#include <errno.h>

#define PEER_UID 7
#define PEER_QP  0x1234
#define PEER_PSN 0xabcdef

static vbn_context_t *ctx;
static struct vbn_error err;

/* 10.0.0.1, as RoCE v1 and v2, behind an entry of another address. */
static void make_ethernet(void)
{
    static const uint8_t ours[16] = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 1};

    lone_device->port[0].link_layer = IBV_LINK_LAYER_ETHERNET;
    lone_device->gid[0].gid.raw[0] = 0xfe;
    for (int i = 1; i < 3; i++)
        memcpy(lone_device->gid[i].gid.raw, ours, sizeof(ours));
    lone_device->gid[0].gid_type = lone_device->gid[2].gid_type = IBV_GID_TYPE_ROCE_V2;
    lone_device->gid[1].gid_type = IBV_GID_TYPE_ROCE_V1;
}

static void make_infiniband(void)
{
    lone_device->port[0].link_layer = IBV_LINK_LAYER_INFINIBAND;
    lone_device->port[0].lid = 3;
    lone_device->gid[1].gid.raw[0] = 0xfe;
}

static int setup(void **state)
{
    lone_setup(state);
    lone_device->port[0].gid_tbl_len = FAKE_GIDS;
    lone_device->port[0].active_mtu = IBV_MTU_2048;
    make_ethernet();
    ctx = lone_open(NULL);
    return 0;
}

static int teardown(void **state)
{
    lone_close(ctx);
    return lone_teardown(state);
}

static vbn_half_t *make(struct vbn_wire_half *blob)
{
    unsigned char bytes[VBN_HALF_MAX];
    size_t len = sizeof(bytes);
    vbn_half_t *half;

    if (vbn_half_create(ctx, bytes, &len, &half, &err))
        fail_msg("vbn_half_create: %s", err.text);
    assert_int_equal(len, sizeof(*blob));
    assert_true(vbn_wire_half_read(bytes, len, blob));
    return half;
}

/* What the peer's half is, on a port like ours. */
static struct vbn_wire_half peer_of(const struct vbn_wire_half *own)
{
    struct vbn_wire_half peer = *own;

    peer.hello = lone_hello(ctx, PEER_UID);
    peer.hello.dst_uid = 0;
    peer.qp_num = PEER_QP;
    peer.psn = PEER_PSN;
    peer.gid[15] = 2;
    return peer;
}

static int join(vbn_half_t *half, const struct vbn_wire_half *peer, vbn_endpoint_t **ep)
{
    unsigned char bytes[sizeof(*peer)];
    int rc;

    err.text[0] = '\0';
    vbn_wire_half_write(bytes, peer);
    rc = vbn_half_join(half, bytes, sizeof(bytes), ctx, ep, &err);
    assert_int_equal(rc == VBN_OK, err.text[0] == '\0');
    return rc;
}

/* --- what is written and asked ---------------------------------------------------------------- */

static void blob_tells_all(void **state)
{
    struct vbn_wire_half blob;
    vbn_half_t *half = make(&blob);
    const struct fake_qp *qp = fake_qp(half->conn->q.qp);

    (void)state;
    assert_int_equal(blob.link, VBN_LINK_ROCE_V2);
    assert_int_equal(blob.mtu, IBV_MTU_2048);
    assert_int_equal(blob.qp_num, half->conn->q.qp->qp_num);
    assert_int_equal(blob.psn, (unit.random - 1) & 0xffffff);
    assert_int_equal(blob.read_in, 16);
    assert_int_equal(blob.read_out, 16);
    assert_int_equal(blob.lid, 0);
    assert_memory_equal(blob.gid, lone_device->gid[2].gid.raw, 16);
    assert_int_equal(blob.hello.src_uid, LONE_UID);
    assert_int_equal(blob.hello.dst_uid, 0);
    assert_int_equal(blob.hello.job_key, ctx->opts.job_key);
    assert_int_equal(blob.hello.credits, half->conn->window);
    assert_int_equal(qp->state, IBV_QPS_INIT);
    assert_int_equal(qp->attr_mask,
                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    assert_int_equal(qp->attr.port_num, 1);
    assert_true(fake_srq_posted(ctx->rx.shared.srq) >= half->conn->window);
    assert_int_equal(ctx->connecting, 0); /* nothing of rdma_cm is waited for */
    assert_int_equal(fake_count(FAKE_INIT_QP_ATTR), 0);
    vbn_half_destroy(half);
}

static void joining_connects_the_queue_pair(void **state)
{
    struct vbn_wire_half blob, peer;
    vbn_half_t *half = make(&blob);
    struct vbn_conn *conn = half->conn;
    const struct ibv_qp_attr *attr = &fake_qp(conn->q.qp)->attr;
    vbn_endpoint_t *ep;

    (void)state;
    peer = peer_of(&blob);
    peer.mtu = IBV_MTU_1024;
    peer.read_in = 4;
    peer.read_out = 200;
    assert_int_equal(join(half, &peer, &ep), VBN_OK);
    assert_int_equal(fake_qp(conn->q.qp)->state, IBV_QPS_RTS);
    assert_int_equal(attr->path_mtu, IBV_MTU_1024);
    assert_int_equal(attr->dest_qp_num, PEER_QP);
    assert_int_equal(attr->rq_psn, PEER_PSN);
    assert_int_equal(attr->sq_psn, blob.psn);
    assert_int_equal(attr->max_rd_atomic, 4);
    assert_int_equal(attr->max_dest_rd_atomic, 16);
    assert_int_equal(attr->min_rnr_timer, ctx->opts.rnr_timer);
    assert_int_equal(attr->retry_cnt, 6);
    assert_int_equal(attr->rnr_retry, 7);
    assert_int_equal(attr->timeout, 19);
    assert_true(attr->ah_attr.is_global);
    assert_int_equal(attr->ah_attr.grh.sgid_index, 2);
    assert_int_equal(attr->ah_attr.port_num, 1);
    assert_memory_equal(attr->ah_attr.grh.dgid.raw, peer.gid, 16);
    assert_int_equal(conn->state, VBN_CONN_ESTABLISHED);
    assert_ptr_equal(ep->conn, conn);
    assert_ptr_equal(vbn_endpoint_user(ep), ctx);
    assert_string_equal(ep->name, "10.0.0.2 QP 4660");
    assert_int_equal(ep->conn_count, 1);
    assert_int_equal(ctx->nobody.conn_count, 0);
    assert_true(LIST_EMPTY(&ctx->halves));
}

/* Both have a LID: no global route. One has none: by the GID. */
static void infiniband_goes_by_lid(void **state)
{
    for (uint16_t lid = 0; lid < 10; lid += 9) {
        struct vbn_wire_half blob, peer;
        const struct ibv_ah_attr *ah;
        vbn_endpoint_t *ep;
        vbn_half_t *half;

        lone_close(ctx);
        lone_teardown(NULL);
        setup(NULL);
        make_infiniband();
        half = make(&blob);
        ah = &fake_qp(half->conn->q.qp)->attr.ah_attr;
        assert_int_equal(blob.link, VBN_LINK_INFINIBAND);
        assert_int_equal(blob.lid, 3);
        assert_int_equal(blob.gid[0], 0xfe);
        peer = peer_of(&blob);
        peer.lid = lid;
        assert_int_equal(join(half, &peer, &ep), VBN_OK);
        assert_int_equal(ah->dlid, lid);
        assert_int_equal(ah->is_global, lid == 0);
    }
    (void)state;
}

/* An old switch or card may know RoCE v1 only. */
static void only_roce_v1(void **state)
{
    struct vbn_wire_half blob, peer;
    vbn_endpoint_t *ep;
    vbn_half_t *half;

    (void)state;
    lone_device->gid[2].gid_type = IBV_GID_TYPE_ROCE_V1;
    half = make(&blob);
    assert_int_equal(blob.link, VBN_LINK_ROCE_V1);
    peer = peer_of(&blob);
    peer.link = VBN_LINK_ROCE_V2;
    assert_int_equal(join(half, &peer, &ep), VBN_ERR_UNREACHABLE);
    assert_non_null(strstr(err.text, "RoCE v2, this side's RoCE v1"));
    peer.link = VBN_LINK_ROCE_V1;
    assert_int_equal(join(half, &peer, &ep), VBN_OK);
}

/* --- what fails ------------------------------------------------------------------------------- */

static int create(void)
{
    unsigned char bytes[VBN_HALF_MAX];
    size_t len = sizeof(bytes);
    vbn_half_t *half = NULL;
    int rc;

    err.text[0] = '\0';
    rc = vbn_half_create(ctx, bytes, &len, &half, &err);
    assert_int_equal(rc == VBN_OK, half != NULL);
    assert_int_equal(rc == VBN_OK, err.text[0] == '\0');
    if (half)
        vbn_half_destroy(half);
    lone_progress(ctx);
    return rc;
}

static void creating_fails(void **state)
{
    int live = fake_live();

    (void)state;
    fake_fail(FAKE_QUERY_PORT, 1, EIO);
    assert_int_equal(create(), VBN_ERR_DEVICE);
    fake_fail(FAKE_CREATE_QP, 1, ENOMEM);
    assert_int_equal(create(), VBN_ERR_DEVICE);
    fake_fail(FAKE_MODIFY_QP, 1, EINVAL);
    assert_int_equal(create(), VBN_ERR_DEVICE);
    lone_device->gid[1].gid.raw[15] = lone_device->gid[2].gid.raw[15] = 9;
    assert_int_equal(create(), VBN_ERR_NO_ADDRESS);
    assert_true(LIST_EMPTY(&ctx->halves));
    assert_int_equal(fake_live(), live);
    for (unsigned n = 1; n <= 2; n++) {
        unit_fail_alloc(n);
        lone_device->gid[1].gid.raw[15] = lone_device->gid[2].gid.raw[15] = 1;
        assert_int_equal(create(), VBN_ERR_NO_MEMORY);
        unit_fail_alloc(0);
    }
    assert_int_equal(create(), VBN_OK);
    assert_int_equal(fake_live(), live);
}

/* No way to the peer: the half is as it was, and the next blob may be better. */
static void refused_route_leaves_the_half(void **state)
{
    struct vbn_wire_half blob, peer;
    vbn_half_t *half = make(&blob);
    vbn_endpoint_t *ep = NULL;

    (void)state;
    peer = peer_of(&blob);
    fake_fail(FAKE_MODIFY_QP, 1, ENETUNREACH);
    assert_int_equal(join(half, &peer, &ep), VBN_ERR_UNREACHABLE);
    assert_non_null(strstr(err.text, "10.0.0.2"));
    assert_null(ep);
    assert_null(ctx->endpoints);
    assert_int_equal(half->conn->state, VBN_CONN_HALF);
    assert_int_equal(join(half, &peer, &ep), VBN_OK);
}

/* What its fields say must not leave an endpoint behind. */
static void refused_blob_leaves_no_endpoint(void **state)
{
    struct vbn_wire_half blob, peer;
    vbn_half_t *half = make(&blob);
    vbn_endpoint_t *ep = NULL;

    (void)state;
    peer = peer_of(&blob);
    peer.hello.rx_next = 1;
    assert_int_equal(join(half, &peer, &ep), VBN_ERR_REFUSED);
    assert_null(ctx->endpoints);
    assert_int_equal(half->conn->state, VBN_CONN_HALF);
    vbn_half_destroy(half);
}

static void failed_queue_pair_spoils_the_half(void **state)
{
    struct vbn_wire_half blob, peer;
    vbn_half_t *half = make(&blob);
    vbn_endpoint_t *ep = NULL;

    (void)state;
    peer = peer_of(&blob);
    fake_fail(FAKE_MODIFY_QP, 2, EIO);
    assert_int_equal(join(half, &peer, &ep), VBN_ERR_DEVICE);
    assert_null(ctx->endpoints);
    lone_progress(ctx);
    assert_true(TAILQ_EMPTY(&ctx->conns));
    assert_int_equal(join(half, &peer, &ep), VBN_ERR_DEVICE);
    assert_int_equal(unit.log_count[VBN_LOG_WARN], 1);
    vbn_half_destroy(half);
}

static void device_may_fail_before_the_join(void **state)
{
    struct vbn_wire_half blob, peer;
    vbn_half_t *half = make(&blob);
    vbn_endpoint_t *ep;

    (void)state;
    peer = peer_of(&blob);
    fake_async(ctx->device.verbs, IBV_EVENT_QP_FATAL, half->conn->q.qp);
    lone_progress(ctx);
    assert_null(half->conn);
    assert_true(TAILQ_EMPTY(&ctx->conns));
    assert_int_equal(join(half, &peer, &ep), VBN_ERR_DEVICE);
    assert_int_equal(unit.log_count[VBN_LOG_WARN], 1);
    /* the context frees the half */
}

static void no_memory_for_the_endpoint(void **state)
{
    struct vbn_wire_half blob, peer;
    vbn_half_t *half = make(&blob);
    vbn_endpoint_t *ep;

    (void)state;
    peer = peer_of(&blob);
    unit_fail_alloc(1);
    assert_int_equal(join(half, &peer, &ep), VBN_ERR_NO_MEMORY);
    unit_fail_alloc(0);
    assert_int_equal(join(half, &peer, &ep), VBN_OK);
}

/* --- the peer's endpoint ---------------------------------------------------------------------- */

static void endpoints_that_are_taken(void **state)
{
    struct vbn_wire_half blob, peer;
    vbn_half_t *half = make(&blob);
    struct vbn_conn *attempt = lone_attempt(ctx, PEER_UID, VBN_CONN_CONNECTING);
    vbn_endpoint_t *known = attempt->ep, *ep = NULL;

    (void)state;
    peer = peer_of(&blob);
    assert_int_equal(join(half, &peer, &ep), VBN_ERR_AGAIN);
    assert_ptr_equal(known->attempt, attempt);
    lone_refuse(attempt, VBN_REASON_BUSY);
    lone_progress(ctx);
    assert_int_equal(known->state, VBN_EP_OPEN); /* it wanted nothing */
    known->tx_next = 5;
    assert_int_equal(join(half, &peer, &ep), VBN_ERR_REFUSED); /* another session */
    known->tx_next = 0;
    assert_int_equal(join(half, &peer, &ep), VBN_OK);
    assert_ptr_equal(ep, known);
}

static void endpoints_that_are_over(void **state)
{
    struct vbn_wire_half blob, peer;
    vbn_half_t *half = make(&blob), *again;
    vbn_endpoint_t *ep;
    struct vbn_wire_hdr bye;

    (void)state;
    peer = peer_of(&blob);
    assert_int_equal(join(half, &peer, &ep), VBN_OK);
    bye = lone_hdr(ep->conn, VBN_WIRE_BYE);
    lone_message(ep->conn, &bye, NULL);
    again = make(&blob);
    assert_int_equal(join(again, &peer, &ep), VBN_ERR_CLOSED);
    vbn_endpoint_close(ep);
    assert_int_equal(join(again, &peer, &ep), VBN_ERR_AGAIN);
    lone_progress(ctx);
    assert_int_equal(join(again, &peer, &ep), VBN_OK);
    assert_int_equal(ctx->connecting, 0);
}

/* --- a joined connection ---------------------------------------------------------------------- */

static struct vbn_conn *joined(void)
{
    struct vbn_wire_half blob, peer;
    vbn_half_t *half = make(&blob);
    vbn_endpoint_t *ep;

    peer = peer_of(&blob);
    assert_int_equal(join(half, &peer, &ep), VBN_OK);
    return ep->conn;
}

/* Nobody tells that the peer is gone, and nobody waits for it. */
static void end_waits_for_completions_only(void **state)
{
    struct vbn_conn *conn = joined();
    vbn_endpoint_t *ep = conn->ep;

    (void)state;
    fake_flush_by_itself(false);
    vbn_endpoint_close(ep);
    lone_progress(ctx);
    assert_int_equal(lone_sent(conn), 1); /* the farewell */
    lone_complete(conn);
    lone_progress(ctx);
    assert_int_equal(conn->state, VBN_CONN_DRAINING);
    fake_flush(conn->q.qp);
    lone_progress(ctx);
    assert_true(TAILQ_EMPTY(&ctx->conns));
    assert_int_equal(fake_count(FAKE_DISCONNECT), 0);
    assert_null(ctx->endpoints);
}

static void failure_is_told(void **state)
{
    struct vbn_conn *conn = joined();
    vbn_endpoint_t *ep = conn->ep;

    (void)state;
    assert_int_equal(vbn_am_send(ep, 5, NULL, 0), VBN_OK);
    fake_send_completes(conn->q.qp, 0, IBV_WC_RETRY_EXC_ERR);
    lone_progress(ctx);
    assert_int_equal(ep->state, VBN_EP_LOST);
    assert_int_equal(ep->status, VBN_ERR_PEER_LOST);
    assert_true(TAILQ_EMPTY(&ctx->conns));
}

static unsigned probes(const struct vbn_conn *conn)
{
    unsigned n = 0;

    for (unsigned i = 0; i < lone_sent(conn); i++)
        n += lone_send_at(conn, i, NULL)->wr.opcode == IBV_WR_RDMA_WRITE;
    return n;
}

/* It may not have joined before its first word. */
static void silent_peer_is_asked_once_it_has_spoken(void **state)
{
    struct vbn_conn *conn = joined(), *by_cm = lone_connect(ctx, 8);

    (void)state;
    lone_pass(ctx, 5000);
    assert_int_equal(probes(conn), 0);
    lone_am(conn, 5, NULL, 0);
    lone_am(by_cm, 5, NULL, 0);
    lone_pass(ctx, 1100);
    assert_int_equal(probes(conn), 1);
    lone_complete(conn);
    lone_pass(ctx, 1100);
    assert_int_equal(probes(conn), 2);
    assert_int_equal(probes(by_cm), 0); /* there somebody tells */
}

static void context_ends_its_halves(void **state)
{
    struct vbn_wire_half blob, peer;
    vbn_half_t *half = make(&blob);
    vbn_endpoint_t *ep;

    (void)state;
    make(&blob);
    peer = peer_of(&blob);
    assert_int_equal(vbn_shutdown(ctx), 2);
    lone_progress(ctx);
    assert_int_equal(vbn_shutdown(ctx), 0);
    assert_int_equal(join(half, &peer, &ep), VBN_ERR_CLOSED);
    assert_int_equal(create(), VBN_ERR_CLOSED);
    vbn_half_destroy(half);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(blob_tells_all),
        TEST(joining_connects_the_queue_pair),
        TEST(infiniband_goes_by_lid),
        TEST(only_roce_v1),
        TEST(creating_fails),
        TEST(refused_route_leaves_the_half),
        TEST(refused_blob_leaves_no_endpoint),
        TEST(failed_queue_pair_spoils_the_half),
        TEST(device_may_fail_before_the_join),
        TEST(no_memory_for_the_endpoint),
        TEST(endpoints_that_are_taken),
        TEST(endpoints_that_are_over),
        TEST(end_waits_for_completions_only),
        TEST(failure_is_told),
        TEST(silent_peer_is_asked_once_it_has_spoken),
        TEST(context_ends_its_halves),
    };

    return cmocka_run_group_tests_name("half", tests, NULL, NULL);
}
