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
