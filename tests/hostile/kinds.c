/* SPDX-License-Identifier: BSD-3-Clause */
/* The kinds of shots: what is wrong with each, and how it may be refused. */
#include "hostile.h"

#include <stdio.h>
#include <string.h>

#define REASON(name) (1u << VBN_REASON_##name)

/* --- requests --------------------------------------------------------------------------------- */

static size_t empty(struct hostile *h, const struct target *t, struct vbn_wire_hello *hello)
{
    (void)h, (void)t, (void)hello;
    return 0;
}

/* InfiniBand fills up with zeros: what is cut off must have meant something. More than this hello's
 * length no connection manager sends. */
static size_t cut_short(struct hostile *h, const struct target *t, struct vbn_wire_hello *hello)
{
    (void)t, (void)hello;
    return 1 + rnd(h) % offsetof(struct vbn_wire_hello, credits);
}

static size_t noise(struct hostile *h, const struct target *t, struct vbn_wire_hello *hello)
{
    uint8_t *bytes = (uint8_t *)hello;

    (void)t;
    for (size_t i = 0; i < sizeof(*hello); i++)
        bytes[i] = (uint8_t)rnd(h);
    return sizeof(*hello);
}

static size_t wrong_magic(struct hostile *h, const struct target *t, struct vbn_wire_hello *hello)
{
    (void)t;
    hello->magic ^= htole32(1u << rnd(h) % 32);
    return sizeof(*hello);
}

static size_t versions_crossed(struct hostile *h, const struct target *t,
                               struct vbn_wire_hello *hello)
{
    (void)t;
    hello->version_min = (uint8_t)(2 + rnd(h) % 200);
    hello->version = (uint8_t)(rnd(h) % hello->version_min);
    return sizeof(*hello);
}

static size_t later_version(struct hostile *h, const struct target *t, struct vbn_wire_hello *hello)
{
    (void)t;
    hello->version_min = (uint8_t)(VBN_WIRE_VERSION + 1 + rnd(h) % 100);
    hello->version = (uint8_t)(hello->version_min + rnd(h) % 100);
    return sizeof(*hello);
}

static size_t wrong_key(struct hostile *h, const struct target *t, struct vbn_wire_hello *hello)
{
    (void)t;
    hello->job_key ^= htole64(UINT64_C(1) << rnd(h) % 64);
    return sizeof(*hello);
}

static size_t for_another(struct hostile *h, const struct target *t, struct vbn_wire_hello *hello)
{
    (void)t;
    hello->dst_uid = rnd(h);
    return sizeof(*hello);
}

static size_t its_own(struct hostile *h, const struct target *t, struct vbn_wire_hello *hello)
{
    (void)h, (void)t;
    hello->src_uid = hello->dst_uid;
    return sizeof(*hello);
}

static size_t of_nobody(struct hostile *h, const struct target *t, struct vbn_wire_hello *hello)
{
    (void)h, (void)t;
    hello->src_uid = 0;
    return sizeof(*hello);
}

static size_t other_sizes(struct hostile *h, const struct target *t, struct vbn_wire_hello *hello)
{
    uint32_t room = VBN_BUF_SIZE_MAX - VBN_BUF_SIZE_MIN, size;

    (void)t;
    do
        size = VBN_BUF_SIZE_MIN + (uint32_t)(rnd(h) % room);
    while (size == h->buf_size);
    hello->buf_size = htole32(size);
    return sizeof(*hello);
}

static size_t absurd_sizes(struct hostile *h, const struct target *t, struct vbn_wire_hello *hello)
{
    static const uint32_t sizes[] = {0,         1, 16, VBN_BUF_SIZE_MIN - 1, VBN_BUF_SIZE_MAX + 1,
                                     UINT32_MAX};

    (void)t;
    hello->buf_size = htole32(sizes[rnd(h) % 6]);
    return sizeof(*hello);
}

