/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection manager: what each side is told, and when its calls are refused. */
#include "behaviours.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

enum {
    REQ_BYTES = 56, /* private data as the other side sees them, padded */
    REP_BYTES = 196,
    REJ_BYTES = 148,
    REJ_INVALID_SERVICE = 8, /* reasons of a reject */
    REJ_CONSUMER = 28
};

/* a asks b, with "hello". */
static struct rdma_cm_event *asked(void)
{
    link_resolve(&ab, &a, &b.addr);
    link_make_qp(&ab, &a, &usual);
    link_to_init(&ab, &usual);
    assert_int_equal(link_request(&ab, &usual, "hello", 5), 0);
    return cm_event(&b, RDMA_CM_EVENT_CONNECT_REQUEST);
}

static void expect_padding(const struct link *link, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        assert_int_equal(link->data[i], 0);
}

/* --- connecting ------------------------------------------------------------------------------- */

static void both_sides_are_told(void **state)
{
    struct setting setting = usual;

    (void)state;
    setting.reads_out = 3;
    setting.reads_in = 2;
    setting.rnr_retry = 5;
    connect_links(&ab, &ba, &setting);
    assert_int_equal(ba.told.private_data_len, REQ_BYTES);
    assert_memory_equal(ba.data, "hello", 5);
    expect_padding(&ba, 5, REQ_BYTES);
    assert_int_equal(ba.told.qp_num, ab.qp->qp_num);
    assert_int_equal(ba.told.responder_resources, 3); /* what the other will have under way */
    assert_int_equal(ba.told.initiator_depth, 2);
    assert_int_equal(ba.told.retry_count, setting.retry);
    assert_int_equal(ba.told.rnr_retry_count, 5);
    assert_int_equal(ab.told.private_data_len, REP_BYTES);
    assert_memory_equal(ab.data, "yes", 3);
    expect_padding(&ab, 3, REP_BYTES);
    assert_int_equal(ab.told.qp_num, ba.qp->qp_num);
    assert_int_equal(ab.told.responder_resources, 2);
    assert_int_equal(ab.told.initiator_depth, 3);
    assert_int_equal(ab.told.rnr_retry_count, 5);
    expect_no_cm(&a);
    expect_no_cm(&b);
}

static void shared_queue_is_announced(void **state)
{
    (void)state;
    end_add_srq(&b, 8);
    connect_usual();
    assert_int_equal(ab.told.srq, 1);
    assert_int_equal(ba.told.srq, 0);
}

static void nothing_private_is_zeros(void **state)
{
    (void)state;
    link_resolve(&ab, &a, &b.addr);
    link_make_qp(&ab, &a, &usual);
    link_to_init(&ab, &usual);
    assert_int_equal(link_request(&ab, &usual, NULL, 0), 0);
    link_answer(&ba, &b, &usual);
    assert_int_equal(ba.told.private_data_len, REQ_BYTES);
    expect_padding(&ba, 0, REQ_BYTES);
    link_establish(&ab, &usual);
    expect_cm(&b, RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void answers_are_given_once(void **state)
{
    struct rdma_conn_param param = {.qp_num = 1};

    (void)state;
    connect_usual();
    world_enter(B);
    assert_int_equal(rdma_accept(ba.id, &param), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_reject(ba.id, NULL, 0), -1);
    assert_int_equal(errno, EINVAL);
    world_enter(A);
    assert_int_equal(rdma_establish(ab.id), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_connect(ab.id, &param), -1);
    assert_int_equal(errno, EINVAL);
    expect_no_cm(&a);
    expect_no_cm(&b);
    post_recv(&ba, 1, 64); /* none of it did harm */
    post_send(&ab, 2, 8, IBV_SEND_SIGNALED);
    expect_received(&ba, 1, IBV_WC_SUCCESS);
    expect_sent(&ab, 2, IBV_WC_SUCCESS);
}

static struct ibv_qp_attr attr_of(const struct link *link)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    int mask = IBV_QP_STATE | IBV_QP_DEST_QPN | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
               IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_RQ_PSN | IBV_QP_SQ_PSN |
               IBV_QP_MIN_RNR_TIMER | IBV_QP_TIMEOUT;

    world_enter(link->end->side);
    assert_int_equal(ibv_query_qp(link->qp, &attr, mask, &init), 0);
    return attr;
}

/* rdma_init_qp_attr() passes on what the two sides agreed on. */
static void queue_pairs_are_as_agreed(void **state)
{
    struct setting setting = usual;
    struct ibv_qp_attr at_a, at_b;

    (void)state;
    setting.rnr_retry = 5;
    connect_links(&ab, &ba, &setting);
    at_a = attr_of(&ab);
    at_b = attr_of(&ba);
    assert_int_equal(at_a.qp_state, IBV_QPS_RTS);
    assert_int_equal(at_b.qp_state, IBV_QPS_RTS);
    assert_int_equal(at_a.dest_qp_num, ba.qp->qp_num);
    assert_int_equal(at_b.dest_qp_num, ab.qp->qp_num);
    assert_int_equal(at_a.retry_cnt, setting.retry);
    assert_int_equal(at_b.retry_cnt, setting.retry);
    assert_int_equal(at_a.rnr_retry, 5);
    assert_int_equal(at_b.rnr_retry, 5);
}

/* Before there is a connection its attributes cannot be had. */
static void attributes_need_a_connection(void **state)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
    int mask = 0;

    (void)state;
    link_resolve(&ab, &a, &b.addr);
    link_make_qp(&ab, &a, &usual);
    link_to_init(&ab, &usual);
    assert_int_equal(link_request(&ab, &usual, NULL, 0), 0);
    world_enter(A);
    assert_int_equal(rdma_init_qp_attr(ab.id, &attr, &mask), -1);
    assert_int_equal(errno, EINVAL);
}

