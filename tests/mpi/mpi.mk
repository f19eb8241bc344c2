# SPDX-License-Identifier: BSD-3-Clause
# The MPI test programs, all in one binary, and the scripts that run them.

if HAVE_MPI_CC
check_PROGRAMS += tests/mpi/mpi_suite
endif
tests_mpi_mpi_suite_SOURCES = \
	tests/mpi/again.c \
	tests/mpi/all_pairs.c \
	tests/mpi/buffers.c \
	tests/mpi/bursts.c \
	tests/mpi/collectives.c \
	tests/mpi/common.c \
	tests/mpi/common.h \
	tests/mpi/communicators.c \
	tests/mpi/connects.c \
	tests/mpi/datatypes.c \
	tests/mpi/flood.c \
	tests/mpi/freed.c \
	tests/mpi/large.c \
	tests/mpi/orders.c \
	tests/mpi/outstanding.c \
	tests/mpi/overlap.c \
	tests/mpi/p2p_modes.c \
	tests/mpi/probe.c \
	tests/mpi/programs.h \
	tests/mpi/records.c \
	tests/mpi/reductions.c \
	tests/mpi/ring.c \
	tests/mpi/packed.c \
	tests/mpi/passive.c \
	tests/mpi/rma.c \
	tests/mpi/sizes.c \
	tests/mpi/sparse.c \
	tests/mpi/spawn.c \
	tests/mpi/suite.c \
	tests/mpi/threads.c \
	tests/mpi/unexpected.c \
	tests/mpi/unwaited.c \
	tests/mpi/waits.c
tests_mpi_mpi_suite_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
tests_mpi_mpi_suite_LDADD = $(MPI_LIBS) -lpthread

if HAVE_MPI_CC
check_PROGRAMS += tests/mpi/mpi_wrong_calls
endif
tests_mpi_mpi_wrong_calls_SOURCES = tests/mpi/wrong_calls.c
tests_mpi_mpi_wrong_calls_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
tests_mpi_mpi_wrong_calls_LDADD = $(MPI_LIBS)

# Preloaded into programs. -rpath makes libtool build a shared object that is not installed.
check_LTLIBRARIES += tests/mpi/break_qps.la
tests_mpi_break_qps_la_SOURCES = tests/mpi/break_qps.c
tests_mpi_break_qps_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
tests_mpi_break_qps_la_LIBADD = $(DL_LIBS) -lpthread
check_LTLIBRARIES += tests/mpi/count_regions.la
tests_mpi_count_regions_la_SOURCES = tests/mpi/count_regions.c
tests_mpi_count_regions_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
tests_mpi_count_regions_la_LIBADD = $(DL_LIBS)
if HAVE_MPI_CC
check_LTLIBRARIES += tests/mpi/hooks.la
endif
tests_mpi_hooks_la_SOURCES = tests/mpi/hooks.c
tests_mpi_hooks_la_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
tests_mpi_hooks_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
tests_mpi_hooks_la_LIBADD = $(DL_LIBS) $(MPI_LIBS)

check_LTLIBRARIES += tests/mpi/late_ends.la
tests_mpi_late_ends_la_SOURCES = tests/mpi/late_ends.c
tests_mpi_late_ends_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
tests_mpi_late_ends_la_LIBADD = libverbena.la $(DL_LIBS)

check_LTLIBRARIES += tests/mpi/refuse_locals.la
tests_mpi_refuse_locals_la_SOURCES = tests/mpi/refuse_locals.c
tests_mpi_refuse_locals_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
tests_mpi_refuse_locals_la_LIBADD = $(DL_LIBS)

check_LTLIBRARIES += tests/mpi/wrong_keys.la
tests_mpi_wrong_keys_la_SOURCES = tests/mpi/wrong_keys.c
tests_mpi_wrong_keys_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
tests_mpi_wrong_keys_la_LIBADD = libverbena.la $(DL_LIBS)

EXTRA_DIST += \
	tests/mpi/common.sh \
	tests/mpi/on-nodes \
	tests/mpi/repeat-jobs \
	tests/mpi/run-bursts \
	tests/mpi/run-rings \
	tests/mpi/run-hpcc \
	tests/mpi/run-lammps \
	tests/mpi/run-mix \
	tests/mpi/run-mpi4py \
	tests/mpi/run-netpipe \
	tests/mpi/run-races \
	tests/mpi/run-registrations \
	tests/mpi/run-scalapack \
	tests/mpi/run-suite \
	tests/mpi/run-valgrind \
	tests/mpi/run-wrong-calls \
	tests/mpi/tsan.supp \
	tests/mpi/valgrind.supp
