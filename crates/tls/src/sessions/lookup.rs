//! What must be looked up before libssl reads a ClientHello.
//!
//! libssl's callbacks must answer at once. So anything that may have to wait for the store of all
//! nodes, a session or a claim on early data, is looked up beforehand from the parsed hello, and
//! libssl finds the result prepared. If nothing can wait and no early data is at stake, nothing is
//! done here: libssl's callbacks open the ticket or look into the cache themselves.
//!
//! ```text
//! begin --+--------------------------------------> Ready
//!         |                                          ^
//!         +--> Wait(session) --+--> Wait(claim) -----+
//!         |                    +---------------------+
//!         +--------------------> Wait(claim) --------+
//! ```

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use sealane_awslc::{Miss, Prefetched, ProtocolVersion, Secret, TicketCipher, TicketOpened};
use tokio::sync::oneshot;
use zeroize::Zeroizing;

use super::cache::SessionCache;
use super::early_data::{self, EarlyData};
use super::opaque::{self, KeptSessions};
use super::replay::WINDOW_S;
use super::ring::TicketRing;
use super::stats::{EarlyVerdict, Missed, SessionStats};
use super::store::{Reply, SharedSessions};
use crate::client_hello::{ClientHello, Psk};

/// How one server resumes sessions.
#[derive(Debug)]
pub(crate) struct Resumption {
    /// Self-contained tickets. With `false` and a cache, TLS 1.3 gets opaque ones.
    pub(crate) tickets: bool,
    pub(crate) ring: Arc<TicketRing>,
    pub(crate) kept: Option<Arc<KeptSessions>>,
    /// The store; claims go there even if no session is kept in it.
    pub(crate) shared: Option<SharedSessions>,
    pub(crate) early: Option<EarlyData>,
    pub(crate) stats: Arc<SessionStats>,
}

/// A ClientHello for which something is looked up.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    /// What will be negotiated.
    pub(crate) version: Option<ProtocolVersion>,
    pub(crate) hello: &'a ClientHello<'a>,
    /// The hello as a handshake message.
    pub(crate) message: &'a [u8],
    /// What the sessions of the server's certificates are bound to.
    pub(crate) context_id: &'a [u8; 32],
    pub(crate) now_s: u64,
}

/// The input with which libssl is started.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// The session that the client offers, or why there is none.
    pub(crate) prefetched: Option<Prefetched>,
    /// The session came from the store of all nodes.
    pub(crate) from_store: bool,
    /// Tickets are not used on this connection.
    pub(crate) without_tickets: bool,
    /// Early data may be read.
    pub(crate) early_data: bool,
    /// Why it may not.
    pub(crate) refused: Option<EarlyVerdict>,
    /// Why the store gave no answer.
    pub(crate) store_failure: Option<Missed>,
}

impl Prepared {
    /// Whether none can be accepted, whatever libssl is allowed: it is not offered, or there is no
    /// session that it could belong to.
    pub(crate) fn is_free_of_early_data(&self, hello: Option<&ClientHello<'_>>) -> bool {
        hello.is_some_and(|hello| !hello.offers_early_data())
            || self.prefetched.as_ref().is_some_and(Prefetched::is_miss)
    }
}

/// The progress of the preparation.
#[derive(Debug)]
pub(crate) enum LookupStep {
    Ready(Prepared),
    Wait(Lookup),
}

/// A question to the store, in progress.
pub(crate) struct Lookup {
    question: Question,
    answer: Answer,
    /// What is known already.
    prepared: Prepared,
    timeout: Duration,
}

enum Question {
    Session(oneshot::Receiver<Option<Vec<u8>>>),
    Claim(oneshot::Receiver<bool>),
}

enum Answer {
    Awaited,
    Session(Option<Vec<u8>>),
    Claim(bool),
    /// The store is down or overloaded.
    Dropped,
    TimedOut,
}

impl Lookup {
    /// Waits for the answer.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !matches!(self.answer, Answer::Awaited) {
            return Poll::Ready(());
        }
        self.answer = match &mut self.question {
            Question::Session(receiver) => match Pin::new(receiver).poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(answer) => answer.map_or(Answer::Dropped, Answer::Session),
            },
            Question::Claim(receiver) => match Pin::new(receiver).poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(answer) => answer.map_or(Answer::Dropped, Answer::Claim),
            },
        };
        Poll::Ready(())
    }

    pub(crate) fn time_out(&mut self) {
        if matches!(self.answer, Answer::Awaited) {
            self.answer = Answer::TimedOut;
        }
    }

    pub(crate) fn is_answered(&self) -> bool {
        !matches!(self.answer, Answer::Awaited)
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.question {
            Question::Session(_) => "Lookup(session)",
            Question::Claim(_) => "Lookup(claim)",
        })
    }
}

