//! Names for groups of cases, and cases that are compared with each other.

use super::cases::{ALL, Case};
use crate::Error;

/// The name of [`SCALE`] on the command line.
pub(super) const SCALE_NAME: &str = "scale";

/// A small request with more and more open connections: its cost should not depend on them.
pub(super) const SCALE: &[&str] = &["scale-1", "scale-100", "scale-1000", "scale-10000"];

/// The name of [`NAMES`] on the command line.
pub(super) const NAMES_NAME: &str = "names";

/// A handshake on a port with more and more server names: its cost should not depend on them.
pub(super) const NAMES: &[&str] = &["names-1", "names-100", "names-1000"];

/// The name of [`S1`] on the command line.
pub(super) const S1_NAME: &str = "s1";

/// The downloads of an article about kernel TLS: its file is a hole, which has no blocks on a disk;
/// ours has content.
pub(super) const S1: &[&str] = &["tls13-1g", "tls13-1g-sparse"];

/// The name of [`S2`] on the command line.
pub(super) const S2_NAME: &str = "s2";

/// The cases of a study of asynchronous TLS with an accelerator: full handshakes and a response of
/// 10 bytes, by suite; plus TLS 1.3, which came later.
pub(super) const S2: &[&str] = &[
    "s2-rsa",
    "s2-ecdhe-rsa",
    "s2-ecdsa-p384",
    "s2-ecdsa-p256",
    "s2-tls13-rsa",
];

/// The name of [`S3`] on the command line.
pub(super) const S3_NAME: &str = "s3";

/// The cases of a study of HTTPS tuning, with keep-alive and with one connection per request:
/// nothing tuned, tickets with a session cache, the same with ECDHE; plus resumption in TLS 1.3 and
/// early data, which came later. The study's last row has an OCSP response along with the
/// certificate, which only full handshakes send.
pub(super) const S3: &[&str] = &[
    "tls12-1k-untuned",
    "tls12-full-untuned",
    "tls12-1k-static-rsa",
    "tls12-ticket-static-rsa",
    "tls12-1k",
    "tls12-ticket",
    "tls12-session-id",
    "tls12-1k-stapled",
    "tls12-ticket-stapled",
    "tls12-full-rsa",
    "tls12-full-stapled",
    "tls13-1k",
    "tls13-full-p256",
    "tls13-full-stapled",
    "tls13-ticket",
    "tls13-early-data",
];

/// The name of [`CACHE`] on the command line.
pub(super) const CACHE_NAME: &str = "cache";

/// Responses from a cache, beside the same ones from files and, where they are not cached yet, from
/// the origin.
pub(super) const CACHE: &[&str] = &[
    "tls13-1k",
    "cache-hit-1k",
    "tls13-100k",
    "cache-hit-100k",
    "tls13-1g",
    "cache-hit-1g",
    "h2-1k",
    "cache-h2-1k",
    "proxied-1k",
    "cache-miss-1k",
    "zipf",
];

/// The name of [`STREAM`] on the command line.
pub(super) const STREAM_NAME: &str = "stream";

/// Connections that are passed on. Only servers that have `stream` built in can be compared.
pub(super) const STREAM: &[&str] = &[
    "stream-plain-1k",
    "stream-plain-1g",
    "stream-plain-connection",
    "stream-plain-idle",
    "stream-tls13-1k",
    "stream-tls13-1g",
    "stream-tls13-connection",
    "stream-tls13-idle",
    "stream-tls13-both-1k",
    "stream-tls13-both-1g",
    "stream-tls13-both-connection",
];

/// The name of [`HTTP3`] on the command line.
pub(super) const HTTP3_NAME: &str = "http3";

/// HTTP/3 beside HTTP/2, or beside HTTP/1.1 where an operation is a connection. Only servers that
/// have it built in can be compared.
pub(super) const HTTP3: &[&str] = &[
    "tls13-full-p256",
    "h2-1k",
    "h2-idle",
    "h2-100m",
    "http3-1k",
    "http3-100m",
    "http3-100m-1ms",
    "http3-handshakes",
    "http3-idle",
];

/// Those of them that are measured only on request.
pub(super) const HTTP3_ONLY: &[&str] = &[
    "h2-100m",
    "http3-1k",
    "http3-100m",
    "http3-100m-1ms",
    "http3-handshakes",
    "http3-idle",
];

