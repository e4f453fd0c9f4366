//! Entry points for the fuzzers.
//!
//! Each takes any bytes and asserts what must hold; a finding is a panic. The first bytes choose
//! settings, what follows are flights that end with `0xFF`: what a peer sends before it waits.

use crate::auth_http::{
    Allowed, AuthHttpError, AuthResponse, AuthService, ClientDetails, Decision, Refusal, request,
};
use crate::backend::{Backend, BackendEvent};
use crate::login::{LoginAttempt, Method, SaltSeed};
use crate::note::Note;
use crate::secret::Secret;
use crate::session::{Event, Session};
use crate::settings::{AuthMethods, Protocol, ProxySettings, Settings, StartTls};
use std::sync::Arc;

const FLIGHT_END: u8 = 0xff;

/// What comes first: the settings, and what the auth service says.
struct Choices {
    settings: Arc<Settings>,
    proxy: ProxySettings,
    refusal: Option<Refusal>,
}

fn choices(first: u8, second: u8) -> Choices {
    let protocol = Protocol::ALL[usize::from(first % 3)];
    let mut settings = Settings::new(protocol, "mail.example.org");
    settings.starttls = match first / 3 % 3 {
        0 => StartTls::Off,
        1 => StartTls::On,
        _ => StartTls::Only,
    };
    let auth = [
        AuthMethods::APOP,
        AuthMethods::CRAM_MD5 | AuthMethods::EXTERNAL,
        AuthMethods::NONE,
        AuthMethods::XOAUTH2 | AuthMethods::OAUTHBEARER,
    ];
    for (bit, methods) in auth.into_iter().enumerate() {
        if second & (1 << bit) != 0 {
            settings.auth = settings.auth | methods;
        }
    }
    if first & 0x80 != 0 {
        settings.client_buffer_bytes = 24;
    }
    let proxy = ProxySettings {
        buffer_bytes: if first & 0x80 != 0 { 24 } else { 4096 },
        pass_error_message: second & 0x10 != 0,
        xclient: second & 0x20 != 0,
        smtp_auth: second & 0x40 != 0,
    };
    let refusal = (second & 0x80 != 0).then(|| Refusal {
        message: b"no".to_vec(),
        code: None,
        sasl_error: (second & 1 != 0).then(|| b"e30=".to_vec()),
        wait_seconds: (second & 2).into(),
    });
    Choices {
        settings: Arc::new(settings),
        proxy,
        refusal,
    }
}

/// What a session did.
#[derive(Debug, Default, PartialEq, Eq)]
struct SessionLog {
    events: Vec<Event>,
    /// The requests that the auth service got.
    requests: Vec<Secret>,
    /// Where in `events` TLS began, after how many flights, and whether nothing that counts had
    /// happened before.
    tls: Option<(usize, usize, bool)>,
}

/// Plays a client's side.
///
/// # Panics
///
/// When pieces change something, when anything of before STARTTLS shows behind it, when a reply or
/// a request has lines that it should not have, or when a session goes on behind its end.
pub fn fuzz_mail_client(data: &[u8]) {
    let Some(([first, second], input)) = data.split_first_chunk() else {
        return;
    };
    let choices = choices(*first, *second);
    check_texts(choices.settings.protocol);
    check_early(&choices, input);
    let flights: Vec<_> = input.split(|&byte| byte == FLIGHT_END).collect();
    let whole = play(&choices, &flights, usize::MAX, false);
    for piece_bytes in [1, 3] {
        assert_eq!(play(&choices, &flights, piece_bytes, false), whole);
    }
    if let Some((event, flight, true)) = whole.tls {
        let in_tls = play(&choices, &flights[flight..], usize::MAX, true);
        // Without its greeting.
        assert_eq!(in_tls.events[1..], whole.events[event..]);
        assert_eq!(in_tls.requests, whole.requests);
    }
}

/// What a caller sends without a session.
fn check_texts(protocol: Protocol) {
    for text in [
        protocol.internal_error(),
        protocol.certificate_error(),
        protocol.no_certificate(),
    ] {
        assert!(lines_are_whole(text));
    }
}

/// A client that does not wait for the greeting gets one line instead of it.
fn check_early(choices: &Choices, input: &[u8]) {
    let mut session = Session::new(choices.settings.clone(), false, SEED);
    session.receive_before_greeting(input);
    let Some(Event::Note(note)) = session.next_event() else {
        panic!("it is logged");
    };
    assert!(!note.to_string().contains(['\r', '\n']));
    assert!(matches!(session.next_event(), Some(Event::Close(_))));
    end(&mut session);
}

const SEED: SaltSeed = SaltSeed {
    random: 1,
    unix_seconds: 2,
};

