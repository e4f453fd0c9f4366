//! Assigns cores to the servers and to the generator.

use rustix::thread::{CpuSet, sched_getaffinity};

use crate::Error;

/// A partition of the cores that this process may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cpus {
    /// The servers' cores, with one worker each.
    pub(crate) server: Vec<usize>,
    /// The generator's cores; the same as the servers' if there is only one.
    pub(crate) generator: Vec<usize>,
}

/// Which cores the servers should get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerCores {
    /// This one.
    Numbered(usize),
    /// The last ones, as many as this.
    Count(usize),
}

impl Cpus {
    pub(crate) fn choose(wanted: ServerCores) -> Result<Self, Error> {
        let cpus = Self::divide(&available()?, wanted)?;
        if cpus.generator == cpus.server {
            eprintln!(
                "only one core: server and generator share it, so latencies and rates are meaningless"
            );
        }
        Ok(cpus)
    }

    fn divide(all: &[usize], wanted: ServerCores) -> Result<Self, Error> {
        let server: Vec<usize> = match wanted {
            ServerCores::Numbered(cpu) if !all.contains(&cpu) => {
                return Err(Error::Usage(format!(
                    "core {cpu} is not available; the available ones are {all:?}"
                )));
            }
            ServerCores::Numbered(cpu) => vec![cpu],
            // With a single core both sides share it; otherwise the generator needs one.
            ServerCores::Count(count) if count == 0 || count > (all.len() - 1).max(1) => {
                return Err(Error::Usage(format!(
                    "servers cannot have {count} of {} cores: both they and the generator need one",
                    all.len()
                )));
            }
            ServerCores::Count(count) => all[all.len() - count..].to_vec(),
        };
        let is_free = |cpu: &usize| !server.contains(cpu);
        let mut generator: Vec<usize> = all.iter().copied().filter(is_free).collect();
        if generator.is_empty() {
            generator.clone_from(&server);
        }
        Ok(Self { server, generator })
    }
}

/// The cores that this process may use, at least one.
pub(crate) fn available() -> Result<Vec<usize>, Error> {
    let allowed = sched_getaffinity(None)
        .map_err(|errno| Error::io("read the CPU affinity", errno.into()))?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&cpu| allowed.is_set(cpu))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divide(all: &[usize], wanted: ServerCores) -> Option<(Vec<usize>, Vec<usize>)> {
        Cpus::divide(all, wanted)
            .ok()
            .map(|cpus| (cpus.server, cpus.generator))
    }

    #[test]
    fn servers_get_the_last_cores_and_the_generator_the_rest() {
        let all = [0, 1, 4, 5];
        assert_eq!(
            divide(&all, ServerCores::Count(2)),
            Some((vec![4, 5], vec![0, 1]))
        );
        assert_eq!(
            divide(&all, ServerCores::Numbered(1)),
            Some((vec![1], vec![0, 4, 5]))
        );
        assert_eq!(
            divide(&[3], ServerCores::Count(1)),
            Some((vec![3], vec![3]))
        );
    }

    #[test]
    fn cores_that_are_not_there_are_refused() {
        for wanted in [
            ServerCores::Numbered(2),
            ServerCores::Count(0),
            ServerCores::Count(2),
        ] {
            assert_eq!(divide(&[0, 1], wanted), None, "{wanted:?}");
        }
        assert_eq!(divide(&[0], ServerCores::Count(2)), None);
    }
}
