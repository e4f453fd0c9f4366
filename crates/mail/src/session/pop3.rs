//! What POP3's commands mean before a login.

use super::command::{Command, Verb};
use super::line::LineRules;
use super::{Circumstances, Outcome, is_enabled};
use crate::capabilities;
use crate::limits::MAX_ARGUMENTS;
use crate::login::{Credentials, Method};
use crate::settings::{AuthMethods, Settings, StartTls};

pub(super) const INVALID_COMMAND: &[u8] = b"-ERR invalid command\r\n";
const OK: &[u8] = b"+OK\r\n";

pub(super) const RULES: LineRules = LineRules {
    verbs: &[
        ("USER", Verb::User),
        ("PASS", Verb::Pass),
        ("APOP", Verb::Apop),
        ("QUIT", Verb::Quit),
        ("CAPA", Verb::Capa),
        ("AUTH", Verb::Auth),
        ("NOOP", Verb::Noop),
        ("STLS", Verb::StartTls),
    ],
    max_arguments: MAX_ARGUMENTS,
};

/// With the challenge that APOP answers, where a method is on that needs one.
pub(super) fn greeting(settings: &Settings, salt: &str) -> Vec<u8> {
    let digests = AuthMethods::APOP | AuthMethods::CRAM_MD5;
    let text = match settings.auth.intersects(digests) {
        true => format!("+OK POP3 ready {salt}\r\n"),
        false => "+OK POP3 ready\r\n".to_owned(),
    };
    text.into_bytes()
}

#[derive(Debug, Default)]
pub(super) struct Pop3 {
    /// The argument of USER, until the next command that is none of those which may follow it.
    user: Option<Vec<u8>>,
}

impl Pop3 {
    pub(super) fn forget_user(&mut self) {
        self.user = None;
    }

    pub(super) fn run(&mut self, command: &Command, now: &Circumstances<'_>) -> Outcome {
        match (command.verb, &self.user) {
            (Verb::Noop, _) => Outcome::Reply(OK.to_vec()),
            (Verb::Quit, _) => Outcome::Quit(OK.to_vec()),
            (Verb::Capa, user) => {
                // TLS cannot begin between USER and PASS.
                let starttls = match user {
                    Some(_) => StartTls::Off,
                    None => now.starttls,
                };
                Outcome::Reply(capabilities::pop3(now.settings, starttls).into_bytes())
            }
            (Verb::Pass, Some(user)) => match &command.arguments[..] {
                [password] => Outcome::Login(Credentials {
                    method: Method::Plain,
                    user: user.clone(),
                    password: Some(password.clone()),
                }),
                _ => Outcome::Invalid,
            },
            (Verb::User, None) => match &command.arguments[..] {
                [user] => {
                    self.user = Some(user.as_bytes().to_vec());
                    Outcome::Reply(OK.to_vec())
                }
                _ => Outcome::Invalid,
            },
            (Verb::Apop, None) => match &command.arguments[..] {
                [user, digest] if is_enabled(now.settings, AuthMethods::APOP) => {
                    Outcome::Login(Credentials {
                        method: Method::Apop,
                        user: user.as_bytes().to_vec(),
                        password: Some(digest.clone()),
                    })
                }
                _ => Outcome::Invalid,
            },
            (Verb::Auth, None) if command.arguments.is_empty() => {
                Outcome::Reply(capabilities::pop3_methods(now.settings).into_bytes())
            }
            (Verb::Auth, None) => Outcome::Auth,
            (Verb::StartTls, None) if now.starttls != StartTls::Off => {
                Outcome::StartTls(OK.to_vec())
            }
            _ => Outcome::Invalid,
        }
    }
}
