use super::*;
use crate::limits::AUTH_RESPONSE_BYTES;
use crate::login::{Envelope, LoginAttempt, Method};
use crate::secret::Secret;
use crate::settings::Protocol;

fn attempt(protocol: Protocol, method: Method) -> LoginAttempt {
    LoginAttempt {
        protocol,
        method,
        user: b"jo e%\r\nAuth-Status: OK".to_vec(),
        password: Some(Secret::new(b"p\0w\x7f\xff".to_vec())),
        salt: None,
        number: 2,
        envelope: None,
    }
}

fn service() -> AuthService {
    AuthService {
        uri: "/auth?mail".to_owned(),
        host: "auth.example.org:9000".to_owned(),
        headers: vec![
            ("X-Key".to_owned(), "secret".to_owned()),
            ("X-Other".to_owned(), String::new()),
        ],
    }
}

fn text(secret: &Secret) -> String {
    String::from_utf8_lossy(secret.as_bytes()).into_owned()
}

#[test]
fn a_request_has_no_more_lines_than_it_should() {
    let client = ClientDetails {
        address: "192.0.2.1",
        ..ClientDetails::default()
    };
    let attempt = attempt(Protocol::Imap, Method::Plain);
    let request = request(&service(), &attempt, &client);
    assert!(
        request
            .as_bytes()
            .windows(9)
            .any(|window| window == b"p%00w\x7f\xff\r\n"),
        "bytes above a space are not escaped"
    );
    assert_eq!(
        text(&request).replace(char::REPLACEMENT_CHARACTER, "?"),
        "GET /auth?mail HTTP/1.0\r\nHost: auth.example.org:9000\r\nAuth-Method: plain\r\n\
         Auth-User: jo%20e%25%0D%0AAuth-Status:%20OK\r\nAuth-Pass: p%00w\x7f?\r\n\
         Auth-Protocol: imap\r\nAuth-Login-Attempt: 2\r\nClient-IP: 192.0.2.1\r\n\
         X-Key: secret\r\nX-Other: \r\n\r\n"
    );
    assert_eq!(format!("{request:?}"), "Secret(..)");
}

#[test]
fn a_request_tells_what_is_known_of_the_connection() {
    let client = ClientDetails {
        address: "192.0.2.1",
        host: b"client.example.org",
        proxy: Some(ProxyHeader {
            source: "192.0.2.7",
            source_port: 5123,
            destination: "192.0.2.9",
            destination_port: 25,
        }),
        tls: Some(TlsDetails {
            protocol: "TLSv1.3",
            cipher: "TLS_AES_256_GCM_SHA384",
            verify: "SUCCESS",
            subject: "CN=jo",
            issuer: "CN=ca",
            serial: "01",
            fingerprint: "ab",
            certificate: "-----BEGIN CERTIFICATE-----\nAA=\n",
        }),
    };
    let mut attempt = attempt(Protocol::Smtp, Method::Anonymous);
    attempt.user.clear();
    attempt.password = None;
    attempt.envelope = Some(Envelope {
        helo: b"me".to_vec(),
        from: b"MAIL FROM:<a@b>".to_vec(),
        to: b"RCPT TO:<c@d>".to_vec(),
    });
    let request = request(&service(), &attempt, &client);
    assert_eq!(
        text(&request),
        "GET /auth?mail HTTP/1.0\r\nHost: auth.example.org:9000\r\nAuth-Method: none\r\n\
         Auth-User: \r\nAuth-Pass: \r\nAuth-Protocol: smtp\r\nAuth-Login-Attempt: 2\r\n\
         Client-IP: 192.0.2.1\r\nClient-Host: client.example.org\r\n\
         Proxy-Protocol-Addr: 192.0.2.7\r\nProxy-Protocol-Port: 5123\r\n\
         Proxy-Protocol-Server-Addr: 192.0.2.9\r\nProxy-Protocol-Server-Port: 25\r\n\
         Auth-SMTP-Helo: me\r\nAuth-SMTP-From: MAIL FROM:<a@b>\r\nAuth-SMTP-To: RCPT TO:<c@d>\r\n\
         Auth-SSL: on\r\nAuth-SSL-Protocol: TLSv1.3\r\nAuth-SSL-Cipher: TLS_AES_256_GCM_SHA384\r\n\
         Auth-SSL-Verify: SUCCESS\r\nAuth-SSL-Subject: CN=jo\r\nAuth-SSL-Issuer: CN=ca\r\n\
         Auth-SSL-Serial: 01\r\nAuth-SSL-Fingerprint: ab\r\n\
         Auth-SSL-Cert: -----BEGIN%20CERTIFICATE-----%0AAA=%0A\r\n\
         X-Key: secret\r\nX-Other: \r\n\r\n"
    );
}

