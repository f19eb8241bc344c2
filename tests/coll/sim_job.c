/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim_job.h"

#include <stdio.h>
#include <stdlib.h>

#include "../sim/fabric.h"

enum {
    MS_NS = 1000000,
    CALM_QUANTUM_NS = 5000,
    CROWD_QUANTUM_NS = 20000,
    QUANTUM_MAX_NS = 20 * MS_NS,
    IDLE_FACTOR = 8, /* what is lost is sent again much later */
    CLOSE_STEP_NS = 100000,
    SHUTDOWN_LIMIT_MS = 20000,
    POLLS_FEW = 4,
    POLLS_IDLE = 70,
    ADDRESS_MAX = 4096,
    SETTINGS_MAX = 12,
};

struct settings {
    struct vbn_setting list[SETTINGS_MAX];
    char values[SETTINGS_MAX][24];
    size_t count;
};

/* --- what a port is told ---------------------------------------------------------------------- */

static uint64_t between(uint64_t least, uint64_t most)
{
    return least + fabric_random(most - least + 1);
}

static void set(struct settings *settings, const char *name, uint64_t value)
{
    size_t i = settings->count++;

    snprintf(settings->values[i], sizeof(settings->values[i]), "%llu", (unsigned long long)value);
    settings->list[i] = (struct vbn_setting){name, settings->values[i]};
}

/* A receive buffer for each message that may be under way, or connections would be refused. */
static void draw_settings(const struct sim_job *job, uint64_t eager_limit,
                          struct settings *settings)
{
    uint64_t window = between(4, 64);

    set(settings, "eager_limit", eager_limit);
    set(settings, "window", window);
    set(settings, "srq_depth", 128 + (window + 40) * job->count);
    set(settings, "sq_depth", between(4, 64));
    set(settings, "tx_buffers", between(64, 256));
    set(settings, "inline_limit", between(0, 400));
    set(settings, "signal_period", between(1, 32));
    set(settings, "poll_batch", between(1, 64));
    set(settings, "read_depth", between(1, 16));
    set(settings, "ack_delay_us", between(10, 10000));
    set(settings, "rndv_limit", fabric_random(3) ? fabric_random(20000) : 0);
    set(settings, "unexpected_limit", fabric_random(2) ? fabric_random(100000) : 67108864);
}

static void crowd_settings(struct settings *settings)
{
    set(settings, "eager_limit", 1024);
    set(settings, "window", 8);
    set(settings, "srq_depth", 2048);
    set(settings, "sq_depth", 16);
    set(settings, "tx_buffers", 64);
    set(settings, "cq_size", 4096);
}

static void draw_node(const struct sim_job *job, uint64_t seed, struct fabric_node_attr *attr)
{
    static const enum fabric_transport transports[] = {FABRIC_ROCE, FABRIC_INFINIBAND,
                                                       FABRIC_IWARP};

    *attr = (struct fabric_node_attr){.transport = FABRIC_ROCE};
    if (job->manner == SIM_CALM || job->manner == SIM_CROWD)
        return;
    attr->transport = transports[seed % 3]; /* one for all: they must reach each other */
    attr->no_srq = fabric_random(5) == 0;
    attr->max_inline = fabric_random(3) ? (int)between(16, 400) : -1;
    attr->max_rd_atom = (int)between(1, 128);
    attr->max_msg_bytes = (uint32_t)between(1 << 16, 1 << 23);
    attr->soft_iwarp = fabric_random(2);
    attr->gid_index_shift = (int)fabric_random(3);
}

/* --- the fabric ------------------------------------------------------------------------------- */

static void draw_config(enum sim_manner manner, uint64_t seed, struct fabric_config *config)
{
    struct fabric_config none = {.no_buffer_checks = manner == SIM_CROWD};

    fabric_config_random(seed, config);
    config->verbs_fail_ppm = config->cm_fail_ppm = 0;
    if (manner == SIM_CALM || manner == SIM_CROWD)
        *config = none;
    config->retry_exc_ppm = config->qp_fatal_ppm = config->ghost_ppm = 0;
    config->partial_write_ppm = config->flap_ppm = 0;
    config->cm_reject_ppm = config->cm_addr_error_ppm = 0;
    if (manner == SIM_FAULTS) { /* all of them, whatever was drawn */
        config->rnr_ppm += 1000;
        config->drop_ppm += 500;
        config->cm_lost_ppm += 5000;
        config->cm_repeat_ppm += 5000;
        return;
    }
    config->rnr_ppm = config->drop_ppm = config->cm_lost_ppm = 0;
}

