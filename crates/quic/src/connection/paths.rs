//! The addresses of the peer, their validation, and what happens when it moves: RFC 9000 sections
//! 8.2 and 9.

use super::{CloseReason, Connection, Owner};
use crate::recovery::{OFF_PATH, Path};
use crate::trace::MigrationState;
use crate::{ConnectionId, Error, Side, Time};
use std::net::SocketAddr;

/// A path that does not answer for so many probe timeouts does not work (section 8.2.4).
const VALIDATION_PTOS: u32 = 3;

/// Challenges that are sent on a path before it counts as one that does not work.
const MAX_CHALLENGES: u8 = 3;

/// Addresses of both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// This end's.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
}

/// A challenge on a path.
#[derive(Debug, Clone, Copy)]
struct Challenge {
    /// What the last one said; an earlier answer counts as well.
    data: [[u8; 8]; MAX_CHALLENGES as usize],
    /// Which of them went in datagrams of full size.
    is_full: [bool; MAX_CHALLENGES as usize],
    sent: u8,
    /// The next one is to be sent then.
    next: Time,
    /// When the path counts as one that does not work.
    until: Time,
}

/// A path that is used.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) addresses: Addresses,
    /// Number of the peer's connection id on it.
    pub(super) id: u64,
    /// The id of this end that the peer uses on it; `None` before it was seen.
    own_id: Option<ConnectionId>,
    pub(super) path: Path,
    challenge: Option<Box<Challenge>>,
    /// PATH_RESPONSE that is due. Of several, only the last: a flood costs one at a time.
    response: Option<[u8; 8]>,
}

impl Route {
    fn new(addresses: Addresses, id: u64, path: Path) -> Self {
        Self {
            addresses,
            id,
            own_id: None,
            path,
            challenge: None,
            response: None,
        }
    }
}

/// All paths of a connection.
#[derive(Debug)]
pub(super) struct Paths {
    pub(super) current: Route,
    /// The path before, until the current one is validated.
    previous: Option<Box<Route>>,
    /// Another path on which the peer has sent a challenge, with what answers it.
    probed: Option<Box<Probed>>,
    /// A challenge of this datagram for which there was no id.
    unanswered: Option<(Addresses, [u8; 8])>,
    /// The tag of the next path.
    next_tag: u8,
    /// Bytes of the last datagram.
    datagram_len: usize,
}

/// A path that the peer tries, and this end does not use.
#[derive(Debug)]
struct Probed {
    addresses: Addresses,
    id: u64,
    /// Bytes that may be sent there (section 8.1): three times what came.
    credit: usize,
    response: Option<[u8; 8]>,
}

/// A frame about a path that is to be sent on it.
#[derive(Debug, Clone, Copy)]
pub(super) enum PathFrame {
    Challenge([u8; 8]),
    Response([u8; 8]),
}

/// A datagram of a path that is not the current one.
#[derive(Debug, Clone, Copy)]
pub(super) struct OffPath {
    pub(super) addresses: Addresses,
    pub(super) id: ConnectionId,
    pub(super) frame: PathFrame,
    /// Most bytes of the datagram.
    pub(super) most: usize,
}

impl Paths {
    pub(super) fn new(addresses: Addresses, path: Path) -> Self {
        Self {
            current: Route::new(addresses, 0, path),
            previous: None,
            probed: None,
            unanswered: None,
            next_tag: 1,
            datagram_len: 0,
        }
    }
}

impl Connection {
    /// A datagram came, whatever is in it. Returns whether it is to be looked at.
    pub(super) fn note_datagram(&mut self, addresses: Addresses, len: usize) -> bool {
        self.paths.datagram_len = len;
        self.paths.unanswered = None;
        if addresses == self.paths.current.addresses {
            self.paths.current.path.on_datagram_received(len);
            return true;
        }
        if let Some(previous) = &mut self.paths.previous
            && previous.addresses == addresses
        {
            previous.path.on_datagram_received(len);
            return true;
        }
        if let Some(probed) = &mut self.paths.probed
            && probed.addresses == addresses
        {
            probed.credit = probed.credit.saturating_add(3 * len);
            return true;
        }
        // Section 9: a peer does not move before the handshake is confirmed. Servers do not move.
        match self.side {
            Side::Server => self.is_confirmed,
            Side::Client => false,
        }
    }

