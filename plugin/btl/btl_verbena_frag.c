/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages.
 *
 * Operation. A descriptor that ob1 gets from alloc or prepare_src lives in the private room of a
 * transport message, its segment points at that message's registered buffer. send() gives the
 * message to the transport, which keeps the bytes until the peer has acknowledged them. For ob1 the
 * descriptor is then complete: it is called back, or told by the return value 1, at once.
 *
 * Out of room. ob1 copes with a refused message in two ways. Requests that could not start, and
 * fragments that could not be scheduled, are tried again from opal_progress() until they succeed.
 * Control messages (FIN, ACK, PUT) and RDMA fragments are tried again only when some other
 * operation of ob1 completes. As our messages complete at once there may be no such operation, and
 * the peer would wait for ever. So a small message is never refused: without a transport message it
 * is built in plain memory, and sent from progress as soon as there is room. Larger ones, and
 * sendi, which ob1 uses only to start requests, are refused; that is the back pressure on the
 * application.
 *
 * Buffer ownership. Between send() and its completion a descriptor belongs to this file. A
 * descriptor with MCA_BTL_DES_FLAGS_BTL_OWNERSHIP is freed here once it was sent, others by ob1. A
 * send() that failed leaves the descriptor to ob1.
 *
 * Errors. A peer that is gone gives OPAL_ERR_UNREACH; the transport's error handler has told ob1.
 */
#include "btl_verbena.h"

#include "opal/datatype/opal_convertor.h"

#include <string.h>

OBJ_CLASS_INSTANCE(btl_verbena_frag_t, mca_btl_base_descriptor_t, NULL, NULL);

/* --- complete and free ---------------------------------------------------------------------- */

int btl_verbena_free(mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *descriptor)
{
    btl_verbena_module_t *module = (btl_verbena_module_t *)btl;
    btl_verbena_frag_t *frag = (btl_verbena_frag_t *)descriptor;

    if (frag->msg)
        vbn_msg_put(frag->msg);
    else
        opal_free_list_return(&module->controls, &frag->base.super);
    return OPAL_SUCCESS;
}

static void frag_complete(btl_verbena_frag_t *frag, int opal_status)
{
    mca_btl_base_module_t *btl = &frag->endpoint->module->super;
    uint32_t flags = frag->base.des_flags; /* the callback may free a descriptor that is ob1's */

    if ((flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK) && frag->base.des_cbfunc)
        frag->base.des_cbfunc(btl, frag->endpoint, &frag->base, opal_status);
    if (flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP)
        btl_verbena_free(btl, &frag->base);
}

/* --- control messages without a transport message ------------------------------------------- */

static int control_start(btl_verbena_work_t *work)
{
    btl_verbena_control_t *control = BTL_VERBENA_OWNER(btl_verbena_control_t, work, work);
    btl_verbena_frag_t *frag = &control->frag;
    struct iovec piece = {.iov_base = frag->segment.seg_addr.pval,
                          .iov_len = frag->segment.seg_len};
    int status = vbn_am_send(frag->endpoint->peer, control->tag, &piece, 1);

    if (status == VBN_OK)
        frag_complete(frag, OPAL_SUCCESS);
    return status;
}

static void control_fail(btl_verbena_work_t *work, int status)
{
    btl_verbena_control_t *control = BTL_VERBENA_OWNER(btl_verbena_control_t, work, work);

    frag_complete(&control->frag, btl_verbena_opal_status(status));
}

static void control_construct(btl_verbena_control_t *control)
{
    OBJ_CONSTRUCT(&control->work, btl_verbena_work_t);
    control->work.start = control_start;
    control->work.fail = control_fail;
}

static void control_destruct(btl_verbena_control_t *control)
{
    OBJ_DESTRUCT(&control->work);
}

OBJ_CLASS_INSTANCE(btl_verbena_control_t, btl_verbena_frag_t, control_construct, control_destruct);

/* Gives a message in plain memory, or NULL when memory itself is exhausted. */
static btl_verbena_frag_t *control_get(btl_verbena_endpoint_t *endpoint)
{
    opal_free_list_item_t *item = opal_free_list_get(&endpoint->module->controls);
    btl_verbena_control_t *control = (btl_verbena_control_t *)item;

    if (!item)
        return NULL;
    control->work.endpoint = endpoint;
    control->frag.segment.seg_addr.pval = item->ptr;
    control->frag.msg = NULL;
    return &control->frag;
}

