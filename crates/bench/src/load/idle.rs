//! Memory per idle connection.

use std::{rc::Rc, sync::Arc, thread, time::Duration};

use tokio::{sync::Semaphore, task::LocalSet};

use crate::{
    Error, Memory, ProcessTree,
    load::{
        ConnectionUse, Negotiated, Plan,
        client::{Client, EventLoop},
        run::pin_this_thread,
    },
};

/// Connections opened concurrently.
const OPENING_AT_ONCE: usize = 32;
/// Connections opened and closed before the first reading, so that one-time allocations of a server
/// are not charged to the counted connections.
const WARM_UP_CONNECTIONS: usize = 64;
/// Time between the last response and a reading: servers free buffers late.
const SETTLE: Duration = Duration::from_millis(500);

/// Memory of a server before and while it holds idle connections.
#[derive(Clone, Debug)]
pub struct IdleOutcome {
    /// How many connections were held, each after one request.
    pub connections: usize,
    /// The server's memory before they were opened.
    pub before: Memory,
    /// Its memory while all of them are idle.
    pub holding: Memory,
    /// The negotiated parameters; `None` in cleartext.
    pub negotiated: Option<Negotiated>,
}

impl IdleOutcome {
    /// Growth of the proportional set size per connection, in bytes.
    pub fn pss_bytes_per_connection(&self) -> f64 {
        (self.holding.pss_bytes as f64 - self.before.pss_bytes as f64) / self.connections as f64
    }

    /// Growth of the resident set size per connection, in bytes.
    pub fn rss_bytes_per_connection(&self) -> f64 {
        (self.holding.rss_bytes as f64 - self.before.rss_bytes as f64) / self.connections as f64
    }
}

/// Opens `plan.clients` connections with one request each, holds them for
/// `hold`, and reads the server's memory before and at the end.
///
/// # Errors
///
/// As [`crate::load::run()`], and [`Error::Closed`] if the server has closed a
/// connection before the second reading.
pub fn hold_idle(plan: &Plan, server: ProcessTree, hold: Duration) -> Result<IdleOutcome, Error> {
    if plan.connection_use != ConnectionUse::KeepAlive || plan.clients == 0 {
        return Err(Error::Usage(
            "idle connections need keep-alive and at least one client".into(),
        ));
    }
    let descriptors = raise_descriptor_limit();
    if (plan.clients as u64).saturating_add(WARM_UP_CONNECTIONS as u64) > descriptors {
        return Err(Error::Usage(format!(
            "{} connections need more file descriptors than the limit of {descriptors} allows; raise it with ulimit -n",
            plan.clients
        )));
    }
    let plan = Arc::new(plan.clone());
    // Runs in its own thread, because pinning must not outlive the measurement.
    thread::spawn(move || measure(&plan, server, hold))
        .join()
        .map_err(|_| Error::Stalled("the generator thread panicked".into()))?
}

fn measure(plan: &Arc<Plan>, server: ProcessTree, hold: Duration) -> Result<IdleOutcome, Error> {
    if !plan.cpus.is_empty() {
        pin_this_thread(&plan.cpus)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| Error::io("create an event loop", source))?;
    let shared = EventLoop::new(plan)?;
    let memory = || {
        server
            .memory()
            .map_err(|source| Error::io("read memory from /proc", source))
    };

    LocalSet::new().block_on(&runtime, async {
        drop(open(plan, WARM_UP_CONNECTIONS, &shared).await?);
        tokio::time::sleep(SETTLE).await;
        let before = memory()?;
        let clients = open(plan, plan.clients, &shared).await?;
        tokio::time::sleep(SETTLE.max(hold)).await;
        let holding = memory()?;
        if !clients.iter().all(Client::is_connected) {
            return Err(Error::Closed(
                "while it was idle: keepalive_timeout is shorter than the measurement",
            ));
        }
        let negotiated = clients.into_iter().find_map(|client| client.negotiated);
        Ok(IdleOutcome {
            connections: plan.clients,
            before,
            holding,
            negotiated,
        })
    })
}

/// Opens `count` connections and makes one request on each.
async fn open(plan: &Arc<Plan>, count: usize, shared: &EventLoop) -> Result<Vec<Client>, Error> {
    let gate = Rc::new(Semaphore::new(OPENING_AT_ONCE));
    let tasks: Vec<_> = (0..count)
        .map(|number| {
            let mut client = Client::new(Arc::clone(plan), number, shared.clone());
            let (gate, stall_limit) = (Rc::clone(&gate), plan.stall_limit);
            tokio::task::spawn_local(async move {
                let _permit = gate
                    .acquire()
                    .await
                    .map_err(|_| Error::Stalled("the run has ended".into()))?;
                tokio::time::timeout(stall_limit, client.operate())
                    .await
                    .map_err(|_| {
                        Error::Stalled(format!("a connection took longer than {stall_limit:?}"))
                    })??;
                Ok::<_, Error>(client)
            })
        })
        .collect();
    let mut clients = Vec::with_capacity(count);
    for task in tasks {
        clients.push(
            task.await
                .map_err(|_| Error::Stalled("a client panicked".into()))??,
        );
    }
    Ok(clients)
}

/// Raises the soft limit of file descriptors to the hard one and returns it.
pub(crate) fn raise_descriptor_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Refused only if another thread lowers the hard limit meanwhile; then the old limit is
    // reported.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
