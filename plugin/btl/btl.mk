# SPDX-License-Identifier: BSD-3-Clause
# mca_btl_verbena.so: the byte transfer layer component of Open MPI.

VBN_BTL_SOURCES = \
	plugin/btl/btl_verbena.h \
	plugin/btl/btl_verbena_bounce.c \
	plugin/btl/btl_verbena_compat.h \
	plugin/btl/btl_verbena_component.c \
	plugin/btl/btl_verbena_frag.c \
	plugin/btl/btl_verbena_idle.c \
	plugin/btl/btl_verbena_long.c \
	plugin/btl/btl_verbena_coalesce.c \
	plugin/btl/btl_verbena_module.c \
	plugin/btl/btl_verbena_param.c \
	plugin/btl/btl_verbena_param.h \
	plugin/btl/btl_verbena_reg.c \
	plugin/btl/btl_verbena_rma.c \
	plugin/btl/btl_verbena_served.c \
	plugin/btl/btl_verbena_unmap.c \
	plugin/host/opal/mca/threads/pthreads/threads_pthreads_mutex.h \
	plugin/host/opal/mca/threads/pthreads/threads_pthreads_threads.h \
	plugin/host/opal/mca/threads/pthreads/threads_pthreads_tsd.h

# Open MPI takes every file mca_btl_* of the folder for a component, objects too.
plugin_btl_mca_btl_verbena_la_SHORTNAME = btl

if BUILD_OMPI_BTL
ompicomponent_LTLIBRARIES = plugin/btl/mca_btl_verbena.la
dist_ompihelp_DATA = plugin/btl/help-btl-verbena.txt

plugin_btl_mca_btl_verbena_la_SOURCES = $(VBN_BTL_SOURCES)
plugin_btl_mca_btl_verbena_la_CPPFLAGS = $(AM_CPPFLAGS) $(OMPI_CPPFLAGS) $(VBN_NDEBUG) \
	-idirafter $(srcdir)/plugin/host
plugin_btl_mca_btl_verbena_la_CFLAGS = $(AM_CFLAGS) $(OMPI_CFLAGS) -fvisibility=hidden
plugin_btl_mca_btl_verbena_la_LIBADD = libverbena.la $(OMPI_LIBS)
plugin_btl_mca_btl_verbena_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-R $(libdir)

# A component that is not installed looks for its help file beside itself.
VBN_BTL_HELP_BESIDE = plugin/btl/.libs/help-btl-verbena.txt
all-local: $(VBN_BTL_HELP_BESIDE)
$(VBN_BTL_HELP_BESIDE): $(srcdir)/plugin/btl/help-btl-verbena.txt plugin/btl/mca_btl_verbena.la
	$(AM_V_GEN)cp $(srcdir)/plugin/btl/help-btl-verbena.txt $@
CLEANFILES += $(VBN_BTL_HELP_BESIDE)
endif
