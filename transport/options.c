/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parameter table, and all reading of parameters: the only place where a user's values are
 * checked. Beyond vbn_options_take() every option is in its range.
 */
#include "options.h"
#include "error.h"
#include "wire.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>

/* clang-format off */
#define UINT(field, def, min, max, unit, help) \
    { #field, VBN_PARAM_UINT, offsetof(struct vbn_options, field), def, min, max, unit, help }
#define BOOL(field, def, help) \
    { #field, VBN_PARAM_BOOL, offsetof(struct vbn_options, field), def, 0, 1, "", help }
#define STRING(field, help) \
    { #field, VBN_PARAM_STRING, offsetof(struct vbn_options, field), 0, 0, 0, "", help }

static const struct vbn_param params[] = {
    STRING(device, "RDMA device to use, as name or name:port; empty for the first usable one"),
    STRING(address, "local IP address to bind; empty for the device's own"),
    UINT(eager_limit, 16448, 1024, 262144, "bytes", "largest active message; the same on all ranks"),
    UINT(window, 80, VBN_WINDOW_MIN, VBN_WINDOW_MAX, "messages", "messages that a peer may have in flight to us, at most"),
    UINT(srq_depth, 2048, 64, 1048576, "buffers", "receive buffers that all peers share, at most"),
    UINT(ring_peers, 16, 0, 4096, "peers", "peers at most that may write their short messages into memory of ours; 0: none"),
    UINT(ring_after, 64, 1, 1000000000, "messages", "short messages of a peer without a sleep of ours before it may"),
    UINT(sq_depth, 128, 4, 16384, "requests", "work requests in flight on one queue pair"),
    UINT(tx_buffers, 4096, 64, 1048576, "buffers", "send buffers of a process, at most"),
    UINT(cq_size, 16384, 256, 4194304, "entries", "entries of one completion queue; more queues are made when needed"),
    UINT(inline_limit, 256, 0, 4096, "bytes", "bytes that a work request may carry inline, where the device can"),
    UINT(signal_period, 16, 1, 1024, "sends", "one send in so many asks for a completion"),
    UINT(poll_batch, 32, 1, 256, "completions", "completions taken in one poll"),
    UINT(read_depth, 16, 1, 255, "reads", "RDMA reads in flight on one queue pair, where the device can"),
    UINT(retry_count, 7, 0, 7, "", "transport retries before a queue pair fails"),
    UINT(ack_timeout, 18, 1, 31, "", "code of the time until the device repeats what was not acknowledged (18 is 1.07 s)"),
    UINT(rnr_timer, 10, 1, 31, "", "code of the receiver-not-ready timer (10 is 0.32 ms)"),
    UINT(ack_delay_us, 10000, 1, 1000000, "us", "time after which a receiver acknowledges unasked"),
    UINT(rndv_limit, 32768, 0, 1073741824, "bytes", "tagged messages above this go by RDMA from buffer to buffer, not copied"),
    UINT(rndv_registered, 16384, 0, 1073741824, "bytes", "the same for messages from registered memory, where the device's reads are sound; no more than rndv_limit counts"),
    UINT(wait_spin_us, 100, 0, 1000000, "us", "time that a wait polls at most before it sleeps; about what sleeping and waking costs"),
    UINT(unexpected_limit, 67108864, 0, 1099511627776, "bytes", "tagged messages that nobody has asked for are kept up to this; then their senders wait, unless they are waited for"),
    UINT(connect_timeout_ms, 300000, 100, 86400000, "ms", "time until a peer that cannot be connected is given up"),
    UINT(recovery_timeout_ms, 60000, 0, 86400000, "ms", "time to make a lost connection again before its peer is given up; 0: none"),
    UINT(close_timeout_ms, 5000, 10, 600000, "ms", "time that closing may take"),
    UINT(wire_version, VBN_WIRE_VERSION, 1, 255, "", "highest wire version offered (for tests)"),
    BOOL(trust_reads, 0, "let messages be read from the sender's memory even where the device's reads may complete without their data (soft-RoCE) or are slow (soft-iWARP)"),
    BOOL(use_srq, 1, "share receive buffers between peers where the device can"),
};
/* clang-format on */

#define PARAM_COUNT (sizeof(params) / sizeof(params[0]))

const struct vbn_param *vbn_params(size_t *count)
{
    *count = PARAM_COUNT;
    return params;
}

static uint64_t *uint_field(struct vbn_options *opts, const struct vbn_param *p)
{
    return (uint64_t *)((char *)opts + p->offset);
}

static bool *bool_field(struct vbn_options *opts, const struct vbn_param *p)
{
    return (bool *)((char *)opts + p->offset);
}

static void set_defaults(struct vbn_options *opts)
{
    memset(opts, 0, sizeof(*opts));
    opts->size = sizeof(*opts);
    for (size_t i = 0; i < PARAM_COUNT; i++) {
        if (params[i].type == VBN_PARAM_UINT)
            *uint_field(opts, &params[i]) = params[i].def;
        else if (params[i].type == VBN_PARAM_BOOL)
            *bool_field(opts, &params[i]) = params[i].def;
    }
}

void vbn_options_init(struct vbn_options *opts, size_t size)
{
    struct vbn_options full;

    set_defaults(&full);
    memset(opts, 0, size);
    memcpy(opts, &full, size < sizeof(full) ? size : sizeof(full));
    opts->size = size;
}

/* --- values as text --------------------------------------------------------------------------- */

static int bad_value(struct vbn_error *err, const struct vbn_param *p, const char *text)
{
    if (p->type == VBN_PARAM_BOOL)
        return vbn_error_set(err, VBN_ERR_INVALID,
                             "parameter %s: \"%s\" is not a boolean; give 1, 0, true, false, yes, "
                             "no, on or off",
                             p->name, text);
    return vbn_error_set(
        err, VBN_ERR_INVALID,
        "parameter %s: \"%s\" is not a whole number from %llu to %llu%s%s; its default is %llu",
        p->name, text, (unsigned long long)p->min, (unsigned long long)p->max, *p->unit ? " " : "",
        p->unit, (unsigned long long)p->def);
}

static bool parse_uint(const char *text, uint64_t *value)
{
    char *end;
    unsigned shift = 0;

    while (isspace((unsigned char)*text))
        text++;
    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0; /* a leading 0 does not make a number octal: nobody means that */
    *value = strtoull(text, &end, text[0] == '0' && (text[1] | 0x20) == 'x' ? 16 : 10);
    if (errno)
        return false;
    if (*end == 'k' || *end == 'K')
        shift = 10;
    else if (*end == 'm' || *end == 'M')
        shift = 20;
    else if (*end == 'g' || *end == 'G')
        shift = 30;
    if (shift) {
        end++;
        if (*value >> (64 - shift))
            return false;
        *value <<= shift;
    }
    return *end == '\0';
}

static bool parse_bool(const char *text, bool *value)
{
    static const char *const yes[] = {"1", "true", "yes", "on"};
    static const char *const no[] = {"0", "false", "no", "off"};

    for (size_t i = 0; i < 4; i++) {
        if (!strcasecmp(text, yes[i]) || !strcasecmp(text, no[i])) {
            *value = !strcasecmp(text, yes[i]);
            return true;
        }
    }
    return false;
}

int vbn_param_number(const struct vbn_param *param, const char *text, uint64_t *value,
                     struct vbn_error *err)
{
    uint64_t number;

    if (!parse_uint(text, &number) || number < param->min || number > param->max)
        return bad_value(err, param, text);
    *value = number;
    return VBN_OK;
}

/* Whether OPTS, which a program built before may have made smaller, has room for P. */
static bool has_room(const struct vbn_options *opts, const struct vbn_param *p)
{
    size_t length = p->type == VBN_PARAM_BOOL   ? sizeof(bool)
                    : p->type == VBN_PARAM_UINT ? sizeof(uint64_t)
                                                : sizeof(const char *);

    return p->offset + length <= opts->size;
}

static int set_field(struct vbn_options *opts, const struct vbn_param *p, const char *text,
                     struct vbn_error *err)
{
    if (!has_room(opts, p))
        return vbn_error_set(err, VBN_ERR_INVALID,
                             "parameter %s: this program was built before there was one; build it "
                             "with the headers of this library",
                             p->name);
    switch (p->type) {
    case VBN_PARAM_STRING:
        *(const char **)((char *)opts + p->offset) = text;
        return VBN_OK;
    case VBN_PARAM_BOOL:
        return parse_bool(text, bool_field(opts, p)) ? VBN_OK : bad_value(err, p, text);
    case VBN_PARAM_UINT:
        break;
    }
    return vbn_param_number(p, text, uint_field(opts, p), err);
}

int vbn_options_set(struct vbn_options *opts, const char *name, const char *text,
                    struct vbn_error *err)
{
    for (size_t i = 0; i < PARAM_COUNT; i++)
        if (strcmp(params[i].name, name) == 0)
            return set_field(opts, &params[i], text, err);
    return vbn_error_set(err, VBN_ERR_INVALID, "there is no parameter \"%s\"", name);
}

/* --- taking a caller's options ------------------------------------------------------------------
 */

static uint64_t default_clock(void *arg)
{
    struct timespec ts;

    (void)arg;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t default_random(void *arg)
{
    uint64_t bits;

    /* The pool is ready long before a user's program runs; the clock is a last resort. */
    if (getrandom(&bits, sizeof(bits), GRND_NONBLOCK) != (ssize_t)sizeof(bits))
        bits = default_clock(arg) * 0x9e3779b97f4a7c15u;
    return bits;
}

static void default_log(void *arg, enum vbn_log_level level, const char *text)
{
    (void)arg;
    if (level <= VBN_LOG_WARN)
        fprintf(stderr, "verbena: %s\n", text);
}

int vbn_options_take(const struct vbn_options *from, struct vbn_options *opts,
                     struct vbn_error *err)
{
    set_defaults(opts);
    if (from) {
        size_t size = from->size < sizeof(*opts) ? from->size : sizeof(*opts);

        if (size < offsetof(struct vbn_options, multithreaded))
            return vbn_error_set(err, VBN_ERR_INVALID,
                                 "options: size %zu is not that of struct vbn_options; fill it by "
                                 "vbn_options_init()",
                                 from->size);
        memcpy(opts, from, size);
        opts->size = sizeof(*opts);
    }
    for (size_t i = 0; i < PARAM_COUNT; i++) {
        const struct vbn_param *p = &params[i];
        uint64_t value = p->type == VBN_PARAM_UINT ? *uint_field(opts, p) : p->min;
        char text[24];

        if (value < p->min || value > p->max) {
            snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
            return bad_value(err, p, text);
        }
    }
    if (!opts->log)
        opts->log = default_log;
    if (!opts->clock_ns)
        opts->clock_ns = default_clock;
    if (!opts->random)
        opts->random = default_random;
    return VBN_OK;
}
