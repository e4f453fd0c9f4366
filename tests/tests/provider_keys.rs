//! Keys with which a provider of OpenSSL computes: `ssl_accelerator provider:NAME`.

use sealane_tests::memory::{self, Secret};
use sealane_tests::metrics::{samples, value};
use sealane_tests::reload::{Reload, reload};
use sealane_tests::{
    Certificate, CertificateKey, Program, Server, Site, command, handshake_at, wait_for,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

fn site() -> Site {
    let site = Site::new();
    for (name, key) in [
        ("rsa", CertificateKey::Rsa),
        ("ec", CertificateKey::P256),
        ("file", CertificateKey::P256),
    ] {
        site.certificate(&Certificate::localhost(name, key));
    }
    site.write("html/a.txt", b"hello");
    site
}

fn configuration(provider: &str, key: &str) -> String {
    format!(
        "error_log logs/error.log info;
        pid logs/pid;
        worker_processes 1;
        events {{ worker_connections 2048; }}
        http {{
            access_log off;
            ssl_session_tickets off;
            server {{ listen 127.0.0.1:%plain%; location = /metrics {{ metrics; }} root html; }}
            server {{
                listen 127.0.0.1:%tls% ssl; root html;
                ssl_accelerator {provider};
                {key}
            }}
            server {{
                listen 127.0.0.1:%file% ssl; root html;
                ssl_certificate certificates/file.pem;
                ssl_certificate_key certificates/file.key;
            }}
        }}"
    )
}

const RSA: &str = "ssl_certificate certificates/rsa.pem; ssl_certificate_key certificates/rsa.key;";
const EC: &str = "ssl_certificate certificates/ec.pem; ssl_certificate_key certificates/ec.key;";

#[track_caller]
fn shake_hands(server: &Server<'_>, port: &str, options: &str) {
    let outcome = handshake_at(server, port, options);
    let (output, log) = (&outcome.output, server.error_log());
    assert!(outcome.succeeded(), "{port} {options}: {output}\n{log}");
}

/// A metric of the device.
fn metric(server: &Server<'_>, name: &str, provider: &str) -> f64 {
    let name = format!("sealane_key_device_{name}{{device=\"provider:{provider}\"}}");
    value(&samples(server.port("plain")), &name)
}

#[test]
fn openssl_s_own_provider_computes() {
    let site = site();
    let written = configuration("provider:default", &format!("{RSA} {EC}"));
    let server = Server::start(&site, Program::Sealane, &written);
    for kind in [
        "-tls1_3 -sigalgs rsa_pss_rsae_sha256",
        "-tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256",
        "-tls1_3 -sigalgs ecdsa_secp256r1_sha256",
    ] {
        shake_hands(&server, "tls", kind);
    }
    assert_eq!(metric(&server, "operation_seconds_count", "default"), 3.0);
    let [device] = server.device_pids()[..] else {
        panic!("one provider has one process");
    };
    // It was forked from the master, and has nothing of other keys from there.
    if sealane_needs::is_root() {
        let others = Secret::of_key_file("file", &site.path("certificates/file.key"));
        let found = memory::find_in_process(&others, device);
        assert!(found.is_empty(), "{found:?}");
    }
    // Other parameters are another process; without a provider there is none.
    let written = configuration("provider:default threads=2 verify_ecdsa", EC);
    assert_eq!(reload(&site, &server, &written), Reload::Applied);
    shake_hands(&server, "tls", "-tls1_3");
    let written = configuration("cpu", EC);
    assert_eq!(reload(&site, &server, &written), Reload::Applied);
    shake_hands(&server, "tls", "-tls1_3");
    server.expect_alert("no provider");
    let written = configuration("provider:nothing", EC);
    server.expect_alert("cannot load certificate key");
    assert_eq!(reload(&site, &server, &written), Reload::Refused);
    shake_hands(&server, "tls", "-tls1_3");
}

/// The provider of `crates/provider/tests`, as a configuration file of OpenSSL. `None`: the test is
/// left out.
fn card(site: &Site, parameters: &[&str]) -> Option<PathBuf> {
    let module = site.path("asynctest.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../crates/provider/tests/providers/asynctest.c");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&module, &source])
        .args(["-lcrypto", "-lpthread"])
        .output()
        .expect("a C compiler, which the build needs too");
    if !compiled.status.success() {
        let text = String::from_utf8_lossy(&compiled.stderr).into_owned();
        assert!(text.contains("openssl/"), "{text}");
        sealane_needs::leave_out("OpenSSL's headers are not installed (Debian: libssl-dev)");
        return None;
    }
    let parameters: Vec<String> = parameters.iter().map(|line| format!("{line}\n")).collect();
    let text = format!(
        "openssl_conf = main\n[main]\nproviders = providers\n[providers]\nasynctest = card\n\
         [card]\nmodule = {}\nactivate = 1\n{}",
        module.display(),
        parameters.concat()
    );
    Some(site.write("card.cnf", text))
}

