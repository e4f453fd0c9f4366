//! `listen` and `server_name`.
//!
//! Each row: where the text stands, the text, and what is said about it.

use super::Case;
use super::Where::*;

pub(super) const CASES: &[Case] = &[
    Case(
        Server,
        "server_name ~a(?<1>b)c;",
        r#"[emerg] pcre2_compile() failed: subpattern name must start with a non-digit in "a(?<1>b)c" at "1>b)c" in FILE:4"#,
    ),
    Case(
        Http,
        "server { listen 8081; } server { listen 8081; }\n server { listen 127.0.0.1:8081; } server { listen 127.0.0.1:8081; } foo;",
        r#"[emerg] unknown directive "foo" in FILE:4"#,
    ),
    Case(
        Http,
        "server { listen 8081; } server { listen 8081; }\n server { listen 127.0.0.1:8081 bind; } server { listen 127.0.0.1:8081; server_name *.a..b; }",
        r#"[emerg] invalid server name or wildcard "*.a..b" on 127.0.0.1:8081"#,
    ),
    Case(
        Http,
        "server { listen 8081 bind; } server { listen 8082; server_name x; } server { listen 8082; server_name x; }\n server { listen 127.0.0.1:8081; server_name y; } server { listen 8081; server_name ''; } server { listen 127.0.0.1:8081; server_name y; }  server { listen 8081; server_name a*b; }",
        "[warn] conflicting server name \"y\" on 127.0.0.1:8081, ignored\n[warn] conflicting server name \"\" on 0.0.0.0:8081, ignored\n[emerg] invalid server name or wildcard \"a*b\" on 0.0.0.0:8081",
    ),
    Case(
        Server,
        "listen 8081 so_keepalive=30m::10; foo;",
        r#"[emerg] unknown directive "foo" in FILE:4"#,
    ),
    Case(
        Server,
        "listen 8081 so_keepalive=on deferred fastopen=10 rcvbuf=1k sndbuf=2k backlog=9 bind; foo;",
        r#"[emerg] unknown directive "foo" in FILE:4"#,
    ),
    Case(
        Server,
        "listen [::1]:8081 ipv6only=off; foo;",
        r#"[emerg] unknown directive "foo" in FILE:4"#,
    ),
    Case(
        Server,
        "listen localhost:8081; foo;",
        r#"[emerg] unknown directive "foo" in FILE:4"#,
    ),
    Case(
        Server,
        "listen 127.0.0.1; listen 127.0.0.1:80;",
        "[emerg] a duplicate listen 127.0.0.1:80 in FILE:4",
    ),
    Case(
        Server,
        "listen *:8081; listen 0.0.0.0:8081;",
        "[emerg] a duplicate listen 0.0.0.0:8081 in FILE:4",
    ),
    Case(
        Server,
        "listen [::]; listen [::]:80;",
        "[emerg] a duplicate listen [::]:80 in FILE:4",
    ),
    Case(
        Server,
        "listen 8081-8083; listen 8082;",
        "[emerg] a duplicate listen 0.0.0.0:8082 in FILE:4",
    ),
    Case(
        Server,
        "listen *; listen 80;",
        "[emerg] a duplicate listen 0.0.0.0:80 in FILE:4",
    ),
    Case(
        Http,
        "server { server_name a; server_name .b.c; root x; index $foo; }",
        r#"[emerg] unknown "foo" variable"#,
    ),
    Case(
        Http,
        "listen 80;",
        r#"[emerg] "listen" directive is not allowed here in FILE:3"#,
    ),
    Case(
        Server,
        "listen foo bar;",
        r#"[emerg] host not found in "foo" of the "listen" directive in FILE:4"#,
    ),
    Case(
        Server,
        "listen 0;",
        r#"[emerg] invalid port in "0" of the "listen" directive in FILE:4"#,
    ),
    Case(
        Server,
        "listen 65536;",
        r#"[emerg] invalid port in "65536" of the "listen" directive in FILE:4"#,
    ),
    Case(
        Server,
        "listen 1.2.3.4:99999;",
        r#"[emerg] invalid port in "1.2.3.4:99999" of the "listen" directive in FILE:4"#,
    ),
    Case(
        Server,
        "listen 127.0.0.1:;",
        r#"[emerg] invalid port in "127.0.0.1:" of the "listen" directive in FILE:4"#,
    ),
    Case(
        Server,
        "listen :80;",
        r#"[emerg] no host in ":80" of the "listen" directive in FILE:4"#,
    ),
    Case(
        Server,
        "listen 80 foo;",
        r#"[emerg] invalid parameter "foo" in FILE:4"#,
    ),
    Case(
        Server,
        "listen [::1:80;",
        r#"[emerg] invalid host in "[::1:80" of the "listen" directive in FILE:4"#,
    ),
    Case(
        Server,
        "listen [::g]:80;",
        r#"[emerg] invalid IPv6 address in "[::g]:80" of the "listen" directive in FILE:4"#,
    ),
    Case(
        Server,
        "listen [::1]80;",
        r#"[emerg] invalid host in "[::1]80" of the "listen" directive in FILE:4"#,
    ),
    Case(
        Server,
        "listen 80/x;",
        r#"[emerg] invalid host in "80/x" of the "listen" directive in FILE:4"#,
    ),
    Case(
        Server,
        "listen unix:;",
        r#"[emerg] no path in the unix domain socket in "unix:" of the "listen" directive in FILE:4"#,
    ),
    Case(
        Server,
        "listen unix:/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx;",
        r#"[emerg] too long path in the unix domain socket in "unix:/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" of the "listen" directive in FILE:4"#,
    ),
    Case(
        Server,
        "listen 90-80;",
        r#"[emerg] invalid port range in "90-80" of the "listen" directive in FILE:4"#,
    ),
    Case(
        Server,
        "listen 80-x;",
        r#"[emerg] host not found in "80-x" of the "listen" directive in FILE:4"#,
    ),
    Case(
        Server,
        "listen 80-99999;",
        r#"[emerg] invalid port in "80-99999" of the "listen" directive in FILE:4"#,
    ),
    Case(
        Server,
        "listen 127.0.0.1:90-80;",
        r#"[emerg] invalid port range in "127.0.0.1:90-80" of the "listen" directive in FILE:4"#,
    ),
    Case(
        Server,
        "listen 80; listen *:80;",
        "[emerg] a duplicate listen 0.0.0.0:80 in FILE:4",
    ),
    Case(
        Server,
        "listen 80; listen 80;",
        "[emerg] a duplicate listen 0.0.0.0:80 in FILE:4",
    ),
    Case(
        Server,
        "listen [::]:80; listen [::]:80;",
        "[emerg] a duplicate listen [::]:80 in FILE:4",
    ),
    Case(
        Server,
        "listen unix:/x; listen unix:/x;",
        "[emerg] a duplicate listen unix:/x in FILE:4",
    ),
    Case(
        Server,
        "listen 80 backlog=0;",
        r#"[emerg] invalid backlog "backlog=0" in FILE:4"#,
    ),
    Case(
        Server,
        "listen 80 backlog=x;",
        r#"[emerg] invalid backlog "backlog=x" in FILE:4"#,
    ),
    Case(
        Server,
        "listen 80 rcvbuf=x;",
        r#"[emerg] invalid rcvbuf "rcvbuf=x" in FILE:4"#,
    ),
    Case(
        Server,
        "listen 80 sndbuf=x;",
        r#"[emerg] invalid sndbuf "sndbuf=x" in FILE:4"#,
    ),
    Case(
        Server,
        "listen 80 fastopen=x;",
        r#"[emerg] invalid fastopen "fastopen=x" in FILE:4"#,
    ),
    Case(
        Server,
        "listen [::]:80 ipv6only=onn;",
        r#"[emerg] invalid ipv6only flags "onn" in FILE:4"#,
    ),
    Case(
        Server,
        "listen [::]:80 ipv6only=x;",
        r#"[emerg] invalid parameter "ipv6only=x" in FILE:4"#,
    ),
    Case(
        Server,
        "listen 80 so_keepalive=x;",
        r#"[emerg] invalid so_keepalive value: "x" in FILE:4"#,
    ),
    Case(
        Server,
        "listen 80 so_keepalive=::;",
        r#"[emerg] invalid so_keepalive value: "::" in FILE:4"#,
    ),
    Case(
        Server,
        "listen 80 so_keepalive=1:2:x;",
        r#"[emerg] invalid so_keepalive value: "1:2:x" in FILE:4"#,
    ),
    Case(
        Server,
        "listen host.invalid:80;",
        r#"[emerg] host not found in "host.invalid:80" of the "listen" directive in FILE:4"#,
    ),
    Case(
        Server,
        "listen;",
        r#"[emerg] invalid number of arguments in "listen" directive in FILE:4"#,
    ),
    Case(
        Http,
        "server { listen 80 default_server; } server { listen 80 default_server; }",
        "[emerg] a duplicate default server for 0.0.0.0:80 in FILE:3",
    ),
    Case(
        Http,
        "server { listen 80 backlog=5; } server { listen 80 backlog=5; }",
        "[emerg] duplicate listen options for 0.0.0.0:80 in FILE:3",
    ),
    Case(
        Http,
        "server { listen 80 reuseport; }\nserver { listen 80 reuseport; }",
        "[emerg] duplicate listen options for 0.0.0.0:80 in FILE:4",
    ),
    Case(
        Http,
        "server { listen [::]:80 default_server; } server { listen [::]:80 default; }",
        "[emerg] a duplicate default server for [::]:80 in FILE:3",
    ),
    Case(
        Http,
        "server {} server { listen 80; server_name a; server_name b; }\n server { listen 80; server_name a; } foo;",
        r#"[emerg] unknown directive "foo" in FILE:4"#,
    ),
    Case(
        Server,
        "server_name *a;",
        r#"[emerg] server name "*a" is invalid in FILE:4"#,
    ),
    Case(
        Server,
        "server_name *;",
        r#"[emerg] server name "*" is invalid in FILE:4"#,
    ),
    Case(
        Server,
        "server_name .;",
        r#"[emerg] server name "." is invalid in FILE:4"#,
    ),
    Case(
        Server,
        "server_name ~;",
        r#"[emerg] empty regex in server name "~" in FILE:4"#,
    ),
    Case(
        Server,
        "server_name ~(;",
        r#"[emerg] pcre2_compile() failed: missing closing parenthesis in "(" in FILE:4"#,
    ),
    Case(
        Server,
        "server_name a/b; foo;",
        "[warn] server name \"a/b\" has suspicious symbols in FILE:4\n[emerg] unknown directive \"foo\" in FILE:4",
    ),
    Case(
        Http,
        "server { listen 80; server_name a*b; } server { listen 80; server_name c; }",
        r#"[emerg] invalid server name or wildcard "a*b" on 0.0.0.0:80"#,
    ),
    Case(
        Http,
        "server { listen 80; server_name a..b; } server { listen 80; server_name c; }",
        r#"[emerg] invalid server name or wildcard "a..b" on 0.0.0.0:80"#,
    ),
    Case(
        Http,
        "server { listen 80; server_name *.a.*; } server { listen 80; server_name c; }",
        r#"[emerg] invalid server name or wildcard "*.a.*" on 0.0.0.0:80"#,
    ),
    Case(
        Http,
        "server { listen 80; server_name ~(a) a*b; }",
        r#"[emerg] invalid server name or wildcard "a*b" on 0.0.0.0:80"#,
    ),
    Case(
        Http,
        "server { listen 80; server_name a; } server { listen 80; server_name a; }\nserver { listen 80 reuseport reuseport; } server { listen 80 reuseport; }",
        "[emerg] duplicate listen options for 0.0.0.0:80 in FILE:4",
    ),
    Case(
        Http,
        "server { listen 8081; server_name a .b.c; } server { listen 8081; server_name a *.b.c b.c d.* ; } server { listen 8081; server_name d.*; server_name a*b; }",
        "[warn] conflicting server name \"a\" on 0.0.0.0:8081, ignored\n[warn] conflicting server name \"*.b.c\" on 0.0.0.0:8081, ignored\n[warn] conflicting server name \"b.c\" on 0.0.0.0:8081, ignored\n[warn] conflicting server name \"d.*\" on 0.0.0.0:8081, ignored\n[emerg] invalid server name or wildcard \"a*b\" on 0.0.0.0:8081",
    ),
    Case(
        Http,
        "server_names_hash_max_size x;",
        r#"[emerg] "server_names_hash_max_size" directive invalid number in FILE:3"#,
    ),
];
