/* SPDX-License-Identifier: BSD-3-Clause */
/* An endpoint's life: claimed, connected by and by, given up, closed in order, released, used
 * again. */
#include "lone.h"

#include <errno.h>

static vbn_context_t *ctx;

static void tweak(struct vbn_options *opts)
{
    opts->connect_timeout_ms = 10000;
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

static int create(const struct vbn_wire_address *a, vbn_endpoint_t **ep, struct vbn_error *err)
{
    unsigned char blob[VBN_ADDRESS_MAX];

    vbn_wire_address_write(blob, a);
    return vbn_endpoint_create(ctx, blob, vbn_wire_address_len(a), &ctx, ep, err);
}

static void send_to(vbn_endpoint_t *ep)
{
    assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_OK);
}

/* --- claiming --------------------------------------------------------------------------------- */

static void one_for_each_peer(void **state)
{
    struct vbn_wire_address a = lone_address(ctx, 7);
    vbn_endpoint_t *first, *second, *other;

    (void)state;
    assert_int_equal(create(&a, &first, NULL), VBN_OK);
    assert_int_equal(create(&a, &second, NULL), VBN_OK);
    assert_ptr_equal(first, second);
    assert_ptr_equal(vbn_endpoint_user(first), &ctx);
    a.uid = 8;
    assert_int_equal(create(&a, &other, NULL), VBN_OK);
    assert_ptr_not_equal(first, other);
    assert_int_equal(fake_count(FAKE_RESOLVE_ADDR), 0); /* nothing is sent */
    assert_false(vbn_endpoint_connected(first));
}

static void the_peer_may_have_come_first(void **state)
{
    struct vbn_conn *conn = lone_accept(ctx, 7);

    (void)state;
    assert_null(vbn_endpoint_user(conn->ep));
    assert_ptr_equal(lone_peer(ctx, 7), conn->ep);
    assert_true(vbn_endpoint_connected(conn->ep));
    assert_int_equal(vbn_endpoint_connect(conn->ep), VBN_OK);
    assert_int_equal(fake_count(FAKE_RESOLVE_ADDR), 0);
}

/* A message to a peer that came by itself and went again has no address to go to. */
static void unknown_and_unconnected(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 7);
    struct rdma_cm_id *id = lone_request(ctx, &hello);
    vbn_endpoint_t *ep;

    (void)state;
    lone_progress(ctx);
    ep = vbn_endpoint_find(ctx, 7);
    vbn_endpoint_claim(ep, NULL); /* without an address */
    fake_event(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL, 0);
    lone_pass(ctx, 1500);
    assert_int_equal(ep->state, VBN_EP_OPEN);
    send_to(ep);
    lone_progress(ctx);
    assert_int_equal(unit.failures, 1);
    assert_int_equal(unit.failed[0].status, VBN_ERR_UNREACHABLE);
}

static void bad_addresses(void **state)
{
    struct vbn_wire_address a = lone_address(ctx, 7);
    vbn_endpoint_t *ep = NULL;
    struct vbn_error err;

    (void)state;
    assert_int_equal(vbn_endpoint_create(ctx, "nonsense", 8, NULL, &ep, &err), VBN_ERR_INVALID);
    assert_int_equal(vbn_endpoint_create(ctx, NULL, 0, NULL, &ep, &err), VBN_ERR_INVALID);
    a.uid = LONE_UID;
    assert_int_equal(create(&a, &ep, &err), VBN_ERR_INVALID);
    a = lone_address(ctx, 7);
    a.job_key++;
    assert_int_equal(create(&a, &ep, &err), VBN_ERR_REFUSED);
    assert_contains(err.text, "job");
    a = lone_address(ctx, 7);
    a.buf_size = 16 + 2048;
    assert_int_equal(create(&a, &ep, &err), VBN_ERR_REFUSED);
    assert_contains(err.text, "2048");
    assert_contains(err.text, "1024");
    a = lone_address(ctx, 7);
    a.version = 9, a.version_min = 8;
    assert_int_equal(create(&a, &ep, &err), VBN_ERR_VERSION);
    assert_contains(err.text, "8 to 9");
    a = lone_address(ctx, 7);
    a.addrs[0].family = 6;
    assert_int_equal(create(&a, &ep, &err), VBN_ERR_UNREACHABLE);
    assert_contains(err.text, "fake0");
    assert_contains(err.text, "IPv6");
    assert_int_equal(create(&a, &ep, NULL), VBN_ERR_UNREACHABLE);
    assert_null(ep);
    assert_null(vbn_endpoint_find(ctx, 7));
}

