/* SPDX-License-Identifier: BSD-3-Clause */
#include "world.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    CALM_LIMIT_MS = 30000, /* in which a calm world must settle */
    MS_NS = 1000000,
    CLOSING_MS = 5, /* between the first and the last that closes */
    QUANTUM_MAX_NS = 20 * MS_NS,
    RECOVERY_LEAST_MS = 4000,
    POLLS_FEW = 6,
    POLLS_MOST = 70,
    CLOSE_STEP_NS = 20000,
    CLOSE_STEP_MAX_NS = 5 * MS_NS
};

static struct world *current;
/* Inside vbn_close(), which waits: asking for the time makes it pass, the faster the longer
 * nothing happens. */
static bool is_blocking;
static uint64_t close_step_ns;

void world_fail(struct world *world, const char *format, ...)
{
    if (world->failed)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(world->reason, sizeof(world->reason), format, args);
    va_end(args);
    world->failed = true;
}

/* ---- what the transport calls ---- */

static uint64_t clock_ns(void *arg)
{
    (void)arg;
    if (is_blocking && fabric_advance(close_step_ns) > 0)
        close_step_ns = CLOSE_STEP_NS;
    else if (close_step_ns < CLOSE_STEP_MAX_NS)
        close_step_ns += close_step_ns / 8;
    return fabric_now_ns() + 1; /* 0 is no time */
}

static uint64_t random_bits(void *arg)
{
    (void)arg;
    return fabric_random(UINT64_MAX);
}

static void log_line(void *arg, enum vbn_log_level level, const char *text)
{
    static const char *const levels[] = {"error", "warning", "info", "debug"};
    struct world_rank *rank = arg;
    if (current && current->plan.verbose)
        fprintf(stderr, "%12.3f us rank %d: %s: %s\n", (double)fabric_now_ns() / 1000.0,
                rank->number, levels[level], text);
}

bool world_is_patient(const struct world *world, const struct world_rank *rank)
{
    return world->plan.seed % 8 == 1 && rank->number == 0;
}

bool world_is_sound(const struct world *world)
{
    return !world->plan.faults && !world->plan.kills && !world->plan.hostile;
}

bool world_loses_nobody(const struct world *world)
{
    return world->recovers && !world->plan.kills && !world->plan.hostile && !world->calls_fail;
}

struct world_rank *world_rank_of(void *callback_arg)
{
    return callback_arg;
}

static void endpoint_error(void *arg, vbn_endpoint_t *ep, int status, const char *reason)
{
    (void)reason;
    if (current->endpoint_error)
        current->endpoint_error(world_rank_of(arg), ep, status);
}

/* ---- opening ---- */

static uint32_t paused_verbs_ppm, paused_cm_ppm;

void world_failures_pause(void)
{
    paused_verbs_ppm = fabric_config()->verbs_fail_ppm;
    paused_cm_ppm = fabric_config()->cm_fail_ppm;
    fabric_config()->verbs_fail_ppm = fabric_config()->cm_fail_ppm = 0;
}

void world_failures_resume(void)
{
    fabric_config()->verbs_fail_ppm = paused_verbs_ppm;
    fabric_config()->cm_fail_ppm = paused_cm_ppm;
}

static uint64_t between(uint64_t least, uint64_t most)
{
    return least + fabric_random(most - least + 1);
}

