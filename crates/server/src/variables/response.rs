//! Variables about the response.

use super::{is_variable_name, number, put, text};
use crate::codings::Coding;
use crate::exchange::Exchange;
use crate::filters::Compressed;
use crate::limit_rate;
use sealane_conf::variables::Builtin;
use sealane_http::{StatusCode, date};

pub(super) fn append(exchange: &Exchange, builtin: Builtin, out: &mut Vec<u8>) -> bool {
    let transfer = &exchange.transfer;
    let trimmed = exchange.features.trim.trimmed.as_deref();
    match builtin {
        // The status of an error page stays, whatever is sent: 304 for its file.
        Builtin::Status => {
            let is_known = exchange.phases.has_status || exchange.response.status != StatusCode::OK;
            let status = is_known.then_some(exchange.response.status);
            match exchange.features.error_page.status_override.or(status) {
                Some(status) => text(status.to_string(), out),
                None => text("000", out),
            }
        }
        Builtin::BytesSent => number(transfer.sent_bytes, out),
        Builtin::BodyBytesSent => {
            number(transfer.sent_bytes.saturating_sub(transfer.head_bytes), out)
        }
        Builtin::LimitRate => number(limit_rate::value(exchange), out),
        Builtin::TrimOriginalBytes => trimmed.is_some_and(|it| number(it.in_bytes, out)),
        Builtin::TrimBytes => {
            trimmed.is_some_and(|it| number(it.in_bytes.saturating_sub(it.out_bytes), out))
        }
        Builtin::GzipRatio => ratio(exchange, Coding::Gzip, out),
        Builtin::BrotliRatio => ratio(exchange, Coding::Brotli, out),
        Builtin::ZstdRatio => ratio(exchange, Coding::Zstd, out),
        Builtin::ZstdBytesIn => {
            let zstd = compressed(exchange, Coding::Zstd);
            zstd.is_some_and(|zstd| number(zstd.in_bytes, out))
        }
        Builtin::ZstdBytesOut => {
            let zstd = compressed(exchange, Coding::Zstd);
            zstd.is_some_and(|zstd| number(zstd.out_bytes, out))
        }
        _ => false,
    }
}

/// What a coding has made of the body.
fn compressed(exchange: &Exchange, coding: Coding) -> Option<&Compressed> {
    let compressed = exchange.features.compress.compressed.as_deref();
    compressed.filter(|compressed| compressed.coding == coding)
}

/// `$gzip_ratio` and the like: two decimals, rounded as nginx does.
fn ratio(exchange: &Exchange, coding: Coding, out: &mut Vec<u8>) -> bool {
    let compressed = compressed(exchange, coding);
    let Some(compressed) = compressed.filter(|compressed| compressed.out_bytes > 0) else {
        return false;
    };
    let (before, after) = (
        u128::from(compressed.in_bytes),
        u128::from(compressed.out_bytes),
    );
    let hundredths = (before * 1000 / after + 5) / 10;
    text(format!("{}.{:02}", hundredths / 100, hundredths % 100), out)
}

/// `$sent_http_NAME`.
pub(super) fn header(exchange: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    let response = &exchange.response;
    match name {
        "content_type" => put(
            response.content_type.as_ref().map(|value| value.as_bytes()),
            out,
        ),
        "content_length" => response
            .content_length
            .is_some_and(|bytes| number(bytes, out)),
        "last_modified"
            if response
                .passed
                .as_ref()
                .is_some_and(|head| head.last_modified) =>
        {
            listed(exchange, name, out)
        }
        "last_modified" => response
            .last_modified_s
            .is_some_and(|at_s| text(date::imf(at_s), out)),
        "location" if response.location.is_some() => put(response.location.as_deref(), out),
        "etag" if response.etag.is_some() => {
            put(response.etag.as_ref().map(|etag| etag.as_bytes()), out)
        }
        "content_encoding" if response.content_encoding.is_some() => {
            put(response.content_encoding.map(str::as_bytes), out)
        }
        "accept_ranges" if response.allow_ranges => text("bytes", out),
        "connection" => text(connection(exchange), out),
        "keep_alive" => match exchange.conf().keepalive_header {
            Some(timeout) if !response.close => {
                text("timeout=", out) && number(timeout.as_secs(), out)
            }
            _ => false,
        },
        // 444 sends nothing.
        "transfer_encoding" if response.status == StatusCode(444) => false,
        "transfer_encoding" => crate::framing::is_chunked(exchange) && text("chunked", out),
        _ => listed(exchange, name, out),
    }
}

/// The value of nginx's variable, which is not always what was sent: when a line is logged, the
/// connection is no longer kept for this request.
fn connection(exchange: &Exchange) -> &'static str {
    let is_over = exchange.transfer.head_bytes > 0;
    match exchange.response.status {
        StatusCode(101) => "upgrade",
        StatusCode(444) => "close",
        _ if exchange.response.close || is_over => "close",
        _ => "keep-alive",
    }
}

fn listed(exchange: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    let mut found = false;
    for (key, value) in exchange.response.headers.iter() {
        if is_variable_name(key, name) {
            if found {
                out.extend_from_slice(b", ");
            }
            out.extend_from_slice(value);
            found = true;
        }
    }
    found
}
