/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank and its partner: the memory that is measured, and what they say to each other. */
#include "perf.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define KEY_MAX      4096u
#define TAG_CARD     (UINT64_C(1) << 32)
#define ALL_BUT_LAST (VBN_TAG_MAX - 1)

/* Where a rank's memory is, for its partner. */
struct card {
    uint64_t out, in, key_len;
    char key[KEY_MAX];
};

/* --- operations --------------------------------------------------------------------------------
 */

void perf_poll(struct perf_pair *p)
{
    if (p->job->tr->progress(p->job->port) == 0 && p->yields)
        sched_yield();
}

static void poll_until_over(struct perf_pair *p, const struct vbn_op *op)
{
    while (op->status == VBN_PENDING)
        perf_poll(p);
}

static void wait_until_over(struct perf_pair *p, const struct vbn_op *op)
{
    while (op->status == VBN_PENDING)
        p->job->tr->wait(p->job->port, -1);
}

int perf_finish(struct perf_pair *p, int started, struct vbn_op *op)
{
    if (started < 0)
        return started;
    if (p->opts->wait)
        wait_until_over(p, op);
    else
        poll_until_over(p, op);
    return op->status;
}

int perf_finish_all(struct perf_pair *p, struct vbn_op *ops, unsigned count)
{
    int status = VBN_OK;

    for (unsigned i = 0; i < count && status == VBN_OK; i++)
        status = perf_finish(p, VBN_OK, &ops[i]);
    return status;
}

int perf_send(struct perf_pair *p, const void *buf, size_t len, uint64_t tag, struct vbn_op *op)
{
    return p->job->tr->send(p->peer, buf, len, tag, op);
}

int perf_recv(struct perf_pair *p, void *buf, size_t len, uint64_t tag, struct vbn_op *op)
{
    return p->job->tr->recv(p->job->port, p->peer, buf, len, tag, ALL_BUT_LAST, op);
}

int perf_tell(struct perf_pair *p, uint64_t tag)
{
    struct vbn_op op = {.done = NULL};

    return perf_finish(p, perf_send(p, NULL, 0, tag, &op), &op);
}

int perf_hear(struct perf_pair *p, uint64_t tag)
{
    struct vbn_op op = {.done = NULL};

    return perf_finish(p, perf_recv(p, NULL, 0, tag, &op), &op);
}

int perf_post_window(struct perf_pair *p, size_t len, unsigned window, uint64_t tag)
{
    int status = VBN_OK;

    for (unsigned i = 0; i < window && status >= 0; i++)
        status = perf_recv(p, p->in, len, tag, &p->ops[i]);
    return status < 0 ? status : VBN_OK;
}

int perf_send_window(struct perf_pair *p, size_t len, unsigned window, uint64_t tag, bool *told)
{
    struct vbn_op answer = {.done = NULL};
    int answer_status = perf_recv(p, NULL, 0, PERF_ANSWER, &answer), status = answer_status;

    for (unsigned i = 0; i < window && status >= 0; i++)
        status = perf_send(p, p->out, len, tag, &p->ops[i]);
    if (status >= 0)
        status = perf_finish_all(p, p->ops, window);
    if (status >= 0)
        status = perf_finish(p, answer_status, &answer);
    *told = answer.tag & PERF_LAST;
    return status;
}

/* --- memory ------------------------------------------------------------------------------------
 */

static int map_buffers(struct perf_pair *p)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t each = (p->opts->size_max + PERF_RATE_BYTES + 2 * page - 1) / page * page;
    void *at = mmap(NULL, 2 * each, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        return VBN_ERR_NO_MEMORY;
    memset(at, 1, 2 * each); /* pages of their own */
    p->out = at;
    p->in = p->out + each;
    p->mapped = 2 * each;
    return VBN_OK;
}

