//! The sessions that are compared: what the client says, what the auth service answers, and what
//! the mail server does.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

#[path = "cases/peers.rs"]
mod peers;
#[path = "cases/smtp.rs"]
mod smtp;

use peers::{answers, headers, mail_servers, sasl, tls};
use smtp::{smtp_commands, smtp_logins};

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
/// without sending, `?` until this has come; `~` sends byte by byte; `!` does TLS; `.` waits for
/// the end; `#` is a reset. Everything else is said, and a response waited for.
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

pub(super) fn case(protocol: Protocol, port: &'static str, name: &str, script: &[&str]) -> Case {
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
