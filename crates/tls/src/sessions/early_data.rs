//! Early data (0-RTT, RFC 8446 sections 2.3 and 8): decided before libssl starts.
//!
//! libssl never accepts early data by itself here. A flight is judged from the parsed ClientHello:
//! its session must be found, belong to this server and be still valid; its binder must prove that
//! the holder of the session sent it; and it must be new to the register. Only then is early data
//! allowed for the connection. In doubt it is refused, which costs the client one round trip and
//! nothing else.

use std::sync::Arc;

use sealane_awslc::{EarlyDataOutcome, SessionFacts, is_psk_binder_valid, sha256};

use super::replay::{Claim, Flight, ReplayRegister};
use super::stats::EarlyVerdict;
use crate::client_hello::Psk;

/// `ssl_early_data on`.
#[derive(Clone, Debug)]
pub struct EarlyData {
    /// The register of this process. It decides alone if there is no store of all nodes; otherwise
    /// it is asked first.
    pub register: Arc<ReplayRegister>,
}

/// A flight that is genuine, and new as far as this process knows.
pub(crate) struct Genuine {
    pub(crate) flight: Flight,
}

impl Genuine {
    /// The id under which the store of all nodes is asked.
    pub(crate) fn id(&self) -> [u8; 32] {
        let mut id = [0; 32];
        id[..16].copy_from_slice(&self.flight.ticket);
        id[16..].copy_from_slice(&self.flight.binder);
        id
    }
}

/// Judges a flight whose ticket contained `session`. `message` is the ClientHello, and
/// `decided_elsewhere` says that a store of all nodes has the last word.
pub(crate) fn judge(
    early: &EarlyData,
    psk: &Psk<'_>,
    message: &[u8],
    session: &[u8],
    context_id: &[u8],
    decided_elsewhere: bool,
    now_s: u64,
) -> Result<Genuine, EarlyVerdict> {
    let facts = SessionFacts::parse(session).ok_or(EarlyVerdict::NoSession)?;
    if facts.context_id(session) != context_id || facts.is_expired(now_s) {
        return Err(EarlyVerdict::NoSession);
    }
    let truncated = message
        .get(..psk.binders_at)
        .ok_or(EarlyVerdict::BadBinder)?;
    if !is_psk_binder_valid(facts.suite, facts.secret(session), truncated, psk.binder) {
        return Err(EarlyVerdict::BadBinder);
    }
    let flight = flight(psk);
    let claim = if decided_elsewhere {
        early.register.claim_known(&flight, now_s)
    } else {
        early.register.claim(&flight, facts.made_s, now_s)
    };
    match claim {
        Claim::First => Ok(Genuine { flight }),
        Claim::Replayed => Err(EarlyVerdict::Replayed),
        Claim::TicketExhausted => Err(EarlyVerdict::TicketExhausted),
        Claim::Full => Err(EarlyVerdict::RegisterFull),
        Claim::BeforeRegister => Err(EarlyVerdict::BeforeRegister),
    }
}

/// Ticket and binder as the register keeps them.
fn flight(psk: &Psk<'_>) -> Flight {
    let half = |digest: [u8; 32]| *digest.first_chunk().expect("a digest has 32 bytes");
    let ticket = half(sha256(psk.ticket));
    let binder = half(sha256(&[&ticket[..], psk.binder].concat()));
    Flight { ticket, binder }
}

/// The verdict on early data that was allowed, once libssl has decided too; `None` if it has not
/// decided or none was offered.
pub(crate) fn verdict_of(outcome: EarlyDataOutcome) -> Option<EarlyVerdict> {
    Some(match outcome {
        EarlyDataOutcome::Undecided | EarlyDataOutcome::NotOffered => return None,
        EarlyDataOutcome::Accepted => EarlyVerdict::Accepted,
        EarlyDataOutcome::NotResumed => EarlyVerdict::NoSession,
        EarlyDataOutcome::AgeSkew => EarlyVerdict::AgeSkew,
        EarlyDataOutcome::OtherProtocol => EarlyVerdict::OtherProtocol,
        EarlyDataOutcome::Disabled
        | EarlyDataOutcome::NotInTicket
        | EarlyDataOutcome::Retried
        | EarlyDataOutcome::Other => EarlyVerdict::Unsuitable,
    })
}
