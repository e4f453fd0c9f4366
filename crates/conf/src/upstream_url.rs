//! The address a request is passed to, as written in `proxy_pass`, `fastcgi_pass` and the like,
//! and in `server` of `upstream`: host and port, or the path of a socket,
//! with or without a URI after it.
//!
//! A `proxy_pass` with variables is parsed while a request is answered, with the
//! same error messages.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Longest path of a Unix domain socket, in bytes (`sun_path` with its end).
const MAX_UNIX_PATH_BYTES: usize = 107;

/// The place that a URL without its scheme names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamUrl<'t> {
    /// Host as written, an IPv6 address in its brackets; for a socket, its path.
    pub host: &'t str,
    /// What the host is.
    pub kind: HostKind,
    /// Port as written, else the default one of the scheme; 0 if there is neither.
    pub port: u16,
    /// The port as written, if it was.
    pub port_text: Option<&'t str>,
    /// What follows host and port, from `/` or `?` on (what follows the second
    /// colon, for a socket); empty if there is nothing.
    pub uri: &'t [u8],
}

/// What the host of an [`UpstreamUrl`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostKind {
    /// `unix:PATH`.
    Unix,
    /// A literal address.
    Address(IpAddr),
    /// A name: that of an `upstream`, or of a host.
    Name,
}

/// Whether a URI may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UriPart {
    /// It may (`proxy_pass`).
    Allowed,
    /// It may not.
    Refused,
}

impl<'t> UpstreamUrl<'t> {
    /// Reads what follows the scheme.
    ///
    /// # Errors
    ///
    /// nginx's message, which precedes ` in upstream "..."`.
    pub fn parse(
        written: &'t [u8],
        default_port: u16,
        uri_part: UriPart,
    ) -> Result<UpstreamUrl<'t>, &'static str> {
        if written.len() >= 5 && written[..5].eq_ignore_ascii_case(b"unix:") {
            return unix(&written[5..], uri_part);
        }
        let bracket = written.first() == Some(&b'[');
        // A bracketed address has colons of its own.
        let host_end = match bracket {
            true => memchr::memchr(b']', written).ok_or("invalid host")? + 1,
            false => 0,
        };
        let uri_start = written[host_end..]
            .iter()
            .position(|byte| matches!(byte, b'/' | b'?'))
            .map(|at| at + host_end);
        if uri_start.is_some() && uri_part == UriPart::Refused {
            return Err("invalid host");
        }
        let (place, uri) = written.split_at(uri_start.unwrap_or(written.len()));
        let (host, port_text) = match (memchr::memchr(b':', &place[host_end..]), bracket) {
            (None, true) if place.len() > host_end => return Err("invalid host"),
            (Some(1..), true) => return Err("invalid host"),
            (None, _) => (place, None),
            (Some(at), _) => {
                let colon = host_end + at;
                (&place[..colon], Some(&place[colon + 1..]))
            }
        };
        let port = match port_text {
            Some(text) => crate::values::number(text)
                .and_then(|port| u16::try_from(port).ok())
                .filter(|port| *port > 0)
                .ok_or("invalid port")?,
            None => default_port,
        };
        if host.is_empty() || host == b"[]" {
            return Err("no host");
        }
        let host = std::str::from_utf8(host).map_err(|_| "invalid host")?;
        let kind = if bracket {
            let address = host[1..host.len() - 1].parse::<Ipv6Addr>();
            HostKind::Address(address.map_err(|_| "invalid IPv6 address")?.into())
        } else {
            host.parse::<Ipv4Addr>()
                .map_or(HostKind::Name, |address| HostKind::Address(address.into()))
        };
        Ok(UpstreamUrl {
            host,
            kind,
            port,
            // Digits only, as it was a number.
            port_text: port_text.and_then(|text| std::str::from_utf8(text).ok()),
            uri,
        })
    }

    /// Host and port as the Host header of a request names them: the port only
    /// when it is written and not `scheme_port`; `localhost` for a socket.
    pub fn host_header(&self, scheme_port: u16) -> String {
        match (self.kind, self.port_text) {
            (HostKind::Unix, _) => "localhost".into(),
            (_, Some(port)) if self.port != scheme_port => format!("{}:{port}", self.host),
            _ => self.host.into(),
        }
    }
}

fn unix(path: &[u8], uri_part: UriPart) -> Result<UpstreamUrl<'_>, &'static str> {
    let colon = match uri_part {
        UriPart::Allowed => memchr::memchr(b':', path),
        UriPart::Refused => None,
    };
    let (path, uri) = match colon {
        Some(colon) => (&path[..colon], &path[colon + 1..]),
        None => (path, &path[path.len()..]),
    };
    match path.len() {
        0 => return Err("no path in the unix domain socket"),
        1..=MAX_UNIX_PATH_BYTES => {}
        _ => return Err("too long path in the unix domain socket"),
    }
    Ok(UpstreamUrl {
        host: std::str::from_utf8(path).map_err(|_| "invalid host")?,
        kind: HostKind::Unix,
        port: 0,
        port_text: None,
        uri,
    })
}

