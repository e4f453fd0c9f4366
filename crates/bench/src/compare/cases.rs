//! The cases to compare: one row per case.

use std::{borrow::Cow, net::SocketAddr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    Expected, Url,
    load::{
        ConnectionUse, KeyType, Keys, Limit, Offer, Plan, Protocol, Resource, Resumption, TlsPlan,
        Zipf,
    },
    testbed::{Additions, File, Kind, Listener, Ports, server_name},
};

/// One row of the comparison.
#[derive(Debug)]
pub(super) struct Case {
    /// Name on the command line and in JSON.
    pub(super) name: &'static str,
    /// Title in reports.
    pub(super) title: &'static str,
    /// The site of the configuration to request from.
    pub(super) site: CaseSite,
    /// The file to request.
    pub(super) file: File,
    pub(super) measure: Measure,
    pub(super) unit: Unit,
    pub(super) target: Option<Target>,
}

/// Sealane's target against the peer `reference`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Target {
    /// The ratio to stay below.
    pub(super) ratio: f64,
    /// Directives that a server must have for the target to apply.
    pub(super) needs: Option<Cow<'static, str>>,
}

const fn below(ratio: f64) -> Option<Target> {
    Some(Target { ratio, needs: None })
}

/// Like `below`, for servers that compute private-key operations in batches.
const fn below_in_batches(ratio: f64) -> Option<Target> {
    Some(Target {
        ratio,
        needs: Some(Cow::Borrowed("ssl_accelerator batch;")),
    })
}

/// The listener, and the parameters that the client pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CaseSite {
    Plain,
    Tls13(KeyType),
    /// TLS 1.3 with early data accepted by the server.
    EarlyData,
    /// TLS 1.2 with an RSA certificate and ECDHE-RSA-AES256-GCM-SHA384.
    Tls12,
    /// The same with RSA key exchange: AES256-GCM-SHA384.
    Tls12StaticRsa,
    /// TLS 1.2 with one of the suites of [`S2`](super::groups::S2).
    Offload(OffloadSuite),
    /// TLS 1.3 with HTTP/2.
    Http2,
    /// The same over QUIC, with HTTP/3.
    Http3,
    /// Like `Http3`, where the way to the server takes this many milliseconds, and so the way back.
    Http3Afar(u64),
    /// Like `Tls13`, for responses from an origin.
    Proxied,
    /// Like `Proxied`, with a cache in front of the origin.
    Cached(CacheUse),
    /// Like `Http2`, for responses that are cached.
    Http2Cached,
    /// Like `Tls13(KeyType::P256)`, with an OCSP response along with the certificate.
    Stapled,
    /// Like `Tls13(KeyType::P256)`, on a port that this many servers share, each with a name.
    Named(usize),
    /// Like `Tls12`, with an OCSP response along with the certificate.
    Tls12Stapled,
    /// Like `Tls13`, on a server without `open_file_cache`, as nginx is by default.
    Uncached,
    /// What browsers offer, to a server with nginx's default groups and suites.
    Browser(KeyType),
    /// Like `Tls12`, with nothing but certificate and key configured.
    Tls12Untuned,
    /// A connection that is passed on to the origin (`stream`).
    Passed(Sealed),
}

/// Which ends of a connection that is passed on are TLS 1.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sealed {
    None,
    /// The client's: it ends at the server.
    Client,
    /// The server also begins one to the origin.
    Both,
}

/// Key exchange and certificate of the suites with AES128-GCM-SHA256 in [`S2`](super::groups::S2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OffloadSuite {
    /// RSA key exchange, RSA-2048.
    Rsa,
    /// ECDHE on X25519, RSA-2048.
    EcdheRsa,
    /// ECDHE and ECDSA on P-384.
    EcdsaP384,
    /// ECDHE and ECDSA on P-256.
    EcdsaP256,
}

/// What a cache does with the requests of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheUse {
    /// It has the response to all of them.
    Hits,
    /// Each is the first for its key.
    Misses,
    /// As many keys as the comparison is told, by Zipf's law, in a cache that is empty at first.
    Zipf,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Measure {
    CpuPerOperation {
        connection: Connection,
        clients: usize,
    },
    MemoryPerIdleConnection {
        connections: usize,
    },
    /// How long an operation takes.
    TimePerOperation {
        connection: Connection,
        clients: usize,
    },
}

