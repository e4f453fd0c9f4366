//! The typed configuration: every directive in its final, inherited form.
//!
//! The drafts hold directives *as written* (options, level by level). The model
//! holds them *as meant*: defaults filled in, inheritance applied, names
//! resolved. The data plane reads only these types.

mod access;
mod acme;
mod body_filters;
mod browsers;
mod cache;
mod compression;
mod concat;
mod content;
mod echo;
mod geo;
mod geoip2;
mod headers_more;
mod health;
mod http;
mod http2;
mod http3;
mod key_devices;
mod limits;
mod links;
mod list;
mod location;
mod log;
mod mail;
mod media_types;
mod pass;
mod process;
mod processes;
mod proxy_rewrites;
mod quic;
mod real_ip;
mod req_status;
mod request_body;
mod resolver;
mod rewrite;
mod session_store;
mod sticky;
mod stream;
mod subrequest;
mod sysguard;
mod template;
mod text_filters;
mod tls;
mod tracing;
mod traffic;
mod tunnel;
mod upstream;
mod upstream_settings;
mod upstream_tls;
mod user_agents;
mod user_variable;
mod userid;

pub use access::*;
pub use acme::*;
pub use body_filters::*;
pub use browsers::*;
pub use cache::*;
pub use compression::*;
pub use concat::*;
pub use content::*;
pub use echo::*;
pub use geo::*;
pub use geoip2::*;
pub use headers_more::*;
pub use health::*;
pub use http::*;
pub use http2::*;
pub use http3::*;
pub use key_devices::*;
pub use limits::*;
pub use links::*;
pub use list::*;
pub use location::*;
pub use log::*;
pub use mail::*;
pub use media_types::*;
pub use pass::*;
pub use process::*;
pub use processes::*;
pub use proxy_rewrites::*;
pub use quic::*;
pub use real_ip::*;
pub use req_status::*;
pub use request_body::*;
pub use resolver::*;
pub use rewrite::*;
pub use session_store::*;
pub use sticky::*;
pub use stream::*;
pub use subrequest::*;
pub use sysguard::*;
pub use template::*;
pub use text_filters::*;
pub use tls::*;
pub use tracing::*;
pub use traffic::*;
pub use tunnel::*;
pub use upstream::*;
pub use upstream_settings::*;
pub use upstream_tls::*;
pub use user_agents::*;
pub use user_variable::*;
pub use userid::*;

use crate::diagnostic::Diagnostic;
use crate::met::Met;
use std::path::PathBuf;

/// A whole configuration, validated as far as text alone allows.
#[derive(Debug, Clone)]
pub struct Config {
    /// Directives of the `main` context.
    pub main: Main,
    /// The `events` block.
    pub events: Events,
    /// The `http` and `stream` blocks, if there are any.
    pub http: Option<Http>,
    /// The prefix (`-p`), absolute: where relative paths that are known only at
    /// run time (a `root` that begins with a variable) start from.
    pub prefix: PathBuf,
    /// Warnings and notices, in the order they were met; never fatal.
    pub warnings: Vec<Diagnostic>,
    /// How many directives do something, and which do not.
    pub met: Met,
    /// Every file read, in the order of reading, for `-T`.
    pub sources: Vec<Source>,
}

/// One configuration file as it was read.
#[derive(Debug, Clone)]
pub struct Source {
    /// Path as it was opened (absolute).
    pub path: PathBuf,
    /// Its bytes.
    pub text: Vec<u8>,
}
