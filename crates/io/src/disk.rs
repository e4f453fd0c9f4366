//! Disk work that may block, away from the worker threads.
//!
//! A worker handles by itself whatever the page cache and the directory cache can answer. Work
//! comes here only when the kernel reports that it would have to wait for the disk. Each worker's
//! runtime starts threads as needed, up to a limit. The queue is bounded as well: past
//! [`MAX_WAITING`] new work waits on the worker's side, where it costs a suspended request instead
//! of a queue entry.

use crate::runtime;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;
use tokio::sync::{Semaphore, oneshot};

/// The number of threads of one event loop that may wait for the disk at a time. nginx's default
/// `thread_pool` has 32 for all workers.
pub const THREADS: usize = runtime::MAX_BLOCKING_THREADS;

/// Work items of the whole process that may be running or queued at a time; the same as the default
/// queue of nginx's `thread_pool`.
pub const MAX_WAITING: usize = 65536;

static SLOTS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(MAX_WAITING));

/// Runs `work` on a thread that may block and waits for its result.
///
/// # Panics
/// With the panic of `work`, so that it ends the connection that asked.
pub async fn run<T, F>(work: F) -> T
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let slot = SLOTS
        .acquire()
        .await
        .expect("the semaphore is never closed");
    let (done, result) = oneshot::channel();
    runtime::spawn_blocking(move || {
        let result = catch_unwind(AssertUnwindSafe(work));
        // Nobody waits for it when the connection has ended.
        let _ = done.send(result);
    });
    let result = result.await;
    drop(slot);
    match result {
        Ok(Ok(value)) => value,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        // Only the end of the event loop drops this work, and it drops this task too, so there is
        // no caller left to answer.
        Err(_) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> runtime::Runtime {
        runtime::Runtime::new().expect("descriptors")
    }

    #[test]
    fn work_runs_elsewhere_and_returns_its_value() {
        let here = std::thread::current().id();
        let there = runtime().block_on(run(|| std::thread::current().id()));
        assert_ne!(here, there);
    }

    #[test]
    #[should_panic(expected = "bad sector")]
    fn a_panic_reaches_the_one_who_asked() {
        runtime().block_on(run(|| panic!("bad sector")));
    }
}
