//! The entry point for fuzzers. It must not panic, and its time and memory
//! are bounded by the length of the input.

use crate::diagnostic::Failure;
use crate::inline_keys;
use crate::input::{MemoryLoader, Options};
use crate::model::{
    Config, Location, LocationConf, Locations, Op, Part, Pass, ProxyTarget, Script, Template,
    Variable,
};
use crate::parser::{Limits, parse_within, survey_within};

/// Longest input that is tried.
pub const MAX_INPUT_BYTES: usize = 64 << 10;

/// Tighter than for real files, so that a file that includes others many
/// times stays cheap.
const LIMITS: Limits = Limits {
    block_depth: 64,
    blocks: 4_000,
    include_depth: 16,
    files: 200,
    bytes: 512 << 10,
};

/// Parses `data` as a configuration and checks the result.
///
/// Zero bytes split it into files: `nginx.conf`, then `a.conf`, `b.conf` and
/// so on, which the first may include. A first byte of `-` gives the text up
/// to the first zero byte to `-g`.
///
/// # Panics
///
/// When the parser has a fault.
pub fn fuzz_config(data: &[u8]) {
    let data = &data[..data.len().min(MAX_INPUT_BYTES)];
    let mut options = Options::new("/conf/nginx.conf", "/prefix");
    let mut texts = data.split(|byte| *byte == 0).peekable();
    if let Some([b'-', globals @ ..]) = texts.peek() {
        options.globals = Some(String::from_utf8_lossy(globals).into_owned());
        texts.next();
    }
    let mut loader = MemoryLoader::new();
    let mut without_keys = MemoryLoader::new();
    let names = ["nginx", "a", "b", "c", "d", "e"];
    for (name, text) in names.iter().zip(texts) {
        let path = format!("/conf/{name}.conf");
        let swept = inline_keys::without_keys(text, |_| [7; 32]);
        without_keys = without_keys.with(&path, swept.unwrap_or_else(|| text.to_vec()));
        loader = loader.with(path, text);
    }
    // Parsing on finds faults in what is refused, and none in what is not.
    let survey = survey_within(&options, &mut loader, &LIMITS);
    let faults = survey.refusals.len() + survey.unread.len() + usize::from(survey.end.is_some());
    let strict = parse_within(&options, &mut loader, &LIMITS);
    assert_eq!(strict.is_err(), faults > 0);
    // What a server reads is as good, or as bad.
    let read = parse_within(&options, &mut without_keys, &LIMITS);
    let line = |result: &Result<Config, Failure>| {
        let failure = result.as_ref().err();
        failure.map(|failure| failure.error.place.as_ref().map(|place| place.line))
    };
    assert_eq!(line(&strict), line(&read));
    match strict {
        Ok(config) => {
            config
                .warnings
                .iter()
                .for_each(|warning| drop(warning.to_string()));
            check(&config);
        }
        Err(failure) => {
            failure
                .warnings
                .iter()
                .for_each(|warning| drop(warning.to_string()));
            assert!(failure.to_string().starts_with("sealane: [emerg] "));
        }
    }
}

/// What the data plane relies on.
fn check(config: &Config) {
    assert!(
        !config.main.error_logs.is_empty(),
        "there is always an error log"
    );
    let Some(http) = &config.http else {
        return;
    };
    for listener in &http.listeners {
        assert!(listener.servers.contains(&listener.default_server));
        assert!(
            listener
                .servers
                .iter()
                .all(|index| *index < http.servers.len())
        );
        assert!(!listener.options.quic || listener.address.is_udp());
        if listener.options.ssl || listener.options.quic {
            assert!(http.servers[listener.default_server].tls.is_some());
        }
    }
    let names = http.variables.len();
    for server in &http.servers {
        assert!(
            !server.names.is_empty(),
            "every server has a name, if an empty one"
        );
        check_conf(&server.conf, names);
        if let Some(script) = &server.script {
            assert!(script.blocks.is_empty());
            check_script(script, names);
        }
        check_locations(&server.locations, names, true);
    }
    for pass in http.passes() {
        check_pass(pass, names, http.upstreams.len());
    }
}

