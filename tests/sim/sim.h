/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric's inside: its objects, and what its files offer each other.
 *
 * Ownership: every object ever made stays allocated until fabric_destroy(), dead or alive, so
 * that a pointer kept too long is recognised (by its magic) instead of followed. Only what hangs
 * off an object (work requests, rings) goes earlier, back to the pool.
 *
 * Time: callbacks run only from the event heap. They get the object and a number, mostly a
 * generation: an event whose generation is past does nothing, so events are never searched for.
 */
#ifndef VBN_TESTS_SIM_SIM_H
#define VBN_TESTS_SIM_SIM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "fabric.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#define SIM_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

enum { SIM_PORT = 1, SIM_QPN_FIRST = 0x11, SIM_PSN_MASK = 0xffffff, SIM_TORN_MAX = 128 };
#define SIM_MTU IBV_MTU_1024
enum { SIM_MTU_BYTES = 128 << SIM_MTU, SIM_GARBLE_BYTES = 16 };

/* ---- objects ---- */

enum sim_kind {
    SIM_CONTEXT,
    SIM_PD,
    SIM_MR,
    SIM_CHANNEL,
    SIM_CQ,
    SIM_SRQ,
    SIM_QP,
    SIM_CM_CHANNEL,
    SIM_CM_ID,
    SIM_CM_EVENT,
    SIM_AH,
    SIM_ATTACHMENT,
    SIM_MEMBER,
    SIM_KINDS
};

enum { SIM_ALIVE = 0x51a11fe5, SIM_DEAD = 0xdeadfab5 };

struct sim_obj {
    uint32_t magic;
    uint8_t kind;
    bool hidden; /* the fabric's own, or not yet handed out: no leak */
    int rank;
    uint32_t number; /* from 1, by kind */
    struct sim_obj *next;
};

struct sim_fd {
    int fd;
    bool raised;
    bool nonblocking; /* seen to be */
};

struct sim_context {
    struct sim_obj obj;
    struct sim_node *node;
    int users; /* PDs, CQs, channels */
    struct sim_fd async;
    struct sim_async *async_head, *async_tail;
    struct sim_context *node_next; /* the node's contexts, for its port events */
    struct verbs_context vctx;
};

struct sim_pd {
    struct sim_obj obj;
    int users;
    struct ibv_pd pd;
};

struct sim_mr {
    struct sim_obj obj;
    unsigned access;
    int posted; /* scatter/gather entries of posted work that name it */
    struct ibv_mr mr;
};

struct sim_channel {
    struct sim_obj obj;
    struct sim_fd event;
    struct sim_cq **queue; /* ring of CQs with an unread event */
    uint32_t cap, head, count;
    struct ibv_comp_channel ch;
};

struct sim_cqe {
    struct ibv_wc wc;
    struct sim_qp *qp;     /* NULL once the QP is gone */
    struct sim_wqe *wqe;   /* a send's, NULL for receives */
    struct sim_rwqe *rwqe; /* a receive's */
};

enum sim_arm { SIM_ARM_NONE, SIM_ARM_SOLICITED, SIM_ARM_ANY };

struct sim_cq {
    struct sim_obj obj;
    struct sim_cqe *ring;
    uint32_t cap, head, count, visible;
    enum sim_arm arm;
    bool overrun;
    bool hold_armed, held_solicited;
    int users;
    uint32_t reported, acked, async_reported, async_acked;
    struct ibv_cq cq;
};

/* A posted receive, until its completion is polled. */
struct sim_rwqe {
    struct sim_rwqe *next;
    uint64_t wr_id;
    uint64_t sum;
    struct sim_rq *rq; /* where its slot is given back; NULL: the queue is gone */
    uint32_t bytes;    /* of this struct, for the pool */
    int num_sge;
    struct ibv_sge sge[];
};

struct sim_rq {
    struct sim_rwqe *head, *tail;
    uint32_t posted; /* waiting for a message */
    uint32_t used;   /* the same and those taken whose completion was not polled */
    uint32_t max_wr, max_sge;
};

