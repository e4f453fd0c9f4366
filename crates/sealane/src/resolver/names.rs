//! Names that requests need: cached while they are valid, each looked up once at a
//! time, however many requests wait for it.

use super::dns::{Answer, Dns};
use sealane_conf::model;
use sealane_upstream::resolve::{Addresses, Lookup, NameAnswer, Resolve, ResolveError};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Questions of workers on their way to the thread.
const MAX_QUEUED: usize = 4_096;

/// Most names, and most addresses, that are looked up at a time. Requests for more are answered
/// as if there had been no reply.
const MAX_WAITING: usize = 1_024;

/// Names that are kept.
const MAX_KEPT: usize = 10_000;

/// Most addresses kept for a name. Clients may choose names, and a name server how many
/// addresses each has.
const MAX_ADDRESSES: usize = 256;

/// The longest that a name is kept.
const LONGEST_KEPT: Duration = Duration::from_secs(366 * 24 * 3600);

type Waiter = oneshot::Sender<Result<Addresses, ResolveError>>;
type NameWaiter = oneshot::Sender<Result<Option<String>, ResolveError>>;

/// The name servers of a `resolver` directive, as workers see them.
pub(crate) struct NameResolver {
    conf: Arc<model::Resolver>,
    /// `resolver_timeout`.
    timeout: Duration,
    kept: Arc<Kept>,
    questions: mpsc::Sender<Question>,
    /// What the thread takes when it starts.
    queue: Mutex<Option<mpsc::Receiver<Question>>>,
}

enum Question {
    Addresses { name: String, waiter: Waiter },
    Alias { name: String, waiter: NameWaiter },
    NameOf { address: IpAddr, waiter: NameWaiter },
}

impl NameResolver {
    /// A resolver that is not started yet: lookups wait for [`super::ResolverThread`].
    pub(super) fn new(conf: Arc<model::Resolver>, timeout: Duration) -> NameResolver {
        let (questions, queue) = mpsc::channel(MAX_QUEUED);
        NameResolver {
            conf,
            timeout,
            kept: Arc::default(),
            questions,
            queue: Mutex::new(Some(queue)),
        }
    }

    /// Whether this is the resolver of a directive with a `resolver_timeout`.
    pub(super) fn is_of(&self, conf: &model::Resolver, timeout: Duration) -> bool {
        *self.conf == *conf && self.timeout == timeout
    }

    pub(super) fn dns(&self) -> Result<Dns, String> {
        Dns::new(&self.conf, self.timeout)
    }

    /// Answers requests until the last reference to the resolver is
    /// dropped.
    pub(super) fn answering(&self, dns: Arc<Dns>) -> impl Future<Output = ()> + Send + use<> {
        let queue = self
            .queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let all_kept = Arc::clone(&self.kept);
        async move {
            if let Some(queue) = queue {
                answer(queue, all_kept, dns).await;
            }
        }
    }
}

async fn answer(mut queue: mpsc::Receiver<Question>, all_kept: Arc<Kept>, dns: Arc<Dns>) {
    let waiting = Arc::new(Waiting::default());
    let naming = Arc::new(Semaphore::new(MAX_WAITING));
    while let Some(question) = queue.recv().await {
        let (name, waiter) = match question {
            Question::Addresses { name, waiter } => (name, waiter),
            Question::Alias { name, waiter } => {
                let dns = Arc::clone(&dns);
                // Few at a time: only orders of certificates ask.
                tokio::spawn(async move {
                    let _ = waiter.send(dns.alias(&name).await);
                });
                continue;
            }
            Question::NameOf { address, waiter } => {
                let Ok(permit) = Arc::clone(&naming).try_acquire_owned() else {
                    let _ = waiter.send(Err(ResolveError::TimedOut));
                    continue;
                };
                let dns = Arc::clone(&dns);
                tokio::spawn(async move {
                    let _ = waiter.send(dns.name_of(address).await);
                    drop(permit);
                });
                continue;
            }
        };
        // It may have become known since the worker looked.
        if let Some(addresses) = all_kept.get(&name, Instant::now()) {
            let _ = waiter.send(Ok(addresses));
            continue;
        }
        if !waiting.add(&name, waiter) {
            continue;
        }
        let (dns, kept, waiting) = (dns.clone(), all_kept.clone(), waiting.clone());
        let asked = Asked { name, waiting };
        tokio::spawn(async move {
            let answer = dns.addresses(&asked.name).await;
            let answer = answer.map(|answer| kept.put(&asked.name, answer, Instant::now()));
            for waiter in asked.waiting.take(&asked.name) {
                // A cancelled request does not need the result.
                let _ = waiter.send(answer.clone());
            }
        });
    }
}

impl Resolve for NameResolver {
    fn lookup(&self, name: &str) -> Lookup {
        if let Some(address) = literal(name) {
            return Lookup::known(Ok(Arc::from([address])));
        }
        let name = normalized(name);
        if let Some(addresses) = self.kept.get(&name, Instant::now()) {
            return Lookup::known(Ok(addresses));
        }
        let (waiter, lookup) = Lookup::waiting();
        match self
            .questions
            .try_send(Question::Addresses { name, waiter })
        {
            Ok(()) => lookup,
            // So many wait that none would be answered in time.
            Err(_full) => Lookup::known(Err(ResolveError::TimedOut)),
        }
    }

