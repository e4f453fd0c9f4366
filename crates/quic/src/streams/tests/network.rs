//! Two ends and a network that loses, reorders and duplicates.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;

/// A frame on its way, with the bytes that its sender copied.
type Packet = (Outgoing, Vec<u8>);

/// An end with its owner, which checks every byte that it gets.
struct End {
    streams: Streams,
    /// What was taken of each stream, and whether it ended.
    got: HashMap<StreamId, (u64, bool)>,
    /// What was written of each stream, up to where it was acknowledged, and whether that is all.
    written: HashMap<StreamId, (u64, u64, bool)>,
    /// Streams of which a part was given up by either end.
    given_up: HashSet<StreamId>,
    opened: u64,
    closed: u64,
    in_flight: Vec<Packet>,
    now: Time,
}

impl End {
    fn new(side: Side) -> Self {
        Self {
            streams: end(side),
            got: HashMap::new(),
            written: HashMap::new(),
            given_up: HashSet::new(),
            opened: 0,
            closed: 0,
            in_flight: Vec::new(),
            now: Time::from_micros(1),
        }
    }

    fn write(&mut self, id: StreamId, more: u64, fin: bool) {
        let (written, _, ended) = self.written.entry(id).or_default();
        if *ended {
            return;
        }
        *written += more;
        *ended = fin;
        let up_to = *written;
        let is_sent = self.streams.write_up_to(id, up_to, fin);
        // Otherwise the event that tells is on its way.
        let send = self.streams.table.get(id).and_then(|e| e.send.as_ref());
        assert!(is_sent || send.is_none_or(|send| send.reset_code().is_some()));
    }

    fn reset(&mut self, id: StreamId) {
        self.streams.reset(id, 1);
        self.written.entry(id).or_default().2 = true;
        self.given_up.insert(id);
    }

    fn stop(&mut self, id: StreamId) {
        self.streams.stop_sending(id, 2);
        self.got.entry(id).or_default().1 = true;
        self.given_up.insert(id);
    }

    /// Takes one frame from the streams, and its bytes from the owner, which must still have them.
    fn send(&mut self, room: usize) {
        let Some(frame) = self.streams.next_frame(room) else {
            return;
        };
        assert!(frame.encoded_len() <= room);
        let mut payload = Vec::new();
        if let Outgoing::Stream {
            id, offset, len, ..
        } = frame
        {
            let (written, acked, _) = self.written[&id];
            let end = offset + u64::from(len);
            assert!(offset >= acked && end <= written, "{frame:?}");
            payload = bytes(offset..end);
        }
        self.in_flight.push((frame, payload));
    }

    fn deliver(&mut self, (frame, payload): &Packet, limit: usize) {
        let got = &mut self.got;
        let opened = &mut self.opened;
        let side = self.streams.side;
        let mut taken: Vec<(StreamId, u64)> = Vec::new();
        let mut sink = |id: StreamId, bytes: &[u8], fin: bool| {
            if id.initiator() != side {
                // The first call stands for the event.
                assert!(id.index() <= *opened);
                *opened = (*opened).max(id.index() + 1);
            }
            let (at, ended) = got.entry(id).or_default();
            assert!(!*ended);
            let take = bytes.len().min(limit);
            assert!(bytes.iter().zip(*at..).all(|(b, at)| *b == byte(at)));
            *at += take as u64;
            *ended = fin && take == bytes.len();
            taken.push((id, take as u64));
            take
        };
        let streams = &mut self.streams;
        match *frame {
            Outgoing::Stream {
                id, offset, fin, ..
            } => streams
                .on_stream(id, offset, payload, fin, &mut sink)
                .unwrap(),
            Outgoing::MaxData { value } => streams.on_max_data(value),
            Outgoing::MaxStreamData { id, value } => {
                streams.on_max_stream_data(id, value).unwrap();
            }
            Outgoing::MaxStreams { direction, value } => {
                streams.on_max_streams(direction, value).unwrap();
            }
            Outgoing::StreamDataBlocked { id, .. } => streams.on_stream_data_blocked(id).unwrap(),
            Outgoing::StreamsBlocked { direction, value } => {
                streams.on_streams_blocked(direction, value).unwrap();
            }
            Outgoing::DataBlocked { .. } => {}
            Outgoing::ResetStream {
                id,
                code,
                final_size,
            } => streams.on_reset_stream(id, code, final_size).unwrap(),
            Outgoing::StopSending { id, code } => streams.on_stop_sending(id, code).unwrap(),
        }
        self.consume(taken);
    }