static void no_address_of_the_peer_s_family(void **state)
{
    struct vbn_wire_address a;
    vbn_endpoint_t *ep = NULL;
    struct vbn_error err;

    (void)state;
    lone_close(ctx);
    fake_reset();
    lone_device = fake_device_add("fake0");
    fake_address_add("eth0", "fd00::1", lone_device, 1);
    ctx = lone_open(tweak);
    a = lone_address(ctx, 7);
    assert_int_equal(create(&a, &ep, &err), VBN_ERR_UNREACHABLE);
    assert_contains(err.text, "give its netdev an IPv4 address");
    assert_null(vbn_endpoint_find(ctx, 7));
    a.addrs[0].family = 6;
    assert_int_equal(create(&a, &ep, &err), VBN_OK);
}

/* It came by itself and has gone: its endpoint stays, for it may come again. */
static void unreachable_but_known(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 7);
    struct rdma_cm_id *id = lone_request(ctx, &hello);
    struct vbn_wire_address a = lone_address(ctx, 7);
    vbn_endpoint_t *ep, *again = NULL;

    (void)state;
    lone_progress(ctx);
    ep = vbn_endpoint_find(ctx, 7);
    vbn_endpoint_claim(ep, NULL);
    fake_event(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL, 0);
    lone_pass(ctx, 1500);
    a.addrs[0].family = 6;
    assert_int_equal(create(&a, &again, NULL), VBN_ERR_UNREACHABLE);
    assert_null(again);
    assert_ptr_equal(vbn_endpoint_find(ctx, 7), ep);
    assert_ptr_equal(lone_accept(ctx, 7)->ep, ep);
    assert_true(vbn_endpoint_connected(ep));
}

/* A second blob of a known peer that leads nowhere must not take the endpoint from its owner. */
static void bad_address_of_a_known_peer(void **state)
{
    struct vbn_wire_address a = lone_address(ctx, 7);
    vbn_endpoint_t *ep = lone_peer(ctx, 7), *again;

    (void)state;
    a.addrs[0].family = 6;
    create(&a, &again, NULL);
    assert_ptr_equal(vbn_endpoint_find(ctx, 7), ep);
}

static void without_memory(void **state)
{
    struct vbn_wire_address a = lone_address(ctx, 7);
    struct vbn_error err;
    vbn_endpoint_t *ep;

    (void)state;
    for (unsigned nth = 1; nth <= 3; nth++) { /* the endpoint, the first table of the hash */
        unit_fail_alloc(nth);
        assert_int_equal(create(&a, &ep, &err), VBN_ERR_NO_MEMORY);
        assert_contains(err.text, "memory");
        assert_null(vbn_endpoint_find(ctx, 7));
    }
    unit_fail_alloc(0);
    assert_int_equal(create(&a, &ep, &err), VBN_OK);
}

static void many_peers(void **state)
{
    vbn_endpoint_t *ep[2000];

    (void)state;
    for (uint64_t i = 0; i < 2000; i++)
        ep[i] = lone_peer(ctx, 1000 + i * 0x100000001);
    for (uint64_t i = 0; i < 2000; i++)
        assert_ptr_equal(vbn_endpoint_find(ctx, 1000 + i * 0x100000001), ep[i]);
}

/* --- attempts --------------------------------------------------------------------------------- */

static void fail_attempt(vbn_endpoint_t *ep)
{
    assert_non_null(ep->attempt);
    fake_event(ep->attempt->id, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH, NULL, 0);
    lone_progress(ctx);
    assert_null(ep->attempt);
}

/* Milliseconds until the next attempt. */
static uint64_t pause_ms(const vbn_endpoint_t *ep)
{
    assert_true(ep->timer.at_ns > unit.now_ns);
    return (ep->timer.at_ns - unit.now_ns) / UNIT_MS;
}

static void until_next_attempt(vbn_endpoint_t *ep)
{
    unit.now_ns = ep->timer.at_ns;
    for (int i = 0; i < 3 && !ep->attempt; i++)
        lone_progress(ctx);
    assert_non_null(ep->attempt);
}

