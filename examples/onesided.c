/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each rank puts a word into the memory of all others, then gets it back from there.
 *
 *     mpirun -n 4 ./onesided
 */
#include <stdio.h>
#include <stdlib.h>

#include <verbena_bootstrap.h>

#define KEY_MAX 1024

/* What the others need to reach this rank's memory. */
struct card {
    uint64_t address;
    uint64_t key_len;
    unsigned char key[KEY_MAX];
};

static int finish(struct vbn_job *job, int started, struct vbn_op *op)
{
    if (started < 0)
        return started;
    while (op->status == VBN_PENDING)
        job->tr->wait(job->port, -1);
    return op->status;
}

/* Puts and gets MINE[0] at its place in the memory of RANK. */
static int visit(struct vbn_job *job, const struct card *card, uint32_t rank, uint64_t *mine,
                 vbn_region_t *region)
{
    const struct vbn_transport *tr = job->tr;
    vbn_peer_t *peer = job->peers[rank];
    uint64_t place = card->address + job->rank * sizeof(uint64_t);
    struct vbn_op op = {.done = NULL};
    vbn_rkey_t *rkey;
    int status = tr->rkey_import(peer, card->key, card->key_len, &rkey);

    if (status != VBN_OK)
        return status;
    status = finish(job, tr->put(peer, &mine[0], region, place, rkey, sizeof(uint64_t), &op), &op);
    if (status == VBN_OK)
        status =
            finish(job, tr->get(peer, &mine[1], region, place, rkey, sizeof(uint64_t), &op), &op);
    if (status == VBN_OK && mine[1] != mine[0])
        status = VBN_ERR_PROTOCOL;
    tr->rkey_release(rkey);
    return status;
}

/* All ranks show their cards; then each visits the others. */
static int visit_all(struct vbn_job *job, struct card *mine, uint64_t *words, vbn_region_t *region)
{
    struct card *cards = calloc(job->ranks, sizeof(*cards));
    int status = VBN_ERR_NO_MEMORY;

    if (cards)
        status = vbn_job_allgather(job, mine, sizeof(*mine), cards);
    for (uint32_t rank = 0; status == VBN_OK && rank < job->ranks; rank++)
        if (rank != job->rank)
            status = visit(job, &cards[rank], rank, words, region);
    free(cards);
    /* The others may still be at it, and need this rank's progress: this makes some. */
    return status == VBN_OK ? vbn_job_barrier(job) : status;
}

/* WINDOW is for the others, a word for each; behind it are two of this rank's own. */
static int run(struct vbn_job *job, uint64_t *window)
{
    uint64_t *mine = window + job->ranks;
    struct card card = {.address = (uint64_t)(uintptr_t)window, .key_len = KEY_MAX};
    vbn_region_t *region;
    int status = job->tr->mem_register(
        job->port, window, (job->ranks + 2) * sizeof(*window),
        VBN_ACCESS_LOCAL_WRITE | VBN_ACCESS_REMOTE_READ | VBN_ACCESS_REMOTE_WRITE, &region);
    size_t key_len = KEY_MAX;

    if (status != VBN_OK)
        return status;
    mine[0] = 1000 + job->rank;
    status = job->tr->mem_key(region, card.key, &key_len);
    card.key_len = key_len;
    if (status == VBN_OK)
        status = visit_all(job, &card, mine, region);
    for (uint32_t rank = 0; status == VBN_OK && rank < job->ranks; rank++)
        if (rank != job->rank && window[rank] != 1000 + rank)
            status = VBN_ERR_PROTOCOL;
    job->tr->mem_deregister(region);
    return status;
}

int main(int argc, char **argv)
{
    struct vbn_job *job;
    struct vbn_error err;
    uint64_t *window;
    int status = vbn_job_start(&argc, argv, &job, &err);

    if (status == VBN_LOADER_HELP)
        return 0;
    if (status != VBN_OK) {
        fprintf(stderr, "onesided: %s\n", err.text);
        return 1;
    }
    window = calloc(job->ranks + 2, sizeof(*window));
    status = window ? run(job, window) : VBN_ERR_NO_MEMORY;
    printf("rank %u of %u over %s: %s\n", job->rank, job->ranks, job->tr->name,
           status == VBN_OK ? "all words are at their places" : vbn_status_str(status));
    vbn_job_destroy(job);
    free(window);
    return status != VBN_OK;
}
