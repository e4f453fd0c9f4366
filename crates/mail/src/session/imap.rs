//! What IMAP's commands mean before a login.

use super::command::{Command, Verb};
use super::imap_command::CommandParser;
use super::{Circumstances, Outcome, Parsed};
use crate::capabilities;
use crate::login::{Credentials, Method};
use crate::settings::StartTls;

pub(super) const GREETING: &[u8] = b"* OK IMAP4 ready\r\n";
/// The client is asked for a literal.
pub(super) const CONTINUE: &[u8] = b"+ OK\r\n";

#[derive(Debug, Default)]
pub(super) struct Imap {
    parser: CommandParser,
}

impl Imap {
    /// The tag of the command that is being read, or of the last one, with the space behind it.
    pub(super) fn tag(&self) -> &[u8] {
        self.parser.tag()
    }

    pub(super) fn parse(&mut self, input: &[u8], in_exchange: bool) -> Parsed {
        self.parser.parse(input, in_exchange)
    }

    pub(super) fn consumed(&mut self) {
        self.parser.consumed();
    }

    pub(super) fn invalid_command(&self) -> Vec<u8> {
        self.tagged("", "BAD invalid command\r\n")
    }

    pub(super) fn run(&mut self, command: &Command, now: &Circumstances<'_>) -> Outcome {
        match command.verb {
            Verb::Login => match &command.arguments[..] {
                [user, password] if !user.as_bytes().is_empty() => Outcome::Login(Credentials {
                    method: Method::Plain,
                    user: user.as_bytes().to_vec(),
                    password: Some(password.clone()),
                }),
                _ => Outcome::Invalid,
            },
            Verb::Authenticate => Outcome::Auth,
            Verb::Capability => {
                let text = capabilities::imap(now.settings, now.starttls);
                Outcome::Reply(self.completed(&text))
            }
            Verb::Logout => Outcome::Quit(self.completed("* BYE\r\n")),
            Verb::Noop => Outcome::Reply(self.completed("")),
            Verb::StartTls if now.starttls != StartTls::Off => {
                Outcome::StartTls(self.completed(""))
            }
            _ => Outcome::Invalid,
        }
    }

    fn completed(&self, untagged: &str) -> Vec<u8> {
        self.tagged(untagged, "OK completed\r\n")
    }

    fn tagged(&self, untagged: &str, text: &str) -> Vec<u8> {
        let tag = match self.tag() {
            b"" => b"* ",
            tag => tag,
        };
        [untagged.as_bytes(), tag, text.as_bytes()].concat()
    }
}
