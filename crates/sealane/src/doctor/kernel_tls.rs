//! Kernel TLS as the self-test found it, and the findings for the report.

use super::report::{
    Answer, Finding, Installed, Interface, Kernel, KernelTls, Loadable, Suite, Switch,
};
use sealane_sys::ktls::{Cipher, Version};
use sealane_tls::{Capabilities, Unavailable};

/// The matrix of protocols and suites, the newest protocol first.
pub(super) fn matrix(capabilities: &Capabilities) -> KernelTls {
    let suites: Vec<Suite> = suites()
        .map(|(version, cipher)| Suite {
            protocol: version.name(),
            cipher: cipher.name(),
            transmit: answer(capabilities.transmit(version, cipher)),
            receive: answer(capabilities.receive(version, cipher)),
        })
        .collect();
    KernelTls {
        usable: suites.iter().any(|suite| suite.transmit.works),
        suites,
        rekey: answer(capabilities.rekey()),
    }
}

fn suites() -> impl Iterator<Item = (Version, Cipher)> {
    let versions = [Version::Tls13, Version::Tls12].into_iter();
    versions.flat_map(|version| Cipher::ALL.map(|cipher| (version, cipher)))
}

fn answer(outcome: Result<(), &Unavailable>) -> Answer {
    Answer {
        works: outcome.is_ok(),
        reason: outcome.err().map(Unavailable::name),
        detail: outcome.err().map(ToString::to_string),
    }
}

/// Whether the module could be loaded, given that it is not.
pub(super) fn loadable(capabilities: &Capabilities) -> Loadable {
    match capabilities.transmit(Version::Tls13, Cipher::Aes128Gcm) {
        Ok(()) => Loadable::Yes,
        Err(Unavailable::NoModule { may_load: false }) => Loadable::NeedsRoot,
        Err(Unavailable::Loopback(_) | Unavailable::NotProbed) => Loadable::Unknown,
        Err(_) => Loadable::No,
    }
}

/// What to improve, each cause once.
pub(super) fn problems(
    capabilities: &Capabilities,
    kernel: &Kernel,
    cpu_has_aes: bool,
) -> Vec<Finding> {
    let mut causes: Vec<&Unavailable> = Vec::new();
    for (version, cipher) in suites() {
        if let Err(cause) = capabilities.transmit(version, cipher)
            && !causes.contains(&cause)
        {
            causes.push(cause);
        }
    }
    if let Err(cause) = capabilities.rekey()
        && !matches!(cause, Unavailable::NoRekey { .. })
        && !causes.contains(&cause)
    {
        causes.push(cause);
    }
    let mut problems: Vec<Finding> = causes
        .into_iter()
        .map(|cause| Finding::new(cause.name(), cause.to_string(), remedy(cause, kernel)))
        .collect();
    let driver = kernel.crypto.get("gcm(aes)");
    if cpu_has_aes && driver.is_some_and(|driver| driver.contains("aes-generic")) {
        problems.push(Finding::new(
            "kernel_aes_in_software",
            "the kernel encrypts AES-GCM without the CPU's instructions for it",
            format!(
                "modprobe {AES_MODULE}; echo {AES_MODULE} >/etc/modules-load.d/{AES_MODULE}.conf"
            ),
        ));
    }
    problems
}

/// The module with the CPU's instructions for AES-GCM.
const AES_MODULE: &str = if cfg!(target_arch = "aarch64") {
    "ghash-ce"
} else {
    "aesni_intel"
};

/// The self-test's remedy, sharpened by where the module is.
fn remedy(cause: &Unavailable, kernel: &Kernel) -> Option<String> {
    let text = match (cause, kernel.module.installed) {
        (Unavailable::NoModule { .. }, Installed::Missing) => {
            "install the other modules of this kernel (Ubuntu: linux-modules-extra, Fedora: kernel-modules), \
             or run a kernel built with CONFIG_TLS; then: modprobe tls"
        }
        (Unavailable::NoModule { may_load: false }, Installed::File) => {
            "as root: modprobe tls; echo tls >/etc/modules-load.d/tls.conf; a server started by \
             root loads it automatically"
        }
        (Unavailable::NoModule { may_load: true }, Installed::File) => {
            "run \"modprobe tls\" to see why it cannot be loaded (a line in /etc/modprobe.d, or an \
             unsigned module)"
        }
        _ => return cause.remedy(),
    };
    Some(text.to_owned())
}

