//! The connection ids that the peer has issued, RFC 9000 section 5.1.

use crate::reset::ResetToken;
use crate::{Code, ConnectionId, Error};
use std::collections::VecDeque;

/// Ids that were retired and whose RETIRE_CONNECTION_ID the peer has not acknowledged, for each id
/// that it may have active. Section 5.1.2 asks for room for at least twice as many.
const RETIRED_PER_ACTIVE: usize = 3;

/// All ids of the peer.
#[derive(Debug)]
pub(crate) struct RemoteIds {
    /// In the order of their sequence numbers.
    active: Vec<RemoteId>,
    /// All below this one are retired, because the peer wants it or this end.
    retired_below: u64,
    /// Numbers above `retired_below` that are retired.
    retired_above: Vec<u64>,
    /// RETIRE_CONNECTION_ID frames to be sent.
    to_retire: VecDeque<u64>,
    /// Frames of those that were sent and not acknowledged.
    in_flight: usize,
    /// Our `active_connection_id_limit`.
    limit: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RemoteId {
    sequence: u64,
    id: ConnectionId,
    /// Unknown for the id of a client's handshake.
    reset_token: Option<ResetToken>,
    is_used: bool,
}

impl RemoteIds {
    /// With the id of the handshake, which has sequence number 0. `limit` is what this end
    /// announces as `active_connection_id_limit`, at least 2.
    pub(crate) fn new(id: ConnectionId, limit: u64) -> Self {
        Self {
            active: vec![RemoteId {
                sequence: 0,
                id,
                reset_token: None,
                is_used: true,
            }],
            retired_below: 0,
            retired_above: Vec::new(),
            to_retire: VecDeque::new(),
            in_flight: 0,
            limit: usize::try_from(limit).unwrap_or(usize::MAX).max(2),
        }
    }

    /// A client learns the server's choice (section 7.2).
    pub(crate) fn set_first(&mut self, id: ConnectionId) {
        if let Some(first) = self.active.first_mut() {
            first.id = id;
        }
    }

    /// The reset token of the handshake's id, from the transport parameters.
    pub(crate) fn set_first_token(&mut self, reset_token: ResetToken) {
        if let Some(first) = self.active.first_mut() {
            first.reset_token.get_or_insert(reset_token);
        }
    }

    /// NEW_CONNECTION_ID (section 19.15).
    ///
    /// # Errors
    /// The peer uses no connection ids, contradicts itself, or issues more than it may.
    pub(crate) fn on_new(
        &mut self,
        sequence: u64,
        retire_prior_to: u64,
        id: ConnectionId,
        reset_token: ResetToken,
    ) -> Result<(), Error> {
        let violation = |reason| Err(Error::new(Code::PROTOCOL_VIOLATION, reason));
        if self.active.iter().any(|known| known.id.is_empty()) {
            return violation("a connection id from a peer that uses none");
        }
        for known in &self.active {
            let is_same = known.id == id && known.reset_token == Some(reset_token);
            if known.sequence == sequence && !is_same {
                return violation("another connection id with the same number");
            }
            if known.sequence != sequence && known.id == id {
                return violation("the same connection id with another number");
            }
        }
        let is_known = (self.active.iter()).any(|known| known.sequence == sequence);
        if retire_prior_to > self.retired_below {
            self.retire_below(retire_prior_to);
        }
        if sequence < self.retired_below {
            if !is_known {
                self.note_retired(sequence);
            }
        } else if !is_known && !self.retired_above.contains(&sequence) {
            let at = (self.active).partition_point(|known| known.sequence < sequence);
            let new = RemoteId {
                sequence,
                id,
                reset_token: Some(reset_token),
                is_used: false,
            };
            self.active.insert(at, new);
        }
        if self.active.len() > self.limit
            || self.to_retire.len() + self.in_flight > self.limit * RETIRED_PER_ACTIVE
            || self.retired_above.len() > self.limit * RETIRED_PER_ACTIVE
        {
            return Err(Error::new(
                Code::CONNECTION_ID_LIMIT_ERROR,
                "more connection ids than active_connection_id_limit",
            ));
        }
        Ok(())
    }

