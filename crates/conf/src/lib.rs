//! `nginx.conf` text in, typed configuration out.
//!
//! This crate does no I/O and reads no clock: files come through a [`Loader`]
//! that the caller hands in, so the same code runs in the binary, in the
//! tests and in the fuzzer.

pub mod diagnostic;
pub mod input;
pub mod model;
pub mod regex;
pub mod variables;

pub use diagnostic::{Diagnostic, Failure, Place};
pub use input::{Loader, Options};
pub use model::Config;
