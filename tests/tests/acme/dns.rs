//! DNS-01: by dynamic updates, by a program, over aliases.

use super::{certificate, get_verified, issuer, servers, settings, wait_for_certificate};
use sealane_tests::reload::reload_as_it_is;
use sealane_tests::{
    Certificate, CertificateKey, Pebble, Program, Server, Site, TestZone, command, has_go,
    sealane_binary, wait_for, wire,
};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// The user of worker processes. Not nobody, to whom even "/" belongs in some containers: then no
/// path is safe from a worker.
const USER: &str = "daemon";

fn configuration(issuer: &str, servers: &str) -> String {
    let user = match is_root() {
        true => format!("user {USER};"),
        false => String::new(),
    };
    format!("{user} {}", super::configuration(issuer, servers))
}

fn start<'a>(site: &'a Site, issuer: &str, servers: &str) -> Server<'a> {
    Server::start(site, Program::Sealane, &configuration(issuer, servers))
}

fn is_root() -> bool {
    command("id", &["-u"], b"").text().trim() == "0"
}

#[test]
fn dns_01_by_signed_updates_brings_wildcards() {
    if !has_go(24) {
        return;
    }
    let site = Site::new();
    let secret = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0";
    let zone = TestZone::start(&site, Some(("update.test.", secret)));
    let names = zone.port();
    let pebble = Pebble::start_with_names(&site, settings(&site), zone);
    site.write(
        "update.key",
        format!("key \"update.test\" {{ algorithm hmac-sha256; secret \"{secret}\"; }};\n"),
    );
    let dns = format!("challenge dns-01; dns_update 127.0.0.1:{names} key=update.key wait=0;");
    let server = start(&site, &issuer(&dns), &servers("*.wild.test wild.test"));
    let shown = wait_for_certificate(server.port("tls"), "a.wild.test");
    assert!(shown.contains("DNS:*.wild.test, DNS:wild.test"), "{shown}");
    assert_eq!(
        get_verified(&pebble, server.port("tls"), "any.wild.test"),
        "secure\n"
    );
    // Both records were there at the same time, and none stays.
    let updates = wait_for("records to be removed", || {
        let updates = pebble.names().updates();
        (updates.matches("remove _acme-challenge.wild.test.").count() == 2).then_some(updates)
    });
    assert_eq!(
        updates.matches("add _acme-challenge.wild.test.").count(),
        2,
        "{updates}"
    );
    assert_eq!(pebble.orders(), 1);
}

#[test]
fn a_wrong_tsig_key_is_told() {
    if !has_go(24) {
        return;
    }
    let site = Site::new();
    let zone = TestZone::start(&site, Some(("update.test.", "c2VjcmV0")));
    let names = zone.port();
    let pebble = Pebble::start_with_names(&site, settings(&site), zone);
    site.write(
        "update.key",
        "key \"update.test\" { algorithm hmac-sha256; secret \"d3Jvbmc=\"; };\n",
    );
    let dns =
        format!("challenge dns-01; dns_update 127.0.0.1:{names} zone=test key=update.key wait=0;");
    let server = start(&site, &issuer(&dns), &servers("tsig.test"));
    let log = server.wait_for_log("the TXT record cannot be made");
    assert!(!log.contains("d3Jvbmc"), "no secret in the log");
    assert!(pebble.names().updates().contains("refused"));
    assert!(!certificate(server.port("tls"), "tsig.test").contains("Pebble"));
}

/// Makes a program of a script that may use `$place`, a directory in which everybody may write.
fn program(site: &Site, name: &str, script: &str) -> PathBuf {
    let place = site.path("records");
    std::fs::create_dir_all(&place).expect("the site is writable");
    std::fs::set_permissions(&place, mode(0o777)).expect("it is ours");
    let text = format!("#!/bin/sh\nplace={}\n{script}\n", place.display());
    let path = site.write(name, text);
    std::fs::set_permissions(&path, mode(0o755)).expect("it is ours");
    path
}

