//! `otel_*`: spans as a collector receives them (`tests/clients/otlp`: OpenTelemetry's own messages
//! and Google's gRPC), what is requested from others, and collectors that do not do their part.

#[path = "otel/collector.rs"]
mod collector;
#[path = "otel/faults.rs"]
mod faults;

use collector::Collector;
use sealane_tests::fastcgi::{self, FastCgiOrigin};
use sealane_tests::{Certificate, CertificateKey, Site, command, http2, wire};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b9c7c989f97918e1";

fn parent(flags: &str) -> String {
    format!("traceparent: 00-{TRACE}-{SPAN}-{flags}\r\n")
}

/// Go is too old for the collector: the test is left out.
fn is_left_out() -> bool {
    !sealane_tests::has_go(24)
}

/// An exporter that does not wait for more spans.
const PROMPT: &str = "otel_exporter { endpoint 127.0.0.1:%collector%; interval 20ms; }";

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name]
        .as_str()
        .unwrap_or_else(|| panic!("{name} of {value}"))
}

#[test]
fn a_span_says_what_the_module_s_would() {
    if is_left_out() {
        return;
    }
    let site = Site::new();
    site.certificate(&Certificate::localhost("localhost", CertificateKey::P256));
    let collector = Collector::start(&site, "collector");
    let server = site.serve(
        "otel_exporter { endpoint http://127.0.0.1:%collector%; interval 20ms;
             header X-Api-Token secret; header x-twice 1; header x-twice 2;
             header some-bin bytes; }
         otel_service_name shop; otel_resource_attr deployment.environment test;
         ssl_certificate certificates/localhost.pem;
         ssl_certificate_key certificates/localhost.key;
         server {
             listen 127.0.0.1:%plain%; listen 127.0.0.1:%tls% ssl; http2 on; server_name one.test;
             otel_trace on; otel_trace_context extract;
             location /ok { return 200 okay; }
             location ~ ^/err { return 502; }
             location /own {
                 otel_span_name \"$request_method own $status\";
                 otel_span_attr http.request.header.accept $http_accept;
                 otel_span_attr tls $ssl_protocol;
                 otel_span_attr ids \"$otel_trace_id $otel_span_id $otel_parent_id $otel_parent_sampled\";
                 return 200 own;
             }
         }",
    );
    let plain = server.port("plain");
    let started = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("it is later");
    let headers = format!("User-Agent: test\r\n{}tracestate: a=1\r\n", parent("01"));
    wire::get_with(plain, "/ok?q=1", &headers);
    let spans = collector.wait_for_spans(1);
    let span = &spans[0];
    assert_eq!(text(span, "name"), "/ok");
    assert_eq!(text(span, "trace"), TRACE);
    assert_eq!(text(span, "parent"), SPAN);
    assert_eq!(text(span, "state"), "a=1");
    assert_eq!(text(span, "kind"), "SPAN_KIND_SERVER");
    assert_eq!(text(span, "status"), "STATUS_CODE_UNSET");
    assert_eq!(span["flags"], 0x301);
    let (start, end) = (span["start"].as_u64(), span["end"].as_u64());
    assert!(
        start <= end && start > Some(started.as_nanos() as u64 - 1_000_000_000),
        "{span}"
    );
    let mut attributes = span["attributes"].clone();
    let peer_port = attributes["net.sock.peer.port"].take();
    assert!(peer_port.as_u64().is_some_and(|port| port > 0), "{span}");
    assert_eq!(
        attributes,
        json!({
            "http.method": "GET", "http.target": "/ok?q=1", "http.route": "/ok",
            "http.scheme": "http", "http.flavor": "1.1", "http.user_agent": "test",
            "http.request_content_length": 0, "http.response_content_length": 4,
            "http.status_code": 200, "net.host.name": "one.test", "net.host.port": plain,
            "net.sock.peer.addr": "127.0.0.1", "net.sock.peer.port": null,
        })
    );
    let export = &collector.exports()[0];
    assert_eq!(
        export["resource"],
        json!({ "service.name": "shop", "deployment.environment": "test" })
    );
    assert_eq!(text(export, "scope"), "sealane");
    let metadata = &export["metadata"];
    assert_eq!(metadata["x-api-token"], json!(["secret"]));
    assert_eq!(metadata["x-twice"], json!(["1", "2"]));
    assert_eq!(metadata["some-bin"], json!(["bytes"]));

    let url = format!("https://127.0.0.1:{}/own", server.port("tls"));
    let arguments = ["-sk", "--http2", "-H", "Accept: a/b", "-d", "12345", &url];
    assert_eq!(command("curl", &arguments, b"").success().text(), "own");
    let spans = collector.wait_for_spans(2);
    let (span, attributes) = (&spans[1], &spans[1]["attributes"]);
    assert_eq!(text(span, "name"), "POST own 200");
    assert_eq!((text(span, "parent"), &span["flags"]), ("", &json!(1)));
    assert_eq!(text(attributes, "http.flavor"), "2.0");
    assert_eq!(text(attributes, "http.scheme"), "https");
    assert_eq!(attributes["http.request_content_length"], 5);
    assert_eq!(attributes["http.request.header.accept"], json!(["a/b"]));
    assert_eq!(text(attributes, "tls"), "TLSv1.3");
    let ids = format!("{} {}  0", text(span, "trace"), text(span, "id"));
    assert_eq!(text(attributes, "ids"), ids);

    wire::get(plain, "/err/or");
    let spans = collector.wait_for_spans(3);
    let span = &spans[2];
    assert_eq!(text(span, "status"), "STATUS_CODE_ERROR");
    assert_eq!(text(span, "name"), "^/err");
    assert_eq!(span["attributes"]["http.status_code"], 502);
    // HTTP/0.9 has no name for itself.
    let mut connection = wire::Connection::open(plain);
    connection.send("GET /ok\r\n");
    assert_eq!(connection.rest(), b"okay");
    let attributes = &collector.wait_for_spans(4)[3]["attributes"];
    assert_eq!(attributes["http.flavor"], Value::Null);
    assert_eq!(attributes["http.response_content_length"], 4);
    // One connection is enough for all of it.
    let exports = collector.exports();
    assert!(
        exports
            .iter()
            .all(|export| export["peer"] == exports[0]["peer"])
    );
}

