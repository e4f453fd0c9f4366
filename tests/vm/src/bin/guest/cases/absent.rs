//! Kernels that lack something: everything is served, in user space, and the log
//! says once why and what to do.

use crate::kernel::{hide_modules, is_loaded};
use crate::lab::{BOTH, Lab, S1, block, http, s1_block, sendfile_bytes};
use crate::server::{Kind, Server};

fn start(lab: &Lab, name: &str) -> Server {
    lab.prepare();
    lab.stop_server();
    let configuration = http(&[s1_block(S1), block(BOTH, "ssl_conf_command Options KTLS;")]);
    Server::start(Kind::Sealane, name, &configuration, &[S1, BOTH])
}

/// The lines that are not about one connection and mention kernel TLS.
fn notices(log: &str) -> Vec<&str> {
    let is_notice = |line: &&str| {
        ["[notice]", "[warn]"]
            .iter()
            .any(|level| line.contains(level))
            && line.to_ascii_lowercase().contains("kernel tls")
    };
    log.lines().filter(is_notice).collect()
}

pub(crate) fn module_tls(lab: &Lab) {
    assert!(
        !is_loaded("tls"),
        "this case has to come before any that loads the module"
    );
    let _hidden = hide_modules(&["tls.ko"]);
    let server = start(lab, "without-tls");
    lab.download(S1, "4m", &[]);
    lab.download(BOTH, "4m", &["--tls-max", "1.2"]);
    let logged = lab.logged(&server, "/4m");
    assert!(logged.contains("ktls=off reason=no_module"), "{logged}");
    let log = server.whole_log();
    assert!(!log.contains("BIO_get_ktls_send(): 1") && sendfile_bytes(&log) == 0);
    let found = notices(&log);
    assert_eq!(found.len(), 1, "notices: {found:#?}");
    assert!(
        found[0].contains("modprobe tls"),
        "the remedy: {}",
        found[0]
    );
    assert!(!is_loaded("tls"));
    server.stop();
}

pub(crate) fn chacha20_poly1305(lab: &Lab) {
    assert!(
        !is_loaded("chacha20poly1305"),
        "this case has to come before any that loads the module"
    );
    let _hidden = hide_modules(&["chacha20poly1305.ko"]);
    let server = start(lab, "without-chacha20");
    lab.settle_counters();
    let chacha20 = "TLS_CHACHA20_POLY1305_SHA256";
    lab.download(S1, "4m", &["--tls13-ciphers", chacha20]);
    let logged = lab.logged(&server, "/4m");
    assert!(
        logged.contains(chacha20) && logged.contains("ktls=off reason="),
        "{logged}"
    );
    assert!(!logged.contains("reason= "), "a reason: {logged}");
    assert_eq!(lab.sealed_connections(), 0);
    // The other suites are not affected.
    lab.download(S1, "4m", &["--tls13-ciphers", "TLS_AES_128_GCM_SHA256"]);
    assert_eq!(lab.sealed_connections(), 1);
    let log = server.whole_log();
    let found = notices(&log);
    assert!(
        !found.is_empty() && found.len() <= 2,
        "one notice for each protocol at most: {found:#?}"
    );
    assert!(
        found.iter().all(|line| line.contains("ChaCha20")),
        "{found:#?}"
    );
    server.stop();
}
