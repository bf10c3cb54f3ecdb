// SPDX-License-Identifier: GPL-2.0

//! Reads text files of the kernel's own file systems, wherever and whether or not they are mounted.
//!
//! Some lists are to be had there alone, such as that of the functions that ftrace can trace: no
//! exported function gives it. So it is read as users read it, through a mount of our own and
//! `seq_read_iter`, but with the kernel's rights and in its namespaces, whichever task asks.

use core::mem::offset_of;
use core::ptr::NonNull;

use kernel::bindings;
use kernel::error::from_err_ptr;
use kernel::prelude::*;

use super::own_mount::{FileSystem, OwnMount};
use super::part::PrivatePart;
use super::peek;
use crate::sys::{faults, kernel_thread};

/// A file that is open for reading.
///
/// # Invariants
///
/// The file is open, and nothing else has it.
struct OpenKernelFile(NonNull<bindings::file>);

impl OpenKernelFile {
    fn open(mount: &OwnMount, name: &CStr) -> Result<Self> {
        let path = mount.root();
        faults::here("file_open_root")?;
        // SAFETY: The path is that of a live mount's root; `name` is a string.
        let file = unsafe {
            bindings::file_open_root(&path, name.as_char_ptr(), bindings::O_RDONLY as c_int, 0)
        };
        // INVARIANT: Just opened.
        Ok(Self(NonNull::new(from_err_ptr(file)?).ok_or(ENODEV)?))
    }
}

impl Drop for OpenKernelFile {
    fn drop(&mut self) {
        // SAFETY: By the type's invariants the file is open, and nothing else has it.
        //
        // Closed at once, so that the mount is not busy afterwards.
        unsafe { bindings::__fput_sync(self.0.as_ptr()) };
    }
}

/// An open file that is a `seq_file`.
///
/// # Invariants
///
/// Its private data is a `seq_file`.
struct SeqFile(OpenKernelFile);

impl SeqFile {
    /// Opens file `name`.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if it is no `seq_file`, which knows the file that it is for.
    fn open(mount: &OwnMount, name: &CStr) -> Result<Self> {
        let file = OpenKernelFile::open(mount, name)?;
        // SAFETY: The file is open; what it has was set when it was opened.
        let private = unsafe { (*file.0.as_ptr()).private_data } as u64;
        let known = peek::field(private, offset_of!(bindings::seq_file, file));
        match known == Some(file.0.as_ptr() as u64) {
            // INVARIANT: As was just seen; and `seq_open()` alone leaves what points back.
            true => Ok(Self(file)),
            false => Err(EOPNOTSUPP),
        }
    }

    /// Gives the file, which nothing was read of yet, a buffer of [`AT_A_TIME`] bytes instead of a
    /// page, as `single_open_size()` does.
    ///
    /// Every time that its buffer is full, a list of functions lets its lock go and then passes
    /// over all that it has shown already, which by pages takes most of the time.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    fn enlarge(&self) -> Result {
        // SAFETY: By the type's invariants this is an open file.
        let seq = unsafe { (*self.0 .0.as_ptr()).private_data }.cast::<bindings::seq_file>();
        let (buffer, _, size) = KVVec::<u8>::with_capacity(AT_A_TIME, GFP_KERNEL)?.into_raw_parts();
        // SAFETY:
        // - By the type's invariants this is a `seq_file`, and nothing else has it.
        // - It has no buffer before it is read.
        // - The new one is of `size` bytes, and may be freed by `kvfree()`: `seq_release()` does.
        unsafe { (*seq).buf = buffer.cast() };
        // SAFETY: By the type's invariants this is a `seq_file`, and nothing else has it.
        unsafe { (*seq).size = size };
        Ok(())
    }

    /// Reads from `position` on; 0 at the end.
    fn read(&self, buffer: &mut [u8], position: &mut i64) -> Result<usize> {
        let vector = bindings::kvec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        let mut iterator = bindings::iov_iter::default();
        // SAFETY: `vector` and the buffer outlive the iterator.
        unsafe {
            bindings::iov_iter_kvec(&mut iterator, bindings::ITER_DEST, &vector, 1, buffer.len());
        }
        let mut control = bindings::kiocb {
            ki_filp: self.0 .0.as_ptr(),
            ki_pos: *position,
            ..Default::default()
        };
        // SAFETY:
        // - By the type's invariants the private data of the file in `control` is a `seq_file`.
        // - `iterator` is a destination of as many bytes as `buffer` has.
        // - Both outlive the call, which reads at once, as `control` says of no other way.
        let length = unsafe { bindings::seq_read_iter(&mut control, &mut iterator) };
        let length = usize::try_from(length).map_err(|_| Error::from_errno(length as c_int))?;
        *position = control.ki_pos;
        Ok(length)
    }
}

/// The files that can be read: `seq_file`s in every kernel that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelFile {
    /// Address, name and module of every function that ftrace can trace.
    FilterFunctions,
    /// Every symbol.
    Kallsyms,
}

impl KernelFile {
    const fn place(self) -> (FileSystem, &'static CStr) {
        match self {
            Self::FilterFunctions => (FileSystem::Tracefs, c"available_filter_functions_addrs"),
            Self::Kallsyms => (FileSystem::Proc, c"kallsyms"),
        }
    }

