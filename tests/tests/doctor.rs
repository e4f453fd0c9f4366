//! `sealane doctor`: the verdict for people, for scripts, and for each server.

use sealane_tests::{Certificate, CertificateKey, Outcome, Site, command, sealane_binary};
use serde_json::Value;
use std::path::Path;

fn doctor(arguments: &[&str]) -> Outcome {
    let binary = sealane_binary();
    let mut all = vec!["doctor"];
    all.extend(arguments);
    command(&binary.display().to_string(), &all, b"")
}

fn json(arguments: &[&str]) -> (Value, Outcome) {
    let mut all = vec!["--json"];
    all.extend(arguments);
    let outcome = doctor(&all);
    let report = serde_json::from_slice(&outcome.stdout).unwrap_or_else(|error| {
        panic!("not JSON: {error}\n{}\n{}", outcome.text(), outcome.stderr)
    });
    (report, outcome)
}

/// A configuration whose servers differ in what kernel TLS depends on.
fn site_with(servers: &str) -> (Site, String) {
    let site = Site::new();
    site.certificate(&Certificate::localhost("rsa", CertificateKey::Rsa));
    let text = format!(
        "worker_processes 1;\nevents {{ worker_connections 64; }}\nhttp {{\n\
         ssl_certificate certificates/rsa.pem;\nssl_certificate_key certificates/rsa.key;\n{servers}\n}}\n"
    );
    let path = site.write("test.conf", site.fill_in(&text));
    (site, path.display().to_string())
}

fn in_site<'a>(site: &'a str, file: &'a str) -> [&'a str; 4] {
    ["-p", site, "-c", file]
}

fn directory(site: &Site) -> String {
    site.path("").display().to_string()
}

#[test]
fn the_machine_alone_is_judged() {
    let (report, outcome) = json(&[]);
    let good = report["good"].as_bool().expect("a boolean");
    assert_eq!(outcome.status, i32::from(!good), "{}", outcome.stderr);
    assert_eq!(good, report["problems"].as_array().unwrap().is_empty());
    assert_eq!(report["schema"], 1);
    assert!(report["configuration"].is_null());
    assert_eq!(report["kernel_tls"]["suites"].as_array().unwrap().len(), 6);
    for suite in report["kernel_tls"]["suites"].as_array().unwrap() {
        let answer = &suite["transmit"];
        assert_eq!(
            answer["works"] == true,
            answer["reason"].is_null(),
            "{suite}"
        );
    }
    let uname = command("uname", &["-r"], b"").success().text();
    assert_eq!(report["kernel"]["release"], uname.trim());
    let interfaces = report["interfaces"].as_array().unwrap();
    assert!(interfaces.iter().any(|interface| interface["name"] == "lo"));

    let text = doctor(&[]);
    assert_eq!(text.status, outcome.status);
    let verdict = report["verdict"].as_str().unwrap();
    assert!(text.text().starts_with(verdict), "{}", text.text());
    assert!(!text.text().contains('\x1b'), "a pipe gets no colours");
}

#[test]
fn the_module_s_state_agrees_with_the_kernel_s_own_list() {
    // Loaded by the first run, if it can be.
    json(&[]);
    let (report, _) = json(&[]);
    let listed = std::fs::read_to_string("/proc/modules")
        .unwrap_or_default()
        .lines()
        .any(|line| line.starts_with("tls "));
    let module = &report["kernel"]["module"];
    if module["installed"] != "builtin" {
        assert_eq!(module["loaded"], listed, "{module}");
    }
    if report["kernel_tls"]["usable"] == true {
        assert_eq!(module["loaded"], true);
        let counters = std::fs::read_to_string("/proc/net/tls_stat").is_ok();
        assert_eq!(report["kernel"]["tls_stat"].is_object(), counters);
    } else {
        eprintln!("this kernel has no kernel TLS: {}", report["verdict"]);
        assert_ne!(report["problems"].as_array().unwrap().len(), 0);
    }
}

