//! What `proxy_*`, `fastcgi_*`, `uwsgi_*`, `scgi_*` and `grpc_*` have in common
//! (nginx's upstream module). Names of directives are given without the prefix.

use super::{CacheSettings, Family, PurgeMethod, TempPath, Template, UpstreamTls};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Settings of a location that hands requests to other servers.
#[derive(Debug, Clone)]
pub struct UpstreamSettings {
    /// Which directives these are, for messages.
    pub family: Family,

    // Time.
    /// `connect_timeout`; default 60 s.
    pub connect_timeout: Duration,
    /// `send_timeout`: between two writes of the request; default 60 s.
    pub send_timeout: Duration,
    /// `read_timeout`: between two reads of the response; default 60 s.
    pub read_timeout: Duration,

    // Another server.
    /// `next_upstream`; default error and timeout.
    pub next_upstream: NextUpstream,
    /// `next_upstream_tries`: servers tried at most; 0, the default, is no limit.
    pub next_upstream_tries: u32,
    /// `next_upstream_timeout`: time for trying; zero, the default, is no limit.
    pub next_upstream_timeout: Duration,

    // The connection.
    /// `bind`: the address that connections come from; `None` leaves it to the
    /// system.
    pub bind: Option<Bind>,
    /// `socket_keepalive`: SO_KEEPALIVE; default off.
    pub socket_keepalive: bool,
    /// `socket_rcvbuf`: SO_RCVBUF; `None` is the system's size.
    pub socket_rcvbuf_bytes: Option<u64>,
    /// `socket_sndbuf`: SO_SNDBUF; `None` is the system's size.
    pub socket_sndbuf_bytes: Option<u64>,
    /// `ssl_*`; `None` when TLS cannot be asked for.
    pub tls: Option<Arc<UpstreamTls>>,

    // The request.
    /// `request_buffering`: the whole body is read before the request is sent to a server;
    /// default on. Always off for gRPC.
    pub request_buffering: bool,
    /// `pass_request_headers`; default on.
    pub pass_request_headers: bool,
    /// `pass_request_body`; default on.
    pub pass_request_body: bool,
    /// `ignore_client_abort`: the request to the server is completed even if the client
    /// is gone; default off.
    pub ignore_client_abort: bool,

    // The response.
    /// `buffering`; default on. Always off for gRPC.
    pub buffering: bool,
    /// `buffer_size`: for the first part of the response; the header must
    /// fit into it; default 4k.
    pub buffer_bytes: u64,
    /// `buffers`: number and size; default 8 4k.
    pub buffers: (u32, u64),
    /// `busy_buffers_size`: the most that may be on its way to the client before the
    /// response has been read completely; default two buffers.
    pub busy_buffers_bytes: u64,
    /// `temp_path`; default `NAME_temp` in `Options::temp` with levels 1 and 2.
    pub temp_path: Arc<TempPath>,
    /// `max_temp_file_size`; default 1 GiB, 0 means no temporary file.
    pub max_temp_file_bytes: u64,
    /// `temp_file_write_size`: most written to it at once; default two buffers.
    pub temp_file_write_bytes: u64,
    /// `limit_rate` in bytes per second, for reading the response; zero or
    /// `None` is no limit.
    pub limit_rate: Option<Template>,
    /// `force_ranges`; default off.
    pub force_ranges: bool,
    /// `intercept_errors`; default off.
    pub intercept_errors: bool,
    /// `store`: complete responses are kept as files; default off.
    pub store: Option<Store>,
    /// `cache` and its relatives; default off.
    pub cache: Option<Arc<CacheSettings>>,
    /// `cache_purge METHOD`, whether or not there is a cache.
    pub purge_method: Option<Arc<PurgeMethod>>,
    /// `ignore_headers`.
    pub ignore_headers: IgnoreHeaders,
    /// `hide_header` and `pass_header`.
    pub hidden_headers: Arc<HiddenHeaders>,
    /// `pass_trailers`; default off. Always on for gRPC.
    pub pass_trailers: bool,
}

/// Where responses are stored: `store` and `store_access`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// The path; `None` is that of `root` or `alias`.
    pub path: Option<Template>,
    /// Permissions of the files; default `user:rw`.
    pub access: u32,
}

/// When the next server is tried: `next_upstream`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NextUpstream {
    bits: u16,
}

