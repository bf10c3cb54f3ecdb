// SPDX-License-Identifier: GPL-2.0

//! Models of a writer and a reader on two CPUs, in all orders of memory accesses (loom).
