/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Does a device complete an RDMA read with success although its data are not there? A program of
 * plain verbs which contains nothing of Verbena, for a device that repeats requests: because the
 * acknowledgement timeout is short (-t), because packets are late, lost or refused (tc-netem), or
 * because the link goes down. doc/behaviours.md (k) tells what came of it. On one device:
 *
 *     tests/rxe/run -- build/tests/device/reads_under_repeats -t 8 -b
 *
 * and with `--nodes 2`, one side on each, with the same options but -r (tests/rxe/on-node):
 *
 *     reads_under_repeats -l -r -t 18 -z 1,131072                      on verbena-vm2
 *     reads_under_repeats -p verbena-vm2-control -t 18 -z 1,131072     on verbena-vm
 *
 * Without -l or -p there are two queue pairs of one device, connected to each other; else one here
 * and one there, and what is told to the peer goes over TCP. The run is cut into rounds, each with
 * queue pairs of its own. In a round both sides read, in random places and sizes, and send; a
 * word of the memory that is read tells its place and the round. A destination is poisoned before
 * its read is posted, and looked at when the read completes with success. A wrong read is also
 * followed: the queue pair may fail right behind it, or complete later requests.
 *
 * Errors: what cannot be set up ends the program, with 2. A wrong read is reported and counted, and
 * the exit status is 1 in the end; a failed or silent queue pair ends its round and is counted.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    SLOTS = 16, /* requests at a time, all of which may be reads */
    MTU = 4096,
    RECVS = 256,        /* receive buffers */
    SEND_MAX = 2048,    /* bytes of the longest message */
    READ_MAX = 1 << 20, /* bytes of the longest read */
    SOURCE = 2 << 20,   /* bytes that may be read */
    GUARD = 64,         /* bytes behind a destination that nobody may write */
    POISON = 0xEE,
    FOLLOWED = 1 << 16, /* wr_id of a read whose follower counts */
    SILENCE_S = 6,      /* without a completion: the queue pair is given up */
    COUNTERS = 8
};

static struct options {
    const char *device, *peer;
    bool listen, answer, sends, only_sends, follow, fence;
    unsigned port, timeout, seconds, round, outstanding, least, most;
} opt = {.port = 7801,
         .timeout = 14,
         .seconds = 30,
         .round = 2000,
         .outstanding = SLOTS,
         .least = 1,
         .most = READ_MAX};

static struct figures {
    unsigned long reads, wrong, none, before_error, before_success;
    unsigned long messages, wrong_messages, rounds, errors, silences;
} sum;

/* What an end tells the other before each round. */
struct hello {
    union ibv_gid gid;
    uint64_t addr;
    uint32_t rkey, qpn, psn, round;
};

struct request {
    bool busy, read;
    uint32_t size, offset;
    unsigned char *to;
};

struct end {
    struct ibv_qp *qp;
    struct ibv_cq *cq;
    struct ibv_mr *source_mr, *target_mr, *send_mr, *recv_mr;
    unsigned char *source, *target, *sent, *received;
    struct hello mine, peer;
    struct request request[SLOTS];
    unsigned posted, done, in_flight;
    unsigned unseen;                   /* wrong reads behind which nothing has completed yet */
    uint32_t send_seq, recv_seq, told; /* messages sent, received, completed with success */
    bool failed;
    double last;
};

static struct ibv_context *verbs;
static struct ibv_pd *pd;
static struct end ends[2];
static unsigned end_count;
static int gid_index, peer_fd = -1;
static double stop_at; /* by now() */

/* --- small things ----------------------------------------------------------------------------- */

