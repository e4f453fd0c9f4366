//! The directive table: one row per directive, one file per nginx module.
//!
//! A row holds the directive's contexts, the number of its arguments, what it
//! does, whether Sealane implements it, and its setter. The parser, the
//! messages about unknown names and the manual (`docs/directives.md`) all read
//! this table.

mod absent;
mod access;
mod acme;
mod addition;
mod auth_basic;
mod autoindex;
mod browser;
mod cache_paths;
mod charset;
mod compression;
mod computed;
mod concat;
mod core;
mod dav;
mod dubbo;
mod echo;
mod elsewhere;
mod events;
mod fastcgi;
mod files;
mod footer;
mod geo;
mod geoip2;
mod grpc;
mod gunzip;
mod headers;
mod headers_more;
mod health;
mod http2;
mod http3;
mod http_core;
mod http_limits;
mod http_output;
mod http_routing;
mod key_devices;
mod limits;
mod live_upstreams;
mod log;
mod mail;
mod mail_protocols;
mod mail_proxy;
mod map;
mod media;
mod media_types;
mod memcached;
mod modules;
mod otel;
mod processes;
mod proxy;
mod proxy_rewrites;
mod proxying;
mod proxying_cache;
mod proxying_store;
mod proxying_tls;
mod quic;
mod real_ip;
mod referer;
mod req_status;
mod request_body;
mod resolver;
mod rewrite;
mod scgi;
mod secure_link;
mod session_sticky;
mod session_store;
mod ssi;
mod ssl;
mod ssl_client;
mod ssl_handshakes;
mod ssl_sessions;
mod ssl_stapling;
mod status;
mod sticky;
mod stream;
mod stream_proxy;
mod sub_filter;
mod subrequests;
mod sysguard;
mod syslog;
mod thread_pools;
mod traffic;
mod trim;
mod tuning;
mod tunnel;
mod upstream;
mod user_agent;
mod userid;
mod uwsgi;
mod zones;

pub(crate) use self::absent::instead_of_variable;
pub(crate) use self::acme::{check_identifiers, end_acme_issuer, identifiers_of_names};
pub(crate) use self::cache_paths::{check_cache_zones, check_temporary_paths};
pub use self::elsewhere::{ELSEWHERE, Elsewhere, owner};
pub(crate) use self::files::CONTENT_MAX_FILE_BYTES;
pub use self::headers::parse_expires;
pub(crate) use self::http_routing::add_media_type;
pub(crate) use self::key_devices::is_key_uri;
pub(crate) use self::log::combined;
pub(crate) use self::processes::end_process;
pub(crate) use self::proxy_rewrites::default_redirect;
pub(crate) use self::ssl::{ACME_CERTIFICATE, ACME_CERTIFICATE_KEY};
pub(crate) use self::thread_pools::{ThreadPools, check_thread_pools};
pub(crate) use self::upstream::end_upstream;

use crate::build::Build;
use crate::call::{Call, Fault};
use std::collections::HashMap;
use std::sync::OnceLock;

/// A set of contexts, as bits.
pub type Contexts = u32;

/// Outside of any block.
pub const MAIN: Contexts = 1;
/// `events`.
pub const EVENTS: Contexts = 1 << 1;
/// `http`.
pub const HTTP: Contexts = 1 << 2;
/// `server` of `http`.
pub const SERVER: Contexts = 1 << 3;
/// `location`.
pub const LOCATION: Contexts = 1 << 4;
/// `if` in a `server`.
pub const SERVER_IF: Contexts = 1 << 5;
/// `if` in a `location`.
pub const LOCATION_IF: Contexts = 1 << 6;
/// `limit_except`.
pub const LIMIT_EXCEPT: Contexts = 1 << 7;
/// `upstream`.
pub const UPSTREAM: Contexts = 1 << 8;
/// `acme_issuer`.
pub const ACME_ISSUER: Contexts = 1 << 9;
/// `processes`.
pub const PROCESSES: Contexts = 1 << 10;
/// `process`.
pub const PROCESS: Contexts = 1 << 11;
/// `stream`.
pub const STREAM: Contexts = 1 << 12;
/// `server` of `stream`.
pub const STREAM_SERVER: Contexts = 1 << 13;
/// `upstream` of `stream`.
pub const STREAM_UPSTREAM: Contexts = 1 << 14;
/// `mail`.
pub const MAIL: Contexts = 1 << 15;
/// `server` of `mail`.
pub const MAIL_SERVER: Contexts = 1 << 16;
/// Every context.
pub const ANYWHERE: Contexts = Contexts::MAX;