static void data_flow_both_ways_at_once(void **state)
{
    (void)state;
    link_resolve(&ab, &a, &b.addr);
    link_make_qp(&ab, &a, &usual);
    link_to_init(&ab, &usual);
    assert_int_equal(link_request(&ab, &usual, NULL, 0), 0);
    link_answer(&ba, &b, &usual);
    post_recv(&ba, 1, 64);
    link_establish(&ab, &usual);
    assert_int_equal(post_send(&ab, 2, 8, IBV_SEND_SIGNALED), 0); /* b is not told of it yet */
    expect_received(&ba, 1, IBV_WC_SUCCESS);
    expect_sent(&ab, 2, IBV_WC_SUCCESS);
    expect_cm(&b, RDMA_CM_EVENT_ESTABLISHED, 0);
    post_recv(&ab, 3, 64);
    post_send(&ba, 4, 8, IBV_SEND_SIGNALED);
    expect_received(&ab, 3, IBV_WC_SUCCESS);
    expect_sent(&ba, 4, IBV_WC_SUCCESS);
}

static void long_private_data_is_refused(void **state)
{
    char data[REP_BYTES + 1] = "too much";
    struct rdma_conn_param answer = {.private_data = data, .private_data_len = REP_BYTES + 1};
    struct rdma_cm_event *event;

    (void)state;
    link_resolve(&ab, &a, &b.addr);
    link_make_qp(&ab, &a, &usual);
    link_to_init(&ab, &usual);
    assert_int_equal(link_request(&ab, &usual, data, REQ_BYTES + 1), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(link_request(&ab, &usual, data, REQ_BYTES), 0);
    event = cm_event(&b, RDMA_CM_EVENT_CONNECT_REQUEST);
    ba = (struct link){.end = &b, .id = event->id};
    assert_int_equal(event->param.conn.private_data_len, REQ_BYTES);
    rdma_ack_cm_event(event);
    answer.qp_num = 1;
    assert_int_equal(rdma_accept(ba.id, &answer), -1);
    assert_int_equal(errno, EINVAL);
    expect_cm(&a, RDMA_CM_EVENT_REJECTED, REJ_CONSUMER); /* that was the answer */
}

static void depth_beyond_the_device_is_refused(void **state)
{
    struct setting setting = usual;

    (void)state;
    link_resolve(&ab, &a, &b.addr);
    link_make_qp(&ab, &a, &usual);
    setting.reads_out = 200;
    assert_int_equal(link_request(&ab, &setting, NULL, 0), -1);
    assert_int_equal(errno, EINVAL);
}

/* --- being refused ---------------------------------------------------------------------------- */

static void reject_carries_private_data(void **state)
{
    struct rdma_cm_event *event = asked();
    struct rdma_cm_id *id = event->id;

    (void)state;
    rdma_ack_cm_event(event);
    assert_int_equal(rdma_reject(id, "no", 2), 0);
    assert_int_equal(rdma_destroy_id(id), 0);
    event = cm_event(&a, RDMA_CM_EVENT_REJECTED);
    ab.told = event->param.conn;
    memcpy(ab.data, ab.told.private_data, ab.told.private_data_len);
    assert_int_equal(event->status, REJ_CONSUMER);
    rdma_ack_cm_event(event);
    assert_int_equal(ab.told.private_data_len, REJ_BYTES);
    assert_memory_equal(ab.data, "no", 2);
    expect_padding(&ab, 2, REJ_BYTES);
    expect_no_cm(&a);
    expect_no_cm(&b);
}

static void long_reject_is_refused(void **state)
{
    struct rdma_cm_event *event = asked();
    char data[REJ_BYTES + 1] = "too much";

    (void)state;
    ba = (struct link){.end = &b, .id = event->id};
    rdma_ack_cm_event(event);
    world_enter(B);
    assert_int_equal(rdma_reject(ba.id, data, REJ_BYTES + 1), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_reject(ba.id, data, REJ_BYTES), 0);
    expect_cm(&a, RDMA_CM_EVENT_REJECTED, REJ_CONSUMER);
}

static void destroyed_request_is_a_reject(void **state)
{
    struct rdma_cm_event *event = asked();
    struct rdma_cm_id *id = event->id;

    (void)state;
    rdma_ack_cm_event(event);
    assert_int_equal(rdma_destroy_id(id), 0);
    expect_cm(&a, RDMA_CM_EVENT_REJECTED, REJ_CONSUMER);
}

/* Requests that nobody has read yet go with their listener. */
static void listener_gone_is_a_reject(void **state)
{
    (void)state;
    link_resolve(&ab, &a, &b.addr);
    link_make_qp(&ab, &a, &usual);
    link_to_init(&ab, &usual);
    assert_int_equal(link_request(&ab, &usual, "hello", 5), 0);
    world_settle();
    world_enter(B);
    assert_int_equal(rdma_destroy_id(b.listener), 0);
    expect_cm(&a, RDMA_CM_EVENT_REJECTED, REJ_CONSUMER);
    expect_no_cm(&b);
    assert_int_equal(rdma_create_id(b.cm, &b.listener, NULL, RDMA_PS_TCP), 0);
}

static void nobody_listens(void **state)
{
    struct sockaddr_storage nowhere = b.addr;
    struct rdma_cm_id *id;

    (void)state;
    world_enter(B); /* a port that was taken, and is free again */
    ((struct sockaddr_in *)&nowhere)->sin_port = 0;
    assert_int_equal(rdma_create_id(b.cm, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&nowhere), 0);
    ((struct sockaddr_in *)&nowhere)->sin_port = rdma_get_src_port(id);
    assert_int_equal(rdma_destroy_id(id), 0);
    link_resolve(&ab, &a, &nowhere);
    link_make_qp(&ab, &a, &usual);
    link_to_init(&ab, &usual);
    assert_int_equal(link_request(&ab, &usual, "hello", 5), 0);
    expect_cm(&a, RDMA_CM_EVENT_REJECTED, REJ_INVALID_SERVICE);
}

static void withdrawn_request_is_told(void **state)
{
    struct rdma_cm_event *event = asked();

    (void)state;
    ba = (struct link){.end = &b, .id = event->id};
    rdma_ack_cm_event(event);
    link_destroy(&ab);
    world_settle();
    struct rdma_conn_param param = {.qp_num = 1};
    world_enter(B);
    assert_int_equal(rdma_accept(ba.id, &param), -1); /* too late */
    assert_int_equal(errno, EINVAL);
}

/* --- parting ---------------------------------------------------------------------------------- */

static void disconnect_leaves_the_queue_pairs(void **state)
{
    (void)state;
    connect_usual();
    post_recv(&ba, 1, 64);
    post_recv(&ab, 2, 64);
    world_enter(A);
    assert_int_equal(rdma_disconnect(ab.id), 0);
    expect_cm(&b, RDMA_CM_EVENT_DISCONNECTED, 0);
    expect_state(&ab, IBV_QPS_RTS);
    expect_state(&ba, IBV_QPS_RTS);
    assert_int_equal(post_send(&ab, 3, 8, IBV_SEND_SIGNALED), 0);
    expect_received(&ba, 1, IBV_WC_SUCCESS);
    expect_sent(&ab, 3, IBV_WC_SUCCESS);
    world_enter(B);
    assert_int_equal(rdma_disconnect(ba.id), 0);
    expect_cm(&a, RDMA_CM_EVENT_DISCONNECTED, 0);
    assert_int_equal(post_send(&ba, 4, 8, IBV_SEND_SIGNALED), 0);
    expect_received(&ab, 2, IBV_WC_SUCCESS);
    expect_sent(&ba, 4, IBV_WC_SUCCESS);
    link_fail(&ab);
    link_fail(&ba);
}

static void both_may_disconnect_at_once(void **state)
{
    (void)state;
    connect_usual();
    world_enter(A);
    assert_int_equal(rdma_disconnect(ab.id), 0);
    world_enter(B);
    assert_int_equal(rdma_disconnect(ba.id), 0);
    expect_cm(&a, RDMA_CM_EVENT_DISCONNECTED, 0);
    expect_cm(&b, RDMA_CM_EVENT_DISCONNECTED, 0);
}

static void second_disconnect_is_harmless(void **state)
{
    (void)state;
    connect_usual();
    world_enter(A);
    assert_int_equal(rdma_disconnect(ab.id), 0);
    assert_int_equal(rdma_disconnect(ab.id), 0);
    expect_cm(&b, RDMA_CM_EVENT_DISCONNECTED, 0);
    expect_no_cm(&b);
}

static void destroyed_id_disconnects(void **state)
{
    (void)state;
    connect_usual();
    world_enter(A);
    assert_int_equal(rdma_destroy_id(ab.id), 0);
    ab.id = NULL;
    expect_cm(&b, RDMA_CM_EVENT_DISCONNECTED, 0);
    expect_state(&ab, IBV_QPS_RTS);
    expect_state(&ba, IBV_QPS_RTS);
}

static void timewait_ends(void **state)
{
    (void)state;
    connect_usual();
    world_enter(A);
    assert_int_equal(rdma_disconnect(ab.id), 0);
    expect_cm(&b, RDMA_CM_EVENT_DISCONNECTED, 0);
    world_enter(B);
    assert_int_equal(rdma_disconnect(ba.id), 0);
    expect_cm(&a, RDMA_CM_EVENT_DISCONNECTED, 0);
    expect_cm(&a, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
    expect_cm(&b, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
}

/* --- addresses -------------------------------------------------------------------------------- */

static int bind_to(const struct sockaddr_storage *addr)
{
    struct sockaddr_storage target = *addr;
    struct rdma_cm_id *id;
    int error;

    world_enter(A);
    assert_int_equal(rdma_create_id(a.cm, &id, NULL, RDMA_PS_TCP), 0);
    error = rdma_bind_addr(id, (struct sockaddr *)&target) ? errno : 0;
    assert_int_equal(rdma_destroy_id(id), 0);
    return error;
}

static struct sockaddr_storage ipv4(const char *text)
{
    struct sockaddr_storage addr = {.ss_family = AF_INET};

    assert_int_equal(inet_pton(AF_INET, text, &((struct sockaddr_in *)&addr)->sin_addr), 1);
    return addr;
}

static void bind_tells_what_is_wrong(void **state)
{
    struct sockaddr_storage loopback = ipv4("127.0.0.1"), foreign = ipv4("192.0.2.1");

    (void)state;
    assert_int_equal(bind_to(&a.addr), EADDRINUSE); /* its listener has it */
    assert_int_equal(bind_to(&loopback), 0);        /* as if it were any address: to no device */
    assert_int_equal(bind_to(&foreign), EADDRNOTAVAIL);
}

static void calls_out_of_turn_are_refused(void **state)
{
    struct rdma_conn_param param = {.qp_num = 1};
    struct rdma_cm_id *id;

    (void)state;
    link_resolve(&ab, &a, &b.addr);
    assert_int_equal(rdma_resolve_route(ab.id, 1000), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_accept(ab.id, &param), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_establish(ab.id), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_disconnect(ab.id), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_reject(ab.id, NULL, 0), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_listen(ab.id, 1), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_create_id(a.cm, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_disconnect(id), -1); /* it has no device yet */
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_destroy_id(id), 0);
}

/* Whatever state is asked for: what a queue pair needs to be initialised. */
static void attributes_before_the_request(void **state)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
    int mask = 0;

    (void)state;
    link_resolve(&ab, &a, &b.addr);
    assert_int_equal(rdma_init_qp_attr(ab.id, &attr, &mask), 0);
    assert_int_equal(mask & 0x1fffff,
                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    assert_int_equal(attr.port_num, 1);
    assert_int_equal(attr.qp_access_flags, 0);
}

static const struct CMUnitTest tests[] = {
    BEHAVIOUR(both_sides_are_told),
    BEHAVIOUR(shared_queue_is_announced),
    BEHAVIOUR(nothing_private_is_zeros),
    BEHAVIOUR(answers_are_given_once),
    BEHAVIOUR(queue_pairs_are_as_agreed),
    BEHAVIOUR(attributes_need_a_connection),
    BEHAVIOUR(data_flow_both_ways_at_once),
    BEHAVIOUR(long_private_data_is_refused),
    BEHAVIOUR(depth_beyond_the_device_is_refused),
    BEHAVIOUR(reject_carries_private_data),
    BEHAVIOUR(long_reject_is_refused),
    BEHAVIOUR(destroyed_request_is_a_reject),
    BEHAVIOUR(listener_gone_is_a_reject),
    BEHAVIOUR(nobody_listens),
    BEHAVIOUR(withdrawn_request_is_told),
    BEHAVIOUR(disconnect_leaves_the_queue_pairs),
    BEHAVIOUR(both_may_disconnect_at_once),
    BEHAVIOUR(second_disconnect_is_harmless),
    BEHAVIOUR(destroyed_id_disconnects),
    BEHAVIOUR(timewait_ends),
    BEHAVIOUR(bind_tells_what_is_wrong),
    BEHAVIOUR(calls_out_of_turn_are_refused),
    BEHAVIOUR(attributes_before_the_request),
};

const struct behaviours behaviours_cm = BEHAVIOURS(tests);
