# SPDX-License-Identifier: BSD-3-Clause
# Unit tests of contexts that talk to each other, over the simulated fabric (tests/sim/sim.mk).

if HAVE_CMOCKA
UNIT_PAIRED = tests/unit/test_context tests/unit/test_flaps tests/unit/test_halves tests/unit/test_memory \
	tests/unit/test_pair tests/unit/test_threads
check_PROGRAMS += $(UNIT_PAIRED)
TESTS += $(UNIT_PAIRED)

PAIR_COMMON = tests/unit/pair.c tests/unit/pair.h tests/unit/unit.c tests/unit/unit.h
PAIR_LIBS = libverbena_core.la tests/sim/libfabric_sim.la $(CMOCKA_LIBS)

tests_unit_test_context_SOURCES = tests/unit/test_context.c $(PAIR_COMMON)
tests_unit_test_context_LDADD = $(PAIR_LIBS)
tests_unit_test_context_LDFLAGS = $(AM_LDFLAGS) $(SIM_WRAP)
tests_unit_test_flaps_SOURCES = tests/unit/test_flaps.c $(PAIR_COMMON)
tests_unit_test_flaps_LDADD = $(PAIR_LIBS)
tests_unit_test_flaps_LDFLAGS = $(AM_LDFLAGS) $(SIM_WRAP)
tests_unit_test_halves_SOURCES = tests/unit/test_halves.c $(PAIR_COMMON)
tests_unit_test_halves_LDADD = $(PAIR_LIBS)
tests_unit_test_halves_LDFLAGS = $(AM_LDFLAGS) $(SIM_WRAP)
tests_unit_test_memory_SOURCES = tests/unit/test_memory.c tests/unit/unit.h
tests_unit_test_memory_LDADD = $(PAIR_LIBS)
tests_unit_test_memory_LDFLAGS = $(AM_LDFLAGS) $(SIM_WRAP)
tests_unit_test_pair_SOURCES = tests/unit/test_pair.c $(PAIR_COMMON)
tests_unit_test_pair_LDADD = $(PAIR_LIBS)
tests_unit_test_pair_LDFLAGS = $(AM_LDFLAGS) $(SIM_WRAP)
tests_unit_test_threads_SOURCES = tests/unit/test_threads.c tests/unit/unit.h tests/sim/guard.c \
	tests/sim/guard.h
tests_unit_test_threads_CFLAGS = $(AM_CFLAGS) -pthread
tests_unit_test_threads_LDADD = $(PAIR_LIBS)
tests_unit_test_threads_LDFLAGS = $(AM_LDFLAGS) $(GUARD_WRAP)
endif
