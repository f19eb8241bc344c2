# SPDX-License-Identifier: BSD-3-Clause
# verbena-perf, launched by mpirun over a transport that needs no device; and the plots.

dist_check_SCRIPTS += tests/perf/test_perf tests/perf/test_perf_mpi tests/perf/test_plots
TESTS += tests/perf/test_plots
if HAVE_MPI_CC
TESTS += tests/perf/test_perf_mpi
endif
if BUILD_PMIX
if BUILD_UCX
TESTS += tests/perf/test_perf
endif
endif
