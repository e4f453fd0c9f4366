//! Content codings: whether the client accepts one, by nginx's rules.
//!
//! Everything that needs to know (`gzip`, `gunzip`, `gzip_static` and their counterparts for
//! Brotli and zstd) asks here, so a response is never compressed by one rule and decompressed
//! by another.

use crate::exchange::Exchange;
use crate::framing;
use crate::request_log::log_request;
use sealane_conf::model::{Compression, Compressor, GzipClients, GzipProxied};
use sealane_http::date;
use sealane_http::h1::Version;
use sealane_http::headers::KnownHeader;
use sealane_sys::time::unix_coarse_s;
use std::sync::{Arc, OnceLock};

/// A content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    /// RFC 8878.
    Zstd,
    /// RFC 7932.
    Brotli,
    /// RFC 1952.
    Gzip,
}

impl Coding {
    /// All codings, in order of preference. As with nginx's modules, the first one that is enabled
    /// and that the client accepts is used, whatever weights the client gives.
    pub(crate) const ALL: [Coding; 3] = [Coding::Zstd, Coding::Brotli, Coding::Gzip];

    /// Its name in `Accept-Encoding` and `Content-Encoding`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Coding::Zstd => "zstd",
            Coding::Brotli => "br",
            Coding::Gzip => "gzip",
        }
    }

    /// The extension of files with this coding.
    pub(crate) fn suffix(self) -> &'static [u8] {
        match self {
            Coding::Zstd => b".zst",
            Coding::Brotli => b".br",
            Coding::Gzip => b".gz",
        }
    }

    /// The compressor of a location for this coding.
    pub(crate) fn compressor(self, compression: &Compression) -> Option<&Arc<Compressor>> {
        match self {
            Coding::Zstd => compression.zstd.as_ref(),
            Coding::Brotli => compression.brotli.as_ref(),
            Coding::Gzip => compression.gzip.as_ref(),
        }
    }
}

/// What a request keeps about codings.
#[derive(Default)]
pub(crate) struct CodingsState {
    /// The result of [`takes`] for gzip.
    takes_gzip: Option<bool>,
}

/// Whether the client gets this coding. For gzip this is nginx's `ngx_http_gzip_ok()`, which is
/// evaluated once per request, however the response changes afterwards.
pub(crate) fn takes(exchange: &mut Exchange, coding: Coding) -> bool {
    if coding != Coding::Gzip {
        return is_listed(exchange, coding);
    }
    if let Some(takes) = exchange.features.codings.takes_gzip {
        return takes;
    }
    let takes = takes_gzip(exchange);
    exchange.features.codings.takes_gzip = Some(takes);
    takes
}

fn takes_gzip(exchange: &Exchange) -> bool {
    static DEFAULT: OnceLock<GzipClients> = OnceLock::new();
    if !is_listed(exchange, Coding::Gzip) {
        return false;
    }
    let head = &exchange.request.head;
    let clients = exchange
        .conf()
        .gzip_clients
        .as_deref()
        .unwrap_or_else(|| DEFAULT.get_or_init(GzipClients::default));
    let least = match clients.http10 {
        true => Version::Http10,
        false => Version::Http11,
    };
    let is_old = clients.disable_msie6 && framing::is_msie6(exchange);
    if head.version < least || is_old {
        return false;
    }
    if head.has(KnownHeader::Via) && !suits_proxy(exchange, clients.proxied) {
        return false;
    }
    !is_disabled(exchange, clients)
}

/// `gzip_disable`.
fn is_disabled(exchange: &Exchange, clients: &GzipClients) -> bool {
    let Some(agent) = exchange.request.head.get(KnownHeader::UserAgent) else {
        return false;
    };
    let agent = agent.of(&exchange.request.buffer);
    clients
        .disable
        .iter()
        .any(|regex| match regex.is_match(agent) {
            Ok(matches) => matches,
            Err(error) => {
                let pattern = regex.pattern();
                log_request!(
                    exchange,
                    Alert,
                    "gzip_disable \"{pattern}\" could not be matched: {}; \
                     use an expression that backtracks less",
                    error.message
                );
                true
            }
        })
}

/// `gzip_proxied`: whether the response may be compressed for a proxy.
fn suits_proxy(exchange: &Exchange, proxied: GzipProxied) -> bool {
    let response = &exchange.response;
    let of = |name| response.headers.get_known(name);
    if proxied.any {
        return true;
    }
    if proxied.auth && exchange.request.head.has(KnownHeader::Authorization) {
        return true;
    }
    // As in nginx, none of these is `gzip_proxied off`.
    if proxied == GzipProxied::default() {
        return false;
    }
    if let Some(expires) = of(KnownHeader::Expires) {
        let date = match of(KnownHeader::Date) {
            Some(date) => date::parse(date),
            None => Some(unix_coarse_s()),
        };
        let is_past = date::parse(expires).zip(date).map(|(end, now)| end < now);
        return proxied.expired && is_past == Some(true);
    }
    let has = |word: &[u8]| {
        let mut lines = response.headers.iter();
        lines.any(|(name, value)| {
            name.eq_ignore_ascii_case(b"Cache-Control") && has_word(value, word)
        })
    };
    if of(KnownHeader::CacheControl).is_some() {
        return proxied.no_cache && has(b"no-cache")
            || proxied.no_store && has(b"no-store")
            || proxied.private && has(b"private");
    }
    let has_etag = response.etag.is_some() || of(KnownHeader::Etag).is_some();
    !(proxied.no_last_modified && of(KnownHeader::LastModified).is_some()
        || proxied.no_etag && has_etag)
}

