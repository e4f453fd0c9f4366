//! Whether a store may have forgotten claims on early data.
//!
//! A claim must be remembered for as long as a flight can be replayed. A store that
//! was restarted, or has replaced another, may have lost some. So its
//! identity is kept in the store itself: a node that connects and finds a different one
//! there, or none, writes the new one and, next to it, a mark that lives for
//! [`MARK_LIFETIME`]. The rest of that lifetime tells every node how long the store has
//! forgotten nothing; claims that must be remembered for longer are refused.

use super::link::Link;
use redis::{Cmd, RedisResult, Value, cmd};
use std::time::{Duration, Instant};

/// How long it is known when a store started afresh: longer than any claim must be
/// remembered.
const MARK_LIFETIME: Duration = Duration::from_secs(3600);

/// What is known of a store's memory.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memory {
    /// It has forgotten nothing since then; `None` when unknown.
    pub(super) since: Option<Instant>,
}

impl Memory {
    /// Whether a claim from `lifetime` ago would still be known.
    pub(super) fn covers(self, lifetime: Duration, now: Instant) -> bool {
        self.since
            .is_some_and(|since| now.saturating_duration_since(since) >= lifetime)
    }
}

/// Determines since when the store remembers claims; the inner error is why it
/// cannot be relied on.
pub(super) async fn examine(
    link: &Link,
    prefix: &str,
) -> RedisResult<Result<Memory, &'static str>> {
    let info = link.ask(&cmd("INFO")).await?;
    let mut identity = Vec::new();
    let mut forgets = false;
    collect(&info, &mut identity, &mut forgets);
    if forgets {
        return Ok(Err(
            "its maxmemory-policy may throw claims out, it must be noeviction",
        ));
    }
    if identity.is_empty() {
        return Ok(Err("its INFO does not say which run it is"));
    }
    identity.sort();
    let identity = identity.join(",");
    let (run, began) = (
        format!("{prefix}claims:run"),
        format!("{prefix}claims:began"),
    );
    let known = link.ask(&cmd("GET").arg(&run).take()).await?;
    let same = matches!(&known, Value::BulkString(known) if known == identity.as_bytes());
    if !same {
        let mark = cmd("SET")
            .arg(&began)
            .arg(1)
            .arg("PX")
            .arg(milliseconds(MARK_LIFETIME))
            .take();
        // In this order: a node that sees the new identity sees the mark.
        link.ask(&mark).await?;
        link.ask(&cmd("SET").arg(&run).arg(&identity).take())
            .await?;
    }
    let left = match link.ask(&ttl(&began)).await? {
        Value::Int(left) => Duration::from_millis(u64::try_from(left).unwrap_or(0)),
        _ => MARK_LIFETIME,
    };
    let age = MARK_LIFETIME.saturating_sub(left);
    Ok(Ok(Memory {
        since: Instant::now().checked_sub(age),
    }))
}

fn ttl(key: &str) -> Cmd {
    cmd("PTTL").arg(key).take()
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Reads `INFO`, of one server or of each of a cluster: who they are, and whether
/// they may evict claims.
fn collect(info: &Value, identity: &mut Vec<String>, forgets: &mut bool) {
    match info {
        Value::BulkString(text) => read_info(&String::from_utf8_lossy(text), identity, forgets),
        Value::VerbatimString { text, .. } => read_info(text, identity, forgets),
        Value::Map(servers) => {
            for (_, info) in servers {
                collect(info, identity, forgets);
            }
        }
        Value::Array(servers) => {
            for info in servers {
                collect(info, identity, forgets);
            }
        }
        _ => {}
    }
}

fn read_info(text: &str, identity: &mut Vec<String>, forgets: &mut bool) {
    let value = |name: &str| {
        text.lines()
            .filter_map(|line| line.split_once(':'))
            .find_map(|(found, value)| (found == name).then(|| value.trim()))
    };
    identity.extend(value("run_id").map(str::to_owned));
    let bounded = value("maxmemory").is_some_and(|bytes| bytes != "0");
    let evicts = value("maxmemory_policy").is_some_and(|policy| policy != "noeviction");
    *forgets |= bounded && evicts;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<String>, bool) {
        let (mut identity, mut forgets) = (Vec::new(), false);
        collect(&Value::BulkString(text.into()), &mut identity, &mut forgets);
        (identity, forgets)
    }

    #[test]
    fn a_store_that_evicts_forgets() {
        let info = |maxmemory: &str, policy: &str| {
            read(&format!(
                "# Server\r\nrun_id:abc\r\n# Memory\r\nmaxmemory:{maxmemory}\r\n\
                 maxmemory_policy:{policy}\r\n"
            ))
        };
        assert_eq!(info("0", "noeviction"), (vec!["abc".into()], false));
        assert_eq!(info("0", "allkeys-lru"), (vec!["abc".into()], false));
        assert_eq!(info("1000", "noeviction"), (vec!["abc".into()], false));
        assert_eq!(info("1000", "volatile-ttl"), (vec!["abc".into()], true));
        assert_eq!(read("").0, Vec::<String>::new());
    }

    #[test]
    fn a_claim_counts_only_when_all_before_it_are_known() {
        let now = Instant::now();
        let lifetime = Duration::from_secs(180);
        let since = |ago: u64| Memory {
            since: now.checked_sub(Duration::from_secs(ago)),
        };
        assert!(since(180).covers(lifetime, now));
        assert!(!since(179).covers(lifetime, now));
        assert!(!Memory { since: None }.covers(lifetime, now));
    }
}
