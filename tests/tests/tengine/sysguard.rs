//! `sysguard`: the worker, with its rights as small as ever, reads what the kernel says.

use sealane_tests::reload::{self, Reload};
use sealane_tests::wire::get;
use sealane_tests::{Server, Site, wait_for};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Limits that every machine is beyond, and limits that none is.
fn configuration(switch: &str) -> String {
    format!(
        "worker_processes 1; error_log logs/error.log info; pid logs/pid;
         events {{ }}
         http {{
           sysguard {switch}; sysguard_log_level notice;
           server {{
             listen 127.0.0.1:%plain%;
             location /short {{ sysguard_mem free=1000000g; empty_gif; }}
             location /enough {{ sysguard_mem free=1k; sysguard_load load=ncpu*100000; empty_gif; }}
             location /busy {{ sysguard_cpu usage=0.5 period=1s action=/sorry; empty_gif; }}
             location /sorry {{ return 200 sorry; }}
           }}
         }}"
    )
}

fn status(server: &Server<'_>, target: &str) -> u16 {
    get(server.port("plain"), target).status
}

#[test]
fn a_worker_in_its_sandbox_knows_the_machine() {
    let site = Site::new();
    let server = site.serve_whole(&configuration("on"));
    // The first request already finds what was read before.
    assert_eq!(status(&server, "/short"), 503);
    assert_eq!(status(&server, "/enough"), 200);
    server.wait_for_log("[notice] ");
    server.wait_for_log("sysguard free limited, current:");
    // Half a percent for a second needs a second time of reading, and work.
    let spins = Arc::new(AtomicBool::new(true));
    let spinning = {
        let spins = Arc::clone(&spins);
        std::thread::spawn(move || {
            while spins.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        })
    };
    wait_for("a busy machine", || {
        (get(server.port("plain"), "/busy").text() == "sorry").then_some(())
    });
    spins.store(false, Ordering::Relaxed);
    spinning.join().expect("it only counts");
}

#[test]
fn a_reload_switches_it_on_and_off() {
    let site = Site::new();
    let server = site.serve_whole(&configuration("off"));
    assert_eq!(status(&server, "/short"), 200);
    assert_eq!(
        reload::reload(&site, &server, &configuration("on")),
        Reload::Applied
    );
    assert_eq!(status(&server, "/short"), 503);
    assert_eq!(
        reload::reload(&site, &server, &configuration("off")),
        Reload::Applied
    );
    assert_eq!(status(&server, "/short"), 200);
}
