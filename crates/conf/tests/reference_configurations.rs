//! Configurations that people really run start, with the warnings that are
//! meant and no others.

mod support;

use sealane_conf::model::{FilesAt, ListenAddress, LogTarget, SessionCache, WorkerCount};
use sealane_conf::{Config, MemoryLoader, Options, parse};
use std::time::Duration;

/// Reads one configuration out of memory.
fn read(text: &str) -> Config {
    let mut loader = MemoryLoader::new()
        .with("/etc/nginx/nginx.conf", text)
        .with(
            "/etc/nginx/mime.types",
            "types { text/html html htm shtml; text/css css; }",
        );
    let options = Options::new("/etc/nginx/nginx.conf", "/usr/share/nginx");
    parse(&options, &mut loader).unwrap_or_else(|failure| panic!("{failure}"))
}

/// The directives that were warned about.
fn warned(config: &Config) -> Vec<String> {
    let subjects = config.warnings.iter().map(|warning| {
        let subject = warning.message.split('"').nth(1).unwrap_or_default();
        subject.to_owned()
    });
    subjects.collect()
}

#[test]
fn kernel_tls_article() {
    let config = read(
        "worker_processes auto;
         error_log /var/log/nginx/error.log debug;
         events {}
         http {
             sendfile on;
             server {
                 listen 443 ssl;
                 ssl_certificate ssl/example.crt;
                 ssl_certificate_key ssl/example.key;
                 ssl_conf_command Options KTLS;
                 ssl_protocols TLSv1.3;
                 location / { root /data; }
             }
         }",
    );
    assert!(warned(&config).is_empty());
    assert_eq!(config.main.worker_processes, WorkerCount::Auto);
    let http = config.http.as_ref().expect("there is an http block");
    let server = &http.servers[0];
    let tls = server.tls.as_ref().expect("the server has a certificate");
    assert!(tls.protocols.tls_1_3 && !tls.protocols.tls_1_2);
    assert_eq!(tls.conf_commands, [("Options".into(), "KTLS".into())]);
    assert_eq!(http.listeners.len(), 1);
    assert!(http.listeners[0].options.ssl);
    let location = &server.locations.prefix[0].conf;
    assert!(location.sendfile);
    match &location.files_at {
        FilesAt::Root(path) => assert_eq!(path.as_literal(), Some(&b"/data"[..])),
        other => panic!("{other:?}"),
    }
}

#[test]
fn https_tuning_study() {
    let config = read(
        "worker_processes 6;
         events { worker_connections 10240; use epoll; multi_accept on; }
         http {
             include mime.types;
             default_type application/octet-stream;
             sendfile on;
             keepalive_timeout 65;
             server {
                 listen 443 ssl;
                 server_name localhost;
                 access_log off;
                 ssl_certificate cert.pem;
                 ssl_certificate_key cert.key;
                 ssl_session_timeout 1d;
                 ssl_session_cache shared:SSL:50m;
                 ssl_session_tickets on;
                 ssl_session_ticket_key tls_session_ticket.key;
                 ssl_protocols TLSv1 TLSv1.1 TLSv1.2;
                 ssl_ciphers ECDHE-RSA-AES256-SHA384:AES256-SHA256:RC4:HIGH:!aNULL:!MD5;
                 ssl_prefer_server_ciphers on;
                 add_header Strict-Transport-Security max-age=15768000;
                 ssl_stapling on;
                 ssl_stapling_verify on;
                 resolver 127.0.0.1 127.0.0.53 valid=300s;
                 resolver_timeout 5s;
                 ssl_trusted_certificate chain.pem;
                 location / { root html; index index.html index.htm; }
             }
         }",
    );
    assert_eq!(warned(&config), [""; 0]);
    let http = config.http.as_ref().expect("there is an http block");
    let server = &http.servers[0];
    let tls = server.tls.as_ref().expect("it has certificates");
    assert!(
        tls.stapling
            .as_ref()
            .is_some_and(|stapling| stapling.verify)
    );
    let resolver = server.conf.resolver.as_ref().expect("it has name servers");
    let servers = ["127.0.0.1:53", "127.0.0.53:53"].map(|at| at.parse().expect("an address"));
    assert_eq!(resolver.servers, servers);
    assert_eq!(resolver.valid, Some(Duration::from_secs(300)));
    assert_eq!(server.conf.resolver_timeout, Duration::from_secs(5));
    let tls = server.tls.as_ref().expect("the server has a certificate");
    assert_eq!(tls.session_timeout, Duration::from_secs(86_400));
    assert_eq!(
        tls.session_cache,
        SessionCache::Shared {
            name: "SSL".into(),
            bytes: 50 << 20
        }
    );
    assert!(tls.session_tickets && tls.prefer_server_ciphers);
    assert_eq!(
        tls.session_ticket_keys,
        [std::path::PathBuf::from(
            "/etc/nginx/tls_session_ticket.key"
        )]
    );
    assert!(tls.protocols.tls_1_0 && tls.protocols.tls_1_1 && tls.protocols.tls_1_2);
    assert!(!tls.protocols.tls_1_3);
    let location = &server.locations.prefix[0].conf;
    assert!(location.access_logs.is_empty());
    assert_eq!(location.add_headers.len(), 1);
    assert_eq!(location.index.len(), 2);
    match &location.files_at {
        FilesAt::Root(path) => {
            assert_eq!(path.as_literal(), Some(&b"/usr/share/nginx/html"[..]));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn default_file_of_nginx() {
    let config = read(
        "#user  nobody;
         worker_processes  1;
         events { worker_connections  1024; }
         http {
             include       mime.types;
             default_type  application/octet-stream;
             #log_format  main  '$remote_addr - $remote_user [$time_local] \"$request\" ';
             sendfile        on;
             #tcp_nopush     on;
             keepalive_timeout  65;
             #gzip  on;
             server {
                 listen       80;
                 server_name  localhost;
                 location / { root   html; index  index.html index.htm; }
                 error_page   500 502 503 504  /50x.html;
                 location = /50x.html { root   html; }
             }
         }",
    );
    assert_eq!(warned(&config), [""; 0]);
    let http = config.http.as_ref().expect("there is an http block");
    assert!(matches!(&http.listeners[0].address, ListenAddress::Inet(a) if a.port() == 80));
    let server = &http.servers[0];
    assert_eq!(server.conf.error_pages.len(), 1);
    assert_eq!(server.locations.exact.len(), 1);
    let types = &server.conf.types.by_extension;
    assert_eq!(types.get("shtml").map(|t| &**t), Some("text/html"));
    match &server.conf.access_logs[0].target {
        LogTarget::File(path) => assert!(path.ends_with("logs/access.log")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn debian_file() {
    let options = Options::new("/etc/nginx/nginx.conf", "/usr/share/nginx");
    assert!(
        options.conf_path.exists(),
        "Debian's nginx is missing: apt-get install nginx-light"
    );
    match parse(&options, &mut support::Files) {
        Ok(config) => {
            let subjects = warned(&config);
            let others = subjects.iter().filter(|subject| !subject.ends_with(".so"));
            assert_eq!(others.count(), 0, "{subjects:?}");
            let http = config.http.expect("there is an http block");
            assert_eq!(config.events.worker_connections, 768);
            assert!(!http.servers.is_empty());
            let sources: Vec<_> = config.sources.iter().map(|source| &source.path).collect();
            assert!(sources.iter().any(|path| path.ends_with("mime.types")));
        }
        Err(failure) => panic!("{failure}"),
    }
}
