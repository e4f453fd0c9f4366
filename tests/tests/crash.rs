//! A worker that dies: what the log says, how soon the next one serves, and what a core dump
//! does not hold.

use sealane_tests::{
    Certificate, CertificateKey, Program, Server, Site, command, sealane_binary, wait_for, wire,
};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

const SERVE: &str = "
    error_log logs/error.log notice;
    MAIN
    events { worker_connections 64; }
    http {
        access_log off;
        server { listen 127.0.0.1:%plain%; root html; }
        server {
            listen 127.0.0.1:%tls% ssl;
            ssl_certificate certificates/site.pem;
            ssl_certificate_key certificates/site.key;
            ssl_session_ticket_key tickets.key;
            root html;
        }
    }";

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::Rsa));
    site.write("html/a.txt", b"hello");
    site.write("tickets.key", TICKET_KEY);
    site
}

/// 16 bytes of name, 32 and 32 of keys.
const TICKET_KEY: &[u8; 80] =
    b"name-of-the-key.must-not-be-found-in-a-core-file.nor-these-bytes-of-the-other.kb";

#[track_caller]
fn start<'a>(site: &'a Site, main: &str) -> Server<'a> {
    let server = Server::start(site, Program::Sealane, &SERVE.replace("MAIN", main));
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    for alert in [
        "crashed: signal",
        "exited on signal",
        "#",
        "names of these",
        "keep dying",
    ] {
        server.expect_alert(alert);
    }
    server
}

/// Kills the worker and returns the process id of the next one.
#[track_caller]
fn kill(server: &Server<'_>, signal: &str) -> u32 {
    let worker = server.worker_pid();
    command("kill", &[&format!("-{signal}"), &worker.to_string()], b"").success();
    let next = wait_for("another worker", || {
        let workers = server.worker_pids();
        workers.first().filter(|pid| **pid != worker).copied()
    });
    // The connection waits in the queue of the socket that stayed open.
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    next
}

#[test]
fn the_log_has_signal_build_and_stack_and_the_next_worker_serves() {
    let site = site();
    let server = start(&site, "");
    for (signal, name) in [
        ("SEGV", "signal 11 (SIGSEGV)"),
        ("BUS", "signal 7 (SIGBUS)"),
        ("ILL", "signal 4 (SIGILL)"),
        ("FPE", "signal 8 (SIGFPE)"),
        ("ABRT", "signal 6 (SIGABRT)"),
    ] {
        kill(&server, signal);
        let line = server.wait_for_log(name);
        assert!(line.contains("[alert]"), "{line}");
        assert!(line.contains("worker process crashed"), "{line}");
        assert!(line.contains("thread \"sealane: worker\""), "{line}");
        let id = line.rsplit_once("build id ").expect("a build id").1;
        let notes = command(
            "readelf",
            &["-n", &sealane_binary().display().to_string()],
            b"",
        );
        assert!(notes.success().text().contains(id), "{id}");
    }
    let log = server.error_log();
    let names = log
        .lines()
        .find_map(|line| Some(line.split_once("names of these: ")?.1));
    let words: Vec<&str> = names.expect("a command").split(' ').collect();
    assert_eq!(words[0], "addr2line");
    let names = command(words[0], &words[1..], b"").success().text();
    assert!(names.contains("worker_process"), "{names}");
}

#[test]
fn a_master_that_crashes_says_so_as_well() {
    let site = site();
    let server = start(&site, "");
    server.expect_alert("master process");
    let text = server.error_log();
    assert!(!text.contains("crashed"), "{text}");
    let (master, worker) = (server.pid(), server.worker_pid());
    // It must not be stopped by the harness, which has to see that it is dead.
    let status = server.stop("SEGV");
    assert!(!status.success());
    let text = std::fs::read_to_string(site.path("logs/error.log")).expect("a log");
    assert!(
        text.contains("master process crashed: signal 11 (SIGSEGV)"),
        "{text}"
    );
    assert!(text.contains(&format!("{master}#{master}: #0 ")), "{text}");
    wait_for("the worker to end", || {
        let gone = !PathBuf::from(format!("/proc/{worker}/exe")).exists();
        gone.then_some(())
    });
}

/// What must not be found: the key file's lines, the primes and the private exponent as the
/// library and as its files have them, and the ticket keys.
#[track_caller]
fn secrets(site: &Site) -> Vec<(String, Vec<u8>)> {
    let key = site.path("certificates/site.key");
    let text = std::fs::read_to_string(&key).expect("a key");
    let lines = text.lines().filter(|line| line.len() == 64);
    let mut secrets: Vec<(String, Vec<u8>)> = lines
        .enumerate()
        .map(|(index, line)| (format!("line {index} of the key file"), line.into()))
        .collect();
    let key = key.display().to_string();
    let numbers = command("openssl", &["rsa", "-in", &key, "-noout", "-text"], b"").success();
    let numbers = numbers.text();
    for name in [
        "privateExponent",
        "prime1",
        "prime2",
        "exponent1",
        "exponent2",
        "coefficient",
    ] {
        let from = numbers.split_once(&format!("{name}:")).expect(name).1;
        let digits = from
            .lines()
            .skip(1)
            .take_while(|line| line.starts_with(' '));
        let digits: String = digits.flat_map(|line| line.chars()).collect();
        let bytes = digits.trim().split(':').map(str::trim);
        let big: Vec<u8> = bytes
            .map(|byte| u8::from_str_radix(byte, 16).expect("hexadecimal digits"))
            .skip_while(|byte| *byte == 0)
            .collect();
        let little: Vec<u8> = big.iter().rev().copied().collect();
        // A part would be enough for whoever finds it.
        secrets.push((format!("{name} as in files"), big[..32].to_vec()));
        secrets.push((format!("{name} as in memory"), little[..32].to_vec()));
    }
    secrets.push(("a ticket key".into(), TICKET_KEY[16..48].to_vec()));
    secrets.push(("the other ticket key".into(), TICKET_KEY[48..].to_vec()));
    secrets
}

