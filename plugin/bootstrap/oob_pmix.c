/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The out-of-band interface over PMIx. Each allgather puts a value under a name of its own, which a
 * fence brings to all; a barrier is a fence without data.
 */
#include "bootstrap.h"

#include "hash.h"

#include <stdlib.h>
#include <string.h>

#include <pmix.h>

struct pmix_oob {
    pmix_proc_t me;
    uint32_t ranks;
};

/* Of allgather, in all of this process's interfaces: PMIx keeps what it has once got of a name. */
static unsigned rounds;

static int pmix_failure(struct vbn_error *err, const char *what, pmix_status_t status)
{
    return vbn_fail(err, VBN_ERR_UNREACHABLE, "PMIx: %s: %s", what, PMIx_Error_string(status));
}

/*
 * A fence that is under way. The runtime's thread ends it, or learns that nobody waits for it any
 * more: whoever comes second frees it. A few bytes stay if the runtime never ends it.
 */
struct fence {
    int over; /* or left */
    pmix_status_t status;
};

/* Says whether the other one had come before. */
static bool came_second(struct fence *fence)
{
    return __atomic_exchange_n(&fence->over, 1, __ATOMIC_ACQ_REL);
}

static void fence_over(pmix_status_t status, void *arg)
{
    struct fence *fence = arg;

    fence->status = status;
    if (came_second(fence))
        free(fence);
}

/* Until it is over, or IDLE has enough. */
static int wait_for(struct fence *fence, int (*idle)(void *idle_arg), void *idle_arg)
{
    int status = VBN_OK;

    while (status == VBN_OK && !__atomic_load_n(&fence->over, __ATOMIC_ACQUIRE))
        status = idle(idle_arg);
    if (!came_second(fence))
        return status;
    status = fence->status == PMIX_SUCCESS ? VBN_OK : VBN_ERR_UNREACHABLE;
    free(fence);
    return status;
}

static int pmix_barrier(void *arg, int (*idle)(void *idle_arg), void *idle_arg)
{
    struct fence *fence = calloc(1, sizeof(*fence));
    pmix_status_t status;

    (void)arg;
    if (!fence)
        return VBN_ERR_NO_MEMORY;
    status = PMIx_Fence_nb(NULL, 0, NULL, 0, fence_over, fence);
    if (status == PMIX_SUCCESS)
        return wait_for(fence, idle, idle_arg);
    free(fence);
    return status == PMIX_OPERATION_SUCCEEDED ? VBN_OK : VBN_ERR_UNREACHABLE;
}

/* --- allgather -------------------------------------------------------------------------------- */

static pmix_status_t publish(const char *key, const void *mine, size_t len)
{
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
    pmix_status_t status;

    value.data.bo.bytes = (char *)(uintptr_t)mine; /* read only */
    value.data.bo.size = len;
    status = PMIx_Put(PMIX_GLOBAL, key, &value);
    return status == PMIX_SUCCESS ? PMIx_Commit() : status;
}

static pmix_status_t collect(void)
{
    pmix_info_t info;
    bool yes = true;
    pmix_status_t status;

    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    status = PMIx_Fence(NULL, 0, &info, 1);
    PMIX_INFO_DESTRUCT(&info);
    return status;
}

static pmix_status_t fetch(const struct pmix_oob *pmix, uint32_t rank, const char *key, size_t len,
                           void *to)
{
    pmix_proc_t proc = pmix->me;
    pmix_value_t *value = NULL;
    pmix_status_t status;

    proc.rank = rank;
    status = PMIx_Get(&proc, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS)
        return status;
    if (value->type == PMIX_BYTE_OBJECT && value->data.bo.size == len)
        memcpy(to, value->data.bo.bytes, len);
    else
        status = PMIX_ERR_TYPE_MISMATCH;
    PMIX_VALUE_RELEASE(value);
    return status;
}

static int pmix_allgather(void *arg, const void *mine, size_t len, void *all)
{
    struct pmix_oob *pmix = arg;
    char key[32];
    pmix_status_t status;

    snprintf(key, sizeof(key), "vbn.%u", __atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED));
    status = publish(key, mine, len);
    if (status == PMIX_SUCCESS)
        status = collect();
    for (uint32_t rank = 0; status == PMIX_SUCCESS && rank < pmix->ranks; rank++) {
        char *to = (char *)all + (size_t)rank * len;

        if (rank == pmix->me.rank)
            memcpy(to, mine, len);
        else
            status = fetch(pmix, rank, key, len, to);
    }
    return status == PMIX_SUCCESS ? VBN_OK : VBN_ERR_UNREACHABLE;
}

/* --- life ------------------------------------------------------------------------------------- */

static void pmix_destroy(void *arg)
{
    PMIx_Finalize(NULL, 0);
    free(arg);
}

/* A number that the runtime knows; FALLBACK where it does not. PROC's rank may be the wildcard. */
static uint32_t ask(const pmix_proc_t *proc, const char *key, uint32_t fallback)
{
    pmix_value_t *value = NULL;
    uint32_t number = fallback;

    if (PMIx_Get(proc, key, NULL, 0, &value) != PMIX_SUCCESS)
        return fallback;
    if (value->type == PMIX_UINT32)
        number = value->data.uint32;
    else if (value->type == PMIX_UINT16)
        number = value->data.uint16;
    PMIX_VALUE_RELEASE(value);
    return number;
}

static void fill(struct vbn_oob *oob, struct pmix_oob *pmix)
{
    pmix_proc_t everybody = pmix->me;

    everybody.rank = PMIX_RANK_WILDCARD;
    pmix->ranks = ask(&everybody, PMIX_JOB_SIZE, 0);
    *oob = (struct vbn_oob){
        .size = sizeof(*oob),
        .rank = pmix->me.rank,
        .ranks = pmix->ranks,
        .local_rank = ask(&pmix->me, PMIX_LOCAL_RANK, 0),
        .local_ranks = ask(&everybody, PMIX_LOCAL_SIZE, 0),
        /* no other job of the runtime has this name space */
        .job_key = vbn_hash(pmix->me.nspace, strlen(pmix->me.nspace)),
        .arg = pmix,
        .allgather = pmix_allgather,
        .barrier = pmix_barrier,
        .destroy = pmix_destroy,
    };
}

int vbn_oob_pmix(struct vbn_oob *oob, struct vbn_error *err)
{
    struct pmix_oob *pmix = calloc(1, sizeof(*pmix));
    pmix_status_t status;

    memset(oob, 0, sizeof(*oob));
    if (!pmix)
        return vbn_fail(err, VBN_ERR_NO_MEMORY, "out of memory for PMIx");
    status = PMIx_Init(&pmix->me, NULL, 0);
    if (status != PMIX_SUCCESS) {
        free(pmix);
        return pmix_failure(err, "no runtime answers; launch by mpirun, prterun or srun --mpi=pmix",
                            status);
    }
    fill(oob, pmix);
    if (!oob->ranks || oob->rank >= oob->ranks) {
        vbn_oob_destroy(oob);
        return vbn_fail(err, VBN_ERR_UNREACHABLE, "PMIx: the runtime does not tell the job's size");
    }
    return VBN_OK;
}
