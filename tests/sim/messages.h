/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random tagged messages between all ranks, for the loads that send such: the receives, which name
 * source and tag (and may tell where the message shall be), one of them, or neither, are posted
 * early, late and too small, and cancelled; a record of what was sent; and the checks.
 *
 * What goes from one rank to another goes by a stream: 0 from one to one, the others as a load has
 * them. A message's tag tells who sent it, by which stream, and which it is of that; its low bits,
 * its class, repeat, and wildcards ask for those. What must hold: every operation ends once; every
 * message of a stream that is whole is taken once, by the oldest receive that fits it, and no later
 * one of the stream is taken by a receive that fits it instead; contents, lengths and senders are
 * right, and a buffer too small has the message's start.
 */
#ifndef VBN_TESTS_SIM_MESSAGES_H
#define VBN_TESTS_SIM_MESSAGES_H

#include "context.h"
#include "world.h"

enum {
    MESSAGES_CLASSES = 4,
    MESSAGES_STREAMS = 3, /* at most */
    MESSAGES_SLOTS = 24,
};

/* What a receive asks for, and which it is of its node's. */
struct wish {
    uint64_t tag, mask, number;
    int peer; /* from whom, or -1 */
};

struct sent {
    uint64_t tag;
    size_t len;
    bool taken;
    struct wish by; /* by this receive */
};

/* What was sent by one stream to one rank, in order. */
struct stream {
    struct sent *log;
    uint32_t count;
};

struct peer {
    vbn_endpoint_t *ep;
    bool ended;
    uint64_t known_from; /* the first receive that was posted when there was the endpoint */
    struct stream streams[MESSAGES_STREAMS];
};

/* An operation and its buffer. */
struct slot {
    struct vbn_op op;
    struct node *node;
    bool busy, is_send;
    struct wish wish; /* receive */
    size_t cap;
    unsigned char *buf;
};

struct node {
    struct world *world;
    struct world_rank *rank;
    struct peer *peers;
    struct slot slots[MESSAGES_SLOTS]; /* the first half sends, the other receives */
    unsigned char *arena;              /* the slots' buffers */
    size_t arena_bytes;
    uint32_t planned, to_send, out; /* messages from one to one; operations on their way */
    uint64_t receives;              /* posted */
    bool draining, saw_stranger_end;
};

/* What differs from load to load. */
struct messages_kind {
    size_t buf_bytes; /* of a slot: the longest message, and most receives */
    uint64_t spread;  /* of what a rank sends from one to one: 20 messages and below so many more */
    int streams, stream_bits; /* the latter in a tag */
    uint64_t key;             /* what their bytes depend on, too */
    size_t (*size_pick)(void);
    bool (*prepare)(struct node *node); /* what is set up with NODE; false: world_fail() */
    /* Of streams but 0: nothing of it may be missing; a hostile rank has to do with it. */
    bool (*is_whole)(int stream);
    bool (*is_garbled)(int stream);
};

/* Sets up a node a rank; false after world_fail(). */
bool messages_open(struct world *world, const struct messages_kind *kind);
/* What was not over must be when all contexts are closed. */
void messages_close(struct world *world);
struct node *messages_node(int number);

bool messages_is_hostile(const struct node *node);
bool messages_anybody_hostile(void);
/* Nothing has ended between the two, so all between them must arrive. */
bool messages_pair_is_whole(const struct node *from, const struct node *to);

/* Something of the stream has not been taken. */
bool messages_untaken(const struct node *from, const struct node *to, int stream);

/* The tag of message SEQ. DST: -1 to a group. */
uint64_t messages_tag(int stream, int src, int dst, uint32_t seq);
/* NODE's view of rank NUMBER, with an endpoint; NULL: that has ended. */
struct peer *messages_peer(struct node *node, int number);
int messages_other_pick(const struct node *node);

/* One that is not busy; NULL: none. */
struct slot *messages_slot(struct node *node, bool is_send);
/* Draws SLOT's length and fills it. DST: -1 to a group. */
void messages_fill(struct slot *slot, uint64_t tag, int dst);
/* SLOT's message goes to PEER. */
void messages_sent(struct peer *peer, int stream, uint64_t tag, const struct slot *slot);
/* SLOT's operation has begun, or not, as RC has it. */
void messages_begun(struct slot *slot, int rc);

/* A message of NODE's to rank OTHER. */
void messages_send(struct node *node, struct slot *slot, int other);
/* Posts receives, and cancels now and then. */
void messages_receive(struct node *node);

/* For world_run(). */
void messages_calmed(struct world *world);
const char *messages_unsettled(const struct world *world, const struct world_rank *rank, int *peer);
void messages_check_order(struct world *world);

#endif
