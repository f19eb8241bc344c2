/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages.
 *
 * Operation. A descriptor that ob1 gets from alloc or prepare_src lives in the private room of a
 * transport message, its segment points at that message's registered buffer. send() gives the
 * message to the transport, which keeps the bytes until the peer has acknowledged them. For ob1 the
 * descriptor is complete as soon as the message is on its way without further help of this process:
 * as a rule at once. Where it must wait, for its connection to begin with, it completes from
 * progress. Were it complete before, the application could return from MPI_Send, or Open MPI go
 * from a broadcast into a call of the runtime (as in MPI_Comm_spawn), and wait there for something
 * that the peer does only after this message. For the same reason sendi, after which ob1 holds a
 * send to be over, sends only what leaves at once.
 *
 * Out of room. ob1 copes with a refused message in two ways. Requests that could not start, and
 * fragments that could not be scheduled, are tried again from opal_progress() until they succeed.
 * Control messages (FIN, ACK, PUT) and RDMA fragments are tried again only when some other
 * operation of ob1 completes. As most messages complete at once there may be no such operation, and
 * the peer would wait for ever. So a small message is never refused: without a transport message it
 * is built in plain memory, and sent from progress as soon as there is room. Larger ones are
 * refused; that is the back pressure on the application. Messages in plain memory that stand
 * behind each other go in one, and for the sake of that those beyond a burst are kept, too, and
 * somewhat longer ones, as many as there is memory set aside for (btl_verbena_coalesce.c).
 *
 * Buffer ownership. Between send() and its completion a descriptor belongs to this file. A
 * descriptor with MCA_BTL_DES_FLAGS_BTL_OWNERSHIP is freed here once it is complete, others by ob1.
 * A send() that failed leaves the descriptor to ob1.
 *
 * Errors. A peer that is gone gives OPAL_ERR_UNREACH; the transport's error handler has told ob1.
 */
#include "btl_verbena.h"

#include "opal/datatype/opal_convertor.h"

#include <string.h>

static void frag_construct(btl_verbena_frag_t *frag)
{
    OBJ_CONSTRUCT(&frag->work, btl_verbena_work_t);
}

static void frag_destruct(btl_verbena_frag_t *frag)
{
    OBJ_DESTRUCT(&frag->work);
}

OBJ_CLASS_INSTANCE(btl_verbena_frag_t, mca_btl_base_descriptor_t, frag_construct, frag_destruct);

/* --- complete and free ---------------------------------------------------------------------- */

int btl_verbena_free(mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *descriptor)
{
    btl_verbena_frag_t *frag = (btl_verbena_frag_t *)descriptor;
    opal_free_list_t *home = frag->home; /* where there is none, the frag goes with its message */

    (void)btl;
    if (frag->msg)
        vbn_msg_put(frag->msg);
    if (home)
        opal_free_list_return(home, &frag->base.super);
    return OPAL_SUCCESS;
}

static void frag_complete(btl_verbena_frag_t *frag, int opal_status)
{
    mca_btl_base_module_t *btl = &frag->work.endpoint->module->super;
    uint32_t flags = frag->base.des_flags; /* the callback may free a descriptor that is ob1's */

    if ((flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK) && frag->base.des_cbfunc)
        frag->base.des_cbfunc(btl, frag->work.endpoint, &frag->base, opal_status);
    if (flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP)
        btl_verbena_free(btl, &frag->base);
}

/* --- messages that wait --------------------------------------------------------------------- */

static btl_verbena_frag_t *frag_of_work(btl_verbena_work_t *work)
{
    return BTL_VERBENA_OWNER(btl_verbena_frag_t, work, work);
}

/* True when COUNT messages that are given to the transport now need no progress to leave. */
static bool leave_at_once(btl_verbena_endpoint_t *endpoint, uint32_t count)
{
    return vbn_endpoint_ready(endpoint->peer) >= count;
}

/* A message that the transport has: is it on its way? */
static int given_start(btl_verbena_work_t *work)
{
    if (vbn_msg_waiting(frag_of_work(work)->msg))
        return VBN_ERR_AGAIN;
    frag_complete(frag_of_work(work), OPAL_SUCCESS);
    return VBN_OK;
}

