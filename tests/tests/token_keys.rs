//! Keys in PKCS #11 tokens: `ssl_certificate_key "pkcs11:..."`, and `ssl_accelerator pkcs11`.

use sealane_tests::metrics::{samples, value};
use sealane_tests::reload::{Reload, ask, configure, reload};
use sealane_tests::tokens::{PIN, Tokens};
use sealane_tests::{
    Certificate, CertificateKey, Server, Site, command, handshake_at, wait_for, wire,
};
use std::path::Path;

/// Three kinds of keys in a token, which are the same as in the files.
fn site() -> Site {
    let site = Site::new();
    for (name, key) in [
        ("rsa", CertificateKey::Rsa),
        ("ec", CertificateKey::P256),
        ("ec384", CertificateKey::P384),
        ("file", CertificateKey::P256),
    ] {
        site.certificate(&Certificate::localhost(name, key));
    }
    site.write("html/a.txt", b"hello");
    site
}

fn tokens(site: &Site) -> Option<Tokens<'_>> {
    let tokens = Tokens::new(site)?;
    tokens.add("web");
    for (object, id) in [("rsa", "01"), ("ec", "02"), ("ec384", "03")] {
        tokens.import("web", &format!("certificates/{object}.key"), object, id);
    }
    Some(tokens)
}

/// A configuration with these settings in `http` and these servers.
fn configuration(http: &str, servers: &str) -> String {
    format!(
        "error_log logs/error.log info;
        pid logs/pid;
        worker_processes 2;
        events {{ worker_connections 256; }}
        http {{
            access_log off;
            ssl_session_tickets off;
            {http}
            server {{ listen 127.0.0.1:%plain%; location = /metrics {{ metrics; }} root html; }}
            {servers}
        }}"
    )
}

/// A server with these keys for these certificates.
fn server(port: &str, keys: &[(&str, &str)]) -> String {
    let pairs = keys.iter().map(|(certificate, key)| {
        format!(
            "ssl_certificate certificates/{certificate}.pem;
            ssl_certificate_key \"{key}\";"
        )
    });
    let pairs: String = pairs.collect();
    format!("server {{ listen 127.0.0.1:%{port}% ssl; root html; {pairs} }}")
}

/// A server whose key is in a file.
const FILE: &str = "server {
    listen 127.0.0.1:%file% ssl; root html;
    ssl_certificate certificates/file.pem; ssl_certificate_key certificates/file.key; }";

/// Whether a full handshake with a server of the site succeeds.
fn shakes_hands(server: &Server<'_>, port: &str, options: &str) -> Result<(), String> {
    let outcome = handshake_at(server, port, options);
    match outcome.succeeded() {
        true => Ok(()),
        false => Err(outcome.output),
    }
}

#[track_caller]
fn shake_hands(server: &Server<'_>, port: &str, options: &str) {
    if let Err(output) = shakes_hands(server, port, options) {
        panic!("{port} {options}: {output}\n{}", server.error_log());
    }
}

fn metric(server: &Server<'_>, name: &str) -> f64 {
    value(&samples(server.port("plain")), name)
}

/// RSA in both versions and with the key exchange that decrypts, and both curves.
const KINDS: [&str; 5] = [
    "-tls1_3 -sigalgs rsa_pss_rsae_sha256",
    "-tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256",
    "-tls1_2 -cipher AES128-GCM-SHA256",
    "-tls1_3 -sigalgs ecdsa_secp256r1_sha256",
    "-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256 -sigalgs ECDSA+SHA256",
];

#[test]
fn all_clients_shake_hands_with_keys_in_a_token() {
    let site = site();
    let Some(tokens) = tokens(&site) else { return };
    let uri = |object| tokens.uri(tokens.module(), "web", object);
    let written = configuration(
        "ssl_ciphers ALL:!aNULL;",
        &[
            server("tls", &[("rsa", &uri("rsa")), ("ec", &uri("ec"))]),
            server("store", &[("ec384", &format!("store:{}", uri("ec384")))]),
            server("engine", &[("ec", &format!("engine:pkcs11:{}", uri("ec")))]),
            FILE.to_owned(),
        ]
        .concat(),
    );
    let server = tokens.serve(&written);
    for kind in KINDS {
        shake_hands(&server, "tls", kind);
    }
    shake_hands(&server, "store", "-tls1_3 -sigalgs ecdsa_secp384r1_sha384");
    shake_hands(&server, "engine", "-tls1_3");
    shake_hands(&server, "file", "-tls1_3");
    assert_eq!(server.device_pids().len(), 1, "one module, one process");
    let device = format!("{{device=\"pkcs11:{}\"}}", tokens.module().display());
    let of = |name: &str| metric(&server, &format!("{name}{device}"));
    assert_eq!(of("sealane_key_device_up"), 1.0);
    assert_eq!(of("sealane_key_device_operation_seconds_count"), 7.0);
    assert_eq!(of("sealane_key_device_operations_failed_total"), 0.0);
    // The PIN is in the module's process, and nowhere else.
    let log = server.error_log();
    assert!(!log.contains(PIN), "{log}");
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.device_pids()[0]));
    let status = status.expect("it runs");
    let has = |line: &str| status.lines().any(|it| it.replace('\t', " ") == line);
    assert!(has("NoNewPrivs: 1") && has("Seccomp: 2"), "{status}");
    assert!(has("CapEff: 0000000000000000"), "{status}");
}

