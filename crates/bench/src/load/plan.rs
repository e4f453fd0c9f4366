//! What a run does, fixed before it starts.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use crate::{
    load::{Keys, TlsPlan},
    response::Expected,
    url::Url,
};

/// How many requests a connection serves.
///
/// With [`Resumption::EarlyData`](crate::load::Resumption::EarlyData) it is always one; then the
/// request asks for keep-alive and the client closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionUse {
    /// Requests follow each other on one connection; an operation is one request.
    KeepAlive,
    /// One request with `Connection: close`, then the server closes; an
    /// operation is connect, handshake, request, response and close.
    PerRequest,
    /// The same, but it is the client that closes, with a close_notify in TLS: the request does not
    /// ask the server to.
    EndedByClient,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// After this time; operations in progress are completed.
    Duration(Duration),
    /// After this many operations over all clients.
    Operations(u64),
}

/// What to fetch over HTTP/2 or HTTP/3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Concurrent requests on a connection; each is an operation of the run.
    pub streams: usize,
    /// `:authority`.
    pub authority: String,
    /// `:path`.
    pub path: String,
    /// What every body must be, if it is known. Otherwise only its length is compared.
    pub content: Option<Arc<[u8]>>,
}

impl Resource {
    /// Whether `bytes` are what a body has from `at` on.
    pub(super) fn has(&self, at: u64, bytes: &[u8]) -> bool {
        let Some(content) = &self.content else {
            return true;
        };
        let rest = usize::try_from(at).ok().and_then(|at| content.get(at..));
        rest.is_some_and(|rest| rest.starts_with(bytes))
    }
}

/// A run of the load generator.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where to connect to.
    pub address: SocketAddr,
    /// The server name to send (SNI); none for addresses.
    pub server_name: Option<String>,
    /// The request as sent on the wire.
    pub request: Vec<u8>,
    /// What is appended to the path, in HTTP/1.1; `None` if all requests are the same.
    pub keys: Option<Keys>,
    /// What every response must be.
    pub expected: Expected,
    /// Keep-alive, or one connection per request.
    pub connection_use: ConnectionUse,
    /// HTTP/2 instead of `request`.
    pub http2: Option<Resource>,
    /// HTTP/3 instead of `request`, over QUIC. Without keep-alive the client closes.
    pub http3: Option<Resource>,
    /// TLS and its pinned parameters; `None` for cleartext.
    pub tls: Option<TlsPlan>,
    /// Concurrent clients, each with at most one connection.
    pub clients: usize,
    /// Event loops that the clients are spread over.
    pub threads: usize,
    /// The cores that the event loops are pinned to, round robin; empty for no pinning.
    pub cpus: Vec<usize>,
    /// How long clients work before the measurement; at least one operation each.
    pub warm_up: Duration,
    /// When the measurement ends.
    pub limit: Limit,
    /// The longest time that one operation may take before the run is aborted.
    pub stall_limit: Duration,
}

impl Plan {
    /// Requests that one operation of a client makes.
    pub fn requests_per_operation(&self) -> u64 {
        let resource = self.http2.as_ref().or(self.http3.as_ref());
        resource.map_or(1, |resource| resource.streams as u64)
    }

    /// Default limit for the time of one operation.
    const DEFAULT_STALL_LIMIT: Duration = Duration::from_secs(30);

    /// A plan with one client and one thread that requests `url` at `address` once.
    pub fn new(
        url: &Url,
        address: SocketAddr,
        expected: Expected,
        connection_use: ConnectionUse,
    ) -> Self {
        let is_address = url.host.parse::<std::net::IpAddr>().is_ok();
        Self {
            address,
            server_name: (!is_address).then(|| url.host.clone()),
            request: request(url, connection_use),
            keys: None,
            expected,
            connection_use,
            http2: None,
            http3: None,
            tls: url.tls.then(TlsPlan::default),
            clients: 1,
            threads: 1,
            cpus: Vec::new(),
            warm_up: Duration::ZERO,
            limit: Limit::Operations(1),
            stall_limit: Self::DEFAULT_STALL_LIMIT,
        }
    }
}

/// `request` with `key` at the end of its path.
pub(super) fn write_with_key(request: &[u8], key: u64, output: &mut Vec<u8>) {
    let target = request
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b' ');
    // The second space of a request line is behind the target.
    let end = target.map(|(at, _)| at).nth(1).unwrap_or(request.len());
    output.clear();
    output.extend_from_slice(&request[..end]);
    output.extend_from_slice(key.to_string().as_bytes());
    output.extend_from_slice(&request[end..]);
}

/// A small request, as load generators send it; browsers send four times as many bytes.
fn request(url: &Url, connection_use: ConnectionUse) -> Vec<u8> {
    let close = match connection_use {
        ConnectionUse::KeepAlive | ConnectionUse::EndedByClient => "",
        ConnectionUse::PerRequest => "Connection: close\r\n",
    };
    format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: sealane-bench\r\nAccept: */*\r\n{close}\r\n",
        url.path,
        url.host_header()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_compared_where_it_is() {
        let mut resource = Resource {
            streams: 1,
            authority: "localhost".into(),
            path: "/".into(),
            content: None,
        };
        assert!(resource.has(3, b"anything"), "nothing is known");
        resource.content = Some(b"content".as_slice().into());
        assert!(resource.has(0, b"con") && resource.has(3, b"tent") && resource.has(7, b""));
        assert!(!resource.has(0, b"tent") && !resource.has(3, b"tents"));
        assert!(!resource.has(8, b"") && !resource.has(u64::MAX, b"c"));
    }

    #[test]
    fn a_key_ends_the_path() {
        let mut output = b"of the request before".to_vec();
        write_with_key(b"GET /k/ HTTP/1.1\r\nHost: a b\r\n\r\n", 17, &mut output);
        assert_eq!(output, b"GET /k/17 HTTP/1.1\r\nHost: a b\r\n\r\n");
    }
}
