//! `listen ... quic`, `http3_*` and `quic_*`: from the text to the model, and what is refused, in
//! nginx's words.

use sealane_conf::model::{
    CongestionControl, FrameAllowance, Http, Http3, Http3Limits, Listener, LogTarget, QuicRetry,
    QuicSettings, QuicVersion, Server,
};
use sealane_conf::{Config, MemoryLoader, Options, directives, parse};
use std::path::Path;
use std::sync::Arc;

const CERTIFICATE: &str = "ssl_certificate c; ssl_certificate_key k;";

fn options() -> Options {
    Options::new("/etc/nginx.conf", "/srv")
}

fn parsed(text: &str) -> Result<Config, String> {
    let mut files = MemoryLoader::new().with("/etc/nginx.conf", text);
    let config = parse(&options(), &mut files);
    config.map_err(|failure| failure.error.headline())
}

/// The configuration with these lines in `http`, which has a certificate.
fn config(inside: &str) -> Config {
    let text = format!("events {{}} http {{ {CERTIFICATE} {inside} }}");
    parsed(&text).unwrap_or_else(|error| panic!("{error}: {inside}"))
}

fn http(inside: &str) -> Http {
    config(inside).http.expect("it was written")
}

/// The only server, with lines around and in it.
fn server(outer: &str, inner: &str) -> Arc<Server> {
    Arc::clone(&http(&format!("{outer} server {{ listen 443 quic; {inner} }}")).servers[0])
}

fn quic(line: &str) -> QuicSettings {
    server("", line).quic.clone()
}

fn http3(line: &str) -> Http3 {
    server("", line).http3
}

/// What is said, on one line, about lines in `http`, which has a certificate.
fn refused(inside: &str) -> String {
    let text = format!("events {{}} http {{ {CERTIFICATE} {inside} }}");
    parsed(&text).expect_err(inside)
}

/// Address, whether for datagrams, for QUIC, with TLS over TCP, and whether it has a socket.
fn shown(listener: &Listener) -> (String, bool, bool, bool, bool) {
    let options = &listener.options;
    let address = &listener.address;
    (
        address.to_string(),
        address.is_udp(),
        options.quic,
        options.ssl,
        listener.bind,
    )
}

#[test]
fn quic_and_ssl_are_two_addresses() {
    let http = http(
        "server { listen 443 ssl; listen 443 quic reuseport; listen [::]:443 quic; server_name a; }
         server { listen 443 quic default_server; listen 443 ssl; server_name b; }
         server { listen 192.0.2.1:443 quic; server_name c; }
         server { listen 192.0.2.2:443 quic bind; server_name d; }",
    );
    let listeners: Vec<_> = http.listeners.iter().map(shown).collect();
    let expected = [
        ("0.0.0.0:443", false, false, true, true),
        ("0.0.0.0:443", true, true, false, true),
        ("[::]:443", true, true, false, true),
        ("192.0.2.1:443", true, true, false, false),
        ("192.0.2.2:443", true, true, false, true),
    ];
    let expected =
        expected.map(|(address, udp, quic, ssl, bind)| (address.to_owned(), udp, quic, ssl, bind));
    assert_eq!(listeners, expected);
    let servers: Vec<_> = http
        .listeners
        .iter()
        .map(|it| (it.default_server, it.servers.clone()))
        .collect();
    let expected = [
        (0, vec![0, 1]),
        (1, vec![0, 1]),
        (0, vec![0]),
        (2, vec![2]),
        (3, vec![3]),
    ];
    assert_eq!(servers, expected, "each address has its own default server");
    let has_reuseport = |at: usize| http.listeners[at].options.reuseport;
    assert_eq!([has_reuseport(0), has_reuseport(1)], [false, true]);
}

#[test]
fn options_of_a_socket_for_datagrams() {
    let http =
        http("server { listen [::1]:4433 quic rcvbuf=1m sndbuf=2m ipv6only=off reuseport bind; }");
    let options = &http.listeners[0].options;
    assert_eq!(
        (options.rcvbuf_bytes, options.sndbuf_bytes),
        (Some(1 << 20), Some(2 << 20))
    );
    assert!(options.reuseport && !options.ipv6only && options.quic);
}

