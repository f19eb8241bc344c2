/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client that means harm. It speaks to the listening ports of a running job by plain verbs and
 * rdma_cm, with nothing of the library but the layout of the wire, and throws one shot after
 * another: a shot is one connection request of some kind, and what follows where it is accepted.
 *
 * What it knows of the job it was told: the identities of its contexts and its key. So it gets
 * further than a stranger could: those who know neither fail at the first check.
 *
 * It does not say what is right: who knows identity and key, and then speaks as the wire format
 * demands, is a peer.
 */
#ifndef VBN_TESTS_HOSTILE_H
#define VBN_TESTS_HOSTILE_H

#include "../../transport/wire.h"

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

enum { TARGETS_MAX = 8, SHOTS_MAX = 400, BURST = 320, MESSAGE_MAX = 1 << 15 };

/* A context of the job. */
struct target {
    uint16_t port;
    uint64_t uid;
};

/* What comes after the request. */
enum then {
    THEN_REFUSED, /* nothing: it must be refused */
    THEN_DROPPED, /* the request is taken back at once */
    THEN_HALF,    /* accepted, it never says that it is ready */
    THEN_SILENT,  /* established, it never says anything */
    THEN_ASKS, /* established, it sends a message that is right and asks for what it may not have */
    THEN_SPEAKS, /* established, it sends what must not be sent */
};

struct hostile;

struct kind {
    const char *name;
    enum then then;
    unsigned reasons; /* bits of enum vbn_wire_reason with which the request may be refused */
    /* Spoils the request, which is right so far; returns its length. May be NULL. */
    size_t (*request)(struct hostile *h, const struct target *t, struct vbn_wire_hello *hello);
    /* What is sent, to h->message, signaled. */
    void (*speak)(struct hostile *h, struct ibv_send_wr *wr);
    unsigned pause_ms; /* between two such shots; 0: as often as all others */

    uint64_t next_ns;
    unsigned thrown, refused, busy, held;
    unsigned cut;               /* of those held: ended by the job */
    unsigned wrong, unanswered; /* taken, or refused with another reason; nothing came */
    char note[64];              /* of the last wrong one */
};

extern struct kind kinds[];
extern const unsigned kind_count;

enum shot_state { SHOT_FREE, SHOT_RESOLVING, SHOT_ASKED, SHOT_OPEN };

struct shot {
    enum shot_state state;
    struct kind *kind;
    const struct target *target;
    struct rdma_cm_id *id;
    uint64_t until_ns; /* when it is given up, or ends by itself */
};

struct hostile {
    struct sockaddr_in address;
    struct target targets[TARGETS_MAX];
    unsigned target_count;
    uint64_t job_key, random;
    uint32_t buf_size;
    uint32_t qp_nums; /* the last that was made up; begins anywhere */
    unsigned seconds;

    struct rdma_event_channel *channel;
    struct shot shots[SHOTS_MAX];
    unsigned flying, half_open, half_open_most;
    bool bursting;      /* nothing that is held is let go */
    uint8_t *memory;    /* MESSAGE_MAX bytes for each shot */
    struct ibv_pd *pd;  /* of the device that the first route led to */
    struct ibv_mr *mr;  /* of the memory */
    uint8_t *message;   /* of the shot that is to speak */
    struct ibv_sge sge; /* what of it kind->speak() wants to be sent */
};

uint64_t now_ns(void);
uint64_t rnd(struct hostile *h);
_Noreturn void die(const char *what);

/* Starts a shot of KIND. False: no place for it now. */
bool shot_start(struct hostile *h, struct kind *kind);

/* Takes events and completions, waits for some for up to WAIT_MS, ends what is due. */
void shots_advance(struct hostile *h, int wait_ms);

/* Ends what is held. */
void shots_let_go(struct hostile *h);

/* Ends all that still fly, when they are due. */
void shots_end(struct hostile *h);

#endif
