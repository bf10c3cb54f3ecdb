// SPDX-License-Identifier: GPL-2.0

//! A directory of debugfs in which users make directories of ours, and remove them.
//!
//! debugfs allows neither. So the directory's inode gets other operations, which do what those of
//! `instances/` do in fs/tracefs/inode.c: they let go of the locks that the VFS took, as making and
//! removing files takes them anew.
//!
//! C header: [`include/linux/fs.h`](srctree/include/linux/fs.h)

use core::marker::PhantomData;
use core::ptr::NonNull;

use kernel::bindings;
use kernel::error::from_result;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;

use super::part::PrivatePart;
use crate::platform::fence_release;
use crate::sys::{rcu, this_module};

/// Makes and removes directories.
///
/// # Safety
///
/// On return of `remove_all`, all that `make` made in the parent is removed.
pub(crate) unsafe trait Subdirectories: Send + Sync + 'static {
    /// Makes the directory `name` in `parent`.
    ///
    /// # Errors
    ///
    /// Those that `mkdir` is to return; `EEXIST` if there is one, though the VFS saw none.
    fn make(&self, parent: Parent<'_>, name: &CStr) -> Result;

    /// Removes the directory `name` with all that is in it.
    ///
    /// # Errors
    ///
    /// Those that `rmdir` is to return; `ENOENT` if there is none, though the VFS saw one.
    fn remove(&self, name: &CStr) -> Result;

    /// Removes all directories: the parent goes, and none will be made any more.
    fn remove_all(&self);
}

/// The directory that another is to be made in.
///
/// # Invariants
///
/// `dentry` is a live directory of debugfs for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Parent<'a> {
    dentry: NonNull<bindings::dentry>,
    _lifetime: PhantomData<&'a bindings::dentry>,
}

impl Parent<'_> {
    pub(in crate::rust_ftrace::sys) fn as_ptr(self) -> *mut bindings::dentry {
        self.dentry.as_ptr()
    }
}

/// The operations of an inode, and what they need.
#[repr(C)]
struct DirectoryOperations<T: Subdirectories> {
    operations: bindings::inode_operations,
    handler: Arc<T>,
}

/// A directory whose users may make directories, until dropped.
///
/// # Invariants
///
/// - There is a reference to `inode`, whose operations are those of `table`; before that they were
///   `original`.
/// - `table` came from a `KBox<DirectoryOperations<T>>`, and `end` is `end::<T>` for the same `T`.
pub(in crate::rust_ftrace::sys) struct Served {
    inode: NonNull<bindings::inode>,
    original: *mut bindings::inode_operations,
    table: NonNull<c_void>,
    end: unsafe fn(NonNull<c_void>),
}

impl Served {
    /// Lets users make directories in `directory`; `None` if its operations are not as known.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    ///
    /// # Safety
    ///
    /// `directory` is a live directory of debugfs made by this module. It stays until the value is
    /// dropped, or only this module makes something in it.
    pub(in crate::rust_ftrace::sys) unsafe fn new<T: Subdirectories>(
        directory: NonNull<bindings::dentry>,
        handler: Arc<T>,
    ) -> Result<Option<Self>> {
        // SAFETY: The directory is live, and has an inode.
        let inode = unsafe { (*directory.as_ptr()).d_inode };
        let inode = NonNull::new(inode).ok_or(ENOENT)?;
        // SAFETY: The directory is live, by caller precondition, and so is its inode.
        let original = unsafe { (*inode.as_ptr()).i_op };
        // SAFETY: The operations of a live inode are valid, and those of debugfs are constant.
        let mut operations = unsafe { *original };
        if operations.mkdir.is_some() || operations.rmdir.is_some() || operations.lookup.is_none() {
            PrivatePart::Directories.is_not_as_known();
        }
        if !PrivatePart::Directories.is_as_known() {
            return Ok(None);
        }
        operations.mkdir = Some(mkdir::<T>);
        operations.rmdir = Some(rmdir::<T>);
        let table = DirectoryOperations {
            operations,
            handler,
        };
        let table = KBox::into_raw(KBox::new(table, GFP_KERNEL)?);
        // SAFETY: The inode is live, as the directory is.
        unsafe { bindings::ihold(inode.as_ptr()) };
        let table = NonNull::new(table).ok_or(ENOMEM)?;
        // SAFETY:
        // - The inode is live, as the directory is, and its lock is not held by this task.
        // - The table begins with the operations, and stays as long as they are the inode's.
        unsafe { set_operations(inode, table.as_ptr().cast()) };
        // INVARIANT: Just done.
        Ok(Some(Self {
            inode,
            original: original.cast_mut(),
            table: table.cast(),
            end: end::<T>,
        }))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // SAFETY:
        // - By the type's invariants there is a reference to the inode; its lock is not held by
        //   this task.
        // - By the type's invariants the operations are its own, which are the kernel's and stay.
        unsafe { set_operations(self.inode, self.original) };
        // A task that has read the pointer without the lock (`stat`, say) has let go of it then.
        rcu::synchronize_tasks();
        // SAFETY: By the type's invariants `table` came from a `KBox<DirectoryOperations<T>>`, and
        // `end` is for the same `T`; nothing knows of the table any more.
        unsafe { (self.end)(self.table) };
        // SAFETY: By the type's invariants there is a reference to the inode, which is put back
        // only here.
        unsafe { bindings::iput(self.inode.as_ptr()) };
    }
}

