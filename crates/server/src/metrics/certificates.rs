//! When certificates and staples end.

use super::Families;
use super::families::LabelValue;
use crate::snapshot::Snapshot;
use prometheus_client::registry::Unit;
use std::collections::BTreeSet;

pub(super) fn collect(families: &mut Families, snapshot: &Snapshot) {
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
            let key = LabelValue::from(report.key.name());
            family.number(&[&name.into(), &report.label.into(), &key], ends_s as f64);
        }
    }
    let family = families
        .gauge(
            "staple_next_update_timestamp",
            "Until when the newest OCSP response may be sent, in Unix time; 0 without one",
        )
        .in_unit(Unit::Seconds)
        .by(&["certificate"]);
    for task in snapshot.staples() {
        let staple = task.certificate.newest();
        let end_s = staple.and_then(|staple| staple.next_update_s);
        family.number(
            &[&task.certificate.label().into()],
            end_s.unwrap_or(0) as f64,
        );
    }
}
