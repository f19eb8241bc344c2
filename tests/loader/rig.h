/* SPDX-License-Identifier: BSD-3-Clause */
/* A folder for each test, with plugins and a parameter file, and a clean environment. */
#ifndef VBN_TEST_RIG_H
#define VBN_TEST_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "verbena_loader.h"

extern vbn_loader_t *loader; /* destroyed after the test */
extern struct vbn_error err;
extern char folder[]; /* the test's, where it put plugins; it is the transport_path */
extern int arg_count; /* of the last create() */
extern char *args[32];

int rig_setup(void **state);
int rig_teardown(void **state);

/* Copies the plugin to verbena_NAME.so, which then behaves by its name. */
void put_plugin(const char *name);
/* Puts a shared object that is no plugin there, or a file with TEXT. */
void put_other(const char *name);
void put_text(const char *file, const char *text);
/* Makes a parameter file with TEXT the one that is read; gives its path. */
const char *param_file(const char *text);

/* Makes the loader with a command line, the words of which are separated by blanks. */
int create(const char *line);
/* The same, which must work. */
void created(const char *line);

/* What help prints; to be freed. */
char *help_text(void);

void assert_contains(const char *text, const char *part);
void assert_lacks(const char *text, const char *part);

#endif
