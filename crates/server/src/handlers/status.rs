//! `metrics`, `api` and `console`: what is counted; `check_status`: what health checks know.
//!
//! The numbers are read, and the response is made, on a disk thread: with a thousand servers it
//! takes milliseconds, which a worker thread does not have.

mod api;
mod checks;

use super::{Outcome, upstreams};
use crate::exchange::{ContentType, Exchange};
use crate::{metrics, traffic};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sealane_conf::model::{Matcher, StatusView};
use sealane_http::{Method, StatusCode};
use sealane_io::disk;
use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// The media type of OpenMetrics, as its specification has it.
const OPEN_METRICS: &[u8] = b"application/openmetrics-text; version=1.0.0; charset=utf-8";
/// That of the format before.
const CLASSIC: &[u8] = b"text/plain; version=0.0.4; charset=utf-8";
const JSON: &[u8] = b"application/json";

/// The page: one file, with style and script.
const CONSOLE: &str = include_str!("status/console.html");

/// What the page may do: run its own script, and ask this server.
static CONSOLE_POLICY: LazyLock<String> = LazyLock::new(|| {
    let (style, script) = (digest_of("style"), digest_of("script"));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; \
         connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    )
});

/// The SHA-256 sum of the element's content, in Base64 (CSP Level 3, section 6.7.2.2).
fn digest_of(element: &str) -> String {
    let (start, end) = (format!("<{element}>"), format!("</{element}>"));
    let content = CONSOLE
        .split_once(&*start)
        .and_then(|(_, rest)| rest.split_once(&*end));
    let (content, _) = content.expect("the page has one of each");
    STANDARD.encode(sealane_tls::sha256(content.as_bytes()))
}

/// Answers with what the location shows.
pub(crate) async fn answer(exchange: &mut Exchange, view: StatusView) -> Outcome {
    match view {
        StatusView::Dyups | StatusView::UpstreamConf => {
            let path = path_below(exchange);
            return upstreams::answer(exchange, view, path).await;
        }
        StatusView::Api { writes } => {
            let path = path_below(exchange);
            let is_root = path.bytes().all(|byte| byte == b'/');
            if upstreams::is_version(&path) || (writes && is_root) {
                return upstreams::answer(exchange, view, path).await;
            }
        }
        _ => {}
    }
    if !matches!(exchange.request.head.method, Method::Get | Method::Head) {
        return Outcome::Status(StatusCode::NOT_ALLOWED);
    }
    let mut args = exchange.request.args().split(|byte| *byte == b'&');
    let in_json = args.any(|arg| arg == b"format=json");
    let process = Arc::clone(&exchange.worker.process);
    match view {
        StatusView::Console if !in_json => console(exchange),
        StatusView::Traffic => match traffic::answer(exchange).await {
            Ok(traffic::TrafficAnswer::Text(media_type, text)) => {
                respond(exchange, media_type, text)
            }
            Ok(traffic::TrafficAnswer::Page) if in_json => {
                let now_s = unix_time();
                let text = disk::run(move || metrics::show(&process, |all| all.json(now_s))).await;
                respond(exchange, JSON, text);
            }
            Ok(traffic::TrafficAnswer::Page) => console(exchange),
            Err(status) => return Outcome::Status(status),
        },
        StatusView::Metrics if !in_json && asks_for_open_metrics(exchange) => {
            let text = disk::run(move || metrics::show(&process, |families| families.text())).await;
            respond(exchange, OPEN_METRICS, text);
        }
        StatusView::Metrics if !in_json => {
            let text =
                disk::run(move || metrics::show(&process, |families| families.classic_text()))
                    .await;
            respond(exchange, CLASSIC, text);
        }
        StatusView::Metrics | StatusView::Console => {
            let now_s = unix_time();
            let text =
                disk::run(move || metrics::show(&process, |families| families.json(now_s))).await;
            respond(exchange, JSON, text);
        }
        StatusView::Checks(format) => {
            let asked = checks::ChecksQuery::of(exchange.request.args(), format);
            let generation = exchange.worker.current.generation();
            let snapshot = exchange.snapshot.clone();
            let text = disk::run(move || asked.show(&snapshot, generation)).await;
            respond(exchange, asked.media_type(), text);
        }
        StatusView::Dyups | StatusView::UpstreamConf => return Outcome::Declined,
        StatusView::Api { .. } => {
            let path = path_below(exchange);
            let (status, text) = match disk::run(move || api::answer(&process, &path)).await {
                Ok(text) => (StatusCode::OK, text),
                Err(text) => (StatusCode::NOT_FOUND, text),
            };
            respond(exchange, JSON, text);
            exchange.response.status = status;
        }
    }
    Outcome::Answered
}

/// The page.
fn console(exchange: &mut Exchange) {
    for (name, value) in [
        ("Content-Security-Policy", CONSOLE_POLICY.as_str()),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
    ] {
        let headers = &mut exchange.response.headers;
        let _ = headers.push(name.as_bytes(), value.as_bytes());
    }
    respond(exchange, b"text/html; charset=utf-8", CONSOLE.to_owned());
}

/// Whether the client names OpenMetrics in `Accept`, as Prometheus does.
fn asks_for_open_metrics(exchange: &Exchange) -> bool {
    let request = &exchange.request;
    let accept = request.head.get_by_name(&request.buffer, b"accept");
    accept.is_some_and(|value| {
        let value = value.of(&request.buffer);
        memchr::memmem::find(value, b"application/openmetrics-text").is_some()
    })
}

fn respond(exchange: &mut Exchange, content_type: &[u8], text: String) {
    let response = &mut exchange.response;
    let _ = response.headers.push(b"Cache-Control", b"no-store");
    response.status = StatusCode::OK;
    response.content_type = ContentType::new(content_type);
    response.content_length = Some(text.len() as u64);
    response.body.push_bytes(text);
}

/// What follows the location's prefix in the URI.
fn path_below(exchange: &Exchange) -> String {
    let location = &exchange.snapshot.location(exchange.location).location;
    let prefix: &[u8] = match location.as_ref().map(|location| &location.matcher) {
        Some(Matcher::Prefix { prefix, .. } | Matcher::Exact(prefix)) => prefix,
        _ => b"",
    };
    let uri = &exchange.request.uri;
    let rest = uri.strip_prefix(prefix).unwrap_or(uri);
    String::from_utf8_lossy(rest).into_owned()
}

fn unix_time() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0.0, |now| now.as_secs_f64())
}
