# SPDX-License-Identifier: BSD-3-Clause
# The tests that `make check` builds or runs; ./check runs all of them.

# Folders below the build folder that are builds of their own.
SUB_BUILDS =

include $(srcdir)/tests/unit/unit.mk
include $(srcdir)/tests/sim/sim.mk
include $(srcdir)/tests/unit/pair.mk
include $(srcdir)/tests/loader/loader.mk
include $(srcdir)/tests/table/table.mk
include $(srcdir)/tests/perf/perf.mk
include $(srcdir)/tests/tune/tune.mk
include $(srcdir)/tests/coll/coll.mk
include $(srcdir)/tests/mpi/mpi.mk
include $(srcdir)/tests/device/device.mk
include $(srcdir)/tests/hostile/hostile.mk
include $(srcdir)/tests/fuzz/fuzz.mk
include $(srcdir)/tests/tools/tools.mk
include $(srcdir)/tests/sanitizers.mk
include $(srcdir)/tests/coverage.mk

clean-local:
	rm -rf $(SUB_BUILDS)

EXTRA_DIST += tests/ompi5 tests/rxe tests/known-failures tests/program.sh
