#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The kernel's selftests of tracing functions.
# shellcheck disable=SC2034 # for selftests.sh
CASES='ftrace'
. /tests/selftests.sh
