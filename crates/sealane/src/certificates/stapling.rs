//! Keeps the staple of one certificate up to date.
//!
//! A staple is renewed after half of its time. Nodes with a session store look there first: the
//! one whose turn comes first asks the responder for all of them. What fails is tried again, at
//! longer and longer intervals, while the staple that is there serves on.

use super::responders::{self, Failure, Names, Unanswered};
use crate::control;
use crate::journal::{Journal, note};
use sealane_tls::{Reply, SharedSessions, Staple, StapleRefused, StapledCertificate};
use sealane_upstream::resolve::{Resolve, ResolveError};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

/// The longest time between two questions, and that for staples without an end.
const MAX_INTERVAL_S: i64 = 12 * 3600;
const UNLIMITED_INTERVAL_S: i64 = 3600;

/// The shortest, however short a staple's time is.
const MIN_INTERVAL_S: i64 = 5;

/// After the first failure; it doubles with each that follows.
const FIRST_RETRY_S: i64 = 10;
const MAX_RETRY_S: i64 = 3600;

/// Staples that a store takes; sessions have the same limit.
const MAX_SHARED_BYTES: usize = 8 << 10;

/// What the configuration says about a task beside the certificate.
pub(super) struct Settings {
    pub(super) resolver: Option<Arc<dyn Resolve>>,
    pub(super) shared: Option<SharedSessions>,
    /// Keeps staples for other processes.
    pub(super) master: Option<Arc<OwnedFd>>,
    pub(super) journal: Journal,
}

/// A certificate that is looked after until this is dropped.
pub(super) struct Kept {
    settings: Arc<Mutex<Settings>>,
    task: AbortHandle,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Kept {
    pub(super) fn new(
        certificate: Arc<StapledCertificate>,
        settings: Settings,
        asking: Arc<Semaphore>,
    ) -> Kept {
        let settings = Arc::new(Mutex::new(settings));
        let keeper = Keeper {
            certificate,
            settings: Arc::clone(&settings),
            asking,
            failures: 0,
            said: None,
        };
        Kept {
            settings,
            task: tokio::spawn(keeper.keep()).abort_handle(),
        }
    }

    /// The same certificate under another configuration.
    pub(super) fn with(self, settings: Settings) -> Kept {
        *lock(&self.settings) = settings;
        self
    }
}

/// No code that may panic runs under the lock.
fn lock(settings: &Mutex<Settings>) -> std::sync::MutexGuard<'_, Settings> {
    settings.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Keeper {
    certificate: Arc<StapledCertificate>,
    settings: Arc<Mutex<Settings>>,
    asking: Arc<Semaphore>,
    /// Since the last success.
    failures: u32,
    /// What was last said about a failure.
    said: Option<String>,
}

impl Keeper {
    /// Never returns.
    async fn keep(mut self) {
        // What another process has left may still do.
        let mut wait_s = match self.certificate.newest() {
            Some(staple) => until_due_s(&staple, now_s()),
            None => 0,
        };
        loop {
            tokio::time::sleep(Duration::from_secs(wait_s.unsigned_abs())).await;
            wait_s = match self.renew().await {
                Ok(staple) => self.on_success(&staple),
                Err(failure) => self.on_failure(&failure),
            };
        }
    }

