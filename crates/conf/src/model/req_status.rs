//! Requests that are counted by a value of theirs: `req_status` and its relatives.

use super::{List, Template};
use std::sync::Arc;

/// `req_status_zone`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReqStatusZone {
    /// Its name.
    pub name: Arc<str>,
    /// How much memory Tengine would give it, which bounds the keys that it remembers.
    pub bytes: u64,
    /// By what requests are counted.
    pub key: Template,
    /// The key as written.
    pub key_text: Box<[u8]>,
    /// `req_status_zone_key_length`: more of a key is cut off; default 152.
    pub key_length: usize,
    /// `req_status_zone_recycle`: a key makes room when it is met less often than this, in
    /// thousandths of a request in a second; default ten requests in a minute.
    pub recycle_rate: u64,
    /// `req_status_zone_add_indicator`: numbers of requests that are added up.
    pub indicators: Vec<Indicator>,
}

/// A variable that is added up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Indicator {
    /// Its name, without `$`.
    pub name: Box<str>,
    /// The variable.
    pub value: Template,
}

/// `req_status` of a location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReqStatus {
    /// Indexes into [`super::Http::req_status_zones`].
    pub zones: Box<[usize]>,
    /// `req_status_bypass`: requests for which one is neither empty nor `0` are not counted.
    pub bypass: List<Template>,
    /// `req_status_lazy`: keys are those at the end of a request; default off.
    pub lazy: bool,
}

/// `req_status_show` of a location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReqStatusShow {
    /// Indexes into [`super::Http::req_status_zones`]; `None` for all.
    pub zones: Option<Box<[usize]>>,
    /// `req_status_show_field`; `None` for all.
    pub fields: Option<List<ReqStatusField>>,
}

/// A field of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReqStatusField {
    /// Index into [`REQ_STATUS_FIELDS`].
    Counted(usize),
    /// The indicator with this name.
    Indicator(Box<str>),
}

/// What is counted for each key, in the order of a line.
pub const REQ_STATUS_FIELDS: [&str; 29] = [
    "bytes_in",
    "bytes_out",
    "conn_total",
    "req_total",
    "http_2xx",
    "http_3xx",
    "http_4xx",
    "http_5xx",
    "http_other_status",
    "rt",
    "ups_req",
    "ups_rt",
    "ups_tries",
    "http_200",
    "http_206",
    "http_302",
    "http_304",
    "http_403",
    "http_404",
    "http_416",
    "http_499",
    "http_500",
    "http_502",
    "http_503",
    "http_504",
    "http_508",
    "http_other_detail_status",
    "http_ups_4xx",
    "http_ups_5xx",
];