/* Whoever looks at the clock inside close() waits. */
static uint64_t clock_ns(void *arg)
{
    const struct sim_rank *rank = arg;

    if (rank->job->blocking)
        fabric_advance(CLOSE_STEP_NS);
    return fabric_now_ns() + 1; /* 0 is no time */
}

static uint64_t random_bits(void *arg)
{
    (void)arg;
    return fabric_random(UINT64_MAX);
}

static void take_log(void *arg, enum vbn_log_level level, const char *text)
{
    const struct sim_rank *rank = arg;

    if (getenv("VBN_COLL_VERBOSE"))
        fprintf(stderr, "%12.3f us rank %d: %d: %s\n", (double)fabric_now_ns() / 1e3, rank->number,
                (int)level, text);
}

static void take_error(void *arg, vbn_peer_t *peer, int status, const char *reason)
{
    struct sim_rank *rank = arg;

    (void)peer;
    (void)status;
    (void)reason;
    rank->job->lost++;
}

/* --- opening ---------------------------------------------------------------------------------- */

static bool open_port(struct sim_job *job, struct sim_rank *rank, uint64_t eager_limit)
{
    struct settings settings = {.count = 0};
    struct vbn_port_config config = {.size = sizeof(config),
                                     .settings = settings.list,
                                     .rank = (uint32_t)(rank - job->ranks),
                                     .job_key = 7,
                                     .callback_arg = rank,
                                     .log = take_log,
                                     .peer_error = take_error,
                                     .clock_ns = clock_ns,
                                     .random = random_bits};
    struct vbn_error err;

    if (job->manner == SIM_CROWD)
        crowd_settings(&settings);
    else if (job->manner != SIM_CALM)
        draw_settings(job, eager_limit, &settings);
    config.setting_count = settings.count;
    fabric_enter(rank->number);
    if (vbn_rc_transport()->open(&config, &rank->port, &err) == VBN_OK)
        return true;
    fprintf(stderr, "rank %d cannot open: %s\n", rank->number, err.text);
    return false;
}

static bool introduce(struct sim_job *job, uint32_t to)
{
    const struct vbn_transport *tr = vbn_rc_transport();
    unsigned char address[ADDRESS_MAX];
    size_t len = sizeof(address);
    struct vbn_error err;

    fabric_enter(job->ranks[to].number);
    if (tr->address(job->ranks[to].port, address, &len) != VBN_OK)
        return false;
    for (uint32_t i = 0; i < job->count; i++) {
        if (i == to)
            continue;
        fabric_enter(job->ranks[i].number);
        if (tr->connect(job->ranks[i].port, address, len, &job->ranks[i], &job->ranks[i].peers[to],
                        &err) != VBN_OK) {
            fprintf(stderr, "rank %u does not know rank %u: %s\n", i, to, err.text);
            return false;
        }
    }
    return true;
}

static void draw_job(struct sim_job *job)
{
    bool calm = job->manner == SIM_CALM || job->manner == SIM_CROWD;

    job->base_quantum_ns = job->manner == SIM_CROWD ? CROWD_QUANTUM_NS : CALM_QUANTUM_NS;
    if (!calm) {
        job->base_quantum_ns = between(300, 20000);
        job->slowness_ppm = fabric_random(2) ? (uint32_t)fabric_random(900000) : 0;
    }
    job->quantum_ns = job->base_quantum_ns;
}

struct sim_job *sim_job_open(uint32_t count, uint64_t seed, enum sim_manner manner)
{
    struct sim_job *job = calloc(1, sizeof(*job));
    struct fabric_config config;
    bool good = true;
    uint64_t eager_limit;