/// `http`, `server` and `location`.
pub(crate) const HSL: Contexts = HTTP | SERVER | LOCATION;
/// `http` and `server`.
pub(crate) const HS: Contexts = HTTP | SERVER;
/// `stream` and its `server`.
pub(crate) const STREAM_LEVELS: Contexts = STREAM | STREAM_SERVER;
/// `http`, `stream`, and `server` in both.
pub(crate) const HS_STREAM: Contexts = HS | STREAM_LEVELS;
/// `http`, `server` and `location`; `stream` and its `server`.
pub(crate) const HSL_STREAM: Contexts = HSL | STREAM_LEVELS;
/// `mail` and its `server`.
pub(crate) const MAIL_LEVELS: Contexts = MAIL | MAIL_SERVER;
/// `http`, `stream`, `mail`, and `server` in each.
pub(crate) const HS_STREAM_MAIL: Contexts = HS_STREAM | MAIL_LEVELS;
/// `http`, `server` and `location`; `stream`, `mail` and their `server`s.
pub(crate) const HSL_STREAM_MAIL: Contexts = HSL_STREAM | MAIL_LEVELS;

/// The name of each context in the manual.
pub const CONTEXT_NAMES: &[(Contexts, &str)] = &[
    (MAIN, "main"),
    (EVENTS, "events"),
    (HTTP, "http"),
    (SERVER, "server"),
    (LOCATION, "location"),
    (SERVER_IF, "if in server"),
    (LOCATION_IF, "if in location"),
    (LIMIT_EXCEPT, "limit_except"),
    (UPSTREAM, "upstream"),
    (ACME_ISSUER, "acme_issuer"),
    (PROCESSES, "processes"),
    (PROCESS, "process"),
    (STREAM, "stream"),
    (STREAM_SERVER, "server in stream"),
    (STREAM_UPSTREAM, "upstream in stream"),
    (MAIL, "mail"),
    (MAIL_SERVER, "server in mail"),
];

/// How many arguments a directive takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arity {
    /// From the first number to the second, both included.
    Between(u8, u8),
    /// This many or more.
    AtLeast(u8),
}

impl Arity {
    /// Whether `count` arguments are right.
    pub fn allows(self, count: usize) -> bool {
        match self {
            Arity::Between(low, high) => (usize::from(low)..=usize::from(high)).contains(&count),
            Arity::AtLeast(low) => count >= usize::from(low),
        }
    }
}

/// Exactly one argument.
pub(crate) const ONE: Arity = Arity::Between(1, 1);

/// What the arguments of a directive must look like when no setter reads them.
#[derive(Clone, Copy)]
pub enum Check {
    /// Anything.
    Any,
    /// Any text, once on each level.
    Text,
    /// `on` or `off`.
    Flag,
    /// A decimal number.
    Number,
    /// A decimal number from the first to the second, both included.
    Between(u64, u64),
    /// A size with `k` or `m`.
    Size,
    /// A size with `k`, `m` or `g`.
    Offset,
    /// A number and a size.
    Buffers,
    /// A time with milliseconds.
    Time,
    /// A time in seconds.
    Seconds,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// What this finds right.
    By(SetterOf),
}

/// Carries out a directive.
pub(crate) type Setter = fn(&mut Build<'_>, &Call<'_>) -> Result<(), Fault>;

