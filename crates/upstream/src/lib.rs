//! Groups of servers that requests are passed to (`upstream` in the configuration):
//! which peer is next, what is known of each, and connections to them that are idle.
//!
//! ```text
//! Group::pick(&PickRequest, &mut Tried) -> Picked ──┬─ succeeded(now)
//!      ^                                            ├─ failed(now) -> Failure
//!      │ set_addresses (names resolved again)       └─ dropped: only the count is freed
//! IdlePool::take / put, beside each group: connections that are kept
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | [`settings`] | what a group is made of |
//! | [`group`](Group) | a group at run time: picks, other addresses |
//! | [`peer`](Peer), `failures` | one address: what is under way, what failed |
//! | `peer_set` | the peers of a group at one time, with the index that its method needs |
//! | `tried`, `picked` | one request's way through the peers |
//! | `balance` | the methods, one file each |
//! | [`pool`] | idle connections |
//! | [`resolve`] | names that are looked up at run time |
//!
//! # What worker threads share
//!
//! What a *peer* is like is known to all threads at once: connections under way (so
//! `max_conns` is a limit of the process), failures, the weight that failures lowered.
//! They are atomics with relaxed ordering; nothing else is published through them.
//! *Whose turn it is* (the current weights of smooth weighted round robin, the place in
//! VNSWRR's cycle) is each thread's own, as it is each worker's in nginx; in a group with
//! `zone` all threads take turns together. Either stands behind a mutex that is held for
//! one pick, and without `zone` nobody else ever takes it.
//!
//! A thread looks at its own copy of the list of peers. One load per pick tells whether
//! there is another list; then it takes that one and carries over what it knows of peers
//! that stay.

#![forbid(unsafe_code)]

pub mod pool;
pub mod resolve;
pub mod settings;

mod balance;
mod crc32;
mod failures;
mod group;
mod peer;
mod peer_set;
mod picked;
mod tried;

#[cfg(test)]
mod tests;

pub use failures::Failure;
pub use group::{Group, PickRequest};
pub use peer::{Peer, PeerAddress};
pub use peer_set::{PeerRef, ResolvedAddress};
pub use picked::{NoPeer, Picked};
pub use pool::IdlePool;
pub use settings::{GroupSettings, KeepaliveSettings, Method, ServerSettings};
pub use tried::Tried;