struct sim_srq {
    struct sim_obj obj;
    struct sim_rq rq;
    uint32_t limit;
    int users;
    uint32_t async_reported, async_acked;
    struct ibv_srq srq;
};

struct sim_ah {
    struct sim_obj obj;
    struct ibv_ah_attr attr;
    int posted; /* sends that go by it */
    struct ibv_ah ah;
};

/* A queue pair listens to a group. */
struct sim_attachment {
    struct sim_obj obj;
    struct sim_attachment *next;
    struct sim_qp *qp;
    union ibv_gid mgid;
    uint64_t *last_ns; /* by sender: the arrival of its last datagram */
    uint32_t senders;
};

enum sim_wqe_state { SIM_WQE_QUEUED, SIM_WQE_SENT, SIM_WQE_DONE };

/* A posted send, until a completion that covers it is polled (or, iWARP, until it arrived). */
struct sim_wqe {
    struct sim_wqe *next;
    uint64_t wr_id;
    uint64_t remote_addr, compare_add, swap, result;
    uint64_t sum;
    uint64_t ready_ns; /* earliest arrival */
    uint64_t ack_ns;
    struct sim_ah *ah; /* of a datagram */
    uint32_t rkey, qkey, length, seq;
    uint32_t bytes; /* of this struct, for the pool */
    __be32 imm;
    uint16_t num_sge;
    uint8_t opcode, state, status;
    bool signaled, fence, solicited, inlined;
    bool executed;        /* the responder did it, the acknowledgement was lost */
    bool completed;       /* the device is done with it */
    bool told;            /* by a completion of its own */
    bool slot_free;       /* no longer counted in sq_used */
    bool retired;         /* a completion that covers it was polled: the buffer is the program's */
    void *copy;           /* the bytes themselves (inline, or taken out of the program's hands) */
    struct ibv_sge sge[]; /* with a copy: one entry that points to it */
};

struct sim_qp {
    struct sim_obj obj;
    struct sim_node *node;
    enum ibv_qp_state state; /* the device's view; qp.state is what the program last set */
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    struct sim_node *dest; /* from the address vector; NULL: leads nowhere */
    bool sq_sig_all;

    /* send queue: head..., then ack_next (oldest not completed), then tx_next (not arrived) */
    struct sim_wqe *sq_head, *sq_tail, *ack_next, *tx_next, *early_next;
    uint32_t sq_used;
    uint32_t post_seq; /* of the next posted message */
    uint32_t reads_out;
    uint64_t tx_last_ns, ack_last_ns;
    uint32_t tx_gen, ack_gen;
    bool tx_armed, ack_armed, early_armed, tx_halted;
    uint32_t retries, rnr_tries;

    struct sim_rq rq; /* without an SRQ */
    struct sim_torn {
        uint64_t addr;
        uint32_t rkey, length; /* 0: none */
        uint32_t gen;
        uint8_t bytes[SIM_TORN_MAX];
    } torn;          /* a write that has come, but not all of which shows */
    uint32_t rx_seq; /* expected next */
    bool rx_any;     /* something arrived */
    bool peer_sent;  /* iWARP: the connecting side has sent */
    bool closed;     /* in the error state by its owner's wish */
    bool flushing, flush_recvs, last_wqe_raised;
    struct sim_id *iw_id;
    int attachments;    /* to groups */
    uint32_t ud_number; /* from 0, among those for datagrams */
    uint32_t async_reported, async_acked;
    struct ibv_qp qp;
};

/* ---- CM ---- */

/* The kernel's two layers of state, as far as they show. */
enum sim_id_state {
    SIM_ID_IDLE,
    SIM_ID_BOUND,
    SIM_ID_ADDR_QUERY,
    SIM_ID_ADDR_RESOLVED,
    SIM_ID_ROUTE_QUERY,
    SIM_ID_ROUTE_RESOLVED,
    SIM_ID_CONNECT,
    SIM_ID_DISCONNECT,
    SIM_ID_LISTEN,
    SIM_ID_REMOVED
};