static void need(bool well, const char *what)
{
    if (well)
        return;
    fprintf(stderr, "reads_under_repeats: %s: %s\n", what, strerror(errno));
    exit(2);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint32_t draw(uint32_t below)
{
    static uint64_t state = 1;

    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(((state >> 32) * below) >> 32);
}

/* The eight bytes at offset 8 * index of the memory that is read in a round. */
static uint64_t word(uint32_t round, uint32_t index)
{
    return (uint64_t)round << 32 | index;
}

static void *memory(size_t size, int access, struct ibv_mr **mr)
{
    void *p = NULL;

    need(posix_memalign(&p, 4096, size) == 0, "memory");
    memset(p, 0, size);
    *mr = ibv_reg_mr(pd, p, size, access);
    need(*mr != NULL, "ibv_reg_mr");
    return p;
}

/* --- the device's counters -------------------------------------------------------------------- */

static const char *const counter_names[COUNTERS] = {
    "completer_retry_err", "duplicate_request", "out_of_seq_request", "rcvd_seq_err",
    "rcvd_rnr_err",        "send_rnr_err",      "send_err",           "sent_pkts"};

static void read_counters(unsigned long value[COUNTERS])
{
    char path[256];

    for (int i = 0; i < COUNTERS; i++) {
        FILE *f;

        snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/%s", opt.device,
                 counter_names[i]);
        value[i] = 0;
        f = fopen(path, "r");
        if (!f)
            continue;
        if (fscanf(f, "%lu", &value[i]) != 1)
            value[i] = 0;
        fclose(f);
    }
}

/* --- set-up ----------------------------------------------------------------------------------- */

/* The GID that an IPv4 address gives for RoCE v2: of two such entries, the second. */
static void choose_gid(void)
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    union ibv_gid gid;

    for (int i = 0; i < 16; i++)
        if (ibv_query_gid(verbs, 1, i, &gid) == 0 && !memcmp(gid.raw, mapped, sizeof(mapped)))
            gid_index = i;
}

static void open_device(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    need(list != NULL, "ibv_get_device_list");
    for (int i = 0; list[i] && !verbs; i++)
        if (!opt.device || !strcmp(opt.device, ibv_get_device_name(list[i])))
            verbs = ibv_open_device(list[i]);
    need(verbs != NULL, "no device");
    opt.device = ibv_get_device_name(verbs->device);
    pd = ibv_alloc_pd(verbs);
    need(pd != NULL, "ibv_alloc_pd");
    choose_gid();
}

static void end_open(struct end *end)
{
    end->source = memory(SOURCE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, &end->source_mr);
    end->target =
        memory((size_t)SLOTS * (READ_MAX + GUARD), IBV_ACCESS_LOCAL_WRITE, &end->target_mr);
    end->sent = memory((size_t)SLOTS * SEND_MAX, IBV_ACCESS_LOCAL_WRITE, &end->send_mr);
    end->received = memory((size_t)RECVS * SEND_MAX, IBV_ACCESS_LOCAL_WRITE, &end->recv_mr);
    for (int i = 0; i < SLOTS; i++)
        end->request[i].to = end->target + (size_t)i * (READ_MAX + GUARD);
    end->cq = ibv_create_cq(verbs, 2 * (2 * SLOTS + RECVS), NULL, NULL, 0);
    need(end->cq != NULL, "ibv_create_cq");
}

static void post_recv(struct end *end, uint64_t i)
{
    struct ibv_sge sge = {.addr = (uintptr_t)(end->received + i * SEND_MAX),
                          .length = SEND_MAX,
                          .lkey = end->recv_mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = SLOTS + i, .sg_list = &sge, .num_sge = 1}, *bad;

    if (!end->failed)
        need(ibv_post_recv(end->qp, &wr, &bad) == 0, "ibv_post_recv");
}

/* A new queue pair in INIT, and what the peer must know of it. */
static void make_qp(struct end *end, uint32_t round)
{
    struct ibv_qp_init_attr init = {
        .send_cq = end->cq,
        .recv_cq = end->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {
            .max_send_wr = 2 * SLOTS, .max_recv_wr = RECVS, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};

    end->qp = ibv_create_qp(pd, &init);
    need(end->qp != NULL, "ibv_create_qp");
    need(ibv_modify_qp(end->qp, &attr,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
         "INIT");
    for (uint32_t i = 0; i < SOURCE / 8; i++)
        ((uint64_t *)(void *)end->source)[i] = word(round, i);
    end->mine = (struct hello){.addr = (uintptr_t)end->source,
                               .rkey = end->source_mr->rkey,
                               .qpn = end->qp->qp_num,
                               .psn = draw(1 << 24),
                               .round = round};
    need(ibv_query_gid(verbs, 1, gid_index, &end->mine.gid) == 0, "ibv_query_gid");
    end->posted = end->done = end->in_flight = end->unseen = end->send_seq = end->recv_seq = 0;
    end->told = 0;
    end->failed = false;
    for (int i = 0; i < RECVS; i++)
        post_recv(end, (uint64_t)i);
}

static void connect_qp(struct end *end)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_4096,
        .dest_qp_num = end->peer.qpn,
        .rq_psn = end->peer.psn,
        .max_dest_rd_atomic = SLOTS,
        .min_rnr_timer = 12,
        .ah_attr = {
            .is_global = 1,
            .port_num = 1,
            .grh = {.dgid = end->peer.gid, .sgid_index = (uint8_t)gid_index, .hop_limit = 64}}};

    while (ibv_modify_qp(end->qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)) {
        need(errno == ENETUNREACH || errno == EHOSTUNREACH || errno == ETIMEDOUT, "RTR");
        usleep(100000); /* the link is down */
    }
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                                .timeout = (uint8_t)opt.timeout,
                                .retry_cnt = 7,
                                .rnr_retry = 7,
                                .sq_psn = end->mine.psn,
                                .max_rd_atomic = SLOTS};
    need(ibv_modify_qp(end->qp, &attr,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
         "RTS");
    end->last = now();
}

