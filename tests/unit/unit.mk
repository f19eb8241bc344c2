# SPDX-License-Identifier: BSD-3-Clause
# cmocka programs, one for each object: tests/unit/test_<object>.c. Add the name here, no more.

VBN_UNIT_TESTS =

if HAVE_CMOCKA
check_PROGRAMS += $(VBN_UNIT_TESTS)
TESTS += $(VBN_UNIT_TESTS)
LDADD = libverbena_core.la $(CMOCKA_LIBS) $(VERBS_LIBS)
endif
