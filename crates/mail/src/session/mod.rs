//! A client's session until it has logged in.
//!
//! | file | what it holds |
//! |---|---|
//! | `command` | a command as the three protocols have it |
//! | `line` | commands of POP3 and SMTP, which are lines |
//! | `imap_command` | commands of IMAP: tags, quoted strings, literals |
//! | `imap`, `pop3`, `smtp` | what each command means, and what is answered |

mod command;
mod imap;
mod imap_command;
mod line;
mod pop3;
mod smtp;

use crate::auth_http::{Allowed, ClientDetails, Refusal};
use crate::backend::{Backend, BackendStart};
use crate::escape::encode_base64;
use crate::login::{Credentials, Envelope, LoginAttempt, SaltSeed};
use crate::note::Note;
use crate::sasl::{self, Challenge, Exchange, Progress};
use crate::secret::Secret;
use crate::settings::{AuthMethods, Protocol, ProxySettings, Settings, StartTls};
use command::{Command, Verb};
use imap::Imap;
use pop3::Pop3;
use smtp::Smtp;
use std::collections::VecDeque;
use std::sync::Arc;
use zeroize::{Zeroize, Zeroizing};

/// What the caller of a [`Session`] has to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Write this to the error log.
    Note(Note),
    /// Send this to the client, and ask for the next event when it is sent.
    Send(Vec<u8>),
    /// Send this to the client and close the connection. There is no further event.
    Close(Vec<u8>),
    /// Send this to the client, then do the server's side of a TLS handshake and call
    /// [`Session::tls_established`]. What the client sends from now on belongs to TLS.
    StartTls(Vec<u8>),
    /// Ask the auth service about [`Session::attempt`], and call [`Session::accept`],
    /// [`Session::refuse`] or [`Session::fail`].
    Authenticate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Commands,
    Handshake,
    Authenticating,
    Over,
}

/// What a command leads to.
enum Outcome {
    Reply(Vec<u8>),
    /// With a message about it.
    Reject(Note, Vec<u8>),
    Quit(Vec<u8>),
    Invalid,
    StartTls(Vec<u8>),
    /// AUTH or AUTHENTICATE with these arguments.
    Auth,
    Login(Credentials),
    Anonymous(Envelope),
}

/// What each protocol keeps between commands.
#[derive(Debug)]
enum Dialogue {
    Imap(Imap),
    Pop3(Pop3),
    Smtp(Smtp),
}

/// What a command may depend on.
struct Circumstances<'a> {
    settings: &'a Settings,
    /// What STARTTLS is on this connection now: off under TLS.
    starttls: StartTls,
}

/// What a parser finds in the input.
enum Parsed {
    /// Nothing that is complete.
    More,
    /// A command of so many bytes.
    Command(Command, usize),
    /// So many bytes that are no command; the session ends if what follows could be taken for one.
    Invalid { bytes: usize, end: bool },
    /// The client waits to be asked for a literal.
    Continue,
}

/// A client's session until it has logged in. `lib.rs` shows how it is used.
#[derive(Debug)]
pub struct Session {
    settings: Arc<Settings>,
    salt: String,
    is_tls: bool,
    is_starttls: bool,
    phase: Phase,
    dialogue: Dialogue,
    /// What has arrived and is not consumed, from the first byte of a command; wiped at the end.
    input: Zeroizing<Vec<u8>>,
    exchange: Option<Exchange>,
    user: Vec<u8>,
    attempt: Option<LoginAttempt>,
    attempts: usize,
    /// The refusal that follows the acknowledgement of an error of a token.
    refusal: Option<Event>,
    errors: usize,
    events: VecDeque<Event>,
}

impl Session {
    /// A session on a connection on which nothing was sent yet, except for a TLS handshake
    /// (`is_tls`). The first event is the greeting.
    pub fn new(settings: Arc<Settings>, is_tls: bool, seed: SaltSeed) -> Session {
        let salt = seed.salt(&settings.server_name);
        let (dialogue, greeting) = match settings.protocol {
            Protocol::Imap => (Dialogue::Imap(Imap::default()), imap::GREETING.to_vec()),
            Protocol::Pop3 => {
                let greeting = pop3::greeting(&settings, &salt);
                (Dialogue::Pop3(Pop3::default()), greeting)
            }
            Protocol::Smtp => {
                let greeting = smtp::greeting(&settings);
                (Dialogue::Smtp(Smtp::default()), greeting)
            }
        };
        Session {
            settings,
            salt,
            is_tls,
            is_starttls: false,
            phase: Phase::Commands,
            dialogue,
            input: Zeroizing::new(Vec::new()),
            exchange: None,
            user: Vec::new(),
            attempt: None,
            attempts: 0,
            refusal: None,
            errors: 0,
            events: VecDeque::from([Event::Send(greeting)]),
        }
    }