/// One word of `next_upstream`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum NextUpstreamCause {
    /// `error`: connecting, sending or reading the header failed.
    Error,
    /// `timeout`.
    Timeout,
    /// `invalid_header`: the response's header was empty or wrong.
    InvalidHeader,
    /// `non_idempotent`: also requests that change something when they are
    /// repeated (POST, LOCK, PATCH).
    NonIdempotent,
    /// `http_500`.
    Http500,
    /// `http_502`.
    Http502,
    /// `http_503`.
    Http503,
    /// `http_504`.
    Http504,
    /// `http_403`.
    Http403,
    /// `http_404`.
    Http404,
    /// `http_429`.
    Http429,
    /// `updating`: means something for `cache_use_stale` only.
    Updating,
    /// `off`: never; cancels the rest.
    Off,
}

impl NextUpstream {
    /// The default: `error timeout`.
    pub const DEFAULT: NextUpstream = NextUpstream {
        bits: 1 << NextUpstreamCause::Error as u8 | 1 << NextUpstreamCause::Timeout as u8,
    };

    /// The set without any cause: the next server is never tried.
    pub const NEVER: NextUpstream = NextUpstream { bits: 0 };

    /// Adds a cause; false when it was there already.
    pub fn insert(&mut self, cause: NextUpstreamCause) -> bool {
        let before = self.bits;
        self.bits |= 1 << cause as u8;
        self.bits != before
    }

    /// Whether a cause leads to the next server.
    pub fn contains(self, cause: NextUpstreamCause) -> bool {
        self.bits & 1 << cause as u8 != 0
    }

    /// Whether a response with this status leads to the next server.
    pub fn contains_status(self, status: u16) -> bool {
        use NextUpstreamCause as C;
        let cause = match status {
            500 => C::Http500,
            502 => C::Http502,
            503 => C::Http503,
            504 => C::Http504,
            403 => C::Http403,
            404 => C::Http404,
            429 => C::Http429,
            _ => return false,
        };
        self.contains(cause)
    }
}

/// Fields of a response that are ignored instead of obeyed:
/// `ignore_headers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IgnoreHeaders {
    /// `X-Accel-Redirect`.
    pub accel_redirect: bool,
    /// `X-Accel-Expires`.
    pub accel_expires: bool,
    /// `X-Accel-Limit-Rate`.
    pub accel_limit_rate: bool,
    /// `X-Accel-Buffering`.
    pub accel_buffering: bool,
    /// `X-Accel-Charset`.
    pub accel_charset: bool,
    /// `Expires`.
    pub expires: bool,
    /// `Cache-Control`.
    pub cache_control: bool,
    /// `Set-Cookie`.
    pub set_cookie: bool,
    /// `Vary`.
    pub vary: bool,
}

/// Fields of a response that clients do not see.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HiddenHeaders {
    /// Names in lower case, sorted.
    names: Vec<Box<[u8]>>,
    /// One bit for each length of a name; the last one stands for all longer names. Most
    /// fields are passed, and this shows it at once.
    lengths: u64,
}

impl HiddenHeaders {
    /// A set of names, which may be in any case.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n [u8]>) -> HiddenHeaders {
        let names = names.into_iter().map(<[u8]>::to_ascii_lowercase);
        let mut names: Vec<Box<[u8]>> = names.map(Vec::into_boxed_slice).collect();
        names.sort();
        names.dedup();
        let lengths = names.iter().map(|name| HiddenHeaders::length_bit(name));
        let lengths = lengths.fold(0, |all, bit| all | bit);
        HiddenHeaders { names, lengths }
    }

    fn length_bit(name: &[u8]) -> u64 {
        1 << name.len().min(63)
    }

    /// Whether a field of this name, in any case, is hidden.
    pub fn contains(&self, name: &[u8]) -> bool {
        if self.lengths & HiddenHeaders::length_bit(name) == 0 {
            return false;
        }
        // They are few: looking at each length costs less than a search.
        let mut same_length = self.names.iter().filter(|known| known.len() == name.len());
        same_length.any(|known| known.eq_ignore_ascii_case(name))
    }

    /// The names in lower case.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.names.iter().map(|name| &**name)
    }
}

/// `bind`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// The address.
    pub address: BindAddress,
    /// `transparent`: the address need not be the machine's own
    /// (IP_TRANSPARENT).
    pub transparent: bool,
}

/// The address of a `bind`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindAddress {
    /// An address, with port 0 for any.
    Fixed(SocketAddr),
    /// An address that variables produce; parsed by
    /// [`crate::upstream_url::local_address`]. Empty is none.
    Evaluated(Template),
}