/// A case that is compared with another one of the same server; they are measured by turns.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) name: &'static str,
    /// Comes before it in [`ALL`].
    pub(super) base: &'static str,
    /// The ratio that Sealane's stays below.
    pub(super) target: Option<f64>,
}

const fn pair(name: &'static str, base: &'static str, target: Option<f64>) -> Pair {
    Pair { name, base, target }
}

/// What an OCSP response adds to a handshake, and a cache to the file or the origin behind it; and
/// what QUIC costs instead of TCP.
pub(super) const PAIRS: &[Pair] = &[
    pair("tls12-1k-stapled", "tls12-1k", None),
    pair("tls12-ticket-stapled", "tls12-ticket", None),
    pair("tls12-full-stapled", "tls12-full-rsa", Some(1.05)),
    pair("tls13-full-stapled", "tls13-full-p256", Some(1.05)),
    pair("cache-hit-1k", "tls13-1k", None),
    pair("cache-hit-100k", "tls13-100k", None),
    pair("cache-hit-1g", "tls13-1g", None),
    pair("cache-h2-1k", "h2-1k", None),
    pair("cache-miss-1k", "proxied-1k", None),
    pair("http3-1k", "h2-1k", None),
    pair("http3-100m", "h2-100m", None),
    pair("http3-handshakes", "tls13-full-p256", None),
    pair("http3-idle", "h2-idle", None),
];

/// What a case is compared with.
pub(super) fn pair_of(name: &str) -> Option<&'static Pair> {
    PAIRS.iter().find(|pair| pair.name == name)
}

/// The cases, with those that are compared with each other in one group.
pub(super) fn by_turns(cases: &[&'static Case]) -> Vec<Vec<&'static Case>> {
    let mut groups: Vec<Vec<&'static Case>> = Vec::new();
    for &case in cases {
        let base = pair_of(case.name).map(|pair| pair.base);
        let has_base = |group: &&mut Vec<&Case>| {
            let mut names = group.iter().map(|member| member.name);
            names.any(|name| Some(name) == base)
        };
        match groups.iter_mut().find(has_base) {
            Some(group) => group.push(case),
            None => groups.push(vec![case]),
        }
    }
    groups
}

/// Names for groups of cases.
pub(super) const GROUPS: &[(&str, &[&str])] = &[
    (S1_NAME, S1),
    (S2_NAME, S2),
    (S3_NAME, S3),
    (CACHE_NAME, CACHE),
    (SCALE_NAME, SCALE),
    (NAMES_NAME, NAMES),
    (STREAM_NAME, STREAM),
    (HTTP3_NAME, HTTP3),
];

/// What is measured only on request: the file that is a hole, what is meaningful only for servers
/// with and without offload, what is read beside each other, and what not every nginx has.
const NOT_BY_DEFAULT: &[&[&str]] = &[&["tls13-1g-sparse"], S2, SCALE, NAMES, STREAM, HTTP3_ONLY];

/// The named cases in the order of the table. Without names all except [`NOT_BY_DEFAULT`].
pub(super) fn select(names: &[String]) -> Result<Vec<&'static Case>, Error> {
    let members = |name: &str| GROUPS.iter().find(|(group, _)| *group == name);
    let is_known = |name: &str| members(name).is_some() || ALL.iter().any(|case| case.name == name);
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        let known: Vec<_> = ALL.iter().map(|case| case.name).collect();
        let groups = GROUPS
            .iter()
            .map(|(group, cases)| format!("{group} for {}", cases.join(", ")));
        return Err(Error::Usage(format!(
            "there is no case \"{unknown}\"; the cases are {}, and {}",
            known.join(", "),
            groups.collect::<Vec<_>>().join(", and ")
        )));
    }
    let is_named = |case: &Case| {
        names.iter().any(|name| {
            name == case.name || members(name).is_some_and(|(_, cases)| cases.contains(&case.name))
        })
    };
    let is_default = |case: &Case| {
        let is_left_out = NOT_BY_DEFAULT
            .iter()
            .any(|group| group.contains(&case.name));
        names.is_empty() && !is_left_out
    };
    Ok(ALL
        .iter()
        .filter(|case| is_default(case) || is_named(case))
        .collect())
}
