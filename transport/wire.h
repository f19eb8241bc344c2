/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every byte that Verbena puts on the wire, and nothing else. Little-endian throughout.
 * Nothing here is trusted: the parse functions are the only readers of a peer's bytes, and what
 * they return is in range. doc/wire.md describes the same in prose.
 */
#ifndef VBN_WIRE_H
#define VBN_WIRE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define VBN_WIRE_VERSION     7 /* highest version that this code speaks */
#define VBN_WIRE_VERSION_MIN 1 /* lowest */
#define VBN_WIRE_RINGS       2 /* from this version on there are rings, */
#define VBN_WIRE_BARES       3 /* bare messages from this one, */
#define VBN_WIRE_DRIES       4 /* words of messages that wait from this one, */
#define VBN_WIRE_MARKS       5 /* marks from this one, on iWARP nothing older will do, */
#define VBN_WIRE_READIES     6 /* receives that say where their message shall be from this one, */
#define VBN_WIRE_RIDERS      7 /* and words that ride on a put from this one */
#define VBN_WIRE_MAGIC       0x314e4256u /* "VBN1" in memory */

/* --- messages ------------------------------------------------------------------------------- */

enum vbn_wire_type {
    VBN_WIRE_AM = 1,  /* an active message: has a sequence number of its own */
    VBN_WIRE_ACK = 2, /* only what the header carries */
    VBN_WIRE_BYE = 3, /* the sender has closed; nothing follows */
    VBN_WIRE_TAG = 4, /* a tagged message, or a part of its protocol: numbered as active ones are */
    VBN_WIRE_RING = 5, /* struct vbn_wire_ring, from version 2 on */
    VBN_WIRE_DRY = 6, /* as ACK: the sender's messages had to wait for credits; from version 4 on */
    VBN_WIRE_MARK = 7, /* only the header, numbered, to be acknowledged at once: what was put before
                          it has arrived then; from version 5 on */
    VBN_WIRE_TYPE_LAST = VBN_WIRE_MARK,
};

/*
 * At the head of every message. `credits` is the sum of all receive buffers ever granted on this
 * connection, `ack` the next sequence number expected: both absolute, so that repeating them does
 * no harm. `seq` is the message's number, or for the other types the next one to be used.
 */
struct vbn_wire_hdr {
    uint8_t type;
    uint8_t id; /* handler of an active message; enum vbn_wire_tag_kind; else 0 */
    uint16_t credits;
    uint32_t len; /* bytes of payload after the header */
    uint32_t seq;
    uint32_t ack;
};
_Static_assert(sizeof(struct vbn_wire_hdr) == 16, "wire header");

#define VBN_WIRE_RING_LEN 16 /* bytes of struct vbn_wire_ring */

/* The header's two words, of whatever byte order the host has. */
static inline void vbn_wire_hdr_words(const struct vbn_wire_hdr *h, uint64_t words[2])
{
    words[0] = h->type | (uint64_t)h->id << 8 | (uint64_t)h->credits << 16 | (uint64_t)h->len << 32;
    words[1] = h->seq | (uint64_t)h->ack << 32;
}

static inline void vbn_wire_hdr_write(void *buf, const struct vbn_wire_hdr *h)
{
    uint64_t words[2], le;

    vbn_wire_hdr_words(h, words);
    le = htole64(words[0]);
    memcpy(buf, &le, sizeof(le));
    le = htole64(words[1]);
    memcpy((char *)buf + sizeof(le), &le, sizeof(le));
}

/* Reads a header from a message of BYTE_LEN bytes. False: malformed. */
static inline bool vbn_wire_hdr_read(const void *buf, size_t byte_len, struct vbn_wire_hdr *h)
{
    if (byte_len < sizeof(*h))
        return false;
    memcpy(h, buf, sizeof(*h));
    h->credits = le16toh(h->credits);
    h->len = le32toh(h->len);
    h->seq = le32toh(h->seq);
    h->ack = le32toh(h->ack);
    if (h->len != byte_len - sizeof(*h))
        return false;
    if (h->type == VBN_WIRE_AM || h->type == VBN_WIRE_TAG)
        return true;
    return h->type >= VBN_WIRE_ACK && h->type <= VBN_WIRE_TYPE_LAST && h->id == 0 &&
           h->len == (h->type == VBN_WIRE_RING ? VBN_WIRE_RING_LEN : 0);
}

