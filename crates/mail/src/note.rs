//! What belongs into the error log. The caller adds what nginx adds: what the session was doing,
//! the client, the server, the login and the upstream.

use crate::escape::Printable;
use std::fmt;

/// How important a [`Note`] is, as nginx rates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Level `info`: a client's doing.
    Info,
    /// Level `error`: a mail server's or an auth service's.
    Error,
}

/// A message for the error log, in nginx's words where nginx has any. It has no password in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// What the client sent for a method of authentication is not base64.
    InvalidBase64(&'static str),
    /// There is no name where the method has one.
    InvalidLogin(&'static str),
    /// There is no password where the method has one.
    InvalidPassword(&'static str),
    /// There is no token where the method has one.
    InvalidToken(&'static str),
    /// The digest has not 32 characters.
    InvalidCramMd5,
    /// The client used a method that `imap_auth`, `pop3_auth` or `smtp_auth` does not name.
    MethodNotEnabled(&'static str),
    /// A command was longer than so many bytes. nginx repeats it, with the password that may be in
    /// it.
    TooLongCommand(usize),
    /// `max_errors` was reached.
    TooManyErrors,
    /// MAIL without a login, where `smtp_auth` has no `none`.
    Rejected(Vec<u8>),
    /// The client did not wait for the greeting (`smtp_greeting_delay`).
    RejectedBeforeGreeting(Vec<u8>),
    /// So many bytes arrived behind the command that begins TLS, and were thrown away.
    DiscardedBeforeTls(usize),
    /// The auth service refused the login, and says why.
    LoginFailed(Vec<u8>),
    /// The mail server accepted the login.
    LoggedIn,
    /// The mail server answered something else than the step of the login expects.
    InvalidResponse {
        /// Its response, without the line end.
        response: Vec<u8>,
        /// Whether the client was shown it (`proxy_pass_error_message`).
        passed: bool,
    },
    /// The mail server's response has more bytes than `proxy_buffer`.
    TooLongResponse(Vec<u8>),
    /// The mail server sent more behind a response, before it was asked for it.
    UnexpectedResponse(Vec<u8>),
    /// The mail server closed the connection during the login.
    UpstreamClosed,
    /// `proxy_smtp_auth`, but the method has no password and the auth service sent none.
    NoPassword,
    /// A line of POP3 or SMTP cannot hold the name or the password.
    UnusableCredentials,
}

impl Note {
    /// The level at which nginx logs it.
    pub fn severity(&self) -> Severity {
        match self {
            Note::InvalidResponse { passed: false, .. }
            | Note::TooLongResponse(_)
            | Note::UnexpectedResponse(_)
            | Note::UpstreamClosed
            | Note::NoPassword
            | Note::UnusableCredentials => Severity::Error,
            _ => Severity::Info,
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::InvalidBase64(method) => {
                write!(f, "client sent invalid base64 encoding in AUTH {method} command")
            }
            Note::InvalidLogin(method) => {
                write!(f, "client sent invalid login in AUTH {method} command")
            }
            Note::InvalidPassword(method) => {
                write!(f, "client sent invalid password in AUTH {method} command")
            }
            Note::InvalidToken(method) => {
                write!(f, "client sent invalid token in AUTH {method} command")
            }
            Note::InvalidCramMd5 => {
                f.write_str("client sent invalid CRAM-MD5 hash in AUTH CRAM-MD5 command")
            }
            Note::MethodNotEnabled(method) => {
                write!(f, "client sent AUTH {method} command, which is not enabled")
            }
            Note::TooLongCommand(limit) => {
                write!(f, "client sent too long command: more than {limit} bytes")
            }
            Note::TooManyErrors => f.write_str("client sent too many invalid commands"),
            Note::Rejected(line) => write!(f, "client was rejected: \"{}\"", Printable(line)),
            Note::RejectedBeforeGreeting(line) => {
                let line = Printable(line);
                write!(f, "client was rejected before greeting: \"{line}\"")
            }
            Note::DiscardedBeforeTls(bytes) => write!(
                f,
                "client sent {bytes} bytes behind the command that begins TLS, discarded"
            ),
            Note::LoginFailed(reason) => {
                write!(f, "client login failed: \"{}\"", Printable(reason))
            }
            Note::LoggedIn => f.write_str("client logged in"),
            Note::InvalidResponse { response, .. } => {
                let response = Printable(response);
                write!(f, "upstream sent invalid response: \"{response}\"")
            }
            Note::TooLongResponse(response) => {
                let response = Printable(response);
                write!(f, "upstream sent too long response line: \"{response}\"")
            }
            Note::UnexpectedResponse(rest) => {
                let rest = Printable(rest);
                write!(f, "upstream sent more than one response: \"{rest}\"")
            }
            Note::UpstreamClosed => {
                f.write_str("upstream closed the connection before the login was complete")
            }
            Note::NoPassword => f.write_str(
                "no password available: the auth service must send Auth-Pass with \"proxy_smtp_auth\"",
            ),
            Note::UnusableCredentials => f.write_str(
                "the login or the password contains a line break or NUL, which cannot be sent to the upstream",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_of_nginx() {
        let text = |note: Note| note.to_string();
        assert_eq!(
            text(Note::InvalidBase64("PLAIN")),
            "client sent invalid base64 encoding in AUTH PLAIN command"
        );
        assert_eq!(
            text(Note::Rejected(b"MAIL FROM:<a@b>\r\n".to_vec())),
            "client was rejected: \"MAIL FROM:<a@b>\\x0D\\x0A\""
        );
        let passed = |passed| Note::InvalidResponse {
            response: b"-ERR no".to_vec(),
            passed,
        };
        assert_eq!(
            text(passed(true)),
            "upstream sent invalid response: \"-ERR no\""
        );
        assert_eq!(passed(true).severity(), Severity::Info);
        assert_eq!(passed(false).severity(), Severity::Error);
    }
}
