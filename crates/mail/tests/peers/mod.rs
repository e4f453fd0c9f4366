//! A client, an auth service and mail servers for sessions that are played, and what they see.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sealane_mail::{
    AuthMethods, AuthResponse, AuthService, Backend, BackendEvent, ClientDetails, Decision, Event,
    HOST_UNAVAILABLE, LoginAttempt, Method, Protocol, ProxySettings, SaltSeed, Session, Settings,
    StartTls, auth_request,
};
use std::fmt;
use std::sync::Arc;

/// What everybody has seen in the end.
#[derive(Default, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) client: Vec<u8>,
    pub(crate) auth: Vec<Vec<u8>>,
    pub(crate) backend: Vec<u8>,
    pub(crate) is_closed: bool,
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let auth = self.auth.iter().map(|request| request.escape_ascii());
        let auth: Vec<_> = auth.map(|request| request.to_string()).collect();
        f.debug_struct("")
            .field("client", &self.client.escape_ascii().to_string())
            .field("auth", &auth)
            .field("backend", &self.backend.escape_ascii().to_string())
            .field("is_closed", &self.is_closed)
            .finish()
    }
}

/// The settings of one of the servers that nginx was run with.
pub(crate) fn settings(server: &str) -> (Settings, ProxySettings) {
    const PLAIN: AuthMethods = AuthMethods::PLAIN;
    let protocol = match server.split('-').next() {
        Some("imap") => Protocol::Imap,
        Some("pop3") => Protocol::Pop3,
        _ => Protocol::Smtp,
    };
    let mut settings = Settings::new(protocol, "mail.example.org");
    let mut proxy = ProxySettings::default();
    settings.starttls = match server.rsplit('-').next() {
        Some("on") => StartTls::On,
        Some("only") => StartTls::Only,
        _ => StartTls::Off,
    };
    proxy.pass_error_message = server.ends_with("-pass");
    let more = AuthMethods::CRAM_MD5 | AuthMethods::EXTERNAL;
    settings.auth = match server {
        "imap" => PLAIN | AuthMethods::LOGIN | more,
        "imap-only" => PLAIN | AuthMethods::CRAM_MD5,
        "pop3" => PLAIN | AuthMethods::APOP | more,
        "pop3-only" => PLAIN | AuthMethods::APOP,
        "smtp" => PLAIN | AuthMethods::LOGIN | more,
        "smtp-none" => AuthMethods::NONE,
        "smtp-none-x" | "smtp-on" => PLAIN | AuthMethods::NONE,
        "smtp-auth-x" => PLAIN | more,
        _ => settings.auth,
    };
    if server == "smtp" {
        settings.capabilities = vec!["SIZE 10240000".to_owned(), "8BITMIME".to_owned()];
    }
    proxy.xclient = !matches!(server, "smtp-plain" | "smtp-none-x" | "smtp-auth");
    proxy.smtp_auth = server.starts_with("smtp-auth");
    (settings, proxy)
}

/// Plays a session.
pub(crate) struct Player {
    settings: Arc<Settings>,
    proxy: ProxySettings,
    seen: Outcome,
}

impl Player {
    pub(crate) fn new((settings, proxy): (Settings, ProxySettings)) -> Player {
        Player {
            settings: Arc::new(settings),
            proxy,
            seen: Outcome::default(),
        }
    }

    /// What the client sends is cut into pieces of so many bytes.
    pub(crate) fn play(mut self, client: &[Vec<u8>], piece_bytes: usize) -> Outcome {
        let seed = SaltSeed {
            random: 1,
            unix_seconds: 2,
        };
        let mut session = Session::new(self.settings.clone(), false, seed);
        let sent = client.concat();
        let mut rest = &sent[..];
        loop {
            let Some(event) = session.next_event() else {
                if rest.is_empty() {
                    return self.finish();
                }
                let piece = &rest[..rest.len().min(piece_bytes)];
                rest = &rest[session.receive(piece)..];
                continue;
            };
            match event {
                Event::Note(_) => {}
                Event::Send(bytes) | Event::StartTls(bytes) => self.seen.client.extend(bytes),
                Event::Close(bytes) => {
                    self.seen.client.extend(bytes);
                    self.seen.is_closed = true;
                    return self.finish();
                }
                Event::Authenticate => match self.ask(&session) {
                    Some(Decision::Allowed(allowed)) => {
                        let backend = session.accept(allowed, &self.proxy, &self.client());
                        self.log_in(backend, rest, piece_bytes);
                        return self.finish();
                    }
                    Some(Decision::Refused(refusal)) => session.refuse(&refusal),
                    Some(Decision::Wait { .. }) => panic!("the service never says so"),
                    None => session.fail(),
                },
            }
        }
    }

