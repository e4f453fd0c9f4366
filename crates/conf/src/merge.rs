//! From the drafts of all levels to the model: inheritance, defaults, and the
//! checks that need the whole configuration. The order of the checks is
//! nginx's, so that of several errors the same one is reported.

mod caching;
mod certificates;
mod charsets;
pub(crate) mod control;
mod health;
mod locations;
mod mail;
mod passes;
mod quic;
mod restricting;
mod servers;
mod status;
mod stream;
mod upstreams;

use crate::build::Build;
use crate::call::Fault;
use crate::diagnostic::{Diagnostic, Failure};
use crate::draft::{
    Address, EventsDraft, LocationDraft, MainDraft, ServerBlock, ServerDraft, TlsDraft,
};
use crate::input::Options;
use crate::model::{
    CERTIFICATE_RELOAD, Config, ErrorLog, Events, HandshakeLimits, Http, Landlock, List,
    ListenAddress, Listener, LocationConf, LogLevel, LogTarget, Main, Origin, Server, ServerKind,
    Source, TempPath, VerifyClient, WorkerCount, locations_of,
};
use std::collections::HashSet;
use std::sync::Arc;

/// The levels that servers inherit from: of `http`, `stream` or `mail`.
#[derive(Debug, Default)]
pub(crate) struct HttpLevel {
    pub(crate) kind: ServerKind,
    pub(crate) server: ServerDraft,
    pub(crate) location: LocationDraft,
    /// Error logs of the main context when the block ended.
    pub(crate) main_logs: usize,
}

/// The level of a block that has ended.
fn outer_level(b: &mut Build<'_>, kind: ServerKind) -> HttpLevel {
    let (server, location) = b.take_outer_level();
    HttpLevel {
        kind,
        server,
        location,
        main_logs: b.main.error_logs.len(),
    }
}

/// At the end of the `http` block: checks and builds it. Errors are reported in nginx's order.
pub(crate) fn http(b: &mut Build<'_>) -> Vec<Fault> {
    let mut level = outer_level(b, ServerKind::Http);
    level.location = locations::with_log_defaults(level.location, b);
    let unknown_zones = crate::directives::check_cache_zones(b);
    if !unknown_zones.is_empty() {
        return unknown_zones;
    }
    let first = b.servers.len();
    let servers = match build_servers(b, &level) {
        Ok(servers) => servers,
        Err(fault) => return vec![fault],
    };
    if let Err(fault) = check_caches(b, &servers) {
        return vec![fault];
    }
    if let Err(fault) = check_traces(b, &servers) {
        return vec![fault];
    }
    if let Err(fault) = status::check_access(&b.http.addresses, first, &servers) {
        return vec![fault];
    }
    if let Err(fault) = health::check(b, &servers) {
        return vec![fault];
    }
    enable_ssl(b, &level);
    warn_of_http3(b);
    end(b, level, servers)
}

/// At the end of the `stream` block.
pub(crate) fn stream(b: &mut Build<'_>) -> Vec<Fault> {
    let level = outer_level(b, ServerKind::Stream);
    if let Err(fault) = check_listens(b, ServerKind::Stream) {
        return vec![fault];
    }
    match build_servers(b, &level) {
        Ok(servers) => end(b, level, servers),
        Err(fault) => vec![fault],
    }
}

/// At the end of the `mail` block.
pub(crate) fn mail(b: &mut Build<'_>) -> Vec<Fault> {
    let level = outer_level(b, ServerKind::Mail);
    if let Err(fault) = mail::check(b, &level.server.mail) {
        return vec![fault];
    }
    let built = build_servers(b, &level);
    let checked = built.and_then(|servers| {
        mail::check_certificates(&servers, b)?;
        Ok(servers)
    });
    match checked {
        Ok(servers) => end(b, level, servers),
        Err(fault) => vec![fault],
    }
}

/// `http3 on` alone enables nothing.
fn warn_of_http3(b: &mut Build<'_>) {
    let has_quic = b.http.addresses.iter().any(|address| address.options.quic);
    if let Some(place) = b.http.http3_place.take()
        && !has_quic
    {
        b.warnings.push(Diagnostic {
            level: LogLevel::Warn,
            message: "\"http3\" has no effect: no server listens with \"quic\"".to_owned(),
            place: Some(place),
            help: Some("add \"listen 443 quic;\" beside \"listen 443 ssl;\"".to_owned()),
        });
    }
}

