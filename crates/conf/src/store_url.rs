//! The URL of `ssl_session_store`.
//!
//! ```text
//! redis://[[user]:password@]host[:port][/database]      rediss:// with TLS
//! redis+sentinel://...@host[:port],.../service[/database]
//! redis+cluster://...@host[:port],...
//! unix:/path  or  unix://[user]:password@/path
//! ```
//! User and password are percent-encoded where they need it, as in any URL.

use crate::model::{Password, StoreAddress, StoreTls, StoreTopology};
use std::path::PathBuf;

/// The contents of a URL.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoreUrl {
    pub(crate) topology: StoreTopology,
    pub(crate) tls: Option<StoreTls>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Password>,
    pub(crate) database: u32,
}

/// Redis's port.
const STORE_PORT: u16 = 6379;
/// A sentinel's port.
const SENTINEL_PORT: u16 = 26379;
/// Servers that one URL may name.
const MAX_SERVERS: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Single,
    Sentinel,
    Cluster,
}

/// Parses a URL. The error describes the fault without showing the URL, which
/// may contain a password.
pub(crate) fn parse(url: &str) -> Result<StoreUrl, String> {
    if let Some(rest) = url.strip_prefix("unix:") {
        return unix(rest);
    }
    let (scheme, rest) = url.split_once("://").ok_or(SCHEMES)?;
    let (kind, tls) = match scheme {
        "redis" | "valkey" => (Kind::Single, false),
        "rediss" | "valkeys" => (Kind::Single, true),
        "redis+sentinel" | "valkey+sentinel" => (Kind::Sentinel, false),
        "rediss+sentinel" | "valkeys+sentinel" => (Kind::Sentinel, true),
        "redis+cluster" | "valkey+cluster" => (Kind::Cluster, false),
        "rediss+cluster" | "valkeys+cluster" => (Kind::Cluster, true),
        _ => return Err(SCHEMES.into()),
    };
    let (credentials, rest) = split_credentials(rest);
    let (user, password) = read_credentials(credentials)?;
    if rest.contains(['?', '#']) {
        return Err(
            "parameters follow the URL as separate arguments, such as \"timeout=20ms\"".into(),
        );
    }
    let (servers, path) = match rest.split_once('/') {
        Some((servers, path)) => (servers, Some(path)),
        None => (rest, None),
    };
    let port = if kind == Kind::Sentinel {
        SENTINEL_PORT
    } else {
        STORE_PORT
    };
    let mut servers = servers
        .split(',')
        .map(|server| address(server, port))
        .collect::<Result<Vec<_>, _>>()?;
    if servers.len() > MAX_SERVERS {
        return Err(format!("it names more than {MAX_SERVERS} servers"));
    }
    let mut path = path.filter(|path| !path.is_empty());
    let topology = match kind {
        Kind::Single if servers.len() > 1 => {
            return Err(
                "several servers need \"redis+cluster://\" or \"redis+sentinel://\"".into(),
            );
        }
        Kind::Single => StoreTopology::Single(servers.remove(0)),
        Kind::Cluster => StoreTopology::Cluster(servers),
        Kind::Sentinel => {
            let (service, database) = match path.unwrap_or_default().split_once('/') {
                Some((service, database)) => (service, Some(database)),
                None => (path.unwrap_or_default(), None),
            };
            if service.is_empty() {
                return Err("the sentinels must be followed by \"/\" and the service name".into());
            }
            path = database.filter(|database| !database.is_empty());
            StoreTopology::Sentinel {
                sentinels: servers,
                service: decode(service)?,
            }
        }
    };
    let database = match path {
        None => 0,
        Some(_) if kind == Kind::Cluster => {
            return Err("a cluster does not support databases".into());
        }
        Some(number) => number
            .parse()
            .map_err(|_| "the database after \"/\" must be a number")?,
    };
    Ok(StoreUrl {
        topology,
        tls: tls.then_some(StoreTls { ca_file: None }),
        user,
        password,
        database,
    })
}

const SCHEMES: &str = "it must begin with \"redis://\", \"rediss://\" (with TLS), \
                       \"redis+sentinel://\", \"redis+cluster://\" or \"unix:\"";

