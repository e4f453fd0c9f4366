//! A name server over UDP that answers as a test configures it: IPv4 addresses, and names of
//! addresses.

use std::collections::HashMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A name server on a port of its own, until it is dropped.
#[derive(Debug)]
pub struct NameServer {
    address: Ipv4Addr,
    port: u16,
    zone: Arc<Zone>,
}

#[derive(Debug, Default)]
struct Zone {
    names: Mutex<HashMap<String, Vec<Ipv4Addr>>>,
    pointers: Mutex<HashMap<String, String>>,
    failures: Mutex<HashMap<String, u8>>,
    silent: AtomicBool,
    stopped: AtomicBool,
    asked: AtomicUsize,
}

const HEADER_BYTES: usize = 12;
const TYPE_A: [u8; 2] = [0, 1];
const TYPE_PTR: [u8; 2] = [0, 12];
const NAME_ERROR: u8 = 3;

impl NameServer {
    /// Starts one that knows no name.
    pub fn start() -> NameServer {
        NameServer::at(Ipv4Addr::LOCALHOST, 0)
    }

    /// Starts one at an address of this host; ports below 1024 are for root.
    ///
    /// # Panics
    ///
    /// When the port is not free.
    pub fn at(address: Ipv4Addr, port: u16) -> NameServer {
        let socket = UdpSocket::bind((address, port)).expect("a free port");
        let port = socket.local_addr().expect("it is bound").port();
        let zone = Arc::new(Zone::default());
        let theirs = zone.clone();
        std::thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((length, client)) = socket.recv_from(&mut question) {
                if theirs.stopped.load(Ordering::Relaxed) {
                    return;
                }
                theirs.asked.fetch_add(1, Ordering::Relaxed);
                if theirs.silent.load(Ordering::Relaxed) {
                    continue;
                }
                if let Some(answer) = theirs.answer(&question[..length]) {
                    let _ = socket.send_to(&answer, client);
                }
            }
        });
        NameServer {
            address,
            port,
            zone,
        }
    }

    /// Its UDP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on a name has these addresses, for a second at a time; without any it
    /// exists and has none.
    pub fn says(&self, name: &str, addresses: &[Ipv4Addr]) {
        let mut names = self
            .zone
            .names
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        names.insert(name.to_owned(), addresses.to_vec());
    }

    /// From now on a name such as `4.3.2.1.in-addr.arpa` points to another name (RFC 1035
    /// section 3.5).
    pub fn points(&self, from: &str, to: &str) {
        let pointers = self.zone.pointers.lock();
        let mut pointers = pointers.unwrap_or_else(PoisonError::into_inner);
        pointers.insert(from.to_owned(), to.to_owned());
    }

    /// From now on questions about a name are answered with this code (RFC 1035 section 4.1.1).
    pub fn fails(&self, name: &str, code: u8) {
        let failures = self.zone.failures.lock();
        let mut failures = failures.unwrap_or_else(PoisonError::into_inner);
        failures.insert(name.to_owned(), code);
    }

    /// From now on it says nothing, or speaks again.
    pub fn set_silent(&self, silent: bool) {
        self.zone.silent.store(silent, Ordering::Relaxed);
    }

    /// Questions so far.
    pub fn asked(&self) -> usize {
        self.zone.asked.load(Ordering::Relaxed)
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.zone.stopped.store(true, Ordering::Relaxed);
        // Wakes its thread.
        if let Ok(socket) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)) {
            let _ = socket.send_to(b"end", (self.address, self.port));
        }
    }
}

impl Zone {
    /// The answer to a message with one question (RFC 1035 section 4.1).
    fn answer(&self, message: &[u8]) -> Option<Vec<u8>> {
        let mut labels = Vec::new();
        let mut at = HEADER_BYTES;
        loop {
            let length = usize::from(*message.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            let label = message.get(at..at + length)?;
            labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
            at += length;
        }
        let question = message.get(HEADER_BYTES..at + 4)?;
        let kind = &message[at..at + 2];
        let (is_for_ipv4, is_for_a_name) = (*kind == TYPE_A, *kind == TYPE_PTR);
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let name = labels.join(".");
        let found = names.get(&name);
        let addresses = found.filter(|_| is_for_ipv4).map_or(&[][..], Vec::as_slice);
        let pointers = self.pointers.lock();
        let pointers = pointers.unwrap_or_else(PoisonError::into_inner);
        let pointer = pointers.get(&name);
        let failures = self.failures.lock();
        let failures = failures.unwrap_or_else(PoisonError::into_inner);
        let code = match failures.get(&name) {
            Some(code) => *code,
            None if found.is_some() || pointer.is_some() => 0,
            None => NAME_ERROR,
        };
        let pointer = pointer.filter(|_| is_for_a_name && code == 0);
        let mut answer = message[..2].to_vec();
        // A response, recursion desired and available; one question, so many answers.
        answer.extend_from_slice(&[0x81, 0x80 | code, 0, 1, 0]);
        let count = addresses.len() + usize::from(pointer.is_some());
        answer.push(u8::try_from(count).expect("few addresses"));
        answer.extend_from_slice(&[0, 0, 0, 0]);
        answer.extend_from_slice(question);
        for address in addresses {
            // The name of the question; A, IN, one second, four bytes.
            answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
            answer.extend_from_slice(&address.octets());
        }
        if let Some(pointer) = pointer {
            let mut name = Vec::new();
            for label in pointer.split('.') {
                name.push(u8::try_from(label.len()).expect("a short label"));
                name.extend_from_slice(label.as_bytes());
            }
            name.push(0);
            // The name of the question; PTR, IN, one second.
            answer.extend_from_slice(&[0xc0, 12, 0, 12, 0, 1, 0, 0, 0, 1, 0]);
            answer.push(u8::try_from(name.len()).expect("a short name"));
            answer.extend_from_slice(&name);
        }
        Some(answer)
    }
}
