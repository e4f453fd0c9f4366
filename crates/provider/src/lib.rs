//! Private-key operations by providers of the system's OpenSSL: Intel QAT, a TPM, an HSM, or what
//! else has a provider (provider(7)). This is the part behind `ssl_accelerator
//! provider:NAME[,conf=FILE]`.
//!
//! ```text
//! Provider::load ──> Provider ──key_from_pem, key_from_uri──> ProviderKey
//!                       │                                         │
//!                 Engine::start ──> Engine ──────accelerator──────┴──> Arc<dyn Accelerator>
//! ```
//!
//! The [`Engine`] has one thread or a few. On each run any number of operations as asynchronous
//! jobs of OpenSSL: a provider that has passed an operation to a device pauses its job, and the
//! thread goes on with another one. A provider that does not pause computes on the thread.
//!
//! # What can go wrong, and what happens
//!
//! | | what happens |
//! |---|---|
//! | the provider reports an error | the handshake fails |
//! | the result is wrong | it is verified with the public key (ECDSA signatures [if asked for](EngineOptions::verify_ecdsa)), and the handshake fails; the wrong result is never sent |
//! | an operation takes longer than the time-out | the handshake fails; the job *hangs* and takes one of the places of operations in flight until it ends |
//! | as many hang as may be in flight | further operations fail at once |
//! | a thread does not return from the provider | operations go to the other threads; without another they fail at once |
//! | the connection is gone | the job goes on to its end, and its result is wiped |
//! | the engine is dropped | what is in flight may end; jobs that hang are left in memory with all that they use |
//!
//! Every failure is counted with its [reason](Failure) in [`ProviderStats`], and reported to the
//! operator at most once in a minute for each reason.
//!
//! | file | what |
//! |---|---|
//! | `provider.rs` | [`Provider`], [`ProviderKey`]: what is loaded |
//! | `input.rs` | an operation of TLS as one of OpenSSL |
//! | `engine.rs` | [`Engine`]: its threads, which of them gets an operation |
//! | `engine/lane.rs` | what a thread shares with those that submit to it |
//! | `engine/worker.rs` | the thread itself |
//! | `failure.rs` | [`Failure`], and what the operator is told |
//! | `stats.rs` | [`ProviderStats`] |

mod engine;
mod failure;
mod input;
mod provider;
mod stats;

pub use engine::{Engine, EngineOptions};
pub use failure::Failure;
pub use provider::{Provider, ProviderError, ProviderKey, ProviderOptions};
pub use stats::ProviderStats;
