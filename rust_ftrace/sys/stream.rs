// SPDX-License-Identifier: GPL-2.0

//! Files in debugfs that are read as streams: without positions, waiting for more, with poll and
//! splice.
//!
//! debugfs's own operations around a file's do not pass splice on, so these are files without them
//! (`debugfs_create_file_unsafe`), and each operation holds the file itself.
//!
//! C header: [`include/linux/debugfs.h`](srctree/include/linux/debugfs.h)

use kernel::bindings;
use kernel::error::{from_result, to_result};
use kernel::iov::IovIterDest;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_mutex, Arc, Mutex};
use kernel::types::{ForeignOwnable, ScopeGuard};

use super::debugfs::owner::{Opened, Owner};
use super::ffi;
use super::wait::Poll;

/// A stream; a value for each time its file is opened.
///
/// # Examples
///
/// ```ignore
/// use kernel::iov::IovIterDest;
/// use kernel::prelude::*;
/// use kernel::sync::atomic::{Acquire, Atomic, Relaxed};
/// use kernel::sync::Arc;
///
/// use crate::sys::debugfs::{FileTree, Owner};
/// use crate::sys::stream::Stream;
/// use crate::sys::wait::{Poll, WaitQueue};
///
/// /// Something that is done once.
/// #[pin_data]
/// struct Job {
///     #[pin]
///     queue: WaitQueue,
///     is_done: Atomic<bool>,
/// }
///
/// impl Owner for Job {
///     fn opened(&self) -> Result {
///         Ok(())
///     }
///
///     fn closed(&self) {}
/// }
///
/// /// Says once that it is done.
/// struct Done {
///     is_said: Atomic<bool>,
/// }
///
/// impl Stream for Done {
///     type Context = Job;
///
///     fn open(_job: &Arc<Job>) -> Result<Pin<KBox<Self>>> {
///         let is_said = Atomic::new(false);
///         Ok(KBox::pin(Self { is_said }, GFP_KERNEL)?)
///     }
///
///     fn read(&self, job: &Job, into: &mut IovIterDest<'_>, block: bool) -> Result<usize> {
///         if self.is_said.load(Relaxed) || !self.wait_to_splice(job, block)? {
///             return Ok(0);
///         }
///         let length = into.copy_to_iter(b"done\n");
///         if length == 0 {
///             return Err(EFAULT);
///         }
///         self.is_said.store(true, Relaxed);
///         Ok(length)
///     }
///
///     fn wait_to_splice(&self, job: &Job, block: bool) -> Result<bool> {
///         loop {
///             // Before the condition, so that no wake-up after it is missed.
///             let seen = job.queue.seen();
///             if job.is_done.load(Acquire) {
///                 return Ok(true);
///             }
///             if !block {
///                 return Err(EAGAIN);
///             }
///             job.queue.wait(seen)?;
///         }
///     }
///
///     fn poll(&self, job: &Job, poll: Poll<'_>) -> bool {
///         poll.watch(&job.queue);
///         job.is_done.load(Acquire)
///     }
///
///     fn wake(&self, job: &Job) {
///         job.queue.wake_all();
///     }
/// }
///
/// /// Adds the file `done` to a tree.
/// fn add(tree: &mut FileTree<Job>, job: Arc<Job>) -> Result {
///     tree.stream::<Done>(FileTree::<Job>::TOP, c"done", 0o400, job)
/// }
/// ```
pub(crate) trait Stream: Sized + Send + Sync + 'static {
    /// The owner of the file.
    type Context: Owner;

    /// The file is opened.
    ///
    /// # Errors
    ///
    /// Those that opening it is to return; there will be no `release` then.
    fn open(context: &Arc<Self::Context>) -> Result<Pin<KBox<Self>>>;

    /// Gives what there is, as much as `into` takes; 0 at the end. Waits for the first byte if it
    /// may `block`.
    ///
    /// # Errors
    ///
    /// - `EAGAIN` if there is nothing, and it may not.
    /// - `ERESTARTSYS` if a signal came.
    /// - `EFAULT` if the user's memory cannot be written; nothing is lost.
    fn read(
        &self,
        context: &Self::Context,
        into: &mut IovIterDest<'_>,
        block: bool,
    ) -> Result<usize>;

    /// Waits until a splice is worth while; false if it is to end with nothing.
    ///
    /// # Errors
    ///
    /// As for [`Stream::read`].
    fn wait_to_splice(&self, context: &Self::Context, block: bool) -> Result<bool>;

    /// Returns whether there is something to read; if not, `poll` is told when there is.
    fn poll(&self, context: &Self::Context, poll: Poll<'_>) -> bool;

    /// Wakes all that wait, though there may be nothing.
    fn wake(&self, context: &Self::Context);

    /// The file is closed; nothing comes after it.
    fn release(&self, _context: &Self::Context) {}
}

