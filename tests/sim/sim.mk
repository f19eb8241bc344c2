# SPDX-License-Identifier: BSD-3-Clause
# The simulated fabric, its own tests, and workloads over the transport on it.
#
#     make check-sim SEEDS=1..3000 RANKS=0 JOBS=2    a run a seed; RANKS=0: 2 to 16, by the seed
#     make soak                                      new seeds for as long as one likes

check_LTLIBRARIES = tests/sim/libfabric_sim.la
tests_sim_libfabric_sim_la_SOURCES = \
	tests/sim/cm_conn.c \
	tests/sim/cm_event.c \
	tests/sim/cm_id.c \
	tests/sim/cm_msg.c \
	tests/sim/cq.c \
	tests/sim/device.c \
	tests/sim/engine.c \
	tests/sim/fabric.h \
	tests/sim/fail.c \
	tests/sim/faults.c \
	tests/sim/mcast.c \
	tests/sim/mem.c \
	tests/sim/names.c \
	tests/sim/node.c \
	tests/sim/object.c \
	tests/sim/pool.c \
	tests/sim/post.c \
	tests/sim/qp.c \
	tests/sim/qp_error.c \
	tests/sim/respond.c \
	tests/sim/rq.c \
	tests/sim/sched.c \
	tests/sim/sim.h \
	tests/sim/trace.c \
	tests/sim/wrap_alloc.c
tests_sim_libfabric_sim_la_CFLAGS = $(AM_CFLAGS) $(VBN_SIM_CFLAGS)

# Link flags of programs whose allocations are made to fail.
SIM_WRAP = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=posix_memalign \
	-Wl,--wrap=aligned_alloc,--wrap=free,--wrap=mmap,--wrap=munmap

# Link flags of programs with several threads (guard.c).
GUARD_WRAP = -Wl,--wrap=ibv_create_cq,--wrap=ibv_create_qp,--wrap=ibv_destroy_qp \
	-Wl,--wrap=ibv_attach_mcast,--wrap=ibv_detach_mcast \
	-Wl,--wrap=ibv_create_ah,--wrap=ibv_destroy_ah \
	-Wl,--wrap=ibv_modify_qp,--wrap=ibv_reg_mr_iova2,--wrap=ibv_dereg_mr \
	-Wl,--wrap=_ibv_query_gid_ex -Wl,--wrap=ibv_get_async_event,--wrap=ibv_ack_async_event \
	-Wl,--wrap=rdma_create_id,--wrap=rdma_destroy_id,--wrap=rdma_resolve_addr \
	-Wl,--wrap=rdma_resolve_route,--wrap=rdma_init_qp_attr,--wrap=rdma_connect \
	-Wl,--wrap=rdma_accept,--wrap=rdma_establish,--wrap=rdma_reject,--wrap=rdma_disconnect \
	-Wl,--wrap=rdma_join_multicast,--wrap=rdma_leave_multicast \
	-Wl,--wrap=rdma_get_cm_event,--wrap=rdma_ack_cm_event \
	-Wl,--wrap=getifaddrs,--wrap=freeifaddrs

if HAVE_CMOCKA
VBN_SIM_TESTS = tests/sim/test_fabric tests/sim/test_misuse tests/sim/test_faults \
	tests/sim/test_failing_calls tests/sim/test_mcast tests/sim/test_groups
check_PROGRAMS += $(VBN_SIM_TESTS)
TESTS += $(VBN_SIM_TESTS)
endif

tests_sim_test_fabric_SOURCES = tests/sim/test_fabric.c tests/sim/rig.c tests/sim/rig.h
tests_sim_test_fabric_LDADD = tests/sim/libfabric_sim.la $(CMOCKA_LIBS)
tests_sim_test_misuse_SOURCES = tests/sim/test_misuse.c tests/sim/rig.c tests/sim/rig.h
tests_sim_test_misuse_LDADD = tests/sim/libfabric_sim.la $(CMOCKA_LIBS)
tests_sim_test_faults_SOURCES = tests/sim/test_faults.c tests/sim/rig.c tests/sim/rig.h
tests_sim_test_faults_LDADD = tests/sim/libfabric_sim.la $(CMOCKA_LIBS)
tests_sim_test_mcast_SOURCES = tests/sim/test_mcast.c tests/sim/rig.c tests/sim/rig.h
tests_sim_test_mcast_LDADD = tests/sim/libfabric_sim.la $(CMOCKA_LIBS)
tests_sim_test_groups_SOURCES = tests/sim/test_groups.c tests/sim/world.c tests/sim/world.h
tests_sim_test_groups_LDADD = libverbena_core.la tests/sim/libfabric_sim.la $(CMOCKA_LIBS)
tests_sim_test_groups_LDFLAGS = $(AM_LDFLAGS) $(SIM_WRAP)
tests_sim_test_failing_calls_SOURCES = tests/sim/test_failing_calls.c tests/sim/world.c \
	tests/sim/world.h
tests_sim_test_failing_calls_LDADD = libverbena_core.la tests/sim/libfabric_sim.la $(CMOCKA_LIBS)
tests_sim_test_failing_calls_LDFLAGS = $(AM_LDFLAGS) $(SIM_WRAP)

check_PROGRAMS += tests/sim/simulate
tests_sim_simulate_SOURCES = \
	tests/sim/load_crowd.c \
	tests/sim/load_groups.c \
	tests/sim/load_random.c \
	tests/sim/load_storm.c \
	tests/sim/load_tagged.c \
	tests/sim/loads.h \
	tests/sim/messages.c \
	tests/sim/messages.h \
	tests/sim/simulate.c \
	tests/sim/world.c \
	tests/sim/world.h
tests_sim_simulate_LDADD = libverbena_core.la tests/sim/libfabric_sim.la
tests_sim_simulate_LDFLAGS = $(AM_LDFLAGS) $(SIM_WRAP)

dist_check_SCRIPTS += tests/sim/test_simulate
TESTS += tests/sim/test_simulate

SEEDS = 1..3000
RANKS = 0
JOBS = 2

check-sim: tests/sim/simulate$(EXEEXT)
	tests/sim/simulate$(EXEEXT) --seeds $(SEEDS) --ranks $(RANKS) --jobs $(JOBS)

soak: tests/sim/simulate$(EXEEXT)
	tests/sim/simulate$(EXEEXT) --seeds $$(date +%s)000.. --ranks $(RANKS) --jobs $(JOBS)

.PHONY: check-sim soak

EXTRA_DIST += tests/sim/mutants
