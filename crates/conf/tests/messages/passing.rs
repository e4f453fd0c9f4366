//! Handing requests on: where to, and what `proxy_*`, `fastcgi_*`, `uwsgi_*`,
//! `scgi_*` and `grpc_*` have in common.
//!
//! Each row: where the text stands, the text, and what is said about it.

use super::Case;
use super::Where::*;

pub(super) const CASES: &[Case] = &[
    Case(
        Location,
        "proxy_pass http://127.0.0.1:8080; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_pass http://127.0.0.1:8080; proxy_pass http://127.0.0.1:8081;",
        r#"[emerg] "proxy_pass" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_pass 127.0.0.1:8080;",
        "[emerg] invalid URL prefix in FILE:5",
    ),
    Case(
        Location,
        "proxy_pass ftp://127.0.0.1:8080;",
        "[emerg] invalid URL prefix in FILE:5",
    ),
    Case(
        Location,
        "proxy_pass HTTP://127.0.0.1:8080; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_pass http://;",
        r#"[emerg] no host in upstream "" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_pass http:///x;",
        r#"[emerg] no host in upstream "/x" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_pass http://127.0.0.1:0;",
        r#"[emerg] invalid port in upstream "127.0.0.1:0" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_pass http://127.0.0.1:99999;",
        r#"[emerg] invalid port in upstream "127.0.0.1:99999" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_pass http://127.0.0.1:x;",
        r#"[emerg] invalid port in upstream "127.0.0.1:x" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_pass http://[::1;",
        r#"[emerg] invalid host in upstream "[::1" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_pass http://[::1]8;",
        r#"[emerg] invalid host in upstream "[::1]8" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_pass http://[::z];",
        r#"[emerg] invalid IPv6 address in upstream "[::z]" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_pass http://unix:;",
        r#"[emerg] no path in the unix domain socket in upstream "unix:" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_pass http://unix:/s:/x; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_pass http://no-such-host.invalid;",
        r#"[emerg] host not found in upstream "no-such-host.invalid" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_pass http://no-such-host.invalid:81/x;",
        r#"[emerg] host not found in upstream "no-such-host.invalid" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_pass http://$foo;",
        r#"[emerg] unknown "foo" variable"#,
    ),
    Case(
        Location,
        "proxy_pass http://$host:$;",
        "[emerg] invalid variable name in FILE:5",
    ),
    Case(
        Location,
        "proxy_pass;",
        r#"[emerg] invalid number of arguments in "proxy_pass" directive in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_pass a b;",
        r#"[emerg] invalid number of arguments in "proxy_pass" directive in FILE:5"#,
    ),
    Case(
        Server,
        "proxy_pass http://127.0.0.1;",
        r#"[emerg] "proxy_pass" directive is not allowed here in FILE:4"#,
    ),
    Case(
        Server,
        "location ~ x { proxy_pass http://127.0.0.1/; }",
        r#"[emerg] "proxy_pass" cannot have URI part in location given by regular expression, or inside named location, or inside "if" statement, or inside "limit_except" block in FILE:4"#,
    ),
    Case(
        Server,
        "location ~ x { proxy_pass http://127.0.0.1?x; }",
        r#"[emerg] "proxy_pass" cannot have URI part in location given by regular expression, or inside named location, or inside "if" statement, or inside "limit_except" block in FILE:4"#,
    ),
    Case(
        Server,
        "location @x { proxy_pass http://127.0.0.1/; }",
        r#"[emerg] "proxy_pass" cannot have URI part in location given by regular expression, or inside named location, or inside "if" statement, or inside "limit_except" block in FILE:4"#,
    ),
    Case(
        Server,
        "location @x { proxy_pass http://unix:/a:/; }",
        r#"[emerg] "proxy_pass" cannot have URI part in location given by regular expression, or inside named location, or inside "if" statement, or inside "limit_except" block in FILE:4"#,
    ),
    Case(
        Server,
        "location ~ x { proxy_pass http://127.0.0.1; } location @x { proxy_pass http://unix:/a:; } foo;",
        r#"[emerg] unknown directive "foo" in FILE:4"#,
    ),
    Case(
        Server,
        "location ~ x { proxy_pass http://127.0.0.1/$1; } foo;",
        r#"[emerg] unknown directive "foo" in FILE:4"#,
    ),
    Case(
        Http,
        "server { location / { proxy_pass http://u:80; } } upstream u { server 127.0.0.1; }",
        r#"[emerg] upstream "u" may not have port 80 in FILE:3"#,
    ),
    Case(
        Http,
        "upstream u { server 127.0.0.1; } server { location / { proxy_pass http://u:80; } }",
        r#"[emerg] upstream "u" may not have port 80 in FILE:3"#,
    ),
    Case(
        Http,
        "server { location / { proxy_pass https://u; } location /a { fastcgi_pass u; } } upstream u { server 127.0.0.1; } foo;",
        r#"[emerg] unknown directive "foo" in FILE:3"#,
    ),
    Case(
        Http,
        "server { location / { proxy_pass http://u; } location /a { fastcgi_pass u; } }",
        r#"[emerg] host not found in upstream "u" in FILE:3"#,
    ),
    Case(
        Location,
        "fastcgi_pass 127.0.0.1;",
        r#"[emerg] no port in upstream "127.0.0.1" in FILE:5"#,
    ),
    Case(
        Location,
        "fastcgi_pass 127.0.0.1:9000/x;",
        r#"[emerg] invalid host in upstream "127.0.0.1:9000/x" in FILE:5"#,
    ),
    Case(
        Location,
        "fastcgi_pass unix:/a:b; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "fastcgi_pass localhost;",
        r#"[emerg] no port in upstream "localhost" in FILE:5"#,
    ),
    Case(
        Location,
        "fastcgi_pass localhost:9000; fastcgi_pass x;",
        r#"[emerg] "fastcgi_pass" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "fastcgi_pass http://127.0.0.1:9000;",
        r#"[emerg] invalid host in upstream "http://127.0.0.1:9000" in FILE:5"#,
    ),
    Case(
        Location,
        "uwsgi_pass uwsgi://127.0.0.1:9000; uwsgi_pass suwsgi://127.0.0.1:9000;",
        r#"[emerg] "uwsgi_pass" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "uwsgi_pass suwsgi://127.0.0.1;",
        r#"[emerg] no port in upstream "127.0.0.1" in FILE:5"#,
    ),
    Case(
        Location,
        "scgi_pass scgi://127.0.0.1:9000;",
        r#"[emerg] invalid host in upstream "scgi://127.0.0.1:9000" in FILE:5"#,
    ),
    Case(
        Location,
        "grpc_pass grpc://127.0.0.1:9000; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "grpc_pass grpcs://127.0.0.1:9000/x;",
        r#"[emerg] invalid host in upstream "127.0.0.1:9000/x" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_pass http://127.0.0.1; fastcgi_pass 127.0.0.1:9000; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_read_timeout x;",
        r#"[emerg] "proxy_read_timeout" directive invalid value in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_read_timeout 1s; proxy_read_timeout 1s;",
        r#"[emerg] "proxy_read_timeout" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "fastcgi_connect_timeout 10ms; uwsgi_send_timeout 1h; scgi_read_timeout 1M;",
        r#"[emerg] "scgi_read_timeout" directive invalid value in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_next_upstream foo;",
        r#"[emerg] invalid value "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_next_upstream error ERROR; foo;",
        "[warn] duplicate value \"ERROR\" in FILE:5\n\
         [emerg] unknown directive \"foo\" in FILE:5",
    ),
    Case(
        Location,
        "proxy_next_upstream error; proxy_next_upstream timeout http_502 http_504 updating off; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "fastcgi_next_upstream http_502;",
        r#"[emerg] invalid value "http_502" in FILE:5"#,
    ),
    Case(
        Location,
        "uwsgi_next_upstream http_504;",
        r#"[emerg] invalid value "http_504" in FILE:5"#,
    ),
    Case(
        Location,
        "scgi_next_upstream updating; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "grpc_next_upstream updating;",
        r#"[emerg] invalid value "updating" in FILE:5"#,
    ),
    Case(
        Location,
        "grpc_next_upstream http_502; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_next_upstream_tries -1;",
        r#"[emerg] "proxy_next_upstream_tries" directive invalid number in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_next_upstream_tries x;",
        r#"[emerg] "proxy_next_upstream_tries" directive invalid number in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_ignore_headers foo;",
        r#"[emerg] invalid value "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_ignore_headers Vary vary X-Accel-Redirect; foo;",
        "[warn] duplicate value \"vary\" in FILE:5\n\
         [emerg] unknown directive \"foo\" in FILE:5",
    ),
    Case(
        Location,
        "proxy_ignore_headers Set-Cookie expires cache-control x-accel-expires x-accel-limit-rate x-accel-buffering x-accel-charset; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_bind foo;",
        r#"[emerg] invalid address "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_bind off transparent;",
        r#"[emerg] invalid address "off" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_bind 127.0.0.1 foo;",
        r#"[emerg] invalid parameter "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_bind 127.0.0.1:80 transparent; proxy_bind off;",
        r#"[emerg] "proxy_bind" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_bind $remote_addr transparent; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_bind ::1; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_bind 127.0.0.1:0;",
        r#"[emerg] invalid address "127.0.0.1:0" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_limit_rate x;",
        r#"[emerg] "proxy_limit_rate" directive invalid value in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_limit_rate 1k; proxy_limit_rate $foo;",
        r#"[emerg] "proxy_limit_rate" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_temp_path a 1 2 3; proxy_temp_path b;",
        r#"[emerg] "proxy_temp_path" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_temp_path a 0;",
        r#"[emerg] "proxy_temp_path" directive invalid value in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_temp_path a x;",
        r#"[emerg] "proxy_temp_path" directive invalid value in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_temp_path a 5 6;",
        r#"[emerg] "proxy_temp_path" directive invalid value in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_temp_path a 10; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_temp_path a 11;",
        r#"[emerg] "proxy_temp_path" directive invalid value in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_temp_path a 1 2 3 4;",
        r#"[emerg] invalid number of arguments in "proxy_temp_path" directive in FILE:5"#,
    ),
    Case(Http, "proxy_buffers 1 4k;", "OK"),
    Case(
        Http,
        "server { proxy_buffers 1 4k; }",
        r#"[emerg] there must be at least 2 "proxy_buffers" in FILE:4"#,
    ),
    Case(
        Location,
        "proxy_buffers 2 4k;",
        r#"[emerg] "proxy_busy_buffers_size" must be less than the size of all "proxy_buffers" minus one buffer in FILE:8"#,
    ),
    Case(
        Location,
        "proxy_buffers 0 4k;",
        r#"[emerg] "proxy_buffers" directive invalid value in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_buffers 4 0;",
        r#"[emerg] "proxy_buffers" directive invalid value in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_buffers 4;",
        r#"[emerg] invalid number of arguments in "proxy_buffers" directive in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_busy_buffers_size 1k;",
        r#"[emerg] "proxy_busy_buffers_size" must be equal to or greater than the maximum of the value of "proxy_buffer_size" and one of the "proxy_buffers" in FILE:8"#,
    ),
    Case(
        Location,
        "proxy_busy_buffers_size 64k;",
        r#"[emerg] "proxy_busy_buffers_size" must be less than the size of all "proxy_buffers" minus one buffer in FILE:8"#,
    ),
    Case(
        Location,
        "proxy_temp_file_write_size 1k;",
        r#"[emerg] "proxy_temp_file_write_size" must be equal to or greater than the maximum of the value of "proxy_buffer_size" and one of the "proxy_buffers" in FILE:8"#,
    ),
    Case(
        Location,
        "proxy_max_temp_file_size 1k;",
        r#"[emerg] "proxy_max_temp_file_size" must be equal to zero to disable temporary files usage or must be equal to or greater than the maximum of the value of "proxy_buffer_size" and one of the "proxy_buffers" in FILE:8"#,
    ),
    Case(
        Location,
        "proxy_max_temp_file_size 0; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_buffer_size 16k; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_buffer_size 16k;",
        r#"[emerg] "proxy_busy_buffers_size" must be less than the size of all "proxy_buffers" minus one buffer in FILE:8"#,
    ),
    Case(Location, "proxy_buffer_size 1;", "OK"),
    Case(
        Location,
        "fastcgi_buffers 1 8k;",
        r#"[emerg] there must be at least 2 "fastcgi_buffers" in FILE:8"#,
    ),
    Case(
        Location,
        "uwsgi_busy_buffers_size 1;",
        r#"[emerg] "uwsgi_busy_buffers_size" must be equal to or greater than the maximum of the value of "uwsgi_buffer_size" and one of the "uwsgi_buffers" in FILE:8"#,
    ),
    Case(
        Location,
        "scgi_temp_file_write_size 1;",
        r#"[emerg] "scgi_temp_file_write_size" must be equal to or greater than the maximum of the value of "scgi_buffer_size" and one of the "scgi_buffers" in FILE:8"#,
    ),
    Case(
        Location,
        "proxy_buffer_size 16k; proxy_buffers 8 16k;",
        "OK",
    ),
    Case(Location, "grpc_buffer_size 1;", "OK"),
];
