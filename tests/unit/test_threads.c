/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts opened `multithreaded`, each used by several threads at once, over the simulated fabric
 * under a lock that ThreadSanitizer does not see (tests/sim/guard.h). What is asserted here holds
 * in any build; in that of `make check-tsan` the transport's own locking is looked at, too.
 *
 * Threads must not call cmocka: they note what is wrong (fault) and go on.
 */
#include "unit.h"

#include "context.h"
#include "../sim/fabric.h"
#include "../sim/guard.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

enum {
    PROCESSES_MAX = 4,
    LANES = 2, /* threads of a process that send */
    THREADS_MAX = 40,
    MSGS = 1000, /* of a lane to each process */
    RMAS = 300,
    ROUNDS = 50, /* lives of an endpoint */
    REGION = 512,
    PATIENCE_S = 200,
    QUANTUM_NS = 2000,
    QUANTUM_MAX_NS = 100000,
    ID_LANE = 1,
    ID_ECHO = 2,
    ID_LIFE = 3,
    ID_OTHER = 4
};

struct process {
    int number, rank;
    vbn_context_t *ctx;
    unsigned char addr[VBN_ADDRESS_MAX];
    size_t addr_len;
    vbn_endpoint_t *to[PROCESSES_MAX];
    unsigned char target[REGION]; /* of the others' puts and gets */
    vbn_mem_t *target_mem;
    /* Only the handler's, one thread at a time: a race here is one of the transport's. */
    uint64_t next[PROCESSES_MAX][LANES];
    uint64_t echoes, failures;
};

static struct process process[PROCESSES_MAX];
static int count;
static atomic_ulong received, lives;
static atomic_bool stop;
static atomic_flag faulty;
static char first_fault[200];

struct lane_msg {
    uint64_t from, lane, number;
};

static void fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void fault(const char *format, ...)
{
    va_list args;

    if (atomic_flag_test_and_set(&faulty))
        return;
    va_start(args, format);
    vsnprintf(first_fault, sizeof(first_fault), format, args);
    va_end(args);
}

/* --- callbacks -------------------------------------------------------------------------------- */

static uint64_t clock_ns(void *arg)
{
    (void)arg;
    return guard_now_ns() + 1;
}

static uint64_t random_bits(void *arg)
{
    (void)arg;
    return guard_random(UINT64_MAX);
}

static void no_log(void *arg, enum vbn_log_level level, const char *text)
{
    (void)arg, (void)level, (void)text;
}

static void endpoint_error(void *arg, vbn_endpoint_t *ep, int status, const char *reason)
{
    struct process *p = arg;

    p->failures++;
    if (status >= 0 || !reason[0])
        fault("an endpoint of process %d failed without a reason", p->number);
    if (vbn_endpoint_connected(ep))
        fault("a failed endpoint is connected");
}

static void take_lane(void *arg, vbn_endpoint_t *ep, uint8_t id, void *data, size_t len)
{
    struct iovec echo = {data, len};
    struct process *p = arg;
    struct lane_msg m;
    uint64_t *next;

    (void)id;
    memcpy(&m, data, sizeof(m));
    next = &p->next[m.from][m.lane];
    if (m.number != (*next)++)
        fault("process %d has %llu of lane %llu", p->number, (unsigned long long)m.number,
              (unsigned long long)m.lane);
    if (vbn_endpoint_user(ep) && vbn_endpoint_user(ep) != &process[m.from])
        fault("the endpoint's user is somebody else");
    if (m.number % 4 == 0) /* or not, where there is no buffer now */
        vbn_am_send(ep, m.number % 8 ? ID_OTHER : ID_ECHO, &echo, 1);
    atomic_fetch_add_explicit(&received, 1, memory_order_relaxed);
}

static void take_echo(void *arg, vbn_endpoint_t *ep, uint8_t id, void *data, size_t len)
{
    struct process *p = arg;
    struct lane_msg m;

    (void)ep, (void)id, (void)len;
    memcpy(&m, data, sizeof(m));
    p->echoes++;
    if (m.from != (uint64_t)p->number)
        fault("an echo of process %llu came to %d", (unsigned long long)m.from, p->number);
}

static void take_life(void *arg, vbn_endpoint_t *ep, uint8_t id, void *data, size_t len)
{
    (void)arg, (void)ep, (void)id, (void)data;
    if (len != sizeof(struct lane_msg))
        fault("a message of %zu bytes", len);
    atomic_fetch_add_explicit(&lives, 1, memory_order_relaxed);
}

