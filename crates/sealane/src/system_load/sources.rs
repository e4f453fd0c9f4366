//! Files of the kernel with figures of the machine, and of the cgroups that limit this process.
//!
//! Figures are those of Tengine, of the machine. A cgroup of version 2 with a limit, be it that of
//! the process or one around it, counts as a machine of that size; of both, what is scarcer holds.

use sealane_log::OsError;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the files are.
pub(super) struct Sources {
    root: PathBuf,
}

impl Default for Sources {
    fn default() -> Sources {
        Sources { root: "/".into() }
    }
}

/// What is left of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memory {
    /// Free, or page cache.
    pub(super) free_bytes: u64,
    /// Swap space that is used, in hundredths of a percent.
    pub(super) swap_used: u64,
}

/// What processors have done since they were started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Processors {
    /// How many there are.
    pub(super) count: u64,
    busy: u64,
    total: u64,
    /// Of cgroups with a limit, from the inside.
    shares: Vec<Share>,
}

/// A cgroup with `cpu.max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    used_us: u64,
    /// How long it may use processors in a second.
    per_second_us: u64,
}

impl Processors {
    /// How busy they were since `before`, `passed` ago, in hundredths of a percent; `None` when
    /// that was too short a time to tell.
    pub(super) fn usage_since(&self, before: &Processors, passed: Duration) -> Option<u64> {
        let busy = self.busy.saturating_sub(before.busy);
        let total = self.total.saturating_sub(before.total);
        let machine = (busy * 10_000).checked_div(total);
        let shares = self.shares.iter().zip(&before.shares);
        let shares = shares.filter(|(now, before)| now.per_second_us == before.per_second_us);
        let shares = shares.filter_map(|(now, before)| {
            let used_us = u128::from(now.used_us.saturating_sub(before.used_us));
            let granted_us = u128::from(now.per_second_us) * passed.as_micros() / 1_000_000;
            let usage = (used_us * 10_000).checked_div(granted_us)?;
            Some(u64::try_from(usage).unwrap_or(u64::MAX))
        });
        shares.chain(machine).max()
    }
}

impl Sources {
    /// The load average of the last minute, in thousandths.
    ///
    /// # Errors
    /// Which file cannot be read, and why.
    pub(super) fn load_thousandths(&self) -> Result<u64, String> {
        const PATH: &str = "proc/loadavg";
        let text = self.read(PATH)?;
        let load = text.split_whitespace().next();
        let load = load.and_then(|load| load.parse::<f64>().ok());
        // A conversion from floating point saturates.
        load.map(|load| (load * 1000.0) as u64)
            .ok_or_else(|| unintelligible(PATH))
    }

    /// What is left of memory.
    ///
    /// # Errors
    /// Which file cannot be read, and why.
    pub(super) fn memory(&self) -> Result<Memory, String> {
        const PATH: &str = "proc/meminfo";
        let text = self.read(PATH)?;
        let kib = |name| number_after(&text, name).ok_or_else(|| unintelligible(PATH));
        let free = kib("MemFree:")? + kib("Buffers:")? + kib("Cached:")?;
        let (swap, free_swap) = (kib("SwapTotal:")?, kib("SwapFree:")?);
        let mut memory = Memory {
            free_bytes: free.saturating_mul(1024),
            swap_used: ratio(swap.saturating_sub(free_swap), swap),
        };
        for group in self.groups() {
            let number = |file| self.number(&group, file);
            if let (Some(limit), Some(used)) = (number("memory.max"), number("memory.current")) {
                let stat = self.in_group(&group, "memory.stat").unwrap_or_default();
                let cached = number_after(&stat, "file").unwrap_or(0);
                let left = limit.saturating_sub(used).saturating_add(cached);
                memory.free_bytes = memory.free_bytes.min(left);
            }
            let swap = number("memory.swap.max").zip(number("memory.swap.current"));
            if let Some((limit, used)) = swap {
                memory.swap_used = memory.swap_used.max(ratio(used, limit));
            }
        }
        Ok(memory)
    }

    /// What processors have done.
    ///
    /// # Errors
    /// Which file cannot be read, and why.
    pub(super) fn processors(&self) -> Result<Processors, String> {
        const PATH: &str = "proc/stat";
        let text = self.read(PATH)?;
        let mut found = Processors {
            count: 0,
            busy: 0,
            total: 0,
            shares: Vec::new(),
        };
        for line in text.lines().filter(|line| line.starts_with("cpu")) {
            let Some(sums) = line.strip_prefix("cpu ") else {
                found.count += 1;
                continue;
            };
            // user, nice, system; idle, iowait, irq, softirq. As in Tengine, no more than these.
            let times: Vec<u64> = sums
                .split_whitespace()
                .map_while(|time| time.parse().ok())
                .take(7)
                .collect();
            if times.len() < 4 {
                return Err(unintelligible(PATH));
            }
            found.busy = times[..3].iter().sum();
            found.total = times.iter().sum();
        }
        for group in self.groups() {
            let limit = self.in_group(&group, "cpu.max").unwrap_or_default();
            let mut limit = limit.split_whitespace().map(str::parse::<u64>);
            let (Some(Ok(quota)), Some(Ok(period))) = (limit.next(), limit.next()) else {
                continue; // "max"
            };
            let stat = self.in_group(&group, "cpu.stat").unwrap_or_default();
            let granted = quota.saturating_mul(1_000_000).checked_div(period);
            if let Some((used_us, per_second_us)) = number_after(&stat, "usage_usec").zip(granted) {
                found.shares.push(Share {
                    used_us,
                    per_second_us,
                });
            }
        }
        Ok(found)
    }

    /// Directories of the cgroups that this process is in, from the inside.
    fn groups(&self) -> Vec<PathBuf> {
        let Ok(text) = self.read("proc/self/cgroup") else {
            return Vec::new();
        };
        let own = text.lines().find_map(|line| line.strip_prefix("0::/"));
        let Some(own) = own else { return Vec::new() };
        // One outside this namespace begins with "..": there is nothing to be seen of it.
        let own = Path::new(if own.starts_with("..") { "" } else { own });
        let top = self.root.join("sys/fs/cgroup");
        own.ancestors().map(|group| top.join(group)).collect()
    }

    fn in_group(&self, group: &Path, file: &str) -> Option<String> {
        fs::read_to_string(group.join(file)).ok()
    }

    /// `None` if there is no such limit.
    fn number(&self, group: &Path, file: &str) -> Option<u64> {
        self.in_group(group, file)?.trim().parse().ok()
    }

    fn read(&self, path: &str) -> Result<String, String> {
        fs::read_to_string(self.root.join(path))
            .map_err(|error| format!("open() \"/{path}\" failed ({})", OsError(&error)))
    }
}

fn unintelligible(path: &str) -> String {
    format!("\"/{path}\" has another format than expected")
}

/// The number on the line that begins with this word.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let mut words = text.lines().map(str::split_whitespace);
    words.find_map(|mut words| match words.next() == Some(name) {
        true => words.next()?.parse().ok(),
        false => None,
    })
}

/// Hundredths of a percent.
fn ratio(part: u64, whole: u64) -> u64 {
    let part = u128::from(part) * 10_000;
    part.checked_div(u128::from(whole))
        .map_or(0, |ratio| u64::try_from(ratio).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
