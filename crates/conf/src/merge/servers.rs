//! `http` and `server` level: merging, TLS settings, and conflicting names.

use super::HttpLevel;
use super::certificates;
use super::locations::Inherited;
use super::passes;
use crate::build::Build;
use crate::call::{Fault, shown};
use crate::directives::{
    ACME_CERTIFICATE, ACME_CERTIFICATE_KEY, check_identifiers, identifiers_of_names, is_key_uri,
};
use crate::draft::{
    BuiltinCache, Http2Draft, LocationDraft, OcspScope, ServerBlock, ServerDraft, TlsDraft,
    WrittenFile,
};
use crate::inline_keys;
use crate::input::Options;
use crate::model::{
    AcmeCertificate, AcmeIssuer, AsyncMode, CertificateFiles, CertificateSource,
    ClientCertificates, ClientOcsp, DynamicRecords, EARLY_DATA_METHODS, EARLY_DATA_REGISTER_BYTES,
    EarlyData, EvaluatedCertificates, EvaluatedPair, Http2, Http2Limits, Ktls, ListenAddress,
    LocationConf, Locations, MIN_TICKET_ROTATION, RealIpHeader, Server, ServerCertificates,
    ServerKind, ServerName, SessionCache, Stapling, Tls, TlsProtocols, VerifyClient,
};
use crate::parser::path_of;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// nginx's default of `connection_pool_size`, which large buffers must reach.
const CONNECTION_POOL_BYTES: u64 = 512;

/// A server without its locations, and its settings for them to inherit.
pub(super) fn server(
    inherited: &Inherited<'_>,
    block: &ServerBlock,
    level: &HttpLevel,
    issuers: &[Arc<AcmeIssuer>],
) -> Result<(Server, LocationDraft), Fault> {
    let mut draft = block.server.clone();
    draft.inherit(&level.server);
    let mut location = block.location.clone();
    location.inherit(&level.location);
    if block.kind == ServerKind::Http {
        passes::check(&location.passing)?;
    }
    location.restricting.check()?;

    let (number, size) = draft.large_header_buffers.unwrap_or((4, 8 << 10));
    if size < draft.connection_pool_bytes.unwrap_or(CONNECTION_POOL_BYTES) {
        return Err(Fault::new(
            "the \"large_client_header_buffers\" size must be equal to or greater than \
             \"connection_pool_size\"",
        ));
    }
    let acme_certificate = acme_certificate(issuers, &draft)?;
    if acme_certificate.is_none() {
        if names_acme(&block.server.tls) {
            let message = "\"ssl_certificate $acme_certificate\" without \"acme_certificate\"";
            return Err(Fault::earlier(&block.origin, message)
                .help("\"acme_certificate ISSUER\" says where the certificate comes from"));
        }
        if names_acme(&draft.tls) {
            // Written in `http` for the servers that have one.
            draft.tls.certificates = None;
            draft.tls.certificate_keys = None;
        }
    }
    if block.kind == ServerKind::Mail {
        draft.tls.handshake_timeout = draft.mail.timeout;
    }
    let tls = tls(inherited.options, &draft.tls)?;
    let stream = (block.kind == ServerKind::Stream).then(|| draft.stream.server());
    let pass = match block.kind {
        ServerKind::Http => passes::pass(inherited, &location.passing)?,
        ServerKind::Mail => {
            location.real_ip_header = Some(RealIpHeader::ProxyProtocol);
            location.types = Some(Arc::default());
            if draft.mail.resolver_off {
                location.resolver = None;
            }
            None
        }
        ServerKind::Stream => {
            location.real_ip_header = Some(RealIpHeader::ProxyProtocol);
            location.types = Some(Arc::default()); // nothing has a media type
            passes::stream_pass(inherited, &location.passing, &draft.stream)?
        }
    };
    let mail = match block.kind {
        ServerKind::Mail => draft.mail.server(inherited.options),
        _ => None,
    };
    let http2 = http2(&draft.http2);
    if draft.names.is_empty() {
        draft.names.push(ServerName::Exact(String::new()));
    }
    let server = Server {
        primary_name: draft.primary_name.unwrap_or_default(),
        names: draft.names,
        tls: tls.map(Arc::new),
        script: super::locations::server_script(&block.script),
        verify_client: draft.tls.verify_client.unwrap_or_default(),
        locations: Locations::default(),
        conf: Arc::new(LocationConf {
            pass,
            ..inherited.finish(&location, "")
        }),
        client_header_timeout: draft
            .client_header_timeout
            .unwrap_or(Duration::from_secs(60)),
        client_header_buffer_bytes: draft.client_header_buffer_bytes.unwrap_or(1 << 10),
        large_header_buffers: number,
        large_header_buffer_bytes: size,
        max_headers: u32::try_from(draft.max_headers.unwrap_or(1000)).unwrap_or(u32::MAX),
        ignore_invalid_headers: draft.ignore_invalid_headers.unwrap_or(true),
        underscores_in_headers: draft.underscores_in_headers.unwrap_or(false),
        merge_slashes: draft.merge_slashes.unwrap_or(true),
        client_body_early_read: draft.client_body_early_read.unwrap_or_default(),
        http2,
        http3: draft.http3.finish(),
        quic: draft.quic.finish(),
        acme_certificate,
        stream: stream.map(Arc::new),
        mail: mail.map(Arc::new),
        origin: block.origin.clone(),
    };
    Ok((server, location))
}