/* --- threads ---------------------------------------------------------------------------------- */

struct worker {
    pthread_t thread;
    struct process *p;
    int number; /* of the lane, or of the peer */
    void (*work)(struct worker *w);
};

static struct worker worker[THREADS_MAX];
static int helpers, workers; /* threads that run until `stop`, at the front; all */

static void *run(void *arg)
{
    struct worker *w = arg;

    guard_enter_rank(w->p ? w->p->rank : -1);
    w->work(w);
    return NULL;
}

static void start(struct process *p, int number, void (*work)(struct worker *))
{
    struct worker *w = &worker[workers++];

    assert_true(workers <= THREADS_MAX);
    *w = (struct worker){.p = p, .number = number, .work = work};
    assert_int_equal(pthread_create(&w->thread, NULL, run, w), 0);
}

static void join(int from, int to)
{
    for (int i = from; i < to; i++)
        assert_int_equal(pthread_join(worker[i].thread, NULL), 0);
}

static bool stopped(void)
{
    return atomic_load_explicit(&stop, memory_order_relaxed);
}

/* True until the thread has waited for longer than can be right. */
static bool patient(time_t since)
{
    if (time(NULL) - since < PATIENCE_S)
        return true;
    fault("a thread waited for more than %d s", PATIENCE_S);
    return false;
}

static void pump(struct worker *w)
{
    uint64_t quantum_ns = QUANTUM_NS;

    (void)w;
    while (!stopped()) {
        quantum_ns =
            guard_advance(quantum_ns) ? QUANTUM_NS : vbn_min(2 * quantum_ns, QUANTUM_MAX_NS);
        sched_yield();
    }
}

static void progress(struct worker *w)
{
    while (!stopped())
        if (vbn_progress(w->p->ctx) == 0)
            sched_yield();
}

/* The message in three steps; now and then one is given back unsent before. */
static int send_in_steps(vbn_endpoint_t *ep, const struct lane_msg *m)
{
    vbn_msg_t *msg;
    int rc;

    if (m->number % 5 == 0 && vbn_msg_get(ep, sizeof(*m), &msg) == VBN_OK)
        vbn_msg_put(msg);
    rc = vbn_msg_get(ep, sizeof(*m), &msg);
    if (rc)
        return rc;
    memcpy(vbn_msg_data(msg), m, sizeof(*m));
    rc = vbn_msg_send(msg, ID_LANE, sizeof(*m));
    if (m->number % 3 == 0)
        for (time_t since = time(NULL); vbn_msg_waiting(msg) && patient(since);)
            sched_yield();
    vbn_msg_put(msg);
    return rc;
}

static int send_one(vbn_endpoint_t *ep, const struct lane_msg *m)
{
    struct iovec iov[2] = {{(void *)m, 8}, {(char *)m + 8, sizeof(*m) - 8}};

    return m->number % 2 ? send_in_steps(ep, m) : vbn_am_send(ep, ID_LANE, iov, 2);
}

static void send_lane(struct worker *w)
{
    struct process *p = w->p;
    time_t since = time(NULL);

    for (uint64_t n = 0; n < MSGS; n++) {
        for (int i = 0; i < count; i++) {
            struct lane_msg m = {(uint64_t)p->number, (uint64_t)w->number, n};
            int rc = VBN_OK;

            while (i != p->number && (rc = send_one(p->to[i], &m)) == VBN_ERR_AGAIN &&
                   patient(since))
                sched_yield();
            if (rc)
                fault("sending: %s", vbn_status_str(rc));
        }
    }
}

struct wait {
    atomic_int calls, status;
};

static void rma_done(void *arg, vbn_endpoint_t *ep, int status)
{
    struct wait *wait = arg;

    (void)ep;
    atomic_store_explicit(&wait->status, status, memory_order_relaxed);
    atomic_fetch_add_explicit(&wait->calls, 1, memory_order_release);
}

/* A put or get from its call to its end. */
static int transfer(struct process *p, int to, bool put, unsigned char *local, vbn_mem_t *mem)
{
    const struct process *peer = &process[to];
    uint64_t remote = (uintptr_t)peer->target;
    uint32_t key = vbn_mem_rkey(peer->target_mem);
    struct wait wait = {0};
    time_t since = time(NULL);
    int rc;

    do {
        rc = put ? vbn_put(p->to[to], local, mem, remote, key, REGION, rma_done, &wait)
                 : vbn_get(p->to[to], local, mem, remote, key, REGION, rma_done, &wait);
    } while (rc == VBN_ERR_AGAIN && patient(since));
    if (rc)
        return rc;
    while (!atomic_load_explicit(&wait.calls, memory_order_acquire) && patient(since))
        sched_yield();
    return atomic_load_explicit(&wait.status, memory_order_relaxed);
}