static void pauses_double_up_to_a_limit(void **state)
{
    static const uint64_t least[] = {20, 40, 80, 160, 320, 640, 1280, 2000, 2000};
    vbn_endpoint_t *ep = lone_peer(ctx, 7);

    (void)state;
    send_to(ep);
    ctx->opts.connect_timeout_ms = 100000;
    ep->connect_by_ns = unit.now_ns + 100000ull * UNIT_MS;
    for (unsigned i = 0; i < 9; i++) {
        fail_attempt(ep);
        assert_in_range(pause_ms(ep), least[i] - 3, least[i] * 3 / 2); /* with jitter */
        lone_progress(ctx);
        assert_null(ep->attempt);
        until_next_attempt(ep);
    }
    assert_int_equal(unit.failures, 0);
}

static void jitter_is_drawn(void **state)
{
    vbn_endpoint_t *ep = lone_peer(ctx, 7);

    (void)state;
    send_to(ep);
    unit.random = 9999999; /* of 10 ms and 1 ns */
    fail_attempt(ep);
    assert_in_range(pause_ms(ep), 27, 30);
}

static void given_up_at_the_deadline(void **state)
{
    vbn_endpoint_t *ep = lone_peer(ctx, 7);
    uint64_t start = unit.now_ns;
    unsigned attempts = 1;

    (void)state;
    for (int i = 0; i < 5; i++)
        send_to(ep);
    while (fail_attempt(ep), ep->state == VBN_EP_OPEN) {
        until_next_attempt(ep);
        attempts++;
    }
    assert_in_range((unit.now_ns - start) / UNIT_MS, 10000, 13500);
    assert_in_range(attempts, 8, 15);
    assert_int_equal(unit.failures, 1);
    assert_ptr_equal(unit.failed[0].ep, ep);
    assert_int_equal(unit.failed[0].status, VBN_ERR_UNREACHABLE);
    assert_contains(unit.failed[0].reason, "10000 ms");
    assert_contains(unit.failed[0].reason, "10.0.0.2");
    assert_contains(unit.failed[0].reason, "fake0");
    assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_ERR_UNREACHABLE);
    assert_int_equal(vbn_endpoint_connect(ep), VBN_ERR_UNREACHABLE);
    assert_int_equal(ep->msgs_out, 0);
    lone_pass(ctx, 5000);
    assert_int_equal(unit.failures, 1);
    assert_int_equal(fake_count(FAKE_RESOLVE_ADDR), attempts);
}

/* A peer that has just asked can be reached: the time does not count that went by over its request.
 */
static void deadline_after_an_attempt_of_the_peer(void **state)
{
    vbn_endpoint_t *ep = lone_peer(ctx, 7);
    struct vbn_wire_hello hello = lone_hello(ctx, 7);
    struct rdma_cm_id *id;

    (void)state;
    send_to(ep);
    id = lone_request(ctx, &hello);
    lone_progress(ctx);
    assert_ptr_equal(ep->attempt, id->context);
    lone_pass(ctx, 11000);
    fake_event(id, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL, NULL, 0);
    lone_progress(ctx);
    assert_int_equal(unit.failures, 0);
    until_next_attempt(ep);
    fail_attempt(ep);
    assert_int_equal(unit.failures, 0);
    until_next_attempt(ep);
    lone_pass(ctx, 10000);
    fail_attempt(ep);
    assert_int_equal(unit.failures, 1);
}

/* The time runs from when there was something to send, not from an attempt long ago. */
static void deadline_of_an_old_attempt_is_forgotten(void **state)
{
    vbn_endpoint_t *ep = lone_peer(ctx, 7);

    (void)state;
    vbn_endpoint_want_conn(ep);
    fail_attempt(ep); /* nothing to send, and nobody has asked for it: it is not tried again */
    lone_pass(ctx, 15000);
    assert_int_equal(fake_count(FAKE_RESOLVE_ADDR), 1);
    send_to(ep);
    fail_attempt(ep);
    assert_int_equal(unit.failures, 0);
    until_next_attempt(ep);
}

/* As a BTL does whose message waits for the connection before the transport has it: it asks at each
 * progress. */
static void ask_on(vbn_endpoint_t *ep, uint64_t until_ns)
{
    while (unit.now_ns < until_ns && !ep->attempt && ep->state == VBN_EP_OPEN) {
        assert_int_equal(vbn_endpoint_connect(ep), VBN_OK);
        lone_progress(ctx);
    }
}