enum sim_cm_state {
    SIM_CM_NONE,
    SIM_CM_REQ_SENT,
    SIM_CM_REQ_RCVD,
    SIM_CM_REP_SENT,
    SIM_CM_REP_RCVD,
    SIM_CM_ESTABLISHED,
    SIM_CM_DREQ_SENT,
    SIM_CM_DREQ_RCVD,
    SIM_CM_TIMEWAIT,
    SIM_CM_OVER
};

struct sim_cm_channel {
    struct sim_obj obj;
    struct sim_fd event;
    struct sim_cm_event *head, *tail;
    int ids;
    struct rdma_event_channel ch;
};

struct sim_cm_event {
    struct sim_obj obj;
    struct sim_cm_event *next;
    struct sim_id *owner; /* whose destruction waits for it; a listener for its requests */
    struct sim_id *id;
    struct sim_member *member; /* of a group, whose leaving waits for it, too */
    uint8_t data[256];
    struct rdma_cm_event ev;
};

struct sim_id {
    struct sim_obj obj;
    struct sim_node *node;
    enum sim_id_state state;
    enum sim_cm_state cm;
    bool bound_any; /* no device yet */
    bool has_user;  /* the program would see its events (false: request not accepted yet) */
    bool passive;
    int backlog;  /* requests that may wait unread */
    uint32_t gen; /* timers of an earlier step are void */
    uint32_t reported, acked;
    uint64_t sent_ns; /* when its last message arrives: the next comes after, unless one is lost */
    uint16_t port;
    struct sim_id *node_next; /* the node's bound ids */
    struct sim_id *peer;
    struct sim_member *members;
    struct sim_context *context;

    uint32_t local_qpn, remote_qpn, local_psn, remote_psn;
    uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count;
    uint8_t ack_timeout; /* of the option, 0: the default */
    struct sim_node *remote_node;
    struct rdma_cm_id id;
};

/* A group that an id has joined, or asked to, until it leaves. */
struct sim_member {
    struct sim_obj obj;
    struct sim_member *next; /* of the id's */
    struct sim_id *id;
    struct sockaddr_storage addr;
    void *context;
    uint32_t reported, acked;
};

/* ---- nodes, ranks ---- */

struct sim_node {
    int number;
    struct fabric_node_attr attr;
    struct sockaddr_storage addr;
    bool link_up, address_away, powered, removed;
    uint16_t next_port;
    int qps;
    struct sim_context *contexts;
    struct sim_id *bound;
    uint32_t flap_gen;
    uint32_t garble_ppm; /* of what it sends, see fabric_node_garble() */
    struct ibv_device device;
};

struct sim_rank {
    int number;
    struct sim_node *node;
    bool dead;
    uint64_t said_without_address;
    uint32_t *asked; /* by asker: how many of its requests for a connection have come to an id */
    int asked_cap;
    struct sim_context *cm_context; /* librdmacm's own, opened at the first bound id */
    struct sim_pd *cm_pd;
};

/* ---- the one fabric ---- */

typedef void sim_run_fn(void *obj, uint64_t arg);

struct sim_due {
    uint64_t at_ns, order;
    sim_run_fn *run;
    void *obj;
    uint64_t arg;
};

struct sim_fabric {
    bool exists;
    uint64_t seed;
    struct fabric_config config;
    uint64_t rng[4];
    uint64_t now_ns, order;
    struct sim_due *heap;
    size_t heap_count, heap_cap;

    struct sim_node **nodes;
    int node_count, node_cap;
    struct sim_rank *ranks;
    int rank_count, rank_cap;
    int current; /* rank, -1: none */
    bool stepping;

    struct sim_obj *objects; /* all, newest first */
    uint32_t numbers[SIM_KINDS], alive[SIM_KINDS];
    struct sim_qp **qps;
    size_t qp_count, qp_cap;
    struct sim_mr **mrs;
    size_t mr_count, mr_cap;
    struct sim_blocked *blocked;
    struct sim_attachment *attachments; /* of all queue pairs, newest first */
    uint32_t ud_count;                  /* of queue pairs for datagrams ever made */
    struct fabric_counters counters;
};

extern struct sim_fabric sim;

