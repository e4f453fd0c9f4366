//! `quic_qlog`: files with what connections of QUIC do.

use sealane_tests::quic::{QuicClient, QuicScript, quic_configuration, quic_site, serve_quic};
use sealane_tests::random::Random;
use sealane_tests::reload::{Reload, ask, configure, reload};
use sealane_tests::{Server, Site, wait_for};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;

/// In the file that is asked for, in a header and in a name: none of them may be recorded.
const SECRET: &str = "nobody-may-read-this";

fn site() -> Site {
    let site = quic_site();
    fs::create_dir(site.path("qlog")).expect("new");
    // Where root runs the test, the worker is somebody else.
    let mode = fs::Permissions::from_mode(0o777);
    fs::set_permissions(site.path("qlog"), mode).expect("it is ours");
    site.write("html/big.bin", Random::new(8).bytes(300_000));
    site.write(format!("html/{SECRET}"), SECRET.repeat(20));
    site
}

fn get(site: &Site, server: &Server<'_>, path: &str) -> u64 {
    let script = QuicScript::to(site, server).get(path);
    let connection = QuicClient::Aioquic.run_one(&script);
    let response = &connection.responses[0];
    assert!(response.status == 200 && response.complete, "{response:?}");
    response.body_bytes
}

fn files(site: &Site) -> Vec<PathBuf> {
    let entries = fs::read_dir(site.path("qlog")).expect("it is there");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    let mut paths: Vec<PathBuf> = paths.collect();
    paths.sort();
    paths
}

/// The records of a file.
fn records(bytes: &[u8]) -> Vec<Value> {
    let mut parts = bytes.split(|byte| *byte == 0x1e);
    assert_eq!(parts.next(), Some(&b""[..]), "each record begins with RS");
    let parts = parts.map(|part| {
        assert_eq!(part.last(), Some(&b'\n'), "and ends with a line feed");
        serde_json::from_slice(part).expect("a record is JSON")
    });
    parts.collect()
}

/// The records of the only file, once the last one is `last`.
#[track_caller]
fn recorded(site: &Site, last: &str) -> (PathBuf, Vec<Value>) {
    wait_for("the end of a recording", || {
        let file = match &files(site)[..] {
            [] => return None,
            [file] => file.clone(),
            more => panic!("{more:?}"),
        };
        let bytes = fs::read(&file).ok()?;
        let is_whole = bytes.ends_with(b"\n") && String::from_utf8_lossy(&bytes).contains(last);
        is_whole.then(|| (file, records(&bytes)))
    })
}

fn named<'a>(all: &'a [Value], name: &'a str) -> impl Iterator<Item = &'a Value> {
    let events = all.iter().filter(move |event| event["name"] == name);
    events.map(|event| &event["data"])
}

/// Fields at any depth, with their values.
fn visit(value: &Value, seen: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            seen(name, value);
            visit(value, seen);
        }),
        Value::Array(values) => values.iter().for_each(|value| visit(value, seen)),
        _ => {}
    }
}

#[test]
fn a_connection_is_recorded_from_its_first_packet_to_its_end() {
    let site = site();
    let server = serve_quic(&site, "quic_qlog qlog;");
    let body = get(&site, &server, "/big.bin");
    assert_eq!(body, 300_000);
    let (file, all) = recorded(&site, "quic:connection_closed");
    let header = &all[0];
    assert_eq!(
        header["file_schema"],
        "urn:ietf:params:qlog:file:sequential"
    );
    assert_eq!(header["serialization_format"], "application/qlog+json-seq");
    assert!(header["title"].is_string());
    let trace = &header["trace"];
    assert_eq!(trace["vantage_point"]["type"], "server");
    let id = trace["common_fields"]["ODCID"].as_str().expect("an id");
    let name = file.file_name().and_then(|name| name.to_str());
    assert_eq!(name, Some(&*format!("{id}_server.sqlog")));
    let schemas = trace["event_schemas"].as_array().expect("a list");
    assert!(schemas.iter().all(|schema| {
        (schema.as_str()).is_some_and(|schema| schema.starts_with("urn:ietf:params:qlog:events:"))
    }));
    let events = &all[1..];
    let times = events.iter().map(|event| event["time"].as_f64());
    let times: Vec<f64> = times.map(|time| time.expect("a number")).collect();
    assert!(times.is_sorted() && times[0] == 0.0);
    let names: BTreeSet<&str> = events
        .iter()
        .map(|event| {
            assert!(event["data"].is_object(), "{event}");
            event["name"].as_str().expect("a name")
        })
        .collect();
    for name in [
        "connection_started",
        "version_information",
        "alpn_information",
        "parameters_set",
        "packet_sent",
        "packet_received",
        "recovery_metrics_updated",
        "congestion_state_updated",
        "key_updated",
        "key_discarded",
        "connection_closed",
    ] {
        assert!(
            names.contains(&*format!("quic:{name}")),
            "{name}: {names:?}"
        );
    }
    check_packets(events, body);
    let owners = named(events, "quic:parameters_set").map(|data| &data["initiator"]);
    assert_eq!(owners.collect::<Vec<_>>(), ["remote", "local"]);
    let alpn = named(events, "quic:alpn_information").next();
    let alpn = alpn.map(|data| &data["chosen_alpn"]["string_value"]);
    assert_eq!(alpn, Some(&Value::from("h3")));
}

