//! `userid` and its options: cookies that identify returning clients.

use super::Variable;
use std::time::Duration;

/// `userid`; not there when it is off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserId {
    /// `userid`.
    pub mode: UserIdMode,
    /// `userid_name`; default uid.
    pub name: Box<str>,
    /// `userid_domain`.
    pub domain: Option<Box<[u8]>>,
    /// `userid_path`; default `/`.
    pub path: Box<[u8]>,
    /// `userid_expires`.
    pub expires: Option<UserIdExpires>,
    /// `userid_flags`, in nginx's order: what follows the path.
    pub flags: Vec<&'static str>,
    /// `userid_mark`.
    pub mark: Option<u8>,
    /// `userid_p3p`.
    pub p3p: Option<Box<[u8]>>,
    /// `userid_service`; default 0, or the server's address.
    pub service: Option<u32>,
    /// `$uid_reset`.
    pub reset: Variable,
}

/// `userid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserIdMode {
    /// `log`: cookies are read and not set.
    Log,
    /// `v1`.
    V1,
    /// `on`.
    V2,
}

/// `userid_expires`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserIdExpires {
    /// `max`: as late as old programs know.
    Max,
    /// After so long.
    After(Duration),
}
