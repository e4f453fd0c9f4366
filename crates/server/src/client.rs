//! What the server knows of a client, whatever its connection is made of.

use crate::acceptor::ListenerRef;
use crate::debug_log;
use crate::facts::ConnectionFacts;
use crate::proxying::ClosesBound;
use crate::snapshot::{ListenerId, ServerId, ServerRuntime, Snapshot};
use crate::worker::Worker;
use sealane_conf::model::{ListenAddress, LocationConf, LogLevel};
use sealane_io::deadline::Deadline;
use sealane_io::registry::{Asked, ConnectionPhase, Entry};
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// A client that is connected: its configuration, its place in the registry, its time-out.
pub(crate) struct Client {
    pub(crate) worker: Arc<Worker>,
    /// All configured state: the newest when the last request began.
    pub(crate) snapshot: Arc<Snapshot>,
    /// The number of that.
    generation: u64,
    /// The listener it came through, in that snapshot.
    pub(crate) listener: ListenerId,
    pub(crate) facts: Arc<ConnectionFacts>,
    /// Connections to servers end with it that only its client may use.
    _closes_bound: ClosesBound,
    /// Server chosen by address and TLS name, until a request names its own.
    pub(crate) server: ServerId,
    deadline: Deadline,
    entry: Entry,
    /// Keeps registry and counters up to date; dropped last.
    gauge: Gauge,
}

impl Client {
    /// A client of the listener, for which a slot was taken.
    pub(crate) fn new(
        worker: Arc<Worker>,
        listener: ListenerRef,
        facts: Arc<ConnectionFacts>,
    ) -> Client {
        let ListenerRef {
            generation,
            snapshot,
            listener,
        } = listener;
        let server = snapshot.listener(listener).names.default_server();
        Client {
            _closes_bound: ClosesBound(facts.clone()),
            entry: Entry::new(worker.registry.clone()),
            gauge: Gauge::new(worker.clone()),
            deadline: Deadline::None,
            server,
            worker,
            snapshot,
            generation,
            listener,
            facts,
        }
    }

    /// Settings for the connection as a whole: those of the default location.
    pub(crate) fn default_conf(&self) -> &LocationConf {
        &self.snapshot.location(self.server().default_location).conf
    }

    /// The server that answers unless the request names another one.
    pub(crate) fn server(&self) -> &ServerRuntime {
        self.snapshot.server(self.server)
    }

    /// Sets the time-out for what the connection waits for next.
    pub(crate) fn set_deadline(&mut self, after: Duration) {
        self.deadline.set(&self.entry, after);
    }

