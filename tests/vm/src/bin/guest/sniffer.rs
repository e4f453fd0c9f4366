//! What is on the wire, by tcpdump.

use crate::client::KEY_LOG;
use crate::program::{self, wait_for};
use sealane_vm::wire::{Conversation, KeyLog, ServerStream, conversations};
use std::io::Read;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};

const FILE: &str = "/tmp/capture.pcap";
/// Nobody listens there; a datagram to it marks the end of a capture.
const MARK_PORT: u16 = 9;
const MARK: &[u8] = b"end of this capture";

/// A capture of one server port, from now on. The key log starts empty with it.
pub(crate) struct Sniffer {
    child: Child,
    port: u16,
}

/// One connection, opened.
pub(crate) struct Seen {
    /// The bytes of both directions.
    pub(crate) raw: Conversation,
    /// The server's records.
    pub(crate) server: ServerStream,
}

impl Sniffer {
    #[track_caller]
    pub(crate) fn start(port: u16) -> Sniffer {
        let _ = std::fs::remove_file(FILE);
        std::fs::write(KEY_LOG, b"").expect("/tmp is writable");
        let mut child = Command::new("tcpdump")
            // The kernel's buffer is in KiB; a whole download has to fit.
            .args([
                "-i", "lo", "-s", "262144", "-B", "65536", "-U", "-Z", "root", "-w", FILE,
            ])
            .arg(format!("(tcp port {port}) or (udp dst port {MARK_PORT})"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the image has tcpdump");
        let mut stderr = child.stderr.take().expect("standard error is a pipe");
        let mut said = Vec::new();
        while !String::from_utf8_lossy(&said).contains("listening on") {
            let mut buffer = [0; 512];
            let count = stderr.read(&mut buffer).unwrap_or(0);
            assert_ne!(count, 0, "tcpdump: {}", String::from_utf8_lossy(&said));
            said.extend_from_slice(&buffer[..count]);
        }
        child.stderr = Some(stderr);
        Sniffer { child, port }
    }

    /// Every connection since the start, in order, each with the server's records opened.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Vec<Seen> {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
        // The answer is an ICMP error, which does not matter.
        let _ = socket.send_to(MARK, ("127.0.0.1", MARK_PORT));
        // Connections that are over still have a delayed acknowledgement or two to say, which
        // may follow the mark.
        wait_for("tcpdump to write the end mark", || {
            let captured = std::fs::read(FILE).ok()?;
            let mut places = captured.windows(MARK.len());
            places.rposition(|bytes| bytes == MARK)
        });
        program::signal("INT", self.child.id());
        program::wait(&mut self.child, program::LIMIT);
        let captured = std::fs::read(FILE).expect("tcpdump has written it");
        let key_log = std::fs::read_to_string(KEY_LOG).expect("the sniffer made it");
        let found = conversations(&captured, self.port).expect("the capture is whole");
        assert!(
            !found.is_empty(),
            "no connection to port {} was captured",
            self.port
        );
        found
            .into_iter()
            .map(|raw| {
                let server = ServerStream::open(&raw.to_server, &raw.to_client, KeyLog(&key_log));
                let server = server.unwrap_or_else(|error| panic!("{error}"));
                Seen { raw, server }
            })
            .collect()
    }

    /// The only connection since the start.
    #[track_caller]
    pub(crate) fn finish_one(self) -> Seen {
        let mut all = self.finish();
        assert_eq!(all.len(), 1, "connections in the capture");
        all.remove(0)
    }
}

impl Drop for Sniffer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
