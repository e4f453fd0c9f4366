//! Our client against our server over a wire that splits and delays data at will: thousands of
//! requests with bodies in both directions, trailers, resets and odd windows. Every byte must
//! arrive unchanged at the other end.

use crate::headers::Field;
use std::collections::BTreeMap;

use super::*;
use crate::StatusCode;
use proptest::prelude::*;

/// How one run goes.
#[derive(Clone, Debug)]
struct Plan {
    seed: u64,
    requests: usize,
    max_body_bytes: usize,
    /// One of so many streams is reset by either side.
    resets: usize,
    client_window_bytes: u32,
    server_window_bytes: u32,
    max_streams: u32,
    shut_down: bool,
}

/// The bytes of a body, known from who sends it.
fn body_byte(seed: u64, id: u32, at: usize) -> u8 {
    (seed as usize ^ (id as usize * 131) ^ (at * 7) ^ (at >> 8)) as u8
}

/// One side of the wire.
struct Side {
    connection: Connection,
    out: Vec<u8>,
    /// What is on its way to this side.
    input: Vec<u8>,
    sending: BTreeMap<u32, Sending>,
    received: BTreeMap<u32, Inbound>,
    seed: u64,
}

struct Sending {
    stream: StreamRef,
    total: usize,
    sent: usize,
    trailers: bool,
    offers: bool,
}

#[derive(Default)]
struct Inbound {
    bytes: usize,
    status: u16,
    expected: Option<usize>,
    ended: bool,
    reset: bool,
    trailers: bool,
}

impl Side {
    fn new(role: Role, settings: Settings, seed: u64) -> Side {
        let mut out = Vec::new();
        let settings = Arc::new(settings);
        let connection = match role {
            Role::Client => Connection::client(settings, Duration::ZERO, &mut out),
            Role::Server => Connection::server(settings, Duration::ZERO, &mut out),
        };
        Side {
            connection,
            out,
            input: Vec::new(),
            sending: BTreeMap::new(),
            received: BTreeMap::new(),
            seed,
        }
    }

    fn begin(&mut self, stream: StreamRef, total: usize, trailers: bool) {
        let sending = Sending {
            stream,
            total,
            sent: 0,
            trailers,
            offers: false,
        };
        self.sending.insert(stream.id(), sending);
    }

    /// Sends what the windows allow, in pieces as they come.
    fn send_bodies(&mut self, random: &mut Random) {
        let ids: Vec<u32> = self.sending.keys().copied().collect();
        for id in ids {
            let sending = self.sending.get_mut(&id).expect("one of them");
            let stream = sending.stream;
            if !self.connection.contains(stream) {
                self.sending.remove(&id);
                continue;
            }
            // Sources wait now and then.
            let has_bytes = random.below(4) > 0;
            if has_bytes != sending.offers {
                sending.offers = has_bytes;
                match has_bytes {
                    true => self.connection.offer(stream),
                    false => self.connection.pause(stream),
                }
            }
        }
        let most = random.below(200_000);
        let start = self.out.len();
        while self.out.len() - start < most
            && let Some(grant) = self.connection.next_data()
        {
            let id = grant.stream.id();
            let Some(sending) = self.sending.get_mut(&id) else {
                panic!("a grant for a stream that offers nothing");
            };
            assert!(sending.offers, "a grant for a stream that paused");
            let left = sending.total - sending.sent;
            let count = left.min(grant.max_bytes as usize);
            let count = if random.below(3) == 0 {
                count.min(1 + random.below(100))
            } else {
                count
            };
            let is_last = count == left;
            let end = is_last && !sending.trailers;
            self.connection
                .data(grant.stream, count as u32, end, &mut self.out)
                .expect("within the grant");
            let (seed, from) = (self.seed, sending.sent);
            self.out
                .extend((from..from + count).map(|at| body_byte(seed, id, at)));
            sending.sent += count;
            if is_last {
                if sending.trailers {
                    let fields = [Field::from_static("x-sum", "done")];
                    self.connection
                        .send_trailers(grant.stream, fields, &mut self.out)
                        .expect("the body is complete");
                }
                self.sending.remove(&id);
            }
        }
    }

    /// Moves some of what was written to the other side.
    fn transmit(&mut self, other: &mut Side, random: &mut Random) {
        let count = match random.below(4) {
            0 => self.out.len(),
            1 => random.below(20),
            _ => random.below(self.out.len() + 1),
        };
        let count = count.min(self.out.len());
        other.input.extend(self.out.drain(..count));
        if self.out.is_empty() {
            self.connection.flushed();
        }
    }

