//! Request targets: their forms, hosts, nginx's path normalisation, and percent-encoding.

mod encoding;
mod host;
mod normalise;
mod target;

pub use encoding::{EscapeKind, escape, escape_into, unescape};
pub use host::{Authority, parse_authority};
pub use normalise::{NormalUri, normalise};
pub use target::{TargetForm, split_target};

use std::fmt;

/// Why a request target or host is refused. All of these result in 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UriError {
    /// The target has none of the four forms of RFC 9112 section 3.2, or not the one that its
    /// method requires.
    Form,
    /// A control character, a space or DEL in the target.
    Character,
    /// An empty or malformed host, or a port that is not a number up to 65535.
    Host,
    /// `%` not followed by two hexadecimal digits.
    Escape,
    /// A NUL in the path, encoded or not.
    Nul,
    /// `..` segments that climb above the root.
    AboveRoot,
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UriError::Form => "request target is neither a path nor a URL",
            UriError::Character => "control character or space in request target",
            UriError::Host => "invalid host",
            UriError::Escape => "\"%\" without two hexadecimal digits",
            UriError::Nul => "NUL in path",
            UriError::AboveRoot => "\"..\" climbs above the root",
        })
    }
}

impl std::error::Error for UriError {}

#[cfg(test)]
mod tests;