/* VBN_ERR_AGAIN: not yet; the connection is being made, if there is none. */
static int may_begin(btl_verbena_endpoint_t *endpoint)
{
    int status;

    if (leave_at_once(endpoint, 1))
        return VBN_OK;
    status = vbn_endpoint_connect(endpoint->peer);
    return status == VBN_OK ? VBN_ERR_AGAIN : status;
}

static size_t coalesced_len(const btl_verbena_frag_t *frag)
{
    return btl_verbena_coalesced_len(frag->segment.seg_len);
}

static int plain_start(btl_verbena_work_t *work);

/* Takes the first that waits for ENDPOINT, if it is a short message that ROOM bytes can hold, too.
 */
static btl_verbena_frag_t *plain_take(btl_verbena_endpoint_t *endpoint, size_t room)
{
    opal_list_t *waiting = &endpoint->waiting;
    btl_verbena_work_t *first;
    bool fits;

    OPAL_THREAD_LOCK(&endpoint->module->lock);
    first = (btl_verbena_work_t *)opal_list_get_first(waiting);
    fits = !opal_list_is_empty(waiting) && first->start == plain_start &&
           coalesced_len(frag_of_work(first)) <= room;
    if (fits)
        opal_list_remove_first(waiting);
    OPAL_THREAD_UNLOCK(&endpoint->module->lock);
    return fits ? frag_of_work(first) : NULL;
}

/* Sends FIRST, SECOND and what stands behind them in one message, MSG, as far as that reaches. */
static void plain_send_all(btl_verbena_frag_t *first, btl_verbena_frag_t *second, vbn_msg_t *msg)
{
    btl_verbena_endpoint_t *endpoint = first->work.endpoint;
    btl_verbena_frag_t *frags[BTL_VERBENA_COALESCED_MAX], *frag = first;
    size_t room = endpoint->module->attr.max_am_len, len = 0;
    unsigned count = 0;
    int status;

    do {
        btl_verbena_coalesce((char *)vbn_msg_data(msg) + len, frag->tag,
                             frag->segment.seg_addr.pval, frag->segment.seg_len);
        len += coalesced_len(frag);
        frags[count++] = frag;
        if (count == 1)
            frag = second;
        else
            frag = count < BTL_VERBENA_COALESCED_MAX ? plain_take(endpoint, room - len) : NULL;
    } while (frag);
    status = btl_verbena_opal_status(btl_verbena_coalesced_send(msg, len));
    for (unsigned i = 0; i < count; i++)
        frag_complete(frags[i], status);
}

static int plain_send(btl_verbena_frag_t *frag, vbn_msg_t *msg)
{
    int status;

    memcpy(vbn_msg_data(msg), frag->segment.seg_addr.pval, frag->segment.seg_len);
    status = vbn_msg_send(msg, frag->tag, frag->segment.seg_len);
    if (status == VBN_OK)
        frag_complete(frag, OPAL_SUCCESS);
    return status;
}

/* A short message in plain memory, and with it those behind it. */
static int plain_start(btl_verbena_work_t *work)
{
    btl_verbena_endpoint_t *endpoint = work->endpoint;
    btl_verbena_frag_t *frag = frag_of_work(work), *next = NULL;
    size_t room = endpoint->module->attr.max_am_len; /* for two and more */
    int status = may_begin(endpoint);
    vbn_msg_t *msg;

    if (status == VBN_OK)
        status = vbn_msg_get(endpoint->peer, frag->segment.seg_len, &msg);
    if (status != VBN_OK)
        return status;
    if (coalesced_len(frag) < room)
        next = plain_take(endpoint, room - coalesced_len(frag));
    if (next)
        plain_send_all(frag, next, msg);
    else
        status = plain_send(frag, msg);
    vbn_msg_put(msg);
    return status;
}