fn unix(rest: &str) -> Result<StoreUrl, String> {
    let (credentials, path) = match rest.strip_prefix("//") {
        Some(rest) => split_credentials(rest),
        None => (None, rest),
    };
    let (user, password) = read_credentials(credentials)?;
    if !path.starts_with('/') {
        return Err("the path of the UNIX socket must begin with \"/\"".into());
    }
    Ok(StoreUrl {
        topology: StoreTopology::Single(StoreAddress::Unix(PathBuf::from(path))),
        tls: None,
        user,
        password,
        database: 0,
    })
}

/// Whoever forgot to encode an `@` in the password meant the last one.
fn split_credentials(rest: &str) -> (Option<&str>, &str) {
    match rest.rsplit_once('@') {
        Some((credentials, rest)) => (Some(credentials), rest),
        None => (None, rest),
    }
}

type Credentials = (Option<String>, Option<Password>);

fn read_credentials(text: Option<&str>) -> Result<Credentials, String> {
    let Some(text) = text else {
        return Ok((None, None));
    };
    if text.contains(['@', '/']) {
        return Err("in the user and password, encode \"@\" as %40 and \"/\" as %2F".into());
    }
    let Some((user, password)) = text.split_once(':') else {
        return Err("\"user:password\" or \":password\" is expected before \"@\"".into());
    };
    let user = decode(user)?;
    let password = decode(password)?;
    if password.is_empty() {
        return Err("the password before \"@\" is empty".into());
    }
    let user = (!user.is_empty()).then_some(user);
    Ok((user, Some(Password::new(password))))
}

fn address(text: &str, default_port: u16) -> Result<StoreAddress, String> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or("\"]\" is missing")?;
        host.parse::<std::net::Ipv6Addr>()
            .map_err(|_| "the text in brackets is not an IPv6 address")?;
        match rest.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if rest.is_empty() => (host, None),
            None => return Err("\"]\" must be followed by \":\" and the port".into()),
        }
    } else {
        match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if host.is_empty() || !host.bytes().all(plain) {
        return Err("a host name is missing or has invalid characters".into());
    }
    let port = match port {
        None => default_port,
        Some(port) => port
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or("a port must be a number from 1 to 65535")?,
    };
    Ok(StoreAddress::Tcp {
        host: host.to_owned(),
        port,
    })
}

/// Percent-decoding (RFC 3986 section 2.1).
fn decode(text: &str) -> Result<String, String> {
    const BROKEN: &str = "\"%\" must be followed by two hexadecimal digits";
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let ([high, low], after) = rest.split_first_chunk::<2>().ok_or(BROKEN)?;
        let digit = |digit: u8| char::from(digit).to_digit(16).ok_or(BROKEN);
        // Two hexadecimal digits are at most 255.
        bytes.push((digit(*high)? * 16 + digit(*low)?) as u8);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| "the text encoded with \"%\" is not UTF-8".into())
}

/// `text` with stars in place of the user and password of every URL of a store, and of PINs in URIs
/// of keys (RFC 7512). Lengths do not change, so a caret still points to the right place.
pub(crate) fn masked(text: &str) -> String {
    without_pins(&without_users(text))
}

fn without_pins(text: &str) -> String {
    const PIN: &str = "pin-value=";
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(PIN) {
        let (before, after) = rest.split_at(at + PIN.len());
        result.push_str(before);
        let ends = |letter: char| letter.is_whitespace() || "&;\"'".contains(letter);
        let (pin, after) = after.split_at(after.find(ends).unwrap_or(after.len()));
        result.extend(pin.chars().map(|_| '*'));
        rest = after;
    }
    result.push_str(rest);
    result
}

