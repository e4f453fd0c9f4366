//! Handing requests on: what each of `proxy_*`, `fastcgi_*`, `uwsgi_*`, `scgi_*` and
//! `grpc_*` has for itself, and TLS.
//!
//! Each row: where the text stands, the text, and what is said about it.

use super::Case;
use super::Where::*;

pub(super) const CASES: &[Case] = &[
    Case(
        Location,
        "proxy_redirect foo;",
        r#"[emerg] invalid parameter "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_redirect default;",
        r#"[emerg] "proxy_redirect default" should be placed after the "proxy_pass" directive in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_pass http://127.0.0.1; proxy_redirect default; proxy_redirect http://a /; proxy_redirect ~*^x(.*) /$1; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_pass http://$host; proxy_redirect default;",
        r#"[emerg] "proxy_redirect default" cannot be used with "proxy_pass" directive with variables in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_redirect off; proxy_redirect off;",
        r#"[emerg] "proxy_redirect" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_redirect a b; proxy_redirect off;",
        r#"[emerg] "proxy_redirect" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_redirect off; proxy_redirect a b;",
        r#"[emerg] "proxy_redirect" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_redirect ~( b;",
        r#"[emerg] pcre2_compile() failed: missing closing parenthesis in "(" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_redirect a $foo;",
        r#"[emerg] unknown "foo" variable"#,
    ),
    Case(
        Location,
        "proxy_cookie_domain off; proxy_cookie_domain a b;",
        r#"[emerg] "proxy_cookie_domain" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cookie_domain a b; proxy_cookie_domain off;",
        r#"[emerg] "proxy_cookie_domain" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cookie_domain foo;",
        r#"[emerg] invalid parameter "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cookie_domain ~[ b;",
        r#"[emerg] pcre2_compile() failed: missing terminating ] for character class in "[" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cookie_domain .a .b; proxy_cookie_domain ~^x$ y; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cookie_path foo;",
        r#"[emerg] invalid parameter "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cookie_path a b; proxy_cookie_path ~*(x) $1; proxy_cookie_path off;",
        r#"[emerg] "proxy_cookie_path" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cookie_flags foo;",
        r#"[emerg] invalid parameter "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cookie_flags one secure foo samesite=lax; proxy_cookie_flags ~x httponly; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cookie_flags off; proxy_cookie_flags a b;",
        r#"[emerg] "proxy_cookie_flags" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cookie_flags a b c d e;",
        r#"[emerg] invalid number of arguments in "proxy_cookie_flags" directive in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_http_version 1.2;",
        r#"[emerg] invalid value "1.2" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_http_version 1.0; proxy_http_version 1.1;",
        r#"[emerg] "proxy_http_version" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_method POST; proxy_method GET;",
        r#"[emerg] "proxy_method" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_set_header a;",
        r#"[emerg] invalid number of arguments in "proxy_set_header" directive in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_set_header a $foo;",
        r#"[emerg] unknown "foo" variable"#,
    ),
    Case(
        Location,
        r#"proxy_set_header a $proxy_host$proxy_port$proxy_add_x_forwarded_for; proxy_set_header a ""; foo;"#,
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_set_body a; proxy_set_body b;",
        r#"[emerg] "proxy_set_body" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_set_body $foo;",
        r#"[emerg] unknown "foo" variable"#,
    ),
    Case(
        Location,
        "proxy_send_lowat 1k; proxy_send_lowat 1k;",
        "[warn] \"proxy_send_lowat\" is not supported, ignored in FILE:5\n\
         [emerg] \"proxy_send_lowat\" directive is duplicate in FILE:5",
    ),
    Case(
        Location,
        "fastcgi_send_lowat x;",
        r#"[emerg] "fastcgi_send_lowat" directive invalid value in FILE:5"#,
    ),
    Case(
        Location,
        "uwsgi_send_lowat 1k;",
        r#"[emerg] unknown directive "uwsgi_send_lowat" in FILE:5"#,
    ),
    Case(
        Location,
        "fastcgi_param A b if_not_empty; fastcgi_param A b foo;",
        r#"[emerg] invalid parameter "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "fastcgi_param A;",
        r#"[emerg] invalid number of arguments in "fastcgi_param" directive in FILE:5"#,
    ),
    Case(
        Location,
        "fastcgi_param A $foo;",
        r#"[emerg] unknown "foo" variable"#,
    ),
    Case(
        Location,
        "fastcgi_split_path_info ^(.+)$;",
        r#"[emerg] pattern "^(.+)$" must have 2 captures in FILE:5"#,
    ),
    Case(
        Location,
        "fastcgi_split_path_info ^(a)(b)(c)$;",
        r#"[emerg] pattern "^(a)(b)(c)$" must have 2 captures in FILE:5"#,
    ),
    Case(
        Location,
        "fastcgi_split_path_info (;",
        r#"[emerg] pcre2_compile() failed: missing closing parenthesis in "(" in FILE:5"#,
    ),
    Case(
        Location,
        r"fastcgi_split_path_info ^(.+\.php)(/.+)$; fastcgi_split_path_info ^(.+\.php)(/.+)$; fastcgi_param A $fastcgi_script_name$fastcgi_path_info; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "fastcgi_index a; fastcgi_index b;",
        r#"[emerg] "fastcgi_index" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "fastcgi_catch_stderr a; fastcgi_catch_stderr b; fastcgi_keep_conn on; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "uwsgi_modifier1 256;",
        "[emerg] value must be between 0 and 255 in FILE:5",
    ),
    Case(
        Location,
        "uwsgi_modifier1 x;",
        r#"[emerg] "uwsgi_modifier1" directive invalid number in FILE:5"#,
    ),
    Case(
        Location,
        "uwsgi_modifier1 255; uwsgi_modifier2 0; uwsgi_modifier2 1;",
        r#"[emerg] "uwsgi_modifier2" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "uwsgi_string a; uwsgi_string b;",
        r#"[emerg] "uwsgi_string" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_ssl_protocols foo;",
        r#"[emerg] invalid value "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_ssl_protocols TLSv1.2 TLSv1.2; foo;",
        "[warn] duplicate value \"TLSv1.2\" in FILE:5\n\
         [emerg] unknown directive \"foo\" in FILE:5",
    ),
    Case(
        Location,
        "proxy_ssl_verify on; proxy_pass https://127.0.0.1;",
        "[emerg] no proxy_ssl_trusted_certificate for proxy_ssl_verify",
    ),
    Case(
        Location,
        "proxy_ssl_verify on; proxy_pass http://127.0.0.1;",
        "OK",
    ),
    Case(
        Location,
        "proxy_ssl_certificate a; proxy_pass https://127.0.0.1;",
        r#"[emerg] no "proxy_ssl_certificate_key" is defined for certificate "a""#,
    ),
    Case(
        Location,
        "proxy_ssl_certificate a; proxy_pass http://127.0.0.1;",
        "OK",
    ),
    Case(
        Location,
        r#"proxy_ssl_certificate ""; proxy_pass https://127.0.0.1; foo;"#,
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_ssl_certificate $foo;",
        r#"[emerg] unknown "foo" variable"#,
    ),
    Case(
        Location,
        "grpc_ssl_verify on; grpc_pass grpcs://127.0.0.1:1;",
        "[emerg] no grpc_ssl_trusted_certificate for grpc_ssl_verify",
    ),
    Case(
        Location,
        "uwsgi_ssl_verify on; uwsgi_pass suwsgi://127.0.0.1:1;",
        "[emerg] no uwsgi_ssl_trusted_certificate for uwsgi_ssl_verify",
    ),
    Case(
        Location,
        "proxy_ssl_verify_depth x;",
        r#"[emerg] "proxy_ssl_verify_depth" directive invalid number in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_ssl_name $foo;",
        r#"[emerg] unknown "foo" variable"#,
    ),
    Case(
        Location,
        "proxy_ssl_trusted_certificate a; proxy_ssl_trusted_certificate b;",
        r#"[emerg] "proxy_ssl_trusted_certificate" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_ssl_crl a; proxy_ssl_crl b;",
        r#"[emerg] "proxy_ssl_crl" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_ssl_certificate a; proxy_ssl_certificate b;",
        r#"[emerg] "proxy_ssl_certificate" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_ssl_session_reuse maybe;",
        r#"[emerg] invalid value "maybe" in "proxy_ssl_session_reuse" directive, it must be "on" or "off" in FILE:5"#,
    ),
    Case(
        Location,
        "fastcgi_ssl_verify on;",
        r#"[emerg] unknown directive "fastcgi_ssl_verify" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cache off; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_store on; proxy_store_access group:r; proxy_pass_request_body on; proxy_pass_request_headers off; proxy_force_ranges on; proxy_intercept_errors on; proxy_buffering off; proxy_request_buffering off; proxy_ignore_client_abort on; proxy_socket_keepalive on; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "grpc_buffering off;",
        r#"[emerg] unknown directive "grpc_buffering" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_headers_hash_max_size x;",
        r#"[emerg] "proxy_headers_hash_max_size" directive invalid number in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_hide_header a; proxy_hide_header a; proxy_pass_header b; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "return 200 $upstream_addr$upstream_http_x$upstream_cookie_y$upstream_trailer_z$upstream_status; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
];
