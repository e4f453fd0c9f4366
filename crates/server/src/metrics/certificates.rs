//! When certificates and staples end.

use super::Families;
use super::families::{Label, Unit};
use crate::snapshot::Snapshot;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn collect<'a>(families: &mut Families<'a>, snapshot: &'a Snapshot) {
    let family = families
        .gauge(
            "certificate_not_after_timestamp",
            "When the certificate ends, in Unix time",
        )
        .in_unit(Unit::Seconds)
        .by(&["server", "certificate", "key"]);
    let mut known = BTreeSet::new();
    for (name, report) in snapshot.certificates() {
        if let Some(ends_s) = report.ends_s
            && known.insert((name, report.label, report.key.name()))
        {
            let labels = [name, report.label, report.key.name()].map(Label::Text);
            family.number(labels, ends_s as f64);
        }
    }
    let family = families
        .gauge(
            "staple_next_update_timestamp",
            "Until when the newest OCSP response may be sent, in Unix time; 0 without one",
        )
        .in_unit(Unit::Seconds)
        .by(&["certificate"]);
    // A certificate may have several responders: the worst is told, as a name is good for one.
    let mut ends: BTreeMap<&str, i64> = BTreeMap::new();
    for task in snapshot.staples() {
        let staple = task.certificate.newest();
        let end_s = staple.and_then(|staple| staple.next_update_s).unwrap_or(0);
        let known = ends.entry(task.certificate.label()).or_insert(end_s);
        *known = end_s.min(*known);
    }
    for (label, end_s) in ends {
        family.number([Label::Text(label)], end_s as f64);
    }
}