/// How an operation uses connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    KeepAlive,
    Full,
    /// The same, and the client closes.
    FullEndedByClient,
    Ticket,
    SessionId,
    /// Resumed by ticket, with the request in early data.
    EarlyData,
    /// HTTP/2 or HTTP/3, with this many concurrent requests.
    Multiplexed {
        streams: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    MicrosecondsPerOperation,
    MillisecondsPerOperation,
    SecondsPerOperation,
    KibibytesPerConnection,
}

impl Unit {
    pub(super) fn nanoseconds(self) -> f64 {
        match self {
            Self::MicrosecondsPerOperation => 1e3,
            Self::MillisecondsPerOperation => 1e6,
            Self::SecondsPerOperation => 1e9,
            Self::KibibytesPerConnection => 1.0,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::MicrosecondsPerOperation => "us",
            Self::MillisecondsPerOperation => "ms",
            Self::SecondsPerOperation => "s",
            Self::KibibytesPerConnection => "KiB",
        }
    }
}

const KEEP_ALIVE: Measure = Measure::CpuPerOperation {
    connection: Connection::KeepAlive,
    clients: 32,
};
/// Fewer clients: 100 KiB responses fill socket buffers.
const KEEP_ALIVE_LARGE: Measure = Measure::CpuPerOperation {
    connection: Connection::KeepAlive,
    clients: 16,
};
const DOWNLOAD: Measure = Measure::CpuPerOperation {
    connection: Connection::KeepAlive,
    clients: 1,
};
const FULL: Measure = Measure::CpuPerOperation {
    connection: Connection::Full,
    clients: 16,
};
/// As clients of protocols other than HTTP/1 do it.
const FULL_ENDED_BY_CLIENT: Measure = Measure::CpuPerOperation {
    connection: Connection::FullEndedByClient,
    clients: 16,
};
/// Enough clients to keep an accelerator busy, as in a study of offloaded handshakes.
const FULL_CONCURRENT: Measure = Measure::CpuPerOperation {
    connection: Connection::Full,
    clients: 64,
};
const TICKET: Measure = Measure::CpuPerOperation {
    connection: Connection::Ticket,
    clients: 16,
};
const SESSION_ID: Measure = Measure::CpuPerOperation {
    connection: Connection::SessionId,
    clients: 16,
};
const EARLY_DATA: Measure = Measure::CpuPerOperation {
    connection: Connection::EarlyData,
    clients: 16,
};
const IDLE: Measure = Measure::MemoryPerIdleConnection { connections: 4000 };
const IDLE_HTTP2: Measure = Measure::MemoryPerIdleConnection { connections: 5000 };
/// A download over a way that takes its time: what counts is how fast it is.
const DOWNLOAD_TIME: Measure = Measure::TimePerOperation {
    connection: Connection::KeepAlive,
    clients: 1,
};
/// Fewer: nginx counts each stream as one of its `worker_connections`, several for a connection.
const IDLE_HTTP3: Measure = Measure::MemoryPerIdleConnection { connections: 2000 };
const MULTIPLEXED_SMALL: Measure = Measure::CpuPerOperation {
    connection: Connection::Multiplexed { streams: 10 },
    clients: 16,
};
const MULTIPLEXED_LARGE: Measure = Measure::CpuPerOperation {
    connection: Connection::Multiplexed { streams: 4 },
    clients: 4,
};

/// Keep-alive with this many clients.
const fn keep_alive_of(clients: usize) -> Measure {
    Measure::CpuPerOperation {
        connection: Connection::KeepAlive,
        clients,
    }
}

const TLS13_P256: CaseSite = CaseSite::Tls13(KeyType::P256);
const TLS13_RSA: CaseSite = CaseSite::Tls13(KeyType::Rsa);
const PASSED: CaseSite = CaseSite::Passed(Sealed::None);
const PASSED_TLS: CaseSite = CaseSite::Passed(Sealed::Client);
const PASSED_BOTH: CaseSite = CaseSite::Passed(Sealed::Both);
const BROWSER: CaseSite = CaseSite::Browser(KeyType::P256);
const US: Unit = Unit::MicrosecondsPerOperation;
const MS: Unit = Unit::MillisecondsPerOperation;

