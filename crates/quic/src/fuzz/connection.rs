//! A whole connection: a server's end behind its handshake, and a client that may do anything.

use crate::connection::DataKeys;
use crate::frame::put_ack;
use crate::packet::{Form, Header};
use crate::{
    Addresses, Algorithm, Codepoint, Connection, ConnectionId, ConnectionSettings, Direction,
    Event, IdSource, Outbox, Owner, ResetToken, Settings, StreamId, Time, Version,
};
use sealane_tls::quic::{self as tls, InitialSecrets, Keys};
use std::sync::Arc;
use std::time::Duration;

/// Most steps of one program.
const MAX_STEPS: usize = 256;

/// Calls that may be needed until there is nothing more to send or to do at one time; many more
/// than a window has datagrams.
const MAX_CALLS: usize = 10_000;

/// Streams that the owner may write on.
const MAX_STREAMS: usize = 8;

/// Decisions of the program.
struct Program<'a>(&'a [u8]);

impl<'a> Program<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn number(&mut self) -> u64 {
        self.byte().unwrap_or_default().into()
    }

    fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}

/// Who the connection belongs to.
struct Application {
    random: u64,
    next_id: u64,
    /// Streams that were seen, the last few of them.
    streams: Vec<StreamId>,
    /// Bytes that one call takes.
    takes: usize,
    /// Bytes that were taken and not consumed, and of which stream.
    taken: Vec<(StreamId, u64)>,
}

impl Application {
    fn note(&mut self, id: StreamId) {
        if !self.streams.contains(&id) {
            self.streams.truncate(MAX_STREAMS - 1);
            self.streams.insert(0, id);
        }
    }
}

impl IdSource for Application {
    fn new_id(&mut self) -> (ConnectionId, ResetToken) {
        self.next_id += 1;
        let id = ConnectionId::new(&self.next_id.to_be_bytes()).expect("8 bytes");
        (id, ResetToken::new([7; 16]))
    }

    fn retire(&mut self, _: &ConnectionId) {}
}

impl Owner for Application {
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d) + 1;
        self.random
    }

    fn receive(&mut self, id: StreamId, bytes: &[u8], _: bool) -> usize {
        self.note(id);
        let taken = bytes.len().min(self.takes);
        self.taken.push((id, taken as u64));
        taken
    }

    fn copy(&mut self, _: StreamId, _: u64, len: usize, out: &mut Vec<u8>) {
        out.resize(out.len() + len, b'x');
    }
}

/// The connection and its peer.
struct Session {
    connection: Connection,
    application: Application,
    now: Time,
    /// What the client seals with.
    keys: Keys,
    /// Number of the client's next packet.
    number: u64,
}

/// The first byte of each step says what happens, the bytes behind it say how.
pub fn connection(data: &[u8]) {
    let mut program = Program(data);
    let mut session = Session::new(program.number());
    for _ in 0..MAX_STEPS {
        let Some(step) = program.byte() else {
            break;
        };
        let choice = step >> 4;
        match step & 7 {
            0..=2 => {
                let len = usize::from(program.byte().unwrap_or_default());
                let payload = program.bytes(len);
                session.packet(choice, payload);
            }
            3 => session.pass(1 << (program.number() % 26)),
            4 => session.acknowledge(program.number()),
            5 => session.write(choice, program.number()),
            6 => session.read(),
            _ => session.manage(choice),
        }
        session.transmit();
        session.connection.check_bounds();
    }
    // Whatever has happened, it ends.
    session.connection.close(session.now, 0);
    session.transmit();
    session.pass(1 << 40);
    assert!(session.connection.is_closed());
}

fn address(number: u8) -> Addresses {
    Addresses {
        local: ([192, 0, 2, 1], 443).into(),
        remote: ([198, 51, 100, number], 40_000).into(),
    }
}

