//! `sealane migrate` and what `sealane -t` sums up: configurations as they are found in the wild,
//! and files that are none.

use sealane_tests::{Outcome, Site, command, sealane_binary};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn run(arguments: &[&str]) -> Outcome {
    command(&sealane_binary().display().to_string(), arguments, b"")
}

fn migrate(file: &Path) -> Outcome {
    run(&["migrate", &file.display().to_string()])
}

fn json(file: &Path) -> (Value, i32) {
    let outcome = run(&["migrate", "--json", &file.display().to_string()]);
    let report = serde_json::from_slice(&outcome.stdout)
        .unwrap_or_else(|error| panic!("not JSON: {error}\n{}", outcome.stderr));
    (report, outcome.status)
}

/// `http` around directives, in a file of a site.
fn written(site: &Site, http: &str) -> PathBuf {
    let text = format!("events {{ }}\nhttp {{\n{http}\n}}\n");
    site.write("nginx.conf", text)
}

/// Directive and line of everything that is refused.
fn refused(report: &Value) -> Vec<(String, u64)> {
    let places = |one: &Value| -> Vec<(String, u64)> {
        let name = one["directive"].as_str().expect("a name").to_owned();
        let places = one["places"].as_array().expect("a list").iter();
        places
            .map(|place| (name.clone(), place["line"].as_u64().expect("a line")))
            .collect()
    };
    report["refused"]
        .as_array()
        .expect("a list")
        .iter()
        .flat_map(places)
        .collect()
}

fn ids(report: &Value) -> BTreeSet<&str> {
    let advice = report["advice"].as_array().expect("a list").iter();
    advice
        .map(|one| one["id"].as_str().expect("an id"))
        .collect()
}