/// What Sealane makes of a directive.
#[derive(Clone, Copy)]
pub enum Support {
    /// It works.
    Implemented(SetterOf),
    /// It works and opens a block.
    Block(SetterOf),
    /// Accepted without a word: its effect has no meaning here. Says why.
    Meaningless(Check, &'static str),
    /// Accepted and warned about: nginx itself has dropped it. Names what
    /// replaces it.
    Obsolete(Option<&'static str>),
    /// Accepted and warned about once: it only tunes. Says what is missing.
    Later(Check, &'static str),
    /// An error, because ignoring it would change what clients get or who
    /// gets it. Says why or what to use.
    Unsupported(&'static str),
}

/// The setter of a row; opaque outside this crate.
#[derive(Clone, Copy)]
pub struct SetterOf(pub(crate) Setter);

impl Support {
    /// Whether the directive opens a block.
    pub fn is_block(self) -> bool {
        matches!(self, Support::Block(_))
    }
}

/// One directive.
#[derive(Clone, Copy)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// Its contexts.
    pub contexts: Contexts,
    /// How many arguments it takes.
    pub arity: Arity,
    /// Its default value, in the notation of the configuration;
    /// empty when there is none.
    pub default: &'static str,
    /// What it does, in a sentence or two, for the manual.
    pub doc: &'static str,
    /// Whether Sealane does it.
    pub support: Support,
    /// Arguments with which it does nothing, accepted whatever its `support`
    /// (`ssl_verify_client off`).
    pub inert: &'static [&'static str],
    /// Not in nginx.
    pub own: bool,
}

/// The rows of one module.
pub struct Module {
    /// Title in the manual.
    pub title: &'static str,
    /// What the module is for.
    pub doc: &'static str,
    /// Its directives.
    pub rows: &'static [Row],
}

/// Every module in the order of the manual.
pub const MODULES: &[&Module] = &[
    &core::MODULE,
    &events::MODULE,
    &processes::MODULE,
    &http_core::MODULE,
    &http_routing::MODULE,
    &http_limits::MODULE,
    &request_body::MODULE,
    &http_output::MODULE,
    &files::MODULE,
    &autoindex::MODULE,
    &concat::MODULE,
    &echo::MODULE,
    &media::MODULE,
    &status::MODULE,
    &live_upstreams::MODULE,
    &req_status::MODULE,
    &traffic::MODULE,
    &dav::MODULE,
    &headers::MODULE,
    &headers_more::MODULE,
    &rewrite::MODULE,
    &computed::MODULE,
    &map::MODULE,
    &geo::MODULE,
    &geoip2::MODULE,
    &log::MODULE,
    &otel::MODULE,
    &ssl::MODULE,
    &ssl_sessions::MODULE,
    &ssl_client::MODULE,
    &ssl_stapling::MODULE,
    &acme::MODULE,
    &ssl_handshakes::MODULE,
    &http2::MODULE,
    &http3::MODULE,
    &quic::MODULE,
    &gunzip::MODULE,
    &addition::MODULE,
    &trim::MODULE,
    &footer::MODULE,
    &sub_filter::MODULE,
    &charset::MODULE,
    &ssi::MODULE,
    &compression::GZIP,
    &compression::BROTLI,
    &compression::ZSTD,
    &resolver::MODULE,
    &real_ip::MODULE,
    &access::MODULE,
    &auth_basic::MODULE,
    &limits::MODULE,
    &sysguard::MODULE,
    &secure_link::MODULE,
    &referer::MODULE,
    &userid::MODULE,
    &browser::MODULE,
    &user_agent::MODULE,
    &proxy::MODULE,
    &fastcgi::MODULE,
    &uwsgi::MODULE,
    &scgi::MODULE,
    &proxying_cache::purge::MODULE,
    &grpc::MODULE,
    &memcached::MODULE,
    &tunnel::MODULE,
    &tunnel::CONNECT,
    &dubbo::MODULE,
    &upstream::MODULE,
    &session_sticky::MODULE,
    &health::MODULE,
    &subrequests::MODULE,
    &tuning::MODULE,
    &stream::MODULE,
    &stream_proxy::MODULE,
    &mail::MODULE,
    &mail_protocols::MODULE,
    &mail_proxy::MODULE,
    &absent::GEOIP_MODULE,
    &absent::IMAGE_FILTER,
    &absent::XSLT_MODULE,
    &absent::PERL_MODULE,
    &absent::DEGRADATION_MODULE,
];

impl Row {
    /// A directive that works.
    pub(crate) const fn new(
        name: &'static str,
        contexts: Contexts,
        arity: Arity,
        default: &'static str,
        doc: &'static str,
        set: Setter,
    ) -> Row {
        let support = Support::Implemented(SetterOf(set));
        Row {
            name,
            contexts,
            arity,
            default,
            doc,
            support,
            inert: &[],
            own: false,
        }
    }

    /// A block that works.
    pub(crate) const fn block(
        name: &'static str,
        contexts: Contexts,
        arity: Arity,
        doc: &'static str,
        set: Setter,
    ) -> Row {
        let support = Support::Block(SetterOf(set));
        Row {
            name,
            contexts,
            arity,
            default: "",
            doc,
            support,
            inert: &[],
            own: false,
        }
    }

    /// A directive without an effect here.
    pub(crate) const fn meaningless(
        name: &'static str,
        contexts: Contexts,
        arity: Arity,
        check: Check,
        why: &'static str,
    ) -> Row {
        let support = Support::Meaningless(check, why);
        Row {
            name,
            contexts,
            arity,
            default: "",
            doc: "",
            support,
            inert: &[],
            own: false,
        }
    }

    /// A directive that nginx has dropped.
    pub(crate) const fn obsolete(
        name: &'static str,
        contexts: Contexts,
        instead: Option<&'static str>,
    ) -> Row {
        let support = Support::Obsolete(instead);
        Row {
            name,
            contexts,
            arity: ONE,
            default: "",
            doc: "",
            support,
            inert: &[],
            own: false,
        }
    }

    /// A directive that only tunes and has no effect yet.
    pub(crate) const fn later(
        name: &'static str,
        contexts: Contexts,
        arity: Arity,
        check: Check,
        missing: &'static str,
    ) -> Row {
        let support = Support::Later(check, missing);
        Row {
            name,
            contexts,
            arity,
            default: "",
            doc: "",
            support,
            inert: &[],
            own: false,
        }
    }

    /// A directive that is refused.
    pub(crate) const fn unsupported(
        name: &'static str,
        contexts: Contexts,
        arity: Arity,
        why: &'static str,
    ) -> Row {
        let support = Support::Unsupported(why);
        Row {
            name,
            contexts,
            arity,
            default: "",
            doc: "",
            support,
            inert: &[],
            own: false,
        }
    }

    /// The row with arguments that are accepted because they change nothing.
    pub(crate) const fn inert(mut self, inert: &'static [&'static str]) -> Row {
        self.inert = inert;
        self
    }

    /// The row with further contexts.
    pub(crate) const fn also_in(mut self, contexts: Contexts) -> Row {
        self.contexts |= contexts;
        self
    }

    /// The row marked as Sealane's own.
    pub(crate) const fn own(mut self) -> Row {
        self.own = true;
        self
    }
}

/// Every row.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    MODULES.iter().flat_map(|module| module.rows)
}

