//! The kernel of the guest: its version, modules and counters.

use crate::program::run;
use std::path::{Path, PathBuf};

/// `/proc/net/tls_stat`; zeroes while the module is not loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsCounters {
    /// Connections that ever gave the kernel a key to send with.
    pub(crate) sent: u64,
    /// Those that are open now.
    pub(crate) open: u64,
    /// Keys that were changed.
    pub(crate) rekeyed: u64,
    /// Connections that ever gave the kernel a key to receive with.
    pub(crate) received: u64,
}

impl TlsCounters {
    pub(crate) fn read() -> TlsCounters {
        let text = std::fs::read_to_string("/proc/net/tls_stat").unwrap_or_default();
        let value = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
                .unwrap_or(0)
        };
        TlsCounters {
            sent: value("TlsTxSw ") + value("TlsTxDevice "),
            open: value("TlsCurrTxSw ") + value("TlsCurrTxDevice "),
            rekeyed: value("TlsTxRekeyOk "),
            received: value("TlsRxSw ") + value("TlsRxDevice "),
        }
    }
}

/// `uname -r`.
pub(crate) fn release() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    text.expect("proc is mounted").trim().to_owned()
}

/// Whether a second `TLS_TX` changes the key: Linux 6.14 and later.
pub(crate) fn can_rekey() -> bool {
    sealane_vm::kernels::version(&release()) >= (6, 14)
}

pub(crate) fn is_loaded(module: &str) -> bool {
    Path::new("/sys/module").join(module).exists()
}

/// Module files that are out of the kernel's reach; dropping this puts them back.
pub(crate) struct Hidden(Vec<(PathBuf, PathBuf)>);

/// Hides the files of modules, by the beginning of their names.
#[track_caller]
pub(crate) fn hide_modules(names: &[&str]) -> Hidden {
    let root = PathBuf::from("/lib/modules").join(release());
    let listed = std::fs::read_to_string(root.join("modules.dep")).expect("the image has it");
    let mut hidden = Vec::new();
    for line in listed.lines() {
        let module = root.join(line.split(':').next().unwrap_or_default());
        let name = module
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if module.exists() && names.iter().any(|hidden| name.starts_with(hidden)) {
            let away = module.with_extension("hidden");
            std::fs::rename(&module, &away).expect("the file system is ours");
            hidden.push((module, away));
        }
    }
    assert!(
        !hidden.is_empty(),
        "{} has none of {names:?}",
        root.display()
    );
    Hidden(hidden)
}

impl Drop for Hidden {
    fn drop(&mut self) {
        for (module, away) in &self.0 {
            std::fs::rename(away, module).expect("the file system is ours");
        }
    }
}

/// Limits the buffers of new sockets, so that a sender soon has to wait.
/// Dropping this restores what was.
pub(crate) struct SmallBuffers(Vec<(&'static str, String)>);

pub(crate) fn small_buffers() -> SmallBuffers {
    let files = ["/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/net/ipv4/tcp_wmem"];
    let before = files.map(|file| {
        let value = std::fs::read_to_string(file).expect("proc is mounted");
        std::fs::write(file, "4096 16384 32768").expect("we are root");
        (file, value)
    });
    SmallBuffers(before.to_vec())
}

impl Drop for SmallBuffers {
    fn drop(&mut self) {
        for (file, value) in &self.0 {
            std::fs::write(file, value).expect("we are root");
        }
    }
}

/// Mounts a file system that disks have, on a disk in memory, at `/data`.
#[track_caller]
pub(crate) fn mount_disk(mebibytes: u32) {
    let kibibytes = (mebibytes * 1024).to_string();
    run(
        "/bin/modprobe",
        &["brd", "rd_nr=1", &format!("rd_size={kibibytes}")],
        b"",
    )
    .success();
    run(
        "mke2fs",
        &[
            "-q",
            "-F",
            "-t",
            "ext4",
            "-m",
            "0",
            "-O",
            "^has_journal",
            "/dev/ram0",
        ],
        b"",
    )
    .success();
    run(
        "busybox",
        &["mount", "-t", "ext4", "/dev/ram0", "/data"],
        b"",
    )
    .success();
}
