//! Operations as asynchronous jobs of OpenSSL: a provider may pause one while a device works, and
//! the thread does something else meanwhile (`man 3 ASYNC_start_job`).
//!
//! A job has a stack of its own, and belongs to the thread that has started it. It cannot be
//! abandoned: a device may write to its memory, and only the provider knows when that is over.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};

use super::functions::{Functions, Job, WaitCtx};
use super::{Openssl, OpensslError, Operation};
use crate::epoll::Epoll;

/// `ASYNC_start_job`: there are as many jobs as the thread may have, or no memory.
const NO_JOBS: c_int = 1;
/// `ASYNC_start_job`: the job is paused.
const PAUSE: c_int = 2;
/// `ASYNC_start_job`: the job has ended.
const FINISH: c_int = 3;

/// `ASYNC_STATUS_UNSUPPORTED`: the provider has said nothing.
const STATUS_NONE: c_int = 0;
/// `ASYNC_STATUS_EAGAIN`: the device takes no more at the moment.
const STATUS_AGAIN: c_int = 3;

/// What to do when a provider says that a job can go on. Called on any thread, also while the job
/// runs.
pub trait WakeTarget: Send + Sync {
    /// The job of this number can go on.
    fn wake(&self, number: usize);
}

/// A thread's right to run jobs, for as long as it lives.
pub struct JobThread {
    functions: &'static Functions,
    /// Neither sent to another thread nor shared.
    _here: std::marker::PhantomData<*const ()>,
}

impl JobThread {
    /// Prepares this thread for at most this many jobs at a time.
    ///
    /// # Errors
    ///
    /// This machine has no asynchronous jobs, the thread has prepared already, or there is no
    /// memory.
    pub fn new(openssl: Openssl, max_jobs: usize) -> Result<Self, OpensslError> {
        let functions = openssl.functions;
        // SAFETY: takes nothing.
        if unsafe { (functions.ASYNC_is_capable)() } != 1 {
            return Err(OpensslError::new(
                "ASYNC_is_capable",
                "this libcrypto was built without asynchronous jobs",
            ));
        }
        // SAFETY: takes two numbers: how many jobs there may be, and how many are made now.
        match unsafe { (functions.ASYNC_init_thread)(max_jobs, 0) } {
            1 => Ok(Self {
                functions,
                _here: std::marker::PhantomData,
            }),
            _ => Err(OpensslError::drain(functions, "ASYNC_init_thread")),
        }
    }

    /// Frees what the thread keeps for jobs. Not called while one is paused: then it is left.
    pub fn end(self) {
        // SAFETY: the caller has no paused job; finished ones are all in the thread's pool.
        unsafe { (self.functions.ASYNC_cleanup_thread)() }
    }
}

impl fmt::Debug for JobThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobThread")
    }
}

/// How a paused job is woken: by descriptors that become readable, or by a call. A provider
/// chooses. It is used for one job after the other, and a provider keeps its descriptors in it
/// meanwhile.
pub struct WaitContext {
    functions: &'static Functions,
    raw: NonNull<WaitCtx>,
}

/// What the library passes to the callback.
struct Wake {
    target: Box<dyn WakeTarget>,
    number: usize,
}

impl WaitContext {
    /// A context whose calls go to `target`, with this number.
    ///
    /// The target is never dropped: a provider's thread may still be within the call when the job,
    /// which goes on meanwhile, has ended already.
    ///
    /// # Errors
    ///
    /// When there is no memory.
    pub fn new(
        openssl: Openssl,
        target: Box<dyn WakeTarget>,
        number: usize,
    ) -> Result<Self, OpensslError> {
        let functions = openssl.functions;
        // SAFETY: allocates.
        let raw = unsafe { (functions.ASYNC_WAIT_CTX_new)() };
        let raw = NonNull::new(raw)
            .ok_or_else(|| OpensslError::drain(functions, "ASYNC_WAIT_CTX_new"))?;
        let wake: *mut Wake = Box::leak(Box::new(Wake { target, number }));
        // SAFETY: the context is valid, and the callback gets the argument that it expects, which
        // lives for ever.
        unsafe { (functions.ASYNC_WAIT_CTX_set_callback)(raw.as_ptr(), wake_job, wake.cast()) };
        Ok(Self { functions, raw })
    }

