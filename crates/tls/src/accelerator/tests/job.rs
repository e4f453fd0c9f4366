//! The two halves of an operation, alone and in a race.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::{Job, PendingJob, Secret, job, sign};

/// Rounds of each race.
const RACES: usize = 20_000;

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Woken {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn any_job() -> (Job, PendingJob) {
    job(sign(0x0804, b"message"))
}

fn poll(pending: &mut PendingJob, woken: &Arc<Woken>) -> Poll<Option<Secret>> {
    pending.poll(&mut Context::from_waker(&Waker::from(woken.clone())))
}

fn secret(text: &str) -> Secret {
    Secret::new(text.as_bytes().to_vec())
}

#[test]
fn a_result_wakes_the_waiter_and_is_given_once() {
    let woken = Arc::default();
    let (job, mut pending) = any_job();
    assert_eq!(pending.try_take(), None);
    assert_eq!(poll(&mut pending, &woken), Poll::Pending);
    assert_eq!(poll(&mut pending, &woken), Poll::Pending);
    assert_eq!(woken.count(), 0);
    job.complete(Some(secret("result")));
    assert_eq!(woken.count(), 1);
    assert_eq!(
        poll(&mut pending, &woken),
        Poll::Ready(Some(secret("result")))
    );
    assert_eq!(poll(&mut pending, &woken), Poll::Ready(None));
    assert_eq!(pending.try_take(), Some(None));
}

#[test]
fn the_last_waker_is_woken_and_no_other() {
    let (first, second) = (Arc::default(), Arc::default());
    let (job, mut pending) = any_job();
    assert_eq!(poll(&mut pending, &first), Poll::Pending);
    assert_eq!(poll(&mut pending, &second), Poll::Pending);
    assert_eq!(Arc::strong_count(&first), 1, "the old waker was let go");
    job.complete(None);
    assert_eq!((first.count(), second.count()), (0, 1));
    assert_eq!(pending.try_take(), Some(None));
}

#[test]
fn a_job_that_is_dropped_has_failed() {
    let woken = Arc::default();
    let (job, mut pending) = any_job();
    assert_eq!(poll(&mut pending, &woken), Poll::Pending);
    drop(job);
    assert_eq!(woken.count(), 1);
    assert_eq!(poll(&mut pending, &woken), Poll::Ready(None));
}

#[test]
fn a_job_that_is_lost_in_a_panic_has_failed() {
    let (job, mut pending) = any_job();
    let thread = thread::spawn(move || {
        let _job = job;
        panic!("this panic belongs to the test");
    });
    thread.join().expect_err("it panics");
    assert_eq!(pending.try_take(), Some(None));
}

#[test]
fn nobody_is_woken_for_a_cancelled_job() {
    let woken = Arc::default();
    let (job, mut pending) = any_job();
    assert_eq!(poll(&mut pending, &woken), Poll::Pending);
    assert!(!job.is_cancelled());
    drop(pending);
    assert!(job.is_cancelled());
    assert_eq!(
        Arc::strong_count(&woken),
        1,
        "the waker went with the waiter"
    );
    job.complete(Some(secret("too late")));
    assert_eq!(woken.count(), 0);
}

#[test]
fn the_queue_time_ends_when_the_turn_comes() {
    let (job, pending) = any_job();
    let waited = job.begin(job.submitted_at() + Duration::from_millis(7));
    assert_eq!(waited, Duration::from_millis(7));
    let again = job.begin(job.submitted_at() + Duration::from_secs(7));
    assert_eq!(again, Duration::from_millis(7));
    job.complete(None);
    assert_eq!(pending.queue_time(), Duration::from_millis(7));

    // One that nobody began waits until it ends, and no longer.
    let (job, pending) = any_job();
    drop(job);
    let waited = pending.queue_time();
    thread::sleep(Duration::from_millis(2));
    assert_eq!(pending.queue_time(), waited);
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits as an executor does: polls only after a wake-up.
pub(super) fn wait(pending: &mut PendingJob) -> Option<Secret> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let started = Instant::now();
    loop {
        if let Poll::Ready(result) = pending.poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        thread::park_timeout(Duration::from_secs(60));
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "a wake-up was lost"
        );
    }
}

/// Two threads that meet over and over, with a little less or more time between them.
#[derive(Default)]
struct Meeting {
    arrived: AtomicUsize,
    begun: AtomicUsize,
}

impl Meeting {
    /// The one side is there for round `n`, counted from 1.
    fn arrive(&self, n: usize) {
        self.arrived.store(n, Ordering::SeqCst);
        until(|| self.begun.load(Ordering::SeqCst) >= n);
        dawdle(n * 7 % 211);
    }

    /// The other side begins the round.
    fn begin(&self, n: usize) {
        until(|| self.arrived.load(Ordering::SeqCst) >= n);
        self.begun.store(n, Ordering::SeqCst);
        dawdle(n * 5 % 223);
    }
}

fn until(is_true: impl Fn() -> bool) {
    for turn in 0_u32.. {
        if is_true() {
            return;
        }
        // The other thread may need this core.
        if turn % 256 == 255 {
            thread::yield_now();
        }
    }
}

/// Passes some nanoseconds.
fn dawdle(turns: usize) {
    for turn in 0..turns {
        std::hint::black_box(turn);
    }
}

#[test]
fn no_wake_up_is_lost_in_a_race() {
    let meeting = Arc::<Meeting>::default();
    let (jobs, received) = mpsc::channel::<Job>();
    let other = meeting.clone();
    let completing = thread::spawn(move || {
        for (n, job) in (1..).zip(received) {
            other.arrive(n);
            match n % 3 {
                0 => drop(job),
                _ => job.complete(Some(secret("result"))),
            }
        }
    });
    for n in 1..=RACES {
        let (job, mut pending) = any_job();
        jobs.send(job).expect("the other side runs");
        meeting.begin(n);
        let expected = (n % 3 != 0).then(|| secret("result"));
        assert_eq!(wait(&mut pending), expected, "round {n}");
    }
    drop(jobs);
    completing.join().expect("it does not panic");
}

#[test]
fn completing_and_cancelling_may_race() {
    let meeting = Arc::<Meeting>::default();
    let (jobs, received) = mpsc::channel::<Job>();
    let other = meeting.clone();
    let completing = thread::spawn(move || {
        for (n, job) in (1..).zip(received) {
            other.arrive(n);
            job.complete(Some(secret("result")));
        }
    });
    let woken: Arc<Woken> = Arc::default();
    for n in 1..=RACES {
        let (job, mut pending) = any_job();
        jobs.send(job).expect("the other side runs");
        let _ = poll(&mut pending, &woken);
        meeting.begin(n);
        drop(pending);
    }
    drop(jobs);
    completing.join().expect("it does not panic");
    assert_eq!(Arc::strong_count(&woken), 1, "no waker is left behind");
    let count = woken.count();
    assert!(count <= RACES, "woken {count} times, once at most for each");
}
