//! What is sent before TLS must not have any effect behind it: CVE-2011-0411 and the attacks of
//! "NO STARTTLS" (USENIX Security 2021).

use super::*;

fn with_starttls(protocol: Protocol, starttls: StartTls) -> Settings {
    let mut settings = settings(protocol);
    settings.starttls = starttls;
    settings.auth = settings.auth | AuthMethods::APOP | AuthMethods::CRAM_MD5;
    if protocol == Protocol::Smtp {
        settings.auth = settings.auth | AuthMethods::NONE;
    }
    settings
}

const COMMANDS: [(Protocol, &[u8], &str); 3] = [
    (Protocol::Imap, b"s1 STARTTLS\r\n", "s1 OK completed\r\n"),
    (Protocol::Pop3, b"STLS\r\n", "+OK\r\n"),
    (Protocol::Smtp, b"STARTTLS\r\n", "220 2.0.0 Start TLS\r\n"),
];

fn in_tls(protocol: Protocol, before: &[u8], starttls: StartTls) -> Played {
    let mut played = Played::new(with_starttls(protocol, starttls));
    played.client(before);
    let (_, command, answer) = COMMANDS
        .into_iter()
        .find(|(of, ..)| *of == protocol)
        .expect("each has one");
    assert_eq!(played.client(command), answer);
    assert!(matches!(played.last, Some(Event::StartTls(_))));
    played.session.tls_established();
    played.last = None;
    played
}

#[test]
fn commands_behind_starttls_are_thrown_away() {
    let injected: [&[u8]; 3] = [
        b"i1 NOOP\r\ni2 LOGIN \"mallory\" \"x\"\r\ni3 NO",
        b"NOOP\r\nUSER mallory\r\nPASS x\r\nNO",
        b"NOOP\r\nEHLO mallory\r\nMAIL FROM:<m@x>\r\nNO",
    ];
    for ((protocol, command, answer), injected) in COMMANDS.into_iter().zip(injected) {
        for piece_bytes in [1, 5, usize::MAX] {
            let mut played = Played::new(with_starttls(protocol, StartTls::On));
            let sent = [command, injected].concat();
            let mut answers = String::new();
            for piece in sent.chunks(piece_bytes.min(sent.len())) {
                answers += &played.client(piece);
            }
            assert_eq!(answers, answer, "{protocol:?}");
            assert_eq!(played.session.next_event(), None);
            played.session.tls_established();
            assert_eq!(played.session.next_event(), None, "{protocol:?}");
            assert_eq!(
                played.session.room(),
                played.session.settings.command_bytes()
            );
            if piece_bytes == usize::MAX {
                let note = Note::DiscardedBeforeTls(injected.len());
                assert_eq!(played.notes, [note]);
            }
            // The half command is not the beginning of the first one in TLS.
            let quit: &[u8] = match protocol {
                Protocol::Imap => b"q1 LOGOUT\r\n",
                _ => b"QUIT\r\n",
            };
            let bye = played.client(quit);
            let expected = match protocol {
                Protocol::Imap => "* BYE\r\nq1 OK completed\r\n",
                Protocol::Pop3 => "+OK\r\n",
                Protocol::Smtp => "221 2.0.0 Bye\r\n",
            };
            assert_eq!(bye, expected);
        }
    }
}

#[test]
fn a_line_before_tls_does_not_go_on_in_it() {
    // A literal or an exchange that is open cannot contain STARTTLS; half a line is thrown away.
    for (protocol, command, _) in COMMANDS {
        let mut played = Played::new(with_starttls(protocol, StartTls::On));
        played.client(&[command, b"USER mal"].concat());
        played.session.tls_established();
        let answer = played.client(b"lory\r\n");
        let expected = match protocol {
            Protocol::Imap => "* BAD invalid command\r\n",
            Protocol::Pop3 => "-ERR invalid command\r\n",
            Protocol::Smtp => "500 5.5.1 Invalid command\r\n",
        };
        assert_eq!(answer, expected);
    }
}

#[test]
fn the_sender_and_the_name_of_smtp_do_not_survive() {
    let before = b"EHLO mallory\r\nMAIL FROM:<mallory@x>\r\n";
    let mut played = in_tls(Protocol::Smtp, before, StartTls::On);
    assert_eq!(
        played.client(b"RCPT TO:<alice@x>\r\n"),
        "503 5.5.1 Bad sequence of commands\r\n"
    );
    played.client(b"MAIL FROM:<bob@x>\r\nRCPT TO:<alice@x>\r\n");
    let envelope = played.attempt().envelope.clone().expect("it is mail");
    assert_eq!(envelope.helo, b"");
    assert_eq!(envelope.from, b"MAIL FROM:<bob@x>");
    let Dialogue::Smtp(smtp) = &played.session.dialogue else {
        panic!("it is SMTP");
    };
    assert!(!smtp.is_esmtp(), "the EHLO before TLS does not count");
}

