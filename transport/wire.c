/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading and writing of private data and address blobs. All of it is set-up, none is data path. */
#include "wire.h"

static bool buf_size_ok(uint32_t bytes)
{
    return bytes >= VBN_BUF_SIZE_MIN && bytes <= VBN_BUF_SIZE_MAX;
}

static bool versions_ok(uint8_t max, uint8_t min)
{
    return min >= 1 && min <= max;
}

void vbn_wire_offer_write(void *buf, const struct vbn_wire_offer *o)
{
    struct vbn_wire_offer le = {
        .tag = htole64(o->tag),
        .len = htole64(o->len),
        .addr = htole64(o->addr),
        .rkey = htole32(o->rkey),
        .id = htole32(o->id),
    };
    memcpy(buf, &le, sizeof(le));
}

bool vbn_wire_offer_read(const void *buf, size_t len, struct vbn_wire_offer *o)
{
    if (len != sizeof(*o))
        return false;
    memcpy(o, buf, sizeof(*o));
    o->tag = le64toh(o->tag);
    o->len = le64toh(o->len);
    o->addr = le64toh(o->addr);
    o->rkey = le32toh(o->rkey);
    o->id = le32toh(o->id);
    return o->tag <= VBN_WIRE_TAG_MAX && o->len >= 1 && o->len <= VBN_WIRE_LEN_MAX;
}

void vbn_wire_answer_write(void *buf, const struct vbn_wire_answer *a)
{
    struct vbn_wire_answer le = {.id = htole32(a->id)};

    memcpy(buf, &le, sizeof(le));
}

bool vbn_wire_answer_read(const void *buf, size_t len, struct vbn_wire_answer *a)
{
    if (len < sizeof(*a))
        return false;
    memcpy(a, buf, sizeof(*a));
    a->id = le32toh(a->id);
    return true;
}

void vbn_wire_ring_write(void *buf, const struct vbn_wire_ring *r)
{
    struct vbn_wire_ring le = {
        .addr = htole64(r->addr),
        .rkey = htole32(r->rkey),
        .count = htole16(r->count),
        .heard = htole16(r->heard),
    };
    memcpy(buf, &le, sizeof(le));
}

bool vbn_wire_ring_read(const void *buf, struct vbn_wire_ring *r)
{
    memcpy(r, buf, sizeof(*r));
    r->addr = le64toh(r->addr);
    r->rkey = le32toh(r->rkey);
    r->count = le16toh(r->count);
    r->heard = le16toh(r->heard);
    if (r->count % 2 == 0)
        return r->addr == 0;
    return r->addr != 0 && r->addr % 8 == 0 &&
           r->addr <= UINT64_MAX - (uint64_t)VBN_RING_SLOTS * VBN_RING_SLOT;
}

void vbn_wire_hello_write(void *buf, const struct vbn_wire_hello *h)
{
    struct vbn_wire_hello le = {
        .magic = htole32(VBN_WIRE_MAGIC),
        .version = h->version,
        .version_min = h->version_min,
        .src_uid = htole64(h->src_uid),
        .dst_uid = htole64(h->dst_uid),
        .job_key = htole64(h->job_key),
        .session = htole32(h->session),
        .rx_next = htole32(h->rx_next),
        .buf_size = htole32(h->buf_size),
        .credits = htole16(h->credits),
        .incarnation = htole32(h->incarnation),
        .peer_incarnation = htole32(h->peer_incarnation),
    };
    memcpy(buf, &le, sizeof(le));
}

bool vbn_wire_hello_read(const void *buf, size_t len, struct vbn_wire_hello *h)
{
    if (!buf || len < sizeof(*h))
        return false;
    memcpy(h, buf, sizeof(*h));
    h->magic = le32toh(h->magic);
    h->src_uid = le64toh(h->src_uid);
    h->dst_uid = le64toh(h->dst_uid);
    h->job_key = le64toh(h->job_key);
    h->session = le32toh(h->session);
    h->rx_next = le32toh(h->rx_next);
    h->buf_size = le32toh(h->buf_size);
    h->credits = le16toh(h->credits);
    h->incarnation = le32toh(h->incarnation);
    h->peer_incarnation = le32toh(h->peer_incarnation);
    if (h->magic != VBN_WIRE_MAGIC || !versions_ok(h->version, h->version_min))
        return false;
    if (h->version_min > VBN_WIRE_VERSION)
        return true; /* only the range is known to mean anything */
    return h->src_uid != 0 && buf_size_ok(h->buf_size) && h->credits >= VBN_WINDOW_MIN &&
           h->credits <= VBN_WINDOW_MAX;
}

void vbn_wire_refusal_write(void *buf, const struct vbn_wire_refusal *r)
{
    struct vbn_wire_refusal le = {
        .magic = htole32(VBN_WIRE_MAGIC),
        .version = r->version,
        .version_min = r->version_min,
        .reason = r->reason,
        .uid = htole64(r->uid),
    };
    memcpy(buf, &le, sizeof(le));
}

bool vbn_wire_refusal_read(const void *buf, size_t len, struct vbn_wire_refusal *r)
{
    if (!buf || len < sizeof(*r))
        return false;
    memcpy(r, buf, sizeof(*r));
    r->magic = le32toh(r->magic);
    r->uid = le64toh(r->uid);
    return r->magic == VBN_WIRE_MAGIC && versions_ok(r->version, r->version_min);
}

