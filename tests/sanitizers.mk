# SPDX-License-Identifier: BSD-3-Clause
# The unit and simulated tests under sanitizers, each in a build folder of its own below this one.
#
#     make check-asan        addresses, and leaks
#     make check-ubsan       undefined behaviour
#     make check-asan-ubsan  both in one build
#     make check-tsan        data races
#
# SANITIZER_SEEDS=1..150 are the runs of the simulated fabric. The thread sanitizer has only the
# tests with threads to look at, and a few of those runs.

SANITIZER_SEEDS = 1..150
TSAN_SEEDS = 1..20
TSAN_NEEDS = tests/unit/test_threads tests/table/test_sim tests/table/test_table tests/loader/test_job
TSAN_TESTS = tests/unit/test_threads tests/table/test_sim tests/table/test_sim_halves tests/loader/test_job
if BUILD_UCX
TSAN_TESTS += tests/table/test_ucx
endif
CHECK_SANITIZED = CC='$(CC)' JOBS='$(JOBS)' $(srcdir)/tools/check-sanitized

check-asan:
	+$(CHECK_SANITIZED) asan address $(SANITIZER_SEEDS)
check-ubsan:
	+$(CHECK_SANITIZED) ubsan undefined $(SANITIZER_SEEDS)
check-asan-ubsan:
	+$(CHECK_SANITIZED) asan-ubsan address,undefined $(SANITIZER_SEEDS)
check-tsan:
	+PROGRAMS='$(TSAN_NEEDS) tests/sim/simulate' $(CHECK_SANITIZED) tsan thread $(TSAN_SEEDS) \
		$(TSAN_TESTS)

.PHONY: check-asan check-ubsan check-asan-ubsan check-tsan

EXTRA_DIST += tools/check-sanitized
SUB_BUILDS += asan ubsan asan-ubsan tsan
