//! The response of an auth service. Its status code and its body mean nothing, as in nginx.

use crate::escape::Printable;
use crate::limits::AUTH_RESPONSE_BYTES;
use crate::login::LoginAttempt;
use crate::note::Note;
use crate::secret::Secret;
use crate::settings::Protocol;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use zeroize::Zeroizing;

/// What an auth service has decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The client may log in.
    Allowed(Allowed),
    /// It may not.
    Refused(Refusal),
    /// Ask the same again later (`Auth-Status: WAIT`).
    Wait {
        /// After so many seconds: `Auth-Wait`, at least 1.
        seconds: u64,
    },
}

/// Where a client is to be logged in, and as whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    /// `Auth-Server`.
    pub address: IpAddr,
    /// `Auth-Port`.
    pub port: u16,
    /// Both as they were sent, for log lines.
    pub name: String,
    /// `Auth-User`, if it was sent: instead of the name that the client used.
    pub user: Option<Vec<u8>>,
    /// `Auth-Pass`, if it was sent: instead of the client's password.
    pub password: Option<Secret>,
}

/// What a client is told that may not log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// `Auth-Status`.
    pub message: Vec<u8>,
    /// `Auth-Error-Code`, if it was sent; only SMTP has any use for it.
    pub code: Option<Vec<u8>>,
    /// `Auth-Error-SASL`, if it was sent: for XOAUTH2 and OAUTHBEARER, in base64.
    pub sasl_error: Option<Vec<u8>>,
    /// `Auth-Wait`: after so many seconds the client is told, and may try again. After 0 seconds,
    /// it may not.
    pub wait_seconds: u64,
}

impl Refusal {
    /// The message for the error log.
    pub fn note(&self) -> Note {
        Note::LoginFailed(self.message.clone())
    }

    pub(crate) fn smtp_code(&self) -> &[u8] {
        match &self.code {
            Some(code) if !code.is_empty() => code,
            _ => b"535 5.7.0",
        }
    }
}

/// Why a response decides nothing. `Display` says what the service did; the message of nginx is
/// that behind `auth http server NAME`, see [`AuthHttpError::message`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthHttpError {
    /// The status line has no end.
    InvalidResponse,
    /// A header line is none.
    InvalidHeader,
    /// There are more than 4096 bytes of header.
    TooLongHeader,
    /// The connection was closed before the header was complete.
    Closed,
    /// It lets the client in, but does not say where.
    NoServerOrPort,
    /// It lets the client in, but there is no password for the mail server.
    NoPassword,
    /// `Auth-Server` is not an IP address.
    InvalidAddress(Vec<u8>),
    /// `Auth-Port` is not a port.
    InvalidPort(Vec<u8>),
}

impl AuthHttpError {
    /// The message for the error log, at level `error`. `server` is the service's address.
    pub fn message(&self, server: &str) -> String {
        format!("auth http server {server} {self}")
    }
}

impl fmt::Display for AuthHttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AuthHttpError::InvalidResponse => f.write_str("sent invalid response"),
            AuthHttpError::InvalidHeader => f.write_str("sent invalid header in response"),
            AuthHttpError::TooLongHeader => write!(
                f,
                "sent too long header in response: more than {AUTH_RESPONSE_BYTES} bytes"
            ),
            AuthHttpError::Closed => {
                f.write_str("closed the connection before the end of its header")
            }
            AuthHttpError::NoServerOrPort => f.write_str("did not send server or port"),
            AuthHttpError::NoPassword => f.write_str("did not send password"),
            AuthHttpError::InvalidAddress(text) => {
                write!(f, "sent invalid server address:\"{}\"", Printable(text))
            }
            AuthHttpError::InvalidPort(text) => {
                write!(f, "sent invalid server port:\"{}\"", Printable(text))
            }
        }
    }
}

impl std::error::Error for AuthHttpError {}

