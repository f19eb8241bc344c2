/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eager messages that are longer than a message of the transport: in parts, one behind the other,
 * which the receiver puts together. Where a device is software, to copy such a message costs less
 * than to ask its receiver first (doc/trials.md).
 *
 * Operation. The sender gets room for all parts before it fills the first, so that a message
 * leaves whole or not at all; `parting` keeps those of two threads apart. The receiver keeps what
 * has come in an item of `assemblies`, and hands it up from there.
 *
 * Errors. Parts that make no message are dropped, and that is said: no peer of ours sends them.
 * What came of a peer that is lost goes with it.
 */
#include "btl_verbena.h"

#include "opal/util/output.h"

#include <arpa/inet.h>
#include <string.h>

enum { ID_PART = MCA_BTL_TAG_BTL + 13 };

/* In network byte order, before the bytes of each part. */
struct part {
    uint32_t total; /* bytes of the message */
    uint16_t tag;   /* of the message */
    uint16_t first; /* 1: it begins here */
};
_Static_assert(sizeof(struct part) == 8, "travels between hosts");

/* A convertor may leave the end of a part empty, where the next element would not fit. The largest
 * that there is, MPI_C_LONG_DOUBLE_COMPLEX, has as many bytes. */
#define SLACK 32u

/* Up to where parts pay, with room for ob1's header: on soft-RoCE, and on soft-iWARP, whose reads
 * are answered by a thread of the kernel's that gets its turn behind those who poll. */
#define LONGEST_ROCE  (48 * 1024 + 64)
#define LONGEST_IWARP (128 * 1024 + 64)

OBJ_CLASS_INSTANCE(btl_verbena_long_t, opal_free_list_item_t, NULL, NULL);

/* --- sending -------------------------------------------------------------------------------- */

static size_t part_max(size_t max_am_len)
{
    return max_am_len - sizeof(struct part);
}

size_t btl_verbena_long_max(const struct vbn_attr *attr)
{
    size_t most = BTL_VERBENA_PARTS_MAX * (part_max(attr->max_am_len) - SLACK);
    size_t longest = attr->iwarp ? LONGEST_IWARP : LONGEST_ROCE;

    return most < longest ? most : longest;
}

uint32_t btl_verbena_parts(const btl_verbena_module_t *module, size_t len)
{
    size_t most = part_max(module->attr.max_am_len) - SLACK;

    return OPAL_LIKELY(len <= module->attr.max_am_len) ? 1 : (uint32_t)((len + most - 1) / most);
}

/* Bytes of LEFT, HEADER_LEN of them a header, that are to be in the next of COUNT parts: whole
 * packets of data, where that leaves no more than fits into the others. */
static size_t part_len(const btl_verbena_module_t *module, size_t left, size_t header_len,
                       uint32_t count)
{
    size_t most = part_max(module->attr.max_am_len), whole;

    if (left <= most || most < header_len + VBN_PACKET_MAX)
        return most;
    whole = header_len + (most - header_len) / VBN_PACKET_MAX * VBN_PACKET_MAX;
    return left - whole <= (count - 1) * (most - SLACK) ? whole : most;
}

/* Gets COUNT messages, or none. */
static int parts_get(btl_verbena_endpoint_t *endpoint, vbn_msg_t **parts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        int status = vbn_msg_get(endpoint->peer, endpoint->module->attr.max_am_len, &parts[i]);

        if (OPAL_LIKELY(status == VBN_OK))
            continue;
        while (i-- > 0)
            vbn_msg_put(parts[i]);
        return status;
    }
    return VBN_OK;
}

/* Takes up to *LEN of FROM's bytes to TO, and sets *LEN to how many. False when that failed. */
static bool take(struct btl_verbena_source *from, char *to, size_t *len)
{
    size_t head = from->header_len < *len ? from->header_len : *len, packed = *len - head;

    memcpy(to, from->header, head);
    from->header = (const char *)from->header + head;
    from->header_len -= head;
    if (packed > from->payload_len)
        packed = from->payload_len;
    if (packed && !btl_verbena_pack(from->convertor, to + head, &packed))
        return false;
    from->payload_len -= packed;
    *len = head + packed;
    return true;
}

/* Fills as many of COUNT parts as it takes. Returns how many; 0: it failed. */
static uint32_t parts_fill(const btl_verbena_module_t *module, struct btl_verbena_source *from,
                           mca_btl_base_tag_t tag, vbn_msg_t **parts, size_t *lens, uint32_t count)
{
    size_t left = from->header_len + from->payload_len;
    struct part head = {.total = htonl((uint32_t)left), .tag = htons(tag), .first = htons(1)};
    uint32_t used = 0;

    while (left > 0 && used < count) {
        char *data = vbn_msg_data(parts[used]);
        size_t len = part_len(module, left, from->header_len, count - used);

        memcpy(data, &head, sizeof(head));
        if (!take(from, data + sizeof(head), &len))
            return 0;
        lens[used++] = sizeof(head) + len;
        left -= len;
        head.first = 0;
    }
    return left > 0 ? 0 : used;
}

static int parts_send(btl_verbena_module_t *module, vbn_msg_t **parts, const size_t *lens,
                      uint32_t count)
{
    int status = VBN_OK;

    OPAL_THREAD_LOCK(&module->parting);
    for (uint32_t i = 0; i < count && status == VBN_OK; i++)
        status = vbn_msg_send(parts[i], ID_PART, lens[i]);
    OPAL_THREAD_UNLOCK(&module->parting);
    return status;
}