/// # Safety
///
/// `table` came from a `KBox<DirectoryOperations<T>>`, and is not used any more.
unsafe fn end<T: Subdirectories>(table: NonNull<c_void>) {
    // SAFETY: `table` came from a `KBox<DirectoryOperations<T>>`, and is not used any more, by
    // caller precondition.
    let table = unsafe { KBox::from_raw(table.as_ptr().cast::<DirectoryOperations<T>>()) };
    table.handler.remove_all();
}

/// Gives an inode other operations. What called its old ones with its lock held has returned then.
///
/// # Safety
///
/// - The inode is live, and its lock is not held by this task.
/// - The operations are valid as long as they are its.
unsafe fn set_operations(
    inode: NonNull<bindings::inode>,
    operations: *mut bindings::inode_operations,
) {
    // SAFETY: The inode is live, by caller precondition, and its lock is not held by this task.
    let _lock = unsafe { Lock::new(inode.as_ptr(), Nesting::Parent) };
    // SAFETY: The inode is live, by caller precondition.
    let field: *mut *const bindings::inode_operations = unsafe { &raw mut (*inode.as_ptr()).i_op };
    // As `smp_store_release()`: a task that reads the pointer finds what it points to complete.
    fence_release();
    // SAFETY: A live, aligned pointer. Others read it without the lock: a volatile store does not
    // tear. Nothing else writes it, as the kernel does so only when it makes an inode.
    unsafe { field.write_volatile(operations) };
}

/// The classes in which the VFS locks an inode, for lockdep.
#[derive(Clone, Copy)]
enum Nesting {
    /// A directory in which something is made or removed.
    Parent,
    /// One that is removed.
    Victim,
}

/// # Safety
///
/// The inode is live, and its lock is not held by this task.
unsafe fn lock(inode: *mut bindings::inode, nesting: Nesting) {
    // SAFETY: The inode is live, by caller precondition.
    let lock = unsafe { &raw mut (*inode).i_rwsem };
    #[cfg(CONFIG_DEBUG_LOCK_ALLOC)]
    {
        let class = match nesting {
            Nesting::Parent => bindings::inode_i_mutex_lock_class_I_MUTEX_PARENT,
            Nesting::Victim => bindings::inode_i_mutex_lock_class_I_MUTEX_NORMAL,
        };
        // SAFETY: The lock of a live inode is initialised; this task does not hold it, by caller
        // precondition.
        unsafe { bindings::down_write_nested(lock, class as c_int) };
    }
    #[cfg(not(CONFIG_DEBUG_LOCK_ALLOC))]
    {
        let _ = nesting;
        // SAFETY: The lock of a live inode is initialised; this task does not hold it, by caller
        // precondition.
        unsafe { bindings::down_write(lock) };
    }
}

/// # Safety
///
/// The inode is live, and this task has its lock for writing.
unsafe fn unlock(inode: *mut bindings::inode) {
    // SAFETY: The inode is live, by caller precondition.
    let lock = unsafe { &raw mut (*inode).i_rwsem };
    // SAFETY: This task holds the lock for writing, by caller precondition.
    unsafe { bindings::up_write(lock) };
}

/// An inode's lock.
///
/// # Invariants
///
/// `inode` is live, and locked by this task.
struct Lock {
    inode: *mut bindings::inode,
}

impl Lock {
    /// # Safety
    ///
    /// The inode is live until the value is dropped; this task has not locked it.
    unsafe fn new(inode: *mut bindings::inode, nesting: Nesting) -> Self {
        // SAFETY: By caller precondition the inode is live, and its lock is not held by this task.
        unsafe { lock(inode, nesting) };
        // INVARIANT: Just locked.
        Self { inode }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // SAFETY: By the type's invariants `inode` is live, and locked by this task.
        unsafe { unlock(self.inode) };
    }
}

/// An inode's lock is let go of for a while.
///
/// # Invariants
///
/// `inode` is live, and was locked by this task.
struct Unlocked {
    inode: *mut bindings::inode,
    nesting: Nesting,
}

impl Unlocked {
    /// # Safety
    ///
    /// The inode is live until the value is dropped; this task has its lock for writing.
    unsafe fn new(inode: *mut bindings::inode, nesting: Nesting) -> Self {
        // SAFETY: By caller precondition the inode is live, and this task has its lock for writing.
        unsafe { unlock(inode) };
        // INVARIANT: It was locked.
        Self { inode, nesting }
    }
}

