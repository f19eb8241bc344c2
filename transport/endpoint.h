/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An endpoint: the session with a peer, which outlives queue pairs. It owns the sequence numbers,
 * the queue of requests, and the messages that the peer has not acknowledged.
 */
#ifndef VBN_ENDPOINT_H
#define VBN_ENDPOINT_H

#include "conn.h"
#include "rma.h"
#include "tag.h"

#include <stdatomic.h>

/* A table that cannot grow is an error like any other, not the end of the process. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

enum vbn_ep_state {
    VBN_EP_OPEN,    /* takes work; connects when there is some, or the caller asks for it */
    VBN_EP_CLOSING, /* closed by the caller: delivers what it has, then says farewell */
    VBN_EP_CLOSED,  /* over in good order */
    VBN_EP_LOST,    /* over by a failure: `status` */
};

/* What a lost connection leaves behind until the next one (recover.h). */
struct vbn_recovery {
    uint64_t since_ns;        /* when the connection was lost; 0: none is missing */
    uint64_t by_ns;           /* when it must be there again; 0: never lost one */
    uint32_t mark;            /* how far all was when it was lost */
    uint32_t passed_over;     /* addresses in a row that could not be resolved */
    uint32_t nobody;          /* answers in a row that nobody listens there */
    uint64_t nobody_since_ns; /* the first of them */
    union vbn_sockaddr place; /* where the peer was last; no family: nowhere that is known */
    char cause[96];
};

struct vbn_endpoint {
    vbn_context_t *ctx;
    void *_Atomic user; /* asked for in callbacks, without the lock */
    enum vbn_ep_state state;
    int status; /* what calls return once it is over */
    uint64_t uid;
    UT_hash_handle hh; /* in ctx->endpoints by uid */

    struct vbn_conn *conn;      /* established, or NULL */
    struct vbn_conn *attempt;   /* on its way to be, or NULL */
    struct vbn_tx_list queue;   /* not yet posted */
    struct vbn_tx_list unacked; /* messages posted, not acknowledged */
    struct vbn_tx_list retired; /* puts and gets on no send queue any more and not over, in their
                                   order: failed with it, or put on iWARP, perhaps not there yet */
    uint32_t tx_next, tx_acked; /* sequence numbers: to be given next; acknowledged before */
    uint32_t rx_next;           /* expected next */
    uint32_t msgs_out;          /* messages got by the caller and not yet back in the pool */
    uint32_t lazy;              /* of them, those posted that wait for a later completion */
    uint32_t rmas_out;          /* puts and gets accepted and not ended */
    uint32_t rmas_done;         /* puts and gets that ended well */
    uint32_t conn_count;        /* connections that point here, dead ones too */
    uint32_t session;           /* number of the last connection, the same on both sides */
    uint32_t incarnation;       /* number among all endpoints of the context, from 1 */
    uint32_t peer_incarnation;  /* the same of the peer's, which a connection was lost with, or 0 */
    struct vbn_recovery recovery;

    struct vbn_tag_peer tag;

    bool claimed;       /* the caller has it, by its address or by joining */
    bool addr_known;    /* addrs are from the peer's blob: we can connect */
    bool wanted;        /* the caller has asked for a connection, and has not closed */
    bool said_bye;      /* by `conn`, and its request has not failed */
    bool answered;      /* a request of the peer, which may have a session now that we never had */
    bool ring_denied;   /* the peer's device: nothing is written into its rings any more */
    bool released;      /* the caller has closed it: freed when over */
    uint32_t addr_next; /* the address to be tried next */
    struct vbn_wire_address peer;
    bool awaits_turn;                     /* in ctx->turns.waiting */
    TAILQ_ENTRY(vbn_endpoint) turn_entry; /* there */
    struct vbn_timer timer;               /* when to connect again, or to give up closing */
    uint32_t backoff_ms;
    uint64_t connect_by_ns;                   /* deadline of the attempts, 0: none running */
    TAILQ_ENTRY(vbn_endpoint) failed_entry;   /* in ctx->failed */
    TAILQ_ENTRY(vbn_endpoint) stranger_entry; /* in ctx->strangers, where met_ns is set */
    uint64_t met_ns;                          /* when it came as a stranger */
    char reason[256];
    char name[64]; /* for messages: the peer's address */
};

/* The endpoint of the context UID, or NULL. */
vbn_endpoint_t *vbn_endpoint_find(vbn_context_t *ctx, uint64_t uid);

