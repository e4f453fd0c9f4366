//! A command as the three protocols have it.

use crate::secret::Secret;

/// What the client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Apop,
    Auth,
    Authenticate,
    Capa,
    Capability,
    Ehlo,
    Helo,
    Login,
    Logout,
    Mail,
    Noop,
    Pass,
    Quit,
    Rcpt,
    Rset,
    StartTls,
    User,
    /// A command that is one and yet is not accepted before a login: VRFY, EXPN, HELP.
    Unavailable,
    /// A line that is no command, of an exchange.
    Response,
}

/// The verb with this name.
pub(super) fn verb_named(name: &[u8], verbs: &[(&str, Verb)]) -> Option<Verb> {
    let mut verbs = verbs.iter();
    let named = verbs.find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()));
    named.map(|(_, verb)| *verb)
}

/// A command and its arguments, or a line of an exchange.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) verb: Verb,
    /// All of it without the line end and the spaces before that; empty with IMAP.
    pub(super) text: Secret,
    pub(super) arguments: Vec<Secret>,
}

impl Command {
    pub(super) fn arguments(&self) -> impl Iterator<Item = &[u8]> {
        self.arguments.iter().map(Secret::as_bytes)
    }

    /// Empty if there is none.
    pub(super) fn argument(&self, number: usize) -> &[u8] {
        self.arguments.get(number).map_or(b"", Secret::as_bytes)
    }
}
