//! `acme_issuer` and `acme_certificate`: certificates from ACME servers (RFC 8555).
//!
//! ```text
//! Keeper (one for each certificate)
//!   record: what is known, in the state directory and in the store of all nodes
//!   order: one order from the state that it is in to a certificate
//!     client: the protocol; transport: HTTPS; jws, keys: what is signed
//!     answers: into AcmeState, for requests and handshakes; dns: into a zone, by updates or by
//!       a program
//!   renewal: when, and how loud to warn
//! ```
//!
//! Whatever happens, what is served is served on. An attempt that fails is repeated later and
//! later. An order that is under way is kept before its next step, and gone on with after a crash.

mod account;
mod client;
mod dns;
mod error;
mod jws;
mod keeper;
mod keys;
mod order;
mod record;
mod renewal;
mod serving;
mod shared;
mod state;
mod transport;

pub(super) use self::dns::CommandDesk;
pub(crate) use self::record::Record;

use self::account::Account;
use self::keeper::{Keeper, Parts};
use self::shared::SharedRecords;
use self::state::StateDirectory;
use self::transport::Transport;
use crate::journal::{Journal, note};
use sealane_conf::model::AcmeCertificate;
use sealane_server::{AcmeId, AcmeState, AcmeTask};
use sealane_tls::{SharedSessions, fill_random};
use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

/// Orders that are under way at the same time.
const MAX_ORDERS_AT_ONCE: usize = 8;

/// What is known about the certificates of this process.
#[derive(Clone, Default)]
pub(crate) struct Records(Arc<Mutex<HashMap<AcmeId, Record>>>);

impl Records {
    /// Reads what earlier runs have left about new certificates, and serves it, or something
    /// self-signed, so that the first client finds a certificate.
    pub(crate) fn prepare(&self, tasks: &[AcmeTask], serving: &AcmeState, journal: &Journal) {
        serving.retain(tasks);
        let is_used = |id: &AcmeId| tasks.iter().any(|task| task.id == *id);
        self.lock().retain(|id, _| is_used(id));
        for task in tasks {
            if self.lock().contains_key(&task.id) {
                continue;
            }
            let record = kept(&task.conf).unwrap_or_else(|why| {
                note!(
                    journal,
                    Error,
                    "acme issuer \"{}\": the file of the certificate for {} cannot be used \
                     ({why}): a new one is ordered",
                    task.conf.issuer.name,
                    label(&task.conf)
                );
                None
            });
            let record = record.unwrap_or_else(|| Record::new(&task.conf));
            let served = match &record.certificate {
                Some(certificate) => serving::serve(serving, task, certificate),
                None => serving::serve_self_signed(serving, task),
            };
            if let Err(why) = served {
                note!(
                    journal,
                    Error,
                    "acme issuer \"{}\": the certificate for {} cannot be served: {why}",
                    task.conf.issuer.name,
                    label(&task.conf)
                );
            }
            self.lock().insert(task.id, record);
        }
    }

    fn get(&self, task: &AcmeTask) -> Record {
        let known = self.lock().get(&task.id).cloned();
        known.unwrap_or_else(|| Record::new(&task.conf))
    }

    fn set(&self, task: &AcmeTask, record: &Record) {
        self.lock().insert(task.id, record.clone());
    }

