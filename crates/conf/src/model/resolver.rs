//! `resolver`: the name servers queried at run time.

use std::net::SocketAddr;
use std::time::Duration;

/// A `resolver` directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolver {
    /// Name servers, queried in turn; at least one. Default port 53.
    pub servers: Vec<SocketAddr>,
    /// `valid=`: how long replies are cached, whatever their TTL. `None`
    /// means the TTL.
    pub valid: Option<Duration>,
    /// `ipv4=`: whether A records are queried; default on.
    pub ipv4: bool,
    /// `ipv6=`: whether AAAA records are queried; default on. Never off
    /// together with `ipv4`.
    pub ipv6: bool,
}