/// Whether a header contains this word, in the way nginx reads such lists.
fn has_word(value: &[u8], word: &[u8]) -> bool {
    value
        .split(|byte| matches!(byte, b',' | b';'))
        .any(|item| item.trim_ascii().eq_ignore_ascii_case(word))
}

/// Whether the request's `Accept-Encoding` lists the coding.
fn is_listed(exchange: &Exchange, coding: Coding) -> bool {
    let accepted = exchange.request.head.get(KnownHeader::AcceptEncoding);
    !exchange.request.is_subrequest
        && accepted.is_some_and(|value| {
            lists(value.of(&exchange.request.buffer), coding.name().as_bytes())
        })
}

/// Whether an `Accept-Encoding` value lists a coding with a weight above zero.
///
/// As in nginx, `*` and `identity` have no effect, and the first item that begins with the name
/// decides.
fn lists(value: &[u8], coding: &[u8]) -> bool {
    let begins = |at: usize| {
        value[at..]
            .get(..coding.len())
            .is_some_and(|name| name.eq_ignore_ascii_case(coding))
            && (at == 0 || matches!(value[at - 1], b',' | b' '))
    };
    let Some(at) = (0..value.len()).find(|at| begins(*at)) else {
        return false;
    };
    let rest = value[at + coding.len()..].trim_ascii_start();
    match rest.split_first() {
        None | Some((b',', _)) => true,
        Some((b';', parameters)) => is_positive_weight(parameters.trim_ascii_start()),
        Some(_) => false,
    }
}

/// `q=0.5` and the like: a number from 0 to 1 with at most three decimals that is not zero.
fn is_positive_weight(parameter: &[u8]) -> bool {
    if parameter.is_empty() {
        return true;
    }
    let Some(weight) = parameter
        .strip_prefix(b"q=")
        .or(parameter.strip_prefix(b"Q="))
    else {
        return false;
    };
    let end = weight.iter().position(|byte| matches!(byte, b',' | b' '));
    let weight = &weight[..end.unwrap_or(weight.len())];
    let (whole, decimals) = match weight.split_first() {
        Some((whole, [])) => (*whole, &b""[..]),
        Some((whole, [b'.', decimals @ ..])) => (*whole, decimals),
        _ => return false,
    };
    let digits = decimals.len() <= 3 && decimals.iter().all(u8::is_ascii_digit);
    let zeros = decimals.iter().all(|digit| *digit == b'0');
    match whole {
        b'0' => digits && !zeros,
        b'1' => digits && zeros,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_encoding() {
        for (value, wanted) in [
            ("gzip", true),
            ("gzip, deflate, br", true),
            ("deflate, gzip", true),
            ("deflate gzip", true),
            ("GZIP;q=1.0", true),
            ("gzip;q=0.001", true),
            ("gzip; q=0.5", true),
            ("gzip;Q=0.5,br", true),
            ("gzip ; q=0.5, br", true),
            ("gzip;q=0.5 , br;q=0", true),
            ("gzip;", true),
            ("br;q=0, gzip", true),
            ("xgzip, gzip", true),
            ("gzip;q=0", false),
            ("gzip;q=0, gzip", false),
            ("gzip;q=0.000", false),
            ("gzip;q=0.0001", false),
            ("gzip;q=2", false),
            ("gzip;q=1.1", false),
            ("gzip;q=", false),
            ("gzip;x=1", false),
            ("xgzip", false),
            ("gzipx", false),
            ("gzipx, gzip", false),
            ("gzi", false),
            ("*", false),
            ("identity", false),
            ("", false),
        ] {
            assert_eq!(lists(value.as_bytes(), b"gzip"), wanted, "{value:?}");
        }
        assert!(lists(b"vbr, br;q=0.1", b"br"));
        assert!(!lists(b"gzip, br;q=0", b"br"));
    }

    #[test]
    fn words_of_cache_control() {
        for (value, wanted) in [
            ("no-store", true),
            ("max-age=0, No-Store", true),
            ("private;no-store ,x", true),
            ("no-store=1", false),
            ("x-no-store", false),
            ("", false),
        ] {
            assert_eq!(has_word(value.as_bytes(), b"no-store"), wanted, "{value:?}");
        }
    }
}