#[test]
fn whatever_is_requested_for_a_request_names_its_span() {
    if is_left_out() {
        return;
    }
    let site = Site::new();
    let collector = Collector::start(&site, "collector");
    let fastcgi = FastCgiOrigin::start(|request, socket| {
        let told = request.parameter("HTTP_TRACEPARENT");
        let state = request.parameter("HTTP_TRACESTATE");
        let output = format!("Content-Type: text/plain\r\n\r\n{told} {state}");
        fastcgi::answer(socket, output.as_bytes())
    });
    let server = site.serve(&format!(
        "{PROMPT}
         server {{ listen 127.0.0.1:%origin%; http2 on;
             return 200 \"$http_traceparent $http_tracestate\"; }}
         server {{ listen 127.0.0.1:%plain%; http2 on; otel_trace $otel_parent_sampled;
             otel_trace_context propagate;
             location /http {{ proxy_pass http://127.0.0.1:%origin%/; }}
             location /http2 {{ proxy_http_version 2; proxy_pass http://127.0.0.1:%origin%/; }}
             location /grpc {{ grpc_pass 127.0.0.1:%origin%; }}
             location /fastcgi {{ fastcgi_pass 127.0.0.1:{}; }}
             location /added {{ add_after_body /http/after; default_type text/html; return 200 \"\"; }}
             location /redirected {{ error_page 418 = /http; return 418; }}
             location /ignored {{ otel_trace_context ignore; proxy_pass http://127.0.0.1:%origin%/; }}
             location /set {{ proxy_set_header traceparent own; proxy_pass http://127.0.0.1:%origin%/; }}
         }}",
        fastcgi.port()
    ));
    let port = server.port("plain");
    let headers = |flags: &str| format!("{}tracestate: a=1\r\ntracestate: b=2\r\n", parent(flags));
    let targets = [
        "/http",
        "/http2",
        "/grpc",
        "/fastcgi",
        "/added",
        "/redirected",
    ];
    for (count, target) in (1..).zip(targets) {
        let told = wire::get_with(port, target, &headers("01")).text();
        let spans = collector.wait_for_spans(count);
        let span = &spans[count - 1];
        let id = text(span, "id");
        assert_eq!(told, format!("00-{TRACE}-{id}-01 a=1,b=2"), "{target}");
        assert_eq!(text(span, "parent"), SPAN, "{target}");
        assert_eq!(spans.len(), count, "a subrequest has no span of its own");
        assert_eq!(text(&span["attributes"], "http.target"), target);
    }
    // By HTTP/2 from the client, and not recorded: the flag says so to others.
    let mut client = http2::Client::open(port, &[]);
    let parent_field = format!("00-{TRACE}-{SPAN}-00");
    let fields = [("traceparent", &*parent_field), ("tracestate", "c=3")];
    let stream = client.request("GET", "/http", &fields, true);
    let response = client.response(stream);
    let told = String::from_utf8_lossy(&response.body).into_owned();
    assert!(told.starts_with(&format!("00-{TRACE}-")), "{told}");
    assert!(told.ends_with("-00 c=3") && !told.contains(SPAN), "{told}");
    let told = wire::get_with(port, "/ignored", &headers("01")).text();
    assert_eq!(told, format!("00-{TRACE}-{SPAN}-01 a=1, b=2"));
    let told = wire::get_with(port, "/set", &headers("01")).text();
    assert_eq!(told, "own a=1,b=2");
    // Neither of these three has changed the number, but the last was recorded.
    let spans = collector.wait_for_spans(targets.len() + 1);
    let last = &spans[targets.len()]["attributes"];
    assert_eq!(text(last, "http.target"), "/set");
}

#[test]
fn spans_go_in_batches_and_the_rest_at_the_end() {
    if is_left_out() {
        return;
    }
    let site = Site::new();
    let collector = Collector::start(&site, "collector");
    let server = site.serve(
        "otel_exporter { endpoint 127.0.0.1:%collector%; interval 1h; batch_size 3; }
         server { listen 127.0.0.1:%plain%; location / { otel_trace on; return 204; } }",
    );
    for number in 0..7 {
        wire::get(server.port("plain"), &format!("/{number}"));
    }
    let exports = collector.wait_for_exports(2);
    let sizes = |exports: &[Value]| {
        let sizes = exports
            .iter()
            .map(|export| collector::spans_of(export).len());
        sizes.collect::<Vec<_>>()
    };
    assert_eq!(sizes(&exports), [3, 3]);
    assert!(server.stop("QUIT").success());
    assert_eq!(sizes(&collector.wait_for_exports(3)), [3, 3, 1]);
    let targets = collector.spans();
    let targets = targets
        .iter()
        .map(|span| text(&span["attributes"], "http.target").to_owned());
    // Several exports are under way at a time.
    assert_eq!(
        targets
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>(),
        ["/0", "/1", "/2", "/3", "/4", "/5", "/6"]
    );
}

#[test]
fn some_requests_are_recorded_as_split_clients_says() {
    if is_left_out() {
        return;
    }
    let site = Site::new();
    let collector = Collector::start(&site, "collector");
    let server = site.serve(&format!(
        "{PROMPT} split_clients $otel_trace_id $sampled {{ 50%% on; * off; }}
         server {{ listen 127.0.0.1:%plain%; otel_trace $sampled; otel_trace_context inject;
             location / {{ proxy_pass http://127.0.0.1:%origin%; }} }}
         server {{ listen 127.0.0.1:%origin%; return 200 $http_traceparent; }}"
    ));
    let mut recorded = Vec::new();
    for _ in 0..200 {
        let told = wire::get(server.port("plain"), "/").text();
        if told.ends_with("-01") {
            recorded.push(told[3..35].to_owned());
        }
    }
    // Fewer than 20 or more than 180 of 200 happen once in 10^33.
    assert!((20..=180).contains(&recorded.len()), "{}", recorded.len());
    let spans = collector.wait_for_spans(recorded.len());
    let mut spans: Vec<&str> = spans.iter().map(|span| text(span, "trace")).collect();
    spans.sort_unstable();
    recorded.sort_unstable();
    assert_eq!(spans, recorded);
}

#[test]
fn a_collector_may_be_reached_by_tls_or_a_unix_socket() {
    if is_left_out() {
        return;
    }
    let site = Site::new();
    site.certificate(&Certificate::localhost("localhost", CertificateKey::P256));
    let path = |name: &str| site.path(name).display().to_string();
    let (certificate, key) = (
        path("certificates/localhost.pem"),
        path("certificates/localhost.key"),
    );
    let words = ["-certificate", &certificate, "-key", &key];
    let by_tls = Collector::start_at(&format!("127.0.0.1:{}", site.port("tls")), &words);
    let directives = |endpoint: &str| {
        format!(
            "otel_exporter {{ {endpoint} interval 20ms; }}
             server {{ listen 127.0.0.1:%plain%; location / {{ otel_trace on; return 204; }} }}"
        )
    };
    let server = site.serve(&directives(
        "endpoint https://localhost:%tls%; trusted_certificate certificates/authority.pem;",
    ));
    wire::get(server.port("plain"), "/tls");
    by_tls.wait_for_spans(1);
    drop(server);
    // Not the system's authorities: nothing is sent to whoever cannot be verified.
    let server = site.serve(&directives("endpoint https://localhost:%tls%;"));
    wire::get(server.port("plain"), "/unverified");
    let log = server.wait_for_log("OTel export failure: TLS handshake failed");
    assert!(log.contains("UnknownIssuer"), "{log}");
    drop(server);
    assert_eq!(by_tls.exports().len(), 1);

    let socket = path("temporary/collector");
    let by_socket = Collector::start_at(&socket, &[]);
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&socket, all).expect("it is there");
    let server = site.serve(&directives(&format!("endpoint unix:{socket};")));
    wire::get(server.port("plain"), "/socket");
    by_socket.wait_for_spans(1);
    drop(server);
}

#[test]
fn the_example_exports_what_it_says() {
    if is_left_out() {
        return;
    }
    let site = Site::new();
    let collector = Collector::start(&site, "collector");
    let example = sealane_tests::repository().join("examples/tracing/nginx.conf");
    let example = std::fs::read_to_string(example).expect("part of the repository");
    let mut configuration = example.replace('%', "%%");
    for (from, to) in [
        ("localhost:4317", "127.0.0.1:%collector%; interval 20ms"),
        ("127.0.0.1:9000", "127.0.0.1:%origin%"),
        ("listen 8080", "listen 127.0.0.1:%plain%"),
    ] {
        assert_eq!(configuration.matches(from).count(), 1, "{from}");
        configuration = configuration.replace(from, to);
    }
    let origin = "server { listen 127.0.0.1:%origin%; return 200 $http_traceparent; }";
    let end = configuration.rfind('}').expect("the end of http");
    configuration.insert_str(end, origin);
    let server = site.serve_whole(&configuration);
    let port = server.port("plain");
    let told = wire::get_with(port, "/api/x", &parent("01")).text();
    let span = &collector.wait_for_spans(1)[0];
    assert_eq!(told, format!("00-{TRACE}-{}-01", text(span, "id")));
    assert_eq!(text(span, "name"), "GET /api/");
    let attributes = &span["attributes"];
    assert_eq!(
        text(attributes, "upstream.address"),
        format!("127.0.0.1:{}", server.port("origin"))
    );
    assert_eq!(
        attributes["http.response.header.content.type"],
        json!(["text/plain"])
    );
    let told = wire::get_with(port, "/health", &parent("01")).text();
    assert!(
        told.starts_with(&format!("00-{TRACE}-")) && told.ends_with("-00"),
        "{told}"
    );
}
