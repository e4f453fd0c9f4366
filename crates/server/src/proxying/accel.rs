//! What a peer tells us to do (`X-Accel-*`), unless `proxy_ignore_headers` says not to listen.

use super::wire::Head;
use crate::exchange::{ContentType, Exchange};
use crate::handlers::Step;
use sealane_conf::model::UpstreamSettings;
use sealane_http::headers::KnownHeader;
use sealane_http::uri;

/// Headers of the peer that an internal redirect keeps, as in nginx.
const KEPT: [KnownHeader; 5] = [
    KnownHeader::SetCookie,
    KnownHeader::ContentDisposition,
    KnownHeader::CacheControl,
    KnownHeader::Expires,
    KnownHeader::AcceptRanges,
];

/// `X-Accel-Redirect`: an internal redirect instead of the peer's answer.
pub(super) fn redirect(
    exchange: &mut Exchange,
    head: &Head,
    settings: &UpstreamSettings,
) -> Option<Step> {
    if settings.ignore_headers.accel_redirect {
        return None;
    }
    let target = head.parsed.get(KnownHeader::XAccelRedirect)?;
    let target = target.of(&head.buffer);
    for header in &head.parsed.headers {
        let value = header.value.of(&head.buffer);
        if header.known == Some(KnownHeader::ContentType) {
            exchange.response.content_type = ContentType::new(value);
        } else if header.known.is_some_and(|known| KEPT.contains(&known)) {
            let name = header.name.of(&head.buffer);
            // Checked by the parser.
            let _ = exchange.response.headers.push(name, value);
        }
    }
    if let Some(name) = target.strip_prefix(b"@") {
        return Some(Step::Named(String::from_utf8_lossy(name).into()));
    }
    let (path, args) = match memchr::memchr(b'?', target) {
        Some(at) => (&target[..at], &target[at + 1..]),
        None => (target, &b""[..]),
    };
    Some(Step::Redirect {
        uri: uri::unescape(path).into_owned(),
        args: args.to_vec(),
    })
}

/// `X-Accel-Limit-Rate`, `X-Accel-Charset`, `X-Accel-Buffering`. Returns whether the
/// response is buffered.
pub(super) fn apply(exchange: &mut Exchange, head: &Head, settings: &UpstreamSettings) -> bool {
    let value = |name| {
        let value = head.parsed.get(name)?;
        Some(value.of(&head.buffer))
    };
    if !settings.ignore_headers.accel_limit_rate
        && let Some(rate) = value(KnownHeader::XAccelLimitRate)
        && let Some(rate) = std::str::from_utf8(rate)
            .ok()
            .and_then(|text| text.parse().ok())
    {
        exchange.progress.limit_rate = Some(rate);
    }
    match value(KnownHeader::XAccelBuffering) {
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
