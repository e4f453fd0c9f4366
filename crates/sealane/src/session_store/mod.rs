//! `ssl_session_store` and `upstream_store`: what nodes share, on Redis or Valkey.
//!
//! Workers ask through [`RemoteStore`]: a request goes into a bounded queue, or is
//! dropped, which counts as a miss. One thread of the worker process, "session store", empties
//! the queues, keeps the connections ([`client`]) and looks after ticket keys
//! ([`ring_keeper`]). Nothing here makes a worker wait: every wait for a
//! [`Reply`] has a deadline.

mod answer_meter;
mod claims;
mod client;
mod health;
mod link;
mod reach;
mod ring_keeper;
mod state;
mod succession;
mod thread;

pub(crate) use self::state::{MAX_STATE_BYTES, StateFile, TicketStates, write_state_file};
pub(crate) use self::succession::{Telling, learn, tell_successor};
pub(crate) use self::thread::{StateSink, StoreThread};

use self::client::Client;
use self::link::{Dialer, MAX_IN_FLIGHT};
use crate::journal::{Journal, note};
use sealane_conf::model::{Http, SessionStore, Tls};
use sealane_log::OsError;
use sealane_server::Materials;
use sealane_tls::{ReplayRegister, Reply, SharedStore, StoreKey};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, mpsc};

/// Requests of workers that may wait to be sent. When the store takes 20 ms for
/// a reply and [`MAX_IN_FLIGHT`] are under way, this is the work of 80 ms: more
/// could not be answered before handshakes have stopped waiting.
const MAX_QUEUED: usize = 4 * MAX_IN_FLIGHT;

/// Longest sealed session that is fetched, in bytes. Sessions are kept up to 4 KiB.
const MAX_SESSION_BYTES: usize = 8 << 10;

/// Longest sealed record of an ACME account or certificate, or of the servers of a group, in
/// bytes.
const MAX_RECORD_BYTES: usize = 100 << 10;

/// A store as workers see it.
pub(crate) struct RemoteStore {
    conf: Arc<SessionStore>,
    /// Whether early data is claimed here.
    claims: bool,
    /// The certificates of `ca=`.
    ca_pem: Option<Vec<u8>>,
    requests: mpsc::Sender<Request>,
    /// Requests that found the queue full.
    dropped: AtomicU64,
    /// The thread's client, once it has one.
    client: OnceLock<Arc<Client>>,
    /// What the thread takes when it starts.
    rest: Mutex<Option<Rest>>,
}

/// The thread's side of a store.
struct Rest {
    queue: mpsc::Receiver<Request>,
    dialer: Dialer,
}

/// A request of a worker.
struct Request {
    asked: Instant,
    key: StoreKey,
    question: Question,
}

enum Question {
    Fetch(Reply<Option<Vec<u8>>>),
    Put {
        value: Vec<u8>,
        lifetime_s: u32,
    },
    Claim {
        lifetime_s: u32,
        reply: Reply<bool>,
    },
    Lease {
        holder: [u8; 16],
        lifetime_s: u32,
        reply: Reply<bool>,
    },
}

/// Prepares the stores of a configuration and adds them to the materials; those of `known` that it
/// also has are kept. Nothing is connected yet.
///
/// # Errors
/// When CA certificates cannot be used.
pub(crate) fn prepare(
    http: Option<&Http>,
    known: &[Arc<RemoteStore>],
    materials: &mut Materials,
) -> Result<Vec<Arc<RemoteStore>>, String> {
    let mut stores: Vec<Arc<RemoteStore>> = Vec::new();
    let of_servers = servers(http).filter_map(|tls| tls.session_store.as_ref());
    let upstreams = http.into_iter().flat_map(|http| &http.upstreams);
    let of_upstreams = upstreams.filter_map(|upstream| upstream.store.as_ref());
    for conf in of_servers.chain(of_upstreams) {
        if stores.iter().any(|known| known.conf == *conf) {
            continue;
        }
        let claims = servers(http)
            .any(|tls| tls.early_data.enabled && tls.session_store.as_ref() == Some(conf));
        let ca_file = conf.tls.as_ref().and_then(|tls| tls.ca_file.as_ref());
        let ca_pem = ca_file.and_then(|path| materials.get(path));
        let store = match known.iter().find(|known| known.is(conf, claims, ca_pem)) {
            Some(known) => Arc::clone(known),
            None => RemoteStore::new(Arc::clone(conf), claims, ca_pem)
                .map(Arc::new)
                .map_err(|error| format!("cannot use session store {conf}: {error}"))?,
        };
        materials.add_session_store(Arc::clone(conf), store.clone());
        stores.push(store);
    }
    Ok(stores)
}

/// The file of `ssl_session_ticket_state`.
pub(crate) fn state_file(http: Option<&Http>) -> Option<PathBuf> {
    servers(http).find_map(|tls| tls.session_ticket_state.clone())
}

/// The register of early data that the old binary has given this one. If it cannot be used, what
/// the other process accepts meanwhile is unknown: then this one accepts nothing.
pub(crate) fn register_of_old_binary(
    memory: OwnedFd,
    journal: &Journal,
) -> Option<Arc<ReplayRegister>> {
    let error = match ReplayRegister::attach(memory) {
        Ok(register) => return Some(Arc::new(register)),
        Err(error) => OsError(&error).to_string(),
    };
    note!(
        journal,
        Warn,
        "the old binary's register of early data cannot be used ({error}): clients go on without \
         early data until this server is stopped and started"
    );
    let register = ReplayRegister::new(1, now_s()).ok()?;
    register.close();
    Some(Arc::new(register))
}

