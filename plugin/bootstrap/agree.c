/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all ranks decide together. Each round is an allgather in which all take part, whatever
 * happened to them before: a rank that has failed says so, and nobody waits for it.
 */
#include "bootstrap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ORDER_MAX 512 /* bytes of the names of rank 0's transports */

static int gather(const struct vbn_oob *oob, const void *mine, size_t len, void **all)
{
    int status;

    *all = calloc(oob->ranks, len ? len : 1);
    if (!*all) /* the others wait: without memory for this there is no job, and the runtime ends it
                */
        return VBN_ERR_NO_MEMORY;
    status = oob->allgather(oob->arg, mine, len, *all);
    if (status != VBN_OK) {
        free(*all);
        *all = NULL;
    }
    return status;
}

static int no_answer(struct vbn_error *err, int status)
{
    return vbn_fail(err, status, "the ranks cannot be reached out of band: %s",
                    vbn_status_str(status));
}

/* --- verdicts --------------------------------------------------------------------------------- */

/* How many ranks after RANK, itself included, say the same, without a gap. */
static uint32_t same_from(const struct verdict *verdicts, uint32_t rank, uint32_t ranks)
{
    uint32_t end = rank + 1;

    while (end < ranks && verdicts[end].status == verdicts[rank].status &&
           !strcmp(verdicts[end].text, verdicts[rank].text))
        end++;
    return end - rank;
}

static void name_ranks(char *text, size_t size, uint32_t first, uint32_t count, uint32_t ranks,
                       const char *reason)
{
    size_t len = strlen(text);
    const char *gap = len ? "; " : "";

    if (count == ranks)
        snprintf(text + len, size - len, "%s%s", gap, reason);
    else if (count == 1)
        snprintf(text + len, size - len, "%srank %u: %s", gap, first, reason);
    else
        snprintf(text + len, size - len, "%sranks %u to %u: %s", gap, first, first + count - 1,
                 reason);
}

/* The reasons of all ranks that failed; the first one's status. */
static int sum_up(struct verdict *verdicts, uint32_t ranks, char *text, size_t size)
{
    int status = VBN_OK;

    text[0] = '\0';
    for (uint32_t rank = 0; rank < ranks; rank++)
        verdicts[rank].text[sizeof(verdicts[rank].text) - 1] = '\0';
    for (uint32_t rank = 0; rank < ranks;) {
        uint32_t same = same_from(verdicts, rank, ranks);

        if (verdicts[rank].status != VBN_OK) {
            status = status ? status : verdicts[rank].status;
            name_ranks(text, size, rank, same, ranks, verdicts[rank].text);
        }
        rank += same;
    }
    return status;
}

static void write_verdict(struct verdict *verdict, int status, const struct vbn_error *err)
{
    memset(verdict, 0, sizeof(*verdict));
    verdict->status = status;
    if (status == VBN_OK)
        return;
    snprintf(verdict->text, sizeof(verdict->text), "%s",
             status < 0 && *err->text ? err->text : vbn_status_str(status));
}

/* One round: STATUS and *MINE are this rank's. TEXT sums up. */
static int round_of(const struct vbn_oob *oob, int status, const struct vbn_error *mine, char *text,
                    size_t size)
{
    struct verdict verdict;
    void *all;
    int sum;

    write_verdict(&verdict, status, mine);
    sum = gather(oob, &verdict, sizeof(verdict), &all);
    if (sum != VBN_OK) {
        snprintf(text, size, "the ranks cannot be reached out of band: %s", vbn_status_str(sum));
        return sum;
    }
    sum = sum_up(all, oob->ranks, text, size);
    free(all);
    return sum;
}

int agree_on(const struct vbn_oob *oob, int status, struct vbn_error *err)
{
    char text[sizeof(err->text)];
    struct vbn_error none = {0};

    status = round_of(oob, status, err ? err : &none, text, sizeof(text));
    return status == VBN_OK ? VBN_OK : vbn_fail(err, status, "%s", text);
}

/* --- the transport ---------------------------------------------------------------------------- */

