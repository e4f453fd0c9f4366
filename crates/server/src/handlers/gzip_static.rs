//! `gzip_static`: a file's compressed twin with `.gz` at the end of its name.

use super::path::FilePath;
use super::{Step, open, set_content_type, static_file};
use crate::exchange::Exchange;
use crate::open_file_cache::Opened;
use crate::request_log::log_request;
use sealane_conf::model::GzipStatic;
use sealane_http::h1::Version;
use sealane_http::headers::KnownHeader;
use sealane_http::{Method, StatusCode};

/// Serves the twin if there is one and the client takes it.
pub(crate) async fn answer(exchange: &mut Exchange) -> Step {
    if !matches!(exchange.request.head.method, Method::Get | Method::Head) {
        return Step::Declined;
    }
    let by_client = exchange.conf().gzip_static == GzipStatic::On;
    let accepted = !by_client || accepts_gzip(exchange);
    if !accepted && !exchange.conf().gzip_vary {
        return Step::Declined;
    }
    let mut path = match FilePath::of(exchange) {
        Ok(path) => path,
        Err(status) => return Step::Status(status),
    };
    path.push(b".gz");
    match open(exchange, &path).await {
        Ok(Opened::File(file, content)) => {
            exchange.response.varies_by_encoding = by_client;
            if !accepted {
                // The plain file answers, but caches must know of its twin.
                return Step::Declined;
            }
            set_content_type(exchange);
            exchange.response.content_encoding = Some("gzip");
            static_file::send(exchange, &file, content);
            Step::Answered
        }
        Ok(Opened::Directory) => Step::Declined,
        Ok(Opened::Other) => {
            log_request!(exchange, Crit, "\"{path}\" is not a regular file");
            Step::Status(StatusCode::NOT_FOUND)
        }
        Err(errno) => {
            // A twin that is missing is the usual case; one that cannot be
            // opened is not, but the plain file may still do.
            if !errno.is_not_found() {
                let _ = static_file::refuse(exchange, &path, errno);
            }
            Step::Declined
        }
    }
}

/// Whether the client takes gzip, by the rules and defaults of nginx's `gzip`:
/// HTTP/1.1, `Accept-Encoding`, and no proxy in between (`gzip_proxied off`).
pub(crate) fn accepts_gzip(exchange: &Exchange) -> bool {
    // What becomes part of another body is not compressed on its own.
    if exchange.request.is_subrequest {
        return false;
    }
    let head = &exchange.request.head;
    let Some(accepted) = head.get(KnownHeader::AcceptEncoding) else {
        return false;
    };
    head.version >= Version::Http11
        && !head.has(KnownHeader::Via)
        && lists_gzip(accepted.of(&exchange.request.buffer))
}

/// Whether an `Accept-Encoding` value lists `gzip` with a weight above zero.
///
/// `*` and `identity` play no role, as in nginx.
fn lists_gzip(value: &[u8]) -> bool {
    value.split(|byte| *byte == b',').find_map(|item| {
        let mut parts = item.splitn(2, |byte| *byte == b';');
        let coding = parts.next().unwrap_or_default().trim_ascii();
        coding
            .eq_ignore_ascii_case(b"gzip")
            .then(|| parts.next().is_none_or(is_positive_weight))
    }) == Some(true)
}

/// `q=0.5` and the like: a number from 0 to 1 with at most three decimals that is not zero.
fn is_positive_weight(parameter: &[u8]) -> bool {
    let parameter = parameter.trim_ascii();
    let weight = match parameter
        .strip_prefix(b"q=")
        .or(parameter.strip_prefix(b"Q="))
    {
        Some(weight) => weight,
        None => return parameter.is_empty(),
    };
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
            ("GZIP;q=1.0", true),
            ("gzip;q=0.001", true),
            ("gzip; q=0.5", true),
            ("gzip ; q=0.5, br", true),
            ("gzip;q=0", false),
            ("gzip;q=0.000", false),
            ("gzip;q=0.0001", false),
            ("gzip;q=2", false),
            ("gzip;q=1.1", false),
            ("gzip;q=", false),
            ("gzip;x=1", false),
            ("xgzip", false),
            ("gzipx", false),
            ("*", false),
            ("identity", false),
            ("", false),
        ] {
            assert_eq!(lists_gzip(value.as_bytes()), wanted, "{value:?}");
        }
    }
}
