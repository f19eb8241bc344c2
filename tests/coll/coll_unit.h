/* SPDX-License-Identifier: BSD-3-Clause */
/* cmocka and what it needs before it. */
#ifndef COLL_UNIT_H
#define COLL_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#endif