/// The private data of an open file.
struct OpenStream<S: Stream> {
    stream: Pin<KBox<S>>,
    /// The lock of a task that splices and may not wait.
    ///
    /// The first lock; nothing waits with it held but for memory, and for those of `stream`.
    splicing: Pin<KBox<Mutex<()>>>,
    /// The address of the task that holds it, or 0.
    splicer: Atomic<usize>,
    // Last, as it is dropped last.
    context: Opened<S::Context>,
}

/// The file is in use: debugfs waits for that before it goes.
///
/// # Invariants
///
/// `debugfs_file_get()` succeeded for `dentry`.
struct InUse {
    dentry: *mut bindings::dentry,
}

impl InUse {
    /// # Safety
    ///
    /// `file` is an open file of debugfs, which is not released while the value lives.
    unsafe fn new(file: *mut bindings::file) -> Result<Self> {
        // SAFETY: `file` is open, and so live, by caller precondition; its path does not change.
        let dentry = unsafe { (*file).__bindgen_anon_1.f_path.dentry };
        // SAFETY: `dentry` is that of a file of debugfs, by caller precondition, which the open
        // file holds.
        to_result(unsafe { bindings::debugfs_file_get(dentry) })?;
        // INVARIANT: It succeeded.
        Ok(Self { dentry })
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        // SAFETY: By the type's invariants `debugfs_file_get()` succeeded for `dentry`; it is put
        // back only here.
        unsafe { bindings::debugfs_file_put(self.dentry) };
    }
}

/// The running task, as it is told from others.
fn address_of_current() -> usize {
    kernel::current!().as_ptr() as usize
}

/// The C side of `S`.
pub(super) struct StreamOperations<S>(core::marker::PhantomData<S>);

impl<S: Stream> StreamOperations<S> {
    pub(super) const STREAM: bindings::file_operations = bindings::file_operations {
        owner: super::this_module(),
        open: Some(Self::open),
        read_iter: Some(Self::read_iter),
        splice_read: Some(Self::splice_read),
        poll: Some(Self::poll),
        unlocked_ioctl: Some(Self::ioctl),
        release: Some(Self::release),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// - `inode` is live, and that of a file made by `Tree::stream` for `S`, which exists during
    ///   the call.
    /// - `file` is live, and being opened: nothing else uses it.
    unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: `inode` is live, by caller precondition; its private pointer does not change.
        let context = unsafe { (*inode).i_private };
        // SAFETY: `Tree::stream` made the file for `S`, by caller precondition, and put the pointer
        // there; the tree holds what it leads to while the file exists, and so during the call.
        let context = unsafe { &*context.cast_const().cast::<Arc<S::Context>>() };
        from_result(|| {
            let context = Opened::new(context)?;
            let open = OpenStream::<S> {
                stream: S::open(&context)?,
                splicing: KBox::pin_init(new_mutex!(()), GFP_KERNEL)?,
                splicer: Atomic::new(0),
                context,
            };
            let open = KBox::new(open, GFP_KERNEL)?;
            // SAFETY: `file` is live and being opened, by caller precondition, so its private data
            // is ours to set.
            unsafe { (*file).private_data = open.into_foreign() };
            // No positions, no seeking.
            //
            // SAFETY: `inode` is live, and `file` being opened, by caller precondition.
            Ok(unsafe { bindings::stream_open(inode, file) })
        })
    }

    /// # Safety
    ///
    /// `file` was opened by [`Self::open`], and is not released for `'a`.
    unsafe fn opened<'a>(file: *mut bindings::file) -> &'a OpenStream<S> {
        // SAFETY: `file` is live, as it is not released, by caller precondition.
        let data = unsafe { (*file).private_data };
        // SAFETY: `open` put the box there that `into_foreign` gave, by caller precondition. Only
        // `release` takes it away, which does not come for `'a`.
        unsafe { KBox::<OpenStream<S>>::borrow(data) }
    }

    /// # Safety
    ///
    /// - `kiocb` is valid during the call, and of a file that was opened by [`Self::open`] and is
    ///   not released during the call.
    /// - `iter` points to a destination that nothing else uses during the call.
    unsafe extern "C" fn read_iter(
        kiocb: *mut bindings::kiocb,
        iter: *mut bindings::iov_iter,
    ) -> isize {
        // SAFETY: `kiocb` is valid during the call, by caller precondition.
        let file = unsafe { (*kiocb).ki_filp };
        // SAFETY: `kiocb` is valid during the call, by caller precondition.
        let kiocb_flags = unsafe { (*kiocb).ki_flags };
        // SAFETY: `file` is live, as it is not released during the call, by caller precondition.
        let file_flags = unsafe { (*file).f_flags };
        // SAFETY: `file` was opened by `open`, and is not released during the call, by caller
        // precondition.
        let open = unsafe { Self::opened(file) };
        // SAFETY: `iter` points to a destination that nothing else uses during the call, by caller
        // precondition.
        let into = unsafe { IovIterDest::from_raw(iter) };
        let block = file_flags & bindings::O_NONBLOCK == 0
            && kiocb_flags & ffi::RUST_CONST_IOCB_NOWAIT == 0
            // Relaxed: it is equal only if this task has stored it itself.
            && open.splicer.load(Relaxed) != address_of_current();
        let mut result = || -> Result<usize> {
            // SAFETY: `file` was opened by `open`, which only files of debugfs have, and is not
            // released during the call, by caller precondition.
            let _in_use = unsafe { InUse::new(file) }?;
            open.stream.read(&open.context, into, block)
        };
        match result() {
            Ok(length) => length as isize,
            Err(error) => error.to_errno() as isize,
        }
    }

