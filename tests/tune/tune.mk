# SPDX-License-Identifier: BSD-3-Clause
# verbena-tune: its fit and rules, and the program over a transport that needs no device.

dist_check_SCRIPTS += tests/tune/test_tune
if HAVE_CMOCKA
check_PROGRAMS += tests/tune/test_model
TESTS += tests/tune/test_model
tests_tune_test_model_SOURCES = tests/tune/test_model.c tools/tune/model.c tools/tune/report.c \
	tools/tune/tune.h tools/tune/way.c
tests_tune_test_model_CPPFLAGS = $(AM_CPPFLAGS) -iquote $(srcdir)/tools/tune \
	-iquote $(srcdir)/plugin/loader -iquote $(srcdir)/plugin/bootstrap
tests_tune_test_model_LDADD = libverbena_core.la $(CMOCKA_LIBS) -lm
endif
if BUILD_PMIX
if BUILD_UCX
TESTS += tests/tune/test_tune
endif
endif
