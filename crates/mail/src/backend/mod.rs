//! The login at a mail server, as a client of it.
//!
//! ```text
//! IMAP:  greeting ─ LOGIN {n} ─ + ─ user {n} ─ + ─ password ─ tagged OK
//! POP3:  greeting ─ USER ─ +OK ─ PASS ─ +OK
//! SMTP:  220 ─ EHLO/HELO server_name ─ 250 ─ [XCLIENT ─ 2x0 ─ [EHLO/HELO of the client ─ 250]]
//!            ─ [MAIL ─ 250 ─ RCPT ─ any  |  AUTH PLAIN ─ 235]
//! ```
//!
//! Behind it, everything is passed on in both directions and nobody reads it.
//!
//! nginx looks at each piece that arrives. What counts here are responses, however they arrive: a
//! second response before the next command is an error, because it would be taken for the response
//! to that command; of IMAP, untagged responses are passed over.

mod response;

use crate::auth_http::Allowed;
use crate::escape::{encode_base64, xtext};
use crate::limits::PROXY_BUFFER_BYTES;
use crate::login::{LoginAttempt, Method};
use crate::note::Note;
use crate::secret::Secret;
use crate::settings::{Protocol, ProxySettings};
use response::{Expected, Found};
use std::collections::VecDeque;

/// What the caller of a [`Backend`] has to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackendEvent {
    /// Send this to the mail server.
    Send(Secret),
    /// The client has logged in ([`Note::LoggedIn`]). Send `to_client` to it and `to_server` to the
    /// mail server, then pass on what arrives. There is no further event.
    Relay {
        /// The end of the login as the client sees it, and what the mail server sent behind it.
        to_client: Vec<u8>,
        /// What the client sent behind its login.
        to_server: Secret,
    },
    /// The login failed: write the note to the error log, send `reply` to the client and close both
    /// connections. There is no further event.
    Failed {
        /// Why.
        note: Note,
        /// What the client is told.
        reply: Vec<u8>,
    },
}

/// What a [`Backend`] is made of.
pub(crate) struct BackendStart {
    pub(crate) attempt: LoginAttempt,
    pub(crate) allowed: Allowed,
    pub(crate) proxy: ProxySettings,
    pub(crate) server_name: String,
    /// As it is written in XCLIENT.
    pub(crate) client_address: String,
    pub(crate) client_host: Vec<u8>,
    pub(crate) tag: Vec<u8>,
    pub(crate) is_esmtp: bool,
    pub(crate) helo: Vec<u8>,
    pub(crate) pipelined: Secret,
}

/// What was sent last, and is being answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// Nothing: the greeting is expected.
    Connected,
    ImapLogin,
    ImapUser,
    ImapPassword,
    Pop3User,
    Pop3Password,
    SmtpHelo,
    SmtpXclient,
    SmtpClientHelo,
    SmtpAuth,
    SmtpMail,
    SmtpRcpt,
}

/// The login of one client at a mail server.
#[derive(Debug)]
pub struct Backend {
    attempt: LoginAttempt,
    name: String,
    proxy: ProxySettings,
    server_name: String,
    client_address: String,
    client_host: Vec<u8>,
    tag: Vec<u8>,
    is_esmtp: bool,
    helo: Vec<u8>,
    pipelined: Secret,
    sent: Sent,
    input: Vec<u8>,
    is_over: bool,
    events: VecDeque<BackendEvent>,
}

impl Backend {
    pub(crate) fn new(start: BackendStart) -> Backend {
        let BackendStart {
            mut attempt,
            allowed,
            ..
        } = start;
        // Nobody can log in again with a digest.
        if attempt.method.is_digest() {
            attempt.password = None;
        }
        attempt.user = allowed.user.unwrap_or(attempt.user);
        attempt.password = allowed.password.or(attempt.password);
        Backend {
            attempt,
            name: allowed.name,
            proxy: start.proxy,
            server_name: start.server_name,
            client_address: start.client_address,
            client_host: start.client_host,
            tag: start.tag,
            is_esmtp: start.is_esmtp,
            helo: start.helo,
            pipelined: start.pipelined,
            sent: Sent::Connected,
            input: Vec::new(),
            is_over: false,
            events: VecDeque::new(),
        }
    }

    /// The name that the client is logged in with, for log lines.
    pub fn user(&self) -> &[u8] {
        &self.attempt.user
    }

    /// The mail server's address and port as the auth service sent them, for log lines.
    pub fn upstream(&self) -> &str {
        &self.name
    }

