//! What `upstream`, `resolver`, `set_real_ip_from`, `auth_request`, `mirror`,
//! `client_body_*`, `http2_*` and `listen` mean once they are read: values,
//! defaults and inheritance. What is said about mistakes is in `messages`.

use sealane_conf::model::{
    BalanceMethod, BetterOfTwo, BodyInFile, FrameAllowance, Http, Http2Limits, LocationConf,
    PeerAddress, PeerNetwork, RealIpHeader, SendProxyProtocol, TempPath, TimeUntil, UpstreamPeers,
    Variable,
};
use sealane_conf::variables::Builtin;
use sealane_conf::{MemoryLoader, Options, parse};
use std::sync::Arc;
use std::time::Duration;

fn read(files: MemoryLoader, text: &str) -> Http {
    let mut files = files.with("/etc/nginx.conf", text);
    let options = Options::new("/etc/nginx.conf", "/srv");
    let config = parse(&options, &mut files).unwrap_or_else(|failure| panic!("{failure}"));
    config.http.expect("there is an http block")
}

fn http(inside: &str) -> Http {
    read(
        MemoryLoader::new(),
        &format!("events {{}} http {{ {inside} }}"),
    )
}

fn refused(inside: &str) -> String {
    let text = format!("events {{}} http {{ {inside} }}");
    let mut files = MemoryLoader::new().with("/etc/nginx.conf", text);
    let options = Options::new("/etc/nginx.conf", "/srv");
    parse(&options, &mut files)
        .expect_err("it is refused")
        .to_string()
}

/// `http`, `server`, `location /` and `location /` inside of it.
fn conf(http_level: &str, server: &str, outer: &str, inner: &str) -> [Arc<LocationConf>; 3] {
    let http = http(&format!(
        "{http_level} server {{ {server} location / {{ {outer} location /in {{ {inner} }} }} }}"
    ));
    let server = &http.servers[0];
    let outer = &server.locations.prefix[0];
    let inner = &outer.children.prefix[0];
    [&server.conf, &outer.conf, &inner.conf].map(Arc::clone)
}

fn fixed(peers: &UpstreamPeers) -> Vec<String> {
    match peers {
        UpstreamPeers::Fixed(peers) => peers.iter().map(PeerAddress::to_string).collect(),
        UpstreamPeers::Resolved { .. } => panic!("looked up at run time"),
    }
}

#[test]
fn servers_of_a_block() {
    let http = http(
        "upstream App {
            server 192.0.2.1;
            server [2001:db8::1]:81 weight=5 max_fails=0 fail_timeout=1m max_conns=7;
            server unix:/run/app backup;
            server localhost:82 down;
        }",
    );
    let [group] = &http.upstreams[..] else {
        panic!("one group");
    };
    assert_eq!(
        (&*group.name, group.explicit, group.origin.line),
        ("App", true, 1)
    );
    assert_eq!(group.method, BalanceMethod::RoundRobin);
    assert_eq!(group.zone, None);
    let names: Vec<_> = group.servers.iter().map(|server| &*server.name).collect();
    assert_eq!(
        names,
        [
            "192.0.2.1",
            "[2001:db8::1]:81",
            "unix:/run/app",
            "localhost:82"
        ]
    );
    let [plain, weighted, socket, named] = &group.servers[..] else {
        panic!("four servers");
    };
    assert_eq!(fixed(&plain.peers), ["192.0.2.1:80"]);
    assert_eq!(
        (plain.weight, plain.max_fails, plain.max_conns),
        (1, 1, None)
    );
    assert_eq!(plain.fail_timeout, Duration::from_secs(10));
    assert!(!plain.backup && !plain.down);
    assert_eq!(fixed(&weighted.peers), ["[2001:db8::1]:81"]);
    assert_eq!(
        (weighted.weight, weighted.max_fails, weighted.max_conns),
        (5, 0, Some(7))
    );
    assert_eq!(weighted.fail_timeout, Duration::from_secs(60));
    assert_eq!(fixed(&socket.peers), ["unix:/run/app"]);
    assert!(socket.backup);
    assert_eq!(fixed(&named.peers), ["127.0.0.1:82"]);
    assert!(named.down);
}