#[test]
fn parameters_that_exclude_quic() {
    for (other, name) in [
        ("fastopen=1", "fastopen"),
        ("backlog=9", "backlog"),
        ("deferred", "deferred"),
        ("multipath", "multipath"),
        ("ssl", "ssl"),
        ("http2", "http2"),
        ("so_keepalive=off", "so_keepalive"),
        ("proxy_protocol", "proxy_protocol"),
        // In nginx's order, whatever the order of the line is.
        ("proxy_protocol ssl backlog=9", "backlog"),
        ("proxy_protocol http2", "http2"),
    ] {
        for line in [format!("quic {other}"), format!("{other} quic")] {
            let expected = format!(
                "\"listen\" directive \"{name}\" parameter is incompatible with \"quic\" in /etc/nginx.conf:1"
            );
            assert_eq!(
                refused(&format!("server {{ listen 443 {line}; }}")),
                expected
            );
        }
    }
    // Another line of the same port is another address.
    config("server { listen 443 quic; listen 443 ssl http2 backlog=9; }");
}

#[test]
fn an_address_is_named_once_for_each_kind() {
    let twice = |lines: &str| refused(&format!("server {{ {lines} }}"));
    assert_eq!(
        twice("listen 443 quic; listen 443 ssl; listen 443 quic;"),
        "a duplicate listen 0.0.0.0:443 in /etc/nginx.conf:1"
    );
    assert_eq!(
        refused("server { listen 443 quic reuseport; } server { listen 443 quic reuseport; }"),
        "duplicate listen options for 0.0.0.0:443 in /etc/nginx.conf:1"
    );
    assert_eq!(
        refused(
            "server { listen 443 quic default_server; } server { listen 443 quic default_server; }"
        ),
        "a duplicate default server for 0.0.0.0:443 in /etc/nginx.conf:1"
    );
    let message = "\"listen unix:... quic\" is not supported in /etc/nginx.conf:1";
    assert_eq!(twice("listen unix:/s quic;"), message);
}

#[test]
fn only_servers_of_http_speak_quic() {
    let stream = parsed("events {} stream { server { listen 1 quic; return a; } }");
    let message = "invalid parameter \"quic\" in /etc/nginx.conf:1";
    assert_eq!(stream.expect_err("it has no QUIC"), message);
    let mail = parsed("events {} mail { auth_http 192.0.2.1; server { listen 25 quic; } }");
    let message = "invalid parameter \"quic\" in /etc/nginx.conf:1";
    assert_eq!(mail.expect_err("it has no QUIC"), message);
    let both = format!(
        "events {{}} http {{ {CERTIFICATE} server {{ listen 443 quic; }} }}
         stream {{ server {{ listen 443 udp; return a; }} }}"
    );
    let message = "\"http\" and \"stream\" both listen on 0.0.0.0:443 in /etc/nginx.conf:2";
    assert_eq!(parsed(&both).expect_err("one socket has both"), message);
}

#[test]
fn http3_without_quic_is_warned_about() {
    let warnings = |inside: &str| -> Vec<String> {
        let warnings = config(inside).warnings;
        warnings.iter().map(|warning| warning.headline()).collect()
    };
    let expected = "\"http3\" has no effect: no server listens with \"quic\" in /etc/nginx.conf:2";
    for inside in [
        "\n http3 on; server { listen 443 ssl; }",
        "\n server { listen 443 ssl; http3 on; } server { http3 on; }",
    ] {
        assert_eq!(warnings(inside), [expected], "{inside}");
    }
    for inside in [
        "http3 off; server { listen 443 ssl; }",
        "server { listen 443 ssl; }",
        "http3 on; server { listen 443 ssl; } server { listen 444 quic; }",
    ] {
        assert_eq!(warnings(inside), [""; 0], "{inside}");
    }
}

