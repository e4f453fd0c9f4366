//! `otel_*`: traces, as nginx's OpenTelemetry module records them.
//!
//! A request gets its span when its location is chosen ([`begin`]), or when a variable
//! asks for it. At its end, a request that is recorded becomes a [`Span`] in the [`SpanQueue`]
//! ([`record`]), from which a thread of the worker process exports it. Internal redirects change
//! neither the span nor the decision. Subrequests belong to the span of the request that makes
//! them and get none of their own.

mod queue;
mod span;

pub use queue::{SpanCounts, SpanLoss, SpanQueue};
pub use span::{Attribute, AttributeValue, MAX_VALUE_BYTES, Span};

use self::span::text_of;
use crate::exchange::{Exchange, Request};
use crate::facts::PeerAddress;
use crate::{template, variables};
use sealane_conf::model::{Propagation, SpanAttribute, TraceExporter, Tracing, Variable};
use sealane_conf::variables::Builtin;
use sealane_http::h1::{Framing, RawHeader, Version};
use sealane_http::headers::KnownHeader;
use sealane_http::traceparent::{SpanId, TraceId, TraceParent, trace_state};
use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// Bytes of a trace's identifier, and of one with a span's.
const TRACE_ID_BYTES: usize = 16;
const IDS_BYTES: usize = TRACE_ID_BYTES + 8;
/// For how many requests a thread asks the kernel at once.
const REQUESTS_AT_ONCE: usize = 64;

thread_local! {
    /// Random bytes, and how many of them were used.
    static RANDOM: RefCell<([u8; IDS_BYTES * REQUESTS_AT_ONCE], usize)> =
        const { RefCell::new(([0; IDS_BYTES * REQUESTS_AT_ONCE], IDS_BYTES * REQUESTS_AT_ONCE)) };
}

/// Where spans are exported to, with the contents of the files that it names.
#[derive(Debug, PartialEq, Eq)]
pub struct TraceTarget {
    /// `otel_exporter`.
    pub conf: Arc<TraceExporter>,
    /// `trusted_certificate`.
    pub trusted: Option<Box<[u8]>>,
    /// Spans that may wait or be under way: `batch_size` times `batch_count` for each thread.
    pub limit: usize,
}

/// What a request keeps of traces.
#[derive(Default)]
pub(crate) struct TracingState {
    span: OnceLock<Box<RequestSpan>>,
}

/// The span that a request is, whether it is recorded or not.
#[derive(Clone)]
struct RequestSpan {
    /// The client's span, if its trace is continued.
    parent: Option<TraceParent>,
    /// `tracestate` of the client.
    state: String,
    trace: TraceId,
    id: SpanId,
    /// It is recorded.
    sampled: bool,
}

impl TracingState {
    /// A subrequest has the span of the request that makes it.
    pub(crate) fn of_subrequest(main: &Exchange) -> TracingState {
        let span = main.features.tracing.span.get();
        TracingState {
            span: span.map_or_else(OnceLock::new, |span| OnceLock::from(span.clone())),
        }
    }
}

impl RequestSpan {
    fn of(exchange: &Exchange) -> &RequestSpan {
        let span = &exchange.features.tracing.span;
        span.get_or_init(|| {
            let tracing = exchange.conf().tracing.as_deref();
            let extracts = tracing.is_some_and(|tracing| tracing.propagation.extract);
            Box::new(RequestSpan::new(&exchange.request, extracts))
        })
    }

    fn new(request: &Request, extracts: bool) -> RequestSpan {
        let parent = extracts.then(|| parent(request)).flatten();
        let random = random();
        let (trace, id) = random.split_at(TRACE_ID_BYTES);
        let trace = trace.try_into().expect("it is cut there");
        let id = id.try_into().expect("it is cut there");
        RequestSpan {
            state: match parent {
                Some(_) => trace_state(fields(request, TRACESTATE)),
                None => String::new(),
            },
            trace: parent.map_or_else(|| TraceId::from_random(trace), |parent| parent.trace),
            id: SpanId::from_random(id),
            sampled: false,
            parent,
        }
    }
}

