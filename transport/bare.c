/* SPDX-License-Identifier: BSD-3-Clause */
#include "bare.h"
#include "context.h"

#include <arpa/inet.h>
#include <string.h>

#define NO_WORD UINT32_MAX

/* What is left out of the payload is a multiple of this, so that the rest keeps its place in words.
 * Where the processor reads words from anywhere, that does not matter. */
#if defined(__x86_64__) || defined(__aarch64__) || defined(__powerpc64__) || defined(__s390x__)
#define UNIT 2
#else
#define UNIT 16
#endif

void vbn_bare_init(struct vbn_conn *conn)
{
    struct vbn_bare *bare = &conn->bare;

    bare->send =
        (struct ibv_send_wr){.sg_list = &conn->q.sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM};
    if (conn->version >= VBN_WIRE_BARES && !conn->ctx->device.iwarp)
        bare->packet = conn->q.packet;
}

void vbn_bare_keep(struct vbn_bare_heads *heads, const struct vbn_wire_hdr *hdr,
                   const void *payload)
{
    struct vbn_bare_head *head = &heads->kept[heads->next++ % VBN_BARE_HEADS];

    head->len = hdr->len;
    head->type = hdr->type;
    head->id = hdr->id;
    memcpy(head->bytes, payload, sizeof(head->bytes));
}

/* The one word of 16 bits in which the first LEN bytes of A and B differ; any if in none, NO_WORD
 * if in more. */
static uint32_t other_word(const unsigned char *a, const unsigned char *b, uint32_t len)
{
    uint32_t other = 0, count = 0;

    for (uint32_t at = 0; at < len; at += 2)
        if (a[at] != b[at] || a[at + 1] != b[at + 1]) {
            other = at / 2;
            count++;
        }
    return count <= 1 ? other : NO_WORD;
}

/* Finds what is kept of a message like MSG, whose first LEN bytes of payload are to be left out. */
static bool find(const struct vbn_bare_heads *heads, const struct vbn_msg *msg, uint32_t len,
                 struct vbn_wire_bare *bare)
{
    const unsigned char *payload = vbn_tx_payload(msg);

    for (uint8_t i = 0; i < VBN_BARE_HEADS; i++) {
        const struct vbn_bare_head *head = &heads->kept[i];
        uint32_t word;

        if (head->len != msg->len || head->type != msg->type || head->id != msg->id)
            continue;
        word = other_word(head->bytes, payload, len);
        if (word == NO_WORD)
            continue;
        bare->head = i;
        bare->word = (uint8_t)word;
        bare->value = (uint16_t)(payload[2 * word] | payload[2 * word + 1] << 8);
        return true;
    }
    return false;
}

/* Sets *LEFT_OUT to the bytes of a payload of LEN that are too much for whole packets. False: there
 * is nothing to be gained, or those are too many. */
static bool leaves_whole_packets(uint32_t len, uint32_t packet, uint32_t *left_out)
{
    uint32_t over = ((uint32_t)sizeof(struct vbn_wire_hdr) + len) & (packet - 1);

    *left_out = over <= sizeof(struct vbn_wire_hdr) ? 0 : over - sizeof(struct vbn_wire_hdr);
    return over != 0 && *left_out <= VBN_BARE_HEAD && *left_out % UNIT == 0;
}

bool vbn_bare_news(const struct vbn_conn *conn, uint8_t *news)
{
    uint32_t untold = conn->ep->rx_next - conn->told_next;

    *news = (uint8_t)untold;
    return untold <= VBN_BARE_NEWS_MAX && untold == vbn_flow_untold(&conn->flow);
}

struct vbn_wire_hdr vbn_bare_hdr(const struct vbn_conn *conn, uint8_t seq, uint8_t news)
{
    uint32_t expected = conn->ep->rx_next;

    return (struct vbn_wire_hdr){
        .credits = (uint16_t)(conn->flow.tx_grant + news),
        .seq = expected + (seq - expected) % VBN_BARE_SEQS,
        .ack = conn->ep->tx_acked + news,
    };
}

uint32_t vbn_bare_cut(struct vbn_conn *conn, const struct vbn_msg *msg)
{
    struct vbn_bare *bare = &conn->bare;
    struct vbn_wire_bare word = {.seq = conn->ep->tx_next % VBN_BARE_SEQS};
    uint32_t left_out;

    if (!bare->packet)
        return 0;
    if (leaves_whole_packets(msg->len, bare->packet, &left_out) &&
        vbn_bare_news(conn, &word.news) && find(&bare->out, msg, left_out, &word)) {
        bare->send.imm_data = htonl(vbn_wire_bare_pack(&word));
        return (uint32_t)sizeof(struct vbn_wire_hdr) + left_out;
    }
    vbn_bare_keep(&bare->out,
                  &(struct vbn_wire_hdr){.type = msg->type, .id = msg->id, .len = msg->len},
                  vbn_tx_payload(msg));
    return 0;
}

uint32_t vbn_bare_restore(const struct vbn_conn *conn, uint32_t imm, void *data, uint32_t len)
{
    struct vbn_wire_bare bare = vbn_wire_bare_unpack(ntohl(imm));
    const struct vbn_bare_head *head = &conn->bare.in.kept[bare.head];
    struct vbn_wire_hdr hdr = vbn_bare_hdr(conn, bare.seq, bare.news);
    uint32_t left_out = head->len - len;
    unsigned char *payload;

    if (conn->version < VBN_WIRE_BARES || !head->len || left_out > VBN_BARE_HEAD ||
        left_out % 2 != 0 || (2u * bare.word >= left_out && bare.word))
        return 0;
    hdr.type = head->type;
    hdr.id = head->id;
    hdr.len = head->len;
    payload = (unsigned char *)data - left_out;
    memcpy(payload, head->bytes, left_out);
    if (left_out) {
        payload[2 * bare.word] = (unsigned char)bare.value;
        payload[2 * bare.word + 1] = (unsigned char)(bare.value >> 8);
    }
    vbn_wire_hdr_write(payload - sizeof(hdr), &hdr);
    return (uint32_t)sizeof(hdr) + left_out;
}