fn settings(choice: u64) -> ConnectionSettings {
    ConnectionSettings {
        streams: Settings {
            max_data: 4096,
            max_stream_data_bidi_local: 1024,
            max_stream_data_bidi_remote: 1024,
            max_stream_data_uni: 1024,
            max_streams_bidi: 8,
            max_streams_uni: 3,
            max_window: 1 << 14,
            max_stream_window: 1 << 13,
        },
        congestion_control: match choice % 3 {
            0 => Algorithm::Cubic,
            1 => Algorithm::Bbr,
            _ => Algorithm::NewReno,
        },
        max_idle_timeout: Duration::from_secs(30),
        active_connection_id_limit: 4,
        max_udp_payload_size: 1500,
        max_datagram_size: 1452,
        mtu_discovery: choice & 8 != 0,
        ecn: choice & 16 != 0,
        versions: vec![Version::V1],
        early_data_context: Vec::new(),
        migration: choice & 32 == 0,
        preferred_v4: None,
        preferred_v6: None,
    }
}

impl Session {
    fn new(choice: u64) -> Self {
        let mut application = Application {
            random: 1,
            next_id: 0,
            streams: Vec::new(),
            takes: usize::MAX,
            taken: Vec::new(),
        };
        let secrets = InitialSecrets::derive(tls::Version::V1, b"fuzzer's");
        let keys = Keys::derive(tls::Version::V1, &secrets.client);
        let mut data_keys = DataKeys::new(tls::Version::V1, secrets.server);
        data_keys.set_opening(secrets.client);
        let now = Time::from_micros(1_000_000);
        let (id, _) = application.new_id();
        let remote = ConnectionId::new(b"client's").expect("8 bytes");
        let connection = Connection::established(
            Arc::new(settings(choice)),
            (id, remote),
            address(0),
            data_keys,
            now,
            &mut application,
        );
        let mut connection = connection.expect("the settings are valid");
        if choice & 64 != 0 {
            connection.start_trace(now);
        }
        Self {
            connection,
            application,
            now,
            keys,
            number: 0,
        }
    }

    /// A packet of the client with these frames.
    fn packet(&mut self, choice: u8, payload: &[u8]) {
        let ids: Vec<ConnectionId> = self.connection.local_ids().copied().collect();
        let id = ids[usize::from(choice & 3) % ids.len()];
        let header = Header {
            destination: &id,
            form: Form::OneRtt {
                spin: false,
                key_phase: false,
            },
            fixed_bit: true,
        };
        // One in four is missing.
        self.number += 1 + u64::from(choice & 12 == 12);
        let mut datagram = Vec::new();
        let building = header.put(self.number, self.number.checked_sub(2), &mut datagram);
        datagram.extend_from_slice(payload);
        let (header, payload) = building.close(&mut datagram);
        self.keys.packet.seal(self.number, header, payload);
        let mask = self.keys.header.mask(building.sample(&datagram));
        building.protect(&mut datagram, &mask);
        let from = match choice & 12 {
            4 => 1 + (choice & 1),
            _ => 0,
        };
        self.connection.receive(
            self.now,
            address(from),
            Codepoint::Ect0,
            &mut datagram,
            &mut self.application,
        );
    }

    /// An acknowledgement of what was sent, more or less.
    fn acknowledge(&mut self, choice: u64) {
        let sent = self.connection.counters().datagrams_sent;
        let largest = sent.saturating_sub(choice & 7);
        let smallest = largest.saturating_sub(choice >> 3);
        let mut frame = Vec::new();
        put_ack(
            &mut frame,
            100,
            std::iter::once(smallest..=largest),
            0,
            None,
        );
        self.packet(0, &frame);
    }

    /// So many microseconds.
    fn pass(&mut self, micros: u64) {
        self.now = self.now + Duration::from_micros(micros);
        for _ in 0..MAX_CALLS {
            let timeout = self.connection.timeout();
            if timeout.is_none_or(|timeout| timeout > self.now) {
                return;
            }
            self.connection.on_timeout(self.now);
            self.transmit();
        }
        panic!("what is to be done is never done");
    }

