//! `resolver`: names that are looked up while the server runs.
//!
//! One thread of the worker process, "resolver", talks to name servers. Workers ask through
//! [`NameResolver`], which answers from what is known or lets them wait without
//! blocking ([`names`]); `server ... resolve` entries are kept up to date by the thread itself
//! ([`keeper`]). The questions and answers are hickory-resolver's work ([`dns`]).

mod configured;
mod dns;
mod keeper;
mod names;

pub(crate) use self::configured::{kept_servers, prepare};
use self::keeper::KeptServer;
use self::names::NameResolver;

use crate::journal::{Journal, note};
use sealane_conf::model;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Name of the thread, for `ps` and the log.
const THREAD_NAME: &str = "resolver";

/// All resolvers of a configuration: one for each `resolver` with its
/// `resolver_timeout`, wherever the two stand.
#[derive(Debug, Default)]
pub(crate) struct Resolvers {
    all: Vec<Arc<NameResolver>>,
}

impl Resolvers {
    /// The resolver of a directive. Nobody is asked before [`start`].
    pub(crate) fn of(
        &mut self,
        conf: &Arc<model::Resolver>,
        timeout: Duration,
    ) -> Arc<NameResolver> {
        if let Some(known) = self.all.iter().find(|known| known.is_of(conf, timeout)) {
            return Arc::clone(known);
        }
        let resolver = Arc::new(NameResolver::new(Arc::clone(conf), timeout));
        self.all.push(Arc::clone(&resolver));
        resolver
    }
}

/// Starts the thread, unless there is nothing for it to do. `servers` are the `server ...
/// resolve` entries, each with its resolver.
///
/// # Errors
/// When the thread or its runtime cannot be made.
pub(crate) fn start(
    resolvers: &Resolvers,
    servers: Vec<(Arc<NameResolver>, KeptServer)>,
    journal: &Journal,
) -> io::Result<()> {
    if resolvers.all.is_empty() {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    let (resolvers, journal) = (resolvers.all.clone(), journal.clone());
    let thread = std::thread::Builder::new().name(THREAD_NAME.to_owned());
    thread.spawn(move || runtime.block_on(run(resolvers, servers, journal)))?;
    Ok(())
}

/// Answers and keeps; never returns.
async fn run(
    resolvers: Vec<Arc<NameResolver>>,
    servers: Vec<(Arc<NameResolver>, KeptServer)>,
    journal: Journal,
) {
    let mut all_dns = HashMap::new();
    for resolver in &resolvers {
        match resolver.dns() {
            Ok(dns) => {
                let dns = Arc::new(dns);
                all_dns.insert(Arc::as_ptr(resolver), Arc::clone(&dns));
                let resolver = Arc::clone(resolver);
                tokio::spawn(async move { resolver.answer(dns).await });
            }
            Err(error) => note!(journal, Alert, "resolver cannot be used ({error})"),
        }
    }
    for (resolver, server) in servers {
        if let Some(dns) = all_dns.get(&Arc::as_ptr(&resolver)) {
            tokio::spawn(server.keep(Arc::clone(dns), journal.clone()));
        }
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests;