#[test]
fn the_default_server_needs_a_certificate_and_tls_1_3() {
    let bare = |inside: &str| parsed(&format!("events {{}} http {{ {inside} }}"));
    let message = "no \"ssl_certificate\" is defined for the \"listen ... quic\" directive in /etc/nginx.conf:1";
    assert_eq!(
        bare("server { listen 443 quic; }").expect_err("none"),
        message
    );
    // The other servers are looked at where the default one refuses handshakes.
    let refusing = "server { listen 443 quic; ssl_reject_handshake on; }";
    assert!(bare(refusing).is_ok());
    let other = bare(&format!(
        "{refusing} server {{ listen 443 quic; server_name a; }}"
    ));
    assert_eq!(other.expect_err("the second has none"), message);
    assert_eq!(
        refused("ssl_protocols TLSv1.2; server { listen 443 quic; }"),
        "\"ssl_protocols\" must enable TLSv1.3 for the \"listen ... quic\" directive in \
         /etc/nginx.conf:1"
    );
    // Over TCP TLS 1.2 is enough, and another server than the default one may have only that.
    config("ssl_protocols TLSv1.2; server { listen 443 ssl; }");
    config(
        "server { listen 443 quic; } server { listen 443 quic; server_name a; ssl_protocols TLSv1.2; }",
    );
    assert!(server("", "ssl_protocols TLSv1.3;").tls.is_some());
}

#[test]
fn ssl_on_is_about_connections_only() {
    let http = http("ssl on; server { listen 443 quic; listen 80; }");
    let ssl: Vec<_> = http.listeners.iter().map(|it| it.options.ssl).collect();
    assert_eq!(ssl, [false, true]);
}

#[test]
fn defaults() {
    let server = server("", "");
    let quic = &server.quic;
    assert_eq!(quic.versions[..], [QuicVersion::V1, QuicVersion::V2]);
    assert_eq!(
        (quic.retry, quic.gso, quic.mtu_discovery),
        (QuicRetry::From(256), true, true)
    );
    assert_eq!(quic.congestion_control, CongestionControl::Cubic);
    assert_eq!(
        (quic.active_connection_id_limit, &quic.host_key),
        (2, &None)
    );
    assert!(quic.preferred_address.is_none() && quic.qlog.is_none());
    assert_eq!(
        (quic.qlog_max_bytes, quic.qlog_max_connections),
        (64 << 20, 64)
    );
    let http3 = server.http3;
    assert_eq!(
        (http3.enabled, http3.hq, http3.extended_connect),
        (true, false, true)
    );
    assert_eq!(
        (http3.max_concurrent_streams, http3.stream_buffer_bytes),
        (128, 64 << 10)
    );
    assert_eq!(
        (
            http3.max_stream_window_bytes,
            http3.max_connection_window_bytes
        ),
        (4 << 20, 16 << 20)
    );
    assert_eq!(
        (http3.max_table_capacity_bytes, http3.max_blocked_streams),
        (4096, 16)
    );
    assert_eq!(http3.limits, Http3Limits::DEFAULT);
    let http = http("server { listen 443 quic; }");
    assert_eq!((http.quic_node_id, http.quic_max_handshakes), (None, None));
}

/// Of each directive a line with a value that is not the default.
const LINES: &[&str] = &[
    "http2_extended_connect off;",
    "http3 off;",
    "http3_hq on;",
    "http3_extended_connect off;",
    "http3_max_concurrent_streams 10;",
    "http3_stream_buffer_size 32k;",
    "http3_max_stream_window 1m;",
    "http3_max_connection_window 32m;",
    "http3_max_table_capacity 8k;",
    "http3_max_blocked_streams 100;",
    "http3_max_resets 9;",
    "http3_max_empty_frames 9 rate=1;",
    "http3_max_priority_frames 9;",
    "http3_max_unidirectional_streams 9;",
    "http3_max_oversized_heads 9;",
    "http3_max_header_block_size 128k;",
    "quic_retry on;",
    "quic_host_key host.key;",
    "quic_gso off;",
    "quic_active_connection_id_limit 4;",
    "quic_versions 2;",
    "quic_congestion_control bbr;",
    "quic_mtu_discovery off;",
    "quic_preferred_address 192.0.2.1:443;",
    "quic_qlog logs/qlog;",
    "quic_qlog_max_size 1g;",
    "quic_qlog_max_connections 9;",
];

