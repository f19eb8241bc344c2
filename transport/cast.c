/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams of groups: sent, received, sent again by connections. */
#include "context.h"
#include "group.h"

#define MULTICAST_QPN 0xffffffu
#define LAND_TOGETHER 16u /* receives that are posted at once */

/* --- sending
 * ------------------------------------------------------------------------------------------- */

static bool has_room(const vbn_group_t *g)
{
    uint32_t first = vbn_seq_before(g->left, g->acked) ? g->left : g->acked;

    return g->next - first < g->window;
}

static void post(vbn_group_t *g, struct vbn_cast *cast, bool signaled)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)cast->obj.buf, .length = cast->len, .lkey = cast->obj.lkey};
    struct ibv_send_wr *bad,
        wr = {.wr_id = (uintptr_t)&cast->comp,
              .sg_list = &sge,
              .num_sge = 1,
              .opcode = IBV_WR_SEND,
              .send_flags = signaled ? IBV_SEND_SIGNALED : 0,
              .wr.ud = {.ah = g->ah, .remote_qpn = MULTICAST_QPN, .remote_qkey = g->qkey}};

    if (vbn_unlikely(ibv_post_send(g->qp, &wr, &bad)))
        vbn_group_mute(g, "posting a datagram failed");
}

void vbn_group_hello(vbn_group_t *g)
{
    struct vbn_wire_cast head = {
        .group = g->id, .number = g->unheard, .sender = (uint16_t)g->me, .kind = VBN_CAST_HELLO};

    if (!g->qp || g->hello_out)
        return;
    vbn_wire_cast_write(g->hello->obj.buf, &head);
    g->hello->len = sizeof(head);
    g->hello_out = true;
    post(g, g->hello, true);
}

/* The next datagram of T, with as many of its bytes as it takes. */
static void fill(vbn_group_t *g, struct vbn_cast *cast, struct vbn_tag_op *t)
{
    struct vbn_wire_tag tag = {.tag = vbn_tag_op(t)->tag, .len = t->cap};
    struct vbn_wire_cast head = {
        .group = g->id, .number = g->next, .sender = (uint16_t)g->me, .kind = VBN_TAG_NEXT};
    char *at = (char *)cast->obj.buf + sizeof(head);
    size_t room = g->mtu - sizeof(head), part;

    if (!t->begun) {
        room -= sizeof(tag);
        head.kind = t->cap <= room ? VBN_TAG_EAGER : VBN_TAG_FIRST;
        vbn_wire_tag_write(at, &tag);
        at += sizeof(tag);
        t->begun = true;
    }
    part = vbn_min(room, t->cap - t->at);
    vbn_wire_cast_write(cast->obj.buf, &head);
    vbn_copy(at, t->buf + t->at, part);
    t->at += part;
    cast->number = head.number;
    cast->len = (uint32_t)(at + part - (char *)cast->obj.buf);
}

/* All of T, as far as there is room. True: it is over. */
static bool push(vbn_group_t *g, struct vbn_tag_op *t)
{
    while (has_room(g)) {
        struct vbn_cast *cast = g->kept[g->next % g->window];

        fill(g, cast, t);
        g->next++;
        g->ctx->counters.casts++;
        if (vbn_likely(g->qp != NULL))
            post(g, cast, cast->number % (g->window / 4) == 0);
        if (vbn_unlikely(!g->qp))
            vbn_group_repair_all(g); /* or not any more */
        if (t->at == t->cap)
            return true;
    }
    return false;
}

static void push_sends(vbn_group_t *g)
{
    struct vbn_tag_op *t;

    while ((t = TAILQ_FIRST(&g->sends)) && push(g, t)) {
        TAILQ_REMOVE(&g->sends, t, entry);
        vbn_tag_end(g->ctx, t, g->status); /* a member may have been lost meanwhile */
    }
}

/* The device is done with the datagrams up to this one. */
static void has_left(struct vbn_comp *comp, const struct ibv_wc *wc)
{
    struct vbn_cast *cast = vbn_container_of(comp, struct vbn_cast, comp);
    vbn_group_t *g = cast->group;

    if (cast == g->hello)
        g->hello_out = false;
    else if (vbn_seq_before(g->left, cast->number + 1))
        g->left = cast->number + 1;
    if (vbn_unlikely(wc->status != IBV_WC_SUCCESS))
        vbn_group_mute(g, ibv_wc_status_str(wc->status));
    else
        push_sends(g);
}

void vbn_cast_init(struct vbn_pool *pool, struct vbn_pool_obj *obj)
{
    struct vbn_cast *cast = (struct vbn_cast *)obj;

    cast->comp.done = has_left;
    cast->group = vbn_container_of(pool, vbn_group_t, casts);
}

