//! The part of a URL that a load generator needs: scheme, host, port, path.

use std::{fmt, str::FromStr};

/// An `http` or `https` URL without user information and fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// `https` rather than `http`.
    pub tls: bool,
    /// Host name or address; IPv6 without its brackets.
    pub host: String,
    /// The port, 80 or 443 if the URL names none.
    pub port: u16,
    /// Path and query for the request line, starting with `/`.
    pub path: String,
}

/// Why a URL was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlError {
    url: String,
    reason: &'static str,
}

impl Url {
    /// The value of the `Host` header field: IPv6 in brackets, without the default port.
    pub fn host_header(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        match (self.tls, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(url: &str) -> Result<Self, UrlError> {
        let refused = |reason| UrlError {
            url: url.to_owned(),
            reason,
        };
        let (tls, rest) = match url.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => return Err(refused("it must start with http:// or https://")),
        };
        if url.contains(|c: char| c.is_ascii_control() || c == ' ') {
            return Err(refused("it contains a space or a control character"));
        }
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) if rest.as_bytes()[at] == b'/' => (&rest[..at], rest[at..].to_owned()),
            Some(at) => (&rest[..at], format!("/{}", &rest[at..])),
            None => (rest, "/".to_owned()),
        };
        let (host, port) =
            split_authority(authority).ok_or_else(|| refused("its host or port is malformed"))?;
        if host.is_empty() || host.contains('@') {
            return Err(refused("it names no host, or a user"));
        }
        let port = match port {
            "" => {
                if tls {
                    443
                } else {
                    80
                }
            }
            port => port
                .parse()
                .map_err(|_| refused("its port is not a number up to 65535"))?,
        };
        let path = path.split('#').next().unwrap_or("/").to_owned();
        Ok(Self {
            tls,
            host: host.to_owned(),
            port,
            path,
        })
    }
}

/// Host and port (empty if none) of `host`, `host:port`, `[v6]` and `[v6]:port`.
fn split_authority(authority: &str) -> Option<(&str, &str)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        return match after.strip_prefix(':') {
            Some(port) => Some((host, port)),
            None if after.is_empty() => Some((host, "")),
            None => None,
        };
    }
    match authority.split_once(':') {
        Some((_, port)) if port.contains(':') => None,
        Some((host, port)) => Some((host, port)),
        None => Some((authority, "")),
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}://{}{}",
            if self.tls { "https" } else { "http" },
            self.host_header(),
            self.path
        )
    }
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "URL \"{}\" cannot be used: {}", self.url, self.reason)
    }
}

impl std::error::Error for UrlError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Url {
        url.parse().expect("a usable URL")
    }

    #[test]
    fn parts_and_defaults() {
        let url = parse("https://localhost:8443/a/b?c=d#e");
        assert_eq!(
            (url.tls, url.host.as_str(), url.port, url.path.as_str()),
            (true, "localhost", 8443, "/a/b?c=d")
        );
        assert_eq!((parse("http://h").port, parse("https://h").port), (80, 443));
        assert_eq!(parse("http://h").path, "/");
        assert_eq!(parse("http://h?x").path, "/?x");
    }

    #[test]
    fn ipv6_in_brackets() {
        let url = parse("https://[::1]:8443/");
        assert_eq!((url.host.as_str(), url.port), ("::1", 8443));
        assert_eq!(url.host_header(), "[::1]:8443");
        assert_eq!(parse("http://[::1]").host_header(), "[::1]");
    }

    #[test]
    fn what_cannot_be_used() {
        for url in [
            "ftp://h/",
            "h/",
            "http://",
            "http://h:x/",
            "http://h:70000/",
            "http://[::1/",
            "http://a b/",
            "http://u@h/",
            "http://::1/",
        ] {
            assert!(url.parse::<Url>().is_err(), "{url}");
        }
    }
}
