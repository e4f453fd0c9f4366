//! What the auth service, mail servers, TLS and PROXY headers add to sessions.

use super::*;

/// What an auth service can answer.
pub(super) fn answers(protocol: Protocol) -> Vec<Case> {
    let login = login(protocol);
    let new = |name: &str| case(protocol, port(protocol, ""), name, login);
    // A second attempt behind a refusal.
    let mut twice = login[..login.len() - 1].to_vec();
    twice.extend(&login[1..]);
    let again = |name: &str| case(protocol, port(protocol, ""), name, &twice);
    let refusal = |more: &str| {
        format!("HTTP/1.0 200 OK\r\nAuth-Status: Invalid login or password\r\n{more}\r\n")
    };
    let head = "HTTP/1.0 200 OK\r\nAuth-Status: OK\r\n";
    let accepted =
        |more: &str| format!("{head}Auth-Server: 127.0.0.1\r\nAuth-Port: %port%\r\n{more}\r\n");
    let short = |name: &str, deeds: &[Deed]| {
        case(protocol, port(protocol, "short"), name, login).does(deeds)
    };
    vec![
        new("refused").answers(&[&refusal("")]),
        again("refused, then accepted").answers(&[&refusal("Auth-Wait: 1\r\n"), ACCEPTED]),
        again("refused twice").answers(&[&refusal("Auth-Wait: 1\r\n"), &refusal("")]),
        new("refused with a code").answers(&[&refusal("Auth-Error-Code: 454 4.7.0\r\n")]),
        new("refused with an empty text")
            .answers(&["HTTP/1.0 200 OK\r\nAuth-Status:  x  \r\nAuth-Wait: 0\r\n\r\n"]),
        new("asked again").answers(&[
            "HTTP/1.0 200 OK\r\nAuth-Status: WAIT\r\nAuth-Wait: 1\r\n\r\n",
            ACCEPTED,
        ]),
        new("other name and password")
            .answers(&[&accepted("Auth-User: other\r\nAuth-Pass: pw\r\n")]),
        new("a body behind it").answers(&[&format!("{}a body\r\nAuth-Status: no\r\n", ACCEPTED)]),
        new("HTTP/1.1 in chunks").answers(&[&accepted("Transfer-Encoding: chunked\r\n")
            .replace("1.0", "1.1")
            .replace("\r\n\r\n", "\r\n\r\n5\r\nhello\r\n0\r\n\r\n")]),
        new("HTTP/1.1 with an error").answers(&[&accepted("").replace("1.0 200 OK", "1.1 500 Oh")]),
        new("an error page").answers(&["HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno"]),
        new("auth service: byte by byte").does(&[Deed::Drip(ACCEPTED.to_owned())]),
        new("in halves").does(&[
            send("HTTP/1.0 200 OK\r\nAuth-Sta"),
            send("tus: OK\r\nAuth-Server: 127.0.0.1\r\nAuth-Port: %port%\r\n"),
            send("\r\n"),
        ]),
        new("auth service: LF alone").answers(&[&ACCEPTED.replace("\r\n", "\n")]),
        new("no status line")
            .answers(&["Auth-Status: OK\r\nAuth-Server: 127.0.0.1\r\nAuth-Port: %port%\r\n\r\n"]),
        new("auth service: lower case").answers(&[&ACCEPTED.replace("Auth-", "auth-")]),
        new("no Auth-Status")
            .answers(&["HTTP/1.0 200 OK\r\nAuth-Server: 127.0.0.1\r\nAuth-Port: %port%\r\n\r\n"]),
        new("no server").answers(&[&format!("{head}Auth-Port: 1\r\n\r\n")]),
        new("no port").answers(&[&format!("{head}Auth-Server: 127.0.0.1\r\n\r\n")]),
        new("a name as server").answers(&[&format!(
            "{head}Auth-Server: localhost\r\nAuth-Port: 1\r\n\r\n"
        )]),
        new("a wrong port").answers(&[&format!(
            "{head}Auth-Server: 127.0.0.1\r\nAuth-Port: 99999\r\n\r\n"
        )]),
        new("a port that is none").answers(&[&format!(
            "{head}Auth-Server: 127.0.0.1\r\nAuth-Port: x\r\n\r\n"
        )]),
        new("nobody there").answers(&[&format!(
            "{head}Auth-Server: 127.0.0.1\r\nAuth-Port: 1\r\n\r\n"
        )]),
        new("unknown headers").answers(&[&accepted(
            "X-A: b\r\nServer: me\r\nAuth-Nothing: x\r\nAuth: \r\n",
        )]),
        new("a header that is none").answers(&[&format!("{head}Auth_Server: x\r\n\r\n")]),
        new("auth service: nothing").does(&[Deed::Close]),
        new("half a head").answers(&["HTTP/1.0 200 OK\r\nAuth-Sta"]),
        new("a reset").does(&[Deed::Reset]),
        new("garbage").answers(&["\u{1}\u{2}\u{3} garbage\r\n\r\n"]),
        short("silence of the auth service", &[Deed::Silence]),
        short(
            "half a head and silence",
            &[send("HTTP/1.0 200 OK\r\nAuth-Sta"), Deed::Silence],
        ),
        case(protocol, port(protocol, "nowhere"), "nobody listens", login),
    ]
}