/// Whether every server of a block listens somewhere.
fn check_listens(b: &Build<'_>, kind: ServerKind) -> Result<(), Fault> {
    let mut servers = b.http.servers.iter();
    let silent = servers.find(|block| block.kind == kind && !block.server.listens);
    match silent {
        None => Ok(()),
        Some(block) => Err(lacks(block, "no \"listen\" is defined")),
    }
}

/// The error of a server that lacks something.
fn lacks(block: &ServerBlock, what: &str) -> Fault {
    Fault::earlier(&block.origin, format!("{what} for server"))
}

/// What is checked and built for all blocks alike, whose `servers` these are.
fn end(b: &mut Build<'_>, level: HttpLevel, servers: Vec<Server>) -> Vec<Fault> {
    let mut faults = Vec::new();
    match upstreams::all(b, &level, &servers) {
        Ok(upstreams) => b.upstreams.extend(upstreams),
        Err(fault) => faults.push(fault),
    }
    let mut all = std::mem::take(&mut b.servers);
    all.extend(servers);
    if level.kind != ServerKind::Mail {
        faults.extend(check_tls(b, level.kind, &all).err());
    }
    faults.extend(undefined_variables(b));
    if level.kind == ServerKind::Http {
        faults.extend(crate::directives::check_thread_pools(b));
    }
    if faults.is_empty() {
        // Its warnings are about a configuration that is right so far.
        faults.extend(servers::check_names(b, level.kind, &all).err());
    }
    faults.extend(check_zones(b).err());
    b.ended.push(level);
    b.servers = all;
    faults
}

/// What is to be said about the caches of locations.
fn check_caches(b: &mut Build<'_>, servers: &[Server]) -> Result<(), Fault> {
    let mut lacking = Vec::new();
    let mut shares_hosts = false;
    for location in locations_of(servers) {
        crate::directives::check_temporary_paths(b, location)?;
        shares_hosts |= caching::shares_hosts(location);
        lacking.extend(caching::lacks_key(location).filter(|family| !lacking.contains(family)));
    }
    for family in lacking {
        b.warn(format!("no \"{family}_cache_key\" for \"{family}_cache\""));
    }
    if shares_hosts {
        b.warn(
            "\"proxy_cache\" keeps one response for all hosts, but \"proxy_set_header Host\" tells \
             the origin which one the client has named: a client that names another one decides \
             what others get; add what is sent (\"$host\", \"$http_host\") to \
             \"proxy_cache_key\", or send a fixed Host",
        );
    }
    warn_of_purges(b, servers);
    Ok(())
}

/// Nobody purges what everybody could.
fn warn_of_purges(b: &mut Build<'_>, servers: &[Server]) {
    let mut open = Vec::new();
    for server in servers {
        if server.verify_client == VerifyClient::On {
            continue;
        }
        for location in locations_of([server]) {
            let found = caching::lacks_access(location).map(|family| (family, server));
            open.extend(found.filter(|(family, _)| open.iter().all(|(known, _)| known != family)));
        }
    }
    for (family, server) in open {
        let name = &server.primary_name;
        b.warn(format!(
            "\"{family}_cache_purge\" purges nothing in a location of server \"{name}\", where nobody \
             may: say who with \"allow\", \"auth_basic\" or \"auth_request\", for example in \
             \"limit_except GET\", or with \"ssl_verify_client on\""
        ));
    }
}

/// Spans that are recorded must have a destination.
fn check_traces(b: &Build<'_>, servers: &[Server]) -> Result<(), Fault> {
    let records = |location: &Arc<LocationConf>| {
        let tracing = location.tracing.as_deref();
        tracing.is_some_and(|tracing| tracing.trace.is_some())
    };
    if b.http.trace_exporter.origin.is_some() || !locations_of(servers).into_iter().any(records) {
        return Ok(());
    }
    let message = "\"otel_exporter\" block is missing";
    Err(Fault::whole(message).help("it says where the spans of \"otel_trace\" are sent"))
}

/// Every zone must be defined by now.
fn check_zones(b: &Build<'_>) -> Result<(), Fault> {
    let mut zones = b.http.req_status_zones.iter();
    if let Some(zone) = zones.find(|zone| zone.zone.is_none()) {
        let message = format!("zero size shared memory zone \"{}\"", zone.name);
        return Err(Fault::whole(message).help("no \"req_status_zone\" defines it"));
    }
    let mut zones = b.http.limit_zones.iter();
    match zones.find(|zone| zone.zone.is_none()) {
        None => Ok(()),
        Some(zone) => {
            let message = format!("zero size shared memory zone \"{}\"", zone.name);
            let help = "no \"limit_req_zone\" or \"limit_conn_zone\" defines it";
            Err(Fault::whole(message).help(help))
        }
    }
}

