/* SPDX-License-Identifier: BSD-3-Clause */
/* What is thrown when, and the verdict: see hostile.h. */
#include "hostile.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { FLYING_MAX = 12 }; /* at once, but for half-open ones */

_Noreturn void die(const char *what)
{
    fprintf(stderr, "hostile: %s: %s\n", what, strerror(errno));
    exit(2);
}

uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* splitmix64 */
uint64_t rnd(struct hostile *h)
{
    uint64_t z = h->random += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* --- throwing --------------------------------------------------------------------------------- */

static struct kind *half_open_kind(void)
{
    struct kind *kind = kinds;

    while (kind->then != THEN_HALF)
        kind++;
    return kind;
}

/* Each in turn; some have their own pace. */
static void throw_next(struct hostile *h, unsigned *at)
{
    struct kind *kind = &kinds[(*at)++ % kind_count];
    uint64_t now = now_ns();

    if (now < kind->next_ns || !shot_start(h, kind))
        return;
    kind->next_ns = now + kind->pause_ms * UINT64_C(1000000);
}

/* More half-open connections at once than one rank may allow; all are held until all are answered.
 */
static void burst(struct hostile *h)
{
    unsigned count = h->target_count;

    h->bursting = true;
    h->target_count = 1;
    for (unsigned i = 0; i < BURST; i++) {
        while (h->flying - h->half_open >= FLYING_MAX)
            shots_advance(h, 10);
        shot_start(h, half_open_kind());
    }
    while (h->flying > h->half_open)
        shots_advance(h, 10);
    h->target_count = count;
    h->bursting = false;
    shots_let_go(h);
}

static void throw_all(struct hostile *h)
{
    uint64_t end = now_ns() + h->seconds * UINT64_C(1000000000);
    unsigned at = 0;

    while (now_ns() < end) {
        if (h->flying - h->half_open < FLYING_MAX)
            throw_next(h, &at);
        shots_advance(h, h->flying - h->half_open < FLYING_MAX ? 1 : 10);
    }
    shots_end(h);
}

/* --- the verdict ------------------------------------------------------------------------------ */

/* What there is to complain of KIND, or NULL. */
static const char *complaint(const struct kind *kind)
{
    bool refusable = kind->then == THEN_REFUSED || kind->then == THEN_SPEAKS;

    if (kind->wrong)
        return kind->note;
    if (!kind->thrown)
        return "never thrown";
    if (kind->unanswered)
        return "some were neither refused nor taken";
    if (refusable && !kind->refused)
        return "none was refused";
    return NULL;
}

static unsigned report(void)
{
    unsigned failed = 0;

    for (const struct kind *kind = kinds; kind < kinds + kind_count; kind++) {
        const char *bad = complaint(kind);

        failed += bad != NULL;
        printf(
            "%s hostile/%s (%s%s%u thrown, %u refused, %u held, %u of them cut off, %u told to come "
            "back, %u wrong, "
            "%u unanswered)\n",
            bad ? "FAIL" : "PASS", kind->name, bad ? bad : "", bad ? "; " : "", kind->thrown,
            kind->refused, kind->held, kind->cut, kind->busy, kind->wrong, kind->unanswered);
    }
    return failed;
}

/* The job has given no more than its limit, and the others were told so. */
static unsigned report_bound(const struct hostile *h, unsigned most)
{
    /* Those that the job has just ended may not have heard of it. */
    bool good = h->half_open_most <= most + FLYING_MAX && half_open_kind()->busy > 0;

    printf("%s hostile/half-open-are-bounded (%u at once, %u told to come back)\n",
           good ? "PASS" : "FAIL", h->half_open_most, half_open_kind()->busy);
    return !good;
}

/* --- the command line ------------------------------------------------------------------------- */

static _Noreturn void usage(void)
{
    fprintf(stderr,
            "usage: hostile --address IP --job-key HEX --buf-size BYTES [--seconds N] [--seed S]\n"
            "               [--half-open-max N] PORT:IDENTITY…\n"
            "Throws more half-open connections at a running job than it may take, and then for N\n"
            "seconds (default 20) malformed requests, connections and messages of all kinds. The\n"
            "job's contexts listen at IP; their identities, and the job's key, are what they log\n"
            "(btl_base_verbose 20). Prints PASS or FAIL for each kind; PASS: it was thrown, and\n"
            "each time refused, or held for no longer and no more often than allowed.\n");
    exit(2);
}

static void add_target(struct hostile *h, const char *text)
{
    struct target *t = &h->targets[h->target_count];
    unsigned long long uid;
    unsigned port;

    if (h->target_count == TARGETS_MAX || sscanf(text, "%u:%llx", &port, &uid) != 2)
        usage();
    t->port = (uint16_t)port;
    t->uid = uid;
    h->target_count++;
}

static unsigned parse(struct hostile *h, int argc, char **argv)
{
    static const struct option options[] = {{"address", required_argument, NULL, 'a'},
                                            {"job-key", required_argument, NULL, 'k'},
                                            {"buf-size", required_argument, NULL, 'b'},
                                            {"seconds", required_argument, NULL, 's'},
                                            {"seed", required_argument, NULL, 'r'},
                                            {"half-open-max", required_argument, NULL, 'm'},
                                            {NULL, 0, NULL, 0}};
    unsigned most = 256;
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 'a' && inet_pton(AF_INET, optarg, &h->address.sin_addr) == 1)
            h->address.sin_family = AF_INET;
        else if (c == 'k')
            h->job_key = strtoull(optarg, NULL, 16);
        else if (c == 'b')
            h->buf_size = (uint32_t)strtoul(optarg, NULL, 10);
        else if (c == 's')
            h->seconds = (unsigned)strtoul(optarg, NULL, 10);
        else if (c == 'r')
            h->random = strtoull(optarg, NULL, 0);
        else if (c == 'm')
            most = (unsigned)strtoul(optarg, NULL, 10);
        else
            usage();
    }
    while (optind < argc)
        add_target(h, argv[optind++]);
    if (!h->address.sin_family || h->target_count < 2 || !h->seconds || !h->buf_size ||
        h->buf_size > MESSAGE_MAX - sizeof(struct vbn_wire_hdr))
        usage();
    return most;
}

int main(int argc, char **argv)
{
    static struct hostile h = {.seconds = 20, .random = 1};
    unsigned most = parse(&h, argc, argv), failed;

    h.qp_nums = (uint32_t)rnd(&h);
    h.memory = calloc(SHOTS_MAX, MESSAGE_MAX);
    h.channel = rdma_create_event_channel();
    if (!h.memory || !h.channel || fcntl(h.channel->fd, F_SETFL, O_NONBLOCK))
        die("rdma_create_event_channel");
    setvbuf(stdout, NULL, _IOLBF, 0);
    burst(&h);
    failed = report_bound(&h, most);
    throw_all(&h);
    failed += report();
    return failed != 0;
}
