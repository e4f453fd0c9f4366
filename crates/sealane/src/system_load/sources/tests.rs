use super::*;
use std::sync::atomic::{AtomicU32, Ordering};

/// A machine of files.
struct Machine(Sources);

impl Machine {
    fn new(files: &[(&str, &str)]) -> Machine {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("sealane-system-load-{}-{number}", std::process::id());
        let machine = Machine(Sources {
            root: std::env::temp_dir().join(name),
        });
        for (path, text) in files {
            machine.write(path, text);
        }
        machine
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0.root);
    }
}

const MEMINFO: &str = "MemTotal:       8000 kB\nMemFree:        1000 kB\nMemAvailable:   4000 kB\n\
                       Buffers:         200 kB\nCached:         3000 kB\nSwapCached:        0 kB\n\
                       SwapTotal:      1000 kB\nSwapFree:        750 kB\n";
const STAT: &str = "cpu  100 50 150 600 50 25 25 9 9 9\ncpu0 1 1 1 1\ncpu1 1 1 1 1\nintr 5\n";

#[test]
fn figures_of_the_machine() {
    let machine = Machine::new(&[
        ("proc/loadavg", "12.34 5.00 1.00 2/300 4711\n"),
        ("proc/meminfo", MEMINFO),
        ("proc/stat", STAT),
        ("proc/self/cgroup", "0::/\n"),
    ]);
    assert_eq!(machine.0.load_thousandths(), Ok(12_340));
    let memory = machine.0.memory().unwrap();
    assert_eq!(memory.free_bytes, 4200 << 10);
    assert_eq!(memory.swap_used, 2500);
    let before = machine.0.processors().unwrap();
    assert_eq!(before.count, 2);
    // 60 of 100 ticks; steal and guests are not looked at.
    machine.write(
        "proc/stat",
        "cpu  130 55 175 630 60 25 25 900 9 9\ncpu0 1\n",
    );
    let after = machine.0.processors().unwrap();
    let second = Duration::from_secs(1);
    assert_eq!(after.usage_since(&before, second), Some(6000));
    assert_eq!(after.usage_since(&after, second), None);
}

#[test]
fn a_cgroup_with_limits_is_a_smaller_machine() {
    let machine = Machine::new(&[
        ("proc/meminfo", MEMINFO),
        ("proc/stat", STAT),
        (
            "proc/self/cgroup",
            "1:name=systemd:/x\n0::/site.slice/server\n",
        ),
        ("sys/fs/cgroup/site.slice/memory.max", "2048000\n"),
        ("sys/fs/cgroup/site.slice/memory.current", "2000000\n"),
        (
            "sys/fs/cgroup/site.slice/memory.stat",
            "anon 5\nfile 10000\n",
        ),
        ("sys/fs/cgroup/site.slice/memory.swap.max", "1000\n"),
        ("sys/fs/cgroup/site.slice/memory.swap.current", "400\n"),
        ("sys/fs/cgroup/site.slice/server/memory.max", "max\n"),
        ("sys/fs/cgroup/site.slice/server/memory.current", "9000\n"),
        ("sys/fs/cgroup/site.slice/server/cpu.max", "50000 100000\n"),
        (
            "sys/fs/cgroup/site.slice/server/cpu.stat",
            "usage_usec 1000\nuser_usec 5\n",
        ),
        ("sys/fs/cgroup/site.slice/cpu.max", "max 100000\n"),
    ]);
    let memory = machine.0.memory().unwrap();
    assert_eq!((memory.free_bytes, memory.swap_used), (58_000, 4000));
    let before = machine.0.processors().unwrap();
    let path = "sys/fs/cgroup/site.slice/server/cpu.stat";
    // 0.4 s of 2 s, of which it may have half.
    machine.write(path, "usage_usec 401000\n");
    let after = machine.0.processors().unwrap();
    let passed = Duration::from_secs(2);
    assert_eq!(after.usage_since(&before, passed), Some(4000));
    // With other limits there is nothing to compare.
    machine.write("sys/fs/cgroup/site.slice/server/cpu.max", "60000 100000\n");
    let other = machine.0.processors().unwrap();
    assert_eq!(other.usage_since(&before, passed), None);
}

#[test]
fn what_cannot_be_read_is_named() {
    let machine = Machine::new(&[("proc/meminfo", "nothing\n"), ("proc/stat", "cpu  1 2\n")]);
    let error = machine.0.load_thousandths().unwrap_err();
    assert!(
        error.starts_with("open() \"/proc/loadavg\" failed (2: "),
        "{error}"
    );
    let unexpected = "\"/proc/meminfo\" has another format than expected";
    assert_eq!(machine.0.memory(), Err(unexpected.to_owned()));
    assert!(machine.0.processors().is_err());
}

#[test]
fn this_machine_can_be_read() {
    let sources = Sources::default();
    sources.load_thousandths().unwrap();
    assert!(sources.memory().unwrap().free_bytes > 0);
    assert!(sources.processors().unwrap().count > 0);
}