/* ---- pool.c: the fabric's memory; never fails, never counted as the program's ---- */
void *sim_zalloc(size_t bytes);
void *sim_regrow(void *old, size_t bytes);
void sim_release(void *ptr);
void *sim_pool_get(size_t bytes); /* not cleared */
void sim_pool_put(void *ptr, size_t bytes);
void sim_pool_fini(void);
bool sim_pool_is_inside(void); /* an allocation of the fabric itself is under way */
uint64_t sim_pool_bytes(void);

/* ---- sched.c ---- */
void sim_rng_init(uint64_t seed);
uint64_t sim_rand(void);
uint64_t sim_below(uint64_t bound); /* 0 for bound 0 */
bool sim_chance(uint32_t ppm);      /* draws nothing for 0 */
/* What a hostile node sends, with a byte changed now and then. */
void sim_garble(const struct sim_node *from, uint8_t *bytes, uint64_t len);
void sim_at(uint64_t at_ns, sim_run_fn *run, void *obj, uint64_t arg);
void sim_after(uint64_t delay_ns, sim_run_fn *run, void *obj, uint64_t arg);
uint64_t sim_latency(void); /* a message's way, jitter included */
void sim_sched_fini(void);

/* ---- trace.c ---- */
enum sim_trace {
    SIM_T_MARK,
    SIM_T_CALL_FAILS,
    SIM_T_POST_SEND,
    SIM_T_POST_RECV,
    SIM_T_ARRIVE,
    SIM_T_RNR,
    SIM_T_LOST,
    SIM_T_NAK,
    SIM_T_CQE,
    SIM_T_POLL,
    SIM_T_QP_STATE,
    SIM_T_QP_ERROR,
    SIM_T_ASYNC,
    SIM_T_CM_SEND,
    SIM_T_CM_LOST,
    SIM_T_CM_EVENT,
    SIM_T_CREATE,
    SIM_T_DESTROY,
    SIM_T_LINK,
    SIM_T_KILL,
    SIM_T_GHOST,
    SIM_T_PARTIAL,
    SIM_T_DATAGRAM,
    SIM_T_DATAGRAM_LOST
};
void sim_trace(enum sim_trace what, uint64_t a, uint64_t b, uint64_t c);
void sim_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
void sim_trace_reset(void);

/* ---- object.c ---- */
void *sim_obj_new(enum sim_kind kind, size_t bytes, size_t obj_offset);
void sim_obj_kill(struct sim_obj *obj);
/* False, and a violation, if obj is dead, of another kind, or another rank's. */
bool sim_obj_check(const struct sim_obj *obj, enum sim_kind kind, const char *call);
const char *sim_kind_name(enum sim_kind kind);
int sim_leaks_report(void);
void sim_objects_free(void);
void sim_fd_open(struct sim_fd *fd);
void sim_fd_close(struct sim_fd *fd);
void sim_fd_raise(struct sim_fd *fd);
void sim_fd_lower(struct sim_fd *fd);
/* A read that found nothing: EAGAIN, and a violation if the descriptor would have blocked. */
int sim_fd_empty(struct sim_fd *fd, const char *call);

/* ---- node.c, device.c ---- */
struct sim_rank *sim_rank_current(void);
bool sim_rank_is_dead(int rank);
void sim_rank_asked(int asker, int asked);
bool sim_path_up(const struct sim_node *from, const struct sim_node *to);
struct sim_node *sim_node_by_addr(const struct sockaddr *addr);
struct sim_node *sim_node_by_gid(const union ibv_gid *gid);
void sim_node_gid(const struct sim_node *node, int index, union ibv_gid *gid);
int sim_node_gid_index(const struct sim_node *node);
bool sim_node_is_iwarp(const struct sim_node *node);
bool sim_node_is_soft_iwarp(const struct sim_node *node);
struct sim_context *sim_context_open(struct sim_node *node, bool hidden);
struct sim_context *sim_context_of(struct ibv_context *context);
struct sim_pd *sim_pd_new(struct sim_context *context, bool hidden);
struct sim_async {
    struct sim_async *next;
    struct ibv_async_event event;
};
void sim_async_raise(struct sim_context *context, const struct ibv_async_event *event);
void sim_async_qp(struct sim_qp *qp, enum ibv_event_type type);
/* Unread events of a destroyed object vanish. */
void sim_async_forget(struct sim_context *context, const void *element);