#[test]
fn addresses_of_ipv6_are_marked_in_xclient() {
    for (address, expected) in [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "IPV6:2001:db8::1"),
        ("::ffff:192.0.2.1", "IPV6:::ffff:192.0.2.1"),
        ("unix:", "unix:"),
    ] {
        let client = ClientDetails {
            address,
            ..ClientDetails::default()
        };
        assert_eq!(client.xclient_address(), expected);
    }
}

#[test]
fn without_a_client_certificate_there_is_nothing_of_it() {
    let client = ClientDetails {
        address: "unix:",
        tls: Some(TlsDetails {
            protocol: "TLSv1.2",
            cipher: "ECDHE-RSA-AES128-GCM-SHA256",
            ..TlsDetails::default()
        }),
        ..ClientDetails::default()
    };
    let mut attempt = attempt(Protocol::Pop3, Method::Apop);
    attempt.salt = Some("<1.2@mail>".to_owned());
    let request = text(&request(&service(), &attempt, &client));
    assert!(
        request.contains("\r\nAuth-Salt: <1.2@mail>\r\nAuth-Protocol: pop3\r\n"),
        "{request}"
    );
    assert!(
        request.contains(
            "\r\nAuth-SSL: on\r\nAuth-SSL-Protocol: TLSv1.2\r\n\
             Auth-SSL-Cipher: ECDHE-RSA-AES128-GCM-SHA256\r\nX-Key:"
        ),
        "{request}"
    );
}

fn decide(
    protocol: Protocol,
    method: Method,
    head: &str,
) -> Result<Option<Decision>, AuthHttpError> {
    let attempt = attempt(protocol, method);
    let whole = AuthResponse::new(&attempt).receive(head.as_bytes());
    for piece_bytes in [1, 3] {
        let mut response = AuthResponse::new(&attempt);
        let mut last = Ok(None);
        for piece in head.as_bytes().chunks(piece_bytes) {
            match response.receive(piece) {
                Ok(None) => {}
                decided if matches!(last, Ok(None)) => last = decided,
                // An error stays one.
                again => assert_eq!(again, last),
            }
        }
        assert_eq!(last, whole, "{head}");
    }
    whole
}

fn plain(head: &str) -> Result<Option<Decision>, AuthHttpError> {
    decide(Protocol::Imap, Method::Plain, head)
}

fn allowed(head: &str) -> Allowed {
    match plain(head) {
        Ok(Some(Decision::Allowed(allowed))) => allowed,
        other => panic!("{head}: {other:?}"),
    }
}

#[test]
fn an_allowed_login_has_an_address() {
    let full = allowed(
        "HTTP/1.1 200 OK\r\nDate: now\r\nauth-status: OK\r\nAuth-Server:  127.000.0.1 \r\n\
         Auth-Port: 0143\r\nAuth-User: jo smith\r\nAuth-Pass: x y\r\n\r\nbody",
    );
    assert_eq!(full.address.to_string(), "127.0.0.1");
    assert_eq!(full.port, 143);
    assert_eq!(full.name, "127.000.0.1:0143");
    assert_eq!(full.user.as_deref(), Some(&b"jo smith"[..]));
    assert_eq!(full.password, Some(Secret::new(b"x y".to_vec())));
    // As in nginx: no status line, no Auth-Status, an error as the status; lines that end with LF.
    for head in [
        "Auth-Server: ::1\nAuth-Port: 1\n\n",
        "HTTP/1.0 500 Error\r\nAuth-Server: ::1\r\nAuth-Port: 1\r\n\r\n",
        "HTTP/1.0 200\nAuth-Status: OK\nNo-Colon\nAuth-Server: ::1\nAuth-Port: 1\n\n",
    ] {
        let allowed = allowed(head);
        assert_eq!(allowed.name, "::1:1");
        assert_eq!((allowed.user, allowed.password), (None, None));
    }
}