static int start(vbn_group_t *g, const void *buf, struct vbn_op *op)
{
    struct vbn_tag_op *t = vbn_tag_of(op);

    vbn_tag_op_init(t, NULL, (void *)(uintptr_t)buf, op->len, 0);
    if (!g->timer.at_ns)
        vbn_group_wake(g);
    if (TAILQ_EMPTY(&g->sends) && push(g, t)) {
        op->status = VBN_OK;
        return VBN_OK;
    }
    t->state = VBN_TAG_SENDING;
    TAILQ_INSERT_TAIL(&g->sends, t, entry);
    return VBN_PENDING;
}

int vbn_group_send(vbn_group_t *g, const void *buf, size_t len, uint64_t tag, struct vbn_op *op)
{
    int rc;

    if (tag > VBN_TAG_MAX || (len && !buf) || len > VBN_WIRE_LEN_MAX)
        return VBN_ERR_INVALID;
    vbn_lock(g->ctx);
    rc = g->status;
    if (rc == VBN_OK) {
        op->status = VBN_PENDING;
        op->peer = NULL;
        op->tag = tag;
        op->len = len;
        rc = start(g, buf, op);
    } else if (rc == VBN_PENDING) {
        rc = VBN_ERR_AGAIN;
    }
    vbn_unlock(g->ctx);
    return rc;
}

void vbn_group_settle(vbn_group_t *g)
{
    uint32_t acked = g->next;

    for (uint32_t i = 0; i < g->count; i++) {
        const struct vbn_group_member *m = &g->member[i];

        if (m->ep && vbn_seq_before(m->acked, acked))
            acked = m->acked;
    }
    g->acked = acked;
    push_sends(g);
}

/* --- by connections
 * -------------------------------------------------------------------------------------- */

/* NULL: not now, or EP has ended, or has said farewell, which nothing follows. */
static struct vbn_msg *message(vbn_endpoint_t *ep, size_t len)
{
    struct vbn_msg *msg;

    return ep && !ep->said_bye && vbn_tx_get(ep, len, &msg) == VBN_OK ? msg : NULL;
}

/* WORD to EP. False: not now. */
static bool say(vbn_endpoint_t *ep, const struct vbn_wire_cast *word)
{
    struct vbn_msg *msg = message(ep, sizeof(*word));

    if (!msg)
        return false;
    vbn_wire_cast_write(vbn_tx_payload(msg), word);
    vbn_tx_send(msg, VBN_WIRE_TAG, VBN_TAG_CAST, sizeof(*word));
    return true;
}

bool vbn_group_tell(vbn_group_t *g, struct vbn_group_member *m, uint8_t kind, uint32_t number)
{
    struct vbn_wire_cast word = {
        .group = g->id, .number = number, .sender = (uint16_t)g->me, .kind = kind};

    return say(m->ep, &word);
}

bool vbn_group_ack(vbn_group_t *g, struct vbn_group_member *m)
{
    m->aged = false;
    if (!vbn_group_tell(g, m, VBN_CAST_ACK, m->next))
        return false;
    m->told = m->next;
    return true;
}

/* What M misses, as far as there are messages for it; how many. */
static int repair(vbn_group_t *g, struct vbn_group_member *m)
{
    int n = 0;

    for (; m->ep && m->repair != g->next; m->repair++, n++) {
        const struct vbn_cast *cast = g->kept[m->repair % g->window];
        struct vbn_msg *msg = message(m->ep, cast->len);

        if (!msg)
            return n;
        memcpy(vbn_tx_payload(msg), cast->obj.buf, cast->len);
        vbn_tx_send(msg, VBN_WIRE_TAG, VBN_TAG_CAST, cast->len);
        g->ctx->counters.cast_repairs++;
    }
    m->repairs = false;
    return n;
}

static int repair_some(vbn_group_t *g)
{
    int n = 0;

    push_sends(g); /* those that waited for a device which is given up */
    g->repairs = false;
    for (uint32_t i = 0; i < g->count; i++)
        if (g->member[i].repairs) {
            n += repair(g, &g->member[i]);
            g->repairs |= g->member[i].repairs;
        }
    return n;
}

/* What is over, and has only not been acknowledged yet, waits for nobody: its group does, which is
 * closed. */
static bool awaits(const vbn_group_t *g, const struct vbn_group_member *m)
{
    return m->stream.filling || (m->acked != g->next && (g->closing || !TAILQ_EMPTY(&g->sends)));
}

