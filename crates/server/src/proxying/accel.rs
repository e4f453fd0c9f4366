//! Instructions of a peer (`X-Accel-*`), unless `proxy_ignore_headers` disables them.

use super::PassRuntime;
use super::response;
use super::wire::UpstreamHead;
use crate::exchange::{ContentType, Exchange};
use crate::handlers::{Outcome, special};
use crate::request_log::{Text, log_request};
use sealane_conf::model::{Family, UpstreamSettings};
use sealane_http::headers::KnownHeader;
use sealane_http::{Method, StatusCode, uri};

/// Headers of the peer that survive an internal redirect, as in nginx.
const KEPT: [KnownHeader; 5] = [
    KnownHeader::SetCookie,
    KnownHeader::ContentDisposition,
    KnownHeader::CacheControl,
    KnownHeader::Expires,
    KnownHeader::AcceptRanges,
];

/// `X-Accel-Redirect`: an internal redirect instead of the peer's response.
pub(super) fn redirect(
    exchange: &mut Exchange,
    head: &UpstreamHead,
    pass: &PassRuntime,
) -> Option<Outcome> {
    let settings = pass.settings();
    if settings.ignore_headers.accel_redirect {
        return None;
    }
    let target = head.parsed.get(KnownHeader::XAccelRedirect)?;
    let target = target.of(&head.buffer);
    keep_headers(exchange, head, pass);
    if let Some(name) = target.strip_prefix(b"@") {
        return Some(Outcome::Named(String::from_utf8_lossy(name).into()));
    }
    let Some((uri, args)) = safe_uri(target) else {
        log_request!(
            exchange,
            Error,
            "unsafe URI \"{}\" was detected",
            Text(target)
        );
        return Some(Outcome::Status(StatusCode::NOT_FOUND));
    };
    let head = &mut exchange.request.head;
    if head.method != Method::Head {
        head.method = Method::Get;
    }
    Some(Outcome::Redirect { uri, args })
}

fn keep_headers(exchange: &mut Exchange, head: &UpstreamHead, pass: &PassRuntime) {
    for header in &head.parsed.headers {
        let name = header.name.of(&head.buffer);
        let value = header.value.of(&head.buffer);
        let Some(known) = header.known else {
            continue;
        };
        if known == KnownHeader::ContentType {
            exchange.response.content_type = ContentType::new(value);
        } else if known == KnownHeader::AcceptRanges && pass.settings().force_ranges {
            continue;
        } else if KEPT.contains(&known) {
            let rewritten = pass.rewrite_header(exchange, known, value);
            let value = rewritten.as_deref().unwrap_or(value);
            response::push(exchange, header.known, name, value);
        }
    }
}

/// The path and the arguments of a URI that may be followed; `None` if it is empty or leaves the
/// root.
pub(crate) fn safe_uri(target: &[u8]) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let (path, args) = special::split_args(target);
    let decoded = uri::unescape(path);
    let is_safe = |path: &[u8]| {
        let mut parts = path.split(|&byte| byte == b'/');
        !path.is_empty() && !path.contains(&0) && !parts.any(|part| part == b"..")
    };
    (is_safe(path) && is_safe(&decoded)).then(|| (decoded.into_owned(), args.map(<[u8]>::to_vec)))
}

/// `X-Accel-Limit-Rate`, and `X-Accel-Charset` for `charset`. As in nginx they hold for whatever
/// the client gets, after `X-Accel-Redirect`, too. (`X-Accel-Expires` concerns only caches.)
pub(super) fn apply(exchange: &mut Exchange, head: &UpstreamHead, settings: &UpstreamSettings) {
    let value = |name| {
        let value = head.parsed.get(name)?;
        Some(value.of(&head.buffer))
    };
    if !settings.ignore_headers.accel_limit_rate
        && let Some(rate) = value(KnownHeader::XAccelLimitRate)
        && rate.iter().all(u8::is_ascii_digit)
        && let Some(rate) = std::str::from_utf8(rate)
            .ok()
            .and_then(|digits| digits.parse().ok())
    {
        exchange.features.limit_rate.of_request = Some(rate);
    }
    if !settings.ignore_headers.accel_charset
        && let Some(charset) = value(KnownHeader::XAccelCharset)
    {
        exchange.response.override_charset = Some(charset.into());
    }
}

/// Whether the response is buffered, as `X-Accel-Buffering` and `proxy_buffering` say. As in nginx,
/// families without such a directive never do.
pub(super) fn buffers(head: &UpstreamHead, settings: &UpstreamSettings) -> bool {
    if let Family::Grpc | Family::Memcached | Family::Dubbo = settings.family {
        return settings.buffering;
    }
    let word = head.parsed.get(KnownHeader::XAccelBuffering);
    match word.map(|word| word.of(&head.buffer)) {
        Some(word) if !settings.ignore_headers.accel_buffering => {
            if word.eq_ignore_ascii_case(b"yes") {
                true
            } else if word.eq_ignore_ascii_case(b"no") {
                false
            } else {
                settings.buffering
            }
        }
        _ => settings.buffering,
    }
}

#[cfg(test)]
mod tests {
    use super::safe_uri;

    #[test]
    fn redirects_stay_inside() {
        let taken = |target: &str| {
            let (uri, args) = safe_uri(target.as_bytes())?;
            let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
            Some((text(uri), text(args.unwrap_or_default())))
        };
        for (target, uri, args) in [
            ("/a/b", "/a/b", ""),
            ("/a?b?c", "/a", "b?c"),
            ("/a%20b%2fc?d%20e", "/a b/c", "d%20e"),
            ("/a%3Fb", "/a?b", ""),
            ("/..a/...", "/..a/...", ""),
            ("relative", "relative", ""),
            ("/a%zz", "/a%zz", ""),
        ] {
            let expected = Some((uri.to_owned(), args.to_owned()));
            assert_eq!(taken(target), expected, "{target:?}");
        }
        for unsafe_target in [
            "",
            "?a",
            "..",
            "../a",
            "/..",
            "/a/../b",
            "/a/..",
            "/%2e%2e/b",
            "/a%2f..",
            "%2e%2e",
            "/a%00b",
            "/..?x",
        ] {
            assert_eq!(taken(unsafe_target), None, "{unsafe_target:?}");
        }
        assert_eq!(safe_uri(b"/a\0b"), None);
    }
}
