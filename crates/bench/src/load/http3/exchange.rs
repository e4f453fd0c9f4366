//! Requests and responses: who has the bytes of QUIC's streams.

use std::time::{Duration, Instant};

use sealane_http::{
    h3::{self, Channel, Event, RequestTarget, Role, Scheme},
    headers::Field,
};
use sealane_quic::{ConnectionId, IdSource, Owner, ResetToken, Side, StreamId, Time};

use super::{Batch, settings::Http3Settings};
use crate::{Error, Expected, load::Resource};

/// Buffers of requests that are kept for later ones.
const MAX_SPARE_BUFFERS: usize = 16;

/// What is sent on a stream, from an offset on: all that the server may not have yet.
struct Outgoing {
    id: StreamId,
    at: u64,
    bytes: Vec<u8>,
}

/// A request whose response is not complete.
struct Request {
    id: StreamId,
    body_bytes: u64,
}

/// HTTP/3 of one connection.
pub(super) struct Exchange {
    http: h3::Connection,
    resource: Resource,
    expected: Expected,
    now: Duration,
    outgoing: Vec<Outgoing>,
    spare: Vec<Vec<u8>>,
    /// The streams of [`Channel::ALL`], once they are open.
    channels: [Option<StreamId>; Channel::ALL.len()],
    /// The server's streams that HTTP/3 knows.
    opened: Vec<StreamId>,
    requests: Vec<Request>,
    batch: Batch,
    /// Requests to be sent.
    pub(super) wanted: usize,
    /// Bytes that were taken of streams, for QUIC's windows.
    pub(super) consumed: Vec<(StreamId, u64)>,
    /// Streams that have waited for fields, and are to be read again.
    pub(super) unblocked: Vec<StreamId>,
    /// The first thing that went wrong.
    pub(super) error: Option<Error>,
}

/// Random bytes that a peer cannot guess.
pub(super) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    sealane_awslc::fill_random(&mut bytes);
    bytes
}

impl Exchange {
    pub(super) fn new(settings: &Http3Settings, resource: Resource, expected: Expected) -> Self {
        Self {
            http: h3::Connection::new(Role::Client, settings.http.clone(), Duration::ZERO),
            resource,
            expected,
            now: Duration::ZERO,
            outgoing: Vec::new(),
            spare: Vec::new(),
            channels: [None; Channel::ALL.len()],
            opened: Vec::new(),
            requests: Vec::new(),
            batch: Batch::default(),
            wanted: 0,
            consumed: Vec::new(),
            unblocked: Vec::new(),
            error: None,
        }
    }

    /// Tells the time of what follows.
    pub(super) fn set_time(&mut self, now: Time) {
        self.now = now.since(Time::ZERO);
    }

    /// Wants so many requests, as a new batch.
    pub(super) fn ask(&mut self, requests: usize) {
        self.wanted = requests;
        self.batch = Batch::default();
    }

    /// Whether nothing is wanted, or all of it has come.
    pub(super) fn is_answered(&self) -> bool {
        self.wanted == 0 && self.requests.is_empty()
    }

    /// What the batch has brought.
    pub(super) fn take_batch(&mut self) -> Batch {
        std::mem::take(&mut self.batch)
    }

    /// Remembers what went wrong first.
    pub(super) fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    /// Writes a request for a new stream; returns its length.
    pub(super) fn request(&mut self, id: StreamId) -> Result<u64, Error> {
        let mut bytes = self.spare.pop().unwrap_or_default();
        let (authority, path) = (&self.resource.authority, &self.resource.path);
        let (authority, path) = (authority.as_bytes(), path.as_bytes());
        let target = RequestTarget::new(b"GET", Scheme::Https, authority, path)
            .map_err(|error| Error::Http3(error.to_string()))?;
        let fields = [
            Field::from_static("user-agent", "sealane-bench"),
            Field::from_static("accept", "*/*"),
        ];
        self.http
            .send_request(id.to_wire(), &target, fields, true, &mut bytes)
            .map_err(|error| Error::Http3(error.to_string()))?;
        self.wanted -= 1;
        self.requests.push(Request { id, body_bytes: 0 });
        let length = bytes.len() as u64;
        self.outgoing.push(Outgoing { id, at: 0, bytes });
        Ok(length)
    }

    /// Whether HTTP/3 has something to say on a stream of its own.
    pub(super) fn has_outgoing(&mut self, channel: Channel) -> bool {
        !self.http.outgoing(channel).is_empty()
    }

    /// The stream of a channel, if it is open.
    pub(super) fn channel(&self, channel: Channel) -> Option<StreamId> {
        self.channels[channel as usize]
    }

    /// Takes what HTTP/3 has to say on a channel, whose stream this is; returns up to where it
    /// goes.
    pub(super) fn push_channel(&mut self, channel: Channel, id: StreamId) -> u64 {
        self.channels[channel as usize] = Some(id);
        let new = self.http.outgoing(channel);
        let found = self.outgoing.iter().position(|outgoing| outgoing.id == id);
        let at = found.unwrap_or_else(|| {
            let (at, bytes) = (0, Vec::new());
            self.outgoing.push(Outgoing { id, at, bytes });
            self.outgoing.len() - 1
        });
        let outgoing = &mut self.outgoing[at];
        outgoing.bytes.extend_from_slice(new);
        let length = new.len();
        self.http.sent(channel, length);
        outgoing.at + outgoing.bytes.len() as u64
    }

