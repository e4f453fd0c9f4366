//! `ssl_ocsp`: asks responders about certificates of clients, whose requests wait for it.
//!
//! Nothing is tried again: the client gets 495, and the next connection asks anew.

use super::responders::{self, Failure, Names};
use crate::journal::{Journal, note};
use sealane_server::StatusRequest;
use sealane_tls::{OcspFailure, StatusFailure, StatusQuestion};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Semaphore;

/// How long a client waits for the answers about all certificates of its chain; nginx's time-out
/// of one question.
const PATIENCE: Duration = Duration::from_secs(60);

/// Clients that wait at the same time. Further ones fail at once.
const MAX_WAITING: usize = 1024;

/// Questions to one responder at the same time, lest a slow one holds up the others.
const MAX_ASKED_AT_ONCE: usize = 16;

/// Takes requests of workers.
pub(super) struct Clients {
    waiting: Arc<Semaphore>,
    /// Places at each responder, while somebody uses them.
    places: HashMap<String, Weak<Semaphore>>,
}

impl Clients {
    pub(super) fn new() -> Clients {
        Clients {
            waiting: Arc::new(Semaphore::new(MAX_WAITING)),
            places: HashMap::new(),
        }
    }

    /// Asks in the background.
    pub(super) fn serve(&mut self, request: StatusRequest, journal: &Journal) {
        let Ok(waits) = Arc::clone(&self.waiting).try_acquire_owned() else {
            note!(
                journal,
                Error,
                "{MAX_WAITING} clients wait for OCSP responders; a client is refused"
            );
            return; // dropping the reply refuses it
        };
        let places = request.questions.iter().map(|question| {
            let responder = question.responder().ok();
            responder.map(|responder| self.places_of(&responder.authority))
        });
        let places: Vec<_> = places.collect();
        let journal = journal.clone();
        tokio::spawn(async move {
            let _waits = waits;
            let StatusRequest {
                questions,
                resolver,
                reply,
            } = request;
            let asking = async {
                for (question, places) in questions.iter().zip(&places) {
                    let names = match &resolver {
                        Some(resolver) => Names::Resolver(Arc::clone(resolver)),
                        None if question.is_named_by_certificate() => Names::Nothing,
                        None => Names::System,
                    };
                    let place = match places {
                        Some(places) => places.acquire().await.ok(),
                        None => None,
                    };
                    if reply.is_abandoned() {
                        return Ok(());
                    }
                    settle(question, &names, &journal).await?;
                    drop(place);
                }
                Ok(())
            };
            let verdict = tokio::time::timeout(PATIENCE, asking).await;
            reply.send(verdict.unwrap_or_else(|_elapsed| {
                let seconds = PATIENCE.as_secs();
                note!(
                    journal,
                    Error,
                    "OCSP responders have not answered within {seconds} s; a client is refused"
                );
                Err(StatusFailure::RequestFailed)
            }));
        });
    }

    fn places_of(&mut self, authority: &str) -> Arc<Semaphore> {
        if let Some(places) = self.places.get(authority).and_then(Weak::upgrade) {
            return places;
        }
        self.places.retain(|_, places| places.strong_count() > 0);
        let places = Arc::new(Semaphore::new(MAX_ASKED_AT_ONCE));
        let known = Arc::downgrade(&places);
        self.places.insert(authority.to_owned(), known);
        places
    }
}

/// The verdict on one certificate.
async fn settle(
    question: &StatusQuestion,
    names: &Names,
    journal: &Journal,
) -> Result<(), StatusFailure> {
    // Another client may have asked meanwhile.
    if let Some(known) = question.known() {
        return known;
    }
    let label = question.label();
    let responder = match question.responder() {
        Ok(responder) => responder,
        Err(why) => {
            note!(
                journal,
                Error,
                "{why} while requesting certificate status, certificate: \"{label}\""
            );
            return Err(StatusFailure::RequestFailed);
        }
    };
    match ask(question, names).await {
        Ok(verdict) => verdict,
        Err(failure) => {
            let host = &responder.host;
            let peer = failure.peer();
            note!(
                journal,
                Error,
                "{failure} while requesting certificate status, responder: {host}{peer}, \
                 certificate: \"{label}\""
            );
            Err(StatusFailure::RequestFailed)
        }
    }
}

/// The next address of a responder is asked only if one gives no response at all: a wrong one is
/// the responder's word.
async fn ask(
    question: &StatusQuestion,
    names: &Names,
) -> Result<Result<(), StatusFailure>, Failure<OcspFailure>> {
    let Ok(responder) = question.responder() else {
        return Ok(Err(StatusFailure::RequestFailed));
    };
    let addresses = responders::addresses(responder, names).await;
    let mut failure = None;
    for peer in addresses.map_err(Failure::Unanswered)? {
        match responders::ask(peer, responder, question.request()).await {
            Ok(response) => {
                let taken = question.take(&response);
                return taken.map_err(|why| Failure::Refused(peer, why));
            }
            Err(why) => failure = Some(Failure::Unanswered(why)),
        }
    }
    // There is at least one address.
    failure.map_or(Ok(Err(StatusFailure::RequestFailed)), Err)
}
