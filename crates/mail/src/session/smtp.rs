//! What SMTP's commands mean before a login.

use super::command::{Command, Verb};
use super::line::LineRules;
use super::{Circumstances, Outcome, is_enabled};
use crate::capabilities;
use crate::limits::MAX_SMTP_ARGUMENTS;
use crate::login::Envelope;
use crate::note::Note;
use crate::settings::{AuthMethods, Settings, StartTls};

pub(super) const INVALID_COMMAND: &[u8] = b"500 5.5.1 Invalid command\r\n";
pub(super) const IMPROPER_PIPELINING: &[u8] =
    b"503 5.5.0 Improper use of SMTP command pipelining\r\n";
const OK: &[u8] = b"250 2.0.0 OK\r\n";
const BYE: &[u8] = b"221 2.0.0 Bye\r\n";
const START_TLS: &[u8] = b"220 2.0.0 Start TLS\r\n";
const INVALID_ARGUMENT: &[u8] = b"501 5.5.4 Invalid argument\r\n";
const AUTH_REQUIRED: &[u8] = b"530 5.7.1 Authentication required\r\n";
const BAD_SEQUENCE: &[u8] = b"503 5.5.1 Bad sequence of commands\r\n";

pub(super) const RULES: LineRules = LineRules {
    verbs: &[
        ("HELO", Verb::Helo),
        ("EHLO", Verb::Ehlo),
        ("QUIT", Verb::Quit),
        ("AUTH", Verb::Auth),
        ("NOOP", Verb::Noop),
        ("MAIL", Verb::Mail),
        ("RSET", Verb::Rset),
        ("RCPT", Verb::Rcpt),
        ("VRFY", Verb::Unavailable),
        ("EXPN", Verb::Unavailable),
        ("HELP", Verb::Unavailable),
        ("STARTTLS", Verb::StartTls),
    ],
    max_arguments: MAX_SMTP_ARGUMENTS,
};

pub(super) fn greeting(settings: &Settings) -> Vec<u8> {
    format!("220 {} ESMTP ready\r\n", settings.server_name).into_bytes()
}

#[derive(Debug, Default)]
pub(super) struct Smtp {
    is_esmtp: bool,
    helo: Vec<u8>,
    /// The command MAIL; empty before it.
    from: Vec<u8>,
}

impl Smtp {
    /// Whether the client has sent EHLO.
    pub(super) fn is_esmtp(&self) -> bool {
        self.is_esmtp
    }

    pub(super) fn into_helo(self) -> Vec<u8> {
        self.helo
    }

    pub(super) fn run(&mut self, command: &Command, now: &Circumstances<'_>) -> Outcome {
        match command.verb {
            Verb::Helo | Verb::Ehlo => Outcome::Reply(self.helo(command, now)),
            Verb::Auth if command.arguments.is_empty() => Outcome::Reply(INVALID_ARGUMENT.to_vec()),
            Verb::Auth => Outcome::Auth,
            Verb::Mail => self.mail(command, now),
            Verb::Rcpt => self.rcpt(command),
            Verb::Rset => {
                self.from.clear();
                Outcome::Reply(OK.to_vec())
            }
            Verb::Noop => Outcome::Reply(OK.to_vec()),
            Verb::Quit => Outcome::Quit(BYE.to_vec()),
            Verb::StartTls if now.starttls != StartTls::Off => {
                Outcome::StartTls(START_TLS.to_vec())
            }
            _ => Outcome::Invalid,
        }
    }

    fn helo(&mut self, command: &Command, now: &Circumstances<'_>) -> Vec<u8> {
        let [name] = &command.arguments[..] else {
            return INVALID_ARGUMENT.to_vec();
        };
        self.helo = name.as_bytes().to_vec();
        self.from.clear();
        if command.verb == Verb::Ehlo {
            self.is_esmtp = true;
            return capabilities::smtp(now.settings, now.starttls).into_bytes();
        }
        format!("250 {}\r\n", now.settings.server_name).into_bytes()
    }

    fn mail(&mut self, command: &Command, now: &Circumstances<'_>) -> Outcome {
        if !is_enabled(now.settings, AuthMethods::NONE) {
            let note = Note::Rejected(command.text.as_bytes().to_vec());
            return Outcome::Reject(note, AUTH_REQUIRED.to_vec());
        }
        if !self.from.is_empty() {
            return Outcome::Reply(BAD_SEQUENCE.to_vec());
        }
        if command.arguments.is_empty() {
            return Outcome::Reply(INVALID_ARGUMENT.to_vec());
        }
        self.from = command.text.as_bytes().to_vec();
        Outcome::Reply(OK.to_vec())
    }

    fn rcpt(&mut self, command: &Command) -> Outcome {
        if self.from.is_empty() {
            return Outcome::Reply(BAD_SEQUENCE.to_vec());
        }
        if command.arguments.is_empty() {
            return Outcome::Reply(INVALID_ARGUMENT.to_vec());
        }
        Outcome::Anonymous(Envelope {
            helo: self.helo.clone(),
            from: self.from.clone(),
            to: command.text.as_bytes().to_vec(),
        })
    }
}
