//! `ssl_ocsp`: asking the issuers of a client's certificates, without waiting on the worker.
//!
//! Workers put a [`StatusRequest`] into the [`StatusDesk`] of the process and wait for the reply as
//! for any future. The thread of the worker process that asks OCSP responders takes it out.

use sealane_tls::{Reply, StatusCache, StatusFailure, StatusQuestion};
use sealane_upstream::resolve::Resolve;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::mpsc;

/// Requests that may wait for the thread. Further ones fail at once, as do their clients.
const MAX_WAITING_REQUESTS: usize = 1024;

/// The questions about one client, in the order in which they are asked: up to the first whose
/// answer is not `good`.
pub struct StatusRequest {
    /// Never empty.
    pub questions: Vec<StatusQuestion>,
    /// Finds responders by name; certificates that name one cannot be asked about without it.
    pub resolver: Option<Arc<dyn Resolve>>,
    /// Where the answer goes. Dropped, it means that there is none.
    pub reply: Reply<Result<(), StatusFailure>>,
}

/// Where workers leave requests, and what is known from earlier ones. It belongs to the process
/// and outlives snapshots.
pub struct StatusDesk {
    queue: mpsc::Sender<StatusRequest>,
    /// Until the thread has taken it.
    receiver: Mutex<Option<mpsc::Receiver<StatusRequest>>>,
    /// `ssl_ocsp_cache`: by zone, each with its size.
    caches: Mutex<HashMap<String, (usize, Weak<StatusCache>)>>,
}

impl StatusDesk {
    /// The end that the thread works on, once.
    pub fn take_receiver(&self) -> Option<mpsc::Receiver<StatusRequest>> {
        let mut receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        receiver.take()
    }

    /// The cache of a zone. As in nginx, a zone whose size has changed starts empty.
    pub(crate) fn cache(&self, zone: &str, bytes: usize) -> Arc<StatusCache> {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((size, cache)) = caches.get(zone)
            && *size == bytes
            && let Some(cache) = cache.upgrade()
        {
            return cache;
        }
        caches.retain(|_, (_, cache)| cache.strong_count() > 0);
        let cache = Arc::new(StatusCache::new(bytes));
        caches.insert(zone.to_owned(), (bytes, Arc::downgrade(&cache)));
        cache
    }

    /// Asks what is not known yet, and waits for the verdict on all of it.
    ///
    /// # Errors
    /// What keeps the client from being accepted.
    pub(crate) async fn settle(
        &self,
        questions: Vec<StatusQuestion>,
        resolver: Option<Arc<dyn Resolve>>,
    ) -> Result<(), StatusFailure> {
        let mut questions = questions;
        while let Some(known) = questions.first().and_then(StatusQuestion::known) {
            known?;
            questions.remove(0);
        }
        if questions.is_empty() {
            return Ok(());
        }
        let (reply, answer) = Reply::channel();
        let request = StatusRequest {
            questions,
            resolver,
            reply,
        };
        // A request that finds no place is dropped, and its reply with it.
        let _ = self.queue.try_send(request);
        answer.await.unwrap_or(Err(StatusFailure::RequestFailed))
    }
}

impl Default for StatusDesk {
    fn default() -> StatusDesk {
        let (queue, receiver) = mpsc::channel(MAX_WAITING_REQUESTS);
        StatusDesk {
            queue,
            receiver: Mutex::new(Some(receiver)),
            caches: Mutex::default(),
        }
    }
}

impl fmt::Debug for StatusDesk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StatusDesk")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_finds_the_cache_of_a_zone_again() {
        let desk = StatusDesk::default();
        let first = desk.cache("clients", 32 << 10);
        assert!(Arc::ptr_eq(&first, &desk.cache("clients", 32 << 10)));
        assert!(!Arc::ptr_eq(&first, &desk.cache("others", 32 << 10)));
        assert!(!Arc::ptr_eq(&first, &desk.cache("clients", 64 << 10)));
    }
}