/// `-t` opens each key, and says which rights its process has.
#[test]
fn a_test_of_the_configuration_opens_each_key() {
    let site = site();
    let Some(tokens) = tokens(&site) else { return };
    let test = |uri: &str| {
        let written = configuration("", &server("tls", &[("rsa", uri)]));
        configure(&site, &written);
        let words: Vec<String> = tokens.variables().into_iter().collect();
        let prefix = site.path("").display().to_string();
        let file = site.path("sealane.conf").display().to_string();
        let binary = sealane_tests::sealane_binary().display().to_string();
        let mut all: Vec<&str> = words.iter().map(String::as_str).collect();
        all.extend([
            &*binary,
            "-t",
            "-p",
            &prefix,
            "-c",
            &file,
            "-e",
            "logs/error.log",
        ]);
        let outcome = command("env", &all, b"");
        let is_good = outcome.stderr.contains("test is successful");
        (is_good, outcome.stderr)
    };
    let uri = |object| tokens.uri(tokens.module(), "web", object);
    let (is_good, said) = test(&uri("rsa"));
    assert!(is_good, "{said}");
    assert!(said.contains("can be used; its process runs as"), "{said}");
    for (uri, why) in [
        (uri("other"), "no private key matches the URI"),
        (uri("ec"), "KEY_TYPE_MISMATCH"),
        (
            uri("rsa").replace("token=web", "token=none"),
            "no token matches the URI",
        ),
        (uri("rsa").replace("/pin", "/nothing"), "No such file"),
        (uri("rsa").replace(".so", ".missing"), "cannot be loaded"),
        ("pkcs11:object".to_owned(), "cannot load certificate key"),
        (
            "store:handle:0x81000001".to_owned(),
            "name it by \"ssl_accelerator provider:NAME\"",
        ),
        (
            "engine:other:key".to_owned(),
            "engine \"other\" is not supported",
        ),
        (
            "pkcs11:object=rsa?pin-value=$4815".to_owned(),
            "cannot contain variables",
        ),
    ] {
        let (is_good, said) = test(&uri);
        assert!(!is_good && said.contains(why), "{uri}: {said}");
        assert!(!said.contains("4815"), "{said}");
    }
    // A PIN that is refused is tried once for all keys, so that the token is not locked.
    site.write("pin", "11111111");
    let (is_good, said) = test(&uri("rsa"));
    assert!(!is_good && said.contains("PIN"), "{said}");
    site.write("pin", PIN);
    assert!(test(&uri("rsa")).0);
}

/// Each key signs once, and then as fast as it can.
#[test]
fn the_doctor_tests_each_key() {
    let site = site();
    let Some(tokens) = tokens(&site) else { return };
    let uri = tokens.uri(tokens.module(), "web", "rsa");
    let written = configuration(
        "",
        &[server("tls", &[("rsa", &uri)]), FILE.to_owned()].concat(),
    );
    configure(&site, &written);
    let file = site.path("sealane.conf").display().to_string();
    let binary = sealane_tests::sealane_binary().display().to_string();
    let variables = tokens.variables();
    let words = variables.iter().map(String::as_str);
    let doctor = [&*binary, "doctor", "-c", &file, "--json"];
    let words: Vec<&str> = words.chain(doctor).collect();
    let outcome = command("env", &words, b"");
    let report: serde_json::Value = serde_json::from_str(&outcome.text()).expect("JSON");
    let keys = report["configuration"]["keys"].as_array().expect("keys");
    assert_eq!(keys.len(), 2, "{keys:?}");
    for (key, kind, in_device) in [(&keys[0], "rsa2048", true), (&keys[1], "p256", false)] {
        assert_eq!(key["key"], kind);
        assert_eq!(key["device"].is_string(), in_device, "{key}");
        assert!(key["signatures_per_second"].as_f64() > Some(1.0), "{key}");
        assert!(key["problem"].is_null(), "{key}");
    }
    let name = keys[0]["name"].as_str().expect("a name");
    assert_eq!(name, "pkcs11:token=web;object=rsa");
}

