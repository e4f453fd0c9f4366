//! Certificates that look after themselves.
//!
//! One thread of the worker process, "certificates", asks OCSP responders ([`stapling`]) over
//! HTTP ([`fetch`]). Handshakes read what it has found and never wait for it.

mod fetch;
mod stapling;

use self::stapling::{Kept, Settings};
use crate::journal::Journal;
use sealane_server::StapleTask;
use sealane_tls::StapleId;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

/// Name of the thread, for `ps` and the log.
const THREAD_NAME: &str = "certificates";

/// Responders that are asked at the same time.
const MAX_ASKED_AT_ONCE: usize = 16;

/// The thread, if one is needed.
#[derive(Default)]
pub(crate) struct CertificateThread {
    work: Option<mpsc::UnboundedSender<Work>>,
}

/// What the thread is to do from now on.
struct Work {
    staples: Vec<StapleTask>,
    journal: Journal,
}

impl CertificateThread {
    /// Switches to a new configuration. What is known about certificates that it also has stays.
    ///
    /// # Errors
    /// When the thread or its runtime cannot be made.
    pub(crate) fn set(&mut self, staples: &[StapleTask], journal: &Journal) -> io::Result<()> {
        let work = match &self.work {
            Some(work) => work,
            None if staples.is_empty() => return Ok(()),
            None => self.work.insert(start()?),
        };
        let sent = work.send(Work {
            staples: staples.to_vec(),
            journal: journal.clone(),
        });
        sent.map_err(|_| io::Error::other("the thread has ended; see the alert before"))
    }
}

fn start() -> io::Result<mpsc::UnboundedSender<Work>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    let (sender, receiver) = mpsc::unbounded_channel();
    let thread = std::thread::Builder::new().name(THREAD_NAME.to_owned());
    thread.spawn(move || {
        let _ = sealane_sys::crash::prepare_thread(); // for the report of a crash
        runtime.block_on(run(receiver))
    })?;
    Ok(sender)
}

/// Looks after certificates until all senders are gone.
async fn run(mut work: mpsc::UnboundedReceiver<Work>) {
    let asking = Arc::new(Semaphore::new(MAX_ASKED_AT_ONCE));
    let mut kept: HashMap<StapleId, Kept> = HashMap::new();
    while let Some(work) = work.recv().await {
        let mut next = HashMap::new();
        for task in work.staples {
            let id = task.certificate.id();
            let settings = Settings {
                resolver: task.resolver,
                shared: task.shared,
                journal: work.journal.clone(),
            };
            let kept = match kept.remove(&id) {
                Some(known) => known.with(settings),
                None => Kept::new(task.certificate, settings, Arc::clone(&asking)),
            };
            next.insert(id, kept);
        }
        // Those that are left end with the configuration that named them.
        kept = next;
    }
}
