//! The thread that talks to session stores and keeps ticket keys.

use super::client::Client;
use super::ring_keeper::{JOIN_TIMEOUT, Keeper, KeptRing, SharedRing, restore};
use super::state::write_state_file;
use super::{RemoteStore, Rest, answer_requests};
use crate::control;
use crate::control_thread;
use crate::journal::{Journal, note};
use sealane_log::OsError;
use sealane_server::Snapshot;
use sealane_sys::guard::Guard;
use sealane_tls::{SessionState, SharedStore};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Weak, mpsc as std_mpsc};
use std::time::Duration;
use tokio::sync::mpsc;

/// Name of the thread, for `ps` and the log.
const THREAD_NAME: &str = "session store";

/// Where ticket keys go that are to be saved.
pub(crate) enum StateSink {
    /// To the master, which keeps them for the next worker and writes the file.
    Master(OwnedFd),
    /// Into the file: there is no master.
    File(PathBuf),
    /// Nowhere: there is no master and no file.
    Nowhere,
}

impl StateSink {
    pub(super) fn take(&self, state: &[u8]) -> io::Result<()> {
        match self {
            StateSink::Master(link) => control::send_ticket_state(link.as_fd(), state),
            StateSink::File(path) => {
                write_state_file(path, state, &Guard::default()).map_err(|(_call, error)| error)
            }
            StateSink::Nowhere => Ok(()),
        }
    }
}

/// The thread that talks to session stores, if one is needed.
pub(crate) struct StoreThread {
    work: Option<mpsc::UnboundedSender<Work>>,
    /// Until the thread takes it.
    sink: Option<StateSink>,
    /// Stores that it knows, each with its client.
    known: Vec<(Weak<RemoteStore>, Arc<Client>)>,
}

/// What the thread is to do from now on.
struct Work {
    /// Stores that it does not know yet.
    stores: Vec<(Rest, Arc<Client>)>,
    rings: Vec<KeptRing>,
    journal: Journal,
    /// Signalled, or dropped, when rings without keys have queried their stores.
    joined: std_mpsc::Sender<()>,
}

/// Beyond the thread's own time-out, in case it does not get a processor.
const JOIN_GRACE: Duration = Duration::from_secs(1);

impl StoreThread {
    /// None is running yet. `sink` is where ticket keys go.
    pub(crate) fn new(sink: StateSink) -> StoreThread {
        StoreThread {
            work: None,
            sink: Some(sink),
            known: Vec::new(),
        }
    }

    /// Switches to a new configuration, unless it has neither stores nor rotating
    /// keys. `states` are the keys left by other processes or in the file. Earlier stores
    /// are used for as long as they are referenced.
    ///
    /// Shared rings that have no keys yet get them meanwhile: this waits for reachable stores,
    /// [`JOIN_TIMEOUT`] at most.
    ///
    /// # Errors
    /// When the thread or its runtime cannot be made.
    pub(crate) fn set(
        &mut self,
        stores: &[Arc<RemoteStore>],
        snapshot: &Snapshot,
        sessions: &SessionState,
        states: &[&[u8]],
        journal: &Journal,
    ) -> io::Result<()> {
        self.known.retain(|(store, _)| store.strong_count() > 0);
        let mut new_stores = Vec::new();
        for store in stores {
            if let Some(rest) = store.take_rest() {
                let client = Client::new(store.conf(), store.claims, journal.clone());
                let client = Arc::new(client);
                // It is taken once, and so it has none yet.
                let _ = store.client.set(Arc::clone(&client));
                self.known
                    .push((Arc::downgrade(store), Arc::clone(&client)));
                new_stores.push((rest, client));
            }
        }
        let rings = self.rings(snapshot, sessions);
        if self.work.is_none() && stores.is_empty() && rings.is_empty() {
            return Ok(());
        }
        for state in states {
            restore(sessions, state, journal);
        }
        if self.work.is_none() {
            let sink = self.sink.take().unwrap_or(StateSink::Nowhere);
            self.work = Some(start(sink, journal)?);
        }
        let must_join = rings.iter().any(KeptRing::must_join);
        let (joined, has_joined) = std_mpsc::channel();
        let work = Work {
            stores: new_stores,
            rings,
            journal: journal.clone(),
            joined,
        };
        let sent = self.work.as_ref().map_or(Ok(()), |to| to.send(work));
        sent.map_err(|_| io::Error::other("the thread has ended; see the alert before"))?;
        if must_join {
            // Without an answer the server begins alone; the log has the reason.
            let _ = has_joined.recv_timeout(JOIN_TIMEOUT + JOIN_GRACE);
        }
        Ok(())
    }

    /// All rotating keys, each with where it is shared.
    fn rings(&self, snapshot: &Snapshot, sessions: &SessionState) -> Vec<KeptRing> {
        let rings = sessions.rings().into_iter().map(|(name, ring)| {
            let mut shared = snapshot.shared_rings().iter();
            let shared = shared.find(|shared| shared.name == name).and_then(|found| {
                let client = self.client_of(&found.store)?;
                Some(SharedRing::new(client, Arc::clone(&found.seal), &name))
            });
            KeptRing { name, ring, shared }
        });
        rings.collect()
    }

    fn client_of(&self, shared: &Arc<dyn SharedStore>) -> Option<Arc<Client>> {
        let same = |(store, _): &&(Weak<RemoteStore>, _)| {
            std::ptr::addr_eq(store.as_ptr(), Arc::as_ptr(shared))
        };
        let known = self.known.iter().find(same);
        known.map(|(_, client)| Arc::clone(client))
    }
}

fn start(sink: StateSink, journal: &Journal) -> io::Result<mpsc::UnboundedSender<Work>> {
    let keeper = Keeper::new(Vec::new(), sink, journal.clone());
    control_thread::start(THREAD_NAME, |work| run(keeper, work))
}

/// Runs until all senders are gone.
async fn run(mut keeper: Keeper, mut work: mpsc::UnboundedReceiver<Work>) {
    let mut is_first = true;
    loop {
        let next = match is_first {
            true => work.recv().await,
            // A look that is broken off is made again by the next.
            false => tokio::select! {
                next = work.recv() => next,
                () = keeper.keep() => None,
            },
        };
        let Some(next) = next else { return };
        is_first = false;
        for (Rest { queue, dialer }, client) in next.stores {
            tokio::spawn(async move {
                let connected = Arc::clone(&client);
                tokio::select! {
                    () = connected.keep_connected(dialer) => {}
                    () = answer_requests(queue, client) => {}
                }
            });
        }
        keeper.set(next.rings, next.journal);
        keeper.join().await;
        let _ = next.joined.send(()); // nobody waits where nothing was to be fetched
    }
}

impl StateSink {
    /// The sink of a worker process: its master, if it has one.
    pub(crate) fn of_worker(
        link: Option<&OwnedFd>,
        file: Option<&PathBuf>,
        journal: &Journal,
    ) -> StateSink {
        match (link.map(OwnedFd::try_clone), file) {
            (Some(Ok(link)), _) => StateSink::Master(link),
            (Some(Err(error)), _) => {
                let error = OsError(&error);
                note!(
                    journal,
                    Alert,
                    "session ticket keys are not saved (dup() failed ({error}))"
                );
                StateSink::Nowhere
            }
            (None, Some(file)) => StateSink::File(file.clone()),
            (None, None) => StateSink::Nowhere,
        }
    }
}
