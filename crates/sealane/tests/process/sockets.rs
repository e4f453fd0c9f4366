//! Listening sockets: conflicts, `reuseport`, Unix sockets.

use crate::site::{Site, get, stderr};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};

#[test]
fn a_second_instance_gets_nginx_s_error_even_with_reuseport() {
    for listen in ["127.0.0.1:PORT", "127.0.0.1:PORT reuseport"] {
        let mut site = Site::serving("worker_processes 3;");
        let conf = fs::read_to_string(site.path("conf/nginx.conf")).unwrap();
        let address = site.address().to_string();
        site.configure(&conf.replace(&address, listen));
        site.start();
        let output = site.run(&[]);
        assert_eq!(output.status.code(), Some(1));
        let text = stderr(&output);
        let line =
            format!("sealane: [emerg] bind() to {address} failed (98: Address already in use)\n");
        assert_eq!(text.matches(&line).count(), 5, "{text}");
        assert!(
            text.ends_with("sealane: [emerg] still could not bind()\n"),
            "{text}"
        );
        // A test beside a running server is no conflict.
        assert!(site.run(&["-t"]).status.success());
        // Neither has disturbed the first.
        site.wait_until_it_answers();
        assert!(site.path("logs/sealane.pid").exists());
    }
}

#[test]
fn all_threads_of_a_reuseport_listener_serve() {
    let mut site = Site::serving("worker_processes 3;");
    let conf = fs::read_to_string(site.path("conf/nginx.conf")).unwrap();
    let address = site.address().to_string();
    site.configure(&conf.replace(&address, &format!("{address} reuseport")));
    site.start();
    // The kernel spreads connections; one without a thread behind it would hang.
    for _ in 0..64 {
        assert!(site.get().unwrap().ends_with("it works\n"));
    }
    let worker = site.worker();
    let listening = fs::read_to_string(format!("/proc/{worker}/net/tcp")).unwrap();
    let port = format!(":{:04X} 00000000:0000 0A", site.port);
    assert_eq!(listening.matches(&port).count(), 3, "one socket per thread");
}

#[test]
fn an_address_that_becomes_free_in_time_is_taken() {
    let mut site = Site::serving("");
    let other = TcpListener::bind(site.address()).unwrap();
    site.spawn();
    site.wait_for_text("stderr.txt", "bind() to");
    drop(other);
    site.wait_until_it_answers();
    assert!(
        site.text("logs/error.log")
            .contains("try again to bind() after 500ms")
    );
}

#[test]
fn unix_sockets_are_for_everybody_and_removed_at_the_end() {
    let mut site = Site::serving("");
    let socket = site.path("server.sock");
    let conf = fs::read_to_string(site.path("conf/nginx.conf")).unwrap();
    let listen = format!("listen unix:{}; listen 127", socket.display());
    site.configure(&conf.replacen("listen 127", &listen, 1));
    // Left behind by a process that was killed.
    drop(UnixListener::bind(&socket).unwrap());
    site.start();
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o666);
    assert!(
        get(UnixStream::connect(&socket).unwrap())
            .unwrap()
            .ends_with("it works\n")
    );
    assert!(
        site.text("logs/error.log")
            .contains("which a killed process had left behind")
    );
    // A test beside it leaves it alone, and so does a second instance.
    assert!(site.run(&["-t"]).status.success());
    assert_eq!(site.run(&[]).status.code(), Some(1));
    assert!(
        get(UnixStream::connect(&socket).unwrap())
            .unwrap()
            .ends_with("it works\n")
    );
    site.signal_master("QUIT");
    assert_eq!(site.wait_for_end(), Some(0));
    assert!(!socket.exists());
}

#[test]
fn an_ordinary_file_is_never_taken_for_a_stale_socket() {
    let site = Site::serving("");
    let file = site.path("precious");
    fs::write(&file, "data").unwrap();
    let conf = fs::read_to_string(site.path("conf/nginx.conf")).unwrap();
    let listen = format!("listen unix:{}; listen 127", file.display());
    site.configure(&conf.replacen("listen 127", &listen, 1));
    let output = site.run(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("failed (98: Address already in use)"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "data");
}
