//! Sessions: resumption without a full handshake.
//!
//! | file | what |
//! |---|---|
//! | `ring.rs` | ticket keys: from files, or rotating |
//! | `cache.rs` | sessions in memory, by id |
//! | `opaque.rs` | TLS 1.3 by the cache |
//! | `store.rs`, `seal.rs` | the store of all nodes, and how its values are sealed |
//! | `lookup.rs` | everything that is looked up before libssl starts |
//! | `identity.rs` | what a session is bound to |
//! | `early_data.rs`, `replay.rs` | 0-RTT, accepted once |
//! | `outcome.rs`, `stats.rs` | the outcome, on one connection and counted |
//! | `state.rs` | what outlives a snapshot |
//!
//! | directives | TLS 1.3 | TLS 1.2 and below |
//! |---|---|---|
//! | `ssl_session_tickets on` | ticket | ticket; by id with a cache for clients without tickets |
//! | `ssl_session_tickets off`, a cache | opaque ticket | by id |
//! | `ssl_session_tickets off`, no cache | never | never |

pub(crate) mod cache;
pub(crate) mod early_data;
pub(crate) mod identity;
pub(crate) mod lookup;
pub(crate) mod opaque;
pub(crate) mod outcome;
pub(crate) mod replay;
pub(crate) mod ring;
pub(crate) mod seal;
pub(crate) mod state;
pub(crate) mod stats;
pub(crate) mod store;
