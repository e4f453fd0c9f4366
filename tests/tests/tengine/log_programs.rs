//! `access_log "pipe:..."`: programs that read logs.

use sealane_tests::reload::{self, Reload};
use sealane_tests::upgrade::{runs, signal};
use sealane_tests::wire::get;
use sealane_tests::{Server, Site, wait_for};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Copies what it reads into a file, and says so when it begins and when it ends.
const READER: &str = "echo reading >&2
echo $$ > $1/pid.new; mv $1/pid.new $1/pid
cat >> $1/lines
echo end >> $1/lines
";

fn site() -> Site {
    let site = Site::new();
    site.write("reader.sh", READER);
    // Programs run as the user of the workers.
    fs::create_dir(site.path("out")).expect("writable");
    let mode = fs::Permissions::from_mode(0o777);
    fs::set_permissions(site.path("out"), mode).expect("ours");
    site
}

fn configuration(site: &Site, log: &str, more: &str) -> String {
    let (script, out) = (site.path("reader.sh"), site.path("out"));
    let program = format!("pipe:/bin/sh {} {}", script.display(), out.display());
    format!(
        "worker_processes 1; error_log logs/error.log info; pid logs/pid; {more}
         events {{ }}
         http {{
           log_format uri '$uri';
           log_format long '$uri' {};
           {}
           server {{ listen 127.0.0.1:%plain%; location / {{ return 204; }} }}
         }}",
        format!(" '{}'", "x".repeat(2000)).repeat(4),
        log.replace("PROGRAM", &program)
    )
}

fn pid(site: &Site) -> u32 {
    wait_for("the program", || {
        let text = fs::read_to_string(site.path("out/pid")).ok()?;
        text.trim().parse().ok()
    })
}

fn lines(site: &Site) -> Vec<String> {
    let text = fs::read_to_string(site.path("out/lines")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn ask(server: &Server<'_>, target: &str) {
    assert_eq!(get(server.port("plain"), target).status, 204);
}

#[test]
fn lines_reach_a_program_that_is_started_again_when_it_dies() {
    let site = site();
    let text = configuration(&site, "access_log \"PROGRAM\" uri;", "");
    let server = site.serve_whole(&text);
    (0..10).for_each(|number| ask(&server, &format!("/{number}")));
    wait_for("ten lines", || (lines(&site).len() == 10).then_some(()));
    let first = pid(&site);
    server.wait_for_log("says: reading");
    // Nothing has changed for it.
    assert_eq!(reload::reload(&site, &server, &text), Reload::Applied);
    server.signal("USR1");
    server.wait_for_log("reopening logs");
    ask(&server, "/10");
    wait_for("another line", || (lines(&site).len() == 11).then_some(()));
    assert_eq!(pid(&site), first);
    fs::remove_file(site.path("out/pid")).expect("it is there");
    // It is the shell; cat ends with its group.
    signal(first, "KILL");
    server.wait_for_log("exited on signal 9; it is started again");
    assert_ne!(pid(&site), first);
    // Lines wait in the pipe while nobody reads.
    (11..20).for_each(|number| ask(&server, &format!("/{number}")));
    wait_for("all lines", || (lines(&site).len() >= 20).then_some(()));
    let last = pid(&site);
    server.expect_alert("exited on signal 9");
    let status = server.stop("QUIT");
    assert!(status.success());
    // The server has waited for it.
    assert!(!runs(last));
    let mut expected: Vec<String> = (0..20).map(|number| format!("/{number}")).collect();
    expected.push("end".into());
    assert_eq!(lines(&site), expected);
}

#[test]
fn a_program_that_does_not_read_costs_lines_and_no_time() {
    let site = site();
    site.write("reader.sh", "exec sleep 600\n");
    let text = configuration(&site, "access_log \"PROGRAM\" long;", "log_queue_size 64k;");
    let server = site.serve_whole(&text);
    // The pipe and the queue hold 64 KiB each.
    (0..100).for_each(|number| ask(&server, &format!("/{number}")));
    let log = server.wait_for_log(" were dropped, because they came faster than it accepts them");
    assert!(log.contains(" lines for log program \"/bin/sh "), "{log}");
    server.expect_alert("were dropped, because they came faster");
}

#[test]
fn a_program_goes_with_its_log() {
    let site = site();
    let text = configuration(&site, "error_log \"PROGRAM\" info; access_log off;", "");
    let server = site.serve_whole(&text);
    let first = pid(&site);
    let without = configuration(&site, "access_log off;", "");
    assert_eq!(reload::reload(&site, &server, &without), Reload::Applied);
    wait_for("its end", || (!runs(first)).then_some(()));
    let read = lines(&site);
    assert_eq!(read.last().map(String::as_str), Some("end"));
}

#[test]
fn samples_are_as_large_as_configured() {
    let site = site();
    let text = configuration(&site, "access_log \"PROGRAM\" uri ratio=0.25;", "");
    let server = site.serve_whole(&text);
    (0..12).for_each(|number| ask(&server, &format!("/{number}")));
    assert!(server.stop("QUIT").success());
    assert_eq!(lines(&site), ["/3", "/7", "/11", "end"]);
}

#[test]
fn what_cannot_run_is_refused() {
    let site = site();
    for (log, more, message) in [
        (
            "access_log \"pipe:/nonexistent a\";",
            "",
            "log program \"/nonexistent a\" cannot be used: \"/nonexistent\" cannot be executed (2: ",
        ),
        (
            "access_log \"PROGRAM\";",
            "master_process off;",
            "needs the master process, which runs it",
        ),
    ] {
        reload::configure(&site, &configuration(&site, log, more));
        let outcome = reload::ask(&site, &["-t"]);
        assert_ne!(outcome.status, 0);
        assert!(outcome.stderr.contains(message), "{}", outcome.stderr);
    }
}
