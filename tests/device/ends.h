/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two ends in one process, with plain verbs and the calls of transport/conn.c in their order: a
 * context of our own found by name, queue pairs of our own, moved by rdma_init_qp_attr().
 * Whatever must succeed and does not ends the test.
 */
#ifndef VBN_TESTS_DEVICE_ENDS_H
#define VBN_TESTS_DEVICE_ENDS_H

#include "world.h"

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MEMORY = 1 << 16, CQ_ENTRIES = 64, ALL_ACCESS = 0xf };

/* One side: device, queues, memory, a listener. */
struct end {
    int side;
    struct ibv_context *verbs;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_srq *srq; /* end_add_srq() */
    struct rdma_event_channel *cm;
    struct rdma_cm_id *listener;
    struct sockaddr_storage addr;
    uint8_t *memory;
    struct ibv_mr *mr;
};

/* One side of a connection, and what the peer's CM message said. */
struct link {
    struct end *end;
    struct rdma_cm_id *id;
    struct ibv_qp *qp;
    struct ibv_qp_cap cap; /* as the device gave it */
    struct rdma_conn_param told;
    uint8_t data[256];
};

/* How a connection is made. */
struct setting {
    uint8_t retry, rnr_retry;
    uint8_t reads_out, reads_in; /* the active side's; the passive side follows */
    uint8_t reads_taken;         /* what the passive side's queue pair takes */
    unsigned access;             /* of both queue pairs */
    uint32_t sends, recvs, inlines;
    uint8_t timeout; /* of an acknowledgement: 4.096 us * 2^timeout */
};

extern struct end a, b;
extern struct link ab, ba; /* the connection between them, from a to b */
extern const struct setting usual;

int ends_open(void **state); /* for every test: a and b, not connected */
int ends_close(void **state);
void end_add_srq(struct end *end, uint32_t max_wr);

/* --- connections --- */
void link_resolve(struct link *link, struct end *from, const struct sockaddr_storage *to);
void link_make_qp(struct link *link, struct end *end, const struct setting *setting);
void link_to_init(struct link *link, const struct setting *setting);
int link_request(struct link *active, const struct setting *setting, const void *data, size_t len);
void link_answer(struct link *passive, struct end *end, const struct setting *setting);
void link_establish(struct link *active, const struct setting *setting);
void connect_links(struct link *active, struct link *passive, const struct setting *setting);
void connect_usual(void); /* ab to ba */
void link_destroy(struct link *link);
void link_fail(struct link *link); /* its queue pair to the error state */
enum ibv_qp_state link_state(const struct link *link);
void expect_state(const struct link *link, enum ibv_qp_state state);

/* --- events: each is awaited --- */
struct rdma_cm_event *cm_event(struct end *end, enum rdma_cm_event_type type); /* to be acked */
void expect_cm(struct end *end, enum rdma_cm_event_type type, int status);
void expect_no_cm(struct end *end);                          /* after a while */
bool async_event(struct end *end, enum ibv_event_type type); /* acked; others are passed over */
void expect_no_async(struct end *end);                       /* after a while */

/* --- work --- */
struct ibv_sge sge_of(const struct end *end, uint32_t offset, uint32_t length);
/* A request whose wr_id is the offset of its bytes. */
struct ibv_send_wr request(enum ibv_wr_opcode opcode, struct ibv_sge *sge, unsigned flags);
int post(struct link *link, struct ibv_send_wr *wr);
int post_send(struct link *link, uint32_t offset, uint32_t length, unsigned flags);
int post_rdma(struct link *link, enum ibv_wr_opcode opcode, struct ibv_sge local, uint64_t remote,
              uint32_t rkey); /* signaled */
int post_recv(struct link *link, uint32_t offset, uint32_t length);
void fill(struct end *end, uint32_t offset, uint32_t length, uint8_t first);
void expect_bytes(const struct end *end, uint32_t offset, uint32_t length, uint8_t first);

/* --- completions: each is awaited --- */
bool poll_one(struct end *end, struct ibv_cq *cq, struct ibv_wc *wc);
struct ibv_wc expect_sent(struct link *link, uint64_t wr_id, enum ibv_wc_status status);
struct ibv_wc expect_received(struct link *link, uint64_t wr_id, enum ibv_wc_status status);
/* With specified, or where the world may have the quirk with LOC_QP_OP_ERR. */
void expect_local_fault(struct link *link, struct ibv_cq *cq, uint64_t wr_id,
                        enum ibv_wc_status specified, enum quirk quirk);
void expect_silence(struct end *end, struct ibv_cq *cq); /* after a while */

#endif