    /// Takes in one event; `None` when there is none.
    fn next_event(&mut self, now: Duration) -> Option<Owned> {
        let received = self
            .connection
            .receive(&self.input, now, &mut self.out)
            .unwrap_or_else(|fault| panic!("{:?}: {fault}", self.connection.role()));
        let consumed = received.consumed;
        let event = received.event.map(Owned::from);
        self.input.drain(..consumed);
        event
    }

    fn take_data(&mut self, peer_seed: u64, stream: StreamRef, bytes: &[u8], end: bool) {
        let id = stream.id();
        let inbound = self.received.entry(id).or_default();
        assert!(!inbound.ended && !inbound.reset);
        for (index, &byte) in bytes.iter().enumerate() {
            let at = inbound.bytes + index;
            assert_eq!(byte, body_byte(peer_seed, id, at), "stream {id}, byte {at}");
        }
        inbound.bytes += bytes.len();
        inbound.ended |= end;
        if end {
            assert!(inbound.expected.is_none_or(|total| total == inbound.bytes));
        }
    }
}

/// Events without borrowed bytes.
enum Owned {
    Request(StreamRef, Request, bool),
    Response(StreamRef, Response, bool),
    Data(StreamRef, Vec<u8>, bool),
    Trailers(StreamRef),
    Gone(StreamRef),
    Other,
}

impl From<Event<'_>> for Owned {
    fn from(event: Event<'_>) -> Owned {
        match event {
            Event::Request {
                stream,
                request,
                end,
            } => Owned::Request(stream, request, end),
            Event::Response {
                stream,
                response,
                end,
            } => Owned::Response(stream, response, end),
            Event::Data { stream, bytes, end } => Owned::Data(stream, bytes.to_vec(), end),
            Event::Trailers { stream, trailers } => {
                assert_eq!(
                    trailers.iter().collect::<Vec<_>>(),
                    [(&b"x-sum"[..], &b"done"[..])]
                );
                Owned::Trailers(stream)
            }
            Event::Reset { stream, .. } => Owned::Gone(stream),
            Event::Fault { fault, id, .. } => {
                // The client may know of the limit too late; nothing else is its fault.
                assert_eq!(fault, StreamFault::Refused, "stream {id}");
                Owned::Other
            }
            Event::Refused { error, .. } => panic!("refused: {error}"),
            Event::Malformed { fault, .. } => panic!("malformed: {fault}"),
            Event::Interim { .. } | Event::Settings | Event::GoAway { .. } | Event::Pong => {
                Owned::Other
            }
        }
    }
}

struct Run {
    plan: Plan,
    random: Random,
    client: Side,
    server: Side,
    now: Duration,
    opened: usize,
    completed: usize,
    reset: usize,
}

impl Run {
    fn new(plan: Plan) -> Run {
        let settings = |window: u32| Settings {
            stream_window_bytes: window,
            max_stream_window_bytes: window * 4,
            connection_window_bytes: 65_535,
            max_concurrent_streams: plan.max_streams,
            data_frame_bytes: 1 + (plan.seed % 20_000) as u32,
            limits: Limits {
                resets: Allowance {
                    burst: u32::MAX,
                    per_second: 0,
                },
                // A wire that carries byte by byte and windows of a few bytes are no flood here.
                window_updates: Allowance {
                    burst: u32::MAX,
                    per_second: 0,
                },
                unread_replies: u32::MAX,
                ..Limits::default()
            },
            ..Settings::default()
        };
        Run {
            random: Random(plan.seed),
            client: Side::new(Role::Client, settings(plan.client_window_bytes), 11),
            server: Side::new(Role::Server, settings(plan.server_window_bytes), 22),
            now: Duration::ZERO,
            opened: 0,
            completed: 0,
            reset: 0,
            plan,
        }
    }

    fn go(mut self) {
        let mut turns = 0;
        while self.completed + self.reset < self.plan.requests {
            turns += 1;
            assert!(turns < 2_000_000, "it hangs: {:?}", self.plan);
            self.now += Duration::from_micros(self.random.below(30_000) as u64);
            self.open();
            self.client.send_bodies(&mut self.random);
            self.server.send_bodies(&mut self.random);
            self.client.transmit(&mut self.server, &mut self.random);
            self.server.transmit(&mut self.client, &mut self.random);
            self.serve();
            self.collect();
            self.reset_some();
        }
        self.drain();
        assert_eq!(self.client.connection.open_streams(), 0);
        assert_eq!(self.server.connection.open_streams(), 0);
        if self.plan.shut_down {
            assert!(self.server.connection.is_finished());
            assert!(self.client.connection.is_finished());
        }
    }

