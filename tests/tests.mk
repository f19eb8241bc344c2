# SPDX-License-Identifier: BSD-3-Clause
# The tests that `make check` builds or runs; ./check runs all of them.

include $(srcdir)/tests/unit/unit.mk
include $(srcdir)/tests/sim/sim.mk
include $(srcdir)/tests/unit/pair.mk
include $(srcdir)/tests/mpi/mpi.mk

# Need a device: run by tests/rxe/run, not by `make check`. Linked with the library as users get it.
if HAVE_CMOCKA
check_PROGRAMS += tests/device/test_transport
tests_device_test_transport_LDADD = libverbena.la $(CMOCKA_LIBS)
tests_device_test_transport_LDFLAGS = $(AM_LDFLAGS) -no-install
endif

EXTRA_DIST += tests/rxe tests/known-failures
