//! Devices that compute with private keys (`ssl_accelerator`), as this worker process sees them.

use super::Families;
use super::families::{Label, Row};
use crate::worker::Process;
use sealane_keys::KeyClient;
use std::sync::Arc;

const ROWS: &[Row<KeyClient>] = &[
    Row::gauge(
        "key_device_up",
        "Whether the device's process runs and the last operation of this worker did not fail",
        |device| Some(u64::from(device.is_up())),
    ),
    Row::gauge(
        "key_device_operations_queued",
        "Private-key operations that wait for the device or are under way in it",
        |device| Some(device.pending() as u64),
    ),
    Row::times(
        "key_device_operation",
        "How long private-key operations in the device took, waiting included",
        |device| device.stats().times(),
    ),
    Row::counter(
        "key_device_operations_failed",
        "Private-key operations that the device did not do",
        |device| device.stats().failed(),
    ),
    Row::counter(
        "key_device_operations_refused",
        "Private-key operations that were refused because an older one waited for too long",
        |device| device.stats().refused.get(),
    ),
    Row::counter(
        "key_device_fallbacks",
        "Private-key operations that the processor did in the device's place",
        |device| device.stats().fallbacks.get(),
    ),
];

pub(super) fn collect(families: &mut Families<'_>, process: &Process) {
    let devices = process.keys.get().map(|keys| keys.devices());
    let devices = devices.unwrap_or_default();
    families.table(ROWS, &["device"], &devices, |device: &Arc<KeyClient>| {
        let name = Label::Shared(Arc::clone(device.name()));
        (vec![name].into(), device)
    });
}
