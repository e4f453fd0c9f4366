//! What becomes a span, and what requests are told about it.

use super::*;
use crate::pipeline;
use crate::testing::{Reply, Site};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b9c7c989f97918e1";

/// A site whose spans stay in the queue.
fn site(locations: &str) -> Site {
    let site = Site::with_http(&format!(
        "otel_exporter {{ endpoint localhost:4317; }} \
         split_clients $otel_trace_id $everything {{ * on; }} \
         server {{ listen 127.0.0.1:80; server_name site; {locations} }}"
    ));
    site.worker().current.snapshot().spans.set_limits(512, 2048);
    site
}

/// Sends a request and gives its spans.
fn spans(site: &Site, target: &str, headers: &[&str]) -> (Reply, Vec<Span>) {
    let reply = site.get_with(target, headers);
    pipeline::conclude(&reply.exchange);
    let queue = &reply.exchange.snapshot.spans;
    let spans = queue.take(true);
    queue.settle(spans.len());
    (reply, spans)
}

fn parent(flags: &str) -> String {
    format!("Traceparent: 00-{TRACE}-{SPAN}-{flags}")
}

/// The attributes as `name=value`, without those of the connection.
fn shown(span: &Span) -> Vec<String> {
    let shown = span.attributes.iter().map(|attribute| {
        let value = match &attribute.value {
            AttributeValue::Text(text) => format!("{text:?}"),
            AttributeValue::List(text) => format!("[{text:?}]"),
            AttributeValue::Number(number) => number.to_string(),
        };
        format!("{}={value}", attribute.name)
    });
    shown.filter(|line| !line.starts_with("net.")).collect()
}

#[test]
fn a_span_has_the_attributes_of_the_module() {
    let site = site(
        "location /err { otel_trace on; otel_span_name \"$request_method $status\"; \
         otel_span_attr http.response.header.content.type $sent_http_content_type; \
         otel_span_attr own $arg_a; return 503; }",
    );
    let (_, spans) = spans(&site, "/err/x?a=1", &["User-Agent: test"]);
    let span = &spans[0];
    assert_eq!(spans.len(), 1);
    assert_eq!(span.name, "GET 503");
    assert!(span.failed && span.parent.is_none() && span.state.is_empty());
    assert!(span.start_ns > 0 && span.start_ns <= span.end_ns);
    assert_eq!(
        shown(span),
        [
            "http.method=\"GET\"",
            "http.target=\"/err/x?a=1\"",
            "http.route=\"/err\"",
            "http.scheme=\"http\"",
            "http.flavor=\"1.1\"",
            "http.user_agent=\"test\"",
            "http.request_content_length=0",
            "http.response_content_length=0",
            "http.status_code=503",
            "http.response.header.content.type=[\"text/html\"]",
            "own=\"1\"",
        ]
    );
    let host = &span.attributes[9];
    assert_eq!(host.name, "net.host.name");
    assert_eq!(host.value, AttributeValue::Text("site".to_owned()));
}

#[test]
fn it_is_decided_by_on_and_1_before_the_script() {
    let site = site(
        "set $late on; location /on { otel_trace on; } location /one { otel_trace $arg_t; } \
         location /off { otel_trace off; } location /all { otel_trace $everything; } \
         location /late { set $later on; otel_trace $later; return 204; } \
         location /server { otel_trace $late; return 204; } \
         location /script { otel_trace on; return 204; } location /none { }",
    );
    let count = |target: &str| spans(&site, target, &[]).1.len();
    for target in ["/on", "/one?t=1", "/one?t=on", "/all", "/server", "/script"] {
        assert_eq!(count(target), 1, "{target}");
    }
    for target in [
        "/off",
        "/one",
        "/one?t=On",
        "/one?t=true",
        "/late",
        "/none",
        "/",
    ] {
        assert_eq!(count(target), 0, "{target}");
    }
}

#[test]
fn a_trace_is_continued_where_it_is_extracted() {
    let site = site(
        "otel_trace on; location /ignore { } location /inject { otel_trace_context inject; } \
         location /extract { otel_trace_context extract; } \
         location /parent { otel_trace $otel_parent_sampled; otel_trace_context propagate; }",
    );
    let state = "Tracestate: congo=t61rc , rojo=00f0";
    let take = |target: &str, headers: &[&str]| spans(&site, target, headers).1;
    for target in ["/ignore", "/inject"] {
        let span = &take(target, &[&parent("01"), state])[0];
        assert_ne!(span.trace.to_string(), TRACE, "{target}");
        assert!(span.parent.is_none() && span.state.is_empty(), "{target}");
    }
    let span = &take("/extract", &[&parent("00"), state])[0];
    assert_eq!(span.trace.to_string(), TRACE);
    assert_eq!(span.parent.map(|id| id.to_string()).as_deref(), Some(SPAN));
    assert_eq!(span.state, "congo=t61rc,rojo=00f0");
    assert_eq!(take("/parent", &[&parent("01")]).len(), 1);
    assert_eq!(take("/parent", &[&parent("00")]).len(), 0);
    // Malformed, or two of them.
    let twice = [&*parent("01"), &*parent("01")];
    for bad in [&["Traceparent: 00-x"][..], &twice] {
        let span = &take("/extract", bad)[0];
        assert!(span.parent.is_none());
        assert_ne!(span.trace.to_string(), TRACE);
    }
}

