//! Origins of all four protocols that answer by the script of a scenario.
//!
//! ```text
//! [chunked | close | cut | cut-chunked | 1.0 | slow | ranges]* STATUS name: value | ... | = body
//! silence | closed | garbage
//! ```
//!
//! In values and bodies `%n` is the number of the request in its scenario, `{+5}` the date in five
//! seconds, `{s+5}` the same in seconds. A body `*1000` has so many bytes.

use sealane_http::date::ImfDate;
use sealane_tests::PATIENCE;
use sealane_tests::fastcgi::{self, FastCgiOrigin};
use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::random::Random;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a slow origin thinks.
const THINKING: Duration = Duration::from_millis(400);

/// Fields that make a request a conditional one or one for a part.
const CONDITIONS: [&str; 6] = [
    "If-None-Match",
    "If-Modified-Since",
    "If-Match",
    "If-Unmodified-Since",
    "If-Range",
    "Range",
];

/// The origins behind one server.
pub(crate) struct Origins {
    http: Origin,
    fastcgi: FastCgiOrigin,
    /// Of SCGI and uwsgi.
    others: [Plain; 2],
    scripts: Arc<Scripts>,
}

/// What they answer, by the first segment of the path, and what they were asked.
#[derive(Debug, Default)]
struct Scripts {
    answers: BTreeMap<String, Vec<String>>,
    asked: Mutex<BTreeMap<String, Vec<String>>>,
}

/// What is asked of an origin, whatever the protocol.
struct Question {
    method: String,
    target: String,
    conditions: BTreeMap<&'static str, String>,
}

/// What is done about it.
enum Reply {
    Send(Made),
    Silence,
    Close,
    Garbage,
}

/// A response.
struct Made {
    status: String,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
    framing: Framing,
    is_old: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length,
    Chunked,
    Close,
    /// Less than is announced.
    Cut,
    CutChunks,
}

impl Origins {
    /// Answers the requests of each path segment by its script.
    pub(crate) fn new(answers: BTreeMap<String, Vec<String>>) -> Origins {
        let scripts = Arc::new(Scripts {
            answers,
            asked: Mutex::default(),
        });
        let own = Arc::clone(&scripts);
        let http = Origin::answering(move |asked| own.http(asked));
        let own = Arc::clone(&scripts);
        let fastcgi = FastCgiOrigin::start(move |request, socket| {
            match own.reply(&Question::of_parameters(&request.parameters)) {
                Reply::Send(made) => {
                    fastcgi::answer(socket, &made.cgi());
                }
                Reply::Silence => wait_for_end(socket),
                Reply::Close => {}
                Reply::Garbage => drop(socket.write_all(b"nonsense, and a lot of it")),
            }
            false
        });
        let others = ["scgi", "uwsgi"].map(|kind| {
            let own = Arc::clone(&scripts);
            Plain::start(move |socket| own.plain(kind, socket))
        });
        Origins {
            http,
            fastcgi,
            others,
            scripts,
        }
    }

    /// Where the origin of a family listens.
    pub(crate) fn port(&self, family: &str) -> u16 {
        match family {
            "proxy" => self.http.port(),
            "fastcgi" => self.fastcgi.port(),
            "scgi" => self.others[0].port,
            "uwsgi" => self.others[1].port,
            _ => panic!("no family {family:?}"),
        }
    }

    /// What was asked below a path segment.
    pub(crate) fn asked(&self, prefix: &str) -> Vec<String> {
        let asked = &self.scripts.asked;
        let asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.get(prefix).cloned().unwrap_or_default()
    }
}