/* A new endpoint for UID. NULL: no memory. */
vbn_endpoint_t *vbn_endpoint_add(vbn_context_t *ctx, uint64_t uid);

/* Empty, and in nobody's hash yet. */
void vbn_endpoint_init(vbn_endpoint_t *ep, vbn_context_t *ctx, uint64_t uid);

/* Whether the peer of HELLO, of which no more than what blobs have is looked at, suits this
 * context: 0, or an error with its text. */
int vbn_endpoint_suits(const vbn_context_t *ctx, const struct vbn_wire_hello *hello,
                       struct vbn_error *err);

/* The endpoint of UID for the caller, *MADE if there was none. NULL, with *STATUS: VBN_ERR_CLOSED,
 * VBN_ERR_NO_MEMORY; VBN_ERR_AGAIN: the old one is not over. */
vbn_endpoint_t *vbn_endpoint_get(vbn_context_t *ctx, uint64_t uid, bool *made, int *status,
                                 struct vbn_error *err);

/* The caller has EP from now on, with his USER if that is not NULL or he had it not before. */
void vbn_endpoint_claim(vbn_endpoint_t *ep, void *user);

/* What calls on an endpoint that takes no more work return. */
static inline int vbn_endpoint_over_status(const vbn_endpoint_t *ep)
{
    return ep->status < 0 ? ep->status : VBN_ERR_CLOSED;
}

/* Whether NEXT can be the number that the peer expects next: it was sent all before, and has not
 * acknowledged more. */
static inline bool vbn_endpoint_may_expect(const vbn_endpoint_t *ep, uint32_t next)
{
    return next - ep->tx_acked <= ep->tx_next - ep->tx_acked;
}

/* The peer has everything before the number NEXT. False: it cannot. */
static inline bool vbn_endpoint_acked(vbn_endpoint_t *ep, uint32_t next)
{
    if (next == ep->tx_acked)
        return true;
    if (vbn_unlikely(!vbn_endpoint_may_expect(ep, next)))
        return false;
    ep->tx_acked = next;
    vbn_tx_forget_acked(ep);
    if (vbn_unlikely(!STAILQ_EMPTY(&ep->retired)))
        vbn_rma_acked(ep);
    return true;
}

/* Starts an attempt where there is work and none is running: now, or in its turn. */
void vbn_endpoint_want_conn(vbn_endpoint_t *ep);

/* Its turn has come: starts the attempt, if one is still wanted. */
void vbn_endpoint_start_attempt(vbn_endpoint_t *ep);

/* Sets EP's timer to call OVER in MS, and by chance up to half as much later; at LATEST_NS if that
 * is sooner. */
void vbn_endpoint_wait(vbn_endpoint_t *ep, uint64_t ms, uint64_t latest_ns,
                       void (*over)(struct vbn_timer *));

/* The time to wait between two attempts, or for the peer's, is over; _retry: it begins, if EP has
 * nothing under way. */
void vbn_endpoint_try_again(vbn_endpoint_t *ep);
void vbn_endpoint_retry(vbn_endpoint_t *ep);

/* What connections report: one is established; an attempt failed; an established one failed. */
void vbn_endpoint_up(vbn_endpoint_t *ep, struct vbn_conn *conn);
void vbn_endpoint_attempt_failed(vbn_endpoint_t *ep, struct vbn_conn *conn);
void vbn_endpoint_conn_lost(vbn_endpoint_t *ep, struct vbn_conn *conn);

/* The peer said farewell. */
void vbn_endpoint_peer_closed(vbn_endpoint_t *ep);

/* Ends the endpoint with STATUS and tells the caller at the next progress. */
void vbn_endpoint_fail(vbn_endpoint_t *ep, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4), cold));

/* Begins an orderly close; the caller's vbn_endpoint_close() and vbn_close() both come here. */
void vbn_endpoint_shut(vbn_endpoint_t *ep);

/* Goes on with closing: called whenever something that it may wait for has happened. */
void vbn_endpoint_advance_close(vbn_endpoint_t *ep);

/* True where nothing is left to be said but the farewell: to lose the peer is no loss then. */
bool vbn_endpoint_leaves(const vbn_endpoint_t *ep);

/* Ends EP now; what it had to deliver is dropped. */
void vbn_endpoint_abandon(vbn_endpoint_t *ep);

/* Calls the error handler for the endpoints that failed; frees released ones. Returns how many. */
int vbn_endpoint_deliver_failed(vbn_context_t *ctx);

void vbn_endpoint_free(vbn_endpoint_t *ep);

#endif
