/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of verbena-perf share: its options, a pair of ranks, and what was measured. */
#ifndef VBN_PERF_H
#define VBN_PERF_H

#include "verbena_bootstrap.h"

enum perf_test {
    PERF_LATENCY,
    PERF_BANDWIDTH,
    PERF_RATE,
    PERF_PUT,
    PERF_GET,
    PERF_INCAST,
    PERF_OVERLAP,
    PERF_IDLE,
    PERF_TESTS
};

/* Sets of 1u << enum perf_test. */
#define PERF_SIZELESS   (1u << PERF_RATE | 1u << PERF_IDLE)
#define PERF_IN_PERCENT (1u << PERF_OVERLAP | 1u << PERF_IDLE)

#define PERF_RATE_BYTES  8u
#define PERF_RATE_WINDOW 64u

/* --- options.c -------------------------------------------------------------------------------- */

struct perf_options {
    unsigned tests; /* a set of 1u << enum perf_test */
    size_t size_min, size_max;
    double seconds; /* for each figure */
    const char *csv;
    unsigned window;
    bool registered;
    bool wait; /* in the transport's wait, which may sleep, instead of polling */
};

extern const char *const perf_test_names[PERF_TESTS];

/* Reads the command line, which stays as it is; ends the program where it is wrong. */
void perf_options_read(int argc, char **argv, struct perf_options *opts);

/* The sizes of TEST: *SIZE is set to the first, or from one to the next; false: there is none. */
bool perf_first_size(const struct perf_options *opts, enum perf_test test, size_t *size);
bool perf_next_size(const struct perf_options *opts, enum perf_test test, size_t *size);

/* --- measuring -------------------------------------------------------------------------------- */

/* Of one test and size; 0: was not measured. */
struct perf_figures {
    double us, us_p99; /* a message or operation */
    double mb_s, msgs_s;
    double percent; /* measured by those of PERF_IN_PERCENT */
};

/* This rank and its partner. One of both measures, the other does what it is asked for. */
struct perf_pair {
    struct vbn_job *job;
    const struct perf_options *opts;
    uint32_t partner; /* its rank */
    vbn_peer_t *peer;
    bool measures;
    bool yields; /* where there is nothing to do, its processor to others */

    char *out, *in; /* size_max bytes each, and a margin */
    size_t mapped;  /* bytes of both */
    vbn_region_t *region;
    vbn_rkey_t *rkey; /* the partner's memory */
    uint64_t remote_out, remote_in;

    struct vbn_op *ops; /* as many as the largest window has; for incast, of each rank */
    double *samples;
    struct vbn_error err; /* why a status is no VBN_OK, where that is known */
};

/* pair.c: memory and partner, for all tests. Statuses are the transport's. */
int perf_pair_init(struct perf_pair *p, struct vbn_job *job, const struct perf_options *opts);
int perf_pair_share(struct perf_pair *p); /* registers, and swaps keys; once is enough */
void perf_pair_fini(struct perf_pair *p);

/* P with another rank instead of its partner, and OPS of its own. */
struct perf_pair perf_pair_with(const struct perf_pair *p, uint32_t rank, struct vbn_op *ops);

/* One look for something to do; where it was fruitless and processors are scarce, others may have
 * this one. */
void perf_poll(struct perf_pair *p);

/* Goes on until OP, which STARTED says was begun, is over. */
int perf_finish(struct perf_pair *p, int started, struct vbn_op *op);
int perf_finish_all(struct perf_pair *p, struct vbn_op *ops, unsigned count);
int perf_send(struct perf_pair *p, const void *buf, size_t len, uint64_t tag, struct vbn_op *op);
int perf_recv(struct perf_pair *p, void *buf, size_t len, uint64_t tag, struct vbn_op *op);
int perf_tell(struct perf_pair *p, uint64_t tag); /* a message without content */
int perf_hear(struct perf_pair *p, uint64_t tag);

/* Tags are even; the lowest bit is the sender's to tell something by. */
#define PERF_LAST   1u
#define PERF_ANSWER 6u

/* WINDOW receives of LEN bytes for what bears TAG; as many sent, and answered by PERF_ANSWER. *TOLD
 * gets the answer's lowest bit. */
int perf_post_window(struct perf_pair *p, size_t len, unsigned window, uint64_t tag);
int perf_send_window(struct perf_pair *p, size_t len, unsigned window, uint64_t tag, bool *told);

/* data.c: contents by which a wrong byte is noticed, and its place. */
void perf_fill(struct perf_pair *p, size_t len);   /* `out`, of this rank */
void perf_poison(struct perf_pair *p, size_t len); /* `in` */
int perf_check(struct perf_pair *p, size_t len);   /* `in`: the partner's bytes, and no more */

/* incast.c: all ranks call it; FIGURES of rank 0. */
int perf_incast(struct perf_pair *p, size_t len, struct perf_figures *figures);

/* tagged.c, onesided.c, overlap.c: both of the pair call them; FIGURES of the one that measures. */
int perf_latency(struct perf_pair *p, size_t len, struct perf_figures *figures);
int perf_stream(struct perf_pair *p, size_t len, unsigned window, struct perf_figures *figures);
int perf_onesided(struct perf_pair *p, enum perf_test test, size_t len,
                  struct perf_figures *figures);
int perf_overlap(struct perf_pair *p, size_t len, struct perf_figures *figures);
int perf_idle(struct perf_pair *p, struct perf_figures *figures);

/* --- clock.c ---------------------------------------------------------------------------------- */

/* When to count and when to end: what comes first warms up. */
struct perf_span {
    double start_us, end_us;
};

double perf_now_us(void);
double perf_processor_us(void); /* of this process */
void perf_compute(double us);   /* and looks at nothing */
struct perf_span perf_span_begin(const struct perf_options *opts);

#define PERF_SAMPLES_MAX (1u << 20)

/* The median of SAMPLES, and their 99th percentile. Sorts them. */
void perf_summary(double *samples, size_t count, double *median, double *p99);

/* --- report.c --------------------------------------------------------------------------------- */

struct perf_report;

/* Rank 0 opens the file and prints the head. On all ranks together; VBN_ERR_INVALID: errno says. */
int perf_report_open(struct vbn_job *job, const struct perf_options *opts,
                     struct perf_report **report);
/* Gathers the ranks' FIGURES; rank 0 prints a line. On all ranks together. */
int perf_report_line(struct perf_report *report, enum perf_test test, size_t len,
                     const struct perf_figures *figures);
/* VBN_ERR_INVALID: not all could be written; errno says. REPORT may be NULL. */
int perf_report_close(struct perf_report *report);

#endif
