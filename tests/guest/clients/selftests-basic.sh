#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The kernel's selftests of the basic files and of instances.
# shellcheck disable=SC2034 # for lib/selftests.sh
CASES='instances 00basic'
. /tests/lib/selftests.sh
