/* SPDX-License-Identifier: BSD-3-Clause */
/* libibverbs that obeys the test: devices, memory, queues. */
#include "unit.h"
#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#undef ibv_query_port
#undef ibv_reg_mr

#define DEVICES_MAX 8
#define ASYNC_MAX   16
#define CQS_MAX     64

struct fake_cq {
    struct ibv_cq cq;
    struct ibv_wc *wc;
    unsigned head, count;
    bool armed, fired; /* an event is asked for, or in the channel */
    unsigned unacked;
};

struct fake_srq {
    struct ibv_srq srq;
    struct fake_rq rq;
};

static struct {
    unsigned count[FAKE_CALLS], nth[FAKE_CALLS];
    int error[FAKE_CALLS]; /* 0: not armed */
    int live;
    struct fake_device *device[DEVICES_MAX];
    struct ibv_context *cm_verbs[DEVICES_MAX];
    unsigned device_count;
    struct fake_cq *cq[CQS_MAX];
    unsigned cq_count;
    unsigned recv_taken;
    bool flush_by_itself, destroy_purges;
    void (*on_destroy_qp)(const struct ibv_qp *qp);
    uint32_t next_qp_num, next_key;
    struct ibv_async_event async[ASYNC_MAX];
    unsigned async_head, async_count, async_acked;
    int async_fd; /* counts them; 0: not yet made */
} fake;

/* --- memory of the fakes' own, which never fails ---------------------------------------------- */

void *__real_calloc(size_t count, size_t len);
void *__real_realloc(void *old, size_t len);

void *fake_alloc(size_t count, size_t len)
{
    return __real_calloc(count, len);
}

/* Room for one more after COUNT of LEN bytes. It doubles: a sanitizer's realloc always copies. */
static void *fake_grow(void *old, unsigned count, size_t len)
{
    if (count & (count - 1))
        return old;
    return __real_realloc(old, (count ? 2 * (size_t)count : 1) * len);
}

/* --- calls that fail -------------------------------------------------------------------------- */

void fake_fail(enum fake_call call, unsigned nth, int error)
{
    fake.nth[call] = nth ? fake.count[call] + nth : 0;
    fake.error[call] = error;
}

unsigned fake_count(enum fake_call call)
{
    return fake.count[call];
}

int fake_error(enum fake_call call)
{
    fake.count[call]++;
    if (!fake.error[call] || (fake.nth[call] && fake.nth[call] != fake.count[call]))
        return 0;
    errno = fake.error[call];
    return errno;
}

bool fake_fails(enum fake_call call)
{
    return fake_error(call) != 0;
}

void fake_born(int n)
{
    fake.live += n;
}

int fake_live(void)
{
    return fake.live;
}

int fake_counter(int *counter)
{
    if (!*counter)
        *counter = eventfd(0, EFD_NONBLOCK | EFD_SEMAPHORE);
    return dup(*counter);
}

void fake_count_up(int counter)
{
    assert_true(counter);
    assert_int_equal(eventfd_write(counter, 1), 0);
}

void fake_count_down(int counter)
{
    eventfd_t one;

    assert_int_equal(eventfd_read(counter, &one), 0);
}

void fake_counter_close(int counter)
{
    if (counter)
        close(counter);
}

static void context_free(struct ibv_context *verbs)
{
    close(verbs->async_fd);
    free(verbs);
}

static void fake_verbs_reset(void)
{
    for (unsigned i = 0; i < fake.device_count; i++) {
        if (fake.cm_verbs[i])
            context_free(fake.cm_verbs[i]);
        free(fake.device[i]);
    }
    fake_counter_close(fake.async_fd);
}

void fake_reset(void)
{
    int left;

    unit_wrap_reset();
    fake_cm_reset();
    fake_verbs_reset();
    left = fake.live;
    memset(&fake, 0, sizeof(fake));
    fake.flush_by_itself = true;
    fake.next_qp_num = 0x11;
    fake.next_key = 1;
    assert_int_equal(left, 0);
}

/* --- devices ---------------------------------------------------------------------------------- */

struct fake_device *fake_device_add(const char *name)
{
    struct fake_device *d = fake_alloc(1, sizeof(*d));

