//! The parts of a request to another server, as every encoder takes them.
//!
//! Configurations build them from variables, and variables contain client input: `proxy_pass
//! http://origin/$1` with `%0d%0a` in the URI. A value of these types exists only if no receiver
//! can misinterpret it, in whichever protocol it is written.

use std::fmt;

use crate::headers::{InvalidHeader, is_token};

/// The method of a request: a token other than CONNECT, whose target has another form and whose
/// response is a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodName<'a>(&'a [u8]);

/// The target of a request, a path with its query: not empty, no white space, no control character.
/// As in nginx, non-ASCII bytes are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a>(&'a [u8]);

/// The host and port of `:authority`: no white space, no control character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority<'a>(&'a [u8]);

/// A part of a request that must not be sent, because a receiver would read more or something else
/// than was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidRequest {
    /// The method is not a token, or is CONNECT.
    Method,
    /// The target is empty or holds white space or a control character.
    Target,
    /// The host holds white space or a control character.
    Authority,
    /// A field's name is not a token.
    Name {
        /// The name.
        name: Vec<u8>,
    },
    /// A field's value holds CR, LF or NUL.
    Value {
        /// The field.
        name: Vec<u8>,
    },
    /// A parameter's name is empty or contains NUL or `=`, where the name of an environment
    /// variable ends.
    ParamName {
        /// The name.
        name: Vec<u8>,
    },
    /// A parameter's value contains NUL, or CR or LF although the parameter is part of an HTTP
    /// request (`HTTP_*`, `REQUEST_URI`).
    ParamValue {
        /// The parameter.
        name: Vec<u8>,
    },
}

impl fmt::Display for InvalidRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut about = |what: &str, name: &[u8], kind: &str| {
            let name = name.escape_ascii();
            write!(f, "{what} {kind} \"{name}\" of the request to the upstream")
        };
        match self {
            InvalidRequest::Method => f.write_str("invalid method of the request to the upstream"),
            InvalidRequest::Target => f.write_str(
                "white space or control character in the URI of the request to the upstream",
            ),
            InvalidRequest::Authority => f.write_str(
                "white space or control character in the host of the request to the upstream",
            ),
            InvalidRequest::Name { name } => about("invalid name of", name, "header"),
            InvalidRequest::Value { name } => about("line break or NUL in", name, "header"),
            InvalidRequest::ParamName { name } => about("invalid name of", name, "parameter"),
            InvalidRequest::ParamValue { name } => about("line break or NUL in", name, "parameter"),
        }
    }
}

impl std::error::Error for InvalidRequest {}

impl InvalidRequest {
    /// The error for a field of this name.
    pub fn field(name: &[u8], error: InvalidHeader) -> InvalidRequest {
        let name = name.to_vec();
        match error {
            InvalidHeader::Name => InvalidRequest::Name { name },
            InvalidHeader::Value | InvalidHeader::TooLarge => InvalidRequest::Value { name },
        }
    }
}

impl<'a> MethodName<'a> {
    /// # Errors
    /// [`InvalidRequest::Method`].
    pub fn new(name: &'a [u8]) -> Result<MethodName<'a>, InvalidRequest> {
        match is_token(name) && name != b"CONNECT" {
            true => Ok(MethodName(name)),
            false => Err(InvalidRequest::Method),
        }
    }

    /// The method as written.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Target<'a> {
    /// # Errors
    /// [`InvalidRequest::Target`].
    pub fn new(target: &'a [u8]) -> Result<Target<'a>, InvalidRequest> {
        match !target.is_empty() && is_visible(target) {
            true => Ok(Target(target)),
            false => Err(InvalidRequest::Target),
        }
    }

    /// The target as written.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Authority<'a> {
    /// May be empty: then a `host` field counts.
    ///
    /// # Errors
    /// [`InvalidRequest::Authority`].
    pub fn new(authority: &'a [u8]) -> Result<Authority<'a>, InvalidRequest> {
        match is_visible(authority) {
            true => Ok(Authority(authority)),
            false => Err(InvalidRequest::Authority),
        }
    }

    /// The authority as written.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

fn is_visible(text: &[u8]) -> bool {
    text.iter().all(|&byte| byte > b' ' && byte != 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_what_every_receiver_takes_for_one() {
        for method in ["GET", "PURGE", "M-SEARCH", "x"] {
            assert!(MethodName::new(method.as_bytes()).is_ok(), "{method}");
        }
        for method in [
            "",
            "GE T",
            "GET\r\nX: y",
            "G\0",
            "GET:",
            "CONNECT",
            "\u{e4}",
        ] {
            let refused = MethodName::new(method.as_bytes());
            assert_eq!(refused, Err(InvalidRequest::Method), "{method:?}");
        }
        for target in ["/", "*", "/a?b=%20", "/\u{e4}", "http://a/"] {
            assert!(Target::new(target.as_bytes()).is_ok(), "{target}");
        }
        let breaks = [
            "/ HTTP/1.1\r\nX: y",
            "/a b",
            "/a\tb",
            "/\n",
            "/\r",
            "/\0",
            "/\x7f",
        ];
        for text in breaks {
            let refused = Target::new(text.as_bytes());
            assert_eq!(refused, Err(InvalidRequest::Target), "{text:?}");
            let refused = Authority::new(text.as_bytes());
            assert_eq!(refused, Err(InvalidRequest::Authority), "{text:?}");
        }
        assert_eq!(Target::new(b""), Err(InvalidRequest::Target));
        assert!(Authority::new(b"").is_ok() && Authority::new(b"[::1]:80").is_ok());
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let name = b"X\r\nY".to_vec();
        assert_eq!(
            InvalidRequest::Name { name }.to_string(),
            "invalid name of header \"X\\r\\nY\" of the request to the upstream"
        );
        let name = b"HTTP_X".to_vec();
        assert_eq!(
            InvalidRequest::ParamValue { name }.to_string(),
            "line break or NUL in parameter \"HTTP_X\" of the request to the upstream"
        );
    }
}
