/* SPDX-License-Identifier: BSD-3-Clause */
#include "loop.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

/* What an operation is while the loop has it, in its `room`. */
struct node {
    TAILQ_ENTRY(node) entry;
    struct vbn_op *op;
    void *buf;
    size_t len;
    uint64_t tag, mask;
    vbn_peer_t *peer;
};
TAILQ_HEAD(nodes, node);
_Static_assert(sizeof(struct node) <= sizeof(((struct vbn_op *)0)->room), "fits the room");

struct message {
    TAILQ_ENTRY(message) entry;
    uint32_t from;
    uint64_t tag;
    size_t len;
    void *copy;         /* eager */
    struct node *owner; /* or where it is */
};
TAILQ_HEAD(messages, message);

struct vbn_peer {
    struct loop *loop;
    uint32_t here, there;
};

struct vbn_port {
    struct loop *loop;
    uint32_t rank;
    bool dead;
    size_t incoming; /* on all links */
    vbn_peer_t **peers;
    struct nodes posted, over;  /* receives; what is over and has not been told */
    struct messages unexpected; /* in the order they came */
    struct messages *link;      /* to this port, by sender */
};

struct loop {
    struct loop_options opts;
    uint64_t rng, messages;
    vbn_port_t *ports;
};

static uint64_t draw(struct loop *loop)
{
    uint64_t x = loop->rng += 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static bool one_in(struct loop *loop, unsigned n)
{
    return n && draw(loop) % n == 0;
}

static struct node *take_op(struct vbn_op *op, vbn_peer_t *peer, const void *buf, size_t len,
                            uint64_t tag)
{
    struct node *node = (struct node *)op->room;

    node->op = op;
    node->buf = (void *)(uintptr_t)buf;
    node->len = len;
    node->tag = tag;
    node->peer = peer;
    op->status = VBN_PENDING;
    return node;
}

/* Reported at once (VBN_OK from the call), or by a later progress(). */
static int finish(vbn_port_t *port, struct node *node, int status, bool inside)
{
    node->op->status = status;
    if (inside && one_in(port->loop, 2))
        return VBN_OK;
    node->op->status = VBN_PENDING;
    node->len = (size_t)(unsigned)-status;
    TAILQ_INSERT_TAIL(&port->over, node, entry);
    return VBN_PENDING;
}

static void drop(struct message *m)
{
    free(m->copy);
    free(m);
}

/* Gives M to the receive NODE. */
static int match(vbn_port_t *port, struct node *node, struct message *m, bool inside)
{
    size_t len = m->len < node->len ? m->len : node->len;
    int status = m->len > node->len ? VBN_ERR_TRUNCATED : VBN_OK;

    if (len)
        memcpy(node->buf, m->owner ? m->owner->buf : m->copy, len);
    node->op->len = m->len;
    node->op->tag = m->tag;
    node->op->peer = node->peer;
    if (m->owner)
        finish(&port->loop->ports[m->from], m->owner, VBN_OK, false);
    drop(m);
    return finish(port, node, status, inside);
}

static bool fits(const struct node *node, const struct message *m)
{
    return node->peer->there == m->from && (node->tag & node->mask) == (m->tag & node->mask);
}

static int loop_send(vbn_peer_t *peer, const void *buf, size_t len, uint64_t tag, struct vbn_op *op)
{
    struct loop *loop = peer->loop;
    struct message *m;
    struct node *node;

    assert(tag <= VBN_TAG_MAX && (!loop->opts.max_send || len <= loop->opts.max_send));
    if (loop->ports[peer->there].dead || loop->ports[peer->here].dead)
        return VBN_ERR_PEER_LOST;
    if (one_in(loop, loop->opts.again))
        return VBN_ERR_AGAIN;
    m = calloc(1, sizeof(*m));
    m->from = peer->here;
    m->tag = tag;
    m->len = len;
    if (++loop->messages == loop->opts.wrong_length && len)
        m->len--;
    node = take_op(op, peer, buf, len, tag);
    TAILQ_INSERT_TAIL(&loop->ports[peer->there].link[peer->here], m, entry);
    loop->ports[peer->there].incoming++;
    if (len > loop->opts.eager_limit) {
        m->owner = node;
        return VBN_PENDING;
    }
    m->copy = malloc(len + 1);
    if (len)
        memcpy(m->copy, buf, len);
    return finish(&loop->ports[peer->here], node, VBN_OK, true);
}

static int loop_recv(vbn_port_t *port, vbn_peer_t *peer, void *buf, size_t len, uint64_t tag,
                     uint64_t mask, struct vbn_op *op)
{
    struct node *node;
    struct message *m;

    assert(peer && peer->here == port->rank);
    if (port->loop->ports[peer->there].dead || port->dead)
        return VBN_ERR_PEER_LOST;
    if (one_in(port->loop, port->loop->opts.again))
        return VBN_ERR_AGAIN;
    node = take_op(op, peer, buf, len, tag);
    node->mask = mask;
    TAILQ_FOREACH(m, &port->unexpected, entry)
    if (fits(node, m)) {
        TAILQ_REMOVE(&port->unexpected, m, entry);
        return match(port, node, m, true);
    }
    TAILQ_INSERT_TAIL(&port->posted, node, entry);
    return VBN_PENDING;
}

static int loop_cancel(vbn_port_t *port, struct vbn_op *op)
{
    struct node *node;

    TAILQ_FOREACH(node, &port->posted, entry)
    if (node->op == op) {
        TAILQ_REMOVE(&port->posted, node, entry);
        finish(port, node, VBN_ERR_CANCELED, false);
        return VBN_OK;
    }
    return VBN_ERR_AGAIN;
}

static void arrive(vbn_port_t *port, struct message *m)
{
    struct node *node;

    TAILQ_FOREACH(node, &port->posted, entry)
    if (fits(node, m)) {
        TAILQ_REMOVE(&port->posted, node, entry);
        match(port, node, m, false);
        return;
    }
    TAILQ_INSERT_TAIL(&port->unexpected, m, entry);
}

static int deliver(vbn_port_t *port)
{
    uint32_t n = port->loop->opts.ports, start = (uint32_t)(draw(port->loop) % n);
    int done = 0;

    for (uint32_t i = 0; i < n && port->incoming; i++) {
        struct messages *link = &port->link[(start + i) % n];
        struct message *m = TAILQ_FIRST(link);

        if (!m || (port->loop->opts.late && !one_in(port->loop, port->loop->opts.late)))
            continue;
        TAILQ_REMOVE(link, m, entry);
        port->incoming--;
        arrive(port, m);
        done++;
    }
    return done;
}

static int loop_progress(vbn_port_t *port)
{
    int done = deliver(port);
    struct node *node;

    while ((node = TAILQ_FIRST(&port->over))) {
        TAILQ_REMOVE(&port->over, node, entry);
        node->op->status = -(int)node->len;
        node->op->done(node->op);
        done++;
    }
    return done;
}

static void loop_attr(vbn_port_t *port, struct vbn_port_attr *attr)
{
    attr->device = "memory";
    attr->eager_limit = port->loop->opts.eager_limit;
    attr->max_send = port->loop->opts.max_send ? port->loop->opts.max_send : SIZE_MAX;
}

const struct vbn_transport *loop_table(void)
{
    static const struct vbn_transport table = {.abi = VBN_TRANSPORT_ABI,
                                               .size = sizeof(struct vbn_transport),
                                               .name = "loop",
                                               .attr = loop_attr,
                                               .send = loop_send,
                                               .recv = loop_recv,
                                               .cancel = loop_cancel,
                                               .progress = loop_progress};

    return &table;
}

static void port_init(struct loop *loop, uint32_t rank)
{
    vbn_port_t *port = &loop->ports[rank];
    uint32_t n = loop->opts.ports;

    port->loop = loop;
    port->rank = rank;
    TAILQ_INIT(&port->posted);
    TAILQ_INIT(&port->over);
    TAILQ_INIT(&port->unexpected);
    port->link = calloc(n, sizeof(*port->link));
    port->peers = calloc(n, sizeof(vbn_peer_t *));
    for (uint32_t i = 0; i < n; i++) {
        TAILQ_INIT(&port->link[i]);
        if (i == rank)
            continue;
        port->peers[i] = calloc(1, sizeof(vbn_peer_t));
        *port->peers[i] = (vbn_peer_t){loop, rank, i};
    }
}

struct loop *loop_create(const struct loop_options *opts)
{
    struct loop *loop = calloc(1, sizeof(*loop));

    loop->opts = *opts;
    loop->rng = opts->seed;
    loop->ports = calloc(opts->ports, sizeof(*loop->ports));
    for (uint32_t i = 0; i < opts->ports; i++)
        port_init(loop, i);
    return loop;
}

static size_t drop_all(struct messages *list)
{
    struct message *m;
    size_t left = 0;

    while ((m = TAILQ_FIRST(list))) {
        TAILQ_REMOVE(list, m, entry);
        drop(m);
        left++;
    }
    return left;
}

size_t loop_destroy(struct loop *loop)
{
    size_t left = 0;

    for (uint32_t i = 0; i < loop->opts.ports; i++) {
        vbn_port_t *port = &loop->ports[i];
        struct node *node;

        TAILQ_FOREACH(node, &port->posted, entry)
        left++;
        TAILQ_FOREACH(node, &port->over, entry)
        left++;
        left += drop_all(&port->unexpected);
        for (uint32_t k = 0; k < loop->opts.ports; k++) {
            left += drop_all(&port->link[k]);
            free(port->peers[k]);
        }
        free(port->link);
        free(port->peers);
    }
    free(loop->ports);
    free(loop);
    return left;
}

vbn_port_t *loop_port(struct loop *loop, uint32_t rank)
{
    return &loop->ports[rank];
}

vbn_peer_t *const *loop_peers(struct loop *loop, uint32_t rank)
{
    return loop->ports[rank].peers;
}

/* Ends what PORT has to do with RANK. */
static void lose(vbn_port_t *port, uint32_t rank)
{
    struct node *node, *next;
    struct message *m, *after;

    for (node = TAILQ_FIRST(&port->posted); node; node = next) {
        next = TAILQ_NEXT(node, entry);
        if (node->peer->there != rank)
            continue;
        TAILQ_REMOVE(&port->posted, node, entry);
        finish(port, node, VBN_ERR_PEER_LOST, false);
    }
    for (m = TAILQ_FIRST(&port->link[rank]); m; m = after) {
        after = TAILQ_NEXT(m, entry);
        TAILQ_REMOVE(&port->link[rank], m, entry);
        port->incoming--;
        if (m->owner)
            finish(&port->loop->ports[m->from], m->owner, VBN_ERR_PEER_LOST, false);
        drop(m);
    }
    for (m = TAILQ_FIRST(&port->unexpected); m; m = after) {
        after = TAILQ_NEXT(m, entry);
        if (m->from != rank)
            continue;
        TAILQ_REMOVE(&port->unexpected, m, entry);
        if (m->owner)
            finish(&port->loop->ports[m->from], m->owner, VBN_ERR_PEER_LOST, false);
        drop(m);
    }
}

void loop_kill(struct loop *loop, uint32_t rank)
{
    loop->ports[rank].dead = true;
    for (uint32_t i = 0; i < loop->opts.ports; i++) {
        if (i == rank)
            continue;
        lose(&loop->ports[i], rank);
        lose(&loop->ports[rank], i);
    }
}

uint64_t loop_messages(const struct loop *loop)
{
    return loop->messages;
}
