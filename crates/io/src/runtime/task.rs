//! Tasks, and what wakes them.

use super::reactor::Token;
use super::with_current;
use sealane_sys::epoll::{EpollHandle, EventCounter};
use std::cell::RefCell;
use std::future::Future;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

thread_local! {
    /// The loops for which this thread has woken tasks in [`wake_together`].
    static TOGETHER: RefCell<Option<Vec<Arc<Shared>>>> = const { RefCell::new(None) };
}

/// Wakes all of these, mostly tasks of other threads' loops, and each of those loops once, when all
/// its tasks are in its queue. A loop that shares the processor with this thread would otherwise
/// run for the first of them at once, and wait again before the second.
pub fn wake_together(wakers: impl IntoIterator<Item = Waker>) {
    TOGETHER.set(Some(Vec::new()));
    wakers.into_iter().for_each(Waker::wake);
    let loops = TOGETHER.take().unwrap_or_default();
    for waiting in loops {
        waiting.end_wait();
    }
}

/// What a task does.
pub(super) type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

/// The slot of the future that [`Runtime::block_on`](super::Runtime::block_on) runs.
const MAIN: u32 = u32::MAX;

/// The part of a task that others see: its waker.
pub(super) struct Task {
    shared: Arc<Shared>,
    slot: u32,
    /// It is in the queue.
    is_queued: AtomicBool,
    is_newcomer: AtomicBool,
}

impl Task {
    /// The one that [`Runtime::block_on`](super::Runtime::block_on) runs, already queued.
    pub(super) fn main(shared: &Arc<Shared>) -> Task {
        Task {
            shared: shared.clone(),
            slot: MAIN,
            is_queued: AtomicBool::new(true),
            is_newcomer: AtomicBool::new(false),
        }
    }

    pub(super) fn is_main(&self) -> bool {
        self.slot == MAIN
    }

    /// Whether this is what `waker` wakes.
    pub(super) fn belongs_to(self: &Arc<Task>, waker: &Waker) -> bool {
        waker.data() == Arc::as_ptr(self).cast::<()>()
    }

    /// It runs now: from here on it may be woken again.
    pub(super) fn begin(&self) {
        self.is_queued.store(false, Ordering::Release);
    }

    /// Whether it belongs to a connection whose handshake is not done.
    pub(super) fn is_newcomer(&self) -> bool {
        self.is_newcomer.load(Ordering::Relaxed)
    }

    pub(super) fn establish(&self) {
        self.is_newcomer.store(false, Ordering::Relaxed);
    }

    pub(super) fn is_of(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if self.is_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut task = Some(self);
        with_current(|local| {
            if let Some(task) = task.take_if(|task| task.is_of(&local.shared)) {
                local.queue(task);
            }
        });
        if let Some(task) = task {
            let shared = task.shared.clone();
            shared.wake(task);
        }
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_queued.load(Ordering::Acquire) {
            self.clone().wake();
        }
    }
}

/// All tasks of a thread.
#[derive(Default)]
pub(super) struct Tasks {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Default)]
struct Slot {
    task: Option<Arc<Task>>,
    /// `None` while it runs.
    future: Option<LocalFuture>,
}

