# SPDX-License-Identifier: BSD-3-Clause
# cmocka programs, one for each object: tests/unit/test_<object>.c.

if HAVE_CMOCKA
# Over verbs that do what the test says (fake.h).
UNIT_FAKED = tests/unit/test_away tests/unit/test_bare tests/unit/test_cm tests/unit/test_conn tests/unit/test_cq tests/unit/test_device \
	tests/unit/test_endpoint tests/unit/test_flow tests/unit/test_group tests/unit/test_half tests/unit/test_mem \
	tests/unit/test_netif tests/unit/test_options tests/unit/test_pool tests/unit/test_progress \
	tests/unit/test_qp tests/unit/test_qpmap tests/unit/test_ready tests/unit/test_recover tests/unit/test_rider tests/unit/test_ring tests/unit/test_rma tests/unit/test_rx \
	tests/unit/test_stranger \
	tests/unit/test_timer tests/unit/test_turns tests/unit/test_tx tests/unit/test_wait tests/unit/test_wire
check_PROGRAMS += $(UNIT_FAKED)
TESTS += $(UNIT_FAKED)
LDADD = libverbena_core.la $(CMOCKA_LIBS)

UNIT_COMMON = tests/unit/fake.h tests/unit/fake_cm.c tests/unit/fake_verbs.c tests/unit/lone.c \
	tests/unit/lone.h tests/unit/unit.c tests/unit/unit.h tests/unit/wraps.c

# The calls that wraps.c replaces.
UNIT_LINK = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc \
	-Wl,--wrap=getrlimit,--wrap=syscall,--wrap=opendir,--wrap=fopen,--wrap=access \
	-Wl,--wrap=exit,--wrap=__assert_fail

tests_unit_test_away_SOURCES = tests/unit/test_away.c $(UNIT_COMMON)
tests_unit_test_away_LDFLAGS = $(UNIT_LINK)
tests_unit_test_bare_SOURCES = tests/unit/test_bare.c $(UNIT_COMMON)
tests_unit_test_bare_LDFLAGS = $(UNIT_LINK)
tests_unit_test_cm_SOURCES = tests/unit/test_cm.c $(UNIT_COMMON)
tests_unit_test_cm_LDFLAGS = $(UNIT_LINK)
tests_unit_test_conn_SOURCES = tests/unit/test_conn.c $(UNIT_COMMON)
tests_unit_test_conn_LDFLAGS = $(UNIT_LINK)
tests_unit_test_cq_SOURCES = tests/unit/test_cq.c $(UNIT_COMMON)
tests_unit_test_cq_LDFLAGS = $(UNIT_LINK)
tests_unit_test_device_SOURCES = tests/unit/test_device.c $(UNIT_COMMON)
tests_unit_test_device_LDFLAGS = $(UNIT_LINK)
tests_unit_test_endpoint_SOURCES = tests/unit/test_endpoint.c $(UNIT_COMMON)
tests_unit_test_endpoint_LDFLAGS = $(UNIT_LINK)
tests_unit_test_flow_SOURCES = tests/unit/test_flow.c $(UNIT_COMMON)
tests_unit_test_flow_LDFLAGS = $(UNIT_LINK)
tests_unit_test_group_SOURCES = tests/unit/test_group.c $(UNIT_COMMON)
tests_unit_test_group_LDFLAGS = $(UNIT_LINK)
tests_unit_test_half_SOURCES = tests/unit/test_half.c $(UNIT_COMMON)
tests_unit_test_half_LDFLAGS = $(UNIT_LINK)
tests_unit_test_mem_SOURCES = tests/unit/test_mem.c $(UNIT_COMMON)
tests_unit_test_mem_LDFLAGS = $(UNIT_LINK)
tests_unit_test_netif_SOURCES = tests/unit/test_netif.c $(UNIT_COMMON)
tests_unit_test_netif_LDFLAGS = $(UNIT_LINK)
tests_unit_test_options_SOURCES = tests/unit/test_options.c $(UNIT_COMMON)
tests_unit_test_options_LDFLAGS = $(UNIT_LINK)
tests_unit_test_pool_SOURCES = tests/unit/test_pool.c $(UNIT_COMMON)
tests_unit_test_pool_LDFLAGS = $(UNIT_LINK)
tests_unit_test_progress_SOURCES = tests/unit/test_progress.c $(UNIT_COMMON)
tests_unit_test_progress_LDFLAGS = $(UNIT_LINK)
tests_unit_test_qp_SOURCES = tests/unit/test_qp.c $(UNIT_COMMON)
tests_unit_test_qp_LDFLAGS = $(UNIT_LINK)
tests_unit_test_qpmap_SOURCES = tests/unit/test_qpmap.c $(UNIT_COMMON)
tests_unit_test_qpmap_LDFLAGS = $(UNIT_LINK)
tests_unit_test_rider_SOURCES = tests/unit/test_rider.c $(UNIT_COMMON)
tests_unit_test_rider_LDFLAGS = $(UNIT_LINK)
tests_unit_test_ready_SOURCES = tests/unit/test_ready.c $(UNIT_COMMON)
tests_unit_test_ready_LDFLAGS = $(UNIT_LINK)
tests_unit_test_recover_SOURCES = tests/unit/test_recover.c $(UNIT_COMMON)
tests_unit_test_recover_LDFLAGS = $(UNIT_LINK)
tests_unit_test_ring_SOURCES = tests/unit/test_ring.c $(UNIT_COMMON)
tests_unit_test_ring_LDFLAGS = $(UNIT_LINK)
tests_unit_test_rma_SOURCES = tests/unit/test_rma.c $(UNIT_COMMON)
tests_unit_test_rma_LDFLAGS = $(UNIT_LINK)
tests_unit_test_rx_SOURCES = tests/unit/test_rx.c $(UNIT_COMMON)
tests_unit_test_rx_LDFLAGS = $(UNIT_LINK)
tests_unit_test_stranger_SOURCES = tests/unit/test_stranger.c $(UNIT_COMMON)
tests_unit_test_stranger_LDFLAGS = $(UNIT_LINK)
tests_unit_test_timer_SOURCES = tests/unit/test_timer.c $(UNIT_COMMON)
tests_unit_test_timer_LDFLAGS = $(UNIT_LINK)
tests_unit_test_turns_SOURCES = tests/unit/test_turns.c $(UNIT_COMMON)
tests_unit_test_turns_LDFLAGS = $(UNIT_LINK)
tests_unit_test_tx_SOURCES = tests/unit/test_tx.c $(UNIT_COMMON)
tests_unit_test_tx_LDFLAGS = $(UNIT_LINK)
tests_unit_test_wait_SOURCES = tests/unit/test_wait.c $(UNIT_COMMON)
tests_unit_test_wait_LDFLAGS = $(UNIT_LINK) -Wl,--wrap=pthread_mutex_unlock
tests_unit_test_wire_SOURCES = tests/unit/test_wire.c $(UNIT_COMMON)
tests_unit_test_wire_LDFLAGS = $(UNIT_LINK)

# Not a test: counted by `make cost`.
check_PROGRAMS += tests/unit/cost
tests_unit_cost_SOURCES = tests/unit/cost.c $(UNIT_COMMON)
tests_unit_cost_LDFLAGS = $(UNIT_LINK)
endif