/* There is nothing to send: it is connected, or given up, all the same. */
static void asked_for_and_unreachable(void **state)
{
    vbn_endpoint_t *ep = lone_peer(ctx, 7);
    uint64_t start = unit.now_ns;
    unsigned attempts = 1;

    (void)state;
    assert_int_equal(vbn_endpoint_connect(ep), VBN_OK);
    while (fail_attempt(ep), ep->state == VBN_EP_OPEN) {
        assert_in_range(pause_ms(ep), 17, 3000);
        ask_on(ep, UINT64_MAX);
        attempts++;
    }
    assert_in_range((unit.now_ns - start) / UNIT_MS, 10000, 13500);
    assert_in_range(attempts, 8, 15);
    assert_int_equal(unit.failures, 1);
    assert_int_equal(unit.failed[0].status, VBN_ERR_UNREACHABLE);
    assert_int_equal(vbn_endpoint_connect(ep), VBN_ERR_UNREACHABLE);
}

/* Who has asked once need not ask again. */
static void asked_for_once(void **state)
{
    vbn_endpoint_t *ep = lone_attempt(ctx, 7, VBN_CONN_CONNECTING)->ep;

    (void)state;
    lone_refuse(ep->attempt, VBN_REASON_BUSY);
    lone_progress(ctx);
    assert_null(ep->attempt);
    assert_in_range(pause_ms(ep), 17, 30);
    until_next_attempt(ep);
    lone_establish(ep->attempt);
    assert_true(vbn_endpoint_connected(ep));
    assert_int_equal(ep->connect_by_ns, 0);
    assert_int_equal(unit.failures, 0);
}

/* The peer's own request is on its way, and has its time. */
static void asked_for_and_crossed(void **state)
{
    vbn_endpoint_t *ep = lone_attempt(ctx, 7, VBN_CONN_CONNECTING)->ep;

    (void)state;
    lone_refuse(ep->attempt, VBN_REASON_CROSSED);
    lone_progress(ctx);
    ask_on(ep, unit.now_ns + 1500ull * UNIT_MS);
    assert_null(ep->attempt);
    assert_ptr_equal(lone_accept(ctx, 7)->ep, ep);
    assert_true(vbn_endpoint_connected(ep));
}

/* An attempt of ours makes way for a request that there is no memory for. */
static void asked_for_and_made_way(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 700); /* larger than ours: theirs goes on */
    vbn_endpoint_t *ep = lone_attempt(ctx, 700, VBN_CONN_CONNECTING)->ep;

    (void)state;
    lone_request(ctx, &hello);
    unit_fail_alloc(1);
    lone_progress(ctx);
    unit_fail_alloc(0);
    assert_null(ep->attempt);
    until_next_attempt(ep);
}