    fn transmit(&mut self) {
        let mut outbox = Outbox::default();
        for _ in 0..MAX_CALLS {
            outbox.bytes.clear();
            let owner = &mut self.application;
            let sent = self.connection.transmit(self.now, &mut outbox, 4, owner);
            self.connection.take_trace(&mut Vec::new());
            let Some(sent) = sent else {
                return;
            };
            assert!((1..=1452).contains(&sent.segment_bytes));
            let datagrams = outbox.bytes.len().div_ceil(sent.segment_bytes);
            assert!((1..=4).contains(&datagrams), "{datagrams}");
        }
        panic!("there is always more to send");
    }

    /// The owner writes, or does not want to any more.
    fn write(&mut self, choice: u8, len: u64) {
        if choice & 8 != 0
            && let Some(id) = self.connection.open(Direction::Unidirectional)
        {
            self.application.note(id);
        }
        let streams = &self.application.streams;
        let Some(&id) = streams.get(usize::from(choice & 7)) else {
            return;
        };
        match len {
            0 => self.connection.reset_stream(id, 1),
            1 => self.connection.stop_sending(id, 2),
            2 => self.connection.set_priority(id, choice & 7, true),
            _ => {
                let is_end = len & 1 == 1;
                self.connection.write_up_to(id, len * len, is_end);
            }
        }
    }

    /// The owner takes events and bytes, and has consumed what it took.
    fn read(&mut self) {
        for _ in 0..MAX_CALLS {
            let Some(event) = self.connection.next_event() else {
                break;
            };
            match event {
                Event::Opened { id } => self.application.note(id),
                Event::Readable { id } => self.connection.read(id, &mut self.application),
                _ => {}
            }
        }
        for (id, bytes) in std::mem::take(&mut self.application.taken) {
            self.connection.consumed(id, bytes, self.now);
        }
    }

    fn manage(&mut self, choice: u8) {
        match choice {
            0 => self.connection.ping(),
            1 => self.connection.send_token(vec![1; 40].into()),
            2 => {
                self.connection.update_keys(self.now);
            }
            3 => self.connection.close(self.now, 3),
            4 => self.connection.set_max_streams(Direction::Bidirectional, 2),
            _ => self.application.takes = usize::from(choice) * 16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A packet with one frame, or a step of another kind, or anything.
    fn step() -> impl Strategy<Value = Vec<u8>> {
        let frames: [&[u8]; 14] = [
            &[0x01],
            &[0x0b, 0x00, 0x03, b'a', b'b', b'c'],
            &[0x0f, 0x04, 0x05, 0x01, b'd'],
            &[0x02, 0x03, 0x00, 0x00, 0x03],
            &[0x04, 0x00, 0x01, 0x05],
            &[0x05, 0x00, 0x01],
            &[0x10, 0x60, 0x00],
            &[0x11, 0x00, 0x60, 0x00],
            &[0x12, 0x20],
            &[0x19, 0x00],
            &[0x1a, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0x1b, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0x1d, 0x00, 0x00],
            &[0x06, 0x00, 0x01, 0x01],
        ];
        let framed =
            (any::<u8>(), prop::sample::select(frames.to_vec())).prop_map(|(choice, frame)| {
                let mut step = vec![choice & 0xf0, frame.len() as u8];
                step.extend_from_slice(frame);
                step
            });
        let new_id = (any::<u8>(), 0..8_u8, 0..4_u8).prop_map(|(choice, sequence, retire)| {
            let mut step = vec![choice & 0xf0, 28, 0x18, sequence, retire.min(sequence), 8];
            step.extend([sequence; 24]);
            step
        });
        let other = prop::collection::vec(any::<u8>(), 1..4);
        prop_oneof![5 => framed, 2 => new_id, 4 => other]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

        #[test]
        fn a_client_can_do_anything(
            settings in any::<u8>(),
            steps in prop::collection::vec(step(), 0..60),
        ) {
            let mut program = vec![settings];
            program.extend(steps.concat());
            connection(&program);
        }
    }
}