    /// How many bytes [`Session::receive`] takes now.
    pub fn room(&self) -> usize {
        self.settings
            .command_bytes()
            .saturating_sub(self.input.len())
    }

    /// Takes what the client sent, at most [`Session::room`] bytes, and returns how many.
    ///
    /// Between [`Event::StartTls`] and [`Session::tls_established`], and after [`Event::Close`],
    /// everything is taken and nothing is kept. Between [`Event::Authenticate`] and the decision it
    /// is kept for the mail server.
    pub fn receive(&mut self, bytes: &[u8]) -> usize {
        match self.phase {
            Phase::Handshake | Phase::Over => bytes.len(),
            Phase::Commands | Phase::Authenticating => {
                if self.input.capacity() == 0 {
                    // At once, so that growing leaves no copies behind.
                    self.input.reserve_exact(self.settings.command_bytes());
                }
                let taken = bytes.len().min(self.room());
                self.input.extend_from_slice(&bytes[..taken]);
                taken
            }
        }
    }

    /// What is to be done next; `None` when more has to arrive, or the caller has to answer first.
    pub fn next_event(&mut self) -> Option<Event> {
        while self.events.is_empty() && self.phase == Phase::Commands {
            if !self.take_command() {
                break;
            }
        }
        self.events.pop_front()
    }

    /// For SMTP with `smtp_greeting_delay`: the client sent something instead of waiting for the
    /// greeting. The session ends.
    pub fn receive_before_greeting(&mut self, bytes: &[u8]) {
        self.events.clear();
        let line = bytes
            .split(|&byte| byte == b'\n')
            .next()
            .unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // Nobody's password belongs into the log.
        let is_auth = line.len() >= 4 && line[..4].eq_ignore_ascii_case(b"AUTH");
        let line = if is_auth { &line[..4] } else { line };
        let note = Note::RejectedBeforeGreeting(line.to_vec());
        self.events.push_back(Event::Note(note));
        self.close(smtp::IMPROPER_PIPELINING.to_vec());
    }

    /// The handshake that [`Event::StartTls`] asked for is done.
    pub fn tls_established(&mut self) {
        if self.phase == Phase::Handshake {
            self.phase = Phase::Commands;
            self.is_tls = true;
            self.is_starttls = true;
        }
    }

    /// What the auth service is to be asked about.
    pub fn attempt(&self) -> Option<&LoginAttempt> {
        self.attempt.as_ref()
    }

    /// The name that the client last logged in with, for log lines; empty before.
    pub fn user(&self) -> &[u8] {
        &self.user
    }

    /// Whether TLS began with STARTTLS or STLS, for log lines.
    pub fn is_starttls(&self) -> bool {
        self.is_starttls
    }

    /// The auth service refused the attempt, and its [`Refusal::wait_seconds`] are over: the client
    /// may try again, unless there were none.
    pub fn refuse(&mut self, refusal: &Refusal) {
        let Some(attempt) = self.attempt.take() else {
            return;
        };
        let mut reply = match &self.dialogue {
            Dialogue::Imap(imap) => [imap.tag(), b"NO "].concat(),
            Dialogue::Pop3(_) => b"-ERR ".to_vec(),
            Dialogue::Smtp(_) => [refusal.smtp_code(), b" "].concat(),
        };
        reply.extend_from_slice(&refusal.message);
        reply.extend_from_slice(b"\r\n");
        self.phase = Phase::Commands;
        let last = if refusal.wait_seconds == 0 {
            Event::Close(reply)
        } else {
            Event::Send(reply)
        };
        match &refusal.sasl_error {
            Some(error) if attempt.method.has_token() => {
                let method = attempt.method;
                self.exchange = Some(Exchange::Acknowledgement { method });
                self.refusal = Some(last);
                self.send_challenge(error);
            }
            _ => self.end_or_go_on(last),
        }
    }

    /// Something failed that is no fault of the client: it is told so, and the session ends.
    pub fn fail(&mut self) {
        self.events.clear();
        self.close(self.settings.protocol.internal_error().to_vec());
    }