/// A module that ends its process, or hangs, takes nobody along.
#[test]
fn a_module_that_crashes_or_hangs_leaves_others_alone() {
    let site = site();
    let Some(tokens) = tokens(&site) else { return };
    let faulty = tokens.faulty_module();
    let written = configuration(
        "ssl_accelerator pkcs11 timeout=1s max_wait=500ms;",
        &[
            server("faulty", &[("ec", &tokens.uri(&faulty, "web", "ec"))]),
            server(
                "good",
                &[("ec384", &tokens.uri(tokens.module(), "web", "ec384"))],
            ),
            FILE.to_owned(),
        ]
        .concat(),
    );
    let server = tokens.serve(&written);
    let others = || {
        shake_hands(&server, "good", "-tls1_3");
        shake_hands(&server, "file", "-tls1_3");
    };
    shake_hands(&server, "faulty", "-tls1_3");
    others();
    assert_eq!(server.device_pids().len(), 2);
    server.expect_alert("key process of \"pkcs11:");
    server.expect_alert("PRIVATE_KEY_OPERATION_FAILED");
    let mut kept = wire::Connection::open(server.port("plain"));
    let mut get = || {
        kept.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        kept.response(false).body
    };
    assert_eq!(get(), b"hello");
    for _ in 0..2 {
        let before = server.device_pids();
        tokens.set_fault("abort");
        assert!(shakes_hands(&server, "faulty", "-tls1_3").is_err());
        others();
        tokens.set_fault("ok");
        wait_for("another process", || {
            let now = server.device_pids();
            (now.len() == 2 && now != before).then_some(())
        });
        wait_for("its key", || {
            shakes_hands(&server, "faulty", "-tls1_3").ok()
        });
    }
    assert_eq!(get(), b"hello");
    tokens.set_fault("hang");
    assert!(shakes_hands(&server, "faulty", "-tls1_3").is_err());
    others();
    let device = format!("{{device=\"pkcs11:{}\"}}", faulty.display());
    let of = |name: &str| metric(&server, &format!("{name}{device}"));
    assert_eq!(of("sealane_key_device_up"), 0.0);
    assert!(of("sealane_key_device_operations_failed_total") >= 1.0);
    tokens.set_fault("ok");
    wait_for("its key", || {
        shakes_hands(&server, "faulty", "-tls1_3").ok()
    });
    assert_eq!(of("sealane_key_device_up"), 1.0);
}

/// While one handshake waits for a device for too long, others are refused at once.
#[test]
fn handshakes_do_not_pile_up_at_a_slow_device() {
    let site = site();
    let Some(tokens) = tokens(&site) else { return };
    let faulty = tokens.faulty_module();
    let written = configuration(
        "ssl_accelerator pkcs11 timeout=30s max_wait=100ms sessions=1;",
        &server("faulty", &[("ec", &tokens.uri(&faulty, "web", "ec"))]),
    )
    .replace("worker_processes 2", "worker_processes 1");
    let server = tokens.serve(&written);
    shake_hands(&server, "faulty", "-tls1_3");
    tokens.set_fault("hang");
    server.expect_alert("PRIVATE_KEY_OPERATION_FAILED");
    let device = format!("{{device=\"pkcs11:{}\"}}", faulty.display());
    let of = |name: &str| metric(&server, &format!("{name}{device}"));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| shakes_hands(&server, "faulty", "-tls1_3"));
        wait_for("an operation", || {
            (of("sealane_key_device_operations_queued") >= 1.0).then_some(())
        });
        wait_for("a refusal", || {
            // Those that come early wait as well.
            let hurried = handshake_in_a_moment(&server);
            assert!(!hurried);
            (of("sealane_key_device_operations_refused_total") >= 1.0).then_some(())
        });
        tokens.set_fault("ok");
        first
            .join()
            .expect("no panic")
            .expect("it had only to wait");
    });
    shake_hands(&server, "faulty", "-tls1_3");
    let log = server.error_log();
    assert!(
        log.contains("has kept an operation waiting for longer"),
        "{log}"
    );
}

/// A handshake that is given up soon.
fn handshake_in_a_moment(server: &Server<'_>) -> bool {
    let address = format!("127.0.0.1:{}", server.port("faulty"));
    let arguments = [
        "0.5", "openssl", "s_client", "-connect", &address, "-tls1_3",
    ];
    command("timeout", &arguments, b"").status == 0
}

