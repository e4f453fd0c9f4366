//! Caching of responses: `*_cache` and its relatives. Paths are relative: nginx makes directories
//! and changes their owner.

use super::Case;
use super::Where::*;

pub(super) const CASES: &[Case] = &[
    // ngx_http_file_cache.c: *_cache_path
    Case(
        Http,
        "proxy_cache_path c;",
        r#"[emerg] invalid number of arguments in "proxy_cache_path" directive in FILE:3"#,
    ),
    Case(
        Http,
        "proxy_cache_path c levels=1:2;",
        r#"[emerg] "proxy_cache_path" must have "keys_zone" parameter in FILE:3"#,
    ),
    Case(
        Http,
        "fastcgi_cache_path c keys_zone=:1m;",
        r#"[emerg] "fastcgi_cache_path" must have "keys_zone" parameter in FILE:3"#,
    ),
    Case(
        Http,
        "proxy_cache_path c keys_zone=a;",
        r#"[emerg] invalid keys zone size "keys_zone=a" in FILE:3"#,
    ),
    Case(
        Http,
        "proxy_cache_path c keys_zone=a:BAD;",
        r#"[emerg] invalid keys zone size "keys_zone=a:BAD" in FILE:3"#,
    ),
    Case(
        Http,
        "proxy_cache_path c keys_zone=a:1k;",
        r#"[emerg] keys zone "keys_zone=a:1k" is too small in FILE:3"#,
    ),
    Case(
        Http,
        "proxy_cache_path c keys_zone=a:1m levels=3;",
        r#"[emerg] invalid "levels" "levels=3" in FILE:3"#,
    ),
    Case(
        Http,
        "scgi_cache_path c keys_zone=a:1m levels=1:2:;",
        r#"[emerg] invalid "levels" "levels=1:2:" in FILE:3"#,
    ),
    Case(
        Http,
        "proxy_cache_path c keys_zone=a:1m levels=1:1:1:1;",
        r#"[emerg] invalid "levels" "levels=1:1:1:1" in FILE:3"#,
    ),
    Case(
        Http,
        "proxy_cache_path c keys_zone=a:1m levels= inactive=1y max_size=0 min_free=0 loader_files=0; foo;",
        r#"[emerg] unknown directive "foo" in FILE:3"#,
    ),
    Case(
        Http,
        "proxy_cache_path c keys_zone=a:1m use_temp_path=ON;",
        r#"[emerg] invalid use_temp_path value "use_temp_path=ON", it must be "on" or "off" in FILE:3"#,
    ),
    Case(
        Http,
        "proxy_cache_path c keys_zone=a:1m inactive=x;",
        r#"[emerg] invalid inactive value "inactive=x" in FILE:3"#,
    ),
    Case(
        Http,
        "proxy_cache_path c keys_zone=a:1m max_size=1t;",
        r#"[emerg] invalid max_size value "max_size=1t" in FILE:3"#,
    ),
    Case(
        Http,
        "proxy_cache_path c keys_zone=a:1m min_free=;",
        r#"[emerg] invalid min_free value "min_free=" in FILE:3"#,
    ),
    Case(
        Http,
        "proxy_cache_path c keys_zone=a:1m loader_files=x;",
        r#"[emerg] invalid loader_files value "loader_files=x" in FILE:3"#,
    ),
    Case(
        Http,
        "proxy_cache_path c keys_zone=a:1m loader_sleep=x;",
        r#"[emerg] invalid loader_sleep value "loader_sleep=x" in FILE:3"#,
    ),
    Case(
        Http,
        "proxy_cache_path c keys_zone=a:1m loader_threshold=x;",
        r#"[emerg] invalid loader_threshold value "loader_threshold=x" in FILE:3"#,
    ),
    Case(
        Http,
        "proxy_cache_path c keys_zone=a:1m manager_files=-1;",
        r#"[emerg] invalid manager_files value "manager_files=-1" in FILE:3"#,
    ),
    Case(
        Http,
        "proxy_cache_path c keys_zone=a:1m manager_sleep=x;",
        r#"[emerg] invalid manager_sleep value "manager_sleep=x" in FILE:3"#,
    ),
    Case(
        Http,
        "proxy_cache_path c keys_zone=a:1m manager_threshold=x;",
        r#"[emerg] invalid manager_threshold value "manager_threshold=x" in FILE:3"#,
    ),
    Case(
        Http,
        "proxy_cache_path c keys_zone=a:1m made_up=1;",
        r#"[emerg] invalid parameter "made_up=1" in FILE:3"#,
    ),
    Case(
        Http,
        "proxy_cache_path c keys_zone=a:1m;\nproxy_cache_path d keys_zone=a:1m;",
        r#"[emerg] duplicate zone "a" in FILE:4"#,
    ),
    Case(
        Http,
        "proxy_cache_path c keys_zone=a:1m;\nproxy_cache_path d keys_zone=a:2m;",
        r#"[emerg] the size 2097152 of shared memory zone "a" conflicts with already declared size 1048576 in FILE:4"#,
    ),
    Case(
        Http,
        "proxy_cache_path c keys_zone=a:1m;\nfastcgi_cache_path d keys_zone=a:1m;",
        r#"[emerg] the shared memory zone "a" is already declared for a different use in FILE:4"#,
    ),
    Case(
        Http,
        "proxy_cache_path c keys_zone=a:1m;\nproxy_cache_path c keys_zone=b:1m;",
        r#"[emerg] the same path name "DIR/c" used in FILE:3 and in FILE:4"#,
    ),
    Case(
        Http,
        "proxy_cache_path c keys_zone=a:1m;\nproxy_temp_path c;",
        r#"[emerg] the same path name "DIR/c" used in FILE:3 and in FILE:4"#,
    ),
    Case(
        Server,
        "proxy_cache_path c keys_zone=a:1m;",
        r#"[emerg] "proxy_cache_path" directive is not allowed here in FILE:4"#,
    ),
    // *_cache
    Case(
        Location,
        "proxy_cache z; proxy_cache_valid 200 1m;",
        r#"[emerg] "proxy_cache" zone "z" is unknown in FILE:8"#,
    ),
    Case(
        Http,
        "uwsgi_cache z; server { location / { uwsgi_pass 127.0.0.1:9; } }",
        r#"[emerg] "uwsgi_cache" zone "z" is unknown in FILE:4"#,
    ),
    Case(
        Http,
        "fastcgi_cache_path c keys_zone=a:1m; server { proxy_cache a; }",
        r#"[emerg] the shared memory zone "a" is already declared for a different use in FILE:3"#,
    ),
    Case(
        Location,
        "proxy_cache off; proxy_cache z;",
        r#"[emerg] "proxy_cache" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cache z; proxy_store on;",
        r#"[emerg] "proxy_store" directive is incompatible with "proxy_cache" in FILE:5"#,
    ),
    Case(
        Location,
        "scgi_store /s$uri; scgi_cache $host;",
        r#"[emerg] "scgi_cache" directive is incompatible with "scgi_store" in FILE:5"#,
    ),
    Case(
        Location,
        "fastcgi_store on; fastcgi_cache off; uwsgi_cache off; uwsgi_store on; proxy_cache $uri; proxy_store off; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cache $made_up;",
        r#"[emerg] unknown "made_up" variable"#,
    ),
    // The rest.
    Case(
        Location,
        "proxy_cache_key $uri; proxy_cache_key $uri;",
        r#"[emerg] "proxy_cache_key" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "fastcgi_cache_key $uri$;",
        r#"[emerg] invalid variable name in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cache_valid soon;",
        r#"[emerg] invalid time value "soon" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cache_valid 99 1m;",
        r#"[emerg] invalid status "99" in FILE:5"#,
    ),
    Case(
        Location,
        "uwsgi_cache_valid 200 600 1m;",
        r#"[emerg] invalid status "600" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cache_valid Any 1m;",
        r#"[emerg] invalid status "Any" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cache_valid 1ms;",
        r#"[emerg] invalid time value "1ms" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cache_valid 0; proxy_cache_valid 0200 any 1y 2M; proxy_cache_valid any 0; proxy_cache_bypass 0 $arg_a; proxy_cache_bypass 1; proxy_no_cache $host; proxy_no_cache ''; foo;",
        r#"[emerg] invalid status "1y" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cache_valid 0; proxy_cache_valid 0200 any 1y; proxy_cache_bypass 0 $arg_a; proxy_cache_bypass 1; proxy_no_cache $host; proxy_no_cache ''; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cache_bypass;",
        r#"[emerg] invalid number of arguments in "proxy_cache_bypass" directive in FILE:5"#,
    ),
    Case(
        Location,
        "scgi_no_cache $;",
        r#"[emerg] invalid variable name in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cache_methods PUT;",
        r#"[emerg] invalid value "PUT" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cache_methods GET; proxy_cache_methods get post;",
        "[warn] duplicate value \"get\" in FILE:5\nOK",
    ),
    Case(
        Location,
        "proxy_cache_use_stale sometimes;",
        r#"[emerg] invalid value "sometimes" in FILE:5"#,
    ),
    Case(
        Location,
        "fastcgi_cache_use_stale http_502;",
        r#"[emerg] invalid value "http_502" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cache_use_stale error http_502 http_504 updating; proxy_cache_use_stale off ERROR; foo;",
        "[warn] duplicate value \"ERROR\" in FILE:5\n[emerg] unknown directive \"foo\" in FILE:5",
    ),
    Case(
        Location,
        "proxy_cache_min_uses x;",
        r#"[emerg] "proxy_cache_min_uses" directive invalid number in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cache_min_uses 1; proxy_cache_min_uses 2;",
        r#"[emerg] "proxy_cache_min_uses" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cache_lock maybe;",
        r#"[emerg] invalid value "maybe" in "proxy_cache_lock" directive, it must be "on" or "off" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cache_lock_age 1x;",
        r#"[emerg] "proxy_cache_lock_age" directive invalid value in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cache_lock_timeout -1;",
        r#"[emerg] "proxy_cache_lock_timeout" directive invalid value in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cache_max_range_offset 1t;",
        r#"[emerg] "proxy_cache_max_range_offset" directive invalid value in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cache_revalidate on; proxy_cache_revalidate on;",
        r#"[emerg] "proxy_cache_revalidate" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cache_background_update x;",
        r#"[emerg] invalid value "x" in "proxy_cache_background_update" directive, it must be "on" or "off" in FILE:5"#,
    ),
    Case(
        Location,
        "proxy_cache_convert_head x;",
        r#"[emerg] invalid value "x" in "proxy_cache_convert_head" directive, it must be "on" or "off" in FILE:5"#,
    ),
    Case(
        Location,
        "fastcgi_cache_convert_head on;",
        r#"[emerg] unknown directive "fastcgi_cache_convert_head" in FILE:5"#,
    ),
    Case(
        Location,
        "grpc_cache off;",
        r#"[emerg] unknown directive "grpc_cache" in FILE:5"#,
    ),
    Case(
        Http,
        "fastcgi_cache_path c keys_zone=a:1m; server { location / { fastcgi_cache a; fastcgi_pass 127.0.0.1:9; } }",
        "[warn] no \"fastcgi_cache_key\" for \"fastcgi_cache\" in FILE:4\nOK",
    ),
    Case(
        Http,
        "proxy_cache_path c keys_zone=a:1m; server { location / { proxy_cache a; proxy_pass http://127.0.0.1:9; } }",
        "OK",
    ),
    Case(
        Location,
        "if ($host) { proxy_cache off; }",
        r#"[emerg] "proxy_cache" directive is not allowed here in FILE:5"#,
    ),
];
