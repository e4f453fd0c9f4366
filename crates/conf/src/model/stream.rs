//! The `stream` block: servers of layer 4.
//!
//! A server of `stream` is a [`super::Server`] whose [`super::Server::stream`] is set: names, TLS,
//! logs, access and limits are those of HTTP. What is here belongs to layer 4 alone.

use super::{List, ListenAddress, PassTarget, SetVariable, Template, UpstreamSettings};
use std::sync::Arc;
use std::time::Duration;

/// Which of nginx's servers a block belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum ServerKind {
    /// `http`.
    #[default]
    Http,
    /// `stream`.
    Stream,
    /// `mail`.
    Mail,
}

impl ServerKind {
    /// The name of its block.
    pub const fn name(self) -> &'static str {
        match self {
            ServerKind::Http => "http",
            ServerKind::Stream => "stream",
            ServerKind::Mail => "mail",
        }
    }
}

/// What only a server of `stream` has.
#[derive(Debug, Clone)]
pub struct StreamServer {
    /// What becomes of a session. `proxy_pass` is in [`super::LocationConf::pass`].
    pub handler: StreamHandler,
    /// `set`, in order.
    pub sets: List<SetVariable>,
    /// `ssl_preread`; default off.
    pub ssl_preread: bool,
    /// `ssl_alpn`: what clients may choose from, in the server's order; empty if ALPN is not
    /// negotiated.
    pub alpn: Arc<[Box<[u8]>]>,
    /// `preread_buffer_size`; default 16k.
    pub preread_buffer_bytes: usize,
    /// `preread_timeout`; default 30 s.
    pub preread_timeout: Duration,
    /// `proxy_protocol_timeout`; default 30 s.
    pub proxy_protocol_timeout: Duration,
    /// Limits of a listener with `udp`.
    pub datagrams: DatagramLimits,
}

/// How much a socket for datagrams may hold, and how sessions begin there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramLimits {
    /// `udp_sessions`: sessions at a time; `None` for half of `worker_connections`.
    pub sessions: Option<usize>,
    /// `udp_session_queue`: datagrams that wait for the server of a session; default 256.
    pub session_packets: usize,
    /// Bytes of these; default 256k.
    pub session_bytes: usize,
    /// `udp_queue_memory`: bytes of datagrams that wait, in all sessions together; default 16m.
    pub queue_bytes: usize,
    /// `proxy_requests`: datagrams of a session, 0 for no limit.
    pub requests: u64,
}

/// What answers in a server of `stream`.
#[derive(Debug, Clone)]
pub enum StreamHandler {
    /// Nothing: connections are closed.
    None,
    /// `proxy_pass`.
    Proxy,
    /// `return`: this text.
    Return(Template),
    /// `pass`: the connection goes to another listener of this configuration.
    Pass(StreamPassTarget),
}

/// Where `pass` leads.
#[derive(Debug, Clone)]
pub enum StreamPassTarget {
    /// Addresses that are known when the configuration is read.
    Fixed(Arc<[ListenAddress]>),
    /// With variables: a port, an address with a port, or `unix:PATH`.
    Evaluated(Template),
}

/// `proxy_pass` of a server of `stream`, and what belongs to it.
#[derive(Debug, Clone)]
pub struct StreamPass {
    /// Where to.
    pub target: PassTarget,
    /// What it shares with passing requests: time-outs, the next server, the address to connect
    /// from, socket options. `buffer_bytes` is `proxy_buffer_size`, 16k by default. `tls` is set
    /// with `proxy_ssl on`.
    pub upstream: UpstreamSettings,
    /// `proxy_timeout`: between two reads or writes on either side; default 10 min.
    pub timeout: Duration,
    /// `proxy_upload_rate` in bytes per second; zero or `None` is no limit.
    pub upload_rate: Option<Template>,
    /// `proxy_download_rate`, the same.
    pub download_rate: Option<Template>,
    /// `proxy_requests`: datagrams that a client may send in a session; default 0, no limit.
    pub requests: u64,
    /// `proxy_responses`: datagrams that the server sends for each of the client. Without a number,
    /// the default, only time ends a session.
    pub responses: Option<u64>,
    /// `proxy_half_close`; default off.
    pub half_close: bool,
    /// `proxy_ssl_alpn`: protocols that are offered, in order.
    pub alpn: List<Template>,
}
