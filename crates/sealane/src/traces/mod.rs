//! `otel_exporter`: sends finished spans to a collector, by OTLP over gRPC.
//!
//! One thread of the worker process, "traces", takes spans from the queue that requests leave them
//! in ([`exporter`]), and calls the collector ([`collector`]). Requests never wait for it. The
//! messages are those of [`messages`]; gRPC is tonic's, on hyper's HTTP/2 and, for `https://`,
//! rustls.

mod collector;
mod exporter;
mod messages;

use self::collector::Collector;
use self::exporter::{FLUSH_TIMEOUT, Work};
use crate::control_thread;
use crate::journal::Journal;
use sealane_server::{Snapshot, SpanQueue, TraceTarget};
use std::io;
use std::sync::{Arc, mpsc as std_mpsc};
use std::time::Duration;
use tokio::sync::mpsc;

/// Name of the thread, for `ps` and the log.
const THREAD_NAME: &str = "traces";

/// Beyond the thread's own time-out, in case it does not get a processor.
const FLUSH_GRACE: Duration = Duration::from_secs(1);

/// Checks what only a connection would show otherwise.
///
/// # Errors
/// What is wrong with `otel_exporter`.
pub(crate) fn check(target: Option<&Arc<TraceTarget>>) -> Result<(), String> {
    let Some(target) = target else { return Ok(()) };
    match Collector::new(Arc::clone(target)) {
        Ok(_) => Ok(()),
        Err(why) => {
            let origin = &target.conf.origin;
            let (file, line) = (origin.file.display(), origin.line);
            Err(format!("{why} in \"otel_exporter\" of {file}:{line}"))
        }
    }
}

/// The thread, if one is needed.
#[derive(Default)]
pub(crate) struct TraceThread {
    work: Option<mpsc::UnboundedSender<Work>>,
}

impl TraceThread {
    /// Switches to a new configuration. Spans that wait go to its collector; without one, to the
    /// one before.
    ///
    /// # Errors
    /// When the thread or its runtime cannot be made, or the collector cannot be used.
    pub(crate) fn set(&mut self, snapshot: &Snapshot, journal: &Journal) -> io::Result<()> {
        let Some(target) = snapshot.trace_target() else {
            return Ok(());
        };
        let collector = Collector::new(Arc::clone(target)).map_err(io::Error::other)?;
        let spans = snapshot.spans();
        spans.set_limits(target.conf.batch_size, target.limit);
        let work = match &self.work {
            Some(work) => work,
            None => self.work.insert(start(Arc::clone(spans))?),
        };
        let sent = work.send(Work::Collector(Arc::new(collector), journal.clone()));
        sent.map_err(|_| io::Error::other("the thread has ended; see the alert before"))
    }

    /// No span will follow: waits until those that are left are exported, for a bounded time.
    pub(crate) fn finish(&self) {
        let Some(work) = &self.work else { return };
        let (done, is_done) = std_mpsc::channel();
        if work.send(Work::Finish(done)).is_ok() {
            // The log has what was lost.
            let _ = is_done.recv_timeout(FLUSH_TIMEOUT + FLUSH_GRACE);
        }
    }
}

fn start(spans: Arc<SpanQueue>) -> io::Result<mpsc::UnboundedSender<Work>> {
    control_thread::start(THREAD_NAME, |work| exporter::run(work, spans))
}
