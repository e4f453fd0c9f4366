//! The same over HTTP/3, beside what clients of HTTP/2 get.

use super::Service;
use sealane_tests::http2::{Client, flag, kind};
use sealane_tests::quic::{
    QuicClient, QuicRequest, QuicResponse, QuicScript, quic_site, serve_quic,
};
use sealane_tests::{Server, Site};

/// A message of gRPC that is not compressed.
fn message(text: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend_from_slice(&(text.len() as u32).to_be_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// The texts of messages.
fn texts(mut body: &[u8]) -> Vec<String> {
    let mut all = Vec::new();
    while let Some((head, rest)) = body.split_first_chunk::<5>() {
        let [0, length @ ..] = *head else {
            panic!("a compressed message: {body:?}");
        };
        let (text, rest) = rest.split_at(u32::from_be_bytes(length) as usize);
        all.push(String::from_utf8_lossy(text).into_owned());
        body = rest;
    }
    all
}

const FIELDS: [(&str, &str); 3] = [
    ("content-type", "application/grpc"),
    ("te", "trailers"),
    ("x-told", "by the client"),
];

fn call(method: &str, messages: &[&str]) -> QuicRequest {
    let messages: Vec<Vec<u8>> = messages.iter().map(|text| message(text)).collect();
    let pieces: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
    let request = QuicRequest::new("POST", &format!("/test.Service/{method}")).pieces(&pieces);
    let fields = FIELDS.iter();
    fields.fold(request, |request, (name, value)| {
        request.header(name, value)
    })
}

#[track_caller]
fn over_http3(site: &Site, server: &Server<'_>, requests: Vec<QuicRequest>) -> Vec<QuicResponse> {
    let script = QuicScript::to(site, server).requests(requests);
    QuicClient::Aioquic.run_one(&script).responses
}

/// Status, fields with trailers behind them, and body of a call over HTTP/2.
#[track_caller]
fn over_http2(server: &Server<'_>, method: &str, messages: &[&str]) -> Got {
    let mut client = Client::open(server.port("plain"), &[]);
    let path = format!("/test.Service/{method}");
    let stream = client.request("POST", &path, &FIELDS, false);
    let body: Vec<u8> = messages.iter().flat_map(|text| message(text)).collect();
    client.frame(kind::DATA, flag::END_STREAM, stream, &body);
    let response = client.response(stream);
    assert_eq!(response.reset, None, "{method}: {response:?}");
    got(response.status, response.fields, &response.body)
}

type Got = (u16, Vec<(String, String)>, Vec<String>);

fn got(status: u16, mut fields: Vec<(String, String)>, body: &[u8]) -> Got {
    fields.retain(|(name, _)| name != "date");
    (status, fields, texts(body))
}

fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = fields.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.as_str())
}

/// Calls, with the messages that come and their `grpc-status`.
#[test]
fn calls_get_what_clients_of_http2_get() {
    let (site, service) = (quic_site(), Service::start());
    let server = serve_quic(
        &site,
        &format!("location / {{ grpc_pass 127.0.0.1:{}; }}", service.port),
    );
    let calls: [(&str, &[&str], &[&str], &str); 7] = [
        ("Unary", &["hello"], &["hello"], "0"),
        ("Unary", &[""], &[""], "0"),
        ("StopEarly", &["one"], &["enough"], "0"),
        ("Chat", &["one", "two"], &["re: one", "re: two"], "0"),
        ("GreetFirst", &["one"], &["welcome", "one"], "0"),
        ("Fail", &["NOT_FOUND nothing there"], &[], "5"),
        ("FailMidway", &["x"], &["one", "two"], "15"),
    ];
    let requests = calls.map(|(method, messages, ..)| call(method, messages));
    let responses = over_http3(&site, &server, requests.into());
    for ((method, messages, expected, status), response) in calls.iter().zip(responses) {
        assert!(
            response.complete && response.reset.is_none(),
            "{method}: {response:?}"
        );
        let ours = got(response.status, response.headers.clone(), &response.body);
        assert_eq!(ours.0, 200, "{method}: {response:?}");
        assert_eq!(ours.2, *expected, "{method}: {response:?}");
        assert_eq!(
            field(&ours.1, "grpc-status"),
            Some(*status),
            "{method}: {response:?}"
        );
        // A call that fails at once has no more than a head.
        let in_trailers = field(&response.trailers, "grpc-status");
        let is_only_head = in_trailers.is_none() && response.trailers.is_empty();
        assert_eq!(is_only_head, *method == "Fail", "{method}: {response:?}");
        if *method == "Unary" {
            assert_eq!(field(&ours.1, "first-x-told"), Some("by the client"));
            assert_eq!(
                field(&response.trailers, "last-x-told"),
                Some("by the client")
            );
        }
        assert_eq!(ours, over_http2(&server, method, messages), "{method}");
    }
}

/// Messages go in both directions by turns on a stream that is open all the time.
#[test]
fn messages_are_not_held_back() {
    let (site, service) = (quic_site(), Service::start());
    let server = serve_quic(
        &site,
        &format!("location / {{ grpc_pass 127.0.0.1:{}; }}", service.port),
    );
    let said = ["one", "two", "three", "four"];
    let response = over_http3(&site, &server, vec![call("Chat", &said).in_turn()]).remove(0);
    assert_eq!(
        texts(&response.body),
        ["re: one", "re: two", "re: three", "re: four"],
        "{response:?}"
    );
    assert_eq!(field(&response.trailers, "grpc-status"), Some("0"));
    // Many messages, of more than all windows.
    let large = over_http3(&site, &server, vec![call("Count", &["300 10000"])]).remove(0);
    assert_eq!(large.body_bytes, 300 * 10_005, "{:?}", large.trailers);
    assert_eq!(field(&large.trailers, "grpc-status"), Some("0"));
}

#[test]
fn errors_of_the_proxy_become_errors_of_grpc_over_http3() {
    let site = quic_site();
    let server = serve_quic(
        &site,
        "error_page 502 = @unavailable; error_page 403 = @denied;
         location / { grpc_pass 127.0.0.1:%nobody%; }
         location = /test.Service/Fail { return 403; }
         location @unavailable { internal; default_type application/grpc;
           add_header grpc-status 14; add_header grpc-message 'nobody there'; return 204; }
         location @denied { internal; default_type application/grpc;
           add_header grpc-status 7; add_header grpc-message denied; return 204; }",
    );
    for (method, status) in [("Unary", "14"), ("Fail", "7")] {
        let response = over_http3(&site, &server, vec![call(method, &["x"])]).remove(0);
        let ours = got(response.status, response.headers, &response.body);
        assert_eq!(field(&ours.1, "grpc-status"), Some(status), "{ours:?}");
        assert_eq!(ours, over_http2(&server, method, &["x"]), "{method}");
    }
}

#[test]
fn a_call_that_is_cancelled_over_http3_is_cancelled_at_the_service() {
    let (site, service) = (quic_site(), Service::start());
    let server = serve_quic(
        &site,
        &format!("location / {{ grpc_pass 127.0.0.1:{}; }}", service.port),
    );
    let hanging = || call("Hang", &["x", "never sent a third"]).in_turn();
    let script = QuicScript::to(&site, &server)
        .begin([hanging()])
        .reset(0)
        .reconnect()
        .begin([hanging()]);
    QuicClient::Aioquic.run(&script);
    service.wait_for_cancelled(2);
}
