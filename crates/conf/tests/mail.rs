//! The `mail` block: what it may contain, what it becomes, and what it is refused for.

use sealane_conf::model::{
    Config, MailAuthMethod, MailProtocol, MailServer, MailStartTls, PeerAddress, SendProxyProtocol,
    Server, ServerKind,
};
use sealane_conf::{MemoryLoader, Options, parse};
use std::sync::Arc;
use std::time::Duration;

/// Reads a whole configuration; the error is the message alone.
fn read(text: &str) -> Result<Config, String> {
    let mut options = Options::new("/etc/nginx/nginx.conf", "/srv");
    options.hostname = "host.example".to_owned();
    let mut loader = MemoryLoader::new().with("/etc/nginx/nginx.conf", text);
    parse(&options, &mut loader).map_err(|failure| failure.error.message)
}

/// The servers of a `mail` block.
fn servers(inside: &str) -> Result<Vec<Arc<Server>>, String> {
    let config = read(&format!("events {{}} mail {{ {inside} }}"))?;
    Ok(config.http.expect("a block was read").servers)
}

fn mail(inside: &str) -> Arc<MailServer> {
    let servers = servers(inside).unwrap_or_else(|error| panic!("{inside}: {error}"));
    servers[0].mail.clone().expect("a server of mail")
}

fn refusal(inside: &str) -> String {
    servers(inside).expect_err(inside)
}

#[test]
fn a_server_has_the_defaults_of_nginx() {
    let all = servers("auth_http 127.0.0.1; server { listen 143; }").expect("it is right");
    assert_eq!(all[0].kind(), ServerKind::Mail);
    assert!(all[0].tls.is_none());
    let mail = all[0].mail.clone().expect("a server of mail");
    assert_eq!(mail.protocol, MailProtocol::Imap);
    assert_eq!(mail.server_name, "host.example");
    assert_eq!(mail.starttls, MailStartTls::Off);
    assert_eq!(mail.timeout, Duration::from_secs(60));
    assert_eq!(mail.max_errors, 5);
    assert_eq!((&mail.capabilities, &mail.auth), (&None, &None));
    assert_eq!(mail.client_buffer_bytes, 4096);
    assert_eq!(mail.greeting_delay, Duration::ZERO);
    let service = &mail.auth_http;
    assert_eq!((&*service.host, &*service.uri), ("127.0.0.1", "/"));
    assert_eq!(service.timeout, Duration::from_secs(60));
    assert!(!service.passes_certificate && service.headers.is_empty());
    let proxy = &mail.proxy;
    assert_eq!(
        (proxy.buffer_bytes, proxy.timeout),
        (4096, Duration::from_secs(86_400))
    );
    assert!(proxy.xclient && !proxy.smtp_auth && !proxy.pass_error_message);
}

#[test]
fn what_is_written_holds_and_is_inherited() {
    let all = servers(
        "server_name mx.example; auth_http http://localhost:9000/ask?x=1; auth_http_header X-Key v;
         auth_http_header X-Other w; timeout 5s; max_errors 2; proxy_timeout 1h; proxy_buffer 8k;
         xclient off; proxy_smtp_auth on; proxy_pass_error_message on; proxy_protocol v2;
         smtp_capabilities SIZE PIPELINING; smtp_capabilities DSN; smtp_auth login none cram-md5;
         smtp_client_buffer 2k; smtp_greeting_delay 3s; imap_auth xoauth2; auth_http_timeout 7s;
         starttls on; ssl_certificate c; ssl_certificate_key k; auth_http_pass_client_cert on;
         server { listen 25; protocol smtp; proxy on; }
         server { listen 993 ssl; listen 1143; server_name other; imap_client_buffer 1k; imap_auth plain oauthbearer;
                  auth_http unix:/run/auth:/a; starttls only; auth_http_header X-Mine y; }",
    );
    let all = all.expect("it is right");
    let one = all[0].mail.clone().expect("mail");
    assert_eq!(
        (one.protocol, &*one.server_name),
        (MailProtocol::Smtp, "mx.example")
    );
    assert_eq!(one.starttls, MailStartTls::On);
    let capabilities = one.capabilities.clone().expect("given");
    assert_eq!(capabilities.join(" "), "SIZE PIPELINING DSN");
    let methods = [
        MailAuthMethod::Login,
        MailAuthMethod::None,
        MailAuthMethod::CramMd5,
    ];
    assert_eq!(one.auth.as_deref(), Some(&methods[..]));
    assert_eq!((one.client_buffer_bytes, one.max_errors), (2048, 2));
    assert_eq!(one.greeting_delay, Duration::from_secs(3));
    assert_eq!(one.timeout, Duration::from_secs(5));
    let service = &one.auth_http;
    let addresses: Vec<_> = service
        .addresses
        .iter()
        .map(PeerAddress::to_string)
        .collect();
    assert_eq!(addresses, ["127.0.0.1:9000"]);
    assert_eq!((&*service.host, &*service.uri), ("localhost", "/ask?x=1"));
    let names: Vec<_> = service.headers.iter().map(|header| &*header.0).collect();
    assert_eq!(names, ["X-Key", "X-Other"]);
    assert!(service.passes_certificate);
    assert_eq!(service.timeout, Duration::from_secs(7));
    assert!(!one.proxy.xclient && one.proxy.smtp_auth && one.proxy.pass_error_message);
    assert_eq!(all[0].conf.send_proxy_protocol, SendProxyProtocol::V2);
    let other = all[1].mail.clone().expect("mail");
    assert_eq!(
        (other.protocol, &*other.server_name),
        (MailProtocol::Imap, "other")
    );
    assert_eq!(other.client_buffer_bytes, 1024);
    let methods = [MailAuthMethod::Plain, MailAuthMethod::OauthBearer];
    assert_eq!(other.auth.as_deref(), Some(&methods[..]));
    assert_eq!(
        (&*other.auth_http.host, &*other.auth_http.uri),
        ("localhost", "/a")
    );
    assert_eq!(other.auth_http.addresses[0].to_string(), "unix:/run/auth");
    assert_eq!(other.auth_http.headers.len(), 1);
    assert!(all[1].tls.is_some());
}

