//! Certificates with their staples, across snapshots.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sealane_awslc::OcspIssuer;

use super::{StapleId, StapledCertificate};
use crate::error::SettingsError;

/// The stapled certificates of a process. Locked only while settings are built.
#[derive(Default)]
pub struct StapleState {
    known: Mutex<HashMap<StapleId, Weak<StapledCertificate>>>,
    /// What certificates of one issuer have in common.
    issuers: Mutex<HashMap<[u8; 32], Weak<OcspIssuer>>>,
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
        if known.len().is_power_of_two() {
            known.retain(|_, certificate| certificate.strong_count() > 0);
        }
        let new = Arc::new(make()?);
        known.insert(id, Arc::downgrade(&new));
        Ok(new)
    }

    /// The issuer with this hash, made if it is new.
    pub(super) fn issuer(
        &self,
        id: [u8; 32],
        make: impl FnOnce() -> Result<OcspIssuer, SettingsError>,
    ) -> Result<Arc<OcspIssuer>, SettingsError> {
        let mut known = self.issuers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&id).and_then(Weak::upgrade) {
            return Ok(found);
        }
        known.retain(|_, issuer| issuer.strong_count() > 0);
        let new = Arc::new(make()?);
        known.insert(id, Arc::downgrade(&new));
        Ok(new)
    }
}

impl fmt::Debug for StapleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StapleState")
    }
}