    assert_true(fake.device_count < DEVICES_MAX);
    snprintf(d->device.name, sizeof(d->device.name), "%s", name);
    d->device.transport_type = IBV_TRANSPORT_IB;
    d->device.node_type = IBV_NODE_CA;
    d->attr = (struct ibv_device_attr){
        .max_qp_wr = 4096,
        .max_sge = 4,
        .max_cqe = 65536,
        .max_srq = 16,
        .max_srq_wr = 8192,
        .max_qp_rd_atom = 16,
        .max_qp_init_rd_atom = 16,
        .atomic_cap = IBV_ATOMIC_HCA,
        .phys_port_cnt = 1,
    };
    for (int i = 0; i < FAKE_PORTS; i++)
        d->port[i] = (struct ibv_port_attr){.state = IBV_PORT_ACTIVE,
                                            .max_msg_sz = 1u << 30,
                                            .active_speed = 32,
                                            .active_width = 2};
    d->max_inline = 256;
    d->max_srq = 8192;
    fake.device[fake.device_count++] = d;
    return d;
}

static struct fake_device *device_of(struct ibv_context *verbs)
{
    return (struct fake_device *)verbs->device;
}

struct ibv_device **ibv_get_device_list(int *count)
{
    struct ibv_device **list;

    if (fake_fails(FAKE_GET_DEVICE_LIST))
        return NULL;
    list = fake_alloc(fake.device_count + 1, sizeof(*list));
    for (unsigned i = 0; i < fake.device_count; i++)
        list[i] = &fake.device[i]->device;
    if (count)
        *count = (int)fake.device_count;
    fake_born(1);
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
    fake_born(-1);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc);
static int req_notify_cq(struct ibv_cq *cq, int solicited_only);
static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

static struct ibv_context *context_new(struct ibv_device *device)
{
    struct ibv_context *verbs = fake_alloc(1, sizeof(*verbs));

    verbs->device = device;
    verbs->async_fd = fake_counter(&fake.async_fd);
    verbs->ops.poll_cq = poll_cq;
    verbs->ops.req_notify_cq = req_notify_cq;
    verbs->ops.post_send = post_send;
    verbs->ops.post_recv = post_recv;
    verbs->ops.post_srq_recv = post_srq_recv;
    return verbs;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    if (fake_fails(FAKE_OPEN_DEVICE))
        return NULL;
    fake_born(1);
    return context_new(device);
}

int ibv_close_device(struct ibv_context *verbs)
{
    context_free(verbs);
    fake_born(-1);
    return 0;
}

struct ibv_context *fake_cm_verbs(struct fake_device *device)
{
    for (unsigned i = 0; i < fake.device_count; i++) {
        if (fake.device[i] != device)
            continue;
        if (!fake.cm_verbs[i])
            fake.cm_verbs[i] = context_new(&device->device);
        return fake.cm_verbs[i];
    }
    return NULL;
}

int ibv_query_device(struct ibv_context *verbs, struct ibv_device_attr *attr)
{
    *attr = device_of(verbs)->attr;
    return fake_error(FAKE_QUERY_DEVICE);
}

int ibv_query_port(struct ibv_context *verbs, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    if (port < 1 || port > device_of(verbs)->attr.phys_port_cnt)
        return EINVAL;
    memcpy(attr, &device_of(verbs)->port[port - 1],
           offsetof(struct ibv_port_attr, port_cap_flags2));
    return fake_error(FAKE_QUERY_PORT);
}

int _ibv_query_gid_ex(struct ibv_context *verbs, uint32_t port, uint32_t index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
    static const union ibv_gid none;
    int error = fake_error(FAKE_QUERY_GID);

    (void)port, (void)flags;
    if (error || index >= FAKE_GIDS || entry_size != sizeof(*entry))
        return error ? error : EINVAL;
    *entry = device_of(verbs)->gid[index];
    entry->gid_index = index;
    return memcmp(&entry->gid, &none, sizeof(none)) ? 0 : ENODATA;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *verbs)
{
    struct ibv_pd *pd;

    if (fake_fails(FAKE_ALLOC_PD))
        return NULL;
    pd = fake_alloc(1, sizeof(*pd));
    pd->context = verbs;
    fake_born(1);
    return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    free(pd);
    fake_born(-1);
    return 0;
}

