//! What files of real sites contain: lines for what is not built yet, and for older versions of
//! nginx.

use sealane_conf::model::Config;
use sealane_conf::survey::{RefusalKind, survey};
use sealane_conf::{MemoryLoader, Options, parse};

fn read(text: &str) -> Result<Config, String> {
    let mut files = MemoryLoader::new().with("/etc/nginx.conf", text);
    let options = Options::new("/etc/nginx.conf", "/srv");
    parse(&options, &mut files).map_err(|failure| failure.error.message)
}

/// The configuration with these lines in `http`, or the message that refuses it.
fn http(inside: &str) -> Result<Config, String> {
    read(&format!("events {{}} http {{ {inside} }}"))
}

fn warnings(config: &Config) -> Vec<&str> {
    let warnings = config.warnings.iter();
    warnings.map(|warning| warning.message.as_str()).collect()
}

/// The addresses that are listened on, and whether with TLS.
fn listeners(config: &Config) -> Vec<(String, bool)> {
    let http = config.http.as_ref().expect("there is an http block");
    let listeners = http.listeners.iter();
    listeners
        .map(|listener| (listener.address.to_string(), listener.options.ssl))
        .collect()
}

const CERTIFICATE: &str = "ssl_certificate c; ssl_certificate_key k;";

#[test]
fn blocks_of_other_servers_may_be_there_if_they_are_empty() {
    for inside in ["", "# nothing\n", "include mail.d/*.conf;"] {
        let text = format!("events {{}} mail {{ {inside} }} http {{}}");
        assert!(read(&text).is_ok(), "{text}");
    }
    assert!(
        read("mail { include one.conf; }").is_err(),
        "a file that is named must exist"
    );
}

#[test]
fn quic_listens_beside_ssl() {
    let text = format!(
        "server {{ listen 8443 quic reuseport; listen 8443 ssl; http3 on; quic_retry on; {CERTIFICATE} }}"
    );
    let config = http(&text).expect("it is taken");
    assert_eq!(
        config.http.as_ref().map(|http| http.listeners.len()),
        Some(2)
    );
    assert_eq!(warnings(&config), Vec::<String>::new());
    for (other, name) in [
        ("ssl", "ssl"),
        ("http2", "http2"),
        ("proxy_protocol", "proxy_protocol"),
        ("backlog=9", "backlog"),
        ("deferred", "deferred"),
    ] {
        let refusal = http(&format!("server {{ listen 8443 quic {other}; }}"));
        assert_eq!(
            refusal.expect_err("nginx refuses it"),
            format!("\"listen\" directive \"{name}\" parameter is incompatible with \"quic\"")
        );
    }
}

#[test]
fn ssl_on_is_what_the_parameter_of_listen_is() {
    let text = format!(
        "server {{ listen 8443; ssl on; {CERTIFICATE} }} server {{ listen 8080; ssl off; }}"
    );
    let config = http(&text).expect("it is taken");
    let expected = [("0.0.0.0:8443", true), ("0.0.0.0:8080", false)];
    let expected = expected.map(|(address, ssl)| (address.to_owned(), ssl));
    assert_eq!(listeners(&config), expected);
    let deprecated =
        "the \"ssl\" directive is deprecated, use the \"listen ... ssl\" directive instead";
    assert_eq!(warnings(&config), [deprecated, deprecated]);
    // As with the parameter, a certificate is required.
    assert!(http("server { listen 8443; ssl on; }").is_err());
    // The default server of an address decides.
    let other =
        format!("server {{ listen 8080; }} server {{ listen 8080; ssl on; {CERTIFICATE} }}");
    let config = http(&other).expect("it is taken");
    assert_eq!(listeners(&config), [("0.0.0.0:8080".to_owned(), false)]);
}

#[test]
fn accept_filters_are_ignored_as_on_linux() {
    let config = http("server { listen 8080 accept_filter=httpready; }").expect("it is taken");
    assert!(
        warnings(&config)[0].starts_with("accept filters \"accept_filter=httpready\""),
        "{:?}",
        warnings(&config)
    );
}

