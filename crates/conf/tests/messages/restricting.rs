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
];
