//! ngx_http_ssl_module, second part: resumption.

use super::{
    Arity, HS, HS_STREAM_MAIL, HTTP, MAIL, Module, ONE, Row, STREAM, session_store, zones,
};
use crate::build::Build;
use crate::call::{Call, Fault, shown};
use crate::draft::{BuiltinCache, ZoneUse};
use crate::model::MIN_TICKET_ROTATION;
use crate::values;

pub(super) const MODULE: Module = Module {
    title: "TLS: sessions",
    doc: "Session resumption with tickets and with a cache.",
    rows: ROWS,
};

/// Smallest shared zone, as in nginx: eight memory pages.
pub(super) const MIN_ZONE_BYTES: u64 = 8 * 4096;

/// Smallest `ssl_early_data_register_size`, in bytes.
const MIN_REGISTER_BYTES: u64 = 64 << 10;

/// Methods that `ssl_early_data_methods` may name.
const MAX_EARLY_DATA_METHODS: usize = 32;

const ROWS: &[Row] = &[
    Row::new(
        "ssl_session_timeout",
        HS_STREAM_MAIL,
        ONE,
        "5m",
        "Time during which a session can be resumed.",
        |b, c| c.seconds(&mut b.server().tls.session_timeout),
    ),
    Row::new(
        "ssl_session_tickets",
        HS_STREAM_MAIL,
        ONE,
        "on",
        "Whether sessions can be resumed with tickets (RFC 5077, RFC 8446).",
        |b, c| c.flag(&mut b.server().tls.session_tickets),
    ),
    Row::new(
        "ssl_session_ticket_key",
        HS_STREAM_MAIL,
        ONE,
        "",
        "File of 48 or 80 bytes with a ticket key. If several are given, the first encrypts \
         tickets and all decrypt them. Without the directive, keys are generated randomly.",
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
        HS_STREAM_MAIL,
        Arity::Between(1, 2),
        "none",
        "`off`, `none`, `builtin[:sessions]` or `shared:name:size`. All worker threads share every \
         cache; servers with the same zone name share one cache.",
        session_cache,
    ),
    Row::new(
        "ssl_session_ticket_rotation",
        HS_STREAM_MAIL,
        ONE,
        "",
        "Time for which a generated ticket key encrypts tickets before the next key replaces it; \
         at least `2s`. A key decrypts tickets for as long as they can live. The default is a \
         third of `ssl_session_timeout`. Keys of `ssl_session_ticket_key` are not rotated.",
        |b, c| {
            c.seconds(&mut b.server().tls.session_ticket_rotation)?;
            let rotation = b.server().tls.session_ticket_rotation;
            if rotation.is_some_and(|rotation| rotation < MIN_TICKET_ROTATION) {
                return Err(c.refuse_arg(1, "value must be at least 2s"));
            }
            Ok(())
        },
    )
    .own(),
    Row::new(
        "ssl_session_ticket_state",
        HTTP | STREAM | MAIL,
        ONE,
        "",
        "File that keeps generated ticket keys across a restart, so that clients can still resume \
         their sessions. The master writes it (mode 0600) whenever it generates a key. A relative \
         path starts from the prefix. The file contains secrets: exclude it from backups, and \
         store it in memory-backed storage where possible.",
        |b, c| {
            let path = b.options.under_prefix(c.path(1));
            c.once(&b.server().tls.session_ticket_state)?;
            b.server().tls.session_ticket_state = Some(path);
            Ok(())
        },
    )
    .own(),
    Row::new(
        "ssl_session_store",
        HS_STREAM_MAIL,
        Arity::AtLeast(1),
        "",
        "Redis or Valkey store that the nodes of a site share. It holds generated ticket keys, \
         sessions if there is an `ssl_session_cache`, and the early data that was already \
         accepted. `redis://[[user]:password@]host[:port][/database]`, `rediss://` for TLS, \
         `redis+sentinel://host[:port],.../service[/database]`, `redis+cluster://host[:port],...` \
         (both also as `rediss+...`), `unix:/path`; `off` cancels an inherited store. Parameters: \
         `timeout=20ms`: maximum time that a handshake waits for the store before it continues \
         without it; `key=FILE`: a key of 32 bytes or more that encrypts all stored data, the \
         same on all nodes (without it, the key of the certificate is used and must be the same \
         on all nodes); `ca=FILE`: CA certificates that verify the store's certificate (by \
         default, the system's); `prefix=sealane:`: prefix of the names in the store. If the \
         store is slow or unavailable, sessions are not resumed, but handshakes never fail.",
        session_store,
    )
    .own(),
    Row::new(
        "ssl_early_data",
        HS,
        ONE,
        "off",
        "Whether requests are processed before the handshake completes (TLS 1.3 early data, 0-RTT, \
         RFC 8446), which saves a returning client a round trip. Early data of a connection is \
         accepted only once, on one node if nodes share an `ssl_session_store`. For five minutes \
         after the server or that store has started, early data is rejected if it could be a \
         replay from before. The store must not evict keys (`maxmemory-policy noeviction`). \
         Upstream servers receive `Early-Data: 1` and applications the parameter \
         `HTTP_EARLY_DATA`, unless the configuration sets it (RFC 8470). Their 425 responses are \
         passed to the client.",
        |b, c| c.flag(&mut b.server().tls.early_data),
    ),
    Row::new(
        "ssl_early_data_methods",
        HS,
        Arity::AtLeast(1),
        "GET HEAD OPTIONS",
        "Methods that are allowed in early data. Other requests get 425 (RFC 8470), and clients \
         then repeat them after the handshake. Add only methods that are safe to repeat.",
        early_data_methods,
    )
    .own(),
    Row::new(
        "ssl_early_data_register_size",
        HTTP,
        ONE,
        "10m",
        "Memory for the register that detects replayed early data; at least `64k`. A connection \
         with early data takes 16 bytes for five minutes. While the register is full, early data \
         is rejected and handshakes continue without it. A new size takes effect after a restart.",
        |b, c| {
            c.size(&mut b.server().tls.early_data_register_bytes)?;
            let bytes = b.server().tls.early_data_register_bytes;
            if bytes.is_some_and(|bytes| bytes < MIN_REGISTER_BYTES) {
                return Err(c.refuse_arg(1, "value must be at least 64k"));
            }
            Ok(())
        },
    )
    .own(),
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
            declare_zone(b, index, name, bytes)?;
            b.server().tls.session_shared = Some((name.to_owned(), bytes));
        } else {
            return Err(invalid());
        }
    }
    Ok(())
}