#[test]
fn a_refusal_may_have_a_code_and_a_wait() {
    let refused = plain(
        "HTTP/1.0 200 OK\r\nAuth-Status: Invalid login  or password  \r\nAuth-Status: OK\r\n\
         Auth-Wait: 3\r\nAuth-Wait: x\r\nAuth-Error-Code: 451 4.3.0\r\nAuth-Error-SASL: abcd\r\n\r\n",
    );
    let refusal = Refusal {
        message: b"Invalid login  or password".to_vec(),
        code: Some(b"451 4.3.0".to_vec()),
        sasl_error: Some(b"abcd".to_vec()),
        wait_seconds: 3,
    };
    let message = "client login failed: \"Invalid login  or password\"";
    assert_eq!(refusal.note().to_string(), message);
    assert_eq!(refused, Ok(Some(Decision::Refused(refusal))));
    // Nothing is not OK.
    for protocol in Protocol::ALL {
        let head = "Auth-Status:\r\nAuth-Server: ::1\r\nAuth-Port: 1\r\n\r\n";
        let decision = decide(protocol, Method::Plain, head);
        assert!(
            matches!(decision, Ok(Some(Decision::Refused(_)))),
            "{decision:?}"
        );
    }
    // In SMTP it is no reason to tell a client that its password is wrong.
    let decision = decide(Protocol::Smtp, Method::Plain, "Auth-Status:\r\n\r\n");
    assert_eq!(decision, Err(AuthHttpError::NoServerOrPort));
}

#[test]
fn a_service_may_want_to_be_asked_again() {
    let wait = |head| plain(head);
    assert_eq!(
        wait("HTTP/1.0 200 OK\r\nAuth-Status: WAIT\r\nAuth-Wait: 7\r\n\r\n"),
        Ok(Some(Decision::Wait { seconds: 7 }))
    );
    assert_eq!(
        wait("Auth-Status: WAIT\r\nAuth-Wait: 99999999999999999999\r\n\r\n"),
        Ok(Some(Decision::Wait { seconds: 1 }))
    );
}

#[test]
fn passwords_are_needed_unless_it_is_smtp() {
    let head = "Auth-Status: OK\r\nAuth-Server: ::1\r\nAuth-Port: 1\r\n";
    for method in [Method::Apop, Method::CramMd5] {
        let without = decide(Protocol::Pop3, method, &format!("{head}\r\n"));
        assert_eq!(without, Err(AuthHttpError::NoPassword));
        let with = decide(Protocol::Pop3, method, &format!("{head}Auth-Pass:\r\n\r\n"));
        assert!(matches!(with, Ok(Some(Decision::Allowed(_)))), "{with:?}");
        let smtp = decide(Protocol::Smtp, method, &format!("{head}\r\n"));
        assert!(matches!(smtp, Ok(Some(Decision::Allowed(_)))), "{smtp:?}");
    }
}

