// SPDX-License-Identifier: GPL-2.0

//! Directories and files in debugfs, with state per open file.
//!
//! Unlike `kernel::debugfs`, an open file pins the module: `owner` is set, so `rmmod` is refused
//! until the last one is closed.
//!
//! Text is made record by record as it is read, as with `seq_file`. That one is not used, because
//! its lock is held while the records are made, and some of ours come from other `seq_file`s.
//!
//! C header: [`include/linux/debugfs.h`](srctree/include/linux/debugfs.h)

pub(super) mod owner;

use core::ptr::NonNull;

use kernel::bindings;
use kernel::error::{from_err_ptr, from_result};
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};
use kernel::types::ForeignOwnable;
use kernel::uaccess::{UserPtr, UserSlice};

use self::owner::Opened;
pub(crate) use self::owner::Owner;
use super::private::subdirectories::{Parent, Served, Subdirectories};
use super::stream::{self, Stream};
use super::{faults, lockdep};
use crate::engine::text::Text;

/// Most bytes that one call of `write` takes; the caller comes again with the rest.
const MAX_WRITE: usize = 1 << 16;

/// Permissions of directories.
const DIRECTORY_MODE: u16 = 0o700;

/// The mode in which a file was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenMode {
    /// For writing.
    pub(crate) writable: bool,
    /// With O_TRUNC: what is written replaces what was there (`>` in a shell).
    pub(crate) truncate: bool,
}

/// The behaviour of a file; a value for each time it is opened.
pub(crate) trait File: Sized + Send + Sync + 'static {
    /// The owner of the file.
    type Context: Owner;
    /// The text that it has.
    type Records: Records;

    /// The file is opened.
    ///
    /// # Errors
    ///
    /// Those that opening it is to return; there will be no `release` then.
    fn open(context: &Arc<Self::Context>, mode: OpenMode) -> Result<Self>;

    /// Begins the text; nothing is read yet.
    fn records(&self, context: &Arc<Self::Context>) -> Self::Records;

    /// Takes all of `data`, or nothing.
    ///
    /// # Errors
    ///
    /// Those that writing is to return; `EINVAL` if the file takes nothing.
    fn write(&self, _context: &Self::Context, _data: &[u8]) -> Result {
        Err(EINVAL)
    }

    /// Takes a part of `data`, and returns its length. The caller comes again with the rest.
    ///
    /// # Errors
    ///
    /// As for [`File::write`].
    fn write_some(&self, context: &Self::Context, data: &[u8]) -> Result<usize> {
        self.write(context, data)?;
        Ok(data.len())
    }

    /// The file is closed; nothing comes after it.
    fn release(&self, _context: &Self::Context) {}
}

/// A file's text, record by record.
pub(crate) trait Records: Send + Unpin {
    /// Goes back before the first record.
    ///
    /// # Errors
    ///
    /// Those that reading is to return.
    fn rewind(&mut self) -> Result;

    /// Appends the next record to `text`; false if there is none.
    ///
    /// # Errors
    ///
    /// Those that reading is to return, such as `ENOMEM` if `text` cannot grow.
    fn next(&mut self, text: &mut Text) -> Result<bool>;
}

/// The private data of an open file.
#[pin_data]
struct OpenFile<F: File> {
    file: F,
    #[pin]
    reading: Mutex<TextReader<F::Records>>,
    // Last, as it is dropped last.
    context: Opened<F::Context>,
}

/// Most bytes that are made ready at a time.
const MAX_READ: usize = 1 << 15;

/// A part of a file's text, and what the rest is made of.
struct TextReader<R> {
    records: R,
    /// Whole records, from byte `start` of the file on; `None` if reading has not begun.
    text: Text,
    start: Option<usize>,
    /// No record comes after `text`.
    ended: bool,
}

