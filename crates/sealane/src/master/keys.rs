//! Processes with keys, as part of what the master watches.

use super::Master;
use super::reconfigure::Reload;
use crate::key_process::{self, SharedKeyProcesses};
use sealane_sys::process::{ExitStatus, Pid};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

impl Master {
    /// That of the configuration in use, and one that was started for the next.
    fn key_processes(&self) -> Vec<SharedKeyProcesses> {
        let next = self.reload.as_ref().map(Reload::next);
        let next = next.and_then(|next| next.keys.clone());
        let mut all: Vec<SharedKeyProcesses> = self.server.keys.iter().cloned().collect();
        all.extend(next.filter(|next| !all.iter().any(|known| Arc::ptr_eq(known, next))));
        all
    }

    /// When something is due there.
    pub(super) fn keys_due(&self) -> Option<Instant> {
        let all = self.key_processes();
        all.iter()
            .filter_map(|keys| key_process::lock(keys).due())
            .min()
    }

    /// It has said something.
    pub(super) fn read_keys(&mut self) {
        if let Some(keys) = &self.server.keys {
            key_process::lock(keys).read(&self.server.journal);
        }
    }

    /// Starts others in the place of those that have died, and tells the workers.
    pub(super) fn go_on_with_keys(&self) {
        let workers: Vec<_> = self
            .workers()
            .filter(|worker| !worker.silent)
            .map(|worker| worker.link.as_fd())
            .collect();
        for keys in self.key_processes() {
            key_process::lock(&keys).go_on(&workers, &self.server);
        }
    }

    /// Whether this was one.
    pub(super) fn on_key_process_exit(&mut self, pid: Pid, status: ExitStatus) -> bool {
        let journal = &self.server.journal;
        let all = self.key_processes();
        let is_ours =
            |keys: &SharedKeyProcesses| key_process::lock(keys).on_exit(pid, status, journal);
        // Another one belonged to a configuration that is not used any more.
        all.iter().any(is_ours) || self.former_key_processes.remove(&pid)
    }

    /// Another configuration is in use, with the keys that it names. `before` was in use before.
    pub(super) fn follow_keys(&mut self, before: Option<SharedKeyProcesses>) {
        if let Some(keys) = &self.server.keys {
            key_process::lock(keys).retain(self.server.used_keys.iter());
        }
        self.let_key_process_go(before);
    }

    /// A configuration was refused.
    pub(super) fn forget_refused_keys(&self) {
        if let Some(keys) = &self.server.keys {
            let used = self.server.used_keys.iter();
            key_process::lock(keys).forget_refused(used, &self.server.journal);
        }
    }

    /// A configuration is not used, or no longer.
    pub(super) fn let_key_process_go(&mut self, keys: Option<SharedKeyProcesses>) {
        let Some(keys) = keys else { return };
        if !self
            .key_processes()
            .iter()
            .any(|known| Arc::ptr_eq(known, &keys))
        {
            let pids = key_process::lock(&keys).pids().collect::<Vec<_>>();
            self.former_key_processes.extend(pids);
        }
    }
}
