use super::*;

#[test]
fn a_script_says_what_each_connection_does() {
    let script = QuicScript::new("127.0.0.1:8443".parse().unwrap(), "a.pem".as_ref())
        .version(2)
        .requests([QuicRequest::new("PUT", "/a").header("x", "y").body(7)])
        .rebind("127.0.0.2")
        .reconnect_early()
        .get("/b");
    let get = json!({"method": "GET", "path": "/b", "headers": [], "body_bytes": -1});
    let put = json!({"method": "PUT", "path": "/a", "headers": [["x", "y"]], "body_bytes": 7});
    let expected = json!({
        "address": "127.0.0.1:8443",
        "authority": "a.pem",
        "server_name": "localhost",
        "version": 2,
        "connections": [
            {"resume": "none", "steps": [
                {"do": "requests", "requests": [put]},
                {"do": "rebind", "address": "127.0.0.2"},
            ]},
            {"resume": "early", "steps": [{"do": "requests", "requests": [get]}]},
        ],
    });
    assert_eq!(script.to_json(), expected);
}

#[test]
fn results_may_lack_what_a_program_cannot_know() {
    let run = QuicRun::from_json(&json!({"connections": [
        {
            "version": 0x6b33_43cf_u32, "early_data": "accepted", "retry": true,
            "responses": [{"status": 200, "headers": [["a", "b"]], "body_bytes": 5, "reset": 0x10c}],
            "websockets": [{"status": 200, "texts": ["x"]}],
            "close": {"by_server": true, "application": true, "code": 0x100, "reason": "done"},
        },
        {"close": null},
    ]}));
    let [first, second] = &run.connections[..] else {
        panic!("{run:?}");
    };
    assert_eq!(first.version, 0x6b33_43cf);
    assert_eq!((&*first.early_data, first.retry), ("accepted", true));
    assert_eq!(first.responses[0].header("a"), Some("b"));
    assert_eq!(first.responses[0].reset, Some(0x10c));
    assert_eq!(first.websockets[0].texts, ["x"]);
    let close = QuicClose {
        by_server: true,
        application: true,
        code: Some(0x100),
        reason: "done".to_owned(),
    };
    assert_eq!(first.close, Some(close));
    assert!(second.close.is_none() && second.responses.is_empty() && !second.retry);
}

#[test]
fn a_body_is_its_positions() {
    let body = pattern(503);
    assert_eq!(
        (body.len(), body[250], body[251], body[502]),
        (503, 250, 0, 0)
    );
}
