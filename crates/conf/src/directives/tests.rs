//! The table itself: it is consistent, its defaults are the real ones, and
//! every setter changes what its row describes.

use super::*;
use crate::input::{MemoryLoader, Options};
use crate::model::{
    AutoindexFormat, CertificateCache, Config, ErrorPageStatus, ErrorPageTarget, Expires, FilesAt,
    LocationConf, LogEscape, LogLevel, LogTarget, Matcher, Op, Return, Server, ServerCertificates,
    ServerName, TryFallback,
};
use crate::parser::parse;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn read(text: &str) -> Config {
    let mut loader = MemoryLoader::new().with("/etc/nginx.conf", text);
    let options = Options {
        hostname: "Box".into(),
        ..Options::new("/etc/nginx.conf", "/usr")
    };
    parse(&options, &mut loader).unwrap_or_else(|failure| panic!("{failure}"))
}

fn refused(text: &str) -> String {
    let mut loader = MemoryLoader::new().with("/etc/nginx.conf", text);
    let failure = parse(&Options::new("/etc/nginx.conf", "/usr"), &mut loader);
    failure.expect_err("the configuration is wrong").to_string()
}

/// The server of a configuration whose `http` contains `outer` and whose only
/// server contains `inner`.
fn server(outer: &str, inner: &str) -> Arc<Server> {
    let config = read(&format!(
        "events {{}} http {{ {outer}\nserver {{ {inner} }} }}"
    ));
    Arc::clone(&config.http.expect("http is there").servers[0])
}

/// Settings of `location /`.
fn location(text: &str) -> Arc<LocationConf> {
    Arc::clone(
        &server("", &format!("location / {{ {text} }}"))
            .locations
            .prefix[0]
            .conf,
    )
}

#[test]
fn names_are_unique_in_each_context() {
    for (index, row) in rows().enumerate() {
        let clash = rows()
            .skip(index + 1)
            .find(|other| other.name == row.name && other.contexts & row.contexts != 0);
        assert!(clash.is_none(), "{} stands twice in the table", row.name);
        assert!(!row.name.is_empty() && row.contexts != 0);
    }
}

#[test]
fn every_row_is_documented() {
    for row in rows() {
        let text = match row.support {
            Support::Implemented(_) | Support::Block(_) => row.doc,
            Support::Meaningless(_, why) | Support::Later(_, why) => why,
            Support::Obsolete(_) => continue,
            Support::Unsupported(why) => why,
        };
        assert!(text.len() > 10, "{} has no explanation", row.name);
        assert!(!text.contains("  "), "{} has a gap in its text", row.name);
    }
}

