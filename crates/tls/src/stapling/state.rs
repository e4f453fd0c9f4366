//! Certificates with their staples, across snapshots.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{StapleId, StapledCertificate};
use crate::error::SettingsError;

/// The stapled certificates of a process. Locked only while settings are built.
#[derive(Default)]
pub struct StapleState {
    known: Mutex<HashMap<StapleId, Weak<StapledCertificate>>>,
}

impl StapleState {
    /// The certificate with this id, made if it is new.
    pub(super) fn certificate(
        &self,
        id: StapleId,
        make: impl FnOnce() -> Result<StapledCertificate, SettingsError>,
    ) -> Result<Arc<StapledCertificate>, SettingsError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&id).and_then(Weak::upgrade) {
            return Ok(found);
        }
        known.retain(|_, certificate| certificate.strong_count() > 0);
        let new = Arc::new(make()?);
        known.insert(id, Arc::downgrade(&new));
        Ok(new)
    }

    /// Every certificate in use, for whoever asks responders.
    pub fn certificates(&self) -> Vec<Arc<StapledCertificate>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().filter_map(Weak::upgrade).collect()
    }
}

impl fmt::Debug for StapleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StapleState")
    }
}