impl Scripts {
    fn reply(&self, question: &Question) -> Reply {
        let path = question.target.trim_start_matches('/');
        let prefix = path
            .split(['/', '?', '-'])
            .next()
            .unwrap_or_default()
            .to_owned();
        let mut all = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = all.entry(prefix.clone()).or_default();
        asked.push(question.show());
        let number = asked.len();
        drop(all);
        let Some(answers) = self.answers.get(&prefix) else {
            return Reply::Send(Made::read("404 = no such scenario", number, question));
        };
        let answer = answers.get(number - 1).or(answers.last());
        let answer = answer.map_or("200", String::as_str);
        match answer {
            "silence" => Reply::Silence,
            "closed" => Reply::Close,
            "garbage" => Reply::Garbage,
            _ => Reply::Send(Made::read(answer, number, question)),
        }
    }

    fn http(&self, asked: &Asked) -> Answer {
        let mut question = Question {
            method: asked
                .text()
                .split(' ')
                .next()
                .unwrap_or_default()
                .to_owned(),
            target: asked.target(),
            conditions: BTreeMap::new(),
        };
        for name in CONDITIONS {
            if let Some(value) = asked.headers(name).into_iter().next() {
                question.conditions.insert(name, value);
            }
        }
        match self.reply(&question) {
            Reply::Send(made) => made.http(),
            Reply::Silence => Answer::Silence,
            Reply::Close => Answer::SendAndClose(Vec::new()),
            Reply::Garbage => {
                Answer::SendAndClose(b"HTTP/1.1 200 OK\r\nX-A: \0\r\n\r\nbody".to_vec())
            }
        }
    }

    fn plain(&self, kind: &str, mut socket: TcpStream) {
        let parameters = match kind {
            "scgi" => scgi_parameters(&mut socket),
            _ => uwsgi_parameters(&mut socket),
        };
        let Some(parameters) = parameters else { return };
        match self.reply(&Question::of_parameters(&parameters)) {
            Reply::Send(made) => drop(socket.write_all(&made.cgi())),
            Reply::Silence => wait_for_end(&mut socket),
            Reply::Close => {}
            Reply::Garbage => drop(socket.write_all(b"nonsense, and a lot of it\r\n\r\n")),
        }
    }
}

/// Says nothing until the other side closes.
fn wait_for_end(socket: &mut TcpStream) {
    let mut piece = [0; 1024];
    while socket.read(&mut piece).is_ok_and(|count| count > 0) {}
}

fn scgi_parameters(socket: &mut TcpStream) -> Option<BTreeMap<String, String>> {
    let mut length = 0;
    let mut byte = [0];
    loop {
        socket.read_exact(&mut byte).ok()?;
        match byte[0] {
            b':' => break,
            digit => length = length * 10 + usize::from(digit - b'0'),
        }
    }
    // With the comma.
    let mut bytes = vec![0; length + 1];
    socket.read_exact(&mut bytes).ok()?;
    let texts: Vec<String> = bytes[..length]
        .split(|byte| *byte == 0)
        .map(|text| String::from_utf8_lossy(text).into_owned())
        .collect();
    let pairs = texts.chunks_exact(2);
    Some(
        pairs
            .map(|pair| (pair[0].clone(), pair[1].clone()))
            .collect(),
    )
}

fn uwsgi_parameters(socket: &mut TcpStream) -> Option<BTreeMap<String, String>> {
    let mut head = [0; 4];
    socket.read_exact(&mut head).ok()?;
    let mut bytes = vec![0; usize::from(u16::from_le_bytes([head[1], head[2]]))];
    socket.read_exact(&mut bytes).ok()?;
    let mut texts = Vec::new();
    let mut rest = &bytes[..];
    while let [low, high, behind @ ..] = rest {
        let (text, behind) = behind.split_at(usize::from(u16::from_le_bytes([*low, *high])));
        texts.push(String::from_utf8_lossy(text).into_owned());
        rest = behind;
    }
    let pairs = texts.chunks_exact(2);
    Some(
        pairs
            .map(|pair| (pair[0].clone(), pair[1].clone()))
            .collect(),
    )
}

