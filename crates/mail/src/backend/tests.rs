use super::*;
use crate::auth_http::Allowed;
use crate::login::Envelope;
use crate::note::Severity;

fn start(protocol: Protocol, method: Method) -> BackendStart {
    BackendStart {
        attempt: LoginAttempt {
            protocol,
            method,
            user: b"jo".to_vec(),
            password: Some(Secret::new(b"sesame".to_vec())),
            salt: None,
            number: 1,
            envelope: None,
        },
        allowed: Allowed {
            address: "192.0.2.1".parse().expect("an address"),
            port: 143,
            name: "192.0.2.1:143".to_owned(),
            user: None,
            password: None,
        },
        proxy: ProxySettings::default(),
        server_name: "mail.example.org".to_owned(),
        client_address: "IPV6:2001:db8::1".to_owned(),
        client_host: b"[UNAVAILABLE]".to_vec(),
        tag: b"a7 ".to_vec(),
        is_esmtp: true,
        helo: b"me".to_vec(),
        pipelined: Secret::new(b"next\r\n".to_vec()),
    }
}

fn plain(protocol: Protocol) -> Backend {
    Backend::new(start(protocol, Method::Plain))
}

/// The mail server sends something; what it is sent, or how the login ends.
fn server(backend: &mut Backend, bytes: &[u8]) -> Vec<BackendEvent> {
    let mut rest = bytes;
    let mut events = Vec::new();
    while !rest.is_empty() {
        let taken = backend.receive(rest);
        rest = &rest[taken..];
        events.extend(std::iter::from_fn(|| backend.next_event()));
        assert!(taken > 0, "a full buffer ends the login");
    }
    events
}

fn sends(backend: &mut Backend, bytes: &[u8], command: &str) {
    // Byte by byte: only the last one says that the response is complete.
    let (last, first) = bytes.split_last().expect("not empty");
    for &byte in first {
        assert_eq!(server(backend, &[byte]), []);
    }
    let expected = BackendEvent::Send(Secret::new(command.as_bytes().to_vec()));
    assert_eq!(server(backend, &[*last]), [expected], "{command}");
}

fn relays(backend: &mut Backend, bytes: &[u8], to_client: &str) {
    let expected = BackendEvent::Relay {
        to_client: to_client.as_bytes().to_vec(),
        to_server: Secret::new(b"next\r\n".to_vec()),
    };
    assert_eq!(server(backend, bytes), [expected]);
    assert_eq!(backend.receive(b"more"), 4);
    assert_eq!(backend.next_event(), None);
}

fn fails(backend: &mut Backend, bytes: &[u8]) -> (Note, String) {
    let events = server(backend, bytes);
    let [BackendEvent::Failed { note, reply }] = &events[..] else {
        panic!("{} {events:?}", bytes.escape_ascii());
    };
    assert_eq!(backend.receive(b"* OK +OK 220 \r\n"), 15, "it is over");
    assert_eq!(backend.next_event(), None);
    (note.clone(), String::from_utf8_lossy(reply).into_owned())
}

#[test]
fn imap_logs_in_with_literals() {
    let mut backend = plain(Protocol::Imap);
    sends(
        &mut backend,
        b"* OK [CAPABILITY IMAP4rev1] ready\r\n",
        "a7 LOGIN {2}\r\n",
    );
    sends(&mut backend, b"+ OK\r\n", "jo {6}\r\n");
    sends(&mut backend, b"* OK still here\r\n+\r\n", "sesame\r\n");
    let end = "* CAPABILITY IMAP4rev1\r\n* OK motd\r\na7 OK [X] hello\r\n* 3 EXISTS\r\n";
    relays(&mut backend, end.as_bytes(), end);
}

#[test]
fn imap_takes_any_name_and_password() {
    let mut start = start(Protocol::Imap, Method::Plain);
    start.allowed.user = Some(b"j\"\\\r\no".to_vec());
    start.allowed.password = Some(Secret::default());
    let mut backend = Backend::new(start);
    assert_eq!(backend.user(), b"j\"\\\r\no");
    sends(&mut backend, b"* OK\r\n", "a7 LOGIN {6}\r\n");
    sends(&mut backend, b"+ \r\n", "j\"\\\r\no {0}\r\n");
    sends(&mut backend, b"+ \r\n", "\r\n");
}

#[test]
fn pop3_has_two_commands() {
    let mut backend = plain(Protocol::Pop3);
    sends(&mut backend, b"+OK ready <1.2@x>\r\n", "USER jo\r\n");
    sends(&mut backend, b"+OK\r\n", "PASS sesame\r\n");
    relays(&mut backend, b"+OK 3 messages\r\n", "+OK 3 messages\r\n");
}