    /// The server has what is before this offset of a stream.
    pub(super) fn acknowledged(&mut self, id: StreamId, up_to: u64) {
        if let Some(outgoing) = self.outgoing.iter_mut().find(|outgoing| outgoing.id == id) {
            let gone = up_to.saturating_sub(outgoing.at);
            let gone = (outgoing.bytes.len() as u64).min(gone);
            outgoing.bytes.drain(..gone as usize);
            outgoing.at += gone;
        }
    }

    /// A stream is over.
    pub(super) fn closed(&mut self, id: StreamId) {
        let found = self.outgoing.iter().position(|outgoing| outgoing.id == id);
        if let Some(at) = found {
            let mut bytes = self.outgoing.swap_remove(at).bytes;
            bytes.clear();
            if self.spare.len() < MAX_SPARE_BUFFERS {
                self.spare.push(bytes);
            }
        }
        self.opened.retain(|opened| *opened != id);
    }

    /// Processes bytes of a stream; returns how many.
    fn take_in(&mut self, id: StreamId, bytes: &[u8], fin: bool) -> Result<usize, Error> {
        let failed = |error: h3::ConnectionError| Error::Http3(error.to_string());
        let wire = id.to_wire();
        if id.initiator() == Side::Server && !self.opened.contains(&id) {
            self.opened.push(id);
            self.http.opened(wire, self.now).map_err(failed)?;
        }
        let mut at = 0;
        loop {
            let received = self.http.receive(wire, &bytes[at..], fin, self.now);
            let received = received.map_err(failed)?;
            at += received.consumed;
            match received.event {
                Some(event) => self.note(id, &event)?,
                None => break,
            }
        }
        Ok(at)
    }

    /// Notes an event that came while stream `read` was read.
    fn note(&mut self, read: StreamId, event: &Event<'_>) -> Result<(), Error> {
        let (id, bytes, end): (_, &[u8], _) = match event {
            Event::Settings | Event::Interim { .. } | Event::UnknownStream { .. } => return Ok(()),
            Event::Response { id, response, end } => {
                let (status, wanted) = (response.head.status.0, self.expected.status);
                if status != wanted {
                    let what = format!("status {status} instead of {wanted}");
                    return Err(Error::Http3(what));
                }
                (*id, &[], *end)
            }
            Event::Data { id, bytes, end } => (*id, bytes, *end),
            Event::Trailers { id, .. } => (*id, &[], true),
            other => return Err(Error::Http3(format!("{other:?}"))),
        };
        let id = StreamId::from_wire(id);
        if id != read {
            self.unblocked.push(id);
        }
        self.batch.first_byte.get_or_insert_with(Instant::now);
        self.batch.body_bytes += bytes.len() as u64;
        let mut requests = self.requests.iter_mut();
        let request = requests.find(|request| request.id == id);
        let request = request.ok_or_else(|| Error::Http3("a response to no request".into()))?;
        if !self.resource.has(request.body_bytes, bytes) {
            return Err(Error::Http3("a body that is not the file".into()));
        }
        request.body_bytes += bytes.len() as u64;
        match end {
            true => self.complete(id),
            false => Ok(()),
        }
    }

    /// The response on a stream is complete.
    fn complete(&mut self, id: StreamId) -> Result<(), Error> {
        let found = self.requests.iter().position(|request| request.id == id);
        let Some(at) = found else {
            return Ok(());
        };
        let got = self.requests.swap_remove(at).body_bytes;
        match self.expected.body_bytes {
            Some(wanted) if wanted != got => Err(Error::Http3(format!(
                "a body of {got} bytes instead of {wanted}"
            ))),
            _ => Ok(()),
        }
    }
}

impl IdSource for Exchange {
    /// Not asked for: the client's id is empty, and there is no other.
    fn new_id(&mut self) -> (ConnectionId, ResetToken) {
        (ConnectionId::EMPTY, ResetToken::new(random_bytes()))
    }

    fn retire(&mut self, _id: &ConnectionId) {}
}

impl Owner for Exchange {
    fn random(&mut self) -> u64 {
        u64::from_le_bytes(random_bytes())
    }

    fn receive(&mut self, id: StreamId, bytes: &[u8], fin: bool) -> usize {
        let taken = match self.error {
            Some(_) => bytes.len(),
            None => self.take_in(id, bytes, fin).unwrap_or_else(|error| {
                self.fail(error);
                bytes.len()
            }),
        };
        match self.consumed.last_mut() {
            Some((last, count)) if *last == id => *count += taken as u64,
            _ => self.consumed.push((id, taken as u64)),
        }
        taken
    }

    fn copy(&mut self, id: StreamId, offset: u64, len: usize, out: &mut Vec<u8>) {
        let outgoing = self.outgoing.iter().find(|outgoing| outgoing.id == id);
        let outgoing = outgoing.expect("a stream's bytes are kept until it is over");
        let start = (offset - outgoing.at) as usize;
        out.extend_from_slice(&outgoing.bytes[start..start + len]);
    }
}