/* Only process 0 has such a thread, so that nobody else writes to the targets. */
static void put_and_get(struct worker *w)
{
    static unsigned char out[REGION], in[REGION];
    vbn_mem_t *out_mem, *in_mem;

    for (int n = 0; n < RMAS; n++) {
        int to = 1 + n % (count - 1);
        int rc = vbn_mem_register(w->p->ctx, out, REGION, VBN_ACCESS_LOCAL, &out_mem);

        if (rc || vbn_mem_register(w->p->ctx, in, REGION, VBN_ACCESS_LOCAL_WRITE, &in_mem))
            fault("registering: %s", vbn_status_str(rc));
        memset(out, n, REGION);
        rc = transfer(w->p, to, true, out, out_mem);
        if (!rc)
            rc = transfer(w->p, to, false, in, in_mem);
        if (rc || memcmp(in, out, REGION) != 0)
            fault("put or get %d: %s", n, vbn_status_str(rc));
        vbn_mem_deregister(out_mem);
        vbn_mem_deregister(in_mem);
    }
}

/* Every call that only asks or sets, again and again. */
static void observe(struct worker *w)
{
    struct process *p = w->p;
    struct vbn_counters c = {.size = sizeof(c)};
    struct vbn_attr attr = {.size = sizeof(attr)};
    unsigned char addr[VBN_ADDRESS_MAX];
    uint64_t before = 0;
    vbn_mem_t *mem;

    for (unsigned n = 0; !stopped(); n++) {
        struct process *peer = &process[(p->number + 1 + (int)n % (count - 1)) % count];
        size_t len = sizeof(addr);
        vbn_endpoint_t *ep;

        vbn_query(p->ctx, &attr);
        vbn_counters(p->ctx, &c);
        if (c.rx_msgs < before || vbn_address(p->ctx, addr, &len) || !attr.max_am_len)
            fault("what a context tells is wrong");
        before = c.rx_msgs;
        if (vbn_endpoint_create(p->ctx, peer->addr, peer->addr_len, peer, &ep, NULL) ||
            ep != p->to[peer->number] || vbn_endpoint_user(ep) != peer || vbn_endpoint_connect(ep))
            fault("the endpoint of a peer is not the one it was");
        vbn_am_handler(p->ctx, ID_OTHER, n % 2 ? take_echo : NULL, p);
        if (vbn_mem_register(p->ctx, addr, sizeof(addr), VBN_ACCESS_LOCAL, &mem))
            fault("registering failed");
        else
            vbn_mem_deregister(mem);
        if (vbn_endpoint_ready(ep) && !vbn_endpoint_connected(ep))
            fault("ready without a connection");
        sched_yield();
    }
}

/* --- processes -------------------------------------------------------------------------------- */

static void options(struct vbn_options *opts, struct process *p)
{
    vbn_options_init(opts, sizeof(*opts));
    opts->multithreaded = true;
    opts->eager_limit = 1024;
    opts->window = 16;
    opts->srq_depth = 256;
    opts->sq_depth = 16;
    opts->tx_buffers = 64;
    opts->cq_size = 256;
    opts->ack_delay_us = 1000;
    opts->callback_arg = p;
    opts->clock_ns = clock_ns;
    opts->random = random_bits;
    opts->log = no_log;
    opts->endpoint_error = endpoint_error;
}

static void open_process(struct process *p)
{
    struct vbn_options opts;
    struct vbn_error err;

    p->rank = fabric_rank_add(fabric_node_add(NULL));
    guard_enter_rank(p->rank);
    options(&opts, p);
    if (vbn_open(&opts, &p->ctx, &err))
        fail_msg("vbn_open: %s", err.text);
    guard_verbs(p->ctx->device.verbs);
    vbn_am_handler(p->ctx, ID_LANE, take_lane, p);
    vbn_am_handler(p->ctx, ID_ECHO, take_echo, p);
    vbn_am_handler(p->ctx, ID_LIFE, take_life, p);
    p->addr_len = sizeof(p->addr);
    assert_int_equal(vbn_address(p->ctx, p->addr, &p->addr_len), VBN_OK);
    assert_int_equal(vbn_mem_register(p->ctx, p->target, REGION,
                                      VBN_ACCESS_REMOTE_READ | VBN_ACCESS_REMOTE_WRITE,
                                      &p->target_mem),
                     VBN_OK);
}

