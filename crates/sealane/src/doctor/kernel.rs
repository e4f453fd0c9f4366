//! The running kernel: its module `tls`, its counters, its ciphers.

use super::report::{Installed, Kernel, Loadable, Module};
use sealane_sys::{process, sandbox};
use std::collections::BTreeMap;
use std::path::Path;

/// Algorithms of the kernel that kernel TLS uses.
const ALGORITHMS: [&str; 2] = ["gcm(aes)", "rfc7539(chacha20,poly1305)"];

/// Whether the module was loaded before anything was tried, which may load it.
pub(super) fn is_module_loaded() -> bool {
    // A built-in module has a directory only if it has parameters; `tls` has none.
    Path::new("/sys/module/tls").exists()
        || read("/proc/modules").is_some_and(|modules| lists_module(&modules))
}

/// Inspects the kernel, after all tests. `refused` is the result of
/// the attempt to load the module, if that was needed.
pub(super) fn examine(loaded_before: bool, refused: Loadable) -> Kernel {
    let (system, release) = process::machine().map_or_else(
        |_| ("Linux".to_owned(), String::new()),
        |machine| (machine.system, machine.release),
    );
    let installed = installed(&release);
    let tls_stat = read("/proc/net/tls_stat").map(|text| counters(&text));
    let here = |loaded: bool| loaded || installed == Installed::Builtin;
    let loaded = here(is_module_loaded());
    Kernel {
        module: Module {
            installed,
            loaded_before: here(loaded_before),
            loaded,
            loadable: if loaded { Loadable::Yes } else { refused },
        },
        landlock: sandbox::landlock_version().ok(),
        crypto: read("/proc/crypto").map_or_else(BTreeMap::new, |text| drivers(&text)),
        system,
        release,
        tls_stat,
    }
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    // Procfs and the lists of modules are ASCII; nothing else in them
    // matters here.
    let bytes = std::fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn installed(release: &str) -> Installed {
    let directory = Path::new("/lib/modules").join(release);
    if release.is_empty() || !directory.is_dir() {
        return Installed::Unknown;
    }
    let listed = |name: &str| path_of_tls(&read(directory.join(name))?).map(str::to_owned);
    if listed("modules.builtin").is_some() {
        return Installed::Builtin;
    }
    // The list may be older than the files.
    match listed("modules.dep") {
        Some(path) if directory.join(&path).exists() => Installed::File,
        _ => Installed::Missing,
    }
}

/// Whether a line of `/proc/modules` is about `tls`.
fn lists_module(modules: &str) -> bool {
    modules
        .lines()
        .any(|line| line.split(' ').next() == Some("tls"))
}

/// The path of `tls` in `modules.dep` or `modules.builtin`: the part before
/// the colon, compressed or not.
fn path_of_tls(list: &str) -> Option<&str> {
    let paths = list.lines().filter_map(|line| line.split(':').next());
    paths.map(str::trim).find(|path| {
        let name = path.rsplit('/').next().unwrap_or_default();
        name == "tls.ko" || name.starts_with("tls.ko.")
    })
}

/// Counters by name, as `/proc/net/tls_stat` has them.
fn counters(text: &str) -> BTreeMap<String, u64> {
    let counter = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
    };
    text.lines().filter_map(counter).collect()
}

/// The driver with the highest priority for each of [`ALGORITHMS`], from
/// `/proc/crypto`: blocks of `field : value`.
fn drivers(text: &str) -> BTreeMap<&'static str, String> {
    let mut best: BTreeMap<&'static str, (i64, String)> = BTreeMap::new();
    for block in text.split("\n\n") {
        let field = |wanted: &str| {
            block.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                (name.trim() == wanted).then(|| value.trim())
            })
        };
        let name = ALGORITHMS.iter().find(|name| field("name") == Some(name));
        let (Some(name), Some(driver)) = (name, field("driver")) else {
            continue;
        };
        let priority = field("priority")
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        let known = best.get(name);
        if known.is_none_or(|(other, _)| *other < priority) {
            best.insert(name, (priority, driver.to_owned()));
        }
    }
    let without_priority = |(name, (_, driver))| (name, driver);
    best.into_iter().map(without_priority).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_is_found_in_proc_modules() {
        let modules = "xt_tls 16384 0 - Live 0x0000000000000000\n\
                       tls 147456 2 bonding,mlx5_core, Live 0x0000000000000000\n";
        assert!(lists_module(modules));
        let (others, _) = modules.split_once('\n').unwrap();
        assert!(!lists_module(others), "another module's name ends with tls");
        assert!(!lists_module("mlx5 1 1 tls, Live 0x0\n"), "a user of tls");
        assert!(!lists_module(""));
    }

    #[test]
    fn the_module_is_found_in_the_lists_of_modules() {
        for (list, path) in [
            ("kernel/net/tls/tls.ko:\n", "kernel/net/tls/tls.ko"),
            (
                "kernel/a.ko: kernel/b.ko\nkernel/net/tls/tls.ko.xz: kernel/c.ko\n",
                "kernel/net/tls/tls.ko.xz",
            ),
            ("kernel/net/tls/tls.ko.zst:", "kernel/net/tls/tls.ko.zst"),
            ("kernel/net/tls/tls.ko\n", "kernel/net/tls/tls.ko"),
        ] {
            assert_eq!(path_of_tls(list), Some(path));
        }
        for list in [
            "kernel/drivers/x.ko: kernel/net/tls/tls.ko\n",
            "kernel/net/mptls.ko:\n",
            "kernel/net/tls/mytls.ko:\n",
            "",
        ] {
            assert_eq!(path_of_tls(list), None, "{list}");
        }
    }

    #[test]
    fn counters_are_read_by_name() {
        let text = "TlsCurrTxSw                     \t0\nTlsTxSw                         \t15\n\
                    TlsDecryptError                 \t0\n";
        let counters = counters(text);
        assert_eq!(counters.get("TlsTxSw"), Some(&15));
        assert_eq!(counters.len(), 3);
        assert!(super::counters("nonsense\n\nx y\n").is_empty());
    }

    #[test]
    fn the_driver_of_the_highest_priority_counts() {
        let text = "name         : gcm(aes)\ndriver       : gcm_base(ctr(aes-generic),ghash-generic)\n\
                    module       : gcm\npriority     : 100\nrefcnt       : 1\n\n\
                    name         : gcm(aes)\ndriver       : generic-gcm-aesni\nmodule       : aesni_intel\n\
                    priority     : 400\nrefcnt       : 1\n\n\
                    name         : __gcm(aes)\ndriver       : internal\npriority     : 900\n\n\
                    name         : sha256\ndriver       : sha256-ni\npriority     : 250\n";
        let found = drivers(text);
        let expected = BTreeMap::from([("gcm(aes)", "generic-gcm-aesni".to_owned())]);
        assert_eq!(found, expected);
        assert!(drivers("").is_empty());
    }

    #[test]
    fn this_kernel_has_a_name() {
        let kernel = examine(false, Loadable::No);
        let loadable = kernel.module.loadable;
        assert_eq!(loadable == Loadable::Yes, kernel.module.loaded);
        assert_eq!(kernel.system, "Linux");
        assert!(!kernel.release.is_empty());
        // Counters are the module's.
        assert!(kernel.module.loaded || kernel.tls_stat.is_none());
    }
}
