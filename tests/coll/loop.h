/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transport table in memory: N ports of one process. A seed decides when messages arrive, in
 * which order those of different senders do, and when operations are reported to be over. Only what
 * the collectives call is there: attr, send, recv, cancel, progress.
 */
#ifndef LOOP_H
#define LOOP_H

#include "verbena_transport.h"

struct loop_options {
    uint32_t ports;
    uint64_t seed;
    size_t eager_limit;    /* bytes: longer messages wait for their receive */
    size_t max_send;       /* 0: any */
    unsigned again;        /* one call in so many is VBN_ERR_AGAIN; 0: none */
    unsigned late;         /* one look at a link in so many delivers something; 0: all do */
    uint64_t wrong_length; /* the message of this number, from 1, is cut by a byte; 0: none */
};

struct loop;

struct loop *loop_create(const struct loop_options *opts);
/* Returns how many messages and operations were left. */
size_t loop_destroy(struct loop *loop);

const struct vbn_transport *loop_table(void);
vbn_port_t *loop_port(struct loop *loop, uint32_t rank);
/* The peers of RANK's port, by rank; the own entry is NULL. */
vbn_peer_t *const *loop_peers(struct loop *loop, uint32_t rank);

/* Messages to and from RANK end with VBN_ERR_PEER_LOST, now and later. */
void loop_kill(struct loop *loop, uint32_t rank);

/* Messages sent so far, and their bytes. */
uint64_t loop_messages(const struct loop *loop);

#endif
