//! The worker's side of a reload: from the master's messages to a snapshot.

use super::bundle::{self, Bundle};
use super::records::ReplayLoader;
use crate::resolver::{self, Resolvers};
use crate::session_store::{self, RemoteStore};
use crate::startup::Server;
use sealane_conf::Config;
use sealane_log::LogSet;
use sealane_server::snapshot::ListenerId;
use sealane_server::worker::BoundListener;
use sealane_server::{Materials, Snapshot, StatusDesk};
use sealane_tls::{Capabilities, HandshakeState, SessionState, StapleState};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Messages of a new configuration, until the last of them has come.
#[derive(Default)]
pub(crate) struct Incoming {
    begun: Option<Delivery>,
}

/// A configuration as it was handed over.
struct Delivery {
    generation: u64,
    memory: OwnedFd,
    logs: Vec<(u16, OwnedFd)>,
    sockets: Vec<(u32, OwnedFd)>,
}

/// What outlives configurations in the worker process.
pub(crate) struct Carried {
    sessions: Arc<SessionState>,
    handshakes: Arc<HandshakeState>,
    staples: Arc<StapleState>,
    statuses: Arc<StatusDesk>,
    kernel_tls: Option<Arc<Capabilities>>,
    session_stores: Vec<Arc<RemoteStore>>,
    resolvers: Resolvers,
    snapshot: Arc<Snapshot>,
    logs: Arc<LogSet>,
    threads: u32,
}

/// A configuration that was built again.
pub(crate) struct Rebuilt {
    pub(crate) config: Config,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) logs: Arc<LogSet>,
    pub(crate) listeners: Vec<BoundListener>,
    /// New sockets of `dns_listen`, by number.
    pub(crate) names: Vec<(u32, OwnedFd)>,
}

impl Incoming {
    /// One begins. What is left of another was given up by the master.
    pub(crate) fn begin(&mut self, generation: u64, memory: OwnedFd) {
        self.begun = Some(Delivery {
            generation,
            memory,
            logs: Vec::new(),
            sockets: Vec::new(),
        });
    }

    /// Logs of it.
    pub(crate) fn add_logs(&mut self, generation: u64, logs: Vec<(u16, OwnedFd)>) {
        if let Some(delivery) = self.of(generation) {
            delivery.logs.extend(logs);
        }
    }

    /// Sockets of it.
    pub(crate) fn add_sockets(&mut self, generation: u64, sockets: Vec<(u32, OwnedFd)>) {
        if let Some(delivery) = self.of(generation) {
            delivery.sockets.extend(sockets);
        }
    }

    fn of(&mut self, generation: u64) -> Option<&mut Delivery> {
        let begun = self.begun.as_mut();
        begun.filter(|delivery| delivery.generation == generation)
    }

    /// It is complete, with this many logs and sockets: builds it.
    ///
    /// # Errors
    /// Why it cannot be used; nothing has changed.
    pub(crate) fn build(
        &mut self,
        generation: u64,
        logs: u32,
        sockets: u32,
        carried: &mut Carried,
    ) -> Result<Rebuilt, String> {
        let delivery = self.begun.take();
        let delivery = delivery.filter(|delivery| delivery.generation == generation);
        let delivery = delivery.ok_or("its first part was not received")?;
        let counts = [
            ("logs", delivery.logs.len(), logs),
            ("sockets", delivery.sockets.len(), sockets),
        ];
        for (what, received, sent) in counts {
            if received != sent as usize {
                return Err(format!("{received} of {sent} {what} were received"));
            }
        }
        carried.build(delivery)
    }
}

impl Carried {
    /// What the first configuration has left.
    pub(crate) fn of(server: &mut Server) -> Carried {
        Carried {
            sessions: Arc::clone(&server.sessions),
            handshakes: Arc::clone(&server.handshakes),
            staples: Arc::clone(&server.staples),
            statuses: Arc::clone(&server.statuses),
            kernel_tls: server.kernel_tls.clone(),
            session_stores: std::mem::take(&mut server.session_stores),
            resolvers: std::mem::take(&mut server.resolvers),
            snapshot: Arc::clone(&server.snapshot),
            logs: Arc::clone(&server.logs),
            threads: server.threads,
        }
    }

