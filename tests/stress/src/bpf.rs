// SPDX-License-Identifier: GPL-2.0

//! BPF programs on functions that ours may trace: by fprobe (kprobe.multi), and by a direct call
//! (fentry, fexit).
//!
//! See include/uapi/linux/bpf.h. The program returns 0, and has an end: only the caller matters
//! here.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::Duration;

use btf_rs::Btf;

use crate::run::Hand;
use crate::world::World;

const PROG_LOAD: libc::c_long = 5;
const RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const LINK_CREATE: libc::c_long = 28;

const TYPE_KPROBE: u32 = 2;
const TYPE_TRACING: u32 = 26;

const FENTRY: u32 = 24;
const FEXIT: u32 = 25;
const KPROBE_MULTI: u32 = 42;

/// Flag that makes kprobe.multi report returns, not entries.
const ON_RETURN: u32 = 1;

/// `r0 = 0; exit`.
static PROGRAM: [u64; 2] = [0xb7, 0x95];

/// `union bpf_attr` for `BPF_PROG_LOAD`.
#[repr(C)]
#[derive(Default)]
struct Load {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_cnt: u32,
    attach_btf_id: u32,
    attach_prog_fd: u32,
    core_relo_cnt: u32,
}

/// `union bpf_attr` for `BPF_LINK_CREATE`, as kprobe.multi has it.
#[repr(C)]
#[derive(Default)]
struct Link {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
    multi_flags: u32,
    count: u32,
    symbols: u64,
    addresses: u64,
    cookies: u64,
}

/// `union bpf_attr` for `BPF_RAW_TRACEPOINT_OPEN`.
#[repr(C)]
#[derive(Default)]
struct RawTracepoint {
    name: u64,
    prog_fd: u32,
    _pad: u32,
}

/// Makes a system call whose attributes begin with `attributes`; the rest is 0.
fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: The attributes are `size_of` bytes that can be read, and what they point to outlives
    // the call.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: The commands used here return a descriptor that has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn load(prog_type: u32, expected_attach_type: u32, attach_btf_id: u32) -> io::Result<OwnedFd> {
    let attributes = Load {
        prog_type,
        insn_cnt: PROGRAM.len() as u32,
        insns: PROGRAM.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        expected_attach_type,
        attach_btf_id,
        ..Load::default()
    };
    bpf(PROG_LOAD, &attributes)
}

/// Types of the kernel's functions.
const TYPES: &str = "/sys/kernel/btf/vmlinux";

fn types() -> io::Result<&'static Btf> {
    static READ: OnceLock<Btf> = OnceLock::new();
    match READ.get() {
        Some(types) => Ok(types),
        None => {
            let types = Btf::from_file(TYPES).map_err(io::Error::other)?;
            Ok(READ.get_or_init(|| types))
        }
    }
}

/// Attaches a program to some functions, or to one, for some ms.
pub fn programs(hand: &mut Hand) -> io::Result<()> {
    let link = match hand.random.u8(0..2) {
        0 => multi(hand)?,
        _ => trampoline(hand)?,
    };
    sleep(Duration::from_millis(hand.random.u64(0..300)));
    drop(link);
    Ok(())
}

fn multi(hand: &mut Hand) -> io::Result<OwnedFd> {
    let program = load(TYPE_KPROBE, KPROBE_MULTI, 0)?;
    let count = hand.random.usize(1..30);
    let names = (0..count).filter_map(|_| {
        let name = hand.world.function(&mut hand.random);
        // Names, not patterns.
        (!name.contains('*')).then(|| CString::new(name).ok())?
    });
    let mut names: Vec<CString> = names.collect();
    names.sort();
    names.dedup();
    let symbols: Vec<u64> = names.iter().map(|name| name.as_ptr() as u64).collect();
    bpf(
        LINK_CREATE,
        &Link {
            prog_fd: program.as_raw_fd() as u32,
            attach_type: KPROBE_MULTI,
            // Not at the entry alone: docs/upstream/fprobe-return-null.md.
            multi_flags: ON_RETURN,
            count: symbols.len() as u32,
            symbols: symbols.as_ptr() as u64,
            ..Link::default()
        },
    )
}

fn trampoline(hand: &mut Hand) -> io::Result<OwnedFd> {
    let name = hand.world.function(&mut hand.random);
    let ids = types()?.resolve_ids_by_name(name);
    let id = *ids
        .map_err(io::Error::other)?
        .first()
        .ok_or(io::ErrorKind::NotFound)?;
    let attach_type = [FENTRY, FEXIT][hand.random.usize(0..2)];
    let program = load(TYPE_TRACING, attach_type, id)?;
    let attributes = RawTracepoint {
        prog_fd: program.as_raw_fd() as u32,
        ..RawTracepoint::default()
    };
    bpf(RAW_TRACEPOINT_OPEN, &attributes)
}

/// Returns a reason why there are none.
pub fn none(_: &World) -> Option<String> {
    if let Err(error) = load(TYPE_KPROBE, KPROBE_MULTI, 0) {
        return Some(format!("a program of BPF cannot be loaded: {error}"));
    }
    let no_types = fs::metadata(TYPES).err();
    no_types.map(|error| format!("{TYPES}: {error}"))
}
