//! Zones in which requests are counted: of servers, and of locations (`status_zone`).

use crate::counters::{Level, thread_columns};
use crate::exchange::Exchange;
use sealane_conf::model::{Listener, Server};
use sealane_counters::{Counter, Histogram, HistogramValues, Placed, StatusCounts, StatusSums};
use std::collections::HashMap;
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

/// What a thread counts in a zone.
#[derive(Debug, Default, FromBytes, IntoBytes)]
#[repr(C)]
pub(crate) struct ZoneCounts {
    /// Connections whose first request it answered.
    pub(crate) connections: Counter,
    /// Requests that have ended.
    pub(crate) requests: Counter,
    /// Of those, closed without a response (444, and clients that have gone before).
    pub(crate) discarded: Counter,
    /// Bytes of requests: line, header and body.
    pub(crate) received: Counter,
    /// Bytes of responses: line, header and body.
    pub(crate) sent: Counter,
    /// Full TLS handshakes for its names.
    pub(crate) handshakes_full: Counter,
    /// Resumed ones.
    pub(crate) handshakes_resumed: Counter,
    /// Failed ones.
    pub(crate) handshakes_failed: Counter,
    /// Responses by status.
    pub(crate) responses: StatusCounts,
    /// How long requests took, from their first byte to the last one of the response.
    pub(crate) times: Histogram,
}

/// A zone, with the counters of all threads.
pub(crate) struct StatusZone {
    name: Arc<str>,
    threads: Box<[Arc<ThreadZone>]>,
}

/// The part of one thread.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct ThreadZone {
    counts: Placed<ZoneCounts>,
    active: Level,
}

/// A request that is active in its zone until this is dropped.
pub(crate) struct ActiveRequest(Arc<ThreadZone>);

/// Sums over all threads.
#[derive(Debug, Default, Clone)]
pub(crate) struct ZoneSums {
    pub(crate) connections: u64,
    pub(crate) requests: u64,
    pub(crate) active: u64,
    pub(crate) discarded: u64,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) handshakes_full: u64,
    pub(crate) handshakes_resumed: u64,
    pub(crate) handshakes_failed: u64,
    pub(crate) responses: StatusSums,
    pub(crate) times: HistogramValues,
}

impl StatusZone {
    fn new(kind: &str, name: &Arc<str>, columns: usize) -> StatusZone {
        let thread = |index| {
            Arc::new(ThreadZone {
                counts: Placed::named(&format!("{kind} zone {name} thread {index}")),
                active: Level::default(),
            })
        };
        StatusZone {
            name: Arc::clone(name),
            threads: (0..columns).map(thread).collect(),
        }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What a thread counts in it.
    pub(crate) fn counts(&self, thread: u32) -> &ZoneCounts {
        &self.thread(thread).counts
    }

    fn thread(&self, index: u32) -> &Arc<ThreadZone> {
        &self.threads[index as usize % self.threads.len()]
    }

    /// A request begins.
    pub(super) fn begin(&self, thread: u32) -> ActiveRequest {
        let zone = Arc::clone(self.thread(thread));
        zone.active.add(1);
        ActiveRequest(zone)
    }

    /// A request has ended.
    pub(super) fn count(&self, thread: u32, exchange: &Exchange) {
        let counts = self.counts(thread);
        let transfer = &exchange.transfer;
        counts.requests.add(1);
        match transfer.sent_bytes {
            0 => counts.discarded.add(1),
            sent => {
                counts.sent.add(sent);
                counts.responses.add(exchange.response.status.0);
            }
        }
        counts.received.add(transfer.request_bytes);
        counts.times.record(transfer.started.elapsed());
    }

    /// Sums over all threads.
    pub(crate) fn sums(&self) -> ZoneSums {
        let mut sums = ZoneSums::default();
        let mut active = 0;
        for thread in &self.threads {
            let counts = &*thread.counts;
            active += thread.active.get();
            sums.connections += counts.connections.get();
            sums.requests += counts.requests.get();
            sums.discarded += counts.discarded.get();
            sums.received += counts.received.get();
            sums.sent += counts.sent.get();
            sums.handshakes_full += counts.handshakes_full.get();
            sums.handshakes_resumed += counts.handshakes_resumed.get();
            sums.handshakes_failed += counts.handshakes_failed.get();
            sums.responses.add(&counts.responses);
            sums.times.add(&counts.times.values());
        }
        sums.active = u64::try_from(active).unwrap_or(0);
        sums
    }
}

impl ActiveRequest {
    /// What its thread counts in the zone.
    pub(super) fn counts(&self) -> &ZoneCounts {
        &self.0.counts
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.active.add(-1);
    }
}

/// The zones of a configuration, by name. Successive ones share them.
#[derive(Default)]
pub(crate) struct Zones {
    servers: ByName,
    locations: ByName,
    columns: usize,
}

/// In the order of the configuration, which the position remembers.
type ByName = HashMap<Arc<str>, (usize, Arc<StatusZone>)>;

impl Zones {
    /// No zones yet, for this many worker threads.
    pub(crate) fn new(threads: usize) -> Zones {
        Zones {
            columns: thread_columns(threads).max(1),
            ..Zones::default()
        }
    }

