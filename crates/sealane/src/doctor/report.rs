//! What the doctor found, as data: the text and `--json` show the same.
//!
//! The field names are the stable schema that `docs/doctor.md` describes. Fields
//! may be added; a change of what one means raises [`SCHEMA`].

use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Version of the JSON schema.
pub(super) const SCHEMA: u32 = 1;

/// Everything.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) schema: u32,
    /// `sealane/0.1.0`.
    pub(super) version: &'static str,
    /// Whether there is nothing to improve.
    pub(super) good: bool,
    /// One sentence.
    pub(super) verdict: String,
    /// What to improve.
    pub(super) problems: Vec<Finding>,
    /// What to know.
    pub(super) notes: Vec<Finding>,
    pub(super) kernel: Kernel,
    pub(super) kernel_tls: KernelTls,
    pub(super) interfaces: Vec<Interface>,
    /// Name and version.
    pub(super) tls_library: &'static str,
    pub(super) cpu: Cpu,
    pub(super) accelerators: Accelerators,
    pub(super) limits: Limits,
    /// Of `-c`.
    pub(super) configuration: Option<Configuration>,
}

/// Something to improve or to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// One word for scripts.
    pub(super) id: &'static str,
    pub(super) what: String,
    /// What to do, where something can be done.
    pub(super) remedy: Option<String>,
}

impl Finding {
    pub(super) fn new(
        id: &'static str,
        what: impl Into<String>,
        remedy: impl Into<Option<String>>,
    ) -> Finding {
        Finding {
            id,
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}

/// The running kernel.
#[derive(Debug, Serialize)]
pub(super) struct Kernel {
    pub(super) system: String,
    pub(super) release: String,
    pub(super) module: Module,
    /// Version of Landlock, which confines workers (`worker_landlock`).
    pub(super) landlock: Option<u32>,
    /// `/proc/net/tls_stat`: counters by name, once the module is loaded.
    pub(super) tls_stat: Option<BTreeMap<String, u64>>,
    /// What encrypts in the kernel, by the kernel's name of the algorithm.
    pub(super) crypto: BTreeMap<&'static str, String>,
}

/// The module `tls`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Module {
    pub(super) installed: Installed,
    /// Whether it was loaded when the doctor came.
    pub(super) loaded_before: bool,
    /// Whether it is loaded now, after it was needed.
    pub(super) loaded: bool,
    /// Whether it can be loaded, found out by trying.
    pub(super) loadable: Loadable,
}

/// Whether a process can have the module loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Loadable {
    /// It is loaded.
    Yes,
    /// This process may not have it loaded; root may try.
    NeedsRoot,
    /// It was tried in vain.
    No,
    /// It could not be tried: there is no loopback.
    Unknown,
}

/// Whether a kernel has the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Installed {
    /// Part of the kernel itself.
    Builtin,
    /// A file below `/lib/modules`.
    File,
    /// `/lib/modules` of this kernel is there, and the module is not.
    Missing,
    /// There is no `/lib/modules` of this kernel, as in a container.
    Unknown,
}

/// What the kernel can do, found out by trying.
#[derive(Debug, Serialize)]
pub(super) struct KernelTls {
    /// Whether any suite can be sent.
    pub(super) usable: bool,
    pub(super) suites: Vec<Suite>,
    /// Changing the key of a TLS 1.3 connection.
    pub(super) rekey: Answer,
}

/// One suite.
#[derive(Debug, Serialize)]
pub(super) struct Suite {
    pub(super) protocol: &'static str,
    pub(super) cipher: &'static str,
    pub(super) transmit: Answer,
    pub(super) receive: Answer,
}

/// Whether something works, and why not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Answer {
    pub(super) works: bool,
    /// In one word.
    pub(super) reason: Option<&'static str>,
    /// In one sentence.
    pub(super) detail: Option<String>,
}

/// A network interface.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Interface {
    pub(super) name: String,
    /// `tls-hw-tx-offload`.
    pub(super) transmit: Switch,
    /// `tls-hw-rx-offload`.
    pub(super) receive: Switch,
    /// `tls-hw-record`.
    pub(super) record: Switch,
}

/// A feature of an interface, as `ethtool -k` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Switch {
    /// `on`.
    On,
    /// `off`, and can be switched on.
    Off,
    /// `off [fixed]`, or unknown to the kernel.
    Absent,
}

/// The processor.
#[derive(Debug, Serialize)]
pub(super) struct Cpu {
    /// `model name` of `/proc/cpuinfo`, where there is one.
    pub(super) model: Option<String>,
    /// CPUs that this process may use.
    pub(super) available: usize,
    pub(super) features: Vec<CpuFeature>,
    pub(super) verdict: &'static str,
}