/// What the header fields have said so far.
#[derive(Debug, Default)]
struct Fields {
    message: Option<Vec<u8>>,
    is_wait: bool,
    address: Vec<u8>,
    port: Vec<u8>,
    user: Option<Vec<u8>>,
    password: Option<Secret>,
    wait_seconds: u64,
    code: Option<Vec<u8>>,
    sasl_error: Option<Vec<u8>>,
}

#[derive(Debug)]
enum Reading {
    FirstLine,
    Fields,
    Decided,
    Failed(AuthHttpError),
}

/// Reads a response.
#[derive(Debug)]
pub struct AuthResponse {
    reading: Reading,
    /// What is not read yet, from the beginning of a line; wiped, as it may contain a password.
    line: Zeroizing<Vec<u8>>,
    bytes: usize,
    fields: Fields,
    protocol: Protocol,
    /// Whether the client's own password can be used at a mail server, or none is needed.
    has_password: bool,
}

impl AuthResponse {
    /// The response to a request about this attempt.
    pub fn new(attempt: &LoginAttempt) -> AuthResponse {
        let has_password = attempt.password.is_some() && !attempt.method.is_digest();
        AuthResponse {
            reading: Reading::FirstLine,
            line: Zeroizing::new(Vec::with_capacity(AUTH_RESPONSE_BYTES)),
            bytes: 0,
            fields: Fields::default(),
            protocol: attempt.protocol,
            has_password: has_password || attempt.protocol == Protocol::Smtp,
        }
    }

    /// Takes what the service sent. `None` means that more has to arrive; behind a decision
    /// everything is ignored.
    ///
    /// # Errors
    ///
    /// The response is not one. It stays so.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Option<Decision>, AuthHttpError> {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            match self.reading {
                Reading::Decided => return Ok(None),
                Reading::Failed(ref error) => return Err(error.clone()),
                Reading::FirstLine | Reading::Fields => {}
            }
            self.bytes += piece.len();
            if self.bytes > AUTH_RESPONSE_BYTES {
                return Err(self.fail(AuthHttpError::TooLongHeader));
            }
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                match self.take_line(&line[..line.len() - 1]) {
                    Ok(None) => {}
                    Ok(Some(decision)) => {
                        self.reading = Reading::Decided;
                        return Ok(Some(decision));
                    }
                    Err(error) => return Err(self.fail(error)),
                }
                self.line = line;
                self.line.clear();
            }
        }
        match &self.reading {
            Reading::Failed(error) => Err(error.clone()),
            _ => Ok(None),
        }
    }

    /// The service closed the connection.
    ///
    /// # Errors
    ///
    /// Unless it had decided.
    pub fn close(&mut self) -> Result<(), AuthHttpError> {
        match &self.reading {
            Reading::Decided => Ok(()),
            Reading::Failed(error) => Err(error.clone()),
            Reading::FirstLine | Reading::Fields => Err(self.fail(AuthHttpError::Closed)),
        }
    }

    fn fail(&mut self, error: AuthHttpError) -> AuthHttpError {
        self.reading = Reading::Failed(error.clone());
        error
    }

    fn take_line(&mut self, line: &[u8]) -> Result<Option<Decision>, AuthHttpError> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_first = matches!(self.reading, Reading::FirstLine);
        self.reading = Reading::Fields;
        if is_first && line.starts_with(b"HTTP/") {
            if memchr::memchr(b'\r', line).is_some() {
                return Err(AuthHttpError::InvalidResponse);
            }
            return Ok(None);
        }
        if memchr::memchr(b'\r', line).is_some() {
            return Err(AuthHttpError::InvalidHeader);
        }
        if line.is_empty() {
            return std::mem::take(&mut self.fields)
                .decide(self.protocol, self.has_password)
                .map(Some);
        }
        let name_end = memchr::memchr(b':', line).unwrap_or(line.len());
        let (name, value) = line.split_at(name_end);
        let is_name = name[..]
            .iter()
            .enumerate()
            .all(|(at, &byte)| byte.is_ascii_alphanumeric() || (byte == b'-' && at > 0));
        if !is_name || name.is_empty() {
            return Err(AuthHttpError::InvalidHeader);
        }
        let value = value.strip_prefix(b":").unwrap_or(value);
        self.fields.take(name, trim_spaces(value));
        Ok(None)
    }
}