/* --- rings: short messages that are written into the receiver's memory --------------------------
 */

/*
 * What one side says of the rings of a connection, its own and the peer's; unnumbered, and
 * absolute, so that repeating it does no harm. `count` is how often the sender of this has offered
 * its ring or withdrawn it: there is one at `addr` where it is odd. `heard` is the peer's count
 * that the sender goes by: what it wrote into that ring by an earlier one has arrived before this.
 */
struct vbn_wire_ring {
    uint64_t addr; /* 0 where there is none */
    uint32_t rkey;
    uint16_t count, heard;
};
_Static_assert(sizeof(struct vbn_wire_ring) == VBN_WIRE_RING_LEN, "word about rings");

void vbn_wire_ring_write(void *buf, const struct vbn_wire_ring *r);

/* Reads the VBN_WIRE_RING_LEN bytes at BUF. False: no ring can be there. */
bool vbn_wire_ring_read(const void *buf, struct vbn_wire_ring *r);

#define VBN_RING_SLOTS 32u
#define VBN_RING_SLOT  128u /* bytes */
/* Bytes of payload for which there is room beside the header and the seal. */
#define VBN_RING_ROOM (VBN_RING_SLOT - (uint32_t)sizeof(struct vbn_wire_hdr) - 8u)

/* Bytes that a message of LEN bytes takes in a slot: header, payload filled up with zeros to whole
 * words of 8 bytes, seal. */
static inline uint32_t vbn_wire_sealed_len(uint32_t len)
{
    return (uint32_t)sizeof(struct vbn_wire_hdr) + (len + 7) / 8 * 8 + 8;
}

/*
 * The seal says that all of a message is there, in whatever order its bytes have become visible,
 * and that it is the ORDERth of its connection (modulo 2^16), counted as for credits. A mixture of
 * the bytes of two messages has another seal, but for a chance of one in 2^64; it is no guard
 * against who makes one up.
 */
static inline uint64_t vbn_wire_seal_begin(uint16_t order)
{
    return UINT64_C(0x243f6a8885a308d3) + order;
}

