//! Translates the `quic_*` and `http3_*` directives into settings of connections.

use super::qlog::QlogRuntime;
use crate::materials::Materials;
use crate::tls_build::{emerg, file};
use sealane_conf::model::{CongestionControl, FrameAllowance, LocationConf, QuicVersion, Server};
use sealane_conf::{Config, Diagnostic};
use sealane_http::h1;
use sealane_http::h2::Allowance;
use sealane_http::h3;
use sealane_log::LogSet;
use sealane_quic::{Algorithm, ConnectionSettings, Settings, Version};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;

/// Unidirectional streams that a client may have open: its control stream, those of QPACK, and
/// some of types that are not known.
const UNIDIRECTIONAL_STREAMS: u64 = 8;
/// The window of these streams.
const UNIDIRECTIONAL_WINDOW_BYTES: u64 = 64 << 10;
/// Longest datagram that is received: what an Ethernet frame holds, with room to spare.
const MAX_UDP_PAYLOAD_BYTES: u16 = 1500;
/// Longest datagram that is sent where the interface takes it.
const MAX_DATAGRAM_BYTES: u16 = 1452;
/// The first window of a connection, for this many streams of which all send bodies.
const STREAMS_IN_FIRST_WINDOW: u64 = 16;

/// Other keys may be made from the same file.
const HOST_KEY_LABEL: &[u8] = b"quic_host_key";
/// Other keys are made from the key of the session store.
const STORE_KEY_LABEL: &[u8] = b"quic keys by ssl_session_store";

/// The shortest time-out of connections whose `keepalive_timeout` is zero.
const MIN_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// What connections of one server have in common.
#[derive(Clone)]
pub(crate) struct QuicRuntime {
    pub(crate) transport: Arc<ConnectionSettings>,
    pub(crate) codec: Arc<h3::Settings>,
    /// Which connections are recorded, if any.
    pub(super) qlog: Option<Arc<QlogRuntime>>,
}

impl QuicRuntime {
    /// The settings of a server; `conf` is that of its default location.
    pub(crate) fn new(
        server: &Server,
        conf: &LocationConf,
        head: h1::Limits,
        logs: &LogSet,
    ) -> QuicRuntime {
        let (quic, http3) = (&server.quic, &server.http3);
        let stream_bytes = u64::from(http3.stream_buffer_bytes);
        let max_connection_bytes = u64::from(http3.max_connection_window_bytes);
        let codec = codec_settings(server, head);
        let transport = ConnectionSettings {
            streams: Settings {
                max_data: (STREAMS_IN_FIRST_WINDOW * stream_bytes).min(max_connection_bytes),
                max_stream_data_bidi_local: 0,
                max_stream_data_bidi_remote: stream_bytes,
                max_stream_data_uni: UNIDIRECTIONAL_WINDOW_BYTES,
                max_streams_bidi: http3.max_concurrent_streams.into(),
                max_streams_uni: UNIDIRECTIONAL_STREAMS,
                max_window: max_connection_bytes,
                max_stream_window: http3.max_stream_window_bytes.into(),
            },
            congestion_control: match quic.congestion_control {
                CongestionControl::Cubic => Algorithm::Cubic,
                CongestionControl::Bbr => Algorithm::Bbr,
                CongestionControl::NewReno => Algorithm::NewReno,
            },
            max_idle_timeout: match conf.keepalive_timeout.is_zero() {
                // On the wire it would mean that there is no limit.
                true => server.client_header_timeout.max(MIN_IDLE_TIMEOUT),
                false => conf.keepalive_timeout,
            },
            active_connection_id_limit: quic.active_connection_id_limit.into(),
            max_udp_payload_size: MAX_UDP_PAYLOAD_BYTES,
            max_datagram_size: MAX_DATAGRAM_BYTES,
            mtu_discovery: quic.mtu_discovery,
            ecn: true,
            versions: (quic.versions.iter())
                .map(|version| match version {
                    QuicVersion::V1 => Version::V1,
                    QuicVersion::V2 => Version::V2,
                })
                .collect(),
            early_data_context: early_data_context(&codec),
            migration: true,
            preferred_v4: quic.preferred_address.and_then(|preferred| preferred.v4),
            preferred_v6: quic.preferred_address.and_then(|preferred| preferred.v6),
        };
        QuicRuntime {
            transport: Arc::new(transport),
            codec,
            qlog: QlogRuntime::new(server, logs),
        }
    }
}