static size_t absurd_credits(struct hostile *h, const struct target *t,
                             struct vbn_wire_hello *hello)
{
    static const uint16_t credits[] = {0, 1, VBN_WINDOW_MIN - 1, VBN_WINDOW_MAX + 1, UINT16_MAX};

    (void)t;
    hello->credits = htole16(credits[rnd(h) % 5]);
    return sizeof(*hello);
}

static size_t session_made_up(struct hostile *h, const struct target *t,
                              struct vbn_wire_hello *hello)
{
    (void)t;
    hello->session = htole32((uint32_t)(1 + rnd(h) % UINT32_MAX));
    return sizeof(*hello);
}

static size_t number_made_up(struct hostile *h, const struct target *t,
                             struct vbn_wire_hello *hello)
{
    (void)t;
    hello->rx_next = htole32((uint32_t)(1 + rnd(h) % INT32_MAX));
    return sizeof(*hello);
}

/* A right one, of a release that knows of neither words of waiting nor marks yet. */
static size_t of_earlier_version(struct hostile *h, const struct target *t,
                                 struct vbn_wire_hello *hello)
{
    (void)h, (void)t;
    hello->version = VBN_WIRE_DRIES - 1;
    return sizeof(*hello);
}

/* The first request of a rank to another, once more. It goes to whom it was for: the other rank. */
static size_t replayed(struct hostile *h, const struct target *t, struct vbn_wire_hello *hello)
{
    for (unsigned i = 0; i < h->target_count; i++)
        if (h->targets[i].uid != t->uid)
            hello->src_uid = htole64(h->targets[i].uid);
    return sizeof(*hello);
}

/* In the name of a rank that has lost its connection: it has to be given up for that, but nobody
 * else may have the next one. */
static size_t replayed_ahead(struct hostile *h, const struct target *t,
                             struct vbn_wire_hello *hello)
{
    replayed(h, t, hello);
    hello->session = htole32((uint32_t)(rnd(h) % INT32_MAX));
    hello->rx_next = htole32((uint32_t)(UINT32_C(0x40000000) + rnd(h) % 0x1000000));
    return sizeof(*hello);
}

/* --- messages --------------------------------------------------------------------------------- */

/* HDR and EXTRA bytes behind it. */
static void say(struct hostile *h, struct ibv_send_wr *wr, const struct vbn_wire_hdr *hdr,
                uint32_t extra)
{
    vbn_wire_hdr_write(h->message, hdr);
    h->sge.length = (uint32_t)sizeof(*hdr) + extra;
    wr->opcode = IBV_WR_SEND;
}

static struct vbn_wire_hdr header(struct hostile *h, uint8_t type)
{
    (void)h;
    return (struct vbn_wire_hdr){.type = type, .credits = 16};
}

/* A number that means nothing, of those up to LAST that do. */
static uint8_t beyond(struct hostile *h, uint8_t last)
{
    return (uint8_t)(last + 1 + rnd(h) % (UINT8_MAX - last));
}

static void unknown_type(struct hostile *h, struct ibv_send_wr *wr)
{
    struct vbn_wire_hdr hdr = header(h, beyond(h, VBN_WIRE_TYPE_LAST));

    say(h, wr, &hdr, 0);
}

static void of_later_version(struct hostile *h, struct ibv_send_wr *wr)
{
    struct vbn_wire_hdr hdr = header(h, rnd(h) % 2 ? VBN_WIRE_DRY : VBN_WIRE_MARK);

    say(h, wr, &hdr, 0);
}

static void shorter_than_a_header(struct hostile *h, struct ibv_send_wr *wr)
{
    struct vbn_wire_hdr hdr = header(h, VBN_WIRE_ACK);

    say(h, wr, &hdr, 0);
    h->sge.length = (uint32_t)(1 + rnd(h) % (sizeof(hdr) - 1));
}

