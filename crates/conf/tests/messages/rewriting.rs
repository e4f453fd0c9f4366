//! `rewrite`, `if`, `set` and the blocks that define variables.

use super::Case;
use super::Where::*;

pub(super) const CASES: &[Case] = &[
    Case(
        Location,
        "rewrite a b c;",
        r#"[emerg] invalid parameter "c" in FILE:5"#,
    ),
    Case(
        Location,
        "rewrite a \"\";",
        "[emerg] empty replacement in FILE:5",
    ),
    Case(
        Location,
        "rewrite a;",
        r#"[emerg] invalid number of arguments in "rewrite" directive in FILE:5"#,
    ),
    Case(
        Location,
        "rewrite a $;",
        "[emerg] invalid variable name in FILE:5",
    ),
    Case(
        Location,
        "rewrite ^ /$nothing;",
        r#"[emerg] unknown "nothing" variable"#,
    ),
    Case(
        Location,
        "rewrite (?<uri>x) /;",
        r#"[emerg] the duplicate "uri" variable in FILE:5"#,
    ),
    Case(
        Location,
        "break x;",
        r#"[emerg] invalid number of arguments in "break" directive in FILE:5"#,
    ),
    Case(
        Http,
        "break;",
        r#"[emerg] "break" directive is not allowed here in FILE:3"#,
    ),
    Case(
        Http,
        "if ($a) {}",
        r#"[emerg] "if" directive is not allowed here in FILE:3"#,
    ),
    Case(
        Location,
        "set a b;",
        r#"[emerg] invalid variable name "a" in FILE:5"#,
    ),
    Case(
        Location,
        "set $ b;",
        r#"[emerg] invalid variable name "$" in FILE:5"#,
    ),
    Case(
        Location,
        "set $uri b;",
        r#"[emerg] the duplicate "uri" variable in FILE:5"#,
    ),
    Case(
        Location,
        "set $http_host b;",
        r#"[emerg] the duplicate "http_host" variable in FILE:5"#,
    ),
    Case(
        Location,
        "set $http_mine b; foo;",
        r#"[emerg] unknown directive "foo" in FILE:5"#,
    ),
    Case(Location, "set $a $b;", r#"[emerg] unknown "b" variable"#),
    Case(
        Location,
        "set $a ${b;",
        "[emerg] the closing bracket in \"b\" variable is missing in FILE:5",
    ),
    Case(
        Location,
        "if (a) {}",
        r#"[emerg] invalid condition "a" in FILE:5"#,
    ),
    Case(
        Location,
        "if $a {}",
        r#"[emerg] invalid condition "$a" in FILE:5"#,
    ),
    Case(
        Location,
        "if ($a {}",
        r#"[emerg] invalid condition "$a" in FILE:5"#,
    ),
    Case(
        Location,
        "if ( $uri = {}",
        r#"[emerg] invalid condition "=" in FILE:5"#,
    ),
    Case(
        Location,
        "if ($uri = a b) {}",
        r#"[emerg] invalid condition "$uri" in FILE:5"#,
    ),
    Case(
        Location,
        "if ($uri == a) {}",
        r#"[emerg] unexpected "==" in condition in FILE:5"#,
    ),
    Case(
        Location,
        "if ($uri ~ () {}",
        "[emerg] pcre2_compile() failed: missing closing parenthesis in \"(\" in FILE:5",
    ),
    Case(
        Location,
        "if (-g a) {}",
        r#"[emerg] invalid condition "-g" in FILE:5"#,
    ),
    Case(
        Location,
        "if (!-g a) {}",
        r#"[emerg] invalid condition "!-g" in FILE:5"#,
    ),
    Case(
        Location,
        "if (-f a b) {}",
        r#"[emerg] invalid condition "-f" in FILE:5"#,
    ),
    Case(
        Location,
        "if (-f) {}",
        r#"[emerg] invalid condition "-f" in FILE:5"#,
    ),
    Case(
        Location,
        "if ($) {}",
        r#"[emerg] invalid condition "$" in FILE:5"#,
    ),
    Case(
        Location,
        "if ($nothing) {}",
        r#"[emerg] unknown "nothing" variable"#,
    ),
    Case(
        Location,
        "if ($uri) { if ($uri) { } }",
        r#"[emerg] "if" directive is not allowed here in FILE:5"#,
    ),
    Case(
        Location,
        "if ($uri) { location /x { } }",
        r#"[emerg] "location" directive is not allowed here in FILE:5"#,
    ),
    Case(
        Server,
        "if ($uri) { root /x; }",
        r#"[emerg] "root" directive is not allowed here in FILE:4"#,
    ),
    Case(
        Location,
        "if ($uri) { proxy_pass http://127.0.0.1/x; }",
        "[emerg] \"proxy_pass\" cannot have URI part in location given by regular expression, or inside named location, or inside \"if\" statement, or inside \"limit_except\" block in FILE:5",
    ),
    Case(
        Location,
        "rewrite_log on; rewrite_log on;",
        r#"[emerg] "rewrite_log" directive is duplicate in FILE:5"#,
    ),
    Case(
        Http,
        "map $uri b { }",
        r#"[emerg] invalid variable name "b" in FILE:3"#,
    ),
    Case(
        Http,
        "map $uri $ { }",
        r#"[emerg] invalid variable name "$" in FILE:3"#,
    ),
    Case(
        Http,
        "map $uri $uri { }",
        r#"[emerg] the duplicate "uri" variable in FILE:3"#,
    ),
    Case(
        Http,
        "map $uri $a { x; }",
        "[emerg] invalid number of the map parameters in FILE:3",
    ),
    Case(
        Http,
        "map $uri $a { a b c; }",
        "[emerg] invalid number of the map parameters in FILE:3",
    ),
    Case(
        Http,
        "map $uri $a { include; }",
        "[emerg] invalid number of the map parameters in FILE:3",
    ),
    Case(
        Http,
        "map $uri $a { include /none; }",
        "[emerg] open() \"/none\" failed (2: No such file or directory) in FILE:3",
    ),
    Case(
        Http,
        "map $uri $a { a b; A c; }",
        r#"[emerg] conflicting parameter "a" in FILE:3"#,
    ),
    Case(
        Http,
        "map $uri $a { default b; default c; }",
        "[emerg] duplicate default map parameter in FILE:3",
    ),
    Case(
        Http,
        "map $uri $a { hostnames; a.*.b c; }",
        r#"[emerg] invalid hostname or wildcard "a.*.b" in FILE:3"#,
    ),
    Case(
        Http,
        "map $uri $a { hostnames; a..b c; }",
        r#"[emerg] invalid hostname or wildcard "a..b" in FILE:3"#,
    ),
    Case(
        Http,
        "map $uri $a { hostnames; .a b; a c; }",
        r#"[emerg] conflicting parameter "a" in FILE:3"#,
    ),
    Case(
        Http,
        "map $uri $a { hostnames; *.a b; .a c; }",
        r#"[emerg] conflicting parameter ".a" in FILE:3"#,
    ),
    Case(
        Http,
        "map $uri $a { ~( b; }",
        "[emerg] pcre2_compile() failed: missing closing parenthesis in \"(\" in FILE:3",
    ),
    Case(
        Http,
        "map $uri $a { a $b; }",
        r#"[emerg] unknown "b" variable"#,
    ),
    Case(
        Http,
        "map $b $a { a b; }",
        r#"[emerg] unknown "b" variable"#,
    ),
    Case(
        Http,
        "map $uri $a { a { } }",
        r#"[emerg] unexpected "{" in FILE:3"#,
    ),
    Case(
        Http,
        "map $uri $a;",
        r#"[emerg] directive "map" has no opening "{" in FILE:3"#,
    ),
    Case(
        Http,
        "map_hash_max_size x;",
        r#"[emerg] "map_hash_max_size" directive invalid number in FILE:3"#,
    ),
    Case(
        Http,
        "geo a { }",
        r#"[emerg] invalid variable name "a" in FILE:3"#,
    ),
    Case(
        Http,
        "geo $uri a { }",
        r#"[emerg] invalid variable name "a" in FILE:3"#,
    ),
    Case(
        Http,
        "geo $uri { }",
        r#"[emerg] the duplicate "uri" variable in FILE:3"#,
    ),
    Case(
        Http,
        "geo $a { x; }",
        "[emerg] invalid number of the geo parameters in FILE:3",
    ),
    Case(
        Http,
        "geo $a { x y; }",
        r#"[emerg] invalid network "x" in FILE:3"#,
    ),
    Case(
        Http,
        "geo $a { 1.2.3.4/33 y; }",
        r#"[emerg] invalid network "1.2.3.4/33" in FILE:3"#,
    ),
    Case(
        Http,
        "geo $a { proxy y; }",
        r#"[emerg] invalid network "y" in FILE:3"#,
    ),
    Case(
        Http,
        "geo $a { 1.2.3.4/8 a; 1.0.0.0/8 b; default x; default y; delete 2.0.0.0/8; } foo;",
        "[warn] low address bits of 1.2.3.4/8 are meaningless in FILE:3\n\
         [warn] duplicate network \"1.0.0.0/8\", value: \"b\", old value: \"a\" in FILE:3\n\
         [warn] duplicate network \"default\", value: \"y\", old value: \"x\" in FILE:3\n\
         [warn] duplicate network \"default\", value: \"y\", old value: \"x\" in FILE:3\n\
         [warn] no network \"2.0.0.0/8\" to delete in FILE:3\n\
         [emerg] unknown directive \"foo\" in FILE:3",
    ),
    Case(
        Http,
        "geo $a { default x; ranges; }",
        "[emerg] the \"ranges\" directive must be the first directive inside \"geo\" block in FILE:3",
    ),
    Case(
        Http,
        "geo $a { ranges; 1.2.3.4 y; }",
        r#"[emerg] invalid range "1.2.3.4" in FILE:3"#,
    ),
    Case(
        Http,
        "geo $a { ranges; 1.2.3.4-1.2.3.3 y; }",
        r#"[emerg] invalid range "1.2.3.4-1.2.3.3" in FILE:3"#,
    ),
    Case(
        Http,
        "geo $a { ranges; 1.2.3.4-1.2.3.9 y; 1.2.3.8-1.2.3.12 z; }",
        r#"[emerg] range "1.2.3.8-1.2.3.12" overlaps "1.2.3.4-1.2.3.9" in FILE:3"#,
    ),
    Case(
        Http,
        "geo $a { ranges; 1.2.3.4-1.2.3.9 y; 1.2.3.4-1.2.3.9 z; default a; default b; delete 1.1.1.1-1.1.1.1; } foo;",
        "[warn] duplicate range \"1.2.3.4-1.2.3.9\", value: \"z\", old value: \"y\" in FILE:3\n\
         [warn] duplicate default geo range value: \"b\", old value: \"a\" in FILE:3\n\
         [warn] no address range \"1.1.1.1-1.1.1.1\" to delete in FILE:3\n\
         [emerg] unknown directive \"foo\" in FILE:3",
    ),
    Case(
        Http,
        "split_clients $uri a { }",
        r#"[emerg] invalid variable name "a" in FILE:3"#,
    ),
    Case(
        Http,
        "split_clients $uri $a { x y; }",
        r#"[emerg] invalid percent value "x" in FILE:3"#,
    ),
    Case(
        Http,
        "split_clients $uri $a { 0% y; }",
        r#"[emerg] invalid percent value "0%" in FILE:3"#,
    ),
    Case(
        Http,
        "split_clients $uri $a { 1.234% y; }",
        r#"[emerg] invalid percent value "1.234%" in FILE:3"#,
    ),
    Case(
        Http,
        "split_clients $uri $a { 50% y; 50.01% z; }",
        "[emerg] percent total is greater than 100% in FILE:3",
    ),
    Case(
        Http,
        "split_clients $uri $a { * y; 1% z; }",
        "[emerg] percent total is greater than 100% in FILE:3",
    ),
];
