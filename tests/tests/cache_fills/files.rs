//! Files that somebody has changed, and directories that cannot be used.

use super::{counting, http, pass, verdict, wait_for_hit};
use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::{Program, Server, Site, command, wait_for, wire};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

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
        let before = files_below(site.path("cache"));
        wire::get(port, target);
        wait_for_hit(&server, target);
        expected += 1;
        let new = wait_for("a file", || {
            let mut files = files_below(site.path("cache")).into_iter();
            files.find(|file| !before.contains(file))
        });
        change(&new);
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
    wait_for_hit(&server, "/a");
    // The directory goes, and comes back with the next response.
    fs::remove_dir_all(site.path("cache")).expect("it is ours");
    wait_for_miss(port, "/a", "answer 3");
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
