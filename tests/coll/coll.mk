# SPDX-License-Identifier: BSD-3-Clause
# The collectives over a transport in memory. VBN_COLL_FULL=1 tests/coll/test_coll runs the whole
# matrix. The same over rc on the simulated fabric:
#     tests/coll/test_coll_sim --full [--manner NAME] [--sizes A..B] [--seeds A..B] [--coll NAME]
#     tests/coll/test_coll_sim --ranks 500        barrier, bcast, allreduce and allgather, small
#     tests/coll/test_coll_sim --deaths --seeds 1..1000

if HAVE_CMOCKA
COLL_TESTS = tests/coll/test_coll tests/coll/test_coll_sim tests/coll/test_dtype tests/coll/test_messages \
	tests/coll/test_schedule tests/coll/test_scratch tests/coll/test_team
check_PROGRAMS += $(COLL_TESTS)
TESTS += $(COLL_TESTS)

COLL_SUITE = tests/coll/suite.c tests/coll/suite.h tests/coll/suite_data.c tests/coll/suite_data.h
COLL_LOOP = tests/coll/coll_unit.h tests/coll/loop.c tests/coll/loop.h tests/coll/fan.c tests/coll/fan.h
tests_coll_test_coll_SOURCES = tests/coll/test_coll.c $(COLL_SUITE) $(COLL_LOOP)
tests_coll_test_coll_sim_SOURCES = tests/coll/test_coll_sim.c tests/coll/sim_death.c \
	tests/coll/sim_death.h tests/coll/sim_job.c tests/coll/sim_job.h tests/coll/coll_unit.h \
	$(COLL_SUITE)
tests_coll_test_coll_sim_LDADD = libverbena_core.la tests/sim/libfabric_sim.la $(CMOCKA_LIBS)
tests_coll_test_coll_sim_LDFLAGS = $(AM_LDFLAGS) $(SIM_WRAP)
tests_coll_test_dtype_SOURCES = tests/coll/test_dtype.c tests/coll/coll_unit.h
tests_coll_test_messages_SOURCES = tests/coll/test_messages.c tests/coll/sim_job.c \
	tests/coll/sim_job.h tests/coll/fan.c tests/coll/fan.h tests/coll/coll_unit.h
tests_coll_test_messages_LDADD = libverbena_core.la tests/sim/libfabric_sim.la $(CMOCKA_LIBS)
tests_coll_test_messages_LDFLAGS = $(AM_LDFLAGS) $(SIM_WRAP)
tests_coll_test_schedule_SOURCES = tests/coll/test_schedule.c tests/coll/coll_unit.h
tests_coll_test_scratch_SOURCES = tests/coll/test_scratch.c tests/coll/coll_unit.h
tests_coll_test_team_SOURCES = tests/coll/test_team.c $(COLL_LOOP)
tests_coll_test_team_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc \
	-Wl,--wrap=aligned_alloc

# Not a test: counted by `make cost`.
check_PROGRAMS += tests/coll/cost_coll
tests_coll_cost_coll_SOURCES = tests/coll/cost_coll.c tests/coll/sim_job.c tests/coll/sim_job.h
tests_coll_cost_coll_LDADD = libverbena_core.la tests/sim/libfabric_sim.la
tests_coll_cost_coll_LDFLAGS = $(AM_LDFLAGS) $(SIM_WRAP)
endif

# A rank in each process, for tests/coll/run-job.
check_PROGRAMS += tests/coll/coll_job
tests_coll_coll_job_SOURCES = tests/coll/coll_job.c tests/coll/suite.c tests/coll/suite.h \
	tests/coll/suite_data.c tests/coll/suite_data.h
tests_coll_coll_job_CPPFLAGS = $(AM_CPPFLAGS) -iquote $(srcdir)/plugin/loader \
	-iquote $(srcdir)/plugin/bootstrap
tests_coll_coll_job_LDADD = libverbena_bootstrap.la libverbena_loader.la libverbena.la
tests_coll_coll_job_LDFLAGS = $(AM_LDFLAGS) -no-install
dist_check_SCRIPTS += tests/coll/run-job