/// An instruction set extension that TLS uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct CpuFeature {
    pub(super) name: &'static str,
    pub(super) present: bool,
    /// What for.
    pub(super) used_for: &'static str,
}

/// What can compute with private keys here besides `cpu`.
#[derive(Debug, Serialize)]
pub(super) struct Accelerators {
    /// `ssl_accelerator batch`.
    pub(super) batch: Answer,
}

/// Descriptor limits. `null` is unlimited or unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Limits {
    /// `RLIMIT_NOFILE` of this process.
    pub(super) soft: Option<u64>,
    /// What it may be raised to.
    pub(super) hard: Option<u64>,
    /// `fs.nr_open`: the most that a hard limit may be.
    pub(super) nr_open: Option<u64>,
    /// `fs.file-max`: the most of the whole machine.
    pub(super) file_max: Option<u64>,
    /// What the configuration needs.
    pub(super) needed: Option<u64>,
    /// What the server would have with this configuration.
    pub(super) granted: Option<u64>,
}

/// What a configuration makes of it.
#[derive(Debug, Serialize)]
pub(super) struct Configuration {
    pub(super) file: PathBuf,
    /// Worker threads.
    pub(super) workers: u32,
    /// `worker_connections`, of each.
    pub(super) worker_connections: u32,
    /// Handshake threads (`ssl_async_threads`).
    pub(super) handshake_threads: usize,
    /// Servers with TLS.
    pub(super) servers: Vec<Server>,
    /// The private keys of their certificates, each once.
    pub(super) keys: Vec<TestedKey>,
}

/// What a private key has done when it was tested.
#[derive(Debug, Serialize)]
pub(super) struct TestedKey {
    /// Its file, or its URI without the query.
    pub(super) name: String,
    /// The device that computes with it, as in `ssl_accelerator`.
    pub(super) device: Option<String>,
    /// `rsa2048`, `p256` and so on; `None` if it cannot be used.
    pub(super) key: Option<&'static str>,
    pub(super) signatures_per_second: Option<f64>,
    /// Why it cannot be used.
    pub(super) problem: Option<String>,
}

/// A server with TLS.
#[derive(Debug, Serialize)]
pub(super) struct Server {
    /// Its first name; empty when it has none.
    pub(super) name: String,
    /// Addresses with `ssl`.
    pub(super) listen: Vec<String>,
    /// `starttls` of a server of `mail`: `off`, `on`, `only`.
    pub(super) starttls: &'static str,
    /// Addresses at which TLS begins by STARTTLS or STLS.
    pub(super) starttls_listen: Vec<String>,
    /// Addresses with `quic`.
    pub(super) quic_listen: Vec<String>,
    /// File and line of the block.
    pub(super) place: String,
    /// `ssl_ktls` in force: `on`, `auto`, `off`.
    pub(super) ssl_ktls: &'static str,
    pub(super) kernel_tls: Use,
    /// In one sentence: how, or why not.
    pub(super) detail: String,
    pub(super) sendfile: Sendfile,
    /// Suites that the kernel would seal, by OpenSSL's names.
    pub(super) in_kernel: Vec<&'static str>,
    /// Suites that stay in user space.
    pub(super) in_user_space: Vec<&'static str>,
    /// `ssl_async` in force: `on`, `off`, `auto`.
    pub(super) ssl_async: &'static str,
    /// What computes with the private key of each certificate.
    pub(super) accelerators: Vec<KeyAccelerator>,
    pub(super) certificates: Vec<Certificate>,
}

/// A certificate that a server sends.
#[derive(Debug, Serialize)]
pub(super) struct Certificate {
    /// Its file.
    pub(super) file: String,
    /// `rsa2048`, `p256` and so on.
    pub(super) key: &'static str,
    /// Whole days until it ends; negative once it has.
    pub(super) days_left: Option<i64>,
    /// Whom staples come from, or `ssl_stapling_file`.
    pub(super) staples: Option<String>,
    /// Of one from an ACME server: what became of the last attempt to renew it.
    pub(super) last_attempt: Option<String>,
}

/// A private key and what computes with it.
#[derive(Debug, Serialize)]
pub(super) struct KeyAccelerator {
    /// `rsa2048`, `p256` and so on, as in the metrics.
    pub(super) key: &'static str,
    /// `cpu` or `batch`.
    pub(super) accelerator: &'static str,
}

/// Whether a server will use kernel TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Use {
    /// With every suite that a kernel can have.
    Yes,
    /// With some.
    Partly,
    /// It wants to, and cannot.
    No,
    /// It is switched off.
    Off,
}

/// `sendfile` in a server and its locations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sendfile {
    /// Everywhere.
    On,
    /// In some locations.
    Partly,
    /// Nowhere.
    Off,
}