/// What the operator has asked for only: a file with the same key.
#[test]
fn the_processor_computes_for_a_device_that_fails() {
    let site = site();
    let Some(tokens) = tokens(&site) else { return };
    let faulty = tokens.faulty_module();
    let uri = tokens.uri(&faulty, "web", "ec");
    let with = |fallback: &str| {
        let http = format!("ssl_accelerator pkcs11 timeout=1s {fallback};");
        configuration(&http, &server("faulty", &[("ec", &uri)]))
    };
    let server = tokens.serve(&with("fallback=certificates/ec.key"));
    shake_hands(&server, "faulty", "-tls1_3");
    tokens.set_fault("sign 30");
    shake_hands(&server, "faulty", "-tls1_3");
    let device = format!("{{device=\"pkcs11:{}\"}}", faulty.display());
    let of = |name: &str| metric(&server, &format!("{name}{device}"));
    assert_eq!(of("sealane_key_device_fallbacks_total"), 1.0);
    server.expect_alert("key process of \"pkcs11:");
    tokens.set_fault("abort");
    shake_hands(&server, "faulty", "-tls1_3");
    tokens.set_fault("ok");
    // Another key is no fallback.
    let other = with("fallback=certificates/file.key");
    server.expect_alert("no \"fallback=\" of");
    assert_eq!(reload(&site, &server, &other), Reload::Refused);
    let log = server.error_log();
    assert!(
        log.contains("no \"fallback=\" of \"ssl_accelerator\" is the key"),
        "{log}"
    );
}

#[test]
fn a_reload_brings_devices_and_takes_them_away() {
    let site = site();
    let Some(tokens) = tokens(&site) else { return };
    let with = |servers: &str| configuration("ssl_key_process off;", servers);
    let uri = |object| tokens.uri(tokens.module(), "web", object);
    let first = server("tls", &[("ec384", "certificates/ec384.key")]);
    let second = server("tls", &[("ec", &uri("ec"))]);
    let server = tokens.serve(&with(&first));
    let worker = server.worker_pid();
    shake_hands(&server, "tls", "-tls1_3");
    assert_eq!(reload(&site, &server, &with(&second)), Reload::Applied);
    shake_hands(&server, "tls", "-tls1_3");
    assert_eq!(server.device_pids().len(), 1);
    assert_eq!(server.worker_pid(), worker, "in place");
    let wrong = with(&second.replace("object=ec", "object=none"));
    server.expect_alert("no private key matches the URI");
    assert_eq!(reload(&site, &server, &wrong), Reload::Refused);
    shake_hands(&server, "tls", "-tls1_3");
    // A device that only a refused configuration names does not stay.
    let faulty = tokens.faulty_module();
    let refused = second.replace(
        &tokens.module().display().to_string(),
        &faulty.display().to_string(),
    );
    let refused = with(&format!(
        "{refused} server {{ listen 127.0.0.1:%a% ssl; ssl_certificate certificates/ec.pem; ssl_certificate_key \"{}\"; }}",
        uri("rsa")
    ));
    server.expect_alert("KEY_TYPE_MISMATCH");
    assert_eq!(reload(&site, &server, &refused), Reload::Refused);
    wait_for("one device", || {
        (server.device_pids().len() == 1).then_some(())
    });
    shake_hands(&server, "tls", "-tls1_3");
    assert_eq!(reload(&site, &server, &with(&first)), Reload::Applied);
    shake_hands(&server, "tls", "-tls1_3");
}