    /// Ticket keys and session caches.
    pub(crate) fn sessions(&self) -> &Arc<SessionState> {
        &self.sessions
    }

    /// Where issuers of clients' certificates are asked.
    pub(crate) fn statuses(&self) -> &StatusDesk {
        &self.statuses
    }

    /// The stores of the newest configuration.
    pub(crate) fn session_stores(&self) -> &[Arc<RemoteStore>] {
        &self.session_stores
    }

    /// The resolvers of the newest configuration.
    pub(crate) fn resolvers(&mut self) -> &mut Resolvers {
        &mut self.resolvers
    }

    fn build(&mut self, delivery: Delivery) -> Result<Rebuilt, String> {
        let bundle = bundle::open(delivery.memory)?;
        if bundle.threads != self.threads {
            let (wanted, have) = (bundle.threads, self.threads);
            return Err(format!("it is for {wanted} threads and not for {have}"));
        }
        let Bundle {
            options,
            records,
            files,
            keys,
            ..
        } = bundle;
        let mut loader = ReplayLoader::new(records);
        let config = sealane_conf::parse(&options, &mut loader)
            .map_err(|failure| failure.error.headline().to_string())?;
        if !loader.is_finished() {
            return Err("it was read differently by the master".to_owned());
        }
        let http = config.http.as_ref();
        let mut materials = Materials::new();
        for (path, content) in files {
            materials.insert_wiped(path, content);
        }
        for (file, handle) in keys {
            materials.insert_key(file, handle);
        }
        if let Some(capabilities) = &self.kernel_tls {
            materials.set_kernel_tls(Arc::clone(capabilities));
        }
        // Keys and caches that only a configuration before the running one has named.
        self.sessions.prune();
        materials.set_sessions(Arc::clone(&self.sessions));
        materials.set_handshakes(Arc::clone(&self.handshakes));
        materials.set_staples(Arc::clone(&self.staples));
        materials.set_statuses(Arc::clone(&self.statuses));
        materials.set_acme(Arc::clone(self.snapshot.acme()));
        materials.set_spans(Arc::clone(self.snapshot.spans()));
        materials.set_before(Arc::clone(&self.snapshot));
        let session_stores = session_store::prepare(http, &self.session_stores, &mut materials)?;
        let mut resolvers = resolver::prepare(http, &self.resolvers, &mut materials);
        let logs = self.logs.adopt_next(&config, delivery.logs);
        let logs = logs.map_err(|error| error.to_string())?;
        let built = Snapshot::build(&config, &materials, &logs);
        // The master has already reported warnings.
        let (snapshot, _) = built.map_err(|diagnostic| diagnostic.headline().to_string())?;
        resolvers.settle();
        self.session_stores = session_stores;
        self.resolvers = resolvers;
        self.logs = Arc::new(logs);
        self.snapshot = Arc::new(snapshot);
        let first_name = config.http.as_ref().map_or(0, |http| http.listeners.len());
        let (names, listening) = delivery
            .sockets
            .into_iter()
            .partition(|(number, _)| *number as usize >= first_name);
        Ok(Rebuilt {
            config,
            snapshot: Arc::clone(&self.snapshot),
            logs: Arc::clone(&self.logs),
            listeners: listeners(listening),
            names,
        })
    }
}

/// Sockets by listener, in the order in which they came.
fn listeners(sockets: Vec<(u32, OwnedFd)>) -> Vec<BoundListener> {
    let mut listeners: Vec<BoundListener> = Vec::new();
    for (listener, socket) in sockets {
        let id = ListenerId(listener);
        match listeners.iter_mut().find(|known| known.id == id) {
            Some(known) => known.sockets.push(socket),
            None => listeners.push(BoundListener {
                id,
                sockets: vec![socket],
            }),
        }
    }
    listeners
}
