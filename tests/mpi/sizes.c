/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every size at which something may change: powers of two and their neighbours up to 4 MiB, by
 * blocking send, synchronous send and nonblocking in both directions at once; and each length just
 * below the limits where the PML switches protocol, where headers decide to the byte.
 *
 * The limits are those that the BTLs of this very job report through MPI_T, so that they are right
 * under any --mca option; VERBENA_TEST_LIMITS (a list of numbers) replaces them.
 */
#include "common.h"
#include "programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_POWER = 22,
    BELOW_LIMIT = 80,
    MAX_LIMITS = 24,
    MAX_SYNC_BYTES = 600000,
    MAX_BYTEWISE = 20000
};
enum { TAG_BLOCKING = 1, TAG_SYNC, TAG_BOTH };

struct limits {
    int count;
    size_t bytes[MAX_LIMITS];
};

static void limits_add(struct limits *limits, size_t bytes)
{
    for (int i = 0; i < limits->count; i++)
        if (limits->bytes[i] == bytes)
            return;
    if (limits->count < MAX_LIMITS && bytes > BELOW_LIMIT && bytes < (size_t)1 << MAX_POWER)
        limits->bytes[limits->count++] = bytes;
}

/* Those of btl/self count only where all messages are one's own. */
static bool is_limit(const struct job *job, const char *name)
{
    static const char *const endings[] = {"_eager_limit", "_max_send_size",
                                          "_rdma_pipeline_send_length", "_rdma_pipeline_frag_size",
                                          "_min_rdma_pipeline_size"};
    if (strncmp(name, "btl_", 4) != 0 || (job->size > 1 && strncmp(name, "btl_self_", 9) == 0))
        return false;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        const char *found = strstr(name, endings[i]);
        if (found != NULL && strcmp(found, endings[i]) == 0)
            return true;
    }
    return false;
}

static size_t cvar_read(int index)
{
    MPI_T_cvar_handle handle;
    int count = 0;
    unsigned long value[16] = {0};
    if (MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS)
        return 0;
    if (count == 1)
        MPI_T_cvar_read(handle, value);
    MPI_T_cvar_handle_free(&handle);
    return value[0];
}

static void limits_ask(const struct job *job, struct limits *limits)
{
    int provided, count = 0;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_cvar_get_num(&count);
    for (int i = 0; i < count; i++) {
        char name[128];
        int name_len = sizeof name, verbosity, bind, scope;
        MPI_Datatype type;
        if (MPI_T_cvar_get_info(i, name, &name_len, &verbosity, &type, NULL, NULL, NULL, &bind,
                                &scope) == MPI_SUCCESS &&
            is_limit(job, name))
            limits_add(limits, cvar_read(i));
    }
    MPI_T_finalize();
}

/* Rank 0 decides, so that all ranks go through the same sizes. */
static void limits_find(const struct job *job, struct limits *limits)
{
    const char *given = getenv("VERBENA_TEST_LIMITS");
    limits->count = 0;
    if (job->rank == 0 && given != NULL) {
        char *end = NULL;
        for (const char *at = given; *at != '\0'; at = *end == '\0' ? end : end + 1) {
            size_t bytes = strtoull(at, &end, 10);
            expect(end != at, "VERBENA_TEST_LIMITS=\"%s\" is not a list of numbers", given);
            limits_add(limits, bytes);
        }
    } else if (job->rank == 0) {
        limits_ask(job, limits);
    }
    MPI_Bcast(limits, sizeof *limits, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void send_one(const struct job *job, int peer, size_t len_bytes, int tag)
{
    struct transfer out;
    transfer_begin_send(&out, &(struct message){job->rank, peer, tag, len_bytes, 0});
    if (tag == TAG_SYNC)
        MPI_Ssend(out.bytes, (int)len_bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD);
    else
        MPI_Send(out.bytes, (int)len_bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD);
    transfer_end(&out);
}

static void receive_one(const struct job *job, int peer, size_t len_bytes, int tag)
{
    struct transfer in;
    MPI_Status status;
    transfer_begin_recv(&in, &(struct message){peer, job->rank, tag, len_bytes, 0});
    MPI_Recv(in.bytes, (int)len_bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &status);
    transfer_check(&in, &status);
    transfer_end(&in);
}

static void there_and_back(const struct job *job, int peer, size_t len_bytes, int tag)
{
    step("%zu bytes by %s with rank %d", len_bytes, tag == TAG_SYNC ? "ssend" : "send", peer);
    if (job->rank < peer)
        send_one(job, peer, len_bytes, tag);
    receive_one(job, peer, len_bytes, tag);
    if (job->rank > peer)
        send_one(job, peer, len_bytes, tag);
}

static void both_at_once(const struct job *job, int peer, size_t len_bytes)
{
    struct transfer in, out;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    step("%zu bytes by isend and irecv with rank %d", len_bytes, peer);
    transfer_begin_recv(&in, &(struct message){peer, job->rank, TAG_BOTH, len_bytes, 0});
    transfer_begin_send(&out, &(struct message){job->rank, peer, TAG_BOTH, len_bytes, 0});
    transfer_irecv(&in, MPI_COMM_WORLD, &requests[0]);
    transfer_isend(&out, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    transfer_check(&in, &statuses[0]);
    transfer_end(&in);
    transfer_end(&out);
}

/* The rounds take turns, so that the sizes are spread over all pairs. */
static int next_peer(const struct job *job)
{
    static int round;
    return job->size == 1 ? job->rank : pair_peer(job->rank, job->size, round++);
}

static void in_all_manners(const struct job *job, size_t len_bytes)
{
    int peer = next_peer(job);
    if (peer == MPI_PROC_NULL)
        return;
    /* Beyond any eager limit a blocking send is synchronous anyway; and with many ranks on two
     * processors the large ones, all pairs together, are left to both_at_once. */
    bool large = len_bytes > MAX_SYNC_BYTES;
    if (peer != job->rank && !(large && job->size > 4))
        there_and_back(job, peer, len_bytes, TAG_BLOCKING);
    if (peer != job->rank && !large)
        there_and_back(job, peer, len_bytes, TAG_SYNC);
    both_at_once(job, peer, len_bytes);
}

/* Byte by byte where that is cheap; large fragments are only cut at whole headers. */
static void around_limit(const struct job *job, size_t limit_bytes)
{
    size_t stride = limit_bytes <= MAX_BYTEWISE ? 1 : 4;
    for (size_t len = limit_bytes - BELOW_LIMIT; len <= limit_bytes + 1; len += stride) {
        int peer = next_peer(job);
        if (peer != MPI_PROC_NULL)
            both_at_once(job, peer, len);
    }
}

void run_sizes(const struct job *job)
{
    struct limits limits;
    in_all_manners(job, 0);
    for (int power = 0; power <= MAX_POWER; power++) {
        size_t bytes = (size_t)1 << power;
        in_all_manners(job, bytes);
        if (bytes > 2)
            in_all_manners(job, bytes - 1);
        if (bytes > 1 && power < MAX_POWER)
            in_all_manners(job, bytes + 1);
    }
    limits_find(job, &limits);
    expect(limits.count > 0, "no BTL of this job reports where it switches protocol");
    for (int i = 0; i < limits.count; i++)
        around_limit(job, limits.bytes[i]);
}
