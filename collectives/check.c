/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"
#include "dtype.h"
#include "error.h"
#include "hash.h"
#include "peers.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

/* A call in words of explicit byte order. */
enum {
    WORD_COLL,
    WORD_ROOT,
    WORD_COUNT, /* elements; of counts that all ranks know, a hash */
    WORD_ELEM,
    WORD_DTYPE,
    WORD_OP,
    WORD_ALGORITHM,
    WORD_PARAM,
    WORD_SEQ,
    WORDS
};

struct signature {
    uint64_t rank;
    uint64_t word[WORDS];
};

struct report {
    struct signature first, other;
    uint64_t differs;
};

_Static_assert(sizeof(struct report) == 168, "what ranks exchange");

/* The tags of the exchange, above those of algorithms. */
#define CHECK_STEP VBN_STEP_TAGS

static void exchange(struct vbn_sched *sched, const struct vbn_call *call, struct vbn_at mine,
                     uint32_t distance, unsigned round)
{
    struct vbn_at got = vbn_sched_tmp(sched, sizeof(struct report));
    struct vbn_step step = {.kind = VBN_STEP_MERGE, .to = mine, .from = got};
    size_t end = sched->count;

    vbn_sched_recv(sched, vbn_behind(call->rank, distance, call->size), got, sizeof(struct report),
                   0, true);
    vbn_sched_send(sched, vbn_ahead(call->rank, distance, call->size), mine, sizeof(struct report),
                   0);
    for (; end < sched->count; end++)
        sched->steps[end].tag = (uint16_t)(CHECK_STEP + round);
    vbn_sched_add(sched, &step);
    vbn_sched_end(sched);
}

struct vbn_at vbn_check_build(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_at mine = vbn_sched_tmp(sched, sizeof(struct report));
    struct vbn_step verdict = {.kind = VBN_STEP_VERDICT, .to = mine};
    unsigned round = 0;

    for (uint64_t d = 1; d < call->size; d *= 2)
        exchange(sched, call, mine, (uint32_t)d, round++);
    vbn_sched_add(sched, &verdict);
    vbn_sched_end(sched);
    return mine;
}

/* FNV-1a over the counts that all ranks were given. */
uint64_t vbn_check_count(const struct vbn_call *call)
{
    uint64_t hash = 0xcbf29ce484222325u;

    switch (call->coll) {
    case VBN_COLL_BARRIER:
    case VBN_COLL_GATHERV:
    case VBN_COLL_SCATTERV:
    case VBN_COLL_ALLTOALLV:
        return 0;
    case VBN_COLL_REDUCE_SCATTER:
    case VBN_COLL_ALLGATHERV:
        for (uint32_t i = 0; i < call->size; i++)
            hash = (hash ^ call->recv_counts[i]) * 0x100000001b3u;
        return hash;
    default:
        return call->count;
    }
}

static uint64_t number_of(const struct vbn_algorithm *algorithm)
{
    return vbn_hash(algorithm->name, strlen(algorithm->name));
}

/* "?" where this build has no such algorithm. */
static const char *algorithm_name(uint64_t coll, uint64_t number)
{
    const struct vbn_algorithm *algorithm;

    if (coll >= VBN_COLL_COUNT)
        return "?";
    for (unsigned i = 0; (algorithm = vbn_algorithm_at((enum vbn_coll)coll, i)); i++)
        if (number_of(algorithm) == number)
            return algorithm->name;
    return "?";
}

void vbn_check_fill(const vbn_coll_req_t *req, void *mine)
{
    struct report *report = mine;
    uint64_t *word = report->first.word;

    memset(report, 0, sizeof(*report));
    word[WORD_COLL] = req->call.coll;
    word[WORD_ROOT] = req->call.root;
    word[WORD_COUNT] = req->signed_count;
    word[WORD_ELEM] = req->call.elem;
    word[WORD_DTYPE] = req->args.dtype;
    word[WORD_OP] = req->op_kind;
    word[WORD_ALGORITHM] = number_of(req->algorithm);
    word[WORD_PARAM] = req->call.param;
    word[WORD_SEQ] = req->seq;
    for (int i = 0; i < WORDS; i++)
        word[i] = htole64(word[i]);
    report->first.rank = htole64(req->call.rank);
}

void vbn_check_merge(void *mine, const void *theirs)
{
    struct report *a = mine;
    const struct report *b = theirs;

    if (a->differs)
        return;
    if (b->differs) {
        *a = *b;
        a->differs = htole64(1);
        return;
    }
    if (memcmp(a->first.word, b->first.word, sizeof(a->first.word)) == 0)
        return;
    a->other = b->first;
    a->differs = htole64(1);
}

static void describe(const struct signature *s, char *text, size_t len)
{
    uint64_t coll = le64toh(s->word[WORD_COLL]);
    const char *name = coll < VBN_COLL_COUNT ? vbn_coll_name((enum vbn_coll)coll) : NULL;
    uint64_t count = le64toh(s->word[WORD_COUNT]);
    bool hashed = coll == VBN_COLL_REDUCE_SCATTER || coll == VBN_COLL_ALLGATHERV;

    snprintf(text, len,
             "rank %llu calls %s (number %llu, root %llu, %s%s %llu, type %s of %llu bytes, "
             "operation %s, algorithm %s/%llu)",
             (unsigned long long)le64toh(s->rank), name ? name : "?",
             (unsigned long long)le64toh(s->word[WORD_SEQ]),
             (unsigned long long)le64toh(s->word[WORD_ROOT]), hashed ? "counts with the hash" : "",
             hashed ? "" : "count", (unsigned long long)count,
             vbn_dtype_name(le64toh(s->word[WORD_DTYPE])),
             (unsigned long long)le64toh(s->word[WORD_ELEM]),
             vbn_op_name(le64toh(s->word[WORD_OP])),
             algorithm_name(coll, le64toh(s->word[WORD_ALGORITHM])),
             (unsigned long long)le64toh(s->word[WORD_PARAM]));
}

bool vbn_check_verdict(const vbn_coll_req_t *req, const void *mine, struct vbn_error *err)
{
    const struct report *report = mine;
    char one[220], two[220];

    if (!report->differs)
        return true;
    describe(&report->first, one, sizeof(one));
    describe(&report->other, two, sizeof(two));
    vbn_error_set(err, VBN_ERR_MISMATCH, "team %u: %s, but %s", req->team->id, one, two);
    return false;
}
