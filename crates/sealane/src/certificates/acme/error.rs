//! What can go wrong with an ACME server, and what to do about it.

use super::super::fetch::FetchError;
use sealane_upstream::resolve::ResolveError;
use serde::Deserialize;
use std::fmt;
use std::time::Duration;

/// The longest text of a server that goes into the log, in characters.
const MAX_DETAIL_CHARS: usize = 400;

/// Why a step failed.
#[derive(Debug)]
pub(crate) enum AcmeError {
    /// The server's name has no address.
    Resolve(ResolveError),
    /// The system did not find its name.
    System(std::io::Error),
    /// It cannot be reached, or what comes is no HTTP.
    Fetch(FetchError),
    /// Its certificate, or TLS with it.
    Tls(std::io::Error),
    /// It says what is wrong (RFC 7807).
    Problem(Problem),
    /// It answered with a status and no explanation.
    Status(u16),
    /// What it answered cannot be understood: what is missing.
    Answer(&'static str),
    /// The order, or a part of it, is in a state from which no certificate comes.
    Order(String),
    /// Nothing happened within this time, in seconds.
    Slow(&'static str, u64),
    /// A key of the operator's or in the state cannot be used.
    Key(&'static str),
    /// What the server demands is not configured.
    Demand(String),
    /// What it issued is not what was ordered.
    Certificate(String),
    /// A TXT record could not be made.
    Dns(String),
    /// The cryptographic library.
    Library(&'static str),
}

/// A problem document.
#[derive(Debug, Clone, Deserialize, Default)]
pub(crate) struct Problem {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    subproblems: Vec<Subproblem>,
    /// From the response's head.
    #[serde(skip)]
    pub(super) retry_after: Option<Duration>,
}

/// A problem with one identifier.
#[derive(Debug, Clone, Deserialize)]
struct Subproblem {
    #[serde(default)]
    detail: String,
    identifier: Option<Subject>,
}

#[derive(Debug, Clone, Deserialize)]
struct Subject {
    value: String,
}

impl Problem {
    /// Whether it is the standard problem of this name.
    pub(super) fn is(&self, name: &str) -> bool {
        let standard = self.kind.strip_prefix("urn:ietf:params:acme:error:");
        standard == Some(name)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.rsplit(':').next().unwrap_or_default();
        let mut text = match (kind, self.detail.as_str()) {
            ("", "") => "a problem without a name".to_owned(),
            (kind, "") => kind.to_owned(),
            ("", detail) => detail.to_owned(),
            (kind, detail) => format!("{kind}: {detail}"),
        };
        for sub in &self.subproblems {
            let value = sub.identifier.as_ref().map_or("", |it| it.value.as_str());
            text.push_str(&format!("; {value}: {}", sub.detail));
        }
        f.write_str(&plain(&text))
    }
}

/// A server's text for the log: nothing in it moves a terminal, or fills the log.
fn plain(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(MAX_DETAIL_CHARS).collect()
}

impl AcmeError {
    /// Whether the order that was under way is of no use any more.
    pub(super) fn ends_order(&self) -> bool {
        match self {
            AcmeError::Order(_) | AcmeError::Certificate(_) => true,
            AcmeError::Problem(problem) => {
                !problem.is("rateLimited")
                    && !problem.is("serverInternal")
                    && !problem.is("badNonce")
            }
            // Such as 404 for an order that has expired.
            AcmeError::Status(status) => (400..500).contains(status) && *status != 429,
            _ => false,
        }
    }

    /// Whether the server does not know the account, as if it had lost its memory.
    pub(super) fn is_about_account(&self) -> bool {
        matches!(self, AcmeError::Problem(problem) if problem.is("accountDoesNotExist"))
    }

    /// Whether public servers count such failures, or an operator has to do something first.
    pub(super) fn is_costly(&self) -> bool {
        let is_limit = match self {
            AcmeError::Problem(problem) => problem.is("rateLimited"),
            AcmeError::Demand(_) | AcmeError::Key(_) => true,
            _ => false,
        };
        is_limit || self.ends_order() && !self.is_about_account()
    }

    /// How long the server wants to be left alone.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            AcmeError::Problem(problem) => problem.retry_after,
            _ => None,
        }
    }
}

impl fmt::Display for AcmeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AcmeError::Resolve(error) => write!(f, "host not found ({error})"),
            AcmeError::System(error) => write!(f, "host not found ({error})"),
            AcmeError::Fetch(error) => error.fmt(f),
            AcmeError::Tls(error) => write!(f, "TLS with the server failed ({error})"),
            AcmeError::Problem(problem) => write!(f, "the server says \"{problem}\""),
            AcmeError::Status(status) => write!(f, "the server answered {status}"),
            AcmeError::Answer(what) => write!(f, "the server's answer has no valid {what}"),
            AcmeError::Order(why) => f.write_str(&plain(why)),
            AcmeError::Slow(what, seconds) => write!(f, "{what} took more than {seconds} s"),
            AcmeError::Key(why) => write!(f, "the account key cannot be used ({why})"),
            AcmeError::Demand(what) => f.write_str(&plain(what)),
            AcmeError::Certificate(why) => {
                write!(f, "the certificate that was issued cannot be used ({why})")
            }
            AcmeError::Dns(why) => write!(f, "the TXT record cannot be made ({why})"),
            AcmeError::Library(why) => f.write_str(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_told_in_one_plain_line() {
        let text = r#"{"type":"urn:ietf:params:acme:error:rejectedIdentifier","detail":"no\u001b[31m\n",
            "subproblems":[{"type":"x","detail":"bad","identifier":{"type":"dns","value":"a.test"}}]}"#;
        let problem: Problem = serde_json::from_str(text).expect("a problem");
        assert!(problem.is("rejectedIdentifier"));
        let error = AcmeError::Problem(problem);
        assert_eq!(
            error.to_string(),
            "the server says \"rejectedIdentifier: no [31m ; a.test: bad\""
        );
        assert!(error.ends_order());
        let long = AcmeError::Order("x".repeat(10_000));
        assert_eq!(long.to_string().len(), MAX_DETAIL_CHARS);
        let limited = Problem {
            kind: "urn:ietf:params:acme:error:rateLimited".to_owned(),
            ..Problem::default()
        };
        assert!(!AcmeError::Problem(limited).ends_order());
    }
}
