//! CPU time and memory of a server's process tree, read from `/proc`.

use std::{collections::HashMap, fs, io, path::PathBuf};

use serde::Serialize;

/// CPU time used by a process tree between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CpuTime {
    /// Time on a CPU, user and system together, in nanoseconds: from the scheduler unless a thread
    /// ended meanwhile, see [`CpuAccount::since`].
    pub total_ns: u64,
    /// User part in nanoseconds, in steps of the clock tick (10 ms): an indication of the split,
    /// not a measurement.
    pub user_ns: u64,
    /// System part, in the same steps.
    pub system_ns: u64,
}

/// The CPU time charged to a process tree up to one moment.
#[derive(Clone, Debug, Default)]
pub struct CpuAccount {
    /// Nanoseconds by thread; empty if the kernel does not account for them (`CONFIG_SCHED_INFO`).
    threads_ns: HashMap<u32, u64>,
    /// From the tick counters, which include ended threads and children.
    user_ns: u64,
    system_ns: u64,
}

impl CpuAccount {
    /// The time used since `earlier`, an account of the same tree.
    ///
    /// The nanoseconds of an ended thread are lost. If a thread of `earlier` is missing, the total
    /// comes from the tick counters, which have a resolution of only 10 ms but are complete.
    pub fn since(&self, earlier: &Self) -> CpuTime {
        let user_ns = self.user_ns.saturating_sub(earlier.user_ns);
        let system_ns = self.system_ns.saturating_sub(earlier.system_ns);
        let is_complete = !self.threads_ns.is_empty()
            && earlier
                .threads_ns
                .keys()
                .all(|thread| self.threads_ns.contains_key(thread));
        let by_thread = || {
            self.threads_ns
                .iter()
                .map(|(thread, ns)| {
                    ns.saturating_sub(earlier.threads_ns.get(thread).copied().unwrap_or(0))
                })
                .sum()
        };
        let total_ns = if is_complete {
            by_thread()
        } else {
            user_ns + system_ns
        };
        CpuTime {
            total_ns,
            user_ns,
            system_ns,
        }
    }
}

/// Memory of a process tree in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Resident set size; pages shared between processes count in each of them.
    pub rss_bytes: u64,
    /// Proportional set size of anonymous and shared memory: shared pages are divided among the
    /// processes that share them. Pages of files (program text) are left out, because every other
    /// process that runs the same binary changes the share.
    pub pss_bytes: u64,
}

/// A server: the process that was started and everything it has forked.
#[derive(Clone, Copy, Debug)]
pub struct ProcessTree {
    root_pid: u32,
}

impl ProcessTree {
    /// The tree whose root is process `root_pid`.
    pub fn of(root_pid: u32) -> Self {
        Self { root_pid }
    }

    /// The CPU account of all threads of all processes of the tree.
    ///
    /// # Errors
    ///
    /// The root process does not exist or `/proc` is not readable.
    pub fn cpu_account(&self) -> io::Result<CpuAccount> {
        account(&self.pids()?)
    }

    /// The CPU account of the root process alone, with all its threads.
    pub(crate) fn cpu_account_of_root(&self) -> io::Result<CpuAccount> {
        account(&[self.root_pid])
    }

    /// Whether all threads of all processes wait for something other than a processor.
    pub(crate) fn is_at_rest(&self) -> io::Result<bool> {
        for pid in self.pids()? {
            for thread in threads(pid)? {
                let stat = read_if_alive(thread.join("stat"))?;
                if stat.is_some_and(|stat| is_running(&stat)) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Memory of all processes of the tree.
    ///
    /// # Errors
    ///
    /// The root process does not exist or its `smaps_rollup` is not readable.
    pub fn memory(&self) -> io::Result<Memory> {
        let mut sum = Memory::default();
        for pid in self.pids()? {
            let Some(rollup) = read_if_alive(format!("/proc/{pid}/smaps_rollup"))? else {
                continue;
            };
            let memory = parse_smaps_rollup(&rollup);
            sum.rss_bytes += memory.rss_bytes;
            sum.pss_bytes += memory.pss_bytes;
        }
        Ok(sum)
    }

    /// The root and its descendants.
    ///
    /// The kernel's own list of children is a build option, so the parents of all processes are
    /// read instead.
    pub(crate) fn pids(&self) -> io::Result<Vec<u32>> {
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        for entry in fs::read_dir("/proc")? {
            let Some(pid) = entry?
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            let Some(stat) = read_if_alive(format!("/proc/{pid}/stat"))? else {
                continue;
            };
            if let Some(stat) = parse_stat(&stat) {
                children.entry(stat.parent_pid).or_default().push(pid);
            }
        }
        if !PathBuf::from(format!("/proc/{}", self.root_pid)).exists() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("process {} does not exist", self.root_pid),
            ));
        }
        let mut tree = vec![self.root_pid];
        let mut next = 0;
        while let Some(pid) = tree.get(next) {
            tree.extend(children.remove(pid).unwrap_or_default());
            next += 1;
        }
        Ok(tree)
    }
}

