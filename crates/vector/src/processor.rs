//! Whether this processor can run the code of this crate.

/// Why this processor cannot run any of it, as a clause for an operator's message; `None` if it
/// can.
///
/// Keys exist only if this is `None`. The operating system matters too: a feature counts only if
/// the kernel saves the registers it needs.
pub fn unsupported() -> Option<&'static str> {
    missing()
}

#[cfg(target_arch = "x86_64")]
fn missing() -> Option<&'static str> {
    use std::arch::is_x86_feature_detected;

    if !is_x86_feature_detected!("avx512f") {
        Some("the processor lacks AVX-512 (avx512f), or the kernel does not enable it")
    } else if !is_x86_feature_detected!("avx512ifma") {
        Some("the processor lacks AVX-512's integer multiply-and-add (avx512ifma)")
    } else {
        None
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn missing() -> Option<&'static str> {
    Some("the processor is not an x86-64")
}