/// Whether `ssl_certificate` of a level is what `acme_certificate` brings.
fn names_acme(draft: &TlsDraft) -> bool {
    let mut written = draft.certificates.iter().flatten();
    written.any(|file| file.text == ACME_CERTIFICATE)
}

/// What `acme_certificate` of a server orders.
fn acme_certificate(
    issuers: &[Arc<AcmeIssuer>],
    draft: &ServerDraft,
) -> Result<Option<Arc<AcmeCertificate>>, Fault> {
    let Some(certificate) = &draft.acme_certificate else {
        return Ok(None);
    };
    let origin = &certificate.origin;
    let issuer = issuers.iter().find(|it| it.name == certificate.issuer);
    let issuer = issuer.ok_or_else(|| {
        let message = format!("issuer \"{}\" is missing", certificate.issuer);
        Fault::earlier(origin, message).help("no \"acme_issuer\" has this name")
    })?;
    let identifiers = match &certificate.identifiers[..] {
        [] => identifiers_of_names(&draft.names, origin)?,
        written => written.to_vec(),
    };
    Ok(Some(Arc::new(AcmeCertificate {
        identifiers: check_identifiers(identifiers, issuer, origin)?,
        issuer: Arc::clone(issuer),
        key: certificate.key.unwrap_or_default(),
    })))
}

/// Takes every option that is not set from the outer level.
macro_rules! inherit {
    ($inner:expr, $outer:expr; $($field:ident)*) => {
        $(if $inner.$field.is_none() { $inner.$field.clone_from(&$outer.$field); })*
    };
}
pub(super) use inherit;

impl ServerDraft {
    /// Names and listens belong to one server and are not inherited.
    fn inherit(&mut self, outer: &ServerDraft) {
        inherit!(self, outer;
            ssl client_header_timeout client_header_buffer_bytes large_header_buffers
            connection_pool_bytes max_headers
            ignore_invalid_headers underscores_in_headers merge_slashes client_body_early_read);
        self.http2.inherit(&outer.http2);
        self.http3.inherit(&outer.http3);
        self.quic.inherit(&outer.quic);
        self.tls.inherit(&outer.tls);
        self.stream.inherit(&outer.stream);
        self.mail.inherit(&outer.mail);
    }
}

impl Http2Draft {
    fn inherit(&mut self, outer: &Http2Draft) {
        inherit!(self, outer;
            enabled extended_connect max_concurrent_streams body_preread_size max_stream_window
            max_connection_window resets settings pings empty_frames priority_frames
            window_updates oversized_heads continuations header_block_size unread_replies);
    }
}

