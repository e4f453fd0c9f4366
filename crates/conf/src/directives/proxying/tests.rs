//! From directives to the model: targets, inheritance, defaults and lists.

use crate::input::{MemoryLoader, Options};
use crate::model::*;
use crate::parser::parse;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn read(inside_http: &str) -> Http {
    let text = format!("events {{}} http {{ {inside_http} }}");
    let mut loader = MemoryLoader::new().with("/etc/nginx.conf", text);
    let config = parse(&Options::new("/etc/nginx.conf", "/usr"), &mut loader);
    let config = config.unwrap_or_else(|failure| panic!("{failure}"));
    config.http.expect("http is there")
}

/// The prefix locations of the only server, in the order of their names.
fn locations(http: &str, server: &str) -> (Http, Vec<Arc<LocationConf>>) {
    let http = read(&format!("{http} server {{ {server} }}"));
    let found = http.servers[0].locations.prefix.iter();
    let found = found.map(|location| Arc::clone(&location.conf)).collect();
    (http, found)
}

fn proxy(location: &LocationConf) -> &ProxyPass {
    match &location.pass {
        Some(Pass::Proxy(pass)) => pass,
        other => panic!("{other:?} is no proxy_pass"),
    }
}

/// The pass of a `location /` that contains `text`.
fn pass(text: &str) -> Pass {
    let (_, found) = locations("", &format!("location / {{ {text} }}"));
    found[0].pass.clone().expect("requests are handed on")
}

fn proxy_pass(text: &str) -> Arc<ProxyPass> {
    match pass(text) {
        Pass::Proxy(pass) => pass,
        other => panic!("{other:?} is no proxy_pass"),
    }
}

fn url(text: &str) -> ProxyUrl {
    match &proxy_pass(&format!("proxy_pass {text};")).target {
        ProxyTarget::Url(url) => url.clone(),
        other => panic!("{other:?} is no URL"),
    }
}

fn shown(template: &Template) -> String {
    format!("{template:?}")
}

#[test]
fn urls_say_host_port_and_what_becomes_of_the_uri() {
    let plain = url("http://127.0.0.1");
    assert_eq!((&*plain.host, &*plain.port), ("127.0.0.1", "80"));
    assert_eq!(plain.uri, UriPart::AsReceived);
    assert!(!plain.tls);
    let other_port = url("http://127.0.0.1:443");
    assert_eq!(
        (&*other_port.host, &*other_port.port),
        ("127.0.0.1:443", "443")
    );
    let secure = url("https://[::1]:443/a");
    assert_eq!((&*secure.host, &*secure.port), ("[::1]", "443"));
    assert!(secure.tls);
    let socket = url("http://unix:/s:/x/");
    assert_eq!((&*socket.host, &*socket.port), ("localhost", ""));
    let (prefix_bytes, uri) = (1, b"/x/"[..].into());
    assert_eq!(socket.uri, UriPart::Replaces { prefix_bytes, uri });
    assert!(matches!(
        &proxy_pass("proxy_pass http://127.0.0.1$uri;").target,
        ProxyTarget::Evaluated(_)
    ));
}

