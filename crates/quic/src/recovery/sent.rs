//! Packets of one space that were sent and are neither acknowledged nor lost.

use std::collections::VecDeque;

use crate::Time;
use crate::trace::TracedLoss;

use super::congestion::Snapshot;
use super::{EcnCounts, Fate, Item, Space};

/// Most packets of a space that are remembered: a window of 157 MB in full datagrams, and a bound
/// for those of a peer that acknowledges nothing.
pub(super) const MAX_SENT_PACKETS: usize = 131_072;

/// Most packets without anything that elicits an ACK that are remembered at the front: the peer
/// need not acknowledge them.
const MAX_SILENT_PACKETS: u8 = 64;

/// After so many packets that elicit no ACK, one should.
const PING_AFTER: u8 = 32;

/// Packets that elicit no ACK and were sent since the peer last acknowledged something new: the
/// [`PING_AFTER`]th of them asked for one, and every one after so many more. A peer that lets so
/// many pass does not acknowledge at all, RFC 9000 section 13.2.1.
const MAX_UNANSWERED: u32 = 16_384;

/// The same in a handshake, which few packets make, and which anybody may begin.
const MAX_UNANSWERED_IN_HANDSHAKE: u32 = 1024;

/// Most lost packets that are remembered in case they arrive after all.
const MAX_LOST_REMEMBERED: usize = 256;

/// Above this, an empty queue gives its memory back.
const KEPT_CAPACITY: usize = 4;

/// The first skipped number is below 2 to the power of this, so that a short connection has one,
const FIRST_SKIP_BITS: u8 = 6;

/// and the distance grows to this, so that a long one has few.
const MAX_SKIP_BITS: u8 = 16;

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// From [`super::Recovery::packet_number`].
    pub(crate) number: u64,
    /// When.
    pub(crate) time: Time,
    /// Bytes of the whole packet, with header and tag.
    pub(crate) size: u16,
    /// Whether it has frames other than ACK, PADDING and CONNECTION_CLOSE.
    pub(crate) ack_eliciting: bool,
    /// Whether it counts for congestion control: it elicits an ACK or has PADDING, RFC 9002
    /// section 2.
    pub(crate) in_flight: bool,
    /// Whether it was marked with ECT(0).
    pub(crate) ecn: bool,
    /// Whether it is an MTU probe.
    pub(crate) mtu_probe: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Outstanding,
    /// Acknowledged, lost, or never in flight.
    Done,
    /// Its number was not used.
    Skipped,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) time: Time,
    /// Its first item, counted from the first that the space ever had, modulo 2^32.
    first_item: u32,
    items: u16,
    pub(super) size: u16,
    pub(super) path: u8,
    pub(super) status: Status,
    flags: u8,
}

const ACK_ELICITING: u8 = 1;
const IN_FLIGHT: u8 = 2;
const ECN: u8 = 4;
const MTU_PROBE: u8 = 8;
const PROBED: u8 = 16;

impl Entry {
    pub(super) fn is_ack_eliciting(&self) -> bool {
        self.flags & ACK_ELICITING != 0
    }

    pub(super) fn is_in_flight(&self) -> bool {
        self.flags & IN_FLIGHT != 0
    }

    pub(super) fn is_marked(&self) -> bool {
        self.flags & ECN != 0
    }

    pub(super) fn is_mtu_probe(&self) -> bool {
        self.flags & MTU_PROBE != 0
    }
}

/// A packet that was declared lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    pub(super) number: u64,
    pub(super) declared: Time,
    /// How much larger the largest acknowledged number was.
    pub(super) behind: u64,
    /// The congestion event of its path that it belongs to.
    pub(super) event: u32,
    pub(super) path: u8,
}

/// The packets of one space. Their numbers are their places in a queue.
#[derive(Debug, Default)]
pub(super) struct SentPackets {
    entries: VecDeque<Entry>,
    /// Items of all entries, in their order.
    items: VecDeque<Item>,
    /// One for each entry if the congestion controller wants them, else none.
    snapshots: VecDeque<Snapshot>,
    lost: VecDeque<Lost>,
    /// Number of the first entry.
    first: u64,
    /// Place of the first item among all that were sent, modulo 2^32.
    first_item: u32,
    /// Packets in flight that elicit an ACK.
    eliciting: u32,
    /// Packets since the last one that elicits an ACK.
    silent: u8,
    /// Packets that elicit none since something new was acknowledged.
    unanswered: u32,
    skip_bits: u8,
    /// The next number that is not used, and the last one that was not.
    next_skip: Option<u64>,
    last_skip: Option<u64>,
    largest_acked: Option<u64>,
    pub(super) loss_time: Option<Time>,
    /// Counts of the last ACK frame, and how many packets were marked.
    pub(super) ecn: EcnCounts,
    pub(super) marked: u64,
    /// What was lost and not taken yet, if that is to be told.
    losses: Option<Box<Losses>>,
}

/// Packets that were lost.
#[derive(Debug, Default)]
struct Losses(Vec<TracedLoss>);

