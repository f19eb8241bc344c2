# SPDX-License-Identifier: BSD-3-Clause
# A client that means harm, thrown at a job by tests/hostile/run.

check_PROGRAMS += tests/hostile/hostile
tests_hostile_hostile_SOURCES = \
	tests/hostile/hostile.c \
	tests/hostile/hostile.h \
	tests/hostile/kinds.c \
	tests/hostile/shots.c
tests_hostile_hostile_LDADD = $(VERBS_LIBS)

EXTRA_DIST += tests/hostile/run
