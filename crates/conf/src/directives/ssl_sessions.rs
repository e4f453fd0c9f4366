//! ngx_http_ssl_module, second part: resumption.

use super::{Arity, Check, HS, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault, shown};
use crate::draft::BuiltinCache;
use crate::values;

pub(super) const MODULE: Module = Module {
    title: "TLS: sessions",
    doc: "Resumption of TLS sessions, by tickets and by a cache.",
    rows: ROWS,
};

/// Smallest shared zone, as in nginx: eight memory pages.
const MIN_ZONE_BYTES: u64 = 8 * 4096;

const ROWS: &[Row] = &[
    Row::new(
        "ssl_session_timeout",
        HS,
        ONE,
        "5m",
        "How long a session can be resumed.",
        |b, c| c.seconds(&mut b.server().tls.session_timeout),
    ),
    Row::new(
        "ssl_session_tickets",
        HS,
        ONE,
        "on",
        "Whether sessions are resumed by tickets (RFC 5077, RFC 8446).",
        |b, c| c.flag(&mut b.server().tls.session_tickets),
    ),
    Row::new(
        "ssl_session_ticket_key",
        HS,
        ONE,
        "",
        "File of 48 or 80 bytes with a ticket key. With several, the first encrypts and all \
         decrypt. Without any, keys are made at random.",
        |b, c| {
            let path = b.options.beside_conf(c.path(1));
            b.server()
                .tls
                .session_ticket_keys
                .get_or_insert_default()
                .push(path);
            Ok(())
        },
    ),
    Row::new(
        "ssl_session_cache",
        HS,
        Arity::Between(1, 2),
        "none",
        "`off`, `none`, `builtin[:sessions]` or `shared:name:size`. Every cache is shared by all \
         worker threads; servers with the same zone name share one.",
        session_cache,
    ),
    Row::later(
        "ssl_early_data",
        HS,
        ONE,
        Check::Flag,
        "early data is refused, so that clients send it again after the handshake (1-RTT)",
    ),
];

fn session_cache(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    for (index, written) in c.args() {
        let invalid = || {
            Fault::at(
                index,
                format!("invalid session cache \"{}\"", shown(written)),
            )
        };
        let builtin = match written {
            b"off" => Some(BuiltinCache::Off),
            b"none" => Some(BuiltinCache::None),
            b"builtin" => Some(BuiltinCache::Entries(None)),
            _ => None,
        };
        if let Some(builtin) = builtin {
            b.server().tls.session_builtin = Some(builtin);
        } else if let Some(entries) = written.strip_prefix(b"builtin:") {
            let entries = values::number(entries).and_then(|entries| u32::try_from(entries).ok());
            let entries = entries.ok_or_else(invalid)?;
            b.server().tls.session_builtin = Some(BuiltinCache::Entries(Some(entries)));
        } else if let Some(zone) = written.strip_prefix(b"shared:") {
            let colon = memchr::memchr(b':', zone)
                .filter(|at| *at > 0)
                .ok_or_else(invalid)?;
            let name = c.utf8(index, &zone[..colon])?;
            let bytes = values::size(&zone[colon + 1..]).ok_or_else(invalid)?;
            if bytes < MIN_ZONE_BYTES {
                let message = format!("session cache \"{}\" is too small", shown(written));
                return Err(Fault::at(index, message));
            }
            shared_zone(b, index, name, bytes)?;
        } else {
            return Err(invalid());
        }
    }
    Ok(())
}

fn shared_zone(b: &mut Build<'_>, word: usize, name: &str, bytes: u64) -> Result<(), Fault> {
    let declared = *b.http.zones.entry(name.to_owned()).or_insert(bytes);
    if declared != bytes {
        return Err(Fault::at(
            word,
            format!(
                "the size {bytes} of shared memory zone \"{name}\" conflicts with already declared \
                 size {declared}"
            ),
        ));
    }
    b.server().tls.session_shared = Some((name.to_owned(), bytes));
    Ok(())
}
