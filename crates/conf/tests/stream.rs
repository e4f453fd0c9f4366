//! `stream` blocks: what is read of them, what is inherited, and what is refused.

use sealane_conf::model::{
    Config, DatagramLimits, ListenAddress, Part, Pass, PassTarget, RealIpHeader, SendProxyProtocol,
    ServerKind, StreamHandler, StreamPass, StreamPassTarget, Variable,
};
use sealane_conf::variables::StreamVariable;
use sealane_conf::{Failure, MemoryLoader, Options, parse};
use std::sync::Arc;
use std::time::Duration;

fn files(text: &str) -> MemoryLoader {
    MemoryLoader::new().with("/etc/nginx.conf", text)
}

fn read(text: &str) -> Config {
    let options = Options::new("/etc/nginx.conf", "/srv");
    let config = parse(&options, &mut files(text));
    config.unwrap_or_else(|failure| panic!("{}: {text}", failure.error.message))
}

fn stream(text: &str) -> Config {
    read(&format!("events {{}} stream {{ {text} }}"))
}

fn failure(text: &str) -> Failure {
    let options = Options::new("/etc/nginx.conf", "/srv");
    match parse(&options, &mut files(text)) {
        Ok(_) => panic!("it is read: {text}"),
        Err(failure) => failure,
    }
}

fn refused(text: &str) -> String {
    failure(text).error.message
}

fn refused_in_stream(text: &str) -> String {
    refused(&format!("events {{}} stream {{ {text} }}"))
}

fn pass(config: &Config, server: usize) -> Arc<StreamPass> {
    let http = config.http.as_ref().expect("there are servers");
    match &http.servers[server].conf.pass {
        Some(Pass::Stream(pass)) => pass.clone(),
        other => panic!("it passes sessions on: {other:?}"),
    }
}

#[test]
fn defaults_are_those_of_nginx() {
    let config = stream("server { listen 1; proxy_pass 192.0.2.1:5; }");
    let http = config.http.as_ref().expect("there are servers");
    let server = &http.servers[0];
    assert_eq!(server.kind(), ServerKind::Stream);
    let own = server.stream.as_ref().expect("it is one of stream");
    assert!(matches!(own.handler, StreamHandler::Proxy));
    assert!(!own.ssl_preread && own.alpn.is_empty() && own.sets.is_empty());
    assert_eq!(own.preread_buffer_bytes, 16 << 10);
    assert_eq!(own.preread_timeout, Duration::from_secs(30));
    assert_eq!(own.proxy_protocol_timeout, Duration::from_secs(30));
    let pass = pass(&config, 0);
    assert_eq!(pass.timeout, Duration::from_secs(600));
    assert_eq!(pass.upstream.buffer_bytes, 16 << 10);
    assert_eq!(pass.upstream.connect_timeout, Duration::from_secs(60));
    assert!(pass.upstream.tls.is_none() && !pass.half_close);
    assert!(pass.upload_rate.is_none() && pass.download_rate.is_none());
    // Sessions are logged only where it is said.
    assert!(server.conf.access_logs.is_empty());
    assert!(server.conf.tcp_nodelay);
    let listener = &http.listeners[0];
    assert_eq!(
        (listener.kind, listener.options.backlog),
        (ServerKind::Stream, 511)
    );
}

