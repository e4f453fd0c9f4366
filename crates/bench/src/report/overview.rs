//! Everything at a glance: how much of what another server takes Sealane takes.

use crate::{
    Summary,
    report::{
        Chapter,
        chapters::{Figures, colour, storm},
        saved::{Recorded, Saved},
        section::{Bar, Chart},
    },
    storm::StormKey,
    testbed::ServerLabel,
};

/// What is compared: cases of a chapter with what an operation is.
const CASES: [(Chapter, &str, &str); 8] = [
    (Chapter::S1, "tls13-1g", "CPU for 1 GiB, TLS 1.3"),
    (
        Chapter::S2,
        "s2-tls13-rsa",
        "CPU for a full handshake, TLS 1.3, RSA-2048, 64 clients",
    ),
    (
        Chapter::S3,
        "tls13-full-p256",
        "CPU for a full handshake, TLS 1.3, P-256",
    ),
    (
        Chapter::S3,
        "tls13-ticket",
        "CPU for a resumed handshake, TLS 1.3",
    ),
    (
        Chapter::S3,
        "tls13-1k",
        "CPU for a request of 1 KiB, TLS 1.3, keep-alive",
    ),
    (
        Chapter::Scale,
        "scale-10000",
        "CPU for a request of 1 KiB with 10,000 connections",
    ),
    (
        Chapter::Memory,
        "tls13-idle",
        "memory for an idle connection, TLS 1.3",
    ),
    (
        Chapter::Memory,
        "h2-idle",
        "memory for an idle connection, HTTP/2",
    ),
];

/// The same of storms.
const STORMS: [(StormKey, &str); 2] = [
    (
        StormKey::Rsa2048,
        "p99 of a connection while others handshake, RSA-2048",
    ),
    (
        StormKey::P256,
        "p99 of a connection while others handshake, P-256",
    ),
];

/// The chart; nothing without a server to compare with, or if nothing of it was measured.
pub(super) fn chart(saved: &Saved) -> Option<Chart> {
    let mut groups = Vec::new();
    for peer in saved.servers.iter().skip(1) {
        let bars = bars(saved, peer);
        if !bars.is_empty() {
            // Its version has the name of the program in front.
            groups.push((format!("Of {}", peer.version), bars));
        }
    }
    if groups.is_empty() {
        return None;
    }
    Some(Chart {
        title: "What Sealane takes of what others take".into(),
        legend: "The grey bar is what the other server takes for the same. Median and range of \
                 the rounds. Shorter is less."
            .into(),
        groups,
        format: |ratio| format!("{:.0} %", ratio * 100.0),
        whole: Some(1.0),
    })
}

fn bars(saved: &Saved, peer: &ServerLabel) -> Vec<Bar> {
    let bar = |label: &str, ratio: Result<Summary, String>| Bar {
        label: label.to_owned(),
        colour: colour(saved, &saved.servers[0].name),
        value: ratio,
        system_share: None,
    };
    let mut bars = Vec::new();
    for (chapter, case, label) in CASES {
        let measured = saved.chapters.iter().find(|one| one.chapter == chapter);
        if let Some(Recorded::Comparison(report)) = measured.map(|one| &one.outcome)
            && let Some(theirs) = place(&report.servers, peer)
        {
            let figures = Figures { saved, report };
            bars.push(bar(label, figures.gain((case, 0), (case, theirs))));
        }
    }
    for measured in &saved.chapters {
        if let Recorded::Storm(report) = &measured.outcome {
            for (key, label) in STORMS {
                // The first is the one on the fewest cores.
                let result = report.storms.iter().find(|result| result.key == key);
                if let (Some(result), Some(theirs)) = (result, place(&report.servers, peer)) {
                    bars.push(bar(label, storm::p99_ratio(result, 0, theirs)));
                }
            }
        }
    }
    bars
}

fn place(servers: &[ServerLabel], peer: &ServerLabel) -> Option<usize> {
    servers.iter().position(|one| one.name == peer.name)
}