/// All cases, in the order in which they run.
#[rustfmt::skip]
pub(super) const ALL: &[Case] = &[
    Case { name: "tls13-1k", title: "1 KiB keep-alive, TLS 1.3", site: TLS13_P256, file: File::Small, measure: KEEP_ALIVE, unit: US, target: below(0.70) },
    Case { name: "tls13-1k-uncached", title: "1 KiB keep-alive, TLS 1.3, without open_file_cache", site: CaseSite::Uncached, file: File::Small, measure: KEEP_ALIVE, unit: US, target: below(0.70) },
    Case { name: "cache-hit-1k", title: "1 KiB from the cache, keep-alive, TLS 1.3", site: CaseSite::Cached(CacheUse::Hits), file: File::Small, measure: KEEP_ALIVE, unit: US, target: below(0.70) },
    Case { name: "tls13-100k", title: "100 KiB keep-alive, TLS 1.3", site: TLS13_P256, file: File::Medium, measure: KEEP_ALIVE_LARGE, unit: US, target: below(0.45) },
    Case { name: "cache-hit-100k", title: "100 KiB from the cache, keep-alive, TLS 1.3", site: CaseSite::Cached(CacheUse::Hits), file: File::Medium, measure: KEEP_ALIVE_LARGE, unit: US, target: below(0.50) },
    Case { name: "tls13-1g", title: "1 GiB AES-256-GCM, TLS 1.3", site: TLS13_P256, file: File::Large, measure: DOWNLOAD, unit: Unit::SecondsPerOperation, target: below(0.55) },
    Case { name: "tls13-1g-sparse", title: "1 GiB without content on the disk (a hole), AES-256-GCM, TLS 1.3", site: TLS13_P256, file: File::Sparse, measure: DOWNLOAD, unit: Unit::SecondsPerOperation, target: None },
    Case { name: "cache-hit-1g", title: "1 GiB from the cache, TLS 1.3", site: CaseSite::Cached(CacheUse::Hits), file: File::Large, measure: DOWNLOAD, unit: Unit::SecondsPerOperation, target: below(0.60) },
    Case { name: "browser-full-p256", title: "connection as browsers make it, full, P-256", site: BROWSER, file: File::Small, measure: FULL, unit: US, target: below(0.60) },
    Case { name: "browser-ticket", title: "connection as browsers make it, resumed by ticket", site: BROWSER, file: File::Small, measure: TICKET, unit: US, target: below(0.55) },
    Case { name: "tls13-full-p256", title: "connection, TLS 1.3 full, P-256", site: TLS13_P256, file: File::Small, measure: FULL, unit: US, target: below(0.55) },
    Case { name: "tls13-full-stapled", title: "connection, TLS 1.3 full, P-256, with an OCSP response", site: CaseSite::Stapled, file: File::Small, measure: FULL, unit: US, target: None },
    Case { name: "tls13-full-rsa", title: "connection, TLS 1.3 full, RSA-2048", site: TLS13_RSA, file: File::Small, measure: FULL, unit: US, target: below(0.72) },
    Case { name: "tls12-full-rsa", title: "connection, TLS 1.2 full, ECDHE-RSA", site: CaseSite::Tls12, file: File::Small, measure: FULL, unit: US, target: None },
    Case { name: "tls12-full-stapled", title: "connection, TLS 1.2 full, ECDHE-RSA, with an OCSP response", site: CaseSite::Tls12Stapled, file: File::Small, measure: FULL, unit: US, target: None },
    Case { name: "tls13-ticket", title: "connection, TLS 1.3 resumed by ticket", site: TLS13_P256, file: File::Small, measure: TICKET, unit: US, target: below(0.55) },
    Case { name: "tls12-ticket", title: "connection, TLS 1.2 resumed by ticket", site: CaseSite::Tls12, file: File::Small, measure: TICKET, unit: US, target: below(0.60) },
    Case { name: "tls12-ticket-stapled", title: "connection, TLS 1.2 resumed by ticket, stapling", site: CaseSite::Tls12Stapled, file: File::Small, measure: TICKET, unit: US, target: None },
    Case { name: "tls12-session-id", title: "connection, TLS 1.2 resumed by session id", site: CaseSite::Tls12, file: File::Small, measure: SESSION_ID, unit: US, target: below(0.60) },
    Case { name: "tls13-early-data", title: "connection, TLS 1.3 resumed, request in early data", site: CaseSite::EarlyData, file: File::Small, measure: EARLY_DATA, unit: US, target: None },
    Case { name: "tls12-1k-untuned", title: "1 KiB keep-alive, TLS 1.2, nothing tuned", site: CaseSite::Tls12Untuned, file: File::Small, measure: KEEP_ALIVE, unit: US, target: None },
    Case { name: "tls12-full-untuned", title: "connection, TLS 1.2 full, nothing tuned", site: CaseSite::Tls12Untuned, file: File::Small, measure: FULL, unit: US, target: None },
    Case { name: "tls12-1k-static-rsa", title: "1 KiB keep-alive, TLS 1.2, RSA key exchange", site: CaseSite::Tls12StaticRsa, file: File::Small, measure: KEEP_ALIVE, unit: US, target: None },
    Case { name: "tls12-ticket-static-rsa", title: "connection, TLS 1.2 resumed by ticket, RSA key exchange", site: CaseSite::Tls12StaticRsa, file: File::Small, measure: TICKET, unit: US, target: below(0.70) },
    Case { name: "tls12-1k", title: "1 KiB keep-alive, TLS 1.2, ECDHE", site: CaseSite::Tls12, file: File::Small, measure: KEEP_ALIVE, unit: US, target: None },
    Case { name: "tls12-1k-stapled", title: "1 KiB keep-alive, TLS 1.2, ECDHE, stapling", site: CaseSite::Tls12Stapled, file: File::Small, measure: KEEP_ALIVE, unit: US, target: None },
    Case { name: "plain-1k", title: "1 KiB keep-alive, plain HTTP", site: CaseSite::Plain, file: File::Small, measure: KEEP_ALIVE, unit: US, target: below(0.85) },
    Case { name: "tls13-idle", title: "memory per idle connection, TLS 1.3", site: TLS13_P256, file: File::Small, measure: IDLE, unit: Unit::KibibytesPerConnection, target: below(0.35) },
    Case { name: "h2-1k", title: "1 KiB over HTTP/2, 10 at a time, TLS 1.3", site: CaseSite::Http2, file: File::Small, measure: MULTIPLEXED_SMALL, unit: US, target: below(0.24) },
    Case { name: "cache-h2-1k", title: "1 KiB from the cache over HTTP/2, 10 at a time, TLS 1.3", site: CaseSite::Http2Cached, file: File::Small, measure: MULTIPLEXED_SMALL, unit: US, target: below(0.30) },
    Case { name: "h2-1m", title: "1 MiB over HTTP/2, 4 at a time, TLS 1.3", site: CaseSite::Http2, file: File::Mebibyte, measure: MULTIPLEXED_LARGE, unit: US, target: below(0.85) },
    Case { name: "h2-idle", title: "memory per idle HTTP/2 connection, TLS 1.3", site: CaseSite::Http2, file: File::Small, measure: IDLE_HTTP2, unit: Unit::KibibytesPerConnection, target: below(0.50) },
    Case { name: "h2-100m", title: "100 MiB over HTTP/2, TLS 1.3", site: CaseSite::Http2, file: File::HundredMebibytes, measure: DOWNLOAD, unit: MS, target: None },
    Case { name: "http3-1k", title: "1 KiB over HTTP/3, 10 at a time", site: CaseSite::Http3, file: File::Small, measure: MULTIPLEXED_SMALL, unit: US, target: below(0.50) },
    Case { name: "http3-100m", title: "100 MiB over HTTP/3", site: CaseSite::Http3, file: File::HundredMebibytes, measure: DOWNLOAD, unit: MS, target: below(0.50) },
    Case { name: "http3-100m-1ms", title: "100 MiB over HTTP/3, 1 ms away: time", site: CaseSite::Http3Afar(1), file: File::HundredMebibytes, measure: DOWNLOAD_TIME, unit: MS, target: None },
    Case { name: "http3-handshakes", title: "connection over HTTP/3, full, P-256, 1 KiB", site: CaseSite::Http3, file: File::Small, measure: FULL_ENDED_BY_CLIENT, unit: US, target: below(0.60) },
    Case { name: "http3-idle", title: "memory per idle HTTP/3 connection", site: CaseSite::Http3, file: File::Small, measure: IDLE_HTTP3, unit: Unit::KibibytesPerConnection, target: below(0.50) },
    Case { name: "proxied-1k", title: "1 KiB from an origin, keep-alive, TLS 1.3", site: CaseSite::Proxied, file: File::Small, measure: KEEP_ALIVE, unit: US, target: below(0.80) },
    Case { name: "cache-miss-1k", title: "1 KiB that is not cached yet, keep-alive, TLS 1.3", site: CaseSite::Cached(CacheUse::Misses), file: File::Small, measure: KEEP_ALIVE, unit: US, target: below(1.00) },
    Case { name: "zipf", title: "1 KiB by keys of a Zipf distribution, from a cache or the origin, TLS 1.3", site: CaseSite::Cached(CacheUse::Zipf), file: File::Small, measure: KEEP_ALIVE, unit: US, target: None },
    Case { name: "s2-rsa", title: "full handshake of 64 clients, 10 bytes, TLS 1.2, RSA key exchange", site: CaseSite::Offload(OffloadSuite::Rsa), file: File::Tiny, measure: FULL_CONCURRENT, unit: US, target: below_in_batches(0.45) },
    Case { name: "s2-ecdhe-rsa", title: "full handshake of 64 clients, 10 bytes, TLS 1.2, ECDHE-RSA", site: CaseSite::Offload(OffloadSuite::EcdheRsa), file: File::Tiny, measure: FULL_CONCURRENT, unit: US, target: below_in_batches(0.45) },
    Case { name: "s2-ecdsa-p384", title: "full handshake of 64 clients, 10 bytes, TLS 1.2, ECDHE-ECDSA, secp384r1", site: CaseSite::Offload(OffloadSuite::EcdsaP384), file: File::Tiny, measure: FULL_CONCURRENT, unit: US, target: below(0.45) },
    Case { name: "s2-ecdsa-p256", title: "full handshake of 64 clients, 10 bytes, TLS 1.2, ECDHE-ECDSA, prime256v1", site: CaseSite::Offload(OffloadSuite::EcdsaP256), file: File::Tiny, measure: FULL_CONCURRENT, unit: US, target: None },
    Case { name: "s2-tls13-rsa", title: "full handshake of 64 clients, 10 bytes, TLS 1.3, RSA-2048", site: TLS13_RSA, file: File::Tiny, measure: FULL_CONCURRENT, unit: US, target: below_in_batches(0.45) },
    Case { name: "scale-1", title: "1 KiB keep-alive, TLS 1.3, 1 connection", site: TLS13_P256, file: File::Small, measure: keep_alive_of(1), unit: US, target: None },
    Case { name: "scale-100", title: "1 KiB keep-alive, TLS 1.3, 100 connections", site: TLS13_P256, file: File::Small, measure: keep_alive_of(100), unit: US, target: None },
    Case { name: "scale-1000", title: "1 KiB keep-alive, TLS 1.3, 1,000 connections", site: TLS13_P256, file: File::Small, measure: keep_alive_of(1_000), unit: US, target: None },
    Case { name: "scale-10000", title: "1 KiB keep-alive, TLS 1.3, 10,000 connections", site: TLS13_P256, file: File::Small, measure: keep_alive_of(10_000), unit: US, target: None },
    Case { name: "stream-plain-1k", title: "1 KiB through stream, on open connections, plain", site: PASSED, file: File::Small, measure: KEEP_ALIVE, unit: US, target: below(0.90) },
    Case { name: "stream-plain-1g", title: "1 GiB through stream, plain", site: PASSED, file: File::Sparse, measure: DOWNLOAD, unit: Unit::SecondsPerOperation, target: below(0.90) },
    Case { name: "stream-plain-connection", title: "connection through stream, 1 KiB, plain", site: PASSED, file: File::Small, measure: FULL_ENDED_BY_CLIENT, unit: US, target: below(0.90) },
    Case { name: "stream-plain-idle", title: "memory per idle connection through stream, plain", site: PASSED, file: File::Small, measure: IDLE, unit: Unit::KibibytesPerConnection, target: None },
    Case { name: "stream-tls13-1k", title: "1 KiB through stream, on open connections, TLS 1.3 to plain", site: PASSED_TLS, file: File::Small, measure: KEEP_ALIVE, unit: US, target: below(0.70) },
    Case { name: "stream-tls13-1g", title: "1 GiB through stream, TLS 1.3 to plain", site: PASSED_TLS, file: File::Sparse, measure: DOWNLOAD, unit: Unit::SecondsPerOperation, target: below(0.70) },
    Case { name: "stream-tls13-connection", title: "connection through stream, 1 KiB, TLS 1.3 full, P-256, to plain", site: PASSED_TLS, file: File::Small, measure: FULL_ENDED_BY_CLIENT, unit: US, target: below(0.70) },
    Case { name: "stream-tls13-idle", title: "memory per idle connection through stream, TLS 1.3 to plain", site: PASSED_TLS, file: File::Small, measure: IDLE, unit: Unit::KibibytesPerConnection, target: None },
    Case { name: "stream-tls13-both-1k", title: "1 KiB through stream, on open connections, TLS 1.3 to TLS 1.3", site: PASSED_BOTH, file: File::Small, measure: KEEP_ALIVE, unit: US, target: below(0.70) },
    Case { name: "stream-tls13-both-1g", title: "1 GiB through stream, TLS 1.3 to TLS 1.3", site: PASSED_BOTH, file: File::Sparse, measure: DOWNLOAD, unit: Unit::SecondsPerOperation, target: below(0.70) },
    Case { name: "stream-tls13-both-connection", title: "connection through stream, 1 KiB, TLS 1.3 full, P-256, to TLS 1.3 resumed", site: PASSED_BOTH, file: File::Small, measure: FULL_ENDED_BY_CLIENT, unit: US, target: below(0.70) },
    Case { name: "names-1", title: "connection, TLS 1.3 full, P-256, 1 server name", site: CaseSite::Named(1), file: File::Small, measure: FULL, unit: US, target: None },
    Case { name: "names-100", title: "connection, TLS 1.3 full, P-256, 100 server names", site: CaseSite::Named(100), file: File::Small, measure: FULL, unit: US, target: None },
    Case { name: "names-1000", title: "connection, TLS 1.3 full, P-256, 1,000 server names", site: CaseSite::Named(1_000), file: File::Small, measure: FULL, unit: US, target: None },
];