#[test]
fn the_forms_of_purging_are_told_apart() {
    const PATH: &str = "proxy_cache_path /c keys_zone=a:1m; fastcgi_cache_path /f keys_zone=f:1m;";
    let read = |lines: &str| http(&format!("{PATH} {lines}")).map(|_| ());
    for lines in [
        "map $request_method $purge { PURGE 1; default 0; } proxy_cache_purge $purge;",
        "proxy_cache_purge $arg_a $arg_b;",
        "proxy_cache_purge PURGE from 127.0.0.1;",
        "proxy_cache_purge PURGE from 127.0.0.1 10.0.0.0/8 ::1;",
        "proxy_cache_purge PURGE purge_all from all;",
        "proxy_cache_purge on; server { proxy_cache_purge off; }",
        "fastcgi_cache_purge DELETE;",
        "server { location ~ /purge(/.*) { proxy_cache_purge a $host$1; } }",
        "server { location ~ /purge(/.*) { fastcgi_cache_purge f key; } }",
        "proxy_cache a; server { location /p { proxy_cache_purge a $arg_k; } }",
        "cache_purge_response_type json; cache_purge_legacy_status on; cache_purge_vary_aware on;
         cache_purge_background_queue on; cache_purge_queue_size 9; cache_purge_batch_size 9;
         cache_purge_throttle_ms 5ms;",
    ] {
        assert_eq!(read(lines), Ok(()), "{lines}");
    }
    let separate = "\"proxy_cache_purge\" (separate location syntax) is incompatible with";
    for (lines, message) in [
        ("proxy_cache_purge purge;", "invalid parameter \"purge\""),
        ("proxy_cache_purge $a PURGE;", "invalid parameter \"PURGE\""),
        (
            "proxy_cache_purge off from all;",
            "invalid parameter \"from\"",
        ),
        (
            "proxy_cache_purge PURGE 127.0.0.1 all;",
            "invalid parameter \"127.0.0.1\", expected \"from\" keyword",
        ),
        (
            "proxy_cache_purge PURGE from nowhere;",
            "invalid parameter \"nowhere\"",
        ),
        (
            "proxy_cache_purge PURGE purge_all from;",
            "invalid parameter \"from\"",
        ),
        (
            "proxy_cache_purge on; proxy_cache_purge $arg_a;",
            "\"proxy_cache_purge\" directive is duplicate",
        ),
        (
            "proxy_cache_purge $arg_a; proxy_cache_purge on;",
            "\"proxy_cache_purge\" directive is duplicate",
        ),
        (
            "proxy_cache_purge a $uri;",
            "\"proxy_cache_purge\" directive (separate location syntax) is not allowed here",
        ),
        (
            "server { location / { proxy_cache_purge b $uri; } }",
            "\"proxy_cache\" zone \"b\" is unknown",
        ),
        (
            "server { location / { proxy_cache_purge f $uri; } }",
            "the shared memory zone \"f\" is already declared for a different use",
        ),
        (
            "server { location / { proxy_pass http://127.0.0.1; proxy_cache_purge a $uri; } }",
            &format!("{separate} \"proxy_pass\""),
        ),
        (
            "server { location / { proxy_cache_purge a $uri; proxy_pass http://127.0.0.1; } }",
            &format!("{separate} \"proxy_pass\""),
        ),
        (
            "server { location / { proxy_cache a; proxy_cache_purge a $uri; } }",
            &format!("{separate} \"proxy_cache\""),
        ),
    ] {
        assert_eq!(read(lines), Err(message.to_owned()), "{lines}");
    }
}

#[test]
fn a_cache_is_no_reason_for_a_warning() {
    let cached = "proxy_cache_path /c levels=1:2 keys_zone=a:1m max_size=1g inactive=1d
        use_temp_path=off; proxy_cache a; proxy_cache_valid any 1m; proxy_cache_lock on;
        proxy_cache_use_stale error http_504 updating; server { location / {
        proxy_cache_bypass $http_upgrade; proxy_no_cache 1; proxy_pass http://127.0.0.1; } }";
    let config = http(cached).expect("it is taken");
    assert_eq!(warnings(&config), [""; 0]);
    assert_eq!(config.met.idle_count(), 0);
}

#[test]
fn what_is_not_built_yet_is_not_called_wrong() {
    let text = "events {} http {
        upstream u { server 127.0.0.1:1 made_up=1; }
        server { location / { proxy_pass http://u; } }
        server { listen 8443 ssl; ssl_certificate c; ssl_certificate_key engine:e:k; }
    }";
    let mut files = MemoryLoader::new().with("/etc/nginx.conf", text);
    let survey = survey(&Options::new("/etc/nginx.conf", "/srv"), &mut files);
    let of = |name: &str| {
        let refusals = survey.refusals.iter();
        let kinds = refusals.filter(|refusal| refusal.name == name);
        kinds.map(|refusal| refusal.kind).collect::<Vec<_>>()
    };
    assert_eq!(of("ssl_certificate_key"), [RefusalKind::NotYet]);
    assert_eq!(of("server"), [RefusalKind::Wrong]);
    assert_eq!(survey.refusals.len(), 2, "{:?}", survey.refusals);
}

#[test]
fn a_variable_of_a_module_that_is_left_out_is_not_called_wrong() {
    let text = "events {} http { server {
        location /old { if ($geoip_city) { return 403; } }
        location /here { return 200 $geoip_country_code; }
        location /wrong { return 200 $geoip_contry; }
    } }";
    let mut files = MemoryLoader::new().with("/etc/nginx.conf", text);
    let survey = survey(&Options::new("/etc/nginx.conf", "/srv"), &mut files);
    let kind_of = |variable: &str| {
        let message = format!("unknown \"{variable}\" variable");
        let mut refusals = survey.refusals.iter();
        let refusal = refusals.find(|refusal| refusal.diagnostic.message == message);
        let refusal = refusal.expect("it is refused");
        let help = refusal.diagnostic.help.as_deref().expect("there is advice");
        (refusal.kind, help.contains("its module is left out: "))
    };
    for variable in ["geoip_city", "geoip_country_code"] {
        assert_eq!(kind_of(variable), (RefusalKind::Unsupported, true));
    }
    assert_eq!(kind_of("geoip_contry"), (RefusalKind::Wrong, false));
    assert_eq!(survey.refusals.len(), 3, "{:?}", survey.refusals);
}

#[test]
fn a_name_that_nginx_has_no_variable_for_may_be_defined() {
    for name in [
        "upstream_last_server_name",
        "upstream_cache_age",
        "brotli_ratio",
        "zstd_ratio",
    ] {
        for lines in [
            format!("map $host ${name} {{ default a; }} server {{ return 200 ${name}; }}"),
            format!("server {{ set ${name} a; return 200 ${name}; }}"),
        ] {
            assert!(http(&lines).is_ok(), "{lines}: {:?}", http(&lines).err());
        }
    }
    let refusal = http("map $host $upstream_addr { default a; }");
    assert_eq!(
        refusal.expect_err("nginx refuses it"),
        "the duplicate \"upstream_addr\" variable"
    );
}
