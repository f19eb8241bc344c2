/* SPDX-License-Identifier: BSD-3-Clause */
/* Every byte on the wire: written and read again, each field bad, cut short, and random. */
#include "unit.h"

#include "wire.h"

#include <stdlib.h>

#define ROUNDS 200000

/* The bytes in memory of exactly LEN, so that a sanitizer sees any read beyond. */
static void *exactly(const void *bytes, size_t len)
{
    void *copy = malloc(len ? len : 1);

    assert_non_null(copy);
    memcpy(copy, bytes, len);
    return copy;
}

/* --- message headers -------------------------------------------------------------------------- */

static const struct vbn_wire_hdr good_hdr = {.type = VBN_WIRE_AM,
                                             .id = 0x12,
                                             .credits = 0x3456,
                                             .len = 0x100,
                                             .seq = 0xfedcba98,
                                             .ack = 0x76543210};

static void header_layout(void **state)
{
    static const unsigned char want[16] = {1,    0x12, 0x56, 0x34, 0,    1,    0,    0,
                                           0x98, 0xba, 0xdc, 0xfe, 0x10, 0x32, 0x54, 0x76};
    unsigned char bytes[16];
    struct vbn_wire_hdr h;

    (void)state;
    vbn_wire_hdr_write(bytes, &good_hdr);
    assert_memory_equal(bytes, want, sizeof(want));
    assert_true(vbn_wire_hdr_read(bytes, 16 + 0x100, &h));
    assert_memory_equal(&h, &good_hdr, sizeof(h));
}

static bool reads(struct vbn_wire_hdr h, size_t byte_len)
{
    unsigned char bytes[16];

    vbn_wire_hdr_write(bytes, &h);
    return vbn_wire_hdr_read(bytes, byte_len, &h);
}

/* The others are but a header. */
static bool carries(int type)
{
    return type == VBN_WIRE_AM || type == VBN_WIRE_TAG;
}

static void header_fields_bad(void **state)
{
    struct vbn_wire_hdr h = good_hdr;

    (void)state;
    assert_true(reads(h, 0x110));
    for (int type = 0; type < 256; type++) {
        h.type = (uint8_t)type;
        assert_int_equal(reads(h, 0x110), carries(type));
    }
    h = good_hdr;
    assert_false(reads(h, 0x10f));
    assert_false(reads(h, 0x111));
    h.len = UINT32_MAX - 15; /* and the sum wraps to 0 */
    assert_false(reads(h, 0));
    assert_false(reads(h, 16));
    h.len = 0;
    assert_true(reads(h, 16));
    assert_false(reads(h, 17));
    for (h.type = VBN_WIRE_ACK; h.type <= VBN_WIRE_BYE; h.type++) {
        h.id = 0;
        assert_true(reads(h, 16));
        h.id = 1;
        assert_false(reads(h, 16));
    }
}

static void header_cut_short(void **state)
{
    unsigned char bytes[16];
    struct vbn_wire_hdr h = good_hdr;

    (void)state;
    h.len = 0;
    vbn_wire_hdr_write(bytes, &h);
    for (size_t len = 0; len < 16; len++) {
        void *cut = exactly(bytes, len);

        assert_false(vbn_wire_hdr_read(cut, len, &h));
        free(cut);
    }
}

static void header_random(void **state)
{
    uint64_t rng = 1;
    unsigned accepted = 0;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t bytes[2] = {unit_random(&rng), unit_random(&rng)};
        size_t len = unit_random(&rng) % 300;
        struct vbn_wire_hdr h;

        if (i % 2) { /* nearly good, or it would never get far */
            ((unsigned char *)bytes)[0] %= 8;
            ((uint32_t *)bytes)[1] = htole32((uint32_t)len - 16 + (i % 16 == 1));
        }
        if (!vbn_wire_hdr_read(bytes, len, &h))
            continue;
        accepted++;
        assert_true(h.type >= VBN_WIRE_AM && h.type <= VBN_WIRE_TYPE_LAST);
        assert_int_equal(h.len, len - 16);
        assert_true(carries(h.type) ||
                    (!h.id && h.len == (h.type == VBN_WIRE_RING ? VBN_WIRE_RING_LEN : 0)));
    }
    assert_true(accepted > 100);
}