/// The largest file that HAProxy responds with: its buffer (`tune.bufsize`) without the part
/// that it reserves (`tune.maxrewrite`).
const HAPROXY_BYTES: u64 = 16_384 - 1_024;

/// Requests for each key of a case by Zipf's law.
const REQUESTS_PER_KEY: u64 = 10;

impl Case {
    /// What it needs in the configuration.
    pub(super) fn additions(&self) -> Additions {
        Additions {
            names: match self.site {
                CaseSite::Named(count) => count,
                _ => 0,
            },
            stream: self.is_passed(),
            http3: self.is_http3(),
        }
    }

    /// Whether requests are over HTTP/3.
    fn is_http3(&self) -> bool {
        matches!(self.site, CaseSite::Http3 | CaseSite::Http3Afar(_))
    }

    /// How long the way to the server takes, if it is not a short one.
    pub(super) fn delay(&self) -> Option<Duration> {
        match self.site {
            CaseSite::Http3Afar(ms) => Some(Duration::from_millis(ms)),
            _ => None,
        }
    }

    /// Whether responses travel over TLS.
    pub(super) fn is_sealed(&self) -> bool {
        ![CaseSite::Plain, PASSED].contains(&self.site)
    }

    /// Whether connections are passed on.
    fn is_passed(&self) -> bool {
        matches!(self.site, CaseSite::Passed(_))
    }

