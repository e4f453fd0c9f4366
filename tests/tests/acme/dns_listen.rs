//! `dns_listen`: DNS-01 answered by the server itself.

use super::nodes::{Cluster, same_everywhere};
use super::{configuration, get_verified, issuer, servers, settings, start, wait_for_certificate};
use sealane_tests::reload::{Reload, reload};
use sealane_tests::upgrade::{Daemon, signal};
use sealane_tests::{
    Certificate, CertificateKey, Pebble, Program, Redis, Server, Site, TestZone, command, has_go,
    sealane_binary, wait_for,
};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

/// Not 127.0.0.1, where the reservation of the port is a UDP socket.
const ADDRESS: &str = "127.0.0.3";

const LISTEN: &str = "challenge dns-01; dns_listen 127.0.0.3:%dns% zone=acme.test ns=ns.test;";

/// What dig prints of an answer of this site's server.
#[track_caller]
fn dig(site: &Site, words: &[&str]) -> String {
    let port = site.port("dns").to_string();
    let arguments = [&["@127.0.0.3", "-p", &port, "+norecurse"], words].concat();
    let outcome = command("dig", &arguments, b"");
    assert_eq!(outcome.status, 0, "{}{}", outcome.text(), outcome.stderr);
    outcome.text()
}

/// A site that orders from a server that is not there.
fn lonely_site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("pebble", CertificateKey::P256));
    site
}

fn start_alone<'a>(site: &'a Site, names: &str) -> Server<'a> {
    start(site, &issuer(LISTEN), &servers(names))
}

#[test]
fn names_are_verified_over_a_delegated_zone_and_over_aliases() {
    if !has_go(24) {
        return;
    }
    let site = Site::new();
    let ours = format!("{ADDRESS}:{}", site.port("dns"));
    let delegations = [
        "-delegate",
        &format!("_acme-challenge.own.test.={ours}"),
        "-delegate",
        &format!("acme.test.={ours}"),
        "-alias",
        "_acme-challenge.alias.test.=alias.test.acme.test.",
    ];
    let zone = TestZone::start_with(&site, &delegations);
    let pebble = Pebble::start_with_names(&site, settings(&site), zone);
    let server = start_alone(&site, "*.own.test own.test alias.test");
    let shown = wait_for_certificate(server.port("tls"), "a.own.test");
    for name in ["DNS:*.own.test", "DNS:own.test", "DNS:alias.test"] {
        assert!(shown.contains(name), "{shown}");
    }
    assert_eq!(
        get_verified(&pebble, server.port("tls"), "any.own.test"),
        "secure\n"
    );
    let answers = pebble.names().updates();
    let both = format!("{ours} to _acme-challenge.own.test.: NOERROR, 2 records");
    assert!(answers.contains(&both), "{answers}");
    let alias = format!("{ours} to alias.test.acme.test.: NOERROR, 1 records");
    assert!(answers.contains(&alias), "{answers}");
    assert_eq!(pebble.orders(), 1);
    // Afterwards the names are there, and have nothing.
    wait_for("the records to be gone", || {
        let text = dig(&site, &["alias.test.acme.test", "TXT"]);
        (text.contains("status: NOERROR") && text.contains("ANSWER: 0")).then_some(())
    });
    assert!(!server.error_log().contains("refused system call"));
}