/// The session that the hello offers, if it matters.
enum Offer<'a> {
    /// A pre-shared key of TLS 1.3.
    Psk(Psk<'a>),
    /// A session id of TLS 1.2 or below.
    Id(&'a [u8]),
}

impl Offer<'_> {
    /// What libssl will ask for.
    fn key(&self) -> &[u8] {
        match self {
            Offer::Psk(psk) => psk.ticket,
            Offer::Id(id) => id,
        }
    }
}

impl Resumption {
    pub(super) fn is_opaque(&self) -> bool {
        !self.tickets && self.kept.is_some()
    }

    fn cache(&self) -> Option<&SessionCache> {
        self.kept.as_deref().map(|kept| &*kept.cache)
    }

    /// The store, if sessions are kept in it.
    fn session_store(&self) -> Option<&SharedSessions> {
        self.kept.as_ref().and(self.shared.as_ref())
    }

    /// Whether [`begin`](Self::begin) may have something to do.
    pub(crate) fn is_involved(&self) -> bool {
        self.is_opaque() || self.session_store().is_some() || self.early.is_some()
    }

    /// Looks up what can be looked up at once, and asks the store for the rest.
    pub(crate) fn begin(&self, asking: Asking<'_>) -> LookupStep {
        let Asking { hello, now_s, .. } = asking;
        let mut prepared = Prepared::default();
        let Some(version) = asking.version else {
            return LookupStep::Ready(prepared);
        };
        prepared.without_tickets = version < ProtocolVersion::Tls13 && !self.tickets;
        let Some(offer) = self.offer(version, hello) else {
            return LookupStep::Ready(prepared);
        };
        let mut session = Zeroizing::new(Vec::new());
        match self.find_here(&offer, &mut session, now_s) {
            Ok(()) => {
                let session = Secret::new(std::mem::take(&mut *session));
                self.found(prepared, &offer, session, asking)
            }
            Err(Miss::NotFound) if self.session_store().is_some() => {
                self.ask_for_session(prepared, &offer)
            }
            Err(miss) => LookupStep::Ready(not_found(prepared, &offer, miss, hello)),
        }
    }

    /// Goes on with the store's answer.
    pub(crate) fn go_on(&self, lookup: Lookup, asking: Asking<'_>) -> LookupStep {
        let Asking {
            version,
            hello,
            now_s,
            ..
        } = asking;
        let mut prepared = lookup.prepared;
        let failure = match lookup.answer {
            Answer::Claim(true) => {
                prepared.early_data = true;
                return LookupStep::Ready(prepared);
            }
            Answer::Claim(false) => {
                prepared.refused = Some(EarlyVerdict::Replayed);
                return LookupStep::Ready(prepared);
            }
            Answer::Session(value) => {
                let Some(offer) = version.and_then(|version| self.offer(version, hello)) else {
                    return LookupStep::Ready(prepared);
                };
                return match self.open_value(&offer, value, now_s) {
                    Ok(session) => {
                        prepared.from_store = true;
                        self.found(prepared, &offer, session, asking)
                    }
                    Err(miss) => LookupStep::Ready(not_found(prepared, &offer, miss, hello)),
                };
            }
            Answer::TimedOut => (Missed::StoreTimeout, EarlyVerdict::StoreTimeout),
            Answer::Awaited | Answer::Dropped => (Missed::StoreError, EarlyVerdict::StoreError),
        };
        if matches!(lookup.question, Question::Claim(_)) {
            prepared.refused = Some(failure.1);
        } else if let Some(offer) = version.and_then(|version| self.offer(version, hello)) {
            prepared = not_found(prepared, &offer, Miss::NotFound, hello);
            prepared.refused = prepared.refused.and(Some(failure.1));
            prepared.store_failure = Some(failure.0);
        }
        LookupStep::Ready(prepared)
    }

