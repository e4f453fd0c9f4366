//! HTTP/2 on one connection of a client: several concurrent requests, with each response checked.

use std::{sync::Arc, time::Instant};

use sealane_http::h2::{Connection, Event, RequestTarget, Scheme, Settings};
use sealane_http::headers::Field;

use crate::{
    Error,
    load::{Plan, Resource},
};

/// The client's side of a connection.
pub(super) struct Http2 {
    codec: Connection,
    began: Instant,
    plan: Resource,
    /// Frames to be sent.
    pub(super) outgoing: Vec<u8>,
    /// Received but incomplete.
    incoming: Vec<u8>,
    /// Body bytes of each active stream, by slot.
    bodies: Vec<u64>,
    open: usize,
}

/// The outcome of a batch of responses.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) body_bytes: u64,
    pub(super) first_byte: Option<Instant>,
}

impl Http2 {
    pub(super) fn new(plan: Resource) -> Http2 {
        let mut outgoing = Vec::new();
        let began = Instant::now();
        // Windows large enough that the client never holds up the server, as in h2load.
        let settings = Settings {
            stream_window_bytes: (1 << 30) - 1,
            max_stream_window_bytes: (1 << 30) - 1,
            connection_window_bytes: (1 << 30) - 1,
            max_connection_window_bytes: (1 << 30) - 1,
            ..Settings::default()
        };
        let codec = Connection::client(Arc::new(settings), began.elapsed(), &mut outgoing);
        Http2 {
            codec,
            began,
            plan,
            outgoing,
            incoming: Vec::new(),
            bodies: Vec::new(),
            open: 0,
        }
    }

    /// Writes the requests of one batch.
    pub(super) fn ask(&mut self) -> Result<(), Error> {
        let (authority, path) = (self.plan.authority.as_bytes(), self.plan.path.as_bytes());
        let target = RequestTarget::new(b"GET", Scheme::Https, authority, path)
            .map_err(|error| Error::Http2(error.to_string()))?;
        for _ in 0..self.plan.streams {
            let fields = [
                Field::from_static("user-agent", "sealane-bench"),
                Field::from_static("accept", "*/*"),
            ];
            let opened = self.codec.open(&target, fields, true, &mut self.outgoing);
            let stream = opened.map_err(|error| Error::Http2(error.to_string()))?;
            if self.bodies.len() <= stream.slot() {
                self.bodies.resize(stream.slot() + 1, 0);
            }
            self.bodies[stream.slot()] = 0;
            self.open += 1;
        }
        Ok(())
    }

    /// Processes received data. Returns true when the batch is complete.
    pub(super) fn take_in(
        &mut self,
        bytes: &[u8],
        plan: &Plan,
        batch: &mut Batch,
    ) -> Result<bool, Error> {
        let mut input = std::mem::take(&mut self.incoming);
        input.extend_from_slice(bytes);
        let mut at = 0;
        loop {
            let now = self.began.elapsed();
            let received = self
                .codec
                .receive(&input[at..], now, &mut self.outgoing)
                .map_err(|fault| Error::Http2(fault.to_string()))?;
            at += received.consumed;
            let Some(event) = received.event else {
                break;
            };
            batch.first_byte.get_or_insert_with(Instant::now);
            match event {
                Event::Response {
                    stream,
                    response,
                    end,
                } => {
                    let status = response.head.status.0;
                    if status != plan.expected.status {
                        return Err(Error::Http2(format!(
                            "status {status} instead of {}",
                            plan.expected.status
                        )));
                    }
                    if end {
                        self.complete(stream.slot(), plan)?;
                    }
                }
                Event::Data { stream, bytes, end } => {
                    let count = bytes.len();
                    if !self.plan.has(self.bodies[stream.slot()], bytes) {
                        return Err(Error::Http2("a body that is not the file".into()));
                    }
                    self.bodies[stream.slot()] += count as u64;
                    batch.body_bytes += count as u64;
                    self.codec.release(stream, count, &mut self.outgoing);
                    if end {
                        self.complete(stream.slot(), plan)?;
                    }
                }
                Event::Settings | Event::Pong | Event::Interim { .. } => {}
                other => return Err(Error::Http2(format!("unexpected: {other:?}"))),
            }
        }
        input.drain(..at);
        self.incoming = input;
        self.codec.flushed();
        Ok(self.open == 0)
    }

    fn complete(&mut self, slot: usize, plan: &Plan) -> Result<(), Error> {
        self.open -= 1;
        let got = self.bodies[slot];
        match plan.expected.body_bytes {
            Some(wanted) if wanted != got => Err(Error::Http2(format!(
                "a body of {got} bytes instead of {wanted}"
            ))),
            _ => Ok(()),
        }
    }
}