impl<R: Records> TextReader<R> {
    /// The text from byte `position` on: at least one byte, unless the file ends there. About
    /// `wanted` bytes are made ready.
    fn at(&mut self, position: usize, wanted: usize) -> Result<&[u8]> {
        let mut start = match self.start {
            Some(start) if start <= position => start,
            _ => {
                self.text.clear();
                self.ended = false;
                self.records.rewind()?;
                0
            }
        };
        // Whatever fails now, the next read begins anew.
        self.start = None;
        while position >= start.saturating_add(self.text.as_bytes().len()) && !self.ended {
            start = start.saturating_add(self.text.as_bytes().len());
            self.text.clear();
            // At least one record is made, or a read of nothing would not end.
            while self.text.as_bytes().len() < wanted.clamp(1, MAX_READ) && !self.ended {
                self.ended = !self.records.next(&mut self.text)?;
            }
        }
        self.start = Some(start);
        let rest = self.text.as_bytes().get(position.saturating_sub(start)..);
        Ok(rest.unwrap_or_default())
    }
}

/// The C side of `F`.
struct FileOperations<F>(core::marker::PhantomData<F>);

impl<F: File> FileOperations<F> {
    const FILE: bindings::file_operations = bindings::file_operations {
        owner: super::this_module(),
        open: Some(Self::open),
        read: Some(Self::read),
        write: Some(Self::write),
        llseek: Some(bindings::no_seek_end_llseek),
        release: Some(Self::release),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// - `inode` is live, and that of a file made by `FileTree::file` for `F`, which exists during
    ///   the call.
    /// - `file` is live, and being opened: nothing else uses it.
    unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: `inode` is live, by caller precondition; its private pointer does not change.
        let context = unsafe { (*inode).i_private };
        // SAFETY: `FileTree::file` made the file for `F`, by caller precondition, and put the
        // pointer there; the tree holds what it leads to while the file exists, and so during the
        // call.
        let context = unsafe { &*context.cast_const().cast::<Arc<F::Context>>() };
        // SAFETY: `file` is live, by caller precondition, and its flags are set before it is
        // opened.
        let flags = unsafe { (*file).f_flags };
        from_result(|| {
            let context = Opened::new(context)?;
            let mode = OpenMode {
                writable: flags & bindings::O_ACCMODE != bindings::O_RDONLY,
                truncate: flags & bindings::O_TRUNC != 0,
            };
            let state = F::open(&context, mode)?;
            let reading = TextReader {
                records: state.records(&context),
                text: Text::new(),
                start: None,
                ended: false,
            };
            let open = KBox::pin_init(
                try_pin_init!(OpenFile::<F> {
                    file: state,
                    reading <- new_mutex!(reading),
                    context,
                }? Error),
                GFP_KERNEL,
            )?;
            // SAFETY: `file` is live and being opened, by caller precondition, so its private data
            // is ours to set.
            unsafe { (*file).private_data = open.into_foreign() };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// `file` was opened by [`Self::open`], and is not released for `'a`.
    unsafe fn opened<'a>(file: *mut bindings::file) -> Pin<&'a OpenFile<F>> {
        // SAFETY: `file` is live, as it is not released, by caller precondition.
        let data = unsafe { (*file).private_data };
        // SAFETY: `open` put the box there that `into_foreign` gave, by caller precondition. Only
        // `release` takes it away, which does not come for `'a`.
        unsafe { Pin::<KBox<OpenFile<F>>>::borrow(data) }
    }

    /// # Safety
    ///
    /// - `file` was opened by [`Self::open`], and is not released during the call.
    /// - `position` points to a position that nothing else uses during the call.
    unsafe extern "C" fn read(
        file: *mut bindings::file,
        data: *mut c_char,
        length: usize,
        position: *mut bindings::loff_t,
    ) -> isize {
        // SAFETY: `file` was opened by `open`, and is not released during the call, by caller
        // precondition.
        let open = unsafe { Self::opened(file) };
        // SAFETY: `position` is valid and ours during the call, by caller precondition.
        let at = unsafe { *position };
        let result = || -> Result<usize> {
            let mut reading = open.reading.lock();
            let text = reading.at(usize::try_from(at)?, length)?;
            let text = text.get(..length).unwrap_or(text);
            lockdep::waits();
            let mut user = UserSlice::new(UserPtr::from_ptr(data.cast()), text.len()).writer();
            user.write_slice(text)?;
            Ok(text.len())
        };
        match result() {
            Ok(length) => {
                // SAFETY: `position` is valid and ours during the call, by caller precondition.
                unsafe { *position = at.saturating_add(length as i64) };
                length as isize
            }
            Err(error) => error.to_errno() as isize,
        }
    }

    /// # Safety
    ///
    /// - `file` was opened by [`Self::open`], and is not released during the call.
    /// - `position` points to a position that nothing else uses during the call.
    unsafe extern "C" fn write(
        file: *mut bindings::file,
        data: *const c_char,
        length: usize,
        position: *mut bindings::loff_t,
    ) -> isize {
        // SAFETY: `file` was opened by `open`, and is not released during the call, by caller
        // precondition.
        let open = unsafe { Self::opened(file) };
        let length = length.min(MAX_WRITE);
        let result = || -> Result<usize> {
            let mut bytes = KVVec::new();
            lockdep::waits();
            let user = UserSlice::new(UserPtr::from_ptr(data.cast_mut().cast()), length);
            user.read_all(&mut bytes, GFP_KERNEL)?;
            open.file.write_some(&open.context, &bytes)
        };
        match result() {
            Ok(length) => {
                // SAFETY: `position` is valid and ours during the call, by caller precondition.
                unsafe { *position = (*position).saturating_add(length as i64) };
                length as isize
            }
            Err(error) => error.to_errno() as isize,
        }
    }

    /// # Safety
    ///
    /// `file` is live, was opened by [`Self::open`], and is released for the first time: nothing
    /// else uses it during the call or afterwards.
    unsafe extern "C" fn release(_inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: `file` is live, by caller precondition.
        let data = unsafe { (*file).private_data };
        // SAFETY: `open` put the box there that `into_foreign` gave, and nothing else uses it, by
        // caller precondition.
        let open = unsafe { Pin::<KBox<OpenFile<F>>>::from_foreign(data) };
        open.file.release(&open.context);
        0
    }
}

/// A directory of a tree: the top one or one below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryId(usize);

/// A tree of directories and files, removed as a whole when dropped.
///
/// # Examples
///
/// ```ignore
/// use core::fmt::Write;
///
/// use kernel::prelude::*;
/// use kernel::sync::atomic::{Atomic, Relaxed};
/// use kernel::sync::Arc;
///
/// use crate::sys::debugfs::{File, FileTree, OpenMode, Owner, Records};
/// use crate::sys::text::Text;
///
/// /// A number that a file shows and changes.
/// struct Number(Atomic<u64>);
///
/// impl Owner for Number {
///     fn opened(&self) -> Result {
///         Ok(())
///     }
///
///     fn closed(&self) {}
/// }
///
/// struct NumberFile;
///
/// impl File for NumberFile {
///     type Context = Number;
///     type Records = NumberText;
///
///     fn open(_number: &Arc<Number>, _mode: OpenMode) -> Result<Self> {
///         Ok(Self)
///     }
///
///     fn records(&self, number: &Arc<Number>) -> NumberText {
///         NumberText {
///             number: number.clone(),
///             is_over: false,
///         }
///     }
///
///     fn write(&self, number: &Number, data: &[u8]) -> Result {
///         let text = core::str::from_utf8(data).map_err(|_| EINVAL)?;
///         let value = text.trim().parse::<u64>().map_err(|_| EINVAL)?;
///         number.0.store(value, Relaxed);
///         Ok(())
///     }
/// }
///
/// /// The text of the file, which is one record.
/// struct NumberText {
///     number: Arc<Number>,
///     is_over: bool,
/// }
///
/// impl Records for NumberText {
///     fn rewind(&mut self) -> Result {
///         self.is_over = false;
///         Ok(())
///     }
///
///     fn next(&mut self, text: &mut Text) -> Result<bool> {
///         if core::mem::replace(&mut self.is_over, true) {
///             return Ok(false);
///         }
///         writeln!(text, "{}", self.number.0.load(Relaxed)).map_err(|_| ENOMEM)?;
///         Ok(true)
///     }
/// }
///
/// /// Makes the file `numbers/first`, which goes when the tree is dropped.
/// fn make() -> Result<FileTree<Number>> {
///     let number = Arc::new(Number(Atomic::new(0)), GFP_KERNEL)?;
///     let mut tree = FileTree::new(c"numbers")?;
///     tree.file::<NumberFile>(FileTree::<Number>::TOP, c"first", 0o600, number)?;
///     Ok(tree)
/// }
/// ```
///
/// # Invariants
///
/// - `directories` are live directories of debugfs; the first contains all others.
/// - What the private pointers of the files' inodes lead to is in `contexts`.
pub(crate) struct FileTree<C> {
    /// Directories in which users make others.
    served: KVec<Served>,
    directories: KVec<NonNull<bindings::dentry>>,
    contexts: KVec<KBox<Arc<C>>>,
}

// SAFETY: debugfs's functions may be called from any thread.
unsafe impl<C: Send + Sync> Send for FileTree<C> {}
// SAFETY: Nothing is changed through a shared reference, and debugfs's functions may be called from
// any thread.
unsafe impl<C: Send + Sync> Sync for FileTree<C> {}

impl<C: Owner> FileTree<C> {
    /// The top directory.
    pub(crate) const TOP: DirectoryId = DirectoryId(0);

    /// Makes a directory at the top of debugfs.
    ///
    /// # Errors
    ///
    /// - `ENODEV` if debugfs is not there, `EPERM` if it is switched off.
    /// - `EEXIST` if there is such a directory.
    pub(crate) fn new(name: &CStr) -> Result<Self> {
        let mut tree = Self::none();
        tree.make(name, core::ptr::null_mut())?;
        Ok(tree)
    }

    /// Makes a directory where a user asked for one. By the contract of [`Subdirectories`] it goes
    /// before the tree that it is in.
    ///
    /// # Errors
    ///
    /// - `EEXIST` if there is such a directory.
    /// - `ENOMEM` if there is no memory.
    pub(crate) fn inside(parent: Parent<'_>, name: &CStr) -> Result<Self> {
        let mut tree = Self::none();
        tree.make(name, parent.as_ptr())?;
        Ok(tree)
    }

    const fn none() -> Self {
        Self {
            served: KVec::new(),
            directories: KVec::new(),
            contexts: KVec::new(),
        }
    }

    /// Lets users make and remove directories in `place`, by `handler`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn serve<T: Subdirectories>(
        &mut self,
        place: DirectoryId,
        handler: Arc<T>,
    ) -> Result {
        let directory = NonNull::new(self.dentry(place)?).ok_or(EINVAL)?;
        self.served.reserve(1, GFP_KERNEL)?;
        // SAFETY: The directory is live, and goes after what is in `served`.
        if let Some(served) = unsafe { Served::new(directory, handler)? } {
            self.served.push(served, GFP_KERNEL)?;
        }
        Ok(())
    }

    /// Makes a directory in `place`.
    ///
    /// # Errors
    ///
    /// - `EEXIST` if there is one of this name.
    /// - `ENOMEM` if there is no memory.
    pub(crate) fn directory(&mut self, place: DirectoryId, name: &CStr) -> Result<DirectoryId> {
        let parent = self.dentry(place)?;
        self.make(name, parent)
    }

    fn make(&mut self, name: &CStr, parent: *mut bindings::dentry) -> Result<DirectoryId> {
        self.directories.reserve(1, GFP_KERNEL)?;
        faults::here("debugfs_create_dir")?;
        // SAFETY: `name` is a string; `parent` is NULL or a live directory.
        let dentry = unsafe { bindings::debugfs_create_dir(name.as_char_ptr(), parent) };
        let dentry = NonNull::new(from_err_ptr(dentry)?).ok_or(ENODEV)?;
        // SAFETY: The directory is live and has an inode.
        let inode = unsafe { (*dentry.as_ptr()).d_inode };
        // Nothing but root could come here so far, as debugfs itself is 0700.
        //
        // SAFETY: The inode is live, as the directory is, and nothing else changes its mode.
        unsafe { (*inode).i_mode = bindings::S_IFDIR as u16 | DIRECTORY_MODE };
        let place = DirectoryId(self.directories.len());
        // INVARIANT: Just made, and below the first one, unless it is the first one.
        self.directories.push(dentry, GFP_KERNEL)?;
        Ok(place)
    }

    fn dentry(&self, place: DirectoryId) -> Result<*mut bindings::dentry> {
        let dentry = self.directories.get(place.0).ok_or(EINVAL)?;
        Ok(dentry.as_ptr())
    }

    /// Makes a file for `F` in `place`.
    ///
    /// # Errors
    ///
    /// As for [`FileTree::directory`].
    pub(crate) fn file<F: File<Context = C>>(
        &mut self,
        place: DirectoryId,
        name: &CStr,
        mode: u16,
        context: Arc<C>,
    ) -> Result {
        let parent = self.dentry(place)?;
        let private = self.hold(context)?;
        faults::here("debugfs_create_file_full")?;
        // SAFETY: `parent` is a live directory; the operations are static and fit the private data.
        let dentry = unsafe {
            bindings::debugfs_create_file_full(
                name.as_char_ptr(),
                mode,
                parent,
                private,
                core::ptr::null(),
                &FileOperations::<F>::FILE,
            )
        };
        from_err_ptr(dentry).map(|_| ())
    }

    /// Makes a stream for `S` in `place`.
    ///
    /// # Errors
    ///
    /// As for [`FileTree::directory`].
    pub(crate) fn stream<S: Stream<Context = C>>(
        &mut self,
        place: DirectoryId,
        name: &CStr,
        mode: u16,
        context: Arc<C>,
    ) -> Result {
        let parent = self.dentry(place)?;
        let private = self.hold(context)?;
        faults::here("debugfs_create_file_unsafe")?;
        // SAFETY: `parent` is a live directory; the operations are static, fit the private data,
        // and hold the file while they run.
        let dentry = unsafe {
            bindings::debugfs_create_file_unsafe(
                name.as_char_ptr(),
                mode,
                parent,
                private,
                &stream::StreamOperations::<S>::STREAM,
            )
        };
        from_err_ptr(dentry).map(|_| ())
    }

    /// Holds `context` as long as the tree lives; what a file's private data is to be.
    fn hold(&mut self, context: Arc<C>) -> Result<*mut c_void> {
        let context = KBox::new(context, GFP_KERNEL)?;
        let private: *const Arc<C> = &*context;
        // INVARIANT: Held before any inode leads there; a box's content does not move.
        self.contexts.push(context, GFP_KERNEL)?;
        Ok(private.cast_mut().cast())
    }

    /// Makes a symbolic link to `target` in `place`.
    ///
    /// # Errors
    ///
    /// As for [`FileTree::directory`].
    pub(crate) fn symlink(&self, place: DirectoryId, name: &CStr, target: &CStr) -> Result {
        let parent = self.dentry(place)?;
        faults::here("debugfs_create_symlink")?;
        // SAFETY: `parent` is a live directory; `target` is copied.
        let dentry = unsafe {
            bindings::debugfs_create_symlink(name.as_char_ptr(), parent, target.as_char_ptr())
        };
        from_err_ptr(dentry).map(|_| ())
    }
}

impl<C> Drop for FileTree<C> {
    fn drop(&mut self) {
        self.served.clear();
        if let Some(top) = self.directories.first() {
            // SAFETY: By the type's invariants the first directory is live, and contains all
            // others. This waits for file operations that are running, which use `contexts`.
            unsafe { bindings::debugfs_remove(top.as_ptr()) };
        }
    }
}
