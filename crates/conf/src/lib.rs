//! `nginx.conf` text in, typed configuration out.
//!
//! This crate does no I/O and reads no clock: files come through a [`Loader`]
//! that the caller hands in, so the same code runs in the binary, in the
//! tests and in the fuzzer.
//!
//! A configuration is read as nginx reads it. The lexer splits text into
//! statements. The parser follows includes and passes every statement
//! immediately to its row of the directive table ([`directives`]), so that of several
//! errors the one that nginx would report comes first. Setters record the
//! values as written, level by level (the drafts). When the `http` block ends,
//! merging applies inheritance and defaults and builds the [`model`], which is
//! all that the data plane sees.
//!
//! ```
//! use sealane_conf::{MemoryLoader, Options, parse};
//!
//! let mut files = MemoryLoader::new().with(
//!     "/etc/nginx.conf",
//!     "events {} http { server { listen 8080; rot /data; } }",
//! );
//! let options = Options::new("/etc/nginx.conf", "/usr/share/nginx");
//! let failure = parse(&options, &mut files).expect_err("rot is no directive");
//! assert_eq!(failure.error.headline(), "unknown directive \"rot\" in /etc/nginx.conf:1");
//! assert_eq!(failure.error.help.as_deref(), Some("did you mean \"root\"?"));
//! ```

mod build;
mod call;
pub mod diagnostic;
pub mod directives;
mod draft;
pub mod fuzz;
mod groups;
pub mod inline_keys;
pub mod input;
mod lexer;
mod listen;
mod lists;
pub mod manual;
mod merge;
pub mod met;
pub mod model;
mod parser;
pub mod patterns;
pub mod regex;
mod special_addresses;
mod store_url;
pub mod survey;
mod template;
pub mod upstream_state;
pub mod upstream_url;
pub mod values;
pub mod variables;

pub use diagnostic::{Diagnostic, Failure, SourceLocation};
pub use input::{Loader, MemoryLoader, Options};
pub use model::Config;
pub use parser::parse;
pub use survey::survey;
