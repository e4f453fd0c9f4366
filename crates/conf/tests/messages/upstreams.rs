//! `upstream`, `resolver`, and what is known about clients behind proxies. Held
//! against a newer nginx than the other tables, as much of it is younger than 1.22.
//!
//! Each row: where the text stands, the text, and what is said about it.

use super::Where::*;
use super::{Case, Difference};

pub(super) const CASES: &[Case] = &[
    // The block.
    Case(Http, "upstream x { server 127.0.0.1; }", "OK"),
    Case(
        Http,
        "upstream x { }",
        "[emerg] no servers are inside upstream in FILE:3",
    ),
    Case(
        Http,
        "upstream x {\n\n}",
        "[emerg] no servers are inside upstream in FILE:5",
    ),
    Case(
        Http,
        "upstream { server a; }",
        r#"[emerg] invalid number of arguments in "upstream" directive in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { server 127.0.0.1; }\nupstream X { server 127.0.0.1; }",
        r#"[emerg] duplicate upstream "X" in FILE:4"#,
    ),
    Case(
        Http,
        "upstream x { foo; }",
        r#"[emerg] unknown directive "foo" in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { listen 80; }",
        r#"[emerg] "listen" directive is not allowed here in FILE:3"#,
    ),
    Case(
        Server,
        "upstream x { server 127.0.0.1; }",
        r#"[emerg] "upstream" directive is not allowed here in FILE:4"#,
    ),
    // Servers.
    Case(
        Http,
        "upstream x { server 127.0.0.1:81 weight=5 max_fails=0 fail_timeout=30s max_conns=7; server [::1] backup;\n\
         server unix:/run/s down; server localhost:82 fail_timeout=1m; }",
        "OK",
    ),
    Case(
        Http,
        "upstream x { server; }",
        r#"[emerg] invalid number of arguments in "server" directive in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { server 127.0.0.1 weight=0; }",
        r#"[emerg] invalid parameter "weight=0" in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { server 127.0.0.1 weight=-1; }",
        r#"[emerg] invalid parameter "weight=-1" in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { server 127.0.0.1 max_fails=x; }",
        r#"[emerg] invalid parameter "max_fails=x" in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { server 127.0.0.1 fail_timeout=1x; }",
        r#"[emerg] invalid parameter "fail_timeout=1x" in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { server 127.0.0.1 fail_timeout=10ms; }",
        r#"[emerg] invalid parameter "fail_timeout=10ms" in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { server 127.0.0.1 max_conns=; }",
        r#"[emerg] invalid parameter "max_conns=" in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { server 127.0.0.1 backup=1; }",
        r#"[emerg] invalid parameter "backup=1" in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { server 127.0.0.1 slow_start=; }",
        r#"[emerg] invalid parameter "slow_start=" in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { server 127.0.0.1/x; }",
        r#"[emerg] invalid host in upstream "127.0.0.1/x" in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { server 127.0.0.1:0; }",
        r#"[emerg] invalid port in upstream "127.0.0.1:0" in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { server :80; }",
        r#"[emerg] no host in upstream ":80" in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { server unix:; }",
        r#"[emerg] no path in the unix domain socket in upstream "unix:" in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { server [::1; }",
        r#"[emerg] invalid host in upstream "[::1" in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { server nowhere.invalid; }",
        r#"[emerg] host not found in upstream "nowhere.invalid" in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { server nowhere.invalid:8080 weight=2; }",
        r#"[emerg] host not found in upstream "nowhere.invalid:8080" in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { server 127.0.0.1 backup; }",
        r#"[emerg] no servers in upstream "x" in FILE:3"#,
    ),
    // Names that are looked up at run time.
    Case(
        Http,
        "resolver 127.0.0.1; upstream x { zone z 64k; server nowhere.invalid resolve; server nowhere.invalid resolve service=http backup; }",
        "OK",
    ),
    Case(
        Http,
        "upstream x { zone z 64k; resolver 127.0.0.1:5353 [::1]; resolver_timeout 5s; server nowhere.invalid:81 resolve; }",
        "OK",
    ),
    Case(
        Http,
        "upstream x { zone z 64k; server nowhere.invalid resolve; }\nresolver 127.0.0.1;",
        "OK",
    ),
    Case(
        Http,
        "upstream x { zone z 64k; server nowhere.invalid resolve; }\nserver { resolver 127.0.0.1; }",
        r#"[emerg] no resolver defined to resolve names at run time in upstream "x" in FILE:3"#,
    ),
    Case(
        Http,
        "resolver 127.0.0.1; upstream x { server nowhere.invalid resolve; }",
        r#"[emerg] resolving names at run time requires upstream "x" in FILE:3 to be in shared memory"#,
    ),
    Case(Http, "upstream x { server 127.0.0.1 resolve; }", "OK"),
    Case(
        Http,
        "upstream x { server a service=; }",
        "[emerg] service is empty in FILE:3",
    ),
    Case(
        Http,
        "upstream x { server a service=http; }",
        r#"[emerg] service upstream "a" requires "resolve" parameter in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { server a:80 service=http resolve; }",
        r#"[emerg] service upstream "a:80" may not have port in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { server 127.0.0.1 service=http resolve; }",
        r#"[emerg] service upstream "127.0.0.1" requires domain name in FILE:3"#,
    ),
    // Methods.
    Case(
        Http,
        "upstream a { least_conn; server 127.0.0.1; } upstream b { ip_hash; server 127.0.0.1; }\n\
         upstream c { hash $request_uri consistent; server 127.0.0.1; } upstream d { hash a$uri; server 127.0.0.1; }\n\
         upstream e { random; server 127.0.0.1; } upstream f { random two; server 127.0.0.1; }\n\
         upstream g { random two least_conn; server 127.0.0.1; }",
        "OK",
    ),
    Case(
        Http,
        "upstream x { least_conn; ip_hash;\nserver 127.0.0.1; }",
        "[warn] load balancing method redefined in FILE:3\nOK",
    ),
    Case(
        Http,
        "upstream x { ip_hash; server 127.0.0.1 backup; }",
        r#"[emerg] balancing method does not support parameter "backup" in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { hash $uri; server 127.0.0.1 backup; }",
        r#"[emerg] balancing method does not support parameter "backup" in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { random; server 127.0.0.1 weight=2 backup; }",
        r#"[emerg] balancing method does not support parameter "backup" in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { least_conn; server 127.0.0.1; server 127.0.0.2 backup; }",
        "OK",
    ),
    Case(
        Http,
        "upstream x { server 127.0.0.1; server 127.0.0.2 backup; ip_hash; }",
        "OK",
    ),
    Case(
        Http,
        "upstream x { hash $uri foo; }",
        r#"[emerg] invalid parameter "foo" in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { hash $; }",
        "[emerg] invalid variable name in FILE:3",
    ),
    Case(
        Http,
        "upstream x { hash $nope; server 127.0.0.1; }",
        r#"[emerg] unknown "nope" variable"#,
    ),
    Case(
        Http,
        "upstream x { ip_hash; random three; }",
        "[warn] load balancing method redefined in FILE:3\n\
         [emerg] invalid parameter \"three\" in FILE:3",
    ),
    Case(
        Http,
        "upstream x { random two least_of_all; }",
        r#"[emerg] invalid parameter "least_of_all" in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { least_conn x; }",
        r#"[emerg] invalid number of arguments in "least_conn" directive in FILE:3"#,
    ),
    // Kept connections.
    Case(
        Http,
        "upstream x { server 127.0.0.1; keepalive 8; keepalive_requests 10; keepalive_time 5m; keepalive_timeout 1500ms; }",
        "OK",
    ),
    Case(
        Http,
        "upstream x { keepalive x; }",
        r#"[emerg] invalid value "x" in "keepalive" directive in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { keepalive 1; keepalive 1; }",
        r#"[emerg] "keepalive" directive is duplicate in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { keepalive_timeout 1; keepalive_timeout 1; }",
        r#"[emerg] "keepalive_timeout" directive is duplicate in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { keepalive_requests many; }",
        r#"[emerg] "keepalive_requests" directive invalid number in FILE:3"#,
    ),
    // Zones.
    Case(
        Http,
        r#"upstream x { zone "" 64k; }"#,
        r#"[emerg] invalid zone name "" in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { zone z 64x; }",
        r#"[emerg] invalid zone size "64x" in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { zone z 16k; }",
        r#"[emerg] zone "z" is too small in FILE:3"#,
    ),
    Case(
        Http,
        "upstream x { zone z 64k; server 127.0.0.1; } upstream y { zone z 64k; server 127.0.0.1; }",
        "OK",
    ),
    Case(
        Http,
        "upstream x { zone z 64k; server 127.0.0.1; }\nupstream y { zone z 32k; server 127.0.0.1; }",
        r#"[emerg] the size 32768 of shared memory zone "z" conflicts with already declared size 65536 in FILE:4"#,
    ),
    // Name servers.
    Case(
        Location,
        "resolver 127.0.0.1 [::1]:54 localhost valid=5m ipv4=on ipv6=off; resolver_timeout 1500ms;",
        "OK",
    ),
    Case(
        Location,
        "resolver 127.0.0.1; resolver 127.0.0.1;",
        r#"[emerg] "resolver" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "resolver;",
        r#"[emerg] invalid number of arguments in "resolver" directive in FILE:5"#,
    ),
    Case(
        Location,
        "resolver valid=5m;",
        "[emerg] no name servers defined in FILE:5",
    ),
    Case(
        Location,
        "resolver 127.0.0.1 valid=x;",
        "[emerg] invalid parameter: valid=x in FILE:5",
    ),
    Case(
        Location,
        "resolver 127.0.0.1 ipv6=no;",
        "[emerg] invalid parameter: ipv6=no in FILE:5",
    ),
    Case(
        Location,
        "resolver 127.0.0.1 ipv4=off ipv6=off;",
        r#"[emerg] "ipv4" and "ipv6" cannot both be "off" in FILE:5"#,
    ),
    Case(
        Location,
        "resolver nowhere.invalid;",
        r#"[emerg] host not found in resolver "nowhere.invalid" in FILE:5"#,
    ),
    Case(
        Location,
        "resolver 127.0.0.1:x;",
        r#"[emerg] invalid port in resolver "127.0.0.1:x" in FILE:5"#,
    ),
    // The client behind a proxy.
    Case(
        Location,
        "set_real_ip_from 10.0.0.0/8; set_real_ip_from 2001:db8::/32; set_real_ip_from ::1; set_real_ip_from unix:;\n\
         set_real_ip_from localhost; real_ip_header X-Forwarded-For; real_ip_recursive on;",
        "OK",
    ),
    Case(
        Location,
        "set_real_ip_from 10.0.0.1/8;",
        "[warn] low address bits of 10.0.0.1/8 are meaningless in FILE:5\nOK",
    ),
    Case(
        Location,
        "set_real_ip_from 2001:db8::1/32;",
        "[warn] low address bits of 2001:db8::1/32 are meaningless in FILE:5\nOK",
    ),
    Case(
        Location,
        "set_real_ip_from 10.0.0.0/33;",
        r#"[emerg] host not found in set_real_ip_from "10.0.0.0/33" in FILE:5"#,
    ),
    Case(
        Location,
        "set_real_ip_from nowhere.invalid;",
        r#"[emerg] host not found in set_real_ip_from "nowhere.invalid" in FILE:5"#,
    ),
    Case(
        Location,
        "real_ip_header a; real_ip_header b;",
        r#"[emerg] "real_ip_header" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "real_ip_recursive 1;",
        r#"[emerg] invalid value "1" in "real_ip_recursive" directive, it must be "on" or "off" in FILE:5"#,
    ),
    // Subrequests.
    Case(
        Location,
        "auth_request /auth; auth_request_set $user $upstream_http_x_user; add_header x $user;",
        "OK",
    ),
    Case(
        Http,
        "auth_request off; server { auth_request /a; location / { auth_request off; } }",
        "OK",
    ),
    Case(
        Location,
        "auth_request /a; auth_request off;",
        r#"[emerg] "auth_request" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "auth_request_set user a;",
        r#"[emerg] invalid variable name "user" in FILE:5"#,
    ),
    Case(
        Location,
        "auth_request_set $ a;",
        r#"[emerg] invalid variable name "$" in FILE:5"#,
    ),
    Case(
        Location,
        "auth_request_set $host a;",
        r#"[emerg] the duplicate "host" variable in FILE:5"#,
    ),
    Case(Location, "auth_request_set $args a;", "OK"),
    Case(
        Location,
        "auth_request_set $x $;",
        "[emerg] invalid variable name in FILE:5",
    ),
    Case(
        Location,
        "mirror /a; mirror /b; mirror_request_body off;",
        "OK",
    ),
    Case(
        Location,
        "mirror off; mirror /b;",
        r#"[emerg] "mirror" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "mirror /b; mirror off;",
        r#"[emerg] "mirror" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "mirror off; mirror off;",
        r#"[emerg] "mirror" directive is duplicate in FILE:5"#,
    ),
    // Request bodies.
    Case(
        Location,
        "client_body_temp_path a/ 1 2 3; client_body_in_file_only clean; client_body_in_single_buffer on;",
        "OK",
    ),
    Case(
        Location,
        "client_body_temp_path a 0;",
        r#"[emerg] "client_body_temp_path" directive invalid value in FILE:5"#,
    ),
    Case(
        Location,
        "client_body_temp_path a 4 4 3;",
        r#"[emerg] "client_body_temp_path" directive invalid value in FILE:5"#,
    ),
    Case(
        Location,
        "client_body_temp_path a x;",
        r#"[emerg] "client_body_temp_path" directive invalid value in FILE:5"#,
    ),
    Case(
        Location,
        "client_body_temp_path a; client_body_temp_path a;",
        r#"[emerg] "client_body_temp_path" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "client_body_in_file_only always;",
        r#"[emerg] invalid value "always" in FILE:5"#,
    ),
    // HTTP/2 and the PROXY protocol.
    Case(Server, "listen 127.0.0.1:18099 proxy_protocol;", "OK"),
    Case(
        Http,
        "server { listen 127.0.0.1:18099 proxy_protocol; }\nserver { listen 127.0.0.1:18099; } server { listen 127.0.0.1:18099 proxy_protocol; } foo;",
        "[warn] protocol options redefined for 127.0.0.1:18099 in FILE:4\n\
         [emerg] unknown directive \"foo\" in FILE:4",
    ),
    Case(
        Server,
        "http2 on; http2_chunk_size 100; http2_max_concurrent_streams 1; http2_body_preread_size 0; http2 on;",
        r#"[emerg] "http2" directive is duplicate in FILE:4"#,
    ),
    Case(
        Server,
        "listen 127.0.0.1:18099 http2; foo;",
        "[warn] the \"listen ... http2\" directive is deprecated, use the \"http2\" directive instead in FILE:4\n\
         [emerg] unknown directive \"foo\" in FILE:4",
    ),
    Case(
        Http,
        "http2_recv_buffer_size 16;",
        r#"[emerg] "http2_recv_buffer_size" directive value is too small in FILE:3"#,
    ),
    Case(
        Http,
        "http2_chunk_size 0;",
        "[emerg] the http2 chunk size cannot be zero in FILE:3",
    ),
    Case(
        Http,
        "http2_body_preread_size 2048m;",
        "[emerg] the maximum body preread buffer size is 2147483647 in FILE:3",
    ),
];

