/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the table's tests run: two ports of one transport in this process. Each program of the
 * suite is linked with one world: world_loader.c takes the transport from the loader; others can
 * put the ports on a simulated fabric.
 */
#ifndef VBN_TEST_TABLE_WORLD_H
#define VBN_TEST_TABLE_WORLD_H

#include "verbena_transport.h"

/* Opens a port of the world's transport; also sets *TR. A failure fails the test. */
void world_open(const struct vbn_port_config *config, const struct vbn_transport **tr,
                vbn_port_t **port);

/* Called before and after each test; non-zero fails it. */
int world_begin(void);
int world_end(void);

/* Called whenever a test has nothing to do but wait for ports that it progresses by itself. */
void world_idle(void);

/* False where time is not real, and so no descriptor becomes readable by itself. */
bool world_has_time(void);

/* Tests that only this world can run. */
struct CMUnitTest;
const struct CMUnitTest *world_tests(size_t *count);

/* The program was started by one of them, as `test_table --child WORDS…`. */
int world_child(char **words);

#endif
