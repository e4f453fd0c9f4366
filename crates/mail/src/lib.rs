//! Mail proxying without I/O: what nginx's `mail` block does between a client of IMAP, POP3 or
//! SMTP, an auth service that decides about its login, and the mail server that it is passed on to.
//!
//! There are no sockets here, no clock and no configuration: bytes go in, events come out, and the
//! caller does what they say. A session goes through three parts.
//!
//! ```text
//!   client ────────> Session ──Authenticate──> auth_request ──> auth service
//!    ^  ^   bytes     │  ^ ^                                         │
//!    │  └──Send───────┘  │ └──refuse(Refusal)──┐                     │ bytes
//!    │     (then TLS)    │                     │                     v
//!    │     StartTls ─────┘                  Decision <─────── AuthResponse
//!    │     tls_established                     │
//!    │                      accept(Allowed) <──┘
//!    │                           v
//!    └────────Relay────────── Backend <──bytes, Send──> mail server
//! ```
//!
//! 1. A [`Session`] greets the client and answers its commands until it wants to log in
//!    ([`Event::Authenticate`]).
//! 2. [`auth_request`] writes what the auth service is asked, [`AuthResponse`] reads its
//!    [`Decision`]. A [`Refusal`] goes back to the session, and the client may try again;
//!    [`Decision::Allowed`] turns the session into
//! 3. a [`Backend`], which logs the client in at the mail server. Behind [`BackendEvent::Relay`]
//!    bytes are passed on in both directions.
//!
//! # A session as its caller sees it
//!
//! ```
//! use sealane_mail::*;
//! use std::sync::Arc;
//!
//! let settings = Arc::new(Settings::new(Protocol::Imap, "mail.example.org"));
//! let seed = SaltSeed { random: 4711, unix_seconds: 1_800_000_000 };
//! let mut session = Session::new(settings, false, seed);
//!
//! // The loop of a connection: send what there is, read when there is nothing.
//! let mut sent_to_client = Vec::new();
//! let mut from_client = [&b"a1 NOOP\r\na2 LO"[..], b"GIN jo secret\r\n"].into_iter();
//! loop {
//!     match session.next_event() {
//!         None => {
//!             let bytes = from_client.next().expect("it is still connected");
//!             // From a socket, at most `session.room()` bytes would be read.
//!             assert_eq!(session.receive(bytes), bytes.len());
//!         }
//!         Some(Event::Send(bytes)) => sent_to_client.extend(bytes),
//!         Some(Event::Note(note)) => println!("{note}"),
//!         Some(Event::Authenticate) => break,
//!         Some(other) => panic!("{other:?}"),
//!     }
//! }
//! assert_eq!(sent_to_client, b"* OK IMAP4 ready\r\na1 OK completed\r\n");
//!
//! // A connection to the auth service: write the request, read up to a decision.
//! let service = AuthService {
//!     uri: "/auth".to_owned(),
//!     host: "127.0.0.1".to_owned(),
//!     headers: Vec::new(),
//! };
//! let client = ClientDetails { address: "192.0.2.1", ..ClientDetails::default() };
//! let attempt = session.attempt().expect("Authenticate says so");
//! let request = auth_request(&service, attempt, &client);
//! assert!(request.as_bytes().starts_with(b"GET /auth HTTP/1.0\r\nHost: 127.0.0.1\r\n"));
//! let mut response = AuthResponse::new(attempt);
//! let decision = response.receive(
//!     b"HTTP/1.0 200 OK\r\nAuth-Server: 198.51.100.1\r\nAuth-Port: 143\r\n\r\n",
//! );
//! let Ok(Some(Decision::Allowed(allowed))) = decision else { panic!("{decision:?}") };
//!
//! // A connection to the mail server: the same loop once more.
//! let mut backend = session.accept(allowed, &ProxySettings::default(), &client);
//! assert_eq!(backend.upstream(), "198.51.100.1:143");
//! let responses = ["* OK ready\r\n", "+ go\r\n", "+ go\r\n", "a2 OK hello\r\n"];
//! let mut from_server = responses.into_iter().map(str::as_bytes);
//! let mut sent_to_server = Vec::new();
//! let to_client = loop {
//!     match backend.next_event() {
//!         None => {
//!             backend.receive(from_server.next().expect("it is still connected"));
//!         }
//!         Some(BackendEvent::Send(bytes)) => sent_to_server.extend_from_slice(bytes.as_bytes()),
//!         Some(BackendEvent::Relay { to_client, .. }) => break to_client,
//!         Some(BackendEvent::Failed { note, .. }) => panic!("{note}"),
//!     }
//! };
//! assert_eq!(sent_to_server, b"a2 LOGIN {2}\r\njo {6}\r\nsecret\r\n");
//! assert_eq!(to_client, b"a2 OK hello\r\n");
//! ```
//!
//! # What differs from nginx
//!
//! What clients, auth services and mail servers see is what nginx 1.31 shows them, except for this:
//!
//! - Nothing that is known before STARTTLS or STLS survives it; nginx keeps the login's name and
//!   whether there was an EHLO.
//! - AUTH EXTERNAL with an initial response needs `external` among the methods; nginx asks for it
//!   only when there is none.
//! - A command counts against its limit alone, not with those that were pipelined in front of it.
//! - IMAP: see `imap_command`. A mail server's responses: see `backend`.
//! - A name or a password with a line end, which base64 can contain, does not reach a mail server
//!   of POP3, where it would be a command.
//! - `Auth-Status` without a value refuses the login with SMTP, too.
//! - An attempt is asked about again (`Auth-Status: WAIT`) with the same request; nginx has
//!   forgotten the digest by then, and asks at once, over and over, if there is no `Auth-Wait`;
//!   here a second passes. EXTERNAL never sends the password of an earlier attempt.
//! - A response to AUTH LOGIN that is not base64 is answered with the tag, and a rejected MAIL does
//!   not garble what was pipelined behind it.
//! - Messages of the error log do not repeat commands that may contain a password, and write
//!   control characters as `\xXX`.
//! - XOAUTH2 and OAUTHBEARER, which freenginx has.
#![forbid(unsafe_code)]

mod auth_http;
mod backend;
mod capabilities;
mod escape;
pub mod fuzz;
mod limits;
mod login;
mod note;
mod sasl;
mod secret;
mod session;
mod settings;

pub use auth_http::{
    Allowed, AuthHttpError, AuthResponse, AuthService, ClientDetails, Decision, ProxyHeader,
    Refusal, TlsDetails, request as auth_request,
};
pub use backend::{Backend, BackendEvent};
pub use login::{Envelope, LoginAttempt, Method, SaltSeed};
pub use note::{Note, Severity};
pub use secret::Secret;
pub use session::{Event, Session};
pub use settings::{AuthMethods, Protocol, ProxySettings, Settings, StartTls};

/// The name of a client that has none, for an auth service and XCLIENT: without a resolver, or if
/// its address has no name or that name another address.
pub const HOST_UNAVAILABLE: &[u8] = b"[UNAVAILABLE]";

/// The name of a client whose name could not be looked up.
pub const HOST_TEMPORARILY_UNAVAILABLE: &[u8] = b"[TEMPUNAVAIL]";

/// Whether a name that was looked up may be the name of a client: letters, digits, hyphens and dots
/// (RFC 1034, section 3.5). Others could change the command that they are written into.
pub fn is_valid_host(name: &[u8]) -> bool {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-.".contains(byte);
    !name.is_empty() && name.iter().all(is_allowed)
}