    /// The auth service accepted the attempt: what follows is the login at the mail server.
    ///
    /// # Panics
    ///
    /// Without an [`attempt`](Session::attempt).
    pub fn accept(
        self,
        allowed: Allowed,
        proxy: &ProxySettings,
        client: &ClientDetails<'_>,
    ) -> Backend {
        let attempt = self.attempt.expect("an attempt was accepted");
        let (tag, is_esmtp, helo) = match self.dialogue {
            Dialogue::Imap(imap) => (imap.tag().to_vec(), false, Vec::new()),
            Dialogue::Pop3(_) => (Vec::new(), false, Vec::new()),
            Dialogue::Smtp(smtp) => (Vec::new(), smtp.is_esmtp(), smtp.into_helo()),
        };
        Backend::new(BackendStart {
            attempt,
            allowed,
            proxy: proxy.clone(),
            server_name: self.settings.server_name.clone(),
            client_address: client.xclient_address(),
            client_host: client.host.to_vec(),
            tag,
            is_esmtp,
            helo,
            pipelined: Secret::new(self.input.to_vec()),
        })
    }

    /// Whether there was one. Without, more has to arrive.
    fn take_command(&mut self) -> bool {
        let in_exchange = self.exchange.is_some();
        let parsed = match &mut self.dialogue {
            Dialogue::Imap(imap) => imap.parse(&self.input, in_exchange),
            Dialogue::Pop3(_) => line::parse(&self.input, in_exchange, &pop3::RULES),
            Dialogue::Smtp(_) => line::parse(&self.input, in_exchange, &smtp::RULES),
        };
        match parsed {
            Parsed::More if self.room() == 0 => {
                let limit = self.settings.command_bytes();
                self.note(Note::TooLongCommand(limit));
                let reply = self.invalid_command();
                self.close(reply);
            }
            Parsed::More => return false,
            Parsed::Continue => self.events.push_back(Event::Send(imap::CONTINUE.to_vec())),
            Parsed::Invalid { bytes, end } => {
                self.consume(bytes);
                self.errors += 1;
                let too_many = self.errors >= self.settings.max_errors;
                if too_many {
                    self.note(Note::TooManyErrors);
                }
                self.refuse_command(end || too_many);
            }
            Parsed::Command(command, bytes) => {
                self.consume(bytes);
                match self.exchange.take() {
                    Some(exchange) => self.advance(exchange, &command),
                    None => self.run(&command),
                }
            }
        }
        true
    }

    fn consume(&mut self, bytes: usize) {
        self.input.drain(..bytes);
        if let Dialogue::Imap(imap) = &mut self.dialogue {
            imap.consumed();
        }
    }

    fn run(&mut self, command: &Command) {
        let must_start_tls = !self.is_tls && self.settings.starttls == StartTls::Only;
        let circumstances = Circumstances {
            settings: &self.settings,
            starttls: match self.is_tls {
                true => StartTls::Off,
                false => self.settings.starttls,
            },
        };
        let is_login = matches!(
            command.verb,
            Verb::Login | Verb::Authenticate | Verb::Auth | Verb::User | Verb::Apop
        );
        let outcome = match &mut self.dialogue {
            _ if is_login && must_start_tls => Outcome::Invalid,
            Dialogue::Imap(imap) => imap.run(command, &circumstances),
            Dialogue::Pop3(pop3) => pop3.run(command, &circumstances),
            Dialogue::Smtp(smtp) => smtp.run(command, &circumstances),
        };
        if command.verb == Verb::User && matches!(outcome, Outcome::Reply(_)) {
            self.user = command.argument(0).to_vec();
        }
        match outcome {
            Outcome::Reply(reply) => self.events.push_back(Event::Send(reply)),
            Outcome::Reject(note, reply) => {
                self.note(note);
                self.events.push_back(Event::Send(reply));
            }
            Outcome::Quit(reply) => self.close(reply),
            Outcome::Invalid => self.refuse_command(false),
            Outcome::StartTls(reply) => self.start_tls(reply),
            Outcome::Auth => {
                let arguments: Vec<_> = command.arguments().collect();
                let progress = sasl::begin(&arguments, self.settings.auth);
                self.progress(progress);
            }
            Outcome::Login(credentials) => self.log_in(credentials, None),
            Outcome::Anonymous(envelope) => {
                let credentials = Credentials {
                    method: crate::login::Method::Anonymous,
                    user: Vec::new(),
                    password: None,
                };
                self.log_in(credentials, Some(envelope));
            }
        }
    }

    fn advance(&mut self, exchange: Exchange, command: &Command) {
        let progress = exchange.advance(command.argument(0));
        self.progress(progress);
    }

