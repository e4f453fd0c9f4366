//! What methods that may change something remove from the cache (RFC 9111 section 4.4): the
//! responses of the target URI, and of `Location` and `Content-Location` on the same origin.

use super::super::super::wire::UpstreamHead;
use super::super::super::{PassRuntime, Target};
use super::super::look::{key, zone_of};
use super::super::settings;
use crate::exchange::Exchange;
use crate::pipeline;
use crate::request_log::log_request;
use crate::subrequest;
use sealane_cache::{CacheKey, FileFailure};
use sealane_conf::model::{CacheRules, CacheSettings};
use sealane_http::Method;
use sealane_http::headers::KnownHeader;
use sealane_http::uri::parse_authority;
use sealane_io::disk;
use std::sync::Arc;

/// Methods without a variant that are safe all the same (the registry of methods).
const SAFE_BY_NAME: [&[u8]; 3] = [b"SEARCH", b"REPORT", b"QUERY"];

/// Methods whose responses may be in the cache, in the order of keys.
const CACHED: [Method; 2] = [Method::Get, Method::Head];

/// Removes what the response to such a method makes out of date. Called before the client gets the
/// response.
pub(in crate::proxying) async fn invalidate(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    mut target: Target,
    head: &UpstreamHead,
) {
    let Some(settings) = settings(pass) else {
        return;
    };
    let is_error = !matches!(head.parsed.status.0, 200..=399);
    if settings.rules != CacheRules::Rfc9111 || is_error || !may_change(exchange, settings) {
        return;
    }
    if let Some(states) = exchange.upstream.as_deref() {
        // It went there when the request was made.
        target.uri.clone_from(&states.uri);
    }
    purge(exchange, pass, &target).await;
    // What the client is told of them.
    let mut named: Vec<Vec<u8>> = Vec::new();
    if let Some(value) = head.parsed.get(KnownHeader::Location) {
        let value = value.of(&head.buffer);
        let told = pass.rewrite_header(exchange, KnownHeader::Location, value);
        named.push(told.unwrap_or_else(|| value.to_vec()));
    }
    if let Some(value) = head.parsed.get_by_name(&head.buffer, b"Content-Location") {
        named.push(value.of(&head.buffer).to_vec());
    }
    for value in named {
        if let Some(other) = on_same_origin(exchange, &value) {
            purge_other(exchange, &other).await;
        }
    }
}

/// Whether the method is not known to be safe, nor declared to be cached (`cache_methods`).
fn may_change(exchange: &Exchange, settings: &CacheSettings) -> bool {
    let request = &exchange.request;
    match request.head.method {
        Method::Get | Method::Head | Method::Options | Method::Trace | Method::Propfind => false,
        Method::Post => !settings.caches_post,
        Method::Other => !SAFE_BY_NAME.contains(&request.head.method_name.of(&request.buffer)),
        _ => true,
    }
}

/// Removes the responses for the request's URI. Variants are not found any more without the
/// response in the key's place.
async fn purge(exchange: &mut Exchange, pass: &PassRuntime, target: &Target) {
    let Some(settings) = settings(pass) else {
        return;
    };
    // The error is logged.
    let Ok(Some((_, zone))) = zone_of(exchange, settings) else {
        return;
    };
    let method = exchange.request.head.method;
    let mut keys: Vec<CacheKey> = Vec::new();
    for cached in CACHED {
        exchange.request.head.method = cached;
        let key = CacheKey::new(key(exchange, pass, settings, target));
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    exchange.request.head.method = method;
    for key in keys {
        let (zone, hash) = (Arc::clone(&zone.index), key.hash());
        if let Err(failure) = disk::run(move || zone.invalidate(&hash)).await {
            log_failure(exchange, &failure);
        }
    }
}

/// Says that a response is still there.
pub(super) fn log_failure(exchange: &Exchange, failure: &FileFailure) {
    log_request!(
        exchange,
        Crit,
        "{} \"{}\" failed ({})",
        failure.call,
        failure.path.display(),
        sealane_log::OsError(&failure.error)
    );
}

/// Removes the responses for another target on the same origin, in the location that it leads to.
async fn purge_other(exchange: &Exchange, target: &[u8]) {
    let Some(mut other) = subrequest::for_target(exchange, target) else {
        return;
    };
    if pipeline::locate(&mut other).is_err() {
        return;
    }
    let snapshot = Arc::clone(&other.snapshot);
    let Some(pass) = &snapshot.location(other.location).pass else {
        return;
    };
    // The error is logged.
    if let Ok(target) = Target::of(&mut other, pass).await {
        purge(&mut other, pass, &target).await;
    }
}

/// Path and query of a reference, if it leads to the same origin as the request.
fn on_same_origin(exchange: &Exchange, reference: &[u8]) -> Option<Vec<u8>> {
    let request = &exchange.request;
    let origin = WebOrigin {
        is_secure: exchange.connection.tls().is_some(),
        host: request.head.host?.of(&request.buffer),
        port: request.head.port,
    };
    resolve(&origin, request.head.path.of(&request.buffer), reference)
}

/// Scheme, host and port.
struct WebOrigin<'t> {
    is_secure: bool,
    host: &'t [u8],
    port: Option<u16>,
}

