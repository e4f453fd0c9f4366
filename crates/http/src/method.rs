//! Request methods.

use std::fmt;

/// A request method: those nginx knows by name, and `Other` for any other token.
///
/// `Other` does not carry the name; the request head keeps its position in the buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // each variant is its method's name
pub enum Method {
    #[default]
    Get,
    Head,
    Post,
    Put,
    Delete,
    Mkcol,
    Copy,
    Move,
    Options,
    Propfind,
    Proppatch,
    Lock,
    Unlock,
    Patch,
    Trace,
    Connect,
    /// A token that is not in nginx's list.
    Other,
}

impl Method {
    /// Every method with a name, in nginx's order (the order of its `limit_except` bits).
    pub const NAMED: [Method; 16] = [
        Method::Get,
        Method::Head,
        Method::Post,
        Method::Put,
        Method::Delete,
        Method::Mkcol,
        Method::Copy,
        Method::Move,
        Method::Options,
        Method::Propfind,
        Method::Proppatch,
        Method::Lock,
        Method::Unlock,
        Method::Patch,
        Method::Trace,
        Method::Connect,
    ];

    /// The method of a request line's first word. Methods are case-sensitive.
    pub fn from_bytes(name: &[u8]) -> Method {
        match name {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"MKCOL" => Method::Mkcol,
            b"COPY" => Method::Copy,
            b"MOVE" => Method::Move,
            b"OPTIONS" => Method::Options,
            b"PROPFIND" => Method::Propfind,
            b"PROPPATCH" => Method::Proppatch,
            b"LOCK" => Method::Lock,
            b"UNLOCK" => Method::Unlock,
            b"PATCH" => Method::Patch,
            b"TRACE" => Method::Trace,
            b"CONNECT" => Method::Connect,
            _ => Method::Other,
        }
    }

    /// The name on the wire; `None` for [`Method::Other`].
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Mkcol => "MKCOL",
            Method::Copy => "COPY",
            Method::Move => "MOVE",
            Method::Options => "OPTIONS",
            Method::Propfind => "PROPFIND",
            Method::Proppatch => "PROPPATCH",
            Method::Lock => "LOCK",
            Method::Unlock => "UNLOCK",
            Method::Patch => "PATCH",
            Method::Trace => "TRACE",
            Method::Connect => "CONNECT",
            Method::Other => return None,
        })
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().unwrap_or("(other)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_case_matters() {
        for method in Method::NAMED {
            let name = method.name().expect("named methods have names");
            assert_eq!(Method::from_bytes(name.as_bytes()), method);
            let lower = name.to_ascii_lowercase();
            assert_eq!(Method::from_bytes(lower.as_bytes()), Method::Other);
        }
        assert_eq!(Method::from_bytes(b"BREW"), Method::Other);
        assert_eq!(Method::from_bytes(b""), Method::Other);
    }
}