/// The address of a `proxy_bind`: with or without a port (0 then), an IPv6
/// address with or without brackets.
pub fn local_address(written: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(written).ok()?;
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(SocketAddr::new(address, 0));
    }
    let bracketed = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    if let Some(address) = bracketed {
        let address: Ipv6Addr = address.parse().ok()?;
        return Some(SocketAddr::new(address.into(), 0));
    }
    let address: SocketAddr = text.parse().ok()?;
    (address.port() != 0).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(written: &str) -> Result<(String, HostKind, u16, bool, String), &'static str> {
        UpstreamUrl::parse(written.as_bytes(), 80, UriPart::Allowed).map(|url| {
            let uri = String::from_utf8_lossy(url.uri).into_owned();
            (
                url.host.to_owned(),
                url.kind,
                url.port,
                url.port_text.is_some(),
                uri,
            )
        })
    }

    #[test]
    fn hosts_ports_and_uris() {
        let v4 = HostKind::Address(IpAddr::from([127, 0, 0, 1]));
        let v6 = HostKind::Address("::1".parse().expect("an address"));
        let name = HostKind::Name;
        for (written, host, kind, port, given, uri) in [
            ("127.0.0.1", "127.0.0.1", v4, 80, false, ""),
            ("127.0.0.1:81/a:b", "127.0.0.1", v4, 81, true, "/a:b"),
            ("[::1]", "[::1]", v6, 80, false, ""),
            ("[::1]:81?x", "[::1]", v6, 81, true, "?x"),
            ("App", "App", name, 80, false, ""),
            ("app/", "app", name, 80, false, "/"),
            ("app?a/b", "app", name, 80, false, "?a/b"),
            ("app:08080", "app", name, 8080, true, ""),
            ("unix:/run/s", "/run/s", HostKind::Unix, 0, false, ""),
            (
                "UNIX:/run/s:/u:v",
                "/run/s",
                HostKind::Unix,
                0,
                false,
                "/u:v",
            ),
            ("unix:/run/s:", "/run/s", HostKind::Unix, 0, false, ""),
        ] {
            let expected = Ok((host.to_owned(), kind, port, given, uri.to_owned()));
            assert_eq!(read(written), expected, "{written}");
        }
    }

    #[test]
    fn what_is_wrong_in_nginx_words() {
        for (written, said) in [
            ("", "no host"),
            ("/", "no host"),
            (":80", "no host"),
            ("[]:80", "no host"),
            ("[::1", "invalid host"),
            ("[::1]80", "invalid host"),
            ("[::1]x:80", "invalid host"),
            ("[::g]", "invalid IPv6 address"),
            ("app:", "invalid port"),
            ("app:0", "invalid port"),
            ("app:65536", "invalid port"),
            ("app:x", "invalid port"),
            ("a:b:c", "invalid port"),
            ("unix:", "no path in the unix domain socket"),
            ("unix::/x", "no path in the unix domain socket"),
        ] {
            assert_eq!(read(written), Err(said), "{written}");
        }
        let long = format!("unix:/{}", "x".repeat(107));
        assert_eq!(read(&long), Err("too long path in the unix domain socket"));
        let refused = |written: &str| {
            UpstreamUrl::parse(written.as_bytes(), 0, UriPart::Refused).map(|url| url.port)
        };
        assert_eq!(refused("app/x"), Err("invalid host"));
        assert_eq!(refused("app"), Ok(0));
        assert_eq!(refused("unix:/a:b"), Ok(0));
    }

    #[test]
    fn the_host_header_names_unusual_ports() {
        let header = |written: &str| {
            UpstreamUrl::parse(written.as_bytes(), 80, UriPart::Allowed)
                .map(|url| url.host_header(80))
        };
        assert_eq!(header("App:80"), Ok("App".into()));
        assert_eq!(header("App:81"), Ok("App:81".into()));
        assert_eq!(header("[::1]:81/x"), Ok("[::1]:81".into()));
        assert_eq!(header("unix:/x"), Ok("localhost".into()));
    }

    #[test]
    fn local_addresses_with_and_without_ports() {
        let read = |written: &str| local_address(written.as_bytes()).map(|a| a.to_string());
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(read("127.0.0.1"), some("127.0.0.1:0"));
        assert_eq!(read("127.0.0.1:80"), some("127.0.0.1:80"));
        assert_eq!(read("::1"), some("[::1]:0"));
        assert_eq!(read("[::1]"), some("[::1]:0"));
        assert_eq!(read("[::1]:80"), some("[::1]:80"));
        for wrong in [
            "",
            "host",
            "127.0.0.1:",
            "127.0.0.1:0",
            "[::1",
            "[::1]80",
            "[1.2.3.4]",
        ] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
