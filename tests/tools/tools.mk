# SPDX-License-Identifier: BSD-3-Clause
# The tools that set a machine up.

dist_check_SCRIPTS += tests/tools/test_packages
TESTS += tests/tools/test_packages
