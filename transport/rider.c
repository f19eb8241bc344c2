/* SPDX-License-Identifier: BSD-3-Clause */
#include "rider.h"
#include "bare.h"
#include "context.h"

#include <arpa/inet.h>

bool vbn_rider_fits(const struct vbn_conn *conn, const struct vbn_rider *rider, size_t len,
                    uint32_t *imm)
{
    struct vbn_wire_rider word = {.number = (uint16_t)rider->number,
                                  .seq = conn->ep->tx_next % VBN_BARE_SEQS,
                                  .placed = rider->placed};

    if (conn->version < VBN_WIRE_RIDERS || conn->ctx->device.iwarp || len < VBN_RIDER_MIN ||
        !vbn_bare_news(conn, &word.news) || rider->last - rider->number >= VBN_RIDER_NUMBERS)
        return false;
    *imm = htonl(vbn_wire_rider_pack(&word));
    return true;
}

/* Writes the payload of WORD of EP's; returns its length, 0: there is none. */
static uint32_t payload_of(const vbn_endpoint_t *ep, const struct vbn_wire_rider *word, void *to)
{
    uint32_t last = ep->tag.last_offer;
    struct vbn_wire_answer done = {.id = last - (uint16_t)(last - word->number)};
    struct vbn_tag_op *t;

    if (!word->placed) {
        vbn_wire_answer_write(to, &done);
        return sizeof(done);
    }
    t = vbn_tag_told(ep, word->number);
    if (!t)
        return 0;
    vbn_wire_tag_write(to, &(struct vbn_wire_tag){.tag = vbn_tag_op(t)->tag, .len = t->cap});
    return sizeof(struct vbn_wire_tag);
}

uint32_t vbn_rider_restore(const struct vbn_conn *conn, uint32_t imm, void *buf)
{
    struct vbn_wire_rider word;
    struct vbn_wire_hdr hdr;

    if (conn->version < VBN_WIRE_RIDERS || !vbn_wire_rider_unpack(ntohl(imm), &word))
        return 0;
    hdr = vbn_bare_hdr(conn, word.seq, word.news);
    hdr.type = VBN_WIRE_TAG;
    hdr.id = word.placed ? VBN_TAG_PLACED : VBN_TAG_DONE;
    hdr.len = payload_of(conn->ep, &word, (char *)buf + sizeof(hdr));
    if (!hdr.len)
        return 0;
    vbn_wire_hdr_write(buf, &hdr);
    return (uint32_t)sizeof(hdr) + hdr.len;
}
