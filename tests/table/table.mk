# SPDX-License-Identifier: BSD-3-Clause
# The transport table's promises, asked of each transport: TABLE_TEST and a world (world.h).

TABLE_TEST = \
	tests/table/ends.c \
	tests/table/ends.h \
	tests/table/event.c \
	tests/table/group.c \
	tests/table/half.c \
	tests/table/misuse.c \
	tests/table/rma.c \
	tests/table/tag.c \
	tests/table/test_table.c \
	tests/table/world.h

if HAVE_CMOCKA
# Takes the transport as the loader does, e.g. VERBENA_MCA_transport=rc tests/table/test_table.
check_PROGRAMS += tests/table/test_table
tests_table_test_table_SOURCES = $(TABLE_TEST) tests/table/crowd.c tests/table/crowd.h tests/table/death.c \
	tests/table/world_loader.c
tests_table_test_table_CPPFLAGS = $(AM_CPPFLAGS) -iquote $(srcdir)/plugin/loader
tests_table_test_table_LDADD = libverbena_loader.la libverbena.la $(CMOCKA_LIBS) -lpthread
tests_table_test_table_LDFLAGS = $(AM_LDFLAGS) -no-install

# The transport rc on the simulated fabric.
check_PROGRAMS += tests/table/test_sim
TESTS += tests/table/test_sim tests/table/test_sim_halves
tests_table_test_sim_SOURCES = $(TABLE_TEST) tests/table/world_sim.c
tests_table_test_sim_LDADD = libverbena_core.la tests/sim/libfabric_sim.la $(CMOCKA_LIBS) -lpthread

if BUILD_UCX
TESTS += tests/table/test_ucx tests/table/test_ucx_tcp
endif
endif

dist_check_SCRIPTS += tests/table/test_sim_halves
# By hand and by ./check, where an RDMA device is: tests/rxe/run -- tests/table/test_rc
dist_check_SCRIPTS += tests/table/test_rc tests/table/test_ucx tests/table/test_ucx_tcp