/* A long one: where its first part leaves, the others have their place in what waits. */
static int long_send(btl_verbena_frag_t *frag)
{
    struct btl_verbena_source source = {.header = frag->segment.seg_addr.pval,
                                        .header_len = frag->segment.seg_len};
    int status = may_begin(frag->work.endpoint);

    if (status != VBN_OK)
        return status;
    return btl_verbena_long_send(frag->work.endpoint, &source, frag->tag, &frag->msg);
}

static int long_start(btl_verbena_work_t *work)
{
    int status = long_send(frag_of_work(work));

    if (status != VBN_OK)
        return status;
    work->start = given_start;
    return given_start(work);
}

static void frag_fail(btl_verbena_work_t *work, int status)
{
    frag_complete(frag_of_work(work), btl_verbena_opal_status(status));
}

/* Leaves FRAG to progress, which completes it. */
static int frag_defer(btl_verbena_frag_t *frag, int (*start)(btl_verbena_work_t *work))
{
    frag->work.start = start;
    frag->work.fail = frag_fail;
    frag->base.des_flags |= MCA_BTL_DES_SEND_ALWAYS_CALLBACK;
    btl_verbena_work_add(&frag->work, start == given_start ? &frag->work.endpoint->given
                                                           : &frag->work.endpoint->waiting);
    return OPAL_SUCCESS;
}

/* --- alloc, prepare_src, send --------------------------------------------------------------- */

/* Gives a frag in plain memory, one of HOME's, or NULL when there is none left. */
static btl_verbena_frag_t *frag_in_memory(opal_free_list_t *home)
{
    btl_verbena_frag_t *frag = (btl_verbena_frag_t *)opal_free_list_get(home);

    if (frag) {
        frag->segment.seg_addr.pval = frag->base.super.ptr;
        frag->msg = NULL;
        frag->home = home;
    }
    return frag;
}

static btl_verbena_frag_t *frag_in_msg(vbn_msg_t *msg)
{
    btl_verbena_frag_t *frag = vbn_msg_priv(msg);

    frag->segment.seg_addr.pval = vbn_msg_data(msg);
    frag->msg = msg;
    frag->home = NULL;
    return frag;
}

/* A frag for SIZE bytes, or NULL: without room only short messages get one. With LATER it is for
 * one behind a burst, which others will go with. */
static btl_verbena_frag_t *frag_get(btl_verbena_endpoint_t *endpoint, size_t size, bool later)
{
    btl_verbena_module_t *module = endpoint->module;
    vbn_msg_t *msg;
    int status;

    if (OPAL_UNLIKELY(later))
        return frag_in_memory(size <= BTL_VERBENA_PLAIN_MAX ? &module->frags
                                                            : &module->burst_frags);
    if (OPAL_UNLIKELY(size > module->attr.max_am_len))
        return size <= module->super.btl_eager_limit ? frag_in_memory(&module->long_frags) : NULL;
    status = vbn_msg_get(endpoint->peer, size, &msg);
    if (OPAL_LIKELY(status == VBN_OK))
        return frag_in_msg(msg);
    return status == VBN_ERR_AGAIN && size <= BTL_VERBENA_PLAIN_MAX ? frag_in_memory(&module->frags)
                                                                    : NULL;
}

/* Whether the descriptor is its owner's again once its end has been told, to be changed and sent
 * anew, as Open MPI 5's one-sided operations by messages do. A message of the transport is kept
 * until the peer has it, so such a frag is in plain memory. */
static bool is_sent_again(uint32_t flags)
{
    return (flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK) && !(flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);
}

/* As btl_verbena_alloc(), and LATER as frag_get(). */
static mca_btl_base_descriptor_t *descriptor_get(btl_verbena_endpoint_t *endpoint, uint8_t order,
                                                 size_t size, uint32_t flags, bool later)
{
    btl_verbena_module_t *module = endpoint->module;
    btl_verbena_frag_t *frag;

    if (OPAL_UNLIKELY(is_sent_again(flags) && size <= module->attr.max_am_len))
        frag = frag_in_memory(&module->kept_frags);
    else
        frag = frag_get(endpoint, size, later);
    if (OPAL_UNLIKELY(!frag))
        return NULL;

    frag->work.endpoint = endpoint;
    frag->segment.seg_len = size;
    frag->base.des_segments = &frag->segment;
    frag->base.des_segment_count = 1;
    frag->base.des_cbfunc = NULL;
    frag->base.des_cbdata = NULL;
    frag->base.des_context = NULL;
    frag->base.des_flags = flags;
    frag->base.order = order;
    return &frag->base;
}