/// So many heads of the largest size may be incomplete at a time on a connection.
const HEADS_AT_A_TIME: usize = 4;

/// The settings of HTTP/3 that a client remembers for its early data (RFC 9114 section 7.2.4.2).
fn early_data_context(codec: &h3::Settings) -> Vec<u8> {
    format!(
        "h3 {} {} {}",
        codec.decoder_table_bytes, codec.blocked_streams, codec.extended_connect
    )
    .into_bytes()
}

fn codec_settings(server: &Server, head: h1::Limits) -> Arc<h3::Settings> {
    let http3 = &server.http3;
    let limits = &http3.limits;
    let allow = |allowance: FrameAllowance| Allowance {
        burst: allowance.burst,
        per_second: allowance.per_second,
    };
    let default = h3::Settings::default();
    let section_bytes = usize::try_from(limits.header_block_bytes).unwrap_or(usize::MAX);
    Arc::new(h3::Settings {
        max_concurrent_streams: http3.max_concurrent_streams as usize,
        decoder_table_bytes: http3.max_table_capacity_bytes,
        encoder_table_bytes: http3.max_table_capacity_bytes,
        blocked_streams: http3.max_blocked_streams as usize,
        extended_connect: http3.extended_connect && server.passes_upgrades(),
        // Heads that are allowed can be received, several at a time.
        held_bytes: (default.held_bytes)
            .max(HEADS_AT_A_TIME * head.max_head_bytes())
            .max(section_bytes),
        head,
        limits: h3::Limits {
            resets: allow(limits.resets),
            empty_frames: allow(limits.empty_frames),
            priority_frames: allow(limits.priority_frames),
            unidirectional_streams: allow(limits.unidirectional_streams),
            oversized_heads: allow(limits.oversized_heads),
            section_bytes,
            ..default.limits
        },
    })
}

/// What keys are made from that nodes share.
#[derive(Clone, Copy)]
pub(crate) struct HostSecret {
    pub(crate) bytes: [u8; 32],
    /// The keys of stateless resets are made from it as well. A node that gets packets for a
    /// connection of another one would end it (RFC 9000 section 21.11), so who shares these has to
    /// see to it that packets reach their node.
    pub(crate) is_for_resets: bool,
}

/// What keys are made from: `quic_host_key` of the first address for QUIC. It is one for all of
/// them, as connection ids do not tell the address. Without one, nodes that share sessions
/// (`ssl_session_store ... key=`) share the keys of address tokens as well.
///
/// # Errors
/// When the file is empty.
pub(crate) fn host_secret(
    config: &Config,
    materials: &Materials,
) -> Result<Option<HostSecret>, Diagnostic> {
    let Some(http) = &config.http else {
        return Ok(None);
    };
    let listeners = http
        .listeners
        .iter()
        .filter(|listener| listener.options.quic);
    let servers = listeners.map(|listener| &*http.servers[listener.default_server]);
    let host_key = |server: &&Server| {
        let path = server.quic.host_key.clone()?;
        Some((path, "QUIC host key", HOST_KEY_LABEL))
    };
    let store_key = |server: &&Server| {
        let store = server.tls.as_ref()?.session_store.as_ref()?;
        let path = store.key_file.clone()?;
        Some((path, "session store key", STORE_KEY_LABEL))
    };
    let servers: Vec<&Server> = servers.collect();
    let found = servers.iter().find_map(host_key);
    let Some((path, what, label)) = found.or_else(|| servers.iter().find_map(store_key)) else {
        return Ok(None);
    };
    let bytes = file(materials, &path, what)?;
    if bytes.is_empty() {
        return Err(emerg(format!("\"{}\" zero key size", path.display())));
    }
    let digest = Sha256::new().chain_update(label).chain_update(bytes);
    Ok(Some(HostSecret {
        bytes: digest.finalize().into(),
        is_for_resets: label == HOST_KEY_LABEL,
    }))
}

/// HTTP/0.9 over QUIC, as ALPN calls it.
pub(crate) const HQ_PROTOCOL: &[u8] = b"hq-interop";

/// The protocols that may be agreed on over QUIC, preferred first (`http3`, `http3_hq`).
pub(crate) fn tls_protocols(server: &Server) -> Vec<Box<[u8]>> {
    let mut protocols: Vec<Box<[u8]>> = Vec::new();
    if server.http3.enabled {
        protocols.push(b"h3".as_slice().into());
    }
    if server.http3.hq {
        protocols.push(HQ_PROTOCOL.into());
    }
    protocols
}