#[test]
fn ports_say_which_protocol_is_spoken() {
    for (port, protocol) in [
        (143, MailProtocol::Imap),
        (993, MailProtocol::Imap),
        (110, MailProtocol::Pop3),
        (995, MailProtocol::Pop3),
        (25, MailProtocol::Smtp),
        (465, MailProtocol::Smtp),
        (587, MailProtocol::Smtp),
    ] {
        let inside = format!("auth_http 127.0.0.1; server {{ listen 127.0.0.1:{port}; }}");
        assert_eq!(mail(&inside).protocol, protocol, "{port}");
    }
    // What is written holds, wherever.
    let inside = "auth_http 127.0.0.1; server { listen 25; protocol pop3; }";
    assert_eq!(mail(inside).protocol, MailProtocol::Pop3);
}

#[test]
fn name_servers_can_be_switched_off() {
    let with = servers("resolver 127.0.0.1; auth_http 127.0.0.1; server { listen 25; }");
    assert!(with.expect("right")[0].conf.resolver.is_some());
    let without =
        servers("resolver 127.0.0.1; auth_http 127.0.0.1; server { listen 25; resolver off; }");
    assert!(without.expect("right")[0].conf.resolver.is_none());
    let inside = "auth_http 127.0.0.1; server { listen 25; resolver off; resolver 127.0.0.1; }";
    assert_eq!(refusal(inside), "\"resolver\" directive is duplicate");
}

#[test]
fn what_is_missing_or_wrong_is_refused_in_the_words_of_nginx() {
    let with = |rest: &str| format!("auth_http 127.0.0.1; server {{ listen 25; {rest} }}");
    for (inside, message) in [
        (
            "server { listen 25; }".to_owned(),
            "no \"auth_http\" is defined for server",
        ),
        (
            "auth_http 127.0.0.1; server { listen 1025; }".to_owned(),
            "unknown mail protocol for server",
        ),
        (
            "auth_http 127.0.0.1; server { protocol imap; }".to_owned(),
            "no \"listen\" is defined for server",
        ),
        (with("protocol nntp;"), "unknown protocol \"nntp\""),
        (
            with("listen 26 reuseport;"),
            "invalid parameter \"reuseport\"",
        ),
        (
            with("listen 26 default_server;"),
            "invalid parameter \"default_server\"",
        ),
        (with("listen 26 udp;"), "invalid parameter \"udp\""),
        (
            with("listen 25;"),
            "duplicate \"0.0.0.0:25\" address and port pair",
        ),
        (
            "auth_http 127.0.0.1; server { listen 25; } server { listen 25; }".to_owned(),
            "duplicate \"0.0.0.0:25\" address and port pair",
        ),
        (
            with("listen 127.0.0.1;"),
            "no port in \"127.0.0.1\" of the \"listen\" directive",
        ),
        (with("smtp_auth apop;"), "invalid value \"apop\""),
        (with("imap_auth none;"), "invalid value \"none\""),
        (with("pop3_auth login;"), "invalid value \"login\""),
        (with("starttls maybe;"), "invalid value \"maybe\""),
        (
            with("starttls on;"),
            "no \"ssl_certificate\" is defined for the \"starttls\" directive",
        ),
        (
            with("listen 465 ssl;"),
            "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive",
        ),
        (
            with("auth_http nowhere.example;"),
            "host not found in auth_http \"nowhere.example\"",
        ),
        (
            with("auth_http 127.0.0.1:x;"),
            "invalid port in auth_http \"127.0.0.1:x\"",
        ),
        (
            with("access_log off;"),
            "\"access_log\" directive is not allowed here",
        ),
        (with("set $a b;"), "\"set\" directive is not allowed here"),
    ] {
        assert_eq!(refusal(&inside), message, "{inside}");
    }
    let mut files = MemoryLoader::new().with("/c", "events {} mail {\n server {} }");
    let failure = parse(&Options::new("/c", "/p"), &mut files).expect_err("it listens nowhere");
    let once = "no \"listen\" is defined for server in /c:2";
    assert_eq!(failure.error.headline(), once);
    let twice = read("events {} mail {} mail {}").expect_err("twice");
    assert_eq!(twice, "\"mail\" directive is duplicate");
    let both = "events {} stream { server { listen 25; return a; } } \
                mail { auth_http 127.0.0.1; server { listen 25; } }";
    let both = read(both).expect_err("one address");
    assert_eq!(both, "\"stream\" and \"mail\" both listen on 0.0.0.0:25");
}

#[test]
fn all_three_blocks_stand_side_by_side() {
    let config = read(
        "events {} mail { auth_http 127.0.0.1; server { listen 25; } }
         http { server { listen 80; } } stream { server { listen 1; return a; } }",
    );
    let http = config.expect("it is right").http.expect("blocks were read");
    let kinds: Vec<_> = http.servers.iter().map(|server| server.kind()).collect();
    assert_eq!(
        kinds,
        [ServerKind::Mail, ServerKind::Http, ServerKind::Stream]
    );
    let kinds: Vec<_> = http
        .listeners
        .iter()
        .map(|listener| listener.kind)
        .collect();
    assert_eq!(
        kinds,
        [ServerKind::Mail, ServerKind::Http, ServerKind::Stream]
    );
}