/* Sizes from cramped to comfortable; what all ranks must share is drawn once. */
static void draw_options(const struct world *world, const struct world_rank *rank,
                         struct vbn_options *options)
{
    options->eager_limit = rank->eager_limit;
    options->window = between(4, fabric_random(4) ? 64 : 256);
    /* Enough for a window to every peer: fewer buffers would refuse connections. */
    options->srq_depth = 128 + (options->window + 40) * (uint64_t)world->count;
    options->sq_depth = between(4, 64);
    options->tx_buffers = between(64, 256);
    options->cq_size = 2 * options->srq_depth + fabric_random(1024);
    options->signal_period = between(1, 32);
    options->poll_batch = between(1, 64);
    options->read_depth = between(1, 16);
    options->ack_delay_us = between(10, 10000);
    options->inline_limit = between(0, 400);
    options->retry_count = between(1, 7);
    options->connect_timeout_ms = between(1000, 8000);
    options->use_srq = fabric_random(4) != 0;
    options->rndv_limit = fabric_random(3) ? fabric_random(40000) : 0;
    options->rndv_registered = options->rndv_limit / 2;
    if (fabric_random(2))
        options->unexpected_limit = fabric_random(100000);
    /* A small completion queue leaves few receive buffers: only where windows may exceed them. */
    bool overcommits = rank->has_srq && options->use_srq && world->plan.transport != FABRIC_IWARP;
    if (overcommits && fabric_random(2))
        options->cq_size = between(256, 1024);
    /* Drawn from the seed alone, so that older seeds keep their course. */
    options->recovery_timeout_ms =
        world->recovers ? RECOVERY_LEAST_MS + world->plan.seed % 6000 : 0;
    options->ring_peers = world->plan.seed % 5 ? between(1, (uint64_t)world->count) : 0;
    options->ring_after = between(1, 1 + fabric_random(12));
    if (world_is_patient(world, rank))
        options->unexpected_limit = 0;
}

static void options_make(const struct world *world, struct world_rank *rank)
{
    struct vbn_options *options = &rank->options;
    vbn_options_init(options, sizeof(*options));
    if (!world->plan.defaults)
        draw_options(world, rank, options);
    options->clock_ns = clock_ns;
    options->random = random_bits;
    options->log = log_line;
    options->endpoint_error = endpoint_error;
    options->callback_arg = rank;
}

static void draw_node(const struct world *world, struct fabric_node_attr *attr)
{
    memset(attr, 0, sizeof(*attr));
    attr->transport = world->plan.transport;
    attr->no_srq = world->plan.no_srq;
    if (world->plan.defaults)
        return;
    int cqe_least = 4096 + 256 * world->count;
    attr->max_cqe = (int)between((uint64_t)cqe_least, (uint64_t)cqe_least + 28000);
    attr->max_inline = fabric_random(3) ? (int)between(16, 400) : -1;
    attr->max_rd_atom = (int)between(1, 128);
    attr->max_msg_bytes = (uint32_t)between(1 << 16, 1 << 23);
    attr->no_srq = fabric_random(5) == 0;
    attr->soft_iwarp = fabric_random(2);
    attr->gid_index_shift = (int)fabric_random(3);
    /* By what is drawn already, so that older seeds keep their course. */
    attr->soft_roce = attr->max_rd_atom % 2;
    if (attr->max_rd_atom % 4 == 1)
        attr->max_msg_bytes = 16384 + attr->max_msg_bytes % 16384; /* pieces of a message */
}

bool world_rank_open(struct world *world, struct world_rank *rank)
{
    struct vbn_error error;
    options_make(world, rank);
    fabric_enter(rank->rank);
    world_failures_pause();
    int rc = vbn_open(&rank->options, &rank->ctx, &error);
    world_failures_resume();
    if (rc != VBN_OK) {
        world_fail(world, "rank %d cannot open: %s", rank->number, error.text);
        return false;
    }
    rank->address_len = sizeof(rank->address);
    return vbn_address(rank->ctx, rank->address, &rank->address_len) == VBN_OK;
}

static void draw_config(const struct world_plan *plan, struct fabric_config *config)
{
    fabric_config_random(plan->seed, config);
    if (plan->faults)
        return;
    struct fabric_config calm = {
        .latency_ns = config->latency_ns,
        .jitter_ns = config->jitter_ns,
        .ack_jitter_ns = config->ack_jitter_ns,
        .cq_hold_ns = config->cq_hold_ns,
        .torn_ppm = config->torn_ppm,
        .cm_jitter_ns = config->cm_jitter_ns,
        .early_data_ppm = config->early_data_ppm,
        .cm_repeat_ppm = config->cm_repeat_ppm,
        .purge_on_destroy = config->purge_on_destroy,
        .no_last_wqe_event = config->no_last_wqe_event,
        .srq_limit_at_arm = config->srq_limit_at_arm,
        .no_comm_est = config->no_comm_est,
        .slots_at_complete = config->slots_at_complete,
    };
    *config = calm;
}