#[test]
fn servers_inherit_what_they_do_not_say() {
    let config = stream(
        "proxy_timeout 3s; proxy_half_close on; proxy_download_rate 1k; proxy_protocol on;
         preread_timeout 2s; proxy_connect_timeout 1s; proxy_next_upstream off; ssl_preread on;
         set_real_ip_from 192.0.2.0/24; proxy_ssl on; proxy_ssl_name a; resolver 192.0.2.53;
         server { listen 1; proxy_pass $remote_addr:5; }
         server { listen 2; proxy_pass b; proxy_timeout 4s; proxy_half_close off;
                  proxy_protocol v2; ssl_preread off; proxy_ssl off; }
         upstream b { server 192.0.2.2:1; }",
    );
    let http = config.http.as_ref().expect("there are servers");
    let (first, second) = (pass(&config, 0), pass(&config, 1));
    assert_eq!(first.timeout, Duration::from_secs(3));
    assert_eq!(second.timeout, Duration::from_secs(4));
    assert!(first.half_close && !second.half_close);
    assert!(second.download_rate.is_some());
    assert_eq!(second.upstream.connect_timeout, Duration::from_secs(1));
    assert!(first.upstream.tls.is_some() && second.upstream.tls.is_none());
    assert!(matches!(first.target, PassTarget::Evaluated(_)));
    let [first, second] = [&http.servers[0], &http.servers[1]];
    let prereads = |server: &sealane_conf::model::Server| {
        server
            .stream
            .as_ref()
            .is_some_and(|stream| stream.ssl_preread)
    };
    assert!(prereads(first) && !prereads(second));
    assert_eq!(first.conf.send_proxy_protocol, SendProxyProtocol::V1);
    assert_eq!(second.conf.send_proxy_protocol, SendProxyProtocol::V2);
    let real_ip = first.conf.real_ip.as_ref().expect("it is inherited");
    assert_eq!(real_ip.header, RealIpHeader::ProxyProtocol);
}