mca_btl_base_descriptor_t *btl_verbena_alloc(mca_btl_base_module_t *btl,
                                             btl_verbena_endpoint_t *endpoint, uint8_t order,
                                             size_t size, uint32_t flags)
{
    (void)btl;
    return descriptor_get(endpoint, order, size, flags, false);
}

mca_btl_base_descriptor_t *btl_verbena_alloc_behind(btl_verbena_endpoint_t *endpoint, size_t size,
                                                    uint32_t flags)
{
    bool waits;

    OPAL_THREAD_LOCK(&endpoint->module->lock);
    waits = endpoint->is_busy;
    OPAL_THREAD_UNLOCK(&endpoint->module->lock);
    return descriptor_get(endpoint, MCA_BTL_NO_ORDER, size, flags, waits);
}

bool btl_verbena_pack(opal_convertor_t *convertor, void *to, size_t *len)
{
    struct iovec piece = {.iov_base = to, .iov_len = *len};
    uint32_t pieces = 1;

    return opal_convertor_pack(convertor, &piece, &pieces, len) >= 0;
}

mca_btl_base_descriptor_t *btl_verbena_prepare_src(mca_btl_base_module_t *btl,
                                                   btl_verbena_endpoint_t *endpoint,
                                                   opal_convertor_t *convertor, uint8_t order,
                                                   size_t reserve, size_t *size, uint32_t flags)
{
    mca_btl_base_descriptor_t *descriptor;
    char *data;

    if (reserve + *size > btl->btl_max_send_size)
        *size = btl->btl_max_send_size - reserve;
    descriptor = btl_verbena_alloc(btl, endpoint, order, reserve + *size, flags);
    if (OPAL_UNLIKELY(!descriptor))
        return NULL;

    data = descriptor->des_segments->seg_addr.pval;
    if (OPAL_UNLIKELY(!btl_verbena_pack(convertor, data + reserve, size))) {
        btl_verbena_free(btl, descriptor);
        return NULL;
    }
    descriptor->des_segments->seg_len = reserve + *size;
    return descriptor;
}

int btl_verbena_send(mca_btl_base_module_t *btl, btl_verbena_endpoint_t *endpoint,
                     mca_btl_base_descriptor_t *descriptor, mca_btl_base_tag_t tag)
{
    btl_verbena_frag_t *frag = (btl_verbena_frag_t *)descriptor;
    bool is_long = frag->home == &endpoint->module->long_frags;
    int status;

    (void)btl;
    frag->tag = tag;
    if (OPAL_UNLIKELY(!frag->msg && !is_long))
        return frag_defer(frag, plain_start);
    if (OPAL_UNLIKELY(is_long))
        status = long_send(frag);
    else
        status = vbn_msg_send(frag->msg, tag, frag->segment.seg_len);
    if (OPAL_UNLIKELY(status == VBN_ERR_AGAIN))
        return frag_defer(frag, long_start);
    if (OPAL_UNLIKELY(status != VBN_OK))
        return btl_verbena_opal_status(status);
    /* Whether it would leave at once is known afterwards only: others send, too. */
    if (OPAL_UNLIKELY(vbn_msg_waiting(frag->msg))) {
        /* The private room of a message comes as it is. */
        OBJ_CONSTRUCT(&frag->work.super, opal_list_item_t);
        return frag_defer(frag, given_start);
    }
    frag_complete(frag, OPAL_SUCCESS);
    return 1;
}

/* --- sendi ---------------------------------------------------------------------------------- */

/* As leave_at_once(), of messages that are filled first: in between another thread's may take what
 * they need to leave, and who sees that they wait can no longer take them back. */
