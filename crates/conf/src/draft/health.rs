//! Active health checks as written.

use crate::model::{Check, CheckKind, CheckParam, Origin, ResponseMatch};
use std::time::Duration;

/// A `match` block, or the place of one that a `health_check` names.
#[derive(Debug)]
pub(crate) struct MatchDraft {
    pub(crate) name: Box<str>,
    /// Where it is first named.
    pub(crate) used_at: Origin,
    /// `None` until its block is read.
    pub(crate) block: Option<ResponseMatch>,
}

/// `check` and its relatives in an `upstream`.
#[derive(Debug, Default)]
pub(crate) struct CheckDraft {
    /// `check` is there.
    pub(crate) enabled: bool,
    pub(crate) interval: Option<Duration>,
    pub(crate) fall: Option<u32>,
    pub(crate) rise: Option<u32>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) default_down: Option<bool>,
    pub(crate) kind: Option<CheckKind>,
    pub(crate) port: Option<u16>,
    pub(crate) send: Option<Box<[u8]>>,
    pub(crate) alive: Option<u8>,
    pub(crate) keepalive_requests: Option<u32>,
    pub(crate) fastcgi_params: Option<Vec<CheckParam>>,
    pub(crate) shared: bool,
}

impl CheckDraft {
    /// With Tengine's defaults; `None` without `check`.
    pub(crate) fn finish(self) -> Option<Check> {
        /// 2xx and 3xx.
        const ALIVE: u8 = 0b0110;
        self.enabled.then(|| Check {
            interval: self.interval.unwrap_or(Duration::from_secs(30)),
            fall: self.fall.unwrap_or(5),
            rise: self.rise.unwrap_or(2),
            timeout: self.timeout.unwrap_or(Duration::from_secs(1)),
            default_down: self.default_down.unwrap_or(true),
            kind: self.kind.unwrap_or(CheckKind::Tcp),
            port: self.port,
            send: self
                .send
                .unwrap_or_else(|| (*b"GET / HTTP/1.0\r\n\r\n").into()),
            alive: self.alive.unwrap_or(ALIVE),
            keepalive_requests: self.keepalive_requests.unwrap_or(1),
            fastcgi_params: self.fastcgi_params,
            shared: self.shared,
        })
    }
}