    /// Whether each operation is a connection to the origin, too, that must resume a session.
    pub(super) fn resumes_to_origin(&self) -> bool {
        let ends = self.connection() == Some(Connection::FullEndedByClient);
        ends && self.site == PASSED_BOTH
    }

    /// Whether an origin must respond.
    pub(super) fn is_proxied(&self) -> bool {
        let origin = [CaseSite::Proxied, CaseSite::Http2Cached].contains(&self.site);
        origin || self.is_passed() || matches!(self.site, CaseSite::Cached(_))
    }

    /// What the cache does, if there is one.
    pub(super) fn cache_use(&self) -> Option<CacheUse> {
        match self.site {
            CaseSite::Cached(cache_use) => Some(cache_use),
            CaseSite::Http2Cached => Some(CacheUse::Hits),
            _ => None,
        }
    }

    pub(super) fn needs_large_file(&self) -> bool {
        self.file.bytes() >= File::Large.bytes()
    }

    /// Why a server of this kind is left out of the case, if it is.
    pub(super) fn obstacle(&self, kind: Kind) -> Option<&'static str> {
        match (kind, self.site) {
            (Kind::H2o, CaseSite::Browser(_)) => Some(
                "it chooses HTTP/2 whenever a client offers it, and this case requests over HTTP/1.1",
            ),
            (Kind::H2o | Kind::Haproxy, CaseSite::Passed(_)) => {
                Some("its configuration here passes no connections on")
            }
            (_, CaseSite::Cached(_) | CaseSite::Http2Cached) if kind != Kind::Nginx => {
                Some("it has no cache of responses in files")
            }
            (Kind::H2o, CaseSite::Stapled | CaseSite::Tls12Stapled) => {
                Some("it takes no OCSP response from a file")
            }
            (Kind::Haproxy, CaseSite::Stapled | CaseSite::Tls12Stapled) => {
                Some("it finds OCSP responses by the name of the certificate, for all ports")
            }
            (Kind::H2o | Kind::Haproxy, CaseSite::Named(_)) => {
                Some("its configuration has one server for each port")
            }
            (Kind::Haproxy, CaseSite::Http3 | CaseSite::Http3Afar(_)) => {
                Some("its configuration here has no HTTP/3")
            }
            (Kind::H2o, CaseSite::EarlyData) => Some("it accepts no early data"),
            (Kind::Haproxy, CaseSite::Uncached) => {
                Some("it responds from memory and has no files to open")
            }
            (Kind::Haproxy, _) if self.file.bytes() > HAPROXY_BYTES => {
                Some("it serves no files, only responses from memory that fit into a buffer")
            }
            _ => None,
        }
    }

    /// How an operation uses connections, if there are operations.
    fn connection(&self) -> Option<Connection> {
        match self.measure {
            Measure::CpuPerOperation { connection, .. }
            | Measure::TimePerOperation { connection, .. } => Some(connection),
            Measure::MemoryPerIdleConnection { .. } => None,
        }
    }

    /// The run of the generator against a server on `ports`.
    /// Cases by Zipf's law ask for `keys` responses.
    pub(super) fn plan(
        &self,
        ports: &Ports,
        measurement: Duration,
        quick: bool,
        keys: u32,
    ) -> Plan {
        let (tls, port) = self.site.choose(ports);
        let url = Url {
            tls: tls.is_some(),
            host: match self.site {
                // The last one that was configured.
                CaseSite::Named(count) => server_name(count - 1),
                _ => "localhost".into(),
            },
            port,
            path: match self.site {
                CaseSite::Proxied => "/proxied".into(),
                CaseSite::Cached(CacheUse::Hits) | CaseSite::Http2Cached => {
                    format!("/cached/{}", self.file.name())
                }
                CaseSite::Cached(CacheUse::Misses) => format!("/cached/{}/", self.file.name()),
                CaseSite::Cached(CacheUse::Zipf) => format!("/limited/{}/", self.file.name()),
                _ => format!("/{}", self.file.name()),
            },
        };
        let connection_use = match self.connection() {
            Some(Connection::Full | Connection::Ticket | Connection::SessionId) => {
                ConnectionUse::PerRequest
            }
            Some(Connection::FullEndedByClient) => ConnectionUse::EndedByClient,
            _ => ConnectionUse::KeepAlive,
        };
        let expected = Expected {
            status: 200,
            body_bytes: Some(self.file.bytes()),
        };
        let mut plan = Plan::new(
            &url,
            SocketAddr::from(([127, 0, 0, 1], port)),
            expected,
            connection_use,
        );
        plan.tls = tls;
        plan.keys = match self.cache_use() {
            Some(CacheUse::Misses) => Some(Keys::Distinct),
            Some(CacheUse::Zipf) => Some(Keys::Zipf(Zipf::of(keys))),
            Some(CacheUse::Hits) | None => None,
        };
        let resource = Resource {
            streams: match self.connection() {
                Some(Connection::Multiplexed { streams }) => streams,
                _ => 1,
            },
            authority: url.host_header(),
            path: url.path.clone(),
            content: None,
        };
        if [CaseSite::Http2, CaseSite::Http2Cached].contains(&self.site) {
            plan.http2 = Some(resource);
        } else if self.is_http3() {
            plan.http3 = Some(resource);
        }
        let is_zipf = self.cache_use() == Some(CacheUse::Zipf);
        plan.limit = if self.needs_large_file() {
            Limit::Operations(if quick { 1 } else { 2 })
        } else if is_zipf {
            // In the same time the faster server would have more hits.
            Limit::Operations(u64::from(keys) * if quick { 1 } else { REQUESTS_PER_KEY })
        } else {
            Limit::Duration(measurement)
        };
        plan.warm_up = if self.needs_large_file() || is_zipf {
            Duration::ZERO
        } else {
            measurement / 4
        };
        match self.measure {
            Measure::CpuPerOperation {
                connection,
                clients,
            }
            | Measure::TimePerOperation {
                connection,
                clients,
            } => {
                plan.clients = clients;
                plan.threads = 2;
                if let Some(tls) = plan.tls.as_mut() {
                    tls.staple = [CaseSite::Stapled, CaseSite::Tls12Stapled].contains(&self.site);
                    tls.tickets = connection != Connection::SessionId;
                    tls.resumption = match connection {
                        Connection::KeepAlive
                        | Connection::Full
                        | Connection::FullEndedByClient
                        | Connection::Multiplexed { .. } => Resumption::Full,
                        Connection::Ticket | Connection::SessionId => Resumption::Resumed,
                        Connection::EarlyData => Resumption::EarlyData,
                    };
                }
            }
            Measure::MemoryPerIdleConnection { connections } => {
                plan.clients = if quick { connections / 4 } else { connections }
            }
        }
        plan
    }
}