impl SentPackets {
    /// Of the space for data: only there, numbers are skipped.
    pub(super) fn for_data() -> Self {
        Self {
            skip_bits: FIRST_SKIP_BITS,
            ..Self::default()
        }
    }

    /// The number behind the last entry.
    pub(super) fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// See [`super::Recovery::packet_number`].
    pub(super) fn next_number(&mut self, random: impl FnOnce() -> u64) -> u64 {
        let skips = self.next_skip == Some(self.end());
        if skips {
            self.last_skip = self.next_skip;
            self.push_skipped();
        }
        if self.skip_bits > 0 && (skips || self.next_skip.is_none()) {
            let distance = random() & ((1 << self.skip_bits) - 1);
            self.next_skip = Some(self.end() + 1 + distance);
            self.skip_bits = (self.skip_bits + 1).min(MAX_SKIP_BITS);
        }
        self.end()
    }

    fn push_skipped(&mut self) {
        self.push_entry(Entry {
            time: Time::ZERO,
            first_item: self.items_end(),
            items: 0,
            size: 0,
            path: 0,
            status: Status::Skipped,
            flags: 0,
        });
    }

    fn items_end(&self) -> u32 {
        self.first_item.wrapping_add(self.items.len() as u32)
    }

    fn push_entry(&mut self, entry: Entry) {
        self.entries.push_back(entry);
        if !self.snapshots.is_empty() {
            self.snapshots.push_back(Snapshot::default());
        }
    }

    /// Remembers a packet that was sent.
    pub(super) fn push(
        &mut self,
        packet: &Packet,
        path: u8,
        snapshot: Option<Snapshot>,
        items: &[Item],
    ) {
        debug_assert_eq!(packet.number, self.end(), "numbers come from next_number");
        let flags = [
            (packet.ack_eliciting, ACK_ELICITING),
            (packet.in_flight, IN_FLIGHT),
            (packet.ecn, ECN),
            (packet.mtu_probe, MTU_PROBE),
        ];
        let entry = Entry {
            time: packet.time,
            first_item: self.items_end(),
            items: u16::try_from(items.len()).expect("a packet has less than 65,536 bytes"),
            size: packet.size,
            path,
            status: Status::Outstanding,
            flags: flags.iter().map(|&(set, flag)| u8::from(set) * flag).sum(),
        };
        self.items.extend(items);
        self.push_entry(entry);
        if let Some(snapshot) = snapshot {
            self.snapshots
                .resize(self.entries.len() - 1, Snapshot::default());
            self.snapshots.push_back(snapshot);
        }
        self.marked += u64::from(packet.ecn);
        if packet.ack_eliciting {
            self.eliciting += 1;
            self.silent = 0;
            return;
        }
        self.unanswered = self.unanswered.saturating_add(1);
        if self.silent < MAX_SILENT_PACKETS {
            self.silent += 1;
        } else if self.entries.front().is_some_and(|e| !e.is_in_flight()) {
            self.pop_front();
            self.settle();
        }
    }

    /// Packets that are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of the heap.
    #[cfg(test)]
    pub(super) fn heap(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
            + self.items.capacity() * size_of::<Item>()
            + self.snapshots.capacity() * size_of::<Snapshot>()
            + self.lost.capacity() * size_of::<Lost>()
    }

    /// Whether the peer acknowledges nothing, however much it is asked to.
    pub(super) fn is_ignored(&self, space: Space) -> bool {
        self.unanswered
            >= match space {
                Space::Data => MAX_UNANSWERED,
                Space::Initial | Space::Handshake => MAX_UNANSWERED_IN_HANDSHAKE,
            }
    }