/// Methods of AUTH.
pub(super) fn sasl(protocol: Protocol) -> Vec<Case> {
    let until = match protocol {
        Protocol::Imap | Protocol::Pop3 => "?welcome",
        Protocol::Smtp => "?235",
    };
    let (verb, hello, after): (&str, &[&str], &str) = match protocol {
        Protocol::Imap => ("a1 AUTHENTICATE", &[">"], "a2 NOOP\r\n"),
        Protocol::Pop3 => ("AUTH", &[">"], "STAT\r\n"),
        Protocol::Smtp => ("AUTH", &[">", "EHLO me\r\n"], "250 NOOP\r\n"),
    };
    let new = |name: &str, script: &[&str]| {
        let mut whole: Vec<String> = hello.iter().map(|step| (*step).to_owned()).collect();
        whole.extend(script.iter().map(|step| step.replace("AUTH", verb)));
        whole.push(after.to_owned());
        let whole: Vec<&str> = whole.iter().map(String::as_str).collect();
        case(
            protocol,
            port(protocol, ""),
            &format!("AUTH {name}"),
            &whole,
        )
    };
    let bare = |name: &str, script: &[&str]| {
        let mut one = new(name, script);
        one.port = port(protocol, "bare");
        one.name = format!("{protocol:?} bare: {name}");
        one
    };
    let plain = base64(b"\0jo\0secret");
    let with_identity = base64(b"me\0jo\0secret");
    let (user, password) = (base64(b"jo"), base64(b"secret"));
    let digest = base64(b"jo 0123456789abcdef0123456789abcdef");
    let with_password = format!("{}Auth-Pass: pw\r\n\r\n", &ACCEPTED[..ACCEPTED.len() - 2]);
    let line = |text: &str| format!("{text}\r\n");
    vec![
        new("PLAIN", &["AUTH PLAIN\r\n", &line(&plain)]),
        new("PLAIN at once", &[&format!("AUTH PLAIN {plain}\r\n")]),
        new(
            "PLAIN with an identity",
            &[&format!("AUTH PLAIN {with_identity}\r\n")],
        ),
        new(
            "PLAIN in bytes",
            &["~AUTH PLAIN\r\n", &format!("~{plain}\r\n")],
        ),
        new("PLAIN in lower case", &[&format!("AUTH plain {plain}\r\n")]),
        new("PLAIN, not base64", &["AUTH PLAIN\r\n", "*\r\n"]),
        new("PLAIN, an empty line", &["AUTH PLAIN\r\n", "\r\n"]),
        new(
            "PLAIN without a name",
            &["AUTH PLAIN\r\n", &line(&base64(b"nothing"))],
        ),
        new(
            "PLAIN without a password",
            &["AUTH PLAIN\r\n", &line(&base64(b"\0jo"))],
        ),
        new(
            "PLAIN with an empty password",
            &["AUTH PLAIN\r\n", &line(&base64(b"\0jo\0"))],
        ),
        new(
            "PLAIN pipelined",
            &[&format!("<AUTH PLAIN\r\n{plain}\r\n"), until],
        ),
        bare("PLAIN", &["AUTH PLAIN\r\n", &line(&plain)]),
        new("LOGIN", &["AUTH LOGIN\r\n", &line(&user), &line(&password)]),
        new(
            "LOGIN at once",
            &[&format!("AUTH LOGIN {user}\r\n"), &line(&password)],
        ),
        new("LOGIN, name not base64", &["AUTH LOGIN\r\n", "*\r\n"]),
        new(
            "LOGIN, password not base64",
            &["AUTH LOGIN\r\n", &line(&user), "*\r\n"],
        ),
        new(
            "LOGIN, empty name",
            &["AUTH LOGIN\r\n", "\r\n", &line(&password)],
        ),
        bare("LOGIN", &["AUTH LOGIN\r\n", &line(&user), &line(&password)]),
        new("CRAM-MD5", &["AUTH CRAM-MD5\r\n", &line(&digest)]).answers(&[&with_password]),
        new(
            "CRAM-MD5 without Auth-Pass",
            &["AUTH CRAM-MD5\r\n", &line(&digest)],
        ),
        new("CRAM-MD5, not base64", &["AUTH CRAM-MD5\r\n", "*\r\n"]),
        new(
            "CRAM-MD5, no digest",
            &["AUTH CRAM-MD5\r\n", &line(&base64(b"jo 1234"))],
        ),
        new(
            "CRAM-MD5 at once",
            &[&format!("AUTH CRAM-MD5 {digest}\r\n")],
        ),
        bare("CRAM-MD5", &["AUTH CRAM-MD5\r\n"]),
        new("EXTERNAL", &["AUTH EXTERNAL\r\n", &line(&user)]),
        new("EXTERNAL at once", &[&format!("AUTH EXTERNAL {user}\r\n")]),
        new("EXTERNAL, not base64", &["AUTH EXTERNAL\r\n", "*\r\n"]),
        bare("EXTERNAL", &["AUTH EXTERNAL\r\n"]),
        new("APOP", &["APOP jo 0123456789abcdef\r\n"]).answers(&[&with_password]),
        new("APOP without Auth-Pass", &["APOP jo 0123456789abcdef\r\n"]),
        new(
            "APOP with too little",
            &["APOP jo\r\n", "APOP\r\n", "APOP a b c\r\n"],
        ),
    ]
}

