# SPDX-License-Identifier: BSD-3-Clause
# libverbena: the transport library.

include_HEADERS = transport/verbena.h transport/verbena_transport.h
pkgconfig_DATA = transport/verbena.pc

# All of the library as a convenience archive, so that unit tests reach what the version script
# hides, and can put fakes in the place of libibverbs and librdmacm.
noinst_LTLIBRARIES = libverbena_core.la
libverbena_core_la_SOURCES = \
	transport/bare.c \
	transport/bare.h \
	transport/base.h \
	transport/cast.c \
	transport/cm.c \
	transport/cm.h \
	transport/conn.c \
	transport/conn.h \
	transport/context.c \
	transport/context.h \
	transport/cq.c \
	transport/cq.h \
	transport/device.c \
	transport/device.h \
	transport/endpoint.c \
	transport/endpoint.h \
	transport/error.c \
	transport/error.h \
	transport/flow.h \
	transport/group.c \
	transport/group.h \
	transport/half.c \
	transport/half.h \
	transport/hash.h \
	transport/log.c \
	transport/log.h \
	transport/mem.c \
	transport/mem.h \
	transport/netif.c \
	transport/netif.h \
	transport/options.c \
	transport/options.h \
	transport/path.c \
	transport/path.h \
	transport/pool.c \
	transport/pool.h \
	transport/progress.c \
	transport/qp.c \
	transport/qp.h \
	transport/qpmap.c \
	transport/qpmap.h \
	transport/rc.c \
	transport/recover.c \
	transport/recover.h \
	transport/rider.c \
	transport/rider.h \
	transport/ring.c \
	transport/ring.h \
	transport/rma.c \
	transport/rma.h \
	transport/rx.c \
	transport/rx.h \
	transport/stranger.c \
	transport/stranger.h \
	transport/tag.c \
	transport/tag.h \
	transport/tag_match.c \
	transport/tag_rdma.c \
	transport/tag_ready.c \
	transport/tag_recv.c \
	transport/tag_send.c \
	transport/timer.h \
	transport/turns.c \
	transport/turns.h \
	transport/tx.c \
	transport/tx.h \
	transport/wait.c \
	transport/wait.h \
	transport/wire.c \
	transport/wire.h
libverbena_core_la_CPPFLAGS = $(AM_CPPFLAGS) $(VBN_NDEBUG)
# Two words of a structure are not worth being gathered in a vector register for each message.
libverbena_core_la_CFLAGS = $(AM_CFLAGS) -fno-tree-slp-vectorize

# current:revision:age, as libtool counts them.
VBN_VERSION_INFO = 0:0:0
VBN_MAP = $(srcdir)/transport/verbena.map

lib_LTLIBRARIES = libverbena.la
libverbena_la_SOURCES =
libverbena_la_LIBADD = libverbena_core.la $(VERBS_LIBS)
libverbena_la_LDFLAGS = $(AM_LDFLAGS) -no-undefined -version-info $(VBN_VERSION_INFO) \
	-Wl,--version-script=$(VBN_MAP)
libverbena_la_DEPENDENCIES = libverbena_core.la $(VBN_MAP)
EXTRA_DIST += transport/verbena.map