#[test]
fn what_works_has_status_0_and_needs_neither_keys_nor_rights() {
    let site = Site::new();
    let file = written(
        &site,
        "sendfile on;
         server { listen 80; server_name a.example; return 301 https://$host$request_uri; }
         server { listen 443 ssl; server_name a.example; ssl_certificate no/such.pem;
           ssl_certificate_key no/such.key; root /srv/www;
           location / { try_files $uri $uri/ /index.php?$args; }
           location ~ \\.php$ { fastcgi_pass unix:/run/php-fpm.sock; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }
           location /api/ { proxy_pass http://no-such-host.invalid:8080; } }",
    );
    let outcome = migrate(&file);
    assert_eq!(outcome.status, 0, "{}", outcome.text());
    let text = outcome.text();
    assert!(text.contains("It works without changes"), "{text}");
    assert!(
        text.contains("not resolved") && text.contains("no-such-host.invalid"),
        "{text}"
    );
    assert!(
        text.contains("certificates and keys were not opened"),
        "{text}"
    );
    assert!(!text.contains('\x1b'), "a pipe gets no colours");
    let (report, status) = json(&file);
    assert_eq!((status, report["schema"].as_u64()), (0, Some(1)));
    assert!(refused(&report).is_empty());
    let before: Vec<_> = std::fs::read_dir(site.path(""))
        .expect("a directory")
        .collect();
    assert!(
        !before
            .iter()
            .flatten()
            .any(|entry| entry.file_name() == "logs" && entry.path().join("access.log").exists())
    );
}

#[test]
fn everything_that_does_not_work_is_told_with_its_place_and_what_to_use() {
    let site = Site::new();
    site.write("conf.d/bad.conf", "\n\nauth_pam 'Zone';\n");
    let file = written(
        &site,
        "include conf.d/*.conf;
         include conf.d/missing.conf;
         auth_pam 'Other';
         server {
           listen 80;
           rot /srv;
           location / { content_by_lua_block { ngx.say(\"}\") } }
           location /x { sendfile maybe; perl x; }
         }",
    );
    let (report, status) = json(&file);
    assert_eq!(status, 2);
    let expected = [
        ("auth_pam", 3),
        ("auth_pam", 5),
        ("rot", 8),
        ("content_by_lua_block", 9),
        ("sendfile", 10),
        ("perl", 10),
    ];
    let expected: Vec<(String, u64)> = expected.map(|(name, line)| (name.to_owned(), line)).into();
    assert_eq!(refused(&report), expected);
    let list = report["refused"].as_array().expect("a list");
    let kinds: Vec<&str> = list
        .iter()
        .map(|one| one["kind"].as_str().expect("a kind"))
        .collect();
    assert_eq!(
        kinds,
        [
            "unsupported",
            "unknown",
            "unsupported",
            "wrong",
            "unsupported"
        ]
    );
    assert!(
        list[0]["places"][0]["file"]
            .as_str()
            .expect("a file")
            .ends_with("conf.d/bad.conf")
    );
    assert_eq!(list[0]["places"][0]["text"], "auth_pam 'Zone';");
    for one in list.iter().filter(|one| one["kind"] == "unsupported") {
        assert!(
            one["remedy"]
                .as_str()
                .is_some_and(|remedy| remedy.len() > 10),
            "{one}"
        );
    }
    assert_eq!(list[1]["remedy"], "did you mean \"root\"?");
    assert_eq!(report["unread"].as_array().expect("a list").len(), 1);
    let text = migrate(&file).text();
    assert!(
        text.lines()
            .all(|line| line.chars().count() < 80 || line.contains('/')),
        "{text}"
    );
}

#[test]
fn advice_fits_the_configuration() {
    let site = Site::new();
    let with = |tls: &str, location: &str| {
        let file = written(
            &site,
            &format!(
                "server {{ listen 443 ssl; ssl_certificate a; ssl_certificate_key a; {tls} location / {{ {location} }} }}"
            ),
        );
        json(&file).0
    };
    let files = with("", "root /srv;");
    for id in [
        "workers",
        "sendfile",
        "http2",
        "ticket_state",
        "session_timeout",
        "open_file_cache",
    ] {
        assert!(ids(&files).contains(id), "{id}: {:?}", ids(&files));
    }
    let proxy = with("", "proxy_pass http://127.0.0.1:1;");
    assert!(!ids(&proxy).contains("sendfile") && !ids(&proxy).contains("open_file_cache"));
    let tuned = with(
        "http2 on; sendfile on; ssl_ktls on; ssl_session_timeout 1d; ssl_session_store redis://127.0.0.1; open_file_cache max=9;",
        "root /srv;",
    );
    assert_eq!(ids(&tuned), BTreeSet::from(["workers"]));
    let old = with(
        "sendfile on; ssl_protocols TLSv1 TLSv1.2; ssl_ecdh_curve P-256; ssl_session_tickets off; ssl_async off;",
        "root /srv;",
    );
    for id in ["ktls", "tls13", "curves", "resumption", "async"] {
        assert!(ids(&old).contains(id), "{id}: {:?}", ids(&old));
    }
    let tls13 = old["advice"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|one| one["id"] == "tls13");
    let tls13 = tls13.expect("it is there");
    assert_eq!(tls13["remove"][0], "ssl_protocols TLSv1 TLSv1.2;");
    assert_eq!(tls13["add"][0], "ssl_protocols TLSv1 TLSv1.2 TLSv1.3;");
    // What is advised works.
    for one in files["advice"].as_array().expect("a list") {
        let lines: Vec<&str> = one["add"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let (main, http) = match one["into"] == "main" {
            true => (lines.join("\n"), String::new()),
            false => (String::new(), lines.join("\n")),
        };
        let file = site.write(
            "advised.conf",
            format!("{main} events {{}} http {{ {http} }}"),
        );
        let (report, status) = json(&file);
        assert_eq!(status, 0, "{one}\n{}", report["refused"]);
    }
}

#[test]
fn what_is_no_configuration_has_status_1() {
    let site = Site::new();
    let random: Vec<u8> = (0..200_000_u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let cases: [(&str, Vec<u8>); 5] = [
        ("binary", random),
        ("braces", b"{".repeat(100_000)),
        ("open", b"events { } http { server {".to_vec()),
        ("large", b"x y;\n".repeat(2_000_000)),
        (
            "control",
            b"events { } \x1b[2J\x1b]0;owned\x07 x; http { \xff\xfe y; } }".to_vec(),
        ),
    ];
    for (name, text) in cases {
        let file = site.write(format!("{name}.conf"), text);
        let outcome = migrate(&file);
        assert_eq!(outcome.status, 1, "{name}: {}", outcome.text());
        let steers = |c: char| c.is_control() && c != '\n';
        assert!(!outcome.text().contains(steers), "{name}");
        assert!(
            outcome.stdout.len() < 1 << 20,
            "{name}: {}",
            outcome.stdout.len()
        );
        assert_eq!(json(&file).1, 1, "{name}");
    }
    for path in ["no/such/file", "."] {
        let outcome = migrate(&site.path(path));
        assert_eq!(outcome.status, 1, "{path}: {}", outcome.text());
        assert!(outcome.text().contains("open()"), "{}", outcome.text());
    }
    let unknown = run(&["migrate", "--no-such-option"]);
    assert_eq!(unknown.status, 1);
    assert_eq!(run(&["migrate", "--help"]).status, 0);
}

#[test]
fn includes_that_lead_back_pipes_and_directories_are_told() {
    let site = Site::new();
    let pipe = site.path("pipe");
    command("mkfifo", &[&pipe], b"").success();
    site.write("cycle.conf", "include nginx.conf; include cycle.conf;");
    let file = site.write(
        "nginx.conf",
        "include pipe; include cycle.conf; include .; include /proc/self/mem; events { } http { }",
    );
    let (report, status) = json(&file);
    assert_eq!(status, 2);
    let unread: Vec<&str> = report["unread"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["message"].as_str().expect("a message"))
        .collect();
    assert_eq!(unread.len(), 4, "{unread:?}");
    assert!(unread[0].ends_with("includes itself") && unread[1].ends_with("includes itself"));
    assert!(unread[2].contains("21: Is a directory"), "{unread:?}");
}

#[test]
fn a_file_is_named_from_here_and_the_prefix_has_one_too() {
    let site = Site::new();
    site.write("conf/nginx.conf", "events { } http { include extra.conf; }");
    site.write("conf/extra.conf", "rot x;");
    let directory = site.path("").display().to_string();
    let binary = sealane_binary().display().to_string();
    let script = format!(
        "cd {directory} && {binary} migrate conf/nginx.conf; {binary} migrate -p {directory} -g 'rat y;'"
    );
    let outcome = command("sh", &["-c", &script], b"");
    let text = outcome.text();
    assert_eq!(text.matches("did you mean \"root\"?").count(), 2, "{text}");
    assert!(
        text.contains("unknown directive \"rat\"") && text.contains("command line"),
        "{text}"
    );
}

#[test]
fn the_test_sums_up_and_says_how_many_faults_there_are() {
    let site = Site::new();
    let prefix = site.path("").display().to_string();
    let test = |file: &Path, options: &[&str]| {
        let file = file.display().to_string();
        let mut arguments = vec!["-p", &prefix, "-c", &file, "-e", "stderr"];
        arguments.extend(options);
        run(&arguments)
    };
    let listen = site.port("a");
    let text = format!(
        "pid x.pid; lock_file y; error_log stderr; events {{ }} http {{ access_log off; server {{ listen 127.0.0.1:{listen}; }} }}"
    );
    let file = site.write("good.conf", text);
    let outcome = test(&file, &["-t"]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert_eq!(
        lines[2..],
        [
            "sealane: 7 directives work, 1 is without effect".to_owned(),
            format!(
                "sealane: \"lock_file\" in {}:1: Connections are accepted without a lock",
                file.display()
            ),
        ]
    );
    assert!(lines[0].ends_with("syntax is ok") && lines[1].ends_with("test is successful"));
    assert_eq!(test(&file, &["-t", "-q"]).stderr, "", "-q is quiet");
    let bad = site.write("bad.conf", "rot; rat; events { } auth_pam x;");
    let outcome = test(&bad, &["-t"]);
    assert_eq!(outcome.status, 1);
    assert!(
        outcome
            .stderr
            .contains("test failed\nsealane: 3 faults in all; \"sealane migrate "),
        "{}",
        outcome.stderr
    );
    assert!(test(&bad, &["-t", "-q"]).stderr.ends_with("test failed\n"));
}

#[test]
fn part_of_a_configuration_is_read_as_one_would_include_it() {
    let site = Site::new();
    let whole = |text: &str| {
        let file = site.write("sites/one[1].conf", text);
        let (report, status) = json(&file);
        let read_as = report["read_as"].as_str().map(str::to_owned);
        (read_as, report["working"].clone(), refused(&report), status)
    };
    let http = Some("http { }".to_owned());
    let server = Some("server { } in http { }".to_owned());
    // A site.
    let text = "upstream back { server 127.0.0.1:8000; }\n\
         server { listen 80;\n location / { proxy_pass http://back; } }";
    assert_eq!(whole(text), (http.clone(), 6.into(), vec![], 0));
    // A snippet of a server, and one that would do in both.
    let text = "listen 80;\nlocation / { root html; }";
    assert_eq!(whole(text), (server.clone(), 3.into(), vec![], 0));
    assert_eq!(
        whole("fastcgi_param A b;\nsendfile on;"),
        (http.clone(), 2.into(), vec![], 0)
    );
    // Faults stand where they are.
    let text = "server {\n lisen 80;\n auth_pam x;\n}";
    let faults = vec![("lisen".to_owned(), 2), ("auth_pam".to_owned(), 3)];
    assert_eq!(whole(text), (http, 1.into(), faults, 2));
    // Relative names begin where the configuration is.
    site.write("nginx.conf", "");
    site.write("more.conf", "sendfile on;");
    let (.., status) = whole("server { include more.conf; }");
    assert_eq!(status, 0);
    // A whole one with a directive in the wrong place is what it is.
    let text = "events { }\nhttp { }\nlocation / { }";
    let (read_as, _, faults, status) = whole(text);
    assert_eq!((read_as, status), (None, 2));
    assert_eq!(faults, [("location".to_owned(), 3)]);
    let text = migrate(&site.write("sites/two", "server { }")).text();
    assert!(text.contains("part of a configuration"), "{text}");
}

#[test]
fn what_is_not_built_yet_has_its_own_section() {
    let site = Site::new();
    let file = written(
        &site,
        "server { listen 443 ssl; ssl_certificate a.pem; ssl_certificate_key engine:e:k; }",
    );
    let text = migrate(&file).text();
    assert!(text.contains("Not built yet"), "{text}");
    assert!(!text.contains("Wrong, for nginx too"), "{text}");
    let (report, status) = json(&file);
    assert_eq!(
        (status, &report["refused"][0]["kind"]),
        (2, &Value::from("not_yet"))
    );
}

#[test]
fn a_test_of_the_configuration_tells_once_what_has_no_effect() {
    let site = Site::new();
    let file = written(&site, "server { listen 127.0.0.1:1; read_ahead 1m; }");
    let prefix = site.path("").display().to_string();
    let outcome = run(&["-t", "-p", &prefix, "-c", &file.display().to_string()]);
    let told = outcome
        .stderr
        .matches("the kernel's default read-ahead applies")
        .count();
    assert_eq!(told, 1, "{}", outcome.stderr);
}