    /// The zone of a server; `None` for `off`.
    pub(crate) fn of_server(
        &mut self,
        server: &Server,
        listeners: &[Listener],
        index: usize,
        before: Option<&Zones>,
    ) -> Option<Arc<StatusZone>> {
        let name = match server.conf.status_zone.as_deref() {
            Some("off") => return None,
            Some(name) => name.into(),
            None => default_name(server, listeners, index),
        };
        let before = before.map(|before| &before.servers);
        Some(zone(
            "server",
            name,
            self.columns,
            &mut self.servers,
            before,
        ))
    }

    /// The zone of a location, if it has one.
    pub(crate) fn of_location(
        &mut self,
        name: Option<&Arc<str>>,
        before: Option<&Zones>,
    ) -> Option<Arc<StatusZone>> {
        let name = name.filter(|name| &***name != "off")?;
        let before = before.map(|before| &before.locations);
        let (columns, known) = (self.columns, &mut self.locations);
        Some(zone("location", Arc::clone(name), columns, known, before))
    }

    /// Zones of servers, in the order of the configuration.
    pub(crate) fn servers(&self) -> Vec<&StatusZone> {
        in_order(&self.servers)
    }

    /// Zones of locations, in the order of the configuration.
    pub(crate) fn locations(&self) -> Vec<&StatusZone> {
        in_order(&self.locations)
    }
}

/// The first `server_name` or, where that is empty, the first address.
fn default_name(server: &Server, listeners: &[Listener], index: usize) -> Arc<str> {
    if !server.primary_name.is_empty() {
        return server.primary_name.as_str().into();
    }
    let mut own = listeners.iter();
    let own = own.find(|listener| listener.servers.contains(&index));
    own.map_or_else(
        || "_".into(),
        |listener| listener.address.to_string().into(),
    )
}

fn zone(
    kind: &str,
    name: Arc<str>,
    columns: usize,
    known: &mut ByName,
    before: Option<&ByName>,
) -> Arc<StatusZone> {
    let next = known.len();
    let (_, zone) = known.entry(name).or_insert_with_key(|name| {
        let kept = before.and_then(|before| before.get(name));
        let kept = kept.filter(|(_, zone)| zone.threads.len() == columns);
        let zone = kept.map(|(_, zone)| Arc::clone(zone));
        (
            next,
            zone.unwrap_or_else(|| Arc::new(StatusZone::new(kind, name, columns))),
        )
    });
    Arc::clone(zone)
}

fn in_order(zones: &ByName) -> Vec<&StatusZone> {
    let mut all: Vec<&(usize, Arc<StatusZone>)> = zones.values().collect();
    all.sort_unstable_by_key(|(position, _)| *position);
    all.into_iter().map(|(_, zone)| &**zone).collect()
}
