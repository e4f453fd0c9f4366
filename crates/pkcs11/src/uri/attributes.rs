//! Prefixes and values of URIs, and what is wrong with them.

use std::fmt::{self, Write};
use std::path::PathBuf;

/// What follows the prefixes.
pub(super) enum Form<'a> {
    /// Path and query of RFC 7512, without the scheme.
    Uri(&'a str),
    /// What OpenSC's engine takes.
    Engine(&'a str),
}

/// Whether a value of a configuration is meant to be a key in a token, right or wrong.
pub fn is_uri(value: &str) -> bool {
    !matches!(after_prefixes(value), Ok(None))
}

/// `None`: no prefix says that it is a URI.
pub(super) fn after_prefixes(value: &str) -> Result<Option<Form<'_>>, UriError> {
    if let Some(rest) = after(value, "engine:") {
        let Some(rest) = after(rest, "pkcs11:") else {
            let engine = rest.split(':').next().unwrap_or_default();
            return Err(UriError::OtherEngine(engine.into()));
        };
        let is_old = ["slot_", "id_", "label_"]
            .iter()
            .any(|start| rest.starts_with(start));
        return Ok(Some(match after(rest, "pkcs11:") {
            Some(rest) => Form::Uri(rest),
            None if is_old || !rest.contains('=') => Form::Engine(rest),
            None => Form::Uri(rest),
        }));
    }
    let rest = match after(value, "store:") {
        Some(rest) => Some(after(rest, "pkcs11:").ok_or_else(|| {
            UriError::OtherStore(rest.split(':').next().unwrap_or_default().into())
        })?),
        None => after(value, "pkcs11:"),
    };
    Ok(rest.map(Form::Uri))
}

/// Schemes are compared without regard to case (RFC 3986 section 3.1).
fn after<'a>(value: &'a str, prefix: &str) -> Option<&'a str> {
    let start = value.get(..prefix.len())?;
    start
        .eq_ignore_ascii_case(prefix)
        .then(|| &value[prefix.len()..])
}

/// The bytes that a value stands for.
pub(super) fn decoded(name: &str, value: &str) -> Result<Vec<u8>, UriError> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, others @ ..] = rest {
        rest = others;
        match first {
            b'%' => {
                let pair = rest.split_at_checked(2);
                let byte = pair.and_then(|(pair, _)| Some(digit(pair[0])? << 4 | digit(pair[1])?));
                bytes.push(byte.ok_or_else(|| UriError::Percent(name.into()))?);
                rest = &rest[2..];
            }
            byte if byte.is_ascii_control() => return Err(UriError::Control(name.into())),
            byte => bytes.push(*byte),
        }
    }
    Ok(bytes)
}

/// The text that a value stands for. PKCS #11 has no text with control characters in it.
pub(super) fn text(name: &str, value: &str) -> Result<String, UriError> {
    let text =
        String::from_utf8(decoded(name, value)?).map_err(|_| UriError::NotText(name.into()))?;
    match text.chars().any(char::is_control) {
        true => Err(UriError::Control(name.into())),
        false => Ok(text),
    }
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

/// A decimal number, without a sign.
pub(super) fn number<T: std::str::FromStr>(value: &str) -> Option<T> {
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| value.parse().ok()).flatten()
}

/// `2.6`, or `2` for 2.0.
pub(super) fn version(value: &str) -> Option<(u8, u8)> {
    match value.split_once('.') {
        Some((major, minor)) => Some((number(major)?, number(minor)?)),
        None => Some((number(value)?, 0)),
    }
}

/// Pairs of hexadecimal digits, at least one.
pub(super) fn hexadecimal(value: &str) -> Option<Vec<u8>> {
    let pairs = value.as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> = pairs
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect();
    bytes.filter(|bytes| !bytes.is_empty())
}

/// `file:/path`, `file:///path` or a path.
pub(super) fn pin_file(source: &str) -> Result<PathBuf, UriError> {
    if source.starts_with('|') {
        return Err(UriError::PinFromProgram);
    }
    let path = after(source, "file:").unwrap_or(source);
    let path = match path.strip_prefix("//") {
        Some(rest) => rest.strip_prefix("localhost").unwrap_or(rest),
        None => path,
    };
    match path.starts_with('/') && !path.ends_with('/') {
        true => Ok(PathBuf::from(path)),
        false => Err(UriError::PinSource(source.into())),
    }
}

/// Prints a value: binary ones as bytes, texts as they are where the RFC allows it.
pub(super) fn encode(f: &mut fmt::Formatter<'_>, value: &[u8], is_binary: bool) -> fmt::Result {
    for byte in value {
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~:[]@!$'()*+,=&".contains(byte);
        match is_plain && !is_binary {
            true => f.write_char(char::from(*byte))?,
            false => write!(f, "%{byte:02X}")?,
        }
    }
    Ok(())
}

