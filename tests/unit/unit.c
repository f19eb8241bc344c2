/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <stdio.h>

struct unit_world unit;

void unit_reset(void)
{
    memset(&unit, 0, sizeof(unit));
    unit.now_ns = 1000 * (uint64_t)UNIT_MS;
    unit.tick_ns = 1000;
    unit.random = 1;
}

/* --- options ---------------------------------------------------------------------------------- */

static uint64_t world_clock(void *arg)
{
    (void)arg;
    unit.now_ns += unit.tick_ns;
    return unit.now_ns;
}

static uint64_t world_random(void *arg)
{
    (void)arg;
    return unit.random++;
}

static void world_log(void *arg, enum vbn_log_level level, const char *text)
{
    (void)arg;
    unit.log_count[level]++;
    snprintf(unit.log[level], sizeof(unit.log[level]), "%s", text);
}

static void world_endpoint_error(void *arg, vbn_endpoint_t *ep, int status, const char *reason)
{
    struct unit_failure *f = &unit.failed[unit.failures < 16 ? unit.failures : 15];

    (void)arg;
    unit.failures++;
    f->ep = ep;
    f->status = status;
    snprintf(f->reason, sizeof(f->reason), "%s", reason);
}

void unit_options(struct vbn_options *opts)
{
    vbn_options_init(opts, sizeof(*opts));
    opts->clock_ns = world_clock;
    opts->random = world_random;
    opts->log = world_log;
    opts->endpoint_error = world_endpoint_error;
    opts->eager_limit = 1024;
    opts->window = 16;
    opts->srq_depth = 256;
    opts->tx_buffers = 256;
    opts->cq_size = 1024;
    opts->signal_period = 16;
    opts->ack_delay_us = 1000;
    opts->close_timeout_ms = 10;
}

uint64_t unit_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
