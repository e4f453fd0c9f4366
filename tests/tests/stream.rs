//! Sessions of layer 4: the `stream` block.

use sealane_tests::layer4::{Origin, connect, echo};
use sealane_tests::{PATIENCE, Program, Server, Site, wait_for};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

#[path = "stream/as_nginx.rs"]
mod as_nginx;
#[path = "stream/generated.rs"]
mod generated;
#[path = "stream/kept.rs"]
mod kept;
#[path = "stream/life.rs"]
mod life;
#[path = "stream/log.rs"]
mod log;
#[path = "stream/pass.rs"]
mod pass;
#[path = "stream/tls.rs"]
mod tls;

/// A configuration with this `stream` block.
fn configuration(stream: &str) -> String {
    format!(
        "worker_processes 2; error_log logs/error.log info; pid logs/pid;
         events {{ worker_connections 2000; }} stream {{ {stream} }}"
    )
}

fn serve<'s>(site: &'s Site, stream: &str) -> Server<'s> {
    site.serve_whole(&configuration(stream))
}

/// Sends a text and reads the same text back.
#[track_caller]
fn says_back(socket: &mut TcpStream, text: &str) {
    socket.write_all(text.as_bytes()).expect("it is taken");
    let mut got = vec![0; text.len()];
    socket.read_exact(&mut got).expect("it comes back");
    assert_eq!(String::from_utf8_lossy(&got), text);
}

/// Everything up to the end of the connection.
#[track_caller]
fn rest(socket: &mut TcpStream) -> String {
    let mut got = Vec::new();
    socket.read_to_end(&mut got).expect("it ends");
    String::from_utf8_lossy(&got).into_owned()
}

/// Waits until the access log has all of these lines, among those of connections that have only
/// looked whether the server listens.
#[track_caller]
fn wait_for_lines(site: &Site, expected: &[&str]) {
    wait_for(&format!("{expected:?} in the access log"), || {
        let text = std::fs::read_to_string(site.path("logs/stream.log")).ok()?;
        let mut lines: Vec<&str> = text.lines().collect();
        for expected in expected {
            let at = lines.iter().position(|line| line == expected)?;
            lines.swap_remove(at);
        }
        Some(())
    });
}