    /// What is being waited for, for log lines: nginx's words, with a space in front.
    pub fn action(&self) -> &'static str {
        match self.sent {
            _ if !self.input.is_empty() => " while reading response from upstream",
            Sent::Connected => " while connecting to upstream",
            Sent::ImapLogin => " while sending LOGIN command to upstream",
            Sent::ImapUser | Sent::Pop3User => " while sending user name to upstream",
            Sent::ImapPassword | Sent::Pop3Password => " while sending password to upstream",
            Sent::SmtpHelo => " while sending HELO/EHLO to upstream",
            Sent::SmtpXclient => " while sending XCLIENT to upstream",
            Sent::SmtpClientHelo => " while sending client HELO/EHLO to upstream",
            Sent::SmtpAuth => " while sending AUTH to upstream",
            Sent::SmtpMail => " while sending MAIL FROM to upstream",
            Sent::SmtpRcpt => " while sending RCPT TO to upstream",
        }
    }

    /// How many bytes [`Backend::receive`] takes now.
    pub fn room(&self) -> usize {
        self.limit().saturating_sub(self.input.len())
    }

    /// Takes what the mail server sent, at most [`Backend::room`] bytes, and returns how many.
    /// Behind the last event everything is taken and nothing is kept.
    pub fn receive(&mut self, bytes: &[u8]) -> usize {
        if self.is_over {
            return bytes.len();
        }
        let taken = bytes.len().min(self.room());
        self.input.extend_from_slice(&bytes[..taken]);
        taken
    }

    /// What is to be done next; `None` when more has to arrive.
    pub fn next_event(&mut self) -> Option<BackendEvent> {
        if self.events.is_empty() && !self.is_over {
            self.look_for_a_response();
        }
        self.events.pop_front()
    }

    /// The mail server closed the connection, or it failed: the client is told, and it is over.
    pub fn close(&mut self) {
        self.fail(Note::UpstreamClosed);
    }

    fn limit(&self) -> usize {
        match self.proxy.buffer_bytes {
            0 => PROXY_BUFFER_BYTES,
            bytes => bytes,
        }
    }

    fn look_for_a_response(&mut self) {
        let expected = self.expected();
        match response::find(&self.input, &expected) {
            Found::Nothing if self.room() == 0 => {
                self.fail(Note::TooLongResponse(self.input.clone()));
            }
            Found::Nothing => {}
            Found::Other { start } => self.refused(start),
            Found::Response { end } => {
                if let Some(next) = self.next_command() {
                    self.answered(end, next);
                } else {
                    self.logged_in(end);
                }
            }
        }
    }

    fn expected(&self) -> Expected<'_> {
        match self.sent {
            Sent::Connected => match self.attempt.protocol {
                Protocol::Imap => Expected::Greeting,
                Protocol::Pop3 => Expected::Ok,
                Protocol::Smtp => Expected::Code(&["220"]),
            },
            Sent::ImapLogin | Sent::ImapUser => Expected::Continue,
            Sent::ImapPassword => Expected::Tagged(&self.tag),
            Sent::Pop3User | Sent::Pop3Password => Expected::Ok,
            Sent::SmtpXclient => Expected::Code(&["220", "250"]),
            Sent::SmtpHelo | Sent::SmtpClientHelo | Sent::SmtpMail => Expected::Code(&["250"]),
            Sent::SmtpAuth => Expected::Code(&["235"]),
            Sent::SmtpRcpt => Expected::Code(&[]),
        }
    }

    /// The response that was expected ends at `end`, and is followed by a command.
    fn answered(&mut self, end: usize, next: Result<(Sent, Secret), Note>) {
        self.input.drain(..end);
        let may_go_on =
            self.attempt.protocol == Protocol::Imap && response::is_untagged(&self.input);
        if !self.input.is_empty() && !may_go_on {
            return self.fail(Note::UnexpectedResponse(self.input.clone()));
        }
        match next {
            Ok((sent, command)) => {
                self.sent = sent;
                self.events.push_back(BackendEvent::Send(command));
            }
            Err(note) => self.fail(note),
        }
    }

    /// What follows the response to what was sent last; `None` if that was all.
    fn next_command(&self) -> Option<Result<(Sent, Secret), Note>> {
        let command = match (self.sent, self.attempt.protocol) {
            (Sent::Connected, Protocol::Imap) => {
                let length = format!("LOGIN {{{}}}\r\n", self.attempt.user.len());
                let command = Secret::concat(&[&self.tag, length.as_bytes()]);
                Ok((Sent::ImapLogin, command))
            }
            (Sent::ImapLogin, _) => {
                let length = format!(" {{{}}}\r\n", self.password().len());
                let command = Secret::concat(&[&self.attempt.user, length.as_bytes()]);
                Ok((Sent::ImapUser, command))
            }
            (Sent::ImapUser, _) => {
                let command = Secret::concat(&[self.password(), b"\r\n"]);
                Ok((Sent::ImapPassword, command))
            }
            (Sent::Connected, Protocol::Pop3) => {
                self.line(Sent::Pop3User, &[b"USER ", &self.attempt.user])
            }
            (Sent::Pop3User, _) => self.line(Sent::Pop3Password, &[b"PASS ", self.password()]),
            (Sent::Connected, Protocol::Smtp) => {
                let is_ehlo = self.is_esmtp || self.proxy.xclient;
                self.helo(Sent::SmtpHelo, is_ehlo, self.server_name.as_bytes())
            }
            (Sent::SmtpHelo, _) if self.proxy.xclient => Ok(self.xclient()),
            (Sent::SmtpXclient, _) if !self.helo.is_empty() => {
                self.helo(Sent::SmtpClientHelo, self.is_esmtp, &self.helo)
            }
            (Sent::SmtpHelo | Sent::SmtpXclient | Sent::SmtpClientHelo, _) => self.introduced()?,
            (Sent::SmtpMail, _) => {
                let envelope = self.attempt.envelope.as_ref()?;
                self.line(Sent::SmtpRcpt, &[&envelope.to])
            }
            (Sent::ImapPassword | Sent::Pop3Password | Sent::SmtpAuth | Sent::SmtpRcpt, _) => {
                return None;
            }
        };
        Some(command)
    }

    /// What follows HELO and XCLIENT.
    fn introduced(&self) -> Option<Result<(Sent, Secret), Note>> {
        if let (Method::Anonymous, Some(envelope)) = (self.attempt.method, &self.attempt.envelope) {
            return Some(self.line(Sent::SmtpMail, &[&envelope.from]));
        }
        if !self.proxy.smtp_auth {
            return None;
        }
        let Some(password) = &self.attempt.password else {
            return Some(Err(Note::NoPassword));
        };
        let user = &self.attempt.user;
        if [&user[..], password.as_bytes()]
            .iter()
            .any(|part| part.contains(&0))
        {
            return Some(Err(Note::UnusableCredentials));
        }
        let plain = Secret::concat(&[b"\0", user, b"\0", password.as_bytes()]);
        let plain = encode_base64(plain.as_bytes());
        Some(self.line(Sent::SmtpAuth, &[b"AUTH PLAIN ", plain.as_bytes()]))
    }

    fn helo(&self, sent: Sent, is_ehlo: bool, name: &[u8]) -> Result<(Sent, Secret), Note> {
        let verb: &[u8] = if is_ehlo { b"EHLO " } else { b"HELO " };
        self.line(sent, &[verb, name])
    }

    fn xclient(&self) -> (Sent, Secret) {
        let mut command = format!("XCLIENT ADDR={}", self.client_address).into_bytes();
        if !self.attempt.user.is_empty() && !self.proxy.smtp_auth {
            command.extend_from_slice(b" LOGIN=");
            xtext(&mut command, &self.attempt.user);
        }
        command.extend_from_slice(b" NAME=");
        command.extend_from_slice(&self.client_host);
        command.extend_from_slice(b"\r\n");
        (Sent::SmtpXclient, Secret::new(command))
    }

    /// A command that ends with its line. A name or a password from base64 may contain a line end,
    /// behind which a second command would begin.
    fn line(&self, sent: Sent, parts: &[&[u8]]) -> Result<(Sent, Secret), Note> {
        let breaks = |byte: &u8| matches!(byte, b'\r' | b'\n' | 0);
        if parts.iter().any(|part| part.iter().any(breaks)) {
            return Err(Note::UnusableCredentials);
        }
        Ok((sent, Secret::concat(&[parts, &[b"\r\n"]].concat())))
    }

    fn password(&self) -> &[u8] {
        let password = self.attempt.password.as_ref();
        password.map_or(b"", Secret::as_bytes)
    }

    /// A response that is none of those that were expected. `start` is where it begins.
    fn refused(&mut self, start: usize) {
        let passed = self.proxy.pass_error_message;
        let response = &self.input[start..];
        let response = response.strip_suffix(b"\r\n").unwrap_or(response).to_vec();
        let reply = match passed {
            true => std::mem::take(&mut self.input),
            false => self.attempt.protocol.internal_error().to_vec(),
        };
        let note = Note::InvalidResponse { response, passed };
        self.finish(BackendEvent::Failed { note, reply });
    }

    fn logged_in(&mut self, end: usize) {
        let is_smtp = self.attempt.protocol == Protocol::Smtp;
        let to_client = match self.attempt.method {
            // The mail server has answered something that the client did not send.
            method if is_smtp && method != Method::Anonymous => {
                if end < self.input.len() {
                    let rest = self.input[end..].to_vec();
                    return self.fail(Note::UnexpectedResponse(rest));
                }
                b"235 2.0.0 OK\r\n".to_vec()
            }
            _ => std::mem::take(&mut self.input),
        };
        let to_server = std::mem::take(&mut self.pipelined);
        self.finish(BackendEvent::Relay {
            to_client,
            to_server,
        });
    }

    fn fail(&mut self, note: Note) {
        if !self.is_over {
            let reply = self.attempt.protocol.internal_error().to_vec();
            self.finish(BackendEvent::Failed { note, reply });
        }
    }

    fn finish(&mut self, event: BackendEvent) {
        self.is_over = true;
        self.input.clear();
        self.attempt.password = None;
        self.events.clear();
        self.events.push_back(event);
    }
}

#[cfg(test)]
mod tests;