static int control_send(btl_verbena_frag_t *frag, mca_btl_base_tag_t tag)
{
    btl_verbena_control_t *control = BTL_VERBENA_OWNER(btl_verbena_control_t, frag, frag);

    control->tag = tag;
    frag->base.des_flags |= MCA_BTL_DES_SEND_ALWAYS_CALLBACK;
    btl_verbena_work_add(frag->endpoint->module, &control->work);
    return OPAL_SUCCESS;
}

/* --- alloc, prepare_src, send --------------------------------------------------------------- */

static btl_verbena_frag_t *frag_of_msg(vbn_msg_t *msg)
{
    btl_verbena_frag_t *frag = vbn_msg_priv(msg);

    frag->segment.seg_addr.pval = vbn_msg_data(msg);
    frag->msg = msg;
    return frag;
}

mca_btl_base_descriptor_t *btl_verbena_alloc(mca_btl_base_module_t *btl,
                                             btl_verbena_endpoint_t *endpoint, uint8_t order,
                                             size_t size, uint32_t flags)
{
    btl_verbena_frag_t *frag = NULL;
    vbn_msg_t *msg;
    int status;

    if (OPAL_UNLIKELY(size > btl->btl_max_send_size))
        return NULL;
    status = vbn_msg_get(endpoint->peer, size, &msg);
    if (OPAL_LIKELY(status == VBN_OK))
        frag = frag_of_msg(msg);
    else if (status == VBN_ERR_AGAIN && size <= BTL_VERBENA_CONTROL_MAX)
        frag = control_get(endpoint);
    if (OPAL_UNLIKELY(!frag))
        return NULL;

    frag->endpoint = endpoint;
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

/* Packs at most *LEN bytes to TO and sets *LEN to what was packed. False when that failed. */
static bool pack(opal_convertor_t *convertor, void *to, size_t *len)
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
    if (OPAL_UNLIKELY(!pack(convertor, data + reserve, size))) {
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
    int status;

    (void)btl;
    (void)endpoint;
    if (OPAL_UNLIKELY(!frag->msg))
        return control_send(frag, tag);
    status = vbn_msg_send(frag->msg, tag, frag->segment.seg_len);
    if (OPAL_UNLIKELY(status != VBN_OK))
        return btl_verbena_opal_status(status);
    frag_complete(frag, OPAL_SUCCESS);
    return 1;
}

/* --- sendi ---------------------------------------------------------------------------------- */

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
    if (pack(convertor, data + header_size, &payload_size))
        status = vbn_msg_send(msg, tag, header_size + payload_size);
    else
        status = VBN_ERR_INVALID;
    vbn_msg_put(msg);
    return status;
}

int btl_verbena_sendi(mca_btl_base_module_t *btl, btl_verbena_endpoint_t *endpoint,
                      opal_convertor_t *convertor, void *header, size_t header_size,
                      size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                      mca_btl_base_descriptor_t **descriptor)
{
    struct iovec pieces[2] = {{.iov_base = header, .iov_len = header_size},
                              {.iov_len = payload_size}};
    int status;

    (void)btl;
    (void)order;
    (void)flags;
    /* Without payload there may be no convertor to speak of. */
    if (payload_size && opal_convertor_need_buffers(convertor)) {
        status = send_packed(endpoint, convertor, header, header_size, payload_size, tag);
    } else {
        if (payload_size)
            opal_convertor_get_current_pointer(convertor, &pieces[1].iov_base);
        status = vbn_am_send(endpoint->peer, tag, pieces, payload_size ? 2 : 1);
    }
    if (OPAL_LIKELY(status == VBN_OK))
        return OPAL_SUCCESS;
    if (descriptor)
        *descriptor = NULL;
    return btl_verbena_opal_status(status);
}

/* --- receive -------------------------------------------------------------------------------- */

void btl_verbena_receive(void *arg, vbn_endpoint_t *peer, uint8_t id, void *data, size_t len)
{
    btl_verbena_module_t *module = arg;

    (void)peer;
    if (OPAL_UNLIKELY(!btl_verbena_deliver(&module->super, id, data, len)))
        opal_output_verbose(1, opal_btl_base_framework.framework_output,
                            "btl/verbena: dropped a message of %zu bytes for tag %u, which no "
                            "layer of this process takes",
                            len, id);
}