#[test]
fn settings_of_http_hold_for_its_servers_and_those_of_a_server_for_itself() {
    let model =
        |server: &Server| format!("{:?} {:?} {:?}", server.http2, server.http3, server.quic);
    let default = model(&server("", ""));
    for line in LINES {
        let inherited = model(&server(line, ""));
        assert_ne!(inherited, default, "{line} changes nothing");
        assert_eq!(inherited, model(&server("", line)), "{line}");
        let http = http(&format!(
            "server {{ listen 443 quic; {line} }} server {{ listen 444 quic; }}"
        ));
        assert_eq!(model(&http.servers[1]), default, "{line} is of one server");
    }
    // What is written inside wins, also where it is the default.
    for (outer, inner) in [
        ("http3 off;", "http3 on;"),
        ("quic_retry on;", "quic_retry 256;"),
        ("quic_versions 2;", "quic_versions 1 2;"),
        ("quic_qlog q;", "quic_qlog off;"),
        (
            "quic_preferred_address 192.0.2.1:1;",
            "quic_preferred_address off;",
        ),
        ("http3_max_resets 1 rate=1;", "http3_max_resets 400;"),
    ] {
        assert_eq!(model(&server(outer, inner)), default, "{outer} {inner}");
    }
}

#[test]
fn every_directive_of_the_two_modules_is_tested_for_inheritance_and_duplicates() {
    let of_servers = directives::rows().filter(|row| {
        let is_one = row.name.starts_with("http3") || row.name.starts_with("quic_");
        is_one && row.contexts & directives::SERVER != 0
    });
    let mut names: Vec<_> = of_servers.map(|row| row.name).collect();
    names.sort_unstable();
    let named = LINES
        .iter()
        .filter_map(|line| line.split([' ', ';']).next());
    let mut tested: Vec<_> = named.filter(|name| !name.starts_with("http2")).collect();
    tested.sort_unstable();
    assert_eq!(tested, names);
    for line in LINES
        .iter()
        .copied()
        .chain(["quic_node_id 1;", "quic_max_handshakes 5;"])
    {
        let name = line.split(' ').next().expect("a name");
        let message = format!("\"{name}\" directive is duplicate in /etc/nginx.conf:1");
        assert_eq!(refused(&format!("{line} {line}")), message);
    }
}

#[test]
fn values_reach_the_model() {
    let retry = |value: &str| quic(&format!("quic_retry {value};")).retry;
    assert_eq!(retry("off"), QuicRetry::Never);
    assert_eq!(retry("ON"), QuicRetry::Always);
    assert_eq!(retry("0"), QuicRetry::Always);
    assert_eq!(retry("5"), QuicRetry::From(5));
    let congestion =
        |value: &str| quic(&format!("quic_congestion_control {value};")).congestion_control;
    assert_eq!(congestion("bbr"), CongestionControl::Bbr);
    assert_eq!(congestion("newreno"), CongestionControl::NewReno);
    let versions = |value: &str| quic(&format!("quic_versions {value};")).versions.to_vec();
    assert_eq!(versions("2 1"), [QuicVersion::V2, QuicVersion::V1]);
    assert_eq!(versions("1"), [QuicVersion::V1]);
    let key = quic("quic_host_key keys/host;").host_key;
    assert_eq!(
        key.as_deref(),
        Some(Path::new("/etc/keys/host")),
        "as certificates, beside the file"
    );
    let resets = http3("http3_max_resets 7 rate=3;").limits.resets;
    assert_eq!(
        resets,
        FrameAllowance {
            burst: 7,
            per_second: 3
        }
    );
    let resets = http3("http3_max_resets 7;").limits.resets;
    assert_eq!(resets.per_second, Http3Limits::DEFAULT.resets.per_second);
    let http = http("quic_node_id 65535; quic_max_handshakes 100; server { listen 443 quic; }");
    assert_eq!(
        (http.quic_node_id, http.quic_max_handshakes),
        (Some(65535), Some(100))
    );
}