#[test]
fn servers_may_be_included() {
    let files = MemoryLoader::new()
        .with("/etc/a.list", "server 192.0.2.1 weight=2;\nleast_conn;")
        .with("/etc/lists/1.list", "server 192.0.2.2;")
        .with("/etc/lists/2.list", "include nested;\nserver 192.0.2.4;")
        .with("/etc/nested", "server 192.0.2.3;");
    let http = read(
        files,
        "events {} http { upstream app { include a.list; include lists/*.list; } }",
    );
    let group = &http.upstreams[0];
    let servers: Vec<_> = group.servers.iter().map(|s| (&*s.name, s.weight)).collect();
    assert_eq!(
        servers,
        [
            ("192.0.2.1", 2),
            ("192.0.2.2", 1),
            ("192.0.2.3", 1),
            ("192.0.2.4", 1)
        ]
    );
    assert_eq!(group.method, BalanceMethod::LeastConn);

    let mut files = MemoryLoader::new()
        .with("/etc/list", "server 192.0.2.1;\nserver 192.0.2.2 fast;")
        .with(
            "/etc/nginx.conf",
            "events {} http { upstream app { include list; } }",
        );
    let failure = parse(&Options::new("/etc/nginx.conf", "/srv"), &mut files);
    assert_eq!(
        failure.expect_err("no such parameter").error.headline(),
        "invalid parameter \"fast\" in /etc/list:2"
    );
}

#[test]
fn methods() {
    let method = |text: &str| {
        let http = http(&format!("upstream u {{ {text} server 192.0.2.1; }}"));
        http.upstreams[0].method.clone()
    };
    assert_eq!(method("least_conn;"), BalanceMethod::LeastConn);
    assert_eq!(method("ip_hash;"), BalanceMethod::IpHash);
    assert_eq!(method("random;"), BalanceMethod::Random { two: None });
    for two in ["random two;", "random two least_conn;"] {
        let two_by = |text: &str| match method(text) {
            BalanceMethod::Random { two } => two,
            other => panic!("{other:?}"),
        };
        assert_eq!(two_by(two), Some(BetterOfTwo::FewerConnections));
        let by_time = |until| Some(BetterOfTwo::LessTime { until });
        let text = |time: &str| format!("random two least_time={time};");
        assert_eq!(two_by(&text("header")), by_time(TimeUntil::Header));
        assert_eq!(two_by(&text("last_byte")), by_time(TimeUntil::LastByte));
    }
    let (all, some) = (None, Some(9));
    assert_eq!(method("vnswrr;"), BalanceMethod::Vnswrr { max_init: all });
    assert_eq!(
        method("vnswrr max_init=9;"),
        BalanceMethod::Vnswrr { max_init: some }
    );
    for (text, expected) in [
        ("hash $request_uri;", false),
        ("hash $request_uri consistent;", true),
    ] {
        let BalanceMethod::Hash { key, consistent } = method(text) else {
            panic!("{text} hashes");
        };
        assert_eq!(consistent, expected);
        assert_eq!(key.parts().len(), 1);
    }
    assert_eq!(
        method("ip_hash; least_conn;"),
        BalanceMethod::LeastConn,
        "the last one"
    );
    for wrong in ["vnswrr max_init=0;", "vnswrr max_init;", "vnswrr x;"] {
        let said = refused(&format!("upstream u {{ {wrong} }}"));
        assert!(said.contains("invalid parameter"), "{said}");
    }
}