#[test]
fn each_server_is_told_whether_and_why_not() {
    let (site, file) = site_with(
        "server { listen 127.0.0.1:%good% ssl; server_name good.example; sendfile on; ssl_ktls on; }
         server { listen 127.0.0.1:%auto% ssl; server_name auto.example; sendfile on; }
         server { listen 127.0.0.1:%off% ssl; server_name off.example; sendfile on; ssl_ktls off; }
         server { listen 127.0.0.1:%minus% ssl; server_name minus.example; sendfile on; ssl_conf_command Options -KTLS; }
         server { listen 127.0.0.1:%copies% ssl; server_name copies.example; }
         server { listen 127.0.0.1:%cbc% ssl; server_name cbc.example; sendfile on; ssl_protocols TLSv1.2; ssl_ciphers AES128-SHA; }
         server { listen 127.0.0.1:%old% ssl; server_name old.example; sendfile on; ssl_protocols TLSv1 TLSv1.1; ssl_ciphers ALL:@SECLEVEL=0; }
         server { listen 127.0.0.1:%plain%; server_name plain.example; }",
    );
    let directory = directory(&site);
    let (report, outcome) = json(&in_site(&directory, &file));
    assert_eq!(outcome.status, 1, "copies, cbc and old can be improved");
    let configuration = &report["configuration"];
    assert_eq!(configuration["workers"], 1);
    assert_eq!(configuration["worker_connections"], 64);
    let servers = configuration["servers"].as_array().unwrap();
    let names: Vec<&str> = servers
        .iter()
        .map(|s| s["name"].as_str().unwrap())
        .collect();
    let expected = ["good", "auto", "off", "minus", "copies", "cbc", "old"];
    assert_eq!(
        names,
        expected.map(|name| format!("{name}.example")),
        "plain has no TLS"
    );
    let works = report["kernel_tls"]["suites"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|suite| suite["transmit"]["works"] == true)
        .count();
    let usable = match works {
        0 => "no",
        6 => "yes",
        _ => "partly",
    };
    for (server, (mode, kernel_tls, words)) in servers.iter().zip([
        ("on", usable, ""),
        ("auto", usable, ""),
        ("off", "off", "ssl_ktls off"),
        ("off", "off", "ssl_conf_command Options -KTLS"),
        ("auto", "no", "sendfile is off"),
        ("auto", "no", "enable no suite that the kernel supports"),
        ("auto", "no", "enable no suite that the kernel supports"),
    ]) {
        assert_eq!(server["ssl_ktls"], mode, "{server}");
        assert_eq!(server["kernel_tls"], kernel_tls, "{server}");
        let detail = server["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{detail}");
    }
    let port = site.port("good");
    assert_eq!(servers[0]["listen"][0], format!("127.0.0.1:{port}"));
    let user_space = servers[2]["in_user_space"].as_array().unwrap();
    assert!(user_space.contains(&"TLS_AES_128_GCM_SHA256".into()));
    assert!(servers[5]["in_kernel"].as_array().unwrap().is_empty());

    let problems: Vec<&str> = report["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| problem["id"].as_str().unwrap())
        .collect();
    for id in ["sendfile_off", "no_kernel_suite"] {
        assert_eq!(
            problems.iter().filter(|found| **found == id).count(),
            1,
            "{problems:?}"
        );
    }
    let text = doctor(&in_site(&directory, &file)).text();
    for line in [
        format!("good.example on 127.0.0.1:{port}"),
        "kernel TLS is off: ssl_ktls off".to_owned(),
        "no kernel TLS: sendfile is off".to_owned(),
        "=> sendfile on;".to_owned(),
    ] {
        assert!(text.contains(&line), "{line}\n{text}");
    }
}

#[test]
fn switched_off_on_purpose_is_no_problem() {
    let (site, file) = site_with("server { listen 127.0.0.1:%tls% ssl; ssl_ktls off; }");
    let (report, outcome) = json(&in_site(&directory(&site), &file));
    let (machine, _) = json(&[]);
    assert_eq!(
        report["problems"], machine["problems"],
        "none of them the server's"
    );
    assert_eq!(outcome.status, i32::from(machine["good"] == false));
    assert_eq!(report["configuration"]["servers"][0]["kernel_tls"], "off");
}

#[test]
fn certificates_that_end_soon_are_found() {
    let site = Site::new();
    for (name, days) in [("late", "30"), ("soon", "5")] {
        let path = |kind: &str| site.path(format!("{name}.{kind}")).display().to_string();
        let (key, pem) = (path("key"), path("pem"));
        let line = format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days {days} \
             -subj /CN={name} -keyout {key} -out {pem}"
        );
        let arguments: Vec<&str> = line.split_whitespace().collect();
        command("openssl", &arguments, b"").success();
    }
    let servers: String = ["late", "soon", "soon"]
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let port = ["a", "b", "c"][at];
            format!(
                "server {{ listen 127.0.0.1:%{port}% ssl; ssl_certificate {name}.pem; \
                 ssl_certificate_key {name}.key; }}\n"
            )
        })
        .collect();
    let text = format!("events {{}}\nhttp {{ {servers} }}");
    site.write("sealane.conf", site.fill_in(&text));
    let directory = directory(&site);
    let (report, _) = json(&in_site(&directory, "sealane.conf"));
    let certificate = &report["configuration"]["servers"][0]["certificates"][0];
    // To the second thirty days, or less.
    let days = certificate["days_left"].as_i64().expect("a number");
    assert!((29..=30).contains(&days), "{certificate}");
    assert_eq!(certificate["key"], "p256");
    let problems = report["problems"].as_array().expect("a list");
    let ends = |problem: &&Value| problem["id"] == "certificate_ends";
    let ends: Vec<_> = problems.iter().filter(ends).collect();
    // One for the file, however many servers have it.
    assert_eq!(ends.len(), 1, "{report}");
    let what = ends[0]["what"].as_str().expect("text");
    assert!(what.contains("soon.pem ends in "), "{what}");
}

