//! The connection ids that this end has issued, RFC 9000 section 5.1.

use crate::reset::ResetToken;
use crate::{Code, ConnectionId, Error};

/// Most ids that are issued at a time, however many the peer would hold: one in use, one for the
/// next path, and two in reserve while acknowledgements are under way.
pub(crate) const MAX_LOCAL_IDS: usize = 4;

/// An id that is issued: it routes packets here until the peer retires it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IssuedId {
    /// The sequence number.
    pub sequence: u64,
    /// The id.
    pub id: ConnectionId,
    /// What a stateless reset for it carries.
    pub reset_token: ResetToken,
}

/// Makes connection ids. They have to be unpredictable, and must not tell whose they are.
pub trait IdSource {
    /// An id that routes to this connection, and its reset token.
    fn new_id(&mut self) -> (ConnectionId, ResetToken);
    /// Packets with this id no longer belong to the connection.
    fn retire(&mut self, id: &ConnectionId);
}

/// All ids of this end.
#[derive(Debug)]
pub(crate) struct LocalIds {
    /// In the order of their sequence numbers.
    active: Vec<LocalId>,
    next_sequence: u64,
    /// How many the peer holds at most.
    limit: usize,
}

#[derive(Debug)]
struct LocalId {
    issued: IssuedId,
    is_to_send: bool,
}

impl LocalIds {
    /// With the id of the handshake, which has sequence number 0.
    pub(crate) fn new(id: ConnectionId, reset_token: ResetToken) -> Self {
        let first = LocalId {
            issued: IssuedId {
                sequence: 0,
                id,
                reset_token,
            },
            is_to_send: false,
        };
        Self {
            active: vec![first],
            next_sequence: 1,
            limit: 1,
        }
    }

    /// An id that the peer learns from the transport parameter `preferred_address`.
    pub(crate) fn add_preferred(&mut self, id: ConnectionId, reset_token: ResetToken) {
        self.add(id, reset_token, false);
    }

    fn add(&mut self, id: ConnectionId, reset_token: ResetToken, is_to_send: bool) {
        self.active.push(LocalId {
            issued: IssuedId {
                sequence: self.next_sequence,
                id,
                reset_token,
            },
            is_to_send,
        });
        self.next_sequence += 1;
    }

    /// Issues as many ids as the peer holds (`active_connection_id_limit`). A connection without
    /// ids of its own, as clients may be, issues none.
    pub(crate) fn issue(&mut self, peer_limit: u64, source: &mut impl IdSource) {
        let limit = usize::try_from(peer_limit).unwrap_or(usize::MAX);
        self.limit = limit.min(MAX_LOCAL_IDS);
        self.replenish(source);
    }

    fn replenish(&mut self, source: &mut impl IdSource) {
        if self.active.iter().any(|id| id.issued.id.is_empty()) {
            return;
        }
        while self.active.len() < self.limit {
            let (id, reset_token) = source.new_id();
            self.add(id, reset_token, true);
        }
    }

    /// RETIRE_CONNECTION_ID in a packet that was sent to `used` (section 19.16).
    ///
    /// # Errors
    /// A number that was not issued, or the one that the packet itself used.
    pub(crate) fn retire(
        &mut self,
        sequence: u64,
        used: &ConnectionId,
        source: &mut impl IdSource,
    ) -> Result<(), Error> {
        let violation = |reason| Err(Error::new(Code::PROTOCOL_VIOLATION, reason));
        if sequence >= self.next_sequence {
            return violation("retires a connection id that was not issued");
        }
        let at = (self.active.iter()).position(|id| id.issued.sequence == sequence);
        let Some(at) = at else {
            return Ok(()); // it was retired before
        };
        if self.active[at].issued.id == *used {
            return violation("retires the connection id of its own packet");
        }
        source.retire(&self.active[at].issued.id);
        self.active.remove(at);
        self.replenish(source);
        Ok(())
    }

    /// Whether a NEW_CONNECTION_ID frame is to be sent.
    pub(crate) fn has_to_send(&self) -> bool {
        self.active.iter().any(|id| id.is_to_send)
    }

    /// The next id to tell the peer about. It is taken as sent with [`LocalIds::on_sent`].
    pub(crate) fn to_send(&self) -> Option<&IssuedId> {
        (self.active.iter())
            .find(|id| id.is_to_send)
            .map(|id| &id.issued)
    }

