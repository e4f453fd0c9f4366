//! `open_file_cache`: entries follow the files within the configured time, and
//! a small hot file costs two system calls per request.

use sealane_tests::wire::{Connection, get};
use sealane_tests::{Server, Site, wait_for};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

fn serve<'a>(site: &'a Site, cache: &str) -> Server<'a> {
    site.serve(&format!(
        "server {{ listen 127.0.0.1:%plain%; root html; {cache} }}"
    ))
}

#[track_caller]
fn wait_until(server: &Server<'_>, target: &str, wanted: (u16, &str)) {
    wait_for(&format!("{target} to be {wanted:?}"), || {
        let response = get(server.port("plain"), target);
        let matches =
            response.status == wanted.0 && (wanted.0 != 200 || response.text() == wanted.1);
        matches.then_some(())
    });
}

#[test]
fn changes_show_within_the_validity() {
    let site = Site::new();
    let server = serve(
        &site,
        "open_file_cache max=100 inactive=60s; open_file_cache_valid 1s; open_file_cache_errors on;",
    );
    wait_until(&server, "/a.txt", (404, ""));
    site.write("html/a.txt", "one");
    wait_until(&server, "/a.txt", (200, "one"));
    // Replaced by another file of the same length.
    site.write("html/new", "two");
    std::fs::rename(site.path("html/new"), site.path("html/a.txt")).expect("the site is writable");
    wait_until(&server, "/a.txt", (200, "two"));
    // Written in place, longer.
    site.write("html/a.txt", "three and more");
    wait_until(&server, "/a.txt", (200, "three and more"));
    std::fs::remove_file(site.path("html/a.txt")).expect("the site is writable");
    wait_until(&server, "/a.txt", (404, ""));
    site.write("html/a.txt/index.html", "a directory now");
    wait_until(&server, "/a.txt/", (200, "a directory now"));
}

#[test]
fn more_files_than_the_cache_holds() {
    let site = Site::new();
    for number in 0..200 {
        site.write(format!("html/{number}.txt"), format!("content {number}"));
    }
    let server = serve(
        &site,
        "open_file_cache max=20 inactive=60s; open_file_cache_valid 60s;",
    );
    let mut connection = Connection::open(server.port("plain"));
    for number in (0..200).chain((0..200).rev()).chain(0..200) {
        connection.send(format!("GET /{number}.txt HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(
            connection.response(false).text(),
            format!("content {number}")
        );
    }
}

#[test]
fn a_response_is_of_one_version_of_the_file() {
    let site = Site::new();
    let server = serve(
        &site,
        "open_file_cache max=100 inactive=60s; open_file_cache_valid 1s;",
    );
    let version = |number: u8| vec![b'a' + number % 26; 20_000 + usize::from(number)];
    site.write("html/a.bin", version(0));
    for number in 1..=scale_rounds() {
        site.write("html/new", version(number));
        std::fs::rename(site.path("html/new"), site.path("html/a.bin"))
            .expect("the site is writable");
        let response = get(server.port("plain"), "/a.bin");
        let seen = response.body[0];
        assert!(
            response.body.iter().all(|byte| *byte == seen),
            "a mixture of two versions"
        );
        let length = response.header("content-length").map(str::to_owned);
        assert_eq!(length, Some(response.body.len().to_string()));
        assert_eq!(
            (response.body.len() - 20_000) % 26,
            usize::from(seen - b'a'),
            "the length fits the content"
        );
    }
}

fn scale_rounds() -> u8 {
    u8::try_from(sealane_tests::scale(100, 250)).expect("fits")
}

/// System calls of the worker while `requests` keep-alive requests are made.
fn count_system_calls(
    site: &Site,
    server: &Server<'_>,
    requests: usize,
    make: impl FnOnce(),
) -> BTreeMap<String, usize> {
    let worker = server.worker_pid().to_string();
    let mut tracer = Command::new("strace")
        .args(["-f", "-qq", "-p", &worker, "-o"])
        .arg(site.path("system-calls"))
        .stderr(Stdio::null())
        .spawn()
        .expect("strace is installed (scripts/install-test-deps.sh)");
    wait_for("strace to attach", || {
        let tasks = std::fs::read_dir(format!("/proc/{worker}/task")).ok()?;
        let mut states =
            tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok());
        let traced = states.all(|status| !status.contains("TracerPid:\t0\n"));
        traced.then_some(())
    });
    make();
    let pid = tracer.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .is_ok_and(|status| status.success())
    );
    tracer.wait().expect("strace ends");
    let output = std::fs::read_to_string(site.path("system-calls")).expect("strace wrote its file");
    let mut calls = BTreeMap::new();
    for line in output.lines() {
        // "PID name(arguments...", or "PID <... name resumed>": count the beginning.
        let call = line
            .split_once(' ')
            .map_or("", |(_, rest)| rest.trim_start());
        if let Some((name, _)) = call.split_once('(') {
            *calls.entry(name.to_owned()).or_insert(0) += 1;
        }
    }
    assert!(
        calls.values().sum::<usize>() >= requests,
        "strace saw the requests: {calls:?}"
    );
    calls
}

#[test]
fn a_small_hot_file_costs_two_system_calls_besides_epoll_wait() {
    const REQUESTS: usize = 200;
    let site = Site::new();
    let path = site.write("html/a.bin", vec![b'x'; 1024]);
    // The bytes of a file that was written a moment ago are not kept: another
    // write could go unnoticed.
    let an_hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    std::fs::File::options()
        .append(true)
        .open(path)
        .and_then(|file| file.set_modified(an_hour_ago))
        .expect("our own file");
    let server = serve(
        &site,
        "open_file_cache max=100 inactive=60s; open_file_cache_valid 60s; keepalive_requests 1000;",
    );
    let mut connection = Connection::open(server.port("plain"));
    let mut request = || {
        connection.send("GET /a.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(connection.response(false).body.len(), 1024);
    };
    // The first requests fill the cache.
    for _ in 0..5 {
        request();
    }
    let calls = count_system_calls(&site, &server, REQUESTS, || {
        (0..REQUESTS).for_each(|_| request())
    });
    let waiting: usize = calls
        .iter()
        .filter(|(name, _)| name.starts_with("epoll_"))
        .map(|(_, count)| count)
        .sum();
    let working = calls.values().sum::<usize>() - waiting;
    // Timers and the log add a few over the whole run, not one per request.
    assert!(
        working <= 2 * REQUESTS + REQUESTS / 10,
        "{working} calls for {REQUESTS} requests: {calls:?}"
    );
}