#[test]
fn preferred_addresses_are_at_most_one_of_each_family() {
    let written = |value: &str| quic(&format!("quic_preferred_address {value};")).preferred_address;
    let both = written("[2001:db8::1]:8443 192.0.2.1:443").expect("two addresses");
    assert_eq!(both.v4, Some("192.0.2.1:443".parse().expect("an address")));
    assert_eq!(
        both.v6,
        Some("[2001:db8::1]:8443".parse().expect("an address"))
    );
    let one = written("[2001:db8::1]:8443").expect("an address");
    assert!(one.v4.is_none() && one.v6.is_some());
    let bad = |value: &str| refused(&format!("quic_preferred_address {value};"));
    // RFC 9000 section 18.2: zeros mean that there is no address of the family.
    for value in [
        "192.0.2.1",
        "0.0.0.0:443",
        "192.0.2.1:0",
        "[::]:443",
        "example.org:443",
        "443",
        "on",
        "\"\"",
    ] {
        let shown = value.trim_matches('"');
        assert_eq!(
            bad(value),
            format!("invalid value \"{shown}\" in /etc/nginx.conf:1")
        );
    }
    assert_eq!(
        bad("192.0.2.1:443 192.0.2.2:443"),
        "another address of the same family \"192.0.2.2:443\" in /etc/nginx.conf:1"
    );
    assert_eq!(
        bad("192.0.2.1:443 off"),
        "invalid value \"off\" in /etc/nginx.conf:1"
    );
}

#[test]
fn qlog_is_for_all_clients_or_some() {
    let qlog = quic("quic_qlog logs/qlog;").qlog.expect("it is on");
    assert_eq!(qlog.directory, Path::new("/srv/logs/qlog"));
    let LogTarget::Paths(paths) = qlog.log_target() else {
        panic!("its files are named after connections");
    };
    assert_eq!(paths.written, Path::new("/srv/logs/qlog/*.sqlog"));
    let client = |text: &str| text.parse().expect("an address");
    assert!(qlog.records(client("192.0.2.1")) && qlog.records(client("2001:db8::1")));
    let some = quic("quic_qlog /q 192.0.2.0/24 2001:db8::1;")
        .qlog
        .expect("it is on");
    assert_eq!(some.directory, Path::new("/q"));
    for (text, is_recorded) in [
        ("192.0.2.9", true),
        ("192.0.3.1", false),
        ("2001:db8::1", true),
        ("2001:db8::2", false),
    ] {
        assert_eq!(some.records(client(text)), is_recorded, "{text}");
    }
    assert_eq!(
        refused("quic_qlog /q example.org;"),
        "invalid parameter \"example.org\" in /etc/nginx.conf:1"
    );
    let config = config("quic_qlog /q 192.0.2.1/24;");
    assert_eq!(config.warnings.len(), 1);
    assert_eq!(
        config.warnings[0].message,
        "low address bits of 192.0.2.1/24 are meaningless"
    );
}

#[test]
fn retry_is_due_from_a_number_of_handshakes_on() {
    assert!(!QuicRetry::Never.is_due(usize::MAX) && QuicRetry::Always.is_due(0));
    let from = QuicRetry::From(3);
    assert_eq!(
        [2, 3, 4].map(|handshakes| from.is_due(handshakes)),
        [false, true, true]
    );
}

#[test]
fn values_that_nginx_takes_are_brought_into_what_the_protocol_allows() {
    // RFC 9000 section 18.2: active_connection_id_limit is at least 2.
    let limit = |value: &str| {
        quic(&format!("quic_active_connection_id_limit {value};")).active_connection_id_limit
    };
    assert_eq!(
        ["0", "2", "5", "9223372036854775807"].map(limit),
        [2, 2, 5, 8]
    );
    let streams = |value: &str| {
        http3(&format!("http3_max_concurrent_streams {value};")).max_concurrent_streams
    };
    assert_eq!(
        ["0", "65536", "9223372036854775807"].map(streams),
        [0, 65536, 65536]
    );
    let buffer =
        |value: &str| http3(&format!("http3_stream_buffer_size {value};")).stream_buffer_bytes;
    assert_eq!(["0", "4k", "1m"].map(buffer), [4096, 4096, 1 << 20]);
    // Windows are never below what they contain.
    let large = http3("http3_stream_buffer_size 32m;");
    assert_eq!(
        (
            large.max_stream_window_bytes,
            large.max_connection_window_bytes
        ),
        (32 << 20, 32 << 20)
    );
    let huge = http3("http3_stream_buffer_size 8796093022207m;");
    assert_eq!(huge.max_connection_window_bytes, u32::MAX);
}

