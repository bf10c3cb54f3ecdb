// SPDX-License-Identifier: GPL-2.0

//! Directories and files in debugfs, with state per open file.
//!
//! Unlike `kernel::debugfs`, an open file pins the module: `owner` is set, so `rmmod` is refused
//! until the last one is closed.
//!
//! C headers: [`include/linux/debugfs.h`](srctree/include/linux/debugfs.h),
//! [`include/linux/seq_file.h`](srctree/include/linux/seq_file.h)

use core::cell::UnsafeCell;
use core::ptr::NonNull;

use kernel::bindings;
use kernel::error::{from_err_ptr, from_result, to_result};
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::uaccess::{UserPtr, UserSlice};

use super::text::Text;

/// Most bytes that one call of `write` takes; the caller comes again with the rest.
const MAX_WRITE: usize = 1 << 16;

/// Permissions of directories.
const DIRECTORY_MODE: u16 = 0o700;

/// How a file was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenMode {
    /// For writing.
    pub(crate) writable: bool,
    /// With O_TRUNC: what is written replaces what was there (`>` in a shell).
    pub(crate) truncate: bool,
}

/// What a file shows and does; a value for each time it is opened.
pub(crate) trait File: Sized + Send + Sync + 'static {
    /// What the file belongs to.
    type Context: Send + Sync + 'static;
    /// What reading it gives.
    type Records: Records;

    /// The file is opened.
    fn open(context: &Arc<Self::Context>, mode: OpenMode) -> Result<Self>;

    /// What reading gives, from the beginning; nothing is read yet.
    fn records(&self, context: &Arc<Self::Context>) -> Self::Records;

    /// Takes all of `data`, or nothing.
    fn write(&self, _context: &Self::Context, _data: &[u8]) -> Result {
        Err(EINVAL)
    }

    /// The file is closed.
    fn release(self, _context: &Self::Context) {}
}

/// A file's text, record by record.
pub(crate) trait Records: Send {
    /// Goes back before the first record.
    fn rewind(&mut self) -> Result;

    /// Writes the next record to `text`, which is empty; false if there is none.
    fn next(&mut self, text: &mut Text) -> Result<bool>;
}

/// What an open file's `seq_file` leads to.
struct OpenFile<F: File> {
    file: F,
    context: Arc<F::Context>,
    /// Touched only with the `seq_file`'s lock held.
    reading: UnsafeCell<Reading<F::Records>>,
}

struct Reading<R> {
    records: R,
    /// The record at `index`; valid if `index` is not `None`.
    text: Text,
    index: Option<i64>,
    /// How many records there are, once the end was seen.
    end: Option<i64>,
}

impl<R: Records> Reading<R> {
    /// Makes record `index` the current one; false if there is none.
    fn go_to(&mut self, index: i64) -> Result<bool> {
        if self.index == Some(index) {
            return Ok(true);
        }
        if self.end.is_some_and(|end| index >= end) && index != 0 {
            return Ok(false);
        }
        if self.index.is_none_or(|at| at > index) || index == 0 {
            self.index = None;
            self.end = None;
            self.records.rewind()?;
        }
        let mut at = self.index.take().map_or(0, |at| at.wrapping_add(1));
        loop {
            self.text.clear();
            if !self.records.next(&mut self.text)? {
                self.end = Some(at);
                return Ok(false);
            }
            if at >= index {
                break;
            }
            at = at.wrapping_add(1);
        }
        self.index = Some(at);
        Ok(true)
    }
}

/// The C side of `F`.
struct Operations<F>(core::marker::PhantomData<F>);

impl<F: File> Operations<F> {
    const FILE: bindings::file_operations = bindings::file_operations {
        owner: crate::THIS_MODULE.as_ptr(),
        open: Some(Self::open),
        read: Some(bindings::seq_read),
        write: Some(Self::write),
        llseek: Some(bindings::seq_lseek),
        release: Some(Self::release),
        ..pin_init::zeroed()
    };

    const SEQUENCE: bindings::seq_operations = bindings::seq_operations {
        start: Some(Self::start),
        next: Some(Self::next),
        show: Some(Self::show),
        stop: Some(Self::stop),
    };

