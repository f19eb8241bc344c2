# SPDX-License-Identifier: BSD-3-Clause
# Open MPI: its compiler wrapper (MPI programs) and its development headers (the component).

# VBN_CHECK_OMPI
# Sets the conditionals HAVE_MPI_CC and BUILD_OMPI_BTL, and
#   MPICC MPI_CFLAGS MPI_LIBS        to build MPI programs
#   OMPI_CPPFLAGS OMPI_CFLAGS OMPI_LIBS    to build components
#   ompicomponentdir ompihelpdir     where components and their help files go
AC_DEFUN([VBN_CHECK_OMPI], [
    AC_ARG_WITH([ompi],
        [AS_HELP_STRING([--with-ompi=DIR], [Open MPI below DIR (default: the mpicc in PATH);
            --without-ompi leaves the component out])],
        [], [with_ompi=check])
    AC_ARG_WITH([ompi-component-dir],
        [AS_HELP_STRING([--with-ompi-component-dir=DIR],
            [install the component and its help file here (default: where Open MPI keeps its own)])],
        [], [with_ompi_component_dir=])
    AC_ARG_VAR([MPICC], [Open MPI's C compiler wrapper])

    have_mpi_cc=no
    build_ompi_btl=no
    VBN_OMPI_SUMMARY="skipped: --without-ompi"
    AS_IF([test "x$with_ompi" != xno], [
        VBN_FIND_MPICC
        AS_IF([test "x$have_mpi_cc" = xyes], [VBN_CHECK_OMPI_HEADERS])
        AS_IF([test "x$build_ompi_btl" = xno], [
            AC_MSG_NOTICE([the Open MPI component is $VBN_OMPI_SUMMARY])
            AS_IF([test "x$with_ompi" != xcheck],
                [AC_MSG_ERROR([--with-ompi was given, but the component is $VBN_OMPI_SUMMARY])])])])
    AM_CONDITIONAL([HAVE_MPI_CC], [test "x$have_mpi_cc" = xyes])
    AM_CONDITIONAL([BUILD_OMPI_BTL], [test "x$build_ompi_btl" = xyes])
])

# VBN_OMPI_VERSION_OF(MPICC)
# A command substitution: the release of Open MPI that MPICC is of, or nothing.
m4_define([VBN_OMPI_VERSION_OF],
    [$($1 --showme:version 2>/dev/null | $SED -n 's/.*Open MPI \(@<:@0-9@:>@@<:@0-9.@:>@*\).*/\1/p')])

# VBN_FIND_MPICC
# Finds mpicc and asks it what an MPI program needs. The first of an Open MPI in the path is it: what
# a user has put there goes before the distribution's, which may have the longer name.
AC_DEFUN([VBN_FIND_MPICC], [
    AS_CASE([$with_ompi],
        [yes|check], [vbn_ompi_path=$PATH],
        [vbn_ompi_path=$with_ompi/bin])
    AC_CACHE_CHECK([for an mpicc of Open MPI], [ac_cv_path_MPICC],
        [AC_PATH_PROGS_FEATURE_CHECK([MPICC], [mpicc mpicc.openmpi],
            [AS_IF([test -n "VBN_OMPI_VERSION_OF([$ac_path_MPICC])"],
                [ac_cv_path_MPICC=$ac_path_MPICC ac_path_MPICC_found=:])],
            [ac_cv_path_MPICC=none], [$vbn_ompi_path])])
    MPICC=$ac_cv_path_MPICC
    AS_IF([test "x$MPICC" = xnone],
        [VBN_OMPI_SUMMARY="skipped: no mpicc of Open MPI in $vbn_ompi_path (Debian package: libopenmpi-dev)"], [
        AC_MSG_CHECKING([for the Open MPI of $MPICC])
        vbn_ompi_version=VBN_OMPI_VERSION_OF([$MPICC])
        AC_MSG_RESULT([${vbn_ompi_version:-none}])
        AS_IF([test -z "$vbn_ompi_version"],
            [VBN_OMPI_SUMMARY="skipped: $MPICC is not Open MPI's (Debian package: libopenmpi-dev)"], [
            have_mpi_cc=yes
            # Warnings in Open MPI's own headers are not ours to mend: -isystem.
            MPI_CFLAGS=$($MPICC --showme:compile | $SED 's/-I */-isystem /g')
            MPI_LIBS=$($MPICC --showme:link)])])
    AC_SUBST([MPI_CFLAGS])
    AC_SUBST([MPI_LIBS])
])

# VBN_CHECK_OMPI_HEADERS
# Looks for the development headers of a release that the component knows.
AC_DEFUN([VBN_CHECK_OMPI_HEADERS], [
    vbn_ompi_incdir=
    for vbn_dir in $($MPICC --showme:incdirs); do
        AS_IF([test -f "$vbn_dir/openmpi/opal/mca/btl/btl.h"], [vbn_ompi_incdir=$vbn_dir])
    done
    AS_CASE([$vbn_ompi_incdir:$vbn_ompi_version],
        [:*], [VBN_OMPI_SUMMARY="skipped: Open MPI $vbn_ompi_version has no development headers (opal/mca/btl/btl.h)"],
        [*:4.1.*|*:5.0.*], [VBN_CHECK_OMPI_COMPILES],
        [VBN_OMPI_SUMMARY="skipped: Open MPI $vbn_ompi_version is not supported (4.1 and 5.0 are)"])
])

# VBN_CHECK_OMPI_COMPILES
# Flags and folders of the component; proves that the headers compile.
AC_DEFUN([VBN_CHECK_OMPI_COMPILES], [
    OMPI_CPPFLAGS="-isystem $vbn_ompi_incdir/openmpi -isystem $vbn_ompi_incdir"
    OMPI_CFLAGS=
    # Open MPI's atomics are built with 16-byte compare-and-swap on x86-64; so must its components.
    AS_CASE([$host_cpu], [x86_64], [OMPI_CFLAGS=-mcx16])
    OMPI_LIBS=
    for vbn_dir in $($MPICC --showme:libdirs); do
        OMPI_LIBS="$OMPI_LIBS -L$vbn_dir"
    done
    OMPI_LIBS="$OMPI_LIBS -lopen-pal"
    # The macros by which 5.0 publishes and asks call PMIx by themselves. A build of its own has that beside it.
    AS_CASE([$vbn_ompi_version], [5.*], [
        OMPI_CPPFLAGS="$OMPI_CPPFLAGS $($PKG_CONFIG --cflags pmix 2>/dev/null | $SED 's/-I */-isystem /g')"
        OMPI_LIBS="$OMPI_LIBS $($PKG_CONFIG --libs-only-L pmix 2>/dev/null) -lpmix"])

    vbn_saved_CPPFLAGS=$CPPFLAGS
    vbn_saved_CFLAGS=$CFLAGS
    vbn_saved_LIBS=$LIBS
    # What distributions leave out is there.
    CPPFLAGS="$CPPFLAGS $OMPI_CPPFLAGS -idirafter $srcdir/plugin/host"
    CFLAGS="$CFLAGS $OMPI_CFLAGS"
    LIBS="$OMPI_LIBS $LIBS"
    AC_MSG_CHECKING([whether an Open MPI component compiles and links])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[
#include "opal_config.h"
#include "opal/mca/btl/btl.h"
#include "opal/util/output.h"]], [[opal_output(0, "%zu", sizeof(mca_btl_base_module_t));]])],
        [AC_MSG_RESULT([yes])
         build_ompi_btl=yes
         VBN_OMPI_SUMMARY="btl for Open MPI $vbn_ompi_version"],
        [AC_MSG_RESULT([no])
         VBN_OMPI_SUMMARY="skipped: Open MPI $vbn_ompi_version's development headers do not compile; see config.log"])
    CPPFLAGS=$vbn_saved_CPPFLAGS
    CFLAGS=$vbn_saved_CFLAGS
    LIBS=$vbn_saved_LIBS

    AS_IF([test "x$build_ompi_btl" = xyes], [VBN_OMPI_FOLDERS])
    AC_SUBST([OMPI_CPPFLAGS])
    AC_SUBST([OMPI_CFLAGS])
    AC_SUBST([OMPI_LIBS])
])

# VBN_OMPI_FOLDERS
# Where Open MPI looks for components and help files, by its own word.
AC_DEFUN([VBN_OMPI_FOLDERS], [
    AS_IF([test -n "$with_ompi_component_dir"],
        [ompicomponentdir=$with_ompi_component_dir
         ompihelpdir=$with_ompi_component_dir],
        [VBN_FIND_OMPI_INFO
         ompicomponentdir=$($OMPI_INFO --parsable --path pkglibdir | $SED -n 's/^path:pkglibdir://p')
         ompihelpdir=$($OMPI_INFO --parsable --path pkgdatadir | $SED -n 's/^path:pkgdatadir://p')
         AS_IF([test -z "$ompicomponentdir" || test -z "$ompihelpdir"],
             [AC_MSG_ERROR([$OMPI_INFO does not name its folders; say --with-ompi-component-dir=DIR])])])
    VBN_OMPI_SUMMARY="$VBN_OMPI_SUMMARY, into $ompicomponentdir"
    AC_SUBST([ompicomponentdir])
    AC_SUBST([ompihelpdir])
])

# VBN_FIND_OMPI_INFO
# Finds the ompi_info of mpicc's Open MPI: beside it, as a rule.
AC_DEFUN([VBN_FIND_OMPI_INFO], [
    AS_CASE([$MPICC], [*/*], [vbn_ompi_path=$(AS_DIRNAME(["$MPICC"]))$PATH_SEPARATOR$vbn_ompi_path])
    AC_PATH_PROGS([OMPI_INFO], [ompi_info ompi_info.openmpi], [], [$vbn_ompi_path])
    AS_IF([test -z "$OMPI_INFO"],
        [AC_MSG_ERROR([ompi_info is missing (Debian package: openmpi-bin); or say --with-ompi-component-dir=DIR])])
    vbn_info_version=$($OMPI_INFO --version 2>/dev/null | $SED -n 's/^Open MPI v\(@<:@0-9@:>@@<:@0-9.@:>@*\).*/\1/p')
    AS_IF([test "x$vbn_info_version" != "x$vbn_ompi_version"],
        [AC_MSG_ERROR([$MPICC is of Open MPI $vbn_ompi_version, but $OMPI_INFO of ${vbn_info_version:-something else}; name the right mpicc by MPICC=FILE, or say where components go by --with-ompi-component-dir=DIR])])
])
