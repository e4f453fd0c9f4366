//! Where tunnels lead to when the client chooses: nowhere but to port 443 of the public Internet,
//! unless the configuration allows more.

use super::*;
use sealane_tests::NameServer;

#[test]
fn nothing_but_https_to_public_addresses_is_reached() {
    let (site, names, far) = (Site::new(), NameServer::start(), Far::echo());
    names.says("local.example", &[Ipv4Addr::LOCALHOST]);
    names.says("metadata.example", &[Ipv4Addr::new(169, 254, 169, 254)]);
    names.says("private.example", &[Ipv4Addr::new(10, 0, 0, 1)]);
    let server = site.serve(&format!(
        "resolver 127.0.0.1:{} ipv6=off;
         upstream behind {{ server 127.0.0.1:{}; }}
         server {{ listen 127.0.0.1:%ports%; tunnel_pass; }}
         server {{ listen 127.0.0.1:%addresses%; tunnel_pass; tunnel_allow_ports all; }}
         server {{ listen 127.0.0.1:%mapped%; tunnel_pass $http_x_to; tunnel_allow_ports all; }}
         server {{ listen 127.0.0.1:%fixed%; tunnel_pass 127.0.0.1:{}; }}
         server {{ listen 127.0.0.1:%other%; location / {{ proxy_pass http://127.0.0.1:{}; }} }}",
        names.port(),
        far.port,
        far.port,
        far.port
    ));
    for port in [1, 22, 25, 80, 442, 444, 8443, 65_535, far.port] {
        assert_eq!(
            status(server.port("ports"), &format!("9.9.9.9:{port}")),
            403
        );
        server.wait_for_log(&format!(
            "tunnel to port {port} refused by \"tunnel_allow_ports\""
        ));
    }
    for (target, kind) in [
        ("127.0.0.1", "loopback"),
        ("127.1.2.3", "loopback"),
        ("0.0.0.0", "unspecified"),
        ("10.1.2.3", "private"),
        ("172.16.0.1", "private"),
        ("192.168.0.1", "private"),
        ("100.64.0.1", "shared (carrier-grade NAT)"),
        ("169.254.169.254", "link-local"),
        ("224.0.0.1", "multicast"),
        ("255.255.255.255", "reserved"),
        ("[::1]", "loopback"),
        ("[::]", "unspecified"),
        ("[::ffff:127.0.0.1]", "loopback"),
        ("[::ffff:a9fe:a9fe]", "link-local"),
        ("[::127.0.0.1]", "loopback"),
        ("[64:ff9b::127.0.0.1]", "loopback"),
        ("[64:ff9b::a00:1]", "private"),
        ("[2002:7f00:1::1]", "loopback"),
        ("[fd00::1]", "private"),
        ("[fe80::1]", "link-local"),
        ("[ff02::1]", "multicast"),
        ("local.example", "loopback"),
        ("LOCAL.example.", "loopback"),
        ("metadata.example", "link-local"),
        ("private.example", "private"),
    ] {
        let target = format!("{target}:{}", far.port);
        assert_eq!(status(server.port("addresses"), &target), 403, "{target}");
        server.wait_for_log(&format!("refused, the address is {kind};"));
    }
    // Other ways to write 127.0.0.1 are names, which nobody knows.
    for target in ["0x7f000001", "2130706433", "127.1", "0177.0.0.1"] {
        let status = status(server.port("addresses"), &format!("{target}:{}", far.port));
        assert!(
            status == 502 || status == 400 || status == 403,
            "{target}: {status}"
        );
    }
    // A group that the configuration has is no way around, nor what another location names.
    for to in ["behind", "unix:/run/x", &format!("127.0.0.1:{}", far.port)] {
        let head = read_head(&mut ask(
            server.port("mapped"),
            "a:1",
            &format!("X-To: {to}\r\n"),
        ));
        assert!(head.starts_with("HTTP/1.1 403 "), "{to}: {head}");
    }
    assert_eq!(far.accepted(), 0, "nothing got through");
    // What the configuration itself says is meant.
    assert_eq!(status(server.port("fixed"), "anything:1"), 200);
}

#[test]
fn what_is_allowed_is_reached_and_its_neighbours_are_not() {
    let (site, far) = (Site::new(), Far::echo());
    let server = site.serve(&format!(
        "server {{ listen 127.0.0.1:%one%; tunnel_pass; tunnel_allow_addresses 127.0.0.1;
                   tunnel_allow_ports 443 {port} 1-2; }}
         server {{ listen 127.0.0.1:%range%; tunnel_pass; tunnel_allow_addresses 127.0.0.0/31;
                   tunnel_allow_ports {port}-{port}; }}
         server {{ listen 127.0.0.1:%all%; tunnel_pass; tunnel_allow_addresses all; tunnel_allow_ports all; }}",
        port = far.port
    ));
    let at = |host: &str| format!("{host}:{}", far.port);
    for port in ["one", "range", "all"] {
        assert_eq!(status(server.port(port), &at("127.0.0.1")), 200, "{port}");
        // Mapped, it is the same address, whatever connecting to it comes to.
        let mapped = status(server.port(port), &at("[::ffff:127.0.0.1]"));
        assert_ne!(mapped, 403, "{port}");
    }
    for port in ["one", "range"] {
        assert_eq!(status(server.port(port), &at("127.0.0.2")), 403, "{port}");
        assert_eq!(status(server.port(port), "127.0.0.1:3"), 403, "{port}");
    }
}

#[test]
fn a_name_that_changes_its_mind_gains_nothing() {
    let (site, names) = (Site::new(), NameServer::start());
    let (inside, outside) = (Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2));
    let secret = Far::echo();
    // The same port at the address that is allowed, which stands for a public one.
    let listener = TcpListener::bind((outside, secret.port)).expect("a free port");
    let public = Far::on(listener, echo);
    let server = site.serve(&format!(
        "resolver 127.0.0.1:{} ipv6=off valid=1s; tunnel_allow_ports all;
         server {{ listen 127.0.0.1:%proxy%; tunnel_pass; tunnel_allow_addresses {outside}; }}",
        names.port()
    ));
    let target = format!("rebind.example:{}", secret.port);
    names.says("rebind.example", &[outside]);
    let asked = names.asked();
    assert_eq!(status(server.port("proxy"), &target), 200);
    let once = names.asked() - asked;
    assert_eq!(
        once, 1,
        "one question, and its answer is what was connected to"
    );
    // Every other answer is the address inside: at most the allowed one is ever reached.
    for round in 0..6 {
        names.says(
            "rebind.example",
            &[if round % 2 == 0 { inside } else { outside }],
        );
        let asked = names.asked();
        sealane_tests::wait_for("the new answer", || {
            let status = status(server.port("proxy"), &target);
            assert!(status == 200 || status == 403, "{status}");
            (names.asked() > asked).then_some(())
        });
    }
    // Of several addresses, those that are refused are left out.
    names.says("both.example", &[inside, outside]);
    let both = format!("both.example:{}", secret.port);
    for _ in 0..6 {
        assert_eq!(status(server.port("proxy"), &both), 200);
    }
    sealane_tests::wait_for("all of them", || (public.accepted() >= 7).then_some(()));
    assert_eq!(secret.accepted(), 0);
}
