//! The processor's instructions for TLS.

use super::report::{Accelerators, Answer, Cpu, CpuFeature, Finding};
use sealane_sys::process;
use sealane_tls::accelerator::is_batch_possible;

/// Looks at the processor; the problem is one that costs a multiple.
pub(super) fn examine() -> (Cpu, Option<Finding>) {
    let features = features();
    let verdict = verdict(&features);
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let problem = match verdict {
        Verdict::Software => Some(Finding::new(
            "no_aes_instructions",
            "the CPU has no AES instructions: AES-GCM costs several times as much",
            "in a virtual machine, expose the host's CPU (QEMU: -cpu host); otherwise prefer \
             ChaCha20-Poly1305 (ssl_prefer_server_ciphers on; ssl_conf_command Options \
             PrioritizeChaCha)"
                .to_owned(),
        )),
        Verdict::Wide | Verdict::Hardware | Verdict::Unknown => None,
    };
    let cpu = Cpu {
        model: model(&text),
        available: process::available_cpus(),
        features,
        verdict: verdict.text(),
    };
    (cpu, problem)
}

/// What can compute with private keys besides AWS-LC.
pub(super) fn accelerators() -> Accelerators {
    let refused = is_batch_possible().err();
    Accelerators {
        batch: Answer {
            works: refused.is_none(),
            reason: refused.as_ref().map(|_| "processor"),
            detail: refused.map(|why| why.to_string()),
        },
    }
}

/// Whether the processor has instructions for AES-GCM.
pub(super) fn has_aes(cpu: &Cpu) -> bool {
    matches!(verdict(&cpu.features), Verdict::Wide | Verdict::Hardware)
}

/// How AES-GCM, which most bytes travel under, is calculated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Wide,
    Hardware,
    Software,
    Unknown,
}

impl Verdict {
    fn text(self) -> &'static str {
        match self {
            Verdict::Wide => "AES-GCM in hardware, several blocks at a time: fastest",
            Verdict::Hardware => "AES-GCM in hardware",
            Verdict::Software => "AES-GCM in software: slow",
            Verdict::Unknown => "unknown processor",
        }
    }
}

fn verdict(features: &[CpuFeature]) -> Verdict {
    let has = |name: &str| {
        let found = features.iter().find(|feature| feature.name == name);
        found.is_some_and(|feature| feature.present)
    };
    if features.is_empty() {
        Verdict::Unknown
    } else if has("AES-NI") && has("PCLMULQDQ") {
        if has("VAES") && has("VPCLMULQDQ") {
            Verdict::Wide
        } else {
            Verdict::Hardware
        }
    } else if has("AES") && has("PMULL") {
        Verdict::Hardware
    } else {
        Verdict::Software
    }
}

fn model(cpuinfo: &str) -> Option<String> {
    cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "model name").then(|| value.trim().to_owned())
    })
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn feature(name: &'static str, present: bool, used_for: &'static str) -> CpuFeature {
    CpuFeature {
        name,
        present,
        used_for,
    }
}

#[cfg(target_arch = "x86_64")]
fn features() -> Vec<CpuFeature> {
    use std::arch::is_x86_feature_detected as has;
    vec![
        feature("AES-NI", has!("aes"), "AES-GCM, AES-CBC, tickets"),
        feature("PCLMULQDQ", has!("pclmulqdq"), "authentication in AES-GCM"),
        feature("VAES", has!("vaes"), "AES-GCM, several blocks at a time"),
        feature(
            "VPCLMULQDQ",
            has!("vpclmulqdq"),
            "the same for its authentication",
        ),
        feature("AVX2", has!("avx2"), "ChaCha20-Poly1305, RSA"),
        feature(
            "AVX512F",
            has!("avx512f"),
            "AES-GCM and ChaCha20-Poly1305 in the widest registers",
        ),
        feature(
            "IFMA",
            has!("avx512ifma"),
            "RSA, also eight at a time (ssl_accelerator batch); ChaCha20-Poly1305",
        ),
        feature("SHA", has!("sha"), "SHA-256: handshakes, key derivation"),
        feature("ADX", has!("adx"), "RSA, P-256, P-384, X25519"),
        feature("BMI2", has!("bmi2"), "the same"),
    ]
}

#[cfg(target_arch = "aarch64")]
fn features() -> Vec<CpuFeature> {
    use std::arch::is_aarch64_feature_detected as has;
    vec![
        feature("AES", has!("aes"), "AES-GCM, AES-CBC, tickets"),
        feature("PMULL", has!("pmull"), "authentication in AES-GCM"),
        feature("NEON", has!("neon"), "ChaCha20-Poly1305"),
        feature("SHA2", has!("sha2"), "SHA-256: handshakes, key derivation"),
        feature(
            "SHA3",
            has!("sha3"),
            "AES-GCM with three-way exclusive or, ML-KEM",
        ),
    ]
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn features() -> Vec<CpuFeature> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(present: &[&'static str]) -> Vec<CpuFeature> {
        let mut all = vec!["AES-NI", "PCLMULQDQ", "VAES", "VPCLMULQDQ"];
        if present.contains(&"PMULL") {
            all = vec!["AES", "PMULL"];
        }
        all.into_iter()
            .map(|name| CpuFeature {
                name,
                present: present.contains(&name),
                used_for: "",
            })
            .collect()
    }

    #[test]
    fn both_halves_of_gcm_count() {
        for (present, expected) in [
            (&[][..], Verdict::Software),
            (&["AES-NI"], Verdict::Software),
            (&["PCLMULQDQ"], Verdict::Software),
            (&["AES-NI", "PCLMULQDQ"], Verdict::Hardware),
            (&["AES-NI", "PCLMULQDQ", "VAES"], Verdict::Hardware),
            (
                &["AES-NI", "PCLMULQDQ", "VAES", "VPCLMULQDQ"],
                Verdict::Wide,
            ),
            (&["AES", "PMULL"], Verdict::Hardware),
        ] {
            assert_eq!(verdict(&with(present)), expected, "{present:?}");
        }
        assert_eq!(verdict(&[]), Verdict::Unknown);
    }

    #[test]
    fn the_model_is_the_first_cpu_s() {
        let cpuinfo =
            "processor\t: 0\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n\nmodel name\t: other\n";
        assert_eq!(model(cpuinfo), Some("AMD EPYC".to_owned()));
        assert_eq!(model("processor\t: 0\nBogoMIPS\t: 50.00\n"), None);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn features_agree_with_the_kernel_s_list() {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let flags = cpuinfo
            .lines()
            .find(|line| line.starts_with("flags"))
            .unwrap();
        let flags: Vec<&str> = flags.split_whitespace().collect();
        for (name, flag) in [
            ("AES-NI", "aes"),
            ("PCLMULQDQ", "pclmulqdq"),
            ("VAES", "vaes"),
            ("AVX2", "avx2"),
            ("AVX512F", "avx512f"),
            ("IFMA", "avx512ifma"),
            ("SHA", "sha_ni"),
            ("ADX", "adx"),
        ] {
            let features = features();
            let found = features
                .iter()
                .find(|feature| feature.name == name)
                .unwrap();
            assert_eq!(found.present, flags.contains(&flag), "{name}");
        }
    }
}
