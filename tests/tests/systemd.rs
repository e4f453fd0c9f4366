//! What a service manager is told, and the sockets that it hands over.

use sealane_tests::reload::{Reload, reload_as_it_is};
use sealane_tests::upgrade::{Daemon, runs, signal};
use sealane_tests::{PATIENCE, Program, Server, Site, wait_for, wire};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::Stdio;

const SERVE: &str = "
    pid logs/pid; error_log logs/error.log notice;
    events { worker_connections 64; }
    http { access_log off; server { LISTEN root html; } }";

fn site() -> Site {
    let site = Site::new();
    site.write("html/a.txt", b"hello");
    site
}

/// The service manager's end of `NOTIFY_SOCKET`, and the wrapper that announces it.
fn manager(site: &Site) -> (UnixDatagram, String) {
    let path = site.path("logs/notify");
    let socket = UnixDatagram::bind(&path).expect("the site is writable");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    (socket, format!("NOTIFY_SOCKET={}", path.display()))
}

#[track_caller]
fn next_message(manager: &UnixDatagram) -> String {
    let mut text = [0; 4096];
    let len = manager.recv(&mut text).expect("a message");
    String::from_utf8(text[..len].to_vec()).expect("text")
}

#[test]
fn the_manager_hears_of_start_reload_and_both_ends() {
    for (signal, worker_is_told) in [("QUIT", "gracefully shutting down"), ("TERM", "exiting")] {
        let site = site();
        let (manager, variable) = manager(&site);
        let text = SERVE.replace("LISTEN", "listen 127.0.0.1:%plain%;");
        let server = Server::start_under(&site, Program::Sealane, &text, &["env", &variable]);
        let ready = next_message(&manager);
        let lines: Vec<&str> = ready.lines().collect();
        assert!(lines.contains(&"READY=1"), "{ready}");
        let main_pid = format!("MAINPID={}", server.pid());
        assert!(lines.contains(&main_pid.as_str()), "{ready}");
        server.signal("HUP");
        let reloading = next_message(&manager);
        assert!(
            reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
            "{reloading}"
        );
        assert!(next_message(&manager).starts_with("READY=1\n"));
        assert!(server.stop(signal).success());
        assert!(
            next_message(&manager).starts_with("STOPPING=1\n"),
            "{signal}"
        );
        let log = std::fs::read_to_string(site.path("logs/error.log")).expect("a log");
        assert!(log.contains(worker_is_told), "{log}");
    }
}

#[test]
fn the_manager_hears_of_a_new_main_process_before_the_old_one_ends() {
    let site = site();
    let (manager, variable) = manager(&site);
    let listen = "listen 127.0.0.1:%plain%; ";
    let text = SERVE.replace("LISTEN", listen);
    let server = Daemon::start_under(&site, Program::Sealane, &text, &["env", &variable]);
    let old = server.pid();
    let ready = next_message(&manager);
    assert!(ready.contains(&format!("MAINPID={old}")), "{ready}");
    // A new one that goes again is nobody's business.
    let new = server.begin_upgrade();
    signal(new, "QUIT");
    server.wait_for_end(new);
    let new = server.begin_upgrade();
    signal(old, "QUIT");
    server.wait_for_end(old);
    let message = next_message(&manager);
    assert!(
        message.starts_with(&format!("MAINPID={new}\n")),
        "{message}"
    );
    let message = next_message(&manager);
    assert!(
        message.starts_with(&format!("READY=1\nMAINPID={new}\n")),
        "{message}"
    );
    signal(new, "QUIT");
    assert!(next_message(&manager).starts_with("STOPPING=1\n"));
    server.wait_for_end(new);
}

#[test]
fn a_manager_that_is_gone_or_hangs_stops_nobody() {
    let site = site();
    let (manager, variable) = manager(&site);
    // Its queue is full from the beginning.
    let filler = UnixDatagram::unbound().expect("a socket");
    filler.set_nonblocking(true).expect("a flag");
    while filler.send_to(b"X", site.path("logs/notify")).is_ok() {}
    let text = SERVE.replace("LISTEN", "listen 127.0.0.1:%plain%;");
    let server = Server::start_under(&site, Program::Sealane, &text, &["env", &variable]);
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    drop(manager);
    assert!(server.stop("QUIT").success());
}

/// Starts the server as systemd would, with this socket as descriptor 3.
#[track_caller]
fn start_with_socket<'a>(site: &'a Site, listen: &str, socket: OwnedFd) -> Server<'a> {
    start_whole_with_socket(site, &SERVE.replace("LISTEN", listen), socket)
}

/// The same with a whole configuration.
#[track_caller]
fn start_whole_with_socket<'a>(site: &'a Site, text: &str, socket: OwnedFd) -> Server<'a> {
    let launch = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web exec \"$@\"";
    Server::start_with(
        site,
        Program::Sealane,
        text,
        &["sh", "-c", launch, "sh"],
        Stdio::from(socket),
    )
}

#[test]
fn a_socket_of_the_manager_serves_the_listen_directive_with_its_address() {
    let site = site();
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = socket.local_addr().expect("bound").port();
    let kept = socket.try_clone().expect("a descriptor");
    let listen = format!("listen 127.0.0.1:{port}; listen 127.0.0.1:%other%;");
    let server = start_with_socket(&site, &listen, socket.into());
    for port in [port, server.port("other")] {
        assert_eq!(wire::get(port, "/a.txt").body, b"hello");
    }
    assert!(
        !server.error_log().contains("[warn]"),
        "{}",
        server.error_log()
    );
    // The server itself could not have bound an address that is in use, and after its end the
    // manager's socket still listens.
    assert!(server.stop("QUIT").success());
    let again = std::net::TcpStream::connect(("127.0.0.1", port));
    assert!(again.is_ok());
    drop(kept);
}