/* iWARP: the peer's own request came first, and it has left without a word. */
static void asked_for_and_left(void **state)
{
    vbn_endpoint_t *ep = lone_attempt(ctx, 7, VBN_CONN_ADDR)->ep;

    (void)state;
    ctx->device.iwarp = true;
    fake_event(lone_accept(ctx, 7)->id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
    lone_progress(ctx);
    assert_null(ep->conn);
    assert_null(ep->attempt);
    until_next_attempt(ep);
    assert_int_equal(unit.failures, 0);
}

/* What has never been connected has nothing to say, and nobody to say it to. */
static void asked_for_and_closed(void **state)
{
    vbn_endpoint_t *ep = lone_peer(ctx, 7);

    (void)state;
    assert_int_equal(vbn_endpoint_connect(ep), VBN_OK);
    fail_attempt(ep);
    vbn_endpoint_close(ep);
    lone_progress(ctx);
    assert_null(vbn_endpoint_find(ctx, 7));
    assert_int_equal(fake_count(FAKE_RESOLVE_ADDR), 1);
    assert_int_equal(unit.failures, 0);
}

static void connected_in_the_end_starts_afresh(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 7);
    vbn_endpoint_t *ep = lone_peer(ctx, 7);

    (void)state;
    send_to(ep);
    for (int i = 0; i < 4; i++) {
        fail_attempt(ep);
        until_next_attempt(ep);
    }
    fake_event(ep->attempt->id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
    lone_progress(ctx);
    fake_event(ep->attempt->id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
    lone_progress(ctx);
    lone_answer(ep->attempt, &hello);
    lone_progress(ctx);
    assert_true(vbn_endpoint_connected(ep));
    assert_int_equal(lone_sent(ep->conn), 1);
    assert_int_equal(ep->connect_by_ns, 0);
    assert_int_equal(ep->backoff_ms, 0);
}

static void addresses_in_turn(void **state)
{
    struct vbn_wire_address a = lone_address(ctx, 7);
    static const unsigned char last[] = {2, 9, 2, 9};
    vbn_endpoint_t *ep;

    (void)state;
    a.count = 3;
    a.addrs[1] = (struct vbn_wire_sockaddr){.family = 6, .port = 1, .ip = {0xfd}};
    a.addrs[2] = (struct vbn_wire_sockaddr){.family = 4, .port = 99, .ip = {10, 0, 0, 9}};
    assert_int_equal(create(&a, &ep, NULL), VBN_OK);
    send_to(ep);
    for (int i = 0; i < 4; i++) {
        const struct sockaddr_in *dst = (const struct sockaddr_in *)&fake_id(ep->attempt->id)->dst;

        assert_int_equal(dst->sin_family, AF_INET); /* we have no other */
        assert_int_equal(ntohl(dst->sin_addr.s_addr) & 255, last[i]);
        fail_attempt(ep);
        until_next_attempt(ep);
    }
}

static void link_local_gets_our_scope(void **state)
{
    struct vbn_wire_address a;
    vbn_endpoint_t *ep;

    (void)state;
    lone_close(ctx);
    fake_address_add("eth0", "fe80::1", lone_device, 1);
    ctx = lone_open(tweak);
    a = lone_address(ctx, 7);
    a.addrs[0] = (struct vbn_wire_sockaddr){.family = 6, .port = 1, .ip = {0xfe, 0x80, [15] = 2}};
    assert_int_equal(create(&a, &ep, NULL), VBN_OK);
    assert_int_equal(vbn_endpoint_connect(ep), VBN_OK);
    assert_int_equal(((const struct sockaddr_in6 *)&fake_id(ep->attempt->id)->dst)->sin6_scope_id,
                     3);
}

/* --- closing in order ------------------------------------------------------------------------- */

static void never_connected(void **state)
{
    vbn_endpoint_t *ep = lone_peer(ctx, 7);

    (void)state;
    vbn_endpoint_close(ep);
    lone_progress(ctx);
    assert_null(vbn_endpoint_find(ctx, 7));
    assert_int_equal(fake_count(FAKE_RESOLVE_ADDR), 0);
}

static void farewell_after_all_is_delivered(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);
    vbn_endpoint_t *ep = conn->ep;
    struct vbn_wire_hdr hdr;

    (void)state;
    fake_disconnect_by_itself(false);
    for (int i = 0; i < 3; i++)
        send_to(ep);
    vbn_endpoint_close(ep);
    assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_ERR_CLOSED);
    assert_int_equal(vbn_endpoint_connect(ep), VBN_ERR_CLOSED);
    lone_pass(ctx, 50);
    assert_false(lone_said_bye(conn));
    hdr = lone_hdr(conn, VBN_WIRE_ACK);
    hdr.ack = 2;
    lone_message(conn, &hdr, NULL);
    assert_false(lone_said_bye(conn));
    lone_ack(conn);
    assert_true(lone_said_bye(conn));
    lone_ack(conn);
    lone_pass(ctx, 10);
    assert_ptr_equal(ep->conn, conn); /* it may still be under way */
    lone_complete(conn);              /* the peer has it */
    assert_null(ep->conn);
    assert_true(fake_id(conn->id)->disconnected);
    lone_progress(ctx);
    assert_int_equal(conn->state, VBN_CONN_LEAVING);
    fake_event(conn->id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
    lone_progress(ctx);
    assert_null(vbn_endpoint_find(ctx, 7));
    assert_int_equal(unit.failures, 0);
}

static void drop(void *arg, vbn_endpoint_t *from, uint8_t id, void *data, size_t len)
{
    (void)arg, (void)from, (void)id, (void)data, (void)len;
}

/* Not even that the peer's messages have come: it would be lost where the peer leaves at once. */
static void nothing_follows_the_farewell(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);
    uint64_t said;

    (void)state;
    vbn_am_handler(ctx, 1, drop, NULL);
    vbn_endpoint_close(conn->ep);
    assert_true(lone_said_bye(conn));
    said = ctx->counters.acks_sent;
    while (!vbn_flow_ack_due(&conn->flow))
        lone_am(conn, 1, "m", 1);
    assert_ptr_equal(vbn_endpoint_find(ctx, 7)->conn, conn);
    lone_complete(conn);
    assert_int_equal(ctx->counters.acks_sent, said);
    assert_null(vbn_endpoint_find(ctx, 7)->conn);
}

