//! The four forms of a request target (RFC 9112 section 3.2).

use super::UriError;
use super::host::{Authority, parse_authority};
use crate::{Method, Span};

/// A parsed request target; positions are relative to the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query`: what clients send to an origin server.
    Origin,
    /// `http://host/path?query`: what clients send to a proxy. The host takes precedence over the
    /// `Host` header (RFC 9112 section 3.2.2).
    Absolute {
        /// The host, as in [`Authority::host`](super::Authority::host).
        host: Span,
        /// The port, if written.
        port: Option<u16>,
        /// Path and query; empty or starting with `?` if the URL has no path, which
        /// [`normalise`](super::normalise()) treats as `/`.
        path: Span,
    },
    /// `host:port`: for CONNECT only.
    Authority {
        /// The host.
        host: Span,
        /// The port; required by RFC 9110 section 9.3.6.
        port: u16,
    },
    /// `*`: for OPTIONS only. nginx answers it with 400.
    Asterisk,
}

/// Finds the form of a target and checks its characters.
///
/// nginx's rules: the path of the origin form starts with `/`; a scheme consists of letters, digits
/// and `+ - .`, and any scheme is accepted; user information is refused; no control character,
/// space or DEL is allowed anywhere. Bytes of 0x80 and above are accepted, as clients send UTF-8
/// paths unencoded.
///
/// # Errors
/// [`UriError::Form`], [`UriError::Character`] or [`UriError::Host`].
pub fn split_target(target: &[u8], method: Method) -> Result<TargetForm, UriError> {
    if method == Method::Connect {
        return authority_form(target);
    }
    let first = *target.first().ok_or(UriError::Form)?;
    if first == b'/' {
        check_characters(target)?;
        return Ok(TargetForm::Origin);
    }
    if target == b"*" && method == Method::Options {
        return Ok(TargetForm::Asterisk);
    }
    if first.is_ascii_alphabetic() {
        return absolute_form(target);
    }
    Err(UriError::Form)
}

fn authority_form(target: &[u8]) -> Result<TargetForm, UriError> {
    let authority = target_authority(target)?;
    Ok(TargetForm::Authority {
        host: authority.host,
        port: authority.port.ok_or(UriError::Host)?,
    })
}

fn absolute_form(target: &[u8]) -> Result<TargetForm, UriError> {
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let scheme_end = target
        .iter()
        .position(|&byte| !is_scheme(byte))
        .ok_or(UriError::Form)?;
    let host_start = scheme_end + 3;
    if target.get(scheme_end..host_start) != Some(b"://") {
        return Err(UriError::Form);
    }
    let rest = &target[host_start..];
    let host_len = rest
        .iter()
        .position(|&byte| matches!(byte, b'/' | b'?'))
        .unwrap_or(rest.len());
    let authority = target_authority(&rest[..host_len])?;
    check_characters(&rest[host_len..])?;
    Ok(TargetForm::Absolute {
        host: Span::new(host_start, host_start + authority.host.len()),
        port: authority.port,
        path: Span::new(host_start + host_len, target.len()),
    })
}

/// The authority of a target. nginx accepts fewer characters in a name here than in `Host`:
/// letters, digits, dots and hyphens.
fn target_authority(text: &[u8]) -> Result<Authority, UriError> {
    let authority = parse_authority(text)?;
    let host = authority.host.of(text);
    let is_plain = |&byte: &u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-';
    if host[0] == b'[' || host.iter().all(is_plain) {
        Ok(authority)
    } else {
        Err(UriError::Host)
    }
}

fn check_characters(text: &[u8]) -> Result<(), UriError> {
    // No early exit: targets are short, and a loop without one is vectorised.
    let bad = text
        .iter()
        .fold(false, |bad, &byte| bad | (byte <= 0x20) | (byte == 0x7f));
    if bad {
        Err(UriError::Character)
    } else {
        Ok(())
    }
}