static void wrong_length(struct hostile *h, struct ibv_send_wr *wr)
{
    struct vbn_wire_hdr hdr = header(h, VBN_WIRE_AM);

    hdr.len = (uint32_t)rnd(h) | 1u << 10;
    say(h, wr, &hdr, (uint32_t)(rnd(h) % 1000));
}

static void longer_than_a_buffer(struct hostile *h, struct ibv_send_wr *wr)
{
    struct vbn_wire_hdr hdr = header(h, VBN_WIRE_AM);

    hdr.len = h->buf_size;
    say(h, wr, &hdr, h->buf_size);
}

static void out_of_order(struct hostile *h, struct ibv_send_wr *wr)
{
    struct vbn_wire_hdr hdr = header(h, VBN_WIRE_AM);

    hdr.seq = (uint32_t)(1 + rnd(h) % UINT32_MAX);
    say(h, wr, &hdr, 0);
}

static void credits_taken_back(struct hostile *h, struct ibv_send_wr *wr)
{
    struct vbn_wire_hdr hdr = header(h, VBN_WIRE_ACK);

    hdr.credits = (uint16_t)(rnd(h) % 16);
    say(h, wr, &hdr, 0);
}

static void credits_beyond_the_window(struct hostile *h, struct ibv_send_wr *wr)
{
    struct vbn_wire_hdr hdr = header(h, VBN_WIRE_ACK);

    hdr.credits = (uint16_t)(VBN_WINDOW_MAX + 1 + rnd(h) % 8192);
    say(h, wr, &hdr, 0);
}

static void never_sent(struct hostile *h, struct ibv_send_wr *wr)
{
    struct vbn_wire_hdr hdr = header(h, VBN_WIRE_ACK);

    hdr.ack = (uint32_t)(1 + rnd(h) % UINT32_MAX);
    say(h, wr, &hdr, 0);
}

/* Packets whose head was never told, with any immediate data. */
static void head_never_told(struct hostile *h, struct ibv_send_wr *wr)
{
    struct vbn_wire_hdr hdr = header(h, VBN_WIRE_AM);

    hdr.len = VBN_BARE_MIN;
    say(h, wr, &hdr, hdr.len);
    wr->opcode = IBV_WR_SEND_WITH_IMM;
    wr->imm_data = (uint32_t)rnd(h);
}

/* A tagged message of a kind that does not exist. */
static void unknown_kind(struct hostile *h, struct ibv_send_wr *wr)
{
    struct vbn_wire_hdr hdr = header(h, VBN_WIRE_TAG);

    hdr.id = beyond(h, VBN_TAG_KIND_LAST);
    hdr.len = 64;
    say(h, wr, &hdr, hdr.len);
}

/* The answer to an offer that was never made. */
static void unasked_answer(struct hostile *h, struct ibv_send_wr *wr)
{
    static const uint8_t answers[] = {VBN_TAG_FIN, VBN_TAG_REFUSE, VBN_TAG_AGAIN, VBN_TAG_NEXT,
                                      VBN_TAG_ASK, VBN_TAG_DONE,   VBN_TAG_PLACED};
    struct vbn_wire_hdr hdr = header(h, VBN_WIRE_TAG);

    hdr.id = answers[rnd(h) % (sizeof(answers) / sizeof(answers[0]))];
    hdr.len = sizeof(struct vbn_wire_answer);
    if (hdr.id == VBN_TAG_ASK)
        hdr.len = sizeof(struct vbn_wire_offer);
    if (hdr.id == VBN_TAG_PLACED)
        hdr.len = sizeof(struct vbn_wire_tag);
    say(h, wr, &hdr, hdr.len);
    for (uint32_t i = 0; i < hdr.len; i++)
        h->message[sizeof(hdr) + i] = (uint8_t)rnd(h);
}