    fn retire_below(&mut self, prior_to: u64) {
        self.retired_below = prior_to;
        self.retired_above.retain(|&sequence| sequence >= prior_to);
        let end = (self.active).partition_point(|known| known.sequence < prior_to);
        for old in self.active.drain(..end) {
            self.to_retire.push_back(old.sequence);
        }
    }

    /// An id that came too late: it was retired by `retire_prior_to` already (section 19.15).
    fn note_retired(&mut self, sequence: u64) {
        if !self.to_retire.contains(&sequence) {
            self.to_retire.push_back(sequence);
        }
    }

    /// Takes an id that was not used yet, for a new path. `None` if the peer has issued none.
    pub(crate) fn take_unused(&mut self) -> Option<(u64, ConnectionId)> {
        if let [only] = &self.active[..]
            && only.id.is_empty()
        {
            return Some((only.sequence, only.id));
        }
        let unused = self.active.iter_mut().find(|id| !id.is_used)?;
        unused.is_used = true;
        Some((unused.sequence, unused.id))
    }

    /// The id with this number, unless it is retired.
    pub(crate) fn get(&self, sequence: u64) -> Option<ConnectionId> {
        let known = (self.active.iter()).find(|known| known.sequence == sequence)?;
        Some(known.id)
    }

    /// This end stops using an id.
    pub(crate) fn retire(&mut self, sequence: u64) {
        let at = (self.active.iter()).position(|known| known.sequence == sequence);
        let Some(at) = at.filter(|&at| !self.active[at].id.is_empty()) else {
            return;
        };
        self.active.remove(at);
        self.retired_above.push(sequence);
        self.to_retire.push_back(sequence);
        // Numbers have no gaps, so that this ends with few.
        while let Some(at) =
            (self.retired_above.iter()).position(|&retired| retired == self.retired_below)
        {
            self.retired_above.swap_remove(at);
            self.retired_below += 1;
        }
    }

    /// Whether RETIRE_CONNECTION_ID is to be sent.
    pub(crate) fn has_to_retire(&self) -> bool {
        !self.to_retire.is_empty()
    }

    /// The number for the next RETIRE_CONNECTION_ID, which is sent now.
    pub(crate) fn take_to_retire(&mut self) -> Option<u64> {
        let sequence = self.to_retire.pop_front()?;
        self.in_flight += 1;
        Some(sequence)
    }

    /// RETIRE_CONNECTION_ID was acknowledged.
    pub(crate) fn on_retire_acked(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// RETIRE_CONNECTION_ID was lost.
    pub(crate) fn on_retire_lost(&mut self, sequence: u64) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.to_retire.push_back(sequence);
    }

    /// How many ids are remembered, in any way.
    pub(crate) fn remembered(&self) -> u64 {
        let retired = self.retired_above.len() + self.to_retire.len();
        (self.active.len() + retired + self.in_flight) as u64
    }

