//! `resolver`: names that are looked up while the server runs.
//!
//! One thread of the worker process, "resolver", talks to name servers. Workers ask through
//! [`NameResolver`], which answers from what is known or lets them wait without
//! blocking ([`names`]); `server ... resolve` entries are kept up to date by the thread itself
//! ([`group`], [`keeper`]). hickory-resolver handles the queries and replies ([`dns`]).

mod configured;
mod connections;
mod dns;
mod group;
mod keeper;
mod names;

pub(crate) use self::configured::{kept_groups, prepare};
use self::group::KeptGroup;
use self::names::NameResolver;

use self::dns::Dns;
use crate::control_thread;
use crate::journal::{Journal, note};
use sealane_conf::model;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Name of the thread, for `ps` and the log.
const THREAD_NAME: &str = "resolver";

/// All resolvers of a configuration: one for each `resolver` with its
/// `resolver_timeout`, wherever the two are set.
#[derive(Debug, Default)]
pub(crate) struct Resolvers {
    all: Vec<Arc<NameResolver>>,
    /// Those of the configuration before.
    before: Vec<Arc<NameResolver>>,
}

impl Resolvers {
    /// None yet; those of `before` that are needed again are kept.
    pub(crate) fn after(before: &Resolvers) -> Resolvers {
        Resolvers {
            all: Vec::new(),
            before: before.all.clone(),
        }
    }

    /// The resolver of a directive. It sends no query before the thread knows of it.
    pub(crate) fn of(
        &mut self,
        conf: &Arc<model::Resolver>,
        timeout: Duration,
    ) -> Arc<NameResolver> {
        if let Some(known) = self.all.iter().find(|known| known.is_of(conf, timeout)) {
            return Arc::clone(known);
        }
        let before = self.before.iter().find(|known| known.is_of(conf, timeout));
        let resolver = before
            .cloned()
            .unwrap_or_else(|| Arc::new(NameResolver::new(Arc::clone(conf), timeout)));
        self.all.push(Arc::clone(&resolver));
        resolver
    }

    /// Forgets the configuration before.
    pub(crate) fn settle(&mut self) {
        self.before.clear();
    }
}

/// The thread that looks names up, if one is needed.
#[derive(Default)]
pub(crate) struct ResolverThread {
    work: Option<mpsc::UnboundedSender<Work>>,
}

/// What the thread is to do from now on.
struct Work {
    resolvers: Vec<Arc<NameResolver>>,
    groups: Vec<(Arc<NameResolver>, KeptGroup)>,
    journal: Journal,
}

impl ResolverThread {
    /// Switches to a new configuration. `groups` are those with names to look up,
    /// each with its resolver; those of the previous configuration are dropped. Earlier
    /// resolvers answer for as long as they are referenced.
    ///
    /// # Errors
    /// When the thread or its runtime cannot be made.
    pub(crate) fn set(
        &mut self,
        resolvers: &Resolvers,
        groups: Vec<(Arc<NameResolver>, KeptGroup)>,
        journal: &Journal,
    ) -> io::Result<()> {
        let work = match &self.work {
            Some(work) => work,
            None if resolvers.all.is_empty() => return Ok(()),
            None => self.work.insert(control_thread::start(THREAD_NAME, run)?),
        };
        let sent = work.send(Work {
            resolvers: resolvers.all.clone(),
            groups,
            journal: journal.clone(),
        });
        sent.map_err(|_| io::Error::other("the thread has ended; see the alert before"))
    }
}

/// Answers requests and keeps peers until all senders are gone.
async fn run(mut work: mpsc::UnboundedReceiver<Work>) {
    // The name servers of each resolver, dropped with its last reference.
    let mut known: Vec<(Weak<NameResolver>, Arc<Dns>)> = Vec::new();
    let mut keeping = JoinSet::new();
    while let Some(work) = work.recv().await {
        keeping.abort_all();
        keeping = JoinSet::new();
        known.retain(|(resolver, _)| resolver.strong_count() > 0);
        for resolver in &work.resolvers {
            if dns_of(&known, resolver).is_some() {
                continue;
            }
            match resolver.dns() {
                Ok(dns) => {
                    let dns = Arc::new(dns);
                    known.push((Arc::downgrade(resolver), Arc::clone(&dns)));
                    tokio::spawn(resolver.answering(dns));
                }
                Err(error) => note!(work.journal, Alert, "resolver cannot be used ({error})"),
            }
        }
        for (resolver, group) in work.groups {
            if let Some(dns) = dns_of(&known, &resolver) {
                keeping.spawn(group.keep(dns, work.journal.clone()));
            }
        }
    }
}

fn dns_of(
    known: &[(Weak<NameResolver>, Arc<Dns>)],
    resolver: &Arc<NameResolver>,
) -> Option<Arc<Dns>> {
    let same = |(known, _): &&(Weak<NameResolver>, _)| known.as_ptr() == Arc::as_ptr(resolver);
    known.iter().find(same).map(|(_, dns)| Arc::clone(dns))
}

#[cfg(test)]
mod tests;