impl WebOrigin<'_> {
    fn has_scheme(&self, scheme: &[u8]) -> bool {
        let own: &[u8] = match self.is_secure {
            true => b"https",
            false => b"http",
        };
        scheme.eq_ignore_ascii_case(own)
    }

    fn has_authority(&self, authority: &[u8]) -> bool {
        let Ok(other) = parse_authority(authority) else {
            return false;
        };
        let port = |port: Option<u16>| port.unwrap_or(if self.is_secure { 443 } else { 80 });
        let is_same_host = other.host.of(authority).eq_ignore_ascii_case(self.host);
        is_same_host && port(other.port) == port(self.port)
    }
}

/// Resolves a reference against a URI (RFC 3986 section 5.2): path and query, if the origin stays
/// the same.
fn resolve(origin: &WebOrigin<'_>, base: &[u8], reference: &[u8]) -> Option<Vec<u8>> {
    let end = memchr::memchr(b'#', reference).unwrap_or(reference.len());
    let reference = &reference[..end];
    let colon = memchr::memchr(b':', reference);
    let first_of_path = memchr::memchr2(b'/', b'?', reference).unwrap_or(reference.len());
    let rest = match colon.filter(|colon| *colon < first_of_path) {
        Some(colon) => {
            let rest = reference[colon + 1..].strip_prefix(b"//")?;
            origin.has_scheme(&reference[..colon]).then_some(rest)?
        }
        None => match reference.strip_prefix(b"//") {
            Some(rest) => rest,
            None => return Some(relative(base, reference)),
        },
    };
    let path = memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(path);
    origin.has_authority(authority).then(|| match path {
        [] => b"/".to_vec(),
        path => relative(b"/", path),
    })
}

/// A reference that is a path, a query or nothing.
fn relative(base: &[u8], reference: &[u8]) -> Vec<u8> {
    let (base_path, _) = split_query(base);
    let (path, query) = split_query(reference);
    let mut out = match path {
        [] if query.is_empty() => return base.to_vec(),
        [] => base_path.to_vec(),
        [b'/', ..] => without_dots(path),
        _ => {
            let directory = memchr::memrchr(b'/', base_path).map_or(0, |slash| slash + 1);
            without_dots(&[&base_path[..directory], path].concat())
        }
    };
    out.extend_from_slice(query);
    out
}

/// The path, and the query with its question mark.
fn split_query(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(memchr::memchr(b'?', text).unwrap_or(text.len()))
}

/// A path without `.` and `..` (RFC 3986 section 5.2.4).
fn without_dots(path: &[u8]) -> Vec<u8> {
    let mut segments: Vec<&[u8]> = Vec::new();
    let mut is_directory = false;
    for segment in path.split(|byte| *byte == b'/').skip(1) {
        is_directory = matches!(segment, b"." | b"..");
        match segment {
            b"." => {}
            b".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    if is_directory {
        segments.push(b"");
    }
    let mut out = Vec::with_capacity(path.len());
    for segment in segments {
        out.push(b'/');
        out.extend_from_slice(segment);
    }
    if out.is_empty() {
        out.push(b'/');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_on_the_same_origin() {
        let origin = WebOrigin {
            is_secure: false,
            host: b"h.test",
            port: Some(81),
        };
        let resolved = |reference: &str| {
            let found = resolve(&origin, b"/a/b/c?d", reference.as_bytes())?;
            Some(String::from_utf8(found).expect("text"))
        };
        for (reference, expected) in [
            ("", Some("/a/b/c?d")),
            ("#x", Some("/a/b/c?d")),
            ("?e", Some("/a/b/c?e")),
            ("e", Some("/a/b/e")),
            ("e?f#g", Some("/a/b/e?f")),
            ("./e", Some("/a/b/e")),
            ("../e/", Some("/a/e/")),
            ("../..", Some("/")),
            ("../../../e", Some("/e")),
            (".", Some("/a/b/")),
            ("/e/./f/../g", Some("/e/g")),
            ("/e//f", Some("/e//f")),
            ("//h.test:81/e", Some("/e")),
            ("//H.TEST:81", Some("/")),
            ("//h.test:81?e", Some("/?e")),
            ("HTTP://h.test:81/e?f", Some("/e?f")),
            ("http://h.test/e", None),
            ("https://h.test:81/e", None),
            ("//other/e", None),
            ("mailto:a", None),
            ("/e:f", Some("/e:f")),
        ] {
            assert_eq!(resolved(reference).as_deref(), expected, "{reference:?}");
        }
        let origin = WebOrigin {
            is_secure: true,
            host: b"h.test",
            port: None,
        };
        for (authority, expected) in [
            ("h.test:443", true),
            ("h.test.", true),
            ("h.test:80", false),
        ] {
            assert_eq!(
                origin.has_authority(authority.as_bytes()),
                expected,
                "{authority}"
            );
        }
    }
}
