//! Sessions of mail: the `mail` block, with an auth service and mail servers that do as they are
//! told and write down what they get.

use sealane_tests::{Program, Server, Site, nginx_has_mail, wait_for};
use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

#[path = "mail/as_nginx.rs"]
mod as_nginx;
#[path = "mail/attacks.rs"]
mod attacks;
#[path = "mail/cases.rs"]
mod cases;
#[path = "mail/client.rs"]
mod client;
#[path = "mail/generated.rs"]
mod generated;
#[path = "mail/kept.rs"]
mod kept;
#[path = "mail/resumption.rs"]
mod resumption;
#[path = "mail/tools.rs"]
mod tools;

use client::{Client, Step};

/// What the three protocols are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Imap,
    Pop3,
    Smtp,
}

/// What a scripted peer does with a connection, one after the other.
#[derive(Debug, Clone)]
enum Deed {
    /// Sends this. `%port%` is the port of the session's mail server.
    Send(String),
    /// Sends bytes one by one.
    Drip(String),
    /// Reads a line and writes it down.
    Line,
    /// Reads so many bytes and writes them down.
    Bytes(usize),
    /// Closes the connection with a reset.
    Reset,
    /// Closes the connection.
    Close,
    /// Waits until the other side closes the connection.
    Silence,
}

fn send(text: &str) -> Deed {
    Deed::Send(text.to_owned())
}

/// The usual end of the head of an auth service's answer.
const ACCEPTED: &str =
    "HTTP/1.0 200 OK\r\nAuth-Status: OK\r\nAuth-Server: 127.0.0.1\r\nAuth-Port: %port%\r\n\r\n";

/// A mail server that accepts everything, of a client whose login has the tag `a1`.
fn accepting(protocol: Protocol) -> Vec<Deed> {
    use Deed::Line;
    let responses: &[&str] = match protocol {
        Protocol::Imap => &[
            "* OK ready\r\n",
            "+ OK\r\n",
            "+ OK\r\n",
            "a1 OK welcome\r\n",
        ],
        Protocol::Pop3 => &["+OK ready\r\n", "+OK\r\n", "+OK welcome\r\n"],
        Protocol::Smtp => &[
            "220 ready\r\n",
            "250 hello\r\n",
            "220 again\r\n",
            "250 again\r\n",
        ],
    };
    let mut deeds = Vec::new();
    for (number, response) in responses.iter().enumerate() {
        if number > 0 {
            deeds.push(Line);
        }
        deeds.push(send(response));
    }
    deeds
}

/// What one session meets behind the server: the answers of the auth service, and a mail server.
#[derive(Debug)]
struct Scene {
    /// For one request after the other; the last is given again and again.
    answers: Mutex<VecDeque<Vec<Deed>>>,
    port: u16,
    /// What the auth service was asked, and what the mail server was told.
    asked: Mutex<Vec<String>>,
    told: Mutex<Vec<String>>,
    /// Connections that are open.
    open: AtomicUsize,
}

impl Scene {
    /// Waits until all connections of it have ended, and returns what came over them.
    #[track_caller]
    fn finish(&self) -> (Vec<String>, Vec<String>) {
        wait_for("the end of connections behind the server", || {
            (self.open.load(Ordering::SeqCst) == 0).then_some(())
        });
        let asked = self.asked.lock().expect("no panic").clone();
        let told = self.told.lock().expect("no panic").clone();
        (asked, told)
    }
}

/// The auth service of all sessions. It knows them by the addresses of their clients.
struct AuthService {
    port: u16,
    scenes: Arc<Mutex<HashMap<String, Arc<Scene>>>>,
}

/// The longest head of a request.
const REQUEST_BYTES: usize = 65_536;

impl AuthService {
    /// Its threads end with the test's process.
    fn start() -> AuthService {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let scenes: Arc<Mutex<HashMap<String, Arc<Scene>>>> = Arc::default();
        let all = scenes.clone();
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let all = all.clone();
                thread::spawn(move || answer(socket, &all));
            }
        });
        AuthService { port, scenes }
    }

    /// A session of the client with this address will meet these.
    fn expect(&self, client: &str, answers: Vec<Vec<Deed>>, server: Vec<Deed>) -> Arc<Scene> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let scene = Arc::new(Scene {
            answers: Mutex::new(answers.into()),
            port: listener.local_addr().expect("it is bound").port(),
            asked: Mutex::default(),
            told: Mutex::default(),
            open: AtomicUsize::new(0),
        });
        let theirs = scene.clone();
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                theirs.open.fetch_add(1, Ordering::SeqCst);
                let (scene, server) = (theirs.clone(), server.clone());
                thread::spawn(move || serve_mail(socket, &scene, &server));
            }
        });
        let mut scenes = self.scenes.lock().expect("no panic");
        scenes.insert(client.to_owned(), scene.clone());
        scene
    }
}

