//! AUTH and AUTHENTICATE: what the three protocols have in common of SASL (RFC 4422).
//!
//! ```text
//! AUTH name [initial response] ──> Challenge ──> line ──┬──> Credentials
//!                                      ^                │
//!                                      └── (AUTH LOGIN) ┘
//! ```

use crate::escape::decode_base64;
use crate::login::{Credentials, Method};
use crate::note::Note;
use crate::secret::Secret;
use crate::settings::AuthMethods;

/// What the next line of the client is expected to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Exchange {
    LoginUser,
    LoginPassword {
        user: Vec<u8>,
    },
    Response(Method),
    /// The client acknowledges an error of its token with this line, and is then refused.
    Acknowledgement {
        method: Method,
    },
}

/// What is sent to the client, in base64 behind the protocol's prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Challenge {
    Empty,
    Username,
    Password,
    Salt,
}

impl Challenge {
    /// Its text; `None` for the salt, which the session has.
    pub(crate) fn text(self) -> Option<&'static str> {
        match self {
            Challenge::Empty => Some(""),
            Challenge::Username => Some("VXNlcm5hbWU6"),
            Challenge::Password => Some("UGFzc3dvcmQ6"),
            Challenge::Salt => None,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Ask(Exchange, Challenge),
    Done(Credentials),
    /// The acknowledgement has come.
    Acknowledged,
}

/// Why there is no progress; the client is told that its command is invalid.
pub(crate) type Refused = Option<Note>;

/// The arguments of AUTH or AUTHENTICATE.
pub(crate) fn begin(arguments: &[&[u8]], enabled: AuthMethods) -> Result<Progress, Refused> {
    let (name, response) = match arguments {
        [name] => (name, None),
        [name, response] => (name, Some(*response)),
        _ => return Err(None),
    };
    if name.eq_ignore_ascii_case(b"LOGIN") {
        return match response {
            None => Ok(Progress::Ask(Exchange::LoginUser, Challenge::Username)),
            Some(response) => Exchange::LoginUser.advance(response),
        };
    }
    let methods = [
        (&b"PLAIN"[..], Method::Plain),
        (b"CRAM-MD5", Method::CramMd5),
        (b"EXTERNAL", Method::External),
        (b"XOAUTH2", Method::XOauth2),
        (b"OAUTHBEARER", Method::OauthBearer),
    ];
    let mut methods = methods.into_iter();
    let method = methods.find(|(known, _)| name.eq_ignore_ascii_case(known));
    let (_, method) = method.ok_or(None)?;
    // nginx does not ask whether EXTERNAL is on when there is an initial response.
    if !enabled.contains(method.required()) {
        return Err(Some(Note::MethodNotEnabled(sasl_name(method))));
    }
    match (response, method) {
        (None, Method::CramMd5) => Ok(ask(method, Challenge::Salt)),
        (None, Method::External) => Ok(ask(method, Challenge::Username)),
        (None, _) => Ok(ask(method, Challenge::Empty)),
        // There is nothing to respond to yet.
        (Some(_), Method::CramMd5) => Err(None),
        (Some(response), _) => Exchange::Response(method).advance(response),
    }
}

fn ask(method: Method, challenge: Challenge) -> Progress {
    Progress::Ask(Exchange::Response(method), challenge)
}

impl Exchange {
    /// Takes a line of the client, without its end.
    pub(crate) fn advance(self, line: &[u8]) -> Result<Progress, Refused> {
        match self {
            Exchange::LoginUser => {
                let user = decode(line, "LOGIN")?.to_vec();
                let exchange = Exchange::LoginPassword { user };
                Ok(Progress::Ask(exchange, Challenge::Password))
            }
            Exchange::LoginPassword { user } => {
                let password = decode(line, "LOGIN")?;
                Ok(done(Method::Plain, user, Some(&password)))
            }
            Exchange::Response(method) => {
                let response = decode(line, sasl_name(method))?;
                match method {
                    Method::CramMd5 => cram_md5(&response),
                    Method::External => Ok(done(method, response.to_vec(), None)),
                    Method::XOauth2 => xoauth2(&response),
                    Method::OauthBearer => oauthbearer(&response),
                    _ => plain(&response),
                }
            }
            // RFC 7628, section 3.2.3: one byte of value 1. XOAUTH2: an empty line.
            Exchange::Acknowledgement { method } => {
                let expected: &[u8] = match method {
                    Method::OauthBearer => b"AQ==",
                    _ => b"",
                };
                if line == expected {
                    Ok(Progress::Acknowledged)
                } else {
                    Err(None)
                }
            }
        }
    }
}

fn done(method: Method, user: Vec<u8>, password: Option<&[u8]>) -> Progress {
    Progress::Done(Credentials {
        method,
        user,
        password: password.map(|password| Secret::new(password.to_vec())),
    })
}

fn decode(line: &[u8], name: &'static str) -> Result<zeroize::Zeroizing<Vec<u8>>, Refused> {
    decode_base64(line).ok_or(Some(Note::InvalidBase64(name)))
}

fn sasl_name(method: Method) -> &'static str {
    match method {
        Method::Plain | Method::Anonymous => "PLAIN",
        Method::Apop => "APOP",
        Method::CramMd5 => "CRAM-MD5",
        Method::External => "EXTERNAL",
        Method::XOauth2 => "XOAUTH2",
        Method::OauthBearer => "OAUTHBEARER",
    }
}

