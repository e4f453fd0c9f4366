//! `vhost_traffic_status_display`: which format a request gets.

use super::figures::Figures;
use super::{json, prometheus};
use crate::exchange::Exchange;
use sealane_conf::model::{TrafficFormat, TrafficShow};
use sealane_http::StatusCode;
use sealane_io::disk;
use serde_json::json;
use std::sync::Arc;

/// What the location responds with.
pub(crate) enum TrafficAnswer {
    /// A text and its media type.
    Text(&'static [u8], String),
    /// The page.
    Page,
}

const JSON: &[u8] = b"application/json";

/// What a request gets.
///
/// # Errors
/// The status if nothing is counted.
pub(crate) async fn answer(exchange: &Exchange) -> Result<TrafficAnswer, StatusCode> {
    let snapshot = exchange.snapshot.clone();
    let show = exchange.conf().traffic_show.clone();
    let (Some(_), Some(show)) = (&snapshot.traffic, show) else {
        return Err(StatusCode::NOT_IMPLEMENTED); // as the module
    };
    let asked = TrafficQuery::of(&exchange.request.uri, exchange.request.args());
    if let TrafficQuery::Refused(text) = asked {
        return Ok(TrafficAnswer::Text(JSON, text));
    }
    let format = match asked {
        TrafficQuery::Format(format) => format,
        _ => show.format,
    };
    if format == TrafficFormat::Html {
        return Ok(TrafficAnswer::Page);
    }
    let process = Arc::clone(&exchange.worker.process);
    let made = disk::run(move || {
        let zone = snapshot.traffic.as_ref()?;
        let figures = Figures::read(&process, &snapshot, zone, &show);
        Some(text(format, &figures, &show))
    });
    let (media_type, text) = made.await.ok_or(StatusCode::NOT_IMPLEMENTED)?;
    Ok(TrafficAnswer::Text(media_type, text))
}

fn text(format: TrafficFormat, figures: &Figures, show: &TrafficShow) -> (&'static [u8], String) {
    match format {
        TrafficFormat::Prometheus => (
            b"text/plain; version=0.0.4; charset=utf-8",
            prometheus::text(figures),
        ),
        TrafficFormat::Jsonp => {
            let object = json::object(figures);
            let callback = &show.callback;
            (
                b"application/javascript",
                format!("{callback}({})", object.trim_end()),
            )
        }
        TrafficFormat::Json | TrafficFormat::Html => (JSON, json::object(figures)),
    }
}

/// What the request asks for.
#[derive(Debug, PartialEq, Eq)]
enum TrafficQuery {
    /// What the configuration says.
    Default,
    Format(TrafficFormat),
    /// A command of the module that is not carried out, with what it answers then.
    Refused(String),
}

impl TrafficQuery {
    fn of(uri: &[u8], args: &[u8]) -> TrafficQuery {
        let uri = uri.to_ascii_lowercase();
        if uri.ends_with(b"/control") {
            return TrafficQuery::control(args);
        }
        let formats: [(&[u8], TrafficFormat); 4] = [
            (b"jsonp", TrafficFormat::Jsonp),
            (b"json", TrafficFormat::Json),
            (b"html", TrafficFormat::Html),
            (b"prometheus", TrafficFormat::Prometheus),
        ];
        for at in memchr::memmem::find_iter(&uri, b"/format/") {
            let named = &uri[at + b"/format/".len()..];
            let mut formats = formats.iter();
            if let Some((_, format)) = formats.find(|(name, _)| named.starts_with(name)) {
                return TrafficQuery::Format(*format);
            }
        }
        TrafficQuery::Default
    }

    /// `status` of everything is the JSON. Nothing is reset or deleted.
    fn control(args: &[u8]) -> TrafficQuery {
        let value = |name: &[u8]| {
            let mut args = args.split(|byte| *byte == b'&');
            let found = args.find_map(|arg| arg.strip_prefix(name)?.strip_prefix(b"="));
            String::from_utf8_lossy(found.unwrap_or_default()).into_owned()
        };
        let (command, group) = (value(b"cmd"), value(b"group"));
        if command == "status" && matches!(&*group, "*" | "%2A" | "%2a") {
            return TrafficQuery::Format(TrafficFormat::Json);
        }
        let refused = json!({
            "processingReturn": false,
            "processingCommandString": command,
            "processingGroupString": group,
            "processingZoneString": value(b"zone"),
            "processingCounts": 0,
        });
        TrafficQuery::Refused(format!("{refused}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uri_chooses_the_format() {
        for (uri, expected) in [
            ("/status", None),
            ("/status/format/json", Some(TrafficFormat::Json)),
            ("/status/format/jsonp", Some(TrafficFormat::Jsonp)),
            ("/status/FORMAT/Prometheus", Some(TrafficFormat::Prometheus)),
            ("/format/x/format/html", Some(TrafficFormat::Html)),
            ("/status/format/xml", None),
            ("/format/", None),
        ] {
            let expected = expected.map_or(TrafficQuery::Default, TrafficQuery::Format);
            assert_eq!(TrafficQuery::of(uri.as_bytes(), b""), expected, "{uri}");
        }
        let all = TrafficQuery::of(b"/s/control", b"cmd=status&group=%2A");
        assert_eq!(all, TrafficQuery::Format(TrafficFormat::Json));
        let reset = TrafficQuery::of(b"/s/control", b"cmd=reset&group=server&zone=a\"b");
        let TrafficQuery::Refused(text) = reset else {
            panic!("{reset:?}")
        };
        assert!(text.contains("\"processingReturn\":false"), "{text}");
        assert!(text.contains("a\\\"b"), "{text}");
    }
}
