/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device: which one and which port, what it can do, and its protection domain. What a device
 * claims is checked by trying: a queue pair is made and thrown away.
 */
#ifndef VBN_DEVICE_H
#define VBN_DEVICE_H

#include "netif.h"

struct vbn_device {
    struct ibv_context *verbs;
    struct ibv_pd *pd;
    char name[64];
    uint8_t port;
    bool iwarp, has_srq, has_atomics;
    bool software;    /* its work is done by the processors of this host */
    bool sound_reads; /* a read that has completed has brought its data, */
    bool good_reads;  /* and is as quick as a write: what is long is read */
    bool keeps_drain; /* what is posted in the error state never completes: soft-iWARP; as seen */
    bool link_up; /* as far as is known: nothing is asked of the connection manager without it */
    uint32_t cq_size, max_qp_wr, max_srq_wr, max_sge, max_inline, sq_depth;
    uint8_t max_read_out, max_read_in; /* RDMA reads in flight as initiator, as responder */
    uint32_t max_msg_size;
    uint32_t signal_from; /* bytes of sends that are quicker if they ask for their completion */
    uint64_t rate_mbps;
    struct vbn_netif addrs[4]; /* of this port, best first */
    unsigned addr_count;
    int watch;                        /* of the host's netdevs: vbn_netif_watch() */
    bool addrs_seen;                  /* addrs_there holds until the watch says more */
    uint32_t addrs_there, addrs_told; /* of them, by bits: there, and as last told */
};

/*
 * Chooses by the options, opens and probes. On failure *ERR tells a person what stands in the way
 * and what to do. vbn_device_fini() also after a failed open.
 */
int vbn_device_open(vbn_context_t *ctx, struct vbn_error *err);
/* 0 where the host has any RDMA device; else VBN_ERR_NO_DEVICE and the reason. */
int vbn_device_any(struct vbn_error *err);

/* An address of the port's from which DST is spoken to: of the same kind. NULL: it has none. */
const union vbn_sockaddr *vbn_device_addr_for(const struct vbn_device *dev,
                                              const union vbn_sockaddr *dst);

/*
 * Asks for the port's state. While the link is down the connection manager must have nothing to
 * send: on soft-RoCE that fails the queue pair of its own, and no connection is made over the
 * device any more (doc/behaviours.md, i).
 */
void vbn_device_look_at_link(vbn_context_t *ctx);

/* What has become of the addresses since the last call: -1 one is gone, 1 one is back, 0 neither.
 */
int vbn_device_addresses_since(vbn_context_t *ctx);

/* Whether ADDR, one of the port's, is there, on a netdev that is up; true where that cannot be
 * told. A system call, and more only after a change. */
bool vbn_device_has_address(vbn_context_t *ctx, const struct sockaddr *addr);

void vbn_device_fini(vbn_context_t *ctx);

#endif