    /// NEW_CONNECTION_ID with this sequence number was sent.
    pub(crate) fn on_sent(&mut self, sequence: u64) {
        self.set_to_send(sequence, false);
    }

    /// It was lost: to be sent again, unless the id was retired meanwhile.
    pub(crate) fn on_lost(&mut self, sequence: u64) {
        self.set_to_send(sequence, true);
    }

    fn set_to_send(&mut self, sequence: u64, is_to_send: bool) {
        let of = |id: &&mut LocalId| id.issued.sequence == sequence;
        if let Some(id) = self.active.iter_mut().find(of) {
            id.is_to_send = is_to_send;
        }
    }

    /// The ids that route packets here.
    pub(crate) fn active(&self) -> impl Iterator<Item = &ConnectionId> {
        self.active.iter().map(|id| &id.issued.id)
    }

    /// The id of the handshake, or the oldest one that is left.
    pub(crate) fn first(&self) -> ConnectionId {
        (self.active.first()).map_or(ConnectionId::EMPTY, |id| id.issued.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Counting {
        next: u8,
        retired: Vec<ConnectionId>,
    }

    impl IdSource for Counting {
        fn new_id(&mut self) -> (ConnectionId, ResetToken) {
            self.next += 1;
            let id = ConnectionId::new(&[self.next; 8]).expect("short enough");
            (id, ResetToken::new([self.next; 16]))
        }

        fn retire(&mut self, id: &ConnectionId) {
            self.retired.push(*id);
        }
    }

    fn first() -> (LocalIds, ConnectionId) {
        let id = ConnectionId::new(&[0xff; 8]).expect("short enough");
        (LocalIds::new(id, ResetToken::new([0xff; 16])), id)
    }

    fn take(ids: &mut LocalIds) -> Option<u64> {
        let sequence = ids.to_send()?.sequence;
        ids.on_sent(sequence);
        Some(sequence)
    }

    #[test]
    fn as_many_are_issued_as_the_peer_holds_and_no_more_than_four() {
        for (limit, expected) in [(2, 2), (3, 3), (4, 4), (u64::MAX, MAX_LOCAL_IDS)] {
            let (mut ids, _) = first();
            ids.issue(limit, &mut Counting::default());
            assert_eq!(ids.active().count(), expected);
            let sent: Vec<u64> = std::iter::from_fn(|| take(&mut ids)).collect();
            assert_eq!(sent, (1..expected as u64).collect::<Vec<_>>());
            assert!(!ids.has_to_send());
        }
    }

    #[test]
    fn what_is_retired_is_replaced_once() {
        let (mut ids, used) = first();
        let mut source = Counting::default();
        ids.issue(2, &mut source);
        assert_eq!(take(&mut ids), Some(1));
        ids.retire(1, &used, &mut source).expect("it was issued");
        ids.retire(1, &used, &mut source).expect("a repetition");
        assert_eq!(source.retired.len(), 1);
        assert_eq!((take(&mut ids), take(&mut ids)), (Some(2), None));
    }

    #[test]
    fn numbers_that_were_not_issued_and_the_id_in_use_are_not_retired() {
        let (mut ids, used) = first();
        let mut source = Counting::default();
        for wrong in [0, 1, u64::MAX] {
            let error = ids.retire(wrong, &used, &mut source).expect_err("wrong");
            assert_eq!(error.code, Code::PROTOCOL_VIOLATION);
        }
    }

    #[test]
    fn a_lost_frame_is_sent_again_unless_the_id_is_gone() {
        let (mut ids, used) = first();
        let mut source = Counting::default();
        ids.issue(3, &mut source);
        while take(&mut ids).is_some() {}
        ids.on_lost(2);
        assert_eq!(take(&mut ids), Some(2));
        ids.retire(2, &used, &mut source).expect("it was issued");
        take(&mut ids);
        ids.on_lost(2);
        assert!(!ids.has_to_send());
    }

    #[test]
    fn a_connection_without_ids_issues_none() {
        let mut ids = LocalIds::new(ConnectionId::EMPTY, ResetToken::new([0; 16]));
        ids.issue(8, &mut Counting::default());
        assert!(!ids.has_to_send());
    }
}