fn play(choices: &Choices, flights: &[&[u8]], piece_bytes: usize, is_tls: bool) -> SessionLog {
    let mut session = Session::new(choices.settings.clone(), is_tls, SEED);
    let mut log = SessionLog::default();
    run(&mut session, choices, &mut log);
    for (number, flight) in flights.iter().enumerate() {
        for piece in flight.chunks(piece_bytes.min(flight.len().max(1))) {
            let mut rest = piece;
            while !rest.is_empty() {
                let room = session.room();
                let taken = session.receive(rest);
                assert!(taken <= rest.len());
                rest = &rest[taken..];
                run(&mut session, choices, &mut log);
                match log.events.last() {
                    Some(Event::Authenticate) => return log,
                    Some(Event::Close(_)) => {
                        end(&mut session);
                        return log;
                    }
                    _ => assert!(taken > 0 || room == 0, "it takes nothing"),
                }
            }
        }
        if let (Some(Event::StartTls(_)), None) = (log.events.last(), log.tls) {
            // A fresh session has no errors and no attempts.
            let has_refused = log.events.iter().any(|event| match event {
                Event::Send(bytes) => is_complaint(bytes),
                _ => false,
            });
            let is_comparable = !has_refused && log.requests.is_empty();
            log.tls = Some((log.events.len(), number + 1, is_comparable));
            session.tls_established();
            assert!(session.is_starttls());
            run(&mut session, choices, &mut log);
        }
    }
    log
}

fn is_complaint(reply: &[u8]) -> bool {
    reply
        .windows(7)
        .any(|window| window.eq_ignore_ascii_case(b"invalid"))
}

/// Takes the events that there are.
fn run(session: &mut Session, choices: &Choices, log: &mut SessionLog) {
    while let Some(event) = session.next_event() {
        match &event {
            // How much that was depends on how it arrived.
            Event::Note(Note::DiscardedBeforeTls(_)) => continue,
            Event::Note(note) => assert!(!note.to_string().contains(['\r', '\n'])),
            Event::Send(bytes) | Event::Close(bytes) | Event::StartTls(bytes) => {
                assert!(bytes.ends_with(b"\r\n"), "{}", bytes.escape_ascii());
                assert!(lines_are_whole(bytes), "{}", bytes.escape_ascii());
            }
            Event::Authenticate => {
                let attempt = session.attempt().expect("it says so");
                log.requests.push(ask(attempt));
                if let Some(refusal) = &choices.refusal {
                    session.refuse(refusal);
                    continue;
                }
            }
        }
        log.events.push(event);
    }
}

/// What an auth service is asked: lines that are those of the request, and no others.
fn ask(attempt: &LoginAttempt) -> Secret {
    let service = AuthService {
        uri: "/".to_owned(),
        host: "localhost".to_owned(),
        headers: Vec::new(),
    };
    let client = ClientDetails {
        host: crate::HOST_UNAVAILABLE,
        ..ClientDetails::default()
    };
    let head = request(&service, attempt, &client);
    assert!(lines_are_whole(head.as_bytes()));
    let lines = head.as_bytes().split(|&byte| byte == b'\n').count();
    let expected =
        10 + usize::from(attempt.salt.is_some()) + 3 * usize::from(attempt.envelope.is_some());
    assert_eq!(lines, expected + 1);
    head
}

/// Whether CR and LF are only at the ends of lines, together.
fn lines_are_whole(text: &[u8]) -> bool {
    text.split_inclusive(|&byte| byte == b'\n').all(|line| {
        let line = line.strip_suffix(b"\r\n");
        line.is_some_and(|line| !line.contains(&b'\r'))
    })
}

/// Behind the end, nothing happens any more.
fn end(session: &mut Session) {
    for more in [&b"\n"[..], b"a NOOP\r\nNOOP\r\n", b"a LOGIN u p\r\n"] {
        assert_eq!(session.receive(more), more.len());
        session.tls_established();
        assert_eq!(session.next_event(), None);
    }
}

/// Reads any bytes as the response of an auth service.
///
/// # Panics
///
/// When pieces change something, when an error or a decision is not final, or when a refusal has
/// more than one line.
pub fn fuzz_mail_auth(data: &[u8]) {
    let Some((&first, head)) = data.split_first() else {
        return;
    };
    let methods = [Method::Plain, Method::Apop, Method::External];
    let attempt = LoginAttempt {
        protocol: Protocol::ALL[usize::from(first % 3)],
        method: methods[usize::from(first / 3 % 3)],
        user: b"user".to_vec(),
        password: (first & 0x80 == 0).then(|| Secret::new(b"password".to_vec())),
        salt: None,
        number: 1,
        envelope: None,
    };
    let whole = read(&attempt, head, usize::MAX);
    for piece_bytes in [1, 5] {
        assert_eq!(read(&attempt, head, piece_bytes), whole);
    }
    match whole {
        Ok(Some(Decision::Allowed(allowed))) => {
            assert!(allowed.port > 0);
            let has_password = attempt.password.is_some() && attempt.method != Method::Apop;
            assert!(
                has_password || allowed.password.is_some() || attempt.protocol == Protocol::Smtp
            );
        }
        Ok(Some(Decision::Refused(refusal))) => {
            let parts = [Some(&refusal.message), refusal.code.as_ref()];
            for part in parts.into_iter().flatten() {
                assert!(!part.contains(&b'\r') && !part.contains(&b'\n'));
            }
        }
        Ok(Some(Decision::Wait { .. }) | None) => {}
        Err(error) => assert!(!error.message("x").contains(['\r', '\n'])),
    }
}

