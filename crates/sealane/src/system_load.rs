//! `sysguard`: reads how busy the machine is, for requests that are judged by it.
//!
//! One thread of the worker process, "system load", reads a few files of the kernel at every
//! `sysguard_interval`, as long as a location wants to know. What they mean is in [`sources`].

mod sources;

use self::sources::{Processors, Sources};
use crate::control_thread;
use crate::journal::{Journal, note};
use sealane_server::LoadWatch;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

/// Name of the thread, for `ps` and the log.
const THREAD_NAME: &str = "system load";

/// The thread, if one is needed.
#[derive(Default)]
pub(crate) struct SystemLoadThread {
    meter: Arc<Mutex<Meter>>,
    changed: Option<UnboundedSender<()>>,
}

impl SystemLoadThread {
    /// Switches to what another configuration wants to know. When this returns, the figures are
    /// there.
    ///
    /// # Errors
    /// When the thread or its event loop cannot be made.
    pub(crate) fn set(&mut self, watch: &LoadWatch, journal: &Journal) -> io::Result<()> {
        if watch.interval().is_none() && self.changed.is_none() {
            return Ok(());
        }
        {
            let mut meter = lock(&self.meter);
            meter.watch = watch.clone();
            meter.journal = Some(journal.clone());
            meter.read(Instant::now());
        }
        let changed = match &self.changed {
            Some(changed) => changed,
            None => {
                let meter = Arc::clone(&self.meter);
                let started = control_thread::start(THREAD_NAME, |changes| run(meter, changes))?;
                self.changed.insert(started)
            }
        };
        let sent = changed.send(());
        sent.map_err(|_| io::Error::other("the thread has ended; see the alert before"))
    }
}

fn lock(meter: &Mutex<Meter>) -> std::sync::MutexGuard<'_, Meter> {
    meter.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn run(meter: Arc<Mutex<Meter>>, mut changes: UnboundedReceiver<()>) {
    loop {
        let interval = lock(&meter).watch.interval();
        let change = match interval {
            None => changes.recv().await,
            Some(interval) => match tokio::time::timeout(interval, changes.recv()).await {
                Ok(change) => change,
                Err(_) => {
                    lock(&meter).read(Instant::now());
                    continue;
                }
            },
        };
        if change.is_none() {
            return;
        }
    }
}

/// What was read lately.
#[derive(Default)]
struct Meter {
    watch: LoadWatch,
    sources: Sources,
    /// Of the longest period.
    history: VecDeque<(Instant, Processors)>,
    journal: Option<Journal>,
    has_warned: bool,
}

impl Meter {
    /// Reads and publishes everything.
    fn read(&mut self, now: Instant) {
        if self.watch.interval().is_none() {
            self.history.clear();
            return;
        }
        let system = self.watch.system();
        let load = self.sources.load_thousandths();
        system.set_load_thousandths(load.as_ref().ok().copied());
        let memory = self.sources.memory();
        system.set_free_bytes(memory.as_ref().ok().map(|memory| memory.free_bytes));
        system.set_swap_used(memory.as_ref().ok().map(|memory| memory.swap_used));
        let processors = self.sources.processors();
        system.set_cpus(processors.as_ref().ok().map(|processors| processors.count));
        let failed = [load.err(), memory.err(), processors.as_ref().err().cloned()];
        let failed = failed.into_iter().flatten().next();
        if let Ok(processors) = processors {
            self.publish_usage(now, &processors);
            self.history.push_back((now, processors));
        }
        self.warn(failed);
    }

    fn publish_usage(&mut self, now: Instant, processors: &Processors) {
        let meters = self.watch.meters();
        for meter in meters {
            // Ticks are not exact: half a second less is as good as the period.
            let least = meter.period().saturating_sub(Duration::from_millis(500));
            let is_old_enough = |(at, _): &&(Instant, Processors)| *at + least <= now;
            let before = self.history.iter().rev().find(is_old_enough);
            let before = before.or(self.history.front());
            meter.set_usage(
                before.and_then(|(at, before)| {
                    processors.usage_since(before, now.duration_since(*at))
                }),
            );
        }
        let longest = meters.iter().map(|meter| meter.period()).max();
        let longest = longest.unwrap_or_default();
        // One that is older than the longest period is needed, the others before it are not.
        let is_past = |entry: Option<&(Instant, Processors)>| {
            entry.is_some_and(|(at, _)| *at + longest <= now)
        };
        while is_past(self.history.get(1)) {
            self.history.pop_front();
        }
    }

    /// Says once what cannot be read.
    fn warn(&mut self, failed: Option<String>) {
        let Some(why) = failed else {
            self.has_warned = false;
            return;
        };
        if !std::mem::replace(&mut self.has_warned, true)
            && let Some(journal) = &self.journal
        {
            note!(
                journal,
                Error,
                "{why}: limits of \"sysguard\" that depend on it do not apply"
            );
        }
    }
}
