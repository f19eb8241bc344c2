/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory regions and keys. A key is never given twice in a run, and a region's two keys differ,
 * so a stale key, a foreign one and an lkey sent as an rkey are all told apart.
 */
#include "sim.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

enum { LKEY_TAG = 0x3c, RKEY_TAG = 0xa5, EDGE_BYTES = 64 };

static const unsigned remote_flags =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/* ---- registration ---- */

static struct ibv_mr *refuse(int error)
{
    errno = error;
    return NULL;
}

static void mr_remember(struct sim_mr *mr)
{
    if (sim.mr_count == sim.mr_cap) {
        sim.mr_cap = sim.mr_cap ? sim.mr_cap * 2 : 256;
        sim.mrs = sim_regrow(sim.mrs, sim.mr_cap * sizeof(struct sim_mr *));
    }
    uint32_t index = (uint32_t)sim.mr_count + 1;
    mr->mr.lkey = index << 8 | LKEY_TAG;
    mr->mr.rkey = mr->access & remote_flags ? index << 8 | RKEY_TAG : 0;
    sim.mrs[sim.mr_count++] = mr;
}

static struct ibv_mr *reg_mr(struct ibv_pd *ibv, void *addr, size_t length, uint64_t iova,
                             unsigned access)
{
    struct sim_pd *pd = SIM_OF(ibv, struct sim_pd, pd);
    if (!sim_obj_check(&pd->obj, SIM_PD, "ibv_reg_mr"))
        return refuse(EINVAL);
    if (sim_rank_is_dead(sim.current) || sim_context_of(ibv->context)->node->removed)
        return refuse(EIO);
    if (sim_fails(FABRIC_FAIL_VERBS, "ibv_reg_mr"))
        return refuse(ENOMEM);
    if (access & (IBV_ACCESS_ON_DEMAND | IBV_ACCESS_MW_BIND))
        return refuse(EOPNOTSUPP);
    bool remote_change = access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    if (remote_change && !(access & IBV_ACCESS_LOCAL_WRITE)) {
        sim_violation("ibv_reg_mr: remote write access without IBV_ACCESS_LOCAL_WRITE");
        return refuse(EINVAL);
    }
    if (iova != (uintptr_t)addr)
        return refuse(EOPNOTSUPP);
    struct sim_mr *mr = sim_obj_new(SIM_MR, sizeof(*mr), 0);
    mr->access = access;
    mr->mr = (struct ibv_mr){.context = ibv->context,
                             .pd = ibv,
                             .addr = addr,
                             .length = length,
                             .handle = mr->obj.number};
    mr_remember(mr);
    pd->users++;
    return &mr->mr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return reg_mr(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                unsigned int access)
{
    return reg_mr(pd, addr, length, iova, access);
}

int ibv_dereg_mr(struct ibv_mr *ibv)
{
    struct sim_mr *mr = SIM_OF(ibv, struct sim_mr, mr);
    if (!sim_obj_check(&mr->obj, SIM_MR, "ibv_dereg_mr"))
        return EINVAL;
    if (mr->posted > 0 && !sim_rank_is_dead(mr->obj.rank))
        sim_violation("ibv_dereg_mr: %d posted work request entries still name MR %u", mr->posted,
                      mr->obj.number);
    SIM_OF(ibv->pd, struct sim_pd, pd)->users--;
    sim_obj_kill(&mr->obj);
    return 0;
}

/* ---- keys ---- */

struct sim_mr *sim_mr_find(uint32_t key, bool is_remote)
{
    uint32_t index = key >> 8, tag = key & 0xff;
    if (tag != (is_remote ? RKEY_TAG : LKEY_TAG) || index == 0 || index > sim.mr_count)
        return NULL;
    return sim.mrs[index - 1];
}

static bool is_inside(const struct sim_mr *mr, uint64_t addr, uint64_t length)
{
    uint64_t start = (uintptr_t)mr->mr.addr;
    return addr >= start && length <= mr->mr.length && addr - start <= mr->mr.length - length;
}

enum sim_key_fault sim_key_check(uint32_t key, bool is_remote, const struct ibv_pd *pd,
                                 uint64_t addr, uint64_t length, unsigned access)
{
    struct sim_mr *mr = sim_mr_find(key, is_remote);
    if (!mr)
        return SIM_KEY_NONE;
    if (mr->obj.magic != SIM_ALIVE || (is_remote && sim_rank_is_dead(mr->obj.rank)))
        return SIM_KEY_STALE;
    if (mr->mr.pd != pd)
        return SIM_KEY_PD;
    if (!is_inside(mr, addr, length))
        return SIM_KEY_BOUNDS;
    return (mr->access & access) == access ? SIM_KEY_OK : SIM_KEY_ACCESS;
}

const char *sim_key_fault_text(enum sim_key_fault fault)
{
    static const char *const texts[] = {
        [SIM_KEY_OK] = "fine",
        [SIM_KEY_NONE] = "no such key",
        [SIM_KEY_STALE] = "its region was deregistered",
        [SIM_KEY_PD] = "of another PD",
        [SIM_KEY_BOUNDS] = "outside its region",
        [SIM_KEY_ACCESS] = "its region does not allow this access",
    };
    return texts[fault];
}

/* ---- scatter/gather lists ---- */

void sim_sge_hold(const struct ibv_sge *sge, int count, int delta)
{
    for (int i = 0; i < count; i++) {
        struct sim_mr *mr = sge[i].length ? sim_mr_find(sge[i].lkey, false) : NULL;
        if (mr)
            mr->posted += delta;
    }
}

bool sim_sge_alive(const struct ibv_sge *sge, int count)
{
    for (int i = 0; i < count; i++) {
        struct sim_mr *mr = sim_mr_find(sge[i].lkey, false);
        if (sge[i].length &&
            (!mr || mr->obj.magic != SIM_ALIVE || !is_inside(mr, sge[i].addr, sge[i].length)))
            return false;
    }
    return true;
}

static uint64_t sum_bytes(uint64_t sum, const uint8_t *bytes, size_t length)
{
    const uint64_t factor = 0x9fb21c651e98df25u;
    uint64_t other = sum ^ factor, word;
    for (; length >= 16; bytes += 16, length -= 16) {
        memcpy(&word, bytes, 8);
        sum = (sum ^ word) * factor;
        memcpy(&word, bytes + 8, 8);
        other = (other ^ word) * factor;
        sum ^= sum >> 29;
        other ^= other >> 31;
    }
    for (; length > 0; bytes++, length--)
        sum = (sum ^ *bytes) * factor;
    return sum ^ (other << 1);
}

uint64_t sim_sum(const struct ibv_sge *sge, int count)
{
    uint64_t sum = 1;
    for (int i = 0; i < count; i++)
        sum = sum_bytes(sum, (const uint8_t *)(uintptr_t)sge[i].addr, sge[i].length);
    return sum;
}

uint64_t sim_sum_edges(const struct ibv_sge *sge, int count)
{
    uint64_t sum = 1;
    for (int i = 0; i < count; i++) {
        const uint8_t *bytes = (const uint8_t *)(uintptr_t)sge[i].addr;
        size_t edge = sge[i].length < EDGE_BYTES ? sge[i].length : EDGE_BYTES;
        sum = sum_bytes(sum, bytes, edge);
        sum = sum_bytes(sum, bytes + sge[i].length - edge, edge);
    }
    return sum;
}

void sim_sge_copy(const struct ibv_sge *to, int to_count, const struct ibv_sge *from,
                  int from_count, uint64_t length)
{
    uint64_t to_at = 0, from_at = 0;
    int to_i = 0, from_i = 0;
    while (length > 0 && to_i < to_count && from_i < from_count) {
        uint64_t part = to[to_i].length - to_at, from_left = from[from_i].length - from_at;
        part = part < from_left ? part : from_left;
        part = part < length ? part : length;
        memmove((char *)(uintptr_t)to[to_i].addr + to_at,
                (const char *)(uintptr_t)from[from_i].addr + from_at, part);
        length -= part;
        to_at += part;
        from_at += part;
        if (to_at == to[to_i].length) {
            to_at = 0;
            to_i++;
        }
        if (from_at == from[from_i].length) {
            from_at = 0;
            from_i++;
        }
    }
}
