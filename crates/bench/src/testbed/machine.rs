//! The description of the machine in reports.

use std::fs;

use serde::Serialize;

/// Processor and kernel, without anything that identifies the machine.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    /// The model, and its class: libraries have other code for each, so that their figures cannot
    /// be compared.
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
}

impl Machine {
    pub(crate) fn here() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            cpuinfo
                .lines()
                .find(|line| line.starts_with(name))
                .and_then(|line| line.split_once(':'))
                .map(|(_, value)| value.trim().to_owned())
        };
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let cpu = field("model name").unwrap_or_else(|| "unknown CPU".into());
        Self {
            cpu: format!("{cpu} ({})", class(&field("flags").unwrap_or_default())),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            // Only the version: a suffix added by a provider may identify its machines.
            kernel: kernel
                .trim()
                .split('-')
                .next()
                .unwrap_or_default()
                .to_owned(),
        }
    }
}

/// The class of a processor with these flags: whether RSA and ChaCha20 have 512-bit code.
fn class(flags: &str) -> &'static str {
    let has = |wanted: &str| flags.split_ascii_whitespace().any(|flag| flag == wanted);
    match has("avx512f") && has("avx512ifma") {
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
}
