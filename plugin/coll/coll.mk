# SPDX-License-Identifier: BSD-3-Clause
# mca_coll_verbena.so: the collectives component of Open MPI.

VBN_COLL_SOURCES = \
	plugin/coll/coll_verbena.h \
	plugin/coll/coll_verbena_call.c \
	plugin/coll/coll_verbena_component.c \
	plugin/coll/coll_verbena_data.c \
	plugin/coll/coll_verbena_module.c \
	plugin/coll/coll_verbena_mpi.c \
	plugin/coll/coll_verbena_node.c \
	plugin/coll/coll_verbena_split.c \
	plugin/host/ompi/mpi/fortran/base/fint_2_int.h

# Open MPI takes every file mca_coll_* of the folder for a component, objects too.
plugin_coll_mca_coll_verbena_la_SHORTNAME = coll

if BUILD_OMPI_BTL
ompicomponent_LTLIBRARIES += plugin/coll/mca_coll_verbena.la

plugin_coll_mca_coll_verbena_la_SOURCES = $(VBN_COLL_SOURCES)
plugin_coll_mca_coll_verbena_la_CPPFLAGS = $(AM_CPPFLAGS) -iquote $(srcdir)/collectives \
	$(OMPI_CPPFLAGS) $(VBN_NDEBUG) \
	-idirafter $(srcdir)/plugin/host
plugin_coll_mca_coll_verbena_la_CFLAGS = $(AM_CFLAGS) $(OMPI_CFLAGS) -fvisibility=hidden
plugin_coll_mca_coll_verbena_la_LIBADD = libverbena.la $(MPI_LIBS) $(OMPI_LIBS)
plugin_coll_mca_coll_verbena_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-R $(libdir)
endif
