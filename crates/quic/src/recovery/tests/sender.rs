//! One end, with a clock that the test moves.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::recovery::{
    AckInfo, Algorithm, EcnCounts, Fate, Item, Packet, Path, Recovery, Settings,
};
use crate::{Error, Space, Time};

pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Settings of tests that do not look at ECN and MTU.
pub(super) fn plain(algorithm: Algorithm) -> Settings {
    Settings {
        algorithm,
        ecn: false,
        mtu_discovery: false,
        ..Settings::default()
    }
}

pub(super) struct Sender {
    pub(super) recovery: Recovery,
    pub(super) path: Path,
    pub(super) now: Time,
    /// All that was told since it was last taken.
    pub(super) told: Vec<(Fate, Item)>,
}

impl Sender {
    /// A server with a confirmed handshake.
    pub(super) fn new(settings: &Settings) -> Self {
        let mut sender = Self::in_handshake(settings, false);
        sender.recovery.on_handshake_confirmed();
        sender.path.set_validated();
        sender
    }

    /// An end before anything was sent.
    pub(super) fn in_handshake(settings: &Settings, is_client: bool) -> Self {
        let now = Time::from_micros(1_000_000);
        Self {
            recovery: Recovery::new(is_client),
            path: Path::new(0, settings, is_client, now),
            now,
            told: Vec::new(),
        }
    }

    pub(super) fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    pub(super) fn packet(&mut self, space: Space) -> Packet {
        let number = self.recovery.packet_number(space, || u64::MAX);
        Packet {
            number,
            time: self.now,
            size: 1200,
            ack_eliciting: true,
            in_flight: true,
            ecn: self.path.marks_ecn(),
            mtu_probe: false,
        }
    }

    /// Sends a packet with one item that has its number in it.
    pub(super) fn send(&mut self, space: Space) -> u64 {
        let packet = self.packet(space);
        self.send_packet(space, &packet)
    }

    pub(super) fn send_packet(&mut self, space: Space, packet: &Packet) -> u64 {
        let item = Item::RetireConnectionId(packet.number);
        self.recovery
            .on_sent(&mut self.path, space, packet, &[item]);
        packet.number
    }

    /// Sends so many packets of data. Numbers are the same in every test: none is skipped early.
    pub(super) fn send_many(&mut self, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.send(Space::Data)).collect()
    }

    pub(super) fn try_ack(
        &mut self,
        space: Space,
        ranges: &[RangeInclusive<u64>],
        delay: Duration,
        ecn: Option<EcnCounts>,
    ) -> Result<(), Error> {
        let told = &mut self.told;
        self.recovery.on_ack(
            &mut self.path,
            space,
            &AckInfo { delay, ecn },
            ranges.iter().cloned(),
            self.now,
            &mut |fate, item| told.push((fate, item)),
        )
    }

    pub(super) fn ack(&mut self, ranges: &[RangeInclusive<u64>]) {
        self.ack_in(Space::Data, ranges);
    }

    pub(super) fn ack_in(&mut self, space: Space, ranges: &[RangeInclusive<u64>]) {
        self.try_ack(space, ranges, Duration::ZERO, None)
            .expect("packets that were sent");
    }

    pub(super) fn timeout(&self) -> Option<Time> {
        self.recovery.next_timeout(&self.path)
    }

    /// Goes to the next timeout.
    pub(super) fn time_out(&mut self) {
        self.now = self.timeout().expect("a timer is set");
        let told = &mut self.told;
        self.recovery
            .on_timeout(&mut self.path, self.now, &mut |fate, item| {
                told.push((fate, item))
            });
    }

    /// Numbers of packets that were told to have had this fate.
    pub(super) fn numbers(&mut self, fate: Fate) -> Vec<u64> {
        let mut numbers = Vec::new();
        self.told.retain(|&(told, item)| {
            let matches = told == fate;
            if let (true, Item::RetireConnectionId(number)) = (matches, item) {
                numbers.push(number);
            }
            !matches
        });
        numbers
    }

    /// Sends a packet and has it acknowledged after this time.
    pub(super) fn round_trip(&mut self, rtt: Duration) {
        let number = self.send(Space::Data);
        self.wait(rtt);
        self.ack(&[number..=number]);
        self.told.clear();
    }
}
