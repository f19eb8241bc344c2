# SPDX-License-Identifier: BSD-3-Clause
# verbena-perf, which measures any transport, and the scripts that compare and plot.

VBN_PERF_SOURCES = \
	tools/perf/clock.c \
	tools/perf/data.c \
	tools/perf/incast.c \
	tools/perf/main.c \
	tools/perf/onesided.c \
	tools/perf/options.c \
	tools/perf/overlap.c \
	tools/perf/pair.c \
	tools/perf/perf.h \
	tools/perf/report.c \
	tools/perf/tagged.c

bin_PROGRAMS += tools/perf/verbena-perf
tools_perf_verbena_perf_SOURCES = $(VBN_PERF_SOURCES)
tools_perf_verbena_perf_CPPFLAGS = $(AM_CPPFLAGS) -iquote $(srcdir)/plugin/loader \
	-iquote $(srcdir)/plugin/bootstrap
tools_perf_verbena_perf_LDADD = libverbena_bootstrap.la libverbena_loader.la libverbena.la
tools_perf_verbena_perf_LDFLAGS = $(AM_LDFLAGS) -R $(libdir)

# The same on MPI: tools/perf/mpi.c instead of the loader and a transport.
if HAVE_MPI_CC
bin_PROGRAMS += tools/perf/verbena-perf-mpi
tools_perf_verbena_perf_mpi_SOURCES = $(VBN_PERF_SOURCES) tools/perf/mpi.c
tools_perf_verbena_perf_mpi_CPPFLAGS = $(tools_perf_verbena_perf_CPPFLAGS)
tools_perf_verbena_perf_mpi_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
tools_perf_verbena_perf_mpi_LDADD = libverbena.la $(MPI_LIBS)
tools_perf_verbena_perf_mpi_LDFLAGS = $(AM_LDFLAGS) -R $(libdir)
endif

EXTRA_DIST += tools/bench-mpi tools/bench-table tools/plot-coll tools/plot-common.sh tools/plot-table
