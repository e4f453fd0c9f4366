//! The event loop of a thread: its tasks, their sockets and timers, and one wait for all of them.
//!
//! ```text
//! turn:  run what is ready, a bounded number of tasks
//!        run newcomers, for a bounded time
//!        take what other threads have woken
//!        one epoll_wait: without waiting if there is more to run, else until something happens
//!        wake whoever waits for a socket, then timers, then those that yielded
//! ```
//!
//! Every thread has a loop of its own, and a task never leaves the loop that it was started on. So
//! its future need not be `Send`, and waking a task of the same thread takes no lock and no system
//! call. Another thread pays for an `eventfd` write only if the loop waits in epoll at that
//! moment.
//!
//! A newcomer is a connection whose handshake is not done. A handshake costs as much as a hundred
//! requests, so newcomers have a queue of their own: established connections go first in every
//! turn, and wait for newcomers no longer than 0.2 ms, or one step of one of them.
//!
//! What a general runtime does and this one does not, because each costs a system call or a
//! wake-up per connection: it watches for output only after a send has found no room, it does not
//! remove a descriptor from epoll that is about to be closed, and a timer wakes nobody until the
//! next wait.
//!
//! | file | what |
//! |---|---|
//! | `task.rs` | tasks and their wakers |
//! | `reactor.rs` | sockets that wait for readiness |
//! | `timer.rs` | [`sleep`], [`timeout_at`] |
//! | `blocking.rs` | threads for work that may block |

mod blocking;
mod reactor;
mod task;
#[cfg(test)]
mod tests;
mod timer;

use blocking::BlockingThreads;
pub(crate) use blocking::MAX_THREADS as MAX_BLOCKING_THREADS;
pub use reactor::{Direction, Registration};
pub use sealane_sys::epoll::Watch;
pub use timer::{Elapsed, Sleep, sleep, sleep_until, timeout_at};

use reactor::Reactor;
use sealane_sys::epoll::{Epoll, EventCounter};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
pub use task::wake_together;
use task::{Shared, Task, Tasks};
use timer::Timers;
use tokio::sync::{Notify, oneshot};

/// Tasks that run before the sockets are looked at again.
const TASKS_PER_TURN: usize = 64;
/// Time for newcomers in a turn, unless established connections have taken longer: then as long.
const NEWCOMERS_TIME: Duration = Duration::from_micros(200);
/// Socket operations of a task before others have their turn. A peer that always has more to say
/// must not keep the thread.
const OPERATIONS_PER_POLL: u32 = 128;

thread_local! {
    static CURRENT: RefCell<Option<Rc<Local>>> = const { RefCell::new(None) };
}

/// What a loop needs from the kernel. It can be made in one thread and started in another.
pub struct Parts {
    epoll: Epoll,
    counter: EventCounter,
}

impl Parts {
    /// # Errors
    /// When there are no descriptors, or no memory.
    pub fn new() -> io::Result<Parts> {
        let (epoll, counter) = (Epoll::new()?, EventCounter::new()?);
        reactor::watch_counter(&epoll, &counter)?;
        Ok(Parts { epoll, counter })
    }

    /// The loop of the calling thread. `before_wait` runs whenever it is about to wait.
    pub fn start(self, before_wait: impl Fn() + 'static) -> Runtime {
        Runtime {
            local: Rc::new(Local {
                shared: Arc::new(Shared::new(self.counter, self.epoll.handle())),
                tasks: RefCell::default(),
                ready: RefCell::default(),
                newcomers: RefCell::default(),
                running: RefCell::default(),
                deferred: RefCell::default(),
                reactor: RefCell::new(Reactor::new(self.epoll)),
                timers: RefCell::default(),
                woken: RefCell::default(),
                operations: Cell::new(0),
                turn: Cell::new(1),
                blocking: BlockingThreads::default(),
                before_wait: Box::new(before_wait),
            }),
        }
    }
}

/// The event loop of a thread.
pub struct Runtime {
    local: Rc<Local>,
}

struct Local {
    shared: Arc<Shared>,
    tasks: RefCell<Tasks>,
    /// Tasks that run in this turn or the next.
    ready: RefCell<VecDeque<Arc<Task>>>,
    /// Those of newcomers.
    newcomers: RefCell<VecDeque<Arc<Task>>>,
    /// The task that runs now.
    running: RefCell<Option<Arc<Task>>>,
    /// Woken after the sockets have been looked at.
    deferred: RefCell<Vec<Waker>>,
    reactor: RefCell<Reactor>,
    timers: RefCell<Timers>,
    /// Collected during a wait; kept for its memory.
    woken: RefCell<Vec<Waker>>,
    /// Socket operations that the running task may still do.
    operations: Cell<u32>,
    /// How often the sockets have been looked at.
    turn: Cell<u64>,
    blocking: BlockingThreads,
    before_wait: Box<dyn Fn()>,
}

