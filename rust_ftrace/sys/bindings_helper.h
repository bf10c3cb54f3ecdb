/* SPDX-License-Identifier: GPL-2.0 */
/* What the kernel crate's own bindings lack. */
#include <linux/fprobe.h>
#include <linux/kprobes.h>
#include <linux/sched/clock.h>
#include <linux/fs.h>
#include <linux/splice.h>
#include <asm/unwind.h>
#include <generated/utsrelease.h>

/* (a macro with casts, which bindgen does not evaluate) */
const int RUST_CONST_IOCB_NOWAIT = IOCB_NOWAIT;
