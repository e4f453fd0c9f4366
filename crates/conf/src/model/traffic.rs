//! Requests that are counted as nginx-module-vts counts them: `vhost_traffic_status` and its
//! relatives.

use super::Template;
use std::sync::Arc;
use std::time::Duration;

/// What belongs to `http`: `vhost_traffic_status_zone` and what is about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrafficZone {
    /// Its name.
    pub name: Arc<str>,
    /// Its size.
    pub bytes: u64,
    /// `vhost_traffic_status_filter_max_node`; 0 for as many as there is room for.
    pub max_filters: u64,
    /// The groups that this is about begin with one of these; without any, it is about all.
    pub limited_groups: Vec<Box<[u8]>>,
    /// `vhost_traffic_status_stats_by_upstream`; default on.
    pub shows_upstreams: bool,
}

impl TrafficZone {
    /// Whether filters of a group are limited in number.
    pub fn limits(&self, group: &[u8]) -> bool {
        let mut limited = self.limited_groups.iter();
        let is_about =
            self.limited_groups.is_empty() || limited.any(|begin| group.starts_with(begin));
        self.max_filters > 0 && is_about
    }
}

/// How the requests of a location are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traffic {
    /// `vhost_traffic_status_filter_by_host`: by the host that the client has named, not by the
    /// name of the server.
    pub by_host: bool,
    /// `vhost_traffic_status_filter_by_set_key`.
    pub filters: Vec<TrafficFilter>,
    /// `vhost_traffic_status_histogram_buckets` in milliseconds.
    pub bucket_bounds_ms: Arc<[u32]>,
    /// `vhost_traffic_status_ignore_status`: responses of these classes (1 to 5) are not counted.
    pub ignored_classes: [bool; 6],
}

/// `vhost_traffic_status_filter_by_set_key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrafficFilter {
    /// What is counted under a name of its own.
    pub key: Template,
    /// The group of these names; without one they are among the servers.
    pub group: Template,
}

/// `vhost_traffic_status_display` and its relatives, of the handler
/// [`super::StatusView::Traffic`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrafficShow {
    /// `vhost_traffic_status_display_format`.
    pub format: TrafficFormat,
    /// `vhost_traffic_status_display_jsonp`.
    pub callback: Box<str>,
    /// `vhost_traffic_status_display_sum_key`.
    pub sum_key: Box<str>,
    /// `vhost_traffic_status_average_method WMA`.
    pub weighs: bool,
    /// Its period; 0 for all values that are kept.
    pub average_over: Duration,
}

/// `vhost_traffic_status_display_format`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TrafficFormat {
    /// An object.
    #[default]
    Json,
    /// A call with this object.
    Jsonp,
    /// A page.
    Html,
    /// For scrapers.
    Prometheus,
}