    fn body_bytes(&mut self) -> usize {
        match self.random.below(4) {
            0 => 0,
            1 => self.random.below(100),
            _ => self.random.below(self.plan.max_body_bytes + 1),
        }
    }

    fn open(&mut self) {
        while self.opened < self.plan.requests
            && self.client.connection.can_open()
            && self.random.below(3) > 0
        {
            let total = self.body_bytes();
            let answer = self.body_bytes().to_string();
            let path = format!("/{}", self.opened);
            let length = total.to_string();
            let (authority, path) = (b"origin.example", path.as_bytes());
            let target = RequestTarget::new(b"POST", Scheme::Https, authority, path);
            let target = target.expect("valid");
            let mut fields = vec![
                field("x-answer", &answer),
                Field::from_static("user-agent", "pair"),
            ];
            if self.random.below(2) == 0 {
                fields.push(field("content-length", &length));
            }
            let priority = format!("u={}, i=?{}", self.random.below(8), self.random.below(2));
            fields.push(field("priority", &priority));
            let trailers = self.random.below(5) == 0;
            let end = total == 0 && !trailers;
            let stream = self
                .client
                .connection
                .open(&target, fields, end, &mut self.client.out)
                .expect("it can be opened");
            self.opened += 1;
            if !end {
                self.client.begin(stream, total, trailers);
            }
            let expected = answer.parse().expect("a number");
            let inbound = self.client.received.entry(stream.id()).or_default();
            inbound.expected = Some(expected);
        }
    }

    /// The server's events: every request is answered at once, its body beside it.
    fn serve(&mut self) {
        while let Some(event) = self.server.next_event(self.now) {
            match event {
                Owned::Request(stream, request, end) => {
                    let inbound = self.server.received.entry(stream.id()).or_default();
                    inbound.ended = end;
                    inbound.expected = match request.head.framing {
                        crate::h1::Framing::Length(length) => Some(length as usize),
                        _ => None,
                    };
                    self.answer(stream, &request);
                }
                Owned::Data(stream, bytes, end) => {
                    let seed = self.client.seed;
                    self.server.take_data(seed, stream, &bytes, end);
                    // The application takes its time over some.
                    if self.random.below(3) > 0 {
                        let held = self.server.connection.unreleased(stream);
                        let (connection, out) = (&mut self.server.connection, &mut self.server.out);
                        connection.release(stream, held as usize, out);
                    }
                }
                Owned::Trailers(stream) => {
                    let inbound = self.server.received.entry(stream.id()).or_default();
                    assert!(!inbound.ended);
                    inbound.ended = true;
                    inbound.trailers = true;
                }
                Owned::Gone(stream) => {
                    self.server.received.entry(stream.id()).or_default().reset = true;
                    self.server.sending.remove(&stream.id());
                }
                _ => {}
            }
        }
        release_all(&mut self.server);
    }

    fn answer(&mut self, stream: StreamRef, request: &Request) {
        let value = request
            .head
            .get_by_name(&request.text, b"x-answer")
            .expect("sent with every request");
        let text = show(value.of(&request.text));
        let total: usize = text.parse().expect("a number");
        let (connection, out) = (&mut self.server.connection, &mut self.server.out);
        if self.random.below(6) == 0 {
            let hint = [Field::from_static("link", "</style.css>; rel=preload")];
            connection
                .send_interim(stream, StatusCode(103), hint, out)
                .expect("before the head");
        }
        let trailers = self.random.below(5) == 0;
        let end = total == 0 && !trailers;
        let mut fields = vec![Field::from_static("content-type", "text/plain")];
        if self.random.below(2) == 0 {
            fields.push(field("content-length", &text));
        }
        connection
            .send_head(
                stream,
                StatusCode(200 + (total % 2) as u16),
                fields,
                end,
                out,
            )
            .expect("the stream is new");
        if !end {
            self.server.begin(stream, total, trailers);
        }
    }