    fn client(&self) -> ClientDetails<'static> {
        ClientDetails {
            address: "127.0.0.1",
            host: match self.settings.protocol {
                Protocol::Smtp => HOST_UNAVAILABLE,
                _ => b"",
            },
            ..ClientDetails::default()
        }
    }

    fn ask(&mut self, session: &Session) -> Option<Decision> {
        let service = AuthService {
            uri: "/mail/auth?x=1".to_owned(),
            host: "127.0.0.1".to_owned(),
            headers: vec![("X-Key".to_owned(), "a b".to_owned())],
        };
        let attempt = session.attempt().expect("Authenticate says so");
        let request = auth_request(&service, attempt, &self.client());
        let request = request.as_bytes().strip_suffix(b"\r\n\r\n");
        self.seen
            .auth
            .push(with_salt(request.expect("it has an end")));
        let mut response = AuthResponse::new(attempt);
        let answer = answer_to(attempt);
        let mut decision = None;
        // In two pieces.
        for piece in answer.as_bytes().chunks(answer.len() / 2 + 1) {
            match response.receive(piece) {
                Ok(Some(decided)) => decision = Some(decided),
                Ok(None) => {}
                Err(_) => return None,
            }
        }
        decision
    }

    fn log_in(&mut self, mut backend: Backend, rest: &[u8], piece_bytes: usize) {
        let mut server = MailServer::new(self.settings.protocol);
        let mut from_server = server.greeting().to_vec();
        loop {
            let Some(event) = backend.next_event() else {
                assert!(!from_server.is_empty(), "nothing more comes");
                let piece = from_server.len().min(piece_bytes);
                let taken = backend.receive(&from_server[..piece]);
                from_server.drain(..taken);
                continue;
            };
            match event {
                BackendEvent::Send(bytes) => {
                    self.seen.backend.extend_from_slice(bytes.as_bytes());
                    from_server.extend(server.answer(bytes.as_bytes()));
                }
                BackendEvent::Failed { reply, .. } => {
                    self.seen.client.extend(reply);
                    self.seen.is_closed = true;
                    return;
                }
                BackendEvent::Relay {
                    to_client,
                    to_server,
                } => {
                    let to_server = [to_server.as_bytes(), rest].concat();
                    self.seen.client.extend(to_client);
                    self.seen.client.extend(server.answer(&to_server));
                    self.seen.backend.extend(to_server);
                    return;
                }
            }
        }
    }

    fn finish(mut self) -> Outcome {
        self.seen.client = with_salt(&self.seen.client);
        self.seen
    }
}

/// nginx's salts are others each time. Those in base64 are all as long as this one's.
fn with_salt(bytes: &[u8]) -> Vec<u8> {
    let text = bytes.escape_ascii().to_string();
    let text = text.replace("<1.2@", "<SALT@");
    let text = text.replace(&STANDARD.encode("<1.2@mail.example.org>"), "SALT");
    unescape_ascii(&text)
}

fn unescape_ascii(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next() {
            Some(b'r') => b'\r',
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'x') => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                let digits = str::from_utf8(&digits).expect("ASCII");
                u8::from_str_radix(digits, 16).expect("two digits")
            }
            Some(other) => other,
            None => panic!("an escape without an end"),
        });
    }
    bytes
}

/// What the auth service says about an attempt.
fn answer_to(attempt: &LoginAttempt) -> String {
    let head = "HTTP/1.0 200 OK\r\n";
    let port = 28650
        + match attempt.protocol {
            Protocol::Imap => 1,
            Protocol::Pop3 => 2,
            Protocol::Smtp => 3,
        };
    let server = format!("Auth-Server: 127.0.0.1\r\nAuth-Port: {port}\r\n");
    let ok = format!("{head}Auth-Status: OK\r\n{server}");
    if let Some(envelope) = &attempt.envelope {
        let to = String::from_utf8_lossy(&envelope.to);
        return if to.contains("good") {
            format!("{ok}\r\n")
        } else if to.contains("later") {
            format!(
                "{head}Auth-Status: Temporary server problem, try again later\r\n\
                 Auth-Error-Code: 451 4.3.0\r\nAuth-Wait: 1\r\n\r\n"
            )
        } else {
            format!("{head}Auth-Status: No such user\r\n\r\n")
        };
    }
    let user = String::from_utf8_lossy(&attempt.user);
    let kinds = [
        "ok",
        "map",
        "noport",
        "badaddr",
        "badport",
        "badheader",
        "nostatus",
        "wait",
    ];
    let kind = kinds.into_iter().find(|kind| user.starts_with(kind));
    match kind {
        Some("ok") if attempt.method != Method::Plain && !user.contains("nopass") => {
            format!("{ok}Auth-Pass: backend secret\r\n\r\n")
        }
        Some("ok") => format!("{ok}\r\n"),
        Some("map") => format!("{ok}Auth-User: mapped user\r\nAuth-Pass: mapped\r\n\r\n"),
        Some("noport") => format!("{head}Auth-Status: OK\r\nAuth-Server: 127.0.0.1\r\n\r\n"),
        Some("badaddr") => {
            format!("{head}Auth-Status: OK\r\nAuth-Server: localhost\r\nAuth-Port: 1\r\n\r\n")
        }
        Some("badport") => {
            format!("{head}Auth-Status: OK\r\nAuth-Server: 127.0.0.1\r\nAuth-Port: 65536\r\n\r\n")
        }
        Some("badheader") => format!("{head}Auth_Status: OK\r\n\r\n"),
        Some("nostatus") => format!("{server}\r\n"),
        Some("wait") => {
            format!("{head}Auth-Status: Invalid login or password\r\nAuth-Wait: 1\r\n\r\n")
        }
        _ => format!("{head}Auth-Status:  Invalid login or password  \r\nX: y\r\n\r\n"),
    }
}