impl Question {
    fn of_parameters(parameters: &BTreeMap<String, String>) -> Question {
        let value = |name: &str| parameters.get(name).cloned().unwrap_or_default();
        let mut question = Question {
            method: value("REQUEST_METHOD"),
            target: value("REQUEST_URI"),
            conditions: BTreeMap::new(),
        };
        for name in CONDITIONS {
            let parameter = format!("HTTP_{}", name.to_ascii_uppercase().replace('-', "_"));
            if let Some(value) = parameters.get(&parameter).filter(|value| !value.is_empty()) {
                question.conditions.insert(name, value.clone());
            }
        }
        question
    }

    fn show(&self) -> String {
        let mut out = format!("{} {}", self.method, self.target);
        for (name, value) in &self.conditions {
            out.push_str(&format!(" | {name}: {value}"));
        }
        out
    }

    fn condition(&self, name: &str) -> Option<&str> {
        self.conditions.get(name).map(String::as_str)
    }
}

impl Made {
    fn read(answer: &str, number: usize, question: &Question) -> Made {
        let mut made = Made {
            status: String::new(),
            fields: Vec::new(),
            body: format!("body {number} {}\n", question.method).into_bytes(),
            framing: Framing::Length,
            is_old: false,
        };
        let mut has_ranges = false;
        let mut rest = answer;
        loop {
            let (word, behind) = rest.split_once(' ').unwrap_or((rest, ""));
            rest = behind;
            match word {
                "chunked" => made.framing = Framing::Chunked,
                "close" => made.framing = Framing::Close,
                "cut" => made.framing = Framing::Cut,
                "cut-chunked" => made.framing = Framing::CutChunks,
                "1.0" => made.is_old = true,
                "slow" => std::thread::sleep(THINKING),
                "ranges" => has_ranges = true,
                status => {
                    made.status = status.to_owned();
                    break;
                }
            }
        }
        for field in rest.split(" | ").filter(|field| !field.is_empty()) {
            let field = fill_in(field, number);
            match field.strip_prefix("= ") {
                Some(body) => made.body = body_of(body),
                None => {
                    let (name, value) = field.split_once(':').expect("a colon");
                    made.fields.push((name.to_owned(), value.trim().to_owned()));
                }
            }
        }
        if has_ranges {
            made.as_asked(question);
        }
        if matches!(made.status.as_str(), "204" | "304") {
            made.body.clear();
        } else if question.method == "HEAD" && made.framing != Framing::Length {
            made.body.clear();
            made.framing = Framing::Close;
        } else if question.method == "HEAD" {
            let length = made.body.len().to_string();
            made.fields.push(("Content-Length".to_owned(), length));
            made.body.clear();
        }
        made
    }

    /// Confirms what is known, and cuts out one range, as a server of files does.
    fn as_asked(&mut self, question: &Question) {
        let own = |name: &str| {
            let mut fields = self.fields.iter();
            let field = fields.find(|(known, _)| known.eq_ignore_ascii_case(name));
            field.map(|(_, value)| value.clone())
        };
        let is_known = match question.condition("If-None-Match") {
            Some(tag) => own("ETag").as_deref() == Some(tag),
            None => question
                .condition("If-Modified-Since")
                .is_some_and(|time| own("Last-Modified").as_deref() == Some(time)),
        };
        if is_known {
            self.status = "304".to_owned();
            return;
        }
        let range = question.condition("Range").and_then(|range| {
            let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
            let first: usize = first.parse().ok()?;
            let end = self.body.len().checked_sub(1)?;
            Some((first, last.parse().unwrap_or(end).min(end)))
        });
        let Some((first, last)) = range.filter(|_| self.status == "200") else {
            return;
        };
        let all = self.body.len();
        let content_range = match first <= last {
            true => {
                self.status = "206".to_owned();
                self.body = self.body[first..=last].to_vec();
                format!("bytes {first}-{last}/{all}")
            }
            false => {
                self.status = "416".to_owned();
                self.body = b"none".to_vec();
                format!("bytes */{all}")
            }
        };
        self.fields
            .push(("Content-Range".to_owned(), content_range));
    }

