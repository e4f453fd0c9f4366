//! Groups of servers that requests are passed to (`upstream` in the configuration): which peer is
//! next, the state of each peer, and idle connections to them.
//!
//! ```text
//! Group::pick(&PickRequest, &mut Tried) -> Picked ──┬─ succeeded(now)
//!      ^                                            ├─ failed(now) -> Failure
//!      │ change, set_addresses (other servers)      └─ dropped: only the count is freed
//! IdlePool::take / put, beside each group: connections that are kept
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | [`settings`] | what a group is made of |
//! | [`group`](Group) | a group at run time: picks, other servers |
//! | [`servers`](ServerList) | its servers, which may change |
//! | [`peer`](Peer), `failures` | one address: what is under way, what failed |
//! | `peer_set` | the peers of a group at one time, with the index that its method needs |
//! | `times` | how long peers take, for `least_time` |
//! | `health` | what active checks say of a peer; slow start |
//! | `tried`, `picked` | one request's way through the peers |
//! | `balance` | the methods, one file each |
//! | `returning` | requests on a connection that is their client's own |
//! | `queue` | requests that wait for a peer |
//! | [`pool`] | idle connections |
//! | [`resolve`] | names that are looked up at run time |
//!
//! # What worker threads share
//!
//! The state of a *peer* is common to all threads: active connections (so `max_conns` is a limit of
//! the process), failures, and the weight lowered by failures. It consists of atomics with relaxed
//! ordering; nothing else is published through them. *Whose turn it is* (the current weights of
//! smooth weighted round robin, the position in VNSWRR's cycle) belongs to each thread, as it
//! belongs to each worker in nginx. In a group with `zone` all threads share it. In either case it
//! is behind a mutex that is held for one pick; without `zone` no other thread ever takes it.
//!
//! A thread uses its own copy of the list of peers. One load per pick tells whether there is a new
//! list; if so, the thread takes it and carries over the turns of the peers that remain.

#![forbid(unsafe_code)]

pub mod pool;
pub mod resolve;
pub mod settings;

mod balance;
mod crc32;
mod failures;
mod group;
mod health;
mod peer;
mod peer_set;
mod picked;
mod queue;
mod returning;
mod servers;
mod times;
mod tried;

#[cfg(test)]
mod tests;

pub use failures::Failure;
pub use group::{Group, PickRequest};
pub use health::{CheckSettings, HealthChange, MAX_CHECKS, Verdict};
pub use peer::{Peer, PeerAddress, PeerCounts, PeerState};
pub use peer_set::{PeerRef, ResolvedAddress};
pub use picked::{NoPeer, Picked};
pub use pool::IdlePool;
pub use queue::{NotPicked, QueueSettings, QueueSlot};
pub use servers::{ServerEntry, ServerList};
pub use settings::{
    GroupSettings, KeepaliveSettings, LeastTime, LookupName, Method, ServerSettings, TimeUntil,
};
pub use tried::Tried;
