# SPDX-License-Identifier: BSD-3-Clause
# The tests that `make check` builds or runs; ./check runs all of them.

include $(srcdir)/tests/unit/unit.mk

EXTRA_DIST += tests/rxe
