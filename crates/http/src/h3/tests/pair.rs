//! A client and a server, over streams that are delivered in any order.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::StatusCode;
use crate::headers::Field;
use crate::message::{Priority, RequestTarget, Scheme};

/// What one side has sent on its streams and the other has not yet read.
#[derive(Default)]
struct Wire {
    streams: BTreeMap<u64, (Vec<u8>, bool)>,
    opened: Vec<u64>,
}

impl Wire {
    fn send(&mut self, id: u64, bytes: &[u8], fin: bool) {
        let stream = self.streams.entry(id).or_default();
        stream.0.extend_from_slice(bytes);
        stream.1 |= fin;
    }

    /// Takes what a connection has to say on its own streams.
    fn collect(&mut self, from: &mut Connection) {
        let first = match from.role() {
            Role::Client => 2,
            Role::Server => 3,
        };
        for (index, channel) in Channel::ALL.into_iter().enumerate() {
            let bytes = from.outgoing(channel).to_vec();
            from.sent(channel, bytes.len());
            if !bytes.is_empty() {
                self.send(first + 4 * index as u64, &bytes, false);
            }
        }
    }

    /// Delivers up to `most` bytes of a stream. Returns what was made of them.
    fn deliver(&mut self, to: &mut Connection, choice: usize, most: usize) -> Vec<String> {
        let Some(&id) = self.streams.keys().nth(choice % self.streams.len().max(1)) else {
            return Vec::new();
        };
        let is_peers = id & 1 != u64::from(to.role() == Role::Server);
        let is_new = !self.opened.contains(&id);
        if is_new && (is_peers && id & 2 != 0 || id & 2 == 0 && to.role() == Role::Server) {
            self.opened.push(id);
            assert_eq!(opened(to, id), Ok(None));
        }
        let (bytes, fin) = self.streams.remove(&id).expect("it is there");
        let count = most.min(bytes.len());
        let is_last = fin && count == bytes.len();
        let mut events = receive(to, id, &bytes[..count], is_last).expect("our own bytes");
        let left = match events
            .last()
            .and_then(|event| event.strip_suffix(" bytes left"))
        {
            Some(left) => {
                let left = left.parse().expect("a number");
                events.pop();
                left
            }
            None => 0,
        };
        let rest = &bytes[count - left..];
        if !rest.is_empty() || fin && to.is_blocked(id) {
            self.send(id, rest, fin);
        }
        events
    }
}

/// Sends the request of this number.
fn ask(client: &mut Connection, number: u64, wire: &mut Wire) {
    let id = number * 4;
    let path = format!("/{}", number % 3);
    let target = RequestTarget::new(b"POST", Scheme::Https, b"example.com", path.as_bytes());
    let fields = [
        Field::new(b"user-agent", b"the same").expect("valid"),
        Field::new(b"x-path", path.as_bytes()).expect("valid"),
    ];
    let mut out = Vec::new();
    client
        .send_request(id, &target.expect("valid"), fields, false, &mut out)
        .expect("a new stream");
    client.data(id, 4, true, &mut out).expect("behind the head");
    out.extend_from_slice(b"body");
    wire.send(id, &out, true);
    let priority = Priority {
        urgency: 1,
        incremental: false,
    };
    client.send_priority_update(id, priority);
}

/// Sends a response with a body and trailers.
fn answer(server: &mut Connection, id: u64, wire: &mut Wire) {
    let mut out = Vec::new();
    let fields = [
        Field::from_static("server", "sealane"),
        Field::from_static("x-same", "again and again"),
    ];
    server
        .send_head(id, StatusCode::OK, fields, false, &mut out)
        .expect("the first head");
    server
        .data(id, 5, false, &mut out)
        .expect("behind the head");
    out.extend_from_slice(b"hello");
    let trailers = [Field::from_static("x-end", "now")];
    server
        .send_trailers(id, trailers, &mut out)
        .expect("behind the body");
    wire.send(id, &out, true);
}