    fn progress(&mut self, progress: Result<Progress, Option<Note>>) {
        match progress {
            Ok(Progress::Ask(exchange, challenge)) => {
                if let Exchange::LoginPassword { user } = &exchange {
                    self.user.clone_from(user);
                }
                self.exchange = Some(exchange);
                self.ask(challenge);
            }
            Ok(Progress::Done(credentials)) => self.log_in(credentials, None),
            Ok(Progress::Acknowledged) => {
                if let Some(refusal) = self.refusal.take() {
                    self.end_or_go_on(refusal);
                }
            }
            Err(note) => {
                if let Some(note) = note {
                    self.note(note);
                }
                self.refuse_command(false);
            }
        }
    }

    fn ask(&mut self, challenge: Challenge) {
        match challenge.text() {
            Some(text) => self.send_challenge(text.as_bytes()),
            None => {
                let salt = encode_base64(self.salt.as_bytes());
                self.send_challenge(salt.as_bytes());
            }
        }
    }

    /// `text` is in base64 already.
    fn send_challenge(&mut self, text: &[u8]) {
        let prefix: &[u8] = match self.dialogue {
            Dialogue::Imap(_) | Dialogue::Pop3(_) => b"+ ",
            Dialogue::Smtp(_) => b"334 ",
        };
        let line = [prefix, text, b"\r\n"].concat();
        self.events.push_back(Event::Send(line));
    }

    fn log_in(&mut self, credentials: Credentials, envelope: Option<Envelope>) {
        self.attempts += 1;
        self.user.clone_from(&credentials.user);
        self.attempt = Some(LoginAttempt {
            protocol: self.settings.protocol,
            salt: credentials.method.is_digest().then(|| self.salt.clone()),
            method: credentials.method,
            user: credentials.user,
            password: credentials.password,
            number: self.attempts,
            envelope,
        });
        self.phase = Phase::Authenticating;
        self.events.push_back(Event::Authenticate);
    }

    /// Everything that is known from the client so far is forgotten, and what it sent behind the
    /// command is thrown away: somebody else may have sent it (CVE-2011-0411; RFC 3207,
    /// section 4.2). The count of errors stays, as it is nothing that a client would like to keep.
    fn start_tls(&mut self, reply: Vec<u8>) {
        if !self.input.is_empty() {
            self.note(Note::DiscardedBeforeTls(self.input.len()));
        }
        self.input.zeroize();
        self.exchange = None;
        self.attempt = None;
        self.refusal = None;
        self.user.clear();
        self.dialogue = match self.settings.protocol {
            Protocol::Imap => Dialogue::Imap(Imap::default()),
            Protocol::Pop3 => Dialogue::Pop3(Pop3::default()),
            Protocol::Smtp => Dialogue::Smtp(Smtp::default()),
        };
        self.phase = Phase::Handshake;
        self.events.push_back(Event::StartTls(reply));
    }

    fn refuse_command(&mut self, end: bool) {
        self.exchange = None;
        let was_last = matches!(self.refusal.take(), Some(Event::Close(_)));
        if let Dialogue::Pop3(pop3) = &mut self.dialogue {
            pop3.forget_user();
        }
        let reply = self.invalid_command();
        match end || was_last {
            true => self.close(reply),
            false => self.events.push_back(Event::Send(reply)),
        }
    }

    fn invalid_command(&self) -> Vec<u8> {
        match &self.dialogue {
            Dialogue::Imap(imap) => imap.invalid_command(),
            Dialogue::Pop3(_) => pop3::INVALID_COMMAND.to_vec(),
            Dialogue::Smtp(_) => smtp::INVALID_COMMAND.to_vec(),
        }
    }

    /// After a refusal.
    fn end_or_go_on(&mut self, event: Event) {
        match event {
            Event::Close(reply) => self.close(reply),
            event => {
                if let Dialogue::Pop3(pop3) = &mut self.dialogue {
                    pop3.forget_user();
                }
                self.events.push_back(event);
            }
        }
    }

    fn close(&mut self, reply: Vec<u8>) {
        self.phase = Phase::Over;
        self.input.zeroize();
        self.attempt = None;
        self.events.push_back(Event::Close(reply));
    }

    fn note(&mut self, note: Note) {
        self.events.push_back(Event::Note(note));
    }
}

/// Whether a method that has to be enabled is.
fn is_enabled(settings: &Settings, method: AuthMethods) -> bool {
    settings.auth.contains(method)
}

#[cfg(test)]
mod tests;