/* Word of a ring, at WORD's address, in the name of who has none of the job's. */
static void say_ring(struct hostile *h, struct ibv_send_wr *wr, const struct vbn_wire_ring *word)
{
    struct vbn_wire_hdr hdr = header(h, VBN_WIRE_RING);
    struct vbn_wire_ring le = {.addr = htole64(word->addr),
                               .rkey = htole32(word->rkey),
                               .count = htole16(word->count),
                               .heard = htole16(word->heard)};

    hdr.len = sizeof(le);
    say(h, wr, &hdr, hdr.len);
    memcpy(h->message + sizeof(hdr), &le, sizeof(le));
}

/* A ring at no address that there can be, one too soon, or an answer to none that was offered. */
static void impossible_ring(struct hostile *h, struct ibv_send_wr *wr)
{
    static const struct vbn_wire_ring words[] = {{.count = 1, .addr = 0},
                                                 {.count = 1, .addr = 0x1001},
                                                 {.count = 1, .addr = UINT64_MAX - 7},
                                                 {.count = 2},
                                                 {.count = 3, .addr = 0x1000},
                                                 {.addr = 0x1000},
                                                 {.heard = 1}};

    say_ring(h, wr, &words[rnd(h) % (sizeof(words) / sizeof(words[0]))]);
}

/* One in memory that is not there: who had anything to say would write to it. */
static void ring_nowhere(struct hostile *h, struct ibv_send_wr *wr)
{
    struct vbn_wire_ring word = {
        .count = 1, .addr = (1 + rnd(h) % 0xffffffff) * 4096, .rkey = (uint32_t)rnd(h) & 0xff};

    say_ring(h, wr, &word);
}

static void rubbish(struct hostile *h, struct ibv_send_wr *wr)
{
    h->sge.length = (uint32_t)(16 + rnd(h) % 2000);
    for (uint32_t i = 0; i < h->sge.length; i++)
        h->message[i] = (uint8_t)rnd(h);
    h->message[0] |= 0x80; /* no type that there is */
    wr->opcode = IBV_WR_SEND;
}

/* With a key, and at an address, that nobody has given. */
static void write_anywhere(struct hostile *h, struct ibv_send_wr *wr)
{
    h->sge.length = (uint32_t)(1 + rnd(h) % 4096);
    wr->opcode = IBV_WR_RDMA_WRITE;
    wr->wr.rdma.remote_addr = rnd(h) & 0x7fffffffffff;
    wr->wr.rdma.rkey = (uint32_t)rnd(h) & 0xff; /* soft-RoCE's begin higher */
}

static void read_anywhere(struct hostile *h, struct ibv_send_wr *wr)
{
    write_anywhere(h, wr);
    wr->opcode = IBV_WR_RDMA_READ;
}

/* What a rank would ask the process to do to its memory (btl_verbena_served.c), or answer: by one
 * who says that it is a rank. */
static void asks_the_process(struct hostile *h, struct ibv_send_wr *wr)
{
    static const uint32_t lengths[] = {56, 24, 0, 55, 200};
    struct vbn_wire_hdr hdr = header(h, VBN_WIRE_AM);
    uint32_t name[2] = {htobe32((uint32_t)h->job_key << 16 | 1), htobe32((uint32_t)rnd(h) % 4)};

    hdr.id = (uint8_t)(46 + rnd(h) % 2);
    hdr.len = lengths[rnd(h) % 5];
    say(h, wr, &hdr, hdr.len);
    for (uint32_t i = 0; i < hdr.len; i++)
        h->message[sizeof(hdr) + i] = (uint8_t)rnd(h);
    if (hdr.len >= 56)
        memcpy(h->message + sizeof(hdr) + 48, name, sizeof(name));
}

/* Parts of messages in parts (btl_verbena_long.c), of a tag that nobody takes: without a beginning,
 * an end or a head, or of more than was said. */
