use super::*;
use crate::limits::{CLIENT_BUFFER_BYTES, MAX_IMAP_TAG_BYTES, POP3_CLIENT_BUFFER_BYTES};

#[test]
fn a_command_may_be_as_long_as_its_buffer_and_no_longer() {
    for (protocol, limit, verb) in [
        (Protocol::Imap, CLIENT_BUFFER_BYTES, "t NOOP "),
        (Protocol::Pop3, POP3_CLIENT_BUFFER_BYTES, "NOOP "),
        (Protocol::Smtp, CLIENT_BUFFER_BYTES, "NOOP "),
    ] {
        let command = |bytes: usize| {
            let argument = "x".repeat(bytes - verb.len() - 2);
            format!("{verb}{argument}\r\n").into_bytes()
        };
        let mut played = Played::new(settings(protocol));
        for _ in 0..3 {
            assert!(played.client(&command(limit)).contains("OK"));
        }
        let answer = played.client(&command(limit + 1));
        assert!(answer.contains("nvalid command"), "{answer}");
        assert!(played.is_closed());
        assert_eq!(played.notes, [Note::TooLongCommand(limit)]);
    }
}

#[test]
fn a_literal_counts_as_a_part_of_its_command() {
    let mut played = Played::new(settings(Protocol::Imap));
    assert_eq!(played.client(b"a LOGIN {5000}\r\n"), "+ OK\r\n");
    let answer = played.client(&[b'x'; 5000]);
    assert_eq!(answer, "a BAD invalid command\r\n");
    assert!(played.is_closed());
}

#[test]
fn pipelined_commands_count_one_by_one() {
    let mut played = Played::new(settings(Protocol::Pop3));
    let answer = played.client(&b"NOOP\r\n".repeat(100));
    assert_eq!(answer, "+OK\r\n".repeat(100));
}

#[test]
fn too_many_errors_end_a_session() {
    for protocol in Protocol::ALL {
        let mut played = Played::new(settings(protocol));
        for _ in 1..MAX_ERRORS {
            played.client(b"a NOPE\r\n");
            assert!(!played.is_closed());
        }
        played.client(b"a NOPE\r\na NOOP\r\n");
        assert!(played.is_closed());
        assert_eq!(played.notes, [Note::TooManyErrors]);
        // It stays closed.
        let sent = played.sent.len();
        assert_eq!(played.client(b"a NOOP\r\nNOOP\r\n"), "");
        assert_eq!(played.session.next_event(), None);
        assert_eq!(played.sent.len(), sent);
    }
}

#[test]
fn tags_end_somewhere() {
    let mut played = Played::new(settings(Protocol::Imap));
    let tag = "t".repeat(MAX_IMAP_TAG_BYTES);
    let answer = played.client(format!("{tag} NOOP\r\n").as_bytes());
    assert_eq!(answer, format!("{tag} OK completed\r\n"));
    let answer = played.client(format!("{tag}t NOOP\r\n").as_bytes());
    assert_eq!(answer, "* BAD invalid command\r\n");
}

#[test]
fn what_comes_before_the_greeting_ends_a_session_of_smtp() {
    for (early, logged) in [
        (&b"EHLO me\r\nMAIL FROM:<x>\r\n"[..], &b"EHLO me"[..]),
        (b"AUTH PLAIN AGEAYg==\r\n", b"AUTH"),
        (b"\x16\x03\x01", b"\x16\x03\x01"),
    ] {
        let seed = SaltSeed {
            random: 1,
            unix_seconds: 2,
        };
        let mut session = Session::new(Arc::new(settings(Protocol::Smtp)), false, seed);
        session.receive_before_greeting(early);
        let note = Note::RejectedBeforeGreeting(logged.to_vec());
        assert_eq!(session.next_event(), Some(Event::Note(note)));
        let reply = b"503 5.5.0 Improper use of SMTP command pipelining\r\n";
        assert_eq!(session.next_event(), Some(Event::Close(reply.to_vec())));
        assert_eq!(session.next_event(), None);
    }
}

#[test]
fn a_session_takes_no_more_than_it_has_room_for() {
    let mut settings = settings(Protocol::Smtp);
    settings.client_buffer_bytes = 16;
    let mut played = Played::new(settings);
    assert_eq!(played.session.room(), 16);
    assert_eq!(played.session.receive(b"NOOP 123456789012345"), 16);
    assert_eq!(played.session.room(), 0);
    played.run();
    assert!(played.is_closed());
}
