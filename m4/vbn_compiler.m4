# SPDX-License-Identifier: BSD-3-Clause
# Compiler flags of the build: warnings, -Werror, debug, sanitizers.

# VBN_COMPILER_FLAGS
# Sets VBN_CFLAGS (for every object), VBN_LDFLAGS (for every link), VBN_NDEBUG (for the product's
# objects: the tests keep their assertions) and VBN_SIM_CFLAGS (for the simulated fabric's).
AC_DEFUN([VBN_COMPILER_FLAGS], [
    AC_ARG_ENABLE([werror],
        [AS_HELP_STRING([--enable-werror], [warnings are errors (default: in a git checkout)])],
        [], [AS_IF([test -e "$srcdir/.git"], [enable_werror=yes], [enable_werror=no])])
    AC_ARG_ENABLE([debug],
        [AS_HELP_STRING([--enable-debug], [assertions on, no optimisation (default: no)])],
        [], [enable_debug=no])
    AC_ARG_ENABLE([sanitizers],
        [AS_HELP_STRING([--enable-sanitizers=LIST],
            [build with -fsanitize=LIST, e.g. address,undefined or thread])],
        [], [enable_sanitizers=no])

    VBN_CFLAGS="-std=gnu11 -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla"
    VBN_LDFLAGS=
    VBN_NDEBUG=
    VBN_SIM_CFLAGS=
    vbn_build_kind=release
    AS_IF([test "x$enable_werror" = xyes], [VBN_CFLAGS="$VBN_CFLAGS -Werror"])
    # In front of the user's CFLAGS, which therefore still decide.
    AS_IF([test "x$enable_debug" = xyes],
        [vbn_build_kind=debug
         CFLAGS="-O0 -g3 $CFLAGS"
         AS_IF([test "x$ac_test_CFLAGS" = x], [CFLAGS="-O0 -g3"])],
        [VBN_NDEBUG=-DNDEBUG])
    AS_CASE([$enable_sanitizers],
        [no], [VBN_LDFLAGS="-Wl,-z,defs"],
        [yes], [AC_MSG_ERROR([--enable-sanitizers needs a list, e.g. --enable-sanitizers=address,undefined])],
        [VBN_CHECK_SANITIZERS([$enable_sanitizers])])
    VBN_CHECK_FUZZERS
    VBN_CHECK_CLONES
    AC_SUBST([VBN_CFLAGS])
    AC_SUBST([VBN_LDFLAGS])
    AC_SUBST([VBN_NDEBUG])
    AC_SUBST([VBN_SIM_CFLAGS])
])

# VBN_CHECK_SANITIZERS(LIST)
# Fails at once where the compiler cannot link with these sanitizers.
AC_DEFUN([VBN_CHECK_SANITIZERS], [
    vbn_saved_CFLAGS=$CFLAGS
    vbn_sanitize="-fsanitize=$1 -fno-omit-frame-pointer"
    AS_CASE([",$1,"], [*,undefined,*], [vbn_sanitize="$vbn_sanitize -fno-sanitize-recover=undefined"])
    # The fabric stands for hardware: what it does is no thread's doing. And it is quicker so.
    AS_CASE([",$1,"], [*,thread,*], [VBN_SIM_CFLAGS=-fno-sanitize=thread])
    CFLAGS="$CFLAGS $vbn_sanitize"
    AC_MSG_CHECKING([whether $CC links with -fsanitize=$1])
    AC_LINK_IFELSE([AC_LANG_PROGRAM()], [AC_MSG_RESULT([yes])],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([$CC has no -fsanitize=$1; see config.log])])
    CFLAGS=$vbn_saved_CFLAGS
    VBN_CFLAGS="$VBN_CFLAGS $vbn_sanitize"
    # No -z defs: the sanitizers' run-time symbols are resolved in the program only.
    VBN_LDFLAGS="-fsanitize=$1"
    vbn_build_kind="$vbn_build_kind, sanitizers $1"
])

# VBN_CHECK_CLONES
# Defines VBN_CLONES: an attribute by which a function is there for AVX2, too, and the machine that it
# runs on decides. Nothing where the compiler, the C library or the processor has no such thing; nor with
# sanitizers, whose run time is not there yet when the choice is made.
AC_DEFUN([VBN_CHECK_CLONES], [
    vbn_clones=
    AS_IF([test "x$enable_sanitizers" = xno], [
        vbn_saved_CFLAGS=$CFLAGS
        CFLAGS="$CFLAGS -Werror"
        AC_MSG_CHECKING([whether $CC clones functions for AVX2])
        AC_LINK_IFELSE([AC_LANG_SOURCE([[
            __attribute__((target_clones("avx2", "default"))) static int twice(int i) { return 2 * i; }
            static int (*const table[])(int) = {twice};
            int main(int argc, char **argv) { return argv ? table[argc / 100](0) : 1; }]])],
            [AC_MSG_RESULT([yes])
             vbn_clones='__attribute__((target_clones("avx2", "default")))'],
            [AC_MSG_RESULT([no])])
        CFLAGS=$vbn_saved_CFLAGS])
    AC_DEFINE_UNQUOTED([VBN_CLONES], [$vbn_clones], [Makes a function for AVX2, too, where that can be.])
])

# VBN_CHECK_FUZZERS
# Sets FUZZ_LDFLAGS and the conditional FUZZERS: the fuzz targets are linked with clang's libFuzzer.
AC_DEFUN([VBN_CHECK_FUZZERS], [
    AC_ARG_ENABLE([fuzzers],
        [AS_HELP_STRING([--enable-fuzzers], [fuzz targets with libFuzzer (clang); see also `make fuzz'])],
        [], [enable_fuzzers=no])
    FUZZ_LDFLAGS=
    AS_IF([test "x$enable_fuzzers" = xyes], [
        FUZZ_LDFLAGS=-fsanitize=fuzzer
        vbn_saved_CFLAGS=$CFLAGS
        CFLAGS="$CFLAGS -fsanitize=fuzzer"
        AC_MSG_CHECKING([whether $CC has libFuzzer])
        AC_LINK_IFELSE([AC_LANG_SOURCE([[
            int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size);
            int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size)
            { return data && size ? 0 : 0; }]])],
            [AC_MSG_RESULT([yes])],
            [AC_MSG_RESULT([no])
             AC_MSG_ERROR([--enable-fuzzers needs clang with libFuzzer (CC=clang; Debian package: libclang-rt-dev)])])
        CFLAGS=$vbn_saved_CFLAGS
        VBN_CFLAGS="$VBN_CFLAGS -fsanitize=fuzzer-no-link"
        vbn_build_kind="$vbn_build_kind, fuzzers"])
    AC_SUBST([FUZZ_LDFLAGS])
    AM_CONDITIONAL([FUZZERS], [test "x$enable_fuzzers" = xyes])
])
