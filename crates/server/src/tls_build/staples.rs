//! `ssl_stapling`: settings, and which certificates the control plane asks about.

use super::{file, trusted_file};
use crate::materials::Materials;
use sealane_conf::diagnostic::Diagnostic;
use sealane_conf::model::{Server, Tls};
use sealane_tls::{
    ServerTls, SharedSessions, StapleFile, StapleId, StapleState, StapledCertificate,
    StaplingSettings,
};
use sealane_upstream::resolve::Resolve;
use std::collections::HashSet;
use std::sync::Arc;

/// A certificate whose staples are to be fetched.
#[derive(Clone)]
pub struct StapleTask {
    /// The certificate, with its responder.
    pub certificate: Arc<StapledCertificate>,
    /// Finds the responder; without it, the system does.
    pub resolver: Option<Arc<dyn Resolve>>,
    /// Where nodes share staples.
    pub shared: Option<SharedSessions>,
}

/// Collects the tasks of a snapshot, one for each certificate.
pub(super) struct StaplesBuilder {
    state: Arc<StapleState>,
    known: HashSet<StapleId>,
    tasks: Vec<StapleTask>,
}

impl StaplesBuilder {
    pub(super) fn new(materials: &Materials) -> StaplesBuilder {
        StaplesBuilder {
            state: Arc::clone(materials.staples()),
            known: HashSet::new(),
            tasks: Vec::new(),
        }
    }

    /// The settings of a server, with the contents of the files.
    ///
    /// # Errors
    /// When a file was not read.
    pub(super) fn settings(
        &self,
        tls: &Tls,
        materials: &Materials,
    ) -> Result<Option<StaplingSettings>, Diagnostic> {
        let Some(stapling) = &tls.stapling else {
            return Ok(None);
        };
        let response = stapling.file.as_ref().map(|path| {
            Ok(StapleFile {
                der: file(materials, path, "OCSP response")?.to_vec(),
                label: path.display().to_string(),
            })
        });
        Ok(Some(StaplingSettings {
            file: response.transpose()?,
            responder: stapling.responder.clone(),
            verify: stapling.verify,
            trusted: trusted_file(materials, &tls.client_certificates)?,
            state: Arc::clone(&self.state),
        }))
    }

    /// Notes what has to be fetched for a server. If several have a certificate, the first one
    /// says how.
    pub(super) fn add(
        &mut self,
        built: &ServerTls,
        server: &Server,
        materials: &Materials,
        shared: Option<&SharedSessions>,
    ) {
        for certificate in built.stapled_certificates() {
            if !self.known.insert(certificate.id()) {
                continue;
            }
            let resolver = server.conf.resolver.as_ref();
            self.tasks.push(StapleTask {
                certificate: Arc::clone(certificate),
                resolver: resolver
                    .and_then(|conf| materials.resolver(conf, server.conf.resolver_timeout))
                    .cloned(),
                shared: shared.cloned(),
            });
        }
    }

    pub(super) fn finish(self) -> Vec<StapleTask> {
        self.tasks
    }
}
