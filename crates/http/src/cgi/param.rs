//! Parameters of a request to an application, as all encoders take them.

use memchr::{memchr, memchr2, memchr3};

use crate::outgoing::InvalidRequest;

/// Parameters that are parts of an HTTP request. An application that rebuilds the request, to ask
/// another server, writes them into lines.
const OF_A_REQUEST: [&[u8]; 6] = [
    b"REQUEST_URI",
    b"REQUEST_METHOD",
    b"QUERY_STRING",
    b"CONTENT_TYPE",
    b"CONTENT_LENGTH",
    b"SERVER_PROTOCOL",
];

/// The name and the value of a parameter.
///
/// SCGI ends both with NUL, and applications keep them as NUL-terminated strings (environment
/// variables, PHP), in which the name ends at `=`. Values may contain line breaks, as paths do,
/// unless they are parts of an HTTP request, which cannot contain line breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param<'a> {
    name: &'a [u8],
    value: &'a [u8],
}

impl<'a> Param<'a> {
    /// # Errors
    /// [`InvalidRequest::ParamName`] and [`InvalidRequest::ParamValue`].
    pub fn new(name: &'a [u8], value: &'a [u8]) -> Result<Param<'a>, InvalidRequest> {
        if name.is_empty() || memchr2(0, b'=', name).is_some() {
            let name = name.to_vec();
            return Err(InvalidRequest::ParamName { name });
        }
        let is_in_line = name.starts_with(b"HTTP_") || OF_A_REQUEST.contains(&name);
        let fault = match is_in_line {
            true => memchr3(b'\r', b'\n', 0, value),
            false => memchr(0, value),
        };
        match fault {
            None => Ok(Param { name, value }),
            Some(_) => Err(InvalidRequest::ParamValue {
                name: name.to_vec(),
            }),
        }
    }

    /// The name.
    pub const fn name(self) -> &'a [u8] {
        self.name
    }

    /// The value.
    pub const fn value(self) -> &'a [u8] {
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_one_and_the_whole_of_it_for_every_receiver() {
        for (name, value) in [
            ("PATH_INFO", "/a\r\nb"),
            ("HTTP_X", "a b\tc"),
            ("REQUEST_URI", "/a b"),
            ("X", ""),
            ("\u{e4}", "\u{e4}"),
            ("MY_HTTP_X", "a\nb"),
        ] {
            assert!(
                Param::new(name.as_bytes(), value.as_bytes()).is_ok(),
                "{name}"
            );
        }
        for name in ["", "A\0B", "A=B"] {
            let refused = Param::new(name.as_bytes(), b"x");
            assert!(matches!(refused, Err(InvalidRequest::ParamName { .. })));
        }
        for (name, value) in [
            ("PATH_INFO", "/a\0b"),
            ("HTTP_X", "a\0"),
            ("HTTP_X", "a\r\nX-Admin: 1"),
            ("HTTP_X", "a\rb"),
            ("HTTP_X", "a\nb"),
            ("REQUEST_URI", "/ HTTP/1.1\r\nX: y"),
            ("REQUEST_METHOD", "GET\n"),
            ("QUERY_STRING", "a\r"),
            ("CONTENT_TYPE", "a\n"),
            ("CONTENT_LENGTH", "1\n"),
            ("SERVER_PROTOCOL", "HTTP/1.1\n"),
        ] {
            let refused = Param::new(name.as_bytes(), value.as_bytes());
            let expected = InvalidRequest::ParamValue {
                name: name.as_bytes().to_vec(),
            };
            assert_eq!(refused, Err(expected), "{name} {value:?}");
        }
    }
}
