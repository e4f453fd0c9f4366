use crate::input::{MemoryLoader, Options};
use crate::model::{
    Check, CheckKind, Config, GroupRef, HealthCheck, HealthQuestion, MAX_HEALTH_CHECKS,
};
use crate::parse;
use std::sync::Arc;
use std::time::Duration;

fn parsed(http: &str) -> Result<Config, String> {
    let text = format!("events {{}} http {{ {http} }}");
    let mut loader = MemoryLoader::new().with("/etc/nginx.conf", text);
    let config = parse(&Options::new("/etc/nginx.conf", "/usr"), &mut loader);
    config.map_err(|failure| failure.error.headline().to_string())
}

const GROUP: &str = "upstream u { server 127.0.0.1:1; }";

fn in_location(lines: &str) -> Result<Config, String> {
    parsed(&format!("{GROUP} server {{ location / {{ {lines} }} }}"))
}

fn health_check(parameters: &str) -> Result<HealthCheck, String> {
    let pass = match parameters.contains("type=grpc") {
        true => "grpc_pass u;",
        false => "proxy_pass http://u;",
    };
    let config = in_location(&format!("{pass} health_check {parameters};"))?;
    let http = config.http.expect("it is there");
    let found = http.health_checks(GroupRef(0)).next();
    let (_, check) = found.expect("the check of the group");
    Ok(HealthCheck::clone(check))
}

fn check(lines: &str) -> Result<Arc<Check>, String> {
    let text = format!("upstream u {{ server 127.0.0.1:1; {lines} }}");
    let config = parsed(&text)?;
    let http = config.http.expect("it is there");
    Ok(http.upstreams[0].check.clone().expect("a check"))
}

#[test]
fn the_defaults_are_those_of_nginx() {
    let check = health_check("").expect("valid");
    assert_eq!(check.interval, Duration::from_secs(5));
    assert_eq!(
        (check.jitter, check.fails, check.passes),
        (Duration::ZERO, 1, 1)
    );
    assert_eq!(check.question, HealthQuestion::Uri((*b"/").into()));
    assert!(!check.mandatory && check.expect.is_none() && check.port.is_none());
}