fn check_locations(locations: &Locations, names: usize, server_level: bool) {
    assert!(
        server_level || locations.named.is_empty(),
        "named locations do not nest"
    );
    for location in locations.all() {
        let location: &Location = location;
        check_conf(&location.conf, names);
        check_locations(&location.children, names, false);
    }
}

fn check_conf(conf: &LocationConf, names: usize) {
    let headers = conf.add_headers.iter().map(|header| &header.value);
    let changed = conf.response_changes.iter().map(|change| &change.fields);
    let changed = changed.chain(conf.request_changes.iter().map(|change| &change.fields));
    let changed = changed.flatten().map(|field| &field.value);
    for template in conf.index.iter().chain(headers).chain(changed) {
        check_template(template, names);
    }
    if let Some(script) = &conf.script {
        check_script(script, names);
    }
}

fn check_script(script: &Script, names: usize) {
    for (at, op) in script.ops.iter().enumerate() {
        match op {
            Op::If(condition) => {
                assert!(condition.inside < script.ops.len() - at);
                let block = condition.block;
                assert!(block.is_none_or(|block| block < script.blocks.len()));
            }
            Op::Set(set) => check_template(&set.value, names),
            Op::Compute(compute) => {
                for argument in &compute.arguments {
                    check_template(argument, names);
                }
            }
            Op::Rewrite(rewrite) => {
                check_template(&rewrite.path, names);
                rewrite
                    .args
                    .iter()
                    .for_each(|args| check_template(args, names));
            }
            Op::Return(returns) => returns
                .text
                .iter()
                .for_each(|text| check_template(text, names)),
            Op::Break => {}
        }
    }
    for block in &script.blocks {
        assert!(block.script.is_none(), "the steps stand outside");
        check_conf(block, names);
    }
}

fn check_pass(pass: &Pass, names: usize, groups: usize) {
    assert!(pass.group().is_none_or(|group| group.0 < groups));
    let settings = pass.upstream();
    let (number, size) = settings.buffers;
    let largest = settings.buffer_bytes.max(size);
    // Buffers can be filled while others are on their way.
    if !matches!(
        pass,
        Pass::Grpc(_) | Pass::Memcached(_) | Pass::Tunnel(_) | Pass::Dubbo(_)
    ) {
        assert!(number >= 2 && settings.busy_buffers_bytes >= largest);
        assert!(settings.busy_buffers_bytes <= u64::from(number - 1).saturating_mul(size));
        assert!(settings.temp_file_write_bytes >= largest);
    }
    assert!(settings.temp_path.path.is_absolute());
    let tls = settings.tls.as_deref();
    assert!(tls.is_none_or(|tls| !tls.verify || tls.trusted_certificate.is_some()));
    if let Pass::Proxy(pass) = pass {
        let mut templates: Vec<&Template> = Vec::new();
        templates.extend(pass.set_headers.fields.iter().map(|field| &field.value));
        templates.extend(pass.redirects.iter().map(|rule| &rule.replacement));
        templates.extend(pass.method.iter().chain(&pass.body));
        for template in templates {
            check_template(template, names);
        }
        match &pass.target {
            ProxyTarget::Url(url) => assert!(!url.host.is_empty()),
            ProxyTarget::Evaluated(url) => assert!(url.as_literal().is_none()),
        }
    }
}

