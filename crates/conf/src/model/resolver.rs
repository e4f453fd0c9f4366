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
    /// `status_zone=`: the name under which queries are counted; `None` is the first name server.
    pub status_zone: Option<Box<str>>,
}

impl Resolver {
    /// The name under which its queries are counted: `status_zone=`, or the first name server.
    pub fn zone_name(&self) -> String {
        match (&self.status_zone, self.servers.first()) {
            (Some(name), _) => name.to_string(),
            (None, Some(server)) => server.to_string(),
            (None, None) => String::new(), // it has at least one
        }
    }
}