fn found<'a>(secrets: &'a [(String, Vec<u8>)], memory: &[u8]) -> Vec<&'a str> {
    let within = |(name, secret): &'a (String, Vec<u8>)| {
        let first = secret[0];
        let mut starts = memory
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == first);
        let is_there = starts.any(|(at, _)| memory[at..].starts_with(secret));
        is_there.then_some(name.as_str())
    };
    secrets.iter().filter_map(within).collect()
}

/// The memory of a process that `/proc/PID/maps` says can be read.
fn live_memory(pid: u32) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).expect("it may be read");
    let mut all = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" rw-p ")) {
        let range = line
            .split(' ')
            .next()
            .and_then(|range| range.split_once('-'));
        let (start, end) = range.expect("a range");
        let address = |text| u64::from_str_radix(text, 16).expect("an address");
        let mut page = [0; 4096];
        // Most of the heap's addresses have never been written to.
        for at in resident_pages(pid, address(start), address(end)) {
            if memory.read_exact_at(&mut page, at).is_ok() {
                all.extend(page);
            }
        }
    }
    all
}

/// Addresses of pages that have memory, by `/proc/PID/pagemap`.
fn resident_pages(pid: u32, start: u64, end: u64) -> Vec<u64> {
    use std::os::unix::fs::FileExt;
    let map = std::fs::File::open(format!("/proc/{pid}/pagemap")).expect("it runs");
    let mut pages = Vec::new();
    let mut entries = vec![0; 8 << 16];
    let mut at = start / 4096;
    while at < end / 4096 {
        let count = ((end / 4096 - at) as usize).min(1 << 16);
        let entries = &mut entries[..count * 8];
        map.read_exact_at(entries, at * 8)
            .expect("an entry for each page");
        let (words, _) = entries.as_chunks::<8>();
        let present = words.iter().enumerate();
        let present = present.filter(|(_, word)| u64::from_le_bytes(**word) >> 62 != 0);
        pages.extend(present.map(|(index, _)| (at + index as u64) * 4096));
        at += count as u64;
    }
    pages
}

/// The core file that the kernel or, where that sends them elsewhere, the debugger makes.
#[track_caller]
fn core_of(site: &Site, server: &Server<'_>) -> Vec<u8> {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").expect("procfs");
    let worker = server.worker_pid();
    let elsewhere = pattern.starts_with(['|', '/']) || pattern.contains('%');
    let path = if elsewhere {
        let file = site.path(format!("logs/core.{worker}"));
        let prefix = site.path("logs/core").display().to_string();
        command("gcore", &["-o", &prefix, &worker.to_string()], b"").success();
        file
    } else {
        kill(server, "SEGV");
        server.wait_for_log("(core dumped)");
        let directory = std::fs::read_dir(site.path("cores")).expect("there");
        let mut names = directory.map(|entry| entry.expect("readable").path());
        names.next().expect("a core file")
    };
    std::fs::read(path).expect("a core file")
}

#[test]
fn a_core_dump_has_the_stacks_and_no_secrets() {
    let site = site();
    // The worker's user has to be able to write there.
    let directory = site.path("cores");
    std::fs::create_dir(&directory).expect("the site is writable");
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&directory, open).expect("it is ours");
    let directory = directory.display().to_string();
    let main = format!("worker_processes 2; worker_rlimit_core 1g; working_directory {directory};");
    let server = start(&site, &main);
    let address = format!("https://localhost:{}/a.txt", server.port("tls"));
    for _ in 0..20 {
        let arguments = [
            "-sk",
            "--tls-max",
            "1.2",
            "--ciphers",
            "ECDHE-RSA-AES128-GCM-SHA256",
            &address,
        ];
        let outcome = command("curl", &arguments, b"").success();
        assert_eq!(outcome.text(), "hello");
    }
    let secrets = secrets(&site);
    let alive = found(&secrets, &live_memory(server.worker_pid()));
    assert!(
        alive.contains(&"prime1 as in memory"),
        "{alive:?}: the search works"
    );
    assert!(
        alive.contains(&"a ticket key"),
        "{alive:?}: the search works"
    );
    let core = core_of(&site, &server);
    assert!(core.starts_with(b"\x7fELF"));
    assert_eq!(found(&secrets, &core), [""; 0]);
    // It is a whole one: the stacks have the name of the program and the way to its threads.
    assert!(
        found(
            &[("environment".into(), b"sealane: worker".to_vec())],
            &core
        )
        .len()
            == 1
    );
    assert!(core.len() > 1 << 16, "{} bytes", core.len());
}
