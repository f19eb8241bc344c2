# SPDX-License-Identifier: BSD-3-Clause
# What the plugins need: dlopen (required), PMIx (launching without MPI), UCX (a transport).

# VBN_CHECK_DL
# Sets DL_LIBS.
AC_DEFUN([VBN_CHECK_DL], [
    vbn_saved_LIBS=$LIBS
    LIBS=
    AC_SEARCH_LIBS([dlopen], [dl], [], [AC_MSG_ERROR([dlopen was not found])])
    DL_LIBS=$LIBS
    LIBS=$vbn_saved_LIBS
    AC_SUBST([DL_LIBS])
])

# VBN_CHECK_UCX
# Sets UCX_CFLAGS, UCX_LIBS and the conditional BUILD_UCX.
AC_DEFUN([VBN_CHECK_UCX], [
    AC_ARG_WITH([ucx],
        [AS_HELP_STRING([--without-ucx], [leave out the transport over UCX (default: if it is there)])],
        [], [with_ucx=check])
    have_ucx=no
    VBN_UCX_SUMMARY="skipped: --without-ucx"
    AS_IF([test "x$with_ucx" != xno], [
        VBN_UCX_SUMMARY="skipped: no UCX 1.11 or later (Debian package: libucx-dev)"
        PKG_CHECK_MODULES([UCX], [ucx >= 1.11], [have_ucx=yes], [
            # Some of UCX's packages have no file for pkg-config.
            AC_CHECK_HEADER([ucp/api/ucp.h], [
                AC_CHECK_LIB([ucp], [ucp_ep_close_nbx],
                    [have_ucx=yes
                     UCX_LIBS="-lucp -lucs"], [], [-lucs])])])
        AS_IF([test "x$have_ucx" = xyes],
            [VBN_UCX_SUMMARY="UCX $($PKG_CONFIG --modversion ucx 2>/dev/null || echo found)"],
            [test "x$with_ucx" != xcheck],
            [AC_MSG_ERROR([--with-ucx was given, but it is $VBN_UCX_SUMMARY])])])
    AC_SUBST([UCX_CFLAGS])
    AC_SUBST([UCX_LIBS])
    AM_CONDITIONAL([BUILD_UCX], [test "x$have_ucx" = xyes])
])

# VBN_CHECK_PMIX
# Sets PMIX_CFLAGS, PMIX_LIBS and the conditional BUILD_PMIX.
AC_DEFUN([VBN_CHECK_PMIX], [
    AC_ARG_WITH([pmix],
        [AS_HELP_STRING([--without-pmix],
            [programs without MPI cannot be launched by mpirun (default: if it is there)])],
        [], [with_pmix=check])
    have_pmix=no
    VBN_PMIX_SUMMARY="skipped: --without-pmix"
    AS_IF([test "x$with_pmix" != xno], [
        VBN_PMIX_SUMMARY="skipped: no PMIx 3 or later (Debian package: libpmix-dev)"
        PKG_CHECK_MODULES([PMIX], [pmix >= 3], [have_pmix=yes], [
            AC_CHECK_HEADER([pmix.h], [
                AC_CHECK_LIB([pmix], [PMIx_Fence_nb],
                    [have_pmix=yes
                     PMIX_LIBS="-lpmix"])])])
        AS_IF([test "x$have_pmix" = xyes],
            # Warnings in PMIx's own headers are not ours to mend: -isystem.
            [PMIX_CFLAGS=$(echo "$PMIX_CFLAGS" | $SED 's/-I */-isystem /g')
             VBN_PMIX_SUMMARY="PMIx $($PKG_CONFIG --modversion pmix 2>/dev/null || echo found)"],
            [test "x$with_pmix" != xcheck],
            [AC_MSG_ERROR([--with-pmix was given, but it is $VBN_PMIX_SUMMARY])])])
    AC_SUBST([PMIX_CFLAGS])
    AC_SUBST([PMIX_LIBS])
    AM_CONDITIONAL([BUILD_PMIX], [test "x$have_pmix" = xyes])
])