/// What is wrong with a URI. The text continues `"pkcs11:…" cannot be used: `, and never contains a
/// PIN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UriError {
    /// It begins with nothing that is known.
    NotAUri,
    /// It has more than [`MAX_URI_BYTES`](super::MAX_URI_BYTES).
    TooLong,
    /// An engine that is not `pkcs11`.
    OtherEngine(Box<str>),
    /// `store:` with another scheme.
    OtherStore(Box<str>),
    /// Neither a URI nor one of the forms of OpenSC's engine.
    NotOfEngine(Box<str>),
    /// An attribute without `=`.
    NoValue(Box<str>),
    /// The same in the query, where what stands there may be part of a PIN.
    NoValueInQuery,
    /// An attribute of the path that RFC 7512 does not have.
    Unknown(Box<str>),
    /// An attribute that stands there twice.
    Twice(Box<str>),
    /// `%` without two hexadecimal digits.
    Percent(Box<str>),
    /// Bytes that are no UTF-8.
    NotText(Box<str>),
    /// A control character.
    Control(Box<str>),
    /// Another value is expected.
    Value {
        /// The attribute.
        name: Box<str>,
        /// What it is.
        value: Box<str>,
        /// What it may be.
        expected: &'static str,
    },
    /// `type=` something else.
    NotAPrivateKey(Box<str>),
    /// `pin-value`.
    PinInUri,
    /// `pin-source=|program`.
    PinFromProgram,
    /// `pin-source` is no absolute path.
    PinSource(Box<str>),
}

impl UriError {
    pub(super) fn bad(name: &str, value: &str, expected: &'static str) -> Self {
        Self::Value {
            name: name.into(),
            value: value.into(),
            expected,
        }
    }
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAUri => f.write_str("it does not begin with \"pkcs11:\""),
            Self::TooLong => write!(f, "it is longer than {} bytes", super::MAX_URI_BYTES),
            Self::OtherEngine(engine) => write!(
                f,
                "the engine \"{engine}\" is not supported, since there are no engines here; keys in \
                 PKCS #11 tokens are reached by \"pkcs11:\""
            ),
            Self::OtherStore(scheme) => write!(
                f,
                "stores of the scheme \"{scheme}\" are a provider's: name it by \"ssl_accelerator \
                 provider:NAME\"; keys in PKCS #11 tokens are reached by \"pkcs11:\""
            ),
            Self::NotOfEngine(rest) => write!(
                f,
                "\"{rest}\" is neither a URI (token=NAME;object=NAME) nor slot_NUMBER-id_HEX, \
                 slot_NUMBER-label_NAME, id_HEX or label_NAME"
            ),
            Self::NoValue(part) => write!(
                f,
                "\"{part}\" is not NAME=VALUE; a \";\" within a value is written %3B"
            ),
            Self::NoValueInQuery => f.write_str(
                "an attribute after the \"?\" is not NAME=VALUE; a \"?\" within a value before it \
                 is written %3F, and a \"&\" after it %26",
            ),
            Self::Unknown(name) => write!(
                f,
                "the attribute \"{name}\" is unknown; those of RFC 7512 are token, manufacturer, \
                 serial, model, object, id, type, slot-id, slot-description, slot-manufacturer, \
                 library-manufacturer, library-description and library-version"
            ),
            Self::Twice(name) => write!(f, "the attribute \"{name}\" stands there twice"),
            Self::Percent(name) => write!(
                f,
                "in \"{name}\" a \"%\" is not followed by two hexadecimal digits; a \"%\" itself is \
                 written %25"
            ),
            Self::NotText(name) => write!(f, "the value of \"{name}\" is not UTF-8"),
            Self::Control(name) => write!(f, "a control character in \"{name}\""),
            Self::Value {
                name,
                value,
                expected,
            } => write!(f, "{name} is \"{value}\", and must be {expected}"),
            Self::NotAPrivateKey(kind) => write!(
                f,
                "type={kind} is not a private key; write type=private, or leave it out"
            ),
            Self::PinInUri => f.write_str(
                "a PIN does not belong into a configuration, which others may see: write it to a \
                 file that only root can read (chmod 600), and \"pin-source=file:/path/of/that\" \
                 instead of \"pin-value\"",
            ),
            Self::PinFromProgram => f.write_str(
                "a program as pin-source is not run: write the PIN to a file that only root can \
                 read, and \"pin-source=file:/path/of/that\"",
            ),
            Self::PinSource(source) => write!(
                f,
                "pin-source is \"{source}\", and must be the absolute path of a file, such as \
                 file:/etc/sealane/token.pin"
            ),
        }
    }
}

impl std::error::Error for UriError {}
