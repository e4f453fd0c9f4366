//! `nginx.conf` text in, typed configuration out.
//!
//! This crate does no I/O and reads no clock: files come through a [`Loader`]
//! that the caller hands in, so the same code runs in the binary, in the
//! tests and in the fuzzer.

mod build;
mod call;
pub mod diagnostic;
pub mod directives;
mod draft;
pub mod fuzz;
pub mod input;
mod lexer;
mod listen;
pub mod manual;
mod merge;
pub mod model;
mod parser;
pub mod regex;
mod template;
pub mod values;
pub mod variables;

pub use diagnostic::{Diagnostic, Failure, Place};
pub use input::{Loader, MemoryLoader, Options};
pub use model::Config;
pub use parser::parse;
