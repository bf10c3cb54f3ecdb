/* SPDX-License-Identifier: GPL-2.0 */
/* What the kernel crate's own bindings lack. */
#include <linux/fprobe.h>
#include <linux/gfp.h>
#include <linux/kdebug.h>
#include <linux/kmemleak.h>
#include <linux/kprobes.h>
#include <linux/nmi.h>
#include <linux/panic_notifier.h>
#include <linux/sched/clock.h>
#include <linux/fs.h>
#include <linux/fs_context.h>
#include <linux/splice.h>
#include <linux/stop_machine.h>
#include <asm/unwind.h>
#include <generated/utsrelease.h>

/* Macros, which bindgen does not evaluate. */
const int RUST_CONST_IOCB_NOWAIT = IOCB_NOWAIT;
const int RUST_CONST_SB_KERNMOUNT = SB_KERNMOUNT;
/* Users may ask for more than there is: that is their error, and none for the kernel to warn of. */
const gfp_t RUST_CONST_GFP_CUSHION = GFP_KERNEL | __GFP_RETRY_MAYFAIL | __GFP_NOWARN;
const gfp_t RUST_CONST_GFP_RING = GFP_KERNEL | __GFP_RETRY_MAYFAIL | __GFP_NOWARN | __GFP_ZERO;
const unsigned int RUST_CONST_HARDIRQ_MASK = HARDIRQ_MASK;
const unsigned int RUST_CONST_NMI_MASK = NMI_MASK;
