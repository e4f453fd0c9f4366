//! Power failures: a file system that forgets all that was not on the disk yet.

use super::processes::try_get;
use super::{http, pass, verdict};
use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::upgrade::signal;
use sealane_tests::{Program, Server, Site, command, scale, wait_for};
use std::path::Path;
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

/// Whether a body is one of the origin's for this target.
fn is_right(target: &str, body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    let number = text.split(';').next().and_then(|name| {
        let number = name.strip_prefix(target)?.strip_prefix(' ')?;
        number.parse().ok()
    });
    number.is_some_and(|number| *text == body_of(target, number))
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
    let number = AtomicUsize::new(0);
    let origin = Origin::answering(move |asked: &Asked| {
        let target = asked.target();
        let name = target.split('?').next().unwrap_or_default();
        let body = body_of(name, number.fetch_add(1, Ordering::Relaxed));
        let head = match body.len() % 2 {
            0 => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()),
            _ => "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_owned(),
        };
        Answer::SendAndClose([head.as_bytes(), body.as_bytes()].concat())
    });
    let more = "proxy_cache_bypass $arg_new;";
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
        ] {
            server.expect_alert(alert);
        }
        let port = server.port("plain");
        // What is left is right.
        for key in 0..KEYS {
            let target = format!("/{key}");
            let response = try_get(port, &target).expect("the origin has everything");
            assert!(is_right(&target, &response.body), "{target}, round {round}");
            found += usize::from(verdict(&response) == "HIT");
        }
        spoilt += server.error_log().matches("and is not used").count();
        replace_until_the_power_fails(server, Path::new(&cache), round);
        // The kernel lets go of the disk a moment after the last process.
        wait_for("the disk to be free", || {
            let users = command("losetup", &["-j", &image], b"").success();
            users.text().trim().is_empty().then_some(())
        });
    }
    println!("{rounds} failures: {found} responses were there, {spoilt} were spoilt");
    assert!(found > 0, "nothing was there after {rounds} failures");
}

/// Clients replace responses until the file system stops; then nothing of the server remains.
fn replace_until_the_power_fails(server: Server<'_>, cache: &Path, round: usize) {
    let port = server.port("plain");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for client in 1..=3usize {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut number = client + round;
                while !is_over.load(Ordering::Relaxed) {
                    number = number.wrapping_mul(31).wrapping_add(7);
                    let target = format!("/{}", number % KEYS);
                    if let Some(response) = try_get(port, &format!("{target}?new=1")) {
                        assert!(is_right(&target, &response.body), "{target}");
                    }
                }
            });
        }
        thread::sleep(Duration::from_millis(300 + round as u64 % 8 * 250));
        let (pid, cache) = (server.pid().to_string(), cache.display().to_string());
        let inside = ["-t", &pid, "-m", "python3", "-c", SHUT_DOWN, &cache];
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
