#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Makes ./configure and the Makefile templates from configure.ac and Makefile.am.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")"
exec autoreconf --install --force --warnings=all,no-obsolete