fn build_servers(b: &Build<'_>, level: &HttpLevel) -> Result<Vec<Server>, Fault> {
    let logs: List<ErrorLog> = main_error_logs(b.options, &b.main.error_logs).into();
    let inherited = locations::Inherited {
        options: b.options,
        client_body_temp_path: Arc::new(TempPath {
            path: b.options.temp.join("client_body_temp"),
            levels: [0; 3],
        }),
        main_logs: logs,
        cache_zones: &b.http.cache_zones,
        traffic: &b.http.traffic,
    };
    let drafts = || {
        b.http
            .servers
            .iter()
            .filter(|block| block.kind == level.kind)
    };
    let mut servers: Vec<Server> = Vec::with_capacity(b.http.servers.len());
    let mut merged: Vec<LocationDraft> = Vec::with_capacity(b.http.servers.len());
    for draft in drafts() {
        let (server, location) = servers::server(&inherited, draft, level, &b.http.acme_issuers)?;
        servers.push(server);
        merged.push(location);
    }
    for ((server, draft), location) in servers.iter_mut().zip(drafts()).zip(&merged) {
        server.locations = inherited.tree(&draft.locations, location)?;
    }
    Ok(servers)
}

/// Every variable must be known by now.
fn undefined_variables(b: &Build<'_>) -> Vec<Fault> {
    let fault = |(name, used_at): (&str, Option<&Origin>)| {
        let mut help = Vec::new();
        if let Some(Origin { file, line }) = used_at {
            help.push(format!("it is used in {}:{line}", file.display()));
        }
        let instead = crate::directives::instead_of_variable(name);
        if let Some(instead) = instead {
            help.push(format!("its module is left out: {instead}"));
        } else if let Some(other) = crate::variables::other_block(b.kind(), name) {
            help.push(format!("\"${name}\" exists in \"{}\" only", other.name()));
        } else if let Some(near) = crate::variables::nearest(b.kind(), name) {
            help.push(format!("did you mean \"${near}\"?"));
        }
        let fault = Fault::whole(format!("unknown \"{name}\" variable")).help(help.join("; "));
        match instead {
            Some(_) => fault.left_out(),
            None => fault,
        }
    };
    b.names.undefined().map(fault).collect()
}

/// `ssl on` of files for nginx before 1.25.1: as there, the default server of an address decides
/// for all of its connections.
fn enable_ssl(b: &mut Build<'_>, level: &HttpLevel) {
    let of_http =
        |address: &&mut Address| address.kind == ServerKind::Http && !address.options.quic;
    for address in b.http.addresses.iter_mut().filter(of_http) {
        let server = &b.http.servers[address.default_server].server;
        address.options.ssl |= server.ssl.or(level.server.ssl).unwrap_or(false);
    }
}

