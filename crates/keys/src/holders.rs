//! All key processes, as a worker process knows them: one for keys from files, one for each device.

use crate::client::{KeyClient, Tell, Wanted};
use sealane_tls::accelerator::Job;
use sealane_tls::{HolderId, KeyHolder, KeyId, Route};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use tokio::sync::Notify;

/// Routes operations to key processes.
pub struct Holders {
    threads: usize,
    tell: Tell,
    /// In the order in which they were heard of; none is ever removed.
    all: RwLock<Vec<Holder>>,
    /// There is another one.
    added: Notify,
}

struct Holder {
    id: HolderId,
    client: Arc<KeyClient>,
    /// No configuration uses it any more.
    is_retired: AtomicBool,
}

impl Holders {
    /// None yet, for so many worker threads.
    pub fn new(threads: usize, tell: Tell) -> Arc<Self> {
        Arc::new(Self {
            threads,
            tell,
            all: RwLock::default(),
            added: Notify::new(),
        })
    }

    /// Opens channels over a line to a process, which may be new, or take the place of one that has
    /// died.
    ///
    /// # Errors
    ///
    /// When there are no descriptors, or the process is gone already.
    pub fn connect(&self, id: HolderId, name: &str, line: OwnedFd) -> io::Result<()> {
        self.add(id, name).connect(line)
    }

    /// A process that may have no line yet.
    pub fn add(&self, id: HolderId, name: &str) -> Arc<KeyClient> {
        if let Some(known) = self.get(id) {
            return known;
        }
        let client = KeyClient::new(name, self.threads, Arc::clone(&self.tell));
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.push(Holder {
            id,
            client: Arc::clone(&client),
            is_retired: AtomicBool::new(false),
        });
        drop(all);
        self.added.notify_waiters();
        client
    }

    /// No configuration uses this one any more.
    pub fn retire(&self, id: HolderId) {
        if let Some(holder) = self.all().iter().find(|holder| holder.id == id) {
            holder.is_retired.store(true, Ordering::Relaxed);
        }
    }

    /// The process of keys from files, which also holds keys that this process has it load.
    pub fn processor(&self) -> Option<Arc<KeyClient>> {
        self.get(HolderId::PROCESSOR)
    }

    /// Operations that wait or are under way.
    pub fn pending(&self) -> usize {
        self.all().iter().map(|it| it.client.pending()).sum()
    }

    /// The devices in use.
    pub fn devices(&self) -> Vec<Arc<KeyClient>> {
        let all = self.all();
        let devices = all.iter().filter(|holder| {
            holder.id != HolderId::PROCESSOR && !holder.is_retired.load(Ordering::Relaxed)
        });
        devices.map(|holder| Arc::clone(&holder.client)).collect()
    }

    /// The process that was heard of after `known` others, once there is one.
    pub async fn next(&self, known: usize) -> Arc<KeyClient> {
        loop {
            let mut added = pin!(self.added.notified());
            added.as_mut().enable();
            if let Some(holder) = self.all().get(known) {
                return Arc::clone(&holder.client);
            }
            added.await;
        }
    }

    fn get(&self, id: HolderId) -> Option<Arc<KeyClient>> {
        let all = self.all();
        let holder = all.iter().find(|holder| holder.id == id)?;
        Some(Arc::clone(&holder.client))
    }

    /// No code that may panic runs under the lock.
    fn all(&self) -> RwLockReadGuard<'_, Vec<Holder>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeyHolder for Holders {
    fn submit(&self, key: KeyId, route: Route, job: Job) {
        let Some(client) = self.get(route.holder) else {
            return job.complete(None); // the master tells of each before a configuration names it
        };
        let fallback = match route.has_fallback {
            true => self.get(HolderId::PROCESSOR),
            false => None,
        };
        let wanted = Wanted::new(key, job);
        client.submit(wanted.with_limit(route.max_wait).with_fallback(fallback));
    }
}

impl fmt::Debug for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.all();
        let all = all.iter().map(|holder| (holder.id, &holder.client));
        f.debug_map().entries(all).finish()
    }
}