    /// Ready when that time has passed.
    pub(crate) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.deadline.poll_expired(&self.entry, cx)
    }

    /// Switches to the newest snapshot, between two requests; those in progress keep theirs. If the
    /// listener is gone, or has another protocol now, the connection finishes. `server_name` is
    /// what the handshake told, in lower case. Returns whether there was a newer one.
    pub(crate) fn renew(&mut self, server_name: impl FnOnce() -> Option<String>) -> bool {
        let current = &self.worker.current;
        if current.generation() == self.generation {
            return false;
        }
        let (generation, newest) = current.numbered();
        self.generation = generation;
        let Some(listener) = self.listener_in(&newest) else {
            self.entry.ask_to_finish();
            return false;
        };
        let names = &newest.listener(listener).names;
        self.server = match server_name() {
            Some(name) => names.find(name.as_bytes(), None),
            None => names.default_server(),
        };
        self.listener = listener;
        self.snapshot = newest;
        true
    }

    /// Its listener in another snapshot, if connections begin there as this one did.
    fn listener_in(&self, other: &Snapshot) -> Option<ListenerId> {
        let own = self.snapshot.listener(self.listener);
        let accepting = other.listener_accepting(&own.address)?;
        let found = other.listener_of_connection(accepting, &self.facts);
        other.listener(found).begins_like(own).then_some(found)
    }

    /// Whether the newest snapshot has a listener for it.
    pub(crate) fn has_listener(&self) -> bool {
        let current = &self.worker.current;
        current.generation() == self.generation || self.listener_in(&current.snapshot()).is_some()
    }

    /// Whether the connection was asked to close. One whose configuration was replaced so long ago
    /// that `worker_shutdown_timeout` is over is to close now.
    pub(crate) fn asked(&self) -> Asked {
        self.entry.asked_with(self.generation)
    }

    /// The same, however old its configuration is.
    pub(crate) fn asked_now(&self) -> Asked {
        self.entry.asked()
    }

    /// The number of its configuration: the newest when the last request began.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// The number of the oldest configuration that its requests may still use.
    pub(crate) fn oldest_configuration(&self) -> u64 {
        self.entry.oldest_configuration()
    }

    fn is_retired(&self) -> bool {
        self.generation < self.oldest_configuration()
    }

    /// Logs why it ended, if a reload some time ago is the reason.
    pub(crate) fn note_retirement(&self) {
        if self.is_retired() {
            self.log(
                LogLevel::Info,
                "worker_shutdown_timeout has passed since the configuration was replaced, \
                 closing the connection",
            );
        }
    }

    /// Lets the registry wake this task.
    pub(crate) async fn remember_task(&mut self) {
        poll_fn(|cx| {
            self.entry.set_waker(cx.waker());
            Poll::Ready(())
        })
        .await;
    }

    /// It waits for its first request.
    pub(crate) fn enter_silent(&mut self) {
        self.gauge
            .change(&self.entry, ConnectionPhase::Opening, true);
    }

    /// A handshake or a request is on its way.
    pub(crate) fn enter_opening(&mut self) {
        self.gauge.enter(&self.entry, ConnectionPhase::Opening);
    }

    /// Whether nothing is under way on it.
    pub(crate) fn is_idle(&self) -> bool {
        self.gauge.phase == Some(ConnectionPhase::Idle)
    }

    /// Nothing is under way on it.
    pub(crate) fn enter_idle(&mut self) {
        self.gauge.enter(&self.entry, ConnectionPhase::Idle);
    }

    /// The request is complete, or refused: it will be answered.
    pub(crate) fn begin_response(&mut self) {
        self.gauge.enter(&self.entry, ConnectionPhase::Busy);
    }

    /// Writes a line about this connection to the error log of its server.
    pub(crate) fn log(&self, level: LogLevel, message: &str) {
        let logger = &self
            .snapshot
            .location(self.server().default_location)
            .logger;
        if logger.enabled(level) || self.facts.is_debugged() {
            debug_log::logger_for(&self.facts, logger).log_with(
                level,
                Some(self.facts.number),
                &[("SEALANE_CLIENT", &self.facts.client_address())],
                format_args!("{message}{}", self.log_tail()),
            );
        }
    }

    /// Writes a debug line about this connection.
    pub(crate) fn debug(&self, message: fmt::Arguments<'_>) {
        let location = self.server().default_location;
        let logger = &self.snapshot.location(location).logger;
        if logger.enabled(LogLevel::Debug) || self.facts.is_debugged() {
            self.log(LogLevel::Debug, &message.to_string());
        }
    }

    /// The address of its listener, as it was configured.
    pub(crate) fn listen_address(&self) -> &ListenAddress {
        &self.snapshot.listener(self.listener).address
    }

    /// `, client: ..., server: ...` as nginx ends its lines.
    pub(crate) fn log_tail(&self) -> String {
        let client = self.facts.client_address();
        format!(", client: {client}, server: {}", self.listen_address())
    }

    /// It waits for nothing that has a time-out.
    pub(crate) fn clear_deadline(&mut self) {
        self.deadline = Deadline::None;
    }

    /// Whether it has to end now.
    pub(crate) fn is_to_abort(&self) -> bool {
        self.asked() == Asked::Abort
    }
}

/// Keeps `stub_status` and the registry up to date with the state of the connection.
struct Gauge {
    worker: Arc<Worker>,
    phase: Option<ConnectionPhase>,
    /// Nothing has been received on it: as in nginx it is shown as waiting.
    is_silent: bool,
}

impl Gauge {
    fn new(worker: Arc<Worker>) -> Gauge {
        Gauge {
            worker,
            phase: None,
            is_silent: false,
        }
    }

    fn enter(&mut self, entry: &Entry, phase: ConnectionPhase) {
        self.change(entry, phase, false);
    }

    fn change(&mut self, entry: &Entry, phase: ConnectionPhase, is_silent: bool) {
        self.count(-1);
        self.phase = Some(phase);
        self.is_silent = is_silent;
        self.count(1);
        entry.set_phase(phase, self.worker.counters.requests.get());
    }

    fn count(&self, by: i64) {
        let counters = &self.worker.counters;
        match self.phase {
            None => {}
            Some(_) if self.is_silent => counters.waiting.add(by),
            Some(ConnectionPhase::Opening) => counters.reading.add(by),
            Some(ConnectionPhase::Idle) => counters.waiting.add(by),
            Some(ConnectionPhase::Busy) => counters.writing.add(by),
        }
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.worker.counters.panics.add(1);
        }
        self.count(-1);
        self.worker.counters.active.add(-1);
    }
}