    /// Whether no packet should be sent before some are acknowledged or lost.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= MAX_SENT_PACKETS
    }

    /// Whether the next packet should elicit an ACK.
    pub(super) fn wants_ping(&self) -> bool {
        self.silent >= PING_AFTER
    }

    /// Whether a packet is in flight that elicits an ACK.
    pub(super) fn has_eliciting(&self) -> bool {
        self.eliciting > 0
    }

    pub(super) fn largest_acked(&self) -> Option<u64> {
        self.largest_acked
    }

    /// Returns whether the number is larger than all before.
    pub(super) fn raise_largest_acked(&mut self, number: u64) -> bool {
        let raises = self.largest_acked.is_none_or(|largest| number > largest);
        if raises {
            self.largest_acked = Some(number);
            self.unanswered = 0;
        }
        raises
    }

    /// Whether one of the last numbers that were not used is in this range.
    pub(super) fn covers_last_skip(&self, smallest: u64, largest: u64) -> bool {
        self.last_skip
            .is_some_and(|skip| (smallest..=largest).contains(&skip))
    }

    /// The places of the entries of a range of numbers, which ends before [`SentPackets::end`].
    pub(super) fn places(&self, smallest: u64, largest: u64) -> std::ops::Range<usize> {
        let start = smallest.saturating_sub(self.first) as usize;
        let end = (largest + 1).saturating_sub(self.first) as usize;
        start..end
    }

    pub(super) fn number_at(&self, place: usize) -> u64 {
        self.first + place as u64
    }

    pub(super) fn get(&self, place: usize) -> Option<&Entry> {
        self.entries.get(place)
    }

    /// What the congestion controller noted when the packet was sent.
    pub(super) fn snapshot(&self, place: usize) -> Option<&Snapshot> {
        self.snapshots.get(place)
    }

    /// An outstanding packet is acknowledged or lost: its items are told, and it counts no more.
    pub(super) fn finish(
        &mut self,
        place: usize,
        fate: Fate,
        tell: &mut impl FnMut(Fate, Item),
    ) -> Entry {
        let entry = &mut self.entries[place];
        entry.status = Status::Done;
        let entry = *entry;
        self.eliciting -= u32::from(entry.is_ack_eliciting());
        self.tell_items(&entry, fate, tell);
        entry
    }

    fn tell_items(&self, entry: &Entry, fate: Fate, tell: &mut impl FnMut(Fate, Item)) {
        let start = entry.first_item.wrapping_sub(self.first_item) as usize;
        for item in self.items.range(start..start + usize::from(entry.items)) {
            tell(fate, *item);
        }
    }

    /// Removes what is done from the front.
    pub(super) fn settle(&mut self) {
        while self
            .entries
            .front()
            .is_some_and(|entry| entry.status != Status::Outstanding)
        {
            self.pop_front();
        }
        let capacity = self.entries.capacity().max(self.items.capacity());
        if self.entries.is_empty() && capacity > KEPT_CAPACITY {
            self.entries = VecDeque::new();
            self.items = VecDeque::new();
            self.snapshots = VecDeque::new();
        }
    }

    fn pop_front(&mut self) {
        let Some(entry) = self.entries.pop_front() else {
            return;
        };
        for _ in 0..entry.items {
            self.items.pop_front();
        }
        self.first_item = self.first_item.wrapping_add(entry.items.into());
        self.snapshots.pop_front();
        self.first += 1;
    }

    /// Bytes in flight on a path.
    pub(super) fn in_flight(&self, path: u8) -> u64 {
        self.entries
            .iter()
            .filter(|e| e.status == Status::Outstanding && e.path == path && e.is_in_flight())
            .map(|e| u64::from(e.size))
            .sum()
    }

    /// Tells all outstanding items as lost and forgets their packets.
    pub(super) fn restart(&mut self, tell: &mut impl FnMut(Fate, Item)) {
        for place in 0..self.entries.len() {
            if self.entries[place].status == Status::Outstanding {
                self.finish(place, Fate::Lost, tell);
            }
        }
        self.settle();
        self.loss_time = None;
    }

    /// Tells the items of the oldest packet that no probe has carried again yet, or else of the
    /// oldest. Returns whether there is one.
    pub(super) fn probe(&mut self, tell: &mut impl FnMut(Fate, Item)) -> bool {
        let candidate = |e: &Entry| {
            e.status == Status::Outstanding && e.is_ack_eliciting() && !e.is_mtu_probe()
        };
        let place = self
            .entries
            .iter()
            .position(|e| candidate(e) && e.flags & PROBED == 0)
            .or_else(|| self.entries.iter().position(candidate));
        let Some(place) = place else {
            return false;
        };
        self.entries[place].flags |= PROBED;
        let entry = self.entries[place];
        self.tell_items(&entry, Fate::Probe, tell);
        true
    }

    /// Remembers that a packet was declared lost.
    pub(super) fn remember_lost(&mut self, lost: Lost) {
        if self.lost.len() == MAX_LOST_REMEMBERED {
            self.lost.pop_front();
        }
        self.lost.push_back(lost);
    }

    /// Takes lost packets of a range, which have arrived after all.
    pub(super) fn take_lost(&mut self, smallest: u64, largest: u64, mut found: impl FnMut(Lost)) {
        // They are in the order of their numbers.
        let start = self.lost.partition_point(|lost| lost.number < smallest);
        let end = self.lost.partition_point(|lost| lost.number <= largest);
        if start < end {
            self.lost.drain(start..end).for_each(&mut found);
        }
    }

    /// Tells of losses from now on, or no more.
    pub(super) fn trace_losses(&mut self, on: bool) {
        self.losses = on.then(Box::default);
    }

    /// A packet is declared lost: tells so, if that is wanted.
    pub(super) fn note_loss(&mut self, place: usize, by_time: bool) {
        let number = self.number_at(place);
        if let Some(losses) = &mut self.losses {
            losses.0.push(TracedLoss {
                number,
                by_time,
                is_mtu_probe: self.entries[place].is_mtu_probe(),
            });
        }
    }

    /// What was lost since the last call.
    pub(super) fn take_losses(&mut self) -> Vec<TracedLoss> {
        (self.losses.as_mut()).map_or_else(Vec::new, |losses| std::mem::take(&mut losses.0))
    }

    /// Forgets lost packets that were declared lost before this time.
    pub(super) fn forget_lost(&mut self, before: Time) {
        while self.lost.front().is_some_and(|lost| lost.declared < before) {
            self.lost.pop_front();
        }
        if self.lost.is_empty() && self.lost.capacity() > KEPT_CAPACITY {
            self.lost = VecDeque::new();
        }
    }
}