/// The HTTP/2 settings of a server whose draft is merged.
fn http2(draft: &Http2Draft) -> Http2 {
    let number = |value: Option<u64>, default: u32| {
        value.map_or(default, |value| u32::try_from(value).unwrap_or(u32::MAX))
    };
    let body_preread_bytes = number(draft.body_preread_size, 64 << 10);
    let stream_window = number(draft.max_stream_window, 4 << 20).max(body_preread_bytes);
    let default = Http2Limits::DEFAULT;
    Http2 {
        enabled: draft.enabled.unwrap_or(false),
        extended_connect: draft.extended_connect.unwrap_or(true),
        max_concurrent_streams: number(draft.max_concurrent_streams, 128),
        body_preread_bytes,
        max_stream_window_bytes: stream_window,
        max_connection_window_bytes: number(draft.max_connection_window, 16 << 20)
            .max(stream_window),
        limits: Http2Limits {
            resets: draft.resets.unwrap_or(default.resets),
            settings: draft.settings.unwrap_or(default.settings),
            pings: draft.pings.unwrap_or(default.pings),
            empty_frames: draft.empty_frames.unwrap_or(default.empty_frames),
            priority_frames: draft.priority_frames.unwrap_or(default.priority_frames),
            window_updates: draft.window_updates.unwrap_or(default.window_updates),
            oversized_heads: draft.oversized_heads.unwrap_or(default.oversized_heads),
            continuations: number(draft.continuations, default.continuations),
            header_block_bytes: draft
                .header_block_size
                .unwrap_or(default.header_block_bytes),
            unread_replies: number(draft.unread_replies, default.unread_replies),
        },
    }
}

impl TlsDraft {
    fn inherit(&mut self, outer: &TlsDraft) {
        inherit!(self, outer;
            certificates certificate_keys password_file protocols ciphers conf_commands
            prefer_server_ciphers ecdh_curve dhparam buffer_bytes dyn_rec_enable dyn_rec_timeout
            dyn_rec_size_lo dyn_rec_size_hi dyn_rec_threshold ktls ktls_min_size ktls_key_records
            ktls_key_updates session_timeout session_tickets
            session_ticket_keys session_builtin session_shared session_ticket_rotation
            session_ticket_state session_store certificate_cache certificate_compression stapling
            stapling_verify stapling_file stapling_responder stapling_state early_data early_data_methods
            early_data_register_bytes reject_handshake verify_client verify_depth client_certificate
            trusted_certificate crl ocsp ocsp_responder ocsp_cache ech_files async_mode accelerator handshake_timeout);
    }
}