    fn consume(&mut self, taken: Vec<(StreamId, u64)>) {
        for (id, bytes) in taken {
            self.now = self.now + Duration::from_millis(1);
            self.streams
                .consumed(id, bytes, self.now, Duration::from_millis(3));
        }
    }

    fn read(&mut self, id: StreamId) {
        let mut taken = Vec::new();
        let got = &mut self.got;
        self.streams.read(id, &mut |id, bytes, fin| {
            let (at, ended) = got.entry(id).or_default();
            assert!(bytes.iter().zip(*at..).all(|(b, at)| *b == byte(at)));
            *at += bytes.len() as u64;
            *ended = fin;
            taken.push((id, bytes.len() as u64));
            bytes.len()
        });
        self.consume(taken);
    }

    /// Reads all that can be read, and answers what the peer opened.
    fn handle_events(&mut self, answer: u64) {
        while let Some(event) = self.streams.next_event() {
            match event {
                Event::Opened { id } => {
                    assert_eq!(id.index(), self.opened);
                    self.opened += 1;
                }
                Event::Readable { id } => self.read(id),
                Event::Acknowledged { id, up_to } => {
                    let (written, acked, _) = self.written.get_mut(&id).unwrap();
                    assert!(up_to >= *acked && up_to <= *written);
                    *acked = up_to;
                }
                Event::Closed { id } => {
                    assert!(self.got[&id].1 && self.written[&id].2);
                    self.closed += 1;
                }
                Event::Available { .. } => {}
                Event::Reset { id, code } => {
                    // By itself, or as we had asked.
                    assert!(code == 1 || code == 2);
                    self.stop(id);
                }
                Event::Stopped { id, code } => {
                    assert_eq!(code, 2);
                    self.reset(id);
                }
            }
        }
        let done: Vec<_> = self
            .got
            .iter()
            .filter(|got| got.1.1)
            .map(|got| *got.0)
            .collect();
        for id in done {
            if id.initiator() != self.streams.side {
                self.write(id, answer, true);
            }
        }
    }
}

/// One step of the two ends and the network between them.
#[derive(Clone, Debug)]
enum Operation {
    Open,
    Write {
        stream: u8,
        more: u16,
        fin: bool,
    },
    Send {
        room: u16,
    },
    Deliver {
        which: u16,
        copy: bool,
        limit: u16,
    },
    Lose {
        which: u16,
    },
    Probe {
        which: u16,
    },
    Priority {
        stream: u8,
        urgency: u8,
        incremental: bool,
    },
    Events,
    Reset {
        stream: u8,
    },
    Stop {
        stream: u8,
    },
}

fn step() -> impl Strategy<Value = (bool, Operation)> {
    let step = prop_oneof![
        1 => Just(Operation::Open),
        3 => (any::<u8>(), 0..3_000_u16, prop::bool::weighted(0.1))
            .prop_map(|(stream, more, fin)| Operation::Write { stream, more, fin }),
        6 => (0..1_500_u16).prop_map(|room| Operation::Send { room }),
        6 => (any::<u16>(), prop::bool::weighted(0.2), 0..3_000_u16)
            .prop_map(|(which, copy, limit)| Operation::Deliver { which, copy, limit }),
        2 => any::<u16>().prop_map(|which| Operation::Lose { which }),
        1 => any::<u16>().prop_map(|which| Operation::Probe { which }),
        1 => (any::<u8>(), 0..8_u8, any::<bool>()).prop_map(|(stream, urgency, incremental)| {
            Operation::Priority { stream, urgency, incremental }
        }),
        2 => Just(Operation::Events),
        1 => any::<u8>().prop_map(|stream| Operation::Reset { stream }),
        1 => any::<u8>().prop_map(|stream| Operation::Stop { stream }),
    ];
    (any::<bool>(), step)
}

