//! Limits on rates and on connections at a time: `limit_req`, `limit_conn` and their zones.

use super::{List, LogLevel, Template};
use std::sync::Arc;

/// What a location limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// `limit_req`; `None` when there is none.
    pub requests: Option<LimitRequests>,
    /// `limit_conn`; `None` when there is none.
    pub connections: Option<LimitConnections>,
}

/// `limit_req` lines and what goes with them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitRequests {
    /// The lines in order; never empty.
    pub limits: List<RequestLimit>,
    /// `limit_req_whitelist`: requests that are not limited.
    pub whitelist: Option<Arc<Whitelist>>,
    /// `limit_req_status`; default 503.
    pub status: u16,
    /// `limit_req_log_level` of a refusal; default error. Delays are logged one level lower.
    pub log_level: LogLevel,
    /// `limit_req_dry_run`; default off.
    pub dry_run: bool,
}

/// `limit_req_whitelist`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whitelist {
    /// `geo_var_name=`.
    pub variable: Template,
    /// `geo_var_value=`.
    pub value: Box<[u8]>,
}

/// One `limit_req`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLimit {
    /// Index into [`super::Http::limit_zones`].
    pub zone: usize,
    /// `burst=` in thousandths of a request; default 0.
    pub burst: u64,
    /// `delay=` in thousandths of a request; default 0. With `nodelay`, more than any burst.
    pub delay: u64,
    /// `forbid_action=`: a URI, or a named location with its `@`, for requests beyond the limit.
    pub action: Option<Arc<str>>,
}

/// `limit_conn` lines and what goes with them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitConnections {
    /// The lines in order; never empty.
    pub limits: List<ConnectionLimit>,
    /// `limit_conn_status`; default 503.
    pub status: u16,
    /// `limit_conn_log_level`; default error.
    pub log_level: LogLevel,
    /// `limit_conn_dry_run`; default off.
    pub dry_run: bool,
}

/// One `limit_conn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimit {
    /// Index into [`super::Http::limit_zones`].
    pub zone: usize,
    /// So many requests may be under way.
    pub connections: u32,
}

/// `limit_req_zone` or `limit_conn_zone`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitZone {
    /// Its name.
    pub name: Arc<str>,
    /// How much memory nginx would give it, which bounds the keys that it remembers.
    pub bytes: u64,
    /// What is counted; a request whose key is empty is not.
    pub key: Template,
    /// The key as written.
    pub key_text: Box<[u8]>,
    /// What it is for.
    pub kind: LimitKind,
}

/// What a zone is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitKind {
    /// `limit_req`.
    Requests {
        /// The rate.
        rate: RequestRate,
    },
    /// `limit_conn`.
    Connections,
}

/// `rate=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestRate {
    /// Thousandths of a request in a second.
    Fixed(u64),
    /// What each request says, see [`crate::values::request_rate`].
    Variable(Template),
}