/* ---- mem.c ---- */
enum sim_key_fault {
    SIM_KEY_OK,
    SIM_KEY_NONE,
    SIM_KEY_STALE,
    SIM_KEY_PD,
    SIM_KEY_BOUNDS,
    SIM_KEY_ACCESS
};
struct sim_mr *sim_mr_find(uint32_t key, bool is_remote);
enum sim_key_fault sim_key_check(uint32_t key, bool is_remote, const struct ibv_pd *pd,
                                 uint64_t addr, uint64_t length, unsigned access);
const char *sim_key_fault_text(enum sim_key_fault fault);
void sim_sge_hold(const struct ibv_sge *sge, int count, int delta);
uint64_t sim_sum(const struct ibv_sge *sge, int count);       /* all bytes */
uint64_t sim_sum_edges(const struct ibv_sge *sge, int count); /* first and last few of each */
/* Every key is registered, for all these bytes. */
bool sim_sge_alive(const struct ibv_sge *sge, int count);
void sim_sge_copy(const struct ibv_sge *to, int to_count, const struct ibv_sge *from,
                  int from_count, uint64_t length);

/* ---- cq.c ---- */
void sim_cq_push(struct sim_cq *cq, const struct sim_cqe *cqe, bool solicited);
void sim_cq_detach(struct sim_cq *cq, struct sim_qp *qp, bool purge);
int sim_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int sim_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/* ---- rq.c ---- */
int sim_rq_post(struct sim_rq *rq, const struct ibv_recv_wr *wr, const char *call);
struct sim_rwqe *sim_rq_take(struct sim_rq *rq);
void sim_rwqe_done(struct sim_rwqe *rwqe); /* its completion was polled, or never will be */
void sim_rq_drop(struct sim_rq *rq);
int sim_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int sim_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
struct sim_rwqe *sim_srq_take(struct sim_srq *srq);

/* ---- post.c, engine.c, respond.c, qp.c, qp_error.c ---- */
int sim_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
bool sim_wqe_is_read(const struct sim_wqe *wqe);
void sim_wqe_copy(struct sim_wqe *wqe); /* takes a copy of its bytes; the keys are let go */
void sim_wqe_free(struct sim_wqe *wqe);
void sim_wqe_complete(struct sim_qp *qp, struct sim_wqe *wqe, enum ibv_wc_status status);
void sim_wqe_verify(const struct sim_qp *qp, struct sim_wqe *wqe, const char *when);
void sim_sq_reap(struct sim_qp *qp);
void sim_wqe_retire(struct sim_qp *qp, struct sim_wqe *wqe);
void sim_tx_kick(struct sim_qp *qp);
void sim_stream_drain(struct sim_qp *qp);
void sim_early_kick(struct sim_qp *qp); /* iWARP: completions that do not wait for the peer */
void sim_push_recv(struct sim_qp *qp, struct sim_rwqe *rwqe, const struct sim_wqe *from,
                   enum ibv_wc_status status);

enum sim_answer { SIM_ANSWER_ACK, SIM_ANSWER_RNR, SIM_ANSWER_NAK, SIM_ANSWER_SILENCE };
/* The responder executes one message. NAK: *status is what the requester completes with. */
enum sim_answer sim_respond(struct sim_qp *responder, const struct sim_qp *requester,
                            struct sim_wqe *wqe, enum ibv_wc_status *status);
uint64_t sim_receive_room(const struct sim_rwqe *rwqe);
/* What is wrong with the keys of a receive. */
enum sim_key_fault sim_receive_fault(const struct sim_qp *qp, const struct sim_rwqe *rwqe);
enum ibv_wc_status sim_respond_finish(struct sim_qp *requester, struct sim_wqe *wqe);
struct sim_qp *sim_qp_by_number(uint32_t qp_num);
struct sim_qp *sim_qp_peer(const struct sim_qp *qp); /* alive, or NULL */
bool sim_qp_is_ud(const struct sim_qp *qp);
/* What is wrong with an address vector, or NULL. */
const char *sim_route_fault(const struct sim_node *node, const struct ibv_ah_attr *attr);
void sim_qp_set_state(struct sim_qp *qp, enum ibv_qp_state state);
void sim_qp_drop_work(struct sim_qp *qp);
void sim_qp_error(struct sim_qp *qp, const char *why);
void sim_qp_flush(struct sim_qp *qp, bool and_receives); /* in the error state */
void sim_qp_iw_connect(struct sim_qp *qp, struct sim_id *id, uint32_t remote_qpn);
void sim_qp_reclaim(struct sim_qp *qp); /* the process is gone */
void sim_ghosts_spawn(struct sim_qp *qp);