fn apply(from: &mut End, to: &mut End, step: Operation) {
    let some = |packets: &[Packet], which: u16| match packets.len() {
        0 => None,
        len => Some(usize::from(which) % len),
    };
    let chosen = |end: &End, stream: u8| {
        request(
            u64::from(stream)
                % end.streams.ours[0]
                    .opened
                    .max(end.streams.theirs[0].opened)
                    .max(1),
        )
    };
    match step {
        Operation::Open if from.streams.side.is_client() => {
            from.streams.open(BIDI);
        }
        Operation::Open => {}
        Operation::Write { stream, more, fin } => {
            let id = chosen(from, stream);
            if from
                .streams
                .table
                .get(id)
                .is_some_and(|entry| entry.send.is_some())
            {
                from.write(id, more.into(), fin);
            }
        }
        Operation::Send { room } => from.send(room.into()),
        Operation::Deliver { which, copy, limit } => {
            if let Some(index) = some(&from.in_flight, which) {
                let packet = from.in_flight.swap_remove(index);
                to.deliver(&packet, limit.into());
                from.streams.on_acked(packet.0.sent());
                if copy {
                    to.deliver(&packet, usize::MAX);
                }
            }
        }
        Operation::Lose { which } => {
            if let Some(index) = some(&from.in_flight, which) {
                let (frame, _) = from.in_flight.swap_remove(index);
                from.streams.on_lost(frame.sent());
            }
        }
        Operation::Probe { which } => {
            if let Some(index) = some(&from.in_flight, which) {
                from.streams.on_lost(from.in_flight[index].0.sent());
            }
        }
        Operation::Priority {
            stream,
            urgency,
            incremental,
        } => {
            let id = chosen(from, stream);
            from.streams.set_priority(id, urgency, incremental);
        }
        Operation::Events => from.handle_events(700),
        Operation::Reset { stream } | Operation::Stop { stream } => {
            let stop = matches!(step, Operation::Stop { .. });
            let id = chosen(from, stream);
            let entry = from.streams.table.get(id);
            match stop {
                true if entry.is_some_and(|entry| entry.recv.is_some()) => from.stop(id),
                false if entry.is_some_and(|entry| entry.send.is_some()) => from.reset(id),
                _ => {}
            }
        }
    }
    check(from);
}

/// What has to hold at all times.
fn check(end: &End) {
    let streams = &end.streams;
    assert!(streams.sent <= streams.max_data);
    let ready = |entry: &&Entry| entry.send.as_ref().is_some_and(|send| send.new_bytes() > 0);
    let ready = streams.table.iter().filter(ready).count();
    assert_eq!(ready == 0, streams.schedule.is_empty());
    let received: u64 = streams
        .table
        .iter()
        .flat_map(|e| &e.recv)
        .map(|r| r.end)
        .sum();
    assert!(received <= streams.received && streams.received <= streams.window.max);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_byte_arrives_and_nothing_is_left(steps in prop::collection::vec(step(), 0..400)) {
        let mut client = End::new(Side::Client);
        let mut server = End::new(Side::Server);
        for (of_client, step) in steps {
            if of_client {
                apply(&mut client, &mut server, step);
            } else {
                apply(&mut server, &mut client, step);
            }
        }
        for index in 0..client.streams.ours[0].opened {
            let id = request(index);
            if client.streams.table.get(id).is_some_and(|entry| entry.send.is_some()) {
                client.write(id, 10, true);
            }
        }
        for _ in 0..400 {
            for index in 0..client.streams.ours[0].opened {
                client.read(request(index));
                server.read(request(index));
            }
            for of_client in [true, false] {
                let (from, to) = match of_client {
                    true => (&mut client, &mut server),
                    false => (&mut server, &mut client),
                };
                apply(from, to, Operation::Events);
                apply(from, to, Operation::Send { room: 1_200 });
                while !from.in_flight.is_empty() {
                    apply(from, to, Operation::Deliver { which: 0, copy: false, limit: u16::MAX });
                }
            }
        }
        let opened = client.streams.ours[0].opened;
        prop_assert_eq!(server.opened, opened);
        for (from, to) in [(&client, &server), (&server, &client)] {
            prop_assert_eq!(from.closed, opened);
            prop_assert!(from.streams.is_idle() && !from.streams.has_pending());
            prop_assert_eq!(from.streams.heap_bytes(), 0);
            for (id, (written, _, _)) in &from.written {
                if !from.given_up.contains(id) && !to.given_up.contains(id) {
                    prop_assert_eq!(to.got[id], (*written, true));
                }
            }
            // Nothing of the windows is lost, whatever was given up.
            let credit = from.streams.max_data - from.streams.sent;
            prop_assert!(credit >= settings().max_data / 2, "{credit}");
        }
    }
}
