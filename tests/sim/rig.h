/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the fabric's own tests share: ranks with their verbs objects, connected by the same
 * sequence of calls the transport uses.
 */
#ifndef VBN_TESTS_SIM_RIG_H
#define VBN_TESTS_SIM_RIG_H

#include "fabric.h"

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

enum { RIG_BYTES = 1 << 16, RIG_SENDS = 64, RIG_RECVS = 64, RIG_INLINE = 64 };

/* One rank: device, memory, queues, a listener. */
struct rig {
    int node, rank;
    bool has_srq;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    struct rdma_event_channel *cm;
    struct rdma_cm_id *listener;
    struct sockaddr_storage addr;
    unsigned char *memory;
    struct ibv_mr *mr;
};

/* One side of a connection. */
struct link {
    struct rig *rig;
    struct rdma_cm_id *id;
    struct ibv_qp *qp;
    uint8_t data[256]; /* private data that came with the last event that had some */
    int data_len;
    int status;
};

void rig_open(struct rig *rig, const struct fabric_node_attr *attr, bool has_srq);
void rig_close(struct rig *rig);

/* Steps the fabric until the rank has a CM event, of this type, which is returned unacked. */
struct rdma_cm_event *rig_event(struct rig *rig, enum rdma_cm_event_type type);
struct rdma_cm_event *rig_event_any(struct rig *rig);           /* NULL: none will come */
void rig_expect(struct rig *rig, enum rdma_cm_event_type type); /* and acks it */

void rig_qp(struct link *link);
void rig_resolve(struct link *active, struct rig *from, const struct sockaddr_storage *to);
int rig_request(struct link *active, const void *data, int len); /* rdma_connect */
void rig_to_rts(struct link *link);
void rig_connect(struct link *active, struct rig *from, struct link *passive, struct rig *to);
void rig_hangup(struct link *active, struct link *passive);
void rig_destroy(struct link *link);
void rig_end(struct link *one, struct link *other); /* both links, their rigs, and the fabric */

int rig_send(struct link *link, uint32_t offset, uint32_t length, unsigned flags);
int rig_write(struct link *from, uint32_t offset, struct link *to, uint32_t to_offset,
              uint32_t length);
int rig_read(struct link *by, uint32_t offset, struct link *of, uint32_t of_offset,
             uint32_t length);
int rig_recv(struct link *link, uint32_t offset, uint32_t length);
/* The next completion, stepping as needed; false: none will come. */
bool rig_poll(struct rig *rig, struct ibv_wc *wc);
void rig_poll_status(struct rig *rig, enum ibv_wc_status status, uint64_t wr_id);
void rig_settle(uint64_t duration_ns);

#endif
