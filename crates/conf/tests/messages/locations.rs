//! `location` and what stands in it.
//!
//! Each row: where the text stands, the text, and what is said about it.

use super::Case;
use super::Where::*;

pub(super) const CASES: &[Case] = &[
    Case(
        Server,
        "location ~ a(b(?Pz)c {}",
        r#"[emerg] pcre2_compile() failed: unrecognized character after (?P in "a(b(?Pz)c" at "z)c" in FILE:4"#,
    ),
    Case(
        Location,
        "location ~ /x {}  location @y {}",
        r#"[emerg] named location "@y" can be on the server level only in FILE:5"#,
    ),
    Case(
        Server,
        "location ^~ /a { location ^~ /a/b {} location = /a/c { location /a/c/d {} } }",
        r#"[emerg] location "/a/c/d" cannot be inside the exact location "/a/c" in FILE:4"#,
    ),
    Case(
        Server,
        r#"location =/a {} location ^~/b {} location ~/c {} location ~*/d {} location ~{} location = {} location "" {} location /e { location f {} }"#,
        r#"[emerg] location "f" is outside location "/e" in FILE:4"#,
    ),
    Case(
        Location,
        r#"add_header 'a b' "c;d"; foo;"#,
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        r#"add_header a b\;c; foo;"#,
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "add_header a b${host}c; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "add_header a b$ {host}c; foo;",
        r#"[emerg] directive "add_header" is not terminated by ";" in FILE:5"#,
    ),
    Case(
        Location,
        r#"return 200 "$";"#,
        "[emerg] invalid variable name in FILE:5",
    ),
    Case(
        Location,
        "return 301 https://$host$request_uri; return 302; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "try_files $uri $uri/ @x; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "try_files $uri =404; try_files;",
        r#"[emerg] invalid number of arguments in "try_files" directive in FILE:5"#,
    ),
    Case(
        Location,
        "try_files $uri $foo;",
        r#"[emerg] unknown "foo" variable"#,
    ),
    Case(
        Location,
        "error_page 404 @x; error_page 404 =200 $uri; error_page 404 = $bar;",
        r#"[emerg] unknown "bar" variable"#,
    ),
    Case(
        Http,
        "expires @12h; server { expires epoch; location / { expires max; } location /a { expires modified +1d; } location /b { expires -1; } location /c { expires $foo; } }",
        r#"[emerg] unknown "foo" variable"#,
    ),
    Case(
        Location,
        "root a; alias b;",
        r#"[emerg] "alias" directive is duplicate, "root" directive was specified earlier in FILE:5"#,
    ),
    Case(
        Location,
        "alias a; root b;",
        r#"[emerg] "root" directive is duplicate, "alias" directive was specified earlier in FILE:5"#,
    ),
    Case(
        Location,
        "alias a; alias a;",
        r#"[emerg] "alias" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "alias ${realpath_root};",
        r#"[emerg] the $realpath_root variable cannot be used in the "alias" directive in FILE:5"#,
    ),
    Case(
        Server,
        "location @x { alias y; }",
        r#"[emerg] the "alias" directive cannot be used inside the named location in FILE:4"#,
    ),
    Case(
        Location,
        "internal; internal;",
        r#"[emerg] "internal" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "internal x;",
        r#"[emerg] invalid number of arguments in "internal" directive in FILE:5"#,
    ),
    Case(
        Server,
        "location /a {} location /a {}",
        r#"[emerg] duplicate location "/a" in FILE:4"#,
    ),
    Case(
        Server,
        "location = /a {} location = /a {}",
        r#"[emerg] duplicate location "/a" in FILE:4"#,
    ),
    Case(
        Server,
        "location = /a {} location /a {} location ^~ /a {}",
        r#"[emerg] duplicate location "/a" in FILE:4"#,
    ),
    Case(
        Server,
        "location /a { location /b {} }",
        r#"[emerg] location "/b" is outside location "/a" in FILE:4"#,
    ),
    Case(
        Server,
        "location = /a { location /a {} }",
        r#"[emerg] location "/a" cannot be inside the exact location "/a" in FILE:4"#,
    ),
    Case(
        Server,
        "location @a { location /a {} }",
        r#"[emerg] location "/a" cannot be inside the named location "@a" in FILE:4"#,
    ),
    Case(
        Server,
        "location /a { location @b {} }",
        r#"[emerg] named location "@b" can be on the server level only in FILE:4"#,
    ),
    Case(
        Server,
        "location x /a {}",
        r#"[emerg] invalid location modifier "x" in FILE:4"#,
    ),
    Case(
        Server,
        "location ~ ( {}",
        r#"[emerg] pcre2_compile() failed: missing closing parenthesis in "(" in FILE:4"#,
    ),
    Case(
        Server,
        "location ~* a[ {}",
        r#"[emerg] pcre2_compile() failed: missing terminating ] for character class in "a[" in FILE:4"#,
    ),
    Case(
        Server,
        "location ~(?<x>a) {} location ~(?<host>a) {}",
        r#"[emerg] the duplicate "host" variable in FILE:4"#,
    ),
    Case(
        Server,
        "location {}",
        r#"[emerg] invalid number of arguments in "location" directive in FILE:4"#,
    ),
    Case(
        Server,
        "location /a /b /c {}",
        r#"[emerg] invalid number of arguments in "location" directive in FILE:4"#,
    ),
    Case(
        Server,
        "location /a { location /ab { location /a {} } }",
        r#"[emerg] location "/a" is outside location "/ab" in FILE:4"#,
    ),
    Case(
        Server,
        "location ~ ^/a { location /b {} }",
        r#"[emerg] location "/b" is outside location "^/a" in FILE:4"#,
    ),
    Case(
        Server,
        "location ~ ^/a { location ~ /b {} location ~* /c {} location = /b {} }",
        r#"[emerg] location "/b" is outside location "^/a" in FILE:4"#,
    ),
    Case(
        Server,
        "location /z {} location /b {}\nlocation /b {}\nlocation /z {}",
        r#"[emerg] duplicate location "/b" in FILE:5"#,
    ),
    Case(
        Server,
        "location /a {\nlocation /a/b {}\nlocation /a/b {} } location /a {}",
        r#"[emerg] duplicate location "/a/b" in FILE:6"#,
    ),
    Case(
        Server,
        "location ~ ^/(?<foo>.*)$ { add_header a $foo; } add_header b $bar;",
        r#"[emerg] unknown "bar" variable"#,
    ),
    Case(
        Location,
        "try_files a;",
        r#"[emerg] invalid number of arguments in "try_files" directive in FILE:5"#,
    ),
    Case(
        Location,
        "try_files a b; try_files a b;",
        r#"[emerg] "try_files" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "try_files a =x;",
        r#"[emerg] invalid code "=x" in FILE:5"#,
    ),
    Case(
        Location,
        "try_files a =1000;",
        r#"[emerg] invalid code "=1000" in FILE:5"#,
    ),
    Case(
        Location,
        "return x;",
        r#"[emerg] invalid return code "x" in FILE:5"#,
    ),
    Case(
        Location,
        "return 1000;",
        r#"[emerg] invalid return code "1000" in FILE:5"#,
    ),
    Case(
        Location,
        "return foo http://x;",
        r#"[emerg] invalid return code "foo" in FILE:5"#,
    ),
    Case(
        Location,
        "return;",
        r#"[emerg] invalid number of arguments in "return" directive in FILE:5"#,
    ),
    Case(
        Location,
        "return -1;",
        r#"[emerg] invalid return code "-1" in FILE:5"#,
    ),
    Case(
        Location,
        "return 200 a b;",
        r#"[emerg] invalid number of arguments in "return" directive in FILE:5"#,
    ),
    Case(
        Location,
        "add_header a;",
        r#"[emerg] invalid number of arguments in "add_header" directive in FILE:5"#,
    ),
    Case(
        Location,
        "add_header a b c;",
        r#"[emerg] invalid parameter "c" in FILE:5"#,
    ),
    Case(
        Location,
        "add_header a b always d;",
        r#"[emerg] invalid number of arguments in "add_header" directive in FILE:5"#,
    ),
    Case(
        Location,
        "expires foo;",
        r#"[emerg] "expires" directive invalid value in FILE:5"#,
    ),
    Case(
        Location,
        "expires a b;",
        r#"[emerg] "expires" directive invalid value in FILE:5"#,
    ),
    Case(
        Location,
        "expires modified @1h;",
        r#"[emerg] "expires" directive daily time cannot be used with "modified" parameter in FILE:5"#,
    ),
    Case(
        Location,
        "expires @25h;",
        r#"[emerg] "expires" directive daily time value must be less than 24 hours in FILE:5"#,
    ),
    Case(
        Location,
        "expires modified off;",
        r#"[emerg] "expires" directive invalid value in FILE:5"#,
    ),
    Case(
        Location,
        "expires 1h; expires 1h;",
        r#"[emerg] "expires" directive is duplicate in FILE:5"#,
    ),
    Case(
        Location,
        "expires -x;",
        r#"[emerg] "expires" directive invalid value in FILE:5"#,
    ),
    Case(
        Location,
        r#"index "";"#,
        r#"[emerg] index "" in "index" directive is invalid in FILE:5"#,
    ),
    Case(
        Location,
        "index /a b; foo;",
        "[warn] only the last index in \"index\" directive should be absolute in FILE:5\n[emerg] unknown directive \"foo\" in FILE:5",
    ),
    Case(
        Location,
        "autoindex x;",
        r#"[emerg] invalid value "x" in "autoindex" directive, it must be "on" or "off" in FILE:5"#,
    ),
    Case(
        Location,
        "autoindex_format x;",
        r#"[emerg] invalid value "x" in FILE:5"#,
    ),
    Case(
        Location,
        "gzip_static x;",
        r#"[emerg] invalid value "x" in FILE:5"#,
    ),
    Case(
        Location,
        "stub_status a b;",
        r#"[emerg] invalid number of arguments in "stub_status" directive in FILE:5"#,
    ),
    Case(
        Http,
        "server { location / {} ;}",
        r#"[emerg] unexpected ";" in FILE:3"#,
    ),
    Case(
        Location,
        "server {}",
        r#"[emerg] "server" directive is not allowed here in FILE:5"#,
    ),
    Case(
        Location,
        "events {}",
        r#"[emerg] "events" directive is not allowed here in FILE:5"#,
    ),
    Case(
        Location,
        "least_conn;",
        r#"[emerg] "least_conn" directive is not allowed here in FILE:5"#,
    ),
];
