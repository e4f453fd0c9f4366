//! A client that follows a script.

use super::*;
use sealane_tests::layer4::connect_from;
use std::io::ErrorKind;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

/// What a client does next.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Sends this, and waits for a complete response.
    Say(String),
    /// The same in single bytes.
    Spell(String),
    /// Only sends this.
    Tell(String),
    /// Only waits.
    Hear,
    /// Waits until this has been heard.
    Until(String),
    /// Waits until the server has closed the connection.
    Wait,
    /// Does a TLS handshake with these options of `openssl s_client`.
    Tls(String),
    /// Sends bytes, and closes the connection with a reset.
    Reset,
}

/// How long a client waits for a response that should not be missing.
const RESPONSE: Duration = Duration::from_secs(20);

/// A client of one of the protocols.
pub(super) struct Client {
    protocol: Protocol,
    wire: Wire,
    own: SocketAddr,
    /// The last thing that was said, as responses may depend on it.
    said: String,
}

enum Wire {
    Plain(TcpStream),
    Tls(Tls),
    Gone,
}

/// `openssl s_client` on a connection that was there before.
struct Tls {
    child: Child,
    output: Receiver<Vec<u8>>,
}

impl Drop for Tls {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

enum Got {
    Bytes(Vec<u8>),
    End,
    Nothing,
}

impl Client {
    /// Connects from this address.
    #[track_caller]
    pub(super) fn connect(protocol: Protocol, from: Ipv4Addr, port: u16) -> Client {
        let socket = connect_from(from, port);
        Client {
            protocol,
            own: socket.local_addr().expect("it is connected"),
            wire: Wire::Plain(socket),
            said: String::new(),
        }
    }

    pub(super) fn own_port(&self) -> u16 {
        self.own.port()
    }

    /// Follows the script to the end of the connection, and returns what it has seen.
    pub(super) fn follow(&mut self, steps: &[Step]) -> String {
        let mut seen = self.follow_on(steps);
        self.stop();
        let _ = writeln!(seen, "{} END", self.rest().escape_ascii());
        seen
    }

    /// The same without the end.
    pub(super) fn follow_on(&mut self, steps: &[Step]) -> String {
        let mut seen = Vec::new();
        for step in steps {
            match step {
                Step::Say(text) => {
                    self.said.clone_from(text);
                    self.tell(&unescaped(text));
                    seen.extend(self.hear());
                }
                Step::Spell(text) => {
                    self.said.clone_from(text);
                    for byte in unescaped(text) {
                        self.tell(&[byte]);
                        thread::sleep(Duration::from_micros(300));
                    }
                    seen.extend(self.hear());
                }
                Step::Tell(text) => self.tell(&unescaped(text)),
                Step::Hear => seen.extend(self.hear()),
                Step::Until(text) => {
                    while !String::from_utf8_lossy(&seen).contains(text) {
                        match self.get(RESPONSE) {
                            Got::Bytes(bytes) => seen.extend(bytes),
                            Got::End | Got::Nothing => break,
                        }
                    }
                }
                Step::Wait => seen.extend(self.rest()),
                Step::Tls(options) => self.start_tls(options),
                Step::Reset => {
                    if let Wire::Plain(socket) = &self.wire {
                        let reset = socket2::SockRef::from(socket);
                        let _ = reset.set_linger(Some(Duration::ZERO));
                    }
                    self.wire = Wire::Gone;
                }
            }
        }
        seen.escape_ascii().to_string()
    }

    /// Whether the server has not closed the connection. What it has said is read meanwhile.
    pub(super) fn is_open(&mut self) -> bool {
        !matches!(self.get(Duration::from_millis(1)), Got::End)
    }

    /// Sends up to so many bytes, until nothing more is taken, and returns how many were.
    pub(super) fn flood(&mut self, most: usize) -> usize {
        let Wire::Plain(socket) = &mut self.wire else {
            panic!("it is a plain connection");
        };
        let pause = Some(Duration::from_millis(300));
        socket.set_write_timeout(pause).expect("not zero");
        let piece = [b'x'; 65_536];
        let mut sent = 0;
        while sent < most {
            match socket.write(&piece) {
                Ok(count) => sent += count,
                Err(_) => break,
            }
        }
        sent
    }

