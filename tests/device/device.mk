# SPDX-License-Identifier: BSD-3-Clause
# What needs a device, run by tests/rxe/run and not by `make check`; and the table of behaviours,
# which is run there and on the simulated fabric.

if HAVE_CMOCKA
# Linked with the library as users get it.
check_PROGRAMS += tests/device/test_transport
tests_device_test_transport_LDADD = libverbena.la $(CMOCKA_LIBS)
tests_device_test_transport_LDFLAGS = $(AM_LDFLAGS) -no-install

BEHAVIOURS = \
	tests/device/behaviours.h \
	tests/device/behaviours_cm.c \
	tests/device/behaviours_fault.c \
	tests/device/behaviours_post.c \
	tests/device/behaviours_queue.c \
	tests/device/behaviours_send.c \
	tests/device/ends.c \
	tests/device/ends.h \
	tests/device/test_behaviours.c \
	tests/device/world.h

check_PROGRAMS += tests/device/test_behaviours
tests_device_test_behaviours_SOURCES = $(BEHAVIOURS) tests/device/world_real.c
tests_device_test_behaviours_LDADD = $(VERBS_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/sim/test_behaviours
TESTS += tests/sim/test_behaviours
tests_sim_test_behaviours_SOURCES = $(BEHAVIOURS) tests/device/world_sim.c
tests_sim_test_behaviours_LDADD = tests/sim/libfabric_sim.la $(CMOCKA_LIBS)
endif

# Not a test of ours: what it finds is the device's doing.
check_PROGRAMS += tests/device/reads_under_repeats
tests_device_reads_under_repeats_LDADD = $(VERBS_LIBS)

# Neither is this.
check_PROGRAMS += tests/device/qp_memory
tests_device_qp_memory_LDADD = libverbena.la $(VERBS_LIBS)
tests_device_qp_memory_LDFLAGS = $(AM_LDFLAGS) -no-install