static void open_processes(int n, const struct fabric_config *config)
{
    memset(process, 0, sizeof(process));
    fabric_create(1, config);
    count = n;
    helpers = workers = 0;
    received = lives = 0;
    stop = false;
    atomic_flag_clear(&faulty);
    first_fault[0] = '\0';
    for (int i = 0; i < n; i++) {
        process[i].number = i;
        open_process(&process[i]);
    }
    start(NULL, 0, pump);
    for (int i = 0; i < n; i++) {
        start(&process[i], 0, progress);
        start(&process[i], 1, progress);
    }
}

static void wait_for(atomic_ulong *counter, unsigned long value)
{
    time_t since = time(NULL);

    while (atomic_load(counter) < value && patient(since))
        sched_yield();
}

static void stop_threads(void)
{
    stop = true;
    join(0, helpers);
}

/* The first half of closing, while others make progress. */
static void shut_all(void)
{
    time_t since = time(NULL);

    for (int i = 0; i < count; i++) {
        guard_enter_rank(process[i].rank);
        while (vbn_shutdown(process[i].ctx) && patient(since))
            sched_yield();
    }
}

/* One thread again: the contexts end as they always do. */
static void close_processes(void)
{
    size_t left;

    do {
        left = 0;
        for (int i = 0; i < count; i++) {
            guard_enter_rank(process[i].rank);
            left += vbn_shutdown(process[i].ctx);
            for (int k = 0; k < 70; k++)
                vbn_progress(process[i].ctx);
        }
        guard_advance(QUANTUM_NS);
    } while (left);
    for (int i = 0; i < count; i++) {
        guard_enter_rank(process[i].rank);
        assert_int_equal(vbn_close(process[i].ctx), VBN_OK);
    }
    assert_int_equal(fabric_destroy(), 0);
    assert_string_equal(first_fault, "");
}

/* --- tests ------------------------------------------------------------------------------------ */

static void make_endpoints(void)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++)
            if (i != k)
                assert_int_equal(vbn_endpoint_create(process[i].ctx, process[k].addr,
                                                     process[k].addr_len, &process[k],
                                                     &process[i].to[k], NULL),
                                 VBN_OK);
}

static void all_calls_at_once(void **state)
{
    uint64_t echoes = 0;

    (void)state;
    open_processes(3, NULL);
    make_endpoints();
    start(&process[0], 0, observe);
    start(&process[1], 0, observe);
    helpers = workers;
    start(&process[0], 0, put_and_get);
    for (int i = 0; i < count; i++)
        for (int lane = 0; lane < LANES; lane++)
            start(&process[i], lane, send_lane);
    join(helpers, workers);
    wait_for(&received, (unsigned long)(count * (count - 1)) * LANES * MSGS);
    stop_threads();
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < count; k++)
            for (int lane = 0; lane < LANES; lane++)
                assert_int_equal(process[i].next[k][lane], i == k ? 0 : MSGS);
        assert_int_equal(process[i].failures, 0);
        echoes += process[i].echoes;
    }
    assert_true(echoes > 0);
    close_processes();
}

/* What an endpoint may say in the middle of its peer's, or of the fabric's, doing. Refused it is
 * where the peer's own has failed and is not closed yet. */
static bool is_ending(int rc)
{
    return rc == VBN_ERR_CLOSED || rc == VBN_ERR_REFUSED || rc == VBN_ERR_PEER_LOST;
}

static void live_once(struct worker *w, uint64_t round)
{
    struct process *p = w->p, *peer = &process[w->number];
    struct lane_msg m = {(uint64_t)p->number, 0, round};
    struct iovec iov = {&m, sizeof(m)};
    time_t since = time(NULL);
    vbn_endpoint_t *ep;
    struct vbn_error err;
    int rc;

    while ((rc = vbn_endpoint_create(p->ctx, peer->addr, peer->addr_len, peer, &ep, &err)) ==
               VBN_ERR_AGAIN &&
           patient(since))
        sched_yield();
    if (rc) {
        fault("creating: %s", err.text);
        return;
    }
    rc = vbn_endpoint_connect(ep);
    if (rc && !is_ending(rc))
        fault("connecting: %s", vbn_status_str(rc));
    for (int n = 0; n < 8; n++) {
        for (int k = 0; k < 50 && !vbn_endpoint_connected(ep); k++)
            sched_yield();
        while ((rc = vbn_am_send(ep, ID_LIFE, &iov, 1)) == VBN_ERR_AGAIN && patient(since))
            sched_yield();
        if (rc && !is_ending(rc))
            fault("sending: %s", vbn_status_str(rc));
    }
    vbn_endpoint_close(ep);
}