/// A certificate for origins, whose key is in a token. A certificate that is renewed is used,
/// though nobody but the token has its key.
#[test]
fn origins_are_shown_a_certificate_whose_key_is_in_a_token() {
    let site = site();
    let Some(tokens) = tokens(&site) else { return };
    let uri = tokens.uri(tokens.module(), "web", "ec");
    let written = configuration(
        "ssl_certificate_reload 100ms; proxy_ssl_session_reuse off;",
        &format!(
            "server {{
                listen 127.0.0.1:%origin% ssl;
                ssl_certificate certificates/file.pem; ssl_certificate_key certificates/file.key;
                ssl_verify_client on; ssl_client_certificate certificates/authority.pem;
                location / {{ return 200 $ssl_client_serial; }}
            }}
            server {{
                listen 127.0.0.1:%front%;
                location / {{
                    proxy_pass https://127.0.0.1:%origin%;
                    proxy_ssl_certificate certificates/ec.pem;
                    proxy_ssl_certificate_key \"{uri}\";
                }}
                location /tls12 {{
                    proxy_pass https://127.0.0.1:%origin%;
                    proxy_ssl_protocols TLSv1.2;
                    proxy_ssl_certificate certificates/ec.pem;
                    proxy_ssl_certificate_key \"{uri}\";
                }}
            }}"
        ),
    );
    let server = tokens.serve(&written);
    let serial = |target: &str| {
        let response = wire::get(server.port("front"), target);
        let (status, text) = (response.status, response.text());
        assert_eq!(status, 200, "{text}\n{}", server.error_log());
        text
    };
    let first = serial("/");
    assert_eq!(serial("/tls12"), first);
    assert_eq!(server.device_pids().len(), 1);
    let path = |name: &str| {
        site.path(format!("certificates/{name}"))
            .display()
            .to_string()
    };
    let line = format!(
        "x509 -req -in {} -CA {} -CAkey {} -set_serial 0x4711 -days 30 -extfile {} -out {}",
        path("ec.csr"),
        path("authority.pem"),
        path("authority.key"),
        path("ec.ext"),
        path("ec.pem"),
    );
    let words: Vec<&str> = line.split(' ').collect();
    command("openssl", &words, b"").success();
    wait_for("the renewed certificate", || {
        (serial("/") == "4711").then_some(())
    });
    assert_ne!(first, "4711");
}

/// The token is taken away, and comes back.
#[test]
fn a_token_may_be_gone_for_a_while() {
    let site = site();
    let Some(tokens) = tokens(&site) else { return };
    let uri = tokens.uri(tokens.module(), "web", "rsa");
    let written = configuration(
        "ssl_accelerator pkcs11 timeout=2s;",
        &[server("tls", &[("rsa", &uri)]), FILE.to_owned()].concat(),
    );
    let server = tokens.serve(&written);
    shake_hands(&server, "tls", "-tls1_3");
    server.expect_alert("PRIVATE_KEY_OPERATION_FAILED");
    let (here, away) = (site.path("tokens"), site.path("away"));
    std::fs::rename(&here, &away).expect("one file system");
    std::fs::create_dir(&here).expect("writable");
    // SoftHSM notices it when a process is new.
    server.expect_alert("key process of \"pkcs11:");
    let pid = server.device_pids()[0].to_string();
    command("kill", &["-KILL", &pid], b"").success();
    wait_for("the loss", || {
        shakes_hands(&server, "tls", "-tls1_3")
            .is_err()
            .then_some(())
    });
    shake_hands(&server, "file", "-tls1_3");
    std::fs::remove_dir(&here)
        .or_else(|_| std::fs::remove_dir_all(&here))
        .expect("writable");
    std::fs::rename(&away, &here).expect("one file system");
    wait_for("the token", || shakes_hands(&server, "tls", "-tls1_3").ok());
}

#[test]
fn devices_run_as_the_user_that_is_named() {
    if !sealane_needs::is_root() {
        sealane_needs::leave_out("the user of key processes: only root may become another");
        return;
    }
    let site = site();
    let Some(tokens) = tokens(&site) else { return };
    let uri = tokens.uri(tokens.module(), "web", "ec");
    let http = "ssl_key_process on user=daemon;";
    let written = configuration(
        http,
        &[server("tls", &[("ec", &uri)]), FILE.to_owned()].concat(),
    );
    let tree = site.path("").display().to_string();
    command("chmod", &["-R", "a+rX", &tree], b"").success();
    let tokens_of = site.path("tokens").display().to_string();
    command("chown", &["-R", "daemon", &tokens_of], b"").success();
    let mut above = Path::new(&tree);
    while let Some(parent) = above.parent().filter(|parent| *parent != Path::new("/")) {
        let mode = std::fs::metadata(parent).expect("it is there");
        let is_open = std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 1 == 1;
        if !is_open {
            sealane_needs::leave_out(
                "the user of key processes: others may not enter the directory",
            );
            return;
        }
        above = parent;
    }
    let server = tokens.serve(&written);
    shake_hands(&server, "tls", "-tls1_3");
    shake_hands(&server, "file", "-tls1_3");
    let uid = command("id", &["-u", "daemon"], b"")
        .text()
        .trim()
        .to_owned();
    for pid in [server.device_pids()[0], server.key_process_pid()] {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let line = format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}");
        assert!(status.contains(&line), "{status}");
    }
    drop(server);
    configure(&site, &written.replace("user=daemon", "user=nobody"));
    let outcome = ask(&site, &["-t"]);
    let said = outcome.stderr;
    assert!(said.contains("is the user of worker processes"), "{said}");
}