impl CaseSite {
    /// The pinned parameters, and the port of the site.
    fn choose(self, ports: &Ports) -> (Option<TlsPlan>, u16) {
        const TLS13: &str = "TLS_AES_256_GCM_SHA384";
        const TLS12: &str = "ECDHE-RSA-AES256-GCM-SHA384";
        let (protocol, suite, key_type, listener) = match self {
            Self::Plain => return (None, ports.of(Listener::Plain)),
            Self::Passed(Sealed::None) => return (None, ports.of(Listener::Passed)),
            Self::Passed(Sealed::Client) => {
                (Protocol::Tls13, TLS13, KeyType::P256, Listener::PassedTls)
            }
            Self::Passed(Sealed::Both) => {
                (Protocol::Tls13, TLS13, KeyType::P256, Listener::PassedBoth)
            }
            Self::Offload(suite) => {
                let (plan, listener) = suite.choose();
                return (Some(plan), ports.of(listener));
            }
            Self::Browser(key_type) => {
                // The group is the newest that the server's library has.
                let plan = TlsPlan {
                    offer: Offer::Browser,
                    group: None,
                    ..tls_plan(Protocol::Tls13, "TLS_AES_128_GCM_SHA256", key_type)
                };
                return (Some(plan), ports.of(Listener::Browser));
            }
            Self::Uncached => (Protocol::Tls13, TLS13, KeyType::P256, Listener::Uncached),
            Self::Tls13(KeyType::Rsa) => (Protocol::Tls13, TLS13, KeyType::Rsa, Listener::Rsa2048),
            Self::Tls13(key_type) => (Protocol::Tls13, TLS13, key_type, Listener::P256),
            Self::EarlyData => (Protocol::Tls13, TLS13, KeyType::P256, Listener::Early),
            Self::Http2 => (Protocol::Tls13, TLS13, KeyType::P256, Listener::Http2),
            Self::Http3 | Self::Http3Afar(_) => {
                (Protocol::Tls13, TLS13, KeyType::P256, Listener::Http3)
            }
            Self::Http2Cached => (Protocol::Tls13, TLS13, KeyType::P256, Listener::Http2),
            Self::Cached(_) => (Protocol::Tls13, TLS13, KeyType::P256, Listener::P256),
            Self::Named(_) => (Protocol::Tls13, TLS13, KeyType::P256, Listener::P256),
            Self::Stapled => (Protocol::Tls13, TLS13, KeyType::P256, Listener::Stapled),
            Self::Tls12Stapled => (Protocol::Tls12, TLS12, KeyType::Rsa, Listener::StapledRsa),
            Self::Proxied => (Protocol::Tls13, TLS13, KeyType::P256, Listener::P256),
            Self::Tls12 => (Protocol::Tls12, TLS12, KeyType::Rsa, Listener::Rsa2048),
            Self::Tls12Untuned => (Protocol::Tls12, TLS12, KeyType::Rsa, Listener::Untuned),
            Self::Tls12StaticRsa => {
                let suite = "AES256-GCM-SHA384";
                (Protocol::Tls12, suite, KeyType::Rsa, Listener::Rsa2048)
            }
        };
        (
            Some(tls_plan(protocol, suite, key_type)),
            ports.of(listener),
        )
    }
}

