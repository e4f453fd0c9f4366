//! The coverage-guided driver: libFuzzer around one target, which
//! `SEALANE_FUZZ_TARGET` names. `fuzz/run.sh` builds and starts it.
#![cfg_attr(feature = "libfuzzer", no_main)]

#[cfg(feature = "libfuzzer")]
mod driver {
    use sealane_fuzz::Target;
    use std::sync::LazyLock;

    static TARGET: LazyLock<Target> = LazyLock::new(|| {
        let name = std::env::var("SEALANE_FUZZ_TARGET").expect("run.sh sets SEALANE_FUZZ_TARGET");
        Target::named(&name).unwrap_or_else(|| panic!("there is no fuzz target {name:?}"))
    });

    libfuzzer_sys::fuzz_target!(|data: &[u8]| (TARGET.run)(data));
}

#[cfg(not(feature = "libfuzzer"))]
fn main() {
    for target in sealane_fuzz::TARGETS {
        println!("{}", target.name);
    }
}
