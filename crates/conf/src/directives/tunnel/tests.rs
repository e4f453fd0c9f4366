//! From directives to the model, and what is refused.

use crate::input::{MemoryLoader, Options};
use crate::model::{Http, Pass, PassTarget, TunnelPass};
use crate::parse;
use std::sync::Arc;
use std::time::Duration;

fn parsed(http: &str) -> Result<Http, String> {
    let text = format!("events {{}} http {{ {http} }}");
    let mut loader = MemoryLoader::new().with("/etc/nginx.conf", text);
    let config = parse(&Options::new("/etc/nginx.conf", "/usr"), &mut loader);
    let config = config.map_err(|failure| failure.error.headline().to_string())?;
    Ok(config.http.expect("it was written"))
}

/// The tunnels of the only server itself.
fn tunnel(http: &str, server: &str) -> Arc<TunnelPass> {
    let http = parsed(&format!("{http} server {{ {server} }}"));
    let http = http.unwrap_or_else(|error| panic!("{error}"));
    assert!(http.servers[0].accepts_connect());
    match &http.servers[0].conf.pass {
        Some(Pass::Tunnel(tunnel)) => tunnel.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn defaults_are_nginxs_and_safe() {
    let tunnel = tunnel("", "tunnel_pass;");
    let upstream = &tunnel.upstream;
    let minute = Duration::from_secs(60);
    assert_eq!(upstream.connect_timeout, minute);
    assert_eq!(upstream.read_timeout, minute);
    assert_eq!(upstream.buffer_bytes, 4 << 10);
    assert!(tunnel.is_chosen_by_client() && tunnel.connect.is_none());
    assert!(tunnel.allows.allows_port(443) && !tunnel.allows.allows_port(563));
    let local = "127.0.0.1".parse().expect("an address");
    assert_eq!(tunnel.allows.addresses.refusal(local), Some("loopback"));
}

#[test]
fn settings_are_inherited_and_passes_are_not() {
    let all = "tunnel_read_timeout 5s; tunnel_buffer_size 64k; tunnel_allow_ports 1-3 9;
               tunnel_allow_addresses 10.0.0.0/8 unix:;";
    let inherited = tunnel(all, "tunnel_pass 127.0.0.1:1;");
    assert_eq!(inherited.upstream.read_timeout, Duration::from_secs(5));
    assert_eq!(inherited.upstream.buffer_bytes, 64 << 10);
    assert!(inherited.allows.allows_port(2) && inherited.allows.allows_port(9));
    assert!(!inherited.allows.allows_port(443));
    assert!(inherited.allows.addresses.unix);
    assert!(matches!(inherited.target, PassTarget::Group(_)));
    assert!(!inherited.is_chosen_by_client());
    let own = tunnel(all, "tunnel_pass; tunnel_allow_ports all;");
    assert!(own.allows.allows_port(25));
    let http = parsed("server { tunnel_pass; location / { } }").expect("valid");
    assert!(http.servers[0].locations.prefix[0].conf.pass.is_none());
    // Another server's tunnels are no reason to accept CONNECT here.
    let http = parsed("server { tunnel_pass; } server { listen 81; }").expect("valid");
    let accept: Vec<bool> = http.servers.iter().map(|s| s.accepts_connect()).collect();
    assert_eq!(accept, [true, false]);
    let inside = "server { location / { if ($arg_a) { tunnel_pass; } } }";
    assert!(parsed(inside).expect("valid").servers[0].accepts_connect());
}

#[test]
fn proxy_connect_is_for_the_server() {
    let plain = tunnel("", "proxy_connect; proxy_connect_data_timeout 7s;");
    assert_eq!(plain.upstream.read_timeout, Duration::from_secs(7));
    assert_eq!(plain.upstream.send_timeout, Duration::from_secs(7));
    assert!(plain.is_chosen_by_client());
    let fixed = tunnel("proxy_connect_address 127.0.0.1:1;", "proxy_connect;");
    assert!(!fixed.is_chosen_by_client());
    for chosen in ["proxy_connect_address $host;", "proxy_connect_address off;"] {
        assert!(
            tunnel(chosen, "proxy_connect;").is_chosen_by_client(),
            "{chosen}"
        );
    }
}

#[test]
fn what_is_refused() {
    for (server, error) in [
        (
            "tunnel_pass; tunnel_pass;",
            "\"tunnel_pass\" directive is duplicate",
        ),
        (
            "tunnel_pass a b;",
            "invalid number of arguments in \"tunnel_pass\" directive",
        ),
        (
            "proxy_connect; proxy_connect;",
            "\"proxy_connect\" directive is duplicate",
        ),
        (
            "tunnel_next_upstream http_500;",
            "invalid value \"http_500\"",
        ),
        ("tunnel_allow_ports 0;", "invalid port \"0\""),
        ("tunnel_allow_ports 65536;", "invalid port \"65536\""),
        ("tunnel_allow_ports 9-3;", "invalid port \"9-3\""),
        ("tunnel_allow_ports 1-;", "invalid port \"1-\""),
        ("tunnel_allow_ports https;", "invalid port \"https\""),
        ("proxy_connect_allow 443,563;", "invalid port \"443,563\""),
        ("tunnel_allow_addresses name;", "invalid parameter \"name\""),
        (
            "tunnel_allow_addresses 10.0.0.0/33;",
            "invalid parameter \"10.0.0.0/33\"",
        ),
        (
            "tunnel_allow_addresses 10.0.0.1/8;",
            "low address bits of 10.0.0.1/8 are meaningless",
        ),
        (
            "location / { proxy_connect; }",
            "\"proxy_connect\" directive is not allowed here",
        ),
    ] {
        let refused = parsed(&format!("server {{ {server} }}")).err();
        let refused = refused.unwrap_or_else(|| panic!("{server}"));
        assert!(refused.contains(error), "{server}: {refused}");
    }
}