    pub(super) fn tell(&mut self, bytes: &[u8]) {
        // Who is refused hears of it next.
        let _ = match &mut self.wire {
            Wire::Plain(socket) => socket.write_all(bytes),
            Wire::Tls(tls) => {
                let input = tls.child.stdin.as_mut();
                input.map_or(Ok(()), |input| input.write_all(bytes))
            }
            Wire::Gone => Ok(()),
        };
    }

    /// Ends what it sends.
    fn stop(&mut self) {
        match &mut self.wire {
            Wire::Plain(socket) => drop(socket.shutdown(Shutdown::Write)),
            // It does not say so to the server: everything has been heard.
            Wire::Tls(tls) => {
                let _ = tls.child.kill();
            }
            Wire::Gone => {}
        }
    }

    /// A complete response, or what there is at the end of the connection.
    pub(super) fn hear(&mut self) -> Vec<u8> {
        let mut heard = Vec::new();
        while !self.is_complete(&heard) {
            match self.get(RESPONSE) {
                Got::Bytes(bytes) => heard.extend_from_slice(&bytes),
                Got::End => {
                    break;
                }
                Got::Nothing => {
                    heard.extend_from_slice(b" NOTHING");
                    break;
                }
            }
        }
        heard
    }

    fn rest(&mut self) -> Vec<u8> {
        let mut heard = Vec::new();
        loop {
            match self.get(RESPONSE) {
                Got::Bytes(bytes) => heard.extend_from_slice(&bytes),
                Got::End => return heard,
                Got::Nothing => {
                    heard.extend_from_slice(b" OPEN");
                    return heard;
                }
            }
        }
    }

    fn get(&mut self, patience: Duration) -> Got {
        let mut piece = [0; 16_384];
        match &mut self.wire {
            Wire::Plain(socket) => {
                socket.set_read_timeout(Some(patience)).expect("not zero");
                match socket.read(&mut piece) {
                    Ok(0) => Got::End,
                    Ok(count) => Got::Bytes(piece[..count].to_vec()),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => Got::Nothing,
                    Err(_) => Got::End,
                }
            }
            Wire::Tls(tls) => match tls.output.recv_timeout(patience) {
                Ok(bytes) => Got::Bytes(bytes),
                Err(RecvTimeoutError::Timeout) => Got::Nothing,
                Err(RecvTimeoutError::Disconnected) => Got::End,
            },
            Wire::Gone => Got::End,
        }
    }

    fn is_complete(&self, heard: &[u8]) -> bool {
        let text = String::from_utf8_lossy(heard);
        let Some(whole) = text.strip_suffix('\n') else {
            return false;
        };
        let last = whole.rsplit('\n').next().unwrap_or_default();
        let last = last.trim_end_matches('\r');
        match self.protocol {
            Protocol::Imap => {
                !last.starts_with("* ") || last.contains("BAD") || self.said.is_empty()
            }
            Protocol::Smtp => last.as_bytes().get(3) != Some(&b'-'),
            Protocol::Pop3 => {
                let said = self.said.to_ascii_uppercase();
                let is_list = said.trim() == "AUTH" || said.starts_with("CAPA");
                // Behind a login, what was said comes back.
                !is_list || last == "." || !text.starts_with("+OK")
            }
        }
    }

    /// TLS on the connection from now on. `openssl` connects to here, and its bytes are passed on.
    fn start_tls(&mut self, options: &str) {
        let Wire::Plain(socket) = std::mem::replace(&mut self.wire, Wire::Gone) else {
            panic!("TLS begins on a plain connection");
        };
        socket.set_read_timeout(None).expect("it is connected");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let mut child = Command::new("openssl")
            .args(["s_client", "-quiet", "-connect", &address])
            .args(options.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl runs");
        let (theirs, _) = listener.accept().expect("openssl connects");
        let both = (socket.try_clone(), theirs.try_clone());
        let (Ok(socket_too), Ok(theirs_too)) = both else {
            panic!("too many files");
        };
        thread::spawn(move || copy(theirs_too, socket_too));
        thread::spawn(move || copy(socket, theirs));
        let (give, output) = channel();
        let mut stdout = child.stdout.take().expect("a pipe");
        thread::spawn(move || {
            let mut piece = [0; 16_384];
            while let Ok(count @ 1..) = stdout.read(&mut piece) {
                if give.send(piece[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        self.wire = Wire::Tls(Tls { child, output });
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

/// Text with `\xNN` for other bytes.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut parts = text.split("\\x");
    bytes.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        let byte = u8::from_str_radix(&part[..2], 16).expect("two hexadecimal digits");
        bytes.push(byte);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes
}