    /// # Safety
    ///
    /// - `inode` is that of a file made by [`Tree::file`] for `F`, and `file` is being opened.
    unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: The inode is live; its private pointer does not change.
        let context = unsafe { (*inode).i_private };
        // SAFETY: `Tree::file` put it there, and the directory holds it while the file exists.
        let context = unsafe { &*context.cast_const().cast::<Arc<F::Context>>() };
        // SAFETY: The file is live, and its flags are set before it is opened.
        let flags = unsafe { (*file).f_flags };
        from_result(|| {
            let mode = OpenMode {
                writable: flags & bindings::O_ACCMODE != bindings::O_RDONLY,
                truncate: flags & bindings::O_TRUNC != 0,
            };
            let state = F::open(context, mode)?;
            let records = state.records(context);
            let open = KBox::new(
                OpenFile {
                    file: state,
                    context: context.clone(),
                    reading: UnsafeCell::new(Reading {
                        records,
                        text: Text::new(),
                        index: None,
                        end: None,
                    }),
                },
                GFP_KERNEL,
            )?;
            // SAFETY: `file` is being opened; the operations are static.
            to_result(unsafe { bindings::seq_open(file, &Self::SEQUENCE) })?;
            // SAFETY: `seq_open` has put its `seq_file` there.
            let seq = unsafe { (*file).private_data }.cast::<bindings::seq_file>();
            // SAFETY: Nobody else knows the `seq_file` yet.
            unsafe { (*seq).private = KBox::into_raw(open).cast() };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// `file` was opened by `open`, and is not released yet.
    unsafe fn opened<'a>(file: *mut bindings::file) -> &'a OpenFile<F> {
        // SAFETY: By the caller's promise it is the `seq_file` of `open`.
        let seq = unsafe { (*file).private_data }.cast::<bindings::seq_file>();
        // SAFETY: `open` has put it there, and only `release` takes it away.
        unsafe { &*(*seq).private.cast_const().cast::<OpenFile<F>>() }
    }

    /// # Safety
    ///
    /// - `file` was opened by `open`, and is not released yet.
    /// - `data` points to `length` bytes of the user's memory, if to memory at all.
    unsafe extern "C" fn write(
        file: *mut bindings::file,
        data: *const c_char,
        length: usize,
        position: *mut bindings::loff_t,
    ) -> isize {
        // SAFETY: As the caller promises.
        let open = unsafe { Self::opened(file) };
        let length = length.min(MAX_WRITE);
        let result = || -> Result {
            let mut bytes = KVVec::new();
            let user = UserSlice::new(UserPtr::from_ptr(data.cast_mut().cast()), length);
            user.read_all(&mut bytes, GFP_KERNEL)?;
            open.file.write(&open.context, &bytes)
        };
        match result() {
            Ok(()) => {
                // SAFETY: The kernel passes the place of the file's position.
                unsafe { *position = (*position).wrapping_add(length as i64) };
                length as isize
            }
            Err(error) => error.to_errno() as isize,
        }
    }

    /// # Safety
    ///
    /// `file` was opened by `open`, and nothing uses it any more.
    unsafe extern "C" fn release(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: As in `opened`.
        let seq = unsafe { (*file).private_data }.cast::<bindings::seq_file>();
        // SAFETY: `open` has put the box there, and nobody uses it any more.
        let open = unsafe { KBox::from_raw((*seq).private.cast::<OpenFile<F>>()) };
        let OpenFile { file: state, context, .. } = KBox::into_inner(open);
        state.release(&context);
        // SAFETY: `file` was opened by `seq_open`.
        unsafe { bindings::seq_release(inode, file) }
    }

    /// # Safety
    ///
    /// `seq` is the `seq_file` of a file opened by `open`, and its lock is held.
    unsafe fn reading<'a>(seq: *mut bindings::seq_file) -> &'a mut Reading<F::Records> {
        // SAFETY: As in `opened`.
        let open = unsafe { &*(*seq).private.cast_const().cast::<OpenFile<F>>() };
        // SAFETY: With the lock held, this is the only reference.
        unsafe { &mut *open.reading.get() }
    }

    /// # Safety
    ///
    /// As for [`Self::reading`].
    unsafe fn record_at(seq: *mut bindings::seq_file, index: i64) -> *mut c_void {
        // SAFETY: The caller's promise is the same.
        match unsafe { Self::reading(seq) }.go_to(index) {
            // Any pointer that is neither NULL nor an error will do.
            Ok(true) => seq.cast(),
            Ok(false) => core::ptr::null_mut(),
            Err(error) => error.to_ptr(),
        }
    }

    /// # Safety
    ///
    /// As for [`Self::reading`]; `position` is valid.
    unsafe extern "C" fn start(seq: *mut bindings::seq_file, position: *mut i64) -> *mut c_void {
        // SAFETY: Valid as promised.
        let index = unsafe { *position };
        // SAFETY: The caller's promise is the same.
        unsafe { Self::record_at(seq, index) }
    }

    /// # Safety
    ///
    /// As for [`Self::reading`]; `position` is valid.
    unsafe extern "C" fn next(
        seq: *mut bindings::seq_file,
        _record: *mut c_void,
        position: *mut i64,
    ) -> *mut c_void {
        // SAFETY: Valid as promised.
        let index = unsafe {
            *position = (*position).wrapping_add(1);
            *position
        };
        // SAFETY: The caller's promise is the same.
        unsafe { Self::record_at(seq, index) }
    }

    /// # Safety
    ///
    /// As for [`Self::reading`].
    unsafe extern "C" fn show(seq: *mut bindings::seq_file, _record: *mut c_void) -> c_int {
        // SAFETY: The caller's promise is the same.
        let text = unsafe { Self::reading(seq) }.text.as_bytes();
        // SAFETY: `text` is valid; if it does not fit, seq_file comes again with a larger buffer.
        unsafe { bindings::seq_write(seq, text.as_ptr().cast(), text.len()) };
        0
    }

    unsafe extern "C" fn stop(_seq: *mut bindings::seq_file, _record: *mut c_void) {}
}

/// A directory of a tree: the top one or one below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(usize);

/// A tree of directories and files, removed as a whole when dropped.
///
/// # Invariants
///
/// - `directories` are live directories of debugfs; the first contains all others.
/// - What the private pointers of the files' inodes lead to is in `contexts`.
pub(crate) struct Tree<C> {
    directories: KVec<NonNull<bindings::dentry>>,
    contexts: KVec<KBox<Arc<C>>>,
}

// SAFETY: debugfs's functions may be called from any thread.
unsafe impl<C: Send + Sync> Send for Tree<C> {}
// SAFETY: As above; nothing is changed through a shared reference.
unsafe impl<C: Send + Sync> Sync for Tree<C> {}

impl<C: Send + Sync + 'static> Tree<C> {
    /// The top directory.
    pub(crate) const TOP: Place = Place(0);

    /// Makes a directory at the top of debugfs.
    ///
    /// # Errors
    ///
    /// - `ENODEV` if debugfs is not there, `EPERM` if it is switched off.
    /// - `EEXIST` if there is such a directory.
    pub(crate) fn new(name: &CStr) -> Result<Self> {
        let mut tree = Self {
            directories: KVec::with_capacity(1, GFP_KERNEL)?,
            contexts: KVec::new(),
        };
        tree.make(name, core::ptr::null_mut())?;
        Ok(tree)
    }

    /// Makes a directory in `place`.
    ///
    /// # Errors
    ///
    /// - `EEXIST` if there is one of this name.
    /// - `ENOMEM` if there is no memory.
    pub(crate) fn directory(&mut self, place: Place, name: &CStr) -> Result<Place> {
        let parent = self.dentry(place)?;
        self.make(name, parent)
    }

    fn make(&mut self, name: &CStr, parent: *mut bindings::dentry) -> Result<Place> {
        self.directories.reserve(1, GFP_KERNEL)?;
        // SAFETY: `name` is a string; `parent` is NULL or a live directory.
        let dentry = unsafe { bindings::debugfs_create_dir(name.as_char_ptr(), parent) };
        let dentry = NonNull::new(from_err_ptr(dentry)?).ok_or(ENODEV)?;
        // SAFETY: The directory is live and has an inode.
        let inode = unsafe { (*dentry.as_ptr()).d_inode };
        // SAFETY: As above. Nobody but root could come here so far, as debugfs itself is 0700.
        unsafe { (*inode).i_mode = bindings::S_IFDIR as u16 | DIRECTORY_MODE };
        let place = Place(self.directories.len());
        // INVARIANT: Just made, and below the first one, unless it is the first one.
        self.directories.push(dentry, GFP_KERNEL)?;
        Ok(place)
    }

    fn dentry(&self, place: Place) -> Result<*mut bindings::dentry> {
        let dentry = self.directories.get(place.0).ok_or(EINVAL)?;
        Ok(dentry.as_ptr())
    }

    /// Makes a file for `F` in `place`.
    ///
    /// # Errors
    ///
    /// As for [`Tree::directory`].
    pub(crate) fn file<F: File<Context = C>>(
        &mut self,
        place: Place,
        name: &CStr,
        mode: u16,
        context: Arc<C>,
    ) -> Result {
        let parent = self.dentry(place)?;
        let context = KBox::new(context, GFP_KERNEL)?;
        let private: *const Arc<C> = &*context;
        // INVARIANT: Held before any inode leads there; a box's content does not move.
        self.contexts.push(context, GFP_KERNEL)?;
        // SAFETY: `parent` is a live directory; the operations are static and fit the private data.
        let dentry = unsafe {
            bindings::debugfs_create_file_full(
                name.as_char_ptr(),
                mode,
                parent,
                private.cast_mut().cast(),
                core::ptr::null(),
                &Operations::<F>::FILE,
            )
        };
        from_err_ptr(dentry).map(|_| ())
    }

    /// Makes a symbolic link to `target` in `place`.
    ///
    /// # Errors
    ///
    /// As for [`Tree::directory`].
    pub(crate) fn symlink(&self, place: Place, name: &CStr, target: &CStr) -> Result {
        let parent = self.dentry(place)?;
        // SAFETY: `parent` is a live directory; `target` is copied.
        let dentry = unsafe {
            bindings::debugfs_create_symlink(name.as_char_ptr(), parent, target.as_char_ptr())
        };
        from_err_ptr(dentry).map(|_| ())
    }
}

impl<C> Drop for Tree<C> {
    fn drop(&mut self) {
        if let Some(top) = self.directories.first() {
            // SAFETY: By the type's invariant. Waits for file operations that are running.
            unsafe { bindings::debugfs_remove(top.as_ptr()) };
        }
    }
}