#[test]
fn a_login_with_a_line_end_does_not_become_a_command() {
    for text in ["jo\r\nDELE 1", "jo\nX", "jo\rX", "jo\0X"] {
        let mut start = start(Protocol::Pop3, Method::Plain);
        start.attempt.user = text.as_bytes().to_vec();
        let mut backend = Backend::new(start);
        let (note, reply) = fails(&mut backend, b"+OK\r\n");
        assert_eq!(note, Note::UnusableCredentials);
        assert_eq!(reply, "-ERR internal server error\r\n");
    }
    let mut start = start(Protocol::Pop3, Method::Plain);
    start.attempt.password = Some(Secret::new(b"x\r\nDELE 1".to_vec()));
    let mut backend = Backend::new(start);
    sends(&mut backend, b"+OK\r\n", "USER jo\r\n");
    assert_eq!(fails(&mut backend, b"+OK\r\n").0, Note::UnusableCredentials);
}

#[test]
fn smtp_is_told_who_the_client_is() {
    let mut start = start(Protocol::Smtp, Method::Plain);
    start.attempt.user = b"jo+x=\xe4 1\r\n".to_vec();
    let mut backend = Backend::new(start);
    sends(
        &mut backend,
        b"220-hi\r\n220 there\r\n",
        "EHLO mail.example.org\r\n",
    );
    sends(
        &mut backend,
        b"250-me\r\n250 XCLIENT\r\n",
        "XCLIENT ADDR=IPV6:2001:db8::1 LOGIN=jo+2Bx+3D+E4+201+0D+0A NAME=[UNAVAILABLE]\r\n",
    );
    sends(&mut backend, b"220 again\r\n", "EHLO me\r\n");
    relays(&mut backend, b"250-me\r\n250 ok\r\n", "235 2.0.0 OK\r\n");
}

#[test]
fn smtp_without_xclient_says_only_helo() {
    let mut start = start(Protocol::Smtp, Method::Plain);
    start.proxy.xclient = false;
    start.is_esmtp = false;
    let mut backend = Backend::new(start);
    sends(&mut backend, b"220 hi\r\n", "HELO mail.example.org\r\n");
    relays(&mut backend, b"250 me\r\n", "235 2.0.0 OK\r\n");
}

#[test]
fn smtp_logs_in_where_it_is_to() {
    for (xclient, helo) in [(false, "me"), (true, "me"), (true, "")] {
        let mut start = start(Protocol::Smtp, Method::Plain);
        start.proxy.xclient = xclient;
        start.proxy.smtp_auth = true;
        start.helo = helo.as_bytes().to_vec();
        let mut backend = Backend::new(start);
        sends(&mut backend, b"220 hi\r\n", "EHLO mail.example.org\r\n");
        if xclient {
            let command = "XCLIENT ADDR=IPV6:2001:db8::1 NAME=[UNAVAILABLE]\r\n";
            sends(&mut backend, b"250 me\r\n", command);
        }
        if xclient && !helo.is_empty() {
            sends(&mut backend, b"220 me\r\n", "EHLO me\r\n");
        }
        sends(
            &mut backend,
            b"250 me\r\n",
            "AUTH PLAIN AGpvAHNlc2FtZQ==\r\n",
        );
        relays(&mut backend, b"235 fine\r\n", "235 2.0.0 OK\r\n");
    }
}

#[test]
fn smtp_needs_a_password_for_that() {
    for method in [Method::CramMd5, Method::Apop] {
        let mut start = start(Protocol::Smtp, method);
        start.proxy.xclient = false;
        start.proxy.smtp_auth = true;
        let mut backend = Backend::new(start);
        sends(&mut backend, b"220 hi\r\n", "EHLO mail.example.org\r\n");
        let (note, reply) = fails(&mut backend, b"250 me\r\n");
        assert_eq!(
            (note, &*reply),
            (Note::NoPassword, "451 4.3.2 Internal server error\r\n")
        );
    }
}

fn mail() -> Backend {
    let mut start = start(Protocol::Smtp, Method::Anonymous);
    start.attempt.user.clear();
    start.attempt.password = None;
    start.attempt.envelope = Some(Envelope {
        helo: b"me".to_vec(),
        from: b"MAIL FROM:<a@b>".to_vec(),
        to: b"RCPT TO:<c@d>".to_vec(),
    });
    Backend::new(start)
}

#[test]
fn smtp_gets_the_mail_of_strangers() {
    for answer in [
        "250 ok\r\n",
        "550-no\r\n550 such user\r\n",
        "250 ok\r\n354 x",
    ] {
        let mut backend = mail();
        sends(&mut backend, b"220 hi\r\n", "EHLO mail.example.org\r\n");
        let command = "XCLIENT ADDR=IPV6:2001:db8::1 NAME=[UNAVAILABLE]\r\n";
        sends(&mut backend, b"250 me\r\n", command);
        sends(&mut backend, b"250 me\r\n", "EHLO me\r\n");
        sends(&mut backend, b"250 me\r\n", "MAIL FROM:<a@b>\r\n");
        sends(&mut backend, b"250 me\r\n", "RCPT TO:<c@d>\r\n");
        relays(&mut backend, answer.as_bytes(), answer);
    }
}