fn without_users(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("//") {
        let (before, after) = rest.split_at(at + 2);
        result.push_str(before);
        rest = after;
        let is_store = ["redis", "valkey", "unix:"].iter().any(|scheme| {
            let word = before.rsplit([' ', '\t', '"', '\'', ';']).next();
            word.is_some_and(|word| word.contains(scheme))
        });
        let word_end = rest.find([' ', '\t', '"', '\'', ';']).unwrap_or(rest.len());
        if let Some(at) = rest[..word_end].rfind('@').filter(|_| is_store) {
            let (secret, after) = rest.split_at(at);
            result.extend(secret.chars().map(|_| '*'));
            rest = after;
        }
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> StoreAddress {
        StoreAddress::Tcp {
            host: host.into(),
            port,
        }
    }

    #[test]
    fn pins_are_not_shown() {
        for (text, shown) in [
            (
                "a pkcs11:object=b?pin-value=1234; c",
                "a pkcs11:object=b?pin-value=****; c",
            ),
            (
                "?pin-value=12&pin-value=\u{e4}",
                "?pin-value=**&pin-value=*",
            ),
            ("pin-value=", "pin-value="),
            (
                "\"pin-value=1\" pin-source=2",
                "\"pin-value=*\" pin-source=2",
            ),
        ] {
            assert_eq!(masked(text), shown);
        }
    }

    #[test]
    fn one_server() {
        let plain = parse("redis://cache").expect("valid");
        assert_eq!(plain.topology, StoreTopology::Single(tcp("cache", 6379)));
        assert_eq!((plain.tls, plain.user, plain.database), (None, None, 0));
        let full = parse("rediss://us%65r:p%40%2Fw@[::1]:7000/3").expect("valid");
        assert_eq!(full.topology, StoreTopology::Single(tcp("::1", 7000)));
        assert!(full.tls.is_some());
        assert_eq!(full.user.as_deref(), Some("user"));
        assert_eq!(full.password.as_ref().map(Password::expose), Some("p@/w"));
        assert_eq!(full.database, 3);
        let only_password = parse("valkey://:secret@h/").expect("valid");
        assert_eq!(only_password.user, None);
        assert!(!format!("{only_password:?}").contains("secret"));
    }

    #[test]
    fn sentinels_clusters_and_sockets() {
        let sentinel = parse("redis+sentinel://:p@a,b:7/main/2").expect("valid");
        let sentinels = vec![tcp("a", 26379), tcp("b", 7)];
        let service = "main".into();
        assert_eq!(
            sentinel.topology,
            StoreTopology::Sentinel { sentinels, service }
        );
        assert_eq!(sentinel.database, 2);
        let cluster = parse("rediss+cluster://a,b").expect("valid");
        assert_eq!(
            cluster.topology,
            StoreTopology::Cluster(vec![tcp("a", 6379), tcp("b", 6379)])
        );
        for url in ["unix:/run/redis.sock", "unix:///run/redis.sock"] {
            let unix = parse(url).expect(url);
            let path = StoreAddress::Unix("/run/redis.sock".into());
            assert_eq!(unix.topology, StoreTopology::Single(path));
        }
        let unix = parse("unix://:pw@/run/redis.sock").expect("valid");
        assert_eq!(unix.password.as_ref().map(Password::expose), Some("pw"));
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for (url, said) in [
            ("http://h", "it must begin with"),
            ("redis:h", "it must begin with"),
            ("redis://", "a host name is missing"),
            ("redis://a b", "invalid characters"),
            ("redis://a:0", "a port must be"),
            ("redis://a:70000", "a port must be"),
            ("redis://a:7:7", "a port must be"),
            ("redis://[::1", "\"]\" is missing"),
            ("redis://[a]", "not an IPv6 address"),
            ("redis://[::1]x", "\"]\" must be followed"),
            ("redis://a/x", "must be a number"),
            ("redis://a?db=1", "separate arguments"),
            ("redis://a,b", "several servers need"),
            ("redis+cluster://a/1", "does not support databases"),
            ("redis+sentinel://a", "the service name"),
            ("redis+sentinel://a/m/x", "must be a number"),
            ("redis://secret@h", "\":password\" is expected"),
            ("redis://u:secret@@h", "as %40"),
            ("redis://u:sec/ret@h", "%2F"),
            ("redis://u:secret%4@h", "two hexadecimal digits"),
            ("redis://u:secret%ff@h", "not UTF-8"),
            ("redis://u:@h", "is empty"),
            ("unix:x", "must begin with \"/\""),
        ] {
            let error = parse(url).expect_err(url);
            assert!(error.contains(said), "{url}: {error}");
            assert!(!error.contains("sec"), "{url}: {error}");
        }
    }

    #[test]
    fn credentials_are_masked_wherever_a_url_is_shown() {
        assert_eq!(
            masked("ssl_session_store redis://u:p@h/1 key=\"a\"; # x@y"),
            "ssl_session_store redis://***@h/1 key=\"a\"; # x@y"
        );
        assert_eq!(
            masked("rediss+cluster://u:p@q/@h"),
            "rediss+cluster://******@h"
        );
        assert_eq!(masked("\"unix://:pw@/run/x\""), "\"unix://***@/run/x\"");
        for same in ["redis://h/1 x@y", "http://user:x@h/", "//", "", "a // b@c"] {
            assert_eq!(masked(same), same);
        }
    }
}
