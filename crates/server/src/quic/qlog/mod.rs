//! `quic_qlog`: what connections tell of themselves, in files for programs such as qvis.
//!
//! The transport tells facts ([`sealane_quic::trace`]); a [`Recorder`] makes records of them and
//! hands these to the log writer, as lines of a log with one file for each connection. So no disk
//! is waited for, what waits is bounded (`log_queue_size`), and a file that cannot be written is
//! reported there, at most every few seconds, and disturbs nobody else.
//!
//! | file | what it holds |
//! |---|---|
//! | `events`, `frames` | records of events, and of frames in them |
//! | `json` | objects of JSON |

mod events;
mod frames;
mod json;
#[cfg(test)]
mod tests;

use super::listening::CountedWhileOpen;
use events::{Events, note, record};
use json::array;
use sealane_conf::model::{Qlog, Server};
use sealane_http::date::log_iso8601;
use sealane_log::{AccessLogger, LogSet};
use sealane_quic::trace::Traced;
use sealane_quic::{Connection, ConnectionId, Time};
use std::cell::Cell;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The drafts that records follow, by the URIs of their events.
const SCHEMAS: [&str; 2] = [
    "urn:ietf:params:qlog:events:quic-13",
    "urn:ietf:params:qlog:events:loglevel-14",
];

/// What is kept free in a file for the notes of a connection: its protocol, and that the file has
/// ended.
const NOTE_BYTES: u64 = 512;
/// Records that are handed to the log writer at a time, if so many wait.
const BATCH_BYTES: usize = 32 << 10;

/// `quic_qlog` of a server.
pub(crate) struct QlogRuntime {
    conf: Arc<Qlog>,
    files: AccessLogger,
    max_bytes: u64,
    max_connections: usize,
}

impl QlogRuntime {
    /// If it is on.
    pub(super) fn new(server: &Server, logs: &LogSet) -> Option<Arc<QlogRuntime>> {
        let conf = server.quic.qlog.clone()?;
        Some(Arc::new(QlogRuntime {
            files: logs.qlog(&conf),
            conf,
            max_bytes: server.quic.qlog_max_bytes,
            max_connections: server.quic.qlog_max_connections as usize,
        }))
    }

    /// What records the connection of a client that has chosen this id first, if it is to be
    /// recorded; `open` counts those that are.
    ///
    /// # Errors
    /// What to tell the operator when there are too many of them.
    pub(super) fn recorder(
        self: &Arc<QlogRuntime>,
        open: &Rc<Cell<usize>>,
        client: SocketAddr,
        original_destination: ConnectionId,
        now: Time,
    ) -> Result<Option<Box<Recorder>>, String> {
        if !self.conf.records(client.ip().to_canonical()) {
            return Ok(None);
        }
        if open.get() >= self.max_connections {
            return Err(format!(
                "{} connections of QUIC are being recorded (quic_qlog), others are not: name the \
                 clients that matter, or raise quic_qlog_max_connections",
                self.max_connections
            ));
        }
        let open = CountedWhileOpen::new(open);
        let recorder = Recorder::new(self.clone(), original_destination, now, open);
        Ok(Some(Box::new(recorder)))
    }
}

/// Records one connection.
pub(crate) struct Recorder {
    qlog: Arc<QlogRuntime>,
    path: Box<[u8]>,
    began: Time,
    events: Events,
    traced: Vec<Traced>,
    /// What is not handed over yet, and how much was.
    records: Vec<u8>,
    handed_over: u64,
    _open: CountedWhileOpen,
}

impl Recorder {
    /// Begins the file of a connection.
    fn new(
        qlog: Arc<QlogRuntime>,
        original_destination: ConnectionId,
        began: Time,
        open: CountedWhileOpen,
    ) -> Recorder {
        let name = format!("{original_destination}_server.sqlog");
        let path = qlog.conf.directory.join(name);
        let mut records = Vec::new();
        put_header(&mut records, &original_destination);
        Recorder {
            path: path.as_os_str().as_bytes().into(),
            qlog,
            began,
            events: Events::default(),
            traced: Vec::new(),
            records,
            handed_over: 0,
            _open: open,
        }
    }

    /// Takes what a connection has to tell. Returns whether it wants to know more.
    pub(crate) fn take(&mut self, transport: &mut Connection) -> bool {
        let missed = transport.take_trace(&mut self.traced);
        let mut traced = std::mem::take(&mut self.traced);
        let mut has_room = true;
        for Traced { time, event } in &traced {
            let before = self.records.len();
            let time = time.since(self.began);
            self.events.put(&mut self.records, time, event);
            if !self.has_room() {
                self.records.truncate(before);
                self.end_full(time);
                has_room = false;
                break;
            }
            if self.records.len() >= BATCH_BYTES {
                self.hand_over();
            }
        }
        if missed > 0 && has_room {
            let last = traced.last().map_or(self.began, |last| last.time);
            let text = format!("{missed} events are missing here: there were too many at once");
            note(&mut self.records, last.since(self.began), "warning", &text);
        }
        self.hand_over();
        traced.clear();
        self.traced = traced;
        has_room
    }

    /// Notes which protocol was agreed on.
    pub(crate) fn note_protocol(&mut self, protocol: &[u8], time: Time) {
        let time = time.since(self.began);
        events::put_protocol(&mut self.records, time, protocol);
    }

    fn has_room(&self) -> bool {
        self.handed_over + self.records.len() as u64 + NOTE_BYTES <= self.qlog.max_bytes
    }

    fn end_full(&mut self, time: Duration) {
        let most = self.qlog.max_bytes;
        let text = format!("the recording ends here: quic_qlog_max_size is {most} bytes");
        note(&mut self.records, time, "info", &text);
    }

    fn hand_over(&mut self) {
        if !self.records.is_empty() {
            let root = b""; // the directory is not made by this server: opening tells as much
            self.qlog
                .files
                .write_line_to(&self.path, root, &self.records);
            self.handed_over += self.records.len() as u64;
            self.records.clear();
        }
    }
}

/// The first record. `qlog_version` and `qlog_format` are for programs that know earlier drafts.
fn put_header(out: &mut Vec<u8>, original_destination: &ConnectionId) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs()).cast_signed();
    record(out, |o| {
        o.text("qlog_version", "0.3");
        o.text("qlog_format", "JSON-SEQ");
        o.text("file_schema", "urn:ietf:params:qlog:file:sequential");
        o.text("serialization_format", "application/qlog+json-seq");
        o.text("title", &format!("sealane {}", env!("CARGO_PKG_VERSION")));
        o.object("trace", |trace| {
            trace.object("common_fields", |common| {
                common.hex("ODCID", original_destination);
                common.hex("group_id", original_destination);
                common.text("time_format", "relative_to_epoch");
                common.object("reference_time", |reference| {
                    reference.text("clock_type", "monotonic");
                    reference.text("epoch", "unknown");
                    let date = log_iso8601(now, 0);
                    reference.text("wall_clock_time", &String::from_utf8_lossy(&date));
                });
            });
            trace.object("vantage_point", |point| {
                point.text("name", "sealane");
                point.text("type", "server");
            });
            array(trace.field("event_schemas"), SCHEMAS, json::text);
        });
    });
}
