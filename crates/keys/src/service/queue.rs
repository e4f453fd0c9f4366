//! Expensive operations: they take turns between worker processes, and those of one key are
//! computed together.

use super::channel::Channel;
use super::readers::Wakeup;
use super::{Client, lock};
use crate::keyring::Key;
use crate::wire::Reason;
use sealane_tls::KeyOperation;
use sealane_tls::accelerator::{PendingJob, job};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// An operation that a worker thread waits for.
pub(super) struct Waiting {
    pub(super) channel: Arc<Channel>,
    pub(super) wakeup: Arc<Wakeup>,
    pub(super) number: u64,
    pub(super) key: Arc<Key>,
    pub(super) operation: KeyOperation,
}

/// Operations that no thread has taken yet.
#[derive(Default)]
pub(super) struct Queue {
    turns: Mutex<Turns>,
    some: Condvar,
}

/// One queue for each worker process that has some; the first is next.
#[derive(Default)]
struct Turns(VecDeque<(Arc<Client>, VecDeque<Waiting>)>);

impl Turns {
    fn push(&mut self, waiting: Waiting) {
        let client = waiting.channel.client();
        let mut queues = self.0.iter_mut();
        match queues.find(|(known, _)| Arc::ptr_eq(known, client)) {
            Some((_, queue)) => queue.push_back(waiting),
            None => self.0.push_back((Arc::clone(client), [waiting].into())),
        }
    }

    /// The operation whose turn it is, with others of the same key, one of each worker process
    /// after another, until there are `batch_size`.
    fn take(&mut self) -> Vec<Waiting> {
        let Some(first) = self.next(|_| true) else {
            return Vec::new();
        };
        let key = Arc::clone(&first.key);
        let batch_size = key.accelerator().batch_size();
        let mut taken = vec![first];
        while taken.len() < batch_size {
            let Some(other) = self.next(|waiting| Arc::ptr_eq(&waiting.key, &key)) else {
                break;
            };
            taken.push(other);
        }
        taken
    }

    /// The first of these of the worker process whose turn it is, or of the next one that has some.
    fn next(&mut self, is_wanted: impl Fn(&Waiting) -> bool) -> Option<Waiting> {
        for _ in 0..self.0.len() {
            let (client, mut queue) = self.0.pop_front()?;
            let found = queue.iter().position(&is_wanted);
            let taken = found.and_then(|at| queue.remove(at));
            if !queue.is_empty() {
                self.0.push_back((client, queue));
            }
            if taken.is_some() {
                return taken;
            }
        }
        None
    }
}

impl Queue {
    pub(super) fn push(&self, waiting: Waiting) {
        waiting.channel.begin(&waiting.operation);
        lock(&self.turns).push(waiting);
        self.some.notify_one();
    }

    /// Computes, for as long as the process lives.
    pub(super) fn work(&self) {
        loop {
            let mut turns = lock(&self.turns);
            let taken = loop {
                let taken = turns.take();
                if !taken.is_empty() {
                    break taken;
                }
                turns = self
                    .some
                    .wait(turns)
                    .unwrap_or_else(PoisonError::into_inner);
            };
            drop(turns);
            compute(taken);
        }
    }
}

thread_local! {
    /// Channels with answers that this thread sends once it has computed what it took; `None` where
    /// nobody does that.
    static ANSWERED: RefCell<Option<Vec<Arc<Channel>>>> = const { RefCell::new(None) };
}

/// Computes operations of one key.
fn compute(all: Vec<Waiting>) {
    let Some(first) = all.first() else {
        return;
    };
    let accelerator = Arc::clone(first.key.accelerator());
    ANSWERED.set(Some(Vec::new()));
    for waiting in all {
        if waiting.channel.is_closed() {
            waiting.answer(Err(Reason::Failed));
            continue;
        }
        let (job, pending) = job(waiting.operation.clone());
        accelerator.submit(job);
        Completion::of(waiting, pending);
    }
    // Other threads may take some of these meanwhile, and this one some of theirs.
    while accelerator.work() {}
    for channel in ANSWERED.take().unwrap_or_default() {
        channel.flush();
    }
}

/// Sends what a channel has, now or soon.
fn flush(channel: &Arc<Channel>) {
    let is_kept = ANSWERED.with_borrow_mut(|answered| {
        let Some(channels) = answered else {
            return false;
        };
        if !channels.iter().any(|known| Arc::ptr_eq(known, channel)) {
            channels.push(Arc::clone(channel));
        }
        true
    });
    if !is_kept {
        channel.flush();
    }
}

impl Waiting {
    /// Ends it, and has the channel read on if that was waited for.
    fn answer(&self, result: Result<&[u8], Reason>) {
        let (number, operation) = (self.number, &self.operation);
        let go_on = self.channel.answer_later(number, operation, result);
        flush(&self.channel);
        if go_on {
            self.wakeup.go_on();
        }
    }
}

/// Answers when a job is done.
struct Completion {
    state: Mutex<Option<(Waiting, PendingJob)>>,
}

impl Completion {
    fn of(waiting: Waiting, pending: PendingJob) {
        let completion = Arc::new(Completion {
            state: Mutex::new(Some((waiting, pending))),
        });
        completion.look();
    }

    /// Answers if the job is done, and is called again when it is otherwise.
    fn look(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        let mut state = lock(&self.state);
        let Some((waiting, mut pending)) = state.take() else {
            return;
        };
        let result = match pending.poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => {
                *state = Some((waiting, pending));
                return;
            }
            Poll::Ready(result) => result,
        };
        drop(state);
        let result = result.and_then(|result| waiting.key.answer(&waiting.operation, result));
        match result {
            Some(bytes) => waiting.answer(Ok(&bytes)),
            None => waiting.answer(Err(Reason::Failed)),
        }
    }
}

impl Wake for Completion {
    fn wake(self: Arc<Self>) {
        self.look();
    }
}
