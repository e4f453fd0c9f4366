//! Connections that requests share: frames of many requests on each, told apart by their numbers.
//!
//! ```text
//! request -> Call --frame-->  SharedConnection --> driver task <==> socket
//!            Call <--frame--   (queue, calls)  <--
//! ```
//!
//! Each worker thread has its own, `multi` of them for each server. A [`SharedConnection`] is what
//! requests know of a connection; a task of its own drives it, from connecting to its end. When the
//! framing is in doubt the connection is closed, and with it all its requests fail.
//!
//! | file | what it holds |
//! |---|---|
//! | `connection` | the requests on a connection, and what each has to wait for |
//! | `driver` | the task: connecting, sending, receiving, heartbeats |

mod connection;
mod driver;

pub(super) use connection::Call;

use self::connection::SharedConnection;
use self::driver::Driver;
use super::failure::{Doing, Failure};
use super::identity;
use super::lease::GroupRuntime;
use super::peer_connection::Dial;
use crate::exchange::Exchange;
use sealane_conf::model::DubboPass;
use sealane_io::runtime::spawn;
use sealane_upstream::PeerRef;
use sealane_upstream::pool::ConnectionKey;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Requests that may wait on one connection. It is no directive: so many are a provider that does
/// not answer, and `dubbo_read_timeout`, `max_conns` and `limit_conn` decide how soon that shows.
const MAX_CALLS: usize = 16384;

/// The shared connections to the servers of a group.
pub(crate) struct SharedConnections {
    settings: SharedSettings,
    /// One for each worker thread.
    shelves: Box<[Mutex<Vec<Entry>>]>,
}

/// What decides how connections are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedSettings {
    /// `multi`: connections to a server.
    pub(super) connections: u32,
    /// `keepalive_timeout`: how long one may be without requests.
    pub(super) idle_timeout: Duration,
}

impl SharedSettings {
    /// Those of a group without an `upstream` block.
    pub(super) const DEFAULT: SharedSettings = SharedSettings {
        connections: 1,
        idle_timeout: Duration::from_secs(60),
    };
}

/// A connection to a peer, with what two requests must have in common to share it.
struct Entry {
    peer: PeerRef,
    key: ConnectionKey,
    connection: Arc<SharedConnection>,
}

impl SharedConnections {
    /// None yet, for so many threads.
    pub(super) fn new(settings: SharedSettings, threads: usize) -> SharedConnections {
        SharedConnections {
            settings,
            shelves: (0..threads.max(1)).map(|_| Mutex::default()).collect(),
        }
    }

    /// Whether they would be the same with these settings.
    pub(super) fn is_for(&self, settings: SharedSettings, threads: usize) -> bool {
        self.settings == settings && self.shelves.len() == threads.max(1)
    }

    fn shelf(&self, thread: u32) -> MutexGuard<'_, Vec<Entry>> {
        let shelf = &self.shelves[thread as usize % self.shelves.len()];
        shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection that has the fewest requests, if there are as many as there should be.
    fn find(
        &self,
        thread: u32,
        peer: &PeerRef,
        key: &ConnectionKey,
    ) -> Option<Arc<SharedConnection>> {
        let mut shelf = self.shelf(thread);
        shelf.retain(|entry| entry.connection.takes_calls());
        let fitting = |entry: &&Entry| entry.peer.is_same(peer) && entry.key == *key;
        let connections = shelf.iter().filter(fitting).map(|entry| &entry.connection);
        if connections.clone().count() < self.settings.connections as usize {
            return None;
        }
        connections
            .min_by_key(|connection| connection.calls())
            .cloned()
    }
}

impl Drop for SharedConnections {
    /// No request will come any more.
    fn drop(&mut self) {
        for shelf in &mut self.shelves {
            let shelf = shelf.get_mut().unwrap_or_else(PoisonError::into_inner);
            shelf.iter().for_each(|entry| entry.connection.retire());
        }
    }
}

/// Puts a call on a connection to the peer, which is opened if need be. It can be made once
/// [`Call::poll_open`] is ready.
///
/// # Errors
/// When too many wait already.
pub(super) fn join(
    exchange: &Exchange,
    pass: &DubboPass,
    group: &GroupRuntime,
    peer: &PeerRef,
    key: &ConnectionKey,
) -> Result<Call, Failure> {
    let shared = &group.shared;
    let thread = exchange.worker.index;
    let connection = match shared.find(thread, peer, key) {
        Some(connection) => connection,
        None => {
            let connection = Arc::new(SharedConnection::default());
            let driver = Driver::new(
                connection.clone(),
                peer.clone(),
                driver::Settings {
                    connect_timeout: pass.upstream.connect_timeout,
                    send_timeout: pass.upstream.send_timeout,
                    read_timeout: pass.upstream.read_timeout,
                    heartbeat_interval: pass.heartbeat_interval,
                    idle_timeout: shared.settings.idle_timeout,
                },
            );
            let dial = Dial::new(exchange, &pass.upstream, peer.address());
            spawn(driver.run(dial, identity::proxy_header(exchange)));
            shared.shelf(thread).push(Entry {
                peer: peer.clone(),
                key: key.clone(),
                connection: connection.clone(),
            });
            connection
        }
    };
    call_on(connection, pass.max_response_bytes)
}

/// One more request on a connection.
///
/// # Errors
/// When too many wait already.
fn call_on(connection: Arc<SharedConnection>, max_response_bytes: u64) -> Result<Call, Failure> {
    if connection.calls() >= MAX_CALLS {
        let text = format!("more than {MAX_CALLS} requests share a connection to upstream");
        return Err(Failure::Unprocessed(text, Doing::Connecting));
    }
    Ok(Call::new(connection, max_response_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_on_a_connection_are_bounded() {
        let connection = Arc::new(SharedConnection::default());
        let call = || call_on(connection.clone(), 1000);
        let mut calls: Vec<Call> = (0..MAX_CALLS).filter_map(|_| call().ok()).collect();
        assert_eq!(calls.len(), MAX_CALLS);
        assert!(matches!(call(), Err(Failure::Unprocessed(..))));
        // One that has ended makes room.
        calls.pop();
        assert!(call().is_ok());
    }
}
