/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stands in for a header of Open MPI that distributions leave out of their development packages
 * although ompi/op/op.h includes it; a real one is found first. Where Fortran's INTEGER is C's int,
 * as on every system that we build on, nothing is converted.
 */
#ifndef VERBENA_FINT_2_INT_H
#define VERBENA_FINT_2_INT_H

#include "ompi_config.h"

#if OMPI_SIZEOF_FORTRAN_INTEGER != SIZEOF_INT
#error "Fortran's INTEGER is not C's int: this component needs Open MPI's own fint_2_int.h"
#endif

#define OMPI_FINT_2_INT(a) (a)
#define OMPI_INT_2_FINT(a) (a)

#endif
