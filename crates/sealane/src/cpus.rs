//! Which CPUs worker threads run on, and how urgently: `worker_cpu_affinity`, `worker_priority`.

use crate::journal::{Journal, note};
use sealane_conf::model::CpuAffinity;
use sealane_log::OsError;
use sealane_server::worker::OnThread;
use sealane_sys::process;
use std::sync::Arc;

/// Sets the nice value of this process, which the threads that it starts inherit.
pub(crate) fn set_priority(priority: Option<i32>, journal: &Journal) {
    let Some(nice) = priority else { return };
    if let Err(error) = process::set_priority(nice) {
        note!(
            journal,
            Alert,
            "setpriority({nice}) failed ({}); the worker runs at normal priority",
            OsError(&error)
        );
    }
}

/// What a worker thread does first: it binds itself to its CPUs, and gets ready for a crash.
pub(crate) fn binding(affinity: Option<CpuAffinity>, threads: u32, journal: &Journal) -> OnThread {
    if let Some(CpuAffinity::Sets(sets)) = &affinity
        && sets.len() != 1
        && sets.len() != threads as usize
    {
        note!(
            journal,
            Warn,
            "the number of \"worker_processes\" is not equal to the number of \
             \"worker_cpu_affinity\" masks, using last mask for remaining worker threads"
        );
    }
    // Asked for here, because a bound thread would see its own CPUs only.
    let existing = process::allowed_cpus().unwrap_or_default();
    let journal = journal.clone();
    Arc::new(move |index| {
        // Without memory for it the report of a crash lacks this thread's stack.
        let _ = sealane_sys::crash::prepare_thread();
        let cpus = affinity
            .as_ref()
            .and_then(|affinity| cpus_of(affinity, index as usize, &existing));
        let Some(cpus) = cpus else { return };
        if let Err(error) = process::set_affinity(&cpus) {
            note!(
                journal,
                Alert,
                "sched_setaffinity() for CPUs {cpus:?} failed ({}); worker thread {index} is not \
                 bound: the process may use none of these CPUs",
                OsError(&error)
            );
        }
    })
}

/// The CPUs of the thread with this number; `None` when it runs anywhere.
fn cpus_of(affinity: &CpuAffinity, index: usize, existing: &[usize]) -> Option<Vec<usize>> {
    match affinity {
        CpuAffinity::Sets(sets) => sets.get(index).or(sets.last()).cloned(),
        CpuAffinity::Auto(wanted) => {
            let mut cpus = existing.to_vec();
            if let Some(wanted) = wanted {
                cpus.retain(|cpu| wanted.contains(cpu));
            }
            let cpu = cpus.get(index.checked_rem(cpus.len())?)?;
            Some(vec![*cpu])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_beyond_the_last_set_share_it() {
        let affinity = CpuAffinity::Sets(vec![vec![0, 2], vec![1]]);
        let of = |index| cpus_of(&affinity, index, &[]);
        assert_eq!(of(0), Some(vec![0, 2]));
        assert_eq!(of(1), Some(vec![1]));
        assert_eq!(of(9), Some(vec![1]));
    }

    #[test]
    fn auto_goes_round_the_cpus_that_there_are() {
        let existing = [2, 3, 8];
        let of = |wanted: Option<Vec<usize>>, index| {
            cpus_of(&CpuAffinity::Auto(wanted), index, &existing)
        };
        assert_eq!(of(None, 0), Some(vec![2]));
        assert_eq!(of(None, 2), Some(vec![8]));
        assert_eq!(of(None, 3), Some(vec![2]));
        assert_eq!(of(Some(vec![0, 3, 8]), 1), Some(vec![8]));
        assert_eq!(of(Some(vec![0, 3, 8]), 2), Some(vec![3]));
        assert_eq!(of(Some(vec![0]), 0), None);
    }
}