/// The rows of that name; several when it means something else elsewhere.
pub(crate) fn named(name: &[u8]) -> &'static [&'static Row] {
    static INDEX: OnceLock<HashMap<&'static [u8], Vec<&'static Row>>> = OnceLock::new();
    let index = INDEX.get_or_init(|| {
        let mut index: HashMap<&'static [u8], Vec<&'static Row>> = HashMap::new();
        for row in rows() {
            index.entry(row.name.as_bytes()).or_default().push(row);
        }
        index
    });
    index.get(name).map_or(&[], Vec::as_slice)
}

/// Whether there is a directive of that name that works somewhere.
pub fn works(name: &str) -> bool {
    let works = |row: &Row| matches!(row.support, Support::Implemented(_) | Support::Block(_));
    named(name.as_bytes()).iter().any(|row| works(row))
}

/// The known name nearest to `name`, if it is near enough to be meant; names
/// allowed in the context come first.
pub fn nearest(name: &[u8], context: Contexts) -> Option<&'static str> {
    let name = std::str::from_utf8(name).ok()?;
    if name.len() > 64 {
        return None;
    }
    let allowed = 1 + name.len() / 5;
    rows()
        // No distance is less than the difference in length; most names end here.
        .filter(|row| row.name.len().abs_diff(name.len()) <= allowed)
        .map(|row| {
            let elsewhere = row.contexts & context == 0;
            (distance(name, row.name), elsewhere, row.name)
        })
        .filter(|(distance, ..)| *distance <= allowed && *distance < name.len())
        .min()
        .map(|(.., name)| name)
}

/// Damerau-Levenshtein distance (adjacent letters may change places).
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(b.len() + 1);
        row.push(i + 1);
        for (j, y) in b.iter().enumerate() {
            let mut best = (above[j] + usize::from(x != y))
                .min(above[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