impl Runtime {
    /// A loop for tests and tools.
    ///
    /// # Errors
    /// As [`Parts::new`].
    pub fn new() -> io::Result<Runtime> {
        Ok(Parts::new()?.start(|| {}))
    }

    /// Makes this the loop of the calling thread until the guard is dropped, so that sockets can be
    /// registered.
    pub fn enter(&self) -> Entered {
        let before = CURRENT.with(|current| current.replace(Some(self.local.clone())));
        Entered { before }
    }

    /// Runs tasks until the future is done. Tasks that are left stay for the next call.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let _entered = self.enter();
        let local = &*self.local;
        let mut future = pin!(future);
        let main = Arc::new(Task::main(&local.shared));
        let waker = Waker::from(main.clone());
        local.ready.borrow_mut().push_back(main);
        loop {
            let began = Instant::now();
            for _ in 0..TASKS_PER_TURN {
                let Some(task) = local.next_ready() else {
                    break;
                };
                if !task.is_main() {
                    local.run(&task);
                } else if task.belongs_to(&waker) {
                    task.begin();
                    local.operations.set(OPERATIONS_PER_POLL);
                    let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
                    if let Poll::Ready(output) = polled {
                        return output;
                    }
                }
            }
            local.run_newcomers(began);
            local.turn();
        }
    }
}

impl Drop for Runtime {
    /// Drops all tasks, as if the thread had ended.
    fn drop(&mut self) {
        let _entered = self.enter();
        self.local.ready.borrow_mut().clear();
        self.local.newcomers.borrow_mut().clear();
        loop {
            // What a future does when it is dropped may start or wake others.
            let left = self.local.tasks.borrow_mut().take_all();
            if left.is_empty() {
                break;
            }
            drop(left);
        }
        self.local.blocking.stop();
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").finish_non_exhaustive()
    }
}

/// See [`Runtime::enter`].
pub struct Entered {
    before: Option<Rc<Local>>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.before.take();
        let ours = CURRENT.with(|current| current.replace(before));
        drop(ours);
    }
}

impl Local {
    fn next_ready(&self) -> Option<Arc<Task>> {
        self.ready.borrow_mut().pop_front()
    }

    /// Queues a task that was woken.
    fn queue(&self, task: Arc<Task>) {
        let queue = match task.is_newcomer() {
            true => &self.newcomers,
            false => &self.ready,
        };
        queue.borrow_mut().push_back(task);
    }

    /// Runs newcomers, for as long as they may in a turn that began then.
    fn run_newcomers(&self, began: Instant) {
        if self.newcomers.borrow().is_empty() {
            return;
        }
        let started = Instant::now();
        let allowance = NEWCOMERS_TIME.max(started.saturating_duration_since(began));
        loop {
            let Some(task) = self.newcomers.borrow_mut().pop_front() else {
                return;
            };
            self.run(&task);
            if started.elapsed() >= allowance {
                return;
            }
        }
    }

    /// Polls a task once. A panic ends that task alone.
    fn run(&self, task: &Arc<Task>) {
        let Some(mut future) = self.tasks.borrow_mut().take(task) else {
            return; // it has ended
        };
        task.begin();
        self.operations.set(OPERATIONS_PER_POLL);
        *self.running.borrow_mut() = Some(task.clone());
        let waker = Waker::from(task.clone());
        let polled = task::poll(future.as_mut(), &mut Context::from_waker(&waker));
        *self.running.borrow_mut() = None;
        match polled {
            Ok(Poll::Pending) => self.tasks.borrow_mut().put_back(task, future),
            Ok(Poll::Ready(())) => self.end(task, future),
            Err(_panic) => self.end(task, future),
        }
    }

    fn end(&self, task: &Arc<Task>, future: Pin<Box<dyn Future<Output = ()>>>) {
        self.tasks.borrow_mut().remove(task);
        // Outside of any borrow: what a connection does when it ends may wake others.
        task::drop_quietly(future);
    }

    /// Looks at the sockets, and waits if there is nothing else to do.
    fn turn(&self) {
        self.take_remote();
        let has_more = self.has_ready() || !self.deferred.borrow().is_empty();
        let timeout = match has_more {
            true => Some(Duration::ZERO),
            false => {
                (self.before_wait)();
                self.time_to_wait()
            }
        };
        let mut woken = std::mem::take(&mut *self.woken.borrow_mut());
        self.reactor.borrow_mut().wait(timeout, &mut woken);
        self.turn.set(self.turn.get() + 1);
        self.shared.set_waiting(false);
        self.timers.borrow_mut().take_due(&mut woken);
        woken.append(&mut self.deferred.borrow_mut());
        for waker in woken.drain(..) {
            waker.wake();
        }
        *self.woken.borrow_mut() = woken;
        self.take_remote();
    }

    fn has_ready(&self) -> bool {
        !self.ready.borrow().is_empty() || !self.newcomers.borrow().is_empty()
    }

