# SPDX-License-Identifier: BSD-3-Clause
# Programs that users copy.

if HAVE_MPI_CC
noinst_PROGRAMS += examples/mpi_collbench examples/mpi_connect examples/mpi_demo examples/mpi_pingpong
examples_mpi_collbench_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
examples_mpi_collbench_LDADD = $(MPI_LIBS)
examples_mpi_connect_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
examples_mpi_connect_LDADD = $(MPI_LIBS)
examples_mpi_demo_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
examples_mpi_demo_LDADD = $(MPI_LIBS)
examples_mpi_pingpong_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
examples_mpi_pingpong_LDADD = $(MPI_LIBS)
endif

# Without MPI: over whatever transport the loader finds.
VBN_EXAMPLES = examples/hello examples/pingpong examples/onesided examples/event_loop \
	examples/bcast_file examples/heat2d
noinst_PROGRAMS += $(VBN_EXAMPLES)
VBN_EXAMPLE_CPPFLAGS = -I$(srcdir)/transport -I$(srcdir)/collectives \
	-I$(srcdir)/plugin/loader -I$(srcdir)/plugin/bootstrap -D_GNU_SOURCE
VBN_EXAMPLE_LDADD = libverbena_bootstrap.la libverbena_loader.la libverbena.la
examples_hello_CPPFLAGS = $(VBN_EXAMPLE_CPPFLAGS)
examples_hello_LDADD = $(VBN_EXAMPLE_LDADD)
examples_hello_LDFLAGS = $(AM_LDFLAGS) -no-install
examples_pingpong_CPPFLAGS = $(VBN_EXAMPLE_CPPFLAGS)
examples_pingpong_LDADD = $(VBN_EXAMPLE_LDADD)
examples_pingpong_LDFLAGS = $(AM_LDFLAGS) -no-install
examples_onesided_CPPFLAGS = $(VBN_EXAMPLE_CPPFLAGS)
examples_onesided_LDADD = $(VBN_EXAMPLE_LDADD)
examples_onesided_LDFLAGS = $(AM_LDFLAGS) -no-install
examples_event_loop_CPPFLAGS = $(VBN_EXAMPLE_CPPFLAGS)
examples_event_loop_LDADD = $(VBN_EXAMPLE_LDADD)
examples_event_loop_LDFLAGS = $(AM_LDFLAGS) -no-install
examples_bcast_file_CPPFLAGS = $(VBN_EXAMPLE_CPPFLAGS)
examples_bcast_file_LDADD = $(VBN_EXAMPLE_LDADD)
examples_bcast_file_LDFLAGS = $(AM_LDFLAGS) -no-install
examples_heat2d_CPPFLAGS = $(VBN_EXAMPLE_CPPFLAGS)
examples_heat2d_LDADD = $(VBN_EXAMPLE_LDADD) -lm
examples_heat2d_LDFLAGS = $(AM_LDFLAGS) -no-install
