# SPDX-License-Identifier: BSD-3-Clause
# libverbena_loader: a user's parameters, and the choice of a transport. A library of its own, so
# that libverbena needs no dlopen() and no environment.

include_HEADERS += plugin/loader/verbena_loader.h
pkgconfig_DATA += plugin/loader/verbena_loader.pc

# Transports that are shared objects go here.
plugindir = $(libdir)/verbena
plugin_LTLIBRARIES =

VBN_LOADER_SOURCES = \
	plugin/fail.h \
	plugin/loader/choose.c \
	plugin/loader/file.c \
	plugin/loader/find.c \
	plugin/loader/given.c \
	plugin/loader/help.c \
	plugin/loader/load.c \
	plugin/loader/loader.c \
	plugin/loader/loader.h \
	plugin/loader/nearest.c \
	plugin/loader/params.c \
	plugin/loader/verbena_loader.h

VBN_LOADER_MAP = $(srcdir)/plugin/loader/verbena_loader.map

lib_LTLIBRARIES += libverbena_loader.la
libverbena_loader_la_SOURCES = $(VBN_LOADER_SOURCES)
libverbena_loader_la_CPPFLAGS = $(AM_CPPFLAGS) $(VBN_NDEBUG) -DVBN_PLUGIN_FOLDER='"$(plugindir)"'
libverbena_loader_la_LIBADD = libverbena.la $(DL_LIBS)
libverbena_loader_la_LDFLAGS = $(AM_LDFLAGS) -no-undefined -version-info $(VBN_VERSION_INFO) \
	-R $(libdir) -Wl,--version-script=$(VBN_LOADER_MAP)
libverbena_loader_la_DEPENDENCIES = libverbena.la $(VBN_LOADER_MAP)
EXTRA_DIST += plugin/loader/verbena_loader.map
