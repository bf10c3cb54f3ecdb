#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The kernel's selftests of tracing functions.
# shellcheck disable=SC2034 # for lib/selftests.sh
CASES='ftrace'
. /tests/lib/selftests.sh
