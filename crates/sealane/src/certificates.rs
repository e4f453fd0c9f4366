//! Certificates that look after themselves.
//!
//! One thread of the worker process, "certificates", asks OCSP responders ([`responders`]) over
//! HTTP ([`fetch`]), for staples ([`stapling`]) and about clients ([`clients`]), and orders
//! certificates from ACME servers ([`acme`]). Handshakes read what it has found and never wait for
//! it; requests of clients that are asked about wait without blocking a worker.

pub(crate) mod acme;
mod clients;
pub(crate) mod fetch;
mod kept;
mod responders;
mod stapling;

pub(crate) use self::kept::KeptStaples;

use self::acme::{CommandDesk, Keepers, Records};
use self::clients::Clients;
use self::stapling::{Kept, Settings};
use crate::control_thread;
use crate::journal::{Journal, note};
use crate::materials;
use sealane_conf::model::Http;
use sealane_log::OsError;
use sealane_server::{AcmeState, AcmeTask, Snapshot, StapleTask, StatusDesk, StatusRequest};
use sealane_sys::guard::Guard;
use sealane_tls::StapleId;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

/// Name of the thread, for `ps` and the log.
const THREAD_NAME: &str = "certificates";

/// Days before the end of a certificate when it is warned of; `console` has these limits, too.
pub(crate) const ENDS_SOON_DAYS: u8 = 14;
/// The same when the warning grows louder.
pub(crate) const ENDS_VERY_SOON_DAYS: u8 = 3;

/// Responders that are asked at the same time.
const MAX_ASKED_AT_ONCE: usize = 16;

/// The file of `ssl_stapling_state`.
pub(crate) fn state_file(http: Option<&Http>) -> Option<PathBuf> {
    let servers = http.into_iter().flat_map(|http| &http.servers);
    let mut staplings = servers.filter_map(|server| server.tls.as_ref()?.stapling.as_ref());
    staplings.find_map(|stapling| stapling.state.clone())
}

/// The staples of the last run. Without them responders are asked.
pub(crate) fn read_state(path: &Path, guard: &Guard, journal: &Journal) -> KeptStaples {
    let unusable = |why: &dyn std::fmt::Display| {
        note!(
            journal,
            Warn,
            "the staples of \"{}\" cannot be used ({why}): responders are asked for new ones",
            path.display()
        );
        KeptStaples::default()
    };
    match materials::read_state(path, guard) {
        Ok(None) => KeptStaples::default(),
        Ok(Some(bytes)) => KeptStaples::unpack(&bytes).unwrap_or_else(|why| unusable(&why)),
        Err(why) => unusable(&why),
    }
}

/// The thread, if one is needed.
pub(crate) struct CertificateThread {
    work: Option<mpsc::UnboundedSender<Work>>,
    /// The master, which keeps staples.
    master: Option<Arc<OwnedFd>>,
    /// Where it is asked to run programs.
    desk: Arc<CommandDesk>,
    /// What is known about certificates from ACME servers.
    records: Records,
}

/// What the thread is to do from now on.
enum Work {
    /// To look after the certificates of a configuration.
    Configuration(Configuration),
    /// To order nothing any more: another process does.
    EndOrders,
}

struct Configuration {
    staples: Vec<StapleTask>,
    acme: Vec<AcmeTask>,
    serving: Arc<AcmeState>,
    journal: Journal,
}

impl CertificateThread {
    /// None is running yet.
    pub(crate) fn new(master: Option<&OwnedFd>, journal: &Journal) -> CertificateThread {
        let master = master.and_then(|link| match link.try_clone() {
            Ok(link) => Some(Arc::new(link)),
            Err(error) => {
                let error = OsError(&error);
                note!(
                    journal,
                    Alert,
                    "staples are not saved, and no \"dns_command\" is run (dup() failed ({error}))"
                );
                None
            }
        });
        CertificateThread {
            work: None,
            desk: Arc::new(CommandDesk::new(master.clone())),
            master,
            records: Records::default(),
        }
    }

