use crate::input::{MemoryLoader, Options};
use crate::model::{Config, LocationConf, locations_of};
use crate::parse;
use std::sync::Arc;

fn parsed(http: &str) -> Result<Config, String> {
    let text = format!("events {{}} http {{ {http} }}");
    let mut loader = MemoryLoader::new().with("/etc/nginx.conf", text);
    let config = parse(&Options::new("/etc/nginx.conf", "/usr"), &mut loader);
    config.map_err(|failure| failure.error.headline().to_string())
}

fn locations(config: &Config) -> Vec<Arc<LocationConf>> {
    let servers = config.http.iter().flat_map(|http| &http.servers);
    let all = locations_of(servers.map(|server| &**server));
    all.into_iter().cloned().collect()
}

#[test]
fn what_is_counted_is_not_shown_to_everybody() {
    let server =
        |listen: &str, inside: &str| format!("server {{ {listen} server_name n; {inside} }}");
    for view in ["metrics;", "api;", "api /status/;", "console;"] {
        let location = format!("location /s/ {{ {view} }}");
        let open = [
            server("", &location),
            server("listen 443;", &location),
            server("listen 127.0.0.1:80; listen [::]:80;", &location),
            server("listen 127.0.0.1:80; listen 192.0.2.1:80;", &location),
            server(
                "",
                &format!("location /s/ {{ if ($arg_a) {{ set $b c; }} {view} }}"),
            ),
        ];
        for text in open {
            let Err(error) = parsed(&text) else {
                panic!("{text}");
            };
            let name = view.split([' ', ';']).next().expect("a word");
            assert!(
                error.contains(&format!("\"{name}\" is open to everyone"))
                    && error.contains("server \"n\""),
                "{error}"
            );
        }
        let closed = [
            server(
                "listen 127.0.0.1:80; listen [::1]:80; listen unix:/s;",
                &location,
            ),
            server("allow 10.0.0.1; deny all;", &location),
            server(
                "",
                &format!("location /s/ {{ {view} allow 10.0.0.1; deny all; }}"),
            ),
            server(
                "",
                &format!("location /s/ {{ {view} auth_basic a; auth_basic_user_file f; }}"),
            ),
            server("", &format!("location /s/ {{ {view} auth_request /b; }}")),
            server("", &format!("location /s/ {{ {view} internal; }}")),
            server(
                "listen 443 ssl; ssl_certificate c; ssl_certificate_key k; ssl_verify_client on; \
                 ssl_client_certificate a;",
                &location,
            ),
        ];
        for text in closed {
            if let Err(error) = parsed(&text) {
                panic!("{text}: {error}");
            }
        }
    }
}

#[test]
fn a_zone_is_that_of_its_own_block() {
    let config = parsed(
        "server { status_zone s; location /a/ { status_zone a; if ($arg_b) { set $c d; } \
         location /a/b/ { } } location /e/ { if ($arg_b) { status_zone f; } } }",
    );
    let config = config.expect("valid");
    let zones = locations(&config);
    let zones: Vec<Option<&str>> = zones
        .iter()
        .map(|conf| conf.status_zone.as_deref())
        .collect();
    assert_eq!(zones, [Some("a"), Some("a"), None, None, Some("f")]);
    let http = config.http.expect("there");
    assert_eq!(http.servers[0].conf.status_zone.as_deref(), Some("s"));
}

#[test]
fn names_that_cannot_be_labels_are_refused() {
    let long = "x".repeat(256);
    for (text, message) in [
        ("status_zone \"\";", "invalid value \"\""),
        ("status_zone $host;", "invalid parameter"),
        ("status_zone $host=a;", "invalid parameter"),
        (&*format!("status_zone {long};"), "invalid value"),
        ("status_zone a; status_zone b;", "is duplicate"),
        (
            "location /s/ { api write=yes; allow all; }",
            "invalid parameter",
        ),
        ("location /s/ { api /else/; allow all; }", "invalid value"),
    ] {
        let error = parsed(&format!("server {{ {text} }}")).expect_err(text);
        assert!(error.contains(message), "{text}: {error}");
    }
    let error = parsed("server { } } metrics_memory 4k; http {").expect_err("too small");
    assert!(error.contains("at least 1m"), "{error}");
}
