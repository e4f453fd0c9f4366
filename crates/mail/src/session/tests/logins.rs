use super::*;
use crate::login::Method;

#[test]
fn a_refused_client_may_try_again_after_the_wait() {
    for (protocol, login, answer) in [
        (
            Protocol::Imap,
            &b"a1 LOGIN jo x\r\n"[..],
            "a1 NO go away\r\n",
        ),
        (Protocol::Pop3, b"USER jo\r\nPASS x\r\n", "-ERR go away\r\n"),
        (
            Protocol::Smtp,
            b"AUTH PLAIN AGpvAHg=\r\n",
            "535 5.7.0 go away\r\n",
        ),
    ] {
        let mut played = Played::new(settings(protocol));
        for number in 1..=3 {
            played.client(login);
            assert_eq!(played.attempt().number, number);
            assert_eq!(played.attempt().user, b"jo");
            assert_eq!(password(played.attempt()), Some(&b"x"[..]));
            assert_eq!(played.refuse(&refusal(1)), answer);
            assert!(!played.is_closed());
        }
        played.client(login);
        assert_eq!(played.refuse(&refusal(0)), answer);
        assert!(played.is_closed());
    }
}

#[test]
fn smtp_has_codes() {
    let mut played = Played::new(settings(Protocol::Smtp));
    let mut refusal = refusal(1);
    for (code, answer) in [
        (&b"451 4.3.0"[..], "451 4.3.0 go away\r\n"),
        (b"", "535 5.7.0 go away\r\n"),
    ] {
        refusal.code = Some(code.to_vec());
        played.client(b"AUTH PLAIN AGpvAHg=\r\n");
        assert_eq!(played.refuse(&refusal), answer);
    }
}

#[test]
fn what_is_pipelined_behind_a_login_waits_for_the_decision() {
    let mut played = Played::new(settings(Protocol::Imap));
    assert_eq!(played.client(b"a1 LOGIN jo x\r\na2 NOOP\r\na3 NO"), "");
    assert_eq!(
        played.refuse(&refusal(1)),
        "a1 NO go away\r\na2 OK completed\r\n"
    );
    assert_eq!(played.client(b"OP\r\n"), "a3 OK completed\r\n");
}

#[test]
fn a_failure_ends_a_session() {
    for protocol in Protocol::ALL {
        let mut played = Played::new(settings(protocol));
        played.session.fail();
        played.run();
        assert!(played.is_closed());
        assert!(played.sent.ends_with(protocol.internal_error()));
    }
}

#[test]
fn digests_come_with_the_challenge() {
    let mut settings = settings(Protocol::Imap);
    settings.auth = settings.auth | AuthMethods::CRAM_MD5;
    let mut played = Played::new(settings);
    let challenge = played.client(b"a1 AUTHENTICATE CRAM-MD5\r\n");
    let salt = "<4711.1800000000@mail.example.org>";
    assert_eq!(
        challenge,
        format!("+ {}\r\n", *encode_base64(salt.as_bytes()))
    );
    let response = encode_base64(format!("jo {}", "0".repeat(32)).as_bytes());
    played.client(format!("{}\r\n", *response).as_bytes());
    assert_eq!(played.attempt().method, Method::CramMd5);
    assert_eq!(played.attempt().salt.as_deref(), Some(salt));
}

#[test]
fn external_does_not_send_the_password_of_an_earlier_attempt() {
    let mut settings = settings(Protocol::Pop3);
    settings.auth = settings.auth | AuthMethods::EXTERNAL;
    let mut played = Played::new(settings);
    played.client(b"USER jo\r\nPASS secret\r\n");
    played.refuse(&refusal(1));
    played.client(b"AUTH EXTERNAL am8=\r\n");
    assert_eq!(played.attempt().method, Method::External);
    assert_eq!(played.attempt().password, None);
}

#[test]
fn literals_may_contain_line_ends_or_nothing() {
    for login in [
        &b"a LOGIN {4}\r\nj\r\no {0}\r\n\r\n"[..],
        b"a LOGIN {4+}\r\nj\r\no {0+}\r\n\r\n",
        b"a LOGIN {4+}\r\nj\r\no \"\"\r\n",
    ] {
        let mut played = Played::new(settings(Protocol::Imap));
        played.client(login);
        assert_eq!(played.attempt().user, b"j\r\no");
        assert_eq!(password(played.attempt()), Some(&b""[..]));
    }
    let mut played = Played::new(settings(Protocol::Imap));
    assert_eq!(
        played.client(b"a LOGIN {0}\r\n x\r\n"),
        "+ OK\r\na BAD invalid command\r\n"
    );
}

#[test]
fn a_backslash_means_something_in_quoted_strings_alone() {
    for login in [
        &b"a LOGIN \"j\\\"\\\\o\" x\\\\y\r\n"[..],
        b"a LOGIN \"j\\\"\\\\o\" {4+}\r\nx\\\\y\r\n",
    ] {
        let mut played = Played::new(settings(Protocol::Imap));
        played.client(login);
        assert_eq!(played.attempt().user, b"j\"\\o");
        assert_eq!(password(played.attempt()), Some(&b"x\\\\y"[..]));
    }
}

#[test]
fn an_unterminated_string_does_not_change_how_the_next_command_is_read() {
    let mut played = Played::new(settings(Protocol::Imap));
    assert_eq!(
        played.client(b"a LOGIN \"jo x\r\n"),
        "a BAD invalid command\r\n"
    );
    played.client(b"b LOGIN jo x\r\n");
    assert_eq!(played.attempt().user, b"jo");
}

#[test]
fn a_cancelled_exchange_is_tagged() {
    for method in ["LOGIN", "PLAIN"] {
        let mut played = Played::new(settings(Protocol::Imap));
        played.client(format!("a1 AUTHENTICATE {method}\r\n").as_bytes());
        assert_eq!(played.client(b"*\r\n"), "a1 BAD invalid command\r\n");
        assert_eq!(played.notes, [Note::InvalidBase64(method)]);
    }
}

#[test]
fn a_rejected_command_is_logged_and_leaves_what_follows_alone() {
    let mut played = Played::new(settings(Protocol::Smtp));
    let answers = played.client(b"MAIL FROM:<a@b> SIZE=1\r\nNOOP\r\n");
    assert_eq!(
        answers,
        "530 5.7.1 Authentication required\r\n250 2.0.0 OK\r\n"
    );
    assert_eq!(
        played.notes,
        [Note::Rejected(b"MAIL FROM:<a@b> SIZE=1".to_vec())]
    );
}

#[test]
fn nothing_of_a_session_shows_a_password() {
    let login = b"a1 LOGIN jo hunter2hunter2\r\n";
    let mut played = Played::new(settings(Protocol::Imap));
    played.client(login);
    let shown = format!("{:?}", played.attempt());
    assert!(!shown.contains("hunter2"), "{shown}");
}