/* --- memory ----------------------------------------------------------------------------------- */

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
                                unsigned access)
{
    size_t max = device_of(pd->context)->max_mr_len;
    struct ibv_mr *mr;

    if (fake_fails(FAKE_REG_MR))
        return NULL;
    if (max && len > max) {
        errno = ENOMEM;
        return NULL;
    }
    mr = fake_alloc(1, sizeof(*mr));
    mr->context = pd->context;
    mr->pd = pd;
    mr->addr = addr;
    mr->length = len;
    mr->lkey = fake.next_key++;
    mr->rkey = fake.next_key++;
    mr->handle = access; /* for the test to look at */
    assert_int_equal(iova, (uintptr_t)addr);
    fake_born(1);
    return mr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
    return ibv_reg_mr_iova2(pd, addr, len, (uintptr_t)addr, (unsigned)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    free(mr);
    fake_born(-1);
    return 0;
}

/* --- completion queues ------------------------------------------------------------------------ */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *verbs)
{
    struct ibv_comp_channel *channel;

    if (fake_fails(FAKE_COMP_CHANNEL))
        return NULL;
    channel = fake_alloc(1, sizeof(*channel));
    channel->context = verbs;
    channel->fd = eventfd(0, 0);
    fake_born(1);
    return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    assert_int_equal(channel->refcnt, 0);
    close(channel->fd);
    free(channel);
    fake_born(-1);
    return 0;
}

/* The channel's descriptor is readable while it has events, which are the queues that fired. */
static void cq_fire(struct fake_cq *f)
{
    assert_int_equal(eventfd_write(f->cq.channel->fd, 1), 0);
    f->armed = false;
    f->fired = true;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **arg)
{
    for (unsigned i = 0; i < fake.cq_count; i++) {
        struct fake_cq *f = fake.cq[i];
        eventfd_t count;

        if (!f->fired || f->cq.channel != channel)
            continue;
        assert_int_equal(eventfd_read(channel->fd, &count), 0);
        if (count > 1)
            assert_int_equal(eventfd_write(channel->fd, count - 1), 0);
        f->fired = false;
        f->unacked++;
        *cq = &f->cq;
        *arg = f->cq.cq_context;
        return 0;
    }
    errno = EAGAIN;
    return -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned count)
{
    struct fake_cq *f = (struct fake_cq *)cq;

    assert_true(f->unacked >= count);
    f->unacked -= count;
}

bool fake_cq_armed(const struct ibv_cq *cq)
{
    return ((const struct fake_cq *)cq)->armed;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    int error = fake_error(FAKE_REQ_NOTIFY);

    assert_int_equal(solicited_only, 0);
    ((struct fake_cq *)cq)->armed = !error;
    return error;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *verbs, int entries, void *arg,
                             struct ibv_comp_channel *channel, int vector)
{
    struct fake_cq *cq;

    (void)vector;
    if (fake_fails(FAKE_CREATE_CQ))
        return NULL;
    if (entries < 1 || entries > device_of(verbs)->attr.max_cqe) {
        errno = EINVAL;
        return NULL;
    }
    cq = fake_alloc(1, sizeof(*cq));
    cq->cq.context = verbs;
    cq->cq.cqe = entries;
    cq->cq.channel = channel;
    cq->cq.cq_context = arg;
    cq->wc = fake_alloc((size_t)entries, sizeof(*cq->wc));
    assert_true(fake.cq_count < CQS_MAX);
    fake.cq[fake.cq_count++] = cq;
    if (channel)
        channel->refcnt++;
    fake_born(1);
    return &cq->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    struct fake_cq *f = (struct fake_cq *)cq;
    unsigned i = 0;

    assert_int_equal(f->unacked, 0); /* it would block for ever */
    while (fake.cq[i] != f)
        i++;
    fake.cq[i] = fake.cq[--fake.cq_count];
    if (cq->channel)
        cq->channel->refcnt--;
    free(f->wc);
    free(f);
    fake_born(-1);
    return 0;
}