bool vbn_groups_await(const vbn_endpoint_t *ep)
{
    const vbn_group_t *g;

    LIST_FOREACH(g, &ep->ctx->groups, entry)
    {
        for (uint32_t i = 0; i < g->count; i++)
            if (g->member[i].ep == ep && awaits(g, &g->member[i]))
                return true;
    }
    return false;
}

int vbn_groups_advance(vbn_context_t *ctx)
{
    vbn_group_t *g;
    int n = 0;

    ctx->tags.casts_wait = false;
    LIST_FOREACH(g, &ctx->groups, entry)
    {
        if (g->repairs)
            n += repair_some(g);
        ctx->tags.casts_wait |= g->repairs;
    }
    return n;
}

static void begin_repair(vbn_group_t *g, struct vbn_group_member *m, uint32_t from)
{
    m->repair = from;
    m->repairs = g->repairs = g->ctx->tags.casts_wait = true;
}

void vbn_group_repair_all(vbn_group_t *g)
{
    g->left = g->next;
    g->repairs = g->ctx->tags.casts_wait = true; /* sends may wait for nothing but that */
    for (uint32_t i = 0; i < g->count; i++) {
        struct vbn_group_member *m = &g->member[i];

        if (m->ep && !m->repairs && m->acked != g->next)
            begin_repair(g, m, m->repair);
    }
}

/* --- receiving
 * ----------------------------------------------------------------------------------------- */

/* M's next datagram is missing: it is asked for, once. */
VBN_COLD static void ask(vbn_group_t *g, struct vbn_group_member *m)
{
    if (m->asks && m->asked == m->next)
        return;
    m->asks = vbn_group_tell(g, m, VBN_CAST_ASK, m->next);
    if (m->asks)
        m->asked = m->told = m->next;
}

VBN_COLD static void ask_again(vbn_group_t *g, struct vbn_group_member *m)
{
    m->asks = false;
    ask(g, m);
}

void vbn_groups_want(vbn_endpoint_t *ep)
{
    vbn_group_t *g;

    LIST_FOREACH(g, &ep->ctx->groups, entry)
    {
        for (uint32_t i = 0; i < g->count; i++) {
            struct vbn_group_member *m = &g->member[i];

            if (m->ep == ep && m->held && m->stream.filling)
                ask_again(g, m);
        }
    }
}

/* A datagram of M's. False: malformed. */
static bool take(vbn_group_t *g, struct vbn_group_member *m, const struct vbn_wire_cast *head,
                 const void *data, size_t len)
{
    enum vbn_tag_verdict verdict;

    if (vbn_unlikely(head->number != m->next)) {
        if (vbn_seq_before(m->next, head->number))
            ask(g, m);
        return true;
    }
    m->next++; /* first: a callback may go by it */
    verdict = vbn_tag_cast(m->ep, &m->stream, head->kind, data, len);
    m->held = verdict == VBN_TAG_HELD;
    if (vbn_unlikely(verdict != VBN_TAG_TAKEN)) {
        m->next--; /* it has to come again */
        return verdict != VBN_TAG_MALFORMED;
    }
    if (m->next - m->told >= g->window / 2)
        vbn_group_ack(g, m);
    if (!g->timer.at_ns)
        vbn_group_wake(g);
    return true;
}

static void take_datagram(vbn_group_t *g, const char *data, size_t len)
{
    struct vbn_group_member *m;
    struct vbn_wire_cast head;

    if (!vbn_wire_cast_read(data, len, &head) || head.group != g->id || head.sender >= g->count)
        return;
    m = &g->member[head.sender];
    if (!m->ep)
        return;
    if (vbn_unlikely(!m->heard))
        vbn_group_heard(g, m);
    if (head.kind == VBN_CAST_HELLO && head.number)
        vbn_group_waited_for(g);
    if (!vbn_wire_cast_has_data(head.kind))
        return;
    if (!take(g, m, &head, data + sizeof(head), len - sizeof(head)))
        g->ctx->counters.bad_messages++;
}

bool vbn_group_land(vbn_group_t *g)
{
    struct ibv_recv_wr *bad;
    int rc = g->chain ? ibv_post_recv(g->qp, g->chain, &bad) : 0;

    g->chain = NULL;
    g->chain_len = 0;
    return rc == 0;
}

