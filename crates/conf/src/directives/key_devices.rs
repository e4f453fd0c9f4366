//! `ssl_accelerator` with a device, and keys that have a URI instead of a file.

use crate::build::Build;
use crate::call::{Call, Fault, shown};
use crate::model::{Accelerator, DeviceKind, KeyDevice, KeyFallback, without_query};
use crate::values;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Most `sessions=` of a token, which has a thread for each.
const MAX_SESSIONS: u64 = 256;
/// Most `threads=` of a provider.
const MAX_THREADS: u64 = 256;
/// Most `in_flight=` of a provider: each operation has a stack of 256 KiB.
const MAX_IN_FLIGHT: u64 = 10_000;

/// What `ssl_accelerator` says.
pub(super) fn accelerator(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.server().tls.accelerator)?;
    let first = c.arg(1);
    let provider = first.strip_prefix(b"provider:");
    let simple = match first.to_ascii_lowercase().as_slice() {
        b"auto" => Some(Accelerator::Auto),
        b"cpu" => Some(Accelerator::Cpu),
        b"batch" => Some(Accelerator::Batch),
        b"pkcs11" => None,
        _ if provider.is_some() => None,
        _ => {
            return Err(c.invalid(1).help(
                "it can be \"auto\", \"cpu\", \"batch\", \"pkcs11\" with parameters, or \
                 \"provider:NAME[,conf=FILE]\" with parameters",
            ));
        }
    };
    if let Some(simple) = simple {
        if c.count() > 1 {
            let help = "only \"pkcs11\" and \"provider:NAME\" have parameters";
            return Err(c.invalid_parameter(2).help(help));
        }
        b.server().tls.accelerator = Some(simple);
        return Ok(());
    }
    let mut device = match provider {
        Some(written) => KeyDevice::new(self::provider(b, c, written)?),
        None => KeyDevice::pkcs11(),
    };
    for (index, word) in c.args().skip(1) {
        parameter(b, c, &mut device, index, word)?;
    }
    b.server().tls.accelerator = Some(Accelerator::Device(Arc::new(device)));
    Ok(())
}

/// `NAME[,conf=FILE]`.
fn provider(b: &Build<'_>, c: &Call<'_>, written: &[u8]) -> Result<DeviceKind, Fault> {
    let text = c.utf8(1, written)?;
    let (name, conf) = match text.split_once(',') {
        None => (text, None),
        Some((name, rest)) => {
            let conf = rest.strip_prefix("conf=").filter(|conf| !conf.is_empty());
            let conf = conf.ok_or_else(|| {
                c.invalid(1)
                    .help("after the provider's name follows \",conf=FILE\"")
            })?;
            (name, Some(b.options.beside_conf(Path::new(conf))))
        }
    };
    if name.is_empty() {
        let help = "it is the name of a provider of OpenSSL, as \"provider:tpm2\"";
        return Err(c.invalid(1).help(help));
    }
    Ok(DeviceKind::Provider {
        name: name.to_owned(),
        conf,
        threads: 1,
        in_flight: 1000,
        verify_ecdsa: false,
    })
}

fn parameter(
    b: &Build<'_>,
    c: &Call<'_>,
    device: &mut KeyDevice,
    index: usize,
    word: &[u8],
) -> Result<(), Fault> {
    let end = memchr::memchr(b'=', word).map_or(word.len(), |at| at + 1);
    let (name, value) = word.split_at(end);
    let file = || -> Result<PathBuf, Fault> {
        match value.is_empty() {
            true => Err(c.invalid_parameter(index).help("name a file")),
            false => Ok(b.options.beside_conf(Path::new(c.utf8(index, value)?))),
        }
    };
    let count = |most: u64| {
        let number = values::number(value).filter(|number| (1..=most).contains(number));
        number
            .and_then(|number| u32::try_from(number).ok())
            .ok_or_else(|| {
                let range = format!("it is a number from 1 to {most}");
                c.invalid_parameter(index).help(range)
            })
    };
    let time = || {
        let time = values::time(value).filter(|time| *time > Duration::ZERO);
        let help = "it is a time of 1ms or more";
        time.ok_or_else(|| c.invalid_parameter(index).help(help))
    };
    match (name, &mut device.kind) {
        (b"module=", DeviceKind::Pkcs11 { module, .. }) => *module = Some(file()?),
        (b"sessions=", DeviceKind::Pkcs11 { sessions, .. }) => *sessions = count(MAX_SESSIONS)?,
        (b"threads=", DeviceKind::Provider { threads, .. }) => *threads = count(MAX_THREADS)?,
        (b"in_flight=", DeviceKind::Provider { in_flight, .. }) => {
            *in_flight = count(MAX_IN_FLIGHT)?;
        }
        (b"verify_ecdsa", DeviceKind::Provider { verify_ecdsa, .. }) => *verify_ecdsa = true,
        (b"timeout=", _) => device.timeout = time()?,
        (b"max_wait=", _) => device.max_wait = time()?,
        (b"fallback=", DeviceKind::Provider { .. }) if value == b"cpu" => {
            device.fallbacks.push(KeyFallback::OwnFile);
        }
        (b"fallback=", _) if value != b"cpu" => {
            device.fallbacks.push(KeyFallback::File(file()?));
        }
        (b"fallback=", _) => {
            return Err(c.invalid_parameter(index).help(
                "a key in a token has no file: name one that has the same key, \"fallback=FILE\"",
            ));
        }
        (_, DeviceKind::Pkcs11 { .. }) => {
            return Err(c.invalid_parameter(index).help(
                "it can be \"module=\", \"sessions=\", \"timeout=\", \"max_wait=\" or \"fallback=\"",
            ));
        }
        (_, DeviceKind::Provider { .. }) => {
            return Err(c.invalid_parameter(index).help(
                "it can be \"threads=\", \"in_flight=\", \"verify_ecdsa\", \"timeout=\", \
                 \"max_wait=\" or \"fallback=\"",
            ));
        }
    }
    Ok(())
}

/// Whether a key is named by a URI: `pkcs11:`, `store:` of OpenSSL's providers, `engine:`.
pub(crate) fn is_key_uri(written: &[u8]) -> bool {
    [&b"pkcs11:"[..], b"store:", b"engine:"]
        .iter()
        .any(|scheme| written.starts_with(scheme))
}

/// Why a key's URI cannot be used, as far as the configuration alone says it.
pub(super) fn check_key_uri(written: &str) -> Result<(), Fault> {
    let engine = written.strip_prefix("engine:");
    let engine = engine.map(|rest| rest.split(':').next().unwrap_or_default());
    if let Some(engine) = engine.filter(|engine| *engine != "pkcs11") {
        let message = format!(
            "cannot load certificate key \"{}\": ",
            shown(written.as_bytes())
        );
        return Err(Fault::at(
            1,
            format!("{message}OpenSSL's engine \"{engine}\" is not supported, no engine is"),
        )
        .help(
            "engines are gone from OpenSSL 4: use the device's PKCS #11 module (\"pkcs11:...\"), or \
             its provider (\"ssl_accelerator provider:NAME\" and \"store:...\")",
        )
        .not_yet());
    }
    if written.contains('$') {
        // What follows may be a PIN.
        let shown = without_query(written);
        let help = "a URI cannot contain variables; write \"%24\" for a dollar sign";
        return Err(Fault::at(1, format!("invalid value \"{shown}\"")).help(help));
    }
    Ok(())
}