/// `ssl_early_data_register_size` in bytes, if there is early data.
pub(crate) fn register_bytes(http: Option<&Http>) -> Option<u64> {
    let early_data = servers(http).map(|tls| &tls.early_data);
    let mut enabled = early_data.filter(|early_data| early_data.enabled);
    enabled.next().map(|early_data| early_data.register_bytes)
}

fn servers(http: Option<&Http>) -> impl Iterator<Item = &Tls> {
    let servers = http.into_iter().flat_map(|http| &http.servers);
    servers.filter_map(|server| server.tls.as_deref())
}

impl RemoteStore {
    /// Prepares a store. It connects to no server until the store thread takes it.
    /// `claims` says whether servers that use it accept early data; `ca_pem` is the
    /// contents of the file named by `ca=`.
    ///
    /// # Errors
    /// When the CA certificates of `ca=` cannot be used.
    pub(crate) fn new(
        conf: Arc<SessionStore>,
        claims: bool,
        ca_pem: Option<&[u8]>,
    ) -> Result<RemoteStore, String> {
        let dialer = Dialer::new(&conf, ca_pem).map_err(|error| error.to_string())?;
        let (requests, queue) = mpsc::channel(MAX_QUEUED);
        Ok(RemoteStore {
            conf,
            claims,
            ca_pem: ca_pem.map(<[u8]>::to_vec),
            requests,
            dropped: AtomicU64::new(0),
            client: OnceLock::new(),
            rest: Mutex::new(Some(Rest { queue, dialer })),
        })
    }

    /// Whether it is what [`RemoteStore::new`] would make of these.
    fn is(&self, conf: &SessionStore, claims: bool, ca_pem: Option<&[u8]>) -> bool {
        *self.conf == *conf && self.claims == claims && self.ca_pem.as_deref() == ca_pem
    }

    /// Its directive.
    pub(crate) fn conf(&self) -> &Arc<SessionStore> {
        &self.conf
    }

    fn take_rest(&self) -> Option<Rest> {
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        rest.take()
    }

    fn request(&self, key: StoreKey, question: Question) {
        let request = Request {
            asked: Instant::now(),
            key,
            question,
        };
        // The request, and with it the reply, is dropped: no handshake waits for it.
        if self.requests.try_send(request).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl SharedStore for RemoteStore {
    fn fetch(&self, key: StoreKey, reply: Reply<Option<Vec<u8>>>) {
        self.request(key, Question::Fetch(reply));
    }

    fn put(&self, key: StoreKey, value: Vec<u8>, lifetime_s: u32) {
        self.request(key, Question::Put { value, lifetime_s });
    }

    fn is_reachable(&self) -> bool {
        self.client.get().is_some_and(|client| client.is_up())
    }

    fn claim(&self, key: StoreKey, lifetime_s: u32, reply: Reply<bool>) {
        self.request(key, Question::Claim { lifetime_s, reply });
    }

    fn lease(&self, key: StoreKey, holder: [u8; 16], lifetime_s: u32, reply: Reply<bool>) {
        let question = Question::Lease {
            holder,
            lifetime_s,
            reply,
        };
        self.request(key, question);
    }
}

/// Answers the requests of workers for as long as the store is referenced.
async fn answer_requests(mut queue: mpsc::Receiver<Request>, client: Arc<Client>) {
    let in_flight = Arc::new(Semaphore::new(MAX_IN_FLIGHT));
    while let Some(request) = queue.recv().await {
        if !client.is_up() || request.is_abandoned() {
            continue; // and with the request its reply is dropped
        }
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&in_flight).acquire_owned().await else {
            return;
        };
        let client = Arc::clone(&client);
        tokio::spawn(async move {
            request.answer(&client).await;
            drop(permit);
        });
    }
}

impl Request {
    fn is_abandoned(&self) -> bool {
        match &self.question {
            Question::Fetch(reply) => reply.is_abandoned(),
            Question::Claim { reply, .. } | Question::Lease { reply, .. } => reply.is_abandoned(),
            Question::Put { .. } => false,
        }
    }

    /// Queries the store. A dropped reply means that there is no result.
    async fn answer(self, client: &Client) {
        let key = client.full_name(&self.key);
        match self.question {
            Question::Fetch(reply) => {
                let max_bytes = match self.key.as_str().split(':').next() {
                    Some("a" | "h") => MAX_RECORD_BYTES,
                    _ => MAX_SESSION_BYTES,
                };
                if let Ok(found) = client.get(&key, max_bytes, self.asked).await {
                    reply.send(found);
                }
            }
            Question::Put { value, lifetime_s } => {
                // Nobody waits: what is lost is resumed on this node only.
                let _ = client.set(&key, &value, lifetime_s, self.asked).await;
            }
            Question::Claim { lifetime_s, reply } => {
                let lifetime = Duration::from_secs(lifetime_s.into());
                if !client.remembers_claims(lifetime) {
                    return;
                }
                if let Ok(first) = client.claim(&key, lifetime, self.asked).await {
                    reply.send(first);
                }
            }
            Question::Lease {
                holder,
                lifetime_s,
                reply,
            } => {
                if let Ok(ours) = client.lease(&key, &holder, lifetime_s, self.asked).await {
                    reply.send(ours);
                }
            }
        }
    }
}

/// Seconds since the epoch.
fn now_s() -> u64 {
    u64::try_from(sealane_sys::time::unix_coarse_s()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
