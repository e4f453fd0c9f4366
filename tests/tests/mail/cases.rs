//! The sessions that are compared: what the client says, what the auth service answers, and what the
//! mail server does.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// There are more than so many.
pub(super) const CASES_BELOW: usize = 200;

/// A session.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) protocol: Protocol,
    /// The server that the client connects to.
    pub(super) port: &'static str,
    pub(super) steps: Vec<Step>,
    /// What the auth service answers, one request after the other.
    pub(super) answers: Vec<Vec<Deed>>,
    /// What the mail server does.
    pub(super) server: Vec<Deed>,
    /// The client's address as the auth service sees it, if a header says another one.
    pub(super) known_as: Option<&'static str>,
}

impl Case {
    /// With the paths of a site.
    pub(super) fn at(&self, site: &Site) -> Case {
        let directory = site.path("certificates").display().to_string();
        let mut case = self.clone();
        for step in &mut case.steps {
            if let Step::Tls(options) = step {
                *options = options.replace("CERTIFICATES", &directory);
            }
        }
        case
    }

    fn answers(mut self, answers: &[&str]) -> Case {
        self.answers = answers.iter().map(|answer| vec![send(answer)]).collect();
        self
    }

    fn does(mut self, deeds: &[Deed]) -> Case {
        self.answers = vec![deeds.to_vec()];
        self
    }

    fn mail(mut self, deeds: &[Deed]) -> Case {
        self.server = deeds.to_vec();
        self
    }

    fn known_as(mut self, address: &'static str) -> Case {
        self.known_as = Some(address);
        self
    }
}

/// A word that begins with `<` is not answered at once: it is only sent; `>` waits for a response
/// without sending, `?` until this has come; `~` sends byte by byte; `!` does TLS; `.` waits for the end; `#` is a reset.
/// Everything else is said, and a response waited for.
fn steps(script: &[&str]) -> Vec<Step> {
    let step = |text: &&str| match text.split_at_checked(1) {
        Some(("<", rest)) => Step::Tell(rest.to_owned()),
        Some((">", "")) => Step::Hear,
        Some((".", "")) => Step::Wait,
        Some(("#", "")) => Step::Reset,
        Some(("?", rest)) => Step::Until(rest.to_owned()),
        Some(("~", rest)) => Step::Spell(rest.to_owned()),
        Some(("!", rest)) => Step::Tls(rest.to_owned()),
        _ => Step::Say((*text).to_owned()),
    };
    script.iter().map(step).collect()
}

fn case(protocol: Protocol, port: &'static str, name: &str, script: &[&str]) -> Case {
    Case {
        name: format!("{port}: {name}"),
        protocol,
        port,
        steps: steps(script),
        answers: vec![vec![send(ACCEPTED)]],
        server: accepting(protocol),
        known_as: None,
    }
}

fn imap(port: &'static str, name: &str, script: &[&str]) -> Case {
    case(Protocol::Imap, port, name, script)
}

fn pop3(port: &'static str, name: &str, script: &[&str]) -> Case {
    case(Protocol::Pop3, port, name, script)
}

fn smtp(port: &'static str, name: &str, script: &[&str]) -> Case {
    case(Protocol::Smtp, port, name, script)
}

pub(super) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// All of them.
pub(super) fn all() -> Vec<Case> {
    let mut all = imap_commands();
    all.extend(imap_logins());
    all.extend(pop3_commands());
    all.extend(smtp_commands());
    all.extend(smtp_logins());
    for protocol in [Protocol::Imap, Protocol::Pop3, Protocol::Smtp] {
        all.extend(answers(protocol));
        all.extend(sasl(protocol));
        all.extend(mail_servers(protocol));
        all.extend(tls(protocol));
        all.extend(headers(protocol));
    }
    all
}

/// The login of most sessions, and a command behind it.
fn login(protocol: Protocol) -> &'static [&'static str] {
    match protocol {
        Protocol::Imap => &[">", "a1 LOGIN jo secret\r\n", "a2 NOOP\r\n"],
        Protocol::Pop3 => &[">", "USER jo\r\n", "PASS secret\r\n", "STAT\r\n"],
        Protocol::Smtp => &[
            ">",
            "EHLO me\r\n",
            "AUTH PLAIN AGpvAHNlY3JldA==\r\n",
            "250 NOOP\r\n",
        ],
    }
}