static void closed_while_connecting(void **state)
{
    struct vbn_conn *conn = lone_attempt(ctx, 7, VBN_CONN_CONNECTING);
    struct vbn_wire_hello hello = lone_hello(ctx, 7);

    (void)state;
    send_to(conn->ep);
    vbn_endpoint_close(conn->ep);
    lone_answer(conn, &hello);
    lone_progress(ctx);
    assert_int_equal(lone_sent(conn), 1); /* what was to be sent is sent */
    lone_ack(conn);
    assert_true(lone_said_bye(conn));
    lone_complete(conn);
    lone_progress(ctx);
    assert_null(vbn_endpoint_find(ctx, 7));
}

static void closed_while_connecting_for_nothing(void **state)
{
    struct vbn_conn *conn = lone_attempt(ctx, 7, VBN_CONN_ROUTE);
    int live = fake_live();

    (void)state;
    vbn_endpoint_close(conn->ep);
    lone_progress(ctx);
    assert_null(vbn_endpoint_find(ctx, 7));
    assert_int_equal(fake_live(), live - 1);
}

/* It gives up on what it still had to deliver, and says so. */
static void closing_and_unreachable(void **state)
{
    vbn_endpoint_t *ep = lone_peer(ctx, 7);

    (void)state;
    send_to(ep);
    vbn_endpoint_close(ep);
    for (int i = 0; i < 100 && vbn_endpoint_find(ctx, 7); i++) {
        if (ep->attempt)
            fake_event(ep->attempt->id, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH, NULL, 0);
        lone_pass(ctx, 500);
    }
    assert_null(vbn_endpoint_find(ctx, 7));
    assert_int_equal(unit.failures, 0); /* its owner asked to hear no more of it */
    assert_contains(unit.log[VBN_LOG_ERROR], "cannot be reached");
}

static void bye(struct vbn_conn *conn)
{
    struct vbn_wire_hdr hdr = lone_hdr(conn, VBN_WIRE_BYE);

    lone_message(conn, &hdr, NULL);
}

static void peer_closes_first(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);
    vbn_endpoint_t *ep = conn->ep;

    (void)state;
    bye(conn);
    lone_progress(ctx);
    assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_ERR_CLOSED);
    assert_false(vbn_endpoint_connected(ep));
    assert_int_equal(ep->conn_count, 0);
    assert_int_equal(unit.failures, 0);
    assert_ptr_equal(vbn_endpoint_find(ctx, 7), ep); /* still its owner's */
    vbn_endpoint_close(ep);
    lone_progress(ctx);
    assert_null(vbn_endpoint_find(ctx, 7));
}

static void peer_closes_with_messages_under_way(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);
    vbn_endpoint_t *ep = conn->ep;
    struct vbn_wire_hdr hdr = lone_hdr(conn, VBN_WIRE_BYE);

    (void)state;
    for (int i = 0; i < 20; i++)
        send_to(ep);
    lone_message(conn, &hdr, NULL);
    lone_progress(ctx);
    assert_int_equal(ep->msgs_out, 0);
    assert_contains(unit.log[VBN_LOG_WARN], "dropped");
}

static void both_close_at_once(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);

    (void)state;
    fake_disconnect_by_itself(false);
    vbn_endpoint_close(conn->ep);
    assert_true(lone_said_bye(conn));
    bye(conn); /* before our own is through */
    assert_true(fake_id(conn->id)->disconnected);
    fake_event(conn->id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
    lone_progress(ctx);
    assert_null(vbn_endpoint_find(ctx, 7));
    assert_int_equal(unit.failures, 0);
    assert_int_equal(ctx->counters.conns_lost, 0);
}

/* The peer may be gone before our farewell is known to be there. */
static void gone_after_our_farewell(void **state)
{
    static const bool by_event[] = {true, false};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct vbn_conn *conn = lone_connect(ctx, 7);

        vbn_endpoint_close(conn->ep);
        if (by_event[i])
            fake_event(conn->id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
        else
            fake_send_completes(conn->q.qp, 0, IBV_WC_RETRY_EXC_ERR);
        lone_pass(ctx, 60);
        assert_null(vbn_endpoint_find(ctx, 7));
        assert_int_equal(unit.failures, 0);
        assert_int_equal(ctx->counters.conns_lost, 0);
    }
}

