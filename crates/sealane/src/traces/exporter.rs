//! When what is exported, and what becomes of spans that cannot be.

use super::collector::{Collector, ExportError, Exported};
use super::messages::SpanMessage;
use crate::journal::{Journal, note};
use sealane_server::{SpanLoss, SpanQueue};
use std::collections::VecDeque;
use std::sync::{Arc, mpsc as std_mpsc};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

/// The most attempts to export a batch.
const MAX_ATTEMPTS: u32 = 5;

/// The wait after an attempt that failed, doubled each time, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(8);

/// How long the end of the process waits for spans that are left. The master kills a worker that
/// has not ended 5 s after TERM.
pub(super) const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// The shortest and the longest time between two looks at the queue, whatever `interval` says.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
const MAX_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// The shortest time between two lines about spans that found no room; nginx's.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// What the thread is to do.
pub(super) enum Work {
    /// To export to this collector from now on.
    Collector(Arc<Collector>, Journal),
    /// To export what is left, and say when that is done.
    Finish(std_mpsc::Sender<()>),
}

/// Spans that are exported together.
struct Batch {
    spans: Vec<SpanMessage>,
    attempts: u32,
}

/// An attempt that has ended.
struct Attempt {
    batch: Batch,
    collector: Arc<Collector>,
    outcome: Exported,
}

struct Exporter {
    queue: Arc<SpanQueue>,
    collector: Arc<Collector>,
    journal: Journal,
    exports: JoinSet<Attempt>,
    /// Batches that have failed and are tried again.
    again: VecDeque<Batch>,
    /// Until when nothing is tried, and how long that was.
    pause: Option<(Instant, Duration)>,
    /// When the queue is emptied, however few spans it has.
    flush_at: Instant,
    failing: Option<Failing>,
    /// Spans without room that were reported, and when.
    told: (u64, Instant),
    /// The process ends: nothing is tried again.
    is_ending: bool,
}

/// A collector that does not take spans.
struct Failing {
    since: Instant,
    /// Spans that were dropped before.
    dropped_before: u64,
}

/// Exports until it is told to finish.
pub(super) async fn run(mut work: UnboundedReceiver<Work>, queue: Arc<SpanQueue>) {
    let mut exporter = match work.recv().await {
        Some(Work::Collector(collector, journal)) => Exporter::new(queue, collector, journal),
        Some(Work::Finish(_)) | None => return,
    };
    loop {
        exporter.start();
        let wake_at = exporter.wake_at();
        tokio::select! {
            biased;
            next = work.recv() => match next {
                Some(Work::Collector(collector, journal)) => exporter.switch(collector, journal),
                Some(Work::Finish(done)) => {
                    exporter.finish().await;
                    let _ = done.send(()); // nobody waits any more
                    return;
                }
                None => return,
            },
            Some(attempt) = exporter.exports.join_next() => exporter.take(attempt),
            () = exporter.queue.batch_is_ready() => {}
            () = sleep_until(wake_at) => {}
        }
    }
}

impl Exporter {
    fn new(queue: Arc<SpanQueue>, collector: Arc<Collector>, journal: Journal) -> Exporter {
        let now = Instant::now();
        // Earlier processes of the server have told of theirs.
        let told_before = queue.counts().dropped(SpanLoss::QueueFull);
        let mut exporter = Exporter {
            queue,
            collector,
            journal,
            exports: JoinSet::new(),
            again: VecDeque::new(),
            pause: None,
            flush_at: now,
            failing: None,
            told: (told_before, now),
            is_ending: false,
        };
        exporter.flush_at = now + exporter.interval();
        exporter
    }

    fn interval(&self) -> Duration {
        let conf = &self.collector.target().conf;
        conf.interval.clamp(MIN_INTERVAL, MAX_INTERVAL)
    }

    /// Another collector, which may work where the one before did not. Exports that are under way
    /// are finished with that one.
    fn switch(&mut self, collector: Arc<Collector>, journal: Journal) {
        self.journal = journal;
        if self.collector.target() == collector.target() {
            return; // and the connection stays
        }
        self.collector = collector;
        self.pause = None;
        self.failing = None;
        self.flush_at = self.flush_at.min(Instant::now() + self.interval());
    }

    /// Whether another export may begin now.
    fn may_start(&self) -> bool {
        let is_paused = self.pause.is_some_and(|(until, _)| Instant::now() < until);
        !is_paused && self.exports.len() < self.collector.target().conf.batch_count
    }

    /// Begins every export that is due.
    fn start(&mut self) {
        while self.may_start() {
            let batch = match self.again.pop_front() {
                Some(batch) => batch,
                None => {
                    let spans = self
                        .queue
                        .take(self.is_ending || Instant::now() >= self.flush_at);
                    if spans.is_empty() {
                        break;
                    }
                    Batch {
                        spans: spans.into_iter().map(SpanMessage::from).collect(),
                        attempts: 0,
                    }
                }
            };
            let collector = Arc::clone(&self.collector);
            self.exports.spawn(async move {
                let outcome = collector.export(batch.spans.clone()).await;
                Attempt {
                    batch,
                    collector,
                    outcome,
                }
            });
        }
        if Instant::now() >= self.flush_at && self.may_start() {
            self.flush_at = Instant::now() + self.interval();
        }
        self.tell_of_drops();
    }

