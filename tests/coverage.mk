# SPDX-License-Identifier: BSD-3-Clause
# How much of transport/ the unit and simulated tests run; fails below these percentages.

COVERAGE_SEEDS = 1..100
COVERAGE_LINES = 90
COVERAGE_BRANCHES = 80
COVERAGE_NEEDS = $(UNIT_FAKED) $(UNIT_PAIRED) $(FUZZ_TESTS) tests/table/test_sim
COVERAGE_TESTS = $(COVERAGE_NEEDS) tests/table/test_sim_halves

coverage:
	+JOBS='$(JOBS)' PROGRAMS='$(COVERAGE_NEEDS) tests/sim/simulate' $(srcdir)/tools/coverage \
		$(COVERAGE_SEEDS) $(COVERAGE_LINES) $(COVERAGE_BRANCHES) $(COVERAGE_TESTS)

.PHONY: coverage

EXTRA_DIST += tools/coverage
SUB_BUILDS += coverage