/// A server of the protocol: `imap_on` and so on.
fn port(protocol: Protocol, kind: &str) -> &'static str {
    let name = match protocol {
        Protocol::Imap => "imap",
        Protocol::Pop3 => "pop",
        Protocol::Smtp => "smtp",
    };
    match kind {
        "" => name,
        kind => Box::leak(format!("{name}_{kind}").into_boxed_str()),
    }
}

fn imap_commands() -> Vec<Case> {
    let mut all = vec![
        imap("imap", "nothing", &[]),
        imap("imap", "only the greeting", &[">"]),
        imap(
            "imap",
            "NOOP and LOGOUT",
            &[">", "1 NOOP\r\n", "2 LOGOUT\r\n", "."],
        ),
        imap("imap", "CAPABILITY", &[">", "1 CAPABILITY\r\n"]),
        imap("imap_bare", "CAPABILITY", &[">", "1 CAPABILITY\r\n"]),
        imap("imap_own", "CAPABILITY", &[">", "1 CAPABILITY\r\n"]),
        imap("imap_on", "CAPABILITY", &[">", "1 CAPABILITY\r\n"]),
        imap("imap_only", "CAPABILITY", &[">", "1 CAPABILITY\r\n"]),
        imap(
            "imap",
            "lower case",
            &[">", "a noop\r\n", "b CaPaBiLiTy\r\n", "c logout\r\n"],
        ),
        imap("imap", "LF alone", &[">", "a NOOP\n", "b LOGOUT\n"]),
        imap(
            "imap",
            "spaces",
            &[">", "a   NOOP  \r\n", "b NOOP x y z\r\n"],
        ),
        imap(
            "imap",
            "byte by byte",
            &[">", "~a NOOP\r\n", "~b CAPABILITY\r\n"],
        ),
        imap(
            "imap",
            "unknown command",
            &[">", "a SELECT INBOX\r\n", "b NOOP\r\n"],
        ),
        imap("imap", "no tag", &[">", " NOOP\r\n", "a NOOP\r\n"]),
        imap(
            "imap",
            "tag with odd bytes",
            &[">", "a* NOOP\r\n", "A-._9 NOOP\r\n"],
        ),
        imap("imap", "tag alone", &[">", "a\r\n", "b \r\n", "b NOOP\r\n"]),
        imap("imap", "empty line", &[">", "\r\n", "b NOOP\r\n"]),
        imap(
            "imap",
            "longest tag",
            &[
                ">",
                "0123456789012345678901234567890 NOOP\r\n",
                "01234567890123456789012345678901 NOOP\r\n",
            ],
        ),
        imap(
            "imap",
            "too long tag",
            &[
                ">",
                "0123456789012345678901234567890123456789 NOOP\r\n",
                "a NOOP\r\n",
            ],
        ),
        imap(
            "imap",
            "too many errors",
            &[
                ">", "a X\r\n", "b X\r\n", "c X\r\n", "d X\r\n", "e X\r\n", ".",
            ],
        ),
        imap(
            "imap_errors",
            "two errors",
            &[">", "a X\r\n", "b X\r\n", "."],
        ),
        imap(
            "imap",
            "pipelined",
            &[">", "<a NOOP\r\nb NOOP\r\n", "?b OK"],
        ),
        imap(
            "imap",
            "pipelined with LOGOUT",
            &[">", "<a NOOP\r\nb LOGOUT\r\nc NOOP\r\n", "."],
        ),
        imap(
            "imap",
            "AUTHENTICATE without a method",
            &[">", "a AUTHENTICATE\r\n", "b NOOP\r\n"],
        ),
        imap(
            "imap",
            "AUTHENTICATE with an unknown method",
            &[">", "a AUTHENTICATE GSSAPI\r\n", "b NOOP\r\n"],
        ),
        imap(
            "imap",
            "AUTHENTICATE with too much",
            &[">", "a AUTHENTICATE PLAIN x y\r\n", "b NOOP\r\n"],
        ),
        imap(
            "imap",
            "LOGIN without arguments",
            &[">", "a LOGIN\r\n", "b LOGIN jo\r\n", "c LOGIN jo x y\r\n"],
        ),
        imap(
            "imap",
            "LOGIN of nobody",
            &[">", "a LOGIN \"\" x\r\n", "b NOOP\r\n"],
        ),
        imap(
            "imap",
            "STARTTLS where there is none",
            &[">", "a STARTTLS\r\n", "b NOOP\r\n"],
        ),
        imap(
            "imap_only",
            "LOGIN before TLS",
            &[
                ">",
                "a1 LOGIN jo secret\r\n",
                "b AUTHENTICATE PLAIN\r\n",
                "c NOOP\r\n",
            ],
        ),
        imap(
            "imap_small",
            "too long",
            &[">", &format!("a NOOP {}\r\n", "x".repeat(80)), "."],
        ),
        imap(
            "imap",
            "too long",
            &[">", &format!("a LOGIN jo {}", "x".repeat(5000)), "."],
        ),
        imap(
            "imap_small",
            "too long literal",
            &[
                ">",
                "a LOGIN {100}\r\n",
                &format!("<{}", "x".repeat(100)),
                ".",
            ],
        ),
        imap("imap_short", "silence", &[">", "a NOOP\r\n", "."]),
        imap("imap_short", "half a command", &[">", "<a NO", "."]),
        imap("imap", "gone in a command", &[">", "<a NO", "#"]),
        imap("imap", "zeros", &[">", "a \\x00\\x00\r\n", "b NOOP\r\n"]),
        imap(
            "imap",
            "bytes above ASCII",
            &[">", "a \\xff\\xfe\r\n", "b NOOP\r\n"],
        ),
    ];
    for (name, length) in [("huge", "4294967295"), ("larger", "99999999999999999999")] {
        let command = format!("a LOGIN {{{length}}}\r\n");
        all.push(imap("imap", &format!("{name} literal"), &[">", &command, "."]).mail(&[]));
    }
    all
}