static void live(struct worker *w)
{
    for (uint64_t round = 0; round < ROUNDS; round++)
        live_once(w, round);
}

/* Each pair of processes closes and makes its endpoints anew, from both sides and in any order. */
static void come_and_go(const struct fabric_config *config)
{
    open_processes(PROCESSES_MAX, config);
    helpers = workers;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++)
            if (i != k)
                start(&process[i], k, live);
    join(helpers, workers);
    shut_all();
    stop_threads();
    assert_true(lives > 0);
    close_processes();
}

static void endpoints_come_and_go(void **state)
{
    (void)state;
    come_and_go(NULL);
}

static void while_queue_pairs_fail(void **state)
{
    const struct fabric_config config = {.qp_fatal_ppm = 20000, .jitter_ns = 3000};

    (void)state;
    come_and_go(&config);
}

/* --- halves ----------------------------------------------------------------------------------- */

/* One of each is made for nobody, one to be joined. */
static vbn_half_t *make_half(struct process *p, void *blob, size_t *len)
{
    vbn_half_t *half = NULL, *vain;
    struct vbn_error err;

    guard_enter_rank(p->rank);
    *len = VBN_HALF_MAX;
    if (vbn_half_create(p->ctx, blob, len, &vain, &err))
        fault("a half: %s", err.text);
    else
        vbn_half_destroy(vain);
    if (vbn_half_create(p->ctx, blob, len, &half, &err))
        fault("a half: %s", err.text);
    return half;
}

static vbn_endpoint_t *join_half(struct process *p, struct process *peer, vbn_half_t *half,
                                 const void *blob, size_t len)
{
    time_t since = time(NULL);
    vbn_endpoint_t *ep = NULL;
    struct vbn_error err;
    int rc;

    guard_enter_rank(p->rank);
    while ((rc = vbn_half_join(half, blob, len, peer, &ep, &err)) == VBN_ERR_AGAIN &&
           patient(since))
        sched_yield();
    if (rc)
        fault("joining: %s", err.text);
    return ep;
}

static void say(struct process *p, vbn_endpoint_t *ep, uint64_t round)
{
    struct lane_msg m = {(uint64_t)p->number, 0, round};
    struct iovec iov = {&m, sizeof(m)};
    int rc;

    guard_enter_rank(p->rank);
    rc = vbn_am_send(ep, ID_LIFE, &iov, 1);
    if (rc && !is_ending(rc) && rc != VBN_ERR_AGAIN)
        fault("sending: %s", vbn_status_str(rc));
}

static void part(struct process *p, vbn_endpoint_t *ep)
{
    guard_enter_rank(p->rank);
    vbn_endpoint_close(ep);
}

/* Of both processes of a pair, which a thread of each could do as well. */
static void join_and_part(struct worker *w)
{
    struct process *p[2] = {w->p, &process[w->number]};

    for (uint64_t round = 0; round < ROUNDS; round++) {
        unsigned char blob[2][VBN_HALF_MAX];
        vbn_endpoint_t *ep[2] = {NULL, NULL};
        vbn_half_t *half[2];
        size_t len[2];

        for (int i = 0; i < 2; i++)
            half[i] = make_half(p[i], blob[i], &len[i]);
        for (int i = 0; i < 2 && half[0] && half[1]; i++)
            ep[i] = join_half(p[i], p[1 - i], half[i], blob[1 - i], len[1 - i]);
        for (int i = 0; i < 2 && ep[0] && ep[1]; i++)
            say(p[i], ep[i], round);
        for (int i = 0; i < 100 && round % 2; i++)
            sched_yield(); /* else it comes to who has closed */
        for (int i = 0; i < 2 && ep[0] && ep[1]; i++)
            part(p[i], ep[i]);
    }
}

static void halves_come_and_go(void **state)
{
    (void)state;
    open_processes(PROCESSES_MAX, NULL);
    helpers = workers;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            start(&process[i], k, join_and_part);
    join(helpers, workers);
    shut_all();
    stop_threads();
    assert_true(lives > 0);
    for (int i = 0; i < count; i++)
        assert_int_equal(process[i].failures, 0);
    close_processes();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_calls_at_once),
        cmocka_unit_test(endpoints_come_and_go),
        cmocka_unit_test(while_queue_pairs_fail),
        cmocka_unit_test(halves_come_and_go),
    };

    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
