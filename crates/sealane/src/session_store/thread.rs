//! The thread that talks to session stores and keeps ticket keys.

use super::client::Client;
use super::ring_keeper::{Keeper, KeptRing, SharedRing, restore};
use super::state::write_state_file;
use super::{RemoteStore, answer_requests};
use crate::control;
use crate::journal::{Journal, note};
use sealane_server::Snapshot;
use sealane_server::log::OsError;
use sealane_tls::{SessionState, SharedStore};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

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
            StateSink::File(path) => write_state_file(path, state).map_err(|(_call, error)| error),
            StateSink::Nowhere => Ok(()),
        }
    }
}

/// Starts the thread, unless there is nothing for it to do: no store and no keys
/// that rotate. `state` is what another process, or the file, has left of the keys.
///
/// # Errors
/// When the thread or its runtime cannot be made.
pub(crate) fn start(
    stores: &[Arc<RemoteStore>],
    snapshot: &Snapshot,
    sessions: &SessionState,
    state: Option<&[u8]>,
    sink: StateSink,
    journal: &Journal,
) -> io::Result<()> {
    let clients: Vec<_> = stores
        .iter()
        .map(|store| Client::new(store.conf(), store.claims, journal.clone()))
        .map(Arc::new)
        .collect();
    let client_of = |shared: &Arc<dyn SharedStore>| {
        let same =
            |store: &Arc<RemoteStore>| std::ptr::addr_eq(Arc::as_ptr(store), Arc::as_ptr(shared));
        let at = stores.iter().position(same)?;
        Some(Arc::clone(&clients[at]))
    };
    let rings = sessions.rings().into_iter().map(|(name, ring)| {
        let mut shared = snapshot.shared_rings().iter();
        let shared = shared.find(|shared| shared.name == name).and_then(|found| {
            let client = client_of(&found.store)?;
            Some(SharedRing::new(client, Arc::clone(&found.seal), &name))
        });
        KeptRing { name, ring, shared }
    });
    let rings: Vec<_> = rings.collect();
    if stores.is_empty() && rings.is_empty() {
        return Ok(());
    }
    if let Some(state) = state {
        restore(&rings, state, journal);
    }
    let keeper = Keeper::new(rings, sink, journal.clone());
    let rests: Vec<_> = stores.iter().map(|store| store.take_rest()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    std::thread::Builder::new()
        .name(THREAD_NAME.to_owned())
        .spawn(move || {
            runtime.block_on(async {
                for (client, rest) in clients.into_iter().zip(rests) {
                    let Some(rest) = rest else { continue };
                    let connected = Arc::clone(&client);
                    let dialer = rest.dialer;
                    tokio::spawn(async move { connected.keep_connected(dialer).await });
                    tokio::spawn(answer_requests(rest.queue, client));
                }
                keeper.keep().await;
            });
        })?;
    Ok(())
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
