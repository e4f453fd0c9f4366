//! XOAUTH2 and OAUTHBEARER, as freenginx has them.

use super::*;
use crate::login::Method;

const SASL_ERROR: &str = "eyJzY2hlbWVzIjoiQmVhcmVyIiwic3RhdHVzIjoiNDAwIn0=";

fn played(protocol: Protocol) -> Played {
    let mut settings = settings(protocol);
    settings.auth = settings.auth | AuthMethods::XOAUTH2 | AuthMethods::OAUTHBEARER;
    Played::new(settings)
}

fn xoauth2() -> String {
    let token = b"user=jo@example.org\x01auth=Bearer sesame\x01\x01";
    encode_base64(token).to_string()
}

fn oauthbearer() -> String {
    let token = b"n,a=jo@example.org,\x01auth=Bearer sesame\x01\x01";
    encode_base64(token).to_string()
}

fn with_error(wait_seconds: u64) -> Refusal {
    Refusal {
        sasl_error: Some(SASL_ERROR.as_bytes().to_vec()),
        ..refusal(wait_seconds)
    }
}

#[test]
fn tokens_are_passwords_for_the_auth_service() {
    for (protocol, verb, challenge) in [
        (Protocol::Imap, "a AUTHENTICATE", "+ \r\n"),
        (Protocol::Pop3, "AUTH", "+ \r\n"),
        (Protocol::Smtp, "AUTH", "334 \r\n"),
    ] {
        for (name, method, token) in [
            ("XOAUTH2", Method::XOauth2, xoauth2()),
            ("OAUTHBEARER", Method::OauthBearer, oauthbearer()),
        ] {
            let mut at_once = played(protocol);
            at_once.client(format!("{verb} {name} {token}\r\n").as_bytes());
            let mut asked = played(protocol);
            assert_eq!(
                asked.client(format!("{verb} {name}\r\n").as_bytes()),
                challenge
            );
            asked.client(format!("{token}\r\n").as_bytes());
            for played in [at_once, asked] {
                assert_eq!(played.attempt().method, method);
                assert_eq!(played.attempt().user, b"jo@example.org");
                assert_eq!(password(played.attempt()), Some(&b"sesame"[..]));
            }
        }
    }
}

#[test]
fn an_error_is_acknowledged_before_the_refusal() {
    let mut played = played(Protocol::Imap);
    for (name, token, acknowledgement) in [
        ("OAUTHBEARER", oauthbearer(), &b"AQ==\r\n"[..]),
        ("XOAUTH2", xoauth2(), b"\r\n"),
    ] {
        let login = format!("a AUTHENTICATE {name} {token}\r\n");
        played.client(login.as_bytes());
        assert_eq!(played.refuse(&with_error(1)), format!("+ {SASL_ERROR}\r\n"));
        assert_eq!(played.client(acknowledgement), "a NO go away\r\n");
        // Anything else is no command.
        played.client(login.as_bytes());
        assert_eq!(played.refuse(&with_error(1)), format!("+ {SASL_ERROR}\r\n"));
        assert_eq!(played.client(b"foo\r\n"), "a BAD invalid command\r\n");
        assert!(!played.is_closed());
    }
    played.client(b"b LOGIN jo x\r\n");
    assert_eq!(played.refuse(&with_error(1)), "b NO go away\r\n");
}

#[test]
fn an_error_without_a_wait_is_the_last_one() {
    for (acknowledgement, answer) in [
        (&b"AQ==\r\n"[..], "535 5.7.0 go away\r\n"),
        (b"NOOP\r\n", "500 5.5.1 Invalid command\r\n"),
    ] {
        let mut played = played(Protocol::Smtp);
        played.client(format!("AUTH OAUTHBEARER {}\r\n", oauthbearer()).as_bytes());
        assert_eq!(
            played.refuse(&with_error(0)),
            format!("334 {SASL_ERROR}\r\n")
        );
        assert!(!played.is_closed());
        assert_eq!(played.client(acknowledgement), answer);
        assert!(played.is_closed());
    }
}
