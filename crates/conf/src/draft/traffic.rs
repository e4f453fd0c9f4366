//! `vhost_traffic_status` and its relatives, while a block is read.

use crate::model::{
    ContentHandler, List, StatusView, Traffic, TrafficFilter, TrafficFormat, TrafficShow,
    TrafficZone,
};
use std::sync::Arc;
use std::time::Duration;

/// What belongs to `http`.
#[derive(Debug, Default)]
pub(crate) struct TrafficZoneDraft {
    /// Name and size.
    pub(crate) zone: Option<(Arc<str>, u64)>,
    pub(crate) max_filters: Option<(u64, Vec<Box<[u8]>>)>,
    pub(crate) shows_upstreams: Option<bool>,
    /// Filters of all requests, beside those of their location.
    pub(crate) filters: Vec<TrafficFilter>,
}

/// The directives of a level.
#[derive(Debug, Default, Clone)]
pub(crate) struct TrafficDraft {
    pub(crate) enabled: Option<bool>,
    pub(crate) bypass: Option<bool>,
    pub(crate) filter: Option<bool>,
    pub(crate) by_host: Option<bool>,
    pub(crate) filters: Option<List<TrafficFilter>>,
    pub(crate) bucket_bounds_ms: Option<Arc<[u32]>>,
    pub(crate) ignored_classes: Option<[bool; 6]>,
    pub(crate) format: Option<TrafficFormat>,
    pub(crate) callback: Option<Box<str>>,
    pub(crate) sum_key: Option<Box<str>>,
    pub(crate) average: Option<(bool, Duration)>,
}

impl TrafficZoneDraft {
    /// What is configured; `None` if nothing is counted.
    pub(crate) fn finish(&self) -> Option<Arc<TrafficZone>> {
        let (name, bytes) = self.zone.clone()?;
        let (max_filters, limited_groups) = self.max_filters.clone().unwrap_or_default();
        Some(Arc::new(TrafficZone {
            name,
            bytes,
            max_filters,
            limited_groups,
            shows_upstreams: self.shows_upstreams.unwrap_or(true),
        }))
    }
}

impl TrafficDraft {
    /// How requests are counted, if they are.
    pub(crate) fn counted(&self, of_all: &TrafficZoneDraft) -> Option<Arc<Traffic>> {
        of_all.zone.as_ref()?;
        if !self.enabled.unwrap_or(true) || self.bypass.unwrap_or(false) {
            return None;
        }
        let has_filters = self.filter.unwrap_or(true);
        let mut filters: Vec<TrafficFilter> = Vec::new();
        let own = self.filters.as_deref().unwrap_or_default();
        for filter in of_all.filters.iter().chain(own).filter(|_| has_filters) {
            if !filters.contains(filter) {
                filters.push(filter.clone());
            }
        }
        Some(Arc::new(Traffic {
            by_host: has_filters && self.by_host.unwrap_or(false),
            filters,
            bucket_bounds_ms: self.bucket_bounds_ms.clone().unwrap_or_default(),
            ignored_classes: self.ignored_classes.unwrap_or_default(),
        }))
    }

    /// How it is shown, if that is what answers.
    pub(crate) fn shown(&self, handler: Option<ContentHandler>) -> Option<Arc<TrafficShow>> {
        if handler != Some(ContentHandler::Status(StatusView::Traffic)) {
            return None;
        }
        let (weighs, average_over) = self.average.unwrap_or((false, Duration::from_secs(60)));
        let callback = self.callback.clone();
        Some(Arc::new(TrafficShow {
            format: self.format.unwrap_or_default(),
            callback: callback
                .unwrap_or_else(|| "ngx_http_vhost_traffic_status_jsonp_callback".into()),
            sum_key: self.sum_key.clone().unwrap_or_else(|| "*".into()),
            weighs,
            average_over,
        }))
    }
}
