//! `ssl_*` and `listen ... ssl`.
//!
//! Each row: where the text stands, the text, and what is said about it.

use super::Case;
use super::Where::*;

pub(super) const CASES: &[Case] = &[
    Case(
        Http,
        "ssl_session_cache builtin:1000 shared:SSL:10m; foo;",
        r#"[emerg] unknown directive "foo" in FILE:3"#,
    ),
    Case(
        Http,
        "ssl_session_cache builtin:1000 shared:SSL:10m x;",
        r#"[emerg] invalid number of arguments in "ssl_session_cache" directive in FILE:3"#,
    ),
    Case(
        Server,
        "ssl_certificate_key a; ssl_certificate_key b; ssl_certificate c; ssl_certificate d; ssl_certificate e;",
        r#"[emerg] no "ssl_certificate_key" is defined for certificate "e""#,
    ),
    Case(
        Server,
        "listen 8443 ssl;",
        r#"[emerg] no "ssl_certificate" is defined for the "listen ... ssl" directive in FILE:3"#,
    ),
    Case(
        Server,
        "listen 8443 ssl; ssl_certificate c.pem;",
        r#"[emerg] no "ssl_certificate_key" is defined for certificate "c.pem""#,
    ),
    Case(
        Http,
        "ssl_certificate a; server { listen 8443; }",
        r#"[emerg] no "ssl_certificate_key" is defined for certificate "a""#,
    ),
    Case(
        Server,
        "listen 8443 ssl; ssl_reject_handshake on; foo;",
        r#"[emerg] unknown directive "foo" in FILE:4"#,
    ),
    Case(
        Http,
        "server { listen 8443 ssl; ssl_reject_handshake on; }\nserver {\nlisten 8443 ssl; server_name x; }",
        r#"[emerg] no "ssl_certificate" is defined for the "listen ... ssl" directive in FILE:4"#,
    ),
    Case(
        Server,
        "ssl_protocols TLSv1.4;",
        r#"[emerg] invalid value "TLSv1.4" in FILE:4"#,
    ),
    Case(
        Server,
        "ssl_protocols;",
        r#"[emerg] invalid number of arguments in "ssl_protocols" directive in FILE:4"#,
    ),
    Case(
        Server,
        "ssl_protocols TLSv1.2 TLSv1.2; foo;",
        "[warn] duplicate value \"TLSv1.2\" in FILE:4\n[emerg] unknown directive \"foo\" in FILE:4",
    ),
    Case(
        Server,
        "ssl_session_cache foo;",
        r#"[emerg] invalid session cache "foo" in FILE:4"#,
    ),
    Case(
        Server,
        "ssl_session_cache shared:;",
        r#"[emerg] invalid session cache "shared:" in FILE:4"#,
    ),
    Case(
        Server,
        "ssl_session_cache shared:a;",
        r#"[emerg] invalid session cache "shared:a" in FILE:4"#,
    ),
    Case(
        Server,
        "ssl_session_cache shared::1m;",
        r#"[emerg] invalid session cache "shared::1m" in FILE:4"#,
    ),
    Case(
        Server,
        "ssl_session_cache shared:a:x;",
        r#"[emerg] invalid session cache "shared:a:x" in FILE:4"#,
    ),
    Case(
        Server,
        "ssl_session_cache shared:a:1k;",
        r#"[emerg] session cache "shared:a:1k" is too small in FILE:4"#,
    ),
    Case(
        Server,
        "ssl_session_cache builtin:x;",
        r#"[emerg] invalid session cache "builtin:x" in FILE:4"#,
    ),
    Case(
        Http,
        "ssl_session_cache shared:a:1m; server { ssl_session_cache shared:a:2m; }",
        r#"[emerg] the size 2097152 of shared memory zone "a" conflicts with already declared size 1048576 in FILE:3"#,
    ),
    Case(
        Server,
        "ssl_session_timeout 1ms;",
        r#"[emerg] "ssl_session_timeout" directive invalid value in FILE:4"#,
    ),
    Case(
        Server,
        "ssl_buffer_size x;",
        r#"[emerg] "ssl_buffer_size" directive invalid value in FILE:4"#,
    ),
    Case(
        Server,
        "ssl_verify_client foo;",
        r#"[emerg] invalid value "foo" in FILE:4"#,
    ),
    Case(
        Server,
        "ssl_verify_client on; ssl_verify_client on;",
        r#"[emerg] "ssl_verify_client" directive is duplicate in FILE:4"#,
    ),
    Case(
        Server,
        "ssl_verify_depth x;",
        r#"[emerg] "ssl_verify_depth" directive invalid number in FILE:4"#,
    ),
    Case(
        Server,
        "ssl_crl a; ssl_crl b;",
        r#"[emerg] "ssl_crl" directive is duplicate in FILE:4"#,
    ),
    Case(
        Location,
        "ssl_client_certificate ca.pem;",
        r#"[emerg] "ssl_client_certificate" directive is not allowed here in FILE:5"#,
    ),
    Case(
        Server,
        "ssl_ciphers a; ssl_ciphers b;",
        r#"[emerg] "ssl_ciphers" directive is duplicate in FILE:4"#,
    ),
    Case(
        Server,
        "ssl_prefer_server_ciphers x;",
        r#"[emerg] invalid value "x" in "ssl_prefer_server_ciphers" directive, it must be "on" or "off" in FILE:4"#,
    ),
    Case(
        Server,
        "ssl_conf_command a;",
        r#"[emerg] invalid number of arguments in "ssl_conf_command" directive in FILE:4"#,
    ),
    Case(
        Location,
        "ssl_protocols TLSv1.2;",
        r#"[emerg] "ssl_protocols" directive is not allowed here in FILE:5"#,
    ),
    Case(
        Server,
        "ssl_session_tickets on; ssl_session_tickets on;",
        r#"[emerg] "ssl_session_tickets" directive is duplicate in FILE:4"#,
    ),
    Case(
        Server,
        "ssl_ecdh_curve a b;",
        r#"[emerg] invalid number of arguments in "ssl_ecdh_curve" directive in FILE:4"#,
    ),
    Case(
        Server,
        "ssl_stapling on; ssl_stapling on;",
        r#"[emerg] "ssl_stapling" directive is duplicate in FILE:4"#,
    ),
    Case(
        Server,
        "ssl_stapling x;",
        r#"[emerg] invalid value "x" in "ssl_stapling" directive, it must be "on" or "off" in FILE:4"#,
    ),
    Case(
        Server,
        "listen 8443 ssl; listen 8443;",
        "[emerg] a duplicate listen 0.0.0.0:8443 in FILE:4",
    ),
    Case(
        Http,
        "server { listen 8443 ssl; ssl_reject_handshake on; } server { listen 8443; }",
        r#"[emerg] no "ssl_certificate" is defined for the "listen ... ssl" directive in FILE:3"#,
    ),
    Case(
        Server,
        "ssl_early_data x;",
        r#"[emerg] invalid value "x" in "ssl_early_data" directive, it must be "on" or "off" in FILE:4"#,
    ),
];