fn check_template(template: &Template, names: usize) {
    for part in template.parts() {
        match part {
            Part::Literal(text) => assert!(!text.is_empty()),
            Part::Variable(Variable::User(index)) => assert!(usize::from(*index) < names),
            Part::Variable(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Words from which random configurations are put together, so that they
    /// get past the first directive.
    const WORDS: &[&str] = &[
        "ssl_certificate_key",
        "\"data:-----BEGIN PRIVATE KEY-----\\nMC4C\\n-----END PRIVATE KEY-----\"",
        "#-----BEGIN PRIVATE KEY-----\nMC4C",
        "events",
        "http",
        "server",
        "location",
        "types",
        "include",
        "a.conf",
        "b.conf",
        "*.conf",
        "listen",
        "80",
        "443",
        "ssl",
        "quic",
        "quic_retry",
        "quic_versions",
        "quic_preferred_address",
        "quic_qlog",
        "quic_qlog_max_size",
        "http3_max_resets",
        "1.2.3.4:80",
        "[::]:80",
        "unix:/s",
        "80-90",
        "default_server",
        "reuseport",
        "server_name",
        "~^(?<n>.*)$",
        "*.a.b",
        "$hostname",
        "root",
        "alias",
        "/",
        "=",
        "~",
        "^~",
        "@x",
        "/a/b",
        "$n",
        "$host",
        "${uri}",
        "$1",
        "return",
        "301",
        "try_files",
        "error_page",
        "404",
        "=200",
        "add_header",
        "x",
        "always",
        "index",
        "log_format",
        "access_log",
        "off",
        "on",
        "1k",
        "10s",
        "ssl_certificate",
        "ssl_certificate_key",
        "p.pem",
        "ssl_reject_handshake",
        "worker_processes",
        "auto",
        "internal",
        "upstream",
        "proxy_pass",
        "http://x",
        "https://127.0.0.1:8/a",
        "fastcgi_pass",
        "uwsgi_pass",
        "grpc_pass",
        "127.0.0.1:9",
        "[::1]:9",
        "proxy_redirect",
        "default",
        "proxy_buffers",
        "proxy_busy_buffers_size",
        "proxy_set_header",
        "proxy_cookie_flags",
        "proxy_ssl_verify",
        "fastcgi_param",
        "fastcgi_split_path_info",
        "^(a)(b)$",
        "{",
        "}",
        ";",
        "{",
        "}",
        ";",
        ";",
        "\n",
        "'",
        "\"",
        "\\",
        "#",
    ];

    /// Whole configurations, to be damaged.
    const SEEDS: &[&str] = &[
        "events {} http { server { listen 443 ssl; ssl_certificate c.pem;
         ssl_certificate_key \"data:-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIDAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVm\n-----END PRIVATE KEY-----
         \"; # -----BEGIN PRIVATE KEY-----\n# MC4CAQAwBQYDK2VwBCIEIDAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVm\n# -----END PRIVATE KEY-----
         location / { proxy_ssl_certificate c.pem; proxy_ssl_certificate_key 'data:-----BEGIN PRIVATE KEY-----\\nMC4CAQAwBQYDK2VwBCIEIDAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVm\\n-----END PRIVATE KEY-----'; proxy_pass https://127.0.0.1; } } }",
        "user www; worker_processes auto; error_log stderr debug; events { worker_connections 9; }
         http { include a.conf; log_format m escape=json '{\"a\":\"$host\"}' \"x\"; access_log l m buffer=1k;
         server { listen 443 ssl default_server; listen [::]:443 ssl; server_name ~^(?<u>.+)\\.x$ *.b;
         ssl_certificate c.pem; ssl_certificate_key k.pem; ssl_session_cache shared:S:1m;
         location / { root /$u; try_files $uri $uri/ @f; error_page 404 497 =200 /e?x; }
         location @f { return 301 https://$host$request_uri; } location ~* \\.(gif|jpg)$ { expires 30d; } } }
         \0 types { text/html html; image/gif gif; }",
        "events {} http { quic_node_id 7; quic_qlog q 10.0.0.0/8; quic_qlog_max_size 1g; quic_qlog_max_connections 0; quic_versions 2 1; http3_max_resets 9 rate=1; server {
         listen 443 quic reuseport; listen 443 ssl; listen [::]:443 quic; ssl_certificate c.pem; ssl_certificate_key k.pem;
         quic_preferred_address 192.0.2.1:443 [2001:db8::1]:443; quic_retry 9; http3_stream_buffer_size 1k; return 200 $http3; } }",
        "events {} http { server { listen 8000-8003; listen unix:/s backlog=9; location = /s { stub_status; }
         location ^~ /a/ { alias /b/; autoindex on; location /a/c { limit_rate 10k; } } } server { listen 8001
         so_keepalive=1m::3; return 444; } open_file_cache max=9 inactive=1s; add_header A \"b c\" always; }",
        "events {} http { upstream u { server 127.0.0.1:1 weight=2; keepalive 4; } proxy_buffers 4 8k; server { location /a/ {
         proxy_pass https://u/b; proxy_redirect ~*^http://(?<h>x)/ /$h; proxy_cookie_path / \"/a; x\"; proxy_ssl_name $host;
         proxy_set_header X-A \"$remote_addr, $h\"; proxy_next_upstream error http_502; proxy_bind $remote_addr transparent;
         proxy_temp_path t 1 2; } location ~ (.*)\\.php$ { fastcgi_pass unix:/s; fastcgi_param A $1 if_not_empty;
         fastcgi_split_path_info ^(.+?)(/.*)$; } location /g { grpc_pass grpcs://127.0.0.1:2; grpc_set_header A $host; }
         location /v { proxy_pass $scheme://$host$uri; proxy_method GET; } location /w { uwsgi_pass [::1]:3; } } }",
    ];

    #[test]
    fn seeds_are_whole_configurations() {
        for seed in SEEDS {
            let mut texts = seed.split('\0');
            let text = texts.next().unwrap_or_default();
            let mut loader = MemoryLoader::new().with("/conf/nginx.conf", text);
            if let Some(included) = texts.next() {
                loader = loader.with("/conf/a.conf", included);
            }
            let options = Options::new("/conf/nginx.conf", "/prefix");
            let read = parse_within(&options, &mut loader, &LIMITS);
            assert!(read.is_ok(), "{}", read.expect_err("it is refused"));
        }
    }

    #[test]
    fn include_bombs_are_bounded() {
        let bomb = |name: &str| format!("include {name}.conf; ").repeat(20);
        let data = [
            bomb("a"),
            bomb("b"),
            bomb("c"),
            bomb("d"),
            "error_log x;".into(),
        ]
        .join("\0");
        fuzz_config(data.as_bytes());
        fuzz_config(b"include nginx.conf;");
        fuzz_config("http{".repeat(10_000).as_bytes());
        fuzz_config(
            "events{}http{server{location /{"
                .replace("location", &"location /{".repeat(5_000))
                .as_bytes(),
        );
        fuzz_config(b"-daemon off;\0events {}");
    }

    proptest! {
        #[test]
        fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..2_000)) {
            fuzz_config(&data);
        }

        #[test]
        fn damaged_configurations(
            seed in proptest::sample::select(SEEDS),
            edits in proptest::collection::vec((any::<prop::sample::Index>(), 0usize..6, any::<u8>()), 0..8),
        ) {
            let mut text = seed.as_bytes().to_vec();
            for (place, cut, byte) in edits {
                let at = place.index(text.len());
                let end = text.len().min(at + cut);
                text.splice(at..end, (cut % 2 == 0).then_some(byte));
                if text.is_empty() {
                    break;
                }
            }
            fuzz_config(&text);
        }

        #[test]
        fn any_words(words in proptest::collection::vec(proptest::sample::select(WORDS), 0..120)) {
            fuzz_config(words.join(" ").as_bytes());
        }

        #[test]
        fn any_words_inside_a_server(
            words in proptest::collection::vec(proptest::sample::select(WORDS), 0..40),
        ) {
            let inside = words.join(" ");
            fuzz_config(format!("events {{}} http {{ server {{ {inside} }} }}").as_bytes());
            fuzz_config(format!("events {{}} http {{ include a.conf; }}\0 {inside}").as_bytes());
        }
    }
}
