//! What other processes did on the cores of a measurement.

use std::{fs, time::Duration};

use crate::{Error, load::Meter};

/// Counts all processes' time on some cores between `begin` and `end`, in ticks of 10 ms.
#[derive(Debug)]
pub(crate) struct Neighbours {
    cpus: Vec<usize>,
    before_ns: u64,
    used_ns: u64,
}

impl Neighbours {
    pub(crate) fn on(cpus: &[usize]) -> Self {
        Self {
            cpus: cpus.to_vec(),
            before_ns: 0,
            used_ns: 0,
        }
    }

    /// Share of the cores' time in `elapsed` that was neither idle nor part of `known_ns`, the time
    /// of the measured processes.
    pub(crate) fn share(&self, elapsed: Duration, known_ns: u64) -> f64 {
        let available_ns = elapsed.as_nanos() as f64 * self.cpus.len() as f64;
        self.used_ns.saturating_sub(known_ns) as f64 / available_ns
    }

    fn read(&self) -> Result<u64, Error> {
        let text = fs::read_to_string("/proc/stat")
            .map_err(|source| Error::io("read /proc/stat", source))?;
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        Ok(used_ticks(&text, &self.cpus) * tick_ns)
    }
}

impl Meter for Neighbours {
    fn begin(&mut self) -> Result<(), Error> {
        self.before_ns = self.read()?;
        Ok(())
    }

    fn end(&mut self) -> Result<(), Error> {
        self.used_ns = self.read()?.saturating_sub(self.before_ns);
        Ok(())
    }
}

/// Ticks used by tasks, and by other virtual machines, on the cores (proc_stat(5)). Interrupts are
/// left out: those of the network are part of every server's work.
fn used_ticks(text: &str, cpus: &[usize]) -> u64 {
    let of_line = |line: &str| {
        let mut fields = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let cpu: usize = fields.next()?.parse().ok()?;
        let ticks: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
        // user, nice, system, idle, iowait, irq, softirq, steal
        let used = [0, 1, 2, 7].map(|index| ticks.get(index).copied().unwrap_or(0));
        cpus.contains(&cpu).then(|| used.iter().sum::<u64>())
    };
    text.lines().filter_map(of_line).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_work_on_the_named_cores_counts() {
        let text = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 100 50 7 8 4 0 0\ncpu1 10 0 0 1 1 1 1\n\
                    cpu11 500 0 0 0 0 0 0 0\nintr 5\n";
        assert_eq!(used_ticks(text, &[0]), 10);
        assert_eq!(used_ticks(text, &[0, 1]), 20);
    }

    #[test]
    fn the_share_leaves_out_who_is_measured() {
        let neighbours = Neighbours {
            cpus: vec![2, 3],
            before_ns: 0,
            used_ns: 1_500_000_000,
        };
        let second = Duration::from_secs(1);
        assert_eq!(neighbours.share(second, 1_000_000_000), 0.25);
        // Ticks may fall short of the scheduler's account.
        assert_eq!(neighbours.share(second, 1_600_000_000), 0.0);
    }
}