/// A card that answers late and in another order; connections that give up; many at a time.
#[test]
fn a_card_computes_many_operations_at_a_time() {
    let site = site();
    let Some(conf) = card(&site, &["latency_us = 1000000", "remember = yes"]) else {
        return;
    };
    let provider = format!("provider:asynctest,conf={}", conf.display());
    let server = Server::start(&site, Program::Sealane, &configuration(&provider, RSA));
    shake_hands(&server, "tls", "-tls1_3");
    let hello = sealane_tests::client_hello("localhost", "-tls1_3");
    let address = ("127.0.0.1", server.port("tls"));
    let queued = || metric(&server, "operations_queued", "asynctest");
    let begin = || {
        let mut socket = TcpStream::connect(address).expect("it listens");
        socket.write_all(&hello).expect("room");
        socket
    };
    let sockets: Vec<TcpStream> = (0..300).map(|_| begin()).collect();
    wait_for("many at a time", || (queued() >= 100.0).then_some(()));
    for mut socket in sockets {
        // ServerHello and the certificate, for which the signature was waited.
        socket.read_exact(&mut [0; 1000]).expect("an answer");
    }
    // Connections that give up: their operations end, and leave nothing behind.
    for _ in 0..50 {
        drop(begin());
    }
    wait_for("the end of all operations", || {
        (queued() == 0.0).then_some(())
    });
    shake_hands(&server, "tls", "-tls1_3");
    assert_eq!(metric(&server, "operations_failed_total", "asynctest"), 0.0);
}

/// A card that errs, and one that does not answer: with another way, and without.
#[test]
fn a_card_that_errs_or_hangs() {
    let site = site();
    let Some(conf) = card(&site, &["fail_every = 2"]) else {
        return;
    };
    let with = |more: &str| {
        let provider = format!("provider:asynctest,conf={} {more}", conf.display());
        configuration(&provider, RSA)
    };
    let server = Server::start(&site, Program::Sealane, &with("fallback=cpu"));
    server.expect_alert("PRIVATE_KEY_OPERATION_FAILED");
    server.expect_alert("key process of \"provider:asynctest\"");
    for _ in 0..4 {
        shake_hands(&server, "tls", "-tls1_3");
    }
    assert!(metric(&server, "fallbacks_total", "asynctest") >= 1.0);
    assert_eq!(reload(&site, &server, &with("")), Reload::Applied);
    let outcomes = (0..8).map(|_| handshake_at(&server, "tls", "-tls1_3").succeeded());
    let outcomes: Vec<bool> = outcomes.collect();
    assert!(
        outcomes.contains(&true) && outcomes.contains(&false),
        "{outcomes:?}"
    );
    shake_hands(&server, "file", "-tls1_3");
    let text = std::fs::read_to_string(&conf).expect("it was written");
    std::fs::write(&conf, text.replace("fail_every = 2", "hang_every = 2")).expect("writable");
    let hanging = with("timeout=500ms fallback=cpu");
    assert_eq!(reload(&site, &server, &hanging), Reload::Applied);
    for _ in 0..3 {
        shake_hands(&server, "tls", "-tls1_3");
    }
}

/// A TPM without hardware.
struct Tpm<'a> {
    site: &'a Site,
    process: Child,
}

impl<'a> Tpm<'a> {
    /// Starts one. `None`: the test is left out.
    fn start(site: &'a Site) -> Option<Self> {
        for (program, package) in [("swtpm", "swtpm"), ("tpm2_create", "tpm2-tools")] {
            if Command::new(program).arg("--version").output().is_err() {
                let why = format!("there is no {program} (Debian: package {package})");
                sealane_needs::leave_out(why);
                return None;
            }
        }
        let modules = command("openssl", &["version", "-m"], b"").text();
        let modules = modules
            .split('"')
            .nth(1)
            .expect("MODULESDIR: \"...\"")
            .to_owned();
        if !Path::new(&modules).join("tpm2.so").exists() {
            sealane_needs::leave_out("there is no tpm2.so (Debian: package tpm2-openssl)");
            return None;
        }
        std::fs::create_dir_all(site.path("tpm")).expect("writable");
        let at = |file: &str| format!("type=unixio,path={}", site.path(file).display());
        let process = Command::new("swtpm")
            .args(["socket", "--tpm2", "--flags", "not-need-init,startup-clear"])
            .args(["--tpmstate", &format!("dir={}", site.path("tpm").display())])
            .args([
                "--server",
                &at("tpm/server"),
                "--ctrl",
                &at("tpm/server.ctrl"),
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("swtpm starts");
        let tpm = Tpm { site, process };
        wait_for("swtpm", || {
            std::os::unix::net::UnixStream::connect(site.path("tpm/server.ctrl")).ok()
        });
        Some(tpm)
    }

    fn variable(&self) -> String {
        let socket = self.site.path("tpm/server");
        format!("TPM2OPENSSL_TCTI=swtpm:path={}", socket.display())
    }

    /// Runs `openssl` with the provider.
    fn openssl(&self, arguments: &str) {
        let variable = self.variable();
        let (name, rest) = arguments.split_once(' ').expect("arguments");
        let providers = "-provider tpm2 -provider default -propquery ?provider=tpm2";
        let line = format!("{variable} openssl {name} {providers} {rest}");
        let words: Vec<&str> = line.split(' ').collect();
        command("env", &words, b"").success();
    }
}

impl Drop for Tpm<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_key_of_a_tpm() {
    let site = site();
    let Some(tpm) = Tpm::start(&site) else { return };
    let path = |name: &str| site.path(name).display().to_string();
    let (key, certificate) = (path("certificates/tpm.key"), path("certificates/tpm.pem"));
    tpm.openssl(&format!(
        "genpkey -algorithm EC -pkeyopt group:P-256 -out {key}"
    ));
    tpm.openssl(&format!(
        "req -new -x509 -subj /CN=localhost -days 3 -key {key} -out {certificate}"
    ));
    let written = configuration(
        "provider:tpm2",
        "ssl_certificate certificates/tpm.pem; ssl_certificate_key certificates/tpm.key;",
    );
    let variable = tpm.variable();
    let server = Server::start_under(&site, Program::Sealane, &written, &["env", &variable]);
    for kind in ["-tls1_3", "-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256"] {
        shake_hands(&server, "tls", kind);
    }
    assert_eq!(metric(&server, "operation_seconds_count", "tpm2"), 2.0);
}