/// Numbers go up, and the bytes of the only request's stream are those of the response.
fn check_packets(events: &[Value], body: u64) {
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    let mut bytes: BTreeMap<u64, u64> = BTreeMap::new();
    let mut end = None;
    for data in named(events, "quic:packet_sent") {
        let header = &data["header"];
        let packet_type = header["packet_type"].as_str().expect("a type");
        let number = header["packet_number"].as_u64().expect("a number");
        let before = last.insert(packet_type, number);
        assert!(before.is_none_or(|before| before < number), "{data}");
        assert!(data["raw"]["length"].as_u64().is_some_and(|len| len > 20));
        for frame in data["frames"].as_array().expect("frames") {
            let field = |name: &str| frame[name].as_u64().expect("a number");
            if frame["frame_type"] != "stream" || frame["stream_id"] != 0 {
                continue;
            }
            let length = frame["raw"]["length"].as_u64().expect("a length");
            let longest = bytes.entry(field("offset")).or_default();
            *longest = (*longest).max(length);
            if frame["fin"] == true {
                end = Some(field("offset") + length);
            }
        }
    }
    let known: BTreeSet<&str> = last.keys().copied().collect();
    assert_eq!(known, BTreeSet::from(["1RTT", "handshake", "initial"]));
    // Parts that are sent again may overlap.
    let mut covered = 0;
    for (offset, length) in bytes {
        assert!(offset <= covered, "a gap before {offset}");
        covered = covered.max(offset + length);
    }
    assert_eq!(Some(covered), end);
    let heads = covered - body;
    assert!((1..1000).contains(&heads), "{heads} bytes of heads");
    let received = named(events, "quic:packet_received");
    let frames = received.flat_map(|data| data["frames"].as_array().expect("frames"));
    assert!(frames.into_iter().any(|frame| frame["frame_type"] == "ack"));
}

#[test]
fn nothing_secret_is_recorded() {
    let site = site();
    let server = serve_quic(
        &site,
        "quic_qlog qlog; quic_retry on; quic_mtu_discovery off;",
    );
    let path = format!("/{SECRET}");
    let script = QuicScript::to(&site, &server)
        .get(&path)
        .reconnect_early()
        .get(&path);
    let run = QuicClient::Aioquic.run(&script);
    assert!(
        run.connections
            .iter()
            .all(|one| one.responses[0].status == 200)
    );
    assert!(run.connections[0].retry && run.connections[0].tokens > 0);
    let texts = wait_for("both recordings", || {
        let texts = files(&site).into_iter().map(fs::read_to_string);
        let texts: Vec<String> = texts.collect::<Result<_, _>>().ok()?;
        let are_whole = texts
            .iter()
            .all(|text| text.contains("quic:connection_closed") && text.ends_with('\n'));
        (texts.len() == 2 && are_whole).then_some(texts)
    });
    let hex: String = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut tokens = 0;
    for text in texts {
        assert!(!text.contains(SECRET) && !text.contains(&hex));
        for record in records(text.as_bytes()) {
            visit(&record, &mut |name, value| match name {
                "raw" => {
                    let fields = value.as_object().expect("an object");
                    let mut names = fields.keys();
                    assert!(names.all(|name| name.ends_with("length")), "{value}");
                }
                "token" => {
                    tokens += 1;
                    let fields = value.as_object().expect("an object");
                    assert!(fields.keys().all(|name| name == "type" || name == "raw"));
                }
                "stateless_reset_token" | "old" | "new" | "key" if value.is_string() => {
                    // Of keys, ids and tokens only ids have values: they are short.
                    let text = value.as_str().unwrap_or_default();
                    assert!(name != "stateless_reset_token" && name != "key");
                    assert!(text.len() < 32, "{name}: {value}");
                }
                _ => {}
            });
        }
    }
    assert!(
        tokens >= 3,
        "of Retry, of NEW_TOKEN, and one that was shown again"
    );
}

