//! systemd's journal: where stderr leads to it, lines of the error log arrive with their fields.
//!
//! The journal's socket has a fixed path, so the server runs in a mount namespace in which a socket
//! of the test is there. Records are read as <https://systemd.io/JOURNAL_NATIVE_PROTOCOL/> says.

use sealane_tests::{PATIENCE, Program, Server, Site, wire};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;

/// A journal in a directory of the site, and the wrapper that puts it where servers look for it.
/// `stream` is what systemd says of stderr.
fn journal(site: &Site, stream: &str) -> (UnixDatagram, String) {
    let directory = site.path("journal");
    std::fs::create_dir_all(&directory).expect("the site is writable");
    let path = directory.join("socket");
    let _ = std::fs::remove_file(&path);
    let socket = UnixDatagram::bind(&path).expect("the site is writable");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let all = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(&path, all).expect("it is ours");
    let launch = format!(
        "mount -t tmpfs none /run && mkdir -p /run/systemd/journal \
         && mount --bind {} /run/systemd/journal \
         && export JOURNAL_STREAM={stream} && exec \"$@\"",
        directory.display()
    );
    (socket, launch)
}

/// Device and inode of stderr, as the shell sees it.
const STDERR: &str = "$(stat -L -c %d:%i /proc/self/fd/2)";

fn start<'a>(site: &'a Site, launch: &str, error_log: &str) -> Server<'a> {
    let text = format!(
        "error_log {error_log}; events {{ }} http {{ access_log off; server {{
            listen 127.0.0.1:%plain%; server_name one.test; root html; }} }}"
    );
    let wrapper = ["unshare", "--mount", "sh", "-c", launch, "sh"];
    Server::start_under(site, Program::Sealane, &text, &wrapper)
}

/// The next record: its fields. Names are those that the protocol allows.
fn next_record(journal: &UnixDatagram) -> BTreeMap<String, String> {
    let mut buffer = vec![0; 256 << 10];
    let count = journal.recv(&mut buffer).expect("a record");
    let mut rest = &buffer[..count];
    let mut fields = BTreeMap::new();
    while !rest.is_empty() {
        let end = rest
            .iter()
            .position(|byte| *byte == b'\n')
            .expect("a field ends");
        let line = &rest[..end];
        let (name, value, next) = match line.iter().position(|byte| *byte == b'=') {
            Some(at) => (&line[..at], &line[at + 1..], &rest[end + 1..]),
            None => {
                let (length, data) = rest[end + 1..].split_at(8);
                let length = u64::from_le_bytes(length.try_into().expect("8 bytes")) as usize;
                assert_eq!(data[length], b'\n');
                (line, &data[..length], &data[length + 1..])
            }
        };
        let of_name =
            |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
        assert!(
            !name.is_empty() && name.iter().all(of_name),
            "{}",
            name.escape_ascii()
        );
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        assert_eq!(fields.insert(text(name), text(value)), None);
        rest = next;
    }
    fields
}

/// The next record with this in its message.
fn next_with(journal: &UnixDatagram, part: &str) -> BTreeMap<String, String> {
    loop {
        let record = next_record(journal);
        if record["MESSAGE"].contains(part) {
            return record;
        }
    }
}

#[test]
fn lines_arrive_with_their_fields_and_no_client_can_forge_any() {
    sealane_needs::root();
    let site = Site::new();
    let (journal, launch) = journal(&site, STDERR);
    let server = start(&site, &launch, "stderr notice");
    let started = next_with(&journal, "start worker process");
    assert_eq!(started["PRIORITY"], "5");
    assert_eq!(started["SYSLOG_IDENTIFIER"], "sealane");
    // In the worker, which is confined by now.
    let request = "GET /missing%0AMESSAGE=forged HTTP/1.1\r\nHost: a\tPRIORITY=0\r\n\
                   X: \nPRIORITY=1\r\nConnection: close\r\n\r\n";
    wire::request(server.port("plain"), request);
    wire::get_with(
        server.port("plain"),
        "/missing%0APRIORITY=0%0A",
        "Referer: x\u{85}MESSAGE=forged\r\n",
    );
    let record = next_with(&journal, "open() \"");
    let message = &record["MESSAGE"];
    assert!(
        message.contains("/missing\\x0APRIORITY=0\\x0A\" failed (2: No such file"),
        "{message}"
    );
    assert!(
        message.contains(", client: 127.0.0.1, server: one.test, request: \"GET "),
        "{message}"
    );
    assert!(!message.starts_with(char::is_numeric), "{message}");
    assert_eq!(record["PRIORITY"], "3");
    assert_eq!(record["SEALANE_CLIENT"], "127.0.0.1");
    assert_eq!(record["SEALANE_SERVER"], "one.test");
    assert_eq!(
        record["SEALANE_REQUEST"],
        "GET /missing%0APRIORITY=0%0A HTTP/1.1"
    );
    assert!(
        record["SEALANE_CONNECTION"]
            .parse::<u64>()
            .is_ok_and(|number| number > 0)
    );
    assert!(record["TID"].parse::<u32>().is_ok());
    assert!(
        !server.error_log().contains("open()"),
        "nothing is said twice"
    );
    // A reload leads to the same journal.
    server.signal("HUP");
    next_with(&journal, "reconfigured, worker process");
    wire::get(server.port("plain"), "/after");
    next_with(&journal, "/after\" failed");
}

#[test]
fn a_journal_that_is_gone_or_full_loses_no_line() {
    sealane_needs::root();
    let site = Site::new();
    let (journal, launch) = journal(&site, STDERR);
    let server = start(&site, &launch, "stderr notice");
    next_with(&journal, "start worker process");
    // Nobody reads: what does not fit into the queue of the socket waits.
    let count = 2000;
    for number in 0..count {
        wire::get(server.port("plain"), &format!("/{number}/"));
    }
    let mut seen = 0;
    while seen < count {
        let record = next_with(&journal, "is not found");
        assert!(
            record["MESSAGE"].contains(&format!("/{seen}/")),
            "{}",
            record["MESSAGE"]
        );
        seen += 1;
    }
    drop(journal);
    wire::get(server.port("plain"), "/gone/");
    let line = server.wait_for_log("/gone/");
    // As without a journal.
    assert!(line.contains(" [error] ") && line.contains(": *"), "{line}");
}

#[test]
fn without_the_journal_lines_go_to_stderr_as_ever() {
    sealane_needs::root();
    for stream in ["1:2", "\"\""] {
        let site = Site::new();
        let (journal, launch) = journal(&site, stream);
        let server = start(&site, &launch, "stderr notice");
        wire::get(server.port("plain"), "/missing");
        server.wait_for_log("/missing\" failed");
        journal.set_nonblocking(true).expect("a flag");
        let mut buffer = [0; 64];
        assert!(journal.recv(&mut buffer).is_err(), "{stream}");
    }
    // And files stay files.
    let site = Site::new();
    let (journal, launch) = journal(&site, STDERR);
    let server = start(&site, &launch, "logs/error.log notice");
    server.wait_for_log("start worker process");
    journal.set_nonblocking(true).expect("a flag");
    let mut buffer = [0; 64];
    assert!(journal.recv(&mut buffer).is_err());
}