/// The TLS settings of a server, if it can use any: with certificates, or to
/// refuse handshakes.
fn tls(options: &Options, draft: &TlsDraft) -> Result<Option<Tls>, Fault> {
    let mut certificates = named_certificates(options, draft)?;
    let reject_handshake = draft.reject_handshake.unwrap_or(false);
    if certificates.is_empty() && !reject_handshake {
        return Ok(None);
    }
    let commands = draft.conf_commands.as_deref().unwrap_or_default();
    let named = match &certificates {
        ServerCertificates::Files(files) => files.last(),
        ServerCertificates::Evaluated(_) => None,
    };
    let sorted = certificates::of_commands(options, "ssl_conf_command", commands, named)?;
    // Of each kind of key the last certificate counts. Those with variables are used for their
    // connections, whatever the commands say.
    if let ServerCertificates::Files(files) = &mut certificates {
        files.extend(sorted.certificates);
    }
    let number = |value: Option<u64>, default: u32| {
        value.map_or(default, |value| u32::try_from(value).unwrap_or(u32::MAX))
    };
    let dynamic_records = draft
        .dyn_rec_enable
        .unwrap_or(false)
        .then(|| DynamicRecords {
            low_bytes: number(draft.dyn_rec_size_lo, 1369),
            high_bytes: number(draft.dyn_rec_size_hi, 4229),
            threshold: number(draft.dyn_rec_threshold, 40),
            timeout: draft.dyn_rec_timeout.unwrap_or(Duration::from_secs(1)),
        });
    let session_timeout = draft.session_timeout.unwrap_or(Duration::from_secs(300));
    Ok(Some(Tls {
        certificates,
        password_file: draft.password_file.clone(),
        protocols: draft.protocols.unwrap_or(TlsProtocols {
            tls_1_2: true,
            tls_1_3: true,
            ..TlsProtocols::default()
        }),
        ciphers: draft
            .ciphers
            .clone()
            .unwrap_or_else(|| "HIGH:!aNULL:!MD5".into()),
        conf_commands: sorted.rest,
        prefer_server_ciphers: draft.prefer_server_ciphers.unwrap_or(false),
        ecdh_curve: match &draft.ecdh_curve {
            Some((groups, _)) => groups.clone(),
            None => "auto".into(),
        },
        ecdh_curve_origin: match &draft.ecdh_curve {
            Some((groups, origin)) if groups != "auto" => Some(origin.clone()),
            _ => None,
        },
        dhparam: draft.dhparam.clone(),
        buffer_bytes: number(draft.buffer_bytes, 16 << 10),
        dynamic_records,
        ktls: {
            let default = Ktls::default();
            Ktls {
                mode: draft.ktls,
                min_size_bytes: draft.ktls_min_size.unwrap_or(default.min_size_bytes),
                key_records: draft.ktls_key_records.unwrap_or(default.key_records),
                key_updates: number(draft.ktls_key_updates, default.key_updates),
            }
        },
        session_timeout,
        session_tickets: draft.session_tickets.unwrap_or(true),
        session_ticket_keys: draft.session_ticket_keys.clone().unwrap_or_default(),
        session_ticket_rotation: draft
            .session_ticket_rotation
            .unwrap_or(session_timeout / 3)
            .max(MIN_TICKET_ROTATION),
        session_ticket_state: draft.session_ticket_state.clone(),
        session_cache: session_cache(draft),
        session_store: draft.session_store.clone().flatten(),
        certificate_compression: draft.certificate_compression.unwrap_or(false),
        ech_files: draft.ech_files.clone().unwrap_or_default(),
        stapling: stapling(draft),
        early_data: EarlyData {
            enabled: draft.early_data.unwrap_or(false),
            methods: draft
                .early_data_methods
                .clone()
                .unwrap_or_else(|| EARLY_DATA_METHODS.map(str::to_owned).into()),
            register_bytes: draft
                .early_data_register_bytes
                .unwrap_or(EARLY_DATA_REGISTER_BYTES),
        },
        client_certificates: client_certificates(draft)?,
        reject_handshake,
        async_mode: draft.async_mode.unwrap_or(AsyncMode::Auto),
        accelerator: draft.accelerator.clone().unwrap_or_default(),
        handshake_timeout: draft.handshake_timeout.unwrap_or(Duration::from_secs(60)),
    }))
}

/// How staples are found, if they are wanted.
fn stapling(draft: &TlsDraft) -> Option<Stapling> {
    let wanted = draft.stapling.unwrap_or(false);
    let present = |path: &&PathBuf| !path.as_os_str().is_empty();
    wanted.then(|| Stapling {
        verify: draft.stapling_verify.unwrap_or(false),
        file: draft.stapling_file.as_ref().filter(present).cloned(),
        responder: draft
            .stapling_responder
            .clone()
            .filter(|url| !url.is_empty()),
        state: draft.stapling_state.clone(),
    })
}

/// How clients are verified, whether or not they are.
fn client_certificates(draft: &TlsDraft) -> Result<ClientCertificates, Fault> {
    let present = |path: &Option<PathBuf>| {
        let path = path.as_ref();
        path.filter(|path| !path.as_os_str().is_empty()).cloned()
    };
    let settings = ClientCertificates {
        verify: draft.verify_client.unwrap_or_default(),
        depth: u32::try_from(draft.verify_depth.unwrap_or(1)).unwrap_or(u32::MAX),
        client_certificate: present(&draft.client_certificate),
        trusted_certificate: present(&draft.trusted_certificate),
        crl: present(&draft.crl),
        ocsp: ocsp(draft),
    };
    if settings.ocsp.is_some() && settings.verify == VerifyClient::OptionalNoCa {
        return Err(Fault::whole(
            "\"ssl_ocsp\" is incompatible with \"ssl_verify_client optional_no_ca\"",
        ));
    }
    let needs_trust = matches!(settings.verify, VerifyClient::On | VerifyClient::Optional);
    let has_trust = settings.client_certificate.is_some() || settings.trusted_certificate.is_some();
    if needs_trust && !has_trust {
        return Err(Fault::whole(
            "no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client",
        ));
    }
    Ok(settings)
}