    /// PATH_CHALLENGE.
    pub(super) fn note_challenge(&mut self, addresses: Addresses, data: [u8; 8]) {
        if self.paths.current.addresses == addresses {
            self.paths.current.response = Some(data);
            return;
        }
        if let Some(previous) = &mut self.paths.previous
            && previous.addresses == addresses
        {
            previous.response = Some(data);
            return;
        }
        if let Some(probed) = &mut self.paths.probed
            && probed.addresses == addresses
        {
            probed.response = Some(data);
            return;
        }
        // A path that was tried before is given up, and its id with it.
        if let Some(probed) = self.paths.probed.take() {
            self.remote_ids.retire(probed.id);
        }
        // Section 9.5: without an id that was not used elsewhere there is no answer, unless the
        // packet shows that the peer has moved.
        let Some((id, _)) = self.remote_ids.take_unused() else {
            self.paths.unanswered = Some((addresses, data));
            return;
        };
        self.trace_migration(MigrationState::Probing, addresses);
        self.paths.probed = Some(Box::new(Probed {
            addresses,
            id,
            credit: 3 * self.paths.datagram_len,
            response: Some(data),
        }));
    }

    /// PATH_RESPONSE. One that answers nothing is ignored: it may be late.
    pub(super) fn note_response(&mut self, now: Time, data: [u8; 8]) {
        let answers = |route: &Route| {
            let challenge = route.challenge.as_ref();
            challenge.is_some_and(|challenge| challenge.place(data).is_some())
        };
        if answers(&self.paths.current) {
            let challenge = self.paths.current.challenge.take();
            self.paths.current.path.set_validated();
            let is_full = challenge.is_some_and(|challenge| {
                (challenge.place(data)).is_some_and(|place| challenge.is_full[place])
            });
            if !is_full {
                // Section 8.2.1: the address is the peer's; whether the path carries datagrams of
                // full size is asked now that they may be sent.
                return self.challenge_current(now);
            }
            self.trace_migration(MigrationState::Complete, self.paths.current.addresses);
            if let Some(previous) = self.paths.previous.take()
                && previous.id != self.paths.current.id
            {
                self.remote_ids.retire(previous.id);
            }
            let most = (self.settings.max_datagram_size).min(self.peer.max_udp_payload_size);
            self.paths.current.path.set_mtu_ceiling(most);
        } else if self.paths.previous.as_deref().is_some_and(answers) {
            // The peer is still at its former address: somebody else sent its packet from a new
            // one, or a copy of it (section 9.3.3). Its next packet decides.
            if let Some(previous) = &mut self.paths.previous {
                previous.challenge = None;
            }
        }
    }

    /// The newest packet, which did more than to probe, came from this address: if it is another
    /// one, the peer has moved (section 9.3).
    pub(super) fn note_address(&mut self, now: Time, addresses: Addresses, own_id: &ConnectionId) {
        let current = &mut self.paths.current;
        if current.addresses == addresses {
            current.own_id = Some(*own_id);
            return;
        }
        if self.side.is_client() {
            return;
        }
        let is_preferred = self.settings.is_preferred(addresses.local);
        if !self.settings.migration
            && !is_preferred
            && current.addresses.remote.ip() != addresses.remote.ip()
        {
            return;
        }
        if let Some(previous) = self.paths.previous.take_if(|p| p.addresses == addresses) {
            self.return_to(*previous);
            self.paths.current.own_id = Some(*own_id);
            return;
        }
        // A peer that has not changed its id does not know that its address has changed
        // (section 9.5); the id of the other end need not change then either.
        let id = match &mut self.paths.probed {
            Some(probed) if probed.addresses == addresses => Some(probed.id),
            _ if self.paths.current.own_id == Some(*own_id) => Some(self.paths.current.id),
            _ => self.remote_ids.take_unused().map(|(id, _)| id),
        };
        let Some(id) = id else {
            return;
        };
        // What it has asked there is still to be answered.
        let unanswered = self.paths.unanswered.take();
        let mut response =
            unanswered.and_then(|(asked, data)| (asked == addresses).then_some(data));
        if let Some(probed) = self.paths.probed.take() {
            if probed.addresses == addresses {
                response = probed.response;
            }
            if probed.id != id {
                self.remote_ids.retire(probed.id);
            }
        }
        self.move_to(now, addresses, id, own_id);
        self.paths.current.response = response;
    }