fn imap_logins() -> Vec<Case> {
    let commands = |name: &str, script: &[&str]| {
        let mut whole = vec![">"];
        whole.extend(script);
        whole.push("x NOOP\r\n");
        imap("imap", name, &whole)
    };
    vec![
        commands("LOGIN", &["a1 LOGIN jo secret\r\n"]),
        commands("LOGIN with strings", &["a1 LOGIN \"jo\" \"a secret\"\r\n"]),
        commands(
            "LOGIN with escapes",
            &["a1 LOGIN \"j\\\"o\\\\\" \"a\\\\\\\"b\"\r\n"],
        ),
        commands(
            "LOGIN with literals",
            &["a1 LOGIN {2}\r\n", "jo {6}\r\n", "secret\r\n"],
        ),
        commands(
            "LOGIN with a literal and a string",
            &["a1 LOGIN {2}\r\n", "jo \"secret\"\r\n"],
        ),
        commands(
            "LOGIN with literals at once",
            &["a1 LOGIN {2+}\r\njo {6+}\r\nsecret\r\n"],
        ),
        commands(
            "LOGIN with a literal in pieces",
            &[
                "a1 LOGIN {8}\r\n",
                "<jo@",
                "<exam",
                "~p {6}\r\n",
                "~secret\r\n",
            ],
        ),
        commands(
            "LOGIN with line ends",
            &["a1 LOGIN {5}\r\n", "j\r\no! {6}\r\n", "se\r\net\r\n"],
        ),
        commands("LOGIN byte by byte", &["~a1 LOGIN jo secret\r\n"]),
        commands(
            "LOGIN with odd bytes",
            &["a1 LOGIN j\\xc3\\xb6% se\\x01\\x7f+=\r\n"],
        ),
        commands(
            "LOGIN behind NOOP",
            &["0 NOOP\r\n", "a1 LOGIN jo secret\r\n"],
        ),
        commands(
            "LOGIN behind errors",
            &["0 X\r\n", "0 LOGIN {x}\r\n", "a1 LOGIN jo secret\r\n"],
        ),
        commands("LOGIN with LF alone", &["a1 LOGIN jo secret\n"]),
        commands(
            "pipelined behind LOGIN",
            &["<a1 LOGIN jo secret\r\nb NOOP\r\nc NOOP\r\n", "?c NOOP"],
        ),
        commands(
            "pipelined before LOGIN",
            &["<0 NOOP\r\na1 LOGIN jo secret\r\n", "?welcome"],
        ),
    ]
}

