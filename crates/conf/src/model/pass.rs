//! Handing requests to other servers: what answers in a location with
//! `proxy_pass`, `fastcgi_pass`, `uwsgi_pass`, `scgi_pass` or `grpc_pass`.

/// A group of servers: an index into [`super::Http::upstreams`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupRef(pub usize);
