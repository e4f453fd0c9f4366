//! Files that somebody has changed, and directories that cannot be used.

use super::{counting, http, pass, verdict, wait_for_hit};
use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::{Program, Server, Site, command, wait_for, wire};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Every file below a directory.
pub(super) fn files_below(directory: PathBuf) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files_below(entry.path())),
            _ => found.push(entry.path()),
        }
    }
    found.sort();
    found
}

/// The file of a key, once it is there: the first hits may come before it. Until it is whole and
/// has been moved to its place, its name has a number behind a dot.
#[track_caller]
fn file_of(site: &Site, key: &str) -> PathBuf {
    let line = format!("\nKEY: {key}\n").into_bytes();
    wait_for("a file", || {
        let mut files = files_below(site.path("cache")).into_iter();
        files.find(|file| {
            if file.extension().is_some() {
                return false;
            }
            let bytes = fs::read(file).unwrap_or_default();
            bytes.windows(line.len()).any(|part| part == line)
        })
    })
}

/// Asks until the file is looked at: a response that has just been stored is in memory for a moment
/// longer, as it was.
#[track_caller]
pub(super) fn wait_for_miss(port: u16, target: &str, before: &str) -> wire::Response {
    wait_for("a miss", || {
        let response = wire::get(port, target);
        if verdict(&response) == "HIT" {
            assert_eq!(response.text(), before);
            return None;
        }
        Some(response)
    })
}

#[test]
fn files_that_were_changed_are_not_served() {
    let site = Site::new();
    let (origin, count) = counting();
    let server = site.serve(&http("levels=1:2", &pass(origin.port(), "")));
    server.expect_alert("cache file");
    let port = server.port("plain");
    let mut expected = 0;
    // Each is served correctly, and replaces what was spoilt.
    let mut spoil = |target: &str, said: &str, change: &dyn Fn(&PathBuf)| {
        wire::get(port, target);
        wait_for_hit(&server, target);
        expected += 1;
        change(&file_of(&site, target));
        let response = wait_for_miss(port, target, &format!("answer {expected}"));
        expected += 1;
        assert_eq!(response.text(), format!("answer {expected}"));
        assert_eq!(
            wait_for_hit(&server, target).text(),
            format!("answer {expected}")
        );
        if !said.is_empty() {
            server.wait_for_log(said);
        }
        assert_eq!(count.load(Ordering::Relaxed), expected);
    };
    let write = |file: &PathBuf, bytes: &[u8]| {
        // In place, as whoever has the file open would do it.
        fs::write(file, bytes).expect("it is ours");
    };
    let read = |file: &PathBuf| fs::read(file).expect("it is there");
    spoil("/removed", "", &|file| {
        fs::remove_file(file).expect("it is there")
    });
    spoil("/empty", "is too small", &|file| write(file, b""));
    spoil("/cut", "another length than when it was written", &|file| {
        let bytes = read(file);
        write(file, &bytes[..bytes.len() - 1]);
    });
    spoil(
        "/longer",
        "another length than when it was written",
        &|file| {
            let bytes = read(file);
            write(file, &[&bytes[..], b"!"].concat());
        },
    );
    spoil("/noise", "version mismatch", &|file| {
        write(file, &[7; 4096])
    });
    spoil("/zeros", "version mismatch", &|file| {
        write(file, &[0; 4096])
    });
    spoil("/other-key", "has md5 collision", &|file| {
        let text = read(file);
        let at = text.windows(10).position(|part| part == b"/other-key");
        let mut text = text.clone();
        text[at.expect("the key is there") + 1] = b'X';
        write(file, &text);
    });
    spoil("/head", "contains invalid header", &|file| {
        let mut text = read(file);
        let at = text.windows(8).position(|part| part == b"HTTP/1.1");
        text[at.expect("the head is there")] = b'X';
        write(file, &text);
    });
    spoil("/directory", "", &|file| {
        fs::remove_file(file).expect("it is there");
    });
}

