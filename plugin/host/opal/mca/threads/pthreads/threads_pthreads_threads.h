/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for a header of Open MPI 5.0, as threads_pthreads_mutex.h does. Of what the real one
 * has, only what other headers of Open MPI use. */
#ifndef VERBENA_THREADS_PTHREADS_THREADS_H
#define VERBENA_THREADS_PTHREADS_THREADS_H

#include "opal/mca/threads/threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

static inline void opal_thread_yield(void)
{
    sched_yield();
}

#endif
