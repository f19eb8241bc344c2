/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbena-tune: measures every algorithm of the collectives, fits the model behind the built-in
 * choice to what it saw, and writes the rules that choose the fastest.
 */
#ifndef VBN_TUNE_H
#define VBN_TUNE_H

#include "verbena_bootstrap.h"
#include "verbena_coll.h"

#define TUNE_SIZES_MAX 24u

/* The model's numbers, as in struct vbn_team_options, in ns and ns a byte. */
struct tune_model {
    double latency_ns, message_ns, byte_ns, reduce_ns;
};

struct tune_options {
    const char *output; /* file for rules; NULL: none */
    uint32_t colls;     /* a bit each */
    size_t sizes[TUNE_SIZES_MAX];
    unsigned size_count;
    double seconds;      /* for one operation and size */
    uint32_t predict;    /* ranks to predict for instead of measuring; 0: measure */
    uint32_t processors; /* that run at a time; 0: as the job has it */
    struct tune_model model;
};

/* A way to do an operation. */
struct tune_way {
    enum vbn_coll coll;
    unsigned algorithm;
    size_t param; /* 0: the default */
};

/* One figure. */
struct tune_point {
    struct tune_way way;
    size_t bytes;  /* of the vector, or of a rank's block */
    bool built_in; /* the library would have chosen it */
    double us;
};

struct tune_points {
    struct tune_point *point;
    size_t count, room;
};

/* Every error is said to stderr where it is found. */

/* Takes tune's options out of the command line; ends the program upon --help and bad ones. */
void tune_parse(int argc, char **argv, struct tune_options *opts);

/* Whether COLL has one block a rank: sizes are of a block then. */
bool tune_has_blocks(enum vbn_coll coll);

/* Whether there is anything to choose for COLL, and a rule could choose it by size. */
bool tune_can(enum vbn_coll coll);

/* The bytes up to which the library takes a message for one that need not be offered. */
uint64_t tune_eager(void);

/* The I-th way to do COLL with BYTES and RANKS ranks; false beyond the last. */
bool tune_way_at(enum vbn_coll coll, uint32_t ranks, size_t bytes, unsigned i,
                 struct tune_way *way);

/* ALGORITHM or ALGORITHM/PARAM, as in rules. */
void tune_way_name(const struct tune_way *way, char *name, size_t len);

/* Measures all ways to do COLL with BYTES and adds them to POINTS: the same on all ranks. */
int tune_measure(const struct vbn_job *job, const struct tune_options *opts, enum vbn_coll coll,
                 size_t bytes, struct tune_points *points);

/* The median of COUNT values, one or more, which it puts in order. */
double tune_median(double *values, size_t count);

/* What WAY takes by MODEL, in µs. */
double tune_predict(const struct tune_model *model, const struct tune_way *way, size_t bytes,
                    uint32_t ranks, uint32_t processors);

/* The model that comes nearest to POINTS, relative errors counted; all of it is 0 or more. */
struct tune_model tune_fit(const struct tune_points *points, uint32_t ranks, uint32_t processors);

/* Prints the tables. */
void tune_report(const struct tune_points *points, const struct tune_model *model, uint32_t ranks,
                 uint32_t processors);
void tune_report_predicted(const struct tune_options *opts);

/* Writes the rules that take the fastest way for RANKS ranks. */
int tune_write_rules(const struct tune_points *points, uint32_t ranks, const char *path);

#endif