    /// # Safety
    ///
    /// - `file` was opened by [`Self::open`], and is not released during the call.
    /// - `position` points to a position that nothing else uses during the call.
    /// - `pipe` is valid during the call, and not locked by this task.
    unsafe extern "C" fn splice_read(
        file: *mut bindings::file,
        position: *mut bindings::loff_t,
        pipe: *mut bindings::pipe_inode_info,
        length: usize,
        flags: c_uint,
    ) -> isize {
        // SAFETY: `file` is live, as it is not released during the call, by caller precondition.
        let file_flags = unsafe { (*file).f_flags };
        let block = file_flags & bindings::O_NONBLOCK == 0 && flags & ffi::SPLICE_F_NONBLOCK == 0;
        // SAFETY: `file` was opened by `open`, and is not released during the call, by caller
        // precondition.
        let open = unsafe { Self::opened(file) };
        let wait = || -> Result<bool> {
            // SAFETY: `file` was opened by `open`, which only files of debugfs have, and is not
            // released during the call, by caller precondition.
            let _in_use = unsafe { InUse::new(file) }?;
            open.stream.wait_to_splice(&open.context, block)
        };
        match wait() {
            Ok(true) => {}
            Ok(false) => return 0,
            Err(error) => return error.to_errno() as isize,
        }
        // It comes back by way of `read_iter`, which is not told of `flags`; and another reader may
        // have been faster.
        let _splicing = (!block).then(|| {
            let guard = open.splicing.lock();
            open.splicer.store(address_of_current(), Relaxed);
            let leave = ScopeGuard::new(|| open.splicer.store(0, Relaxed));
            // They are dropped in this order.
            (leave, guard)
        });
        // SAFETY: By caller precondition:
        // - `file` is open during the call, and has a `read_iter`.
        // - `position` is valid and ours during the call.
        // - `pipe` is valid during the call, and not locked by this task.
        unsafe { bindings::copy_splice_read(file, position, pipe, length, flags) }
    }

    /// # Safety
    ///
    /// - `file` was opened by [`Self::open`], and is not released during the call.
    /// - `table` is NULL, or valid during the call.
    unsafe extern "C" fn poll(
        file: *mut bindings::file,
        table: *mut bindings::poll_table_struct,
    ) -> bindings::__poll_t {
        // SAFETY: `file` was opened by `open`, and is not released during the call, by caller
        // precondition.
        let open = unsafe { Self::opened(file) };
        // SAFETY: `file` was opened by `open`, which only files of debugfs have, and is not
        // released during the call, by caller precondition.
        let Ok(_in_use) = (unsafe { InUse::new(file) }) else {
            return bindings::POLLHUP;
        };
        // SAFETY: By caller precondition, and `poll` does not outlive the call:
        // - `file` is not released during the call, and so live.
        // - `table` is NULL, or valid during the call.
        let poll = unsafe { Poll::new(file, table) };
        match open.stream.poll(&open.context, poll) {
            true => bindings::POLLIN | bindings::POLLRDNORM,
            false => 0,
        }
    }

    /// As `tracing_buffers_ioctl()` of kernel/trace/trace.c: command 0 wakes all that wait.
    ///
    /// # Safety
    ///
    /// `file` was opened by [`Self::open`], and is not released during the call.
    unsafe extern "C" fn ioctl(
        file: *mut bindings::file,
        command: c_uint,
        _argument: c_ulong,
    ) -> c_long {
        // SAFETY: `file` was opened by `open`, and is not released during the call, by caller
        // precondition.
        let open = unsafe { Self::opened(file) };
        // SAFETY: `file` was opened by `open`, which only files of debugfs have, and is not
        // released during the call, by caller precondition.
        let Ok(_in_use) = (unsafe { InUse::new(file) }) else {
            return EIO.to_errno() as c_long;
        };
        if command != 0 {
            return ENOTTY.to_errno() as c_long;
        }
        open.stream.wake(&open.context);
        0
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
        let open = unsafe { KBox::<OpenStream<S>>::from_foreign(data) };
        open.stream.release(&open.context);
        0
    }
}