    /// Switches to a new configuration. What is known about certificates that it also has stays;
    /// when this returns, every server has something to serve.
    ///
    /// # Errors
    /// When the thread or its runtime cannot be made.
    pub(crate) fn set(
        &mut self,
        snapshot: &Snapshot,
        statuses: &StatusDesk,
        journal: &Journal,
    ) -> io::Result<()> {
        let (staples, acme) = (snapshot.staples(), snapshot.acme_tasks());
        self.records.prepare(acme, snapshot.acme(), journal);
        let idle = staples.is_empty() && acme.is_empty() && !snapshot.asks_about_clients();
        let work = match &self.work {
            Some(work) => work,
            None if idle => return Ok(()),
            None => {
                let requests = statuses.take_receiver();
                let requests = requests.ok_or_else(|| io::Error::other("it was started before"))?;
                let keepers = Keepers::new(
                    self.records.clone(),
                    Arc::clone(&self.desk),
                    journal.clone(),
                );
                self.work
                    .insert(start(self.master.clone(), requests, keepers)?)
            }
        };
        let sent = work.send(Work::Configuration(Configuration {
            staples: staples.to_vec(),
            acme: acme.to_vec(),
            serving: Arc::clone(snapshot.acme()),
            journal: journal.clone(),
        }));
        sent.map_err(|_| io::Error::other("the thread has ended; see the alert before"))
    }

    /// The master has run a program, or not.
    pub(crate) fn dns_command_done(&self, id: u64, result: Result<(), String>) {
        self.desk.done(id, result);
    }

    /// This process ends: the next one goes on with orders that are under way.
    pub(crate) fn end_orders(&self) {
        if let Some(work) = &self.work {
            // A thread that has ended orders nothing.
            let _ = work.send(Work::EndOrders);
        }
    }
}

fn start(
    master: Option<Arc<OwnedFd>>,
    requests: mpsc::Receiver<StatusRequest>,
    keepers: Keepers,
) -> io::Result<mpsc::UnboundedSender<Work>> {
    control_thread::start(THREAD_NAME, |work| run(work, requests, master, keepers))
}

/// Looks after certificates until all senders are gone.
async fn run(
    mut work: mpsc::UnboundedReceiver<Work>,
    mut requests: mpsc::Receiver<StatusRequest>,
    master: Option<Arc<OwnedFd>>,
    mut keepers: Keepers,
) {
    let asking = Arc::new(Semaphore::new(MAX_ASKED_AT_ONCE));
    let mut kept: HashMap<StapleId, Kept> = HashMap::new();
    let mut clients = Clients::new();
    // There is one before the first client.
    let mut journal: Option<Journal> = None;
    loop {
        let configuration = tokio::select! {
            biased;
            next = work.recv() => match next {
                Some(Work::Configuration(configuration)) => configuration,
                Some(Work::EndOrders) => {
                    keepers.end();
                    continue;
                }
                None => return,
            },
            // The desk lasts as long as the process.
            Some(request) = requests.recv() => {
                if let Some(journal) = &journal {
                    clients.serve(request, journal);
                }
                continue;
            }
        };
        let mut next = HashMap::new();
        for task in configuration.staples {
            let id = task.certificate.id();
            let settings = Settings {
                resolver: task.resolver,
                shared: task.shared,
                master: master.clone(),
                journal: configuration.journal.clone(),
            };
            let kept = match kept.remove(&id) {
                Some(known) => known.with(settings),
                None => Kept::new(task.certificate, settings, Arc::clone(&asking)),
            };
            next.insert(id, kept);
        }
        // Those that are left end with the configuration that named them.
        kept = next;
        journal = Some(configuration.journal.clone());
        keepers.set(
            configuration.acme,
            &configuration.serving,
            configuration.journal,
        );
    }
}