static void no_credit_for_the_farewell(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);
    uint16_t granted = conn->flow.tx_grant;

    (void)state;
    conn->flow.tx_count = granted;
    vbn_endpoint_close(conn->ep);
    lone_pass(ctx, 10);
    assert_int_equal(lone_sent(conn), 0);
    lone_ack(conn); /* with new credits */
    assert_true(lone_said_bye(conn));
}

/* An offer that crosses our farewell is fetched by nobody, nor is one that came before: the peer
 * ends when it hears the farewell, and what would be asked behind that would be lost with it. */
static void nothing_is_fetched_behind_the_farewell(void **state)
{
    const struct vbn_wire_offer offer = {.tag = 1, .len = 1 << 20, .addr = 4096, .id = 1};
    struct vbn_conn *conn = lone_connect(ctx, 7);
    unsigned char bytes[sizeof(offer)];
    char memory[16];
    struct vbn_op op[2] = {{.done = NULL}, {.done = NULL}};
    unsigned sent;

    (void)state;
    vbn_wire_offer_write(bytes, &offer);
    lone_tagged(conn, VBN_TAG_OFFER, bytes, sizeof(bytes));
    vbn_endpoint_close(conn->ep);
    assert_true(lone_said_bye(conn));
    sent = lone_sent(conn);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(vbn_tag_recv(ctx, NULL, memory, sizeof(memory), 1, VBN_TAG_MAX, &op[i]),
                         VBN_PENDING);
        lone_tagged(conn, VBN_TAG_OFFER, bytes, sizeof(bytes));
        assert_int_equal(lone_sent(conn), sent);
        assert_int_equal(op[i].status, VBN_PENDING);
    }
    lone_complete(conn);
    lone_progress(ctx);
    assert_null(vbn_endpoint_find(ctx, 7));
    assert_int_equal(op[0].status, VBN_PENDING);
    assert_int_equal(ctx->counters.conns_lost, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(vbn_tag_cancel(ctx, &op[i]), VBN_OK);
    lone_progress(ctx);
}

/* --- released --------------------------------------------------------------------------------- */

static void kept_while_messages_are_out(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);
    vbn_endpoint_t *ep = conn->ep;
    vbn_msg_t *msg;

    (void)state;
    assert_int_equal(vbn_msg_get(ep, 10, &msg), VBN_OK);
    vbn_endpoint_close(ep);
    bye(conn);
    lone_pass(ctx, 10);
    assert_ptr_equal(vbn_endpoint_find(ctx, 7), ep);
    vbn_msg_put(msg);
    lone_progress(ctx);
    assert_null(vbn_endpoint_find(ctx, 7));
}

static void used_again_after_both_have_closed(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);

    (void)state;
    bye(conn);
    vbn_endpoint_close(conn->ep);
    lone_progress(ctx);
    assert_null(vbn_endpoint_find(ctx, 7));
    conn = lone_connect(ctx, 7);
    send_to(conn->ep);
    assert_int_equal(lone_sent(conn), 1);
    conn = lone_accept(ctx, 8);
    bye(conn);
    vbn_endpoint_close(conn->ep);
    lone_progress(ctx);
    conn = lone_accept(ctx, 8);
    send_to(conn->ep);
    assert_int_equal(unit.failures, 0);
}

/* The old one is on its way out; what is given to the caller must not go with it. */
static void claimed_again_at_once(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);
    struct vbn_wire_address a = lone_address(ctx, 7);
    vbn_endpoint_t *ep = NULL;

    (void)state;
    vbn_endpoint_close(conn->ep);
    if (create(&a, &ep, NULL) != VBN_OK)
        return; /* no, come back later: as good */
    bye(conn);
    lone_pass(ctx, 50);
    assert_ptr_equal(vbn_endpoint_find(ctx, 7), ep);
}

/* --- the error handler ------------------------------------------------------------------------ */

static void told_once_whatever_follows(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);
    vbn_endpoint_t *ep = conn->ep;

    (void)state;
    for (int i = 0; i < 5; i++)
        send_to(ep);
    fake_send_completes(conn->q.qp, 0, IBV_WC_RETRY_EXC_ERR);
    fake_recv_fails(conn->q.qp, IBV_WC_WR_FLUSH_ERR);
    fake_event(conn->id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
    fake_async(ctx->device.verbs, IBV_EVENT_QP_FATAL, conn->q.qp);
    assert_int_equal(unit.failures, 0); /* not before progress */
    lone_progress(ctx);
    lone_pass(ctx, 100);
    assert_int_equal(unit.failures, 1);
    assert_ptr_equal(unit.failed[0].ep, ep);
    assert_int_equal(unit.failed[0].status, VBN_ERR_PEER_LOST);
    assert_int_equal(unit.log_count[VBN_LOG_ERROR], 0); /* the handler's to say */
    assert_int_equal(ctx->counters.conns_lost, 1);
    vbn_endpoint_close(ep);
    lone_progress(ctx);
    assert_null(vbn_endpoint_find(ctx, 7));
}