#[test]
fn both_blocks_have_names_of_their_own() {
    let http = "http { map $uri $x { default $request_method; } upstream u { server 192.0.2.1; }
        log_format f $status; server { listen 80; access_log a f; location / { proxy_pass http://u; } } }";
    let stream = "stream { map $protocol $x { default $status; } upstream u { server 192.0.2.2:1; }
        log_format f $bytes_received; server { listen 81; access_log b f; proxy_pass u; } }";
    for text in [
        format!("events {{}} {http} {stream}"),
        format!("events {{}} {stream} {http}"),
    ] {
        let config = read(&text);
        let all = config.http.as_ref().expect("there are servers");
        let kinds: Vec<ServerKind> = all.servers.iter().map(|server| server.kind()).collect();
        let of = |kind| {
            kinds
                .iter()
                .position(|known| *known == kind)
                .expect("one of each")
        };
        let stream = &all.servers[of(ServerKind::Stream)];
        let format = &stream.conf.access_logs[0].format;
        assert_eq!(
            format.line.parts(),
            [Part::Variable(Variable::Stream(
                StreamVariable::BytesReceived
            ))]
        );
        let group = stream
            .conf
            .pass
            .as_ref()
            .and_then(Pass::group)
            .expect("it is known");
        assert_eq!(all.upstreams[group.0].kind, ServerKind::Stream);
        let location = &all.servers[of(ServerKind::Http)].locations.prefix[0];
        let group = location
            .conf
            .pass
            .as_ref()
            .and_then(Pass::group)
            .expect("it is known");
        assert_eq!(all.upstreams[group.0].kind, ServerKind::Http);
        let names: Vec<_> = all
            .variables
            .iter()
            .filter(|one| &*one.name == "x")
            .collect();
        assert_eq!(names.len(), 2);
        for listener in &all.listeners {
            assert_eq!(all.servers[listener.default_server].kind(), listener.kind);
        }
    }
}

#[test]
fn what_answers_is_the_last_that_is_written() {
    let config = stream("server { listen 1; proxy_pass 192.0.2.1:1; return $remote_addr; }");
    let http = config.http.as_ref().expect("there are servers");
    let own = http.servers[0]
        .stream
        .as_ref()
        .expect("it is one of stream");
    assert!(matches!(own.handler, StreamHandler::Return(_)));
    assert!(http.servers[0].conf.pass.is_none());
    let config = stream("server { listen 1; pass 8443; } server { listen 2; pass unix:/$pid; }");
    let http = config.http.as_ref().expect("there are servers");
    let target = |at: usize| match &http.servers[at].stream.as_ref()?.handler {
        StreamHandler::Pass(target) => Some(target.clone()),
        _ => None,
    };
    match target(0) {
        Some(StreamPassTarget::Fixed(addresses)) => {
            let any = ListenAddress::Inet(([0, 0, 0, 0], 8443).into());
            assert_eq!(*addresses, [any]);
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(target(1), Some(StreamPassTarget::Evaluated(_))));
}

#[test]
fn mistakes_are_told_in_nginx_words() {
    for (text, message) in [
        ("server { }", "no \"listen\" is defined for server"),
        (
            "server { listen ::1; }",
            "invalid port in \"::1\" of the \"listen\" directive",
        ),
        (
            "server { listen localhost; }",
            "no port in \"localhost\" of the \"listen\" directive",
        ),
        ("server { listen 1 http2; }", "invalid parameter \"http2\""),
        (
            "server { listen 1; proxy_pass a; }",
            "no port in upstream \"a\" in /etc/nginx.conf:1",
        ),
        (
            "server { listen 1; return a; return b; }",
            "\"return\" directive is duplicate",
        ),
        (
            "server { listen 1; set $x $uri; }",
            "unknown \"uri\" variable",
        ),
        (
            "server { listen 1; location / {} }",
            "\"location\" directive is not allowed here",
        ),
        (
            "map $remote_addr $status { default 1; }",
            "the duplicate \"status\" variable",
        ),
        (
            "server { listen 1; set $ssl_preread_protocol a; }",
            "the duplicate \"ssl_preread_protocol\" variable",
        ),
        ("geo $a { proxy 127.0.0.1; }", "invalid network \"proxy\""),
        (
            "upstream u { ip_hash; server 192.0.2.1:1; }",
            "\"ip_hash\" directive is not allowed here",
        ),
        (
            "upstream u { least_time header; server 192.0.2.1:1; }",
            "invalid value \"header\"",
        ),
        (
            "upstream u { server 192.0.2.1; }",
            "no port in upstream \"192.0.2.1\"",
        ),
        (
            "upstream u { server [::1] weight=2; }",
            "no port in upstream \"[::1]\"",
        ),
        (
            "upstream u { server localhost; }",
            "no port in upstream \"localhost\"",
        ),
        (
            "upstream u { server nowhere.example; }",
            "host not found in upstream \"nowhere.example\"",
        ),
        (
            "resolver 192.0.2.53; upstream u { zone z 64k; server a.example resolve; }",
            "no port in upstream \"a.example\"",
        ),
        (
            "access_log a; server { listen 1; return a; }",
            "log format is not specified",
        ),
        (
            "access_log a combined; server { listen 1; return a; }",
            "unknown log format \"combined\"",
        ),
        (
            "proxy_ssl_alpn a b; ssl_alpn a; ssl_alpn b;",
            "\"ssl_alpn\" directive is duplicate",
        ),
        (
            "server { listen 1 udp ssl fastopen=1 backlog=1; }",
            "\"listen\" directive \"fastopen\" parameter is incompatible with \"udp\"",
        ),
        (
            "server { listen 1 backlog=511 udp; }",
            "\"listen\" directive \"backlog\" parameter is incompatible with \"udp\"",
        ),
        (
            "server { listen 1 udp deferred multipath; }",
            "\"listen\" directive \"deferred\" parameter is incompatible with \"udp\"",
        ),
        (
            "server { listen 1 udp multipath ssl; }",
            "\"listen\" directive \"multipath\" parameter is incompatible with \"udp\"",
        ),
        (
            "server { listen 1 udp proxy_protocol so_keepalive=off ssl; }",
            "\"listen\" directive \"ssl\" parameter is incompatible with \"udp\"",
        ),
        (
            "server { listen 1 udp proxy_protocol so_keepalive=off; }",
            "\"listen\" directive \"so_keepalive\" parameter is incompatible with \"udp\"",
        ),
        (
            "server { listen 1 udp proxy_protocol; }",
            "\"listen\" directive \"proxy_protocol\" parameter is incompatible with \"udp\"",
        ),
        (
            "server { listen unix:/a udp; }",
            "\"listen unix:... udp\" is not supported",
        ),
        (
            "server { listen 1 udp; listen 1; listen 1 udp; }",
            "a duplicate listen 0.0.0.0:1",
        ),
        (
            "proxy_responses -1;",
            "\"proxy_responses\" directive invalid number",
        ),
        (
            "udp_session_queue 0 1k;",
            "\"udp_session_queue\" directive invalid number",
        ),
        (
            "udp_session_queue 1 1x;",
            "\"udp_session_queue\" directive invalid value",
        ),
        (
            "server { listen 1 ssl; return a; }",
            "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive",
        ),
    ] {
        assert_eq!(refused_in_stream(text), message, "{text}");
    }
}

#[test]
fn servers_of_a_group_need_a_port_unless_something_else_has_it() {
    let config = stream(
        "resolver 192.0.2.53;
         upstream u { zone z 64k; server unix:/a; server 192.0.2.1:80; server a.example service=b resolve; }",
    );
    let http = config.http.expect("there is a group");
    assert_eq!(http.upstreams[0].servers.len(), 3);
    let failure = failure("events {} stream { upstream u { server 192.0.2.1; } }");
    let help = failure.error.help.unwrap_or_default();
    assert_eq!(help, "write a port: \"server 192.0.2.1:5432;\"");
}

#[test]
fn an_address_belongs_to_one_block() {
    let http = "http { server { listen 127.0.0.1:81; } }";
    let stream = "stream { server { listen 127.0.0.1:81; return a; } }";
    for text in [
        format!("events {{}} {http} {stream}"),
        format!("events {{}} {stream} {http}"),
    ] {
        let message = "\"http\" and \"stream\" both listen on 127.0.0.1:81";
        assert_eq!(refused(&text), message);
    }
    let zone = "limit_conn_zone $binary_remote_addr zone=z:1m;";
    let text = format!("events {{}} http {{ {zone} }} stream {{ {zone} }}");
    let message = "the shared memory zone \"z\" is already declared for a different use";
    assert_eq!(refused(&text), message);
    assert_eq!(
        refused("events {} stream {} stream {}"),
        "\"stream\" directive is duplicate"
    );
}

#[test]
fn variables_that_a_block_does_not_have_lead_to_those_that_it_has() {
    let options = Options::new("/etc/nginx.conf", "/srv");
    let text = "events {} stream { server { listen 1; return $bytes_receive; } }";
    let failure = parse(&options, &mut files(text)).expect_err("it is unknown");
    assert_eq!(failure.error.message, "unknown \"bytes_receive\" variable");
    let help = failure.error.help.unwrap_or_default();
    assert!(help.contains("did you mean \"$bytes_received\"?"), "{help}");
}

#[test]
fn datagrams_have_addresses_of_their_own() {
    let config = read(
        "events {} http { server { listen 53; } } stream { proxy_pass_no; }"
            .replace(
                "proxy_pass_no;",
                "udp_sessions 7; proxy_responses 1;
                server { listen 53 udp reuseport rcvbuf=1m; listen 192.0.2.1:53 udp; return a; }
                server { listen [::1]:53 udp; udp_session_queue 3 4k; udp_queue_memory 1m;
                         proxy_requests 5; proxy_responses 2147483647; proxy_pass 192.0.2.9:53; }",
            )
            .as_str(),
    );
    let http = config.http.as_ref().expect("there are servers");
    let addresses = http.listeners.iter();
    let addresses = addresses.map(|it| (it.address.to_string(), it.address.is_udp(), it.bind));
    let expected = [
        ("0.0.0.0:53", false, true),
        ("0.0.0.0:53", true, true),
        ("192.0.2.1:53", true, false),
        ("[::1]:53", true, true),
    ];
    let expected = expected.map(|(text, udp, bind)| (text.to_owned(), udp, bind));
    assert_eq!(addresses.collect::<Vec<_>>(), expected);
    let limits = |at: usize| {
        let stream = http.servers[at].stream.as_ref();
        stream.expect("it is one of stream").datagrams
    };
    let first = DatagramLimits {
        sessions: Some(7),
        session_packets: 256,
        session_bytes: 256 << 10,
        queue_bytes: 16 << 20,
        requests: 0,
    };
    assert_eq!(limits(1), first);
    let second = DatagramLimits {
        session_packets: 3,
        session_bytes: 4 << 10,
        queue_bytes: 1 << 20,
        requests: 5,
        ..first
    };
    assert_eq!(limits(2), second);
    match &http.servers[2].conf.pass {
        Some(Pass::Stream(pass)) => assert_eq!((pass.requests, pass.responses), (5, None)),
        other => panic!("{other:?}"),
    }
}
