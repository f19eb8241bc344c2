# SPDX-License-Identifier: BSD-3-Clause
# The libraries: libibverbs, librdmacm and uthash (required), cmocka (unit tests).

# VBN_CHECK_VERBS
# Sets VERBS_CFLAGS and VERBS_LIBS, or stops with the package to install.
AC_DEFUN([VBN_CHECK_VERBS], [
    PKG_CHECK_MODULES([IBVERBS], [libibverbs], [],
        [AC_MSG_ERROR([libibverbs was not found; install its development files (Debian package: libibverbs-dev)])])
    PKG_CHECK_MODULES([RDMACM], [librdmacm], [],
        [AC_MSG_ERROR([librdmacm was not found; install its development files (Debian package: librdmacm-dev)])])
    AC_CHECK_HEADER([uthash.h], [],
        [AC_MSG_ERROR([uthash.h was not found; install it (Debian package: uthash-dev)])])
    VERBS_CFLAGS="$IBVERBS_CFLAGS $RDMACM_CFLAGS"
    VERBS_LIBS="$RDMACM_LIBS $IBVERBS_LIBS"
    VBN_VERBS_SUMMARY="libibverbs $($PKG_CONFIG --modversion libibverbs), librdmacm $($PKG_CONFIG --modversion librdmacm)"
    AC_SUBST([VERBS_CFLAGS])
    AC_SUBST([VERBS_LIBS])
])

# VBN_CHECK_CMOCKA
# Sets CMOCKA_CFLAGS, CMOCKA_LIBS and the conditional HAVE_CMOCKA.
AC_DEFUN([VBN_CHECK_CMOCKA], [
    PKG_CHECK_MODULES([CMOCKA], [cmocka],
        [have_cmocka=yes
         VBN_CMOCKA_SUMMARY="cmocka $($PKG_CONFIG --modversion cmocka)"],
        [have_cmocka=no
         VBN_CMOCKA_SUMMARY="skipped: no cmocka (Debian package: libcmocka-dev)"
         AC_MSG_NOTICE([cmocka was not found: unit tests are skipped (Debian package: libcmocka-dev)])])
    AM_CONDITIONAL([HAVE_CMOCKA], [test "x$have_cmocka" = xyes])
])