/* Rank 0's order, as names that follow each other; an empty one is the end. */
static int agree_order(struct job *job, char *order, struct vbn_error *err)
{
    struct vbn_error why = {0};
    char mine[ORDER_MAX] = "";
    const char **names = NULL;
    size_t count = 0, used = 0;
    void *all;
    int status = vbn_loader_order(job->shown.loader, &names, &count, &why);

    for (size_t i = 0; status == VBN_OK && i < count; i++) {
        size_t len = strlen(names[i]) + 1;

        if (used + len < sizeof(mine)) {
            memcpy(mine + used, names[i], len);
            used += len;
        }
    }
    free(names);
    status = agree_on(&job->oob, status, &why);
    if (status != VBN_OK)
        return vbn_fail(err, status, "%s", why.text);
    status = gather(&job->oob, mine, sizeof(mine), &all);
    if (status != VBN_OK)
        return no_answer(err, status);
    memcpy(order, all, ORDER_MAX);
    order[ORDER_MAX - 2] = order[ORDER_MAX - 1] = '\0';
    free(all);
    return VBN_OK;
}

/* Whether this rank's own order allows NAME. */
static bool allowed(struct job *job, const char *name)
{
    const char **names;
    size_t count;
    bool found = false;

    if (vbn_loader_order(job->shown.loader, &names, &count, NULL) != VBN_OK)
        return false;
    for (size_t i = 0; i < count; i++)
        found = found || !strcmp(names[i], name);
    free(names);
    return found;
}

static int open_mine(struct job *job, const struct vbn_port_config *config, const char *name,
                     struct vbn_error *why)
{
    if (!allowed(job, name))
        return vbn_fail(why, VBN_ERR_INVALID, "excluded by this rank's parameter transport");
    return vbn_loader_open_one(job->shown.loader, name, config, &job->shown.tr, &job->shown.port,
                               why);
}

/* Opens NAME on all ranks or none. */
static int open_all(struct job *job, const struct vbn_port_config *config, const char *name,
                    char *text, size_t size)
{
    struct vbn_error why = {0};
    int mine = open_mine(job, config, name, &why);
    int status = round_of(&job->oob, mine, &why, text, size);

    if (status != VBN_OK && mine == VBN_OK) {
        job->shown.tr->close(job->shown.port);
        job->shown.tr = NULL;
        job->shown.port = NULL;
    }
    return status;
}

static void peer_lost(void *arg, vbn_peer_t *peer, int status, const char *reason)
{
    struct job *job = arg;

    job->lost++;
    if (job->base.peer_error)
        job->base.peer_error(job->base.callback_arg, peer, status, reason);
}

static void pass_log(void *arg, enum vbn_log_level level, const char *text)
{
    struct job *job = arg;

    job->base.log(job->base.callback_arg, level, text);
}

static uint64_t pass_clock(void *arg)
{
    struct job *job = arg;

    return job->base.clock_ns(job->base.callback_arg);
}

static uint64_t pass_random(void *arg)
{
    struct job *job = arg;

    return job->base.random(job->base.callback_arg);
}

/* The caller's callbacks behind the job's own. */
static struct vbn_port_config config_of(struct job *job)
{
    struct vbn_port_config config = job->base;

    config.size = sizeof(config);
    config.rank = job->oob.rank;
    config.job_key = job->oob.job_key;
    config.callback_arg = job;
    config.peer_error = peer_lost;
    config.log = job->base.log ? pass_log : NULL;
    config.clock_ns = job->base.clock_ns ? pass_clock : NULL;
    config.random = job->base.random ? pass_random : NULL;
    return config;
}

int agree_transport(struct job *job, struct vbn_error *err)
{
    struct vbn_port_config config = config_of(job);
    char order[ORDER_MAX] = "", reasons[1200] = "";
    int first, status = agree_order(job, order, err);

    if (status != VBN_OK)
        return status;
    first = VBN_ERR_NO_DEVICE;
    for (const char *name = order; *name; name += strlen(name) + 1) {
        char text[sizeof(err->text)];
        size_t len = strlen(reasons);

        status = open_all(job, &config, name, text, sizeof(text));
        if (status == VBN_OK) {
            if (job->oob.rank == 0)
                vbn_loader_announce(job->shown.loader, &config, name, reasons);
            return VBN_OK;
        }
        first = len ? first : status;
        snprintf(reasons + len, sizeof(reasons) - len, "%s%s: %.400s", len ? "; " : "", name, text);
    }
    return vbn_fail(err, first, "no transport can be used on all ranks: %.400s", reasons);
}