    /// No code that may panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, HashMap<AcmeId, Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks the files that issuers name, as far as that is possible without asking anybody.
///
/// # Errors
/// What cannot be used.
pub(crate) fn check(tasks: &[AcmeTask]) -> Result<(), String> {
    for task in tasks {
        let issuer = &task.conf.issuer;
        let failed = |why: &dyn std::fmt::Display| {
            format!("acme_issuer \"{}\" cannot be used: {why}", issuer.name)
        };
        let files = &task.files;
        Account::new(issuer, files)
            .check()
            .map_err(|error| failed(&error))?;
        if let Some(trusted) = &files.trusted {
            Transport::new(Some(trusted), true, None).map_err(|error| failed(&error))?;
        }
        if let Some(key) = &files.dns_key {
            dns::TsigKey::parse(key).map_err(|why| failed(&why))?;
        }
    }
    Ok(())
}

/// What the state directory has about a certificate; `None` when there is nothing.
///
/// # Errors
/// Why it cannot be used.
pub(crate) fn kept(conf: &AcmeCertificate) -> Result<Option<Record>, String> {
    let Some(state) = StateDirectory::of(&conf.issuer) else {
        return Ok(None);
    };
    let name = record::file_name(conf);
    let path = || state.path().join(&name);
    let unusable = |why: String| format!("\"{}\": {why}", path().display());
    let Some(bytes) = state.read(&name).map_err(unusable)? else {
        return Ok(None);
    };
    let record = Record::unpack(&bytes, conf).map_err(unusable)?;
    if let Some(certificate) = &record.certificate {
        let facts = certificate.facts();
        facts.map_err(|error| unusable(error.to_string()))?;
    }
    Ok(Some(record))
}

/// The state directories of a configuration's issuers.
pub(crate) fn state_directories(http: Option<&sealane_conf::model::Http>) -> Vec<PathBuf> {
    let servers = http.into_iter().flat_map(|http| &http.servers);
    let certificates = servers.filter_map(|server| server.acme_certificate.as_ref());
    let mut paths: Vec<PathBuf> = certificates
        .filter_map(|certificate| certificate.issuer.state_path.clone())
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Looks after the certificates of the newest configuration.
pub(crate) struct Keepers {
    running: HashMap<AcmeId, Running>,
    accounts: Vec<Arc<Account>>,
    records: Records,
    ordering: Arc<Semaphore>,
    desk: Arc<CommandDesk>,
    /// This process, among all nodes.
    holder: [u8; 16],
    journal: Arc<Mutex<Journal>>,
}

/// A certificate that is looked after until this is dropped.
struct Running {
    task: AcmeTask,
    handle: AbortHandle,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

impl Running {
    /// Whether it does what is wanted.
    fn does(&self, task: &AcmeTask) -> bool {
        let store = |task: &AcmeTask| {
            let shared = task.shared.as_ref()?;
            Some((
                Arc::as_ptr(&shared.store).cast::<()>(),
                // The same seal has the same names.
                shared.seal.record_key("which seal").as_str().to_owned(),
            ))
        };
        let resolver = |task: &AcmeTask| {
            let resolver = task.resolver.as_ref();
            resolver.map(|resolver| Arc::as_ptr(resolver).cast::<()>())
        };
        self.task.conf.issuer == task.conf.issuer
            && self.task.files == task.files
            && store(&self.task) == store(task)
            && resolver(&self.task) == resolver(task)
    }
}

impl Keepers {
    pub(super) fn new(records: Records, desk: Arc<CommandDesk>, journal: Journal) -> Keepers {
        let mut holder = [0; 16];
        fill_random(&mut holder);
        Keepers {
            running: HashMap::new(),
            accounts: Vec::new(),
            records,
            ordering: Arc::new(Semaphore::new(MAX_ORDERS_AT_ONCE)),
            desk,
            holder,
            journal: Arc::new(Mutex::new(journal)),
        }
    }

    /// Switches to a new configuration. What is under way for certificates that it also has goes
    /// on.
    pub(super) fn set(&mut self, tasks: Vec<AcmeTask>, serving: &Arc<AcmeState>, journal: Journal) {
        *self.journal.lock().unwrap_or_else(PoisonError::into_inner) = journal;
        let mut next = HashMap::new();
        let mut accounts = Vec::new();
        for task in tasks {
            let account = self.account(&task, &mut accounts);
            let running = self.running.remove(&task.id);
            let running = match running.filter(|running| running.does(&task)) {
                Some(running) => running,
                None => self.start(task.clone(), serving, account),
            };
            next.insert(task.id, running);
        }
        // Those that are left end with the configuration that named them.
        (self.running, self.accounts) = (next, accounts);
    }

    /// Gives all of them up. What is under way is kept.
    pub(super) fn end(&mut self) {
        self.running.clear();
    }

    fn account(&self, task: &AcmeTask, next: &mut Vec<Arc<Account>>) -> Arc<Account> {
        let (issuer, files) = (&task.conf.issuer, &task.files);
        let is_it = |account: &&Arc<Account>| account.is_of(issuer, files);
        if let Some(known) = next.iter().find(is_it) {
            return Arc::clone(known);
        }
        let known = self.accounts.iter().find(is_it).cloned();
        let account = known.unwrap_or_else(|| Arc::new(Account::new(issuer, files)));
        next.push(Arc::clone(&account));
        account
    }

    fn start(&self, task: AcmeTask, serving: &Arc<AcmeState>, account: Arc<Account>) -> Running {
        let shared =
            |store: &SharedSessions, of: String| SharedRecords::new(store.clone(), of, self.holder);
        let issuer = &task.conf.issuer;
        let account_name = format!("acme issuer {} {}", issuer.name, issuer.uri);
        let keeper = Keeper::new(Parts {
            shared: task.shared.as_ref().map(|store| {
                let certificate = format!("acme certificate {} {}", issuer.name, hex(&task.id.0));
                (shared(store, certificate), shared(store, account_name))
            }),
            task: task.clone(),
            serving: Arc::clone(serving),
            journal: Arc::clone(&self.journal),
            account,
            records: self.records.clone(),
            ordering: Arc::clone(&self.ordering),
            desk: Arc::clone(&self.desk),
        });
        Running {
            task,
            handle: tokio::spawn(keeper.keep()).abort_handle(),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The identifiers of a certificate for messages.
pub(crate) fn label(conf: &AcmeCertificate) -> String {
    let first = conf.identifiers.first();
    let first = first.map(ToString::to_string).unwrap_or_default();
    match conf.identifiers.len() {
        0 | 1 => format!("\"{first}\""),
        count => format!("\"{first}\" and {} more", count - 1),
    }
}

fn now_s() -> i64 {
    sealane_sys::time::unix_coarse_s()
}

#[cfg(test)]
pub(in crate::certificates) mod tests {
    use sealane_conf::model::AcmeCertificate;
    use sealane_conf::{MemoryLoader, Options};
    use std::sync::Arc;

    /// An `acme_certificate` for these names.
    pub(super) fn conf(names: &str) -> Arc<AcmeCertificate> {
        let text = format!(
            "events {{}} http {{ acme_issuer i {{ uri https://a.test/; challenge dns-01; \
             dns_update 127.0.0.1; state_path off; }} server {{ listen 80; \
             acme_certificate i {names}; }} }}"
        );
        let mut loader = MemoryLoader::new().with("/nginx.conf", text);
        let options = Options::new("/nginx.conf", "/");
        let config = sealane_conf::parse(&options, &mut loader).expect("a good one");
        let http = config.http.expect("it is there");
        let certificate = http.servers[0].acme_certificate.clone();
        certificate.expect("the server has one")
    }
}