void fake_completion(struct ibv_cq *cq, const struct ibv_wc *wc)
{
    struct fake_cq *f = (struct fake_cq *)cq;

    if (f->count == (unsigned)cq->cqe)
        fail_msg("the completion queue of %d entries overran", cq->cqe);
    f->wc[(f->head + f->count++) % (unsigned)cq->cqe] = *wc;
    if (f->armed)
        cq_fire(f);
}

unsigned fake_completions(const struct ibv_cq *cq)
{
    return ((const struct fake_cq *)cq)->count;
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
    struct fake_cq *f = (struct fake_cq *)cq;
    int n = 0;

    if (fake_fails(FAKE_POLL_CQ))
        return -1;
    for (; n < most && f->count; f->count--) {
        wc[n++] = f->wc[f->head];
        f->head = (f->head + 1) % (unsigned)cq->cqe;
    }
    return n;
}

/* --- receive queues --------------------------------------------------------------------------- */

void fake_recv_taken(unsigned count)
{
    fake.recv_taken = count;
}

static void rq_take(struct fake_rq *rq, const struct ibv_recv_wr *wr)
{
    rq->wr = fake_grow(rq->wr, rq->count, sizeof(*rq->wr));
    rq->sge = fake_grow(rq->sge, rq->count, sizeof(*rq->sge));
    rq->wr[rq->count] = *wr;
    rq->sge[rq->count++] = wr->sg_list[0];
}

static int rq_post(struct fake_rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    int error = fake_error(FAKE_POST_RECV);

    for (unsigned n = 0; wr && (!error || n < fake.recv_taken); wr = wr->next, n++)
        rq_take(rq, wr);
    if (error)
        *bad = wr;
    return error;
}

static void rq_free(struct fake_rq *rq)
{
    free(rq->wr);
    free(rq->sge);
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    return rq_post(&fake_qp(qp)->rq, wr, bad);
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct fake_srq *f = (struct fake_srq *)srq;
    int rc = rq_post(&f->rq, wr, bad);

    if (f->rq.count - f->rq.done > srq->handle)
        fail_msg("the shared receive queue of %u overran", srq->handle);
    return rc;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
    struct fake_srq *srq;

    if (fake_fails(FAKE_CREATE_SRQ))
        return NULL;
    if (init->attr.max_wr > device_of(pd->context)->max_srq) {
        errno = ENOMEM;
        return NULL;
    }
    srq = fake_alloc(1, sizeof(*srq));
    srq->srq.context = pd->context;
    srq->srq.pd = pd;
    srq->srq.handle = init->attr.max_wr;
    fake_born(1);
    return &srq->srq;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
    rq_free(&((struct fake_srq *)srq)->rq);
    free(srq);
    fake_born(-1);
    return 0;
}

unsigned fake_srq_posted(struct ibv_srq *srq)
{
    const struct fake_rq *rq = &((struct fake_srq *)srq)->rq;

    return rq->count - rq->done;
}

unsigned fake_qp_posted(struct ibv_qp *qp)
{
    const struct fake_rq *rq = &fake_qp(qp)->rq;

    return rq->count - rq->done;
}

static struct fake_rq *rq_of(struct ibv_qp *qp)
{
    return qp->srq ? &((struct fake_srq *)qp->srq)->rq : &fake_qp(qp)->rq;
}

static bool message(struct ibv_qp *qp, const void *bytes, size_t len, struct ibv_wc wc)
{
    struct fake_rq *rq = rq_of(qp);

    if (rq->done == rq->count)
        return false;
    if (len <= rq->sge[rq->done].length)
        memcpy((void *)(uintptr_t)rq->sge[rq->done].addr, bytes, len);
    else
        wc.status = IBV_WC_LOC_LEN_ERR;
    wc.opcode = IBV_WC_RECV;
    wc.qp_num = qp->qp_num;
    wc.byte_len = (uint32_t)len;
    wc.wr_id = rq->wr[rq->done++].wr_id;
    fake_completion(qp->recv_cq, &wc);
    return true;
}

bool fake_message(struct ibv_qp *qp, const void *bytes, size_t len)
{
    return message(qp, bytes, len, (struct ibv_wc){0});
}

