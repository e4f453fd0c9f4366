//! Private-key operations in PKCS #11 tokens: hardware security modules, smart cards, SoftHSM.
//!
//! A [`TokenKey`] is an [`Accelerator`] for a key that is not in this process, and cannot be. A
//! [`Uri`] says which one it is.
//!
//! ```text
//! Uri ──> module (shared library) ──> token ──> threads with a session each ──> C_Sign
//!                                                                          ──> verified here
//! ```
//!
//! A module is C code of whoever has made the token, in this process: it may hang, return
//! anything, or end the process. So no call of it is made by a thread that anybody waits for,
//! nothing that it computes is used unverified, and a PIN that it has refused is not tried again.
//! Against a module that ends the process, only a process of its own helps.
//!
//! ```no_run
//! use sealane_pkcs11::{Options, TokenKey, Uri, find_module};
//! use sealane_tls::Secret;
//! use sealane_tls::accelerator::{Accelerator, Job};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (job, log): (Job, fn(&str)) = unimplemented!();
//! let uri = Uri::parse("pkcs11:token=web;object=site?pin-source=file:/etc/sealane/token.pin")?;
//! let pin = uri.pin_source().map(std::fs::read).transpose()?.map(Secret::new);
//! let module = find_module(&uri, None)?;
//! let options = Options::new(std::sync::Arc::new(log));
//! let key = TokenKey::open(&uri, &module, pin.as_ref(), &options)?;
//! key.submit(job);
//! # Ok(()) }
//! ```
//!
//! | file | what |
//! |---|---|
//! | `uri.rs`, `uri/` | [`Uri`]: RFC 7512, and what configurations in use have instead |
//! | `key.rs` | [`TokenKey`]: opening a key |
//! | `module.rs` | modules: loading them, beginning them again |
//! | `token.rs`, `object.rs` | which token and which key a URI means; its public key |
//! | `session.rs` | sessions, logging in, PINs |
//! | `pool.rs`, `pool/` | the threads of a token: queue, time-outs, what happens when it is lost |
//! | `worker.rs` | what one of these threads does |
//! | `threads.rs` | waiting for threads at the end of a process |
//! | `operation.rs` | mechanisms: what a token gets, and verifying what it returns |
//! | `der.rs` | public keys and signatures in DER |
//! | `failure.rs` | what goes wrong, in words for operators |
//! | `stats.rs` | [`KeyStats`], [`Health`]: for metrics |

#[cfg(doc)]
use sealane_tls::accelerator::Accelerator;

mod der;
mod failure;
mod key;
mod module;
mod object;
mod operation;
mod pool;
mod session;
mod stats;
mod threads;
mod token;
mod uri;
mod worker;

pub use failure::{FailedCall, Failure, OpenError};
pub use key::{
    DEFAULT_MAX_QUEUED, DEFAULT_OPEN_TIMEOUT, DEFAULT_SESSIONS, DEFAULT_TIMEOUT, Options, TokenKey,
};
pub use module::{NoModule, find_module, forget_refused_pins};
pub use stats::{FailureKind, Health, KeyStats, Link};
pub use threads::wait_for_threads;
pub use uri::{MAX_URI_BYTES, Uri, UriError, is_uri};
