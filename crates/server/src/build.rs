//! Builds a [`Snapshot`] from a configuration.

use crate::access_log::LogSample;
use crate::geoip2::Databases;
use crate::h2;
use crate::limits::LimitZoneRuntime;
use crate::mail::MailRuntime;
use crate::materials::Materials;
use crate::names::ServerNames;
use crate::proxying::{GroupRuntime, Groups, HealthTask, TlsSettings, build_zone};
use crate::quic::{QuicRuntime, host_secret};
use crate::req_status::ReqStatusZoneRuntime;
use crate::rewrite::Rotation;
use crate::router::LocationTree;
use crate::snapshot::{
    AccessLogRuntime, LimitExcept, ListenerId, ListenerRuntime, LocationId, LocationRuntime,
    ServerId, ServerRuntime, Snapshot, accepts_for, asks_about_clients,
};
use crate::status::{StatusZone, Zones};
use crate::sysguard::{Guard, LoadWatch};
use crate::tls_build::{self, HandshakeThreads, TlsBuilder};
use crate::traces::TraceTarget;
use crate::traffic::TrafficZoneRuntime;
use crate::worker;
use sealane_conf::Config;
use sealane_conf::diagnostic::Diagnostic;
use sealane_conf::model::{
    Http, Listener, Location, LocationConf, MailStartTls, Pass, SendProxyProtocol, Server,
    ServerKind, Upstream, VerifyClient,
};
use sealane_http::Method;
use sealane_http::h1::Limits;
use sealane_log::LogSet;
use sealane_upstream::resolve::Resolve;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// See [`Snapshot::build`].
///
/// # Errors
/// The first thing in the configuration that cannot be built.
pub(crate) fn build(
    config: &Config,
    materials: &Materials,
    logs: &LogSet,
) -> Result<(Snapshot, Vec<Diagnostic>), Diagnostic> {
    let tls = TlsBuilder::new(
        config,
        materials,
        ["ssl_curves", "ssl_sigalgs", "ssl_ja4"]
            .iter()
            .any(|name| tls_build::uses_variable(config, name)),
    )?;
    let mut parts = Parts {
        logs,
        materials,
        tls,
        peer_tls: TlsSettings::new(config, materials),
        snapshot: empty(config, materials, logs)?,
    };
    if let Some(http) = &config.http {
        parts.snapshot.variables = http.variables.clone();
        let databases = materials.before().map(|before| &*before.geoip2);
        let databases = Databases::build(&http.geoip2, materials, databases)?;
        parts.snapshot.geoip2 = Arc::new(databases);
        let zones = http.limit_zones.iter();
        let zone = |zone| LimitZoneRuntime::build(zone, materials.before());
        parts.snapshot.limit_zones = zones.map(zone).collect();
        let zones = http.req_status_zones.iter();
        let zone = |zone| ReqStatusZoneRuntime::build(zone, materials.before());
        parts.snapshot.req_status_zones = zones.map(zone).collect();
        let before = materials
            .before()
            .and_then(|before| before.traffic.as_ref());
        parts.snapshot.traffic = TrafficZoneRuntime::build(http, before);
        let before = materials.before().map(|before| &before.cache_zones[..]);
        let zones = http.cache_paths.iter();
        parts.snapshot.cache_zones = zones.map(|path| build_zone(path, before)).collect();
        parts.snapshot.charsets = Arc::clone(&http.charsets);
        parts.snapshot.health_tasks = checks_of_groups(http, &parts.snapshot.groups);
        for (at, server) in http.servers.iter().enumerate() {
            let before = materials.before().map(|before| &before.zones);
            let zones = &mut parts.snapshot.zones;
            let zone = zones.of_server(server, &http.listeners, at, before);
            let first = parts.snapshot.locations.len();
            parts.add_server(server, zone, tls_build::offers_http2(http, at))?;
            parts.add_health_checks(http, ServerId(index(at)), first);
        }
        for listener in &http.listeners {
            parts.add_listener(http, listener)?;
        }
    }
    let tls = parts.tls.finish();
    let mut warnings = tls.warnings;
    warnings.extend(parts.peer_tls.finish());
    parts.snapshot.shared_rings = tls.shared_rings;
    parts.snapshot.staples = tls.staples;
    parts.snapshot.acme_tasks = tls.acme;
    Ok((parts.snapshot, warnings))
}