    draw_config(manner, seed, &config);
    fabric_create(seed, &config);
    job->count = count;
    job->manner = manner;
    job->ranks = calloc(count, sizeof(*job->ranks));
    draw_job(job);
    eager_limit = between(1024, 8192);
    for (uint32_t i = 0; i < count && good; i++) {
        struct fabric_node_attr attr;

        draw_node(job, seed, &attr);
        job->ranks[i].job = job;
        job->ranks[i].number = fabric_rank_add(fabric_node_add(&attr));
        job->ranks[i].peers = calloc(count, sizeof(vbn_peer_t *));
        good = open_port(job, &job->ranks[i], eager_limit);
    }
    for (uint32_t i = 0; i < count && good; i++)
        good = introduce(job, i);
    if (good)
        return job;
    sim_job_close(job);
    return NULL;
}

/* --- running ---------------------------------------------------------------------------------- */

void sim_job_enter(struct sim_job *job, uint32_t rank)
{
    fabric_enter(job->ranks[rank].number);
}

/* The slow side is looked at every 64th time: who has nothing to do comes to it at once. */
static uint64_t polls_of(const struct sim_job *job)
{
    if (job->quantum_ns > job->base_quantum_ns)
        return POLLS_IDLE;
    if (job->manner == SIM_CALM || job->manner == SIM_CROWD)
        return 1;
    return between(1, fabric_random(12) ? POLLS_FEW : POLLS_IDLE);
}

static int rank_turn(struct sim_job *job, struct sim_rank *rank)
{
    int did = 0;

    if (!rank->port || rank->dead)
        return 0;
    if (job->slowness_ppm && fabric_random(1000000) < job->slowness_ppm)
        return 0;
    fabric_enter(rank->number);
    for (uint64_t polls = polls_of(job); polls > 0; polls--)
        did += vbn_rc_transport()->progress(rank->port);
    return did;
}

void sim_job_turn(struct sim_job *job)
{
    uint32_t first = (uint32_t)fabric_random(job->count);
    int did = 0;

    for (uint32_t i = 0; i < job->count; i++)
        did += rank_turn(job, &job->ranks[(first + i) % job->count]);
    did += fabric_advance(job->quantum_ns);
    if (did)
        job->quantum_ns = job->base_quantum_ns;
    else if (job->quantum_ns < QUANTUM_MAX_NS / IDLE_FACTOR)
        job->quantum_ns *= IDLE_FACTOR;
    else
        job->quantum_ns = QUANTUM_MAX_NS;
}

/* --- ending ----------------------------------------------------------------------------------- */

void sim_job_kill(struct sim_job *job, uint32_t rank)
{
    job->ranks[rank].dead = job->died = true;
    fabric_rank_kill(job->ranks[rank].number);
}

void sim_job_leave(struct sim_job *job, uint32_t rank)
{
    fabric_enter(job->ranks[rank].number);
    job->blocking = true;
    if (vbn_rc_transport()->close(job->ranks[rank].port) != VBN_OK)
        job->dropped++;
    job->blocking = false;
    job->ranks[rank].port = NULL;
}

/* In good order: each port goes on until all have nothing left. */
static void shut(struct sim_job *job)
{
    uint64_t limit_ns = fabric_now_ns() + SHUTDOWN_LIMIT_MS * (uint64_t)MS_NS;
    size_t more = 1;

    while (more && fabric_now_ns() < limit_ns) {
        more = 0;
        for (uint32_t i = 0; i < job->count; i++) {
            if (!job->ranks[i].port || job->ranks[i].dead)
                continue;
            fabric_enter(job->ranks[i].number);
            more += vbn_rc_transport()->shutdown(job->ranks[i].port);
        }
        sim_job_turn(job);
    }
}

int sim_job_close(struct sim_job *job)
{
    unsigned dropped;

    shut(job);
    for (uint32_t i = 0; i < job->count; i++) {
        if (job->ranks[i].port)
            sim_job_leave(job, i);
        free(job->ranks[i].peers);
    }
    dropped = job->died ? 0 : job->dropped;
    if (dropped)
        fprintf(stderr, "%u ports did not close in good order\n", dropped);
    free(job->ranks);
    free(job);
    return fabric_destroy() + (int)dropped;
}
