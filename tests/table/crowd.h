/* SPDX-License-Identifier: BSD-3-Clause */
/* Several processes that all talk to each other, while one of them is killed or stopped. */
#ifndef VBN_TEST_TABLE_CROWD_H
#define VBN_TEST_TABLE_CROWD_H

#include <stdbool.h>

/* Whether the transport watches its peers, which UCX may be told not to. */
bool deaths_are_told(void);

/* Tests. */
void a_killed_rank_ends_alone(void **state);
void a_stopped_rank_is_waited_for(void **state);

/* The processes of these tests are started as `test_table --child crowd RANK DESCRIPTOR`. */
int crowd_child(char **words);

#endif
