/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ports, `a` and `b`, that know each other, and short words for what tests do with them. */
#ifndef VBN_TEST_TABLE_ENDS_H
#define VBN_TEST_TABLE_ENDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "world.h"

struct end {
    vbn_port_t *port;
    vbn_peer_t *peer; /* the other end */
    struct vbn_port_attr attr;
    unsigned peer_errors;
    int peer_status;
};

extern const struct vbn_transport *tr;
extern struct end a, b;

#define RANK_A 5
#define RANK_B 1000000

/* The ends connect by halves instead of addresses, where they know each other from the start. */
extern bool ends_by_halves;

int ends_open(void **state);
int ends_open_multithreaded(void **state);
/* By clocks that ends_set_back() sets back by an hour: all that they had to do in time is far off
 * then, and until ends_close(). */
int ends_open_clocked(void **state);
void ends_set_back(void);
/* Only a knows the other one. */
int ends_open_one_way(void **state);
int ends_close(void **state);
/* Two ports that do not know each other. */
int ends_open_strangers(void **state);
/* FROM gets TO for its peer, by its address. */
void introduce(struct end *from, struct end *to);
/* Connects them by halves. */
void ends_join(void);
/* Makes half of a connection; its blob of *LEN bytes, at most BLOB_MAX, goes to BLOB. */
enum { BLOB_MAX = 4096 };
vbn_half_t *half_of(const struct end *end, void *blob, size_t *len);
/* Closes one of them early. */
void end_close(struct end *end);

/* One look at both; returns how much was done. */
int step(void);
/* Steps until OP is over; gives its status. Fails the test when it takes too long. */
int finish(struct vbn_op *op);
/* Some steps in which nothing is expected. */
void linger(void);

/* Starts, which must not fail; what was over at once looks like what was over later. */
void post_send(struct end *from, const void *buf, size_t len, uint64_t tag, struct vbn_op *op);
void post_recv(struct end *at, vbn_peer_t *peer, void *buf, size_t len, uint64_t tag, uint64_t mask,
               struct vbn_op *op);

/* A pattern that depends on SEED, and the check of it. */
void fill(void *buf, size_t len, unsigned seed);
void assert_filled(const void *buf, size_t len, unsigned seed);

void *allocate(size_t len);

extern const struct CMUnitTest tag_tests[], rma_tests[], event_tests[], misuse_tests[];
extern const struct CMUnitTest half_tests[], group_tests[];
extern const size_t half_test_count, group_test_count;
extern const struct CMUnitTest timed_tests[];
extern const size_t tag_test_count, rma_test_count, event_test_count, misuse_test_count;
extern const size_t timed_test_count;

#define TABLE_TEST(name) cmocka_unit_test_setup_teardown(name, ends_open, ends_close)

#endif