impl OffloadSuite {
    fn choose(self) -> (TlsPlan, Listener) {
        let (suite, group, key_type, listener) = match self {
            Self::Rsa => ("AES128-GCM-SHA256", X25519, KeyType::Rsa, Listener::Rsa2048),
            Self::EcdheRsa => (
                "ECDHE-RSA-AES128-GCM-SHA256",
                X25519,
                KeyType::Rsa,
                Listener::Rsa2048,
            ),
            Self::EcdsaP384 => (
                "ECDHE-ECDSA-AES128-GCM-SHA256",
                "P-384",
                KeyType::P384,
                Listener::P384,
            ),
            Self::EcdsaP256 => (
                "ECDHE-ECDSA-AES128-GCM-SHA256",
                "P-256",
                KeyType::P256,
                Listener::P256,
            ),
        };
        let plan = TlsPlan {
            group: Some(group.into()),
            ..tls_plan(Protocol::Tls12, suite, key_type)
        };
        (plan, listener)
    }
}

const X25519: &str = "X25519";

fn tls_plan(protocol: Protocol, suite: &str, key_type: KeyType) -> TlsPlan {
    TlsPlan {
        protocol: Some(protocol),
        suite: Some(suite.into()),
        group: Some(X25519.into()),
        key_type: Some(key_type),
        ..TlsPlan::default()
    }
}