#[test]
fn defaults_in_the_table_are_the_real_ones() {
    // One media type, as a map of several prints in any order.
    let model = |line: &str, place: &str| {
        let at = |here: &str| if place == here { line } else { "" };
        let (main, events, http, server) = (at("main"), at("events"), at("http"), at("server"));
        let (upstream, issuer) = (at("upstream"), at("acme_issuer"));
        let (process, location) = (at("process"), at("location"));
        let (stream, of_stream) = (at("stream"), at("server in stream"));
        let (mail, of_mail) = (at("mail"), at("server in mail"));
        let mut config = read(&format!(
            "{main} processes {{ process p {{ command /a; {process} }} }} events {{ {events} }} http {{ types {{ a b; }} {http}
             upstream u {{ {upstream} server 192.0.2.1; }}
             otel_exporter {{ endpoint 192.0.2.1:1; }}
             acme_issuer i {{ uri https://a.test/; {issuer} }}
             ssl_certificate c; ssl_certificate_key k; server {{ acme_certificate i a; {server} }}
             server {{ open_file_cache max=1; autoindex on; ssl_dyn_rec_enable on;
             location /p {{ proxy_pass https://192.0.2.1; }} location /f {{ fastcgi_pass 192.0.2.1:1; }}
             location /u {{ uwsgi_pass suwsgi://192.0.2.1:1; }} location /s {{ scgi_pass 192.0.2.1:1; }}
             location /g {{ grpc_pass grpcs://192.0.2.1:1; }}
             location /d {{ dubbo_pass s 0 m u; {location} }} }} }}
             stream {{ {stream} server {{ listen 1; proxy_pass 192.0.2.1:1; {of_stream} }} }}
             mail {{ {mail} auth_http 192.0.2.1; server {{ listen 25; {of_mail} }} }}"
        ));
        config.sources.clear();
        config.met = crate::met::Met::default();
        // `text/html` is in lists of media types anyway, which nginx warns about.
        config.warnings.clear();
        format!("{config:?}")
    };
    // Lists whose default means "none given" or is warned about as a repetition, what the
    // model keeps as written, and `proxy_redirect default`, which must follow a `proxy_pass`.
    let skipped = "env listen log_format limit_rate limit_rate_after proxy_limit_rate \
                   proxy_upload_rate proxy_download_rate fastcgi_limit_rate uwsgi_limit_rate \
                   scgi_limit_rate proxy_set_header proxy_redirect gzip_types brotli_types \
                   zstd_types otel_trace imap_capabilities imap_auth pop3_capabilities pop3_auth \
                   smtp_auth";
    let is_skipped = |row: &Row| skipped.split(' ').any(|name| name == row.name);
    let mut checked = 0;
    for row in rows().filter(|row| !row.default.is_empty() && !is_skipped(row)) {
        let places = [
            (MAIN, "main"),
            (EVENTS, "events"),
            (HTTP, "http"),
            (SERVER, "server"),
            (UPSTREAM, "upstream"),
            (ACME_ISSUER, "acme_issuer"),
            (PROCESS, "process"),
            (LOCATION, "location"),
            (STREAM, "stream"),
            (STREAM_SERVER, "server in stream"),
            (MAIL, "mail"),
            (MAIL_SERVER, "server in mail"),
        ];
        let (_, place) = places
            .into_iter()
            .find(|(context, _)| row.contexts & context != 0)
            .unwrap_or_else(|| panic!("{} has a default and no outer context", row.name));
        let line = format!("{} {};", row.name, row.default);
        assert!(model(&line, place) == model("", place), "{line}");
        checked += 1;
    }
    assert!(checked > 150, "only {checked} defaults were checked");
}

#[test]
fn what_has_no_effect_yet_is_warned_about_once() {
    let config = read(
        "events {} http { directio 4k; server { directio 4k; read_ahead 1m; }
         server { directio off; read_ahead 1m; directio_alignment 4k; } server { read_ahead 0; } }",
    );
    let mut subjects: Vec<_> = config
        .warnings
        .iter()
        .filter_map(|warning| warning.message.split('"').nth(1))
        .collect();
    subjects.retain(|subject| !subject.is_empty());
    assert_eq!(subjects, ["directio", "read_ahead", "directio_alignment"]);
    let quiet = read(
        "events {} http { gzip off; http3 off; http3_hq on; http2 on; ssl_early_data off; directio off; }",
    );
    assert_eq!(quiet.warnings, []);
}

#[test]
fn blocks_that_are_refused_cause_one_error_only() {
    let text =
        refused("events {} http { perl_block { 80 E282AC; 81 82; } upstream u { server x; } }");
    assert!(
        text.starts_with("sealane: [emerg] unknown directive \"perl_block\""),
        "{text}"
    );
    assert_eq!(text.matches("[emerg]").count(), 1);
}

#[test]
fn unknown_names_lead_to_the_nearest() {
    let hint = |name: &str, context| nearest(name.as_bytes(), context);
    assert_eq!(hint("rot", HTTP), Some("root"));
    assert_eq!(hint("sendfiel", HTTP), Some("sendfile"));
    assert_eq!(hint("ssl_certificates", SERVER), Some("ssl_certificate"));
    assert_eq!(hint("worker_proceses", MAIN), Some("worker_processes"));
    assert_eq!(hint("server_nam", SERVER), Some("server_name"));
    assert_eq!(hint("completely_else", HTTP), None);
    assert_eq!(hint("", HTTP), None);
}

#[test]
fn locations_and_names() {
    let server = server(
        "",
        "server_name A.example *.b .c www.d.* ~^(?<sub>x)$ $hostname ''; listen 81;
         location = /x {} location ^~ /y {} location /z {} location ~ \\.php$ {}
         location ~* \\.JPG$ {} location @f {} location /y/n { location /y/n/m {} }",
    );
    assert_eq!(server.primary_name, "a.example");
    let forms: Vec<String> = server
        .names
        .iter()
        .map(|name| format!("{name:?}"))
        .collect();
    assert_eq!(
        forms,
        [
            "Exact(\"a.example\")",
            "WildcardPrefix(\".b\")",
            "Dot(\".c\")",
            "WildcardSuffix(\"www.d.\")",
            "Regex(Regex(~\"^(?<sub>x)$\"))",
            "Exact(\"box\")",
            "Exact(\"\")"
        ]
    );
    let prefixes: Vec<_> = server
        .locations
        .prefix
        .iter()
        .map(|l| l.conf.name.as_ref())
        .collect();
    assert_eq!(prefixes, ["/y", "/y/n", "/z"], "sorted");
    assert!(matches!(
        &server.locations.prefix[0].matcher,
        Matcher::Prefix { stop: true, .. }
    ));
    assert_eq!(server.locations.prefix[1].children.prefix.len(), 1);
    assert_eq!(server.locations.exact.len(), 1);
    assert_eq!(server.locations.named.len(), 1);
    let caseless: Vec<_> = server
        .locations
        .regex
        .iter()
        .map(|l| match &l.matcher {
            Matcher::Regex(regex) => regex.caseless(),
            _ => false,
        })
        .collect();
    assert_eq!(caseless, [false, true]);
}

#[test]
fn first_name_of_a_server() {
    let first = |name: &str| {
        server("", &format!("server_name {name};"))
            .primary_name
            .clone()
    };
    assert_eq!(first(".Example.org"), "example.org");
    assert_eq!(first("~^Www"), "~^Www");
    assert_eq!(first("*.x"), "*.x");
    assert_eq!(server("", "").primary_name, "");
    let caseless = server("", "server_name ~^Www;");
    assert!(matches!(&caseless.names[0], ServerName::Regex(regex) if regex.caseless()));
}

#[test]
fn files() {
    let at = |text: &str| format!("{:?}", location(text).files_at);
    assert_eq!(at("root /a/;"), "Root(Template(\"/a\"))");
    assert_eq!(at("root /;"), "Root(Template(\"\"))");
    assert_eq!(at("root a;"), "Root(Template(\"/usr/a\"))");
    assert_eq!(
        at("root $host/x;"),
        "Root(Template(\"${Builtin(Host)}/x\"))"
    );
    assert_eq!(at("alias /a/;"), "Alias(Template(\"/a/\"))");
    assert_eq!(at(""), "Root(Template(\"/usr/html\"))");
    let nested = server(
        "",
        "location /a/ { alias /x/; location /a/b/ {} location ~ c {} }",
    );
    let outer = &nested.locations.prefix[0];
    assert_eq!(outer.conf.alias_prefix_bytes, Some(3));
    let inner = &outer.children.prefix[0].conf;
    assert!(matches!(inner.files_at, FilesAt::Alias(_)));
    assert_eq!(
        inner.alias_prefix_bytes,
        Some(3),
        "the prefix of the outer location"
    );
    let regex = server("", "location ~ ^/u/(.*)$ { alias /home/$1; }");
    assert_eq!(regex.locations.regex[0].conf.alias_prefix_bytes, None);
}

#[test]
fn try_files_and_error_pages() {
    let conf = location(
        "try_files $uri $uri/ @app; error_page 404 495 =200 /e; error_page 500 497 /f;
                         error_page 403 = @g; error_page 401 https://$host/; error_page 402 $uri;",
    );
    let try_files = conf.try_files.as_ref().expect("was written");
    assert!(!try_files.candidates[0].directory && try_files.candidates[1].directory);
    assert_eq!(
        format!("{:?}", try_files.candidates[1].name),
        "Template(\"${Builtin(Uri)}\")"
    );
    assert!(matches!(&try_files.fallback, TryFallback::Named(name) if **name == *"app"));
    let pages = &conf.error_pages;
    assert_eq!(pages[0].codes, [404, 495]);
    assert_eq!(pages[0].status, ErrorPageStatus::Fixed(200));
    assert_eq!(pages[1].codes, [500]);
    assert_eq!(pages[1].status, ErrorPageStatus::Original);
    assert_eq!(pages[2].codes, [497]);
    assert_eq!(
        pages[2].status,
        ErrorPageStatus::Fixed(400),
        "497 is not for clients"
    );
    assert_eq!(pages[3].status, ErrorPageStatus::FromTarget);
    assert!(matches!(&pages[3].target, ErrorPageTarget::Named(name) if **name == *"g"));
    assert!(matches!(&pages[4].target, ErrorPageTarget::Url(_)));
    assert!(matches!(&pages[5].target, ErrorPageTarget::Uri(_)));
    let fallback = |text: &str| {
        format!(
            "{:?}",
            location(text)
                .try_files
                .as_ref()
                .map(|t| &t.fallback)
                .cloned()
        )
    };
    assert_eq!(fallback("try_files a =404;"), "Some(Code(404))");
    assert_eq!(
        fallback("try_files a /i?x=$args;"),
        "Some(Uri(Template(\"/i?x=${Builtin(Args)}\")))"
    );
}

#[test]
fn returns() {
    let returns = |text: &str| {
        let conf = location(text);
        let script = conf.script.as_ref()?;
        let Op::Return(first) = &script.ops[0] else {
            return None;
        };
        let text = first.text.as_ref().map(|text| format!("{text:?}"));
        Some((first.code, text))
    };
    assert_eq!(returns("return 204;"), Some((204, None)));
    assert_eq!(
        returns("return 200 ok; return 500;"),
        Some((200, Some("Template(\"ok\")".into())))
    );
    assert_eq!(
        returns("return https://x;"),
        Some((302, Some("Template(\"https://x\")".into())))
    );
    let server = server("", "return 301 https://$host$request_uri; location / {}");
    let script = server.script.as_ref().expect("there is one");
    assert!(matches!(
        &script.ops[..],
        [Op::Return(Return { code: 301, .. })]
    ));
    assert!(
        server.locations.prefix[0].conf.script.is_none(),
        "not inherited"
    );
}

#[test]
fn header_lines_replace_merge_or_end() {
    let names = |conf: &LocationConf| {
        conf.add_headers
            .iter()
            .map(|header| header.name.to_string())
            .collect::<Vec<_>>()
    };
    let server = server(
        "add_header A 1; add_header B 2 always;",
        "location /own { add_header C 3; } location /merge { add_header C 3; add_header_inherit merge; }
         location /off { add_header_inherit off; } location /plain {}",
    );
    let conf = |index: usize| &server.locations.prefix[index].conf;
    assert_eq!(names(conf(0)), ["C", "A", "B"], "/merge");
    assert_eq!(names(conf(1)), [""; 0], "/off");
    assert_eq!(names(conf(2)), ["C"], "/own");
    assert_eq!(names(conf(3)), ["A", "B"], "/plain");
    assert!(conf(3).add_headers[1].always && !conf(3).add_headers[0].always);
}

#[test]
fn expires_forms() {
    let parsed = |text: &str| format!("{:?}", location(&format!("expires {text};")).expires);
    assert_eq!(parsed("1h"), "Access(3600)");
    assert_eq!(parsed("-1"), "Access(-1)");
    assert_eq!(parsed("modified +24h"), "Modified(86400)");
    assert_eq!(parsed("@15h30m"), "Daily(55800)");
    assert_eq!(parsed("epoch"), "Epoch");
    assert_eq!(parsed("max"), "Max");
    assert_eq!(
        parsed("$arg_x"),
        "Evaluated(Template(\"${Argument(\"x\")}\"), false)"
    );
    assert!(matches!(
        parse_expires(b"30d", false),
        Ok(Expires::Access(2_592_000))
    ));
    assert_eq!(
        parse_expires(b"@1d1s", false).err(),
        Some("daily time value must be less than 24 hours")
    );
}

#[test]
fn sizes_times_and_choices_reach_the_model() {
    let conf = location(
        "client_max_body_size 2g; send_timeout 1500ms; keepalive_timeout 10 20; sendfile_max_chunk 512k;
         output_buffers 3 64k; limit_rate 10k; limit_rate_after 1m; max_ranges 5; types { a/b X y; }
         autoindex on; autoindex_format json; open_file_cache max=100 inactive=5s;
         open_file_cache_content 1m 8k; keepalive_disable safari; default_type q/r;",
    );
    assert_eq!(conf.client_max_body_bytes, 2 << 30);
    assert_eq!(conf.send_timeout, Duration::from_millis(1500));
    assert_eq!(conf.keepalive_timeout, Duration::from_secs(10));
    assert_eq!(conf.keepalive_header, Some(Duration::from_secs(20)));
    assert_eq!(conf.sendfile_max_chunk_bytes, 512 << 10);
    assert_eq!(conf.output_buffers, (3, 64 << 10));
    assert_eq!(
        conf.limit_rate.as_ref().and_then(|t| t.as_literal()),
        Some(&b"10k"[..])
    );
    assert_eq!(conf.max_ranges, Some(5));
    assert_eq!(conf.types.by_extension.get("x").map(|t| &**t), Some("a/b"));
    assert!(
        !conf.types.by_extension.contains_key("html"),
        "the list is replaced as a whole"
    );
    assert_eq!(
        conf.autoindex.map(|a| a.format),
        Some(AutoindexFormat::Json)
    );
    let cache = conf.open_file_cache.expect("is on");
    assert_eq!((cache.max, cache.inactive), (100, Duration::from_secs(5)));
    assert_eq!(
        (cache.content_bytes, cache.content_max_file_bytes),
        (1 << 20, 8 << 10)
    );
    assert!(conf.keepalive_disable.safari && !conf.keepalive_disable.msie6);
    assert_eq!(&*conf.default_type, "q/r");
}

#[test]
fn logs() {
    let config = read(
        "error_log stderr info; events {} http { log_format j escape=json '{\"h\":' '\"$host\"}';
         access_log a.log j buffer=32k flush=5s if=$arg_x;
         server { access_log off; error_log e.log debug; location / { access_log /b.log; } }
         server {} }",
    );
    assert_eq!(config.main.error_logs[0].target, LogTarget::Stderr);
    assert_eq!(config.main.error_logs[0].level, LogLevel::Info);
    let http = config.http.expect("http is there");
    let first = &http.servers[0];
    assert!(first.conf.access_logs.is_empty());
    assert_eq!(
        first.conf.error_logs[0].target,
        LogTarget::File("/usr/e.log".into())
    );
    let own = &first.locations.prefix[0].conf.access_logs[0];
    assert_eq!(own.target, LogTarget::File("/b.log".into()));
    assert_eq!(own.format.name, "combined");
    let inherited = &http.servers[1].conf;
    let log = &inherited.access_logs[0];
    assert_eq!(log.format.escape, LogEscape::Json);
    assert_eq!(
        format!("{:?}", log.format.line),
        "Template(\"{\\\"h\\\":\\\"${Builtin(Host)}\\\"}\")"
    );
    assert_eq!(
        (log.buffer_bytes, log.flush),
        (Some(32 << 10), Some(Duration::from_secs(5)))
    );
    assert!(log.condition.is_some());
    assert_eq!(inherited.error_logs[0].target, LogTarget::Stderr);
}

#[test]
fn an_error_log_behind_http_holds_inside_too() {
    let config = read("events {} http { server {} }\nerror_log /late.log warn;");
    let http = config.http.expect("http is there");
    let log = &http.servers[0].conf.error_logs[0];
    assert_eq!(log.target, LogTarget::File("/late.log".into()));
    assert_eq!(http.listeners.len(), 1);
}

#[test]
fn session_stores_are_read_whole() {
    let config = read(
        "events {} http {
            ssl_certificate a; ssl_certificate_key b; ssl_session_timeout 1h;
            ssl_session_ticket_state run/tickets; ssl_early_data on;
            ssl_session_store rediss://u:p%40@h:1/2 timeout=1500ms key=k ca=/c prefix=x/;
            server { listen 1; }
            server { listen 2; ssl_session_store off; ssl_session_ticket_rotation 1m;
                     ssl_early_data_methods POST GET POST; } }",
    );
    let http = config.http.expect("there is one");
    let [first, second] = &http.servers[..] else {
        panic!("two servers");
    };
    let (first, second) = (first.tls.as_ref().expect("TLS"), second.tls.as_ref());
    let store = first.session_store.as_ref().expect("a store");
    assert_eq!(store.to_string(), "rediss://h:1/2");
    assert_eq!(store.timeout, std::time::Duration::from_millis(1500));
    assert_eq!(store.key_file.as_deref(), Some(Path::new("/etc/k")));
    let ca_file = store.tls.as_ref().and_then(|tls| tls.ca_file.as_deref());
    assert_eq!(ca_file, Some(Path::new("/c")));
    assert_eq!(store.prefix, "x/");
    assert_eq!(store.password.as_ref().map(|p| p.expose()), Some("p@"));
    assert!(!format!("{store:?}").contains("p@"));
    assert_eq!(first.session_ticket_rotation.as_secs(), 1200);
    assert_eq!(*first.early_data.methods, ["GET", "HEAD", "OPTIONS"]);
    let second = second.expect("TLS");
    assert_eq!(second.session_store, None);
    assert_eq!(second.session_ticket_rotation.as_secs(), 60);
    assert_eq!(*second.early_data.methods, ["POST", "GET"]);
    assert!(second.early_data.enabled, "inherited");
    for tls in [first, second] {
        let state = tls.session_ticket_state.as_deref();
        assert!(state.is_some_and(|path| path.ends_with("run/tickets")));
    }
}

#[test]
fn what_is_wrong_with_sessions_is_said_without_secrets() {
    for (line, said) in [
        ("ssl_session_store http://x", "it must begin with"),
        (
            "ssl_session_store redis://u:secret@@h",
            "encode \"@\" as %40",
        ),
        (
            "ssl_session_store redis://u:secret@h nonsense",
            "invalid parameter \"nonsense\"",
        ),
        (
            "ssl_session_store redis://h redis://u:secret@i",
            "invalid parameter \"redis://********@i\"",
        ),
        (
            "ssl_session_store redis://h timeout=6s",
            "between 1ms and 5s",
        ),
        (
            "ssl_session_store redis://h timeout=0",
            "between 1ms and 5s",
        ),
        ("ssl_session_store redis://h key=", "with a value"),
        (
            "ssl_session_store redis://h ca=x.pem",
            "only a store with TLS",
        ),
        (
            "ssl_session_store redis://h prefix=a*",
            "a prefix consists of",
        ),
        ("ssl_session_store off timeout=1s", "invalid parameter"),
        (
            "ssl_session_store redis://h; ssl_session_store off",
            "is duplicate",
        ),
        ("ssl_session_ticket_rotation 1s", "at least 2s"),
        ("ssl_early_data_methods GET post", "uppercase"),
        ("ssl_early_data_register_size 4k", "at least 64k"),
        ("ssl_sesion_store redis://u:secret@h", "did you mean"),
    ] {
        let text = refused(&format!("events {{}} http {{ {line}; }}"));
        assert!(text.contains(said), "{line}: {text}");
        assert!(!text.contains("secret"), "{line}: {text}");
    }
}

#[test]
fn handshakes_are_placed_and_limited() {
    use crate::model::{Accelerator, AsyncMode, HandshakeLimits};
    let http = |text: &str| read(text).http.expect("there is one");
    let defaults = http("events {} http { server {} }").handshakes;
    let (threads, queue) = (None, 448);
    assert_eq!(defaults, HandshakeLimits { threads, queue });
    let few = http("events { worker_connections 2; } http {}").handshakes;
    assert_eq!(few.queue, 2, "never none");
    let http = http(
        "events { worker_connections 1000; } http {
            ssl_certificate a; ssl_certificate_key b;
            ssl_async on; ssl_async_threads 3; ssl_accelerator batch; ssl_handshake_queue 64;
            server { listen 1; ssl_handshake_timeout 1500ms; }
            server { listen 2; ssl_async off; ssl_accelerator cpu; } }",
    );
    let (threads, queue) = (Some(3), 64);
    assert_eq!(http.handshakes, HandshakeLimits { threads, queue });
    let tls = |at: usize| http.servers[at].tls.as_ref().expect("TLS");
    assert_eq!(tls(0).async_mode, AsyncMode::On, "inherited");
    assert_eq!(tls(0).accelerator, Accelerator::Batch);
    assert_eq!(tls(0).handshake_timeout, Duration::from_millis(1500));
    assert_eq!(tls(1).async_mode, AsyncMode::Off);
    assert_eq!(tls(1).accelerator, Accelerator::Cpu);
    assert_eq!(tls(1).handshake_timeout, Duration::from_secs(60));
}

#[test]
fn devices_compute_with_keys() {
    use crate::model::{CertificateSource, KeyDevice};
    let devices = |lines: &str| {
        let text =
            format!("events {{}} http {{ server {{ listen 1 ssl; ssl_certificate a; {lines} }} }}");
        let http = read(&text).http.expect("there is one");
        let tls = http.servers[0].tls.as_ref().expect("TLS").clone();
        let files = tls.certificates.files().expect("no variables")[0].clone();
        let device = tls.key_device(&files.key);
        (files.key, device.map(|device| device.to_string()))
    };
    let uri = |text: &str| CertificateSource::Uri(text.to_owned());
    let file = CertificateSource::File("/etc/k".into());
    let tokens = KeyDevice::pkcs11().to_string();
    assert_eq!(tokens, "pkcs11 sessions=4 timeout=5000ms max_wait=2000ms");
    let set = "ssl_accelerator pkcs11 module=m.so sessions=2 timeout=1s max_wait=50ms fallback=f;";
    let set_text =
        "pkcs11 module=/etc/m.so sessions=2 timeout=1000ms max_wait=50ms fallback=/etc/f";
    let provider = "ssl_accelerator provider:p,conf=c.cnf threads=2 in_flight=9 verify_ecdsa \
                    fallback=cpu;";
    let provider_text = "provider:p,conf=/etc/c.cnf threads=2 in_flight=9 verify_ecdsa \
                         timeout=5000ms max_wait=2000ms fallback=cpu";
    let key = |key: &str| format!("ssl_certificate_key \"{key}\";");
    for (lines, source, device) in [
        (key("k"), file.clone(), None),
        (
            key("pkcs11:object=a"),
            uri("pkcs11:object=a"),
            Some(&*tokens),
        ),
        (
            key("store:pkcs11:id=%01"),
            uri("store:pkcs11:id=%01"),
            Some(&*tokens),
        ),
        (
            key("engine:pkcs11:id_1"),
            uri("engine:pkcs11:id_1"),
            Some(&*tokens),
        ),
        (key("k") + set, file.clone(), None),
        (
            key("pkcs11:object=a") + set,
            uri("pkcs11:object=a"),
            Some(set_text),
        ),
        (key("k") + provider, file, Some(provider_text)),
        (
            key("store:handle:1") + provider,
            uri("store:handle:1"),
            Some(provider_text),
        ),
        // A provider has no say in tokens that are named as such.
        (
            key("pkcs11:object=a") + provider,
            uri("pkcs11:object=a"),
            Some(&*tokens),
        ),
    ] {
        assert_eq!(
            devices(&lines),
            (source, device.map(str::to_owned)),
            "{lines}"
        );
    }
}

#[test]
fn certificates_are_looked_at_as_often_as_it_says() {
    let reload = |line: &str| {
        let config = read(&format!("events {{}} http {{ {line} }}"));
        config.http.expect("there is one").certificate_reload
    };
    let seconds = |s| Some(Duration::from_secs(s));
    for (line, expected) in [
        ("", seconds(10)),
        ("ssl_certificate_reload on;", seconds(10)),
        ("ssl_certificate_reload off;", None),
        ("ssl_certificate_reload 1m;", seconds(60)),
    ] {
        assert_eq!(reload(line), expected, "{line}");
    }
}

#[test]
fn certificates_with_variables_are_evaluated_with_the_cache_of_their_level() {
    let config = read(
        "events {} http {
            ssl_certificate $host.pem; ssl_certificate_key a.key; ssl_certificate_cache max=3;
            server { listen 1; }
            server { listen 2; }
            server { listen 3; ssl_certificate_cache max=4 inactive=1s valid=2s; }
            server { listen 4; ssl_certificate_cache off; }
            server { listen 5; ssl_certificate b.pem; } }",
    );
    let http = config.http.expect("there is one");
    let cache = |at: usize| {
        let tls = http.servers[at].tls.as_ref().expect("TLS");
        match &tls.certificates {
            ServerCertificates::Evaluated(evaluated) => evaluated.cache.clone(),
            ServerCertificates::Files(_) => panic!("they have variables"),
        }
    };
    let shared = [0, 1].map(|at| cache(at).expect("it is on"));
    assert!(Arc::ptr_eq(&shared[0], &shared[1]));
    let (inactive, valid) = (Duration::from_secs(10), Duration::from_secs(60));
    assert_eq!(
        *shared[0],
        CertificateCache {
            max: 3,
            inactive,
            valid
        }
    );
    let (inactive, valid) = (Duration::from_secs(1), Duration::from_secs(2));
    assert_eq!(
        cache(2).as_deref(),
        Some(&CertificateCache {
            max: 4,
            inactive,
            valid
        })
    );
    assert_eq!(cache(3), None);
    let last = http.servers[4].tls.as_ref().expect("TLS");
    assert!(
        last.certificates
            .files()
            .is_some_and(|files| files.len() == 1)
    );
}

#[test]
fn wrong_values_for_handshakes_are_refused() {
    for (line, said) in [
        ("ssl_async maybe", "it can be \"on\", \"off\", \"auto\""),
        ("ssl_async_threads 1025", "between 0 and 1024"),
        ("ssl_async_threads many", "it can be a number or \"auto\""),
        ("ssl_async_threads 1; ssl_async_threads 2", "is duplicate"),
        (
            "ssl_accelerator qat",
            "it can be \"auto\", \"cpu\", \"batch\", \"pkcs11\" with parameters, or",
        ),
        ("ssl_accelerator cpu sessions=4", "have parameters"),
        (
            "ssl_accelerator pkcs11 sessions=0",
            "a number from 1 to 256",
        ),
        ("ssl_accelerator pkcs11 threads=1", "it can be \"module=\""),
        ("ssl_accelerator pkcs11 fallback=cpu", "\"fallback=FILE\""),
        ("ssl_accelerator pkcs11 module=", "name a file"),
        ("ssl_accelerator provider:", "the name of a provider"),
        ("ssl_accelerator provider:a,b", "\",conf=FILE\""),
        ("ssl_accelerator provider:a timeout=0", "1ms or more"),
        (
            "ssl_accelerator provider:a module=m",
            "it can be \"threads=\"",
        ),
        ("ssl_key_process on user=", "\"user=\" and a name"),
        (
            "ssl_key_process on decryptions=x",
            "\"decryptions=\" or \"keys=\" and a number",
        ),
        ("ssl_certificate_key engine:e:k", "no engine is"),
        (
            "ssl_certificate_key pkcs11:object=$a",
            "cannot contain variables",
        ),
        ("ssl_handshake_queue 0", "between 1 and"),
        ("ssl_handshake_queue -1", "invalid number"),
        ("ssl_handshake_timeout 0", "greater than 0"),
        ("ssl_handshake_timeout soon", "invalid value"),
        ("ssl_certificate_reload 99ms", "at least 100ms"),
        (
            "ssl_certificate_reload soon",
            "it can be \"on\", \"off\" or a time",
        ),
        (
            "ssl_certificate_reload on; ssl_certificate_reload off",
            "is duplicate",
        ),
        (
            "server { ssl_certificate_reload on; }",
            "is not allowed here",
        ),
        ("server { ssl_async_threads 1; }", "is not allowed here"),
        ("server { ssl_handshake_queue 1; }", "is not allowed here"),
    ] {
        let line = line
            .strip_suffix('}')
            .map_or(format!("{line};"), |l| format!("{l}}}"));
        let text = refused(&format!("events {{}} http {{ {line} }}"));
        assert!(text.contains(said), "{line}: {text}");
    }
}
