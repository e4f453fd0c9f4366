//! Packets of QUIC while several workers have connections: each worker has a number, which is in
//! its connection ids, and lines to the others. Their secrets are the master's, so that a worker
//! that takes the place of another one knows its tokens and ends its lost connections.

use super::Master;
use super::other::Other;
use crate::control;
use crate::journal::note;
use sealane_conf::Config;
use sealane_log::OsError;
use sealane_server::{MAX_QUIC_SECRETS, QuicPlace, Snapshot, random_quic_secret};
use sealane_sys::socket;
use std::io;
use std::os::fd::AsFd;

/// Whose worker it is, in the number of a worker: of two masters, one has it.
const MASTER_BIT: u8 = 0x80;

/// What the workers of a server have in common.
#[derive(Clone)]
pub(crate) struct QuicSecrets {
    /// For connection ids and, without `quic_host_key`, for all else.
    pub(crate) secret: [u8; 32],
    /// Those of `quic_host_key` before, the newest first.
    pub(crate) former: Vec<[u8; 32]>,
    /// The number of the next worker.
    pub(crate) next: u8,
}

impl QuicSecrets {
    /// Those of the old binary, or others.
    pub(super) fn of(other: Option<&mut Other>) -> QuicSecrets {
        match other.and_then(Other::take_quic) {
            Some(old) => QuicSecrets {
                next: (old.next & MASTER_BIT) ^ MASTER_BIT,
                ..old
            },
            None => QuicSecrets {
                secret: random_quic_secret(),
                former: Vec::new(),
                next: 0,
            },
        }
    }

    /// Keeps the secret of a configuration that is no longer in use.
    pub(super) fn remember(&mut self, snapshot: &Snapshot) {
        if let Some(secret) = snapshot.quic_host_secret() {
            self.former.retain(|known| known != secret);
            self.former.insert(0, *secret);
            self.former.truncate(MAX_QUIC_SECRETS);
        }
    }

    fn take_number(&mut self) -> u8 {
        let number = self.next;
        let following = number.wrapping_add(1) & !MASTER_BIT;
        self.next = (number & MASTER_BIT) | following;
        number
    }
}

/// Whether a configuration has an address for QUIC.
fn serves_quic(config: &Config) -> bool {
    let mut listeners = config.http.iter().flat_map(|http| &http.listeners);
    listeners.any(|listener| listener.options.quic)
}

impl Master {
    /// Where the next worker is among those that there are, which get to know it.
    pub(super) fn next_quic_place(&mut self) -> QuicPlace {
        let next = self.reload.as_ref().map(|reload| &reload.next().config);
        let is_wanted = serves_quic(next.unwrap_or(&self.server.config));
        let process = self.quic.take_number();
        let mut lines = Vec::new();
        // The first one is who served before.
        let workers = self.worker.iter().chain(self.draining.iter().rev());
        for worker in workers.filter(|worker| is_wanted && !worker.silent) {
            let told = socket::seqpacket_pair().and_then(|(line, theirs)| {
                control::send_quic_line(worker.link.as_fd(), process, theirs.as_fd())?;
                Ok(line)
            });
            match told {
                Ok(line) => lines.push((worker.quic, line)),
                // It has just ended, and has no connections.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                Err(error) => note!(
                    self.server.journal,
                    Alert,
                    "worker process {} cannot be told of the next one ({}): it loses its \
                     connections of QUIC",
                    worker.pid,
                    OsError(&error)
                ),
            }
        }
        let other = self.other.as_mut().filter(|_| is_wanted);
        lines.extend(other.and_then(|other| other.open_quic_line(process)));
        QuicPlace {
            secret: self.quic.secret,
            process,
            former: self.quic.former.clone(),
            lines,
        }
    }

    /// What the next binary needs.
    pub(super) fn quic_for_next_binary(&self) -> QuicSecrets {
        let mut secrets = self.quic.clone();
        secrets.remember(&self.server.snapshot);
        secrets
    }

    /// Passes lines to workers of the other binary on to the worker.
    pub(super) fn pass_quic_lines_on(&mut self) {
        let Some(other) = &mut self.other else { return };
        for (process, line) in std::mem::take(&mut other.quic_lines) {
            if let Some(worker) = self.worker.as_ref().or(self.draining.last()) {
                // Who cannot be told sees no packets of the others, and they none of its own.
                let _ = control::send_quic_line(worker.link.as_fd(), process, line.as_fd());
            }
        }
    }
}
