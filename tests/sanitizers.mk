# SPDX-License-Identifier: BSD-3-Clause
# The unit and simulated tests under sanitizers, each in a build folder of its own below this one.
#
#     make check-asan        addresses, and leaks
#     make check-ubsan       undefined behaviour
#     make check-asan-ubsan  both in one build
#     make check-tsan        data races
#
# SANITIZER_SEEDS=1..300 are the runs of the simulated fabric. TSAN_SEEDS are fewer: those runs have
# one thread, so that only tests/unit/test_threads can show it a race.

SANITIZER_SEEDS = 1..300
TSAN_SEEDS = 1..20
CHECK_SANITIZED = +CC='$(CC)' JOBS='$(JOBS)' $(srcdir)/tools/check-sanitized

check-asan:
	$(CHECK_SANITIZED) asan address $(SANITIZER_SEEDS)
check-ubsan:
	$(CHECK_SANITIZED) ubsan undefined $(SANITIZER_SEEDS)
check-asan-ubsan:
	$(CHECK_SANITIZED) asan-ubsan address,undefined $(SANITIZER_SEEDS)
check-tsan:
	$(CHECK_SANITIZED) tsan thread $(TSAN_SEEDS)

.PHONY: check-asan check-ubsan check-asan-ubsan check-tsan

EXTRA_DIST += tools/check-sanitized
SUB_BUILDS += asan ubsan asan-ubsan tsan