/// A mail server that answers each line.
struct MailServer {
    protocol: Protocol,
    line: Vec<u8>,
    tag: Vec<u8>,
    user: Option<Vec<u8>>,
    is_in_login: bool,
}

impl MailServer {
    fn new(protocol: Protocol) -> MailServer {
        MailServer {
            protocol,
            line: Vec::new(),
            tag: Vec::new(),
            user: None,
            is_in_login: false,
        }
    }

    fn greeting(&self) -> &'static [u8] {
        match self.protocol {
            Protocol::Imap => b"* OK backend ready\r\n",
            Protocol::Pop3 => b"+OK backend ready\r\n",
            Protocol::Smtp => b"220-backend\r\n220 ready\r\n",
        }
    }

    fn answer(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut answers = Vec::new();
        for &byte in bytes {
            self.line.push(byte);
            if byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                answers.extend(match self.protocol {
                    Protocol::Imap => self.imap(&line),
                    Protocol::Pop3 => pop3(&line),
                    Protocol::Smtp => smtp(&line),
                });
            }
        }
        answers
    }

    fn imap(&mut self, line: &[u8]) -> Vec<u8> {
        let text = String::from_utf8_lossy(line);
        let (tag, command) = text.split_once(' ').unwrap_or((&text, ""));
        match (self.is_in_login, self.user.take()) {
            (false, _) if command.starts_with("LOGIN {") => {
                self.tag = tag.as_bytes().to_vec();
                self.is_in_login = true;
                b"+ OK\r\n".to_vec()
            }
            (true, None) => {
                self.user = Some(line.to_vec());
                b"+ OK\r\n".to_vec()
            }
            (true, Some(user)) => {
                self.is_in_login = false;
                let user = String::from_utf8_lossy(&user);
                let tag = String::from_utf8_lossy(&self.tag);
                let answer = if user.contains("okno") {
                    format!("{tag} NO [AUTHENTICATIONFAILED] no\r\n")
                } else if user.contains("okcap") {
                    format!("* CAPABILITY IMAP4rev1 X\r\n{tag} OK logged in\r\n")
                } else {
                    format!("{tag} OK logged in\r\n")
                };
                answer.into_bytes()
            }
            _ => [tag.as_bytes(), b" OK echo ", line].concat(),
        }
    }
}

fn pop3(line: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(line);
    match &text[..4.min(text.len())] {
        "PASS" if text.contains("no") => b"-ERR no\r\n".to_vec(),
        "USER" | "PASS" => b"+OK fine\r\n".to_vec(),
        _ => [b"+OK echo ", line].concat(),
    }
}

fn smtp(line: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(line);
    let answer = match text.split([' ', '\r']).next() {
        Some("EHLO") => "250-backend\r\n250-XCLIENT\r\n250 AUTH PLAIN\r\n",
        Some("XCLIENT") if text.contains("okno") => "550 no xclient\r\n",
        Some("XCLIENT") => "220 ok\r\n",
        Some("HELO") => "250 backend\r\n",
        Some("AUTH") => {
            let response = text.split_whitespace().nth(2).unwrap_or_default();
            let response = STANDARD.decode(response).expect("base64");
            let response = String::from_utf8_lossy(&response);
            match response.contains("backend") || response.contains("good") {
                true => "235 fine\r\n",
                false => "535-no\r\n535 no\r\n",
            }
        }
        Some("RCPT") if text.contains("goodbut") => "550 5.1.1 unknown\r\n",
        Some("MAIL") if text.contains("badsender") => "550 5.1.0 sender\r\n",
        _ => return [b"250 echo ", line].concat(),
    };
    answer.as_bytes().to_vec()
}