/* --- peers ------------------------------------------------------------------------------------ */

/* Addresses differ in length: the longest first, then all in pieces of that length. */
struct addresses {
    uint32_t *lengths;
    unsigned char *all;
    size_t longest;
};

static int gather_lengths(struct job *job, uint32_t mine, struct addresses *addresses)
{
    void *all;
    int status = gather(&job->oob, &mine, sizeof(mine), &all);

    if (status != VBN_OK)
        return status;
    addresses->lengths = all;
    for (uint32_t i = 0; i < job->oob.ranks; i++)
        if (addresses->lengths[i] > addresses->longest)
            addresses->longest = addresses->lengths[i];
    return VBN_OK;
}

/* Who has no address says so before the others wait for it. */
static int gather_addresses(struct job *job, struct addresses *addresses, struct vbn_error *err)
{
    const struct vbn_transport *tr = job->shown.tr;
    struct vbn_error why = {0};
    unsigned char *mine;
    void *all;
    size_t len = 0;
    int status;

    tr->address(job->shown.port, NULL, &len); /* too small: says how long */
    status = gather_lengths(job, (uint32_t)len, addresses);
    if (status != VBN_OK) {
        no_answer(err, status);
        return status;
    }
    mine = calloc(1, addresses->longest + 1);
    status = mine ? tr->address(job->shown.port, mine, &len) : VBN_ERR_NO_MEMORY;
    if (status != VBN_OK)
        vbn_fail(&why, status, "the port has no address: %s", vbn_status_str(status));
    status = agree_on(&job->oob, status, &why);
    if (status != VBN_OK) {
        vbn_fail(err, status, "%s", why.text);
        goto free_mine;
    }
    status = gather(&job->oob, mine, addresses->longest, &all);
    if (status == VBN_OK)
        addresses->all = all;
    else
        no_answer(err, status);
free_mine:
    free(mine);
    return status;
}

static int connect_all(struct job *job, const struct addresses *addresses, struct vbn_error *why)
{
    int status = VBN_OK;

    for (uint32_t rank = 0; status == VBN_OK && rank < job->oob.ranks; rank++) {
        if (rank == job->oob.rank)
            continue;
        status = job->shown.tr->connect(
            job->shown.port, addresses->all + (size_t)rank * addresses->longest,
            addresses->lengths[rank], (void *)(uintptr_t)rank, &job->shown.peers[rank], why);
    }
    return status;
}

/* A node's processors are shared by the ranks there. */
struct node_share {
    uint32_t processors, ranks;
};

/* The part of a processor that a rank of such a node has; 0: not known. */
static double part_of(const struct node_share *share)
{
    if (share->ranks <= share->processors)
        return share->ranks ? 1 : 0;
    return (double)share->processors / share->ranks;
}

int agree_processors(struct job *job, struct vbn_error *err)
{
    struct node_share mine = {(uint32_t)sysconf(_SC_NPROCESSORS_ONLN), job->oob.local_ranks};
    bool known = true;
    double sum = 0;
    void *all;
    int status = gather(&job->oob, &mine, sizeof(mine), &all);

    if (status != VBN_OK)
        return no_answer(err, status);
    for (uint32_t i = 0; i < job->oob.ranks; i++) {
        double part = part_of((struct node_share *)all + i);

        sum += part;
        known = known && part > 0;
    }
    job->shown.processors = known ? (uint32_t)(sum + 0.5) : 0;
    free(all);
    return VBN_OK;
}

int agree_peers(struct job *job, struct vbn_error *err)
{
    struct addresses addresses = {0};
    struct vbn_error why = {0};
    int status = gather_addresses(job, &addresses, err);

    if (status != VBN_OK)
        goto free_addresses;
    job->shown.peers = calloc(job->oob.ranks, sizeof(vbn_peer_t *));
    status = job->shown.peers ? connect_all(job, &addresses, &why)
                              : vbn_fail(&why, VBN_ERR_NO_MEMORY, "out of memory for peers");
    status = agree_on(&job->oob, status, &why);
    if (status != VBN_OK)
        vbn_fail(err, status, "%s", why.text);
free_addresses:
    free(addresses.lengths);
    free(addresses.all);
    return status;
}