/* --- rings ----------------------------------------------------------------------------------- */

static void ring_words(void **state)
{
    struct vbn_wire_ring w = {.addr = 0x1122334455667788, .rkey = 0xaabbccdd, .count = 3}, got;
    struct vbn_wire_hdr h = {.type = VBN_WIRE_RING, .len = VBN_WIRE_RING_LEN};
    unsigned char bytes[VBN_WIRE_RING_LEN];

    (void)state;
    w.heard = 0x0102;
    vbn_wire_ring_write(bytes, &w);
    assert_int_equal(bytes[0], 0x88); /* little-endian */
    assert_int_equal(bytes[8], 0xdd);
    assert_int_equal(bytes[12], 3);
    assert_int_equal(bytes[14], 2);
    assert_true(vbn_wire_ring_read(bytes, &got));
    assert_memory_equal(&got, &w, sizeof(w));
    w.addr++;
    vbn_wire_ring_write(bytes, &w);
    assert_false(vbn_wire_ring_read(bytes, &got));
    w.addr = UINT64_MAX - 4095; /* it would end beyond all addresses */
    vbn_wire_ring_write(bytes, &w);
    assert_false(vbn_wire_ring_read(bytes, &got));
    w.addr = 0, w.count = 4;
    vbn_wire_ring_write(bytes, &w);
    assert_true(vbn_wire_ring_read(bytes, &got));
    assert_true(reads(h, 32));
    h.len--;
    assert_false(reads(h, 31));
    h.len = 0;
    assert_false(reads(h, 16));
    h.len = VBN_WIRE_RING_LEN, h.id = 1;
    assert_false(reads(h, 32));
}

