/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that waits: Open MPI polls for ever, on all its components in turn. With idle_wait this
 * component sleeps in its turn, once nothing has come for a while, until its device has something
 * or a slice of time is over. The slices begin at a millisecond and double up to idle_wait, so that
 * what comes by other components (shared memory, the runtime) waits no longer than about as long as
 * it has been quiet.
 *
 * Unasked. A device that is software works on the processors that its ranks poll on. Where these
 * share processors, polling takes from the device, and from the ranks that are awaited, more than
 * waking up costs: there they sleep, some milliseconds at a time, unless the user has said how
 * long. But only where all that they wait for comes by this component.
 *
 * Who computes and looks in now and then (MPI_Test) must not be put to sleep: only calls that
 * follow each other closely count, in the processor time of their thread, so that to yield the
 * processor in between is no work. The call after a sleep only looks, and is no measure: it came
 * with cold caches. Of several threads one sleeps, the others go on polling.
 */
#include "btl_verbena.h"

#include <string.h>
#include <time.h>

#define CALLS_LEAST    64u    /* without anything to do, before the clocks are read */
#define WORK_NS        60000u /* processor time between two calls that is work, not cold caches */
#define SLICE_MS_FIRST 1u
#define UNASKED_MS     4u

void btl_verbena_idle_init(btl_verbena_module_t *module)
{
    const btl_verbena_component_t *component = &mca_btl_verbena_component;
    btl_verbena_idle_t *idle = &module->idle;
    uint32_t sharing = btl_verbena_sharing();

    idle->spin_ns = component->options.wait_spin_us * 1000u * sharing;
    idle->unasked = !component->idle_wait_given && module->attr.software && sharing > 1;
    atomic_store(&idle->most_ms, idle->unasked ? UNASKED_MS : component->idle_wait_ms);
}

/* Whether another BTL goes before ours, or beside it. */
static bool has_rival(const btl_verbena_module_t *module)
{
    mca_btl_base_selected_module_t *other;

    OPAL_LIST_FOREACH(other, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
    {
        const char *name = other->btl_component->btl_version.mca_component_name;

        if (other->btl_module != &module->super && strcmp(name, "self") != 0 &&
            other->btl_module->btl_exclusivity >= module->super.btl_exclusivity)
            return true;
    }
    return false;
}

void btl_verbena_idle_peers(btl_verbena_module_t *module, size_t count, opal_proc_t **procs,
                            btl_verbena_endpoint_t **endpoints)
{
    bool alone;

    if (!module->idle.unasked)
        return;
    alone = !has_rival(module);
    for (size_t i = 0; i < count; i++)
        alone = alone && (endpoints[i] || procs[i] == opal_proc_local_get());
    if (!alone)
        atomic_store(&module->idle.most_ms, 0);
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Sleeps if the caller has done nothing but wait for long enough. Returns what there was to do. */
static int rest(btl_verbena_module_t *module, btl_verbena_idle_t *idle)
{
    size_t most_ms = atomic_load(&idle->most_ms);
    uint64_t now = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    bool worked = cpu - idle->cpu_ns > WORK_NS;
    int done;

    idle->cpu_ns = cpu;
    if (idle->has_slept) {
        idle->has_slept = false;
        return 0;
    }
    if (!idle->since_ns || worked) {
        idle->since_ns = now;
        idle->slice_ms = SLICE_MS_FIRST;
    }
    if (!most_ms || now - idle->since_ns < idle->spin_ns)
        return 0;
    done = vbn_wait(module->context, (int)idle->slice_ms);
    idle->has_slept = true;
    idle->slice_ms = idle->slice_ms * 2 < most_ms ? idle->slice_ms * 2 : most_ms;
    idle->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    return done;
}

int btl_verbena_idle(btl_verbena_module_t *module, int done)
{
    btl_verbena_idle_t *idle = &module->idle;

    if (OPAL_THREAD_TRYLOCK(&idle->lock))
        return 0;
    if (!done && idle->calls >= CALLS_LEAST)
        done = rest(module, idle);
    if (done) {
        idle->calls = 0;
        idle->since_ns = 0;
    } else if (idle->calls < CALLS_LEAST) {
        idle->calls++;
    }
    OPAL_THREAD_UNLOCK(&idle->lock);
    return done;
}