/// RFC 4616: `[authzid] NUL authcid NUL passwd`. As in nginx, nobody acts for someone else: the
/// first name is ignored.
fn plain(response: &[u8]) -> Result<Progress, Refused> {
    let invalid_login = || Some(Note::InvalidLogin("PLAIN"));
    let (_, rest) = split_at_byte(response, 0).ok_or_else(invalid_login)?;
    if rest.is_empty() {
        return Err(invalid_login());
    }
    let (user, password) = split_at_byte(rest, 0).ok_or(Some(Note::InvalidPassword("PLAIN")))?;
    Ok(done(Method::Plain, user.to_vec(), Some(password)))
}

/// RFC 2195: `user SP digest`, the digest of 16 bytes in hexadecimal.
fn cram_md5(response: &[u8]) -> Result<Progress, Refused> {
    match split_at_byte(response, b' ') {
        Some((user, digest)) if digest.len() == 32 => {
            Ok(done(Method::CramMd5, user.to_vec(), Some(digest)))
        }
        _ => Err(Some(Note::InvalidCramMd5)),
    }
}

/// `user=NAME ^A auth=Bearer TOKEN ^A ^A`.
fn xoauth2(response: &[u8]) -> Result<Progress, Refused> {
    let user = response.strip_prefix(b"user=");
    let (user, fields) = user
        .and_then(|rest| split_at_byte(rest, 1))
        .filter(|(user, _)| !user.is_empty())
        .ok_or(Some(Note::InvalidLogin("XOAUTH2")))?;
    let token = bearer(fields).ok_or(Some(Note::InvalidToken("XOAUTH2")))?;
    Ok(done(Method::XOauth2, user.to_vec(), Some(token)))
}

/// RFC 7628, section 3.1: a GS2 header with the name in it, then pairs.
fn oauthbearer(response: &[u8]) -> Result<Progress, Refused> {
    let invalid_login = || Some(Note::InvalidLogin("OAUTHBEARER"));
    let (header, fields) = split_at_byte(response, 1).ok_or_else(invalid_login)?;
    let name = [&b"n,a="[..], b"y,a="]
        .iter()
        .find_map(|prefix| header.strip_prefix(*prefix));
    let name = name.and_then(|name| name.strip_suffix(b","));
    let user = name.and_then(saslname).ok_or_else(invalid_login)?;
    let token = bearer(fields).ok_or(Some(Note::InvalidToken("OAUTHBEARER")))?;
    Ok(done(Method::OauthBearer, user, Some(token)))
}

/// The token among `key=value ^A` pairs, which an empty one ends.
fn bearer(mut fields: &[u8]) -> Option<&[u8]> {
    let mut token = None;
    loop {
        let (field, rest) = split_at_byte(fields, 1)?;
        if field.is_empty() {
            return token.filter(|token: &&[u8]| rest.is_empty() && !token.is_empty());
        }
        if let Some(value) = field.strip_prefix(b"auth=") {
            let (scheme, value) = split_at_byte(value, b' ')?;
            if !scheme.eq_ignore_ascii_case(b"Bearer") || token.is_some() {
                return None;
            }
            token = Some(value);
        }
        fields = rest;
    }
}

/// RFC 5801: `=2C` is a comma and `=3D` an equals sign.
fn saslname(text: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'=' => {
                let (code, after) = rest.split_at_checked(2)?;
                rest = after;
                name.push(match code {
                    b"2C" => b',',
                    b"3D" => b'=',
                    _ => return None,
                });
            }
            b',' => return None,
            _ => name.push(byte),
        }
    }
    (!name.is_empty()).then_some(name)
}