static void parts_of_nothing(struct hostile *h, struct ibv_send_wr *wr)
{
    static const uint32_t totals[] = {100, 10000, 16448, 16449, UINT32_MAX};
    struct vbn_wire_hdr hdr = header(h, VBN_WIRE_AM);
    struct {
        uint32_t total;
        uint16_t tag, first;
    } part = {htobe32(totals[rnd(h) % 5]), htobe16(254), htobe16((uint16_t)(rnd(h) % 2))};

    hdr.id = 45;
    hdr.len = (uint32_t)(rnd(h) % 1500);
    say(h, wr, &hdr, hdr.len);
    for (uint32_t i = 0; i < hdr.len; i++)
        h->message[sizeof(hdr) + i] = (uint8_t)rnd(h);
    if (hdr.len >= sizeof(part))
        memcpy(h->message + sizeof(hdr), &part, sizeof(part));
}

/* Coalesced messages (btl_verbena_coalesce.c) for a tag that nobody takes: right ones, and then one
 * that is cut short, longer than what came, or for no tag. */
static void together_with_nothing(struct hostile *h, struct ibv_send_wr *wr)
{
    static const uint32_t lengths[] = {0, 8, 9, 500, UINT32_MAX - 8, UINT32_MAX - 7, UINT32_MAX};
    struct vbn_wire_hdr hdr = header(h, VBN_WIRE_AM);
    struct {
        uint32_t len;
        uint16_t tag, reserved;
    } inner = {htobe32(8), htobe16(254), 0};

    hdr.id = 44;
    hdr.len = (uint32_t)(rnd(h) % 500);
    say(h, wr, &hdr, hdr.len);
    for (uint32_t i = 0; i < hdr.len; i++)
        h->message[sizeof(hdr) + i] = (uint8_t)rnd(h);
    for (uint32_t at = 0; at + 16 <= hdr.len; at += 16) {
        memcpy(h->message + sizeof(hdr) + at, &inner, sizeof(inner));
        if (rnd(h) % 8 == 0) {
            inner.len = htobe32(lengths[rnd(h) % 7]);
            inner.tag = htobe16((uint16_t)(rnd(h) % 2 ? 254 : 256 + rnd(h) % 65280));
        }
    }
}

/* --- the table -------------------------------------------------------------------------------- */