#[test]
fn the_user_of_pop3_does_not_survive() {
    let mut played = Played::new(with_starttls(Protocol::Pop3, StartTls::On));
    played.client(b"USER mallory\r\n");
    // TLS cannot begin here, and the user is forgotten.
    assert_eq!(played.client(b"STLS\r\n"), "-ERR invalid command\r\n");
    let mut played = in_tls(Protocol::Pop3, b"USER mallory\r\nNOPE\r\n", StartTls::On);
    assert_eq!(played.session.user(), b"");
    assert_eq!(played.client(b"PASS x\r\n"), "-ERR invalid command\r\n");
}

#[test]
fn an_exchange_does_not_survive() {
    for (protocol, auth) in [
        (
            Protocol::Imap,
            &b"a AUTHENTICATE LOGIN bWFsbG9yeQ==\r\n"[..],
        ),
        (Protocol::Pop3, b"AUTH LOGIN bWFsbG9yeQ==\r\n"),
        (Protocol::Smtp, b"AUTH LOGIN bWFsbG9yeQ==\r\n"),
    ] {
        let mut played = Played::new(with_starttls(protocol, StartTls::On));
        played.client(auth);
        assert_eq!(played.session.user(), b"mallory");
        let (_, command, _) = COMMANDS
            .into_iter()
            .find(|(of, ..)| *of == protocol)
            .expect("each has one");
        // A command would be taken for the password.
        played.client(b"*\r\n");
        assert_eq!(played.session.user(), b"mallory");
        played.client(command);
        assert!(matches!(played.last, Some(Event::StartTls(_))));
        assert_eq!(played.session.user(), b"");
        played.session.tls_established();
        played.client(b"c2VjcmV0\r\n");
        assert_eq!(played.last, Some(Event::StartTls(answer(protocol))));
        assert!(played.session.attempt().is_none());
    }
}

fn answer(protocol: Protocol) -> Vec<u8> {
    let mut commands = COMMANDS.into_iter();
    let command = commands.find(|(of, ..)| *of == protocol);
    command.map_or(Vec::new(), |(.., answer)| answer.as_bytes().to_vec())
}

#[test]
fn errors_before_tls_count_behind_it() {
    let before = b"NOPE\r\n".repeat(MAX_ERRORS - 1);
    let mut played = in_tls(Protocol::Smtp, &before, StartTls::On);
    played.client(b"NOPE\r\n");
    assert!(played.is_closed());
}

#[test]
fn logins_need_tls_where_it_must_come_first() {
    let logins: [&[&[u8]]; 3] = [
        &[
            b"a LOGIN u p\r\n",
            b"a AUTHENTICATE PLAIN\r\n",
            b"a AUTHENTICATE CRAM-MD5\r\n",
        ],
        &[
            b"USER u\r\n",
            b"PASS p\r\n",
            b"APOP u 0123\r\n",
            b"AUTH PLAIN\r\n",
            b"AUTH\r\n",
        ],
        &[b"AUTH PLAIN\r\n", b"AUTH LOGIN\r\n", b"AUTH\r\n"],
    ];
    for ((protocol, ..), logins) in COMMANDS.into_iter().zip(logins) {
        let mut played = Played::new(with_starttls(protocol, StartTls::Only));
        for login in logins {
            let answer = played.client(login);
            let is_refused = answer.contains("nvalid command");
            assert!(is_refused, "{} {answer}", login.escape_ascii());
            assert_eq!(played.last, None);
        }
        let mut played = in_tls(protocol, b"", StartTls::Only);
        let answer = played.client(logins[0]);
        assert!(!answer.contains("nvalid command"), "{answer}");
    }
}

#[test]
fn tls_begins_once_and_is_not_announced_in_it() {
    for ((protocol, command, _), list) in
        COMMANDS
            .into_iter()
            .zip([&b"c CAPABILITY\r\n"[..], b"CAPA\r\n", b"EHLO me\r\n"])
    {
        for starttls in [StartTls::On, StartTls::Only] {
            let mut played = in_tls(protocol, b"", starttls);
            let announced = played.client(list);
            assert!(!announced.contains("STARTTLS"), "{announced}");
            assert!(!announced.contains("STLS"), "{announced}");
            assert!(announced.contains("PLAIN"), "{announced}");
            assert!(played.client(command).contains("nvalid command"));
            assert_eq!(played.last, None);
            assert!(played.session.is_starttls());
        }
        let mut played = Played::new(settings(protocol));
        assert!(played.client(command).contains("nvalid command"));
        // Nobody asked for it.
        played.session.tls_established();
        assert!(!played.session.is_starttls());
    }
}

#[test]
fn the_challenge_of_the_greeting_holds_in_tls() {
    let mut played = in_tls(Protocol::Pop3, b"", StartTls::Only);
    let greeting = String::from_utf8_lossy(&played.sent).into_owned();
    let salt = "<4711.1800000000@mail.example.org>";
    assert!(
        greeting.starts_with(&format!("+OK POP3 ready {salt}\r\n")),
        "{greeting}"
    );
    played.client(b"APOP jo c4c9334bac560ecc979e58001b3e22fb\r\n");
    assert_eq!(played.attempt().salt.as_deref(), Some(salt));
}
