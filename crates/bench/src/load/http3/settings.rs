//! What all connections of an event loop share.

use std::{
    cell::RefCell,
    sync::Arc,
    time::{Duration, Instant},
};

use sealane_http::h3;
use sealane_quic::{Algorithm, ConnectionSettings, Outbox, Settings, Time, Version};
use sealane_sys::socket::ReceivedBatch;
use sealane_tls::{
    Protocol,
    client::{ClientSettings, ClientTls},
};

use crate::{
    Error,
    load::{self, KeyType, Offer, Resumption, TlsPlan},
};

/// Windows large enough that the client never holds up the server, as with HTTP/2.
const WINDOW_BYTES: u64 = (1 << 30) - 1;
/// The server's control stream, those of its QPACK, and some of types that nobody knows.
const MAX_UNIDIRECTIONAL_STREAMS: u64 = 8;
/// What an Ethernet carries of a packet of IPv4. Without this limit servers would find out that the
/// loopback interface carries 64 KiB, as no network does.
const MAX_DATAGRAM_BYTES: u16 = 1472;
/// Longer than any measurement: connections end when the client says so.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// Settings and buffers; the latter are used between two awaits.
pub(crate) struct Http3Settings {
    pub(super) tls: ClientTls,
    pub(super) quic: Arc<ConnectionSettings>,
    pub(super) http: Arc<h3::Settings>,
    /// The origin of times.
    began: Instant,
    pub(super) received: RefCell<ReceivedBatch>,
    pub(super) outbox: RefCell<Outbox>,
}

impl Http3Settings {
    /// For connections with what `plan` pins, which is all that they offer.
    pub(crate) fn new(plan: &TlsPlan) -> Result<Self, Error> {
        let is_full = plan.resumption == Resumption::Full;
        let is_tls13 = matches!(plan.protocol, None | Some(load::Protocol::Tls13));
        if !is_full || !is_tls13 || plan.staple || plan.offer != Offer::Pinned {
            return Err(Error::Usage(
                "over HTTP/3 there are full handshakes of TLS 1.3 only".into(),
            ));
        }
        Ok(Self {
            tls: client_tls(plan)?,
            quic: Arc::new(quic_settings()),
            http: Arc::new(h3::Settings::default()),
            began: Instant::now(),
            received: RefCell::new(ReceivedBatch::new()),
            outbox: RefCell::default(),
        })
    }

    /// The time for QUIC.
    pub(super) fn now(&self) -> Time {
        let micros = self.began.elapsed().as_micros();
        Time::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// The same as a clock's.
    pub(super) fn instant(&self, time: Time) -> Instant {
        self.began + time.since(Time::ZERO)
    }
}

fn client_tls(plan: &TlsPlan) -> Result<ClientTls, Error> {
    let mut conf_commands = Vec::new();
    let mut pin = |name: &str, value: Option<&str>| {
        conf_commands.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    };
    pin("Ciphersuites", plan.suite.as_deref());
    pin("Groups", plan.group.as_deref());
    let algorithms = plan.key_type.map(KeyType::signature_algorithms);
    pin("SignatureAlgorithms", algorithms);
    let settings = ClientSettings {
        protocols: [Protocol::TlsV1_3].into_iter().collect(),
        conf_commands,
        server_name: true,
        session_reuse: false,
        ..ClientSettings::default()
    };
    let built = ClientTls::build(&settings).map_err(|error| Error::Tls {
        what: "prepare the TLS client".into(),
        reason: error.to_string(),
    })?;
    Ok(built.0)
}

fn quic_settings() -> ConnectionSettings {
    ConnectionSettings {
        streams: Settings {
            max_data: WINDOW_BYTES,
            max_stream_data_bidi_local: WINDOW_BYTES,
            max_stream_data_bidi_remote: 0,
            max_stream_data_uni: WINDOW_BYTES,
            max_streams_bidi: 0,
            max_streams_uni: MAX_UNIDIRECTIONAL_STREAMS,
            max_window: WINDOW_BYTES,
            max_stream_window: WINDOW_BYTES,
        },
        congestion_control: Algorithm::Cubic,
        max_idle_timeout: IDLE_TIMEOUT,
        active_connection_id_limit: 2,
        max_udp_payload_size: MAX_DATAGRAM_BYTES,
        max_datagram_size: MAX_DATAGRAM_BYTES,
        mtu_discovery: true,
        ecn: true,
        versions: vec![Version::V1],
        early_data_context: Vec::new(),
        migration: false,
        preferred_v4: None,
        preferred_v6: None,
    }
}