#[test]
fn too_many_connections_for_the_descriptors_are_found() {
    let (site, file) = site_with("server { listen 127.0.0.1:%tls% ssl; ssl_ktls off; }");
    let directory = directory(&site);
    let few = "worker_rlimit_nofile 32;";
    let arguments = ["-p", &directory, "-c", &file, "-g", few];
    let (report, outcome) = json(&arguments);
    assert_eq!(outcome.status, 1);
    let problem = report["problems"]
        .as_array()
        .unwrap()
        .iter()
        .find(|problem| problem["id"] == "too_few_descriptors");
    let problem = problem.unwrap_or_else(|| panic!("{report}"));
    assert!(
        problem["remedy"]
            .as_str()
            .unwrap()
            .contains("worker_rlimit_nofile 128;")
    );
    assert_eq!(report["limits"]["needed"], 128);
    assert_eq!(report["limits"]["granted"], 32);
}

#[test]
fn a_broken_configuration_is_an_error_in_the_server_s_words() {
    let (site, file) = site_with("server { listen 127.0.0.1:%tls% ssl; ssl_ktsl on; }");
    let directory = directory(&site);
    let outcome = doctor(&in_site(&directory, &file));
    assert_eq!(outcome.status, 2, "{}", outcome.stderr);
    assert!(outcome.stdout.is_empty());
    for words in ["[emerg] unknown directive \"ssl_ktsl\"", "did you mean"] {
        assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    }
    // One that parses, and whose certificate is not there.
    let missing = site.write(
        "conf/missing.conf",
        site.fill_in(
            "events {} http { server { listen 127.0.0.1:%tls% ssl; ssl_certificate no.pem; ssl_certificate_key no.key; } }",
        ),
    );
    let outcome = doctor(&in_site(&directory, &missing.display().to_string()));
    assert_eq!(outcome.status, 2);
    assert!(
        outcome.stderr.contains("cannot load certificate"),
        "{}",
        outcome.stderr
    );
    let logs: Vec<_> = std::fs::read_dir(Path::new(&directory).join("logs"))
        .unwrap()
        .collect();
    assert!(logs.is_empty(), "a doctor writes no logs: {logs:?}");
}

#[test]
fn wrong_arguments_are_told_from_problems() {
    for arguments in [
        &["--no-such-option"][..],
        &["-c"],
        &["word"],
        &["-g", "daemon off;"],
    ] {
        let outcome = doctor(arguments);
        assert_eq!(outcome.status, 2, "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.stdout.is_empty() && !outcome.stderr.is_empty());
    }
    let help = doctor(&["--help"]);
    assert_eq!(help.status, 0);
    assert!(help.text().contains("Exit status: 0 nothing to improve"));
    let usage = command(&sealane_binary().display().to_string(), &["-h"], b"");
    assert!(usage.stderr.contains("doctor "), "{}", usage.stderr);
}
