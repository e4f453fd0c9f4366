//! `req_status` and its relatives, while a block is read.

use crate::model::{List, ReqStatus, ReqStatusField, ReqStatusShow, ReqStatusZone, Template};
use std::sync::Arc;

/// The directives of a location.
#[derive(Debug, Default, Clone)]
pub(crate) struct ReqStatusDraft {
    pub(crate) zones: Option<List<usize>>,
    pub(crate) bypass: Option<List<Template>>,
    pub(crate) lazy: Option<bool>,
    /// `Some(None)`: all of them.
    pub(crate) shown: Option<Option<List<usize>>>,
    pub(crate) fields: Option<List<ReqStatusField>>,
}

/// A zone, maybe only used so far.
#[derive(Debug)]
pub(crate) struct ReqStatusZoneDraft {
    pub(crate) name: Box<str>,
    pub(crate) zone: Option<ReqStatusZone>,
}

impl ReqStatusDraft {
    /// What is counted; `None` if nothing is.
    pub(crate) fn counted(&self) -> Option<Arc<ReqStatus>> {
        let zones = self.zones.as_ref()?;
        Some(Arc::new(ReqStatus {
            zones: zones.iter().copied().collect(),
            bypass: self.bypass.clone().unwrap_or_default(),
            lazy: self.lazy.unwrap_or(false),
        }))
    }

    /// What is shown; `None` if nothing is.
    pub(crate) fn shown(&self) -> Option<Arc<ReqStatusShow>> {
        let zones = self.shown.as_ref()?;
        let zones = zones.as_ref().map(|zones| zones.iter().copied().collect());
        Some(Arc::new(ReqStatusShow {
            zones,
            fields: self.fields.clone(),
        }))
    }
}