    /// Watches the descriptors that the paused job waits for, once; adds their numbers to
    /// `watched`. An event has the descriptor's number as its token.
    ///
    /// # Errors
    ///
    /// A descriptor that is not open, or that epoll cannot wait for.
    pub fn watch(&self, epoll: &Epoll, watched: &mut Vec<i32>) -> io::Result<()> {
        let mut count = 0;
        let get = self.functions.ASYNC_WAIT_CTX_get_all_fds;
        // SAFETY: null asks for the number only; then there is room for as many.
        unsafe {
            get(self.raw.as_ptr(), ptr::null_mut(), &mut count);
            if count == 0 {
                return Ok(());
            }
            let start = watched.len();
            watched.resize(start + count, -1);
            get(self.raw.as_ptr(), watched[start..].as_mut_ptr(), &mut count);
        }
        let start = watched.len() - count;
        for fd in watched[start..].iter().filter(|fd| **fd >= 0) {
            // SAFETY: the provider keeps the descriptor open while it is in the context. If it does
            // not, epoll says so.
            let borrowed = unsafe { BorrowedFd::borrow_raw(*fd) };
            epoll.watch_once(borrowed, u64::from(fd.unsigned_abs()))?;
        }
        Ok(())
    }

    /// Whether the job is paused because a device takes no more at the moment: nothing wakes it,
    /// and it is resumed a little later.
    pub fn wants_retry(&self) -> bool {
        // SAFETY: the context is valid.
        unsafe { (self.functions.ASYNC_WAIT_CTX_get_status)(self.raw.as_ptr()) == STATUS_AGAIN }
    }

    fn reset_status(&self) {
        // SAFETY: the context is valid.
        unsafe { (self.functions.ASYNC_WAIT_CTX_set_status)(self.raw.as_ptr(), STATUS_NONE) };
    }
}

impl Drop for WaitContext {
    fn drop(&mut self) {
        // SAFETY: owned, and freed once; a paused job keeps its context.
        unsafe { (self.functions.ASYNC_WAIT_CTX_free)(self.raw.as_ptr()) }
    }
}

impl fmt::Debug for WaitContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WaitContext")
    }
}

/// `ASYNC_callback_fn`.
unsafe extern "C" fn wake_job(argument: *mut c_void) -> c_int {
    // SAFETY: the argument of `WaitContext::new`, which is never freed or changed.
    let wake = unsafe { &*argument.cast::<Wake>() };
    wake.target.wake(wake.number);
    1
}

/// Where a job is after it ran.
#[derive(Debug)]
pub enum Progress {
    /// It waits.
    Paused(AsyncJob),
    /// It has ended.
    Finished {
        /// What it computed.
        result: Result<Vec<u8>, OpensslError>,
        /// For the next job.
        wait: WaitContext,
    },
}

/// An operation that is paused.
///
/// If it is dropped, everything that it uses is left in memory on purpose.
pub struct AsyncJob {
    raw: *mut Job,
    /// On the heap, since the job has its address.
    operation: ManuallyDrop<Box<Operation>>,
    wait: ManuallyDrop<WaitContext>,
}

impl AsyncJob {
    /// Starts an operation on this thread.
    pub fn start(_thread: &JobThread, operation: Operation, wait: WaitContext) -> Progress {
        wait.reset_status();
        Self {
            raw: ptr::null_mut(),
            operation: ManuallyDrop::new(Box::new(operation)),
            wait: ManuallyDrop::new(wait),
        }
        .resume()
    }

    /// Goes on where it was paused. Too early is allowed: it then pauses again.
    pub fn resume(mut self) -> Progress {
        let functions = self.wait.functions;
        let mut is_ok = 0;
        let operation: *mut Operation = &raw mut **self.operation;
        let mut argument: *mut c_void = operation.cast();
        // SAFETY: the job is null (a new one) or paused, and was started on this thread, which it
        // cannot leave. The wait context and the operation outlive it. The argument, a pointer, is
        // copied.
        let code = unsafe {
            (functions.ERR_clear_error)();
            (functions.ASYNC_start_job)(
                &mut self.raw,
                self.wait.raw.as_ptr(),
                &mut is_ok,
                run_operation,
                (&raw mut argument).cast(),
                size_of::<*mut c_void>(),
            )
        };
        if code == PAUSE {
            return Progress::Paused(self);
        }
        // SAFETY: the job has ended or never begun: nothing uses the two, which are taken once.
        let (operation, wait) = unsafe {
            (
                ManuallyDrop::take(&mut self.operation),
                ManuallyDrop::take(&mut self.wait),
            )
        };
        let result = match code {
            FINISH => operation.finish(is_ok == 1),
            NO_JOBS => Err(OpensslError::new(
                "ASYNC_start_job",
                "no memory for another job",
            )),
            _ => Err(OpensslError::drain(functions, "ASYNC_start_job")),
        };
        Progress::Finished { result, wait }
    }

    /// How it is woken.
    pub fn wait_context(&self) -> &WaitContext {
        &self.wait
    }
}

impl fmt::Debug for AsyncJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncJob").field(&**self.operation).finish()
    }
}

/// What a job runs, on its own stack.
unsafe extern "C" fn run_operation(argument: *mut c_void) -> c_int {
    // SAFETY: the argument is the copy of a pointer to the operation that `resume` makes. Nobody
    // else uses the operation until the job has ended.
    let operation = unsafe { &mut **argument.cast::<*mut Operation>() };
    c_int::from(operation.compute())
}