#[test]
fn kept_connections() {
    let keepalive = |text: &str| {
        let http = http(&format!("upstream u {{ server 192.0.2.1; {text} }}"));
        http.upstreams[0].keepalive
    };
    let default = keepalive("");
    assert_eq!((default.connections, default.local), (32, true));
    assert_eq!(default.requests, 1000);
    assert_eq!(default.time, Duration::from_secs(3600));
    assert_eq!(default.timeout, Duration::from_secs(60));
    let shared = keepalive("keepalive 8;");
    assert_eq!((shared.connections, shared.local), (8, false));
    let local = keepalive("keepalive 8 local;");
    assert_eq!((local.connections, local.local), (8, true));
    assert_eq!(keepalive("keepalive 0;").connections, 0);
    let limits = keepalive(
        "keepalive_requests 3; keepalive_time 5m; keepalive_timeout 1500ms; keepalive 1;",
    );
    assert_eq!((limits.connections, limits.requests), (1, 3));
    assert_eq!(limits.time, Duration::from_secs(300));
    assert_eq!(limits.timeout, Duration::from_millis(1500));
}

#[test]
fn names_looked_up_at_run_time() {
    let http = http(
        "upstream own { zone own 1m; resolver [::1] valid=5s ipv6=off; resolver_timeout 2s;
            server app.test:81 resolve; server app.test resolve service=http backup; }
         upstream of_http { zone z 64k; server app.test resolve; server 192.0.2.1 resolve; }
         upstream without { server 192.0.2.1; }
         resolver 127.0.0.1 localhost:5353; resolver_timeout 9s;",
    );
    let [own, of_http, without] = &http.upstreams[..] else {
        panic!("three groups");
    };
    let resolved = |port, service: Option<&str>| UpstreamPeers::Resolved {
        host: "app.test".into(),
        port,
        service: service.map(Into::into),
    };
    assert_eq!(own.servers[0].peers, resolved(81, None));
    assert_eq!(own.servers[1].peers, resolved(80, Some("http")));
    let zone = own.zone.as_ref().expect("it has a zone");
    assert_eq!((&*zone.name, zone.size_bytes), ("own", Some(1 << 20)));
    let resolver = own.resolver.as_ref().expect("it has name servers");
    assert_eq!(resolver.servers, ["[::1]:53".parse().expect("an address")]);
    assert_eq!(resolver.valid, Some(Duration::from_secs(5)));
    assert!(resolver.ipv4 && !resolver.ipv6);
    assert_eq!(own.resolver_timeout, Duration::from_secs(2));

    let resolver = of_http.resolver.as_ref().expect("those of http");
    let servers = ["127.0.0.1:53", "127.0.0.1:5353"].map(|at| at.parse().expect("an address"));
    assert_eq!(resolver.servers, servers);
    assert_eq!(
        (resolver.valid, resolver.ipv4, resolver.ipv6),
        (None, true, true)
    );
    assert_eq!(of_http.resolver_timeout, Duration::from_secs(9));
    assert_eq!(
        fixed(&of_http.servers[1].peers),
        ["192.0.2.1:80"],
        "an address is no name"
    );
    assert_eq!(fixed(&without.servers[0].peers), ["192.0.2.1:80"]);
}

#[test]
fn name_servers_are_inherited() {
    let [server, outer, inner] = conf(
        "resolver 192.0.2.1; resolver_timeout 1s;",
        "resolver 192.0.2.2;",
        "",
        "resolver 192.0.2.3; resolver_timeout 2s;",
    );
    let first = |conf: &LocationConf| {
        let resolver = conf.resolver.as_ref().expect("there are name servers");
        (resolver.servers[0].to_string(), conf.resolver_timeout)
    };
    let second = Duration::from_secs(1);
    assert_eq!(first(&server), ("192.0.2.2:53".into(), second));
    assert_eq!(first(&outer), ("192.0.2.2:53".into(), second));
    assert_eq!(first(&inner), ("192.0.2.3:53".into(), 2 * second));
    let [none, ..] = conf("", "", "", "");
    assert!(none.resolver.is_none());
    assert_eq!(none.resolver_timeout, 30 * second);
}