static void close_inside(void *arg, vbn_endpoint_t *ep, int status, const char *reason)
{
    (void)arg, (void)reason;
    unit.failures++;
    assert_int_equal(status, VBN_ERR_PEER_LOST);
    assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_ERR_PEER_LOST);
    vbn_endpoint_close(ep);
}

static void closed_inside_the_handler(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);

    (void)state;
    ctx->opts.endpoint_error = close_inside;
    vbn_conn_fail(conn, VBN_EV_QP_ERROR, "test");
    lone_pass(ctx, 60);
    assert_int_equal(unit.failures, 1);
    assert_null(vbn_endpoint_find(ctx, 7));
}

static void without_a_handler(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);

    (void)state;
    ctx->opts.endpoint_error = NULL;
    vbn_conn_fail(conn, VBN_EV_QP_ERROR, "test");
    lone_pass(ctx, 10);
    assert_int_equal(unit.log_count[VBN_LOG_ERROR], 1);
    assert_int_equal(vbn_am_send(vbn_endpoint_find(ctx, 7), 1, NULL, 0), VBN_ERR_PEER_LOST);
}

static void not_for_a_released_one(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);

    (void)state;
    send_to(conn->ep);
    vbn_endpoint_close(conn->ep);
    vbn_conn_fail(conn, VBN_EV_QP_ERROR, "test");
    lone_pass(ctx, 60);
    assert_int_equal(unit.failures, 0);
    assert_null(vbn_endpoint_find(ctx, 7));
}

/* The peer's kernel may ask for patience for ever; connect_timeout_ms is the limit. */
static void nobody_answers_the_request(void **state)
{
    uint64_t start = unit.now_ns;
    struct vbn_conn *conn = lone_attempt(ctx, 8, VBN_CONN_CONNECTING);

    (void)state;
    assert_int_equal(vbn_am_send(conn->ep, 1, NULL, 0), VBN_OK);
    while (!unit.failures && unit.now_ns < start + 60000ull * UNIT_MS)
        lone_progress(ctx);
    assert_int_equal(unit.failures, 1);
    assert_int_equal(unit.failed[0].status, VBN_ERR_UNREACHABLE);
    assert_contains(unit.failed[0].reason, "no answer in time");
    assert_in_range((unit.now_ns - start) / UNIT_MS, 9900, 10500);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(nobody_answers_the_request),
        T(one_for_each_peer),
        T(the_peer_may_have_come_first),
        T(unknown_and_unconnected),
        T(bad_addresses),
        T(no_address_of_the_peer_s_family),
        T(unreachable_but_known),
        T(bad_address_of_a_known_peer),
        T(without_memory),
        T(many_peers),
        T(pauses_double_up_to_a_limit),
        T(jitter_is_drawn),
        T(given_up_at_the_deadline),
        T(deadline_after_an_attempt_of_the_peer),
        T(deadline_of_an_old_attempt_is_forgotten),
        T(asked_for_and_unreachable),
        T(asked_for_once),
        T(asked_for_and_crossed),
        T(asked_for_and_made_way),
        T(asked_for_and_left),
        T(asked_for_and_closed),
        T(connected_in_the_end_starts_afresh),
        T(addresses_in_turn),
        T(link_local_gets_our_scope),
        T(never_connected),
        T(farewell_after_all_is_delivered),
        T(nothing_follows_the_farewell),
        T(closed_while_connecting),
        T(closed_while_connecting_for_nothing),
        T(closing_and_unreachable),
        T(peer_closes_first),
        T(peer_closes_with_messages_under_way),
        T(both_close_at_once),
        T(gone_after_our_farewell),
        T(no_credit_for_the_farewell),
        T(nothing_is_fetched_behind_the_farewell),
        T(kept_while_messages_are_out),
        T(used_again_after_both_have_closed),
        T(claimed_again_at_once),
        T(told_once_whatever_follows),
        T(closed_inside_the_handler),
        T(without_a_handler),
        T(not_for_a_released_one),
    };

    return cmocka_run_group_tests_name("endpoint", tests, NULL, NULL);
}
