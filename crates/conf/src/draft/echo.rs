//! `echo` and its relatives, while a location is read.

use crate::model::{Echo, EchoStep, List};
use std::sync::Arc;

/// The directives of [`Echo`].
#[derive(Debug, Default, Clone)]
pub(crate) struct EchoDraft {
    pub(crate) status: Option<u16>,
    pub(crate) steps: Option<List<EchoStep>>,
}

impl EchoDraft {
    /// What holds.
    pub(crate) fn finish(&self) -> Option<Arc<Echo>> {
        let steps = self.steps.as_ref()?;
        Some(Arc::new(Echo {
            status: self.status.unwrap_or(200),
            steps: steps.iter().cloned().collect(),
        }))
    }
}
