# SPDX-License-Identifier: BSD-3-Clause
# verbena_ucx.so: the transport over UCX. It is at the top of the build folder so that the loader of
# the same build finds it beside itself.

VBN_UCX_SOURCES = \
	plugin/fail.h \
	plugin/ucx/ucx.h \
	plugin/ucx/ucx_blob.c \
	plugin/ucx/ucx_close.c \
	plugin/ucx/ucx_op.c \
	plugin/ucx/ucx_peer.c \
	plugin/ucx/ucx_plugin.c \
	plugin/ucx/ucx_port.c \
	plugin/ucx/ucx_progress.c \
	plugin/ucx/ucx_rma.c \
	plugin/ucx/ucx_tag.c

VBN_UCX_MAP = $(srcdir)/plugin/ucx/verbena_ucx.map
EXTRA_DIST += plugin/ucx/verbena_ucx.map

if BUILD_UCX
plugin_LTLIBRARIES += verbena_ucx.la
verbena_ucx_la_SOURCES = $(VBN_UCX_SOURCES)
verbena_ucx_la_CPPFLAGS = $(AM_CPPFLAGS) $(VBN_NDEBUG) -DVBN_VERSION='"$(PACKAGE_VERSION)"'
verbena_ucx_la_CFLAGS = $(AM_CFLAGS) $(UCX_CFLAGS)
verbena_ucx_la_LIBADD = libverbena.la $(UCX_LIBS)
verbena_ucx_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -no-undefined \
	-Wl,--version-script=$(VBN_UCX_MAP)
verbena_ucx_la_DEPENDENCIES = libverbena.la $(VBN_UCX_MAP)
endif
