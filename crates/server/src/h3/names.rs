//! The requests of a connection by the ids of their streams.

use super::output::Output;
use crate::multiplexed::{TurnTime, WireName, ms};
use sealane_http::h3::Code;
use sealane_io::stream::ChainReader;
use sealane_quic::StreamId;
use std::time::Duration;

/// What a request is called: its stream, and a small number that no other has at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamName {
    pub(super) id: StreamId,
    slot: u32,
}

impl WireName for StreamName {
    fn slot(self) -> usize {
        self.slot as usize
    }
}

/// What a request has to send.
#[derive(Default)]
pub(super) struct RequestOutput {
    /// Id of its stream.
    wire: u64,
    pub(super) output: Output,
    /// Reads the files of its body.
    pub(super) reader: ChainReader,
    /// It is in the queue of streams that are to be filled.
    pub(super) is_queued: bool,
    /// Nothing is written any more: the end was, or the stream was reset.
    pub(super) is_over: bool,
    /// The stream is reset with this code when the client has everything.
    pub(super) reset_behind: Option<Code>,
    /// Bytes of the request's body that were handed to its exchange, and for which the client may
    /// not send others yet.
    pub(super) unreleased: u64,
    /// Offset behind what the transport was told of.
    pub(super) announced: u64,
    /// When the client last took something, or began to have something to take, in milliseconds of
    /// the coarse clock.
    pub(super) moved_ms: u64,
    /// `send_timeout` of the location, once there is a response.
    pub(super) send_timeout: Option<Duration>,
}

/// All requests whose streams the transport knows.
#[derive(Default)]
pub(super) struct RequestSlots {
    /// Ascending by id, each with its slot.
    by_id: Vec<(u64, u32)>,
    slots: Vec<Option<Box<RequestOutput>>>,
    free: Vec<u32>,
}

impl RequestSlots {
    /// The name of a request, which is made if there is none.
    pub(super) fn name(&mut self, id: StreamId) -> StreamName {
        let wire = id.to_wire();
        // Nearly always behind all others.
        let at = match self.by_id.last() {
            Some(&(last, _)) if last < wire => self.by_id.len(),
            _ => match self.by_id.binary_search_by_key(&wire, |&(known, _)| known) {
                Ok(at) => {
                    let slot = self.by_id[at].1;
                    return StreamName { id, slot };
                }
                Err(at) => at,
            },
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32 // the transport limits streams to 65,536
        });
        self.slots[slot as usize] = Some(Box::new(RequestOutput {
            wire,
            ..RequestOutput::default()
        }));
        self.by_id.insert(at, (wire, slot));
        StreamName { id, slot }
    }

    /// The name of a request that is known.
    pub(super) fn find(&self, id: StreamId) -> Option<StreamName> {
        let wire = id.to_wire();
        let at = self.by_id.binary_search_by_key(&wire, |&(known, _)| known);
        let slot = self.by_id[at.ok()?].1;
        Some(StreamName { id, slot })
    }

    /// What a request has to send. Its slot may be another one's by now.
    pub(super) fn sending(&mut self, name: StreamName) -> Option<&mut RequestOutput> {
        let request = self.slots.get_mut(name.slot())?.as_deref_mut()?;
        (request.wire == name.id.to_wire()).then_some(request)
    }

    /// Since when the client has not taken what a request has to send, if there is anything.
    pub(super) fn blocked_since_ms(&self, name: StreamName) -> Option<u64> {
        let request = self.slots.get(name.slot())?.as_deref()?;
        let is_blocked = request.wire == name.id.to_wire() && request.output.unsent() > 0;
        is_blocked.then_some(request.moved_ms)
    }

    /// A request on which nothing is written any more, and of which the client has taken nothing
    /// for `send_timeout`, or has not ended its own side; `default_timeout` for those without a
    /// response.
    pub(super) fn find_late(
        &self,
        time: TurnTime,
        default_timeout: Duration,
    ) -> Option<StreamName> {
        let is_late = |request: &RequestOutput| {
            let timeout = request.send_timeout.unwrap_or(default_timeout);
            request.is_over && time.left_ms(request.moved_ms, ms(timeout)).is_none()
        };
        self.by_id.iter().find_map(|&(wire, slot)| {
            let request = self.slots.get(slot as usize)?.as_deref()?;
            let id = StreamId::from_wire(wire);
            is_late(request).then_some(StreamName { id, slot })
        })
    }

    /// The transport has forgotten the stream.
    pub(super) fn forget(&mut self, id: StreamId) {
        let wire = id.to_wire();
        let at = self.by_id.binary_search_by_key(&wire, |&(known, _)| known);
        if let Ok(at) = at {
            let (_, slot) = self.by_id.remove(at);
            self.slots[slot as usize] = None;
            self.free.push(slot);
        }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Gives memory back while there are none.
    pub(super) fn trim(&mut self) {
        if self.is_empty() {
            *self = RequestSlots::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(wire: u64) -> StreamId {
        StreamId::from_wire(wire)
    }

    #[test]
    fn slots_are_used_again_and_names_tell_streams_apart() {
        let mut requests = RequestSlots::default();
        let first = requests.name(id(0));
        let second = requests.name(id(8));
        let between = requests.name(id(4));
        assert_eq!(requests.name(id(8)), second);
        assert_ne!(between.slot(), second.slot());
        requests.forget(id(0));
        assert_eq!(requests.find(id(0)), None);
        let next = requests.name(id(12));
        assert_eq!(next.slot(), first.slot());
        assert_ne!(next, first);
        assert!(requests.sending(next).is_some() && requests.sending(first).is_none());
        for wire in [4, 8, 12] {
            requests.forget(id(wire));
            requests.forget(id(wire));
        }
        assert!(requests.is_empty());
    }
}
