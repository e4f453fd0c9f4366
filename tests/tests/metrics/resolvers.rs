//! Queries to name servers.

use super::*;
use sealane_tests::NameServer;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

/// One query for each result.
pub(super) const MOVES: &[Move] = &[
    (
        "sealane_resolver_queries_total{resolver=\"names\",type=\"name\"}",
        By(7),
    ),
    (
        "sealane_resolver_responses_total{resolver=\"names\",result=\"success\"}",
        By(1),
    ),
    (
        "sealane_resolver_responses_total{resolver=\"names\",result=\"not_found\"}",
        By(1),
    ),
    (
        "sealane_resolver_responses_total{resolver=\"names\",result=\"format_error\"}",
        By(1),
    ),
    (
        "sealane_resolver_responses_total{resolver=\"names\",result=\"server_failure\"}",
        By(1),
    ),
    (
        "sealane_resolver_responses_total{resolver=\"names\",result=\"unimplemented\"}",
        By(1),
    ),
    (
        "sealane_resolver_responses_total{resolver=\"names\",result=\"refused\"}",
        By(1),
    ),
    (
        "sealane_resolver_responses_total{resolver=\"names\",result=\"timed_out\"}",
        By(1),
    ),
];

/// What a server of an upstream moves that is found by SRV records.
pub(super) const SERVICES: &[&str] = &["sealane_resolver_queries_total{type=\"srv\"}"];

/// What a client of an SMTP server moves, whose name is looked up.
pub(super) const ADDRESSES: &[&str] = &["sealane_resolver_queries_total{type=\"addr\"}"];

#[test]
fn names_of_mail_clients_are_queries_for_addresses() {
    let names = NameServer::start();
    names.points("7.2.0.192.in-addr.arpa", "mx.test");
    names.says("mx.test", &[Ipv4Addr::new(192, 0, 2, 7)]);
    let site = Site::new();
    let mail = format!(
        "mail {{ auth_http 127.0.0.1:1; set_real_ip_from 127.0.0.1; resolver 127.0.0.1:{};
             server {{ listen 127.0.0.1:%mail% proxy_protocol; protocol smtp; }} }}",
        names.port()
    );
    let metrics = "server { listen 127.0.0.1:%metrics%; location = /metrics { metrics; } }";
    let server = site.serve_with(&mail, "", metrics);
    let mut client = TcpStream::connect(("127.0.0.1", server.port("mail"))).expect("it listens");
    let header = b"PROXY TCP4 192.0.2.7 192.0.2.99 4660 25\r\n";
    client.write_all(header).expect("it is read");
    let mut greeting = [0; 4];
    client.read_exact(&mut greeting).expect("a greeting");
    assert_eq!(&greeting, b"220 ");
    for name in ADDRESSES {
        wait_for(name, || {
            (value(&samples(server.port("metrics")), name) > 0.0).then_some(())
        });
    }
}

#[test]
fn queries_are_counted_by_what_became_of_them() {
    let names = NameServer::start();
    names.says("success.test", &[Ipv4Addr::LOCALHOST]);
    // RFC 1035 section 4.1.1.
    for (name, code) in [
        ("format.test", 1),
        ("failure.test", 2),
        ("unimplemented.test", 4),
        ("refused.test", 5),
    ] {
        names.fails(name, code);
    }
    let site = Site::new();
    let server = site.serve(&format!(
        "resolver 127.0.0.1:{port} ipv6=off status_zone=names; resolver_timeout 2s;
         upstream found {{ zone found 64k; resolver 127.0.0.1:{port} status_zone=services;
             server found.test service=http resolve; server 127.0.0.1:%metrics%; }}
         server {{ listen 127.0.0.1:%plain%; location / {{ proxy_pass http://$arg_name:%metrics%/metrics; }}
             location /found {{ proxy_pass http://found; }} }}
         server {{ listen 127.0.0.1:%metrics%; location = /metrics {{ metrics; }} }}",
        port = names.port()
    ));
    let watch = Watch::start(&server);
    let ask = |name: &str| {
        let answer = wire::get(server.port("plain"), &format!("/?name={name}.test"));
        let status = if name == "success" { 200 } else { 502 };
        assert_eq!(answer.status, status, "{name}");
    };
    [
        "success",
        "missing",
        "format",
        "failure",
        "unimplemented",
        "refused",
    ]
    .into_iter()
    .for_each(ask);
    names.set_silent(true);
    ask("silent");
    watch.saw(MOVES);
    for name in SERVICES {
        wait_for(name, || {
            (value(&samples(server.port("metrics")), name) > 0.0).then_some(())
        });
    }
}