static void landed(struct vbn_comp *comp, const struct ibv_wc *wc)
{
    struct vbn_landing *l = vbn_container_of(comp, struct vbn_landing, comp);
    vbn_group_t *g = l->group;

    if (vbn_unlikely(!g->qp))
        return;
    if (vbn_unlikely(wc->status != IBV_WC_SUCCESS)) {
        vbn_group_mute(g, ibv_wc_status_str(wc->status));
        return;
    }
    if (vbn_likely(wc->byte_len >= VBN_GRH_LEN))
        take_datagram(g, (const char *)l->obj.buf + VBN_GRH_LEN, wc->byte_len - VBN_GRH_LEN);
    l->wr.next = g->chain;
    g->chain = &l->wr;
    if (++g->chain_len >= LAND_TOGETHER && g->qp && !vbn_group_land(g))
        vbn_group_mute(g, "posting receives failed");
}

void vbn_landing_init(struct vbn_pool *pool, struct vbn_pool_obj *obj)
{
    struct vbn_landing *l = (struct vbn_landing *)obj;

    l->comp.done = landed;
    l->group = vbn_container_of(pool, vbn_group_t, landings);
    l->sge = (struct ibv_sge){
        .addr = (uintptr_t)obj->buf, .length = VBN_GRH_LEN + VBN_CAST_MAX, .lkey = obj->lkey};
    l->wr = (struct ibv_recv_wr){.wr_id = (uintptr_t)&l->comp, .sg_list = &l->sge, .num_sge = 1};
}

/* --- words
 * --------------------------------------------------------------------------------------------- */

/* M has all of ours before NUMBER. False: it cannot. */
static bool note_acked(vbn_group_t *g, struct vbn_group_member *m, uint32_t number)
{
    bool last = m->acked == g->acked;

    if (number - m->acked > g->next - m->acked)
        return false;
    m->acked = number;
    if (vbn_seq_before(m->repair, number))
        m->repair = number;
    if (last)
        vbn_group_settle(g);
    return true;
}

static bool asked(vbn_group_t *g, struct vbn_group_member *m, uint32_t number)
{
    if (!note_acked(g, m, number))
        return false;
    if (m->ep && number != g->next)
        begin_repair(g, m, number);
    return true;
}

/* M wants to know whether all before NUMBER has come. */
static void poked(vbn_group_t *g, struct vbn_group_member *m, uint32_t number)
{
    if (vbn_seq_before(m->next, number))
        ask_again(g, m);
    else
        vbn_group_ack(g, m);
}

/* M has closed its group, and answers a poke that was older than what it had told. */
static bool is_late_answer(const vbn_group_t *g, const struct vbn_group_member *m,
                           const struct vbn_wire_cast *head)
{
    return head->sender == g->me && vbn_seq_before(head->number, m->acked);
}

/* A word of M's, or a datagram once more. */
static bool take_word(vbn_group_t *g, struct vbn_group_member *m, const struct vbn_wire_cast *head,
                      const char *data, size_t len)
{
    switch (head->kind) {
    case VBN_CAST_ACK:
        return is_late_answer(g, m, head) || note_acked(g, m, head->number);
    case VBN_CAST_ASK:
        return asked(g, m, head->number);
    case VBN_CAST_POKE:
        poked(g, m, head->number);
        return true;
    case VBN_CAST_HELLO:
        return false;
    default:
        return take(g, m, head, data, len);
    }
}

/* EP pokes a group that is closed here: whatever it was, nobody waits for it. Where nothing can be
 * said now it pokes again, or hears the farewell. */
static void answer_for_closed(vbn_endpoint_t *ep, const struct vbn_wire_cast *poke)
{
    struct vbn_wire_cast word = *poke;

    word.kind = VBN_CAST_ACK;
    say(ep, &word);
}

/* EP's place in G; NULL: none. HEAD says it, but of an answer for a closed group it is the asker's.
 */
static struct vbn_group_member *member_of(vbn_group_t *g, const vbn_endpoint_t *ep,
                                          const struct vbn_wire_cast *head)
{
    if (head->sender < g->count && g->member[head->sender].ep == ep)
        return &g->member[head->sender];
    for (uint32_t i = 0; i < g->count && head->sender == g->me; i++)
        if (g->member[i].ep == ep)
            return &g->member[i];
    return NULL;
}

bool vbn_group_word(vbn_endpoint_t *ep, const void *data, size_t len)
{
    struct vbn_group_member *m;
    struct vbn_wire_cast head;
    vbn_group_t *g;

    if (!vbn_wire_cast_read(data, len, &head))
        return false;
    LIST_FOREACH(g, &ep->ctx->groups, entry)
    {
        if (g->id == head.group)
            break;
    }
    if (!g) {
        if (head.kind == VBN_CAST_POKE)
            answer_for_closed(ep, &head);
        return true;
    }
    m = member_of(g, ep, &head);
    return m && take_word(g, m, &head, (const char *)data + sizeof(head), len - sizeof(head));
}