#[test]
fn only_chosen_clients_are_recorded_and_a_reload_chooses_others() {
    let site = site();
    let with = |line: &str| {
        let http = quic_configuration(line);
        format!(
            "worker_processes 1; error_log logs/error.log info; pid logs/pid;
             events {{ }} http {{ access_log off; {http} }}"
        )
    };
    let server = site.serve_whole(&with("quic_qlog qlog 127.0.0.2 192.0.2.0/24;"));
    get(&site, &server, "/a.txt");
    let new = with("quic_qlog qlog 127.0.0.0/30;");
    assert_eq!(reload(&site, &server, &new), Reload::Applied);
    assert_eq!(files(&site), Vec::<PathBuf>::new());
    get(&site, &server, "/a.txt");
    recorded(&site, "quic:connection_closed");
}

#[test]
fn a_file_ends_at_its_limit_and_the_connection_goes_on() {
    let site = site();
    let server = serve_quic(&site, "quic_qlog qlog; quic_qlog_max_size 16k;");
    assert_eq!(get(&site, &server, "/big.bin"), 300_000);
    let (file, all) = recorded(&site, "loglevel:info");
    let last = all.last().expect("a record");
    assert_eq!(last["name"], "loglevel:info");
    assert_eq!(
        last["data"]["message"],
        "the recording ends here: quic_qlog_max_size is 16384 bytes"
    );
    let bytes = fs::metadata(file).expect("it is there").len();
    assert!((8 << 10..=16 << 10).contains(&bytes), "{bytes}");
}

#[test]
fn no_more_connections_are_recorded_than_allowed() {
    let site = site();
    let server = serve_quic(&site, "quic_qlog qlog; quic_qlog_max_connections 0;");
    get(&site, &server, "/a.txt");
    server.wait_for_log("0 connections of QUIC are being recorded (quic_qlog), others are not");
    assert_eq!(files(&site), Vec::<PathBuf>::new());
}

#[test]
fn a_directory_that_is_gone_is_told_and_disturbs_nobody() {
    let site = site();
    let server = serve_quic(&site, "quic_qlog qlog;");
    fs::remove_dir(site.path("qlog")).expect("it is empty");
    assert_eq!(get(&site, &server, "/big.bin"), 300_000);
    let line = server.wait_for_log("_server.sqlog\" failed (2: No such file or directory)");
    assert!(line.contains("qlog/*.sqlog\" were lost"), "{line}");
    // Not one for each packet.
    let lines = server.error_log().matches("*.sqlog\" were lost").count();
    assert!(lines < 20, "{lines} lines");
}

#[test]
fn a_directory_has_to_be_there_at_the_start() {
    let site = quic_site();
    let http = quic_configuration("quic_qlog qlog;");
    configure(&site, &format!("events {{ }} http {{ {http} }}"));
    let refusal = || {
        let outcome = ask(&site, &["-t"]);
        assert_ne!(outcome.status, 0);
        outcome.stderr
    };
    let said = refusal();
    assert!(said.contains("\"quic_qlog\" cannot write to"), "{said}");
    assert!(
        said.contains("/qlog\" (2: No such file or directory): make the directory"),
        "{said}"
    );
    site.write("qlog", "a file");
    let said = refusal();
    assert!(said.contains("/qlog\" (20: Not a directory)"), "{said}");
}

#[test]
fn the_user_of_the_worker_writes_the_files() {
    sealane_needs::root();
    let site = site();
    for path in ["", "logs", "html", "qlog"] {
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(site.path(path), mode).expect("it is ours");
    }
    let nobody = 65_534;
    chown(site.path("qlog"), Some(nobody), None).expect("we are root");
    let http = quic_configuration("quic_qlog qlog;");
    let server = site.serve_with("user nobody nogroup;", "", &http);
    get(&site, &server, "/a.txt");
    recorded(&site, "quic:connection_closed");
}
