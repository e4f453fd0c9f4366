//! Addresses of OCSP responders.

use std::fmt;

const DEFAULT_PORT: u16 = 80;

/// An OCSP responder (RFC 6960 appendix A). It speaks plain HTTP: responses are signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Responder {
    /// A name or an address, without brackets.
    pub host: String,
    /// The port; default 80.
    pub port: u16,
    /// The `Host` field.
    pub authority: String,
    /// Path and query, at least `/`.
    pub path: String,
}

/// Why an address cannot be used, in nginx's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadResponder {
    /// It does not begin with `http://`.
    Prefix,
    /// There is no host.
    NoHost,
    /// The port is no number from 1 to 65535.
    Port,
    /// It has a blank or a control character.
    Character,
}

impl fmt::Display for BadResponder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prefix => "invalid URL prefix",
            Self::NoHost => "no host",
            Self::Port => "invalid port",
            Self::Character => "invalid character",
        })
    }
}

impl Responder {
    /// Reads `http://host[:port][/path]`.
    ///
    /// # Errors
    ///
    /// Why it cannot be used.
    pub fn parse(url: &str) -> Result<Self, BadResponder> {
        let prefix = "http://";
        let rest = match url.get(..prefix.len()) {
            Some(start) if start.eq_ignore_ascii_case(prefix) => &url[prefix.len()..],
            _ => return Err(BadResponder::Prefix),
        };
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(BadResponder::Character);
        }
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let path = path.split('#').next().unwrap_or_default();
        let (host, port) = match authority.strip_prefix('[') {
            Some(bracketed) => {
                let (host, port) = bracketed.split_once(']').ok_or(BadResponder::NoHost)?;
                (
                    host,
                    port.strip_prefix(':').or(port.is_empty().then_some("")),
                )
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, Some("")),
            },
        };
        if host.is_empty() || host.contains('@') {
            return Err(BadResponder::NoHost);
        }
        let port = match port.ok_or(BadResponder::Port)? {
            "" => DEFAULT_PORT,
            digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => match digits.parse() {
                Ok(port) if port != 0 => port,
                _ => return Err(BadResponder::Port),
            },
            _ => return Err(BadResponder::Port),
        };
        Ok(Self {
            host: host.to_owned(),
            port,
            authority: authority.to_owned(),
            path: match path.strip_prefix('?') {
                Some(query) => format!("/?{query}"),
                None if path.is_empty() => "/".to_owned(),
                None => path.to_owned(),
            },
        })
    }
}

impl fmt::Display for Responder {
    /// As in a URL, without the path.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responders_have_hosts_ports_and_paths() {
        let read = |url| {
            let found = Responder::parse(url).expect(url);
            (found.host, found.port, found.path)
        };
        let of = |host: &str, port, path: &str| (host.to_owned(), port, path.to_owned());
        assert_eq!(read("http://ocsp.test"), of("ocsp.test", 80, "/"));
        assert_eq!(
            read("HTTP://ocsp.test:8080/a/b?c"),
            of("ocsp.test", 8080, "/a/b?c")
        );
        assert_eq!(read("http://ocsp.test?c"), of("ocsp.test", 80, "/?c"));
        assert_eq!(read("http://[::1]:81/"), of("::1", 81, "/"));
        assert_eq!(read("http://[::1]"), of("::1", 80, "/"));
    }

    #[test]
    fn other_addresses_are_refused() {
        for (url, why) in [
            ("https://ocsp.test/", BadResponder::Prefix),
            ("", BadResponder::Prefix),
            ("http://", BadResponder::NoHost),
            ("http:///x", BadResponder::NoHost),
            ("http://user@host/", BadResponder::NoHost),
            ("http://[::1", BadResponder::NoHost),
            ("http://[::1]x", BadResponder::Port),
            ("http://host:0/", BadResponder::Port),
            ("http://host:65536/", BadResponder::Port),
            ("http://host:+1/", BadResponder::Port),
            ("http://host/a b", BadResponder::Character),
            ("http://host/\r\nx: y", BadResponder::Character),
        ] {
            assert_eq!(Responder::parse(url), Err(why), "{url}");
        }
    }
}
