# SPDX-License-Identifier: BSD-3-Clause
# libverbena_bootstrap: how ranks find each other. A library of its own, so that a host with its own
# launcher need not load PMIx.

include_HEADERS += plugin/bootstrap/verbena_bootstrap.h
pkgconfig_DATA += plugin/bootstrap/verbena_bootstrap.pc

VBN_BOOTSTRAP_SOURCES = \
	plugin/fail.h \
	plugin/bootstrap/agree.c \
	plugin/bootstrap/bootstrap.h \
	plugin/bootstrap/job.c \
	plugin/bootstrap/oob_single.c \
	plugin/bootstrap/verbena_bootstrap.h
if BUILD_PMIX
VBN_BOOTSTRAP_SOURCES += plugin/bootstrap/oob_pmix.c
else
VBN_BOOTSTRAP_SOURCES += plugin/bootstrap/oob_no_pmix.c
endif

VBN_BOOTSTRAP_MAP = $(srcdir)/plugin/bootstrap/verbena_bootstrap.map

lib_LTLIBRARIES += libverbena_bootstrap.la
libverbena_bootstrap_la_SOURCES = $(VBN_BOOTSTRAP_SOURCES)
libverbena_bootstrap_la_CPPFLAGS = $(AM_CPPFLAGS) $(VBN_NDEBUG) -iquote $(srcdir)/plugin/loader
libverbena_bootstrap_la_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
libverbena_bootstrap_la_LIBADD = libverbena_loader.la libverbena.la $(PMIX_LIBS)
libverbena_bootstrap_la_LDFLAGS = $(AM_LDFLAGS) -no-undefined -version-info $(VBN_VERSION_INFO) \
	-R $(libdir) -Wl,--version-script=$(VBN_BOOTSTRAP_MAP)
libverbena_bootstrap_la_DEPENDENCIES = libverbena_loader.la libverbena.la $(VBN_BOOTSTRAP_MAP)
EXTRA_DIST += plugin/bootstrap/verbena_bootstrap.map