/// What to know.
pub(super) fn notes(
    capabilities: &Capabilities,
    kernel: &Kernel,
    interfaces: &[Interface],
) -> Vec<Finding> {
    let mut notes = Vec::new();
    if let Err(cause @ Unavailable::NoRekey { .. }) = capabilities.rekey() {
        notes.push(Finding::new(
            cause.name(),
            cause.to_string(),
            cause.remedy(),
        ));
    }
    if kernel.module.loaded && !kernel.module.loaded_before {
        notes.push(Finding::new(
            "module_loaded_now",
            "the module tls was not loaded; it is loaded now, until the next boot",
            "to have it at boot: echo tls >/etc/modules-load.d/tls.conf; a server started by root \
             loads it automatically"
                .to_owned(),
        ));
    }
    for interface in interfaces {
        if interface.transmit == Switch::Off {
            let name = &interface.name;
            notes.push(Finding::new(
                "device_offload_off",
                format!("{name} supports TLS encryption offload, but it is disabled"),
                format!("try and measure: ethtool -K {name} tls-hw-tx-offload on"),
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::super::report::Module;
    use super::*;
    use std::collections::BTreeMap;

    fn kernel(installed: Installed) -> Kernel {
        Kernel {
            system: "Linux".to_owned(),
            release: "6.1.0".to_owned(),
            module: Module {
                installed,
                loaded_before: false,
                loaded: false,
                loadable: Loadable::No,
            },
            landlock: None,
            tls_stat: None,
            crypto: BTreeMap::new(),
        }
    }

    fn without_module(may_load: bool) -> Capabilities {
        Capabilities::unavailable(Unavailable::NoModule { may_load })
    }

    #[test]
    fn one_cause_is_one_problem_with_the_remedy_for_this_machine() {
        for (may_load, installed, remedy) in [
            (false, Installed::File, "as root: modprobe tls; echo tls"),
            (true, Installed::File, "/etc/modprobe.d"),
            (true, Installed::Missing, "linux-modules-extra"),
            (false, Installed::Missing, "linux-modules-extra"),
            (true, Installed::Unknown, "in a container"),
        ] {
            let problems = problems(&without_module(may_load), &kernel(installed), true);
            let [problem] = problems.as_slice() else {
                panic!("one cause: {problems:?}");
            };
            assert_eq!(problem.id, "no_module");
            let advice = problem.remedy.as_deref().unwrap();
            assert!(advice.contains(remedy), "{advice}");
        }
    }

    #[test]
    fn who_may_load_the_module_is_told_from_whether_it_can_be() {
        let loopback = Unavailable::Loopback("99: gone".to_owned());
        for (capabilities, expected) in [
            (without_module(false), Loadable::NeedsRoot),
            (without_module(true), Loadable::No),
            (Capabilities::unavailable(loopback), Loadable::Unknown),
        ] {
            assert_eq!(loadable(&capabilities), expected);
        }
    }

    #[test]
    fn aes_in_software_is_a_problem_where_the_cpu_has_it() {
        let mut kernel = kernel(Installed::File);
        let driver = "gcm_base(ctr(aes-generic),ghash-generic)";
        kernel.crypto.insert("gcm(aes)", driver.to_owned());
        let count = |cpu_has_aes| problems(&without_module(false), &kernel, cpu_has_aes).len();
        assert_eq!((count(true), count(false)), (2, 1));
        kernel
            .crypto
            .insert("gcm(aes)", "generic-gcm-aesni".to_owned());
        assert_eq!(problems(&without_module(false), &kernel, true).len(), 1);
    }

    #[test]
    fn a_kernel_without_re_key_is_worth_a_note() {
        let old = Capabilities::unavailable(Unavailable::NoRekey { errno: 16 });
        let notes = notes(&old, &kernel(Installed::File), &[]);
        assert_eq!(notes[0].id, "no_rekey");
    }

    #[test]
    fn the_module_loaded_by_the_test_and_idle_devices_are_noted() {
        let mut kernel = kernel(Installed::File);
        kernel.module.loaded = true;
        let interface = |transmit| Interface {
            name: "eth0".to_owned(),
            transmit,
            receive: Switch::Absent,
            record: Switch::Absent,
        };
        let ids = |kernel: &Kernel, transmit| -> Vec<&str> {
            let notes = notes(&without_module(false), kernel, &[interface(transmit)]);
            notes.into_iter().map(|note| note.id).collect()
        };
        assert_eq!(
            ids(&kernel, Switch::Off),
            ["module_loaded_now", "device_offload_off"]
        );
        kernel.module.loaded_before = true;
        assert!(ids(&kernel, Switch::On).is_empty());
        assert!(ids(&kernel, Switch::Absent).is_empty());
    }

    #[test]
    fn the_matrix_has_every_suite_once() {
        let matrix = matrix(&without_module(false));
        assert!(!matrix.usable && matrix.suites.len() == 6);
        assert_eq!(matrix.suites[0].protocol, "TLSv1.3");
        assert!(matrix.suites.iter().all(|suite| {
            suite.transmit.reason == Some("no_module") && suite.transmit == suite.receive
        }));
    }
}