    async fn renew(&self) -> Result<Arc<Staple>, Failure<StapleRefused>> {
        // The semaphore is never closed.
        let _permit = self.asking.acquire().await;
        if let Some(staple) = self.of_other_nodes().await {
            return Ok(staple);
        }
        let names = match lock(&self.settings).resolver.clone() {
            Some(resolver) => Names::Resolver(resolver),
            None => Names::System,
        };
        let addresses = responders::addresses(self.certificate.responder(), &names).await;
        let mut failure = Failure::Unanswered(Unanswered::Resolve(ResolveError::NotFound));
        for peer in addresses.map_err(Failure::Unanswered)? {
            match self.ask(peer).await {
                Ok(staple) => {
                    self.share(&staple);
                    return Ok(staple);
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    async fn ask(&self, peer: SocketAddr) -> Result<Arc<Staple>, Failure<StapleRefused>> {
        let certificate = &self.certificate;
        let response = responders::ask(peer, certificate.responder(), certificate.request()).await;
        let response = response.map_err(Failure::Unanswered)?;
        certificate
            .take(&response)
            .map_err(|why| Failure::Refused(peer, why))
    }

    /// A staple that another node has fetched, unless it is due for all of them.
    async fn of_other_nodes(&self) -> Option<Arc<Staple>> {
        let shared = lock(&self.settings).shared.clone()?;
        let key = shared.seal.staple_key(&self.certificate.id());
        let (reply, answer) = Reply::channel();
        shared.store.fetch(key, reply);
        let found = answer.await.ok()??;
        let staple = self.certificate.take(&found).ok()?;
        (until_due_s(&staple, now_s()) > 0).then_some(staple)
    }

    fn share(&self, staple: &Staple) {
        let Some(shared) = lock(&self.settings).shared.clone() else {
            return;
        };
        let end = staple.next_update_s;
        let left_s = end.map_or(UNLIMITED_INTERVAL_S, |end| end - now_s());
        if let Ok(lifetime_s @ 1..) = u32::try_from(left_s)
            && staple.der.len() <= MAX_SHARED_BYTES
        {
            let key = shared.seal.staple_key(&self.certificate.id());
            shared.store.put(key, staple.der.clone(), lifetime_s);
        }
    }

    fn on_success(&mut self, staple: &Staple) -> i64 {
        self.failures = 0;
        let master = lock(&self.settings).master.clone();
        if let Some(master) = master {
            // A master that is busy has the one before, which serves the next worker until it has
            // asked.
            let _ = control::send_staple(master.as_fd(), self.certificate.id(), &staple.der);
        }
        if self.said.take().is_some() {
            let (label, journal) = (self.certificate.label(), self.journal());
            note!(
                journal,
                Notice,
                "OCSP response received again, certificate: \"{label}\""
            );
        }
        after_success_s(staple, now_s())
    }

    fn on_failure(&mut self, failure: &Failure<StapleRefused>) -> i64 {
        let wait_s = with_jitter_s(retry_s(self.failures));
        self.failures = self.failures.saturating_add(1);
        let message = failure.to_string();
        let has_staple = self.certificate.staple().is_some();
        let said = format!("{message} {has_staple}");
        if self.said.as_ref() != Some(&said) {
            self.say(failure, &message, has_staple);
            self.said = Some(said);
        }
        wait_s
    }

    /// Once for each reason, and once more when the staple has ended.
    fn say(&self, failure: &Failure<StapleRefused>, message: &str, has_staple: bool) {
        let journal = self.journal();
        let certificate = &self.certificate;
        let (responder, label) = (certificate.responder(), certificate.label());
        let host = &responder.host;
        let peer = failure.peer();
        let now = match has_staple {
            true => "the last staple is still valid and serves on",
            false => "no staple is sent",
        };
        note!(
            journal,
            Error,
            "{message} while requesting certificate status, responder: {host}{peer}, \
             certificate: \"{label}\"; {now}, the responder is asked again"
        );
        if !has_staple && certificate.demands_staple() {
            note!(
                journal,
                Warn,
                "certificate \"{label}\" demands a staple (\"must staple\") and there is none: \
                 clients may refuse it"
            );
        }
    }

    fn journal(&self) -> Journal {
        lock(&self.settings).journal.clone()
    }
}

/// Until half of a staple's time is over, in seconds; not positive when it is.
fn until_due_s(staple: &Staple, now_s: i64) -> i64 {
    let half_s = match staple.next_update_s {
        Some(end) => end.saturating_sub(staple.this_update_s) / 2,
        None => UNLIMITED_INTERVAL_S,
    };
    let due_s = staple.this_update_s.saturating_add(half_s);
    due_s.saturating_sub(now_s).min(MAX_INTERVAL_S)
}

/// How long to wait after a staple has come. Responders may hand out the same one again in its
/// second half.
fn after_success_s(staple: &Staple, now_s: i64) -> i64 {
    let due_s = until_due_s(staple, now_s);
    let left_s = match staple.next_update_s {
        Some(end) => end.saturating_sub(now_s) / 2,
        None => UNLIMITED_INTERVAL_S,
    };
    let wait_s = if due_s > 0 { due_s } else { left_s };
    with_jitter_s(wait_s.clamp(MIN_INTERVAL_S, MAX_INTERVAL_S))
}

fn retry_s(failures: u32) -> i64 {
    let doubled = FIRST_RETRY_S.checked_shl(failures.min(16));
    doubled.unwrap_or(MAX_RETRY_S).min(MAX_RETRY_S)
}

/// Up to a tenth less, so that neither certificates nor nodes ask at the same moment.
fn with_jitter_s(seconds: i64) -> i64 {
    let mut random = [0; 2];
    sealane_tls::fill_random(&mut random);
    let part = i64::from(u16::from_le_bytes(random));
    seconds - seconds * part / (10 * i64::from(u16::MAX))
}

fn now_s() -> i64 {
    sealane_sys::time::unix_coarse_s()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn staple(this_update_s: i64, next_update_s: Option<i64>) -> Staple {
        Staple {
            der: Vec::new(),
            this_update_s,
            next_update_s,
        }
    }

    #[test]
    fn a_staple_is_due_after_half_of_its_time() {
        let week = staple(1000, Some(1000 + 100_000));
        assert_eq!(until_due_s(&week, 11_000), 40_000);
        assert_eq!(until_due_s(&week, 61_000), -10_000);
        assert_eq!(until_due_s(&staple(0, Some(10 << 40)), 0), MAX_INTERVAL_S);
        assert_eq!(until_due_s(&staple(0, None), 600), 3000);
        // What a responder hands out again late is asked for again before it ends.
        let near = |waits: i64, expected: i64| (expected * 9 / 10..=expected).contains(&waits);
        assert!(near(after_success_s(&week, 11_000), 40_000));
        assert!(near(after_success_s(&week, 81_000), 10_000));
        assert!(near(after_success_s(&week, 100_999), MIN_INTERVAL_S));
        assert!(near(after_success_s(&staple(0, None), 999_999), 3600));
    }

    #[test]
    fn retries_are_further_and_further_apart() {
        let waits: Vec<i64> = [0, 1, 2, 8, 9, 60].map(retry_s).to_vec();
        assert_eq!(waits, [10, 20, 40, 2560, 3600, 3600]);
    }
}