struct Parts<'a> {
    logs: &'a LogSet,
    materials: &'a Materials,
    tls: TlsBuilder<'a>,
    peer_tls: TlsSettings<'a>,
    snapshot: Snapshot,
}

/// Without servers yet.
///
/// # Errors
/// When the key of an `upstream_store` cannot be used.
fn empty(config: &Config, materials: &Materials, logs: &LogSet) -> Result<Snapshot, Diagnostic> {
    let limits = config.http.as_ref().map(|http| http.handshakes);
    Ok(Snapshot {
        servers: Vec::new(),
        locations: Vec::new(),
        listeners: Vec::new(),
        shared_rings: Vec::new(),
        staples: Vec::new(),
        statuses: Arc::clone(materials.statuses()),
        acme_tasks: Vec::new(),
        acme: Arc::clone(materials.acme()),
        spans: Arc::clone(materials.spans()),
        quic_host_secret: host_secret(config, materials)?,
        quic_node_id: config.http.as_ref().and_then(|http| http.quic_node_id),
        trace_target: trace_target(config, materials),
        groups: Groups::build(
            config,
            worker::thread_count(config.main.worker_processes) as usize,
            materials.before().map(|before| &before.groups),
            &tls_build::upstream_stores(config, materials)?,
        ),
        health_tasks: Vec::new(),
        limit_zones: Vec::new(),
        req_status_zones: Vec::new(),
        traffic: None,
        load_watch: LoadWatch::default(),
        zones: Zones::new(worker::thread_count(config.main.worker_processes) as usize),
        sessions: Arc::clone(materials.sessions()),
        resolvers: materials.resolver_names(config),
        session_stores: materials.session_store_names(),
        cache_zones: Vec::new(),
        dyups_bytes: config.http.as_ref().map_or(0, |http| http.dyups_bytes),
        changes_groups: config.http.as_ref().is_some_and(Http::changes_upstreams),
        variables: Vec::new(),
        geoip2: Arc::default(),
        charsets: Arc::default(),
        prefix: prefix(config),
        worker_connections: config.events.worker_connections,
        quic_max_handshakes: (config.http.as_ref())
            .and_then(|http| http.quic_max_handshakes)
            .unwrap_or(config.events.worker_connections / 2),
        compression_memory_bytes: (config.http.as_ref())
            .map_or(0, |http| http.compression_memory_bytes),
        multi_accept: config.events.multi_accept,
        debug_connections: Arc::clone(&config.events.debug_connections),
        handshake_queue: limits.map_or(u32::MAX, |limits| limits.queue),
        handshake_threads: HandshakeThreads::of(config),
        handshakes: Arc::clone(materials.handshakes()),
        worker_shutdown_timeout: config.main.worker_shutdown_timeout,
        asks_clients: config.http.iter().any(|http| {
            let mut servers = http.servers.iter();
            servers.any(|server| server.verify_client != VerifyClient::Off)
        }),
        uses_tls_facts: tls_build::uses_variable(config, "ssl_") || tells_tls_facts(config),
        main_log: logs.logger(&config.main.error_logs),
    })
}

/// Whether others are told how clients are connected: auth services of mail, and servers of
/// `stream` in PROXY headers.
fn tells_tls_facts(config: &Config) -> bool {
    let mut servers = config.http.iter().flat_map(|http| &http.servers);
    servers.any(|server| match server.kind() {
        ServerKind::Http => false,
        ServerKind::Mail => true,
        ServerKind::Stream => server.conf.send_proxy_protocol == SendProxyProtocol::V2,
    })
}

