/* SPDX-License-Identifier: GPL-2.0 */
/* What the kernel crate's own bindings lack. */
#include <linux/kprobes.h>
#include <linux/sched/clock.h>
#include <generated/utsrelease.h>
