# SPDX-License-Identifier: BSD-3-Clause
# The loader, over plugins made for it.

# -rpath makes libtool build a shared object that is not installed.
check_LTLIBRARIES += tests/loader/fake.la tests/loader/fake_other.la
FAKE_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
tests_loader_fake_la_SOURCES = tests/loader/fake.c tests/loader/fake.h
tests_loader_fake_la_LDFLAGS = $(FAKE_LDFLAGS)
tests_loader_fake_la_LIBADD = $(DL_LIBS) -lpthread
tests_loader_fake_other_la_SOURCES = tests/loader/fake_other.c
tests_loader_fake_other_la_LDFLAGS = $(FAKE_LDFLAGS)
tests_loader_fake_other_la_LIBADD =

if HAVE_CMOCKA
LOADER_TESTS = tests/loader/test_params tests/loader/test_plugins tests/loader/test_job
check_PROGRAMS += $(LOADER_TESTS)
TESTS += $(LOADER_TESTS)
LOADER_TEST_COMMON = tests/loader/fake.h tests/loader/rig.c tests/loader/rig.h
LOADER_TEST_CPPFLAGS = $(AM_CPPFLAGS) -iquote $(srcdir)/plugin/loader \
	-iquote $(srcdir)/plugin/bootstrap \
	-DFAKES='"tests/loader/.libs/"'
LOADER_TEST_LDADD = libverbena_loader.la libverbena.la $(CMOCKA_LIBS)

tests_loader_test_params_SOURCES = tests/loader/test_params.c $(LOADER_TEST_COMMON)
tests_loader_test_params_CPPFLAGS = $(LOADER_TEST_CPPFLAGS)
tests_loader_test_params_LDADD = $(LOADER_TEST_LDADD)
tests_loader_test_params_LDFLAGS = $(AM_LDFLAGS) -no-install
tests_loader_test_plugins_SOURCES = tests/loader/test_plugins.c $(LOADER_TEST_COMMON)
tests_loader_test_plugins_CPPFLAGS = $(LOADER_TEST_CPPFLAGS)
tests_loader_test_plugins_LDADD = $(LOADER_TEST_LDADD)
tests_loader_test_plugins_LDFLAGS = $(AM_LDFLAGS) -no-install
tests_loader_test_job_SOURCES = tests/loader/test_job.c $(LOADER_TEST_COMMON)
tests_loader_test_job_CPPFLAGS = $(LOADER_TEST_CPPFLAGS)
tests_loader_test_job_LDADD = libverbena_bootstrap.la $(LOADER_TEST_LDADD) -lpthread
tests_loader_test_job_LDFLAGS = $(AM_LDFLAGS) -no-install
endif

# Launched by mpirun, where there are one, PMIx and a transport that needs no device.
dist_check_SCRIPTS += tests/loader/test_launch
EXTRA_DIST += tests/loader/lsan.supp
if BUILD_PMIX
if BUILD_UCX
TESTS += tests/loader/test_launch
endif
endif