/// A zone of this module, which has one size wherever it is named.
pub(super) fn declare_zone(
    b: &mut Build<'_>,
    word: usize,
    name: &str,
    bytes: u64,
) -> Result<(), Fault> {
    zones::claim(b, name, ZoneUse::Tls).map_err(|fault| fault.at_word(word))?;
    let declared = *b.http.zones.entry(name.to_owned()).or_insert(bytes);
    if declared != bytes {
        return Err(zones::size_conflict(name, bytes, declared).at_word(word));
    }
    Ok(())
}

fn session_store(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.server().tls.session_store)?;
    let store = session_store::parse(b, c)?;
    b.server().tls.session_store = Some(store);
    Ok(())
}

fn early_data_methods(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.server().tls.early_data_methods)?;
    if c.count() > MAX_EARLY_DATA_METHODS {
        return Err(c.refuse("names too many methods"));
    }
    let mut methods: Vec<String> = Vec::new();
    for (index, written) in c.args() {
        // RFC 9110 section 9.1: methods are case-sensitive tokens; none in use has
        // lower-case letters, so these are a mistake here.
        let plain = |byte: &u8| byte.is_ascii_uppercase() || b"-_".contains(byte);
        if !written.iter().all(plain) || written.is_empty() {
            return Err(c
                .invalid(index)
                .help("methods are case-sensitive and uppercase"));
        }
        let method = shown(written);
        if !methods.contains(&method) {
            methods.push(method);
        }
    }
    b.server().tls.early_data_methods = Some(methods.into());
    Ok(())
}