/// Files have their length before they have their bytes: what was not on the disk yet is zeros
/// afterwards, in any part of them.
#[test]
fn what_a_power_failure_leaves_is_not_served() {
    const BLOCK: usize = 4096;
    let site = Site::new();
    let body = |number: usize, bytes: usize| format!("{number:07},").repeat(bytes / 8);
    let number = AtomicUsize::new(0);
    let origin = Origin::answering(move |asked: &Asked| {
        let number = number.fetch_add(1, Ordering::Relaxed);
        let body = body(number, asked.target()[1..].parse().expect("a length"));
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        Answer::Send([head.as_bytes(), body.as_bytes()].concat())
    });
    let text = http("", &pass(origin.port(), ""));
    // Within the first page, of several pages, of more than is received at a time.
    let targets = ["/800", "/20000", "/200000", "/1000000", "/20008"];
    let server = site.serve(&text);
    let mut stored = Vec::new();
    for target in targets {
        let response = wire::get(server.port("plain"), target);
        assert_eq!(wait_for_hit(&server, target).body, response.body);
        stored.push((file_of(&site, target), response.body));
    }
    server.stop("QUIT");
    let (last, damaged) = stored.split_last().expect("there are some");
    for (file, body) in damaged {
        let mut bytes = fs::read(file).expect("it is there");
        let from = (bytes.len() - body.len() / 2).next_multiple_of(BLOCK);
        let from = if from + BLOCK > bytes.len() {
            bytes.len() - body.len()
        } else {
            from
        };
        let to = bytes.len().min(from + BLOCK);
        bytes[from..to].fill(0);
        fs::write(file, bytes).expect("it is ours");
    }
    let server = site.serve(&text);
    server.expect_alert("has another body than was written");
    let port = server.port("plain");
    for (target, (_, before)) in targets.iter().zip(damaged) {
        let response = wire::get(port, target);
        assert_eq!(verdict(&response), "MISS", "{target}");
        assert_ne!(response.body, *before);
        assert_eq!(wait_for_hit(&server, target).body, response.body);
    }
    let whole = wire::get(port, "/20008");
    assert_eq!(verdict(&whole), "HIT");
    assert_eq!(whole.body, last.1);
    let said = server.error_log();
    let lines = said.matches("has another body than was written").count();
    assert_eq!(lines, damaged.len(), "{said}");
}

#[test]
fn a_directory_that_cannot_be_written_costs_only_the_cache() {
    sealane_needs::root();
    let site = Site::new();
    let (origin, _) = counting();
    let server = site.serve(&http("use_temp_path=off", &pass(origin.port(), "")));
    server.expect_alert("the response is not cached");
    let port = server.port("plain");
    let set = |mode| {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(site.path("cache"), permissions).expect("it is ours");
    };
    set(0o500);
    let response = wire::get(port, "/a");
    assert_eq!(verdict(&response), "MISS");
    server.wait_for_log("the response is not cached");
    let response = wire::get(port, "/a");
    assert_eq!(
        (verdict(&response), response.text().as_str()),
        ("MISS", "answer 2")
    );
    set(0o700);
    wire::get(port, "/a");
    let stored = wait_for_hit(&server, "/a").text();
    file_of(&site, "/a");
    // The directory goes, and comes back with the next response.
    fs::remove_dir_all(site.path("cache")).expect("it is ours");
    wait_for_miss(port, "/a", &stored);
}

#[test]
fn a_full_disk_costs_only_the_cache() {
    let site = Site::new();
    for name in ["cache", "temp"] {
        fs::create_dir(site.path(name)).expect("new");
    }
    let small = site.path("cache").display().to_string();
    let mount = format!("mount -t tmpfs -o size=1m,mode=777 none {small}");
    if command("unshare", &["-m", "sh", "-c", &mount], b"").status != 0 {
        sealane_needs::root();
        return sealane_needs::leave_out("not even root may mount here (CAP_SYS_ADMIN)");
    }
    let origin = Origin::answering(|asked: &Asked| {
        let bytes = if asked.target() == "/large" {
            8 << 20
        } else {
            100
        };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
        Answer::Send([head.as_bytes(), &vec![b'x'; bytes]].concat())
    });
    let wrapper = format!("{mount} && exec \"$0\" \"$@\"");
    let text = http("use_temp_path=off", &pass(origin.port(), ""));
    let server = Server::start_under(
        &site,
        Program::Sealane,
        &format!("error_log logs/error.log notice; events {{}} http {{ access_log off; {text} }}"),
        &["unshare", "-m", "sh", "-c", &wrapper],
    );
    server.expect_alert("No space left on device");
    let port = server.port("plain");
    for _ in 0..2 {
        let response = wire::get(port, "/large");
        assert_eq!((verdict(&response), response.body.len()), ("MISS", 8 << 20));
    }
    server.wait_for_log("No space left on device");
    wire::get(port, "/small");
    wait_for_hit(&server, "/small");
    assert_eq!(origin.take_asked().len(), 3);
}

#[test]
fn what_is_too_much_or_too_old_goes() {
    let site = Site::new();
    let origin = Origin::answering(|_: &Asked| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 20_000);
        Answer::Send([head.as_bytes(), &[b'x'; 20_000]].concat())
    });
    let text = http("max_size=100k manager_sleep=10ms", &pass(origin.port(), ""));
    let text = format!(
        "proxy_cache_path old keys_zone=two:1m inactive=1s;
         {text} server {{ listen 127.0.0.1:%other%; proxy_cache two; proxy_cache_valid 1h;
             location / {{ proxy_pass http://127.0.0.1:{}; }} }}",
        origin.port()
    );
    let server = site.serve(&text);
    let other = server.port("other");
    wire::get(other, "/a");
    wait_for("a file", || {
        (files_below(site.path("old")).len() == 1).then_some(())
    });
    for number in 0..20 {
        wire::get(server.port("plain"), &format!("/{number}"));
    }
    wait_for("the oldest to go", || {
        let files = files_below(site.path("cache")).len();
        (1..=5).contains(&files).then_some(())
    });
    // The newest is there.
    wait_for_hit(&server, "/19");
    wait_for("what nobody wants to go", || {
        files_below(site.path("old")).is_empty().then_some(())
    });
}