fn mode(bits: u32) -> std::fs::Permissions {
    std::fs::Permissions::from_mode(bits)
}

/// Keeps records in the file that the name server reads.
const KEEP: &str = "echo \"$1 $2 $ACME_RECORD_NAME $ACME_ISSUER $(id -un)\" >> $place/calls
record=\"$ACME_RECORD_NAME $3\"
case $1 in
add) echo \"$record\" >> $place/records ;;
remove)
    grep -vxF \"$record\" $place/records > $place/rest
    cat $place/rest > $place/records ;;
*) exit 1 ;;
esac";

/// A name server that reads what [`KEEP`] writes.
fn zone_with_records<'a>(site: &'a Site, more: &[&str]) -> TestZone<'a> {
    let records = site.path("records/records").display().to_string();
    TestZone::start_with(site, &[&["-records", &records][..], more].concat())
}

fn calls(site: &Site) -> Vec<String> {
    let calls = std::fs::read_to_string(site.path("records/calls")).unwrap_or_default();
    calls.lines().map(str::to_owned).collect()
}

#[test]
fn dns_01_by_a_program_brings_wildcards() {
    if !has_go(24) {
        return;
    }
    let site = Site::new();
    let zone = zone_with_records(&site, &[]);
    let program = program(&site, "keep", KEEP);
    let pebble = Pebble::start_with_names(&site, settings(&site), zone);
    let dns = format!(
        "challenge dns-01; dns_command {} wait=0;",
        program.display()
    );
    let server = start(&site, &issuer(&dns), &servers("*.wild.test wild.test"));
    let shown = wait_for_certificate(server.port("tls"), "a.wild.test");
    assert!(shown.contains("DNS:*.wild.test, DNS:wild.test"), "{shown}");
    assert_eq!(
        get_verified(&pebble, server.port("tls"), "any.wild.test"),
        "secure\n"
    );
    let calls = wait_for("both records to be removed", || {
        let calls = calls(&site);
        (calls.len() >= 4).then_some(calls)
    });
    let user = match is_root() {
        true => USER.to_owned(),
        false => command("id", &["-un"], b"").text().trim().to_owned(),
    };
    let expected = ["add", "add", "remove", "remove"].map(|action| {
        format!("{action} _acme-challenge.wild.test _acme-challenge.wild.test pebble {user}")
    });
    assert_eq!(calls, expected);
    wait_for("the last record to be gone", || {
        let records = std::fs::read_to_string(site.path("records/records"));
        records.expect("it is there").is_empty().then_some(())
    });
    assert_eq!(pebble.orders(), 1);
    let log = server.error_log();
    assert!(!log.contains("refused system call"), "{log}");
}