#[test]
fn every_parameter_of_health_check() {
    let text = "interval=500ms jitter=1s fails=3 passes=2 uri=/a?b=c match=m mandatory persistent \
                port=8080 keepalive_time=60s";
    let config = parsed(&format!(
        "{GROUP} server {{ location / {{ proxy_pass http://u; health_check {text}; }} }}
         match m {{ status ! 500 502-504; header A; header ! B; header !C; header D = e;
            header F !~* \"g h\"; body ~ x; require $arg_a $arg_b; }}"
    ));
    let http = config.expect("valid").http.expect("it is there");
    let (conf, check) = http.health_checks(GroupRef(0)).next().expect("a check");
    assert_eq!(&*conf.name, "/");
    assert_eq!(check.interval, Duration::from_millis(500));
    assert_eq!((check.fails, check.passes, check.port), (3, 2, Some(8080)));
    assert!(check.mandatory);
    let expect = &http.response_matches[check.expect.expect("a match")];
    let status = expect.status.as_ref().expect("a test");
    let allowed = [200, 500, 501, 502, 503, 504, 505].map(|code| status.allows(code));
    assert_eq!(allowed, [true, false, true, false, false, false, true]);
    let names: Vec<_> = expect.headers.iter().map(|test| &*test.name).collect();
    assert_eq!(names, [b"A", b"B", b"C", b"D", b"F"]);
    assert_eq!((expect.bodies.len(), expect.require.len()), (1, 2));
}

#[test]
fn a_shared_check_has_the_nearest_store() {
    const OUTER: &str = "upstream_store redis://outer key=k;";
    const SESSIONS: &str = "ssl_session_store redis://sessions key=k;";
    let location = "server { location / { proxy_pass http://u; health_check shared; } }";
    let store = |text: &str| {
        let http = parsed(text).expect("valid").http.expect("it is there");
        http.upstreams[0]
            .store
            .as_ref()
            .map(|store| store.to_string())
    };
    let block = |lines: &str| format!("upstream u {{ server 127.0.0.1:1; {lines} }}");
    let shared = block("check shared;");
    for (text, expected) in [
        (
            format!("{OUTER} {SESSIONS} {shared}"),
            Some("redis://outer:6379"),
        ),
        (
            format!("{SESSIONS} {shared}"),
            Some("redis://sessions:6379"),
        ),
        (format!("{shared} {OUTER}"), Some("redis://outer:6379")),
        (
            format!(
                "{OUTER} {}",
                block("check shared; upstream_store redis://own key=k;")
            ),
            Some("redis://own:6379"),
        ),
        (
            format!("{OUTER} {} {location}", block("")),
            Some("redis://outer:6379"),
        ),
        (
            format!(
                "{OUTER} {}",
                location.replace("http://u", "http://127.0.0.1:1")
            ),
            Some("redis://outer:6379"),
        ),
        // Nothing is shared.
        (format!("{OUTER} {}", block("check;")), None),
    ] {
        assert_eq!(store(&text).as_deref(), expected, "{text}");
    }
    for (text, error) in [
        (
            shared.clone(),
            "\"check ... shared\" of upstream \"u\" needs a store",
        ),
        (
            format!("upstream_store off; {SESSIONS} {shared}"),
            "\"check ... shared\" of upstream \"u\" needs a store",
        ),
        (
            format!("ssl_session_store redis://sessions; {shared}"),
            "\"check ... shared\" of upstream \"u\" needs a store with \"key=\"",
        ),
        (
            format!("{} {location}", block("")),
            "\"health_check ... shared\" of upstream \"u\" needs a store",
        ),
    ] {
        let found = parsed(&text).expect_err("nothing can be shared");
        assert!(found.contains(error), "{text}: {found}");
    }
}

#[test]
fn grpc_has_parameters_of_its_own() {
    let check = health_check("type=grpc grpc_service=shop grpc_status=12").expect("valid");
    let service = (*b"shop").into();
    let status = Some(12);
    assert_eq!(check.question, HealthQuestion::Grpc { service, status });
    for (parameters, error) in [
        ("type=grpc uri=/a", "invalid parameter \"uri=/a\""),
        ("grpc_status=12", "invalid parameter \"grpc_status=12\""),
        ("type=grpc match=m", "has both \"type=grpc\" and \"match\""),
        ("type=http", "invalid parameter \"type=http\""),
    ] {
        let refused = health_check(parameters).expect_err(parameters);
        assert!(refused.contains(error), "{refused}");
    }
    let refused = in_location("proxy_pass http://u; health_check type=grpc;");
    assert!(
        refused
            .expect_err("no gRPC")
            .contains("has no \"grpc_pass\"")
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (lines, error) in [
        ("health_check;", "in a location that passes no requests"),
        (
            "proxy_pass http://$arg_a; health_check;",
            "of servers that only a request names",
        ),
        (
            "proxy_pass http://u; health_check match=m;",
            "match \"m\" is not defined",
        ),
        (
            "proxy_pass http://u; health_check interval=1ms;",
            "invalid parameter",
        ),
        (
            "proxy_pass http://u; health_check fails=0;",
            "invalid parameter",
        ),
        (
            "proxy_pass http://u; health_check port=65536;",
            "invalid parameter",
        ),
        (
            "proxy_pass http://u; health_check uri=a;",
            "invalid parameter",
        ),
        (
            "proxy_pass http://u; health_check persistent;",
            "invalid parameter",
        ),
        (
            "proxy_pass http://u; health_check timeout=1s;",
            "invalid parameter",
        ),
    ] {
        let refused = in_location(lines).expect_err(lines);
        assert!(refused.contains(error), "{lines}: {refused}");
    }
    for (block, error) in [
        ("status;", "invalid line \"status\" of match"),
        ("status 99;", "invalid line"),
        ("status 500-400;", "invalid line"),
        ("status 200; status 201;", "duplicate \"status\""),
        ("header A > b;", "invalid line"),
        ("body = a;", "invalid line"),
        ("body ~ \"(\";", "pcre2_compile() failed"),
        ("send a;", "invalid line"),
    ] {
        let refused = parsed(&format!("match m {{ {block} }}")).expect_err(block);
        assert!(refused.contains(error), "{block}: {refused}");
    }
    let twice = parsed("match m { } match m { }").expect_err("twice");
    assert!(twice.contains("duplicate match \"m\""), "{twice}");
}

#[test]
fn a_group_has_no_more_checks_than_may_be() {
    let checks = |count| format!("proxy_pass http://u; {}", "health_check;".repeat(count));
    assert!(in_location(&checks(MAX_HEALTH_CHECKS)).is_ok());
    let refused = in_location(&checks(MAX_HEALTH_CHECKS + 1)).expect_err("too many");
    assert!(
        refused.contains("is one too many: a group can have 31"),
        "{refused}"
    );
}

#[test]
fn the_check_of_tengine() {
    let default = check("check;").expect("valid");
    assert_eq!(default.interval, Duration::from_secs(30));
    assert_eq!(default.timeout, Duration::from_secs(1));
    assert_eq!(
        (default.fall, default.rise, default.default_down),
        (5, 2, true)
    );
    assert_eq!((default.kind, default.alive), (CheckKind::Tcp, 0b0110));
    assert_eq!(*default.send, *b"GET / HTTP/1.0\r\n\r\n");
    let own = check(
        "check interval=3000 rise=1 fall=4 timeout=2000 default_down=false type=fastcgi port=99;
         check_http_send \"HEAD /\\r\\n\\r\\n\"; check_http_expect_alive http_1xx http_5xx;
         check_keepalive_requests 7; check_fastcgi_param A b; check_fastcgi_param C \"\";",
    );
    let own = own.expect("valid");
    assert_eq!((own.fall, own.rise, own.default_down), (4, 1, false));
    assert_eq!(
        (own.kind, own.alive, own.port),
        (CheckKind::FastCgi, 0b10001, Some(99))
    );
    assert_eq!(*own.send, *b"HEAD /\r\n\r\n");
    assert_eq!(own.keepalive_requests, 7);
    assert_eq!(own.fastcgi_params.as_ref().map(Vec::len), Some(2));
    for lines in [
        "check type=icmp;",
        "check interval=3s;",
        "check fall=0;",
        "check default_down=maybe;",
        "check; check;",
        "check; check_http_expect_alive http_6xx;",
        "check; check_http_send \"\";",
        "check; check_keepalive_requests 0;",
    ] {
        assert!(check(lines).is_err(), "{lines}");
    }
}

#[test]
fn slow_start_is_for_methods_whose_weights_can_change() {
    for (lines, allowed) in [
        ("server 127.0.0.1:1 slow_start=30s;", true),
        ("least_conn; server 127.0.0.1:1 slow_start=30s;", true),
        (
            "least_time header; server 127.0.0.1:1 slow_start=30s;",
            true,
        ),
        ("ip_hash; server 127.0.0.1:1 slow_start=30s;", false),
        ("hash $uri; server 127.0.0.1:1 slow_start=30s;", false),
        ("random; server 127.0.0.1:1 slow_start=30s;", false),
        ("server 127.0.0.1:1 slow_start=never;", false),
    ] {
        let config = parsed(&format!("upstream u {{ {lines} }}"));
        assert_eq!(config.is_ok(), allowed, "{lines}: {:?}", config.err());
    }
}