    /// How long to wait for a socket. Others are told that this thread waits.
    fn time_to_wait(&self) -> Option<Duration> {
        self.shared.set_waiting(true);
        if self.shared.has_woken() || self.has_ready() {
            return Some(Duration::ZERO);
        }
        let due = self.timers.borrow().next_due();
        due.map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// Takes what other threads have woken or released.
    fn take_remote(&self) {
        if self.shared.has_woken() {
            let remote = self.shared.take();
            remote.woken.into_iter().for_each(|task| self.queue(task));
            let mut reactor = self.reactor.borrow_mut();
            let released = remote.released.into_iter();
            released.for_each(|token| reactor.release(token));
        }
    }
}

/// Calls `f` with the loop of this thread, if it has one.
fn with_current<R>(f: impl FnOnce(&Rc<Local>) -> R) -> Option<R> {
    // A thread that ends has none any more.
    CURRENT
        .try_with(|current| current.borrow().as_ref().map(f))
        .ok()
        .flatten()
}

/// Starts a task on the loop of this thread.
///
/// # Panics
/// If the thread has no loop.
pub fn spawn(future: impl Future<Output = ()> + 'static) {
    start(Box::pin(future), false);
}

/// Starts a task that is a newcomer until it calls [`establish`].
///
/// # Panics
/// If the thread has no loop.
pub fn spawn_newcomer(future: impl Future<Output = ()> + 'static) {
    start(Box::pin(future), true);
}

fn start(future: task::LocalFuture, is_newcomer: bool) {
    let started = with_current(|local| {
        let mut tasks = local.tasks.borrow_mut();
        let task = tasks.add(&local.shared, future, is_newcomer);
        drop(tasks);
        local.queue(task);
    });
    started.expect("tasks are started on threads with an event loop");
}

/// The running task is no newcomer any more, or never was one.
pub fn establish() {
    with_current(|local| {
        if let Some(task) = &*local.running.borrow() {
            task.establish();
        }
    });
}

/// Starts a task whose end can be awaited, and brought about.
///
/// # Panics
/// If the thread has no loop.
pub fn spawn_with_handle<T: 'static>(future: impl Future<Output = T> + 'static) -> JoinHandle<T> {
    let (done, result) = oneshot::channel();
    let aborted = Arc::new(Notify::new());
    let abort = aborted.clone();
    spawn(async move {
        tokio::select! {
            biased;
            () = aborted.notified() => {}
            // Nobody may wait for it.
            output = future => drop(done.send(output)),
        }
    });
    JoinHandle { result, abort }
}

/// A task that can be awaited. Dropping the handle lets the task go on.
#[derive(Debug)]
pub struct JoinHandle<T> {
    result: oneshot::Receiver<T>,
    abort: Arc<Notify>,
}

/// The task has no output: it was aborted, it panicked, or its loop has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended;

impl<T> JoinHandle<T> {
    /// Ends the task.
    pub fn abort(&self) {
        self.abort.notify_one();
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, Ended>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.result).poll(cx).map_err(|_| Ended)
    }
}

/// Runs `work` on a thread that may block. Without an event loop on this thread, which has time
/// then, it runs at once.
pub fn spawn_blocking(work: impl FnOnce() + Send + 'static) {
    let mut work = Some(work);
    with_current(|local| {
        if let Some(work) = work.take() {
            local.blocking.run(Box::new(work));
        }
    });
    if let Some(work) = work {
        work();
    }
}

/// How often this thread has looked at its sockets; 0 without an event loop.
pub fn turn() -> u64 {
    with_current(|local| local.turn.get()).unwrap_or(0)
}

/// Whether other tasks of this turn are still to run.
pub fn has_more() -> bool {
    with_current(|local| !local.ready.borrow().is_empty()).unwrap_or(false)
}

/// Whether this thread has an event loop.
pub fn is_entered() -> bool {
    with_current(|_| ()).is_some()
}

/// Wakes the waker once the sockets have been looked at, behind the tasks that became ready there.
pub fn defer(waker: Waker) {
    let mut waker = Some(waker);
    with_current(|local| local.deferred.borrow_mut().extend(waker.take()));
    // Without a loop there is nobody to be fair to.
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Lets others run: continues once the sockets have been looked at, behind the tasks that became
/// ready there.
pub async fn yield_now() {
    let mut has_yielded = false;
    std::future::poll_fn(|cx| {
        if has_yielded {
            return Poll::Ready(());
        }
        has_yielded = true;
        defer(cx.waker().clone());
        Poll::Pending
    })
    .await;
}

/// Counts a socket operation of the running task. Pending when it has had its share: then it goes
/// on after the others, in the next turn.
fn poll_share(local: &Local, cx: &mut Context<'_>) -> Poll<()> {
    match local.operations.get().checked_sub(1) {
        Some(left) => {
            local.operations.set(left);
            Poll::Ready(())
        }
        None => {
            local.deferred.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        }
    }
}