int btl_verbena_long_send(btl_verbena_endpoint_t *endpoint, struct btl_verbena_source *from,
                          mca_btl_base_tag_t tag, vbn_msg_t **last)
{
    btl_verbena_module_t *module = endpoint->module;
    uint32_t count = btl_verbena_parts(module, from->header_len + from->payload_len), used;
    vbn_msg_t *parts[BTL_VERBENA_PARTS_MAX];
    size_t lens[BTL_VERBENA_PARTS_MAX];
    int status = parts_get(endpoint, parts, count);

    if (OPAL_UNLIKELY(status != VBN_OK))
        return status;
    used = parts_fill(module, from, tag, parts, lens, count);
    status = used ? parts_send(module, parts, lens, used) : VBN_ERR_INVALID;
    if (last)
        *last = status == VBN_OK ? parts[used - 1] : NULL;
    for (uint32_t i = 0; i < count; i++)
        if (!last || parts[i] != *last)
            vbn_msg_put(parts[i]);
    return status;
}

/* --- receiving: only who makes progress comes here ------------------------------------------- */

/* What has come of a message by PEER, or NULL. */
static btl_verbena_long_t *begun_by(const btl_verbena_module_t *module, const vbn_endpoint_t *peer)
{
    btl_verbena_long_t *item;

    OPAL_LIST_FOREACH(item, &module->assembling, btl_verbena_long_t)
    if (item->peer == peer)
        return item;
    return NULL;
}

static void drop(btl_verbena_module_t *module, btl_verbena_long_t *item)
{
    opal_list_remove_item(&module->assembling, &item->super.super);
    opal_free_list_return(&module->assemblies, &item->super);
}

static btl_verbena_long_t *begin(btl_verbena_module_t *module, vbn_endpoint_t *peer, uint32_t total,
                                 mca_btl_base_tag_t tag)
{
    btl_verbena_long_t *item = (btl_verbena_long_t *)opal_free_list_get(&module->assemblies);

    if (OPAL_UNLIKELY(!item)) {
        opal_output(0, "verbena: no memory for a message of %u bytes", total);
        if (module->error_cb)
            module->error_cb(&module->super, MCA_BTL_ERROR_FLAGS_FATAL, NULL, NULL);
        return NULL;
    }
    item->peer = peer;
    item->total = total;
    item->tag = tag;
    item->len = 0;
    opal_list_append(&module->assembling, &item->super.super);
    return item;
}

/* The message that PEER's PART, of LEN bytes, belongs to, or NULL after a word about why none. */
static btl_verbena_long_t *message_of(btl_verbena_module_t *module, vbn_endpoint_t *peer,
                                      const struct part *part, size_t len)
{
    uint32_t total = ntohl(part->total);
    btl_verbena_long_t *item = begun_by(module, peer);

    if (ntohs(part->first)) {
        if (OPAL_UNLIKELY(item != NULL))
            drop(module, item);
        item = total <= btl_verbena_long_max(&module->attr) && ntohs(part->tag) < MCA_BTL_TAG_MAX
                   ? begin(module, peer, total, (mca_btl_base_tag_t)ntohs(part->tag))
                   : NULL;
    }
    if (OPAL_LIKELY(item && total == item->total && ntohs(part->tag) == item->tag &&
                    len <= total - item->len))
        return item;
    opal_output_verbose(1, opal_btl_base_framework.framework_output,
                        "btl/verbena: dropped %zu bytes that are no part of a message", len);
    if (item)
        drop(module, item);
    return NULL;
}

/* All of ITEM's message is there. */
static void finish(btl_verbena_module_t *module, btl_verbena_long_t *item)
{
    opal_list_remove_item(&module->assembling, &item->super.super);
    btl_verbena_hand_up(module, item->peer, item->tag, item->super.ptr, item->len);
    opal_free_list_return(&module->assemblies, &item->super);
}

static void part_came(void *arg, vbn_endpoint_t *peer, uint8_t id, void *data, size_t len)
{
    btl_verbena_module_t *module = arg;
    char *bytes = (char *)data + sizeof(struct part);
    btl_verbena_long_t *item;
    struct part part;

    (void)id;
    if (OPAL_UNLIKELY(len <= sizeof(part))) {
        btl_verbena_nobody_takes(ID_PART, len);
        return;
    }
    len -= sizeof(part);
    memcpy(&part, data, sizeof(part));
    item = message_of(module, peer, &part, len);
    if (OPAL_UNLIKELY(!item))
        return;
    memcpy((char *)item->super.ptr + item->len, bytes, len);
    item->len += len;
    if (item->len == item->total)
        finish(module, item);
}

void btl_verbena_long_lost(btl_verbena_module_t *module, const vbn_endpoint_t *peer)
{
    btl_verbena_long_t *item = begun_by(module, peer);

    if (item)
        drop(module, item);
}

void btl_verbena_long_init(btl_verbena_module_t *module)
{
    size_t longest = btl_verbena_long_max(&module->attr);

    btl_verbena_items_init(&module->long_frags, sizeof(btl_verbena_frag_t),
                           OBJ_CLASS(btl_verbena_frag_t), longest, BTL_VERBENA_LONG_FRAGS);
    btl_verbena_items_init(&module->assemblies, sizeof(btl_verbena_long_t),
                           OBJ_CLASS(btl_verbena_long_t), longest, -1);
    vbn_am_handler(module->context, ID_PART, part_came, module);
}