#[test]
fn every_node_answers_what_any_of_them_has_ordered() {
    if !has_go(24) {
        return;
    }
    let cluster = Cluster::new(3);
    let first = &cluster.sites[0];
    first.write("seal.key", "0123456789abcdef0123456789abcdef");
    let nodes = cluster.sites.iter();
    let nodes: Vec<String> = nodes
        .map(|it| format!("{ADDRESS}:{}", it.port("dns")))
        .collect();
    let words = ["-delegate", &format!("acme.test.={}", nodes.join(","))];
    let alias = [
        "-alias",
        "_acme-challenge.nodes.test.=nodes.test.acme.test.",
    ];
    let zone = TestZone::start_with(first, &[words, alias].concat());
    let pebble = Pebble::start_with_names(first, cluster.settings(), zone);
    let _redis = Redis::start(first, "redis", &[]);
    let servers = cluster.start(&cluster.configuration(LISTEN, "*.nodes.test"));
    let shown = same_everywhere(&servers, "any.nodes.test");
    assert!(shown.contains("DNS:*.nodes.test"), "{shown}");
    assert_eq!(pebble.orders(), 1, "{}", pebble.log());
    // Each validation has asked another one.
    let answers = pebble.names().updates();
    for node in nodes {
        let answer = format!("{node} to nodes.test.acme.test.: NOERROR, 1 records");
        assert!(answers.contains(&answer), "{answers}");
    }
}

#[test]
fn an_independent_client_understands_the_answers() {
    let site = lonely_site();
    let server = start_alone(&site, "a.test *.b.test");
    for (words, parts) in [
        (
            &["acme.test", "SOA"][..],
            &[
                "status: NOERROR",
                "flags: qr aa;",
                "ns.test. hostmaster.ns.test. 1 3600",
            ][..],
        ),
        (
            &["acme.test", "NS", "+noedns"],
            &["status: NOERROR", "NS\tns.test."],
        ),
        (
            &["acme.test", "SOA", "+tcp"],
            &["status: NOERROR", "ANSWER: 1", "(TCP)"],
        ),
        (
            &["B.Test.acme.test", "TXT"],
            &["status: NOERROR", "ANSWER: 0", "AUTHORITY: 1"],
        ),
        (
            &["test.acme.test", "A"],
            &["status: NOERROR", "ANSWER: 0", "AUTHORITY: 1"],
        ),
        (
            &["c.test.acme.test", "TXT"],
            &["status: NXDOMAIN", "acme.test.\t\t1\tIN\tSOA"],
        ),
        (
            &["_acme-challenge.a.test", "SOA"],
            &["status: NOERROR", "ANSWER: 1"],
        ),
        (
            &["a.test", "TXT"],
            &["status: REFUSED", "flags: qr;", "ANSWER: 0"],
        ),
        (
            &["example.org", "A", "+recurse"],
            &["status: REFUSED", "recursion requested but not"],
        ),
        (&["version.bind", "CH", "TXT"], &["status: REFUSED"]),
        (
            &["acme.test", "SOA", "+edns=1", "+noednsneg"],
            &["status: BADVERS", "EDNS: version: 0"],
        ),
        (
            &["acme.test", "SOA", "+dnssec", "+nsid", "+cookie"],
            &["status: NOERROR", "udp: 1232"],
        ),
        (&["acme.test", "SOA", "+opcode=NOTIFY"], &["status: NOTIMP"]),
        (&["acme.test", "SOA", "+header-only"], &["status: FORMERR"]),
    ] {
        let text = dig(&site, words);
        for part in parts {
            assert!(text.contains(part), "{words:?}: {part} in\n{text}");
        }
    }
    let port = site.port("dns").to_string();
    let arguments = ["@127.0.0.3", "-p", &port, "acme.test", "AXFR"];
    let transfer = command("dig", &arguments, b"").text();
    assert!(transfer.contains("Transfer failed"), "{transfer}");
    drop(server);
}

/// A question for the SOA record of `acme.test`.
const QUESTION: &[u8] = b"\x12\x34\0\0\0\x01\0\0\0\0\0\0\x04acme\x04test\0\0\x06\0\x01";

