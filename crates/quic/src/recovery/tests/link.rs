//! A sender and a receiver with a simulated link between them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::recovery::{
    AckInfo, AckPolicy, Allowance, Codepoint, Fate, Item, Packet, Path, Received, Recovery,
    Settings,
};
use crate::{Space, Time};

/// Numbers that look random.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// True so many times in a thousand.
    fn permille(&mut self, of: u64) -> bool {
        self.next() % 1000 < of
    }
}

/// The link from the sender to the receiver. ACKs come back after the delay.
#[derive(Clone, Copy)]
pub(super) struct Link {
    /// Bytes a second.
    pub(super) rate: u64,
    /// One way.
    pub(super) delay: Duration,
    /// Bytes that may wait before the bottleneck.
    pub(super) queue: u64,
    /// Packets with more than this before them are marked with CE, if they are marked.
    pub(super) mark_above: u64,
    /// Lost packets, and lost ACKs, in a thousand.
    pub(super) loss: u64,
    pub(super) ack_loss: u64,
    /// Packets in a thousand that are `late`.
    pub(super) reorder: u64,
    pub(super) late: Duration,
    /// Larger datagrams vanish.
    pub(super) mtu: u16,
    /// Whether marks of ECN are removed.
    pub(super) bleaches: bool,
}

impl Link {
    /// 100 Mbit/s and 20 ms there and back, with one bandwidth-delay product of queue.
    pub(super) const GOOD: Self = Self {
        rate: 12_500_000,
        delay: Duration::from_millis(10),
        queue: 250_000,
        mark_above: u64::MAX,
        loss: 0,
        ack_loss: 0,
        reorder: 0,
        late: Duration::ZERO,
        mtu: 1500,
        bleaches: false,
    };
}

struct Ack {
    ranges: Vec<RangeInclusive<u64>>,
    info: AckInfo,
}

enum Event {
    Packet {
        number: u64,
        offset: Option<(u64, u16)>,
        mark: Codepoint,
    },
    Ack(Ack),
}

/// What a transfer came to.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) took: Duration,
    pub(super) sent: u64,
    pub(super) lost: u64,
    pub(super) timeouts: u64,
    pub(super) wakes: u64,
    pub(super) batches: u64,
    pub(super) max_in_flight: u64,
}

pub(super) struct Simulation {
    link: Link,
    /// Links that it becomes, and when.
    later: VecDeque<(Time, Link)>,
    random: Random,
    now: Time,
    events: BinaryHeap<Reverse<(Time, u64)>>,
    payloads: HashMap<u64, Event>,
    next_event: u64,
    /// When the bottleneck is done with what it has.
    busy_until: Time,

    pub(super) recovery: Recovery,
    pub(super) path: Path,
    /// Bytes of the stream that were sent once, and what has to be sent again.
    offset: u64,
    again: VecDeque<(u64, u16)>,
    total: u64,
    acked: BTreeMap<u64, u64>,
    wake: Option<Time>,

    received: Received,
    arrived: BTreeMap<u64, u64>,
    outcome: Outcome,
}

/// Bytes of a packet besides its stream data.
const OVERHEAD: u16 = 50;

/// Adds a range to disjoint ranges.
fn add(ranges: &mut BTreeMap<u64, u64>, mut start: u64, mut end: u64) {
    while let Some((&s, &e)) = ranges.range(..=end).next_back() {
        if e < start {
            break;
        }
        ranges.remove(&s);
        start = start.min(s);
        end = end.max(e);
    }
    ranges.insert(start, end);
}

impl Simulation {
    pub(super) fn new(settings: &Settings, link: Link, total: u64, seed: u64) -> Self {
        let now = Time::from_micros(5_000_000);
        let mut recovery = Recovery::new(false);
        recovery.on_handshake_confirmed();
        let mut path = Path::new(0, settings, true, now);
        path.set_mtu_ceiling(1452);
        Self {
            link,
            later: VecDeque::new(),
            random: Random(seed),
            now,
            events: BinaryHeap::new(),
            payloads: HashMap::new(),
            next_event: 0,
            busy_until: now,
            recovery,
            path,
            offset: 0,
            again: VecDeque::new(),
            total,
            acked: BTreeMap::new(),
            wake: None,
            received: Received::new(Space::Data),
            arrived: BTreeMap::new(),
            outcome: Outcome::default(),
        }
    }

    /// So long after the start, the link is another one.
    pub(super) fn then(mut self, after: Duration, link: Link) -> Self {
        self.later.push_back((self.now + after, link));
        self
    }

