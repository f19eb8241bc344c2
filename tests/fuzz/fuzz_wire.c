/* SPDX-License-Identifier: BSD-3-Clause */
/* The readers of what a peer sends: the first byte chooses one, the others are its bytes. */
#include "fuzz.h"

#include "wire.h"

static void header(const uint8_t *bytes, size_t len)
{
    uint8_t again[sizeof(struct vbn_wire_hdr)];
    struct vbn_wire_hdr h;

    if (!vbn_wire_hdr_read(bytes, len, &h))
        return;
    fuzz_check(h.len == len - sizeof(h), "the length of a good header");
    fuzz_check(h.type == VBN_WIRE_AM || h.type == VBN_WIRE_TAG || h.type == VBN_WIRE_RING ||
                   h.len == 0,
               "only messages and words about rings have a payload");
    fuzz_check(h.type == VBN_WIRE_AM || h.type == VBN_WIRE_TAG || h.id == 0,
               "only messages have an id");
    fuzz_check(h.type >= VBN_WIRE_AM && h.type <= VBN_WIRE_TYPE_LAST, "the type of a good header");
    vbn_wire_hdr_write(again, &h);
    fuzz_check(memcmp(again, bytes, sizeof(again)) == 0, "a header written as it was read");
}

static void hello(const uint8_t *bytes, size_t len)
{
    uint8_t first[sizeof(struct vbn_wire_hello)], second[sizeof(struct vbn_wire_hello)];
    struct vbn_wire_hello h, again;

    if (!vbn_wire_hello_read(bytes, len, &h))
        return;
    fuzz_check(h.magic == VBN_WIRE_MAGIC && h.version_min <= h.version, "the versions of a hello");
    vbn_wire_hello_write(first, &h);
    fuzz_check(vbn_wire_hello_read(first, sizeof(first), &again), "a hello reads again");
    vbn_wire_hello_write(second, &again);
    fuzz_check(memcmp(first, second, sizeof(first)) == 0, "a hello written as it was read");
    if (h.version_min > VBN_WIRE_VERSION)
        return;
    fuzz_check(h.src_uid != 0, "a hello names its sender");
    fuzz_check(h.credits >= VBN_WINDOW_MIN && h.credits <= VBN_WINDOW_MAX, "credits of a hello");
    fuzz_check(h.buf_size >= VBN_BUF_SIZE_MIN && h.buf_size <= VBN_BUF_SIZE_MAX, "buffer size");
}

static void refusal(const uint8_t *bytes, size_t len)
{
    uint8_t first[sizeof(struct vbn_wire_refusal)];
    struct vbn_wire_refusal r, again;

    if (!vbn_wire_refusal_read(bytes, len, &r))
        return;
    fuzz_check(vbn_wire_reason_str(r.reason)[0] != '\0', "each reason has a text");
    vbn_wire_refusal_write(first, &r);
    fuzz_check(vbn_wire_refusal_read(first, sizeof(first), &again), "a refusal reads again");
    fuzz_check(again.uid == r.uid && again.reason == r.reason && again.version == r.version &&
                   again.version_min == r.version_min,
               "a refusal read as it was written");
}

static void address(const uint8_t *bytes, size_t len)
{
    uint8_t first[sizeof(struct vbn_wire_address)], second[sizeof(struct vbn_wire_address)];
    struct vbn_wire_address a, again;
    size_t used;

    if (!vbn_wire_address_read(bytes, len, &a))
        return;
    used = vbn_wire_address_len(&a);
    fuzz_check(used <= len && a.count <= VBN_WIRE_ADDRS_MAX, "the length of a good address");
    for (unsigned i = 0; i < a.count; i++)
        fuzz_check((a.addrs[i].family == 4 || a.addrs[i].family == 6) && a.addrs[i].port != 0,
                   "each address has a family and a port");
    vbn_wire_address_write(first, &a);
    fuzz_check(vbn_wire_address_read(first, used, &again), "an address reads again");
    vbn_wire_address_write(second, &again);
    fuzz_check(memcmp(first, second, used) == 0, "an address written as it was read");
}

static void half(const uint8_t *bytes, size_t len)
{
    uint8_t first[sizeof(struct vbn_wire_half)], second[sizeof(struct vbn_wire_half)];
    struct vbn_wire_half h, again;

    if (!vbn_wire_half_read(bytes, len, &h))
        return;
    fuzz_check(h.hello.version_min <= h.hello.version, "the versions of a half");
    vbn_wire_half_write(first, &h);
    fuzz_check(vbn_wire_half_read(first, sizeof(first), &again), "a half reads again");
    vbn_wire_half_write(second, &again);
    fuzz_check(memcmp(first, second, sizeof(first)) == 0, "a half written as it was read");
    if (h.hello.version_min > VBN_WIRE_VERSION)
        return;
    fuzz_check(h.qp_num > 1 && h.qp_num >> 24 == 0 && h.psn >> 24 == 0, "24 bits each");
    fuzz_check(h.mtu >= 1 && h.mtu <= 5, "the MTU of a half");
    fuzz_check(h.link >= VBN_LINK_INFINIBAND && h.link <= VBN_LINK_ROCE_V2, "the link of a half");
}

static void versions(const uint8_t *bytes, size_t len)
{
    uint8_t common;

    if (len < 4)
        return;
    common = vbn_wire_version_common(bytes[0], bytes[1], bytes[2], bytes[3]);
    fuzz_check(!common || (common <= bytes[0] && common >= bytes[1] && common <= bytes[2] &&
                           common >= bytes[3]),
               "a common version is in both ranges");
}

static void tag(const uint8_t *bytes, size_t len)
{
    uint8_t again[sizeof(struct vbn_wire_tag)];
    struct vbn_wire_tag t;

    if (!vbn_wire_tag_read(bytes, len, &t))
        return;
    fuzz_check(t.tag <= VBN_WIRE_TAG_MAX && t.len <= VBN_WIRE_LEN_MAX, "the range of a tag's head");
    fuzz_check(t.len >= len - sizeof(t), "no more bytes than the length says");
    vbn_wire_tag_write(again, &t);
    fuzz_check(memcmp(again, bytes, sizeof(again)) == 0, "a tag's head written as it was read");
}

static void offer(const uint8_t *bytes, size_t len)
{
    uint8_t again[sizeof(struct vbn_wire_offer)];
    struct vbn_wire_offer o;

    if (!vbn_wire_offer_read(bytes, len, &o))
        return;
    fuzz_check(o.tag <= VBN_WIRE_TAG_MAX && o.len >= 1 && o.len <= VBN_WIRE_LEN_MAX,
               "the range of an offer");
    vbn_wire_offer_write(again, &o);
    fuzz_check(memcmp(again, bytes, sizeof(again)) == 0, "an offer written as it was read");
}

static void answer(const uint8_t *bytes, size_t len)
{
    uint8_t first[sizeof(struct vbn_wire_answer)];
    struct vbn_wire_answer a, again;

    if (!vbn_wire_answer_read(bytes, len, &a))
        return;
    vbn_wire_answer_write(first, &a);
    fuzz_check(vbn_wire_answer_read(first, sizeof(first), &again) && again.id == a.id,
               "an answer read as it was written");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const reader[])(const uint8_t *, size_t) = {
        header, hello, refusal, address, versions, tag, offer, answer, half};

    if (size)
        reader[data[0] % (sizeof(reader) / sizeof(reader[0]))](data + 1, size - 1);
    return 0;
}