#[test]
fn whose_word_is_taken() {
    let [server, outer, inner] = conf(
        "real_ip_header X-Forwarded-For;",
        "set_real_ip_from 10.0.0.0/8; set_real_ip_from ::1; real_ip_recursive on;",
        "real_ip_header CF-Connecting-IP;",
        "set_real_ip_from unix:; set_real_ip_from localhost; real_ip_header proxy_protocol;",
    );
    let address = |text: &str| text.parse().expect("an address");
    let of = |conf: &LocationConf| conf.real_ip.clone().expect("somebody is trusted");
    assert_eq!(of(&server).header, RealIpHeader::XForwardedFor);
    assert!(of(&server).recursive);
    assert!(of(&server).trusts(address("10.1.2.3")) && of(&server).trusts(address("::1")));
    assert!(!of(&server).trusts(address("11.0.0.1")) && !of(&server).trusts_unix());
    let cloud = RealIpHeader::Field("cf-connecting-ip".into());
    assert_eq!(of(&outer).header, cloud);
    assert_eq!(of(&outer).from, of(&server).from, "inherited");
    assert_eq!(of(&inner).header, RealIpHeader::ProxyProtocol);
    assert_eq!(
        of(&inner).from.len(),
        2,
        "a list of its own replaces the outer one"
    );
    assert_eq!(of(&inner).from[0], PeerNetwork::Unix);
    assert!(of(&inner).trusts_unix() && of(&inner).trusts(address("127.0.0.1")));
    assert!(!of(&inner).trusts(address("10.1.2.3")));
    let [nobody, ..] = conf("real_ip_header X-Real-IP;", "", "", "");
    assert!(nobody.real_ip.is_none());
    let [default, ..] = conf("set_real_ip_from 10.0.0.1;", "", "", "");
    assert_eq!(of(&default).header, RealIpHeader::XRealIp);
    assert!(!of(&default).recursive);
}

#[test]
fn authentication_by_subrequest() {
    let http = http(
        "auth_request /auth; auth_request_set $who $upstream_http_x_user;
         server { location / { auth_request_set $args x; auth_request_set $other $who; }
                  location /open { auth_request off; } }",
    );
    let server = &http.servers[0];
    let of = |conf: &LocationConf| conf.auth_request.clone().expect("there is one");
    let slot = |name: &str| {
        let mut names = http.variables.iter();
        let at = names
            .position(|known| &*known.name == name)
            .expect("the name has a slot");
        Variable::User(u16::try_from(at).expect("few names"))
    };
    let outer = of(&server.conf);
    assert_eq!(&*outer.uri, b"/auth");
    assert_eq!(outer.set.len(), 1);
    assert_eq!(outer.set[0].variable, slot("who"));
    let inner = of(&server.locations.prefix[0].conf);
    assert_eq!(&*inner.uri, b"/auth", "inherited apart from the variables");
    let set: Vec<_> = inner.set.iter().map(|set| set.variable.clone()).collect();
    assert_eq!(set, [Variable::Builtin(Builtin::Args), slot("other")]);
    assert!(server.locations.prefix[1].conf.auth_request.is_none());
}

