//! Where and when handshakes are processed: `ssl_async` and related directives.

use super::{
    Arity, HS, HS_STREAM_MAIL, HTTP, MAIL, Module, ONE, Row, STREAM, STREAM_LEVELS, key_devices,
};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::AsyncMode;
use crate::values;
use std::time::Duration;

pub(super) const MODULE: Module = Module {
    title: "TLS: handshakes",
    doc: "Limits on handshakes, and where their private key operations run.",
    rows: ROWS,
};

/// Most `ssl_async_threads`: more threads than CPUs compute no faster.
const MAX_ASYNC_THREADS: u32 = 1024;

const ROWS: &[Row] = &[
    Row::new(
        "ssl_async",
        HS_STREAM_MAIL,
        ONE,
        "auto",
        "Whether private key operations run on handshake threads, so that the worker thread can \
         serve other connections meanwhile. `on`: always; `off`: never; `auto`: where it pays \
         off, depending on the key type and the load of the worker thread. In all modes, \
         handshakes on a worker thread alternate with established connections, which have \
         priority.",
        |b, c| {
            let modes = [
                ("on", AsyncMode::On),
                ("off", AsyncMode::Off),
                ("auto", AsyncMode::Auto),
            ];
            c.choice(&mut b.server().tls.async_mode, &modes)
        },
    )
    .own(),
    Row::new(
        "ssl_async_threads",
        HTTP | STREAM | MAIL,
        ONE,
        "auto",
        "Number of handshake threads of the process; `0` disables them, whatever `ssl_async` says. \
         `auto`: one per CPU that the process may use. Worker threads have priority over them, \
         even on a single CPU.",
        |b, c| {
            c.once(&b.server().tls.async_threads)?;
            b.server().tls.async_threads = Some(match c.arg(1) {
                b"auto" => None,
                _ => Some(count(c, 0, MAX_ASYNC_THREADS)?),
            });
            Ok(())
        },
    )
    .own(),
    Row::new(
        "ssl_accelerator",
        HS_STREAM_MAIL,
        Arity::Between(1, 16),
        "auto",
        "What performs private key operations. `cpu`: AWS-LC, one operation at a time. `batch`: up \
         to eight pending operations of one RSA key are computed together with AVX-512 IFMA, at a \
         quarter of the cost each; it is an error if the processor lacks AVX-512 IFMA, and \
         certificates with other keys give a warning and use `cpu`. `auto`: `batch` where \
         possible, otherwise `cpu`. `pkcs11`: settings for keys that `ssl_certificate_key` names by \
         a URI; others are as with `auto`. `module=FILE`: the module where the URI names none; \
         `sessions=` (4). `provider:NAME[,conf=FILE]`: a provider of OpenSSL computes, with keys in \
         files and with those that `store:` names; `threads=` (1), `in_flight=` (1000), \
         `verify_ecdsa`. Both: `timeout=` (5s) of an operation; `max_wait=` (2s): while an \
         operation has waited for longer, handshakes that need the device are refused; \
         `fallback=FILE`: the same key in a file, for operations that the device does not do, \
         `fallback=cpu` for a provider with the key's own file. See [PKCS #11](pkcs11.md) and \
         [providers](openssl-providers.md). `sealane doctor` shows what each certificate uses.",
        key_devices::accelerator,
    )
    .own(),
    Row::new(
        "ssl_handshake_queue",
        HTTP | STREAM | MAIL,
        ONE,
        "auto",
        "Maximum number of handshakes that wait on each worker thread for their turn, for a \
         handshake thread or for an accelerator. Further handshakes are rejected before any work \
         is done for them: the client gets a fatal alert, and the error log shows their number \
         once a minute. `auto`: seven eighths of `worker_connections`.",
        |b, c| {
            c.once(&b.server().tls.handshake_queue)?;
            b.server().tls.handshake_queue = Some(match c.arg(1) {
                b"auto" => None,
                _ => Some(count(c, 1, u32::MAX)?),
            });
            Ok(())
        },
    )
    .own(),
    Row::new(
        "ssl_handshake_timeout",
        HS,
        ONE,
        "60s",
        "Timeout from accepting a connection to the end of its handshake, including the time in \
         the queue; `client_header_timeout` applies too. The value comes from the default server \
         of the address, because the client has not sent a server name yet.",
        handshake_timeout,
    )
    .own(),
    // That of nginx.
    Row::new(
        "ssl_handshake_timeout",
        STREAM_LEVELS,
        ONE,
        "60s",
        "Timeout of the TLS handshake. The value comes from the default server of the address.",
        handshake_timeout,
    ),
];

fn handshake_timeout(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.time(&mut b.server().tls.handshake_timeout)?;
    match b.server().tls.handshake_timeout {
        Some(Duration::ZERO) => Err(c.refuse_arg(1, "value must be greater than 0")),
        _ => Ok(()),
    }
}

/// The argument as a number from `least` to `most`.
fn count(c: &Call<'_>, least: u32, most: u32) -> Result<u32, Fault> {
    let number = values::number(c.arg(1)).ok_or_else(|| {
        c.refuse_arg(1, "invalid number")
            .help("it can be a number or \"auto\"")
    })?;
    u32::try_from(number)
        .ok()
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| Fault::at(1, format!("value must be between {least} and {most}")))
}
