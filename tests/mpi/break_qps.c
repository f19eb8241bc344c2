/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into a program, which need not know: at SIGUSR2 every queue pair that is ready to send
 * is moved to the error state, and told by IBV_EVENT_QP_FATAL, as by a device that has met a fault.
 * The event's descriptor does not become readable: it is for programs that look by themselves.
 *
 *     mpirun … -x LD_PRELOAD=build/tests/mpi/.libs/break_qps.so PROGRAM
 *     kill -USR2 PID
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

enum { QPS_MAX = 1024 };

enum state { FREE, READY, BROKEN, TOLD };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct ibv_qp *qp; /* NULL where FREE; none of the others is destroyed under the mutex */
    enum state state;
} known[QPS_MAX];

/* The first place with QP, or NULL for any, in STATE becomes NEW_QP in NEW_STATE. The queue pair
 * that was there; NULL: there is none. */
static struct ibv_qp *change(const struct ibv_qp *qp, enum state state, struct ibv_qp *new_qp,
                             enum state new_state)
{
    for (int i = 0; i < QPS_MAX; i++) {
        struct ibv_qp *old = known[i].qp;

        if (known[i].state != state || (qp && old != qp))
            continue;
        known[i].qp = new_qp ? new_qp : new_state == FREE ? NULL : old;
        known[i].state = new_state;
        return old;
    }
    return NULL;
}

static void forget(const struct ibv_qp *qp)
{
    change(qp, READY, NULL, FREE);
    change(qp, BROKEN, NULL, FREE);
    change(qp, TOLD, NULL, FREE);
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
        if (attr->qp_state == IBV_QPS_RTS)
            change(NULL, FREE, qp, READY);
        pthread_mutex_unlock(&mutex);
    }
    return rc;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    int (*destroy)(struct ibv_qp *);

    *(void **)&destroy = must_find("ibv_destroy_qp");
    pthread_mutex_lock(&mutex);
    forget(qp);
    pthread_mutex_unlock(&mutex);
    return destroy(qp);
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    int (*get)(struct ibv_context *, struct ibv_async_event *);
    struct ibv_qp *qp;

    pthread_mutex_lock(&mutex);
    qp = change(NULL, BROKEN, NULL, TOLD);
    pthread_mutex_unlock(&mutex);
    if (qp) {
        *event = (struct ibv_async_event){.event_type = IBV_EVENT_QP_FATAL, .element.qp = qp};
        return 0;
    }
    *(void **)&get = must_find("ibv_get_async_event");
    return get(context, event);
}

/* The library counts those of its own. */
void ibv_ack_async_event(struct ibv_async_event *event)
{
    void (*ack)(struct ibv_async_event *);
    bool ours;

    pthread_mutex_lock(&mutex);
    ours = event->event_type == IBV_EVENT_QP_FATAL && change(event->element.qp, TOLD, NULL, FREE);
    pthread_mutex_unlock(&mutex);
    if (ours)
        return;
    *(void **)&ack = must_find("ibv_ack_async_event");
    ack(event);
}

static void break_all(void)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct ibv_qp *qp;

    pthread_mutex_lock(&mutex);
    while ((qp = change(NULL, READY, NULL, BROKEN)))
        really_modify(qp, &attr, IBV_QP_STATE);
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
