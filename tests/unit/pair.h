/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts that talk to each other over the simulated fabric (tests/sim/fabric.h), one a node.
 * Time passes only in pair_turn() and in vbn_close(), where asking for it makes it pass.
 */
#ifndef VBN_TESTS_PAIR_H
#define VBN_TESTS_PAIR_H

#include "unit.h"

#include "context.h"
#include "../sim/fabric.h"

#define SIDES_MAX 4
#define PAIR_ID   5 /* of the messages that are counted */

struct side {
    int node, rank;
    vbn_context_t *ctx; /* NULL: closed */
    bool asleep;        /* makes no progress */
    unsigned char addr[VBN_ADDRESS_MAX];
    size_t addr_len;
    vbn_endpoint_t *to[SIDES_MAX];
    uint64_t sent[SIDES_MAX], got[SIDES_MAX]; /* messages to and from each other side */
    unsigned failures;
    int status; /* of the last failure */
    vbn_endpoint_t *failed;
    char reason[256];
};
extern struct side side[SIDES_MAX];

/* Makes the fabric and COUNT sides; TWEAK and ATTR may be NULL. Contexts are open afterwards. */
void pair_open(int count, uint64_t seed, const struct fabric_config *config,
               const struct fabric_node_attr *attr, void (*tweak)(struct vbn_options *opts));

/* Opens side N's context, as another process, where it has none. */
int pair_open_side(int n, void (*tweak)(struct vbn_options *opts), struct vbn_error *err);

/* The endpoint of side A to side B, made if there is none. */
vbn_endpoint_t *pair_endpoint(int a, int b);

/* Sends one message of LEN bytes whose contents the receiver checks. */
int pair_send(int a, int b, size_t len);

/* Every open side makes progress, then 20 us pass. */
void pair_turn(void);
void pair_pass(uint64_t ms);

/* Turns until DONE says so; fails the test after MS. */
void pair_until(bool (*done)(void), uint64_t ms);

/* All that was sent to a side that lives has arrived. */
bool pair_quiet(void);

/* vbn_shutdown() everywhere until nothing is left, then vbn_close(). */
void pair_close(void);

/* vbn_close() alone, while the others go on; *NS gets the time it took. */
int pair_close_side(int n, uint64_t *ns);

/* cmocka's teardown: closes what is open, and fails on any violation or leak the fabric saw. */
int pair_teardown(void **state);

#endif