const char *vbn_wire_reason_str(uint8_t reason)
{
    switch (reason) {
    case VBN_REASON_CROSSED:
        return "both sides connected at once";
    case VBN_REASON_VERSION:
        return "no wire version in common";
    case VBN_REASON_STRANGER:
        return "the request was meant for another context or job";
    case VBN_REASON_BUSY:
        return "the peer has no resources for another connection";
    case VBN_REASON_CLOSED:
        return "the peer has closed";
    case VBN_REASON_SIZES:
        return "the peers' eager limits differ";
    case VBN_REASON_MALFORMED:
        return "the request was malformed";
    case VBN_REASON_LOST:
        return "the peer has given the session up";
    default:
        return "unknown reason";
    }
}

uint8_t vbn_wire_version_common(uint8_t max_a, uint8_t min_a, uint8_t max_b, uint8_t min_b)
{
    uint8_t max = max_a < max_b ? max_a : max_b;
    uint8_t min = min_a > min_b ? min_a : min_b;

    return max >= min ? max : 0;
}

void vbn_wire_half_write(void *buf, const struct vbn_wire_half *h)
{
    struct vbn_wire_half le = {
        .magic = htole32(VBN_WIRE_HALF_MAGIC),
        .link = h->link,
        .mtu = h->mtu,
        .read_in = h->read_in,
        .read_out = h->read_out,
        .qp_num = htole32(h->qp_num),
        .psn = htole32(h->psn),
        .lid = htole16(h->lid),
    };

    vbn_wire_hello_write(&le.hello, &h->hello);
    memcpy(le.gid, h->gid, sizeof(le.gid));
    memcpy(buf, &le, sizeof(le));
}

/* A queue pair of its own, on a port that can be named: by a unicast LID, or by a GID. */
static bool half_leads_somewhere(const struct vbn_wire_half *h)
{
    static const uint8_t none[sizeof(h->gid)];
    bool has_gid = memcmp(h->gid, none, sizeof(none)) != 0 && h->gid[0] != 0xff;
    bool has_lid = h->link == VBN_LINK_INFINIBAND && h->lid != 0 && h->lid < 0xc000;

    return h->qp_num > 1 && h->qp_num <= 0xffffff && h->psn <= 0xffffff && (has_gid || has_lid);
}

bool vbn_wire_half_read(const void *buf, size_t len, struct vbn_wire_half *h)
{
    const size_t at = offsetof(struct vbn_wire_half, hello);

    if (!buf || len < sizeof(*h))
        return false;
    memcpy(h, buf, sizeof(*h));
    h->magic = le32toh(h->magic);
    h->qp_num = le32toh(h->qp_num);
    h->psn = le32toh(h->psn);
    h->lid = le16toh(h->lid);
    if (h->magic != VBN_WIRE_HALF_MAGIC ||
        !vbn_wire_hello_read((const char *)buf + at, sizeof(h->hello), &h->hello))
        return false;
    if (h->hello.version_min > VBN_WIRE_VERSION)
        return true;
    return h->link >= VBN_LINK_INFINIBAND && h->link <= VBN_LINK_ROCE_V2 && h->mtu >= 1 &&
           h->mtu <= 5 && half_leads_somewhere(h);
}

size_t vbn_wire_address_len(const struct vbn_wire_address *a)
{
    return offsetof(struct vbn_wire_address, addrs) + a->count * sizeof(a->addrs[0]);
}

void vbn_wire_address_write(void *buf, const struct vbn_wire_address *a)
{
    struct vbn_wire_address le = {
        .magic = htole32(VBN_WIRE_MAGIC),
        .version = a->version,
        .version_min = a->version_min,
        .count = a->count,
        .uid = htole64(a->uid),
        .job_key = htole64(a->job_key),
        .buf_size = htole32(a->buf_size),
    };
    for (unsigned i = 0; i < a->count; i++) {
        le.addrs[i].family = a->addrs[i].family;
        le.addrs[i].port = htole16(a->addrs[i].port);
        memcpy(le.addrs[i].ip, a->addrs[i].ip, sizeof(le.addrs[i].ip));
    }
    memcpy(buf, &le, vbn_wire_address_len(a));
}

bool vbn_wire_address_read(const void *buf, size_t len, struct vbn_wire_address *a)
{
    const size_t head = offsetof(struct vbn_wire_address, addrs);

    memset(a, 0, sizeof(*a));
    if (!buf || len < head)
        return false;
    memcpy(a, buf, head);
    a->magic = le32toh(a->magic);
    a->uid = le64toh(a->uid);
    a->job_key = le64toh(a->job_key);
    a->buf_size = le32toh(a->buf_size);
    if (a->magic != VBN_WIRE_MAGIC || !versions_ok(a->version, a->version_min))
        return false;
    if (a->version_min > VBN_WIRE_VERSION) {
        a->count = 0;
        return true;
    }
    if (a->uid == 0 || !buf_size_ok(a->buf_size) || a->count == 0 ||
        a->count > VBN_WIRE_ADDRS_MAX || len < vbn_wire_address_len(a))
        return false;
    memcpy(a->addrs, (const char *)buf + head, a->count * sizeof(a->addrs[0]));
    for (unsigned i = 0; i < a->count; i++) {
        a->addrs[i].port = le16toh(a->addrs[i].port);
        if ((a->addrs[i].family != 4 && a->addrs[i].family != 6) || a->addrs[i].port == 0)
            return false;
    }
    return true;
}
