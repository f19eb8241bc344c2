# SPDX-License-Identifier: BSD-3-Clause
# The gates on the sources: `make check-gates` runs all, `make format` mends the style.

# .clang-format is written for this release; others lay out some lines differently.
VBN_CLANG_FORMAT_RELEASE = 14
VBN_FIND_C = cd $(srcdir) && find transport plugin collectives tests examples tools \
	-name '*.[ch]' -print0 2>/dev/null
VBN_CPPCHECK_FLAGS = --quiet --std=c11 --inline-suppr --error-exitcode=1 \
	--enable=warning,performance,portability \
	--suppressions-list=$(srcdir)/tools/cppcheck.suppressions -I$(srcdir)/transport -I$(srcdir)/collectives -D_GNU_SOURCE \
	-DOPAL_MAJOR_VERSION=4 -DOPAL_MINOR_VERSION=1
# How far the analyzer follows a function's paths, which is nearly all of check-tidy's time. Its own
# default takes three times as long: make check-tidy VBN_TIDY_NODES=225000
VBN_TIDY_NODES = 50000
# Sources from standard input, relative to srcdir; the compiler's flags and a quote are to follow.
VBN_TIDY = sed 's|^|$(srcdir)/|' | xargs -P 2 -n 3 $(SHELL) -c '$(CLANG_TIDY) --quiet \
	--config-file=$(srcdir)/.clang-tidy "$$@" -- -std=gnu11 -I. \
	-Xclang -analyzer-config -Xclang max-nodes=$(VBN_TIDY_NODES)

format:
	$(VBN_FIND_C) | xargs -0 $(CLANG_FORMAT) -i

check-style:
	@$(VBN_FIND_C) | xargs -0 $(CLANG_FORMAT) --dry-run -Werror

# Nothing below plugin/ knows a host, and transport/ knows nothing above it.
check-layers:
	@$(srcdir)/tools/check-layers $(srcdir)

# Each public header stands alone, as C and as C++, and may be included twice.
check-headers:
	@for header in $(include_HEADERS); do \
	    for language in "c -std=c11" "c++ -std=c++11"; do \
	        printf '#include "%s"\n#include "%s"\n' "$$header" "$$header" | \
	            $(CC) -x $$language -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I$(srcdir) \
	            -I$(srcdir)/transport -I$(srcdir)/plugin/loader - || \
	            { echo "check-headers: $$header does not compile alone as $$language" >&2; exit 1; }; \
	    done; \
	done

check-exports: libverbena.la libverbena_loader.la libverbena_bootstrap.la
	@NM='$(NM)' $(srcdir)/tools/check-exports .libs/libverbena.so $(VBN_MAP)
	@NM='$(NM)' $(srcdir)/tools/check-exports .libs/libverbena_loader.so $(VBN_LOADER_MAP)
	@NM='$(NM)' $(srcdir)/tools/check-exports .libs/libverbena_bootstrap.so $(VBN_BOOTSTRAP_MAP)

# cppcheck reads no system header; the list macros of <sys/queue.h> it must know.
check-cppcheck:
	@echo '#include <sys/queue.h>' | $(CC) -E -dM - | grep -E '(LIST|TAILQ|STAILQ)_' >cppcheck-queue.h
	@$(CPPCHECK) $(VBN_CPPCHECK_FLAGS) --include=cppcheck-queue.h $(srcdir)/transport \
	    $(srcdir)/collectives $(srcdir)/plugin $(srcdir)/examples $(srcdir)/tools/perf

check-tidy:
	@printf '%s\n' $(libverbena_core_la_SOURCES) | grep '\.c$$' | \
	    $(VBN_TIDY) $(AM_CPPFLAGS) $(VERBS_CFLAGS)' tidy
	@printf '%s\n' $(VBN_LOADER_SOURCES) | grep '\.c$$' | \
	    $(VBN_TIDY) $(AM_CPPFLAGS) -DVBN_PLUGIN_FOLDER=\"x\"' tidy
	@printf '%s\n' $(VBN_BOOTSTRAP_SOURCES) | grep '\.c$$' | \
	    $(VBN_TIDY) $(AM_CPPFLAGS) -iquote $(srcdir)/plugin/loader $(PMIX_CFLAGS)' tidy
	@printf '%s\n' $(VBN_PERF_SOURCES) | grep '\.c$$' | \
	    $(VBN_TIDY) $(AM_CPPFLAGS) -iquote $(srcdir)/plugin/loader -iquote $(srcdir)/plugin/bootstrap' \
	    tidy
if BUILD_UCX
	@printf '%s\n' $(VBN_UCX_SOURCES) | grep '\.c$$' | \
	    $(VBN_TIDY) $(AM_CPPFLAGS) -DVBN_VERSION=\"x\" $(UCX_CFLAGS)' tidy
endif
if BUILD_OMPI_BTL
	@printf '%s\n' $(VBN_BTL_SOURCES) | grep '\.c$$' | \
	    $(VBN_TIDY) $(AM_CPPFLAGS) $(OMPI_CPPFLAGS) $(OMPI_CFLAGS)' tidy
endif

check-shell:
	@cd $(srcdir) && find autogen.sh check demo .ci examples tests tools -type f -perm -u+x -print0 | \
	    xargs -0 grep -lE '^#!.*(bash|/sh)$$' | \
	    xargs shellcheck --severity=warning --external-sources

# What the data path costs, in instructions.
cost:
	@$(MAKE) -s tests/unit/cost$(EXEEXT) tests/coll/cost_coll$(EXEEXT) && $(srcdir)/tools/cost

check-gates: check-style check-layers check-headers check-exports check-cppcheck check-tidy \
	check-shell

.PHONY: cost format check-gates check-style check-layers check-headers check-exports check-cppcheck \
	check-tidy check-shell

EXTRA_DIST += tools/bench tools/bench-coll tools/bench-common.sh tools/bench-wait tools/bench-incast tools/build tools/cost \
	tools/check-exports tools/check-layers tools/common.sh tools/cppcheck.suppressions tools/packages
CLEANFILES += cppcheck-queue.h
