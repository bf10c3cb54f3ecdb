/* SPDX-License-Identifier: GPL-2.0 */
/* What the kernel crate's own bindings lack. */
#include <linux/fprobe.h>
#include <linux/kprobes.h>
#include <linux/sched/clock.h>
#include <linux/fs.h>
#include <linux/splice.h>
#include <asm/unwind.h>
#include <generated/utsrelease.h>

/* (macros which bindgen does not evaluate) */
const int RUST_CONST_IOCB_NOWAIT = IOCB_NOWAIT;
const unsigned int RUST_CONST_HARDIRQ_MASK = HARDIRQ_MASK;
const unsigned int RUST_CONST_NMI_MASK = NMI_MASK;
