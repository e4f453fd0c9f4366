//! TLS 1.3 without self-contained tickets: `ssl_session_tickets off` with a cache.
//!
//! TLS 1.3 has no session ids; a client always resumes with a ticket. So the ticket here is only a
//! name, `"SLS1" | 32 random bytes | zeros`, and the session is in the cache and, if there is one,
//! in the store of all nodes. The zeros make it as long as the session, since libssl's buffer for
//! the opened ticket is exactly as long as the ticket. The same cache serves TLS 1.2 by session id.

use std::fmt;
use std::sync::Arc;

use sealane_awslc::{
    Miss, Secret, SessionFacts, SessionStore, TicketCipher, TicketOpened, fill_random,
};

use super::cache::{MAX_ID_BYTES, SessionCache};
use super::store::SharedSessions;

const MAGIC: &[u8; 4] = b"SLS1";
const HEADER_BYTES: usize = MAGIC.len() + MAX_ID_BYTES;

/// Where sessions are kept: a cache of this process and the store of all nodes.
#[derive(Debug)]
pub(crate) struct KeptSessions {
    pub(crate) cache: Arc<SessionCache>,
    pub(crate) shared: Option<SharedSessions>,
}

impl KeptSessions {
    fn keep(&self, id: &[u8], session: &[u8], expires_s: u64, now_s: u64) {
        self.cache.keep(id, session, expires_s, now_s);
        if let Some(shared) = &self.shared {
            let lifetime_s = expires_s.saturating_sub(now_s);
            let key = shared.seal.session_key(id);
            let value = shared.seal.seal(&key, session);
            let lifetime_s = u32::try_from(lifetime_s).unwrap_or(u32::MAX).max(1);
            shared.store.put(key, value, lifetime_s);
        }
    }
}

impl SessionStore for KeptSessions {
    fn insert(&self, id: &[u8], session: Secret, expires_s: u64, now_s: u64) {
        self.keep(id, session.expose(), expires_s, now_s);
    }

    fn get(&self, id: &[u8], target: &mut Vec<u8>, now_s: u64) -> Result<(), Miss> {
        self.cache.find(id, target, now_s)
    }
}

/// Tickets that name a session in the cache.
pub(crate) struct OpaqueTickets(pub(crate) Arc<KeptSessions>);

impl TicketCipher for OpaqueTickets {
    fn overhead_bytes(&self) -> usize {
        HEADER_BYTES
    }

    fn seal(&self, plain: &[u8], target: &mut [u8], now_s: u64) -> Option<usize> {
        let length = plain.len().max(HEADER_BYTES);
        let ticket = target.get_mut(..length)?;
        let (header, padding) = ticket.split_at_mut(HEADER_BYTES);
        let (magic, id) = header.split_at_mut(MAGIC.len());
        magic.copy_from_slice(MAGIC);
        fill_random(id);
        padding.fill(0);
        let facts = SessionFacts::parse(plain)?;
        self.0.keep(id, plain, facts.expires_s(), now_s);
        Some(length)
    }

    fn open(&self, ticket: &[u8], target: &mut [u8], now_s: u64) -> TicketOpened {
        let Some(id) = id_in(ticket) else {
            return TicketOpened::Miss(Miss::UnknownKey);
        };
        let mut session = zeroize::Zeroizing::new(Vec::new());
        match self.0.cache.find(id, &mut session, now_s) {
            Ok(()) => match target.get_mut(..session.len()) {
                Some(room) => {
                    room.copy_from_slice(&session);
                    TicketOpened::Plain(session.len())
                }
                None => TicketOpened::Miss(Miss::Damaged),
            },
            Err(miss) => TicketOpened::Miss(miss),
        }
    }
}

impl fmt::Debug for OpaqueTickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpaqueTickets")
    }
}

/// The name of the session in a ticket of this kind.
pub(crate) fn id_in(ticket: &[u8]) -> Option<&[u8]> {
    let (header, padding) = ticket.split_at_checked(HEADER_BYTES)?;
    let (magic, id) = header.split_at(MAGIC.len());
    (magic == MAGIC && padding.iter().all(|byte| *byte == 0)).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tickets_of_this_form_have_an_id() {
        let ticket = [&MAGIC[..], &[7; 32], &[0; 100]].concat();
        assert_eq!(id_in(&ticket), Some(&[7; 32][..]));
        assert_eq!(id_in(&ticket[..HEADER_BYTES]), Some(&[7; 32][..]));
        assert_eq!(id_in(&ticket[..HEADER_BYTES - 1]), None);
        for at in [0, HEADER_BYTES, ticket.len() - 1] {
            let mut altered = ticket.clone();
            altered[at] ^= 1;
            assert_eq!(id_in(&altered), None, "byte {at}");
        }
    }
}
