//! Power failures: a file system that forgets all that was not on the disk yet.

use super::processes::{try_ask, try_get};
use super::{http, pass, verdict};
use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::upgrade::signal;
use sealane_tests::{Program, Server, Site, command, scale, wait_for};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Keys that are asked for.
const KEYS: usize = 60;

/// Stops a file system without writing anything to it (FS_IOC_SHUTDOWN without a flush of the
/// journal), and says so.
const SHUT_DOWN: &str = "import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack('I', 2))
print('down')";

/// A body that shows from which response each of its bytes is.
fn body_of(target: &str, number: usize) -> String {
    let name = format!("{target} {number:06};");
    let bytes = number * 7919 % 300_000;
    name.repeat(bytes / name.len() + 1)
}

/// The number of the response whose body it is; `None` if it is none of the origin's for this
/// target.
fn number_of(target: &str, body: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(body);
    let name = text.split(';').next()?;
    let number = name.strip_prefix(target)?.strip_prefix(' ')?;
    let number = number.parse().ok()?;
    (*text == body_of(target, number)).then_some(number)
}

/// What was purged: by key, the number of the first response that was not.
type PurgedUntil = [AtomicUsize; KEYS];

/// Purges a key, and all with a prefix, until the power fails.
fn purge(port: u16, number: &AtomicUsize, purged: &PurgedUntil, is_failing: &AtomicBool) {
    let mut round = 0;
    while !is_failing.load(Ordering::SeqCst) {
        round += 1;
        let until = number.load(Ordering::SeqCst);
        // The prefix is that of 1 and 10 to 19.
        let key = 20 + round % 10;
        let (pattern, keys) = match round % 3 {
            0 => ("/1*".to_owned(), (10..20).chain([1]).collect()),
            _ => (format!("/{key}"), vec![key]),
        };
        let asked = try_ask(port, &format!("{pattern}?purge=1"));
        let is_done = asked.is_some_and(|response| matches!(response.status, 204 | 404));
        // Linux may say that something is on the disk which it is just taking away. Nobody is told
        // so when the power really fails.
        if is_done && !is_failing.load(Ordering::SeqCst) {
            for key in keys {
                purged[key].store(until, Ordering::SeqCst);
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn power_failures_leave_no_wrong_body() {
    let rounds = scale(6, 120);
    sealane_needs::root();
    let site = Site::new();
    let image = site.path("disk").display().to_string();
    let cache = site.path("cache").display().to_string();
    std::fs::create_dir(&cache).expect("new");
    std::fs::File::create(&image)
        .and_then(|file| file.set_len(256 << 20))
        .expect("a file with a hole");
    command("mke2fs", &["-q", "-t", "ext4", &image], b"").success();
    // The journal is written every second, so that some of the newest files are known by name.
    let mount = format!("mount -o loop,commit=1 {image} {cache} && chmod 777 {cache}");
    if command("unshare", &["-m", "sh", "-c", &mount], b"").status != 0 {
        return sealane_needs::leave_out("not even root may mount a file here (CAP_SYS_ADMIN)");
    }
    let number = Arc::new(AtomicUsize::new(0));
    let purged: PurgedUntil = std::array::from_fn(|_| AtomicUsize::new(0));
    let theirs = Arc::clone(&number);
    let origin = Origin::answering(move |asked: &Asked| {
        let target = asked.target();
        let name = target.split('?').next().unwrap_or_default();
        let body = body_of(name, theirs.fetch_add(1, Ordering::SeqCst));
        let head = match body.len() % 2 {
            0 => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()),
            _ => "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_owned(),
        };
        Answer::SendAndClose([head.as_bytes(), body.as_bytes()].concat())
    });
    let more = "proxy_cache_bypass $arg_new; proxy_cache_purge $arg_purge; allow all;";
    let text = http("levels=1 use_temp_path=off", &pass(origin.port(), more));
    let text =
        format!("error_log logs/error.log notice; events {{}} http {{ access_log off; {text} }}");
    let wrapper = format!("{mount} && exec \"$0\" \"$@\"");
    let (mut found, mut spoilt) = (0, 0);
    for round in 0..rounds {
        let server = Server::start_under(
            &site,
            Program::Sealane,
            &text,
            &["unshare", "-m", "sh", "-c", &wrapper],
        );
        for alert in [
            "exited on signal",
            "is gone; this worker finishes",
            "cache",
            "Input/output error",
            "may come back with a restart",
        ] {
            server.expect_alert(alert);
        }
        let port = server.port("plain");
        // What is left is right.
        for (key, purged) in purged.iter().enumerate() {
            let target = format!("/{key}");
            let response = try_get(port, &target).expect("the origin has everything");
            let number = number_of(&target, &response.body);
            let least = purged.load(Ordering::SeqCst);
            assert!(
                number.is_some_and(|number| number >= least),
                "{target}, round {round}: {number:?}, purged until {least}"
            );
            found += usize::from(verdict(&response) == "HIT");
        }
        spoilt += server.error_log().matches("and is not used").count();
        replace_until_the_power_fails(server, Path::new(&cache), round, &number, &purged);
        // The kernel lets go of the disk a moment after the last process.
        wait_for("the disk to be free", || {
            let users = command("losetup", &["-j", &image], b"").success();
            users.text().trim().is_empty().then_some(())
        });
    }
    println!("{rounds} failures: {found} responses were there, {spoilt} were spoilt");
    assert!(found > 0, "nothing was there after {rounds} failures");
    let is_purged = |key: &AtomicUsize| key.load(Ordering::SeqCst) > 0;
    assert!(purged.iter().any(is_purged), "nothing was purged");
}

/// Clients replace and purge responses until the file system stops; then nothing of the server
/// remains.
fn replace_until_the_power_fails(
    server: Server<'_>,
    cache: &Path,
    round: usize,
    number: &AtomicUsize,
    purged: &PurgedUntil,
) {
    let port = server.port("plain");
    let (is_failing, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| purge(port, number, purged, &is_failing));
        for client in 1..=3usize {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut number = client + round;
                while !is_over.load(Ordering::Relaxed) {
                    number = number.wrapping_mul(31).wrapping_add(7);
                    let target = format!("/{}", number % KEYS);
                    if let Some(response) = try_get(port, &format!("{target}?new=1")) {
                        let number = number_of(&target, &response.body);
                        assert!(number.is_some(), "{target}");
                    }
                }
            });
        }
        thread::sleep(Duration::from_millis(300 + round as u64 % 8 * 250));
        let (pid, cache) = (server.pid().to_string(), cache.display().to_string());
        let inside = ["-t", &pid, "-m", "python3", "-c", SHUT_DOWN, &cache];
        is_failing.store(true, Ordering::SeqCst);
        let said = command("nsenter", &inside, b"");
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(said.success().text().trim(), "down");
    });
    let processes = [vec![server.pid()], server.worker_pids()].concat();
    for pid in processes {
        signal(pid, "KILL");
    }
    server.wait_for_exit();
}