bool fake_message_imm(struct ibv_qp *qp, const void *bytes, size_t len, uint32_t imm_data)
{
    return message(qp, bytes, len,
                   (struct ibv_wc){.wc_flags = IBV_WC_WITH_IMM, .imm_data = imm_data});
}

void fake_recv_had(struct ibv_qp *qp, const void *bytes, size_t len)
{
    const struct fake_rq *rq = rq_of(qp);

    memcpy((void *)(uintptr_t)rq->sge[rq->done].addr, bytes, len);
}

bool fake_put_imm(struct ibv_qp *qp, size_t len, uint32_t imm_data)
{
    struct fake_rq *rq = rq_of(qp);
    struct ibv_wc wc = {.opcode = IBV_WC_RECV_RDMA_WITH_IMM,
                        .wc_flags = IBV_WC_WITH_IMM,
                        .imm_data = imm_data,
                        .qp_num = qp->qp_num,
                        .byte_len = (uint32_t)len};

    if (rq->done == rq->count)
        return false;
    wc.wr_id = rq->wr[rq->done++].wr_id;
    fake_completion(qp->recv_cq, &wc);
    return true;
}

/* --- queue pairs ------------------------------------------------------------------------------ */

struct fake_qp *fake_qp(struct ibv_qp *qp)
{
    return (struct fake_qp *)qp;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    struct fake_device *device;
    struct fake_qp *qp;
    uint32_t most;

    if (fake_fails(FAKE_CREATE_QP))
        return NULL;
    device = device_of(pd->context);
    most = (uint32_t)device->attr.max_qp_wr;
    if (init->cap.max_inline_data > device->max_inline || init->cap.max_send_wr > most ||
        init->cap.max_recv_wr > most) {
        errno = EINVAL;
        return NULL;
    }
    qp = fake_alloc(1, sizeof(*qp));
    qp->qp = (struct ibv_qp){
        .context = pd->context,
        .qp_context = init->qp_context,
        .pd = pd,
        .send_cq = init->send_cq,
        .recv_cq = init->recv_cq,
        .srq = init->srq,
        .qp_num = fake.next_qp_num++,
        .qp_type = init->qp_type,
    };
    qp->init = *init;
    fake_born(1);
    return &qp->qp;
}

void fake_destroy_purges(bool yes)
{
    fake.destroy_purges = yes;
}

/* Takes what a queue pair has reported out of its completion queue. */
static void purge(struct fake_cq *cq, uint32_t qp_num)
{
    unsigned kept = 0, size = (unsigned)cq->cq.cqe;

    for (unsigned i = 0; i < cq->count; i++) {
        struct ibv_wc *wc = &cq->wc[(cq->head + i) % size];

        if (wc->qp_num != qp_num)
            cq->wc[(cq->head + kept++) % size] = *wc;
    }
    cq->count = kept;
}

void fake_on_destroy_qp(void (*fn)(const struct ibv_qp *qp))
{
    fake.on_destroy_qp = fn;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    if (fake.on_destroy_qp)
        fake.on_destroy_qp(qp);
    if (fake.destroy_purges)
        purge((struct fake_cq *)qp->send_cq, qp->qp_num);
    rq_free(&fake_qp(qp)->rq);
    free(fake_qp(qp)->sends);
    free(qp);
    fake_born(-1);
    return 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    struct fake_qp *f = fake_qp(qp);

    if (fake_fails(FAKE_MODIFY_QP))
        return errno;
    f->attr = *attr;
    f->attr_mask = mask;
    if (mask & IBV_QP_STATE)
        f->state = attr->qp_state;
    if (f->state == IBV_QPS_ERR && fake.flush_by_itself)
        fake_flush(qp);
    return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct fake_qp *f = fake_qp(qp);
    struct fake_send *s;
    int error = fake_error(FAKE_POST_SEND);

    if (!error && f->send_count - f->send_done >= f->init.cap.max_send_wr)
        fail_msg("the send queue of %u overran", f->init.cap.max_send_wr);
    if (error) {
        *bad = wr;
        return error;
    }
    assert_null(wr->next);
    f->sends = fake_grow(f->sends, f->send_count, sizeof(*f->sends));
    s = &f->sends[f->send_count++];
    memset(s, 0, sizeof(*s));
    s->wr = *wr;
    if (wr->num_sge) {
        s->sge = wr->sg_list[0];
        if (wr->opcode != IBV_WR_RDMA_READ)
            memcpy(s->bytes, (void *)(uintptr_t)s->sge.addr,
                   s->sge.length < FAKE_BYTES ? s->sge.length : FAKE_BYTES);
    }
    if (f->state == IBV_QPS_ERR && fake.flush_by_itself)
        fake_flush(qp);
    return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct ibv_ah *ah;

    (void)attr;
    if (fake_fails(FAKE_CREATE_AH))
        return NULL;
    ah = fake_alloc(1, sizeof(*ah));
    ah->context = pd->context;
    ah->pd = pd;
    fake_born(1);
    return ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
    free(ah);
    fake_born(-1);
    return 0;
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)qp, (void)gid, (void)lid;
    if (fake_fails(FAKE_ATTACH))
        return errno;
    fake_born(1);
    return 0;
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)qp, (void)gid, (void)lid;
    fake_born(-1);
    return 0;
}