/* ---- cm_*.c ---- */
enum sim_cm_kind { SIM_MSG_REQ, SIM_MSG_REP, SIM_MSG_RTU, SIM_MSG_REJ, SIM_MSG_DREQ, SIM_MSG_DREP };
struct sim_cm_msg {
    enum sim_cm_kind kind;
    struct sim_id *from, *to; /* to: NULL for a REQ */
    uint32_t from_gen;
    struct sim_node *from_node, *to_node;
    uint16_t port; /* of a REQ */
    uint32_t tries;
    bool is_repeat;
    struct sim_id *delivered_to;
    struct sockaddr_storage src, dst;
    uint32_t qp_num, psn;
    uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count, flow_control, srq;
    uint16_t reason;
    uint16_t data_len;
    uint8_t data[256];
};
struct sim_id *sim_id_new(struct sim_cm_channel *channel, void *context, enum rdma_port_space ps);
struct sim_id *sim_id_of(struct rdma_cm_id *id, const char *call);
int sim_id_attach(struct sim_id *id, struct sim_node *node);
bool sim_id_has_device(const struct sim_id *id, const char *call); /* false: a violation */
void sim_id_unbind(struct sim_id *id);
struct sim_id *sim_id_listener(struct sim_node *node, uint16_t port);
void sim_cm_post(struct sim_id *id, enum rdma_cm_event_type type, int status,
                 const struct sim_cm_msg *msg, uint16_t padded_len);
void sim_cm_post_request(struct sim_id *listener, struct sim_id *fresh,
                         const struct sim_cm_msg *msg);
void sim_cm_post_join(struct sim_member *member, int status);
/* Unread events of the id vanish, or only those of its membership of a group. */
void sim_cm_forget(struct sim_id *id, const struct sim_member *member);
void sim_fault(enum fabric_fault kind);
void sim_cm_send(struct sim_id *from, enum sim_cm_kind kind, struct sim_cm_msg *proto);
void sim_cm_hangup(struct sim_id *id); /* what the kernel tells the peer when an id goes */
void sim_cm_timewait(struct sim_id *id);
int sim_err(int error); /* sets errno, returns -1 */
void sim_id_port_set(struct sockaddr_storage *addr, uint16_t port);
uint16_t sim_addr_port(const struct sockaddr *addr);
bool sim_addr_is_any(const struct sockaddr *addr);
size_t sim_addr_len(const struct sockaddr *addr);
void sim_id_reclaim(struct sim_id *id);
void sim_iw_closed(struct sim_id *id); /* iWARP: the stream ended under an established id */

/* ---- mcast.c ---- */
/* What the event of a join tells. */
void sim_member_param(const struct sim_member *member, bool joined, struct rdma_ud_param *param);
const char *sim_datagram_fault(const struct sim_qp *qp, const struct ibv_send_wr *wr,
                               uint64_t length);
void sim_datagram_address(const struct sim_qp *qp, struct sim_wqe *wqe,
                          const struct ibv_send_wr *wr);
void sim_datagram_send(struct sim_qp *qp, const struct sim_wqe *wqe);

/* ---- fail.c ---- */
/* True: this call is to fail. call is its name. */
bool sim_fails(enum fabric_fail_class which, const char *call);
bool sim_fails_armed(enum fabric_fail_class which, const char *call); /* never at random */
void sim_fail_reset(void);

/* ---- faults.c ---- */
void sim_faults_node(struct sim_node *node); /* starts a node's clock of link flaps */

#endif
