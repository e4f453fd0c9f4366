//! Threads for work that may block, started as needed.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Threads of one event loop that may block at a time.
pub(crate) const MAX_THREADS: usize = 16;
/// A thread that has had nothing to do for this long ends.
const IDLE: Duration = Duration::from_secs(60);

type Work = Box<dyn FnOnce() + Send>;

/// The threads of one event loop.
#[derive(Default)]
pub(crate) struct BlockingThreads(Arc<Pool>);

#[derive(Default)]
struct Pool {
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    threads: usize,
    waiting: usize,
    is_stopped: bool,
}

impl BlockingThreads {
    /// Runs `work` on one of them. If none can be started and none is there, it runs here.
    pub(crate) fn run(&self, work: Work) {
        let mut queue = self.0.lock();
        queue.work.push_back(work);
        if queue.waiting >= queue.work.len() || queue.threads == MAX_THREADS {
            drop(queue);
            self.0.wake.notify_one();
            return;
        }
        queue.threads += 1;
        drop(queue);
        let pool = self.0.clone();
        let started = std::thread::Builder::new()
            .name("disk".to_owned())
            .spawn(move || {
                // Without memory for it the report of a crash lacks this thread's stack.
                let _ = sealane_sys::crash::prepare_thread();
                pool.serve();
            });
        if started.is_err() {
            let mut queue = self.0.lock();
            queue.threads -= 1;
            let left = match queue.threads {
                0 => std::mem::take(&mut queue.work),
                _ => VecDeque::new(),
            };
            drop(queue);
            left.into_iter().for_each(|work| work());
        }
    }

    /// Drops what is queued. Threads end when they have finished what they do.
    pub(crate) fn stop(&self) {
        let mut queue = self.0.lock();
        queue.is_stopped = true;
        let left = std::mem::take(&mut queue.work);
        drop(queue);
        self.0.wake.notify_all();
        drop(left);
    }
}

impl Pool {
    fn serve(&self) {
        while let Some(work) = self.next() {
            // Whoever asked for it gets the panic.
            let _ = catch_unwind(AssertUnwindSafe(work));
        }
    }

    /// What to do next; `None` when there has been nothing for a while.
    fn next(&self) -> Option<Work> {
        let mut queue = self.lock();
        loop {
            if let Some(work) = queue.work.pop_front() {
                return Some(work);
            }
            if queue.is_stopped {
                return None;
            }
            queue.waiting += 1;
            let waited = self.wake.wait_timeout(queue, IDLE);
            let (back, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            queue = back;
            queue.waiting -= 1;
            if timeout.timed_out() && queue.work.is_empty() {
                queue.threads -= 1;
                return None;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Every change is a single step that a panic cannot interrupt.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