#[test]
fn damaged_messages_and_slow_clients_stop_nobody() {
    let site = lonely_site();
    let server = start_alone(&site, "a.test");
    let address = (ADDRESS, site.port("dns"));
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.connect(address).expect("the loopback");
    let mut state: u64 = 0x5ea1_a9e5;
    let mut number = |end: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % end as u64) as usize
    };
    for _ in 0..5_000 {
        let mut bytes = QUESTION.to_vec();
        bytes[number(QUESTION.len())] = number(256) as u8;
        bytes.truncate(1 + number(QUESTION.len()));
        socket.send(&bytes).expect("the loopback takes it");
    }
    for bytes in [&[][..], &[0; 1], &[0xff; 12], &[0xc0; 512], &[0; 65_000]] {
        socket.send(bytes).expect("the loopback takes it");
    }
    // Most of them get nothing: they come from one network.
    socket.set_nonblocking(true).expect("a socket");
    let mut answer = [0; 65_535];
    while let Ok(length) = socket.recv(&mut answer) {
        assert!(length <= 512 && answer[2] & 0x80 != 0, "{length}");
    }
    // More connections than there are places, which say nothing, or half of something.
    let mut silent = Vec::new();
    for number in 0..100 {
        let mut stream = TcpStream::connect(address).expect("it listens");
        let begun: &[u8] = [&b""[..], b"\0", b"\0\x1b\x12", b"\xff\xff\x12"][number % 4];
        stream.write_all(begun).expect("it is open");
        silent.push(stream);
    }
    let text = dig(&site, &["acme.test", "SOA", "+tcp", "+time=30"]);
    assert!(text.contains("status: NOERROR"), "{text}");
    for mut stream in silent {
        let patience = Some(Duration::from_secs(60));
        stream.set_read_timeout(patience).expect("a socket");
        // The end, or a reset.
        assert_eq!(stream.read(&mut answer).unwrap_or(0), 0);
    }
    // The rate is counted anew in each second.
    let text = dig(
        &site,
        &["acme.test", "SOA", "+ignore", "+tries=10", "+time=2"],
    );
    assert!(text.contains("status: NOERROR"), "{text}");
    // Several questions on one connection, of which only so many are answered.
    let mut stream = TcpStream::connect(address).expect("it listens");
    let question = [&(QUESTION.len() as u16).to_be_bytes()[..], QUESTION].concat();
    stream.write_all(&question.repeat(20)).expect("it is open");
    let mut answers = Vec::new();
    let _ = stream.read_to_end(&mut answers); // the rest is not read, which resets it
    let one = 2 + usize::from(u16::from_be_bytes([answers[0], answers[1]]));
    assert!(answers.len().is_multiple_of(one) && answers.len() / one <= 16);
    let log = server.error_log();
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn sockets_stay_over_reloads_crashes_and_upgrades() {
    let site = lonely_site();
    let two = LISTEN.replace("dns_listen", "dns_listen 127.0.0.2:%dns%");
    let of = |dns: &str, names: &str| configuration(&issuer(dns), &servers(names));
    let server = Daemon::start(&site, Program::Sealane, &of(LISTEN, "a.test"));
    let answers = |words: &[&str]| {
        let whole = [&["acme.test", "SOA", "+tries=1", "+time=20"], words].concat();
        dig(&site, &whole).contains("status: NOERROR")
    };
    let has = |name: &str| {
        let name = format!("{name}.acme.test");
        dig(&site, &[&name, "TXT"]).contains("status: NOERROR")
    };
    let reloaded = |count: usize| {
        wait_for("the reload", || {
            let done = server.log().matches("with the new configuration").count();
            (done == count).then_some(())
        });
    };
    assert!(answers(&[]) && answers(&["+tcp"]) && has("a.test") && !has("b.test"));
    // Another name, and another address.
    server.configure(&of(&two, "b.test"));
    signal(server.pid(), "HUP");
    reloaded(1);
    assert!(answers(&[]) && answers(&["+tcp"]) && has("b.test") && !has("a.test"));
    let other = |words: &[&str]| {
        let port = site.port("dns").to_string();
        let base = [
            "@127.0.0.2",
            "-p",
            &port,
            "acme.test",
            "SOA",
            "+tries=1",
            "+time=2",
        ];
        command("dig", &[&base, words].concat(), b"").status
    };
    assert_eq!((other(&[]), other(&["+tcp"])), (0, 0));
    server.upgrade();
    assert!(answers(&[]) && answers(&["+tcp"]) && has("b.test"));
    assert_eq!((other(&[]), other(&["+tcp"])), (0, 0));
    assert!(!server.log().contains("bind()"), "{}", server.log());
    // The address goes again.
    server.configure(&of(LISTEN, "b.test"));
    signal(server.pid(), "HUP");
    reloaded(2);
    assert!(answers(&[]) && answers(&["+tcp"]));
    wait_for("the other address to be closed", || {
        (other(&[]) != 0 && other(&["+tcp"]) != 0).then_some(())
    });
    server.expect_alert("exited on signal 9");
    let [worker] = sealane_tests::upgrade::children(server.pid())[..] else {
        panic!("there is one worker");
    };
    signal(worker, "KILL");
    assert!(answers(&[]) && answers(&["+tcp"]) && has("b.test"));
}

