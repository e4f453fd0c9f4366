//! Where and when handshakes are worked on: `ssl_async` and what belongs to it.

use super::{HS, HTTP, Module, ONE, Row};
use crate::call::{Call, Fault};
use crate::model::{Accelerator, AsyncMode};
use crate::values;
use std::time::Duration;

pub(super) const MODULE: Module = Module {
    title: "TLS: handshakes",
    doc: "How many handshakes there may be at a time, and who computes for them.",
    rows: ROWS,
};

/// Most `ssl_async_threads`: more threads than CPUs compute no faster.
const MAX_ASYNC_THREADS: u32 = 1024;

const ROWS: &[Row] = &[
    Row::new(
        "ssl_async",
        HS,
        ONE,
        "auto",
        "Whether the part of a handshake that needs the private key is done by handshake threads, so \
         that the worker goes on serving meanwhile. `on`: always; `off`: never; `auto`: where it \
         pays, by the kind of key and by what else the worker has to do. In any case handshakes \
         that stay on a worker take turns with established connections, which come first.",
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
        HTTP,
        ONE,
        "auto",
        "Number of handshake threads of the process; with `0` there are none, whatever `ssl_async` \
         says. `auto`: one for each CPU that the process may use. They let workers go first, also \
         where there is only one CPU.",
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
        HS,
        ONE,
        "auto",
        "What computes with the private key. `cpu`: AWS-LC, one operation at a time. `batch`: \
         operations of one RSA key that wait at the same time are computed eight at a time with \
         AVX-512 IFMA, which costs a quarter each; an error where the processor does not have it, and a \
         warning for certificates with other keys, which get `cpu`. `auto`: `batch` where that is \
         possible, else `cpu`. `sealane doctor` says what each certificate gets.",
        |b, c| {
            let choices = [
                ("auto", Accelerator::Auto),
                ("cpu", Accelerator::Cpu),
                ("batch", Accelerator::Batch),
            ];
            c.choice(&mut b.server().tls.accelerator, &choices)
        },
    )
    .own(),
    Row::new(
        "ssl_handshake_queue",
        HTTP,
        ONE,
        "auto",
        "Handshakes that may wait on each worker thread, for their turn, a handshake thread or an \
         accelerator. One more is refused before any work is done for it: the client gets a fatal \
         alert, and the error log says once a minute how many there were. `auto`: seven eighths of \
         `worker_connections`.",
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
        "How long a connection may take from accept to the end of its handshake, waiting for a turn \
         included; `client_header_timeout` limits it too. The default server of the address decides, \
         as the client has not named another yet.",
        |b, c| {
            c.time(&mut b.server().tls.handshake_timeout)?;
            match b.server().tls.handshake_timeout {
                Some(Duration::ZERO) => Err(c.refuse_arg(1, "value must be greater than 0")),
                _ => Ok(()),
            }
        },
    )
    .own(),
];

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