fn account(pids: &[u32]) -> io::Result<CpuAccount> {
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let mut account = CpuAccount::default();
    for &pid in pids {
        let Some(stat) = read_if_alive(format!("/proc/{pid}/stat"))? else {
            continue;
        };
        let Some(stat) = parse_stat(&stat) else {
            continue;
        };
        account.user_ns += stat.user_ticks * tick_ns;
        account.system_ns += stat.system_ticks * tick_ns;
        add_threads(pid, &mut account.threads_ns)?;
    }
    Ok(account)
}

/// Nanoseconds on a CPU for each living thread of a process.
fn add_threads(pid: u32, threads_ns: &mut HashMap<u32, u64>) -> io::Result<()> {
    for directory in threads(pid)? {
        let name = directory.file_name().and_then(|name| name.to_str());
        let Some(thread) = name.and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some(ns) =
            read_if_alive(directory.join("schedstat"))?.and_then(|text| parse_schedstat(&text))
        {
            threads_ns.insert(thread, ns);
        }
    }
    Ok(())
}

/// The directories of the living threads of a process.
fn threads(pid: u32) -> io::Result<Vec<PathBuf>> {
    let tasks = match fs::read_dir(format!("/proc/{pid}/task")) {
        Ok(tasks) => tasks,
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let path = |task: io::Result<fs::DirEntry>| match task {
        Ok(task) => Some(Ok(task.path())),
        Err(error) if is_gone(&error) => None,
        Err(error) => Some(Err(error)),
    };
    tasks.filter_map(path).collect()
}

/// Nanoseconds that the calling thread was on a CPU; 0 if the kernel does not account for them.
pub(crate) fn this_thread_cpu_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    parse_schedstat(&text).unwrap_or(0)
}

