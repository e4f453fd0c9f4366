//! Sessions over reload and upgrade.

use super::*;
use sealane_tests::reload::{Reload, reload};
use sealane_tests::upgrade::{Daemon, signal};

const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 7, 100, 1);

fn serving(auth: &AuthService, name: &str) -> String {
    configuration(&format!(
        "auth_http 127.0.0.1:{}; server_name {name};
         server {{ listen 127.0.0.1:%mail%; protocol smtp; smtp_auth plain; }}",
        auth.port
    ))
}

fn says(text: &str) -> Step {
    Step::Say(text.to_owned())
}

/// A client that has been passed on.
fn logged_in(port: u16) -> Client {
    let mut client = Client::connect(Protocol::Smtp, ADDRESS, port);
    let script = [
        Step::Hear,
        says("EHLO me\r\n"),
        says("AUTH PLAIN AGpvAHNlY3JldA==\r\n"),
    ];
    let seen = client.follow_on(&script);
    assert!(seen.ends_with("235 2.0.0 OK\\r\\n"), "{seen}");
    client
}

#[track_caller]
fn says_back(client: &mut Client, text: &str) {
    let seen = client.follow_on(&[says(&format!("250 {text}\r\n"))]);
    assert_eq!(seen, format!("250 {text}\\r\\n"));
}

fn scene(auth: &AuthService) -> Arc<Scene> {
    let answers = vec![vec![send(ACCEPTED)]];
    auth.expect(&ADDRESS.to_string(), answers, accepting(Protocol::Smtp))
}

#[test]
fn a_reload_keeps_sessions_and_dialogues() {
    let (site, auth) = (Site::new(), AuthService::start());
    let server = site.serve_whole(&serving(&auth, "first.example"));
    let scene = scene(&auth);
    let port = server.port("mail");
    let mut passed = logged_in(port);
    let mut speaking = Client::connect(Protocol::Smtp, ADDRESS, port);
    let seen = speaking.follow_on(&[Step::Hear]);
    assert_eq!(seen, "220 first.example ESMTP ready\\r\\n");
    for round in 0..sealane_tests::scale(3, 100) {
        let next = serving(&auth, "second.example");
        assert_eq!(reload(&site, &server, &next), Reload::Applied);
        says_back(&mut passed, &format!("round {round}"));
        // The dialogue goes on as it has begun.
        let seen = speaking.follow_on(&[says("EHLO me\r\n")]);
        assert!(seen.starts_with("250-first.example"), "{seen}");
    }
    let seen = speaking.follow_on(&[says("AUTH PLAIN AGpvAHNlY3JldA==\r\n")]);
    assert!(seen.starts_with("235 "), "{seen}");
    says_back(&mut speaking, "passed on");
    let mut new = Client::connect(Protocol::Smtp, ADDRESS, port);
    let seen = new.follow_on(&[Step::Hear]);
    assert_eq!(seen, "220 second.example ESMTP ready\\r\\n");
    // Its listener goes, and the session stays.
    let without = configuration(&format!(
        "auth_http 127.0.0.1:{}; server {{ listen 127.0.0.1:%other%; protocol imap; }}",
        auth.port
    ));
    assert_eq!(reload(&site, &server, &without), Reload::Applied);
    says_back(&mut passed, "without a listener");
    drop((passed, speaking, new));
    let (asked, told) = scene.finish();
    assert_eq!((asked.len(), told.len()), (2, 2));
}

#[test]
fn what_lasts_longer_than_it_may_ends() {
    let (site, auth) = (Site::new(), AuthService::start());
    let text = serving(&auth, "mail.example");
    let text = format!("worker_shutdown_timeout 300ms; {text}");
    let server = site.serve_whole(&text);
    let scene = scene(&auth);
    let mut passed = logged_in(server.port("mail"));
    let mut speaking = Client::connect(Protocol::Smtp, ADDRESS, server.port("mail"));
    let _ = speaking.follow_on(&[Step::Hear]);
    assert_eq!(reload(&site, &server, &text), Reload::Applied);
    assert_eq!(passed.follow_on(&[Step::Wait]), "");
    assert_eq!(speaking.follow_on(&[Step::Wait]), "");
    let _ = scene.finish();
    let mut passed = logged_in(server.port("mail"));
    let status = server.stop("QUIT");
    assert!(status.success());
    assert_eq!(passed.follow_on(&[Step::Wait]), "");
    let _ = scene.finish();
}

#[test]
fn an_upgrade_leaves_sessions_to_the_old_process_until_they_end() {
    let (site, auth) = (Site::new(), AuthService::start());
    let daemon = Daemon::start(&site, Program::Sealane, &serving(&auth, "mail.example"));
    let scene = scene(&auth);
    let port = site.port("mail");
    for _ in 0..sealane_tests::scale(2, 10) {
        let mut passed = logged_in(port);
        let old = daemon.pid();
        daemon.begin_upgrade();
        signal(old, "QUIT");
        says_back(&mut passed, "after");
        says_back(&mut logged_in(port), "new");
        drop(passed);
        daemon.wait_for_end(old);
    }
    let _ = scene.finish();
}