#[test]
fn the_uri_part_replaces_the_prefix_of_its_location() {
    let http = read(
        "server { location /a/ { proxy_pass http://127.0.0.1/b; }
         location = /exact { proxy_pass http://127.0.0.1/b; }
         location ~ x { proxy_pass http://127.0.0.1; } location @n { proxy_pass http://127.0.0.1; } }",
    );
    let all = &http.servers[0].locations;
    let replaced = |location: &Location| match &proxy(&location.conf).target {
        ProxyTarget::Url(url) => match &url.uri {
            UriPart::Replaces { prefix_bytes, .. } => Some(*prefix_bytes),
            UriPart::AsReceived => None,
        },
        ProxyTarget::Evaluated(_) => panic!("there are no variables"),
    };
    assert_eq!(replaced(&all.prefix[0]), Some(3));
    assert_eq!(replaced(&all.exact[0]), Some(6));
    assert_eq!(replaced(&all.regex[0]), None);
    assert_eq!(replaced(&all.named[0]), None);
}

#[test]
fn a_slash_at_the_end_of_the_prefix_asks_for_a_redirect() {
    let (_, found) = locations(
        "",
        "location /a/ { proxy_pass http://127.0.0.1; } location /b { proxy_pass http://127.0.0.1; }
         location /c/ { root /x; } location /d/ { uwsgi_pass 127.0.0.1:$arg_p; }
         location /e/ { fastcgi_pass 127.0.0.1:$arg_p; }
         location /f/ { grpc_pass 127.0.0.1:1; location /f/g/ { root /x; } }",
    );
    let redirects: Vec<bool> = found.iter().map(|conf| conf.auto_redirect).collect();
    assert_eq!(redirects, [true, false, false, false, true, true]);
}

#[test]
fn a_pass_is_not_inherited_its_settings_are() {
    let http = read(
        "proxy_read_timeout 1s; server { proxy_read_timeout 2s; location /a {
         proxy_pass http://127.0.0.1:81; proxy_buffering off;
         location /a/b { root /x; } location /a/c { proxy_pass http://127.0.0.1:82; } } }",
    );
    let outer = &http.servers[0].locations.prefix[0];
    assert!(http.servers[0].conf.pass.is_none());
    assert!(outer.children.prefix[0].conf.pass.is_none());
    let inner = proxy(&outer.children.prefix[1].conf);
    assert_eq!(inner.upstream.read_timeout, Duration::from_secs(2));
    assert!(!inner.upstream.buffering);
    assert_ne!(
        Some(proxy(&outer.conf).target.clone()),
        Some(inner.target.clone())
    );
}

#[test]
fn the_last_of_several_passes_answers() {
    let last = pass("proxy_pass http://127.0.0.1; scgi_pass 127.0.0.1:9;");
    assert!(matches!(last, Pass::Scgi(_)), "{last:?}");
    let last = pass("scgi_pass 127.0.0.1:9; proxy_pass http://127.0.0.1;");
    assert!(matches!(last, Pass::Proxy(_)), "{last:?}");
}

#[test]
fn equal_places_are_one_group() {
    let (http, found) = locations(
        "upstream App { server 127.0.0.1:1; }",
        "location /a { proxy_pass http://127.0.0.1:8080/x; }
         location /b { fastcgi_pass 127.0.0.1:8080; }
         location /c { proxy_pass http://localhost; } location /d { grpc_pass grpcs://app; }
         location /e { scgi_pass unix:/s; } location /f { proxy_pass http://$host; }",
    );
    let group = |index: usize| found[index].pass.as_ref().expect("a pass").group();
    assert_eq!(group(0), group(1));
    assert_eq!(group(3), Some(GroupRef(0)));
    assert_eq!(group(5), None);
    assert_eq!(http.passes().filter_map(Pass::group).count(), 5);
    let names: Vec<&str> = http.upstreams.iter().map(|group| &*group.name).collect();
    assert_eq!(names, ["App", "127.0.0.1", "localhost", "/s"]);
    let named = |index: usize| group(index).map(|group| &*http.upstreams[group.0].name);
    assert_eq!(named(2), Some("localhost"));
    assert_eq!(named(4), Some("/s"));
}

#[test]
fn header_fields_replace_defaults_of_their_name() {
    let fields = |pass: &SetHeaders| -> Vec<String> {
        let fields = pass.fields.iter();
        fields
            .map(|field| {
                let name = String::from_utf8_lossy(&field.name).into_owned();
                format!("{name}: {:?}", field.value)
            })
            .collect()
    };
    let default = proxy_pass("proxy_pass http://127.0.0.1;");
    assert_eq!(
        fields(&default.set_headers),
        [
            "Host: Template(\"${Builtin(ProxyHost)}\")",
            "Content-Length: Template(\"${Builtin(ProxyInternalBodyLength)}\")",
            "Transfer-Encoding: Template(\"${Builtin(ProxyInternalChunked)}\")",
        ]
    );
    for gone in [
        "connection",
        "UPGRADE",
        "Te",
        "keep-alive",
        "Expect",
        "proxy-connection",
    ] {
        assert!(default.set_headers.replaces(gone.as_bytes()), "{gone}");
    }
    assert!(!default.set_headers.replaces(b"X-Host"));

    let own = proxy_pass(
        "proxy_pass http://127.0.0.1; proxy_set_header HOST $host; proxy_set_header X-A b;
         proxy_set_header Upgrade $http_upgrade; proxy_set_header Accept-Encoding '';",
    );
    assert_eq!(
        fields(&own.set_headers)[..3],
        [
            "HOST: Template(\"${Builtin(Host)}\")",
            "X-A: Template(\"b\")",
            "Upgrade: Template(\"${RequestHeader(\"upgrade\")}\")",
        ]
    );
    assert_eq!(
        own.set_headers.fields.len(),
        5,
        "Content-Length, Transfer-Encoding"
    );
    assert!(own.set_headers.replaces(b"accept-encoding"));

    // Something takes its place.
    let empty = proxy_pass("proxy_pass http://127.0.0.1; proxy_set_header Host '';");
    assert_eq!(fields(&empty.set_headers)[0], "Host: Template(\"\")");

    let http2 = proxy_pass("proxy_pass http://127.0.0.1; proxy_http_version 2;");
    assert_eq!(http2.http_version, ProxyHttpVersion::Http2);
    assert_eq!(fields(&http2.set_headers).len(), 1, "Content-Length");
    assert!(http2.set_headers.replaces(b"transfer-encoding"));

    let Pass::Grpc(grpc) = pass("grpc_pass 127.0.0.1:50051; grpc_set_header te trailers;") else {
        panic!("it is gRPC");
    };
    assert_eq!(&*grpc.host, "127.0.0.1:50051");
    assert_eq!(
        fields(&grpc.set_headers),
        [
            "te: Template(\"trailers\")",
            "Content-Length: Template(\"${Builtin(ContentLength)}\")",
        ]
    );
}

#[test]
fn lists_are_inherited_as_a_whole_or_not_at_all() {
    let (_, found) = locations(
        "proxy_set_header A 1; proxy_set_header B 2; proxy_hide_header X; fastcgi_param A 1;
         proxy_cookie_path /a /b; proxy_redirect http://x/ /;",
        "location /a { proxy_pass http://127.0.0.1; }
         location /b { proxy_pass http://127.0.0.1; proxy_set_header C 3; proxy_pass_header x;
           proxy_cookie_path off; proxy_redirect off; }
         location /c { fastcgi_pass 127.0.0.1:1; }
         location /d { fastcgi_pass 127.0.0.1:1; fastcgi_param B 2 if_not_empty; }
         location /e { scgi_pass 127.0.0.1:1; scgi_param http_host x; }
         location /f { uwsgi_pass 127.0.0.1:1; uwsgi_param HTTP_HOST ''; }",
    );
    let names = |pass: &ProxyPass| -> Vec<String> {
        let fields = pass.set_headers.fields.iter();
        fields
            .map(|field| String::from_utf8_lossy(&field.name).into_owned())
            .collect()
    };
    let (inherits, own) = (proxy(&found[0]), proxy(&found[1]));
    assert_eq!(names(inherits)[..3], ["Host", "A", "B"]);
    assert_eq!(names(own)[..2], ["Host", "C"]);
    assert!(inherits.upstream.hidden_headers.contains(b"x"));
    assert!(
        !own.upstream.hidden_headers.contains(b"x"),
        "hidden above, passed here"
    );
    assert_eq!(
        (inherits.cookie_paths.len(), own.cookie_paths.len()),
        (1, 0)
    );
    assert_eq!((inherits.redirects.len(), own.redirects.len()), (1, 0));
    let params = |index: usize| match &found[index].pass {
        Some(Pass::FastCgi(pass)) => pass.params.params.clone(),
        Some(Pass::Scgi(pass)) => pass.params.params.clone(),
        Some(Pass::Uwsgi(pass)) => pass.params.params.clone(),
        other => panic!("{other:?} is no FastCGI"),
    };
    assert_eq!(
        (&*params(2)[0].name, params(2)[0].if_not_empty),
        (&b"A"[..], false)
    );
    assert_eq!(
        (&*params(3)[0].name, params(3)[0].if_not_empty),
        (&b"B"[..], true)
    );
    let shown = |index: usize| -> Vec<String> {
        let params = params(index);
        let name = |param: &Param| String::from_utf8_lossy(&param.name).into_owned();
        params
            .iter()
            .map(|param| format!("{}={}", name(param), shown(&param.value)))
            .collect()
    };
    let host =
        "HTTP_HOST=Template(\"${Builtin(Host)}${Builtin(IsRequestPort)}${Builtin(RequestPort)}\")";
    assert_eq!(shown(3), ["B=Template(\"2\")", host]);
    assert!(params(3)[1].if_not_empty);
    assert_eq!(
        shown(4),
        ["http_host=Template(\"x\")"],
        "one that is written"
    );
    assert_eq!(shown(5), [""; 0], "taken away");
}

#[test]
fn every_family_hides_its_own() {
    let hidden = |text: &str| pass(text).upstream().hidden_headers.clone();
    let proxy = hidden("proxy_pass http://127.0.0.1; proxy_pass_header Server;");
    assert!(proxy.contains(b"DATE") && proxy.contains(b"x-accel-redirect"));
    assert!(!proxy.contains(b"server") && !proxy.contains(b"Dat") && !proxy.contains(b""));
    let fastcgi = hidden("fastcgi_pass 127.0.0.1:1;");
    assert!(fastcgi.contains(b"Status") && !fastcgi.contains(b"Date"));
    let uwsgi = hidden("uwsgi_pass 127.0.0.1:1;");
    assert!(!uwsgi.contains(b"Status") && uwsgi.contains(b"X-Accel-Charset"));
    let grpc = hidden("grpc_pass 127.0.0.1:1;");
    assert!(grpc.contains(b"Server") && !grpc.contains(b"X-Pad"));
}

#[test]
fn redirects_are_rewritten_by_default() {
    let rules = |prefix: &str, text: &str| -> Vec<String> {
        let (_, found) = locations("", &format!("location {prefix} {{ {text} }}"));
        let rules = proxy(&found[0]).redirects.iter();
        rules
            .map(|rule| format!("{:?} {}", rule.pattern, shown(&rule.replacement)))
            .collect()
    };
    assert_eq!(
        rules("/one/", "proxy_pass http://127.0.0.1:81/two/;"),
        ["Text(Template(\"http://127.0.0.1:81/two/\")) Template(\"/one/\")"]
    );
    assert_eq!(
        rules("/one/", "proxy_pass http://127.0.0.1;"),
        ["Text(Template(\"http://127.0.0.1/\")) Template(\"/\")"]
    );
    assert_eq!(rules("/", "proxy_pass http://$host;"), [""; 0]);
    assert_eq!(
        rules(
            "/",
            "proxy_pass http://127.0.0.1; proxy_redirect ~*^http://([a-z]+)/ /$1/;
             proxy_redirect http://$host/ /; proxy_redirect default;"
        ),
        [
            "Regex(Regex(~*\"^http://([a-z]+)/\")) Template(\"/${Capture(1)}/\")",
            "Text(Template(\"http://${Builtin(Host)}/\")) Template(\"/\")",
            "Text(Template(\"http://127.0.0.1/\")) Template(\"/\")",
        ]
    );
}

#[test]
fn cookies_are_rewritten_by_rules() {
    let pass = proxy_pass(
        "proxy_pass http://127.0.0.1; proxy_cookie_domain .a.example .b.example;
         proxy_cookie_domain ~\\.c$ .d; proxy_cookie_path /x /y; proxy_cookie_flags one secure $arg_x;
         proxy_cookie_flags ~^T nosamesite;",
    );
    let text = |pattern: &RewritePattern| match pattern {
        RewritePattern::Text(text) => shown(text),
        RewritePattern::Regex(regex) => format!("{regex:?}"),
    };
    let domains: Vec<String> = pass
        .cookie_domains
        .iter()
        .map(|rule| format!("{} {}", text(&rule.pattern), shown(&rule.replacement)))
        .collect();
    assert_eq!(
        domains,
        [
            "Template(\"a.example\") Template(\"b.example\")",
            "Regex(~*\"\\\\.c$\") Template(\".d\")",
        ]
    );
    assert_eq!(pass.cookie_paths.len(), 1);
    assert_eq!(pass.cookie_flags[0].flags.len(), 2);
    assert_eq!(text(&pass.cookie_flags[1].cookie), "Regex(~*\"^T\")");
    assert_eq!(
        CookieFlag::parse(b"HttpOnly"),
        Some(CookieFlag::HttpOnly(true))
    );
    assert_eq!(
        CookieFlag::parse(b"samesite=None"),
        Some(CookieFlag::SameSite(SameSite::None))
    );
    assert_eq!(CookieFlag::parse(b"samesite=x"), None);
}

#[test]
fn the_next_server_is_tried_as_said() {
    use NextUpstreamCause as C;
    let set = |text: &str| {
        pass(&format!("proxy_pass http://127.0.0.1; {text}"))
            .upstream()
            .next_upstream
    };
    let default = set("");
    assert!(default.contains(C::Error) && default.contains(C::Timeout));
    assert!(!default.contains(C::InvalidHeader) && !default.contains_status(502));
    let own = set("proxy_next_upstream http_502 http_429; proxy_next_upstream non_idempotent;");
    assert!(own.contains_status(502) && own.contains_status(429) && !own.contains_status(503));
    assert!(own.contains(C::NonIdempotent) && !own.contains(C::Error));
    assert_eq!(set("proxy_next_upstream error off;"), NextUpstream::NEVER);
}

#[test]
fn buffers_have_the_defaults_of_nginx() {
    let settings = |text: &str| {
        pass(&format!("scgi_pass 127.0.0.1:1; {text}"))
            .upstream()
            .clone()
    };
    let default = settings("");
    assert_eq!((default.buffer_bytes, default.buffers), (4096, (8, 4096)));
    assert_eq!(default.busy_buffers_bytes, 8192);
    assert_eq!(default.temp_file_write_bytes, 8192);
    assert_eq!(default.max_temp_file_bytes, 1 << 30);
    assert_eq!(default.temp_path.path, Path::new("/usr/scgi_temp"));
    assert_eq!(default.temp_path.levels, [1, 2, 0]);
    let larger = settings("scgi_buffer_size 16k; scgi_buffers 9 8k; scgi_temp_path /t 3;");
    assert_eq!(
        larger.busy_buffers_bytes,
        32 << 10,
        "twice the larger buffer"
    );
    assert_eq!(
        (&*larger.temp_path.path, larger.temp_path.levels),
        (Path::new("/t"), [3, 0, 0])
    );
    let Pass::Grpc(grpc) = pass("grpc_pass 127.0.0.1:1;") else {
        panic!("it is gRPC");
    };
    let grpc = &grpc.upstream;
    assert!(!grpc.buffering && !grpc.request_buffering && grpc.pass_trailers);
}

#[test]
fn connections_may_be_bound() {
    let bound = |text: &str| {
        pass(&format!("proxy_pass http://127.0.0.1; {text}"))
            .upstream()
            .bind
            .clone()
    };
    assert_eq!(bound(""), None);
    assert_eq!(bound("proxy_bind off;"), None);
    let address = BindAddress::Fixed("127.0.0.2:0".parse().expect("an address"));
    let transparent = false;
    assert_eq!(
        bound("proxy_bind 127.0.0.2;"),
        Some(Bind {
            address,
            transparent
        })
    );
    let evaluated = bound("proxy_bind $remote_addr transparent;").expect("bound");
    assert!(evaluated.transparent && matches!(evaluated.address, BindAddress::Evaluated(_)));
}

#[test]
fn tls_is_there_where_it_may_be_needed() {
    let tls = |text: &str| pass(text).tls().cloned();
    assert_eq!(tls("proxy_pass http://127.0.0.1;"), None);
    assert_eq!(tls("fastcgi_pass 127.0.0.1:$arg_p;"), None);
    for some in [
        "proxy_pass https://127.0.0.1;",
        "proxy_pass $arg_url;",
        "uwsgi_pass SUWSGI://127.0.0.1:1;",
        "grpc_pass grpcs://127.0.0.1:1;",
    ] {
        let tls = tls(some).expect(some);
        assert_eq!((&*tls.ciphers, tls.verify_depth), ("DEFAULT", 1));
        assert!(tls.session_reuse && !tls.server_name && !tls.verify);
        assert!(tls.protocols.tls_1_2 && tls.protocols.tls_1_3 && !tls.protocols.tls_1_1);
    }
    let full = tls(
        "proxy_pass https://127.0.0.1; proxy_ssl_verify on; proxy_ssl_trusted_certificate ca.pem;
         proxy_ssl_crl /crl.pem; proxy_ssl_certificate data:PEM; proxy_ssl_certificate_key k.pem;
         proxy_ssl_password_file p; proxy_ssl_name $host; proxy_ssl_server_name on;
         proxy_ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256; proxy_ssl_protocols TLSv1.3;",
    );
    let full = full.expect("TLS");
    let files = [&full.trusted_certificate, &full.crl, &full.password_file];
    let expected = ["/etc/ca.pem", "/crl.pem", "/etc/p"].map(Path::new);
    assert_eq!(files.map(Option::as_deref), expected.map(Some));
    let Some(UpstreamCertificate::Files(pair)) = &full.certificate else {
        panic!("no variables");
    };
    assert_eq!(pair.certificate, CertificateSource::Inline("PEM".into()));
    assert_eq!(pair.key, CertificateSource::File("/etc/k.pem".into()));
    assert!(!full.protocols.tls_1_2 && full.conf_commands.len() == 1);
    let evaluated = tls(
        "proxy_pass https://127.0.0.1; proxy_ssl_certificate $arg_c; proxy_ssl_certificate_key k;",
    );
    let certificate = evaluated.and_then(|tls| tls.certificate.clone());
    assert!(matches!(
        certificate,
        Some(UpstreamCertificate::Evaluated { .. })
    ));
    let (_, found) = locations(
        "proxy_ssl_certificate c; proxy_ssl_certificate_key k;",
        "location / { proxy_pass https://127.0.0.1; proxy_ssl_certificate ''; }",
    );
    assert_eq!(
        proxy(&found[0])
            .upstream
            .tls
            .as_ref()
            .expect("TLS")
            .certificate,
        None
    );
}

#[test]
fn parameters_replace_header_fields() {
    let Pass::FastCgi(pass) = pass(
        "fastcgi_pass unix:/run/php.sock; fastcgi_param HTTP_X_Real_IP $remote_addr;
         fastcgi_param HTTP_PROXY ''; fastcgi_param HTTP_ x; fastcgi_param EMPTY '';
         fastcgi_index index.php; fastcgi_split_path_info ^(.+\\.php)(/.*)$;
         fastcgi_catch_stderr 'PHP Fatal'; fastcgi_keep_conn on;",
    ) else {
        panic!("it is FastCGI");
    };
    let params = &pass.params;
    let names: Vec<&[u8]> = params.params.iter().map(|param| &*param.name).collect();
    assert_eq!(
        names,
        [&b"HTTP_X_Real_IP"[..], b"HTTP_", b"EMPTY", b"HTTP_HOST"]
    );
    assert!(params.replaces_header(b"x-real-ip") && params.replaces_header(b"Proxy"));
    assert!(!params.replaces_header(b"x-real") && !params.replaces_header(b""));
    assert_eq!(&*pass.index, b"index.php");
    assert!(pass.keep_conn && pass.split_path_info.is_some());
    assert_eq!(&*pass.catch_stderr[0], b"PHP Fatal");
    let Pass::Uwsgi(pass) =
        self::pass("uwsgi_pass 127.0.0.1:1; uwsgi_modifier1 5; uwsgi_string s; uwsgi_param A b;")
    else {
        panic!("it is uwsgi");
    };
    assert_eq!(
        (pass.modifier1, pass.modifier2, &*pass.string),
        (5, 0, &b"s"[..])
    );
    assert!(!pass.secure);
}

#[test]
fn every_family_has_the_rows_of_nginx() {
    use crate::directives::{HSL, LOCATION_IF, Support, rows};
    let count = |prefix: &str| {
        let works = rows().filter(|row| {
            let works = matches!(row.support, Support::Implemented(_));
            let is_http = row.contexts & HSL != 0 || row.contexts & LOCATION_IF != 0;
            works && is_http && row.name.split('_').next() == Some(prefix) && !row.own
        });
        works.count()
    };
    // As in nginx 1.31, without what sizes a table. No module of nginx's has `proxy_connect` or
    // Dubbo.
    let counts = Family::ALL.map(|family| count(family.name()));
    assert_eq!(counts, [70, 51, 63, 46, 31, 11, 13, 0, 0]);
}