bool world_open(struct world *world, const struct world_plan *plan)
{
    struct fabric_config config;
    memset(world, 0, sizeof(*world));
    current = world;
    world->plan = *plan;
    world->recovers = plan->defaults || plan->seed % 8 != 6;
    draw_config(plan, &config);
    config.verbose = plan->verbose;
    world->calls_fail = config.verbs_fail_ppm || config.cm_fail_ppm || config.alloc_fail_ppm;
    fabric_create(plan->seed, &config);
    world->count = plan->ranks ? plan->ranks : (int)between(2, 16);
    world->base_quantum_ns = between(300, 20000);
    world->quantum_ns = world->base_quantum_ns;
    world->slowness_ppm = fabric_random(2) ? (uint32_t)fabric_random(900000) : 0;
    world->ranks = calloc((size_t)world->count, sizeof(*world->ranks));
    uint64_t eager_limit = between(1024, 8192);
    if (eager_limit % 4 == 3) /* by what is drawn already; every device here takes so much */
        eager_limit = 2 * eager_limit - 32;
    bool share_nodes = fabric_random(4) == 0;
    struct fabric_node_attr attr;
    int node = -1;
    for (int i = 0; i < world->count; i++) {
        struct world_rank *rank = &world->ranks[i];
        if (node < 0 || !share_nodes || fabric_random(2)) {
            draw_node(world, &attr);
            node = fabric_node_add(&attr);
        }
        rank->number = i;
        rank->node = node;
        rank->has_srq = !attr.no_srq;
        rank->rank = fabric_rank_add(node);
        rank->eager_limit = eager_limit;
        rank->sleeps = fabric_random(3) == 0;
        if (!world_rank_open(world, rank))
            return false;
    }
    return true;
}

vbn_endpoint_t *world_endpoint(struct world *world, struct world_rank *rank,
                               struct world_rank *peer, void *user)
{
    struct vbn_error error;
    vbn_endpoint_t *ep = NULL;
    int rc = vbn_endpoint_create(rank->ctx, peer->address, peer->address_len, user, &ep, &error);
    if (rc == VBN_OK)
        return ep;
    world_fail(world, "rank %d has no endpoint to %d: %s", rank->number, peer->number, error.text);
    return NULL;
}

/* ---- turns ---- */

static bool rank_turn(struct world *world, struct world_rank *rank,
                      void (*work)(struct world *, struct world_rank *))
{
    if (!rank->ctx || rank->is_dead || fabric_now_ns() < rank->stopped_until_ns)
        return false;
    if (world->slowness_ppm && fabric_random(1000000) < world->slowness_ppm)
        return false;
    fabric_enter(rank->rank);
    if (work)
        work(world, rank);
    int done = 0, timeout_ms;
    if (rank->ctx && rank->sleeps && fabric_random(20) == 0)
        vbn_arm(rank->ctx, &timeout_ms);
    /* The slow side is looked at every 64th time: now and then enough for it, mostly a few. */
    uint64_t polls = between(1, fabric_random(6) ? POLLS_FEW : POLLS_MOST);
    for (; polls > 0 && rank->ctx; polls--)
        done += vbn_progress(rank->ctx);
    return done > 0;
}

bool world_turn(struct world *world, void (*work)(struct world *, struct world_rank *))
{
    bool busy = false;
    int first = (int)fabric_random((uint64_t)world->count);
    int stride = fabric_random(2) ? 1 : world->count - 1;
    for (int i = 0; i < world->count; i++)
        busy |= rank_turn(world, &world->ranks[(first + i * stride) % world->count], work);
    busy |= fabric_advance(1 + fabric_random(world->quantum_ns)) > 0;
    if (busy)
        world->quantum_ns = world->base_quantum_ns;
    else if (world->quantum_ns < QUANTUM_MAX_NS)
        world->quantum_ns *= 2;
    return busy;
}

void world_kill(struct world *world, struct world_rank *rank)
{
    (void)world;
    rank->is_dead = true;
    fabric_rank_kill(rank->rank);
}

