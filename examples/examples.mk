# SPDX-License-Identifier: BSD-3-Clause
# Programs that users copy.

if HAVE_MPI_CC
noinst_PROGRAMS += examples/mpi_demo examples/mpi_pingpong
examples_mpi_demo_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
examples_mpi_demo_LDADD = $(MPI_LIBS)
examples_mpi_pingpong_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
examples_mpi_pingpong_LDADD = $(MPI_LIBS)
endif
