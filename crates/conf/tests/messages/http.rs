//! Directives of `http` and `server`.
//!
//! Each row: where the text stands, the text, and what is said about it.

use super::Case;
use super::Where::*;

pub(super) const CASES: &[Case] = &[
    Case(
        Http,
        "charset_map a b { x; }",
        r#"[emerg] invalid parameters number in FILE:3"#,
    ),
    Case(
        Http,
        "charset_map a b { 100 1; }",
        r#"[emerg] invalid value "100" in FILE:3"#,
    ),
    Case(
        Http,
        "charset_map a b { 1 g; }",
        r#"[emerg] invalid value "g" in FILE:3"#,
    ),
    Case(
        Http,
        "charset_map a A { }",
        r#"[emerg] "charset_map" between the same charsets "a" and "A" in FILE:3"#,
    ),
    Case(
        Http,
        "charset_map a b { } charset_map B a { }",
        r#"[emerg] duplicate "charset_map" between "B" and "a" in FILE:3"#,
    ),
    Case(
        Http,
        "charset a; charset b;",
        r#"[emerg] "charset" directive is duplicate in FILE:3"#,
    ),
    Case(
        Http,
        "charset a; source_charset b; server { }",
        r#"[emerg] no "charset_map" between the charsets "b" and "a""#,
    ),
    Case(
        Http,
        "sub_filter '' a;",
        r#"[emerg] empty search pattern in FILE:3"#,
    ),
    Case(
        Http,
        "sub_filter_types a a text/html; foo;",
        "[warn] duplicate MIME type \"a\" in FILE:3\n[warn] duplicate MIME type \"text/html\" in FILE:3\n[emerg] unknown directive \"foo\" in FILE:3",
    ),
    Case(
        Http,
        "add_before_body /a; add_before_body /b;",
        r#"[emerg] "add_before_body" directive is duplicate in FILE:3"#,
    ),
    Case(
        Http,
        "gzip_comp_level 10;",
        "[emerg] value must be between 1 and 9 in FILE:3",
    ),
    Case(
        Http,
        "send_lowat 4; foo;",
        "[warn] \"send_lowat\" is not supported, ignored in FILE:3\n[emerg] unknown directive \"foo\" in FILE:3",
    ),
    Case(
        Http,
        "http2_max_field_size 1k; foo;",
        "[warn] the \"http2_max_field_size\" directive is obsolete, use the \"large_client_header_buffers\" directive instead in FILE:3\n[emerg] unknown directive \"foo\" in FILE:3",
    ),
    Case(
        Http,
        r#"log_format x 'a' '$host' "b"; log_format y '$a_b'; "#,
        r#"[emerg] unknown "a_b" variable"#,
    ),
    Case(
        Http,
        r#"log_format x escape=json '{' '"a":"$host"' '}'; access_log l x if=$nothing;"#,
        r#"[emerg] unknown "nothing" variable"#,
    ),
    Case(
        Http,
        "access_log l x; log_format x a;",
        r#"[emerg] unknown log format "x" in FILE:3"#,
    ),
    Case(
        Http,
        "limit_rate $foo;",
        r#"[emerg] unknown "foo" variable"#,
    ),
    Case(
        Http,
        "limit_rate ${limit;",
        r#"[emerg] the closing bracket in "limit" variable is missing in FILE:3"#,
    ),
    Case(
        Http,
        "client_body_timeout 1h1h;",
        r#"[emerg] "client_body_timeout" directive invalid value in FILE:3"#,
    ),
    Case(
        Http,
        "keepalive_time 1w2d3h4m5s6ms; foo;",
        r#"[emerg] unknown directive "foo" in FILE:3"#,
    ),
    Case(
        Http,
        "keepalive_time 1ms2s;",
        r#"[emerg] "keepalive_time" directive invalid value in FILE:3"#,
    ),
    Case(
        Http,
        "open_file_cache_valid 1y2M; foo;",
        r#"[emerg] unknown directive "foo" in FILE:3"#,
    ),
    Case(
        Http,
        "open_file_cache_valid 1ms;",
        r#"[emerg] "open_file_cache_valid" directive invalid value in FILE:3"#,
    ),
    Case(
        Http,
        "postpone_output 1g;",
        r#"[emerg] "postpone_output" directive invalid value in FILE:3"#,
    ),
    Case(
        Http,
        "sendfile_max_chunk -1;",
        r#"[emerg] "sendfile_max_chunk" directive invalid value in FILE:3"#,
    ),
    Case(
        Http,
        "client_max_body_size 99999999999999999999;",
        r#"[emerg] "client_max_body_size" directive invalid value in FILE:3"#,
    ),
    Case(
        Http,
        "client_max_body_size 9223372036854775807k;",
        r#"[emerg] "client_max_body_size" directive invalid value in FILE:3"#,
    ),
    Case(
        Http,
        "types { a/b c; a/b; } types { a/d C; } foo;",
        "[warn] duplicate extension \"c\", content type: \"a/d\", previous content type: \"a/b\" in FILE:3\n[emerg] unknown directive \"foo\" in FILE:3",
    ),
    Case(
        Http,
        "types { a/b c; }\nserver { types { d/e c; } foo; }",
        r#"[emerg] unknown directive "foo" in FILE:4"#,
    ),
    Case(
        Http,
        "default_type ''; foo;",
        r#"[emerg] unknown directive "foo" in FILE:3"#,
    ),
    Case(
        Http,
        "reset_timedout_connection on;\nfoo",
        r#"[emerg] unexpected "}" in FILE:5"#,
    ),
    Case(
        Http,
        "msie_padding off; msie_padding off;",
        r#"[emerg] "msie_padding" directive is duplicate in FILE:3"#,
    ),
    Case(
        Http,
        "server_tokens build; foo;",
        r#"[emerg] unknown directive "foo" in FILE:3"#,
    ),
    Case(
        Http,
        "server_tokens ON; foo;",
        r#"[emerg] unknown directive "foo" in FILE:3"#,
    ),
    Case(
        Http,
        "sendfile ON; foo;",
        r#"[emerg] unknown directive "foo" in FILE:3"#,
    ),
    Case(
        Http,
        "keepalive_disable none msie6 safari;",
        r#"[emerg] invalid number of arguments in "keepalive_disable" directive in FILE:3"#,
    ),
    Case(
        Http,
        "keepalive_disable none msie6; foo;",
        r#"[emerg] unknown directive "foo" in FILE:3"#,
    ),
    Case(
        Server,
        "worker_processes 1;",
        r#"[emerg] "worker_processes" directive is not allowed here in FILE:4"#,
    ),
    Case(
        Http,
        "sendfile maybe;",
        r#"[emerg] invalid value "maybe" in "sendfile" directive, it must be "on" or "off" in FILE:3"#,
    ),
    Case(
        Http,
        "sendfile on; sendfile on;",
        r#"[emerg] "sendfile" directive is duplicate in FILE:3"#,
    ),
    Case(
        Http,
        "sendfile;",
        r#"[emerg] invalid number of arguments in "sendfile" directive in FILE:3"#,
    ),
    Case(
        Http,
        "keepalive_timeout x;",
        r#"[emerg] "keepalive_timeout" directive invalid value in FILE:3"#,
    ),
    Case(
        Http,
        "keepalive_timeout 1 x;",
        r#"[emerg] "keepalive_timeout" directive invalid value in FILE:3"#,
    ),
    Case(
        Http,
        "keepalive_timeout 1 2 3;",
        r#"[emerg] invalid number of arguments in "keepalive_timeout" directive in FILE:3"#,
    ),
    Case(
        Http,
        "keepalive_requests x;",
        r#"[emerg] "keepalive_requests" directive invalid number in FILE:3"#,
    ),
    Case(
        Http,
        "client_max_body_size 1q;",
        r#"[emerg] "client_max_body_size" directive invalid value in FILE:3"#,
    ),
    Case(
        Http,
        "client_max_body_size 1g; client_max_body_size 1g;",
        r#"[emerg] "client_max_body_size" directive is duplicate in FILE:3"#,
    ),
    Case(
        Http,
        "client_header_buffer_size 1g;",
        r#"[emerg] "client_header_buffer_size" directive invalid value in FILE:3"#,
    ),
    Case(
        Http,
        "large_client_header_buffers 4 0;",
        r#"[emerg] "large_client_header_buffers" directive invalid value in FILE:3"#,
    ),
    Case(
        Http,
        "large_client_header_buffers 0 4k;",
        r#"[emerg] "large_client_header_buffers" directive invalid value in FILE:3"#,
    ),
    Case(
        Http,
        "large_client_header_buffers 4;",
        r#"[emerg] invalid number of arguments in "large_client_header_buffers" directive in FILE:3"#,
    ),
    Case(
        Server,
        "large_client_header_buffers 4 100;",
        r#"[emerg] the "large_client_header_buffers" size must be equal to or greater than "connection_pool_size" in FILE:6"#,
    ),
    Case(
        Http,
        "output_buffers 1 x;",
        r#"[emerg] "output_buffers" directive invalid value in FILE:3"#,
    ),
    Case(
        Http,
        "lingering_close maybe;",
        r#"[emerg] invalid value "maybe" in FILE:3"#,
    ),
    Case(
        Http,
        "if_modified_since maybe;",
        r#"[emerg] invalid value "maybe" in FILE:3"#,
    ),
    Case(
        Http,
        "keepalive_disable foo;",
        r#"[emerg] invalid value "foo" in FILE:3"#,
    ),
    Case(
        Http,
        "default_type a; default_type b;",
        r#"[emerg] "default_type" directive is duplicate in FILE:3"#,
    ),
    Case(
        Http,
        "disable_symlinks;",
        r#"[emerg] invalid number of arguments in "disable_symlinks" directive in FILE:3"#,
    ),
    Case(
        Http,
        "disable_symlinks x;",
        r#"[emerg] invalid parameter "x" in FILE:3"#,
    ),
    Case(
        Http,
        "disable_symlinks on x;",
        r#"[emerg] invalid parameter "x" in FILE:3"#,
    ),
    Case(
        Http,
        "disable_symlinks on off;",
        r#"[emerg] duplicate parameters "on off" in FILE:3"#,
    ),
    Case(
        Http,
        "disable_symlinks from=/x;",
        r#"[emerg] "disable_symlinks" must have "off", "on" or "if_not_owner" parameter in FILE:3"#,
    ),
    Case(
        Http,
        "disable_symlinks off from=/x;",
        r#"[emerg] "from=" cannot be used with "off" parameter in FILE:3"#,
    ),
    Case(
        Http,
        "disable_symlinks on; disable_symlinks off;",
        r#"[emerg] "disable_symlinks" directive is duplicate in FILE:3"#,
    ),
    Case(
        Http,
        "disable_symlinks on from=$nothing;",
        r#"[emerg] unknown "nothing" variable"#,
    ),
    Case(
        Http,
        "open_file_cache foo;",
        r#"[emerg] invalid "open_file_cache" parameter "foo" in FILE:3"#,
    ),
    Case(
        Http,
        "open_file_cache inactive=1s;",
        r#"[emerg] "open_file_cache" must have the "max" parameter in FILE:3"#,
    ),
    Case(
        Http,
        "open_file_cache max=0;",
        r#"[emerg] invalid "open_file_cache" parameter "max=0" in FILE:3"#,
    ),
    Case(
        Http,
        "open_file_cache max=10 inactive=x;",
        r#"[emerg] invalid "open_file_cache" parameter "inactive=x" in FILE:3"#,
    ),
    Case(
        Http,
        "open_file_cache off; open_file_cache off;",
        r#"[emerg] "open_file_cache" directive is duplicate in FILE:3"#,
    ),
    Case(
        Http,
        "limit_rate x;",
        r#"[emerg] "limit_rate" directive invalid value in FILE:3"#,
    ),
    Case(
        Http,
        "limit_rate 1k; limit_rate 1k;",
        r#"[emerg] "limit_rate" directive is duplicate in FILE:3"#,
    ),
    Case(
        Http,
        "send_timeout 1h30m1x;",
        r#"[emerg] "send_timeout" directive invalid value in FILE:3"#,
    ),
    Case(
        Http,
        "send_timeout 1h 30m;",
        r#"[emerg] invalid number of arguments in "send_timeout" directive in FILE:3"#,
    ),
    Case(
        Http,
        "max_ranges -1;",
        r#"[emerg] "max_ranges" directive invalid number in FILE:3"#,
    ),
    Case(
        Http,
        "types { text/html html; text/plain html; } foo;",
        "[warn] duplicate extension \"html\", content type: \"text/plain\", previous content type: \"text/html\" in FILE:3\n[emerg] unknown directive \"foo\" in FILE:3",
    ),
    Case(
        Http,
        "types { text/html { } }",
        r#"[emerg] unexpected "{" in FILE:3"#,
    ),
    Case(
        Http,
        "types { include; }",
        r#"[emerg] invalid number of arguments in "include" directive in FILE:3"#,
    ),
    Case(
        Http,
        "types { include nothere; }",
        r#"[emerg] open() "DIR/nothere" failed (2: No such file or directory) in FILE:3"#,
    ),
    Case(
        Http,
        "types x { }",
        r#"[emerg] invalid number of arguments in "types" directive in FILE:3"#,
    ),
    Case(
        Http,
        "root a; root b;",
        r#"[emerg] "root" directive is duplicate in FILE:3"#,
    ),
    Case(
        Server,
        "alias a;",
        r#"[emerg] "alias" directive is not allowed here in FILE:4"#,
    ),
    Case(
        Http,
        "root $document_root/x;",
        r#"[emerg] the $document_root variable cannot be used in the "root" directive in FILE:3"#,
    ),
    Case(
        Http,
        "error_page 404;",
        r#"[emerg] invalid number of arguments in "error_page" directive in FILE:3"#,
    ),
    Case(
        Http,
        "error_page x /y;",
        r#"[emerg] invalid value "x" in FILE:3"#,
    ),
    Case(
        Http,
        "error_page 200 /y;",
        r#"[emerg] value "200" must be between 300 and 599 in FILE:3"#,
    ),
    Case(
        Http,
        "error_page 600 /y;",
        r#"[emerg] value "600" must be between 300 and 599 in FILE:3"#,
    ),
    Case(
        Http,
        "error_page 499 /y;",
        r#"[emerg] invalid value "499" in FILE:3"#,
    ),
    Case(
        Http,
        "error_page =200 /y;",
        r#"[emerg] invalid value "=200" in FILE:3"#,
    ),
    Case(
        Http,
        "error_page 404 =x /y;",
        r#"[emerg] invalid value "=x" in FILE:3"#,
    ),
    Case(
        Http,
        "internal;",
        r#"[emerg] "internal" directive is not allowed here in FILE:3"#,
    ),
    Case(Http, "root $;", "[emerg] invalid variable name in FILE:3"),
    Case(Http, "root ${;", "[emerg] invalid variable name in FILE:3"),
    Case(
        Http,
        "root ${host;",
        r#"[emerg] the closing bracket in "host" variable is missing in FILE:3"#,
    ),
    Case(Http, "root a$foo;", r#"[emerg] unknown "foo" variable"#),
    Case(
        Http,
        "add_header a $;",
        "[emerg] invalid variable name in FILE:3",
    ),
    Case(
        Http,
        "add_header a $foo;",
        r#"[emerg] unknown "foo" variable"#,
    ),
    Case(
        Http,
        "add_header a ${foo;",
        r#"[emerg] the closing bracket in "foo" variable is missing in FILE:3"#,
    ),
    Case(
        Http,
        "add_header a ${foo",
        r#"[emerg] unexpected "}" in FILE:4"#,
    ),
    Case(
        Http,
        "log_format x $foo;\naccess_log /dev/null x;",
        r#"[emerg] unknown "foo" variable"#,
    ),
    Case(
        Http,
        "log_format x $;",
        r#"[emerg] invalid parameter "$" in FILE:3"#,
    ),
    Case(
        Http,
        "log_format x a$-b;",
        r#"[emerg] invalid parameter "$-b" in FILE:3"#,
    ),
    Case(
        Http,
        "log_format x ${;",
        r#"[emerg] invalid parameter "${" in FILE:3"#,
    ),
    Case(
        Http,
        "log_format x ${host;",
        r#"[emerg] the closing bracket in "host" variable is missing in FILE:3"#,
    ),
    Case(Http, "log_format x $1;", r#"[emerg] unknown "1" variable"#),
    Case(
        Http,
        "log_format x a; log_format x b;",
        r#"[emerg] duplicate "log_format" name "x" in FILE:3"#,
    ),
    Case(
        Http,
        "log_format combined a;",
        r#"[emerg] duplicate "log_format" name "combined" in FILE:3"#,
    ),
    Case(
        Http,
        "log_format x escape=foo a;",
        r#"[emerg] unknown log format escaping "foo" in FILE:3"#,
    ),
    Case(
        Http,
        "log_format x;",
        r#"[emerg] invalid number of arguments in "log_format" directive in FILE:3"#,
    ),
    Case(
        Http,
        "access_log off x;",
        r#"[emerg] invalid parameter "x" in FILE:3"#,
    ),
    Case(
        Http,
        "access_log /dev/null foo;",
        r#"[emerg] unknown log format "foo" in FILE:3"#,
    ),
    Case(
        Http,
        "access_log /dev/null combined foo;",
        r#"[emerg] invalid parameter "foo" in FILE:3"#,
    ),
    Case(
        Http,
        "access_log /dev/null combined buffer=x;",
        r#"[emerg] invalid buffer size "x" in FILE:3"#,
    ),
    Case(
        Http,
        "access_log /dev/null combined buffer=0;",
        r#"[emerg] invalid buffer size "0" in FILE:3"#,
    ),
    Case(
        Http,
        "access_log /dev/null combined flush=1s;",
        r#"[emerg] no buffer is defined for access_log "/dev/null" in FILE:3"#,
    ),
    Case(
        Http,
        "access_log /dev/null combined buffer=1k flush=x;",
        r#"[emerg] invalid flush time "x" in FILE:3"#,
    ),
    Case(
        Http,
        "access_log l combined buffer=1k; server { access_log l combined buffer=2k; }",
        r#"[emerg] access_log "l" already defined with conflicting parameters in FILE:3"#,
    ),
    Case(
        Http,
        "access_log;",
        r#"[emerg] invalid number of arguments in "access_log" directive in FILE:3"#,
    ),
    Case(
        Http,
        "error_log stderr debug info;",
        r#"[emerg] duplicate log level "info" in FILE:3"#,
    ),
    Case(
        Http,
        "error_log;",
        r#"[emerg] invalid number of arguments in "error_log" directive in FILE:3"#,
    ),
    Case(
        Http,
        "error_log stderr debug_http debug_core; foo;",
        r#"[emerg] unknown directive "foo" in FILE:3"#,
    ),
    Case(
        Http,
        "error_log stderr info debug_core; foo;",
        r#"[emerg] invalid log level "debug_core" in FILE:3"#,
    ),
    Case(
        Http,
        "try_files a b;",
        r#"[emerg] "try_files" directive is not allowed here in FILE:3"#,
    ),
    Case(
        Http,
        "return 200;",
        r#"[emerg] "return" directive is not allowed here in FILE:3"#,
    ),
    Case(
        Http,
        "stub_status;",
        r#"[emerg] "stub_status" directive is not allowed here in FILE:3"#,
    ),
    Case(
        Http,
        "gzip x;",
        r#"[emerg] invalid value "x" in "gzip" directive, it must be "on" or "off" in FILE:3"#,
    ),
    Case(
        Http,
        "gzip on; gzip on;",
        r#"[emerg] "gzip" directive is duplicate in FILE:3"#,
    ),
    Case(
        Http,
        "gzip_types a/b A/B; gzip_proxied off off expired; foo;",
        "[warn] duplicate MIME type \"a/b\" in FILE:3\n\
         [warn] duplicate value \"off\" in FILE:3\n\
         [emerg] unknown directive \"foo\" in FILE:3",
    ),
    Case(
        Http,
        "gzip_proxied expired sometimes;",
        r#"[emerg] invalid value "sometimes" in FILE:3"#,
    ),
    Case(
        Http,
        "gzip_http_version 2;",
        r#"[emerg] invalid value "2" in FILE:3"#,
    ),
    Case(
        Http,
        "gzip_comp_level x;",
        r#"[emerg] "gzip_comp_level" directive invalid number in FILE:3"#,
    ),
    Case(
        Http,
        "gzip_buffers 1 0;",
        r#"[emerg] "gzip_buffers" directive invalid value in FILE:3"#,
    ),
    Case(
        Http,
        "resolver_timeout x;",
        r#"[emerg] "resolver_timeout" directive invalid value in FILE:3"#,
    ),
    Case(
        Http,
        "tcp_nopush 1;",
        r#"[emerg] invalid value "1" in "tcp_nopush" directive, it must be "on" or "off" in FILE:3"#,
    ),
    Case(
        Http,
        "aio_write x;",
        r#"[emerg] invalid value "x" in "aio_write" directive, it must be "on" or "off" in FILE:3"#,
    ),
    Case(
        Http,
        "client_body_in_file_only x;",
        r#"[emerg] invalid value "x" in FILE:3"#,
    ),
    Case(
        Http,
        "subrequest_output_buffer_size x;",
        r#"[emerg] "subrequest_output_buffer_size" directive invalid value in FILE:3"#,
    ),
    Case(
        Http,
        "directio x;",
        r#"[emerg] "directio" directive invalid value in FILE:3"#,
    ),
    Case(
        Http,
        "types_hash_max_size a;",
        r#"[emerg] "types_hash_max_size" directive invalid number in FILE:3"#,
    ),
    Case(
        Http,
        "reset_timedout_connection 2;",
        r#"[emerg] invalid value "2" in "reset_timedout_connection" directive, it must be "on" or "off" in FILE:3"#,
    ),
    Case(
        Http,
        "if (x) {}",
        r#"[emerg] "if" directive is not allowed here in FILE:3"#,
    ),
    Case(
        Server,
        "server {}",
        r#"[emerg] "server" directive is not allowed here in FILE:4"#,
    ),
    Case(
        Http,
        "events {}",
        r#"[emerg] "events" directive is not allowed here in FILE:3"#,
    ),
];
