//! Zones of `limit_req` and `limit_conn`.

use super::Families;
use super::families::LabelValue;
use crate::limits::ZoneVerdict;
use crate::snapshot::Snapshot;
use sealane_conf::model::LimitKind;

pub(super) fn collect(families: &mut Families, snapshot: &Snapshot) {
    let verdicts = ZoneVerdict::ALL.map(|verdict| (verdict, LabelValue::from(verdict.name())));
    for (name, help, is_requests) in [
        (
            "limit_requests",
            "Requests in zones of limit_req, by what became of them",
            true,
        ),
        (
            "limit_connections",
            "Requests in zones of limit_conn, by what became of them",
            false,
        ),
    ] {
        let family = families.counter(name, help).by(&["zone", "verdict"]);
        for zone in &snapshot.limit_zones {
            if matches!(zone.conf.kind, LimitKind::Requests { .. }) != is_requests {
                continue;
            }
            let zone_name = LabelValue::from(&*zone.conf.name);
            for (verdict, word) in &verdicts {
                let never = matches!(verdict, ZoneVerdict::Delayed | ZoneVerdict::DelayedDryRun);
                if is_requests || !never {
                    family.sample(&[&zone_name, word], zone.counts.get(*verdict));
                }
            }
        }
    }
}