fn answer(mut socket: TcpStream, scenes: &Mutex<HashMap<String, Arc<Scene>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < REQUEST_BYTES {
        let mut byte = [0];
        if !matches!(socket.read(&mut byte), Ok(1)) {
            break;
        }
        head.push(byte[0]);
    }
    let text = head.escape_ascii().to_string().replace("\\r\\n", "\n");
    let client = text
        .lines()
        .find_map(|line| line.strip_prefix("Client-IP: "));
    let scene = client.and_then(|client| scenes.lock().expect("no panic").get(client).cloned());
    let Some(scene) = scene else {
        return;
    };
    scene.open.fetch_add(1, Ordering::SeqCst);
    let number = {
        let mut asked = scene.asked.lock().expect("no panic");
        asked.push(text);
        asked.len()
    };
    let deeds = {
        let mut answers = scene.answers.lock().expect("no panic");
        match answers.len() {
            0 => Vec::new(),
            1 => answers[0].clone(),
            _ => answers.pop_front().expect("there are some"),
        }
    };
    let mut got = Vec::new();
    let goes_on = act(&mut socket, &deeds, scene.port, &mut got);
    if !got.is_empty() || !goes_on {
        let mut asked = scene.asked.lock().expect("no panic");
        let _ = write!(asked[number - 1], "{}", got.escape_ascii());
    }
    drop(socket);
    scene.open.fetch_sub(1, Ordering::SeqCst);
}

/// A mail server: first what it was told to do, and then everything comes back.
fn serve_mail(mut socket: TcpStream, scene: &Scene, deeds: &[Deed]) {
    let _ = socket.set_nodelay(true);
    let mut got = Vec::new();
    if act(&mut socket, deeds, scene.port, &mut got) {
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = socket.read(&mut piece) {
            got.extend_from_slice(&piece[..count]);
            if socket.write_all(&piece[..count]).is_err() {
                break;
            }
        }
    }
    drop(socket);
    let text = got.escape_ascii().to_string().replace("\\r\\n", "\n");
    scene.told.lock().expect("no panic").push(text);
    scene.open.fetch_sub(1, Ordering::SeqCst);
}

/// Whether the connection goes on afterwards.
fn act(socket: &mut TcpStream, deeds: &[Deed], port: u16, got: &mut Vec<u8>) -> bool {
    for deed in deeds {
        match deed {
            Deed::Send(text) => {
                let text = text.replace("%port%", &port.to_string());
                if socket.write_all(text.as_bytes()).is_err() {
                    return false;
                }
            }
            Deed::Drip(text) => {
                let text = text.replace("%port%", &port.to_string());
                for byte in text.as_bytes() {
                    if socket.write_all(&[*byte]).is_err() {
                        return false;
                    }
                    thread::yield_now();
                }
            }
            Deed::Line => loop {
                let mut byte = [0];
                if !matches!(socket.read(&mut byte), Ok(1)) {
                    return false;
                }
                got.push(byte[0]);
                if byte == *b"\n" {
                    break;
                }
            },
            Deed::Bytes(count) => {
                let start = got.len();
                got.resize(start + count, 0);
                if socket.read_exact(&mut got[start..]).is_err() {
                    return false;
                }
            }
            Deed::Reset => {
                let reset = socket2::SockRef::from(&*socket);
                let _ = reset.set_linger(Some(Duration::ZERO));
                return false;
            }
            Deed::Close => return false,
            Deed::Silence => {
                let mut piece = [0; 4096];
                while let Ok(count @ 1..) = socket.read(&mut piece) {
                    got.extend_from_slice(&piece[..count]);
                }
                return false;
            }
        }
    }
    true
}

/// A configuration with this `mail` block.
fn configuration(mail: &str) -> String {
    format!(
        "worker_processes 1; error_log logs/error.log info; pid logs/pid;
         events {{ worker_connections 4000; }} mail {{ {mail} }}"
    )
}