/// A file of `/proc`; `None` if the process ended meanwhile.
fn read_if_alive(path: impl Into<PathBuf>) -> io::Result<Option<String>> {
    match fs::read_to_string(path.into()) {
        Ok(text) => Ok(Some(text)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

struct Stat {
    parent_pid: u32,
    /// Including those of children that have ended and were waited for.
    user_ticks: u64,
    system_ticks: u64,
}

/// proc_pid_stat(5). The command name may contain spaces and parentheses, so
/// fields are counted from the last closing one.
fn parse_stat(text: &str) -> Option<Stat> {
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    // After the name: 3 state, 4 ppid, ... 14 utime, 15 stime, 16 cutime, 17 cstime.
    let parent_pid = fields.nth(1)?.parse().ok()?;
    let mut ticks = fields.skip(9).map(|field| field.parse::<u64>().ok());
    let (utime, stime) = (ticks.next()??, ticks.next()??);
    let (cutime, cstime) = (ticks.next()??, ticks.next()??);
    let (user_ticks, system_ticks) = (utime + cutime, stime + cstime);
    Some(Stat {
        parent_pid,
        user_ticks,
        system_ticks,
    })
}

/// Whether a thread with this `stat` runs, waits for a processor, or waits for a disk.
fn is_running(stat: &str) -> bool {
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    state.is_some_and(|state| state.starts_with(['R', 'D']))
}

/// The first of three numbers is the time on a CPU in nanoseconds.
fn parse_schedstat(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

fn parse_smaps_rollup(text: &str) -> Memory {
    let field_bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
        Some(kib * 1024)
    };
    // Linux before 5.3 does not tell the kinds apart.
    let pss_bytes = match (field_bytes("Pss_Anon:"), field_bytes("Pss_Shmem:")) {
        (Some(anonymous), Some(shared)) => anonymous + shared,
        _ => field_bytes("Pss:").unwrap_or(0),
    };
    Memory {
        rss_bytes: field_bytes("Rss:").unwrap_or(0),
        pss_bytes,
    }
}

#[cfg(test)]
mod tests {
    use std::{hint::black_box, process::Command};

    use super::*;

    #[test]
    fn stat_with_a_hostile_command_name() {
        let text = "42 (a) b (c) S 7 42 42 0 -1 4194560 1 2 3 4 150 25 3 4 20 0 1 0 9 8 7";
        let stat = parse_stat(text).expect("well-formed");
        assert_eq!(
            (stat.parent_pid, stat.user_ticks, stat.system_ticks),
            (7, 153, 29)
        );
        assert!(parse_stat("42 (cut off) S 7").is_none());
    }

    #[test]
    fn threads_that_sleep_are_at_rest() {
        assert!(is_running("42 (S) R 7 42"));
        assert!(is_running("42 (a) S (b) D 7 42"));
        assert!(!is_running("42 (R) S 7 42"));
        assert!(!is_running("42 (R) Z 7 42"));
        // This thread is running while it asks.
        let tree = ProcessTree::of(std::process::id());
        assert!(!tree.is_at_rest().expect("this process exists"));
        let mut child = Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep exists everywhere");
        let tree = ProcessTree::of(child.id());
        let limit = std::time::Duration::from_secs(30);
        let at_rest = crate::testbed::wait_until(limit, || tree.is_at_rest().unwrap_or(false));
        child.kill().expect("the child is ours");
        child.wait().expect("the child is ours");
        assert!(at_rest);
    }

    #[test]
    fn schedstat_and_smaps() {
        assert_eq!(parse_schedstat("281390 17 1\n"), Some(281_390));
        assert_eq!(parse_schedstat(""), None);
        let old = "5000-6000 ---p 0 00:00 0 [rollup]\nRss:   12 kB\nPss:   7 kB\nPss_Dirty: 1 kB\n";
        assert_eq!(
            parse_smaps_rollup(old),
            Memory {
                rss_bytes: 12 * 1024,
                pss_bytes: 7 * 1024
            }
        );
        let new = format!("{old}Pss_Anon: 4 kB\nPss_File: 2 kB\nPss_Shmem: 1 kB\n");
        assert_eq!(
            parse_smaps_rollup(&new),
            Memory {
                rss_bytes: 12 * 1024,
                pss_bytes: 5 * 1024
            }
        );
    }

    #[test]
    fn work_in_any_thread_of_this_process_is_counted() {
        let tree = ProcessTree::of(std::process::id());
        let before = tree.cpu_account().expect("this process exists");
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        // Works, and stays alive, until it has been measured.
        let worker = std::thread::spawn(move || {
            while let Err(std::sync::mpsc::TryRecvError::Empty) = stopped.try_recv() {
                for n in 0..100_000_u64 {
                    black_box(n);
                }
            }
        });
        // Other tests' threads end meanwhile, and then whole ticks are all that
        // is known: a few of them must pass before anything shows.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        loop {
            let after = tree.cpu_account().expect("this process exists");
            let used = after.since(&before);
            if used.total_ns > 1_000_000 {
                break;
            }
            assert!(std::time::Instant::now() < deadline, "{used:?}");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        drop(stop);
        worker.join().expect("the thread does not panic");
    }

    #[test]
    fn an_ended_thread_makes_the_ticks_count() {
        let account = |threads: &[(u32, u64)], user_ns, system_ns| CpuAccount {
            threads_ns: threads.iter().copied().collect(),
            user_ns,
            system_ns,
        };
        let before = account(&[(1, 100), (2, 1_000)], 20, 10);
        // A new thread counts in full.
        let used = account(&[(1, 150), (2, 1_000), (3, 7)], 30, 15).since(&before);
        assert_eq!(
            used,
            CpuTime {
                total_ns: 57,
                user_ns: 10,
                system_ns: 5
            }
        );
        // Thread 2 is gone, and with it the nanoseconds it used since.
        let used = account(&[(1, 150)], 60, 40).since(&before);
        assert_eq!(used.total_ns, 70);
        // A kernel that keeps no nanoseconds.
        let used = account(&[], 60, 40).since(&account(&[], 20, 10));
        assert_eq!(used.total_ns, 70);
    }

    #[test]
    fn children_belong_to_the_tree_and_strangers_do_not() {
        let mut child = Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep exists everywhere");
        let pids = ProcessTree::of(std::process::id())
            .pids()
            .expect("this process exists");
        let of_child = ProcessTree::of(child.id()).pids();
        child.kill().expect("the child is ours");
        child.wait().expect("the child is ours");
        assert!(pids.contains(&child.id()));
        assert!(!pids.contains(&1));
        assert_eq!(of_child.expect("the child lived"), [child.id()]);
    }

    #[test]
    fn a_process_that_does_not_exist_is_an_error() {
        // Larger than the kernel's greatest pid.
        let tree = ProcessTree::of(1 << 30);
        assert!(tree.cpu_account().is_err());
        assert!(tree.memory().is_err());
    }

    #[test]
    fn touched_memory_shows() {
        let tree = ProcessTree::of(std::process::id());
        let before = tree.memory().expect("this process exists");
        let block = vec![1_u8; 64 << 20];
        black_box(&block);
        let after = tree.memory().expect("this process exists");
        assert!(
            after.pss_bytes > before.pss_bytes + (32 << 20),
            "{before:?} {after:?}"
        );
    }
}