/* clang-format off */
struct kind kinds[] = {
    {.name = "request/empty", .then = THEN_REFUSED, .reasons = REASON(MALFORMED), .request = empty},
    {.name = "request/cut-short", .then = THEN_REFUSED,
     .reasons = REASON(MALFORMED), .request = cut_short},
    {.name = "request/noise", .then = THEN_REFUSED, .reasons = REASON(MALFORMED), .request = noise},
    {.name = "request/wrong-magic", .then = THEN_REFUSED,
     .reasons = REASON(MALFORMED), .request = wrong_magic},
    {.name = "request/versions-crossed", .then = THEN_REFUSED,
     .reasons = REASON(MALFORMED), .request = versions_crossed},
    {.name = "request/later-version", .then = THEN_REFUSED,
     .reasons = REASON(VERSION), .request = later_version},
    {.name = "request/wrong-key", .then = THEN_REFUSED,
     .reasons = REASON(STRANGER), .request = wrong_key},
    {.name = "request/for-another", .then = THEN_REFUSED,
     .reasons = REASON(STRANGER), .request = for_another},
    {.name = "request/its-own-identity", .then = THEN_REFUSED,
     .reasons = REASON(STRANGER), .request = its_own},
    {.name = "request/of-nobody", .then = THEN_REFUSED,
     .reasons = REASON(MALFORMED), .request = of_nobody},
    {.name = "request/other-sizes", .then = THEN_REFUSED,
     .reasons = REASON(SIZES), .request = other_sizes},
    {.name = "request/absurd-sizes", .then = THEN_REFUSED,
     .reasons = REASON(MALFORMED), .request = absurd_sizes},
    {.name = "request/absurd-credits", .then = THEN_REFUSED,
     .reasons = REASON(MALFORMED), .request = absurd_credits},
    {.name = "request/session-made-up", .then = THEN_REFUSED,
     .reasons = REASON(CLOSED), .request = session_made_up},
    {.name = "request/number-made-up", .then = THEN_REFUSED,
     .reasons = REASON(CLOSED) | REASON(BUSY), .request = number_made_up},
    {.name = "request/replayed", .then = THEN_REFUSED,
     .reasons = REASON(BUSY) | REASON(CROSSED), .request = replayed, .pause_ms = 100},
    {.name = "request/replayed-ahead", .then = THEN_REFUSED,
     .reasons = REASON(BUSY) | REASON(CLOSED) | REASON(CROSSED), .request = replayed_ahead, .pause_ms = 2000},
    {.name = "half/dropped", .then = THEN_DROPPED, .reasons = REASON(BUSY)},
    {.name = "half/open", .then = THEN_HALF, .reasons = REASON(BUSY)},
    {.name = "connection/silent", .then = THEN_SILENT, .reasons = REASON(BUSY)},
    {.name = "message/unknown-type", .then = THEN_SPEAKS,
     .reasons = REASON(BUSY), .speak = unknown_type},
    {.name = "message/of-a-later-version", .then = THEN_SPEAKS,
     .reasons = REASON(BUSY), .request = of_earlier_version, .speak = of_later_version},
    {.name = "message/shorter-than-a-header", .then = THEN_SPEAKS,
     .reasons = REASON(BUSY), .speak = shorter_than_a_header},
    {.name = "message/wrong-length", .then = THEN_SPEAKS,
     .reasons = REASON(BUSY), .speak = wrong_length},
    {.name = "message/longer-than-a-buffer", .then = THEN_SPEAKS,
     .reasons = REASON(BUSY), .speak = longer_than_a_buffer},
    {.name = "message/out-of-order", .then = THEN_SPEAKS,
     .reasons = REASON(BUSY), .speak = out_of_order},
    {.name = "message/credits-taken-back", .then = THEN_SPEAKS,
     .reasons = REASON(BUSY), .speak = credits_taken_back},
    {.name = "message/credits-beyond", .then = THEN_SPEAKS,
     .reasons = REASON(BUSY), .speak = credits_beyond_the_window},
    {.name = "message/never-sent", .then = THEN_SPEAKS,
     .reasons = REASON(BUSY), .speak = never_sent},
    {.name = "message/head-never-told", .then = THEN_SPEAKS,
     .reasons = REASON(BUSY), .speak = head_never_told},
    {.name = "message/unknown-kind", .then = THEN_SPEAKS,
     .reasons = REASON(BUSY), .speak = unknown_kind},
    {.name = "message/unasked-answer", .then = THEN_SPEAKS,
     .reasons = REASON(BUSY), .speak = unasked_answer},
    {.name = "message/impossible-ring", .then = THEN_SPEAKS,
     .reasons = REASON(BUSY), .speak = impossible_ring},
    {.name = "message/rubbish", .then = THEN_SPEAKS, .reasons = REASON(BUSY), .speak = rubbish},
    {.name = "memory/write-anywhere", .then = THEN_SPEAKS,
     .reasons = REASON(BUSY), .speak = write_anywhere},
    {.name = "memory/read-anywhere", .then = THEN_SPEAKS,
     .reasons = REASON(BUSY), .speak = read_anywhere},
    {.name = "memory/ring-nowhere", .then = THEN_ASKS,
     .reasons = REASON(BUSY), .speak = ring_nowhere},
    {.name = "memory/asks-the-process", .then = THEN_ASKS,
     .reasons = REASON(BUSY), .speak = asks_the_process},
    {.name = "memory/parts-of-nothing", .then = THEN_ASKS,
     .reasons = REASON(BUSY), .speak = parts_of_nothing},
    {.name = "memory/together-with-nothing", .then = THEN_ASKS,
     .reasons = REASON(BUSY), .speak = together_with_nothing},
};
/* clang-format on */
const unsigned kind_count = sizeof(kinds) / sizeof(kinds[0]);
