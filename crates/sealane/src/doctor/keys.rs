//! Whether each private key of a configuration signs, and how fast.

use super::report::{Finding, TestedKey};
use crate::journal::Journal;
use crate::key_process::{self, KeyProcesses};
use sealane_conf::model::{CertificateFiles, Http, Tls};
use sealane_keys::{Holders, KeyClient};
use sealane_log::OsError;
use sealane_server::{KeyFile, Materials, accelerator_choice, certificate_identity};
use sealane_sys::poll;
use sealane_tls::{KeyHolder, test_key};
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often what devices have answered is looked for, at least.
const PUMP_INTERVAL: Duration = Duration::from_millis(50);

/// Devices that were opened for a configuration.
pub(super) struct Devices {
    processes: KeyProcesses,
}

impl Devices {
    /// Opens the keys that are in devices, and puts handles in their place. This process must have
    /// one thread.
    ///
    /// # Errors
    /// Which key cannot be used, and why.
    pub(super) fn open(
        http: Option<&Http>,
        materials: &mut Materials,
        journal: &Journal,
    ) -> Result<Devices, String> {
        let mut processes = KeyProcesses::for_tests(1, None);
        if let Some(http) = http {
            key_process::deposit_all(http, materials, &mut processes, journal)?;
        }
        Ok(Devices { processes })
    }

    /// Has each key sign.
    pub(super) fn test_keys(
        &self,
        http: Option<&Http>,
        materials: &Materials,
    ) -> (Vec<TestedKey>, Vec<Finding>) {
        let holders = match self.processes.connect_tool() {
            Ok(holders) => holders,
            Err(error) => {
                let what = format!("keys in devices cannot be tested: {}", OsError(&error));
                return (Vec::new(), vec![finding(what)]);
            }
        };
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for device in holders.devices() {
                let has_ended = &has_ended;
                scope.spawn(move || pump(&device, has_ended));
            }
            let tested = test_all(http, materials, &holders);
            has_ended.store(true, Ordering::Relaxed);
            tested
        })
    }
}

/// Does what a worker thread does in its event loop.
fn pump(device: &KeyClient, has_ended: &AtomicBool) {
    let channel = device.own(0);
    while !has_ended.load(Ordering::Relaxed) {
        device.send(&channel);
        match channel.socket() {
            Some(socket) => {
                let _ = poll::wait_readable(&[socket.as_fd()], Some(PUMP_INTERVAL));
                device.receive(&channel);
            }
            None => std::thread::sleep(PUMP_INTERVAL),
        }
    }
}

/// Each key once.
fn test_all(
    http: Option<&Http>,
    materials: &Materials,
    holders: &Arc<Holders>,
) -> (Vec<TestedKey>, Vec<Finding>) {
    let mut known = BTreeSet::new();
    let (mut tested, mut problems) = (Vec::new(), Vec::new());
    let servers = http.iter().flat_map(|http| &http.servers);
    for tls in servers.filter_map(|server| server.tls.as_deref()) {
        for files in tls.certificates.files().unwrap_or_default() {
            let Some(file) = KeyFile::of_server(tls, files) else {
                continue;
            };
            if !known.insert(file.clone()) {
                continue;
            }
            let key = test(tls, files, &file, materials, holders);
            if let Some(why) = &key.problem {
                problems.push(finding(format!(
                    "the key \"{}\" cannot be used: {why}",
                    key.name
                )));
            }
            tested.push(key);
        }
    }
    (tested, problems)
}

fn test(
    tls: &Tls,
    files: &CertificateFiles,
    file: &KeyFile,
    materials: &Materials,
    holders: &Arc<Holders>,
) -> TestedKey {
    let choice = accelerator_choice(&tls.accelerator);
    let holder = Arc::clone(holders) as Arc<dyn KeyHolder>;
    let test = certificate_identity(tls, files, materials)
        .map_err(|diagnostic| diagnostic.message)
        .and_then(|identity| test_key(&identity, choice, Some(holder)));
    let (key, per_second, problem) = match test {
        Ok(test) => (Some(test.key.name()), Some(test.per_second), None),
        Err(why) => (None, None, Some(why)),
    };
    TestedKey {
        name: key_process::shown(&file.path),
        device: file.device.clone(),
        key,
        signatures_per_second: per_second.map(f64::round),
        problem,
    }
}

fn finding(what: String) -> Finding {
    let remedy = "see whether another program can use the key, and what the error log says";
    Finding::new("key_does_not_sign", what, remedy.to_owned())
}