/* What is sealed reads as it was; with any bit changed, or in another place, it does not. */
static void seals(void **state)
{
    uint64_t slot[VBN_RING_SLOT / 8], copy[VBN_RING_SLOT / 8], rng = 5;

    (void)state;
    for (uint32_t len = 0; len <= VBN_RING_ROOM; len++) {
        struct vbn_wire_hdr h = {.type = VBN_WIRE_AM, .id = 9, .credits = 77, .len = len}, got;
        uint32_t bytes = vbn_wire_sealed_len(len);
        uint16_t order = (uint16_t)unit_random(&rng);
        unsigned char *payload = (unsigned char *)slot + sizeof(h);

        h.seq = (uint32_t)unit_random(&rng);
        h.ack = (uint32_t)unit_random(&rng);
        memset(slot, 0xee, sizeof(slot));
        for (uint32_t i = 0; i < len; i++)
            payload[i] = (unsigned char)unit_random(&rng);
        assert_true(bytes <= VBN_RING_SLOT && bytes % 8 == 0 && bytes >= sizeof(h) + len + 8);
        vbn_wire_sealed_write(slot, &h, bytes, order);
        assert_true(vbn_wire_sealed_read(slot, order, copy, &got));
        assert_memory_equal(&got, &h, sizeof(h));
        assert_memory_equal((char *)copy + sizeof(h), payload, len);
        assert_false(vbn_wire_sealed_read(slot, (uint16_t)(order + 1), copy, &got));
        for (uint32_t bit = 0; bit < bytes * 8; bit++) {
            ((unsigned char *)slot)[bit / 8] ^= (unsigned char)(1u << bit % 8);
            assert_false(vbn_wire_sealed_read(slot, order, copy, &got));
            ((unsigned char *)slot)[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
        /* Two words changed alike, as numbers change their sign. */
        for (uint32_t a = 0; a + 1 < bytes / 8; a++) {
            slot[a] ^= htole64(UINT64_C(1) << 63);
            slot[a + 1] ^= htole64(UINT64_C(1) << 63);
            assert_false(vbn_wire_sealed_read(slot, order, copy, &got));
            slot[a] ^= htole64(UINT64_C(1) << 63);
            slot[a + 1] ^= htole64(UINT64_C(1) << 63);
        }
    }
}

/* --- tagged messages -----------------------------------------------------------------------------
 */

static void tag_heads(void **state)
{
    struct vbn_wire_tag t = {.tag = VBN_WIRE_TAG_MAX, .len = 100}, got;
    unsigned char bytes[sizeof(t) + 100];

    (void)state;
    vbn_wire_tag_write(bytes, &t);
    assert_int_equal(bytes[0], 0xff); /* little-endian */
    assert_int_equal(bytes[5], 0);
    assert_int_equal(bytes[8], 100);
    assert_true(vbn_wire_tag_read(bytes, sizeof(bytes), &got));
    assert_int_equal(got.tag, t.tag);
    assert_int_equal(got.len, t.len);
    assert_true(vbn_wire_tag_read(bytes, sizeof(t), &got));        /* its bytes follow */
    assert_false(vbn_wire_tag_read(bytes, sizeof(t) - 1, &got));   /* cut short */
    assert_false(vbn_wire_tag_read(bytes, sizeof(t) + 101, &got)); /* more than it says */
    t.tag = VBN_WIRE_TAG_MAX + 1;
    vbn_wire_tag_write(bytes, &t);
    assert_false(vbn_wire_tag_read(bytes, sizeof(bytes), &got));
    t = (struct vbn_wire_tag){.len = VBN_WIRE_LEN_MAX + 1};
    vbn_wire_tag_write(bytes, &t);
    assert_false(vbn_wire_tag_read(bytes, sizeof(bytes), &got));
}

static void offers_and_answers(void **state)
{
    struct vbn_wire_offer o = {.tag = 5, .len = 1, .addr = 0x1122334455667788, .rkey = 9, .id = 7};
    struct vbn_wire_offer got;
    struct vbn_wire_answer a = {.id = 0x01020304}, back;
    unsigned char bytes[sizeof(o)];

    (void)state;
    vbn_wire_offer_write(bytes, &o);
    assert_int_equal(bytes[16], 0x88);
    assert_true(vbn_wire_offer_read(bytes, sizeof(bytes), &got));
    assert_memory_equal(&got, &o, sizeof(o));
    assert_false(vbn_wire_offer_read(bytes, sizeof(bytes) - 1, &got));
    assert_false(vbn_wire_offer_read(bytes, sizeof(bytes) + 1, &got));
    o.len = 0; /* there would be nothing to read */
    vbn_wire_offer_write(bytes, &o);
    assert_false(vbn_wire_offer_read(bytes, sizeof(bytes), &got));
    o.len = VBN_WIRE_LEN_MAX + 1;
    vbn_wire_offer_write(bytes, &o);
    assert_false(vbn_wire_offer_read(bytes, sizeof(bytes), &got));
    o = (struct vbn_wire_offer){.tag = VBN_WIRE_TAG_MAX + 1, .len = 1};
    vbn_wire_offer_write(bytes, &o);
    assert_false(vbn_wire_offer_read(bytes, sizeof(bytes), &got));
    vbn_wire_answer_write(bytes, &a);
    assert_int_equal(bytes[0], 4);
    assert_true(vbn_wire_answer_read(bytes, sizeof(a), &back));
    assert_int_equal(back.id, a.id);
    assert_false(vbn_wire_answer_read(bytes, sizeof(a) - 1, &back));
}

/* --- private data of requests ----------------------------------------------------------------- */

static const struct vbn_wire_hello good_hello = {
    .version = VBN_WIRE_VERSION,
    .version_min = VBN_WIRE_VERSION_MIN,
    .src_uid = 0x1122334455667788,
    .dst_uid = 0x99aabbccddeeff00,
    .job_key = 0x0102030405060708,
    .session = 0xa1b2c3d4,
    .rx_next = 0xdeadbeef,
    .buf_size = 8208,
    .credits = 64,
};

static void hello_layout(void **state)
{
    unsigned char bytes[56];
    struct vbn_wire_hello h;

    (void)state;
    vbn_wire_hello_write(bytes, &good_hello);
    assert_memory_equal(bytes, "VBN1", 4);
    assert_int_equal(bytes[4], VBN_WIRE_VERSION);
    assert_int_equal(bytes[5], VBN_WIRE_VERSION_MIN);
    assert_int_equal(bytes[8], 0x88);
    assert_int_equal(bytes[16], 0x00);
    assert_int_equal(bytes[24], 0x08);
    assert_int_equal(bytes[32], 0xd4);
    assert_int_equal(bytes[36], 0xef);
    assert_int_equal(bytes[40], 8208 & 255);
    assert_int_equal(bytes[44], 64);
    assert_true(vbn_wire_hello_read(bytes, 56, &h));
    assert_int_equal(h.magic, VBN_WIRE_MAGIC);
    h.magic = 0;
    assert_memory_equal(&h, &good_hello, sizeof(h));
}

static bool hello_reads(struct vbn_wire_hello h)
{
    unsigned char bytes[56];

    vbn_wire_hello_write(bytes, &h);
    return vbn_wire_hello_read(bytes, sizeof(bytes), &h);
}

#define HELLO_WITH(field, value)                                                                   \
    hello_reads(({                                                                                 \
        struct vbn_wire_hello h_ = good_hello;                                                     \
        h_.field = (value);                                                                        \
        h_;                                                                                        \
    }))

static void hello_fields_bad(void **state)
{
    unsigned char bytes[56];
    struct vbn_wire_hello h;

    (void)state;
    for (int i = 0; i < 4; i++) {
        vbn_wire_hello_write(bytes, &good_hello);
        bytes[i] ^= 1;
        assert_false(vbn_wire_hello_read(bytes, sizeof(bytes), &h));
    }
    assert_false(HELLO_WITH(version, 0));
    assert_false(HELLO_WITH(version_min, 0));
    assert_false(HELLO_WITH(version_min, VBN_WIRE_VERSION + 1));
    assert_false(HELLO_WITH(src_uid, 0));
    assert_false(HELLO_WITH(buf_size, VBN_BUF_SIZE_MIN - 1));
    assert_true(HELLO_WITH(buf_size, VBN_BUF_SIZE_MIN));
    assert_true(HELLO_WITH(buf_size, VBN_BUF_SIZE_MAX));
    assert_false(HELLO_WITH(buf_size, VBN_BUF_SIZE_MAX + 1));
    assert_false(HELLO_WITH(credits, VBN_WINDOW_MIN - 1));
    assert_true(HELLO_WITH(credits, VBN_WINDOW_MIN));
    assert_true(HELLO_WITH(credits, VBN_WINDOW_MAX));
    assert_false(HELLO_WITH(credits, VBN_WINDOW_MAX + 1));
    assert_false(HELLO_WITH(credits, 0xffff));
}

/* Of a release that speaks only later versions the range is read, so that it can be told. */
static void hello_of_a_later_release(void **state)
{
    unsigned char bytes[56];
    struct vbn_wire_hello h = good_hello;

    (void)state;
    h.version = 9, h.version_min = 8;
    h.src_uid = 0, h.buf_size = 0, h.credits = 0; /* may mean something else by then */
    vbn_wire_hello_write(bytes, &h);
    assert_true(vbn_wire_hello_read(bytes, sizeof(bytes), &h));
    assert_int_equal(h.version, 9);
    assert_int_equal(h.version_min, 8);
}

static void hello_cut_short_or_padded(void **state)
{
    unsigned char bytes[196] = {0};
    struct vbn_wire_hello h;

    (void)state;
    vbn_wire_hello_write(bytes, &good_hello);
    assert_false(vbn_wire_hello_read(NULL, 56, &h));
    assert_false(vbn_wire_hello_read(NULL, 0, &h));
    for (size_t len = 0; len < 56; len++) {
        void *cut = exactly(bytes, len);

        assert_false(vbn_wire_hello_read(cut, len, &h));
        free(cut);
    }
    assert_true(vbn_wire_hello_read(bytes, sizeof(bytes), &h));
    assert_int_equal(h.credits, 64);
}

static void hello_random(void **state)
{
    uint64_t rng = 2;
    unsigned accepted = 0;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        unsigned char bytes[56];
        struct vbn_wire_hello h;

        vbn_wire_hello_write(bytes, &good_hello);
        for (unsigned k = unit_random(&rng) % 4; k < 4; k++)
            bytes[unit_random(&rng) % 56] = (unsigned char)unit_random(&rng);
        if (!vbn_wire_hello_read(bytes, unit_random(&rng) % 8 ? 56 : 40, &h))
            continue;
        accepted++;
        assert_true(h.version_min >= 1 && h.version_min <= h.version);
        if (h.version_min > VBN_WIRE_VERSION)
            continue;
        assert_true(h.src_uid);
        assert_in_range(h.buf_size, VBN_BUF_SIZE_MIN, VBN_BUF_SIZE_MAX);
        assert_in_range(h.credits, VBN_WINDOW_MIN, VBN_WINDOW_MAX);
    }
    assert_true(accepted > 100);
}

/* --- halves of connections -------------------------------------------------------------------- */

static struct vbn_wire_half good_half(void)
{
    struct vbn_wire_half h = {
        .link = VBN_LINK_INFINIBAND,
        .mtu = 3,
        .read_in = 16,
        .read_out = 8,
        .hello = good_hello,
        .qp_num = 0x123456,
        .psn = 0xabcdef,
        .lid = 0x1122,
        .gid = {0xfe, 0x80, [15] = 9},
    };

    h.hello.dst_uid = 0;
    return h;
}

static void half_layout(void **state)
{
    struct vbn_wire_half h = good_half(), again;
    unsigned char bytes[96];

    (void)state;
    vbn_wire_half_write(bytes, &h);
    assert_memory_equal(bytes, "VBNH", 4);
    assert_int_equal(bytes[4], 1);
    assert_int_equal(bytes[5], 3);
    assert_int_equal(bytes[6], 16);
    assert_int_equal(bytes[7], 8);
    assert_memory_equal(bytes + 8, "VBN1", 4); /* as in private data */
    assert_int_equal(bytes[8 + 24], 0x08);
    assert_int_equal(bytes[64], 0x56);
    assert_int_equal(bytes[68], 0xef);
    assert_int_equal(bytes[72], 0x22);
    assert_memory_equal(bytes + 80, h.gid, 16);
    assert_true(vbn_wire_half_read(bytes, sizeof(bytes), &again));
    assert_int_equal(again.magic, VBN_WIRE_HALF_MAGIC);
    assert_int_equal(again.hello.magic, VBN_WIRE_MAGIC);
    again.magic = again.hello.magic = 0;
    assert_memory_equal(&again, &h, sizeof(h));
}

static bool half_reads(struct vbn_wire_half h)
{
    unsigned char bytes[96];

    vbn_wire_half_write(bytes, &h);
    return vbn_wire_half_read(bytes, sizeof(bytes), &h);
}

#define HALF_WITH(field, value)                                                                    \
    half_reads(({                                                                                  \
        struct vbn_wire_half h_ = good_half();                                                     \
        h_.field = (value);                                                                        \
        h_;                                                                                        \
    }))

static void half_fields_bad(void **state)
{
    unsigned char bytes[96];
    struct vbn_wire_half h = good_half();

    (void)state;
    for (int i = 0; i < 12; i++) {
        vbn_wire_half_write(bytes, &h);
        if (i >= 4 && i < 8)
            continue;
        bytes[i] ^= 1; /* either magic */
        assert_false(vbn_wire_half_read(bytes, sizeof(bytes), &(struct vbn_wire_half){0}));
    }
    assert_false(HALF_WITH(link, 0));
    assert_false(HALF_WITH(link, VBN_LINK_ROCE_V2 + 1));
    assert_false(HALF_WITH(mtu, 0));
    assert_false(HALF_WITH(mtu, 6));
    assert_true(HALF_WITH(mtu, 5));
    assert_false(HALF_WITH(qp_num, 0));
    assert_false(HALF_WITH(qp_num, 1)); /* the general services' */
    assert_true(HALF_WITH(qp_num, 0xffffff));
    assert_false(HALF_WITH(qp_num, 0x1000000));
    assert_true(HALF_WITH(psn, 0));
    assert_false(HALF_WITH(psn, 0x1000000));
    assert_false(HALF_WITH(hello.src_uid, 0));
    assert_false(HALF_WITH(hello.credits, 0));
    assert_true(HALF_WITH(read_in, 0));
}

/* On InfiniBand a LID or a GID, on Ethernet a GID: and none that many ports share. */
static void half_names_a_port(void **state)
{
    struct vbn_wire_half h = good_half();

    (void)state;
    h.lid = 0;
    assert_true(half_reads(h));
    h.link = VBN_LINK_ROCE_V2;
    assert_true(half_reads(h));
    h.gid[0] = 0xff; /* a multicast group */
    assert_false(half_reads(h));
    memset(h.gid, 0, sizeof(h.gid));
    assert_false(half_reads(h));
    h.lid = 5;
    assert_false(half_reads(h));
    h.link = VBN_LINK_INFINIBAND;
    assert_true(half_reads(h));
    h.lid = 0xc000;
    assert_false(half_reads(h));
    h.lid = 0;
    assert_false(half_reads(h));
}

static void half_of_a_later_release(void **state)
{
    struct vbn_wire_half h = good_half();

    (void)state;
    h.hello.version = 9;
    h.hello.version_min = 8;
    h.link = 99;
    h.qp_num = 0;
    assert_true(half_reads(h));
    h.hello.version_min = VBN_WIRE_VERSION;
    assert_false(half_reads(h));
}

static void half_cut_short(void **state)
{
    struct vbn_wire_half h = good_half(), again;
    unsigned char bytes[256] = {0};

    (void)state;
    vbn_wire_half_write(bytes, &h);
    assert_false(vbn_wire_half_read(NULL, 96, &again));
    for (size_t len = 0; len < 96; len++) {
        void *cut = exactly(bytes, len);

        assert_false(vbn_wire_half_read(cut, len, &again));
        free(cut);
    }
    assert_true(vbn_wire_half_read(bytes, sizeof(bytes), &again));
}

/* --- private data of rejections --------------------------------------------------------------- */

static void refusals(void **state)
{
    struct vbn_wire_refusal r = {
        .version = 3, .version_min = 2, .reason = VBN_REASON_SIZES, .uid = 0x1122334455667788};
    unsigned char bytes[148] = {0};

    (void)state;
    vbn_wire_refusal_write(bytes, &r);
    assert_memory_equal(bytes, "VBN1\3\2\6", 8);
    assert_int_equal(bytes[8], 0x88);
    memset(&r, 0, sizeof(r));
    assert_true(vbn_wire_refusal_read(bytes, sizeof(bytes), &r));
    assert_int_equal(r.version, 3);
    assert_int_equal(r.version_min, 2);
    assert_int_equal(r.reason, VBN_REASON_SIZES);
    assert_int_equal(r.uid, 0x1122334455667788);
    assert_false(vbn_wire_refusal_read(NULL, 16, &r));
    for (size_t len = 0; len < 16; len++) {
        void *cut = exactly(bytes, len);

        assert_false(vbn_wire_refusal_read(cut, len, &r));
        free(cut);
    }
    bytes[5] = 4; /* lowest above highest */
    assert_false(vbn_wire_refusal_read(bytes, 16, &r));
    bytes[5] = 0;
    assert_false(vbn_wire_refusal_read(bytes, 16, &r));
    bytes[5] = 2;
    bytes[0] = 'v';
    assert_false(vbn_wire_refusal_read(bytes, 16, &r));
}

static void every_reason_has_its_name(void **state)
{
    (void)state;
    for (unsigned a = VBN_REASON_CROSSED; a <= VBN_REASON_LOST; a++) {
        assert_string_not_equal(vbn_wire_reason_str((uint8_t)a), vbn_wire_reason_str(0));
        for (unsigned b = VBN_REASON_CROSSED; b < a; b++)
            assert_string_not_equal(vbn_wire_reason_str((uint8_t)a),
                                    vbn_wire_reason_str((uint8_t)b));
    }
    for (unsigned a = 0; a < 256; a++) /* whatever a peer sends */
        assert_non_null(vbn_wire_reason_str((uint8_t)a));
}

/* By trying all versions, rather than by the same formula. */
static void common_version(void **state)
{
    (void)state;
    for (unsigned max_a = 1; max_a < 6; max_a++)
        for (unsigned min_a = 1; min_a <= max_a; min_a++)
            for (unsigned max_b = 1; max_b < 6; max_b++)
                for (unsigned min_b = 1; min_b <= max_b; min_b++) {
                    unsigned best = 0;

                    for (unsigned v = 1; v < 6; v++)
                        if (v >= min_a && v <= max_a && v >= min_b && v <= max_b)
                            best = v;
                    assert_int_equal(vbn_wire_version_common((uint8_t)max_a, (uint8_t)min_a,
                                                             (uint8_t)max_b, (uint8_t)min_b),
                                     best);
                }
    assert_int_equal(vbn_wire_version_common(255, 255, 255, 1), 255);
}

/* --- address blobs ---------------------------------------------------------------------------- */

static struct vbn_wire_address good_address(void)
{
    return (struct vbn_wire_address){
        .version = VBN_WIRE_VERSION,
        .version_min = VBN_WIRE_VERSION_MIN,
        .count = 2,
        .uid = 0x1122334455667788,
        .job_key = 0x99,
        .buf_size = 8208,
        .addrs = {{.family = 4, .port = 0x1234, .ip = {10, 0, 0, 1}},
                  {.family = 6, .port = 7, .ip = {0xfd, 1, 2, 3, 4, 5, 6, 7, 8, 9}}},
    };
}

static void address_round_trip(void **state)
{
    struct vbn_wire_address a = good_address(), b;
    unsigned char bytes[sizeof(a)];

    (void)state;
    assert_int_equal(vbn_wire_address_len(&a), 32 + 2 * 20);
    vbn_wire_address_write(bytes, &a);
    assert_memory_equal(bytes, "VBN1", 4);
    assert_memory_equal(bytes + 32, "\4\0\x34\x12\x0a\0\0\1", 8);
    assert_true(vbn_wire_address_read(bytes, 72, &b));
    b.magic = 0;
    assert_memory_equal(&a, &b, sizeof(a));
    for (a.count = 1; a.count <= VBN_WIRE_ADDRS_MAX; a.count++) {
        a.addrs[a.count - 1] = a.addrs[0];
        vbn_wire_address_write(bytes, &a);
        assert_true(vbn_wire_address_read(bytes, sizeof(bytes), &b));
        assert_int_equal(b.count, a.count);
    }
    assert_true(sizeof(a) <= VBN_ADDRESS_MAX);
}

static bool address_reads(const struct vbn_wire_address *a)
{
    unsigned char bytes[sizeof(*a)];
    struct vbn_wire_address b;

    vbn_wire_address_write(bytes, a);
    return vbn_wire_address_read(bytes, sizeof(bytes), &b);
}

#define ADDRESS_WITH(field, value)                                                                 \
    address_reads(({                                                                               \
        static struct vbn_wire_address a_;                                                         \
        a_ = good_address();                                                                       \
        a_.field = (value);                                                                        \
        &a_;                                                                                       \
    }))

static void address_fields_bad(void **state)
{
    struct vbn_wire_address a = good_address();
    unsigned char bytes[sizeof(a)];

    (void)state;
    assert_true(ADDRESS_WITH(job_key, 0));
    assert_false(ADDRESS_WITH(uid, 0));
    assert_false(ADDRESS_WITH(version, 0));
    assert_false(ADDRESS_WITH(version_min, 0));
    assert_false(ADDRESS_WITH(version_min, VBN_WIRE_VERSION + 1));
    assert_false(ADDRESS_WITH(count, 0));
    assert_false(ADDRESS_WITH(buf_size, VBN_BUF_SIZE_MIN - 1));
    assert_false(ADDRESS_WITH(buf_size, VBN_BUF_SIZE_MAX + 1));
    assert_false(ADDRESS_WITH(addrs[0].family, 5));
    assert_false(ADDRESS_WITH(addrs[1].family, 0));
    assert_false(ADDRESS_WITH(addrs[0].port, 0));
    assert_false(ADDRESS_WITH(addrs[1].port, 0));
    assert_true(ADDRESS_WITH(addrs[2].port, 0)); /* not in use */
    vbn_wire_address_write(bytes, &a);
    for (unsigned count = VBN_WIRE_ADDRS_MAX + 1; count < 256;
         count++) { /* all there, but too many */
        unsigned char *many = calloc(1, 32 + 20 * count);

        memcpy(many, bytes, 32);
        many[6] = (unsigned char)count;
        for (unsigned i = 0; i < count; i++)
            memcpy(many + 32 + 20 * i, bytes + 32, 20);
        assert_false(vbn_wire_address_read(many, 32 + 20 * count, &a));
        free(many);
    }
    bytes[6] = 2;
    bytes[3] = '2';
    assert_false(vbn_wire_address_read(bytes, sizeof(bytes), &a));
}

static void address_of_a_later_release(void **state)
{
    struct vbn_wire_address a = good_address(), b;
    unsigned char bytes[sizeof(a)];

    (void)state;
    a.version = VBN_WIRE_VERSION + 2, a.version_min = VBN_WIRE_VERSION + 1;
    vbn_wire_address_write(bytes, &a);
    bytes[6] = 200; /* its layout is not ours to read */
    assert_true(vbn_wire_address_read(bytes, 32, &b));
    assert_int_equal(b.version, VBN_WIRE_VERSION + 2);
    assert_int_equal(b.version_min, VBN_WIRE_VERSION + 1);
    assert_int_equal(b.count, 0);
}

static void address_cut_short(void **state)
{
    struct vbn_wire_address a = good_address();
    unsigned char bytes[sizeof(a)];

    (void)state;
    vbn_wire_address_write(bytes, &a);
    assert_false(vbn_wire_address_read(NULL, 72, &a));
    for (size_t len = 0; len < 72; len++) {
        void *cut = exactly(bytes, len);

        assert_false(vbn_wire_address_read(cut, len, &a));
        free(cut);
    }
}

static void address_random(void **state)
{
    struct vbn_wire_address a = good_address();
    uint64_t rng = 3;
    unsigned accepted = 0;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        unsigned char bytes[sizeof(a)];
        struct vbn_wire_address b;

        vbn_wire_address_write(bytes, &a);
        for (unsigned k = unit_random(&rng) % 4; k < 4; k++)
            bytes[unit_random(&rng) % 72] = (unsigned char)unit_random(&rng);
        if (!vbn_wire_address_read(bytes, unit_random(&rng) % 8 ? 72 : unit_random(&rng) % 72, &b))
            continue;
        accepted++;
        assert_true(b.version_min >= 1 && b.version_min <= b.version);
        assert_true(b.count <= VBN_WIRE_ADDRS_MAX);
        if (b.version_min > VBN_WIRE_VERSION)
            continue;
        assert_true(b.count > 0 && b.uid);
        assert_in_range(b.buf_size, VBN_BUF_SIZE_MIN, VBN_BUF_SIZE_MAX);
        for (unsigned k = 0; k < b.count; k++) {
            assert_true(b.addrs[k].family == 4 || b.addrs[k].family == 6);
            assert_int_not_equal(b.addrs[k].port, 0);
        }
    }
    assert_true(accepted > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_layout),
        cmocka_unit_test(header_fields_bad),
        cmocka_unit_test(header_cut_short),
        cmocka_unit_test(header_random),
        cmocka_unit_test(ring_words),
        cmocka_unit_test(seals),
        cmocka_unit_test(tag_heads),
        cmocka_unit_test(offers_and_answers),
        cmocka_unit_test(hello_layout),
        cmocka_unit_test(hello_fields_bad),
        cmocka_unit_test(hello_of_a_later_release),
        cmocka_unit_test(hello_cut_short_or_padded),
        cmocka_unit_test(hello_random),
        cmocka_unit_test(half_layout),
        cmocka_unit_test(half_fields_bad),
        cmocka_unit_test(half_names_a_port),
        cmocka_unit_test(half_of_a_later_release),
        cmocka_unit_test(half_cut_short),
        cmocka_unit_test(refusals),
        cmocka_unit_test(every_reason_has_its_name),
        cmocka_unit_test(common_version),
        cmocka_unit_test(address_round_trip),
        cmocka_unit_test(address_fields_bad),
        cmocka_unit_test(address_of_a_later_release),
        cmocka_unit_test(address_cut_short),
        cmocka_unit_test(address_random),
    };

    return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