    /// Whether this is the reset token of an id in use (section 10.3.1). All are
    /// compared, each in constant time.
    pub(crate) fn is_reset(&self, token: ResetToken) -> bool {
        let used = self.active.iter().filter(|id| id.is_used);
        used.filter_map(|id| id.reset_token)
            .fold(false, |found, known| found | (known == token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> ConnectionId {
        ConnectionId::new(&[byte; 8]).expect("short enough")
    }

    fn token(byte: u8) -> ResetToken {
        ResetToken::new([byte; 16])
    }

    fn issue(ids: &mut RemoteIds, sequence: u8, retire_prior_to: u64) -> Result<(), Error> {
        let number = u64::from(sequence);
        ids.on_new(number, retire_prior_to, id(sequence), token(sequence))
    }

    #[test]
    fn an_id_is_used_for_one_path_only() {
        let mut ids = RemoteIds::new(id(0), 3);
        assert_eq!(ids.take_unused(), None);
        issue(&mut ids, 1, 0).expect("within the limit");
        issue(&mut ids, 1, 0).expect("a repetition");
        assert_eq!(ids.take_unused(), Some((1, id(1))));
        assert_eq!(ids.take_unused(), None);
        ids.retire(0);
        ids.retire(0);
        assert_eq!(ids.take_to_retire(), Some(0));
        assert_eq!(ids.take_to_retire(), None);
        ids.on_retire_lost(0);
        assert_eq!(ids.take_to_retire(), Some(0));
    }

    #[test]
    fn more_than_the_limit_end_the_connection() {
        let mut ids = RemoteIds::new(id(0), 2);
        issue(&mut ids, 1, 0).expect("within the limit");
        let error = issue(&mut ids, 2, 0).expect_err("a third");
        assert_eq!(error.code, Code::CONNECTION_ID_LIMIT_ERROR);
    }

    #[test]
    fn a_peer_cannot_have_ids_retired_without_end() {
        let mut ids = RemoteIds::new(id(0), 2);
        let error = (1..=100).find_map(|n| issue(&mut ids, n, u64::from(n)).err());
        let error = error.expect("acknowledges no retirement");
        assert_eq!(error.code, Code::CONNECTION_ID_LIMIT_ERROR);
        // One that acknowledges may go on.
        let mut ids = RemoteIds::new(id(0), 2);
        for n in 1..=100 {
            issue(&mut ids, n, u64::from(n)).expect("the last were acknowledged");
            while ids.take_to_retire().is_some() {
                ids.on_retire_acked();
            }
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let mut ids = RemoteIds::new(id(0), 4);
        issue(&mut ids, 1, 0).expect("new");
        for (sequence, other, reset) in [
            (1, id(2), token(1)),
            (1, id(1), token(2)),
            (2, id(1), token(1)),
        ] {
            let error = ids.on_new(sequence, 0, other, reset).expect_err("differs");
            assert_eq!(error.code, Code::PROTOCOL_VIOLATION);
        }
        let mut ids = RemoteIds::new(ConnectionId::EMPTY, 4);
        let error = issue(&mut ids, 1, 0).expect_err("it uses none");
        assert_eq!(error.code, Code::PROTOCOL_VIOLATION);
    }

    #[test]
    fn ids_below_retire_prior_to_are_retired_also_when_they_come_later() {
        let mut ids = RemoteIds::new(id(0), 3);
        issue(&mut ids, 3, 3).expect("room");
        assert_eq!((ids.get(0), ids.get(3)), (None, Some(id(3))));
        assert_eq!(ids.take_to_retire(), Some(0));
        issue(&mut ids, 2, 0).expect("late");
        assert_eq!(ids.take_to_retire(), Some(2));
        assert_eq!(ids.get(2), None);
    }

    #[test]
    fn resets_are_recognised_for_ids_that_were_used() {
        let mut ids = RemoteIds::new(id(0), 3);
        issue(&mut ids, 1, 0).expect("room");
        assert!(!ids.is_reset(token(1)));
        ids.take_unused();
        assert!(ids.is_reset(token(1)));
        assert!(!ids.is_reset(token(2)));
    }

    #[test]
    fn a_peer_that_moves_without_end_takes_no_more_memory() {
        let mut ids = RemoteIds::new(id(0), 4);
        for n in 1..1000_u64 {
            let new = ConnectionId::new(&n.to_be_bytes()).expect("short enough");
            ids.on_new(n, 0, new, token(1)).expect("within the limit");
            assert_eq!(ids.take_unused(), Some((n, new)));
            ids.retire(n - 1);
            while ids.take_to_retire().is_some() {
                ids.on_retire_acked();
            }
            assert!(ids.retired_above.is_empty());
        }
        // A repetition of one that was retired is retired again, and not used.
        let first = ConnectionId::new(&1_u64.to_be_bytes()).expect("short enough");
        ids.on_new(1, 0, first, token(1)).expect("late");
        assert_eq!(ids.take_to_retire(), Some(1));
        assert_eq!(ids.take_unused(), None);
    }
}
