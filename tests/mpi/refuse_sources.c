/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into a program, whose devices then register no memory that is only read from by its own
 * process, as if the limit on locked memory had been reached: the sources of puts.
 *
 *     mpirun … -x LD_PRELOAD=build/tests/mpi/.libs/refuse_sources.so PROGRAM
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>

typedef struct ibv_mr *reg_fn(struct ibv_pd *, void *, size_t, uint64_t, unsigned);

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                unsigned access)
{
    reg_fn *really = (reg_fn *)dlsym(RTLD_NEXT, "ibv_reg_mr_iova2");

    if (!really)
        abort();
    if (access == 0) {
        errno = ENOMEM;
        return NULL;
    }
    return really(pd, addr, length, iova, access);
}