    fn move_to(&mut self, now: Time, addresses: Addresses, id: u64, own_id: &ConnectionId) {
        self.trace_migration(MigrationState::Started, addresses);
        self.counters.migrations += 1;
        let tag = self.paths.next_tag;
        self.paths.next_tag = tag.wrapping_add(1) % OFF_PATH;
        let path = Path::new(tag, &self.settings.recovery(), false, now);
        let mut route = Route::new(addresses, id, path);
        route.own_id = Some(*own_id);
        // The datagram that has moved it.
        (route.path).on_datagram_received(self.paths.datagram_len);
        self.recovery.switch_path(&mut route.path);
        let before = std::mem::replace(&mut self.paths.current, route);
        self.challenge_current(now);
        match &self.paths.previous {
            // Only a path that worked is worth going back to.
            None if before.path.is_validated() => {
                self.paths.previous = Some(Box::new(before));
                self.challenge_previous(now);
            }
            _ => {
                let is_used = |route: &Route| route.id == before.id;
                if !is_used(&self.paths.current)
                    && !self.paths.previous.as_deref().is_some_and(is_used)
                {
                    self.remote_ids.retire(before.id);
                }
            }
        }
    }

    /// The peer is where it was before.
    fn return_to(&mut self, mut previous: Route) {
        self.trace_migration(MigrationState::Abandoned, previous.addresses);
        self.counters.migrations += 1;
        // It was validated before: an answer that gets lost now does not end the connection.
        previous.challenge = None;
        self.recovery.switch_path(&mut previous.path);
        let left = std::mem::replace(&mut self.paths.current, previous);
        if left.id != self.paths.current.id {
            self.remote_ids.retire(left.id);
        }
    }

    fn challenge_current(&mut self, now: Time) {
        let until = now + VALIDATION_PTOS * self.pto();
        self.paths.current.challenge = Some(Box::new(Challenge::new(now, until)));
    }

    fn challenge_previous(&mut self, now: Time) {
        let until = now + VALIDATION_PTOS * self.pto();
        if let Some(previous) = &mut self.paths.previous {
            previous.challenge = Some(Box::new(Challenge::new(now, until)));
        }
    }

    /// The challenge of the packet that is being built goes in a datagram of full size, or not.
    pub(super) fn note_challenge_size(&mut self, is_full: bool) {
        if let Some(challenge) = &mut self.paths.current.challenge
            && let Some(last) = challenge.sent.checked_sub(1)
        {
            challenge.is_full[usize::from(last)] = is_full;
        }
    }

