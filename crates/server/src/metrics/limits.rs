//! Zones of `limit_req` and `limit_conn`.

use super::Families;
use super::families::Label;
use crate::limits::ZoneVerdict;
use crate::snapshot::Snapshot;
use sealane_conf::model::LimitKind;

pub(super) fn collect<'a>(families: &mut Families<'a>, snapshot: &'a Snapshot) {
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
            for verdict in ZoneVerdict::ALL {
                let never = matches!(verdict, ZoneVerdict::Delayed | ZoneVerdict::DelayedDryRun);
                if is_requests || !never {
                    let labels = [&zone.conf.name, verdict.name()].map(Label::Text);
                    family.sample(labels, zone.counts.get(verdict));
                }
            }
        }
    }
}
