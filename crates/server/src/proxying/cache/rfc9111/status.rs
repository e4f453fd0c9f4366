//! `Cache-Status` (RFC 9211).

use std::fmt::Write;

/// The field.
pub(super) const CACHE_STATUS: &[u8] = b"Cache-Status";
/// Who says it.
const CACHE_NAME: &str = "Sealane";

/// Why a request is forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::proxying::cache) enum Forward {
    /// `cache_bypass`.
    Bypass,
    /// The cache has nothing for such methods.
    Method,
    /// There is nothing for the key.
    UriMiss,
    /// There are other variants only.
    VaryMiss,
    /// What there is must be confirmed first.
    Stale,
    /// The client wishes it.
    Request,
}

impl Forward {
    fn word(self) -> &'static str {
        match self {
            Forward::Bypass => "bypass",
            Forward::Method => "method",
            Forward::UriMiss => "uri-miss",
            Forward::VaryMiss => "vary-miss",
            Forward::Stale => "stale",
            Forward::Request => "request",
        }
    }
}

/// What has become of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Course {
    /// Why it was forwarded; `None` if it was not.
    pub(super) forward: Option<Forward>,
    /// The status of the origin, where the client gets another one.
    pub(super) forward_status: Option<u16>,
    /// Seconds for which the response is still fresh.
    pub(super) fresh_s: Option<i64>,
    /// It is kept.
    pub(super) is_stored: bool,
    /// It was asked for by another request, which it has waited for.
    pub(super) is_collapsed: bool,
}

impl Course {
    /// As a member of the list.
    pub(super) fn member(&self) -> String {
        let mut out = String::from(CACHE_NAME);
        match self.forward {
            None => out.push_str("; hit"),
            Some(why) => {
                out.push_str("; fwd=");
                out.push_str(why.word());
            }
        }
        // Writing to a string does not fail.
        if let Some(status) = self.forward_status {
            let _ = write!(out, "; fwd-status={status}");
        }
        if let Some(seconds) = self.fresh_s {
            let _ = write!(out, "; ttl={seconds}");
        }
        if self.is_stored {
            out.push_str("; stored");
        }
        if self.is_collapsed {
            out.push_str("; collapsed");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_those_of_rfc_9211() {
        let hit = Course {
            fresh_s: Some(-3),
            ..Course::default()
        };
        assert_eq!(hit.member(), "Sealane; hit; ttl=-3");
        let forwarded = Course {
            forward: Some(Forward::Stale),
            forward_status: Some(304),
            fresh_s: Some(60),
            is_stored: true,
            is_collapsed: true,
        };
        assert_eq!(
            forwarded.member(),
            "Sealane; fwd=stale; fwd-status=304; ttl=60; stored; collapsed"
        );
    }
}