    /// When there is something to do without anything that happens.
    fn wake_at(&self) -> Instant {
        if self.may_start() {
            return self.flush_at;
        }
        let now = Instant::now();
        let paused_until = self.pause.map(|(until, _)| until);
        // Without a pause, an export that ends wakes it; drops are told of meanwhile.
        paused_until
            .filter(|until| *until > now)
            .unwrap_or(now + TELL_EVERY)
    }

    fn take(&mut self, attempt: Result<Attempt, tokio::task::JoinError>) {
        let Attempt {
            mut batch,
            collector,
            outcome,
        } = match attempt {
            Ok(attempt) => attempt,
            Err(error) => {
                // Its spans are lost with it; room for them is not known to be free.
                note!(
                    self.journal,
                    Alert,
                    "an export of traces has ended ({error})"
                );
                return;
            }
        };
        batch.attempts += 1;
        let is_current = Arc::ptr_eq(&collector, &self.collector);
        match outcome {
            Exported::Taken(rejected, why) => {
                let rejected = rejected.min(batch.spans.len());
                let taken = batch.spans.len() - rejected;
                self.queue.counts().exported.add(taken as u64);
                if is_current {
                    self.recovered();
                }
                if rejected > 0 {
                    let name = collector.name();
                    note!(
                        self.journal,
                        Warn,
                        "OTel export: \"{name}\" has rejected {rejected} spans ({why})"
                    );
                }
                self.drop_spans(SpanLoss::Rejected, rejected);
                self.queue.settle(batch.spans.len());
            }
            Exported::Refused(error) => {
                self.failed(&collector, &error);
                self.give_up(batch);
            }
            Exported::NotYet(error) => {
                self.failed(&collector, &error);
                if is_current {
                    let wait = self.pause.map_or(FIRST_PAUSE, |(until, wait)| {
                        // Several that failed together count once.
                        match Instant::now() < until {
                            true => wait,
                            false => (wait * 2).min(LAST_PAUSE),
                        }
                    });
                    self.pause = Some((Instant::now() + wait, wait));
                }
                if batch.attempts >= MAX_ATTEMPTS || self.is_ending {
                    self.give_up(batch);
                } else {
                    self.again.push_back(batch);
                }
            }
        }
    }

    fn give_up(&mut self, batch: Batch) {
        let spans = batch.spans.len();
        self.drop_spans(SpanLoss::ExportFailed, spans);
        self.queue.settle(spans);
    }

    fn drop_spans(&self, reason: SpanLoss, spans: usize) {
        self.queue.counts().count_dropped(reason, spans);
    }

    /// One line when it begins.
    fn failed(&mut self, collector: &Arc<Collector>, error: &ExportError) {
        let counts = self.queue.counts();
        counts.failed_exports.add(1);
        if self.failing.is_some() || !Arc::ptr_eq(collector, &self.collector) {
            return;
        }
        self.failing = Some(Failing {
            since: Instant::now(),
            dropped_before: counts.all_dropped(),
        });
        let name = collector.name();
        let limit = collector.target().limit;
        note!(
            self.journal,
            Error,
            "OTel export failure: {error} while exporting spans to \"{name}\"; requests are served \
             as before, up to {limit} spans are kept, later ones dropped; start the collector or \
             correct \"endpoint\" of \"otel_exporter\", exporting is retried"
        );
    }

    /// And one when it is over.
    fn recovered(&mut self) {
        self.pause = None;
        let Some(failing) = self.failing.take() else {
            return;
        };
        let dropped = self.queue.counts().all_dropped() - failing.dropped_before;
        let seconds = failing.since.elapsed().as_secs();
        let name = self.collector.name();
        note!(
            self.journal,
            Notice,
            "OTel export to \"{name}\" works again after {seconds} s; {dropped} spans were dropped"
        );
    }

    /// As in nginx, now and then.
    fn tell_of_drops(&mut self) {
        let dropped = self.queue.counts().dropped(SpanLoss::QueueFull);
        let now = Instant::now();
        if dropped > self.told.0 && now >= self.told.1 {
            self.told = (dropped, now + TELL_EVERY);
            note!(self.journal, Notice, "OTel dropped records: {dropped}");
        }
    }

    /// Exports what is left, as far as that succeeds in time.
    async fn finish(&mut self) {
        let deadline = Instant::now() + FLUSH_TIMEOUT;
        self.is_ending = true;
        loop {
            self.pause = None;
            self.start();
            match timeout_at(deadline, self.exports.join_next()).await {
                Ok(Some(attempt)) => self.take(attempt),
                Ok(None) | Err(_) => break,
            }
        }
        self.exports.abort_all();
        let left = self.queue.held();
        self.drop_spans(SpanLoss::ProcessEnded, left);
        let lost = match &self.failing {
            Some(failing) => self.queue.counts().all_dropped() - failing.dropped_before,
            None => left as u64,
        };
        if lost > 0 {
            let name = self.collector.name();
            note!(
                self.journal,
                Warn,
                "{lost} spans were not exported to \"{name}\" before the process ended"
            );
        }
    }
}