fn pop3_commands() -> Vec<Case> {
    vec![
        pop3("pop_bare", "nothing", &[]),
        pop3(
            "pop_bare",
            "NOOP and QUIT",
            &[">", "NOOP\r\n", "QUIT\r\n", "."],
        ),
        pop3("pop_bare", "CAPA", &[">", "CAPA\r\n"]),
        pop3("pop_own", "CAPA", &[">", "CAPA\r\n", "AUTH\r\n"]),
        pop3(
            "pop_on",
            "CAPA",
            &[">", "CAPA\r\n", "AUTH\r\n", "USER jo\r\n", "CAPA\r\n"],
        ),
        pop3(
            "pop_only",
            "CAPA",
            &[">", "CAPA\r\n", "USER jo\r\n", "NOOP\r\n"],
        ),
        pop3(
            "pop_bare",
            "AUTH",
            &[">", "AUTH\r\n", "AUTH NONSENSE\r\n", "AUTH PLAIN x y\r\n"],
        ),
        pop3(
            "pop_bare",
            "lower case",
            &[">", "noop\r\n", "capa\r\n", "quit\r\n"],
        ),
        pop3("pop_bare", "LF alone", &[">", "NOOP\n", "QUIT\n"]),
        pop3(
            "pop_bare",
            "byte by byte",
            &[">", "~CAPA\r\n", "~USER jo\r\n", "~NOOP\r\n"],
        ),
        pop3(
            "pop_bare",
            "unknown",
            &[">", "STAT\r\n", "LIST 1\r\n", "NOOP\r\n"],
        ),
        pop3(
            "pop_bare",
            "short and long words",
            &[">", "NO\r\n", "NOOPNOOP\r\n", "\r\n", " NOOP\r\n", "."],
        ),
        pop3("pop_bare", "PASS first", &[">", "PASS x\r\n", "NOOP\r\n"]),
        pop3(
            "pop_bare",
            "USER twice",
            &[">", "USER jo\r\n", "USER jo\r\n", "PASS x\r\n"],
        ),
        pop3(
            "pop_bare",
            "USER without a name",
            &[">", "USER\r\n", "USER \r\n", "NOOP\r\n"],
        ),
        pop3(
            "pop_bare",
            "NOOP behind USER",
            &[
                ">",
                "USER jo\r\n",
                "NOOP\r\n",
                "PASS secret\r\n",
                "STAT\r\n",
            ],
        ),
        pop3(
            "pop_bare",
            "CAPA behind USER",
            &[
                ">",
                "USER jo\r\n",
                "CAPA\r\n",
                "PASS secret\r\n",
                "STAT\r\n",
            ],
        ),
        pop3(
            "pop_bare",
            "QUIT behind USER",
            &[">", "USER jo\r\n", "QUIT\r\n", "."],
        ),
        pop3(
            "pop_bare",
            "STLS where there is none",
            &[">", "STLS\r\n", "NOOP\r\n"],
        ),
        pop3(
            "pop_bare",
            "APOP where there is none",
            &[">", "APOP jo 0123\r\n", "NOOP\r\n"],
        ),
        pop3(
            "pop_bare",
            "names with spaces",
            &[">", "USER jo smith\r\n", "PASS  a secret \r\n", "STAT\r\n"],
        ),
        pop3(
            "pop_bare",
            "odd bytes",
            &[
                ">",
                "USER j\\xc3\\xb6%\r\n",
                "PASS se\\x01\\x7f+=\r\n",
                "STAT\r\n",
            ],
        ),
        pop3(
            "pop_bare",
            "LOGIN",
            &[">", "USER jo\r\n", "PASS secret\r\n", "STAT\r\n"],
        ),
        pop3(
            "pop_bare",
            "pipelined",
            &[">", "<USER jo\r\nPASS secret\r\nSTAT\r\nLIST\r\n", "?LIST"],
        ),
        pop3("pop_errors", "two errors", &[">", "X\r\n", "X\r\n", "."]),
        pop3(
            "pop_bare",
            "errors between",
            &[
                ">",
                "USER jo\r\n",
                "X\r\n",
                "PASS secret\r\n",
                "USER jo\r\n",
                "PASS secret\r\n",
                "STAT\r\n",
            ],
        ),
        pop3(
            "pop_bare",
            "longest",
            &[">", &format!("NOOP {}\r\n", "x".repeat(120)), "QUIT\r\n"],
        ),
        pop3(
            "pop_bare",
            "too long",
            &[">", &format!("USER {}\r\n", "x".repeat(200)), "."],
        ),
        pop3("pop_short", "silence", &[">", "USER jo\r\n", "."]),
        pop3("pop_bare", "gone", &[">", "USER jo\r\n", "#"]),
        pop3(
            "pop_bare",
            "zeros",
            &[">", "\\x00\\x00\\x00\\x00\r\n", "NOOP\r\n"],
        ),
    ]
}