    const fn part(self) -> PrivatePart {
        match self {
            Self::FilterFunctions => PrivatePart::Functions,
            Self::Kallsyms => PrivatePart::Kallsyms,
        }
    }
}

/// Returns whether the kernel has the file system that `list` is kept in.
pub(crate) fn has(list: KernelFile) -> bool {
    let (file_system, _) = list.place();
    file_system.is_there()
}

/// Opens `list`, to see if it is such a file as can be read.
///
/// # Errors
///
/// Those of [`read_lines`].
pub(crate) fn look_at(list: KernelFile) -> Result {
    let part = list.part();
    let open = || {
        let (file_system, name) = list.place();
        let mount = OwnMount::new(file_system)?;
        SeqFile::open(&mount, name).map(drop)
    };
    let result = match part.is_as_known() {
        true => kernel_thread::call(open)?,
        false => Err(EOPNOTSUPP),
    };
    if result == Err(EOPNOTSUPP) {
        part.is_not_as_known();
    }
    result
}

/// Bytes that are read of a list at a time: few enough that those tasks which wait for the kernel's
/// lock of ftrace meanwhile do not wait for long.
const AT_A_TIME: usize = 1 << 17;

/// Most bytes of a description of types: the kernel itself takes none that is as long.
const MOST_BTF_BYTES: usize = 64 << 20;

/// Reads the description of types `/sys/kernel/btf/NAME`: that of the kernel itself (`vmlinux`), or
/// that of a module.
///
/// # Errors
///
/// - `ENODEV` if the kernel does not have the file system, or the module goes; `ENOENT` if there is
///   no such file.
/// - `EINVAL` if that is no module's name.
/// - `EFBIG` if it is longer than 64 MiB.
/// - `ENOMEM` if there is no memory.
pub(crate) fn read_btf(name: &[u8]) -> Result<KVVec<u8>> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    if name.is_empty() || name.len() > MODULE_NAME_LEN || !name.iter().all(is_plain) {
        return Err(EINVAL);
    }
    kernel_thread::call(|| read_btf_here(name))?
}

/// Room for a module's name.
const MODULE_NAME_LEN: usize = 64 - size_of::<usize>();

fn read_btf_here(name: &[u8]) -> Result<KVVec<u8>> {
    const ROOM: usize = 1 << 16;
    let mut path = [0; 16 + MODULE_NAME_LEN];
    let parts = [&b"kernel/btf/"[..], name].into_iter().flatten();
    path.iter_mut()
        .zip(parts)
        .for_each(|(to, from)| *to = *from);
    let path = CStr::from_bytes_until_nul(&path).map_err(|_| EINVAL)?;
    let mount = OwnMount::new(FileSystem::Sysfs)?;
    let file = OpenKernelFile::open(&mount, path)?;
    let mut bytes = KVVec::new();
    let mut room = KVVec::from_elem(0u8, ROOM, GFP_KERNEL)?;
    let mut position: bindings::loff_t = 0;
    loop {
        // SAFETY: The file is open for reading, and the room has so many bytes.
        let length = unsafe {
            bindings::kernel_read(
                file.0.as_ptr(),
                room.as_mut_ptr().cast(),
                room.len(),
                &mut position,
            )
        };
        let length = usize::try_from(length).map_err(|_| Error::from_errno(length as c_int))?;
        if length == 0 {
            return Ok(bytes);
        }
        if bytes.len() > MOST_BTF_BYTES {
            return Err(EFBIG);
        }
        bytes.extend_from_slice(room.get(..length).ok_or(EIO)?, GFP_KERNEL)?;
    }
}

/// Gives `line` every line of a list, without its end, in another thread: it must not need a lock
/// that the caller holds.
///
/// # Errors
///
/// - `ENODEV` if the kernel does not have the file system, `ENOENT` if not the file.
/// - `EPERM` if the kernel is locked down.
/// - `EOPNOTSUPP` if the file is no `seq_file`.
/// - `E2BIG` if a line is longer than 128 KiB.
/// - What `line` returns.
pub(crate) fn read_lines(list: KernelFile, line: impl FnMut(&[u8]) -> Result + Send) -> Result {
    if !list.part().is_as_known() {
        return Err(EOPNOTSUPP);
    }
    kernel_thread::call(|| read_lines_here(list, line))?
}

fn read_lines_here(list: KernelFile, mut line: impl FnMut(&[u8]) -> Result) -> Result {
    let (file_system, name) = list.place();
    let mount = OwnMount::new(file_system)?;
    let file = SeqFile::open(&mount, name)?;
    file.enlarge()?;
    let mut buffer = KVVec::from_elem(0u8, AT_A_TIME, GFP_KERNEL)?;
    let mut position = 0;
    // What is left of the last read, at the buffer's beginning: a line without its end.
    let mut kept = 0;
    loop {
        let room = buffer.get_mut(kept..).ok_or(E2BIG)?;
        if room.is_empty() {
            return Err(E2BIG);
        }
        let length = file.read(room, &mut position)?;
        if length == 0 {
            break;
        }
        let filled = buffer.get(..kept.wrapping_add(length)).ok_or(EIO)?;
        let mut rest = filled;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            let (this, after) = rest.split_at(end);
            line(this)?;
            rest = after.get(1..).unwrap_or_default();
        }
        let start = filled.len() - rest.len();
        let end = filled.len();
        kept = end - start;
        buffer.copy_within(start..end, 0);
    }
    Ok(())
}