void fake_send_completes(struct ibv_qp *qp, unsigned n, enum ibv_wc_status status)
{
    struct fake_qp *f = fake_qp(qp);
    struct ibv_wc wc = {.status = status, .qp_num = qp->qp_num, .vendor_err = status ? 0x77 : 0};

    assert_true(n < f->send_count);
    wc.wr_id = f->sends[n].wr.wr_id;
    fake_completion(qp->send_cq, &wc);
    if (n >= f->send_done)
        f->send_done = n + 1;
}

void fake_recv_fails(struct ibv_qp *qp, enum ibv_wc_status status)
{
    struct fake_rq *rq = rq_of(qp);
    struct ibv_wc wc = {.status = status, .qp_num = qp->qp_num, .byte_len = 0xdeadbeef};

    assert_true(rq->done < rq->count);
    wc.wr_id = rq->wr[rq->done++].wr_id;
    fake_completion(qp->recv_cq, &wc);
}

void fake_flush_by_itself(bool yes)
{
    fake.flush_by_itself = yes;
}

void fake_flush(struct ibv_qp *qp)
{
    struct fake_qp *f = fake_qp(qp);

    while (f->send_done < f->send_count)
        fake_send_completes(qp, f->send_done, IBV_WC_WR_FLUSH_ERR);
    while (!qp->srq && f->rq.done < f->rq.count)
        fake_recv_fails(qp, IBV_WC_WR_FLUSH_ERR);
}

/* --- asynchronous events, names --------------------------------------------------------------- */

static void async(struct ibv_async_event event)
{
    assert_true(fake.async_head + fake.async_count < ASYNC_MAX);
    fake.async[fake.async_head + fake.async_count++] = event;
    fake_count_up(fake.async_fd);
}

void fake_async(struct ibv_context *verbs, enum ibv_event_type type, struct ibv_qp *qp)
{
    (void)verbs;
    if (qp)
        async((struct ibv_async_event){.element.qp = qp, .event_type = type});
    else
        fake_port_event(1, type);
}

void fake_port_event(int port, enum ibv_event_type type)
{
    async((struct ibv_async_event){.element.port_num = port, .event_type = type});
}

unsigned fake_async_acked(void)
{
    return fake.async_acked;
}

int ibv_get_async_event(struct ibv_context *verbs, struct ibv_async_event *event)
{
    (void)verbs;
    if (!fake.async_count) {
        errno = EAGAIN;
        return -1;
    }
    fake_count_down(fake.async_fd);
    fake.async_count--;
    *event = fake.async[fake.async_head++];
    return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    (void)event;
    fake.async_acked++;
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    return status == IBV_WC_WR_FLUSH_ERR ? "flushed" : "completion error";
}

const char *ibv_event_type_str(enum ibv_event_type type)
{
    return type == IBV_EVENT_DEVICE_FATAL ? "local catastrophic error" : "event";
}

const char *ibv_port_state_str(enum ibv_port_state state)
{
    return state == IBV_PORT_DOWN ? "PORT_DOWN" : "PORT_OTHER";
}
