//! What the kernel can do for TLS: tested once, by the master, before the worker
//! drops its privileges (loading the module `tls` needs `CAP_NET_ADMIN`).

use crate::journal::{Journal, note};
use sealane_conf::model::{Http, KtlsMode};
use sealane_server::Snapshot;
use sealane_sys::ktls::{Cipher, Version};
use sealane_tls::{Capabilities, Unavailable};
use std::sync::Arc;

/// Runs the self-test, unless nothing in the configuration can want kernel TLS.
pub(crate) fn probe(http: Option<&Http>) -> Option<Arc<Capabilities>> {
    let http = http?;
    let servers = http.servers.iter();
    let servers = servers.filter_map(|server| Some(server.tls.as_ref()?.ktls));
    let upstreams = http.passes().filter_map(|pass| Some(pass.tls()?.ktls));
    let wanted = servers
        .chain(upstreams)
        .any(|ktls| ktls.mode != Some(KtlsMode::Off));
    wanted.then(|| Arc::new(Capabilities::probe()))
}

/// Says once what kernel TLS lacks and what to do about it.
pub(crate) fn report(capabilities: &Capabilities, snapshot: &Snapshot, journal: &Journal) {
    if !snapshot.wants_kernel_tls() {
        return;
    }
    let suites = || {
        Version::ALL
            .into_iter()
            .flat_map(|version| Cipher::ALL.map(|cipher| (version, cipher)))
    };
    let refusals: Vec<_> = suites()
        .filter_map(|(version, cipher)| capabilities.transmit(version, cipher).err())
        .collect();
    let none_works = refusals.len() == suites().count();
    match refusals.as_slice() {
        [first, rest @ ..] if none_works && rest.iter().all(|other| other == first) => {
            say(
                "kernel TLS is not used, TLS stays in user space",
                first,
                journal,
            );
        }
        refusals => {
            for refusal in refusals {
                say("kernel TLS is not used for a suite", refusal, journal);
            }
        }
    }
}

fn say(what: &str, unavailable: &Unavailable, journal: &Journal) {
    match unavailable.remedy() {
        Some(remedy) => note!(
            journal,
            Notice,
            "{what}: {unavailable}; to change that, {remedy}"
        ),
        None => note!(journal, Notice, "{what}: {unavailable}"),
    }
}