/// Every address with `ssl` or `quic` needs a certificate, or refuses handshakes.
fn check_tls(b: &Build<'_>, kind: ServerKind, servers: &[Server]) -> Result<(), Fault> {
    let uses_tls =
        |address: &&Address| address.kind == kind && (address.options.ssl || address.options.quic);
    for address in b.http.addresses.iter().filter(uses_tls) {
        let parameter = if address.options.quic { "quic" } else { "ssl" };
        let missing = |server: &Server| {
            let what = format!("the \"listen ... {parameter}\" directive");
            let message = format!("no \"ssl_certificate\" is defined for {what}");
            Err(Fault::earlier(&server.origin, message))
        };
        let default = &servers[address.default_server];
        match &default.tls {
            None => return missing(default),
            Some(tls) if tls.certificates.is_empty() => {
                // The default server refuses; the others must be able to answer.
                let bare = address
                    .servers
                    .iter()
                    .find(|index| servers[**index].tls.is_none());
                if let Some(bare) = bare {
                    return missing(&servers[*bare]);
                }
            }
            Some(tls) if address.options.quic && !tls.protocols.tls_1_3 => {
                // RFC 9001 section 4.2.
                let message = "\"ssl_protocols\" must enable TLSv1.3 for the \"listen ... quic\" \
                               directive";
                return Err(Fault::earlier(&default.origin, message));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The listeners, and which of them get a socket.
///
/// As in nginx, an address whose port is also listened on by the wildcard of
/// its family gets none, unless a `listen` line gave it socket options or
/// `bind`: connections to it arrive at the wildcard's socket. (Linux refuses
/// to bind both, unless both have `reuseport`.)
fn listeners(b: &mut Build<'_>) -> Vec<Listener> {
    let addresses = std::mem::take(&mut b.http.addresses);
    let wildcards: HashSet<(bool, bool, u16)> = addresses
        .iter()
        .filter_map(|address| wildcard(&address.address))
        .collect();
    let listeners = addresses.into_iter().map(|address| {
        let covered = match address.address.inet() {
            Some(inet) if !inet.ip().is_unspecified() => {
                let is_udp = address.address.is_udp();
                wildcards.contains(&(is_udp, inet.is_ipv4(), inet.port()))
            }
            _ => false,
        };
        Listener {
            kind: address.kind,
            bind: address.bind || !covered,
            address: address.address,
            origin: address.origin,
            options: address.options,
            default_server: address.default_server,
            servers: address.servers,
            is_control: false,
        }
    });
    listeners.collect()
}

/// Protocol, family and port of a wildcard address.
fn wildcard(address: &ListenAddress) -> Option<(bool, bool, u16)> {
    let inet = address.inet()?;
    let is_wildcard = inet.ip().is_unspecified();
    is_wildcard.then_some((address.is_udp(), inet.is_ipv4(), inet.port()))
}

/// At the end of the text: the whole configuration.
pub(crate) fn finish(mut b: Build<'_>, sources: Vec<Source>) -> Result<Config, Failure> {
    match whole(&mut b) {
        Ok((events, http)) => {
            let Build {
                options,
                main,
                warnings,
                met,
                ..
            } = b;
            Ok(Config {
                prefix: options.prefix.clone(),
                main: main_of(options, main),
                events,
                http,
                warnings,
                met,
                sources,
            })
        }
        Err(message) => {
            let error = Diagnostic {
                level: LogLevel::Emerg,
                message,
                place: None,
                help: None,
            };
            Err(Failure {
                warnings: b.warnings,
                error: Box::new(error),
            })
        }
    }
}

fn whole(b: &mut Build<'_>) -> Result<(Events, Option<Http>), String> {
    let confines_reading = matches!(b.main.worker_landlock_read, Some(Some(_)));
    if confines_reading && b.main.worker_landlock == Some(Landlock::Off) {
        return Err(
            "\"worker_landlock_read on\" cannot confine a worker process with \
                    \"worker_landlock off\": remove one of the two directives"
                .to_owned(),
        );
    }
    let connections = match &b.events {
        Some(events) => events_of(events)?.worker_connections,
        None => 0, // an error, below
    };
    let ended = std::mem::take(&mut b.ended);
    let http = match ended.is_empty() {
        true => None,
        false => {
            // An `error_log` of the main context may follow the blocks.
            if ended
                .iter()
                .any(|level| level.main_logs != b.main.error_logs.len())
            {
                let built = ended.iter().map(|level| build_servers(b, level));
                let built = built.collect::<Result<Vec<_>, Fault>>();
                b.servers = built.map_err(|fault| fault.message)?.concat();
            }
            let tls = process_wide(&ended);
            let servers = std::mem::take(&mut b.servers);
            let charsets = std::mem::take(&mut b.http.charsets);
            charsets::check(&charsets, &servers)?;
            Some(Http {
                servers: servers.into_iter().map(Arc::new).collect(),
                listeners: listeners(b),
                variables: std::mem::take(&mut b.names).into_list(),
                cache_paths: std::mem::take(&mut b.http.cache_zones)
                    .into_iter()
                    .filter_map(|zone| zone.path) // all of them, as was checked
                    .collect(),
                limit_zones: std::mem::take(&mut b.http.limit_zones)
                    .into_iter()
                    .filter_map(|zone| zone.zone) // all of them, as was checked
                    .collect(),
                response_matches: std::mem::take(&mut b.http.response_matches)
                    .into_iter()
                    .filter_map(|named| named.block.map(Arc::new)) // all, as was checked
                    .collect(),
                req_status_zones: std::mem::take(&mut b.http.req_status_zones)
                    .into_iter()
                    .filter_map(|zone| zone.zone) // the same
                    .collect(),
                traffic: b.http.traffic.finish(),
                charsets: Arc::new(charsets),
                geoip2: std::mem::take(&mut b.http.geoip2).finish(),
                trace_exporter: std::mem::take(&mut b.http.trace_exporter).finish(),
                handshakes: handshake_limits(&tls, connections),
                certificate_reload: tls.certificate_reload.unwrap_or(Some(CERTIFICATE_RELOAD)),
                key_process: tls.key_process.unwrap_or_default(),
                upstreams: std::mem::take(&mut b.upstreams),
                http2_recv_buffer_bytes: b.http.http2_recv_buffer_bytes.unwrap_or(256 << 10),
                quic_node_id: b.http.quic_node_id,
                quic_max_handshakes: b.http.quic_max_handshakes.filter(|most| *most > 0),
                compression_memory_bytes: b.http.compression_memory_bytes.unwrap_or(512 << 20),
                dyups_bytes: b.http.dyups_bytes.unwrap_or(2 << 20),
            })
        }
    };
    let events = b
        .events
        .as_ref()
        .ok_or("no \"events\" section in configuration")?;
    let events = events_of(events)?;
    let listeners = http.iter().flat_map(|http| &http.listeners);
    let sockets = listeners.filter(|listener| listener.bind).count();
    let connections = events.worker_connections;
    if (connections as usize) < sockets + 1 {
        return Err(format!(
            "{connections} worker_connections are not enough for {sockets} listening sockets"
        ));
    }
    Ok((events, http))
}

/// What the blocks say about the process as a whole. Where several do, `http` counts, then
/// `stream`.
fn process_wide(levels: &[HttpLevel]) -> TlsDraft {
    let mut tls = TlsDraft::default();
    for kind in [ServerKind::Http, ServerKind::Stream, ServerKind::Mail] {
        for level in levels.iter().filter(|level| level.kind == kind) {
            let outer = &level.server.tls;
            servers::inherit!(tls, outer;
                async_threads handshake_queue certificate_reload key_process);
        }
    }
    tls
}

fn handshake_limits(draft: &TlsDraft, worker_connections: u32) -> HandshakeLimits {
    HandshakeLimits {
        threads: draft.async_threads.flatten(),
        queue: draft
            .handshake_queue
            .flatten()
            .unwrap_or((worker_connections - worker_connections / 8).max(1)),
    }
}

fn events_of(draft: &EventsDraft) -> Result<Events, String> {
    let connections = draft.worker_connections.unwrap_or(512);
    let worker_connections = u32::try_from(connections)
        .map_err(|_| format!("{connections} worker_connections are too many"))?;
    Ok(Events {
        worker_connections,
        multi_accept: draft.multi_accept.unwrap_or(false),
        accept_mutex: draft.accept_mutex.unwrap_or(false),
        debug_connections: draft.debug_connections.as_slice().into(),
    })
}

fn main_of(options: &Options, draft: MainDraft) -> Main {
    let pid = draft.pid.unwrap_or_else(|| options.pid.clone());
    Main {
        daemon: draft.daemon.unwrap_or(true),
        master_process: draft.master_process.unwrap_or(true),
        user: draft.user,
        control_socket: draft
            .control_socket
            .unwrap_or_else(|| control::default_path(&pid)),
        pid,
        worker_processes: draft.worker_processes.unwrap_or(WorkerCount::Count(1)),
        worker_rlimit_nofile: draft.worker_rlimit_nofile,
        worker_rlimit_core: draft.worker_rlimit_core,
        backtrace_log: draft.backtrace_log,
        worker_cpu_affinity: draft.worker_cpu_affinity.flatten(),
        worker_priority: draft.worker_priority,
        worker_seccomp: draft.worker_seccomp.unwrap_or_default(),
        worker_landlock: draft.worker_landlock.unwrap_or_default(),
        worker_landlock_read: draft.worker_landlock_read.flatten(),
        log_queue_bytes: draft.log_queue_size.unwrap_or(4 << 20),
        metrics_memory_bytes: draft.metrics_memory.unwrap_or(64 << 20),
        worker_shutdown_timeout: draft.worker_shutdown_timeout,
        working_directory: draft.working_directory,
        error_logs: main_error_logs(options, &draft.error_logs),
        env: draft.env,
        processes: draft.processes,
    }
}

/// The error logs of the main context, or the default one.
fn main_error_logs(options: &Options, logs: &[ErrorLog]) -> Vec<ErrorLog> {
    if !logs.is_empty() {
        return logs.to_vec();
    }
    let target = LogTarget::File(options.error_log.clone());
    vec![ErrorLog {
        target,
        level: LogLevel::Error,
    }]
}