#[test]
fn a_datagram_socket_of_the_manager_has_sessions() {
    let echo = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let origin = echo.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        let mut piece = [0; 2048];
        while let Ok((count, from)) = echo.recv_from(&mut piece) {
            let _ = echo.send_to(&piece[..count], from);
        }
    });
    let asks = |from: &UdpSocket, text: &str| {
        from.send(text.as_bytes()).expect("it is sent");
        let mut piece = [0; 2048];
        let count = from.recv(&mut piece).expect("it comes back");
        assert_eq!(String::from_utf8_lossy(&piece[..count]), text);
    };
    let client = |port: u16| {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
        // An answer from another address does not arrive.
        socket.connect(("127.0.0.9", port)).expect("an address");
        socket
    };
    // With `reuseport` one socket for each thread is wanted, and this is the only one.
    for options in ["", " reuseport"] {
        let site = site();
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a port");
        let port = socket.local_addr().expect("bound").port();
        let kept = socket.try_clone().expect("a descriptor");
        // What came before the server waits in it.
        let early = client(port);
        early.send(b"early").expect("it is sent");
        let text = format!(
            "worker_processes 2; pid logs/pid; error_log logs/error.log notice; events {{ }}
             stream {{
                 server {{ listen {port} udp{options}; proxy_responses 1;
                          proxy_pass 127.0.0.1:{origin}; }}
                 server {{ listen 127.0.0.1:%ready%; return ready; }}
             }}"
        );
        let server = start_whole_with_socket(&site, &text, socket.into());
        let mut piece = [0; 16];
        assert_eq!(early.recv(&mut piece).expect("it is served"), 5);
        asks(&early, "again");
        asks(&client(port), "another");
        let log = server.error_log();
        assert!(!log.contains("[warn]"), "{log}");
        // It is the same socket after a reload and an upgrade, and the manager's in the end.
        assert_eq!(reload_as_it_is(&server), Reload::Applied);
        asks(&client(port), "after a reload");
        let old = server.pid();
        server.signal("USR2");
        let new: u32 = wait_for("the new master", || {
            let text = std::fs::read_to_string(site.path("logs/pid")).ok()?;
            text.trim().parse().ok().filter(|pid| *pid != old)
        });
        server.signal("QUIT");
        assert!(server.wait_for_exit().success());
        asks(&client(port), "after an upgrade");
        signal(new, "QUIT");
        wait_for("its end", || (!runs(new)).then_some(()));
        let late = client(port);
        late.send(b"late").expect("it is sent");
        kept.set_read_timeout(Some(PATIENCE)).expect("not zero");
        assert_eq!(kept.recv(&mut piece).expect("it waits in it"), 4);
    }
}

#[test]
fn a_unix_socket_of_the_manager_keeps_its_file() {
    let site = site();
    let path = site.path("logs/web");
    let socket = UnixListener::bind(&path).expect("the site is writable");
    let listen = format!("listen unix:{}; listen 127.0.0.1:%other%;", path.display());
    let server = start_with_socket(&site, &listen, socket.into());
    let mut stream = wait_for("a connection", || {
        std::os::unix::net::UnixStream::connect(&path).ok()
    });
    use std::io::{Read, Write};
    stream
        .write_all(b"GET /a.txt HTTP/1.0\r\nHost: x\r\n\r\n")
        .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.ends_with("hello"), "{answer}");
    let old = server.pid();
    server.signal("USR2");
    server.signal("QUIT");
    assert!(server.wait_for_exit().success());
    let new: u32 = wait_for("the pid file", || {
        let text = std::fs::read_to_string(site.path("logs/pid")).ok()?;
        text.trim().parse().ok().filter(|pid| *pid != old)
    });
    signal(new, "QUIT");
    wait_for("its end", || (!runs(new)).then_some(()));
    assert!(path.exists(), "it is the manager's");
}

#[test]
fn what_cannot_be_used_is_said_and_the_address_is_bound() {
    for (socket, expected) in [
        (
            OwnedFd::from(TcpListener::bind("127.0.0.1:0").expect("a port")),
            "no \"listen\" directive has this address",
        ),
        (
            OwnedFd::from(UdpSocket::bind("127.0.0.1:0").expect("a port")),
            "no \"listen ... udp\" directive has this address",
        ),
        (
            OwnedFd::from(UnixDatagram::unbound().expect("a socket")),
            "descriptor 3 (web) of LISTEN_FDS is not a listening stream socket",
        ),
    ] {
        let site = site();
        let server = start_with_socket(&site, "listen 127.0.0.1:%plain%;", socket);
        assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
        server.wait_for_log(expected);
    }
}

#[test]
fn descriptors_for_another_process_are_left_alone() {
    let site = site();
    let server = Server::start_under(
        &site,
        Program::Sealane,
        &SERVE.replace("LISTEN", "listen 127.0.0.1:%plain%;"),
        &["env", "LISTEN_PID=1", "LISTEN_FDS=1"],
    );
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    assert!(
        !server.error_log().contains("LISTEN_FDS"),
        "{}",
        server.error_log()
    );
}