impl Drop for Unlocked {
    fn drop(&mut self) {
        // SAFETY: By the type's invariants `inode` is live, and this task let go of its lock in
        // `new`.
        unsafe { lock(self.inode, self.nesting) };
    }
}

/// The module stays.
///
/// # Invariants
///
/// There is a reference to it.
struct ModuleInUse;

impl ModuleInUse {
    /// # Errors
    ///
    /// `ENODEV` if it is being removed.
    fn new() -> Result<Self> {
        // SAFETY: `this_module()` is valid, as the module's code runs.
        match unsafe { bindings::try_module_get(this_module()) } {
            // INVARIANT: It succeeded.
            true => Ok(Self),
            false => Err(ENODEV),
        }
    }
}

impl Drop for ModuleInUse {
    fn drop(&mut self) {
        // SAFETY: By the type's invariants there is a reference to the module, which is put back
        // only here.
        unsafe { bindings::module_put(this_module()) };
    }
}

/// Begins `mkdir` and `rmdir`: finds the handler, and the name. The module is to stay as long as
/// the inode's lock is not held; with it, [`Served`] waits.
///
/// # Safety
///
/// `inode` is that of a [`Served`] for `T`, and locked; `dentry` is one below it.
unsafe fn begin<T: Subdirectories>(
    inode: *mut bindings::inode,
    dentry: *mut bindings::dentry,
) -> Result<(Arc<T>, CString)> {
    // SAFETY: `inode` is that of a `Served`, by caller precondition, which has a reference to it.
    let table = unsafe { (*inode).i_op }.cast::<DirectoryOperations<T>>();
    // SAFETY: The operations are those of a `Served` for `T`, by caller precondition, and so in its
    // table. They change with the lock held only, as it is here.
    let handler = unsafe { &(*table).handler };
    // SAFETY: The dentry is live, and nothing in debugfs is renamed but by the module that made it.
    let name = unsafe { (*dentry).__bindgen_anon_1.d_name.name };
    // SAFETY: A dentry's name ends with a zero, and stays as said.
    let name = unsafe { CStr::from_char_ptr(name.cast()) };
    Ok((handler.clone(), CString::try_from(name)?))
}

/// # Safety
///
/// - `inode` is that of a [`Served`] for `T`, live during the call, and locked for writing by this
///   task.
/// - `dentry` is a negative one in it, live during the call, and stays there.
unsafe extern "C" fn mkdir<T: Subdirectories>(
    _idmap: *mut bindings::mnt_idmap,
    inode: *mut bindings::inode,
    dentry: *mut bindings::dentry,
    _mode: bindings::umode_t,
) -> *mut bindings::dentry {
    let make = || {
        let _module = ModuleInUse::new()?;
        // SAFETY: By caller precondition `inode` is that of a `Served` for `T`, and locked;
        // `dentry` is one below it.
        let (handler, name) = unsafe { begin::<T>(inode, dentry) }?;
        // SAFETY: The dentry is live, and stays where it is.
        let parent = unsafe { (*dentry).d_parent };
        let parent = Parent {
            dentry: NonNull::new(parent).ok_or(ENOENT)?,
            _lifetime: PhantomData,
        };
        // SAFETY: By caller precondition `inode` is live during the call, and locked for writing by
        // this task.
        let _unlocked = unsafe { Unlocked::new(inode, Nesting::Parent) };
        handler.make(parent, &name)
    };
    match make() {
        // debugfs has found the dentry, as nothing removed it meanwhile.
        Ok(()) => core::ptr::null_mut(),
        Err(error) => error.to_ptr(),
    }
}

/// # Safety
///
/// - `inode` is that of a [`Served`] for `T`, live during the call, and locked for writing by this
///   task.
/// - `dentry` is a directory in it, live during the call, whose inode is locked for writing by this
///   task.
unsafe extern "C" fn rmdir<T: Subdirectories>(
    inode: *mut bindings::inode,
    dentry: *mut bindings::dentry,
) -> c_int {
    from_result(|| {
        let _module = ModuleInUse::new()?;
        // SAFETY: By caller precondition `inode` is that of a `Served` for `T`, and locked;
        // `dentry` is one below it.
        let (handler, name) = unsafe { begin::<T>(inode, dentry) }?;
        // SAFETY: The dentry is live, and positive as long as it is held.
        let victim = unsafe { (*dentry).d_inode };
        // (locked again after the other, as the VFS does)
        //
        // SAFETY: By caller precondition `dentry` is live during the call, and so its inode, which
        // is locked for writing by this task.
        let _victim = unsafe { Unlocked::new(victim, Nesting::Victim) };
        // SAFETY: By caller precondition `inode` is live during the call, and locked for writing by
        // this task.
        let _parent = unsafe { Unlocked::new(inode, Nesting::Parent) };
        handler.remove(&name)?;
        Ok(0)
    })
}