void world_calm(struct world *world)
{
    struct fabric_config *config = fabric_config();
    config->rnr_ppm = config->drop_ppm = config->retry_exc_ppm = config->qp_fatal_ppm =
        config->unsound_ppm = config->datagram_lost_ppm = config->datagram_late_ppm = 0;
    config->ghost_ppm = config->partial_write_ppm = config->flap_ppm = 0;
    config->cm_lost_ppm = config->cm_reject_ppm = config->cm_addr_error_ppm =
        config->join_error_ppm = 0;
    config->verbs_fail_ppm = config->cm_fail_ppm = config->alloc_fail_ppm = 0;
    world->slowness_ppm = 0;
    for (int i = 0; i < world->count; i++) {
        world->ranks[i].stopped_until_ns = 0;
        fabric_link_set(world->ranks[i].node, true);
        fabric_address_set(world->ranks[i].node, true);
    }
}

/* ---- a workload, from faults to calm ---- */

int world_hostile_node(const struct world *world)
{
    int node;

    if (!world->plan.hostile)
        return -1;
    node = world->ranks[fabric_random((uint64_t)world->count)].node;
    fabric_node_garble(node, 1 + (uint32_t)fabric_random(50000));
    return node;
}

/* The first that is open, from RANK on, which goes to that rank; NULL at the end of the ranks. */
static const char *next_unsettled(const struct world *world, const struct world_load *load,
                                  int *rank, int *peer)
{
    const char *what = NULL;

    for (; *rank < world->count; ++*rank) {
        *peer = -1;
        if (!world->ranks[*rank].is_dead)
            what = load->unsettled(world, &world->ranks[*rank], peer);
        if (what)
            break;
    }
    return what;
}

static bool all_settled(const struct world *world, const struct world_load *load)
{
    int rank = 0, peer;

    return !next_unsettled(world, load, &rank, &peer);
}

static void report_hang(struct world *world, const struct world_load *load)
{
    const char *what;
    int peer;

    for (int rank = 0; (what = next_unsettled(world, load, &rank, &peer)); rank++)
        world_fail(world, "after %d s of calm rank %d still %s %d", CALM_LIMIT_MS / 1000, rank,
                   what, peer);
}

void world_run(struct world *world, const struct world_load *load)
{
    uint64_t calm_at_ns = fabric_now_ns() + 1 + fabric_random(50000000), limit_ns = 0;
    int victim =
        world->plan.kills && fabric_random(2) ? (int)fabric_random((uint64_t)world->count) : -1;

    while (!world->failed && !all_settled(world, load)) {
        world_turn(world, load->work);
        if (limit_ns == 0 && fabric_now_ns() > calm_at_ns) {
            if (victim >= 0)
                world_kill(world, &world->ranks[victim]);
            world_calm(world);
            if (load->calmed)
                load->calmed(world);
            limit_ns = fabric_now_ns() + CALM_LIMIT_MS * 1000000ull;
        }
        if (limit_ns && fabric_now_ns() > limit_ns)
            report_hang(world, load);
    }
}

/* ---- closing ---- */

/* Whose time to close has come begins, or goes on; false: all have nothing left. */
static bool shut_some(struct world *world)
{
    bool left = false;
    for (int i = 0; i < world->count; i++) {
        struct world_rank *rank = &world->ranks[i];
        if (!rank->ctx || rank->is_dead)
            continue;
        fabric_enter(rank->rank);
        if (fabric_now_ns() < rank->shut_at_ns || vbn_shutdown(rank->ctx) > 0)
            left = true;
    }
    return left;
}

/* All at once, or one after the other. */
static void draw_closing(struct world *world)
{
    uint64_t within_ns = 1 + fabric_random(2) * fabric_random(CLOSING_MS * MS_NS);
    for (int i = 0; i < world->count; i++)
        world->ranks[i].shut_at_ns = fabric_now_ns() + fabric_random(within_ns);
}

/* A close that ran out of time waits for nothing, iWARP's messages are the stream's, and where
 * getifaddrs() fails nobody knows. */