/// The headers of the request that are about traces, as they would be passed on.
fn passed(reply: &Reply) -> Vec<String> {
    let request = &reply.exchange.request;
    let headers = request.head.headers.iter();
    let text =
        |position: sealane_http::Span| String::from_utf8_lossy(position.of(&request.buffer)).into();
    headers
        .map(|header| {
            let (name, value): (String, String) = (text(header.name), text(header.value));
            format!("{name}: {value}")
        })
        .filter(|line| line.to_ascii_lowercase().starts_with("trace"))
        .collect()
}

#[test]
fn what_is_requested_from_others_names_the_span() {
    let site = site(
        "location /extract { otel_trace_context extract; return 204; } \
         location /inject { otel_trace_context inject; return 204; } \
         location /propagate { otel_trace on; otel_trace_context propagate; return 204; } \
         location /moved { otel_trace on; otel_trace_context propagate; rewrite ^ /plain last; } \
         location /plain { return 204; }",
    );
    let client = [
        &*parent("01"),
        "tracestate: a=1",
        "tracestate: b=2",
        "Trace: x",
    ];
    let (reply, _) = spans(&site, "/extract", &client);
    assert_eq!(
        passed(&reply),
        [
            &parent("01"),
            "tracestate: a=1",
            "tracestate: b=2",
            "Trace: x"
        ]
    );
    let id = |reply: &Reply, builtin| variable(&reply.exchange, builtin).unwrap_or_default();
    // Not continued: neither the client's span nor its state.
    let (reply, none) = spans(&site, "/inject", &client);
    let (trace, span) = (
        id(&reply, Builtin::OtelTraceId),
        id(&reply, Builtin::OtelSpanId),
    );
    assert_ne!(trace, TRACE);
    assert_eq!(
        passed(&reply),
        [
            format!("Traceparent: 00-{trace}-{span}-00"),
            "Trace: x".into()
        ]
    );
    assert_eq!(none.len(), 0);
    for target in ["/propagate", "/moved"] {
        let (reply, spans) = spans(&site, target, &client);
        let span = spans[0].id;
        assert_eq!(
            passed(&reply),
            [
                format!("Traceparent: 00-{TRACE}-{span}-01"),
                "tracestate: a=1,b=2".into(),
                "Trace: x".into()
            ],
            "{target}"
        );
        assert_eq!(
            variable(&reply.exchange, Builtin::OtelParentId).as_deref(),
            Some(SPAN)
        );
    }
    let (reply, spans) = spans(&site, "/propagate", &[]);
    let (trace, span) = (spans[0].trace, spans[0].id);
    assert_eq!(
        passed(&reply),
        [format!("traceparent: 00-{trace}-{span}-01")]
    );
}

#[test]
fn redirects_keep_the_place_and_the_decision() {
    let site = site(
        "location /a { otel_trace on; error_page 404 /b; return 404; } \
         location /b { otel_trace off; otel_span_name \"b $otel_span_id\"; return 200; } \
         location /c { error_page 404 /d; return 404; } location /d { otel_trace on; return 200; } \
         location /e { rewrite ^ /d last; } rewrite ^/server$ /d;",
    );
    let (reply, found) = spans(&site, "/a", &[]);
    assert_eq!(found.len(), 1);
    // The one that answers has no say in whether, but says what it is called.
    assert_eq!(found[0].name, format!("b {}", found[0].id));
    assert_eq!(
        variable(&reply.exchange, Builtin::OtelSpanId),
        Some(found[0].id.to_string())
    );
    assert_eq!(spans(&site, "/c", &[]).1.len(), 0);
    assert_eq!(spans(&site, "/e", &[]).1.len(), 0);
    // Unlike in nginx, a rewrite of the server leaves the decision to the location.
    assert_eq!(spans(&site, "/server", &[]).1.len(), 1);
}

#[test]
fn variables_stay_the_same_without_any_directive() {
    let site = site(
        "add_header ids \"$otel_trace_id $otel_span_id $otel_parent_id $otel_parent_sampled\"; \
         add_header again \"$otel_trace_id $otel_span_id\"; location / { return 204; }",
    );
    let (reply, _) = spans(&site, "/", &[&parent("01")]);
    let ids = reply.header("ids").unwrap_or_default();
    let words: Vec<&str> = ids.split(' ').collect();
    assert_eq!((words[0].len(), words[1].len()), (32, 16));
    assert_eq!(words[2..], ["", "0"]);
    assert!(ids.starts_with(reply.header("again").unwrap_or("missing")));
}
