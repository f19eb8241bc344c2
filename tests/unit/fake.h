/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stand-ins for libibverbs, librdmacm and getifaddrs(): they move no byte by themselves. Each call
 * is counted and can be made to fail; what was posted is kept for the test to look at; and the test
 * says which completions and events come. (tests/sim has devices that work; these obey.)
 */
#ifndef VBN_TESTS_FAKE_H
#define VBN_TESTS_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* --- calls ------------------------------------------------------------------------------------ */

enum fake_call {
    FAKE_GET_DEVICE_LIST,
    FAKE_OPEN_DEVICE,
    FAKE_QUERY_DEVICE,
    FAKE_QUERY_PORT,
    FAKE_QUERY_GID,
    FAKE_ALLOC_PD,
    FAKE_REG_MR,
    FAKE_COMP_CHANNEL,
    FAKE_CREATE_CQ,
    FAKE_REQ_NOTIFY,
    FAKE_CREATE_SRQ,
    FAKE_CREATE_QP,
    FAKE_MODIFY_QP,
    FAKE_POST_SEND,
    FAKE_POST_RECV,
    FAKE_POLL_CQ,
    FAKE_GETIFADDRS,
    FAKE_BIND_NETLINK,
    FAKE_CREATE_CHANNEL,
    FAKE_CREATE_ID,
    FAKE_BIND_ADDR,
    FAKE_LISTEN,
    FAKE_RESOLVE_ADDR,
    FAKE_RESOLVE_ROUTE,
    FAKE_INIT_QP_ATTR,
    FAKE_CONNECT,
    FAKE_ACCEPT,
    FAKE_ESTABLISH,
    FAKE_REJECT,
    FAKE_DISCONNECT,
    FAKE_JOIN,
    FAKE_CREATE_AH,
    FAKE_ATTACH,
    FAKE_CALLS
};

/* The NTH call from now (1: the next) fails once with ERROR; NTH 0: every call does. */
void fake_fail(enum fake_call call, unsigned nth, int error);
unsigned fake_count(enum fake_call call);

/* Forgets everything, also the devices. Fails the test if an object was left. */
void fake_reset(void);

/* Objects of all kinds made and not destroyed. */
int fake_live(void);

/* --- the host --------------------------------------------------------------------------------- */

#define FAKE_PORTS 2
#define FAKE_GIDS  4

struct fake_device {
    struct ibv_device device;
    struct ibv_device_attr attr;
    struct ibv_port_attr port[FAKE_PORTS];
    struct ibv_gid_entry gid[FAKE_GIDS]; /* of any port; zeros: an empty entry */
    uint32_t max_inline;                 /* more makes ibv_create_qp() fail */
    uint32_t max_srq;                    /* the same of ibv_create_srq(), whatever attr claims */
    size_t max_mr_len;                   /* bytes registered at once, 0: any */
};

/* A working device of one active port, to be changed as the test likes. */
struct fake_device *fake_device_add(const char *name);

/* An address ("10.0.0.1", "fd00::1") on the netdev IFNAME; DEVICE NULL: of no RDMA device. */
void fake_address_add(const char *ifname, const char *ip, struct fake_device *device, uint8_t port);
void fake_address_flags(const char *ifname, unsigned flags);

/* From now on the host has rtnetlink; and it tells LEN bytes, to all its sockets as one. */
void fake_netlink(void);
void fake_netlink_tells(size_t len);

/* --- queues ----------------------------------------------------------------------------------- */

#define FAKE_BYTES 128 /* of a posted message or write that are kept */

struct fake_send {
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    unsigned char bytes[FAKE_BYTES];
};

struct fake_rq {
    struct ibv_recv_wr *wr; /* all that were posted */
    struct ibv_sge *sge;
    unsigned count, done;
};

struct fake_qp {
    struct ibv_qp qp;
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr; /* as last modified */
    int attr_mask;
    enum ibv_qp_state state;
    struct fake_send *sends; /* all that were posted */
    unsigned send_count;
    unsigned send_done; /* of them completed, or known to be */
    struct fake_rq rq;
};

struct fake_qp *fake_qp(struct ibv_qp *qp);