    /// What the client offers, where it is to be looked up here.
    fn offer<'a>(&self, version: ProtocolVersion, hello: &ClientHello<'a>) -> Option<Offer<'a>> {
        if version == ProtocolVersion::Tls13 {
            let early = self.early.is_some() && hello.offers_early_data();
            return hello
                .psk()
                .filter(|_| self.is_opaque() || (self.tickets && early))
                .map(Offer::Psk);
        }
        // A ticket, if tickets are enabled, takes precedence over an id. A TLS 1.3 client also
        // sends a random id here, which is indistinguishable from a real one. On a server without
        // TLS 1.3 this costs a query to the store.
        let by_ticket = self.tickets && hello.session_ticket().is_some_and(|it| !it.is_empty());
        let id = hello.session_id();
        let wanted = self.session_store().is_some() && !by_ticket && !id.is_empty();
        wanted.then_some(Offer::Id(id))
    }

    /// Looks the session up in this process.
    fn find_here(&self, offer: &Offer<'_>, target: &mut Vec<u8>, now_s: u64) -> Result<(), Miss> {
        let cache = self.cache();
        match offer {
            Offer::Psk(psk) if self.tickets => {
                target.resize(psk.ticket.len(), 0);
                match self.ring.open(psk.ticket, target, now_s) {
                    TicketOpened::Plain(length) => {
                        target.truncate(length);
                        Ok(())
                    }
                    // A session contained in its ticket is in no store.
                    TicketOpened::Miss(miss) => Err(miss),
                }
            }
            Offer::Psk(psk) => {
                let id = opaque::id_in(psk.ticket).ok_or(Miss::UnknownKey)?;
                cache.ok_or(Miss::NotFound)?.find(id, target, now_s)
            }
            Offer::Id(id) => cache.ok_or(Miss::NotFound)?.find(id, target, now_s),
        }
    }

    /// The id under which the store knows an offered session.
    fn store_id<'a>(offer: &Offer<'a>) -> &'a [u8] {
        match offer {
            Offer::Psk(psk) => opaque::id_in(psk.ticket).unwrap_or(&[]),
            Offer::Id(id) => id,
        }
    }

    fn ask_for_session(&self, prepared: Prepared, offer: &Offer<'_>) -> LookupStep {
        let Some(shared) = self.session_store() else {
            return LookupStep::Ready(prepared);
        };
        let (reply, receiver) = Reply::channel();
        let key = shared.seal.session_key(Self::store_id(offer));
        shared.store.fetch(key, reply);
        LookupStep::Wait(Lookup {
            question: Question::Session(receiver),
            answer: Answer::Awaited,
            prepared,
            timeout: shared.timeout,
        })
    }

    /// Opens the value from the store, and keeps it here for the next time.
    fn open_value(
        &self,
        offer: &Offer<'_>,
        value: Option<Vec<u8>>,
        now_s: u64,
    ) -> Result<Secret, Miss> {
        let shared = self.session_store().ok_or(Miss::NotFound)?;
        let id = Self::store_id(offer);
        let key = shared.seal.session_key(id);
        let value = value.ok_or(Miss::NotFound)?;
        let session = shared.seal.open(&key, &value).ok_or(Miss::Damaged)?;
        let facts = sealane_awslc::SessionFacts::parse(session.expose()).ok_or(Miss::Damaged)?;
        if let Some(cache) = self.cache() {
            cache.keep(id, session.expose(), facts.expires_s(), now_s);
        }
        Ok(session)
    }

    /// A session was found: what remains is early data.
    fn found(
        &self,
        mut prepared: Prepared,
        offer: &Offer<'_>,
        session: Secret,
        asking: Asking<'_>,
    ) -> LookupStep {
        let judged = match (&self.early, offer) {
            (Some(early), Offer::Psk(psk)) if asking.hello.offers_early_data() => {
                Some(early_data::judge(
                    early,
                    psk,
                    asking.message,
                    session.expose(),
                    asking.context_id,
                    self.shared.is_some(),
                    asking.now_s,
                ))
            }
            _ => None,
        };
        prepared.prefetched = Some(Prefetched::new(offer.key().to_vec(), Ok(session)));
        match (judged, &self.shared) {
            (None, _) => {}
            (Some(Err(verdict)), _) => prepared.refused = Some(verdict),
            (Some(Ok(_)), None) => prepared.early_data = true,
            (Some(Ok(genuine)), Some(shared)) => {
                let (reply, receiver) = Reply::channel();
                let key = shared.seal.claim_key(&genuine.id());
                // WINDOW_S is a few minutes.
                shared.store.claim(key, WINDOW_S as u32, reply);
                return LookupStep::Wait(Lookup {
                    question: Question::Claim(receiver),
                    answer: Answer::Awaited,
                    prepared,
                    timeout: shared.timeout,
                });
            }
        }
        LookupStep::Ready(prepared)
    }
}

/// No session: a full handshake, and no early data if some was offered.
fn not_found(
    mut prepared: Prepared,
    offer: &Offer<'_>,
    miss: Miss,
    hello: &ClientHello<'_>,
) -> Prepared {
    prepared.prefetched = Some(Prefetched::new(offer.key().to_vec(), Err(miss)));
    if hello.offers_early_data() {
        prepared.refused = Some(EarlyVerdict::NoSession);
    }
    prepared
}
