//! What is known of a client that wants to log in.

use crate::secret::Secret;
use crate::settings::{AuthMethods, Protocol};

/// How a client proves who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// A password: LOGIN, USER and PASS, AUTH PLAIN, AUTH LOGIN.
    Plain,
    /// POP3's APOP.
    Apop,
    /// AUTH CRAM-MD5.
    CramMd5,
    /// AUTH EXTERNAL: the client's certificate, for example.
    External,
    /// AUTH XOAUTH2.
    XOauth2,
    /// AUTH OAUTHBEARER.
    OauthBearer,
    /// Not at all: mail from strangers (`smtp_auth none`).
    Anonymous,
}

impl Method {
    /// Its name in the header `Auth-Method`.
    pub fn name(self) -> &'static str {
        match self {
            Method::Plain => "plain",
            Method::Apop => "apop",
            Method::CramMd5 => "cram-md5",
            Method::External => "external",
            Method::XOauth2 => "xoauth2",
            Method::OauthBearer => "oauthbearer",
            Method::Anonymous => "none",
        }
    }

    /// Whether what the client sends is of no use to a mail server.
    pub(crate) fn is_digest(self) -> bool {
        matches!(self, Method::Apop | Method::CramMd5)
    }

    pub(crate) fn has_token(self) -> bool {
        matches!(self, Method::XOauth2 | Method::OauthBearer)
    }

    /// What has to be on before a client may use it.
    pub(crate) fn required(self) -> AuthMethods {
        match self {
            Method::Plain => AuthMethods::default(),
            Method::Apop => AuthMethods::APOP,
            Method::CramMd5 => AuthMethods::CRAM_MD5,
            Method::External => AuthMethods::EXTERNAL,
            Method::XOauth2 => AuthMethods::XOAUTH2,
            Method::OauthBearer => AuthMethods::OAUTHBEARER,
            Method::Anonymous => AuthMethods::NONE,
        }
    }
}

/// What a challenge of APOP and CRAM-MD5 is made of. Both numbers come from the caller: there is no
/// clock here, and no randomness.
#[derive(Clone, Copy, Debug)]
pub struct SaltSeed {
    /// A number that nobody can guess.
    pub random: u64,
    /// The time, in seconds since 1970.
    pub unix_seconds: u64,
}

impl SaltSeed {
    /// The challenge, in the form of a Message-ID.
    pub(crate) fn salt(self, server_name: &str) -> String {
        format!("<{}.{}@{server_name}>", self.random, self.unix_seconds)
    }
}

/// What an SMTP client said before its first RCPT, with `smtp_auth none`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Envelope {
    /// The argument of HELO or EHLO; empty if there was neither.
    pub helo: Vec<u8>,
    /// The command MAIL as it was sent.
    pub from: Vec<u8>,
    /// The command RCPT as it was sent.
    pub to: Vec<u8>,
}

/// An attempt to log in, about which an auth service decides.
#[derive(Clone, Debug)]
pub struct LoginAttempt {
    /// What the client speaks.
    pub protocol: Protocol,
    /// How it logs in.
    pub method: Method,
    /// The name; empty without one.
    pub user: Vec<u8>,
    /// The password, the digest, or the token; `None` if the method has none of them.
    pub password: Option<Secret>,
    /// The challenge that a digest was made of.
    pub salt: Option<String>,
    /// Which attempt of the session it is, from 1.
    pub number: usize,
    /// With [`Method::Anonymous`].
    pub envelope: Option<Envelope>,
}

/// What a method of authentication yields.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) method: Method,
    pub(crate) user: Vec<u8>,
    pub(crate) password: Option<Secret>,
}