#[test]
fn values_that_are_refused() {
    for (line, message) in [
        (
            "http3 maybe;",
            "invalid value \"maybe\" in \"http3\" directive, it must be \"on\" or \"off\"",
        ),
        (
            "http3_hq 1;",
            "invalid value \"1\" in \"http3_hq\" directive, it must be \"on\" or \"off\"",
        ),
        (
            "http3_max_concurrent_streams -1;",
            "\"http3_max_concurrent_streams\" directive invalid number",
        ),
        (
            "http3_stream_buffer_size x;",
            "\"http3_stream_buffer_size\" directive invalid value",
        ),
        (
            "quic_active_connection_id_limit a;",
            "\"quic_active_connection_id_limit\" directive invalid number",
        ),
        (
            "quic_retry yes;",
            "invalid value \"yes\" in \"quic_retry\" directive, it must be \"on\" or \"off\"",
        ),
        (
            "quic_retry 4294967296;",
            "invalid value \"4294967296\" in \"quic_retry\" directive, it must be \"on\" or \"off\"",
        ),
        (
            "quic_gso x;",
            "invalid value \"x\" in \"quic_gso\" directive, it must be \"on\" or \"off\"",
        ),
        (
            "quic_host_key;",
            "invalid number of arguments in \"quic_host_key\" directive",
        ),
        ("quic_versions 3;", "invalid value \"3\""),
        ("quic_versions 1 1;", "duplicate value \"1\""),
        (
            "quic_versions 1 2 1;",
            "invalid number of arguments in \"quic_versions\" directive",
        ),
        ("quic_congestion_control reno;", "invalid value \"reno\""),
        (
            "http3_max_table_capacity 65k;",
            "\"http3_max_table_capacity\" directive value must be at most 65536",
        ),
        (
            "http3_max_blocked_streams 1001;",
            "\"http3_max_blocked_streams\" directive value must be at most 1000",
        ),
        (
            "http3_max_resets 0;",
            "\"http3_max_resets\" directive invalid number",
        ),
        ("http3_max_resets 1 x;", "invalid parameter \"x\""),
        (
            "http3_max_header_block_size 1k;",
            "\"http3_max_header_block_size\" directive value must be at least 4096",
        ),
        (
            "http3_max_stream_window 1k;",
            "\"http3_max_stream_window\" directive value must be between 65535 and 2147483647",
        ),
        (
            "quic_node_id 65536;",
            "\"quic_node_id\" directive value must be at most 65535",
        ),
        (
            "quic_node_id a;",
            "\"quic_node_id\" directive invalid number",
        ),
        (
            "quic_max_handshakes 4294967296;",
            "\"quic_max_handshakes\" directive invalid number",
        ),
        (
            "server { quic_node_id 1; }",
            "\"quic_node_id\" directive is not allowed here",
        ),
        (
            "server { quic_max_handshakes 1; }",
            "\"quic_max_handshakes\" directive is not allowed here",
        ),
        (
            "server { location / { http3 on; } }",
            "\"http3\" directive is not allowed here",
        ),
        ("quic_bpf on;", "\"quic_bpf\" directive is not allowed here"),
    ] {
        assert_eq!(
            refused(line),
            format!("{message} in /etc/nginx.conf:1"),
            "{line}"
        );
    }
    let main = |line: &str| parsed(&format!("{line} events {{}}"));
    assert!(main("quic_bpf on;").is_ok() && main("quic_bpf off;").is_ok());
    let message = "invalid value \"1\" in \"quic_bpf\" directive, it must be \"on\" or \"off\" in /etc/nginx.conf:1";
    assert_eq!(main("quic_bpf 1;").expect_err("a flag"), message);
}

#[test]
fn variables_of_quic() {
    config("log_format l '$http3 $quic'; server { listen 443 quic; return 200 $http3$quic; }");
    let stream = parsed("events {} stream { server { listen 1; return $quic; } }");
    assert_eq!(
        stream.expect_err("layer 4 has none"),
        "unknown \"quic\" variable"
    );
}