#[test]
fn mirrors_hints_and_headers_for_origins() {
    let [server, outer, inner] = conf(
        "mirror /a; mirror /b; mirror_request_body off; early_hints $http_a $http_b;",
        "proxy_send_proxy_protocol v2;",
        "mirror off; early_hints 1;",
        "mirror /c; mirror_request_body on; proxy_send_proxy_protocol off;",
    );
    let mirrors = |conf: &LocationConf| -> Vec<Vec<u8>> {
        conf.mirrors.iter().map(|uri| uri.to_vec()).collect()
    };
    assert_eq!(mirrors(&server), [b"/a", b"/b"]);
    assert_eq!(mirrors(&outer), Vec::<Vec<u8>>::new());
    assert_eq!(mirrors(&inner), [b"/c"]);
    assert!(!server.mirror_request_body && inner.mirror_request_body);
    let hints = [&server, &outer, &inner].map(|conf| conf.early_hints.len());
    assert_eq!(hints, [2, 1, 1]);
    assert_eq!(server.send_proxy_protocol, SendProxyProtocol::V2);
    assert_eq!(outer.send_proxy_protocol, SendProxyProtocol::V2);
    assert_eq!(inner.send_proxy_protocol, SendProxyProtocol::Off);
    let [none, ..] = conf("", "", "", "");
    assert!(none.mirrors.is_empty() && none.mirror_request_body && none.early_hints.is_empty());
    assert_eq!(none.send_proxy_protocol, SendProxyProtocol::Off);
}

#[test]
fn where_request_bodies_are_kept() {
    let [server, outer, inner] = conf(
        "client_body_temp_path bodies/ 1 2; client_body_in_file_only clean;",
        "",
        "client_body_temp_path /var/tmp/b; client_body_in_file_only on;",
        "client_body_in_file_only off; client_body_in_single_buffer on;",
    );
    let temp = |path: &str, levels| TempPath {
        path: path.into(),
        levels,
    };
    assert_eq!(
        *server.client_body_temp_path,
        temp("/srv/bodies", [1, 2, 0])
    );
    assert_eq!(*outer.client_body_temp_path, temp("/var/tmp/b", [0, 0, 0]));
    assert_eq!(outer.client_body_temp_path, inner.client_body_temp_path);
    assert_eq!(server.client_body_in_file_only, BodyInFile::Clean);
    assert_eq!(outer.client_body_in_file_only, BodyInFile::On);
    assert_eq!(inner.client_body_in_file_only, BodyInFile::Off);
    assert!(!outer.client_body_in_single_buffer && inner.client_body_in_single_buffer);
    let [default, ..] = conf("", "", "", "");
    assert_eq!(
        *default.client_body_temp_path,
        temp("/srv/client_body_temp", [0, 0, 0])
    );
    assert_eq!(default.client_body_in_file_only, BodyInFile::Off);
}

#[test]
fn http2_settings_and_limits() {
    let http = http(
        "http2 on; http2_max_resets 50; http2_max_pings 7 rate=3; http2_recv_buffer_size 1m;
         http2_chunk_size 17m;
         server { http2_max_concurrent_streams 9; http2_body_preread_size 8m; http2_max_continuations 2;
                  http2_max_header_block_size 1m; http2_max_unread_replies 16;
                  location / { http2_chunk_size 100; } }
         server { http2 off; http2_max_resets 60 rate=0; http2_max_stream_window 1m;
                  http2_max_connection_window 512k; }
         server { listen 82; http2_max_settings 1 rate=1; }",
    );
    let [first, second, third] = [0, 1, 2].map(|at: usize| http.servers[at].http2);
    let allow = |burst, per_second| FrameAllowance { burst, per_second };
    assert_eq!(
        [first, second, third].map(|http2| http2.enabled),
        [true, false, true]
    );
    assert_eq!(first.max_concurrent_streams, 9);
    assert_eq!(second.max_concurrent_streams, 128);
    assert_eq!(first.body_preread_bytes, 8 << 20);
    assert_eq!(
        first.max_stream_window_bytes,
        8 << 20,
        "not below the preread size"
    );
    assert_eq!(first.max_connection_window_bytes, 16 << 20);
    assert_eq!(second.max_stream_window_bytes, 1 << 20);
    assert_eq!(
        second.max_connection_window_bytes,
        1 << 20,
        "not below one stream's"
    );
    assert_eq!(first.limits.resets, allow(50, 33), "the default rate");
    assert_eq!(second.limits.resets, allow(60, 0));
    assert_eq!(first.limits.pings, allow(7, 3));
    assert_eq!(third.limits.settings, allow(1, 1));
    assert_eq!(
        (first.limits.continuations, first.limits.unread_replies),
        (2, 16)
    );
    assert_eq!(first.limits.header_block_bytes, 1 << 20);
    let untouched = Http2Limits {
        resets: second.limits.resets,
        pings: second.limits.pings,
        ..Http2Limits::DEFAULT
    };
    assert_eq!(second.limits, untouched);
    assert_eq!(http.http2_recv_buffer_bytes, 1 << 20);
    assert_eq!(http.servers[0].conf.http2_chunk_bytes, (1 << 24) - 1);
    let location = &http.servers[0].locations.prefix[0].conf;
    assert_eq!(location.http2_chunk_bytes, 100);
    assert!(
        http.listeners.iter().all(|at| !at.options.http2),
        "only \"listen ... http2\" is the address's"
    );

    for (line, said) in [
        ("http2_max_resets 0;", "invalid number"),
        ("http2_max_resets x;", "invalid number"),
        ("http2_max_resets 1 2;", "invalid parameter \"2\""),
        ("http2_max_resets 1 rate=x;", "invalid parameter \"rate=x\""),
        ("http2_max_resets 1; http2_max_resets 1;", "is duplicate"),
        ("http2_max_continuations 0;", "at least 1"),
        ("http2_max_unread_replies 1;", "at least 16"),
        ("http2_max_header_block_size 1k;", "at least 4096"),
        ("http2_max_stream_window 1k;", "between 65535 and"),
        ("http2_max_connection_window 2048m;", "between 65535 and"),
    ] {
        let text = refused(line);
        assert!(text.contains(said), "{line}: {text}");
    }
}