const NEWER: &str = "the reference is newer than nginx 1.28";
const NO_SHARED_MEMORY: &str = "threads share memory without a zone of a certain size";

pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        case: Case(Http, "upstream x { server 127.0.0.1; keepalive 0; }", "OK"),
        nginx: r#"[emerg] invalid value "0" in "keepalive" directive in FILE:3"#,
        why: NEWER,
    },
    Difference {
        case: Case(
            Http,
            "upstream x { server 127.0.0.1; keepalive 4 local; }",
            "OK",
        ),
        nginx: r#"[emerg] invalid number of arguments in "keepalive" directive in FILE:3"#,
        why: NEWER,
    },
    Difference {
        case: Case(
            Http,
            "upstream x { server 127.0.0.1; keepalive 4; least_conn; }",
            "OK",
        ),
        nginx: "[warn] load balancing method redefined in FILE:3\nOK",
        why: NEWER,
    },
    Difference {
        case: Case(Location, "early_hints $http_sec_fetch_mode 1;", "OK"),
        nginx: r#"[emerg] unknown directive "early_hints" in FILE:5"#,
        why: NEWER,
    },
    Difference {
        case: Case(
            Http,
            "upstream x { sticky cookie id; server 127.0.0.1; }",
            "OK",
        ),
        nginx: r#"[emerg] unknown directive "sticky" in FILE:3"#,
        why: NEWER,
    },
    Difference {
        case: Case(Http, "upstream x { zone z; server 127.0.0.1; }", "OK"),
        nginx: r#"[emerg] zero size shared memory zone "z""#,
        why: NO_SHARED_MEMORY,
    },
    Difference {
        case: Case(
            Http,
            "upstream x { vnswrr max_init=4; server 127.0.0.1; }",
            "OK",
        ),
        nginx: r#"[emerg] unknown directive "vnswrr" in FILE:3"#,
        why: "Tengine has it",
    },
    Difference {
        case: Case(
            Http,
            "upstream x { server 127.0.0.1 weight=1000001; }",
            r#"[emerg] invalid parameter "weight=1000001" in FILE:3"#,
        ),
        nginx: "OK",
        why: "sums of weights must not overflow",
    },
];