/// How issuers are asked about certificates of clients, if they are.
fn ocsp(draft: &TlsDraft) -> Option<ClientOcsp> {
    let whole_chain = match draft.ocsp.unwrap_or(OcspScope::Off) {
        OcspScope::Off => return None,
        OcspScope::Leaf => false,
        OcspScope::Chain => true,
    };
    Some(ClientOcsp {
        whole_chain,
        responder: draft.ocsp_responder.clone().filter(|url| !url.is_empty()),
        cache: draft.ocsp_cache.clone().flatten(),
    })
}

/// The certificates of `ssl_certificate` and `ssl_certificate_key`.
fn named_certificates(options: &Options, draft: &TlsDraft) -> Result<ServerCertificates, Fault> {
    let certificates = draft.certificates.as_deref().unwrap_or_default();
    let keys = draft.certificate_keys.as_deref().unwrap_or_default();
    if let Some(last) = certificates.last()
        && keys.len() < certificates.len()
    {
        return Err(Fault::whole(format!(
            "no \"ssl_certificate_key\" is defined for certificate \"{}\"",
            last.text
        )));
    }
    let pairs = || certificates.iter().zip(keys);
    let is_acme = |file: &WrittenFile, variable| file.text == variable;
    let is_half = |(certificate, key): (&WrittenFile, &WrittenFile)| {
        is_acme(certificate, ACME_CERTIFICATE) != is_acme(key, ACME_CERTIFICATE_KEY)
    };
    if pairs().any(is_half) {
        return Err(Fault::whole(format!(
            "\"{ACME_CERTIFICATE}\" and \"{ACME_CERTIFICATE_KEY}\" are used together only"
        )));
    }
    let literals = pairs().map(|(certificate, key)| {
        if is_acme(certificate, ACME_CERTIFICATE) {
            return None;
        }
        Some(CertificateFiles {
            certificate: certificate_source(options, certificate.name.as_literal()?),
            key: key_source(options, key.name.as_literal()?),
        })
    });
    Ok(match literals.collect() {
        Some(files) => ServerCertificates::Files(files),
        None => ServerCertificates::Evaluated(EvaluatedCertificates {
            pairs: pairs()
                .map(
                    |(certificate, key)| match is_acme(certificate, ACME_CERTIFICATE) {
                        true => EvaluatedPair::Acme,
                        false => EvaluatedPair::Named {
                            certificate: certificate.name.clone(),
                            key: key.name.clone(),
                        },
                    },
                )
                .collect(),
            cache: draft.certificate_cache.clone().flatten(),
        }),
    })
}

/// Where a certificate or key without variables comes from.
pub(super) fn certificate_source(options: &Options, literal: &[u8]) -> CertificateSource {
    match literal.strip_prefix(b"data:") {
        Some(pem) => match inline_keys::path_of_reference(pem) {
            Some(path) => CertificateSource::Taken(path),
            None => CertificateSource::Inline(shown(pem)),
        },
        None => CertificateSource::File(options.beside_conf(path_of(literal))),
    }
}

/// Where a key without variables comes from.
pub(super) fn key_source(options: &Options, literal: &[u8]) -> CertificateSource {
    match is_key_uri(literal) {
        true => CertificateSource::Uri(shown(literal)),
        false => certificate_source(options, literal),
    }
}

/// `off` and `none` win; else a shared zone, which may be inherited while
/// `builtin` is given here.
fn session_cache(draft: &TlsDraft) -> SessionCache {
    match (draft.session_builtin, &draft.session_shared) {
        (Some(BuiltinCache::Off), _) => SessionCache::Off,
        (Some(BuiltinCache::None), _) => SessionCache::None,
        (_, Some((name, bytes))) => SessionCache::Shared {
            name: name.clone(),
            bytes: *bytes,
        },
        (Some(BuiltinCache::Entries(entries)), None) => SessionCache::Builtin(entries),
        (None, None) => SessionCache::None,
    }
}

