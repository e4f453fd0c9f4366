//! Clients that are gone without a word: no packet comes from their addresses any more, and none
//! arrives there. What ends their sessions, and that the log says it.

use super::*;
use sealane_tests::command;
use std::process::Command;

/// Where the clients are that will be gone.
const GONE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 5);

/// Set where the test runs in a network of its own.
const INSIDE: &str = "SEALANE_TEST_NETWORK";

/// Runs the test with this name once more, in a network in which nobody else is. Whether this is
/// that run.
#[track_caller]
fn is_in_own_network(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    // An address each, so that one of them can go.
    let network = "set -e; ip link set lo up; ip address del 127.0.0.1/8 dev lo
         ip address add 127.0.0.1/32 dev lo; ip address add 127.0.0.5/32 dev lo; \"$@\"";
    let inside = |arguments: &[&str]| {
        let output = Command::new("unshare")
            .args(["-n", "sh", "-c", network, "sh"])
            .args(arguments)
            .env(INSIDE, "1")
            .output();
        output.expect("util-linux is installed")
    };
    if !inside(&["true"]).status.success() {
        sealane_needs::leave_out("no network of its own: that takes root and iproute2");
        return false;
    }
    let own = std::env::current_exe().expect("a test knows its own path");
    let output = inside(&[&own.display().to_string(), "--exact", test, "--nocapture"]);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.contains("1 passed"), "{stdout}");
    false
}

/// From now on nothing comes from there, and nothing arrives.
fn vanish() {
    let address = format!("{GONE}/32");
    command("ip", &["address", "del", &address, "dev", "lo"], b"").success();
    command("ip", &["route", "add", "blackhole", &address], b"").success();
}

/// Waits until these ports have nothing on the way to there. What is not acknowledged is sent again
/// and again, and as long as that goes on nobody is asked whether they are alive.
#[track_caller]
fn wait_for_acknowledgements(ports: &[u16]) {
    let own = u32::from_ne_bytes(GONE.octets());
    wait_for("acknowledgements", || {
        let table = std::fs::read_to_string("/proc/self/net/tcp").expect("it is mounted");
        let is_on_the_way = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let port = |field: &str| u16::from_str_radix(field.split(':').nth(1)?, 16).ok();
            let [_, local, remote, _, queues, ..] = fields[..] else {
                return false;
            };
            remote.starts_with(&format!("{own:08X}:"))
                && port(local).is_some_and(|port| ports.contains(&port))
                && !queues.starts_with("00000000:")
        };
        (!table.lines().any(is_on_the_way)).then_some(())
    });
}

#[test]
fn sessions_of_clients_that_are_gone_end() {
    if !is_in_own_network("vanished::sessions_of_clients_that_are_gone_end") {
        return;
    }
    let open: Arc<AtomicUsize> = Arc::default();
    let counted = |then: fn(TcpStream)| {
        let open = open.clone();
        Origin::doing(move |socket| {
            open.fetch_add(1, Ordering::SeqCst);
            then(socket);
            open.fetch_sub(1, Ordering::SeqCst);
        })
    };
    let echo = counted(echo);
    let talking = counted(|mut socket| while socket.write_all(&[b'x'; 65_536]).is_ok() {});
    let (site, behind) = (Site::new(), Behind::start());
    let server = site.serve_whole(&format!(
        "worker_processes 1; error_log logs/error.log info; pid logs/pid; events {{ }}
         stream {{
             server {{ listen 127.0.0.1:%idle%; proxy_timeout 2s; proxy_pass 127.0.0.1:{echo}; }}
             server {{ listen 127.0.0.1:%told%; proxy_timeout 2s; proxy_pass 127.0.0.1:{talking}; }}
             server {{ listen 127.0.0.1:%kept% so_keepalive=1:1:2; proxy_timeout 1h;
                       proxy_pass 127.0.0.1:{echo}; }}
             server {{ listen 127.0.0.1:%well%; return well; }}
         }}
         mail {{
             server_name mail.example; auth_http 127.0.0.1:{auth};
             server {{ listen 127.0.0.1:%dialogue%; protocol imap; timeout 2s; }}
             server {{ listen 127.0.0.1:%kept_dialogue% so_keepalive=1:1:2; protocol imap; timeout 1h; }}
             server {{ listen 127.0.0.1:%mailbox%; protocol imap; proxy_timeout 2s; }}
             server {{ listen 127.0.0.1:%kept_mailbox% so_keepalive=1:1:2; protocol imap;
                       proxy_timeout 1h; }}
         }}",
        auth = behind.auth.port,
        echo = echo.port,
        talking = talking.port,
    ));
    let hears = |socket: &mut TcpStream, end: &str| {
        let (mut heard, mut byte) = (Vec::new(), [0]);
        while !heard.ends_with(end.as_bytes()) {
            socket.read_exact(&mut byte).expect("a response");
            heard.push(byte[0]);
        }
    };
    let mut kept = Vec::new();
    for port in ["idle", "kept"] {
        let mut socket = connect_from(GONE, server.port(port));
        socket.write_all(b"hello").expect("it is taken");
        hears(&mut socket, "hello");
        kept.push(socket);
    }
    for port in ["dialogue", "kept_dialogue", "mailbox", "kept_mailbox"] {
        let mut socket = connect_from(GONE, server.port(port));
        hears(&mut socket, "\r\n");
        if port.ends_with("mailbox") {
            socket
                .write_all(b"a1 LOGIN jo pw\r\n")
                .expect("it is taken");
            hears(&mut socket, "a1 OK in\r\n");
        }
        kept.push(socket);
    }
    let mut reading = connect_from(GONE, server.port("told"));
    hears(&mut reading, "xxx");
    thread::spawn(move || while let Ok(1..) = reading.read(&mut [0; 65_536]) {});
    let quiet = [
        "idle",
        "kept",
        "dialogue",
        "kept_dialogue",
        "mailbox",
        "kept_mailbox",
    ];
    wait_for_acknowledgements(&quiet.map(|port| server.port(port)));
    vanish();
    let end_of = |port: &str| {
        let address = format!("server: 127.0.0.1:{}", server.port(port));
        wait_for(
            &format!("the end of {port}:\n{}", server.error_log()),
            || {
                let log = server.error_log();
                let mut lines = log.lines().filter(|line| line.contains(&address));
                let line = lines.find(|line| line.contains("(110: Connection timed out)"))?;
                assert!(line.contains("client: 127.0.0.5"), "{line}");
                Some(line.to_owned())
            },
        )
    };
    for (port, expected) in [
        (
            "idle",
            "connection timed out (110: Connection timed out) while proxying connection",
        ),
        (
            "told",
            "connection timed out (110: Connection timed out) while proxying connection",
        ),
        (
            "kept",
            "recv() or send() failed (110: Connection timed out) while proxying and reading from client",
        ),
        (
            "dialogue",
            "client timed out (110: Connection timed out) while",
        ),
        (
            "kept_dialogue",
            "recv() or send() failed (110: Connection timed out) while in auth state",
        ),
        (
            "mailbox",
            "timed out (110: Connection timed out) while proxying",
        ),
        (
            "kept_mailbox",
            "recv() or send() failed (110: Connection timed out) while proxying",
        ),
    ] {
        let line = end_of(port);
        assert!(line.contains(expected), "{port}: {line}");
    }
    wait_for("the end behind the server", || {
        (open.load(Ordering::SeqCst) == 0).then_some(())
    });
    let mut well = String::new();
    connect(server.port("well"))
        .read_to_string(&mut well)
        .expect("it ends");
    assert_eq!(well, "well");
    drop(kept);
}
