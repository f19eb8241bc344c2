/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The scheduler: one clock, one stream of random numbers, one heap of things due. Equal times
 * run in the order they were asked for, so a run is determined by seed, configuration and calls.
 */
#include "sim.h"

enum { HEAP_WAYS = 4, LATENCY_NS = 1000 };

/* ---- random numbers: xoshiro256** seeded by splitmix64 (Blackman, Vigna 2018) ---- */

static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

void sim_rng_init(uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        sim.rng[i] = splitmix(&seed);
}

uint64_t sim_rand(void)
{
    uint64_t *s = sim.rng;
    uint64_t result = rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

uint64_t sim_below(uint64_t bound)
{
    if (bound == 0)
        return 0;
    if (bound <= UINT32_MAX)
        return ((sim_rand() >> 32) * bound) >> 32;
    return sim_rand() % bound;
}

bool sim_chance(uint32_t ppm)
{
    return ppm != 0 && sim_below(1000000) < ppm;
}

uint64_t fabric_random(uint64_t bound)
{
    return sim_below(bound);
}

uint64_t sim_latency(void)
{
    uint64_t least = sim.config.latency_ns ? sim.config.latency_ns : LATENCY_NS;
    return least + (sim.config.jitter_ns ? sim_below(sim.config.jitter_ns) : 0);
}

/* ---- the heap ---- */

static bool is_before(const struct sim_due *a, const struct sim_due *b)
{
    return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->order < b->order);
}

void sim_at(uint64_t at_ns, sim_run_fn *run, void *obj, uint64_t arg)
{
    if (sim.heap_count == sim.heap_cap) {
        sim.heap_cap = sim.heap_cap ? sim.heap_cap * 2 : 1024;
        sim.heap = sim_regrow(sim.heap, sim.heap_cap * sizeof(*sim.heap));
    }
    struct sim_due due = {at_ns < sim.now_ns ? sim.now_ns : at_ns, sim.order++, run, obj, arg};
    size_t i = sim.heap_count++;
    while (i > 0) {
        size_t parent = (i - 1) / HEAP_WAYS;
        if (!is_before(&due, &sim.heap[parent]))
            break;
        sim.heap[i] = sim.heap[parent];
        i = parent;
    }
    sim.heap[i] = due;
}

void sim_after(uint64_t delay_ns, sim_run_fn *run, void *obj, uint64_t arg)
{
    sim_at(sim.now_ns + delay_ns, run, obj, arg);
}

static struct sim_due heap_pop(void)
{
    struct sim_due top = sim.heap[0];
    struct sim_due last = sim.heap[--sim.heap_count];
    size_t i = 0;
    for (;;) {
        size_t first = i * HEAP_WAYS + 1, least = first;
        if (first >= sim.heap_count)
            break;
        size_t end = first + HEAP_WAYS < sim.heap_count ? first + HEAP_WAYS : sim.heap_count;
        for (size_t child = first + 1; child < end; child++)
            if (is_before(&sim.heap[child], &sim.heap[least]))
                least = child;
        if (!is_before(&sim.heap[least], &last))
            break;
        sim.heap[i] = sim.heap[least];
        i = least;
    }
    if (sim.heap_count > 0)
        sim.heap[i] = last;
    return top;
}

void sim_sched_fini(void)
{
    sim_release(sim.heap);
    sim.heap = NULL;
    sim.heap_count = sim.heap_cap = 0;
}

/* ---- time ---- */

uint64_t fabric_now_ns(void)
{
    return sim.now_ns;
}

uint64_t fabric_next_ns(void)
{
    return sim.heap_count ? sim.heap[0].at_ns : UINT64_MAX;
}

static int run_due(uint64_t until_ns)
{
    int rank = sim.current, count = 0;
    sim.current = -1;
    sim.stepping = true;
    while (sim.heap_count && sim.heap[0].at_ns <= until_ns) {
        struct sim_due due = heap_pop();
        sim.now_ns = due.at_ns;
        due.run(due.obj, due.arg);
        count++;
    }
    sim.stepping = false;
    sim.current = rank;
    sim.counters.events += (uint64_t)count;
    return count;
}

int fabric_step(void)
{
    return sim.heap_count ? run_due(sim.heap[0].at_ns) : 0;
}

int fabric_advance(uint64_t duration_ns)
{
    uint64_t until_ns = sim.now_ns + duration_ns;
    int count = run_due(until_ns);
    sim.now_ns = until_ns;
    return count;
}
