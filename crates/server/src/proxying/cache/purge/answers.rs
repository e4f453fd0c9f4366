//! What ngx_cache_purge's forms of `cache_purge` answer with.

use crate::exchange::{ContentType, Exchange};
use crate::handlers::Outcome;
use sealane_cache::Purged;
use sealane_conf::model::PurgeFormat;
use sealane_http::StatusCode;
use sealane_http::escape::{LogEscape, html_into, log_into};

/// Says what has become of a key. The key comes from the client: it is escaped, as it is not by the
/// module.
pub(super) fn answer(exchange: &mut Exchange, key: &[u8], purged: Purged) -> Outcome {
    let answers = exchange.conf().purge_answers;
    if purged == Purged::Unknown {
        return Outcome::Status(match answers.legacy_status {
            true => StatusCode::PRECONDITION_FAILED,
            false => StatusCode::NOT_FOUND,
        });
    }
    let (media_type, body) = page(answers.format, key);
    let response = &mut exchange.response;
    response.status = StatusCode::OK;
    response.content_type = ContentType::new(media_type);
    response.content_length = Some(body.len() as u64);
    response.body.clear();
    response.body.push_bytes(body);
    Outcome::Answered
}

/// Appends a key as a format has it.
type Escape = fn(&mut Vec<u8>, &[u8]);

/// The media type and the body.
fn page(format: PurgeFormat, key: &[u8]) -> (&'static [u8], Vec<u8>) {
    let as_text: Escape = |out, key| out.extend_from_slice(key);
    let as_json: Escape = |out, key| {
        // Whatever bytes a key has, the object is one.
        let key = String::from_utf8_lossy(key);
        log_into(out, key.as_bytes(), LogEscape::Json);
    };
    let (media_type, before, escape, behind): (&[u8], _, Escape, _) = match format {
        PurgeFormat::Html => (
            b"text/html",
            "<html><head><title>Cache Purge</title></head><body><h1>Cache Purge</h1><p>Key: ",
            html_into,
            "</p><p>Status: purged</p></body></html>\n",
        ),
        PurgeFormat::Json => (
            b"application/json",
            "{\"Key\": \"",
            as_json,
            "\", \"Status\": \"purged\"}\n",
        ),
        PurgeFormat::Xml => (
            b"text/xml",
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><status><Key>",
            as_xml,
            "</Key><Status>purged</Status></status>\n",
        ),
        PurgeFormat::Text => (b"text/plain", "Key: ", as_text, "\nStatus: purged\n"),
    };
    let mut body = before.as_bytes().to_vec();
    escape(&mut body, key);
    body.extend_from_slice(behind.as_bytes());
    (media_type, body)
}

/// XML has no way to write most control characters.
fn as_xml(out: &mut Vec<u8>, key: &[u8]) {
    let key = String::from_utf8_lossy(key);
    let is_allowed = |character: char| character >= ' ' || matches!(character, '\t' | '\n' | '\r');
    let key = key.replace(|character| !is_allowed(character), "\u{fffd}");
    html_into(out, key.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_clients_stay_what_they_are() {
        let key = b"/<a>&\"\x01\xff\n";
        for (format, expected) in [
            (
                PurgeFormat::Html,
                &b"<p>Key: /&lt;a&gt;&amp;&quot;\x01\xff\n</p>"[..],
            ),
            (
                PurgeFormat::Json,
                "{\"Key\": \"/<a>&\\\"\\u0001\u{fffd}\\n\", \"Status\": \"purged\"}".as_bytes(),
            ),
            (
                PurgeFormat::Xml,
                "<Key>/&lt;a&gt;&amp;&quot;\u{fffd}\u{fffd}\n</Key><Status>purged</Status>"
                    .as_bytes(),
            ),
            (
                PurgeFormat::Text,
                b"Key: /<a>&\"\x01\xff\n\nStatus: purged\n",
            ),
        ] {
            let (_, body) = page(format, key);
            let found = body.windows(expected.len()).any(|part| part == expected);
            assert!(found, "{format:?}: {}", String::from_utf8_lossy(&body));
        }
    }
}