#[test]
fn a_reload_can_bring_the_first_address_and_take_the_last() {
    let site = lonely_site();
    let http = issuer("");
    let without = configuration(&http, &servers("a.test"));
    let with = configuration(&issuer(LISTEN), &servers("a.test"));
    let server = start(&site, &http, &servers("a.test"));
    let port = site.port("dns").to_string();
    let ask = || {
        let words = [
            "@127.0.0.3",
            "-p",
            &port,
            "acme.test",
            "SOA",
            "+tries=1",
            "+time=2",
        ];
        command("dig", &words, b"").status
    };
    for _ in 0..2 {
        assert_eq!(reload(&site, &server, &with), Reload::Applied);
        assert_eq!(ask(), 0);
        assert_eq!(reload(&site, &server, &without), Reload::Applied);
        wait_for("the address to be closed", || (ask() != 0).then_some(()));
    }
}

#[test]
fn addresses_that_cannot_be_served_are_refused_with_a_reason() {
    let site = lonely_site();
    let test = |dns: &str| {
        let issuer = issuer(&format!("challenge dns-01; {dns}"));
        let text = site.fill_in(&configuration(&issuer, &servers("a.test")));
        let file = site.write("tested.conf", text).display().to_string();
        let prefix = site.path("").display().to_string();
        let binary = sealane_binary().display().to_string();
        command(&binary, &["-t", "-p", &prefix, "-c", &file], b"")
    };
    test("dns_listen 127.0.0.3:%dns% [::1]:%dns% ns=ns.test.;").success();
    for (dns, expected) in [
        ("dns_listen 127.0.0.1;", "has no \"ns=\""),
        ("dns_listen ns=ns.test;", "has no address"),
        ("dns_listen 0.0.0.0 ns=ns.test;", "write the address itself"),
        ("dns_listen [::]:53 ns=ns.test;", "write the address itself"),
        (
            "dns_listen 127.0.0.1:0 ns=ns.test;",
            "write the address itself",
        ),
        (
            "dns_listen localhost ns=ns.test;",
            "it is an address of this machine",
        ),
        (
            "dns_listen 127.0.0.1 127.0.0.1:53 ns=ns.test;",
            "has this address twice",
        ),
        (
            "dns_listen 127.0.0.1 ns=a..b;",
            "invalid parameter \"ns=a..b\"",
        ),
        (
            "dns_listen 127.0.0.1 ns=ns.test zone=;",
            "invalid parameter \"zone=\"",
        ),
        (
            "dns_listen 127.0.0.1:%http% ns=ns.test;",
            "have the same address",
        ),
        (
            "dns_update 127.0.0.1; dns_listen 127.0.0.1 ns=ns.test;",
            "is not used together with \"dns_update\"",
        ),
        (
            "dns_listen 192.0.2.1:%dns% ns=ns.test;",
            "99: Cannot assign requested address",
        ),
    ] {
        let outcome = test(dns);
        assert_ne!(outcome.status, 0, "{dns}");
        assert!(
            outcome.stderr.contains(expected),
            "{dns}: {}",
            outcome.stderr
        );
    }
}