impl Tasks {
    /// A new task, to be queued.
    pub(super) fn add(
        &mut self,
        shared: &Arc<Shared>,
        future: LocalFuture,
        is_newcomer: bool,
    ) -> Arc<Task> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).expect("no thread has four billion tasks")
        });
        let task = Arc::new(Task {
            shared: shared.clone(),
            slot,
            is_queued: AtomicBool::new(true),
            is_newcomer: AtomicBool::new(is_newcomer),
        });
        self.slots[slot as usize] = Slot {
            task: Some(task.clone()),
            future: Some(future),
        };
        task
    }

    /// Its slot, if it has not ended.
    fn slot(&mut self, task: &Arc<Task>) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(task.slot as usize)?;
        let is_there = |known: &Arc<Task>| Arc::ptr_eq(known, task);
        slot.task.as_ref().is_some_and(is_there).then_some(slot)
    }

    /// Takes the future out to run it.
    pub(super) fn take(&mut self, task: &Arc<Task>) -> Option<LocalFuture> {
        self.slot(task)?.future.take()
    }

    pub(super) fn put_back(&mut self, task: &Arc<Task>, future: LocalFuture) {
        if let Some(slot) = self.slot(task) {
            slot.future = Some(future);
        }
    }

    /// It has ended.
    pub(super) fn remove(&mut self, task: &Arc<Task>) {
        if let Some(slot) = self.slot(task) {
            *slot = Slot::default();
            self.free.push(task.slot);
        }
    }

    /// Takes the futures of all tasks, which end with them.
    pub(super) fn take_all(&mut self) -> Vec<LocalFuture> {
        self.free.clear();
        let slots = std::mem::take(&mut self.slots);
        slots.into_iter().filter_map(|slot| slot.future).collect()
    }
}

/// Polls a task's future. The panic was reported when it began.
pub(super) fn poll(
    future: Pin<&mut (dyn Future<Output = ()> + 'static)>,
    cx: &mut Context<'_>,
) -> std::thread::Result<Poll<()>> {
    catch_unwind(AssertUnwindSafe(|| future.poll(cx)))
}

/// Drops a future that has ended. A panic ends nothing else.
pub(super) fn drop_quietly(future: LocalFuture) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
}

/// The part of a loop that other threads see.
pub(super) struct Shared {
    /// The loop waits, or is about to: waking it takes a system call.
    is_waiting: AtomicBool,
    /// There is something in `remote`.
    has_woken: AtomicBool,
    remote: Mutex<Remote>,
    counter: EventCounter,
    epoll: EpollHandle,
}

/// What other threads want of a loop.
#[derive(Default)]
pub(super) struct Remote {
    pub(super) woken: Vec<Arc<Task>>,
    /// Sockets that were dropped elsewhere.
    pub(super) released: Vec<Token>,
}

impl Shared {
    pub(super) fn new(counter: EventCounter, epoll: EpollHandle) -> Shared {
        Shared {
            is_waiting: AtomicBool::new(false),
            has_woken: AtomicBool::new(false),
            remote: Mutex::default(),
            counter,
            epoll,
        }
    }

    /// Queues a task from another thread.
    fn wake(self: &Arc<Self>, task: Arc<Task>) {
        self.remote().woken.push(task);
        self.has_woken.store(true, Ordering::SeqCst);
        let is_together = TOGETHER.with_borrow_mut(|loops| {
            let Some(loops) = loops else {
                return false;
            };
            if !loops.iter().any(|known| Arc::ptr_eq(known, self)) {
                loops.push(self.clone());
            }
            true
        });
        if !is_together {
            self.end_wait();
        }
    }

    /// Ends the loop's wait, if it waits. Whoever finds it waiting wakes it, and nobody else has
    /// to.
    fn end_wait(&self) {
        if self.is_waiting.swap(false, Ordering::SeqCst) {
            self.counter.add();
        }
    }

    /// Nothing is reported of the socket any more.
    pub(super) fn unwatch(&self, fd: BorrowedFd<'_>) {
        // It fails for a socket that has never had to wait.
        let _ = self.epoll.remove(fd);
    }

    /// Gives back a socket's slot from another thread. It can wait.
    pub(super) fn release(&self, token: Token) {
        self.remote().released.push(token);
        self.has_woken.store(true, Ordering::SeqCst);
    }

    pub(super) fn set_waiting(&self, waits: bool) {
        self.is_waiting.store(waits, Ordering::SeqCst);
    }

    pub(super) fn has_woken(&self) -> bool {
        self.has_woken.load(Ordering::SeqCst)
    }

    /// Takes what has come.
    pub(super) fn take(&self) -> Remote {
        self.has_woken.store(false, Ordering::SeqCst);
        std::mem::take(&mut *self.remote())
    }

    fn remote(&self) -> MutexGuard<'_, Remote> {
        // Every change is a single step that a panic cannot interrupt.
        self.remote.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
