use crate::input::{MemoryLoader, Options};
use crate::model::{Http, ListenAddress, Listener};
use crate::parser::parse;
use std::net::SocketAddr;
use std::time::Duration;

fn http(servers: &str) -> (Http, Vec<String>) {
    http_with(servers, true)
}

fn http_with(servers: &str, privileged: bool) -> (Http, Vec<String>) {
    let text = format!("events {{}} http {{ ssl_reject_handshake on; {servers} }}");
    let mut loader = MemoryLoader::new().with("/nginx.conf", text);
    let options = Options {
        privileged,
        ..Options::new("/nginx.conf", "/")
    };
    let config = parse(&options, &mut loader).unwrap_or_else(|failure| panic!("{failure}"));
    let warnings = config
        .warnings
        .iter()
        .map(|warning| warning.message.clone())
        .collect();
    (config.http.expect("http is there"), warnings)
}

fn listeners(servers: &str) -> Vec<Listener> {
    http(servers).0.listeners
}

fn shown(listeners: &[Listener]) -> Vec<String> {
    listeners
        .iter()
        .map(|listener| listener.address.to_string())
        .collect()
}

#[test]
fn forms_of_addresses() {
    let one = |written: &str| shown(&listeners(&format!("server {{ listen {written}; }}")));
    assert_eq!(one("8080"), ["0.0.0.0:8080"]);
    assert_eq!(one("*:8080"), ["0.0.0.0:8080"]);
    assert_eq!(one("*"), ["0.0.0.0:80"]);
    assert_eq!(one("192.0.2.1"), ["192.0.2.1:80"]);
    assert_eq!(one("192.0.2.1:81"), ["192.0.2.1:81"]);
    assert_eq!(one("localhost:81"), ["127.0.0.1:81"]);
    assert_eq!(one("[::]:443"), ["[::]:443"]);
    assert_eq!(one("[2001:db8::1]"), ["[2001:db8::1]:80"]);
    assert_eq!(one("unix:/run/s.sock"), ["unix:/run/s.sock"]);
    assert_eq!(
        one("127.0.0.1:81-83"),
        ["127.0.0.1:81", "127.0.0.1:82", "127.0.0.1:83"]
    );
    assert_eq!(one("81-82"), ["0.0.0.0:81", "0.0.0.0:82"]);
}

#[test]
fn without_listen_the_port_depends_on_privileges() {
    assert_eq!(
        shown(&http_with("server {}", true).0.listeners),
        ["0.0.0.0:80"]
    );
    assert_eq!(
        shown(&http_with("server {}", false).0.listeners),
        ["0.0.0.0:8000"]
    );
}

#[test]
fn options_reach_the_model() {
    let list = listeners(
        "server { listen 81 default_server ssl backlog=1024 rcvbuf=8k sndbuf=16k deferred reuseport
         so_keepalive=30m:10s:5 fastopen=64; listen [::]:81 ipv6only=off; listen 82 so_keepalive=off; }",
    );
    let options = &list[0].options;
    assert!(options.ssl && options.deferred && options.reuseport);
    assert_eq!(options.backlog, 1024);
    assert_eq!(
        (options.rcvbuf_bytes, options.sndbuf_bytes),
        (Some(8192), Some(16384))
    );
    assert_eq!(options.fastopen, Some(64));
    let keepalive = options.so_keepalive.expect("was written");
    assert!(keepalive.on);
    assert_eq!(keepalive.idle, Some(Duration::from_secs(1800)));
    assert_eq!(keepalive.interval, Some(Duration::from_secs(10)));
    assert_eq!(keepalive.count, Some(5));
    assert!(!list[1].options.ipv6only && list[0].options.ipv6only);
    assert_eq!(
        list[2].options.so_keepalive.map(|keepalive| keepalive.on),
        Some(false)
    );
    assert_eq!(list[2].options.backlog, 511);
}

#[test]
fn servers_share_an_address() {
    let (http, warnings) = http(
        "server { listen 81; server_name a; }
         server { listen 81 default_server backlog=9; server_name b; }
         server { listen 81; listen 82; server_name c; }",
    );
    assert_eq!(http.listeners.len(), 2);
    assert_eq!(http.listeners[0].servers, [0, 1, 2]);
    assert_eq!(http.listeners[0].default_server, 1);
    assert_eq!(
        http.listeners[0].options.backlog, 9,
        "options come from the line that has them"
    );
    assert_eq!(http.listeners[1].servers, [2]);
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn ssl_on_one_line_holds_for_the_address() {
    let (http, warnings) = http("server { listen 81 ssl; } server { listen 81; server_name x; }");
    assert!(http.listeners[0].options.ssl);
    assert_eq!(warnings, [""; 0]);
    let (_, warnings) = http_with(
        "server { listen 81 ssl; } server { listen 81; server_name x; }
         server { listen 81 ssl; server_name y; }",
        true,
    );
    assert_eq!(warnings, ["protocol options redefined for 0.0.0.0:81"]);
}

#[test]
fn a_wildcard_accepts_for_the_addresses_of_its_port() {
    let (http, _) = http(
        "server { listen 127.0.0.1:81; server_name a; }
         server { listen 81; server_name b; }
         server { listen 127.0.0.2:81 bind; server_name c; }
         server { listen 127.0.0.1:82; server_name d; }
         server { listen [::1]:81; server_name e; }",
    );
    let bound: Vec<_> = http
        .listeners
        .iter()
        .map(|listener| listener.bind)
        .collect();
    assert_eq!(bound, [false, true, true, true, true]);
    let local = |text: &str| text.parse::<SocketAddr>().expect("an address");
    assert_eq!(http.listener_for(1, local("127.0.0.1:81")), 0);
    assert_eq!(http.listener_for(1, local("127.0.0.9:81")), 1);
    assert_eq!(http.listener_for(2, local("127.0.0.2:81")), 2);
    assert_eq!(
        http.listeners[0].address,
        ListenAddress::Inet(local("127.0.0.1:81"))
    );
}

#[test]
fn names_that_collide_are_ignored_with_a_warning() {
    let (_, warnings) = http(
        "server { listen 81; server_name a .b; } server { listen 81; server_name A *.b b c; }
         server { listen 82; server_name a; }",
    );
    assert_eq!(
        warnings,
        [
            "conflicting server name \"a\" on 0.0.0.0:81, ignored",
            "conflicting server name \"*.b\" on 0.0.0.0:81, ignored",
            "conflicting server name \"b\" on 0.0.0.0:81, ignored",
        ]
    );
}
