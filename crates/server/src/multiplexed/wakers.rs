//! Which streams of a connection can make progress.
//!
//! Each stream has its own waker, so that an event for one stream does not cause all of them to
//! be polled. A waker belongs to an index of the stream table and is reused by the next stream
//! with that index.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

/// The streams that were woken, and the task that serves them.
#[derive(Default)]
pub(crate) struct Woken {
    shared: Arc<WokenShared>,
    /// One for each index, made when it is first used.
    wakers: Vec<Arc<StreamWaker>>,
}

#[derive(Default)]
struct WokenShared {
    indices: Mutex<Vec<u32>>,
    task: Mutex<Option<Waker>>,
}

struct StreamWaker {
    index: u32,
    /// It is in the list already.
    queued: AtomicBool,
    shared: Arc<WokenShared>,
}

impl Woken {
    /// The task to wake when a stream is.
    pub(crate) fn set_task(&self, cx: &Context<'_>) {
        let mut task = lock(&self.shared.task);
        match &*task {
            Some(known) if known.will_wake(cx.waker()) => {}
            _ => *task = Some(cx.waker().clone()),
        }
    }

    /// The waker of the stream at this index.
    pub(crate) fn waker(&mut self, index: usize) -> Waker {
        while self.wakers.len() <= index {
            self.wakers.push(Arc::new(StreamWaker {
                index: self.wakers.len() as u32, // there are fewer streams than that
                queued: AtomicBool::new(false),
                shared: self.shared.clone(),
            }));
        }
        Waker::from(self.wakers[index].clone())
    }

    /// Moves the indices of woken streams into `indices`.
    pub(crate) fn take(&mut self, indices: &mut Vec<u32>) {
        std::mem::swap(&mut *lock(&self.shared.indices), indices);
        for index in indices {
            if let Some(waker) = self.wakers.get(*index as usize) {
                // As an exchange: a waker that finds the mark set has published what the stream is
                // about to look at, and this makes it visible.
                waker.queued.swap(false, Ordering::AcqRel);
            }
        }
    }

    /// Gives memory back while there are no streams.
    pub(crate) fn trim(&mut self) {
        self.wakers = Vec::new();
        *lock(&self.shared.indices) = Vec::new();
    }
}

impl Wake for StreamWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        lock(&self.shared.indices).push(self.index);
        if let Some(task) = &*lock(&self.shared.task) {
            task.wake_by_ref();
        }
    }
}

/// Nothing that can panic is done under these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