/// Runs some requests with random deliveries, and compares what each side understood.
fn exchange(table_bytes: u32, blocked: usize, requests: u64, choices: &[(usize, usize)]) {
    let settings = Arc::new(Settings {
        decoder_table_bytes: table_bytes,
        blocked_streams: blocked,
        ..Settings::default()
    });
    let mut client = Connection::new(Role::Client, Arc::clone(&settings), NOW);
    let mut server = Connection::new(Role::Server, settings, NOW);
    let (mut to_server, mut to_client) = (Wire::default(), Wire::default());
    let (mut asked, mut answered) = (0, 0);
    let mut understood = Vec::new();
    let mut round = 0;
    while answered < requests * 2 || round < choices.len() {
        let (choice, most) = choices.get(round).copied().unwrap_or((round, usize::MAX));
        round += 1;
        assert!(round < choices.len() + 5000, "it does not end");
        if asked < requests && choice.is_multiple_of(3) {
            ask(&mut client, asked, &mut to_server);
            asked += 1;
        }
        to_server.collect(&mut client);
        to_client.collect(&mut server);
        for event in to_server.deliver(&mut server, choice, most) {
            // The body, which may come in parts, ends.
            let Some((id, _)) = event.split_once(' ').filter(|_| event.ends_with(" end")) else {
                continue;
            };
            let id: u64 = id.parse().expect("an id");
            answer(&mut server, id, &mut to_client);
            answered += 1;
        }
        for event in to_client.deliver(&mut client, choice / 2, most) {
            if event.contains("trailers") {
                answered += 1;
            }
            if event.contains("response") || event.contains("trailers") {
                understood.push(event);
            }
        }
    }
    for id in (0..requests).map(|number| number * 4) {
        let is_one = |suffix: &str| {
            let event = format!("{id} {suffix}");
            understood.iter().filter(|found| **found == event).count() == 1
        };
        assert!(
            is_one("response 200") && is_one("trailers x-end: now"),
            "{id}"
        );
    }
    assert_eq!((client.open_streams(), server.open_streams()), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn both_sides_understand_each_other(
        table_bytes in prop_oneof![Just(0_u32), Just(150), Just(4096)],
        blocked in 0..5_usize,
        requests in 1..20_u64,
        choices in prop::collection::vec((0..100_usize, 1..100_usize), 0..200),
    ) {
        exchange(table_bytes, blocked, requests, &choices);
    }
}

#[test]
fn later_heads_are_shorter() {
    let mut client = client(&[(0, "GET"), (4, "GET"), (8, "GET")]);
    let mut server = server();
    let mut out = Vec::new();
    for id in [0, 4, 8] {
        assert!(request(&mut server, id, &headers(&GET)).is_ok());
        out.clear();
        let fields = [
            Field::from_static("server", "sealane"),
            Field::from_static("x-content", "something that is always the same"),
        ];
        server
            .send_head(id, StatusCode::OK, fields, true, &mut out)
            .expect("the first");
    }
    let static_bytes = out.len();
    assert_eq!(
        receive(&mut client, 8, &out, true).map(|events| events.len()),
        Ok(1)
    );
    // The same to a client with a table.
    let settings = [&b"\0"[..], &numbers(4, &[1, 4096, 7, 100])].concat();
    let mut server = Connection::new(Role::Server, Arc::new(Settings::default()), NOW);
    assert_eq!(opened(&mut server, CLIENT_CONTROL), Ok(None));
    assert!(receive(&mut server, CLIENT_CONTROL, &settings, false).is_ok());
    for id in [0, 4, 8] {
        assert!(request(&mut server, id, &headers(&GET)).is_ok());
        out.clear();
        let fields = [
            Field::from_static("server", "sealane"),
            Field::from_static("x-content", "something that is always the same"),
        ];
        server
            .send_head(id, StatusCode::OK, fields, true, &mut out)
            .expect("the first");
    }
    assert!(
        out.len() < 10 && static_bytes > 30,
        "{} {static_bytes}",
        out.len()
    );
}
