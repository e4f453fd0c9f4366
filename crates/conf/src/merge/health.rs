//! Health checks: what can be checked only once the whole `http` block is known.

use crate::build::Build;
use crate::call::Fault;
use crate::model::{HealthQuestion, MAX_HEALTH_CHECKS, Pass, Server, locations_of};
use std::collections::HashMap;

/// Every `health_check` must have a group, and the `match` that it names.
///
/// # Errors
/// The first that has not, or the first that is one too many for its group.
pub(super) fn check(b: &Build<'_>, servers: &[Server]) -> Result<(), Fault> {
    let mut counts: HashMap<usize, usize> = HashMap::new();
    for conf in locations_of(servers) {
        for check in conf.health_checks.iter() {
            let fault =
                |what: &str| Fault::earlier(&check.origin, format!("\"health_check\" {what}"));
            let Some(pass) = &conf.pass else {
                let help = "the servers of \"proxy_pass\" and the like in the same location are \
                            checked";
                return Err(fault("in a location that passes no requests").help(help));
            };
            let Some(group) = pass.group() else {
                let help = "name an \"upstream\" without variables, for example in a location of \
                            its own that is \"internal\"";
                return Err(fault("of servers that only a request names").help(help));
            };
            if let Pass::Dubbo(_) = pass {
                let help = "\"check\" in the \"upstream\" finds servers that cannot be reached";
                return Err(fault("in a location with \"dubbo_pass\"").help(help));
            }
            let is_grpc = matches!(check.question, HealthQuestion::Grpc { .. });
            if is_grpc && !matches!(pass, Pass::Grpc(_)) {
                return Err(fault(
                    "has \"type=grpc\", but the location has no \"grpc_pass\"",
                ));
            }
            let count = counts.entry(group.0).or_default();
            *count += 1;
            if *count > MAX_HEALTH_CHECKS {
                let what = format!("is one too many: a group can have {MAX_HEALTH_CHECKS}");
                return Err(fault(&what));
            }
        }
    }
    match b
        .http
        .response_matches
        .iter()
        .find(|named| named.block.is_none())
    {
        None => Ok(()),
        Some(named) => {
            let message = format!("match \"{}\" is not defined", named.name);
            Err(Fault::earlier(&named.used_at, message).help("no \"match\" block has this name"))
        }
    }
}
