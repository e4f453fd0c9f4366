//! The data plane: from accepted socket to sent response.
//!
//! ```text
//! accept -> TLS acceptor (SNI, ticket, ALPN) -> HTTP parse -> router
//!   -> handler -> filters -> encode -> output chain -> transport
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | [`worker`] | the worker process from inside: threads, shutdown |
//! | `acceptor`, `connection` | the life of a connection |
//! | `exchange_task`, `h2` | exchanges on a connection of HTTP/1 and of HTTP/2 |
//! | [`admission`] | which handshakes are refused |
//! | `transport` | the stream of a client's connection |
//! | [`body_source`] | response bodies that are still arriving |
//! | [`client_link`] | what an exchange and its connection exchange: body, interim responses |
//! | `prologue` | what happens before the pipeline |
//! | [`request_body`], `temp_file` | the whole request body; temporary files |
//! | [`snapshot`], `build`, `tls_build` | all configured state, and how it is built |
//! | [`exchange`], `features` | a request with its response; what features keep with it |
//! | [`facts`] | one connection |
//! | `pipeline`, `router`, `handlers`, `filters` | what answers a request |
//! | `stream` | sessions of layer 4 |
//! | `access`, `limits` | who may; how often, how many at a time |
//! | `variables`, `template`, `access_log` | an exchange as text |
//! | [`counters`], `status`, [`metrics`] | what is counted: by threads, of requests; its names |
//! | [`open_file_cache`] | open files, their metadata and small contents |
//! | `handover` | idle connections move to another process |
//!
//! Sockets, buffers, the output chain, deadlines, turns and the byte stream (plain or TLS, towards
//! clients and origins) are the crate `io`, logs the crate `log`, groups of servers and the choice
//! among them the crate `upstream`.

#![forbid(unsafe_code)]

pub mod admission;
pub mod body_source;
mod client;
pub mod client_certificates;
mod client_handshake;
pub mod client_link;
mod client_status;
pub mod counters;
pub mod current;
mod debug_log;
pub mod exchange;
pub mod facts;
mod key_channel;
pub mod materials;
pub mod metrics;
pub mod names;
pub mod open_file_cache;
pub mod request_body;
mod request_changes;
pub mod router;
pub mod snapshot;
pub mod values;
pub mod worker;

mod acceptor;
mod access;
mod access_log;
mod acme;
mod build;
mod certificate_files;
mod clock;
mod codings;
mod connection;
mod cookie_time;
mod evaluated_certificates;
mod exchange_task;
mod features;
mod filters;
mod framing;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod geoip2;
mod h2;
mod h3;
mod handlers;
mod handover;
mod limit_rate;
mod limits;
mod mail;
mod multiplexed;
mod pipeline;
mod prologue;
pub mod proxy_protocol;
mod proxying;
mod quic;
mod rate;
mod real_ip;
mod relaying;
mod req_status;
mod request_log;
mod response_head;
mod rewrite;
mod status;
mod stream;
mod subrequest;
mod sysguard;
mod tally;
mod temp_file;
mod template;
#[cfg(test)]
mod testing;
mod tls_build;
mod tls_facts;
mod traces;
mod traffic;
mod transport;
mod variables;

pub use crate::geoip2::check_database;
pub use acme::{AcmeFiles, AcmeId, AcmeState, AcmeTask, DnsAnswer, HttpAnswer, TlsAnswer};
pub use certificate_files::MAX_RECENT_PAIRS;
pub use client_status::{StatusDesk, StatusRequest};
pub use handover::moving_format;
pub use materials::{KeyFile, Materials};
pub use proxying::{CacheDirectories, HealthChecks, KnownVerdict};
pub use quic::{
    MAX_TOKEN_SECRETS as MAX_QUIC_SECRETS, QuicPlace, random_quic_secret, thread_of_quic_ids,
};
pub use snapshot::Snapshot;
pub use sysguard::LoadWatch;
pub use tls_build::{
    HandshakeThreads, SharedRing, StapleTask, TlsOfServers, accelerator_choice,
    certificate_identity, conf_directory, may_decrypt, secrets,
};
pub use traces::{
    Attribute, AttributeValue, MAX_VALUE_BYTES, Span, SpanCounts, SpanLoss, SpanQueue, TraceTarget,
};