/// What a mail server can do during a login.
pub(super) fn mail_servers(protocol: Protocol) -> Vec<Case> {
    let login = login(protocol);
    let good = accepting(protocol);
    let mut list = Vec::new();
    // Each of its responses is replaced.
    let refusals: &[(&str, &str)] = match protocol {
        Protocol::Imap => &[
            ("refused", "a1 NO never\r\n"),
            ("odd", "what is it?\r\n"),
            ("in lower case", "* ok\r\n"),
            ("bye", "* BYE\r\n"),
        ],
        Protocol::Pop3 => &[
            ("refused", "-ERR never\r\n"),
            ("odd", "what is it?\r\n"),
            ("in lower case", "+ok\r\n"),
        ],
        Protocol::Smtp => &[
            ("refused", "550 never\r\n"),
            ("odd", "what is it?\r\n"),
            ("in two lines", "550-a\r\n550 b\r\n"),
        ],
    };
    let responses: Vec<usize> = (0..good.len())
        .filter(|at| matches!(good[*at], Deed::Send(_)))
        .collect();
    for (number, &at) in responses.iter().enumerate() {
        for (what, response) in refusals {
            for kind in ["", "pass"] {
                let mut server = good.clone();
                server[at] = send(response);
                let name = format!("response {number} {what}");
                list.push(case(protocol, port(protocol, kind), &name, login).mail(&server));
            }
        }
        let mut server = good.clone();
        if let Deed::Send(text) = &good[at] {
            server[at] = Deed::Drip(text.clone());
        }
        list.push(
            case(
                protocol,
                port(protocol, ""),
                &format!("response {number} byte by byte"),
                login,
            )
            .mail(&server),
        );
        for (what, deed) in [("missing", Deed::Close), ("a reset", Deed::Reset)] {
            let mut server = good[..at].to_vec();
            server.push(deed);
            let name = format!("response {number} {what}");
            list.push(case(protocol, port(protocol, ""), &name, login).mail(&server));
        }
        let mut server = good[..at].to_vec();
        server.push(Deed::Silence);
        list.push(
            case(
                protocol,
                port(protocol, "short"),
                &format!("response {number} never"),
                login,
            )
            .mail(&server),
        );
        let mut server = good[..at].to_vec();
        server.push(send(&"x".repeat(200)));
        server.push(Deed::Silence);
        list.push(
            case(
                protocol,
                port(protocol, "short"),
                &format!("response {number} too long"),
                login,
            )
            .mail(&server),
        );
    }
    let mut server = good.clone();
    server.push(Deed::Close);
    list.push(
        case(
            protocol,
            port(protocol, ""),
            "closed behind the login",
            login,
        )
        .mail(&server),
    );
    let idle = [&login[..login.len() - 1], &["."]].concat();
    list.push(case(
        protocol,
        port(protocol, "short"),
        "nothing behind the login",
        &idle,
    ));
    let gone = [&login[..login.len() - 1], &["#"]].concat();
    list.push(case(
        protocol,
        port(protocol, ""),
        "gone behind the login",
        &gone,
    ));
    list
}