#[test]
fn what_a_server_says_against_a_login_is_shown_where_it_may_be() {
    for (protocol, response, logged) in [
        (Protocol::Imap, "* BYE full\r\n", "* BYE full"),
        (Protocol::Pop3, "-ERR full\r\n", "-ERR full"),
        (
            Protocol::Smtp,
            "554-full\r\n554 up\r\n",
            "554-full\r\n554 up",
        ),
    ] {
        for passed in [true, false] {
            let mut start = start(protocol, Method::Plain);
            start.proxy.pass_error_message = passed;
            let (note, reply) = fails(&mut Backend::new(start), response.as_bytes());
            let expected = match passed {
                true => response.as_bytes(),
                false => protocol.internal_error(),
            };
            assert_eq!(reply.as_bytes(), expected);
            let severity = note.severity();
            let response = logged.as_bytes().to_vec();
            assert_eq!(note, Note::InvalidResponse { response, passed });
            assert_eq!(severity == Severity::Error, !passed);
        }
    }
}

#[test]
fn imap_may_refuse_at_any_time() {
    for (greeting, answers) in [
        ("* OK\r\n", &["a7 NO\r\n"][..]),
        ("* OK\r\n", &["* BYE\r\n"]),
        ("* OK\r\n", &["+\r\n", "a7 BAD\r\n"]),
        ("* OK\r\n", &["+\r\n", "+\r\n", "a7 NO\r\n"]),
        ("* OK\r\n", &["+\r\n", "+\r\n", "* BYE\r\n"]),
        ("* OK\r\n", &["+\r\n", "+\r\n", "a8 OK\r\n"]),
        ("* OK\r\n", &["+\r\n", "+\r\n", "* 1 X\r\na7 NO\r\n"]),
        ("* PREAUTH\r\n", &[]),
    ] {
        let mut backend = plain(Protocol::Imap);
        let mut lines: Vec<_> = [&[greeting], answers].concat();
        let last = lines.pop().expect("there is one");
        for line in lines {
            let events = server(&mut backend, line.as_bytes());
            assert!(matches!(events[..], [BackendEvent::Send(_)]), "{events:?}");
        }
        let (note, _) = fails(&mut backend, last.as_bytes());
        assert!(matches!(note, Note::InvalidResponse { .. }), "{note}");
    }
}

#[test]
fn a_response_that_nobody_asked_for_ends_a_login() {
    for (protocol, greeting) in [
        (Protocol::Imap, &b"* OK\r\n+ OK\r\n"[..]),
        (Protocol::Imap, b"* OK\r\n* X\r\n+ OK\r\n"),
        (Protocol::Imap, b"* OK\r\na7 OK\r\n"),
        (Protocol::Pop3, b"+OK\r\n+OK\r\n"),
        (Protocol::Pop3, b"+OK\r\nx"),
        (Protocol::Smtp, b"220 a\r\n250 b\r\n"),
    ] {
        let (note, reply) = fails(&mut plain(protocol), greeting);
        assert!(matches!(note, Note::UnexpectedResponse(_)), "{note}");
        assert_eq!(reply.as_bytes(), protocol.internal_error());
    }
    let mut backend = plain(Protocol::Imap);
    let events = server(&mut backend, b"* OK\r\n* X\r\n* Y");
    assert!(matches!(events[..], [BackendEvent::Send(_)]), "{events:?}");
}

#[test]
fn a_response_ends_within_the_buffer() {
    for protocol in Protocol::ALL {
        let mut start = start(protocol, Method::Plain);
        start.proxy.buffer_bytes = 64;
        let response = match protocol {
            Protocol::Imap => "* OK".to_owned() + &"x".repeat(60),
            Protocol::Pop3 => "+OK".to_owned() + &"\n".repeat(61),
            Protocol::Smtp => "220-x\r\n".repeat(9) + "x",
        };
        assert_eq!(response.len(), 64);
        let (note, reply) = fails(&mut Backend::new(start), response.as_bytes());
        assert_eq!(note, Note::TooLongResponse(response.into_bytes()));
        assert_eq!(reply.as_bytes(), protocol.internal_error());
    }
}

#[test]
fn a_server_that_goes_away_ends_a_login() {
    let mut backend = plain(Protocol::Pop3);
    assert_eq!(backend.receive(b"+OK"), 3);
    assert_eq!(backend.next_event(), None);
    backend.close();
    let event = backend.next_event();
    let reply = b"-ERR internal server error\r\n".to_vec();
    let note = Note::UpstreamClosed;
    assert_eq!(event, Some(BackendEvent::Failed { note, reply }));
    backend.close();
    assert_eq!(backend.next_event(), None);
}

#[test]
fn nothing_of_a_login_shows_the_password() {
    let backend = plain(Protocol::Imap);
    let shown = format!("{backend:?}");
    assert!(!shown.contains("sesame"), "{shown}");
}
