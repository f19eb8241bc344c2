/* SPDX-License-Identifier: BSD-3-Clause */
/* The out-of-band interface of a process alone, and the choice of an interface. */
#include "bootstrap.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int single_allgather(void *arg, const void *mine, size_t len, void *all)
{
    (void)arg;
    memcpy(all, mine, len);
    return VBN_OK;
}

static int single_barrier(void *arg, int (*idle)(void *idle_arg), void *idle_arg)
{
    (void)arg;
    return idle(idle_arg);
}

int vbn_oob_single(struct vbn_oob *oob, struct vbn_error *err)
{
    struct timespec ts;

    (void)err;
    clock_gettime(CLOCK_REALTIME, &ts);
    *oob = (struct vbn_oob){
        .size = sizeof(*oob),
        .ranks = 1,
        .local_ranks = 1,
        .job_key = (uint64_t)ts.tv_sec << 30 ^ (uint64_t)ts.tv_nsec ^ (uint64_t)getpid() << 40,
        .allgather = single_allgather,
        .barrier = single_barrier,
    };
    return VBN_OK;
}

/* A PMIx runtime tells each process its name space. */
int vbn_oob_auto(struct vbn_oob *oob, struct vbn_error *err)
{
    return getenv("PMIX_NAMESPACE") ? vbn_oob_pmix(oob, err) : vbn_oob_single(oob, err);
}

void vbn_oob_destroy(struct vbn_oob *oob)
{
    if (oob && oob->destroy)
        oob->destroy(oob->arg);
    if (oob)
        memset(oob, 0, sizeof(*oob));
}