#[test]
fn listeners_with_http2_and_the_proxy_protocol() {
    let http = http(
        "server { listen 81 http2 proxy_protocol; listen 82; }
         server { listen 81; listen 82 proxy_protocol; http2 on; }",
    );
    let options: Vec<_> = http
        .listeners
        .iter()
        .map(|at| (at.options.http2, at.options.proxy_protocol))
        .collect();
    assert_eq!(options, [(true, true), (false, true)]);
}

#[test]
fn what_cannot_be_says_so() {
    let text = refused("upstream u { state /x; server 192.0.2.1; }");
    assert!(text.contains("cannot be used together"), "{text}");
    let text = refused("upstream u { server 192.0.2.1 weight=1000001; }");
    assert!(text.contains("the maximum weight is 1000000"), "{text}");
}

#[test]
fn queues_and_bound_connections() {
    let upstream = |lines: &str| {
        let http = http(&format!("upstream u {{ server 192.0.2.1; {lines} }}"));
        http.upstreams[0].clone()
    };
    let plain = upstream("");
    assert!(plain.queue.is_none() && !plain.ntlm);
    let queue = upstream("queue 100; ntlm;").queue.expect("a queue");
    assert_eq!((queue.limit, queue.timeout), (100, Duration::from_secs(60)));
    let queue = upstream("queue 1 timeout=70ms;").queue.expect("a queue");
    assert_eq!((queue.limit, queue.timeout), (1, Duration::from_millis(70)));
    for (lines, said) in [
        ("queue 0;", "invalid value \"0\" in \"queue\" directive"),
        ("queue many;", "invalid value \"many\""),
        ("queue 1 timeout=0;", "invalid parameter \"timeout=0\""),
        ("queue 1 time=1s;", "invalid parameter \"time=1s\""),
        ("queue 1; queue 2;", "\"queue\" directive is duplicate"),
        ("ntlm; ntlm;", "\"ntlm\" directive is duplicate"),
        ("ntlm on;", "invalid number of arguments"),
        ("random two least_time;", "invalid parameter \"least_time\""),
        ("random least_time=header;", "invalid parameter"),
    ] {
        let text = refused(&format!("upstream u {{ server 192.0.2.1; {lines} }}"));
        assert!(text.contains(said), "{lines}: {text}");
    }
}