/// Random bytes for a trace and a span. The kernel is asked for those of many requests at once,
/// which saves a system call for each.
fn random() -> [u8; IDS_BYTES] {
    RANDOM.with_borrow_mut(|(bytes, used)| {
        if *used == bytes.len() {
            // The kernel's generator cannot fail once the machine has started. If it did,
            // identifiers would not be unique.
            let _ = getrandom::fill(bytes);
            *used = 0;
        }
        let mut taken = [0; IDS_BYTES];
        taken.copy_from_slice(&bytes[*used..*used + IDS_BYTES]);
        *used += IDS_BYTES;
        taken
    })
}

/// The values of all headers of this name.
fn fields<'r>(request: &'r Request, name: &'static str) -> impl Iterator<Item = &'r [u8]> {
    let of_name = |header: &&RawHeader| {
        let found = header.name.of(&request.buffer);
        found.eq_ignore_ascii_case(name.as_bytes())
    };
    let headers = request.head.headers.iter().filter(of_name);
    headers.map(|header| header.value.of(&request.buffer))
}

/// The client's span. Two fields are as bad as none.
fn parent(request: &Request) -> Option<TraceParent> {
    let mut fields = fields(request, TRACEPARENT);
    let field = fields.next()?;
    match fields.next() {
        None => TraceParent::parse(field),
        Some(_) => None,
    }
}

/// At the beginning of a location's rewrite phase: decides whether the request is recorded, and
/// names its span to whatever is requested for it. As in nginx, a location that a redirect or a
/// `rewrite` in another one leads to decides nothing any more.
pub(crate) fn begin(exchange: &mut Exchange) {
    if exchange.phases.redirects > 0 || exchange.request.is_subrequest {
        return;
    }
    let Some(tracing) = exchange.conf().tracing.as_deref() else {
        return;
    };
    let Propagation { extract, inject } = tracing.propagation;
    let sampled = tracing.trace.as_ref().is_some_and(|trace| {
        let value = template::evaluate(trace, exchange);
        matches!(&*value, b"on" | b"1")
    });
    if !(sampled || extract || inject) {
        return;
    }
    RequestSpan::of(exchange);
    let Some(span) = exchange.features.tracing.span.get_mut() else {
        return; // it has just been made
    };
    span.sampled = sampled;
    if inject {
        let parent = TraceParent {
            trace: span.trace,
            span: span.id,
            sampled,
        };
        set_header(&mut exchange.request, TRACEPARENT, &parent.to_string());
        set_header(&mut exchange.request, TRACESTATE, &span.state);
    }
}

/// Gives a request header this value, as if the client had sent it; removes it if that is empty.
fn set_header(request: &mut Request, name: &'static str, value: &str) {
    let Request { buffer, head, .. } = request;
    match value {
        "" => head.remove_headers(buffer, |sent| sent.eq_ignore_ascii_case(name.as_bytes())),
        value => head.set_header(buffer, name.as_bytes(), value.as_bytes()),
    }
}

/// `$otel_*`.
pub(crate) fn append(exchange: &Exchange, builtin: Builtin, out: &mut Vec<u8>) -> bool {
    let span = RequestSpan::of(exchange);
    let parent = span.parent;
    let text = match builtin {
        Builtin::OtelTraceId => span.trace.to_string(),
        Builtin::OtelSpanId => span.id.to_string(),
        Builtin::OtelParentId => match parent {
            Some(parent) => parent.span.to_string(),
            None => return false,
        },
        Builtin::OtelParentSampled => {
            let sampled = parent.is_some_and(|parent| parent.sampled);
            u8::from(sampled).to_string()
        }
        _ => return false,
    };
    out.extend_from_slice(text.as_bytes());
    true
}

/// At the end of a request: leaves its span for the exporter, if it is recorded.
pub(crate) fn record(exchange: &Exchange) {
    let span = exchange.features.tracing.span.get();
    let Some(span) = span.filter(|span| span.sampled) else {
        return;
    };
    exchange.snapshot.spans.push(|| finished(exchange, span));
}

/// The span of a request at its end.
fn finished(exchange: &Exchange, span: &RequestSpan) -> Span {
    let conf = exchange.conf();
    // As in nginx, the location that has answered decides about name and attributes, whether it
    // records requests or not.
    let tracing = conf.tracing.as_deref();
    let name = tracing.and_then(|tracing| tracing.span_name.as_ref());
    let status = status(exchange);
    let end = SystemTime::now().duration_since(UNIX_EPOCH);
    let end = end.unwrap_or_default();
    let start = end.saturating_sub(exchange.transfer.started.elapsed());
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let mut attributes = default_attributes(exchange, status);
    attributes.extend(own_attributes(exchange, tracing));
    Span {
        name: match name {
            Some(name) => text_of(&template::evaluate(name, exchange)),
            None => text_of(conf.name.as_bytes()),
        },
        trace: span.trace,
        id: span.id,
        parent: span.parent.map(|parent| parent.span),
        state: span.state.clone(),
        start_ns: nanoseconds(start),
        end_ns: nanoseconds(end),
        failed: status.is_some_and(|status| status >= 500),
        attributes,
    }
}