static void check_silence(struct world *world, const struct world_rank *rank)
{
    uint64_t said = fabric_said_without_address(rank->rank);

    if (said && !rank->is_dead && !rank->close_late && !world->calls_fail &&
        world->plan.transport != FABRIC_IWARP)
        world_fail(world, "rank %d: %llu messages of the connection manager without an address",
                   rank->number, (unsigned long long)said);
}

/* Nothing fails, and nobody closes while others connect to him. */
static bool keeps_connections(const struct world *world)
{
    return world_is_sound(world) && !world->calls_fail && !world->reopens;
}

void world_rank_close(struct world *world, struct world_rank *rank)
{
    struct vbn_counters counters = {.size = sizeof(counters)};

    fabric_enter(rank->rank);
    vbn_counters(rank->ctx, &counters);
    world->lost += counters.conns_lost;
    world->recoveries += counters.recoveries;
    world->replayed += counters.replayed;
    world->ringed += counters.ring_msgs;
    world->bare += counters.bare_msgs;
    world->ridden += counters.rider_msgs;
    uint64_t start_ns = fabric_now_ns();
    close_step_ns = CLOSE_STEP_NS;
    is_blocking = true;
    rank->close_late = vbn_close(rank->ctx) != VBN_OK;
    is_blocking = false;
    rank->ctx = NULL;
    uint64_t took_ms = (fabric_now_ns() - start_ns) / MS_NS;
    if (took_ms > rank->options.close_timeout_ms + 1000)
        world_fail(world, "rank %d: vbn_close() took %llu ms", rank->number,
                   (unsigned long long)took_ms);
    check_silence(world, rank);
    if (rank->close_late && !rank->is_dead && world_is_sound(world))
        world_fail(world, "rank %d: vbn_close() dropped something without a fault", rank->number);
    if (counters.conns_lost && keeps_connections(world))
        world_fail(world, "rank %d lost %llu connections without a fault", rank->number,
                   (unsigned long long)counters.conns_lost);
}

static bool shares_receives(const struct world_rank *rank)
{
    return rank->has_srq && rank->options.use_srq;
}

/* Where nothing fails nobody has to ask twice, not even where two ask each other at once; but for
 * who leaves and does not know whether its farewell has come, and where the receives of an attempt
 * that gives way are still its own, and there are none for another. */
static void check_requests(struct world *world)
{
    for (int i = 0; i < world->count; i++)
        for (int j = 0; j < world->count; j++) {
            const struct world_rank *from = &world->ranks[i], *to = &world->ranks[j];
            uint32_t asked = fabric_connections_asked(from->rank, to->rank);
            if (asked > 1 && shares_receives(from) && shares_receives(to))
                world_fail(world, "rank %d asked %d for a connection %u times without a fault", i,
                           j, asked);
        }
}

int world_close(struct world *world)
{
    uint64_t limit_ns = fabric_now_ns() + 20000 * (uint64_t)MS_NS;
    if (keeps_connections(world))
        check_requests(world);
    draw_closing(world);
    while (shut_some(world) && fabric_now_ns() < limit_ns)
        world_turn(world, NULL);
    for (int i = 0; i < world->count; i++)
        if (world->ranks[i].ctx)
            world_rank_close(world, &world->ranks[i]);
    if (world->failed && !fabric_violations() && !fabric_config()->quiet)
        fabric_trace_print(stderr);
    free(world->ranks);
    world->ranks = NULL;
    current = NULL;
    return fabric_destroy();
}

/* ---- patterns ---- */

static uint64_t pattern_word(uint64_t key, uint64_t i)
{
    uint64_t z = key + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    return z ^ (z >> 31);
}

void world_pattern_fill(void *data, size_t len, uint64_t key)
{
    for (size_t at = 0; at < len; at += 8) {
        uint64_t word = pattern_word(key, at);
        memcpy((char *)data + at, &word, len - at < 8 ? len - at : 8);
    }
}

bool world_pattern_check(const void *data, size_t len, uint64_t key)
{
    for (size_t at = 0; at < len; at += 8) {
        uint64_t word = pattern_word(key, at);
        if (memcmp((const char *)data + at, &word, len - at < 8 ? len - at : 8) != 0)
            return false;
    }
    return true;
}
