# SPDX-License-Identifier: BSD-3-Clause
# Fuzz targets: what reads a peer's bytes, or a user's parameters. Here each is an ordinary program
# that runs its corpus (tests/fuzz/corpus/<target>) once; with --enable-fuzzers it is a fuzzer.
#
#     make fuzz FUZZ_SECONDS=10           builds the fuzzers in fuzz/ and runs each so long
#     make fuzz FUZZ_TARGETS=fuzz_rx FUZZ_SECONDS=3600
#     make fuzz-corpus                    keeps what they found beyond the corpus in the sources
#
# What they find goes on in fuzz/corpus. A crash prints the file and the command that repeat it.

if HAVE_CMOCKA
FUZZ_TESTS = tests/fuzz/fuzz_address tests/fuzz/fuzz_cm tests/fuzz/fuzz_half tests/fuzz/fuzz_options \
	tests/fuzz/fuzz_rx tests/fuzz/fuzz_wire
check_PROGRAMS += $(FUZZ_TESTS)
if FUZZERS
FUZZ_MAIN =
else
FUZZ_MAIN = tests/fuzz/replay.c
TESTS += $(FUZZ_TESTS)
endif

FUZZ_COMMON = tests/fuzz/fuzz.c tests/fuzz/fuzz.h $(FUZZ_MAIN)

# As UNIT_LINK, but for what libFuzzer calls itself.
FUZZ_LINK = $(AM_LDFLAGS) $(FUZZ_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc \
	-Wl,--wrap=aligned_alloc,--wrap=getrlimit,--wrap=opendir,--wrap=fopen \
	-Wl,--wrap=__assert_fail

tests_fuzz_fuzz_address_SOURCES = tests/fuzz/fuzz_address.c $(FUZZ_COMMON) $(UNIT_COMMON)
tests_fuzz_fuzz_address_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_cm_SOURCES = tests/fuzz/fuzz_cm.c $(FUZZ_COMMON) $(UNIT_COMMON)
tests_fuzz_fuzz_cm_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_half_SOURCES = tests/fuzz/fuzz_half.c $(FUZZ_COMMON) $(UNIT_COMMON)
tests_fuzz_fuzz_half_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_options_SOURCES = tests/fuzz/fuzz_options.c $(FUZZ_COMMON) $(UNIT_COMMON)
tests_fuzz_fuzz_options_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_rx_SOURCES = tests/fuzz/fuzz_rx.c $(FUZZ_COMMON) $(UNIT_COMMON)
tests_fuzz_fuzz_rx_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_wire_SOURCES = tests/fuzz/fuzz_wire.c $(FUZZ_COMMON) $(UNIT_COMMON)
tests_fuzz_fuzz_wire_LDFLAGS = $(FUZZ_LINK)
endif

FUZZ_SECONDS = 10
FUZZ_TARGETS =

fuzz:
	+JOBS='$(JOBS)' $(srcdir)/tools/fuzz $(FUZZ_SECONDS) $(FUZZ_TARGETS)

fuzz-corpus:
	+JOBS='$(JOBS)' $(srcdir)/tools/fuzz --merge $(FUZZ_TARGETS)

.PHONY: fuzz fuzz-corpus

EXTRA_DIST += tests/fuzz/corpus tools/fuzz
SUB_BUILDS += fuzz
