//! Private keys outside the process that faces the network (`ssl_key_process`).
//!
//! The key process has the keys, and nothing else: no network, no files, no children. The master
//! deposits keys in it; worker threads send it the private-key operations of handshakes. Keys in a
//! device have a process of their own for each module or provider, which speaks the same protocol:
//! what computes there is an [`OpenKeys`].
//!
//! ```text
//! master ──line── deposit, introduce, forget ──> key process <──channels── worker threads
//!                                                 rules, queue, accelerators
//! ```
//!
//! A **line** (`SOCK_SEQPACKET`) carries messages with descriptors: one from the master, and one
//! from each worker process, over which it opens channels, and has keys loaded whose files it finds
//! itself. A **channel** (`SOCK_STREAM`) carries
//! the operations of one worker thread, and their results in any order.
//!
//! # What the key process believes
//!
//! The master is trusted. A worker is not: whoever has taken it over may send anything. So
//!
//! - no message of a worker yields a key, or names a file;
//! - a key signs what a handshake signs, and nothing else ([`rules`]): the transcript hash of TLS
//!   1.3 behind its context string, or the key exchange of TLS 1.2 behind both random values; with
//!   a key for other servers, what clients sign;
//! - RSA decryption, for the key exchange of TLS 1.2, is no oracle: the result is a premaster
//!   secret of 48 bytes, and for ciphertexts with wrong padding one that looks the same
//!   ([`premaster`]); a worker process may have so many in a second;
//! - each worker process may open only so many channels, each channel has only so many operations
//!   under way, and expensive operations take turns between worker processes;
//! - a key that a worker process has loaded is for that process alone, it has only so many, and one
//!   thread loads them.
//!
//! | file | what |
//! |---|---|
//! | `wire.rs` | frames on channels |
//! | `line.rs` | messages on lines |
//! | `deposit.rs` | a key on its way from the master, in sealed memory |
//! | `rules.rs`, `rules/` | what may be signed |
//! | `premaster.rs` | RSA decryption that tells nothing |
//! | `keyring.rs` | the keys |
//! | `service.rs`, `service/` | the threads of the key process |
//! | `client.rs` | the worker's side of one process |
//! | `loading.rs` | the same for keys that a worker has loaded |
//! | `holders.rs` | which process an operation goes to |
//! | `device_stats.rs` | what became of operations |
//! | `fuzz.rs` | any bytes, as a worker may send them |

pub mod client;
pub mod deposit;
pub mod device_stats;
pub mod fuzz;
pub mod holders;
pub mod keyring;
pub mod line;
pub mod loading;
pub mod premaster;
pub mod rules;
pub mod service;
pub mod wire;

pub use client::{Channel, KeyClient, Received, Tell, ToDo};
pub use holders::Holders;
pub use keyring::{OpenKeys, OpenedKey, Processor};
pub use loading::{Lease, LoadedKey, Turn};
pub use service::{Limits, serve};