    /// Sends everything and returns how it went.
    pub(super) fn run(mut self) -> Outcome {
        self.transfer();
        self.outcome
    }

    /// Sends everything, waits until nothing is in flight, and returns the state of both ends.
    pub(super) fn run_to_end(mut self) -> (Recovery, Path, Received) {
        self.transfer();
        while self.path.bytes_in_flight() > 0 {
            self.send();
            self.step();
        }
        (self.recovery, self.path, self.received)
    }

    fn transfer(&mut self) {
        let start = self.now;
        let limit = start + Duration::from_secs(600);
        while self.acked.get(&0) != Some(&self.total) {
            self.send();
            self.step();
            assert!(self.now < limit, "no end: {:?}", self.outcome);
        }
        assert_eq!(self.arrived.get(&0), Some(&self.total), "all bytes arrive");
        self.outcome.took = self.now.since(start);
    }

    fn at(&mut self, time: Time, event: Event) {
        self.events.push(Reverse((time, self.next_event)));
        self.payloads.insert(self.next_event, event);
        self.next_event += 1;
    }

    /// Goes to the next thing that happens.
    fn step(&mut self) {
        let event = self.events.peek().map(|Reverse((time, _))| *time);
        let timeout = self.recovery.next_timeout(&self.path);
        let next = [event, timeout, self.wake, self.received.ack_deadline()]
            .into_iter()
            .flatten()
            .min()
            .expect("something always happens next");
        self.now = self.now.max(next);
        if let Some(&(time, link)) = self.later.front()
            && time <= self.now
        {
            self.later.pop_front();
            self.link = link;
        }
        if event.is_some_and(|time| time <= self.now) {
            let Reverse((_, id)) = self.events.pop().expect("there is one");
            match self.payloads.remove(&id).expect("each has one") {
                Event::Packet {
                    number,
                    offset,
                    mark,
                } => self.receive(number, offset, mark),
                Event::Ack(ack) => self.on_ack(ack),
            }
        } else if timeout.is_some_and(|time| time <= self.now) {
            self.outcome.timeouts += 1;
            let (again, outcome) = (&mut self.again, &mut self.outcome);
            self.recovery
                .on_timeout(&mut self.path, self.now, &mut |fate, item| {
                    again_if_lost(again, outcome, fate, item)
                });
            assert!(
                self.recovery
                    .next_timeout(&self.path)
                    .is_none_or(|next| next > self.now),
                "a timer that has come is not set again at once"
            );
        } else if self.received.ack_needed(self.now) {
            self.send_ack();
        } else {
            self.outcome.wakes += 1;
            self.wake = None;
        }
    }

    fn receive(&mut self, number: u64, offset: Option<(u64, u16)>, mark: Codepoint) {
        assert!(!self.received.is_duplicate(number), "sent once");
        let policy = AckPolicy::default();
        self.received
            .on_packet(number, true, mark, &policy, self.now);
        if let Some((offset, len)) = offset {
            add(&mut self.arrived, offset, offset + u64::from(len));
        }
        if self.received.ack_needed(self.now) {
            self.send_ack();
        }
    }

    fn send_ack(&mut self) {
        let ack = Ack {
            ranges: self.received.ranges().collect(),
            info: AckInfo {
                delay: self.received.ack_delay(self.now),
                ecn: self.received.ecn().copied(),
            },
        };
        self.received.on_ack_sent();
        if !self.random.permille(self.link.ack_loss) {
            self.at(self.now + self.link.delay, Event::Ack(ack));
        }
    }

    fn on_ack(&mut self, ack: Ack) {
        let (again, outcome, acked) = (&mut self.again, &mut self.outcome, &mut self.acked);
        self.recovery
            .on_ack(
                &mut self.path,
                Space::Data,
                &ack.info,
                ack.ranges.iter().cloned(),
                self.now,
                &mut |fate, item| match (fate, item) {
                    (Fate::Acked, Item::Crypto { offset, len, .. }) => {
                        add(acked, offset, offset + u64::from(len));
                    }
                    _ => again_if_lost(again, outcome, fate, item),
                },
            )
            .expect("nothing is acknowledged that was not sent");
        assert_eq!(
            self.path.bytes_in_flight(),
            self.recovery.data.in_flight(0),
            "bytes in flight are those of outstanding packets"
        );
        if let Some(largest) = ack.ranges.first().map(|range| *range.end()) {
            // As if the ACK of the ACK came at once.
            self.received.on_ack_acked(largest);
        }
    }

