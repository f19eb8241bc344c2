/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Riders: words that come with the put that they are about.
 *
 * Behind its last put a sender says that all is there (DONE, PLACED): a packet more, one more
 * request, and an acknowledgement. Mostly that word is a number that the receiver knows, so it is
 * told in the put's immediate data (struct vbn_wire_rider).
 *
 * Operation. The word is a message like any other: it has its number, takes a credit, and is kept
 * until it is acknowledged. Only its way is another: the receiver makes the message of the number,
 * puts it into the receive buffer that the put has taken, and goes on as with any other. Repeated
 * over another connection the word goes by itself, behind its put. So it does where the put is
 * short, has to wait, or the immediate data cannot say what the header would. iWARP has no writes
 * with immediate data.
 * Errors. A number that nobody waits for ends the connection (rx.c).
 * Source. InfiniBand Architecture, volume 1, 9.4.4: an RDMA write with immediate data completes as
 * a receive when all of it is there.
 */
#ifndef VBN_RIDER_H
#define VBN_RIDER_H

#include "base.h"
#include "wire.h"

struct vbn_conn;
struct vbn_msg;

/* A word that may ride. */
struct vbn_rider {
    struct vbn_msg *msg; /* the same as a message: its payload, type, id and length are set */
    bool placed;         /* PLACED, not DONE */
    uint32_t number;     /* of the place, or the offer's id, */
    uint32_t last;       /* and what the next one will have */
};

/* Whether RIDER may ride on a put of LEN bytes that is posted on CONN next; then *IMM is for that
 * put. */
bool vbn_rider_fits(const struct vbn_conn *conn, const struct vbn_rider *rider, size_t len,
                    uint32_t *imm);

/* A put has come with IMM: writes the message that rode on it to BUF, head and payload. Returns its
 * length, or 0: there can be none such. */
uint32_t vbn_rider_restore(const struct vbn_conn *conn, uint32_t imm, void *buf);

#endif