    /// The peer has retired the id of the current path: another one is used from now on.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn replace_retired_id(&mut self) -> Result<(), Error> {
        if self.remote_ids.get(self.paths.current.id).is_none() {
            let unused = self.remote_ids.take_unused().map(|(id, _)| id);
            // Rather give up another path than this one.
            let Some(id) = unused.or_else(|| self.take_id_of_other_path()) else {
                let reason = "all connection ids are retired";
                return Err(Error::new(crate::Code::PROTOCOL_VIOLATION, reason));
            };
            self.paths.current.id = id;
        }
        if let Some(previous) = &self.paths.previous
            && self.remote_ids.get(previous.id).is_none()
        {
            self.paths.previous = None;
        }
        if let Some(probed) = &self.paths.probed
            && self.remote_ids.get(probed.id).is_none()
        {
            self.paths.probed = None;
        }
        Ok(())
    }

    fn take_id_of_other_path(&mut self) -> Option<u64> {
        let probed = self.paths.probed.take().map(|probed| probed.id);
        let previous = self.paths.previous.as_ref().map(|previous| previous.id);
        let mut ids = probed.into_iter().chain(previous);
        ids.find(|&id| self.remote_ids.get(id).is_some())
    }

    /// The peer's id on the current path.
    pub(super) fn remote_id(&self) -> ConnectionId {
        (self.remote_ids.get(self.paths.current.id)).unwrap_or(ConnectionId::EMPTY)
    }

    /// The next frame about the current path.
    pub(super) fn take_path_frame(
        &mut self,
        now: Time,
        owner: &mut impl Owner,
    ) -> Option<PathFrame> {
        let pto = self.pto();
        self.paths.current.take_frame(now, pto, owner)
    }

    /// Whether there is one.
    pub(super) fn has_path_frame(&self, now: Time) -> bool {
        self.paths.current.has_frame(now)
    }

    /// Whether the current path is to be asked now.
    pub(super) fn has_challenge_due(&self, now: Time) -> bool {
        let challenge = self.paths.current.challenge.as_deref();
        challenge.is_some_and(|challenge| challenge.is_due(now))
    }

    /// What is to be sent on another path than the current one.
    pub(super) fn take_off_path(&mut self, now: Time, owner: &mut impl Owner) -> Option<OffPath> {
        let pto = self.pto();
        if let Some(probed) = &mut self.paths.probed
            && let Some(data) = probed.response.take()
        {
            let most = probed.credit.min(1200);
            probed.credit -= most;
            return Some(OffPath {
                addresses: probed.addresses,
                id: self.remote_ids.get(probed.id)?,
                frame: PathFrame::Response(data),
                most,
            });
        }
        let previous = self.paths.previous.as_deref_mut()?;
        let frame = previous.take_frame(now, pto, owner)?;
        Some(OffPath {
            addresses: previous.addresses,
            id: self.remote_ids.get(previous.id)?,
            frame,
            most: 1200,
        })
    }

    /// Whether there is something to send on another path.
    pub(super) fn has_off_path(&self, now: Time) -> bool {
        let probed = self.paths.probed.as_ref();
        probed.is_some_and(|probed| probed.response.is_some())
            || (self.paths.previous.as_ref()).is_some_and(|previous| previous.has_frame(now))
    }

    /// When something is to be done about paths.
    pub(super) fn path_timeout(&self) -> Option<Time> {
        let of = |route: &Route, may_send: bool| {
            let challenge = route.challenge.as_ref()?;
            Some(match may_send && challenge.sent < MAX_CHALLENGES {
                true => challenge.next.min(challenge.until),
                false => challenge.until,
            })
        };
        let previous = self.paths.previous.as_deref();
        let previous = previous.and_then(|previous| of(previous, true));
        let current = of(&self.paths.current, !self.is_held_back());
        current.into_iter().chain(previous).min()
    }

    /// Gives up paths that do not answer (section 9.3.2).
    pub(super) fn expire_paths(&mut self, now: Time) {
        let is_over = |route: &Route| {
            (route.challenge.as_ref()).is_some_and(|challenge| challenge.until <= now)
        };
        if self.paths.previous.as_deref().is_some_and(is_over)
            && let Some(previous) = &mut self.paths.previous
        {
            previous.challenge = None;
        }
        if !is_over(&self.paths.current) {
            return;
        }
        match self.paths.previous.take() {
            Some(previous) => self.return_to(*previous),
            None => self.drop_silently(CloseReason::NoPath),
        }
    }
}

impl Challenge {
    fn new(now: Time, until: Time) -> Self {
        Self {
            data: [[0; 8]; MAX_CHALLENGES as usize],
            is_full: [false; MAX_CHALLENGES as usize],
            sent: 0,
            next: now,
            until,
        }
    }

    /// Whether another one is to be sent.
    fn is_due(&self, now: Time) -> bool {
        self.sent < MAX_CHALLENGES && self.next <= now
    }

    /// Which of those that were sent this answers.
    fn place(&self, data: [u8; 8]) -> Option<usize> {
        let sent = &self.data[..usize::from(self.sent)];
        sent.iter().position(|known| *known == data)
    }
}

impl Route {
    /// What the last challenge on it said, until it is answered.
    #[cfg(test)]
    pub(super) fn asked(&self) -> Option<[u8; 8]> {
        let challenge = self.challenge.as_ref()?;
        let last = challenge.sent.checked_sub(1)?;
        Some(challenge.data[usize::from(last)])
    }

    fn has_frame(&self, now: Time) -> bool {
        let challenge = self.challenge.as_ref();
        self.response.is_some() || challenge.is_some_and(|challenge| challenge.is_due(now))
    }

    fn take_frame(
        &mut self,
        now: Time,
        pto: std::time::Duration,
        owner: &mut impl Owner,
    ) -> Option<PathFrame> {
        if let Some(data) = self.response.take() {
            return Some(PathFrame::Response(data));
        }
        let challenge = self.challenge.as_mut()?;
        if !challenge.is_due(now) {
            return None;
        }
        let data = owner.random().to_be_bytes();
        challenge.data[usize::from(challenge.sent)] = data;
        challenge.sent += 1;
        challenge.next = now + pto;
        Some(PathFrame::Challenge(data))
    }
}
