/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into a program, whose devices then register no memory for its own puts and gets, as if
 * the limit on locked memory had been reached. On a device whose reads are relied on it is not told
 * from pools' what gets come into, and they are not refused. With REFUSE_TARGETS in the environment
 * nothing is registered either that peers may put to.
 *
 *     mpirun … -x LD_PRELOAD=build/tests/mpi/.libs/refuse_locals.so PROGRAM
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdlib.h>

static bool is_refused(unsigned access)
{
    if (getenv("REFUSE_TARGETS"))
        return access == 0 || (access & IBV_ACCESS_REMOTE_WRITE);
    return access == 0 || access == (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

typedef struct ibv_mr *reg_fn(struct ibv_pd *, void *, size_t, uint64_t, unsigned);

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                unsigned access)
{
    reg_fn *really = (reg_fn *)dlsym(RTLD_NEXT, "ibv_reg_mr_iova2");

    if (!really)
        abort();
    if (is_refused(access)) {
        errno = ENOMEM;
        return NULL;
    }
    return really(pd, addr, length, iova, access);
}