fn read(
    attempt: &LoginAttempt,
    head: &[u8],
    piece_bytes: usize,
) -> Result<Option<Decision>, AuthHttpError> {
    let mut response = AuthResponse::new(attempt);
    let mut result = Ok(None);
    for piece in head.chunks(piece_bytes.min(head.len().max(1))) {
        let now = response.receive(piece);
        if result == Ok(None) {
            result = now;
        } else {
            assert_eq!(now.is_err(), result.is_err(), "it is final");
        }
    }
    for more in [
        &b"\r\n\r\n"[..],
        b"Auth-Server: ::1\r\nAuth-Port: 1\r\n\r\n",
    ] {
        if let Err(error) = &result {
            assert_eq!(response.receive(more), Err(error.clone()));
        } else if result != Ok(None) {
            assert_eq!(response.receive(more), Ok(None));
        }
    }
    result
}

/// Plays a mail server.
///
/// # Panics
///
/// When pieces of lines change something, when a command has more lines than it should have, or
/// when a login goes on behind its end.
pub fn fuzz_mail_server(data: &[u8]) {
    let Some(([first, second], input)) = data.split_first_chunk() else {
        return;
    };
    let choices = choices(*first, *second);
    // The name of a client comes from its name server.
    let name = &input[..input.len().min(4)];
    let host = match crate::is_valid_host(name) {
        true => name,
        false => crate::HOST_TEMPORARILY_UNAVAILABLE,
    };
    let lines = || input.split_inclusive(|&byte| byte == b'\n');
    let by_lines = log_in(&choices, host, lines());
    assert_eq!(log_in(&choices, host, input.chunks(1)), by_lines);
    // All at once it is another dialogue, but one that ends.
    log_in(&choices, host, std::iter::once(input));
}

fn log_in<'a>(
    choices: &Choices,
    host: &[u8],
    pieces: impl Iterator<Item = &'a [u8]>,
) -> Vec<BackendEvent> {
    let mut backend = backend(choices, host);
    let mut events = Vec::new();
    for piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() {
            let taken = backend.receive(rest);
            rest = &rest[taken..];
            while let Some(event) = backend.next_event() {
                match &event {
                    BackendEvent::Send(command) => check_command(command.as_bytes()),
                    BackendEvent::Failed { note, .. } => {
                        assert!(!note.to_string().contains(['\r', '\n']));
                    }
                    BackendEvent::Relay { to_server, .. } => {
                        assert_eq!(to_server.as_bytes(), b"more");
                    }
                }
                let is_last = !matches!(event, BackendEvent::Send(_));
                events.push(event);
                if is_last {
                    assert_eq!(backend.receive(b"+OK\r\n"), 5);
                    backend.close();
                    assert_eq!(backend.next_event(), None);
                    return events;
                }
            }
            assert!(taken > 0, "a full buffer ends the login");
        }
    }
    events
}

/// A command and its only line end.
fn check_command(command: &[u8]) {
    assert!(command.ends_with(b"\r\n"));
    assert!(lines_are_whole(command));
    assert_eq!(command.iter().filter(|&&byte| byte == b'\n').count(), 1);
}

/// A client that has logged in, and has sent more behind it.
fn backend(choices: &Choices, host: &[u8]) -> Backend {
    let mut settings = (*choices.settings).clone();
    settings.client_buffer_bytes = 128;
    let is_mail = settings.auth.contains(AuthMethods::NONE);
    let mut session = Session::new(Arc::new(settings), true, SEED);
    let login: &[u8] = match choices.settings.protocol {
        Protocol::Imap => b"a LOGIN jo sesame\r\nmore",
        Protocol::Pop3 => b"USER jo\r\nPASS sesame\r\nmore",
        Protocol::Smtp if is_mail => b"EHLO me\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nmore",
        Protocol::Smtp => b"HELO me\r\nAUTH PLAIN AGpvAHNlc2FtZQ==\r\nmore",
    };
    assert_eq!(session.receive(login), login.len());
    while session.attempt().is_none() {
        session.next_event().expect("the client logs in");
    }
    let allowed = Allowed {
        address: [127, 0, 0, 1].into(),
        port: 1,
        name: "127.0.0.1:1".to_owned(),
        user: None,
        password: None,
    };
    let client = ClientDetails {
        address: "192.0.2.1",
        host,
        ..ClientDetails::default()
    };
    session.accept(allowed, &choices.proxy, &client)
}