#[test]
fn broken_responses_say_what_is_wrong() {
    let server = "Auth-Server: 192.0.2.1\r\n";
    for (head, message) in [
        (
            "HTTP/1.0 200 OK\r\r\n\r\n".to_owned(),
            "sent invalid response",
        ),
        (
            "HTTP/1.0 200 OK\r\nA_B: c\r\n\r\n".to_owned(),
            "sent invalid header in response",
        ),
        (
            "-A: c\r\n\r\n".to_owned(),
            "sent invalid header in response",
        ),
        (": c\r\n\r\n".to_owned(), "sent invalid header in response"),
        (
            " A: c\r\n\r\n".to_owned(),
            "sent invalid header in response",
        ),
        (
            "A: c\rd\r\n\r\n".to_owned(),
            "sent invalid header in response",
        ),
        (
            "HTTP/1.0 200 OK\r\n\r\n".to_owned(),
            "did not send server or port",
        ),
        (format!("{server}\r\n"), "did not send server or port"),
        (
            "Auth-Port: 1\r\n\r\n".to_owned(),
            "did not send server or port",
        ),
        (
            "Auth-Server: mail.example.org\r\nAuth-Port: 1\r\n\r\n".to_owned(),
            "sent invalid server address:\"mail.example.org\"",
        ),
        (
            "Auth-Server: unix:/run/x\r\nAuth-Port: 1\r\n\r\n".to_owned(),
            "sent invalid server address:\"unix:/run/x\"",
        ),
        (
            "Auth-Server: [::1]\r\nAuth-Port: 1\r\n\r\n".to_owned(),
            "sent invalid server address:\"[::1]\"",
        ),
        (
            "Auth-Server: 1.2.3.\r\nAuth-Port: 1\r\n\r\n".to_owned(),
            "sent invalid server address:\"1.2.3.\"",
        ),
        (
            "Auth-Server: 1.2.3.4.5\r\nAuth-Port: 1\r\n\r\n".to_owned(),
            "sent invalid server address:\"1.2.3.4.5\"",
        ),
        (
            "Auth-Server: 1.2.3.256\r\nAuth-Port: 1\r\n\r\n".to_owned(),
            "sent invalid server address:\"1.2.3.256\"",
        ),
        (
            "Auth-Server: 255.255.255.255\r\nAuth-Port: 1\r\n\r\n".to_owned(),
            "sent invalid server address:\"255.255.255.255\"",
        ),
        (
            format!("{server}Auth-Port: 0\r\n\r\n"),
            "sent invalid server port:\"0\"",
        ),
        (
            format!("{server}Auth-Port: 65536\r\n\r\n"),
            "sent invalid server port:\"65536\"",
        ),
        (
            format!("{server}Auth-Port: +1\r\n\r\n"),
            "sent invalid server port:\"+1\"",
        ),
    ] {
        let error = plain(&head).expect_err(&head);
        assert_eq!(
            error.message("127.0.0.1:80"),
            format!("auth http server 127.0.0.1:80 {message}")
        );
    }
}

#[test]
fn a_header_ends_within_its_limit_or_not_at_all() {
    let line = format!("X: {}\r\n", "x".repeat(AUTH_RESPONSE_BYTES - 7));
    assert_eq!(line.len() + 2, AUTH_RESPONSE_BYTES);
    assert_eq!(
        plain(&format!("{line}\r\n")),
        Err(AuthHttpError::NoServerOrPort)
    );
    assert_eq!(
        plain(&format!("{line}\nA\r\n")),
        Err(AuthHttpError::NoServerOrPort)
    );
    assert_eq!(
        plain(&format!("{line}A:\r\n\r\n")),
        Err(AuthHttpError::TooLongHeader)
    );
    let mut response = AuthResponse::new(&attempt(Protocol::Imap, Method::Plain));
    assert_eq!(
        response.receive(b"HTTP/1.0 200 OK\r\nAuth-Status: OK\r\n"),
        Ok(None)
    );
    assert_eq!(response.close(), Err(AuthHttpError::Closed));
    assert_eq!(response.receive(b"\r\n"), Err(AuthHttpError::Closed));
    assert_eq!(response.receive(b""), Err(AuthHttpError::Closed));
}

#[test]
fn what_follows_a_decision_is_ignored() {
    let mut response = AuthResponse::new(&attempt(Protocol::Imap, Method::Plain));
    let first = response.receive(b"Auth-Status: no\r\n\r\nAuth_: \r\n");
    assert!(matches!(first, Ok(Some(Decision::Refused(_)))), "{first:?}");
    assert_eq!(response.receive(&[b'x'; AUTH_RESPONSE_BYTES * 2]), Ok(None));
    assert_eq!(response.close(), Ok(()));
}
