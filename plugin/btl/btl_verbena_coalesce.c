/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several short messages to one peer in one message of the transport. What a message costs on a
 * software device it costs by being one, whatever its length (doc/trials.md), so a program
 * that sends many at once gains most of that.
 *
 * Operation. Of the messages that a process sends to a peer between two calls of progress, the
 * first `burst` leave at once. Short ones (BTL_VERBENA_BURST_MAX) beyond wait, in plain memory, for
 * the next call, which puts those that stand behind each other into one (btl_verbena_frag.c). So a
 * message by itself is never held back, and a process that goes away to compute after a burst is
 * what it is with each BTL whose queue is full: what waits goes when it calls MPI again.
 */
#include "btl_verbena.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <string.h>

enum { ID_COALESCED = MCA_BTL_TAG_BTL + 12 };

/* In network byte order, before the bytes of each message; it stands at a multiple of ALIGNMENT. */
struct inner {
    uint32_t len; /* bytes of the message, without those up to the next */
    uint16_t tag;
    uint16_t reserved;
};
_Static_assert(sizeof(struct inner) == 8, "travels between hosts");

#define ALIGNMENT 8u

static size_t aligned(size_t len)
{
    return (len + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

/* --- sending -------------------------------------------------------------------------------- */

bool btl_verbena_burst_over(btl_verbena_endpoint_t *endpoint)
{
    unsigned turn = atomic_load_explicit(&endpoint->module->turn, memory_order_relaxed), sent = 0;

    if (atomic_load_explicit(&endpoint->turn, memory_order_relaxed) == turn)
        sent = atomic_load_explicit(&endpoint->sent, memory_order_relaxed);
    else
        atomic_store_explicit(&endpoint->turn, turn, memory_order_relaxed);
    atomic_store_explicit(&endpoint->sent, sent + 1, memory_order_relaxed);
    return sent >= endpoint->module->burst;
}

size_t btl_verbena_coalesced_len(size_t len)
{
    return sizeof(struct inner) + aligned(len);
}

void btl_verbena_coalesce(void *to, mca_btl_base_tag_t tag, const void *bytes, size_t len)
{
    struct inner inner = {.len = htonl((uint32_t)len), .tag = htons(tag)};

    memcpy(to, &inner, sizeof(inner));
    memcpy((char *)to + sizeof(inner), bytes, len);
    memset((char *)to + sizeof(inner) + len, 0, aligned(len) - len);
}

int btl_verbena_coalesced_send(vbn_msg_t *msg, size_t len)
{
    return vbn_msg_send(msg, ID_COALESCED, len);
}

/* --- receiving ------------------------------------------------------------------------------ */

/* Hands up the first of LEFT bytes' messages. Returns the bytes that it takes, 0: it is none. */
static size_t hand_up_one(btl_verbena_module_t *module, vbn_endpoint_t *peer, char *bytes,
                          size_t left)
{
    mca_btl_base_tag_t tag;
    struct inner inner;
    size_t len;

    if (left < sizeof(inner))
        return 0;
    memcpy(&inner, bytes, sizeof(inner));
    len = ntohl(inner.len);
    if (len > left - sizeof(inner) || aligned(len) > left - sizeof(inner) ||
        ntohs(inner.tag) >= MCA_BTL_TAG_MAX)
        return 0;
    tag = (mca_btl_base_tag_t)ntohs(inner.tag);
    bytes += sizeof(inner);
    if (!btl_verbena_served_take(module, peer, tag, bytes, len))
        btl_verbena_hand_up(module, peer, tag, bytes, len);
    return btl_verbena_coalesced_len(len);
}

static void coalesced_came(void *arg, vbn_endpoint_t *peer, uint8_t id, void *data, size_t len)
{
    char *bytes = data;
    size_t taken;

    for (; len > 0; bytes += taken, len -= taken) {
        taken = hand_up_one(arg, peer, bytes, len);
        if (OPAL_UNLIKELY(!taken)) {
            btl_verbena_nobody_takes(id, len);
            return;
        }
    }
}

void btl_verbena_coalesce_init(btl_verbena_module_t *module)
{
    vbn_am_handler(module->context, ID_COALESCED, coalesced_came, module);
}