static bool leave_surely(btl_verbena_endpoint_t *endpoint, uint32_t count)
{
    return !opal_using_threads() && leave_at_once(endpoint, count);
}

/* Sends data that need packing. */
static int send_packed(btl_verbena_endpoint_t *endpoint, opal_convertor_t *convertor,
                       const void *header, size_t header_size, size_t payload_size,
                       mca_btl_base_tag_t tag)
{
    vbn_msg_t *msg;
    char *data;
    int status = vbn_msg_get(endpoint->peer, header_size + payload_size, &msg);

    if (OPAL_UNLIKELY(status != VBN_OK))
        return status;
    data = vbn_msg_data(msg);
    memcpy(data, header, header_size);
    if (btl_verbena_pack(convertor, data + header_size, &payload_size))
        status = vbn_msg_send(msg, tag, header_size + payload_size);
    else
        status = VBN_ERR_INVALID;
    vbn_msg_put(msg);
    return status;
}

static int send_parts(btl_verbena_endpoint_t *endpoint, opal_convertor_t *convertor,
                      const void *header, size_t header_size, size_t payload_size,
                      mca_btl_base_tag_t tag)
{
    struct btl_verbena_source source = {.header = header,
                                        .header_len = header_size,
                                        .convertor = convertor,
                                        .payload_len = payload_size};

    return btl_verbena_long_send(endpoint, &source, tag, NULL);
}

/* VBN_ERR_AGAIN: it would have to wait. */
static int send_now(btl_verbena_endpoint_t *endpoint, opal_convertor_t *convertor, void *header,
                    size_t header_size, size_t payload_size, mca_btl_base_tag_t tag)
{
    struct iovec pieces[2] = {{.iov_base = header, .iov_len = header_size},
                              {.iov_len = payload_size}};
    uint32_t parts = btl_verbena_parts(endpoint->module, header_size + payload_size);

    if (OPAL_UNLIKELY(parts > 1))
        return leave_surely(endpoint, parts)
                   ? send_parts(endpoint, convertor, header, header_size, payload_size, tag)
                   : VBN_ERR_AGAIN;
    if (payload_size) { /* without, there may be no convertor to speak of */
        if (OPAL_UNLIKELY(opal_convertor_need_buffers(convertor)))
            return leave_surely(endpoint, 1)
                       ? send_packed(endpoint, convertor, header, header_size, payload_size, tag)
                       : VBN_ERR_AGAIN;
        opal_convertor_get_current_pointer(convertor, &pieces[1].iov_base);
    }
    return vbn_am_send_now(endpoint->peer, tag, pieces, payload_size ? 2 : 1);
}

int btl_verbena_sendi(mca_btl_base_module_t *btl, btl_verbena_endpoint_t *endpoint,
                      opal_convertor_t *convertor, void *header, size_t header_size,
                      size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                      mca_btl_base_descriptor_t **descriptor)
{
    size_t size = header_size + payload_size;
    bool later = btl_verbena_burst_over(endpoint) && size <= BTL_VERBENA_BURST_MAX;
    int status = VBN_ERR_AGAIN;

    (void)btl;
    if (OPAL_LIKELY(!later))
        status = send_now(endpoint, convertor, header, header_size, payload_size, tag);
    if (OPAL_LIKELY(status == VBN_OK))
        return OPAL_SUCCESS;
    if (descriptor)
        *descriptor =
            status == VBN_ERR_AGAIN ? descriptor_get(endpoint, order, size, flags, later) : NULL;
    return btl_verbena_opal_status(status);
}

/* --- receive -------------------------------------------------------------------------------- */

void btl_verbena_nobody_takes(mca_btl_base_tag_t tag, size_t len)
{
    opal_output_verbose(1, opal_btl_base_framework.framework_output,
                        "btl/verbena: dropped a message of %zu bytes for tag %u, which no "
                        "layer of this process takes",
                        len, tag);
}

void btl_verbena_receive(void *arg, vbn_endpoint_t *peer, uint8_t id, void *data, size_t len)
{
    btl_verbena_hand_up(arg, peer, id, data, len);
}
