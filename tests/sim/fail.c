/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that fail on purpose: the Nth of some classes, for the failure loop, or at random.
 * Every replaced call that can fail in reality asks here before it does anything.
 */
#include "sim.h"

static struct {
    unsigned classes, nth, count;
    int rank;
    const char *what;
} armed;

void fabric_fail_arm(unsigned classes, unsigned nth)
{
    armed.classes = classes;
    armed.nth = nth;
    armed.count = 0;
    armed.rank = sim.current;
    armed.what = NULL;
}

unsigned fabric_fail_disarm(void)
{
    armed.classes = 0;
    return armed.count;
}

bool fabric_fail_fired(void)
{
    return armed.what != NULL;
}

const char *fabric_fail_what(void)
{
    return armed.what;
}

void sim_fail_reset(void)
{
    memset(&armed, 0, sizeof(armed));
}

static uint32_t rate_of(enum fabric_fail_class which)
{
    if (which == FABRIC_FAIL_ALLOC)
        return sim.config.alloc_fail_ppm;
    return which == FABRIC_FAIL_VERBS ? sim.config.verbs_fail_ppm : sim.config.cm_fail_ppm;
}

static bool may_fail(void)
{
    return sim.exists && !sim.stepping && sim.current >= 0 && !sim_rank_is_dead(sim.current);
}

static bool failed(enum fabric_fail_class which)
{
    sim_fault(FABRIC_CALL_FAILED);
    sim_trace(SIM_T_CALL_FAILS, which, armed.count, 0);
    return true;
}

bool sim_fails_armed(enum fabric_fail_class which, const char *call)
{
    if (!may_fail() || !(armed.classes & which) || armed.rank != sim.current ||
        ++armed.count != armed.nth)
        return false;
    armed.what = call;
    return failed(which);
}

bool sim_fails(enum fabric_fail_class which, const char *call)
{
    if (sim_fails_armed(which, call))
        return true;
    return may_fail() && sim_chance(rate_of(which)) && failed(which);
}