/// A server whose program does this, and which Pebble lets verify by the records that it keeps.
fn with_program(script: &str, options: &str, names: &str, check: impl FnOnce(&Site, Server<'_>)) {
    if !has_go(24) {
        return;
    }
    let site = Site::new();
    let zone = zone_with_records(&site, &[]);
    let program = program(&site, "program", script);
    let _pebble = Pebble::start_with_names(&site, settings(&site), zone);
    let program = program.display();
    let dns = format!("challenge dns-01; dns_command {program} wait=0 {options};");
    let server = start(&site, &issuer(&dns), &servers(names));
    check(&site, server);
}

#[test]
fn a_program_that_fails_is_told_with_its_last_line() {
    let script = "echo first >&2; echo \"no key for $2\" >&2; exit 3";
    with_program(script, "", "fails.test", |_, server| {
        let why = "the TXT record cannot be made (the program exited with code 3: no key for \
                   _acme-challenge.fails.test)";
        server.wait_for_log(why);
        let log = server.error_log();
        assert!(
            log.contains("[warn]") && log.contains("says: first"),
            "{log}"
        );
        assert!(certificate(server.port("tls"), "fails.test").contains("fails.test"));
    });
}

#[test]
fn a_program_that_hangs_is_killed_and_stops_nobody() {
    let script = "sleep 1000 & echo $! > $place/child; echo waiting >&2; sleep 1000";
    // On a busy machine the first attempt may be over before the program has done anything.
    with_program(script, "timeout=1s", "hangs.test", |site, server| {
        server.wait_for_log("the program was killed after 1 s");
        wait_for_end_of_child(site);
    });
    with_program(script, "timeout=600s", "hangs.test", |site, server| {
        server.wait_for_log("says: waiting");
        // The master answers signals meanwhile, and ends the program when it ends itself.
        reload_as_it_is(&server);
        assert_eq!(wire::get(server.port("http"), "/").status, 301);
        server.stop("TERM");
        wait_for_end_of_child(site);
    });
}

#[track_caller]
fn wait_for_end_of_child(site: &Site) {
    let child = wait_for("the program to have a child", || {
        let text = std::fs::read_to_string(site.path("records/child")).ok()?;
        let pid: u32 = text.trim().parse().ok()?;
        Some(pid)
    });
    wait_for("the child to be gone", || {
        let facts = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        (facts.is_empty() || facts.contains(") Z ")).then_some(())
    });
}

#[test]
fn a_program_that_writes_much_is_listened_to_a_little() {
    let script = format!(
        "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); \
         echo \"line $i of many that nobody reads\" >&2; echo out; done\n{KEEP}"
    );
    with_program(&script, "", "much.test", |_, server| {
        wait_for_certificate(server.port("tls"), "much.test");
        server.wait_for_log("bytes are left out");
        let log = server.error_log();
        assert!(log.contains("says: line 50 of") && !log.contains("says: line 51 of"));
    });
}

#[test]
fn a_program_that_has_gone_is_told() {
    let script = format!("rm $0\n{KEEP}");
    let program_directory = if is_root() { "user=root" } else { "" };
    with_program(
        &script,
        program_directory,
        "a.gone.test b.gone.test",
        |site, server| {
            let log = server.wait_for_log("cannot be executed (2: No such file or directory)");
            assert!(log.contains("the TXT record cannot be made"), "{log}");
            let user = command("id", &["-un"], b"").text();
            let calls = calls(site);
            assert!(
                calls.len() == 1 && calls[0].ends_with(user.trim()),
                "{calls:?}"
            );
        },
    );
}

#[test]
fn updates_go_where_aliases_lead() {
    if !has_go(24) {
        return;
    }
    let site = Site::new();
    let aliases = [
        "-alias",
        "_acme-challenge.one.test.=between.test.",
        "-alias",
        "between.test.=one.acme.test.",
    ];
    let zone = TestZone::start_with(&site, &aliases);
    let names = zone.port();
    let pebble = Pebble::start_with_names(&site, settings(&site), zone);
    let dns = format!("challenge dns-01; dns_update 127.0.0.1:{names} wait=0;");
    let resolver = format!("resolver 127.0.0.1:{names};");
    // The name server follows one step, as far as a question goes.
    let servers = servers("one.test two.test");
    let server = start(&site, &format!("{resolver} {}", issuer(&dns)), &servers);
    server.wait_for_log("ordering a certificate");
    let updates = wait_for("both records", || {
        let updates = pebble.names().updates();
        let both = updates.contains("add one.acme.test. ")
            && updates.contains("add _acme-challenge.two.test. ");
        both.then_some(updates)
    });
    assert!(!updates.contains("one.test. "), "{updates}");
}

#[test]
fn programs_are_told_where_aliases_lead_within_their_zone() {
    if !has_go(24) {
        return;
    }
    let site = Site::new();
    let zone = zone_with_records(&site, &["-alias", "_acme-challenge.a.test.=a.acme.test."]);
    let names = zone.port();
    let program = program(&site, "keep", KEEP);
    let program = program.display();
    let _pebble = Pebble::start_with_names(&site, settings(&site), zone);
    let resolver = format!("resolver 127.0.0.1:{names};");
    let with = |zone: &str| {
        let dns = format!("challenge dns-01; dns_command {program} wait=0 {zone};");
        let issuer = format!("{resolver} {}", issuer(&dns));
        start(&site, &issuer, &servers("a.test"))
    };
    let server = with("zone=other.test");
    server.wait_for_log(
        "\"_acme-challenge.a.test\" is an alias of \"a.acme.test\", which is not in \"zone=\" of \
         \"dns_command\"",
    );
    assert!(calls(&site).is_empty(), "nothing was run");
    server.stop("QUIT");
    std::fs::remove_dir_all(site.path("acme_pebble")).expect("it is there");
    let server = with("zone=acme.test");
    wait_for_certificate(server.port("tls"), "a.test");
    let calls = wait_for("the record to be removed", || {
        let calls = calls(&site);
        (calls.len() >= 2).then_some(calls)
    });
    for (call, action) in calls.iter().zip(["add", "remove"]) {
        let expected = format!("{action} _acme-challenge.a.test a.acme.test pebble ");
        assert!(call.starts_with(&expected), "{call}");
    }
}

#[test]
fn programs_that_cannot_be_run_are_refused_with_a_reason() {
    let site = Site::new();
    site.certificate(&Certificate::localhost("pebble", CertificateKey::P256));
    let good = program(&site, "good", "exit 0");
    let test = |main: &str, dns: &str| {
        let issuer = issuer(&format!("challenge dns-01; {dns}"));
        let text = format!("{main} {}", configuration(&issuer, &servers("a.test")));
        let file = site
            .write("tested.conf", site.fill_in(&text))
            .display()
            .to_string();
        let prefix = site.path("").display().to_string();
        let binary = sealane_binary().display().to_string();
        command(&binary, &["-t", "-p", &prefix, "-c", &file], b"")
    };
    let with = |path: &Path, more: &str| format!("dns_command {} {more};", path.display());
    test("", &with(&good, "zone=acme.test. timeout=600s wait=0")).success();
    let plain = site.write("plain", "#!/bin/sh\n");
    std::fs::set_permissions(&plain, mode(0o644)).expect("it is ours");
    let mut cases = vec![
        (
            "",
            with(Path::new("good"), ""),
            "the path of the program is absolute",
        ),
        (
            "",
            with(&site.path("none"), ""),
            "(2: No such file or directory)",
        ),
        ("", with(&plain, ""), "cannot be executed"),
        ("", with(&site.path("records"), ""), "cannot be executed"),
        (
            "",
            with(&good, "timeout=0"),
            "it is between 1 and 600 seconds",
        ),
        (
            "",
            with(&good, "timeout=601s"),
            "it is between 1 and 600 seconds",
        ),
        (
            "",
            with(&good, "zone=a..b"),
            "invalid parameter \"zone=a..b\"",
        ),
        (
            "",
            with(&good, "shell=on"),
            "invalid parameter \"shell=on\"",
        ),
        (
            "",
            format!("dns_update 127.0.0.1; {}", with(&good, "")),
            "is not used together with \"dns_update\"",
        ),
        ("", with(&good, "").repeat(2), "is duplicate"),
        (
            "master_process off; daemon off;",
            with(&good, ""),
            "\"dns_command\" needs the master process",
        ),
        (
            "",
            with(&good, "user=no-such-user"),
            if is_root() {
                "no such user"
            } else {
                "that is root"
            },
        ),
    ];
    let planted = program(&site, "planted", "exit 0");
    if is_root() {
        let uid = command("id", &["-u", USER], b"").text();
        chown(&planted, Some(uid.trim().parse().expect("a number")), None).expect("we are root");
        let place = site.path("records/planted");
        std::fs::copy(&good, &place).expect("it is ours");
        cases.push((
            "",
            with(&planted, "user=root"),
            "could have put it there or changed it",
        ));
        cases.push((
            "",
            with(&place, "user=root"),
            "could have put it there or changed it",
        ));
    }
    for (main, dns, expected) in cases {
        let outcome = test(main, &dns);
        assert_ne!(outcome.status, 0, "{main} {dns}");
        assert!(
            outcome.stderr.contains(expected),
            "{main} {dns}: {}",
            outcome.stderr
        );
    }
}