/// The status, if there is one.
fn status(exchange: &Exchange) -> Option<i64> {
    let status: i64 = variable(exchange, Builtin::Status)?.parse().ok()?;
    (status > 0).then_some(status)
}

/// The value of a variable, if there is one.
fn variable(exchange: &Exchange, builtin: Builtin) -> Option<String> {
    let mut value = Vec::new();
    variables::append(exchange, &Variable::Builtin(builtin), &mut value).then(|| text_of(&value))
}

/// Attributes of every span, those of the semantic conventions for HTTP of OpenTelemetry 1.16.
fn default_attributes(exchange: &Exchange, status: Option<i64>) -> Vec<Attribute> {
    let request = &exchange.request;
    let head = &request.head;
    let mut all = Vec::with_capacity(16);
    let mut add = |name: &'static str, value: AttributeValue| {
        let name = Cow::Borrowed(name);
        all.push(Attribute { name, value });
    };
    let text = |builtin| AttributeValue::Text(variable(exchange, builtin).unwrap_or_default());
    add("http.method", text(Builtin::RequestMethod));
    add("http.target", text(Builtin::RequestUri));
    let conf = exchange.conf();
    if !conf.name.is_empty() {
        let route = text_of(conf.name.as_bytes());
        add("http.route", AttributeValue::Text(route));
    }
    add("http.scheme", text(Builtin::Scheme));
    if head.version != Version::Http09 {
        let protocol = variable(exchange, Builtin::ServerProtocol).unwrap_or_default();
        if let Some(version) = protocol.strip_prefix("HTTP/") {
            add("http.flavor", AttributeValue::Text(version.to_owned()));
        }
    }
    if let Some(agent) = head.get(KnownHeader::UserAgent) {
        let agent = text_of(agent.of(&request.buffer));
        add("http.user_agent", AttributeValue::Text(agent));
    }
    let number = |bytes: u64| AttributeValue::Number(i64::try_from(bytes).unwrap_or(i64::MAX));
    let received = match head.framing {
        Framing::Length(bytes) => bytes,
        Framing::Chunked => request.received.as_ref().map_or(0, |body| body.len()),
        Framing::None => 0,
    };
    add("http.request_content_length", number(received));
    let transfer = &exchange.transfer;
    let sent = transfer.sent_bytes.saturating_sub(transfer.head_bytes);
    add("http.response_content_length", number(sent));
    if let Some(status) = status {
        add("http.status_code", AttributeValue::Number(status));
    }
    let server = &exchange.server().conf.primary_name;
    let host = match server.is_empty() {
        true => text_of(&request.host),
        false => server.clone(),
    };
    add("net.host.name", AttributeValue::Text(host));
    let default_port = if exchange.is_tls() { 443 } else { 80 };
    let local = exchange.connection.local();
    if let Some(local) = local.filter(|local| local.port() != default_port) {
        add("net.host.port", number(local.port().into()));
    }
    add("net.sock.peer.addr", text(Builtin::RemoteAddr));
    if let PeerAddress::Inet(peer) = exchange.client_address() {
        add("net.sock.peer.port", number(peer.port().into()));
    }
    all
}

/// `otel_span_attr`.
fn own_attributes(
    exchange: &Exchange,
    tracing: Option<&Tracing>,
) -> impl Iterator<Item = Attribute> {
    let lines = tracing.map_or(&[][..], |tracing| &tracing.span_attributes);
    lines.iter().map(|SpanAttribute { name, value }| {
        let value = text_of(&template::evaluate(value, exchange));
        let is_header = ["http.request.header.", "http.response.header."]
            .iter()
            .any(|prefix| name.starts_with(prefix));
        Attribute {
            name: Cow::Owned(name.to_string()),
            value: match is_header {
                true => AttributeValue::List(value),
                false => AttributeValue::Text(value),
            },
        }
    })
}

#[cfg(test)]
mod tests;