/// Where spans are exported to.
fn trace_target(config: &Config, materials: &Materials) -> Option<Arc<TraceTarget>> {
    let conf = config.http.as_ref()?.trace_exporter.as_ref()?;
    let trusted = conf.trusted_certificate.as_deref();
    let of_one = conf.batch_size.saturating_mul(conf.batch_count);
    let threads = worker::thread_count(config.main.worker_processes) as usize;
    Some(Arc::new(TraceTarget {
        conf: Arc::clone(conf),
        trusted: trusted.and_then(|path| materials.get(path)).map(Box::from),
        limit: of_one.saturating_mul(threads),
    }))
}

/// `check` of every `upstream` that has one.
fn checks_of_groups(http: &Http, groups: &Groups) -> Vec<HealthTask> {
    let all = http.upstreams.iter().zip(groups.all());
    let task = |(upstream, group): (&Arc<Upstream>, &Arc<GroupRuntime>)| {
        let check = upstream.check.as_ref()?;
        Some(HealthTask::of_group(group, check))
    };
    all.filter_map(task).collect()
}

impl Parts<'_> {
    /// The `health_check`s of a server's locations, from this one on.
    fn add_health_checks(&mut self, http: &Http, server: ServerId, first: usize) {
        let snapshot = &mut self.snapshot;
        for (at, location) in snapshot.locations.iter().enumerate().skip(first) {
            let reference = location.conf.pass.as_ref().and_then(Pass::group);
            let group = reference.and_then(|group| Some((group, snapshot.groups.get(group.0)?)));
            let Some((reference, group)) = group else {
                continue;
            };
            let id = LocationId(index(at));
            for check in location.conf.health_checks.iter() {
                let task = HealthTask::of_location(http, reference, group, check, server, id);
                snapshot.health_tasks.extend(task);
            }
        }
    }

    fn add_server(
        &mut self,
        server: &Arc<Server>,
        zone: Option<Arc<StatusZone>>,
        http2: bool,
    ) -> Result<(), Diagnostic> {
        let default_location = self.add_location(&server.conf, None)?;
        let mut refused = None;
        let tree = LocationTree::build(&server.locations, &mut |location: Arc<Location>| {
            let added = self.add_location(&location.conf.clone(), Some(location));
            added.unwrap_or_else(|error| {
                refused.get_or_insert(error);
                default_location
            })
        });
        if let Some(error) = refused {
            return Err(error);
        }
        let (tls, tls_inputs) = self.tls.server(server, http2)?.unzip();
        let certificates = self.tls.evaluated_certificates(server)?;
        self.snapshot.servers.push(ServerRuntime {
            conf: server.clone(),
            zone,
            default_location,
            accepts_connect: server.accepts_connect(),
            tree,
            tls,
            resolver: self.resolver(server),
            mail: server.mail.as_ref().map(MailRuntime::new).map(Arc::new),
            tls_inputs: tls_inputs.unwrap_or_default(),
            certificates,
            http2: h2::codec_settings(server, head_limits(server)),
            quic: QuicRuntime::new(server, &server.conf, head_limits(server), self.logs),
            head_limits: head_limits(server),
        });
        Ok(())
    }

    fn resolver(&self, server: &Server) -> Option<Arc<dyn Resolve>> {
        let conf = server.conf.resolver.as_ref();
        let conf = conf.filter(|_| asks_about_clients(server) || server.mail.is_some())?;
        let timeout = server.conf.resolver_timeout;
        self.materials.resolver(conf, timeout).cloned()
    }

    fn add_location(
        &mut self,
        conf: &Arc<LocationConf>,
        location: Option<Arc<Location>>,
    ) -> Result<LocationId, Diagnostic> {
        let blocks = conf.script.iter().flat_map(|script| &script.blocks);
        let blocks = blocks.map(|block| self.add_location(block, location.clone()));
        let blocks = blocks.collect::<Result<Box<[LocationId]>, Diagnostic>>()?;
        let limited = match &conf.limit_except {
            None => None,
            Some(limit) => Some(LimitExcept {
                methods: methods(&limit.methods),
                location: self.add_location(&limit.conf, location.clone())?,
            }),
        };
        let number = index(self.snapshot.locations.len());
        let mut pass = self.snapshot.groups.pass(conf, number, self.materials);
        if let Some(pass) = &mut pass
            && let Some(tls) = self.peer_tls.of(&pass.pass)?
        {
            pass.set_tls(tls);
        }
        let access_logs = conf
            .access_logs
            .iter()
            .map(|log| AccessLogRuntime {
                logger: self.logs.access(log),
                path: log.path.clone(),
                format: log.format.clone(),
                condition: log.condition.clone(),
                sample: log.ratio.map(LogSample::new),
            })
            .collect();
        let zone = location.as_ref().and_then(|_| {
            let before = self.materials.before().map(|before| &before.zones);
            self.snapshot
                .zones
                .of_location(conf.status_zone.as_ref(), before)
        });
        let guard = conf.sysguard.clone();
        let guard = guard.map(|conf| Guard::new(conf, &mut self.snapshot.load_watch));
        self.snapshot.locations.push(LocationRuntime {
            conf: conf.clone(),
            zone,
            location,
            logger: self.logs.logger(&conf.error_logs),
            access_logs,
            rotation: Rotation::default(),
            blocks,
            limited,
            guard,
            pass,
        });
        Ok(LocationId(index(self.snapshot.locations.len() - 1)))
    }

    fn add_listener(&mut self, http: &Http, listener: &Listener) -> Result<(), Diagnostic> {
        let default_server = ServerId(index(listener.default_server));
        let mut names = ServerNames::new(default_server);
        for &server in &listener.servers {
            for name in &http.servers[server].names {
                names.add(name, ServerId(index(server)));
            }
        }
        let default = &http.servers[listener.default_server];
        let starttls =
            (default.mail.as_ref()).is_some_and(|mail| mail.starttls != MailStartTls::Off);
        let acceptor = if listener.options.ssl || listener.options.quic || starttls {
            Some(self.tls.acceptor(&self.snapshot, listener, &names)?)
        } else {
            None
        };
        let alternatives = http
            .listeners
            .iter()
            .enumerate()
            .filter(|(_, other)| {
                !other.bind && listener.bind && accepts_for(&listener.address, &other.address)
            })
            .map(|(at, _)| ListenerId(index(at)))
            .collect();
        self.snapshot.listeners.push(ListenerRuntime {
            kind: listener.kind,
            address: listener.address.clone(),
            bind: listener.bind,
            options: listener.options.clone(),
            alternatives,
            names,
            acceptor,
            evaluates_certificates: listener.servers.iter().any(|&server| {
                let tls = self.snapshot.server(ServerId(index(server))).tls.as_ref();
                tls.is_some_and(|tls| tls.evaluates_certificates())
            }),
        });
        Ok(())
    }
}

fn methods(names: &[&str]) -> Vec<Method> {
    let named = |name: &&str| Method::from_bytes(name.as_bytes());
    names.iter().map(named).collect()
}

fn prefix(config: &Config) -> Vec<u8> {
    let bytes = config.prefix.as_os_str().as_bytes();
    bytes.strip_suffix(b"/").unwrap_or(bytes).to_vec()
}

fn head_limits(server: &Server) -> Limits {
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    Limits {
        header_buffer_bytes: size(server.client_header_buffer_bytes),
        large_buffer_bytes: size(server.large_header_buffer_bytes),
        large_buffer_count: server.large_header_buffers as usize,
        max_headers: server.max_headers as usize,
        ignore_invalid_headers: server.ignore_invalid_headers,
        underscores_in_headers: server.underscores_in_headers,
    }
}

fn index(at: usize) -> u32 {
    u32::try_from(at).expect("a configuration of four billion blocks does not fit into memory")
}
