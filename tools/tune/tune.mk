# SPDX-License-Identifier: BSD-3-Clause
# verbena-tune, which measures the collectives' algorithms and writes rules.

bin_PROGRAMS += tools/tune/verbena-tune
tools_tune_verbena_tune_SOURCES = tools/tune/main.c tools/tune/measure.c tools/tune/model.c \
	tools/tune/options.c tools/tune/report.c tools/tune/tune.h tools/tune/way.c
tools_tune_verbena_tune_CPPFLAGS = $(AM_CPPFLAGS) -iquote $(srcdir)/plugin/loader \
	-iquote $(srcdir)/plugin/bootstrap
tools_tune_verbena_tune_LDADD = libverbena_bootstrap.la libverbena_loader.la libverbena.la -lm
tools_tune_verbena_tune_LDFLAGS = $(AM_LDFLAGS) -R $(libdir)
