//! The description of the machine in reports.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::testbed::kernel_tls;

/// Processor, memory and kernel, without anything that identifies the machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// The model, and its class: libraries have other code for each, so that their figures cannot
    /// be compared.
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    /// The features among [`FEATURES`] that the processor has.
    pub(crate) features: Vec<String>,
    /// Whether the processor says that it is a virtual machine's.
    pub(crate) is_virtual: bool,
    pub(crate) memory_mib: u64,
    /// Whether the kernel can seal TLS records.
    pub(crate) has_kernel_tls: bool,
}

/// Features that cryptography depends on, as Linux names them on x86 and on Arm.
const FEATURES: [&str; 15] = [
    "aes",
    "pclmulqdq",
    "sha_ni",
    "avx2",
    "bmi2",
    "adx",
    "vaes",
    "vpclmulqdq",
    "avx512f",
    "avx512ifma",
    "pmull",
    "sha1",
    "sha2",
    "sha3",
    "sha512",
];

impl Machine {
    pub(crate) fn here() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| field(&cpuinfo, name);
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let cpu = field("model name").unwrap_or_else(|| "unknown CPU".into());
        let flags = field("flags").or_else(|| field("Features"));
        let flags = flags.unwrap_or_default();
        Self {
            cpu: format!("{cpu} ({})", class(&flags)),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            // Only the version: a suffix added by a provider may identify its machines.
            kernel: kernel
                .trim()
                .split('-')
                .next()
                .unwrap_or_default()
                .to_owned(),
            features: FEATURES
                .into_iter()
                .filter(|feature| has(&flags, feature))
                .map(str::to_owned)
                .collect(),
            is_virtual: has(&flags, "hypervisor"),
            memory_mib: memory_mib(&memory),
            has_kernel_tls: kernel_tls::sealed_connections().is_some(),
        }
    }
}

/// The value of the first line of /proc/cpuinfo that starts with `name`.
fn field(cpuinfo: &str, name: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
    let (_, value) = line.split_once(':')?;
    Some(value.trim().to_owned())
}

fn has(flags: &str, wanted: &str) -> bool {
    flags.split_ascii_whitespace().any(|flag| flag == wanted)
}

/// `MemTotal` of /proc/meminfo, which is in KiB; 0 if it is missing.
fn memory_mib(meminfo: &str) -> u64 {
    let kib = field(meminfo, "MemTotal").and_then(|value| {
        let number = value.split_ascii_whitespace().next()?;
        number.parse::<u64>().ok()
    });
    kib.unwrap_or(0) / 1024
}

/// The class of a processor with these flags: whether RSA and ChaCha20 have 512-bit code.
fn class(flags: &str) -> &'static str {
    match has(flags, "avx512f") && has(flags, "avx512ifma") {
        true => "with AVX-512 IFMA",
        false => "without AVX-512 IFMA",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_of_a_processor_is_told() {
        assert_eq!(class("fpu avx2 avx512f avx512ifma"), "with AVX-512 IFMA");
        for flags in ["", "fpu avx2", "avx512f", "avx512ifma_not"] {
            assert_eq!(class(flags), "without AVX-512 IFMA", "{flags}");
        }
        assert!(Machine::here().cpu.contains("AVX-512 IFMA"));
    }

    #[test]
    fn memory_is_read_in_mebibytes() {
        assert_eq!(
            memory_mib("MemTotal:       16384000 kB\nMemFree: 1 kB\n"),
            16_000
        );
        assert_eq!(memory_mib(""), 0);
        assert!(Machine::here().memory_mib > 0);
    }
}
