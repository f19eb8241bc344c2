/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into a program, which need not know: at SIGUSR2 every queue pair that is ready to send
 * is moved to the error state, as a device does that has met a fault.
 *
 *     mpirun … -x LD_PRELOAD=build/tests/mpi/.libs/break_qps.so PROGRAM
 *     kill -USR2 PID
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

enum { QPS_MAX = 1024 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct ibv_qp *ready[QPS_MAX]; /* or NULL; none of them is destroyed under the mutex */

/* Puts NEW in the place of OLD; no harm where OLD is not there. */
static void replace(const struct ibv_qp *old, struct ibv_qp *new)
{
    for (int i = 0; i < QPS_MAX; i++) {
        if (ready[i] == old) {
            ready[i] = new;
            return;
        }
    }
}

static void *must_find(const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);

    if (!symbol)
        abort();
    return symbol;
}

static int really_modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    int (*modify)(struct ibv_qp *, struct ibv_qp_attr *, int);

    *(void **)&modify = must_find("ibv_modify_qp");
    return modify(qp, attr, mask);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    int rc = really_modify(qp, attr, mask);

    if (!rc && (mask & IBV_QP_STATE)) {
        pthread_mutex_lock(&mutex);
        replace(qp, NULL);
        if (attr->qp_state == IBV_QPS_RTS)
            replace(NULL, qp);
        pthread_mutex_unlock(&mutex);
    }
    return rc;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    int (*destroy)(struct ibv_qp *);

    *(void **)&destroy = must_find("ibv_destroy_qp");
    pthread_mutex_lock(&mutex);
    replace(qp, NULL);
    pthread_mutex_unlock(&mutex);
    return destroy(qp);
}

static void break_all(void)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    pthread_mutex_lock(&mutex);
    for (int i = 0; i < QPS_MAX; i++)
        if (ready[i])
            really_modify(ready[i], &attr, IBV_QP_STATE);
    pthread_mutex_unlock(&mutex);
}

static void *break_when_told(void *arg)
{
    sigset_t signals;
    int signal;

    (void)arg;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR2);
    while (sigwait(&signals, &signal) == 0)
        break_all();
    return NULL;
}

/* Before the program has other threads, so that none of them takes the signal. */
__attribute__((constructor)) static void begin(void)
{
    sigset_t signals;
    pthread_t thread;

    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (pthread_create(&thread, NULL, break_when_told, NULL))
        abort();
}