    fn alias(&self, name: &str) -> NameAnswer {
        let (waiter, answer) = oneshot::channel();
        let name = normalized(name);
        // If so many wait that it does not fit, the sender is gone, which says so.
        let _ = self.questions.try_send(Question::Alias { name, waiter });
        answer
    }

    fn name_of(&self, address: IpAddr) -> NameAnswer {
        let (waiter, answer) = oneshot::channel();
        let question = Question::NameOf { address, waiter };
        let _ = self.questions.try_send(question);
        answer
    }
}

impl std::fmt::Debug for NameResolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("NameResolver");
        debug
            .field("conf", &self.conf)
            .field("timeout", &self.timeout);
        debug.finish_non_exhaustive()
    }
}

/// An address written instead of a name.
pub(super) fn literal(name: &str) -> Option<IpAddr> {
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    match bare {
        Some(bare) => bare.parse().ok().map(IpAddr::V6),
        None => name.parse().ok(),
    }
}

/// One name, however it is written.
fn normalized(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_lowercase()
}

/// Addresses that are valid.
#[derive(Debug, Default)]
struct Kept {
    names: Mutex<HashMap<String, KeptName>>,
    /// Which address the next lookup begins with.
    turn: AtomicUsize,
}

#[derive(Debug)]
struct KeptName {
    addresses: Addresses,
    until: Instant,
}

impl Kept {
    fn get(&self, name: &str, now: Instant) -> Option<Addresses> {
        let names = self.names();
        let kept = names.get(name).filter(|kept| now < kept.until)?;
        Some(self.turned(&kept.addresses))
    }

    fn put(&self, name: &str, mut answer: Answer<IpAddr>, now: Instant) -> Addresses {
        answer.found.truncate(MAX_ADDRESSES);
        let addresses: Addresses = answer.found.into();
        let turned = self.turned(&addresses);
        // A TTL of 0 is for the requests that already wait.
        if answer.valid.is_zero() {
            return turned;
        }
        let mut names = self.names();
        if names.len() >= MAX_KEPT {
            names.retain(|_, kept| now < kept.until);
        }
        if names.len() >= MAX_KEPT {
            let any = names.keys().next().cloned();
            any.and_then(|any| names.remove(&any));
        }
        let until = now + answer.valid.min(LONGEST_KEPT);
        names.insert(name.to_owned(), KeptName { addresses, until });
        turned
    }

    fn turned(&self, addresses: &Addresses) -> Addresses {
        let count = addresses.len();
        if count < 2 {
            return Arc::clone(addresses);
        }
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % count;
        let (late, early) = addresses.split_at(first);
        early.iter().chain(late).copied().collect()
    }

    /// Nothing that may panic runs while this is held.
    fn names(&self) -> MutexGuard<'_, HashMap<String, KeptName>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which requests wait for which name.
#[derive(Default)]
struct Waiting(Mutex<HashMap<String, Vec<Waiter>>>);

/// A name that is being looked up. However that ends, even in a panic over a name server's
/// reply, no request is left waiting: those that still wait get the result that there was no reply.
struct Asked {
    name: String,
    waiting: Arc<Waiting>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.waiting.take(&self.name);
    }
}

impl Waiting {
    /// Adds a waiting request. Returns whether the name must be looked up.
    fn add(&self, name: &str, waiter: Waiter) -> bool {
        let mut names = self.names();
        if let Some(waiters) = names.get_mut(name) {
            // Cancelled requests are removed. All are checked when their number has doubled, not
            // for each new one: clients decide how many there are.
            if waiters.len() == waiters.capacity() {
                waiters.retain(|waiter| !waiter.is_closed());
            }
            waiters.push(waiter);
            return false;
        }
        if names.len() >= MAX_WAITING {
            let _ = waiter.send(Err(ResolveError::TimedOut));
            return false;
        }
        names.insert(name.to_owned(), vec![waiter]);
        true
    }

    fn take(&self, name: &str) -> Vec<Waiter> {
        self.names().remove(name).unwrap_or_default()
    }

    fn names(&self) -> MutexGuard<'_, HashMap<String, Vec<Waiter>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_names_are_kept_than_may_be() {
        let kept = Kept::default();
        let now = Instant::now();
        for number in 0..MAX_KEPT + 10 {
            let answer = Answer {
                found: vec![IpAddr::from([192, 0, 2, 1])],
                valid: Duration::from_secs(60),
            };
            kept.put(&format!("{number}.test"), answer, now);
        }
        assert_eq!(kept.names().len(), MAX_KEPT);
        let last = format!("{}.test", MAX_KEPT + 9);
        assert!(kept.get(&last, now).is_some(), "the newest is");
    }

    #[test]
    fn who_has_gone_away_is_not_waited_for() {
        let waiting = Waiting::default();
        let mut staying = Vec::new();
        for number in 0..10_000 {
            let (waiter, lookup) = oneshot::channel();
            assert_eq!(waiting.add("a.test", waiter), number == 0);
            if number % 1000 == 0 {
                staying.push(lookup);
            }
        }
        let waiters = waiting.take("a.test");
        assert!(waiters.len() < 100, "{} are kept", waiters.len());
        let there = waiters.iter().filter(|waiter| !waiter.is_closed());
        assert_eq!(there.count(), staying.len());
    }
}