fn smtp_commands() -> Vec<Case> {
    vec![
        smtp("smtp", "nothing", &[]),
        smtp("smtp", "NOOP and QUIT", &[">", "NOOP\r\n", "QUIT\r\n", "."]),
        smtp("smtp", "HELO", &[">", "HELO me\r\n", "QUIT\r\n"]),
        smtp("smtp", "EHLO", &[">", "EHLO me\r\n", "QUIT\r\n"]),
        smtp("smtp_bare", "EHLO", &[">", "EHLO me\r\n"]),
        smtp("smtp_own", "EHLO", &[">", "EHLO me\r\n"]),
        smtp("smtp_on", "EHLO", &[">", "EHLO me\r\n"]),
        smtp(
            "smtp_only",
            "EHLO",
            &[">", "EHLO me\r\n", "AUTH PLAIN AGpvAHNlY3JldA==\r\n"],
        ),
        smtp("smtp_open", "EHLO", &[">", "EHLO me\r\n"]),
        smtp("smtp_openplain", "EHLO", &[">", "EHLO me\r\n"]),
        smtp(
            "smtp",
            "HELO without a name",
            &[">", "HELO\r\n", "EHLO\r\n", "EHLO a b\r\n"],
        ),
        smtp(
            "smtp",
            "lower case",
            &[">", "ehlo me\r\n", "noop\r\n", "quit\r\n"],
        ),
        smtp("smtp", "LF alone", &[">", "EHLO me\n", "NOOP\n"]),
        smtp(
            "smtp",
            "byte by byte",
            &[">", "~EHLO me\r\n", "~NOOP\r\n", "~QUIT\r\n"],
        ),
        smtp(
            "smtp",
            "RSET, VRFY, EXPN, HELP",
            &[
                ">",
                "RSET\r\n",
                "VRFY jo\r\n",
                "EXPN jo\r\n",
                "HELP\r\n",
                "NOOP x\r\n",
            ],
        ),
        smtp(
            "smtp",
            "unknown",
            &[">", "DATA\r\n", "ETRN x\r\n", "\r\n", "NOOP\r\n"],
        ),
        smtp(
            "smtp",
            "MAIL without login",
            &[
                ">",
                "EHLO me\r\n",
                "MAIL FROM:<a@b>\r\n",
                "RCPT TO:<a@b>\r\n",
                "NOOP\r\n",
            ],
        ),
        smtp(
            "smtp",
            "AUTH without a method",
            &[
                ">",
                "EHLO me\r\n",
                "AUTH\r\n",
                "AUTH X\r\n",
                "AUTH PLAIN x y\r\n",
                "NOOP\r\n",
            ],
        ),
        smtp(
            "smtp",
            "STARTTLS where there is none",
            &[">", "STARTTLS\r\n", "NOOP\r\n"],
        ),
        smtp(
            "smtp",
            "pipelined",
            &[">", "<EHLO me\r\nNOOP\r\n", "?2.0.0 OK"],
        ),
        smtp("smtp_errors", "two errors", &[">", "X\r\n", "X\r\n", "."]),
        smtp(
            "smtp_small",
            "too long",
            &[">", &format!("EHLO {}\r\n", "x".repeat(100)), "."],
        ),
        smtp(
            "smtp",
            "too long",
            &[">", &format!("EHLO {}", "x".repeat(5000)), "."],
        ),
        smtp(
            "smtp",
            "many arguments",
            &[
                ">",
                "EHLO 1 2 3 4 5 6 7 8 9 10\r\n",
                "NOOP 1 2 3 4 5 6 7 8 9 10 11 12\r\n",
                "NOOP\r\n",
            ],
        ),
        smtp("smtp_short", "silence", &[">", "EHLO me\r\n", "."]),
        smtp("smtp", "gone", &[">", "EHLO me\r\n", "#"]),
        smtp("smtp_late", "who waits", &[">", "EHLO me\r\n", "QUIT\r\n"]),
        smtp("smtp_late", "who does not wait", &["EHLO me\r\n", "."]),
        smtp(
            "smtp_late",
            "who sends much",
            &["<EHLO me\r\nMAIL FROM:<a@b>\r\n", "."],
        ),
        smtp("smtp_late", "who goes away", &["#"]),
        smtp(
            "smtp_open",
            "MAIL out of order",
            &[
                ">",
                "RCPT TO:<a@b>\r\n",
                "HELO me\r\n",
                "MAIL\r\n",
                "MAIL FROM:<a@b>\r\n",
                "MAIL FROM:<a@b>\r\n",
                "RSET\r\n",
                "RCPT TO:<c@d>\r\n",
            ],
        ),
        smtp(
            "smtp_open",
            "MAIL and HELO",
            &[
                ">",
                "MAIL FROM:<a@b>\r\n",
                "HELO me\r\n",
                "RCPT TO:<c@d>\r\n",
            ],
        ),
    ]
}