    fn send(&mut self) {
        while self.recovery.probes(Space::Data) > 0 {
            let (again, outcome) = (&mut self.again, &mut self.outcome);
            self.recovery
                .take_probe_items(Space::Data, &mut |fate, item| {
                    again_if_lost(again, outcome, fate, item)
                });
            let size = self.path.datagram_size();
            if !self.send_packet(size) {
                self.emit(size, None, false);
            }
        }
        if self.wake.is_some_and(|wake| wake > self.now) {
            return;
        }
        self.wake = None;
        loop {
            match self.recovery.allowance(&mut self.path, self.now) {
                Allowance::Bytes(mut room) => {
                    self.outcome.batches += 1;
                    if let Some(size) = self.path.mtu_probe(self.now)
                        && room >= u64::from(size)
                    {
                        self.emit(size, None, true);
                        room -= u64::from(size);
                    }
                    let size = self.path.datagram_size();
                    while room >= u64::from(size) {
                        if !self.send_packet(size) {
                            self.path.set_app_limited();
                            return;
                        }
                        room -= u64::from(size);
                    }
                }
                Allowance::NotBefore(time) => {
                    assert!(time > self.now, "a time to wait for");
                    self.wake = Some(time);
                    return;
                }
                Allowance::Congested => return,
            }
        }
    }

    /// Sends stream data. Returns whether there was any.
    fn send_packet(&mut self, size: u16) -> bool {
        let room = size - OVERHEAD;
        let chunk = if let Some((offset, len)) = self.again.pop_front() {
            if len > room {
                self.again
                    .push_front((offset + u64::from(room), len - room));
            }
            (offset, len.min(room))
        } else {
            let len = (self.total - self.offset).min(room.into()) as u16;
            if len == 0 {
                return false;
            }
            self.offset += u64::from(len);
            (self.offset - u64::from(len), len)
        };
        self.emit(chunk.1 + OVERHEAD, Some(chunk), false);
        true
    }

    fn emit(&mut self, size: u16, chunk: Option<(u64, u16)>, mtu_probe: bool) {
        let random = self.random.next();
        let number = self.recovery.packet_number(Space::Data, || random);
        let ecn = self.path.marks_ecn();
        let packet = Packet {
            number,
            time: self.now,
            size,
            ack_eliciting: true,
            in_flight: true,
            ecn,
            mtu_probe,
        };
        let item = match chunk {
            Some((offset, len)) => Item::Crypto {
                space: Space::Data,
                offset,
                len,
            },
            None => Item::Ping,
        };
        self.recovery
            .on_sent(&mut self.path, Space::Data, &packet, &[item]);
        self.outcome.sent += 1;
        let in_flight = self.path.bytes_in_flight();
        self.outcome.max_in_flight = self.outcome.max_in_flight.max(in_flight);
        self.travel(number, size, chunk, ecn);
    }

    /// The bottleneck, and the way behind it.
    fn travel(&mut self, number: u64, size: u16, chunk: Option<(u64, u16)>, ecn: bool) {
        let waits = self.busy_until.since(self.now);
        let queued = self.link.rate * waits.as_micros() as u64 / 1_000_000;
        if size > self.link.mtu
            || queued + u64::from(size) > self.link.queue
            || self.random.permille(self.link.loss)
        {
            return;
        }
        let takes = Duration::from_nanos(u64::from(size) * 1_000_000_000 / self.link.rate);
        // Times are in microseconds: what is rounded off comes back now and then.
        let extra = u64::from(self.random.next() % 1000 < takes.subsec_nanos() as u64 % 1000);
        self.busy_until = self.busy_until.max(self.now) + takes + Duration::from_micros(extra);
        let mut arrives = self.busy_until + self.link.delay;
        if self.random.permille(self.link.reorder) {
            arrives = arrives + self.link.late;
        }
        let mark = match (ecn && !self.link.bleaches, queued > self.link.mark_above) {
            (false, _) => Codepoint::NotEct,
            (true, false) => Codepoint::Ect0,
            (true, true) => Codepoint::Ce,
        };
        self.at(
            arrives,
            Event::Packet {
                number,
                offset: chunk,
                mark,
            },
        );
    }
}

fn again_if_lost(again: &mut VecDeque<(u64, u16)>, outcome: &mut Outcome, fate: Fate, item: Item) {
    if let Item::Crypto { offset, len, .. } = item
        && fate != Fate::Acked
    {
        again.push_back((offset, len));
        outcome.lost += u64::from(fate == Fate::Lost);
    }
}