/// TLS from the beginning, and later.
pub(super) fn tls(protocol: Protocol) -> Vec<Case> {
    let login = login(protocol);
    let command = match protocol {
        Protocol::Imap => "s STARTTLS\r\n",
        Protocol::Pop3 => "STLS\r\n",
        Protocol::Smtp => "STARTTLS\r\n",
    };
    let capabilities = match protocol {
        Protocol::Imap => "c CAPABILITY\r\n",
        Protocol::Pop3 => "CAPA\r\n",
        Protocol::Smtp => "EHLO me\r\n",
    };
    let after = &login[1..];
    let within = |options: &'static str| [&[options], login].concat();
    let later = |options: &'static str| [&[">", command, options, capabilities], after].concat();
    let with_certificate = "!-tls1_2 -cert CERTIFICATES/jo.pem -key CERTIFICATES/jo.key";
    vec![
        case(
            protocol,
            port(protocol, "ssl"),
            "TLS 1.3",
            &within("!-tls1_3"),
        ),
        case(
            protocol,
            port(protocol, "ssl"),
            "TLS 1.2",
            &within("!-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256"),
        ),
        case(
            protocol,
            port(protocol, "ssl"),
            "commands of TLS",
            &["!-tls1_3", ">", capabilities, command, capabilities],
        ),
        case(protocol, port(protocol, "ssl"), "no TLS", &["a NOOP\r\n"]),
        case(
            protocol,
            port(protocol, "on"),
            "TLS 1.3",
            &later("!-tls1_3"),
        ),
        case(
            protocol,
            port(protocol, "only"),
            "TLS 1.2",
            &later("!-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256"),
        ),
        case(
            protocol,
            port(protocol, "only"),
            "twice",
            &[">", command, "!-tls1_3", command, capabilities],
        ),
        case(
            protocol,
            port(protocol, "on"),
            "STARTTLS and no handshake",
            &[">", command, "<garbage\r\n", "."],
        ),
        case(
            protocol,
            port(protocol, "cert"),
            "a certificate",
            &within(with_certificate),
        ),
        case(
            protocol,
            port(protocol, "cert"),
            "no certificate",
            &within("!-tls1_2"),
        ),
        case(
            protocol,
            port(protocol, "must"),
            "a certificate",
            &within(with_certificate),
        ),
        case(
            protocol,
            port(protocol, "must"),
            "no certificate",
            &within("!-tls1_2"),
        ),
        case(
            protocol,
            port(protocol, "must"),
            "no certificate with TLS 1.3",
            &within("!-tls1_3"),
        ),
    ]
}

/// PROXY headers, in and out.
pub(super) fn headers(protocol: Protocol) -> Vec<Case> {
    let login = login(protocol);
    const BINARY: &str = "<\\x0d\\x0a\\x0d\\x0a\\x00\\x0d\\x0aQUIT\\x0a\\x21\\x11\\x00\\x0c";

    /// A binary header for IPv4 with its checksum.
    const BINARY_BYTES: usize = 16 + 12 + 7;
    let text = |last: &str| format!("<PROXY TCP4 192.0.2.{last} 192.0.2.99 4660 443\r\n");
    let before = |header: &str| -> Vec<String> {
        let mut all = vec![header.to_owned()];
        all.extend(login.iter().map(|step| (*step).to_owned()));
        all
    };
    let new = |kind: &str, name: &str, header: &str| {
        let script = before(header);
        let script: Vec<&str> = script.iter().map(String::as_str).collect();
        case(protocol, port(protocol, kind), name, &script)
    };
    let (first, second) = match protocol {
        Protocol::Imap => ("192.0.2.1", "192.0.2.2"),
        Protocol::Pop3 => ("192.0.2.3", "192.0.2.4"),
        Protocol::Smtp => ("192.0.2.5", "192.0.2.6"),
    };
    let last = |address: &'static str| &address[address.len() - 1..];
    let mut answered = vec![Deed::Line];
    answered.extend(accepting(protocol));
    let with_port =
        |name: &str, script: &[&str]| case(protocol, port(protocol, "outa"), name, script);
    vec![
        new("told", "a header", &text("7")),
        new(
            "told",
            "a binary header",
            &format!("{BINARY}\\xc0\\x00\\x02\\x07\\xc0\\x00\\x02\\x63\\x12\\x34\\x01\\xbb"),
        ),
        new("told", "a header of nobody", "<PROXY UNKNOWN\r\n"),
        new("told", "a broken header", "<PROXY TCP4 192.0.2.7\r\n"),
        case(
            protocol,
            port(protocol, "told"),
            "no header",
            &["<NOOP and something\r\n", "."],
        ),
        new("trusted", "a header", &text(last(first)))
            .known_as(first)
            .mail(&answered),
        new(
            "trusted",
            "a binary header",
            &format!(
                "{BINARY}\\xc0\\x00\\x02\\x0{}\\xc0\\x00\\x02\\x63\\x12\\x34\\x01\\xbb",
                last(second)
            ),
        )
        .known_as(second)
        .mail(&answered),
        with_port("a header", login).mail(&answered.clone()),
        // Ports and checksum may contain line ends, as its signature does.
        case(protocol, port(protocol, "outb"), "a binary header", login)
            .mail(&[vec![Deed::Bytes(BINARY_BYTES)], accepting(protocol)].concat()),
    ]
}