fn smtp_logins() -> Vec<Case> {
    let envelope: [&str; 4] = [
        ">",
        "EHLO me\r\n",
        "MAIL FROM:<a@b> SIZE=10\r\n",
        "RCPT TO:<c@d> X=Y\r\n",
    ];
    let anonymous = |responses: &[&str]| -> Vec<Deed> {
        let mut deeds = vec![send("220 ready\r\n")];
        for response in responses {
            deeds.push(Deed::Line);
            deeds.push(send(response));
        }
        deeds
    };
    let login = [
        ">",
        "EHLO me\r\n",
        "AUTH PLAIN AGpvAHNlY3JldA==\r\n",
        "250 NOOP\r\n",
    ];
    let with_helo = [
        ">",
        "HELO me\r\n",
        "AUTH PLAIN AGpvAHNlY3JldA==\r\n",
        "250 NOOP\r\n",
    ];
    let mut all = vec![
        smtp("smtp_open", "mail without a login", &envelope)
            .mail(&anonymous(&["250 me\r\n", "220 x\r\n", "250 me\r\n", "250 from\r\n", "250 to\r\n"])),
        smtp("smtp_open", "mail without a login or EHLO", &[">", "MAIL FROM:<a@b>\r\n", "RCPT TO:<c@d>\r\n"])
            .mail(&anonymous(&["250 me\r\n", "220 x\r\n", "250 from\r\n", "250 to\r\n"])),
        smtp("smtp_openplain", "mail without a login", &envelope)
            .mail(&anonymous(&["250 me\r\n", "250 from\r\n", "250 to\r\n"])),
        smtp("smtp_openplain", "a refused recipient", &[envelope[0], envelope[1], envelope[2], envelope[3], "250 again\r\n"])
            .mail(&anonymous(&["250 me\r\n", "250 from\r\n", "550 to\r\n"])),
        smtp("smtp_openplain", "a refused sender", &envelope)
            .mail(&anonymous(&["250 me\r\n", "550 from\r\n"])),
        smtp("smtp_open", "a refused envelope", &[">", "EHLO me\r\n", "MAIL FROM:<a@b>\r\n", "RCPT TO:<c@d>\r\n", "MAIL FROM:<a@b>\r\n", ])
            .answers(&["HTTP/1.0 200 OK\r\nAuth-Status: Temporary trouble\r\nAuth-Error-Code: 451 4.3.0\r\nAuth-Wait: 1\r\n\r\n"]),
        smtp("smtp_open", "pipelined envelope", &[">", "EHLO me\r\n", "<MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nRCPT TO:<e@f>\r\n250 data\r\n", "?data"])
            .mail(&anonymous(&["250 me\r\n", "220 x\r\n", "250 me\r\n", "250 from\r\n", "250 to\r\n"])),
        smtp("smtp", "AUTH behind EHLO", &login)
            .mail(&anonymous(&["250-me\r\n250 XCLIENT\r\n", "220 x\r\n", "250 me\r\n"])),
        smtp("smtp", "AUTH behind HELO", &with_helo)
            .mail(&anonymous(&["250 me\r\n", "220 x\r\n", "250 me\r\n"])),
        smtp("smtp", "AUTH without a greeting", &[">", "AUTH PLAIN AGpvAHNlY3JldA==\r\n", "250 NOOP\r\n"])
            .mail(&anonymous(&["250 me\r\n", "220 x\r\n"])),
        smtp("smtp_plain", "AUTH behind EHLO", &login).mail(&anonymous(&["250 me\r\n"])),
        smtp("smtp_plain", "AUTH behind HELO", &with_helo).mail(&anonymous(&["250 me\r\n"])),
        smtp("smtp_auth", "AUTH behind EHLO", &login)
            .mail(&anonymous(&["250 me\r\n", "220 x\r\n", "250 me\r\n", "235 ok\r\n"])),
        smtp("smtp_authplain", "AUTH", &login).mail(&anonymous(&["250 me\r\n", "235 ok\r\n"])),
        smtp("smtp_authplain", "refused AUTH", &login).mail(&anonymous(&["250 me\r\n", "535 no\r\n"])),
        smtp("smtp_auth", "no XCLIENT", &login).mail(&anonymous(&["250 me\r\n", "550 no\r\n"])),
        smtp("smtp", "XCLIENT with 250", &login).mail(&anonymous(&["250 me\r\n", "250 x\r\n", "250 me\r\n"])),
        smtp("smtp", "refused EHLO", &login).mail(&anonymous(&["502 me\r\n"])),
        smtp("smtp", "refused second EHLO", &login).mail(&anonymous(&["250 me\r\n", "220 x\r\n", "502 me\r\n"])),
        smtp("smtp", "odd login", &[">", "EHLO me\r\n", &format!("AUTH PLAIN {}\r\n", base64("\0j+=ö smith\0x".as_bytes())), "250 NOOP\r\n"])
            .mail(&anonymous(&["250 me\r\n", "220 x\r\n", "250 me\r\n"])),
        smtp("smtp_authplain", "odd login", &[">", "EHLO me\r\n", &format!("AUTH PLAIN {}\r\n", base64("\0j+=ö smith\0x y\r\n".as_bytes())), "250 NOOP\r\n"])
            .mail(&anonymous(&["250 me\r\n", "235 x\r\n"])),
        smtp("smtp_authplain", "other names from the auth service", &login)
            .answers(&["HTTP/1.0 200 OK\r\nAuth-Status: OK\r\nAuth-Server: 127.0.0.1\r\nAuth-Port: %port%\r\nAuth-User: other\r\nAuth-Pass: pw\r\n\r\n"])
            .mail(&anonymous(&["250 me\r\n", "235 x\r\n"])),
    ];
    // Addresses of loopback are not looked up.
    for (address, name) in [
        ("192.0.2.101", "a name"),
        ("192.0.2.102", "a name of another address"),
        ("192.0.2.103", "a name without an address"),
        ("192.0.2.104", "an error of the name server"),
        ("192.0.2.105", "an error for the name"),
        ("192.0.2.106", "an invalid name"),
        ("192.0.2.107", "no name"),
    ] {
        let mail = anonymous(&["250 me\r\n", "220 x\r\n", "250 me\r\n"]);
        let header = format!("<PROXY TCP4 {address} 192.0.2.99 4660 25\r\n");
        let script = [&[header.as_str()][..], &login].concat();
        let one = smtp("smtp_names", name, &script);
        all.push(one.mail(&mail).known_as(address));
    }
    all
}

/// What an auth service can answer.
fn answers(protocol: Protocol) -> Vec<Case> {
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
fn sasl(protocol: Protocol) -> Vec<Case> {
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
fn mail_servers(protocol: Protocol) -> Vec<Case> {
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
fn tls(protocol: Protocol) -> Vec<Case> {
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
fn headers(protocol: Protocol) -> Vec<Case> {
    let login = login(protocol);
    const BINARY: &str = "<\\x0d\\x0a\\x0d\\x0a\\x00\\x0d\\x0aQUIT\\x0a\\x21\\x11\\x00\\x0c";
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
        // Its signature has four line ends.
        case(protocol, port(protocol, "outb"), "a binary header", login)
            .mail(&[vec![Deed::Line; 3], answered].concat()),
    ]
}
