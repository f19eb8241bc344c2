/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of the C library that unit.mk replaces (UNIT_WRAP): see unit.h. */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
    unsigned alloc_left;
    bool alloc_all, alloc_failed;
    uint64_t memlock;
    char sysfs[64]; /* a folder in its place, or "" */
    int cm_error;
    jmp_buf *assertion;
} armed = {.memlock = UINT64_MAX};

void unit_wrap_reset(void)
{
    memset(&armed, 0, sizeof(armed));
    armed.memlock = UINT64_MAX;
}

/* --- allocations ------------------------------------------------------------------------------ */

void *__real_malloc(size_t len);
void *__real_calloc(size_t count, size_t len);
void *__real_realloc(void *old, size_t len);
void *__real_aligned_alloc(size_t align, size_t len);
void *__wrap_malloc(size_t len);
void *__wrap_calloc(size_t count, size_t len);
void *__wrap_realloc(void *old, size_t len);
void *__wrap_aligned_alloc(size_t align, size_t len);

void unit_fail_alloc(unsigned nth)
{
    armed.alloc_left = nth;
    armed.alloc_failed = false;
}

void unit_fail_allocs(bool all)
{
    armed.alloc_all = all;
}

bool unit_alloc_failed(void)
{
    return armed.alloc_failed;
}

static bool alloc_fails(void)
{
    if (!armed.alloc_all && (!armed.alloc_left || --armed.alloc_left))
        return false;
    armed.alloc_failed = true;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t len)
{
    return alloc_fails() ? NULL : __real_malloc(len);
}

void *__wrap_calloc(size_t count, size_t len)
{
    return alloc_fails() ? NULL : __real_calloc(count, len);
}

void *__wrap_realloc(void *old, size_t len)
{
    return alloc_fails() ? NULL : __real_realloc(old, len);
}

void *__wrap_aligned_alloc(size_t align, size_t len)
{
    return alloc_fails() ? NULL : __real_aligned_alloc(align, len);
}

/* --- the locked-memory limit ------------------------------------------------------------------ */

int __real_getrlimit(int resource, struct rlimit *lim);
int __wrap_getrlimit(int resource, struct rlimit *lim);
long __wrap_syscall(long number, void *head, struct __user_cap_data_struct *data);

void unit_memlock(uint64_t bytes)
{
    armed.memlock = bytes;
}

int __wrap_getrlimit(int resource, struct rlimit *lim)
{
    if (resource != RLIMIT_MEMLOCK || armed.memlock == UINT64_MAX)
        return __real_getrlimit(resource, lim);
    lim->rlim_cur = lim->rlim_max = armed.memlock;
    return 0;
}

/* capget() has no other name. The library makes no other call of this kind. */
long __wrap_syscall(long number, void *head, struct __user_cap_data_struct *data)
{
    assert_int_equal(number, SYS_capget);
    assert_non_null(head);
    memset(data, armed.memlock == UINT64_MAX ? 0xff : 0, 2 * sizeof(*data));
    return 0;
}

/* --- sysfs ------------------------------------------------------------------------------------ */

#define SYSFS "/sys/class/infiniband/"

enum { PATH_LEN = 600 };

DIR *__real_opendir(const char *path);
FILE *__real_fopen(const char *path, const char *mode);
DIR *__wrap_opendir(const char *path);
FILE *__wrap_fopen(const char *path, const char *mode);

static const char *redirect(const char *path, char *buf, size_t len)
{
    if (!armed.sysfs[0] || strncmp(path, SYSFS, strlen(SYSFS)))
        return path;
    snprintf(buf, len, "%s/%s", armed.sysfs, path + strlen(SYSFS));
    return buf;
}

DIR *__wrap_opendir(const char *path)
{
    char buf[PATH_LEN];

    return __real_opendir(redirect(path, buf, sizeof(buf)));
}

FILE *__wrap_fopen(const char *path, const char *mode)
{
    char buf[PATH_LEN];

    return __real_fopen(redirect(path, buf, sizeof(buf)), mode);
}

static void make_path(const char *path)
{
    char part[PATH_LEN];

    for (const char *end = strchr(path + 1, '/'); end; end = strchr(end + 1, '/')) {
        snprintf(part, sizeof(part), "%.*s", (int)(end - path), path);
        assert_true(mkdir(part, 0700) == 0 || errno == EEXIST);
    }
}

void unit_sysfs_ndev(const char *device, unsigned port, unsigned number, const char *name)
{
    char path[PATH_LEN];
    FILE *file;

    if (!armed.sysfs[0]) {
        strcpy(armed.sysfs, "/tmp/verbena-sysfs.XXXXXX");
        assert_non_null(mkdtemp(armed.sysfs));
    }
    snprintf(path, sizeof(path), "%s/%s/ports/%u/gid_attrs/ndevs/%u", armed.sysfs, device, port,
             number);
    make_path(path);
    file = __real_fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%s\n", name);
    fclose(file);
}

void unit_sysfs_remove(void)
{
    char command[PATH_LEN];

    snprintf(command, sizeof(command), "rm -r '%s'", armed.sysfs);
    assert_int_equal(system(command), 0);
    armed.sysfs[0] = '\0';
}

/* --- a library never ends its process --------------------------------------------------------- */

void __wrap_exit(int status) __attribute__((noreturn));

void __wrap_exit(int status)
{
    fail_msg("the library called exit(%d)", status);
    abort();
}

/* --- the connection manager's file ----------------------------------------------------------- */

int __wrap_access(const char *path, int mode);

void unit_cm_file(int error)
{
    armed.cm_error = error;
}

int __wrap_access(const char *path, int mode)
{
    assert_string_equal(path, "/dev/infiniband/rdma_cm");
    assert_int_equal(mode, R_OK | W_OK);
    errno = armed.cm_error;
    return errno ? -1 : 0;
}

/* --- assertions of the library ---------------------------------------------------------------- */

void __real___assert_fail(const char *what, const char *file, unsigned line, const char *function)
    __attribute__((noreturn));
void __wrap___assert_fail(const char *what, const char *file, unsigned line, const char *function)
    __attribute__((noreturn));

bool unit_asserts(void (*call)(void *arg), void *arg)
{
    jmp_buf here;
    bool asserted = true;

    armed.assertion = &here;
    if (!setjmp(here)) {
        call(arg);
        asserted = false;
    }
    armed.assertion = NULL;
    return asserted;
}

void __wrap___assert_fail(const char *what, const char *file, unsigned line, const char *function)
{
    if (armed.assertion)
        longjmp(*armed.assertion, 1);
    __real___assert_fail(what, file, line, function);
}
