//! What restricts access: addresses, passwords, methods, limits, links.

use super::Case;
use super::Where::*;

pub(super) const CASES: &[Case] = &[
    // ngx_http_access_module
    Case(
        Server,
        "allow 127.0.0.1/99;",
        r#"[emerg] invalid parameter "127.0.0.1/99" in FILE:4"#,
    ),
    Case(
        Server,
        "deny host;",
        r#"[emerg] invalid parameter "host" in FILE:4"#,
    ),
    Case(
        Server,
        "deny unix:/x;",
        r#"[emerg] invalid parameter "unix:/x" in FILE:4"#,
    ),
    Case(
        Server,
        "deny 10.0.0.1/8; allow 2001:db8::1/32; allow all; deny unix:;",
        "[warn] low address bits of 10.0.0.1/8 are meaningless in FILE:4\n\
         [warn] low address bits of 2001:db8::1/32 are meaningless in FILE:4\nOK",
    ),
    Case(
        Location,
        "if ($uri) { deny all; }",
        r#"[emerg] "deny" directive is not allowed here in FILE:5"#,
    ),
    Case(
        Server,
        "satisfy some;",
        r#"[emerg] invalid value "some" in FILE:4"#,
    ),
    Case(
        Server,
        "satisfy any; satisfy all;",
        r#"[emerg] "satisfy" directive is duplicate in FILE:4"#,
    ),
    Case(
        Server,
        "auth_delay soon;",
        r#"[emerg] "auth_delay" directive invalid value in FILE:4"#,
    ),
    // limit_except
    Case(
        Server,
        "limit_except GET { }",
        r#"[emerg] "limit_except" directive is not allowed here in FILE:4"#,
    ),
    Case(
        Location,
        "limit_except { }",
        r#"[emerg] invalid number of arguments in "limit_except" directive in FILE:5"#,
    ),
    Case(
        Location,
        "limit_except BREW { }",
        r#"[emerg] invalid method "BREW" in FILE:5"#,
    ),
    Case(
        Location,
        "limit_except TRACE { }",
        r#"[emerg] invalid method "TRACE" in FILE:5"#,
    ),
    Case(
        Location,
        "limit_except GET { } limit_except POST { }",
        r#"[emerg] "limit_except" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "limit_except GET { root /x; }",
        r#"[emerg] "root" directive is not allowed here in FILE:5"#,
    ),
    Case(
        Location,
        "limit_except GET { satisfy any; }",
        r#"[emerg] "satisfy" directive is not allowed here in FILE:5"#,
    ),
    Case(
        Location,
        "limit_except GET { return 403; }",
        r#"[emerg] "return" directive is not allowed here in FILE:5"#,
    ),
    Case(
        Location,
        "limit_except GET { limit_except POST { } }",
        r#"[emerg] "limit_except" directive is not allowed here in FILE:5"#,
    ),
    Case(
        Location,
        "limit_except GET { proxy_pass http://127.0.0.1/x; }",
        "[emerg] \"proxy_pass\" cannot have URI part in location given by regular expression, or \
         inside named location, or inside \"if\" statement, or inside \"limit_except\" block in FILE:5",
    ),
    Case(
        Location,
        "limit_except get POST { deny all; auth_basic x; auth_basic_user_file y; access_log off; \
         proxy_pass http://127.0.0.1; }",
        "OK",
    ),
    Case(
        Location,
        "if ($uri) { limit_except GET { } }",
        r#"[emerg] "limit_except" directive is not allowed here in FILE:5"#,
    ),
    // ngx_http_auth_basic_module
    Case(
        Server,
        "auth_basic a; auth_basic b;",
        r#"[emerg] "auth_basic" directive is duplicate in FILE:4"#,
    ),
    Case(
        Server,
        "auth_basic_user_file a; auth_basic_user_file b;",
        r#"[emerg] "auth_basic_user_file" directive is duplicate in FILE:4"#,
    ),
    Case(
        Server,
        "auth_basic $nothing;",
        r#"[emerg] unknown "nothing" variable"#,
    ),
    Case(Server, "auth_basic \"\"; auth_basic_user_file $host;", "OK"),
    // ngx_http_limit_req_module and ngx_http_limit_conn_module
    Case(
        Http,
        r#"limit_req_zone $uri zone=a:32k rate=1r/s; limit_req zone=a burst=5 nodelay;"#,
        r#"OK"#,
    ),
    Case(
        Http,
        r#"limit_req zone=a; limit_req_zone $uri zone=a:32k rate=30r/m;"#,
        r#"OK"#,
    ),
    Case(
        Http,
        r#"limit_req_zone $uri zone=a:31k rate=1r/s;"#,
        r#"[emerg] zone "zone=a:31k" is too small in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_req_zone $uri zone=a rate=1r/s;"#,
        r#"[emerg] invalid zone size "zone=a" in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_req_zone $uri zone=a:x rate=1r/s;"#,
        r#"[emerg] invalid zone size "zone=a:x" in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_req_zone $uri zone=:1m rate=1r/s;"#,
        r#"[emerg] "limit_req_zone" must have "zone" parameter in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_req_zone $uri rate=1r/s rate=1r/s;"#,
        r#"[emerg] "limit_req_zone" must have "zone" parameter in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_req_zone $uri zone=a:1m rate=0r/s;"#,
        r#"[emerg] invalid rate "rate=0r/s" in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_req_zone $uri zone=a:1m rate=1r/h;"#,
        r#"[emerg] invalid rate "rate=1r/h" in FILE:3"#,
    ),
    Case(Http, r#"limit_req_zone $uri zone=a:1m rate=5;"#, r#"OK"#),
    Case(
        Http,
        r#"limit_req_zone $uri zone=a:1m speed=1r/s;"#,
        r#"[emerg] invalid parameter "speed=1r/s" in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_req_zone $uri zone=a:1m;"#,
        r#"[emerg] invalid number of arguments in "limit_req_zone" directive in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_req_zone $uri zone=a:1m rate=1r/s; limit_req_zone $args zone=a:1m rate=1r/s;"#,
        r#"[emerg] limit_req_zone "a" is already bound to key "$uri" in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_req_zone $uri zone=a:1m rate=1r/s; limit_req_zone $args zone=a:2m rate=1r/s;"#,
        r#"[emerg] the size 2097152 of shared memory zone "a" conflicts with already declared size 1048576 in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_req_zone $uri zone=a:1m rate=1r/s; limit_conn_zone $uri zone=a:1m;"#,
        r#"[emerg] the shared memory zone "a" is already declared for a different use in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_req zone=a;"#,
        r#"[emerg] zero size shared memory zone "a""#,
    ),
    Case(
        Http,
        r#"limit_conn a 1;"#,
        r#"[emerg] zero size shared memory zone "a""#,
    ),
    Case(
        Http,
        r#"limit_req burst=5;"#,
        r#"[emerg] "limit_req" must have "zone" parameter in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_req zone=a burst=0;"#,
        r#"[emerg] invalid burst value "burst=0" in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_req zone=a delay=0;"#,
        r#"[emerg] invalid delay value "delay=0" in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_req zone=a slowly;"#,
        r#"[emerg] invalid parameter "slowly" in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_req zone=a; limit_req zone=a burst=2;"#,
        r#"[emerg] "limit_req" directive is duplicate in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_req_status 399;"#,
        r#"[emerg] value must be between 400 and 599 in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_req_status 600;"#,
        r#"[emerg] value must be between 400 and 599 in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_req_log_level crit;"#,
        r#"[emerg] invalid value "crit" in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_req_log_level warn; limit_req_dry_run on; limit_req_status 429; limit_conn_status 429; limit_conn_log_level info; limit_conn_dry_run on;"#,
        r#"OK"#,
    ),
    Case(
        Http,
        r#"limit_conn_zone $uri zone=a:32k; limit_conn a 5; limit_conn a 6;"#,
        r#"[emerg] "limit_conn" directive is duplicate in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_conn a 0;"#,
        r#"[emerg] invalid number of connections "0" in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_conn a 65536;"#,
        r#"[emerg] connection limit must be less 65536 in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_conn_zone $uri zone=a:32k rate=1;"#,
        r#"[emerg] invalid number of arguments in "limit_conn_zone" directive in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_conn_zone $uri rate=1;"#,
        r#"[emerg] invalid parameter "rate=1" in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_conn_zone $uri zone=a:3k;"#,
        r#"[emerg] zone "zone=a:3k" is too small in FILE:3"#,
    ),
    Case(
        Http,
        r#"limit_conn_zone $uri zone=a;"#,
        r#"[emerg] invalid zone size "zone=a" in FILE:3"#,
    ),
    Case(
        Server,
        r#"limit_req_zone $uri zone=a:1m rate=1r/s;"#,
        r#"[emerg] "limit_req_zone" directive is not allowed here in FILE:4"#,
    ),
    // ngx_http_secure_link_module and ngx_http_referer_module
    Case(
        Server,
        r#"secure_link a; secure_link b;"#,
        r#"[emerg] "secure_link" directive is duplicate in FILE:4"#,
    ),
    Case(
        Server,
        r#"secure_link_md5 a; secure_link_md5 b;"#,
        r#"[emerg] "secure_link_md5" directive is duplicate in FILE:4"#,
    ),
    Case(
        Server,
        r#"secure_link_secret a; secure_link_secret b;"#,
        r#"[emerg] "secure_link_secret" directive is duplicate in FILE:4"#,
    ),
    Case(
        Location,
        r#"secure_link_secret a; secure_link $uri;"#,
        r#"[emerg] "secure_link_secret" cannot be mixed with "secure_link" and "secure_link_md5" in FILE:8"#,
    ),
    Case(
        Server,
        r#"secure_link $uri; secure_link_md5 x; location / { secure_link_secret a; }"#,
        r#"OK"#,
    ),
    Case(
        Server,
        r#"valid_referers "";"#,
        r#"[emerg] invalid referer "" in FILE:4"#,
    ),
    Case(
        Server,
        r#"valid_referers ~;"#,
        r#"[emerg] empty regex in "~" in FILE:4"#,
    ),
    Case(
        Server,
        r#"valid_referers a.*.b;"#,
        r#"[emerg] invalid hostname or wildcard "a.*.b" in FILE:4"#,
    ),
    Case(
        Server,
        r#"valid_referers a A;"#,
        r#"[emerg] conflicting parameter "a" in FILE:4"#,
    ),
    Case(
        Server,
        r#"valid_referers none;"#,
        r#"[emerg] the "none" or "blocked" referers are specified in the "valid_referers" directive without any valid referer"#,
    ),
    Case(
        Server,
        r#"valid_referers blocked ~x;"#,
        r#"[emerg] the "none" or "blocked" referers are specified in the "valid_referers" directive without any valid referer"#,
    ),
    Case(
        Server,
        r#"valid_referers none blocked server_names *.a.b .c.d/e www.* ~x; if ($invalid_referer) { return 403; } referer_hash_max_size 1; referer_hash_bucket_size 64;"#,
        r#"OK"#,
    ),
    Case(Server, r#"if ($invalid_referer) { return 403; }"#, r#"OK"#),
    // ngx_http_userid_module
    Case(
        Server,
        r#"userid maybe;"#,
        r#"[emerg] invalid value "maybe" in FILE:4"#,
    ),
    Case(
        Server,
        r#"userid on; userid off;"#,
        r#"[emerg] "userid" directive is duplicate in FILE:4"#,
    ),
    Case(
        Server,
        r#"userid_expires soon;"#,
        r#"[emerg] "userid_expires" directive invalid value in FILE:4"#,
    ),
    Case(
        Server,
        r#"userid_mark ab;"#,
        r#"[emerg] "userid_mark" directive value must be "off" or a single letter, digit or "=" in FILE:4"#,
    ),
    Case(
        Server,
        r#"userid_mark _;"#,
        r#"[emerg] "userid_mark" directive value must be "off" or a single letter, digit or "=" in FILE:4"#,
    ),
    Case(
        Server,
        "userid_flags off; userid_flags off; userid_flags secure; userid_flags httponly SECURE;",
        "[warn] duplicate value \"off\" in FILE:4\n[warn] duplicate value \"SECURE\" in FILE:4\nOK",
    ),
    Case(
        Server,
        r#"userid_flags tasty;"#,
        r#"[emerg] invalid value "tasty" in FILE:4"#,
    ),
    Case(
        Server,
        r#"userid_service x;"#,
        r#"[emerg] "userid_service" directive invalid number in FILE:4"#,
    ),
    Case(
        Server,
        r#"userid_domain a; userid_domain b;"#,
        r#"[emerg] "userid_domain" directive is duplicate in FILE:4"#,
    ),
    Case(
        Server,
        r#"userid v1; userid_name n; userid_domain none; userid_path /x; userid_expires max; userid_flags secure samesite=lax; userid_mark =; userid_p3p none; userid_service 5; set $uid_reset 1;"#,
        r#"OK"#,
    ),
    Case(
        Server,
        r#"set $uid_got 1;"#,
        r#"[emerg] the duplicate "uid_got" variable in FILE:4"#,
    ),
];