    /// The client's events.
    fn collect(&mut self) {
        while let Some(event) = self.client.next_event(self.now) {
            match event {
                Owned::Response(stream, response, end) => {
                    let inbound = self.client.received.entry(stream.id()).or_default();
                    assert_eq!(inbound.status, 0);
                    inbound.status = response.head.status.0;
                    inbound.ended = end;
                    if end {
                        self.finished(stream);
                    }
                }
                Owned::Data(stream, bytes, end) => {
                    let seed = self.server.seed;
                    self.client.take_data(seed, stream, &bytes, end);
                    let (connection, out) = (&mut self.client.connection, &mut self.client.out);
                    connection.release(stream, bytes.len(), out);
                    if end {
                        self.finished(stream);
                    }
                }
                Owned::Trailers(stream) => {
                    self.client.received.entry(stream.id()).or_default().ended = true;
                    self.finished(stream);
                }
                Owned::Gone(stream) => {
                    self.client.sending.remove(&stream.id());
                    let inbound = self.client.received.entry(stream.id()).or_default();
                    if !inbound.ended {
                        inbound.reset = true;
                        self.reset += 1;
                    }
                }
                _ => {}
            }
        }
    }

    fn finished(&mut self, stream: StreamRef) {
        let inbound = &self.client.received[&stream.id()];
        let expected = inbound.expected.expect("known from the request");
        assert_eq!(inbound.bytes, expected, "stream {}", stream.id());
        assert_eq!(inbound.status, 200 + (expected % 2) as u16);
        self.completed += 1;
    }

    fn reset_some(&mut self) {
        if self.plan.resets == 0 || self.random.below(self.plan.resets) > 0 {
            return;
        }
        let is_client = self.random.below(2) == 0;
        let side = if is_client {
            &mut self.client
        } else {
            &mut self.server
        };
        let open: Vec<StreamRef> = side
            .connection
            .streams
            .iter_mut()
            .map(|(stream, _)| stream)
            .collect();
        if open.is_empty() {
            return;
        }
        let stream = open[self.random.below(open.len())];
        side.connection
            .reset(stream, ErrorCode::CANCEL, &mut side.out);
        side.sending.remove(&stream.id());
        let inbound = side.received.entry(stream.id()).or_default();
        if is_client && !inbound.ended {
            inbound.reset = true;
            self.reset += 1;
        }
    }

    /// Lets everything under way arrive.
    fn drain(&mut self) {
        if self.plan.shut_down {
            self.server.connection.shut_down(&mut self.server.out);
        }
        for _ in 0..100_000 {
            self.client.send_bodies(&mut self.random);
            self.server.send_bodies(&mut self.random);
            let (out, input) = (&mut self.client.out, &mut self.server.input);
            input.append(out);
            let (out, input) = (&mut self.server.out, &mut self.client.input);
            input.append(out);
            self.serve();
            self.collect();
            let is_open = |side: &Side| side.connection.open_streams() > 0;
            let is_quiet = self.client.out.is_empty() && self.server.out.is_empty();
            if is_quiet && !is_open(&self.client) && !is_open(&self.server) {
                return;
            }
        }
        panic!("streams do not end: {:?}", self.plan);
    }
}

fn release_all(side: &mut Side) {
    let held: Vec<(StreamRef, u32)> = side
        .connection
        .streams
        .iter_mut()
        .map(|(stream, found)| (stream, found.unreleased))
        .collect();
    for (stream, bytes) in held {
        side.connection
            .release(stream, bytes as usize, &mut side.out);
    }
}

fn plan() -> impl Strategy<Value = Plan> {
    (
        any::<u64>(),
        1usize..150,
        prop_oneof![Just(200usize), Just(5_000), Just(100_000)],
        prop_oneof![Just(0usize), Just(3), Just(20)],
        prop_oneof![1u32..50, 1_000u32..70_000, Just(300_000)],
        prop_oneof![1u32..50, 1_000u32..70_000, Just(300_000)],
        1u32..60,
        any::<bool>(),
    )
        .prop_map(
            |(seed, requests, max_body_bytes, resets, client, server, max_streams, shut_down)| {
                // Tiny windows with large bodies take forever and show nothing more.
                let smallest = client.min(server);
                Plan {
                    seed,
                    requests,
                    max_body_bytes: if smallest < 1000 {
                        max_body_bytes.min(500)
                    } else {
                        max_body_bytes
                    },
                    resets,
                    client_window_bytes: client,
                    server_window_bytes: server,
                    max_streams,
                    shut_down,
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn everything_arrives_as_it_was_sent(plan in plan()) {
        Run::new(plan).go();
    }
}

#[test]
fn thousands_of_mixed_requests_on_one_connection() {
    Run::new(Plan {
        seed: 9,
        requests: 4000,
        max_body_bytes: 20_000,
        resets: 10,
        client_window_bytes: 30_000,
        server_window_bytes: 65_536,
        max_streams: 100,
        shut_down: true,
    })
    .go();
}

fn field<'a>(name: &'static str, value: &'a str) -> Field<'a> {
    Field::new(name.as_bytes(), value.as_bytes()).expect("valid")
}