static int register_buffers(struct perf_pair *p)
{
    const unsigned access =
        VBN_ACCESS_LOCAL_WRITE | VBN_ACCESS_REMOTE_READ | VBN_ACCESS_REMOTE_WRITE;
    int status;

    if (p->region)
        return VBN_OK;
    status = p->job->tr->mem_register(p->job->port, p->out, p->mapped, access, &p->region);
    if (status != VBN_OK)
        snprintf(p->err.text, sizeof(p->err.text), "registering %zu bytes: %s", p->mapped,
                 vbn_status_str(status));
    return status;
}

static int swap_cards(struct perf_pair *p, struct card *mine, struct card *theirs)
{
    struct vbn_op ops[2] = {{.done = NULL}, {.done = NULL}};
    size_t key_len = KEY_MAX;
    int status = p->job->tr->mem_key(p->region, mine->key, &key_len);

    if (status != VBN_OK)
        return status;
    mine->out = (uintptr_t)p->out;
    mine->in = (uintptr_t)p->in;
    mine->key_len = key_len;
    status = perf_recv(p, theirs, sizeof(*theirs), TAG_CARD, &ops[0]);
    if (status >= 0)
        status = perf_finish(p, perf_send(p, mine, sizeof(*mine), TAG_CARD, &ops[1]), &ops[1]);
    return perf_finish(p, status, &ops[0]);
}

int perf_pair_share(struct perf_pair *p)
{
    struct card *cards = p->rkey ? NULL : calloc(2, sizeof(*cards));
    int status;

    if (p->rkey)
        return VBN_OK;
    status = cards ? register_buffers(p) : VBN_ERR_NO_MEMORY;
    if (status == VBN_OK)
        status = swap_cards(p, &cards[0], &cards[1]);
    if (status == VBN_OK) {
        p->remote_out = cards[1].out;
        p->remote_in = cards[1].in;
        status = p->job->tr->rkey_import(p->peer, cards[1].key, cards[1].key_len, &p->rkey);
    }
    free(cards);
    return status;
}

/*
 * Where processors are scarce others may have this one at once: the partner may be among them. Else
 * nobody waits for it, and to offer it would be measured, too.
 */
static bool processors_are_scarce(const struct vbn_job *job)
{
    return job->local_ranks > sysconf(_SC_NPROCESSORS_ONLN);
}

/* --- both together -----------------------------------------------------------------------------
 */

int perf_pair_init(struct perf_pair *p, struct vbn_job *job, const struct perf_options *opts)
{
    uint32_t half = job->ranks / 2;
    size_t ops = opts->window > PERF_RATE_WINDOW ? opts->window : PERF_RATE_WINDOW;
    int status;

    *p = (struct perf_pair){.job = job, .opts = opts, .measures = job->rank < half};
    p->partner = p->measures ? job->rank + half : job->rank - half;
    p->peer = job->peers[p->partner];
    p->yields = processors_are_scarce(job);
    if (opts->tests & 1u << PERF_INCAST)
        ops *= job->ranks;
    p->ops = calloc(ops, sizeof(*p->ops));
    p->samples = calloc(PERF_SAMPLES_MAX, sizeof(*p->samples));
    status = p->ops && p->samples ? map_buffers(p) : VBN_ERR_NO_MEMORY;
    if (status == VBN_OK && opts->registered)
        status = register_buffers(p);
    return status;
}

struct perf_pair perf_pair_with(const struct perf_pair *p, uint32_t rank, struct vbn_op *ops)
{
    struct perf_pair pair = *p;

    pair.partner = rank;
    pair.peer = p->job->peers[rank];
    pair.ops = ops;
    return pair;
}

void perf_pair_fini(struct perf_pair *p)
{
    if (p->rkey)
        p->job->tr->rkey_release(p->rkey);
    if (p->region)
        p->job->tr->mem_deregister(p->region);
    if (p->out)
        munmap(p->out, p->mapped);
    free(p->samples);
    free(p->ops);
}