static inline uint64_t vbn_wire_seal_add(uint64_t seal, uint64_t word)
{
    seal = (seal ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return seal << 29 | seal >> 35;
}

/* Writes the header H at BUF, and the seal behind the payload, which is there; in all BYTES as
 * vbn_wire_sealed_len() says. */
static inline void vbn_wire_sealed_write(void *buf, const struct vbn_wire_hdr *h, uint32_t bytes,
                                         uint16_t order)
{
    char *at = (char *)buf + sizeof(*h), *end = (char *)buf + bytes - 8;
    uint64_t seal = vbn_wire_seal_begin(order), word = 0, words[2];

    memcpy(at + h->len, &word, sizeof(word));
    vbn_wire_hdr_write(buf, h);
    vbn_wire_hdr_words(h, words);
    seal = vbn_wire_seal_add(vbn_wire_seal_add(seal, words[0]), words[1]);
    for (; at < end; at += 8) {
        memcpy(&word, at, sizeof(word));
        seal = vbn_wire_seal_add(seal, le64toh(word));
    }
    seal = htole64(seal);
    memcpy(end, &seal, sizeof(seal));
}

/*
 * Copies the message in SLOT, which its sender may be writing, to BUF, of VBN_RING_SLOT bytes, and
 * its header to H, where it is whole and the ORDERth. False: it is not, or not yet. Only the length
 * has been looked at.
 */
static inline bool vbn_wire_sealed_read(const void *slot, uint16_t order, void *buf,
                                        struct vbn_wire_hdr *h)
{
    const volatile uint64_t *from = slot;
    uint64_t word = le64toh(from[0]), next = le64toh(from[1]), seal = vbn_wire_seal_begin(order);
    uint64_t *to = buf;
    uint32_t left;

    *h = (struct vbn_wire_hdr){
        .type = (uint8_t)word,
        .id = (uint8_t)(word >> 8),
        .credits = (uint16_t)(word >> 16),
        .len = (uint32_t)(word >> 32),
        .seq = (uint32_t)next,
        .ack = (uint32_t)(next >> 32),
    };
    if (h->len > VBN_RING_ROOM)
        return false;
    to[0] = htole64(word);
    to[1] = htole64(next);
    seal = vbn_wire_seal_add(vbn_wire_seal_add(seal, word), next);
    for (left = (h->len + 7) / 8, to += 2, from += 2; left > 0; left--) {
        *to++ = word = *from++;
        seal = vbn_wire_seal_add(seal, le64toh(word));
    }
    /* Acquired: what was put before the message is read after it. */
    return le64toh(__atomic_load_n(from, __ATOMIC_ACQUIRE)) == seal;
}

/* --- bare messages: what their immediate data say (bare.h) ------------------------------------ */

#define VBN_BARE_MIN      1024u /* bytes of payload of a long message: its head is kept */
#define VBN_BARE_HEAD     32u   /* bytes of payload in a head: as many may be left out */
#define VBN_BARE_HEADS    4u    /* kept in each direction, the oldest is replaced */
#define VBN_BARE_SEQS     16u   /* numbers that are told apart */
#define VBN_BARE_NEWS_MAX 63u
#define VBN_BARE_ROOM     (sizeof(struct vbn_wire_hdr) + VBN_BARE_HEAD)

/* What has been left out is the header and the first bytes of the payload of a kept message of the
 * same type, id and length, but for one word. */
struct vbn_wire_bare {
    uint8_t head;   /* which of those kept, 2 bits */
    uint8_t seq;    /* of the header, 4 bits */
    uint8_t news;   /* by how much `credits` and `ack` of the header are above those last told, 6 */
    uint8_t word;   /* which 16 bits of the payload are not as they were kept, 4; 0 if none is left
                       out */
    uint16_t value; /* but these: the first byte in the lower half */
};

static inline uint32_t vbn_wire_bare_pack(const struct vbn_wire_bare *b)
{
    return b->value | (uint32_t)b->word << 16 | (uint32_t)b->news << 20 | (uint32_t)b->seq << 26 |
           (uint32_t)b->head << 30;
}

static inline struct vbn_wire_bare vbn_wire_bare_unpack(uint32_t bits)
{
    return (struct vbn_wire_bare){
        .value = (uint16_t)bits,
        .word = (uint8_t)(bits >> 16 & 15),
        .news = (uint8_t)(bits >> 20 & 63),
        .seq = (uint8_t)(bits >> 26 & 15),
        .head = (uint8_t)(bits >> 30),
    };
}

/* --- riders: what the immediate data of a put say (rider.h) ----------------------------------- */

#define VBN_RIDER_MIN     1024u   /* bytes of a put that a word rides on */
#define VBN_RIDER_NUMBERS 0x8000u /* that are told apart */

/* The word that all before it has been put, DONE or PLACED. */
struct vbn_wire_rider {
    uint16_t number; /* the lower half of the offer's id, or of the place's number */
    uint8_t news;    /* as of a bare message, 6 bits */
    uint8_t seq;     /* of the header, 4 bits */
    bool placed;     /* 1 bit; the others are 0 */
};

static inline uint32_t vbn_wire_rider_pack(const struct vbn_wire_rider *r)
{
    return r->number | (uint32_t)r->news << 16 | (uint32_t)r->seq << 22 | (uint32_t)r->placed << 26;
}

/* False: malformed. */
static inline bool vbn_wire_rider_unpack(uint32_t bits, struct vbn_wire_rider *r)
{
    *r = (struct vbn_wire_rider){.number = (uint16_t)bits,
                                 .news = (uint8_t)(bits >> 16 & 63),
                                 .seq = (uint8_t)(bits >> 22 & 15),
                                 .placed = bits >> 26 & 1};
    return bits >> 27 == 0;
}

/* --- tagged messages: what follows the header ------------------------------------------------- */

/*
 * EAGER                the whole message
 * FIRST, NEXT …        a longer one in parts; the parts of one message follow each other, but for
 *                      FIN, REFUSE, ASK, DONE and active messages
 * OFFER → FIN          where the bytes are: the receiver reads them, and says that it has
 * OFFER → ASK → DONE   the receiver says where they shall be: the sender puts them there
 * OFFER → REFUSE → AGAIN, NEXT …   the receiver cannot read them there: they come in parts
 * READY → PLACED       the receiver says where they shall be before they are sent
 * READY → WITHDRAW → WITHDRAWN     it needs the place for something else
 * CAST                 only between those who have heard each other by multicast, see below
 */
enum vbn_wire_tag_kind {
    VBN_TAG_EAGER = 1,   /* struct vbn_wire_tag, the bytes */
    VBN_TAG_FIRST = 2,   /* struct vbn_wire_tag, the first bytes */
    VBN_TAG_NEXT = 3,    /* further bytes */
    VBN_TAG_OFFER = 4,   /* struct vbn_wire_offer */
    VBN_TAG_FIN = 5,     /* struct vbn_wire_answer */
    VBN_TAG_REFUSE = 6,  /* struct vbn_wire_answer */
    VBN_TAG_AGAIN = 7,   /* struct vbn_wire_answer, the first bytes */
    VBN_TAG_ASK = 8,     /* struct vbn_wire_offer: the offer, but how much, and where to */
    VBN_TAG_DONE = 9,    /* struct vbn_wire_answer */
    VBN_TAG_READY = 10,  /* struct vbn_wire_offer: where to; its id is how many have come before */
    VBN_TAG_PLACED = 11, /* struct vbn_wire_tag */
    VBN_TAG_WITHDRAW = 12,  /* struct vbn_wire_tag, its length is the number of withdrawals */
    VBN_TAG_WITHDRAWN = 13, /* struct vbn_wire_answer: up to which of these */
    VBN_TAG_CAST = 14,      /* struct vbn_wire_cast: a datagram once more, or a word about some */
    VBN_TAG_KIND_LAST = VBN_TAG_CAST,
};

struct vbn_wire_tag {
    uint64_t tag;
    uint64_t len; /* bytes of the whole message */
};
_Static_assert(sizeof(struct vbn_wire_tag) == 16, "head of a tagged message");

struct vbn_wire_offer {
    uint64_t tag;
    uint64_t len;
    uint64_t addr; /* in the sender's memory */
    uint32_t rkey;
    uint32_t id; /* the sender's number for it */
};
_Static_assert(sizeof(struct vbn_wire_offer) == 32, "offer of a tagged message");

struct vbn_wire_answer {
    uint32_t id; /* the offer's */
    uint32_t reserved;
};
_Static_assert(sizeof(struct vbn_wire_answer) == 8, "answer to an offer");

#define VBN_WIRE_TAG_MAX ((UINT64_C(1) << 40) - 1)
#define VBN_WIRE_LEN_MAX (UINT64_C(1) << 48) /* bytes of a message: no sum of two overflows */

static inline void vbn_wire_tag_write(void *buf, const struct vbn_wire_tag *t)
{
    struct vbn_wire_tag le = {.tag = htole64(t->tag), .len = htole64(t->len)};

    memcpy(buf, &le, sizeof(le));
}

/* Reads the head of an EAGER or FIRST message of LEN bytes. False: malformed. */
static inline bool vbn_wire_tag_read(const void *buf, size_t len, struct vbn_wire_tag *t)
{
    if (len < sizeof(*t))
        return false;
    memcpy(t, buf, sizeof(*t));
    t->tag = le64toh(t->tag);
    t->len = le64toh(t->len);
    return t->tag <= VBN_WIRE_TAG_MAX && t->len <= VBN_WIRE_LEN_MAX && t->len >= len - sizeof(*t);
}

void vbn_wire_offer_write(void *buf, const struct vbn_wire_offer *o);
bool vbn_wire_offer_read(const void *buf, size_t len, struct vbn_wire_offer *o);
void vbn_wire_answer_write(void *buf, const struct vbn_wire_answer *a);
/* Reads what an answer of LEN bytes begins with. */
bool vbn_wire_answer_read(const void *buf, size_t len, struct vbn_wire_answer *a);

/* --- groups: what datagrams begin with, and words about them by connections --------------------
 */

#define VBN_CAST_VERSION 1u

/* Beside VBN_TAG_EAGER, _FIRST and _NEXT, whose datagrams are numbered, and go on as they do. */
enum vbn_wire_cast_kind {
    VBN_CAST_HELLO = 32, /* by multicast: the sender is there; it has not heard `number` others */
    VBN_CAST_ACK = 33,   /* all before `number` of the receiver's has come */
    VBN_CAST_ASK = 34,   /* and that one and what follows is missing */
    VBN_CAST_POKE = 35,  /* the sender's next is `number`: has all before come? */
    VBN_CAST_KIND_LAST = VBN_CAST_POKE,
};

struct vbn_wire_cast {
    uint64_t group;
    uint32_t number;
    uint16_t sender; /* its place in the group */
    uint8_t kind;
    uint8_t version; /* VBN_CAST_VERSION */
};
_Static_assert(sizeof(struct vbn_wire_cast) == 16, "head of a datagram");

static inline bool vbn_wire_cast_has_data(uint8_t kind)
{
    return kind >= VBN_TAG_EAGER && kind <= VBN_TAG_NEXT;
}

static inline void vbn_wire_cast_write(void *buf, const struct vbn_wire_cast *c)
{
    struct vbn_wire_cast le = {.group = htole64(c->group),
                               .number = htole32(c->number),
                               .sender = htole16(c->sender),
                               .kind = c->kind,
                               .version = VBN_CAST_VERSION};

    memcpy(buf, &le, sizeof(le));
}

/* Reads what LEN bytes begin with. False: not ours, or malformed. */
static inline bool vbn_wire_cast_read(const void *buf, size_t len, struct vbn_wire_cast *c)
{
    if (len < sizeof(*c))
        return false;
    memcpy(c, buf, sizeof(*c));
    c->group = le64toh(c->group);
    c->number = le32toh(c->number);
    c->sender = le16toh(c->sender);
    if (c->version != VBN_CAST_VERSION)
        return false;
    return vbn_wire_cast_has_data(c->kind) ||
           (c->kind >= VBN_CAST_HELLO && c->kind <= VBN_CAST_KIND_LAST && len == sizeof(*c));
}

/* --- private data of connection requests and replies ------------------------------------------ */

/* Who connects to whom, and what it can take. 56 bytes is all that InfiniBand's REQ leaves. */
struct vbn_wire_hello {
    uint32_t magic;
    uint8_t version, version_min; /* range offered; in a reply both are the version chosen */
    uint8_t reserved[2];
    uint64_t src_uid, dst_uid; /* contexts */
    uint64_t job_key;
    uint32_t session;  /* counts the connections between these two contexts */
    uint32_t rx_next;  /* next sequence number that the sender of this expects */
    uint32_t buf_size; /* bytes of a receive buffer, header included */
    uint16_t credits;  /* receive buffers granted from the start */
    uint16_t reserved2;
    uint32_t incarnation;      /* of the sender's endpoint, from 1; 0: not told */
    uint32_t peer_incarnation; /* of the receiver's that it was connected with; 0: none, or so */
};
_Static_assert(sizeof(struct vbn_wire_hello) == 56, "private data of a request");

enum vbn_wire_reason {
    VBN_REASON_CROSSED = 1, /* both connected at once, and the other request goes on */
    VBN_REASON_VERSION = 2,
    VBN_REASON_STRANGER = 3, /* meant for another context, or another job's key */
    VBN_REASON_BUSY = 4,     /* no resources now: try later */
    VBN_REASON_CLOSED = 5,
    VBN_REASON_SIZES = 6, /* buffer sizes that cannot work together */
    VBN_REASON_MALFORMED = 7,
    VBN_REASON_LOST = 8, /* given up: the session is over, and not in good order */
};

/* Private data of a rejection. */
struct vbn_wire_refusal {
    uint32_t magic;
    uint8_t version, version_min; /* range that the refusing side speaks */
    uint8_t reason;
    uint8_t reserved;
    uint64_t uid; /* of the refusing context; 0: the request did not name it */
};
_Static_assert(sizeof(struct vbn_wire_refusal) == 16, "private data of a rejection");

void vbn_wire_hello_write(void *buf, const struct vbn_wire_hello *h);

/*
 * Reads private data of LEN bytes (the fabric may have padded it). False: not ours, or values that
 * cannot be. The version range is read even of a version we do not speak: that layout is fixed.
 */
bool vbn_wire_hello_read(const void *buf, size_t len, struct vbn_wire_hello *h);

void vbn_wire_refusal_write(void *buf, const struct vbn_wire_refusal *r);
bool vbn_wire_refusal_read(const void *buf, size_t len, struct vbn_wire_refusal *r);
const char *vbn_wire_reason_str(uint8_t reason);

/* The highest version in both ranges, or 0. */
uint8_t vbn_wire_version_common(uint8_t max_a, uint8_t min_a, uint8_t max_b, uint8_t min_b);

/* --- address blobs ---------------------------------------------------------------------------- */

#define VBN_WIRE_ADDRS_MAX 4

struct vbn_wire_sockaddr {
    uint8_t family; /* 4 or 6 */
    uint8_t reserved;
    uint16_t port;
    uint8_t ip[16]; /* network order; IPv4 in the first four bytes */
};
_Static_assert(sizeof(struct vbn_wire_sockaddr) == 20, "address entry");

/* What vbn_address() hands out. */
struct vbn_wire_address {
    uint32_t magic;
    uint8_t version, version_min;
    uint8_t count; /* of addrs in use */
    uint8_t reserved;
    uint64_t uid;
    uint64_t job_key;
    uint32_t buf_size;
    uint32_t reserved2;
    struct vbn_wire_sockaddr addrs[VBN_WIRE_ADDRS_MAX];
};
_Static_assert(sizeof(struct vbn_wire_address) == 32 + 20 * VBN_WIRE_ADDRS_MAX, "address blob");

/* Bytes that a blob with A->count addresses takes. */
size_t vbn_wire_address_len(const struct vbn_wire_address *a);
void vbn_wire_address_write(void *buf, const struct vbn_wire_address *a);
bool vbn_wire_address_read(const void *buf, size_t len, struct vbn_wire_address *a);

/* --- halves of connections made without the connection manager ---------------------------------
 */

#define VBN_WIRE_HALF_MAGIC 0x484e4256u /* "VBNH" in memory */

enum vbn_wire_link { VBN_LINK_INFINIBAND = 1, VBN_LINK_ROCE_V1 = 2, VBN_LINK_ROCE_V2 = 3 };

/* What vbn_half_create() hands out: a hello to nobody yet, and where the queue pair is. */
struct vbn_wire_half {
    uint32_t magic;
    uint8_t link;              /* enum vbn_wire_link: two that differ cannot talk */
    uint8_t mtu;               /* code: 1 is 256 bytes, 5 is 4096 */
    uint8_t read_in, read_out; /* RDMA reads at once: answered, asked */
    struct vbn_wire_hello hello;
    uint32_t qp_num; /* 24 bits */
    uint32_t psn;    /* of its first packet, 24 bits */
    uint16_t lid;    /* 0: reach it by the GID */
    uint8_t reserved[6];
    uint8_t gid[16]; /* network order */
};
_Static_assert(sizeof(struct vbn_wire_half) == 96, "blob of half a connection");

void vbn_wire_half_write(void *buf, const struct vbn_wire_half *h);

/* As the others: of a version that we do not speak only the hello's range is known to be right. */
bool vbn_wire_half_read(const void *buf, size_t len, struct vbn_wire_half *h);

/* --- limits that both sides rely on ----------------------------------------------------------- */

#define VBN_WINDOW_MIN   4     /* credits: one is kept for acknowledgements */
#define VBN_WINDOW_MAX   16384 /* differences of 16-bit counters stay unambiguous */
#define VBN_BUF_SIZE_MIN 256
#define VBN_BUF_SIZE_MAX (1u << 20)

#endif
