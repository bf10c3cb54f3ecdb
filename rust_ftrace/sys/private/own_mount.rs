// SPDX-License-Identifier: GPL-2.0

//! Mounts of the kernel's file systems that are in no namespace, and that leave all other mounts as
//! they are.
//!
//! C headers: [`include/linux/fs_context.h`](srctree/include/linux/fs_context.h),
//! [`include/linux/mount.h`](srctree/include/linux/mount.h)

use core::ptr::{null_mut, NonNull};

use kernel::bindings;
use kernel::error::from_err_ptr;
use kernel::prelude::*;

use crate::sys::{faults, ffi};

/// A file system that is built into the kernel, if it has it at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileSystem {
    /// That of tracing.
    Tracefs,
    /// That of processes.
    Proc,
    /// That of devices.
    Sysfs,
}

impl FileSystem {
    const fn name(self) -> &'static CStr {
        match self {
            Self::Tracefs => c"tracefs",
            Self::Proc => c"proc",
            Self::Sysfs => c"sysfs",
        }
    }

    /// Returns whether all of its superblocks have the files that are read here. If not, as with
    /// `subset=pid` of proc, a mount has a new one, with options of its own.
    const fn is_shared(self) -> bool {
        !matches!(self, Self::Proc)
    }

    fn kind(self) -> Option<NonNull<bindings::file_system_type>> {
        // SAFETY: The name is a string. What is built in has no reference to be put back.
        NonNull::new(unsafe { bindings::get_fs_type(self.name().as_char_ptr()) })
    }

    /// Returns whether the kernel has it.
    pub(crate) fn is_there(self) -> bool {
        self.kind().is_some()
    }
}

/// A mount that is in no namespace.
///
/// # Invariants
///
/// It is one, and a reference to it is ours.
pub(crate) struct OwnMount(NonNull<bindings::vfsmount>);

impl OwnMount {
    /// Mounts `file_system` without a change of what is mounted already. Where all mounts have one
    /// superblock, and one set of options, as in `tracefs_get_tree()` of fs/tracefs/inode.c,
    /// another mount by name would set these anew.
    ///
    /// To be called in a thread of the kernel's: the caller's namespaces and rights would matter.
    ///
    /// # Errors
    ///
    /// - `ENODEV` if the kernel does not have the file system.
    /// - `ENOMEM` if there is no memory.
    pub(crate) fn new(file_system: FileSystem) -> Result<Self> {
        let kind = file_system.kind().ok_or(ENODEV)?;
        if file_system.is_shared() {
            if let Some(mount) = Self::of_existing(kind)? {
                return Ok(mount);
            }
        }
        faults::here("vfs_kern_mount")?;
        // SAFETY: `kind` is a file system, the name is a string, and there are no options.
        let mount = unsafe {
            bindings::vfs_kern_mount(
                kind.as_ptr(),
                ffi::RUST_CONST_SB_KERNMOUNT,
                file_system.name().as_char_ptr(),
                null_mut(),
            )
        };
        // INVARIANT: Just mounted.
        Ok(Self(NonNull::new(from_err_ptr(mount)?).ok_or(ENODEV)?))
    }

    /// Mounts the superblock that there is; `None` if there is none.
    fn of_existing(kind: NonNull<bindings::file_system_type>) -> Result<Option<Self>> {
        faults::here("fs_context_for_mount")?;
        // SAFETY: `kind` is a file system. With this flag a mount goes with the last reference, not
        // later.
        let context = unsafe {
            ffi::fs_context_for_mount(kind.as_ptr().cast(), ffi::RUST_CONST_SB_KERNMOUNT as c_uint)
        };
        let mut search = SuperblockSearch {
            context: from_err_ptr(context)?,
            found: None,
        };
        // SAFETY: `kind` is a file system, and `look_at` may be called with such a pointer until
        // this returns.
        unsafe {
            bindings::iterate_supers_type(
                kind.as_ptr(),
                Some(SuperblockSearch::look_at),
                (&raw mut search).cast(),
            );
        }
        // SAFETY: It is ours, and not used any more.
        unsafe { ffi::put_fs_context(search.context) };
        let Some(mount) = search.found else {
            return Ok(None);
        };
        // INVARIANT: Just mounted.
        Ok(NonNull::new(from_err_ptr(mount)?).map(Self))
    }

    /// The path of its root, as long as it is mounted.
    pub(crate) fn root(&self) -> bindings::path {
        bindings::path {
            mnt: self.0.as_ptr(),
            // SAFETY: The mount is live, and its root does not change.
            dentry: unsafe { (*self.0.as_ptr()).mnt_root },
        }
    }
}

impl Drop for OwnMount {
    fn drop(&mut self) {
        // SAFETY: By the type's invariants it is a mount, and the reference to it is ours to put
        // back.
        unsafe { bindings::mntput(self.0.as_ptr()) };
    }
}

/// The mount of the first superblock.
struct SuperblockSearch {
    context: *mut ffi::fs_context,
    /// As `vfs_create_mount` returned it.
    found: Option<*mut bindings::vfsmount>,
}

impl SuperblockSearch {
    /// # Safety
    ///
    /// - `superblock` is live, and its `s_umount` is held, during the call.
    /// - `data` points to a `SuperblockSearch` that nothing else uses during the call, with a valid
    ///   context.
    unsafe extern "C" fn look_at(superblock: *mut bindings::super_block, data: *mut c_void) {
        // SAFETY: `data` points to a `SuperblockSearch` that nothing else uses during the call, by
        // caller precondition.
        let search = unsafe { &mut *data.cast::<Self>() };
        if search.found.is_some() {
            return;
        }
        // SAFETY: `superblock` is live during the call, by caller precondition; its root does not
        // change.
        let root = unsafe { (*superblock).s_root };
        // SAFETY: The context is valid, and nothing else uses it, by caller precondition.
        unsafe { (*search.context).root = root.cast() };
        // SAFETY: The context has a root, which stays while `s_umount` is held. The mount takes
        // references of its own.
        let mount = unsafe { bindings::vfs_create_mount(search.context.cast()) };
        // (the context has no reference to put back)
        //
        // SAFETY: The context is valid, and nothing else uses it, by caller precondition.
        unsafe { (*search.context).root = null_mut() };
        search.found = Some(mount);
    }
}