/// Warns about names that several servers of one address have, and refuses
/// wildcards in the wrong place. Like nginx, looks only at addresses where
/// names decide: with several servers, or a default one with an expression.
pub(super) fn check_names(
    b: &mut Build<'_>,
    kind: ServerKind,
    servers: &[Server],
) -> Result<(), Fault> {
    for index in in_nginx_order(b) {
        let address = &b.http.addresses[index];
        if address.kind != kind {
            continue;
        }
        let captures = servers[address.default_server]
            .names
            .iter()
            .any(|name| match name {
                ServerName::Regex(regex) => regex.group_count() > 1,
                _ => false,
            });
        if address.servers.len() < 2 && !captures {
            continue;
        }
        let shown = address.address.to_string();
        let mut taken: HashSet<(NameTable, String)> = HashSet::new();
        let (mut conflicts, mut invalid) = (Vec::new(), None);
        for name in address
            .servers
            .iter()
            .flat_map(|index| &servers[*index].names)
        {
            let Some(written) = written(name) else {
                continue;
            };
            let Some(keys) = keys(&written, name) else {
                invalid = Some(format!(
                    "invalid server name or wildcard \"{written}\" on {shown}"
                ));
                break;
            };
            if keys.iter().any(|key| taken.contains(key)) {
                conflicts.push(format!(
                    "conflicting server name \"{written}\" on {shown}, ignored"
                ));
            }
            taken.extend(keys);
        }
        for conflict in conflicts {
            b.warn_whole(conflict);
        }
        if let Some(message) = invalid {
            return Err(Fault::whole(message));
        }
    }
    Ok(())
}

/// The order in which nginx processes addresses: port by port as first used,
/// own sockets first within a port, the wildcard last.
fn in_nginx_order(b: &Build<'_>) -> Vec<usize> {
    let addresses = &b.http.addresses;
    let family_and_port = |index: usize| match &addresses[index].address {
        ListenAddress::Inet(inet) => (u8::from(inet.is_ipv4()), inet.port()),
        ListenAddress::Unix(_) => (2, 0),
        ListenAddress::Udp(inet) => (3 + u8::from(inet.is_ipv4()), inet.port()),
    };
    let mut first_met = std::collections::HashMap::new();
    for index in 0..addresses.len() {
        first_met.entry(family_and_port(index)).or_insert(index);
    }
    let mut order: Vec<usize> = (0..addresses.len()).collect();
    order.sort_by_key(|index| {
        let inet = addresses[*index].address.inet();
        let wildcard = inet.is_some_and(|inet| inet.ip().is_unspecified());
        (
            first_met[&family_and_port(*index)],
            wildcard,
            !addresses[*index].bind,
        )
    });
    order
}

/// The name as written, unless it is an expression.
fn written(name: &ServerName) -> Option<String> {
    match name {
        ServerName::Exact(name) | ServerName::Dot(name) => Some(name.clone()),
        ServerName::WildcardPrefix(suffix) => Some(format!("*{suffix}")),
        ServerName::WildcardSuffix(prefix) => Some(format!("{prefix}*")),
        ServerName::Regex(_) => None,
    }
}

/// The tables in which nginx keeps names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum NameTable {
    Exact,
    Head,
    Tail,
}

/// Where a name is kept; `None` when its stars or dots are in wrong places.
fn keys(written: &str, name: &ServerName) -> Option<Vec<(NameTable, String)>> {
    let stars = written.bytes().filter(|byte| *byte == b'*').count();
    if stars > 1 || written.contains("..") || written.contains('\0') {
        return None;
    }
    match name {
        ServerName::Exact(name) if stars == 0 => Some(vec![(NameTable::Exact, name.clone())]),
        ServerName::Dot(name) if stars == 0 => {
            let bare = name[1..].to_owned();
            Some(vec![
                (NameTable::Exact, bare.clone()),
                (NameTable::Head, bare),
            ])
        }
        ServerName::WildcardPrefix(suffix) => Some(vec![(NameTable::Head, suffix[1..].to_owned())]),
        ServerName::WildcardSuffix(prefix) => Some(vec![(
            NameTable::Tail,
            prefix[..prefix.len() - 1].to_owned(),
        )]),
        _ => None,
    }
}
