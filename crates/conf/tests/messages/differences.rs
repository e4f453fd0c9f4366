//! Where Sealane says something else than nginx 1.22, on purpose.

use super::Where::*;
use super::{Case, Difference};

const WARNED: &str = "what has no effect yet is warned about";
const NEWER: &str = "the reference is newer than nginx 1.22";

pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        case: Case(
            Location,
            "trim yes; foo;",
            "[warn] \"yes\" is neither \"on\" nor \"off\", and means \"off\" in FILE:5\n[emerg] unknown directive \"foo\" in FILE:5",
        ),
        nginx: r#"[emerg] unknown directive "trim" in FILE:5"#,
        why: "a directive of Tengine",
    },
    Difference {
        case: Case(
            Location,
            "trim_types text/x *;",
            r#"[emerg] "trim_types" does not take "*" in FILE:5"#,
        ),
        nginx: r#"[emerg] unknown directive "trim_types" in FILE:5"#,
        why: "a directive of Tengine",
    },
    Difference {
        case: Case(Http, "proxy_cache_path c keys_zone=a:1m purger=on;", "OK"),
        nginx: r#"[emerg] invalid parameter "purger=on" in FILE:3"#,
        why: "as in nginx's commercial edition",
    },
    Difference {
        case: Case(Location, "proxy_cache_purge $arg_a;", "OK"),
        nginx: r#"[emerg] unknown directive "proxy_cache_purge" in FILE:5"#,
        why: "as in nginx's commercial edition",
    },
    Difference {
        case: Case(
            Location,
            "proxy_store \"\";",
            "[emerg] empty path in FILE:5",
        ),
        nginx: "OK",
        why: NEWER,
    },
    Difference {
        case: Case(
            Http,
            "server { listen 8081 ssl; ssl_reject_handshake on; } server { listen 8081; ssl_reject_handshake on; }\n\
             server { listen 8081 ssl; ssl_reject_handshake on; } foo;",
            "[warn] protocol options redefined for 0.0.0.0:8081 in FILE:4\n\
             [emerg] unknown directive \"foo\" in FILE:4",
        ),
        nginx: r#"[emerg] unknown directive "foo" in FILE:4"#,
        why: NEWER,
    },
    Difference {
        case: Case(Http, "server_tokens foo;", "OK"),
        nginx: r#"[emerg] invalid value "foo" in FILE:3"#,
        why: "any text is a name, as in nginx's commercial edition",
    },
    Difference {
        case: Case(Http, "http2 on;", "OK"),
        nginx: r#"[emerg] unknown directive "http2" in FILE:3"#,
        why: NEWER,
    },
    Difference {
        case: Case(
            Server,
            "listen 80 http2; foo;",
            "[warn] the \"listen ... http2\" directive is deprecated, use the \"http2\" directive instead in FILE:4\n\
             [emerg] unknown directive \"foo\" in FILE:4",
        ),
        nginx: r#"[emerg] unknown directive "foo" in FILE:4"#,
        why: NEWER,
    },
    Difference {
        case: Case(
            Main,
            "worker_processes 0;",
            r#"[emerg] "worker_processes" directive invalid value in FILE:1"#,
        ),
        nginx: "OK",
        why: "a server without workers answers nothing",
    },
    Difference {
        case: Case(
            Main,
            "load_module x.so;",
            "[warn] the module \"x.so\" is not built in, its directives are errors in FILE:1\nOK",
        ),
        nginx: "[emerg] dlopen() \"DIR/x.so\" failed (DIR/x.so: cannot open shared object file: \
                No such file or directory) in FILE:1",
        why: "no module is loaded, so its file does not matter",
    },
    Difference {
        case: Case(
            Main,
            "user nobody-of-that-name;\nfoo;",
            r#"[emerg] unknown directive "foo" in FILE:2"#,
        ),
        nginx: r#"[emerg] getpwnam("nobody-of-that-name") failed in FILE:1"#,
        why: "users are looked up by the binary, after the text has been read",
    },
    Difference {
        case: Case(
            Server,
            "ssl_dhparam a; ssl_dhparam a;",
            "[warn] the \"ssl_dhparam\" directive has no effect: only ECDHE is supported, not DHE \
             in FILE:4\n[emerg] \"ssl_dhparam\" directive is duplicate in FILE:4",
        ),
        nginx: r#"[emerg] "ssl_dhparam" directive is duplicate in FILE:4"#,
        why: WARNED,
    },
    Difference {
        case: Case(
            Location,
            "proxy_http_version 2; foo;",
            r#"[emerg] unknown directive "foo" in FILE:5"#,
        ),
        nginx: r#"[emerg] invalid value "2" in FILE:5"#,
        why: NEWER,
    },
    Difference {
        case: Case(
            Location,
            "proxy_pass_trailers on; proxy_pass_trailers off;",
            r#"[emerg] "proxy_pass_trailers" directive is duplicate in FILE:5"#,
        ),
        nginx: r#"[emerg] unknown directive "proxy_pass_trailers" in FILE:5"#,
        why: NEWER,
    },
    Difference {
        case: Case(
            Location,
            "proxy_bind [::1]; foo;",
            r#"[emerg] unknown directive "foo" in FILE:5"#,
        ),
        nginx: r#"[emerg] invalid address "[::1]" in FILE:5"#,
        why: NEWER,
    },
    Difference {
        case: Case(
            Location,
            "uwsgi_ssl_protocols SSLv3 TLSv1; foo;",
            "[warn] SSLv2 and SSLv3 in \"uwsgi_ssl_protocols\" are not supported, ignored in FILE:5\n\
             [emerg] unknown directive \"foo\" in FILE:5",
        ),
        nginx: r#"[emerg] unknown directive "foo" in FILE:5"#,
        why: "AWS-LC has no SSLv3",
    },
];