/// Spaces alone: nginx takes a tab for a part of the value.
fn trim_spaces(mut value: &[u8]) -> &[u8] {
    while let Some(rest) = value.strip_prefix(b" ") {
        value = rest;
    }
    while let Some(rest) = value.strip_suffix(b" ") {
        value = rest;
    }
    value
}

impl Fields {
    fn take(&mut self, name: &[u8], value: &[u8]) {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if is("Auth-Status") {
            match value {
                b"OK" => {}
                b"WAIT" => self.is_wait = true,
                message => self.message = Some(message.to_vec()),
            }
        } else if is("Auth-Server") {
            self.address = value.to_vec();
        } else if is("Auth-Port") {
            self.port = value.to_vec();
        } else if is("Auth-User") {
            self.user = Some(value.to_vec());
        } else if is("Auth-Pass") {
            self.password = Some(Secret::new(value.to_vec()));
        } else if is("Auth-Wait") {
            self.wait_seconds = number(value).unwrap_or(self.wait_seconds);
        } else if is("Auth-Error-Code") {
            self.code = Some(value.to_vec());
        } else if is("Auth-Error-SASL") {
            self.sasl_error = (!value.is_empty()).then(|| value.to_vec());
        }
    }

    fn decide(self, protocol: Protocol, has_password: bool) -> Result<Decision, AuthHttpError> {
        let has_server = !self.address.is_empty() && !self.port.is_empty();
        if let Some(message) = self.message {
            // The other protocols have words of their own in front of it. Here it would be a
            // refusal for good that says nothing.
            if message.is_empty() && protocol == Protocol::Smtp && !has_server {
                return Err(AuthHttpError::NoServerOrPort);
            }
            return Ok(Decision::Refused(Refusal {
                message,
                code: self.code,
                sasl_error: self.sasl_error,
                wait_seconds: self.wait_seconds,
            }));
        }
        if self.is_wait {
            return Ok(Decision::Wait {
                seconds: self.wait_seconds.max(1),
            });
        }
        if !has_server {
            return Err(AuthHttpError::NoServerOrPort);
        }
        if self.password.is_none() && !has_password {
            return Err(AuthHttpError::NoPassword);
        }
        let text = str::from_utf8(&self.address).ok();
        let Some((text, address)) = text.and_then(|text| Some((text, address(text)?))) else {
            return Err(AuthHttpError::InvalidAddress(self.address));
        };
        let port = number(&self.port).and_then(|port| u16::try_from(port).ok());
        let Some(port) = port.filter(|&port| port > 0) else {
            return Err(AuthHttpError::InvalidPort(self.port));
        };
        Ok(Decision::Allowed(Allowed {
            name: format!("{text}:{}", String::from_utf8_lossy(&self.port)),
            address,
            port,
            user: self.user,
            password: self.password,
        }))
    }
}

/// Digits alone, as nginx reads numbers.
fn number(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = str::from_utf8(text).ok().filter(|_| is_number)?;
    let number: i64 = text.parse().ok()?;
    u64::try_from(number).ok()
}

/// An address as nginx reads it: numbers of IPv4 may have leading zeros and are decimal, IPv6 has
/// no brackets, and names are not looked up.
fn address(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Some(address.into());
    }
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let value = number(parts.next()?.as_bytes())?;
        *octet = u8::try_from(value).ok()?;
    }
    let address = Ipv4Addr::from(octets);
    // nginx cannot tell the last address from no address.
    (parts.next().is_none() && !address.is_broadcast()).then_some(address.into())
}
