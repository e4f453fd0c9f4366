//! What a client's request asks for.

use crate::outgoing::{Authority, InvalidRequest, MethodName, Target};

/// The pseudo-headers of a request that a client sends (RFC 9113 section 8.3.1).
#[derive(Clone, Copy, Debug)]
pub struct RequestTarget<'a> {
    /// `:method`.
    pub method: MethodName<'a>,
    /// `:scheme`.
    pub scheme: Scheme,
    /// `:authority`; empty to send none, so that a `host` field counts.
    pub authority: Authority<'a>,
    /// `:path`.
    pub path: Target<'a>,
}

impl<'a> RequestTarget<'a> {
    /// Checks these texts and makes pseudo-headers of them.
    ///
    /// # Errors
    /// [`InvalidRequest`] when one of them must not be sent.
    pub fn new(
        method: &'a [u8],
        scheme: Scheme,
        authority: &'a [u8],
        path: &'a [u8],
    ) -> Result<RequestTarget<'a>, InvalidRequest> {
        Ok(RequestTarget {
            method: MethodName::new(method)?,
            scheme,
            authority: Authority::new(authority)?,
            path: Target::new(path)?,
        })
    }
}

/// The scheme of a request that a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `http`.
    Http,
    /// `https`.
    Https,
}

impl Scheme {
    /// As it is sent.
    pub const fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}