    fn http(&self) -> Answer {
        let version = if self.is_old { "1.0" } else { "1.1" };
        let mut out = format!("HTTP/{version} {} Made\r\n", self.status);
        for (name, value) in &self.fields {
            out.push_str(&format!("{name}: {value}\r\n"));
        }
        let has_length = self.fields.iter().any(|(name, _)| name == "Content-Length");
        let bytes = self.body.len();
        match self.framing {
            Framing::Chunked | Framing::CutChunks => out.push_str("Transfer-Encoding: chunked\r\n"),
            _ if has_length || matches!(self.status.as_str(), "204" | "304") => {}
            Framing::Length => out.push_str(&format!("Content-Length: {bytes}\r\n")),
            Framing::Cut => out.push_str(&format!("Content-Length: {}\r\n", bytes + 10)),
            Framing::Close => {}
        }
        let mut out = format!("{out}\r\n").into_bytes();
        match self.framing {
            Framing::Chunked | Framing::CutChunks => {
                for piece in self.body.chunks(5000) {
                    out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                    out.extend_from_slice(piece);
                    out.extend_from_slice(b"\r\n");
                }
                if self.framing == Framing::Chunked {
                    out.extend_from_slice(b"0\r\n\r\n");
                }
            }
            _ => out.extend_from_slice(&self.body),
        }
        match self.framing {
            Framing::Length | Framing::Chunked if !self.is_old => Answer::Send(out),
            _ => Answer::SendAndClose(out),
        }
    }

    /// As a gateway's application writes it.
    fn cgi(&self) -> Vec<u8> {
        let mut out = format!("Status: {} Made\r\n", self.status);
        for (name, value) in &self.fields {
            out.push_str(&format!("{name}: {value}\r\n"));
        }
        let bytes = self.body.len();
        let has_length = self.fields.iter().any(|(name, _)| name == "Content-Length");
        match self.framing {
            Framing::Length if !has_length && !matches!(self.status.as_str(), "204" | "304") => {
                out.push_str(&format!("Content-Length: {bytes}\r\n"));
            }
            Framing::Cut => out.push_str(&format!("Content-Length: {}\r\n", bytes + 10)),
            _ => {}
        }
        let mut out = format!("{out}\r\n").into_bytes();
        out.extend_from_slice(&self.body);
        out
    }
}

fn body_of(text: &str) -> Vec<u8> {
    match text.strip_prefix('*').and_then(|count| count.parse().ok()) {
        Some(count) => Random::new(count as u64).bytes(count),
        None => text.as_bytes().to_vec(),
    }
}

/// Numbers and dates.
fn fill_in(text: &str, number: usize) -> String {
    let mut out = text.replace("%n", &number.to_string());
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs() as i64);
    while let Some((before, rest)) = out.split_once('{') {
        let Some((inside, behind)) = rest.split_once('}') else {
            break;
        };
        let value = match inside.strip_prefix('s') {
            Some(seconds) => (now + seconds.parse::<i64>().expect("seconds")).to_string(),
            None => {
                let date = ImfDate::new(now + inside.parse::<i64>().expect("seconds"));
                String::from_utf8_lossy(date.as_bytes()).into_owned()
            }
        };
        out = format!("{before}{value}{behind}");
    }
    out
}

/// A server on a port of its own that handles each connection on a thread.
struct Plain {
    port: u16,
    ended: Arc<AtomicBool>,
}

impl Plain {
    fn start(handle: impl Fn(TcpStream) + Send + Sync + 'static) -> Plain {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let ended = Arc::new(AtomicBool::new(false));
        let (stop, handle) = (Arc::clone(&ended), Arc::new(handle));
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                if stop.load(Ordering::Acquire) {
                    return;
                }
                let Ok(socket) = socket else { continue };
                let _ = socket.set_read_timeout(Some(PATIENCE));
                let handle = Arc::clone(&handle);
                std::thread::spawn(move || handle(socket));
            }
        });
        Plain { port, ended }
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}