/* --- the peer --------------------------------------------------------------------------------- */

static void tell(const void *what, size_t size)
{
    need(write(peer_fd, what, size) == (ssize_t)size, "the peer is gone");
}

static void hear(void *what, size_t size)
{
    need(recv(peer_fd, what, size, MSG_WAITALL) == (ssize_t)size, "the peer is gone");
}

/* Whether the peer has told that its queue pair has failed in this round. */
static bool peer_failed(void)
{
    char byte;

    return peer_fd >= 0 && recv(peer_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1 && byte == 'f';
}

static bool heard(void)
{
    char byte;

    return recv(peer_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

static int try_peer(const struct addrinfo *at)
{
    int fd = socket(at->ai_family, SOCK_STREAM, 0), one = 1, taken;

    need(fd >= 0, "socket");
    if (opt.listen) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        need(bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, 1) == 0, "listen");
        taken = accept(fd, NULL, NULL);
        close(fd);
        return taken;
    }
    if (connect(fd, at->ai_addr, at->ai_addrlen) == 0)
        return fd;
    close(fd);
    return -1;
}

static void reach_peer(void)
{
    struct addrinfo hints = {
        .ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = opt.listen ? AI_PASSIVE : 0};
    struct addrinfo *at;
    char port[16];
    double until = now() + 20;

    snprintf(port, sizeof(port), "%u", opt.port);
    need(getaddrinfo(opt.peer, port, &hints, &at) == 0, "the peer's address");
    while ((peer_fd = try_peer(at)) < 0 && now() < until)
        usleep(100000);
    need(peer_fd >= 0, "cannot reach the peer");
    freeaddrinfo(at);
}

/* --- requests --------------------------------------------------------------------------------- */

static uint32_t draw_size(void)
{
    uint32_t kind = draw(16), size;

    if (kind < 2)
        size = 1 + draw(64);
    else if (kind < 10)
        size = 4096 + draw(28 * 1024);
    else if (kind < 14)
        size = MTU * (1 + draw(8)) - 1 + draw(3);
    else
        size = 1 + draw(kind == 15 && draw(8) == 0 ? READ_MAX : 128 * 1024);
    return size < opt.least ? opt.least : size > opt.most ? opt.most : size;
}

static void prepare_read(struct end *end, struct request *r, struct ibv_send_wr *wr)
{
    r->size = draw_size();
    r->offset = 8 * draw((SOURCE - r->size) / 8);
    memset(r->to, POISON, r->size + GUARD);
    *wr->sg_list = (struct ibv_sge){(uintptr_t)r->to, r->size, end->target_mr->lkey};
    wr->opcode = IBV_WR_RDMA_READ;
    wr->wr.rdma.remote_addr = end->peer.addr + r->offset;
    wr->wr.rdma.rkey = end->peer.rkey;
}

static void prepare_message(struct end *end, unsigned i, struct ibv_send_wr *wr)
{
    unsigned char *message = end->sent + (size_t)i * SEND_MAX;

    memcpy(message, &end->send_seq, sizeof(end->send_seq));
    end->send_seq++;
    *wr->sg_list = (struct ibv_sge){(uintptr_t)message, 4 + draw(SEND_MAX - 4), end->send_mr->lkey};
    wr->opcode = IBV_WR_SEND;
}

static void post(struct end *end, unsigned i)
{
    struct request *r = &end->request[i];
    struct ibv_sge sge = {0};
    struct ibv_send_wr follower = {
        .wr_id = i, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

    r->busy = true;
    r->read = !opt.only_sends && (!opt.sends || draw(3) > 0);
    wr.send_flags = IBV_SEND_SIGNALED | (opt.fence ? IBV_SEND_FENCE : 0);
    if (r->read)
        prepare_read(end, r, &wr);
    else
        prepare_message(end, i, &wr);
    if (r->read && opt.follow) {
        wr.send_flags &= ~(unsigned)IBV_SEND_SIGNALED;
        wr.wr_id = FOLLOWED;
        wr.next = &follower;
    }
    need(ibv_post_send(end->qp, &wr, &bad) == 0, "ibv_post_send");
    end->posted++;
    end->in_flight++;
}

/* How many requests this side still has for the round. */
static unsigned wanted(const struct end *end)
{
    if (now() > stop_at)
        return 0;
    return opt.answer && end == &ends[end_count - 1] ? 0 : opt.round;
}

static void fill(struct end *end)
{
    for (unsigned i = 0; i < SLOTS && end->in_flight < opt.outstanding; i++)
        if (!end->request[i].busy && end->posted < wanted(end) && !end->failed)
            post(end, i);
}

/* --- completions ------------------------------------------------------------------------------ */

/* How many bytes of a read are wrong; which is the first, and how many of them are still poison. */
static uint32_t wrong_bytes(const struct end *end, const struct request *r, uint32_t *first,
                            uint32_t *poison)
{
    uint32_t wrong = 0;

    *first = *poison = 0;
    for (uint32_t i = 0; i < r->size + GUARD; i++) {
        uint64_t w = word(end->peer.round, (r->offset + i) / 8);
        unsigned char expected = i < r->size ? ((unsigned char *)&w)[i % 8] : POISON;

        if (r->to[i] == expected)
            continue;
        if (wrong++ == 0)
            *first = i;
        *poison += r->to[i] == POISON;
    }
    return wrong;
}

static bool is_poison(const struct request *r)
{
    for (uint32_t i = 0; i < r->size; i++)
        if (r->to[i] != POISON)
            return false;
    return true;
}

static void check_read(struct end *end, const struct request *r)
{
    uint32_t first, poison, wrong = wrong_bytes(end, r, &first, &poison);
    uint64_t there;

    sum.reads++;
    if (wrong == 0)
        return;
    memcpy(&there, r->to + first / 8 * 8, sizeof(there));
    printf("WRONG READ: round %u, request %u: %u bytes of offset %u: %u wrong from %u, %u of them "
           "poison; there %#llx\n",
           end->mine.round, end->done, r->size, r->offset, wrong, first, poison,
           (unsigned long long)there);
    sum.wrong++;
    sum.none += is_poison(r);
    end->unseen++;
}

static void check_message(struct end *end, const struct ibv_wc *wc)
{
    uint32_t seq;

    memcpy(&seq, end->received + (wc->wr_id - SLOTS) * SEND_MAX, sizeof(seq));
    if (seq != end->recv_seq) {
        printf("WRONG MESSAGE: round %u: number %u where %u was due\n", end->mine.round, seq,
               end->recv_seq);
        sum.wrong_messages++;
    }
    end->recv_seq = seq + 1;
    sum.messages++;
    post_recv(end, wc->wr_id - SLOTS);
}

/* The first request that fails tells of the reads before it. */
static void fail(struct end *end, const struct ibv_wc *wc)
{
    if (end->failed)
        return;
    end->failed = true;
    sum.errors++;
    sum.before_error += end->unseen;
    printf("round %u: the queue pair failed: %s, %u wrong reads right before\n", end->mine.round,
           ibv_wc_status_str(wc->status), end->unseen);
    end->unseen = 0;
}

static void complete(struct end *end, const struct ibv_wc *wc)
{
    struct request *r;

    end->last = now();
    if (wc->status != IBV_WC_SUCCESS)
        fail(end, wc);
    if (wc->wr_id == FOLLOWED)
        return;
    if (wc->wr_id >= SLOTS) {
        if (wc->status == IBV_WC_SUCCESS)
            check_message(end, wc);
        return;
    }
    r = &end->request[wc->wr_id];
    if (wc->status == IBV_WC_SUCCESS) {
        sum.before_success += end->unseen;
        end->unseen = 0;
        if (r->read)
            check_read(end, r);
        else
            end->told++;
        end->done++;
    }
    r->busy = false;
    end->in_flight--;
}

static bool poll_end(struct end *end)
{
    struct ibv_wc wc[16];
    int n = ibv_poll_cq(end->cq, 16, wc);

    need(n >= 0, "ibv_poll_cq");
    for (int i = 0; i < n; i++)
        complete(end, &wc[i]);
    return n > 0;
}

/* --- rounds ----------------------------------------------------------------------------------- */

static void begin_round(uint32_t round)
{
    for (unsigned i = 0; i < end_count; i++)
        make_qp(&ends[i], round + (opt.listen ? 1 : i) * 0x10000000u);
    if (peer_fd >= 0) {
        tell(&ends[0].mine, sizeof(ends[0].mine));
        hear(&ends[0].peer, sizeof(ends[0].peer));
    } else {
        ends[0].peer = ends[1].mine;
        ends[1].peer = ends[0].mine;
    }
    for (unsigned i = 0; i < end_count; i++)
        connect_qp(&ends[i]);
    if (peer_fd >= 0) { /* nobody begins before both can answer */
        char byte = 'b';

        tell(&byte, 1);
        hear(&byte, 1);
    }
}

static bool is_silent(struct end *end)
{
    return end->in_flight > 0 && now() - end->last > SILENCE_S;
}

/* Whether this side has no more to do in the round; both sides end it when one has `failed`. */
static bool is_over(bool *failed)
{
    bool busy = false;

    *failed = false;

    for (unsigned i = 0; i < end_count; i++) {
        if (is_silent(&ends[i])) {
            printf("round %u: silent with %u requests in flight, %u done, %u wrong reads right "
                   "before\n",
                   ends[i].mine.round, ends[i].in_flight, ends[i].done, ends[i].unseen);
            sum.silences++;
            *failed = true;
        }
        *failed |= ends[i].failed;
        busy |= ends[i].in_flight > 0 || ends[i].posted < wanted(&ends[i]);
    }
    return *failed || !busy || peer_failed();
}

/* Completions that are still to come are lost with the queue pairs, but all that was told of must
 * be there. */
static void compare_messages(struct end *end, uint32_t told)
{
    while (poll_end(end))
        ;
    if (told <= end->recv_seq)
        return;
    printf("LOST MESSAGES: round %u: %u completed with success, %u came\n", end->mine.round, told,
           end->recv_seq);
    sum.wrong_messages += told - end->recv_seq;
}

static void end_with_peer(bool failed)
{
    char byte = failed ? 'f' : 'e';
    uint32_t told;

    tell(&byte, 1);
    while (!heard())
        if (!poll_end(&ends[0]))
            usleep(100);
    hear(&byte, 1);
    tell(&ends[0].told, sizeof(told));
    hear(&told, sizeof(told));
    compare_messages(&ends[0], told);
}

static void end_round(bool failed)
{
    if (peer_fd >= 0) {
        end_with_peer(failed);
    } else {
        compare_messages(&ends[0], ends[1].told);
        compare_messages(&ends[1], ends[0].told);
    }
    for (unsigned i = 0; i < end_count; i++) {
        struct ibv_wc wc;

        need(ibv_destroy_qp(ends[i].qp) == 0, "ibv_destroy_qp");
        while (ibv_poll_cq(ends[i].cq, 1, &wc) > 0)
            ;
        for (int j = 0; j < SLOTS; j++)
            ends[i].request[j].busy = false;
    }
    sum.rounds++;
}

static void run_round(uint32_t round)
{
    bool failed;

    begin_round(round);
    while (!is_over(&failed)) {
        bool any = false;

        for (unsigned i = 0; i < end_count; i++) {
            fill(&ends[i]);
            any |= poll_end(&ends[i]);
        }
        if (!any)
            usleep(50);
    }
    end_round(failed);
}

/* --- the whole -------------------------------------------------------------------------------- */

static void usage(void)
{
    fputs("Usage: reads_under_repeats [OPTION…]: reads and checks, on a device that repeats.\n"
          "  -l             wait for the peer (TCP)\n"
          "  -p ADDRESS     the peer's address\n"
          "  -P PORT        of TCP (default: 7801)\n"
          "  -d DEVICE      (default: the first)\n"
          "  -t N           acknowledgement timeout, 4.096 us * 2^N (default: 14, 67 ms)\n"
          "  -s SECONDS     (default: 30)\n"
          "  -n N           requests of a side in a round (default: 2000)\n"
          "  -o N           requests outstanding, 1 to 16 (default: 16)\n"
          "  -z LEAST,MOST  bytes of a read (default: 1,1048576)\n"
          "  -b             sends between the reads\n"
          "  -B             sends only\n"
          "  -c             each read unsignaled, a write of no bytes behind it tells of its end\n"
          "  -f             a fence on every request\n"
          "  -r             this side (of one device: the second queue pair) only answers\n",
          stderr);
    exit(2);
}

static unsigned number(const char *text, unsigned least, unsigned most)
{
    unsigned long n = strtoul(text, NULL, 10);

    if (n < least || n > most)
        usage();
    return (unsigned)n;
}

static const struct {
    char letter;
    bool *flag;
    unsigned *value, least, most;
} letters[] = {{'l', &opt.listen, NULL, 0, 0},         {'r', &opt.answer, NULL, 0, 0},
               {'b', &opt.sends, NULL, 0, 0},          {'B', &opt.only_sends, NULL, 0, 0},
               {'c', &opt.follow, NULL, 0, 0},         {'f', &opt.fence, NULL, 0, 0},
               {'P', NULL, &opt.port, 1, 65535},       {'t', NULL, &opt.timeout, 0, 31},
               {'s', NULL, &opt.seconds, 1, 1000000},  {'n', NULL, &opt.round, 1, 1000000000},
               {'o', NULL, &opt.outstanding, 1, SLOTS}};

static void set(int letter)
{
    for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
        if (letters[i].letter != letter)
            continue;
        if (letters[i].flag)
            *letters[i].flag = true;
        else
            *letters[i].value = number(optarg, letters[i].least, letters[i].most);
        return;
    }
    usage();
}

static void parse(int argc, char **argv)
{
    int c;

    while ((c = getopt(argc, argv, "lrbBcfp:d:P:t:s:n:o:z:")) != -1)
        if (c == 'p')
            opt.peer = optarg;
        else if (c == 'd')
            opt.device = optarg;
        else if (c != 'z')
            set(c);
        else if (sscanf(optarg, "%u,%u", &opt.least, &opt.most) != 2 || opt.least < 1 ||
                 opt.least > opt.most || opt.most > READ_MAX)
            usage();
}

static void report(const unsigned long before[COUNTERS])
{
    unsigned long after[COUNTERS];

    read_counters(after);
    printf("%lu reads, %lu wrong (%lu without any data; %lu right before an error, %lu before a "
           "success)\n%lu messages, %lu wrong; %lu rounds, of which %lu ended by an error and %lu "
           "by silence\n",
           sum.reads, sum.wrong, sum.none, sum.before_error, sum.before_success, sum.messages,
           sum.wrong_messages, sum.rounds, sum.errors, sum.silences);
    for (int i = 0; i < COUNTERS; i++)
        printf("%s %lu%s", counter_names[i], after[i] - before[i], i + 1 < COUNTERS ? ", " : "\n");
}

int main(int argc, char **argv)
{
    unsigned long before[COUNTERS];
    uint32_t round = 1;
    char go = 1;

    parse(argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_device();
    end_count = opt.listen || opt.peer ? 1 : 2;
    for (unsigned i = 0; i < end_count; i++)
        end_open(&ends[i]);
    if (end_count == 1)
        reach_peer();
    read_counters(before);
    for (stop_at = now() + opt.seconds; go; round++) {
        run_round(round);
        go = now() < stop_at;
        if (opt.listen) /* the other one has the clock */
            hear(&go, 1);
        else if (opt.peer)
            tell(&go, 1);
    }
    report(before);
    return sum.wrong || sum.wrong_messages;
}
