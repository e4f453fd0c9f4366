//! What is said about mistakes in Tengine's directives.

use sealane_conf::{MemoryLoader, Options};

const CASES: &[(&str, &str)] = &[
    (
        "sysguard_load load=1.5x;",
        "invalid parameter \"load=1.5x\"",
    ),
    (
        "sysguard_cpu period=3s;",
        "\"sysguard_cpu\" must have \"usage\" parameter",
    ),
    (
        "sysguard_mem swapratio=20;",
        "invalid parameter \"swapratio=20\"",
    ),
    (
        "sysguard_rt rt=1 action=busy;",
        "invalid parameter \"action=busy\"",
    ),
    (
        "sysguard_mem free=1m; sysguard_mem swapratio=1% free=2m;",
        "\"sysguard_mem\" directive is duplicate",
    ),
    (
        "limit_req zone=a forbid_action=x;",
        "invalid forbid_action \"forbid_action=x\"",
    ),
    (
        "limit_req off; limit_req zone=a;",
        "\"limit_req\" directive is duplicate",
    ),
    (
        "req_status_zone a text 1m;",
        "the value \"text\" is a constant",
    ),
    (
        "req_status_zone a $uri 1m; req_status_zone a $uri 1m;",
        "req_status_zone \"a\" is already bound to value \"$uri\"",
    ),
    (
        "req_status_zone_key_length a 10;",
        "zone \"a\" should be defined first",
    ),
    (
        "req_status a; limit_req_zone $uri zone=a:1m rate=1r/s;",
        "the shared memory zone \"a\" is already declared for a different use",
    ),
];

#[test]
fn mistakes_are_named() {
    for (line, expected) in CASES {
        let text = format!("events {{}} http {{ {line} }}");
        let mut files = MemoryLoader::new().with("/conf", text);
        let parsed = sealane_conf::parse(&Options::new("/conf", "/prefix"), &mut files);
        let refused = parsed.expect_err(line);
        assert_eq!(refused.error.message, *expected, "{line}");
    }
}