/* How many receives wait in SRQ, or in QP's own queue. */
unsigned fake_srq_posted(struct ibv_srq *srq);
unsigned fake_qp_posted(struct ibv_qp *qp);

/* Of a list of receives only so many are taken before the one that FAKE_POST_RECV fails. */
void fake_recv_taken(unsigned count);

/* The Nth posted send of QP (from 0) completes with STATUS. */
void fake_send_completes(struct ibv_qp *qp, unsigned n, enum ibv_wc_status status);

/* A message of LEN bytes arrives at QP, into the oldest receive, which fails where it is too short.
 * False: none was posted. */
bool fake_message(struct ibv_qp *qp, const void *bytes, size_t len);
bool fake_message_imm(struct ibv_qp *qp, const void *bytes, size_t len, uint32_t imm_data);
/* LEN bytes that were put, elsewhere: only IMM_DATA takes a buffer. */
bool fake_put_imm(struct ibv_qp *qp, size_t len, uint32_t imm_data);

/* The buffer of the oldest receive has BYTES in it from before. */
void fake_recv_had(struct ibv_qp *qp, const void *bytes, size_t len);

/* The oldest receive of QP completes with STATUS and no message. */
void fake_recv_fails(struct ibv_qp *qp, enum ibv_wc_status status);

/* All that is outstanding on QP is flushed; done by itself when QP goes to the error state. */
void fake_flush(struct ibv_qp *qp);
void fake_flush_by_itself(bool yes);

/* Whether a queue pair that is destroyed takes what it has reported, and nobody has polled, out of
 * its completion queue, as libmlx5's do. */
void fake_destroy_purges(bool yes);

/* Called for each queue pair before it is destroyed; NULL, the default: nothing is. */
void fake_on_destroy_qp(void (*fn)(const struct ibv_qp *qp));

/* Any completion. */
void fake_completion(struct ibv_cq *cq, const struct ibv_wc *wc);
unsigned fake_completions(const struct ibv_cq *cq); /* not yet polled */
bool fake_cq_armed(const struct ibv_cq *cq);

/* An asynchronous event of the device, or of its PORT, which is 1 where there is no QP. */
void fake_async(struct ibv_context *verbs, enum ibv_event_type type, struct ibv_qp *qp);
void fake_port_event(int port, enum ibv_event_type type);
unsigned fake_async_acked(void);

/* --- connections ------------------------------------------------------------------------------ */

struct fake_id {
    struct rdma_cm_id id;
    struct sockaddr_storage bound, dst;
    uint16_t port;
    bool listening, connected, accepted, established, rejected, disconnected;
    struct rdma_conn_param param; /* of connect or accept */
    unsigned char data[256];      /* private data of connect, accept or reject */
    size_t data_len;
};

struct fake_id *fake_id(struct rdma_cm_id *id);

/* The last reject, kept although its id is gone. */
extern struct fake_id fake_rejected;

/* Of the next queue pair that is made ready. */
extern enum ibv_mtu fake_path_mtu;

/* An event for ID, with private data. */
void fake_event(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status, const void *data,
                size_t len);

/* A peer's request at LISTENER. */
struct rdma_cm_id *fake_request(struct rdma_cm_id *listener, const void *data, size_t len);

/* rdma_disconnect() is followed by its event (the default), or not. */
void fake_disconnect_by_itself(bool yes);

/* Events got and not acknowledged. */
int fake_events_unacked(void);

/* --- inside ----------------------------------------------------------------------------------- */

/* True, with errno set: this call is to fail. */
bool fake_fails(enum fake_call call);
int fake_error(enum fake_call call);        /* the same as an error number, 0: it goes well */
void fake_born(int n);                      /* an object more, or fewer */
void *fake_alloc(size_t count, size_t len); /* zeroed; never fails */

/* Descriptors that are readable while what they share counts something. The first makes *COUNTER,
 * 0 before, where there is none. */
int fake_counter(int *counter);
void fake_count_up(int counter);
void fake_count_down(int counter);
void fake_counter_close(int counter);
struct ibv_context *fake_cm_verbs(struct fake_device *device); /* librdmacm's own */
void fake_cm_reset(void);

#endif