fn split_at_byte(bytes: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(separator, bytes)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escape::encode_base64;

    const DEFAULT: AuthMethods = AuthMethods::PLAIN;

    fn everything() -> AuthMethods {
        DEFAULT
            | AuthMethods::CRAM_MD5
            | AuthMethods::EXTERNAL
            | AuthMethods::XOAUTH2
            | AuthMethods::OAUTHBEARER
    }

    fn auth(name: &[u8], response: &[u8]) -> Result<Progress, Refused> {
        begin(&[name, encode_base64(response).as_bytes()], everything())
    }

    #[test]
    fn plain_needs_two_nuls_and_a_name() {
        assert_eq!(
            auth(b"plain", b"\0user\0secret"),
            Ok(done(Method::Plain, b"user".to_vec(), Some(b"secret")))
        );
        assert_eq!(
            auth(b"PLAIN", b"admin\0user\0"),
            Ok(done(Method::Plain, b"user".to_vec(), Some(b"")))
        );
        for (response, note) in [
            (&b""[..], Note::InvalidLogin("PLAIN")),
            (b"user", Note::InvalidLogin("PLAIN")),
            (b"\0", Note::InvalidLogin("PLAIN")),
            (b"\0user", Note::InvalidPassword("PLAIN")),
        ] {
            assert_eq!(auth(b"PLAIN", response), Err(Some(note)), "{response:?}");
        }
        assert_eq!(
            begin(&[b"PLAIN", b"*"], DEFAULT),
            Err(Some(Note::InvalidBase64("PLAIN")))
        );
    }

    #[test]
    fn methods_that_are_off_are_refused_with_and_without_an_initial_response() {
        for name in ["CRAM-MD5", "EXTERNAL", "XOAUTH2", "OAUTHBEARER"] {
            let refused = Err(Some(Note::MethodNotEnabled(name)));
            assert_eq!(begin(&[name.as_bytes()], DEFAULT), refused);
            assert_eq!(begin(&[name.as_bytes(), b"dGVzdA=="], DEFAULT), refused);
        }
        assert_eq!(begin(&[b"SCRAM-SHA-1"], everything()), Err(None));
        assert_eq!(begin(&[], everything()), Err(None));
        assert_eq!(begin(&[b"PLAIN", b"", b""], everything()), Err(None));
        assert_eq!(begin(&[b"CRAM-MD5", b"dGVzdA=="], everything()), Err(None));
    }

    #[test]
    fn digests_have_32_characters() {
        let digest = "0123456789abcdef0123456789abcdef";
        let line = encode_base64(format!("user {digest}").as_bytes());
        let exchange = Exchange::Response(Method::CramMd5);
        assert_eq!(
            exchange.clone().advance(line.as_bytes()),
            Ok(done(
                Method::CramMd5,
                b"user".to_vec(),
                Some(digest.as_bytes())
            ))
        );
        for response in [&b"user"[..], b"user 0123", b""] {
            let line = encode_base64(response);
            assert_eq!(
                exchange.clone().advance(line.as_bytes()),
                Err(Some(Note::InvalidCramMd5))
            );
        }
    }

    #[test]
    fn tokens_are_found_between_their_separators() {
        assert_eq!(
            auth(
                b"XOAUTH2",
                b"user=test@example.com\x01auth=Bearer abc\x01\x01"
            ),
            Ok(done(
                Method::XOauth2,
                b"test@example.com".to_vec(),
                Some(b"abc")
            ))
        );
        assert_eq!(
            auth(
                b"OAUTHBEARER",
                b"n,a=te=3D=2C@example.com,\x01host=h\x01port=143\x01auth=Bearer abc\x01\x01"
            ),
            Ok(done(
                Method::OauthBearer,
                b"te=,@example.com".to_vec(),
                Some(b"abc")
            ))
        );
    }

    #[test]
    fn broken_tokens_are_refused() {
        let login = |name| Err(Some(Note::InvalidLogin(name)));
        let token = |name| Err(Some(Note::InvalidToken(name)));
        for (response, expected) in [
            (&b""[..], login("XOAUTH2")),
            (b"user=\x01auth=Bearer a\x01\x01", login("XOAUTH2")),
            (b"user=u\x01\x01", token("XOAUTH2")),
            (b"user=u\x01auth=Bearer \x01\x01", token("XOAUTH2")),
            (b"user=u\x01auth=Basic a\x01\x01", token("XOAUTH2")),
            (b"user=u\x01auth=Bearer a\x01", token("XOAUTH2")),
            (b"user=u\x01auth=Bearer a\x01\x01x", token("XOAUTH2")),
            (
                b"user=u\x01auth=Bearer a\x01auth=Bearer b\x01\x01",
                token("XOAUTH2"),
            ),
        ] {
            assert_eq!(auth(b"XOAUTH2", response), expected, "{response:?}");
        }
        for (response, expected) in [
            (&b"n,,\x01auth=Bearer a\x01\x01"[..], login("OAUTHBEARER")),
            (b"n,a=,\x01auth=Bearer a\x01\x01", login("OAUTHBEARER")),
            (b"n,a=u=3,\x01auth=Bearer a\x01\x01", login("OAUTHBEARER")),
            (b"n,a=u=XX,\x01auth=Bearer a\x01\x01", login("OAUTHBEARER")),
            (b"n,a=u,v,\x01auth=Bearer a\x01\x01", login("OAUTHBEARER")),
            (b"p=tls,a=u,\x01auth=Bearer a\x01\x01", login("OAUTHBEARER")),
            (b"n,a=u,", login("OAUTHBEARER")),
            (b"n,a=u,\x01auth=Bearer\x01\x01", token("OAUTHBEARER")),
        ] {
            assert_eq!(auth(b"OAUTHBEARER", response), expected, "{response:?}");
        }
    }
}
