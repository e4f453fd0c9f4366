//! `sealane doctor` on kernels whose abilities are known.

use crate::kernel::{can_rekey, hide_modules, is_loaded};
use crate::lab::{CBC_SUITE, Lab, MODES, SUITES, standard_configuration};
use crate::program::run;
use serde_json::Value;

/// The doctor's findings and exit status.
#[track_caller]
fn doctor(arguments: &[&str]) -> (Value, i32) {
    let outcome = run("sealane", &[&["doctor", "--json"], arguments].concat(), b"");
    let found = serde_json::from_slice(&outcome.stdout);
    let found =
        found.unwrap_or_else(|error| panic!("{error}: {}{}", outcome.text(), outcome.stderr));
    (found, outcome.status)
}

pub(crate) fn without_the_module(lab: &Lab) {
    lab.prepare();
    lab.stop_server();
    assert!(
        !is_loaded("tls"),
        "this case has to come before any that loads the module"
    );
    let _hidden = hide_modules(&["tls.ko"]);
    let (found, status) = doctor(&[]);
    assert_eq!(status, 1, "something to improve");
    assert_eq!(found["kernel_tls"]["usable"], false);
    let problem = &found["problems"][0];
    assert_eq!(problem["id"], "no_module");
    let remedy = problem["remedy"].as_str().unwrap_or_default();
    assert!(remedy.contains("modprobe tls"), "{remedy}");
    assert!(!is_loaded("tls"));
}

/// Every suite works on both kernels; keys change on the newer one only.
pub(crate) fn what_the_kernel_can_do(lab: &Lab) {
    lab.prepare();
    lab.stop_server();
    std::fs::create_dir_all("/tmp/servers/doctor/logs").expect("/tmp is writable");
    let file = "/tmp/servers/doctor/nginx.conf";
    std::fs::write(file, standard_configuration()).expect("/tmp is writable");
    let (found, _) = doctor(&["-p", "/tmp/servers/doctor", "-c", file]);
    let suites = found["kernel_tls"]["suites"]
        .as_array()
        .expect("a list of suites");
    assert_eq!(suites.len(), 6);
    for suite in suites {
        assert_eq!(suite["transmit"]["works"], true, "{suite}");
        assert_eq!(suite["receive"]["works"], true, "{suite}");
    }
    assert_eq!(
        found["kernel_tls"]["rekey"]["works"],
        can_rekey(),
        "{}",
        found["kernel_tls"]["rekey"]
    );
    assert_eq!(found["kernel"]["module"]["loaded"], true);
    let servers = found["configuration"]["servers"]
        .as_array()
        .expect("a list of servers");
    let modes: Vec<&str> = servers
        .iter()
        .filter_map(|server| server["ssl_ktls"].as_str())
        .collect();
    assert_eq!(modes, MODES);
    for server in servers {
        let suites = |list: &str| server[list].as_array().expect("a list of suites").clone();
        let (kernel, user_space) = (suites("in_kernel"), suites("in_user_space"));
        if server["ssl_ktls"] == "off" {
            assert!(kernel.is_empty(), "{server}");
            continue;
        }
        for suite in SUITES.iter().filter(|suite| suite.is_tls13) {
            assert!(kernel.contains(&Value::from(suite.name)), "{server}");
        }
        // All that stays is the CBC suite of the blocks that have one.
        assert!(
            user_space.iter().all(|suite| suite == CBC_SUITE),
            "{server}"
        );
    }
    // And as people read it.
    let text = run("sealane", &["doctor"], b"").text();
    let lines = text
        .lines()
        .filter(|line| line.contains("TLSv1.") && line.contains("yes"));
    assert!(lines.count() >= 6, "{text}");
}
