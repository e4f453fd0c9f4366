//! The handshake: TLS in CRYPTO frames, transport parameters, and when keys come and go.

use super::close::Progress;
use super::keys::DataKeys;
use super::versions::OtherInitial;
use super::{Connection, ConnectionSettings, HandshakeSpace, Owner, PeerParameters};
use crate::crypto_stream::CryptoStream;
use crate::packet::PacketType;
use crate::parameters::{TransportParameters, VersionInformation};
use crate::recovery::Codepoint;
use crate::reset::ResetToken;
use crate::trace::TraceEvent;
use crate::{Code, ConnectionId, Error, PeerLimits, Side, Space, Time, Version};
use sealane_tls::Load;
use sealane_tls::quic::{
    self as tls, ClientConnection, Close, Event, InitialSecrets, Level, ServerConnection, Status,
    TrafficSecret,
};
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Why TLS has failed.
pub use sealane_tls::quic::Failure as HandshakeFailure;

/// Most packets that are kept until there are keys for them (RFC 9001 section 5.7): a window of
/// early data.
const MAX_HELD_PACKETS: usize = 16;
/// Most bytes of them.
const MAX_HELD_BYTES: usize = 20_000;

/// TLS of either end.
pub(super) enum Tls {
    Server(Box<ServerConnection>),
    Client(Box<ClientConnection>),
}

impl Tls {
    fn receive(&mut self, level: Level, bytes: &[u8]) -> Result<(), HandshakeFailure> {
        match self {
            Self::Server(tls) => tls.receive(level, bytes),
            Self::Client(tls) => tls.receive(level, bytes),
        }
    }

    fn advance(&mut self, load: Load) -> Result<Status, HandshakeFailure> {
        match self {
            Self::Server(tls) => tls.advance(load),
            Self::Client(tls) => tls.advance(),
        }
    }

    fn next_event(&mut self) -> Option<Event> {
        match self {
            Self::Server(tls) => tls.next_event(),
            Self::Client(tls) => tls.next_event(),
        }
    }

    fn poll_pending(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Server(tls) => tls.poll_pending(cx),
            Self::Client(tls) => tls.poll_pending(cx),
        }
    }

    /// The longest that a session store may be waited for.
    fn pending_timeout(&self) -> Option<Duration> {
        match self {
            Self::Server(tls) => tls.pending_timeout(),
            Self::Client(_) => None,
        }
    }

    fn pending_timed_out(&mut self) {
        match self {
            Self::Server(tls) => tls.pending_timed_out(),
            Self::Client(_) => {}
        }
    }

    fn peer_parameters(&self) -> Option<&[u8]> {
        match self {
            Self::Server(tls) => tls.peer_transport_parameters(),
            Self::Client(tls) => tls.peer_transport_parameters(),
        }
    }
}

/// TLS, and what else only the handshake needs.
pub(super) struct Negotiation {
    pub(super) tls: Tls,
    /// TLS has something to do.
    pub(super) needs_advance: bool,
    /// TLS waits for a key, a thread or the session store.
    is_pending: bool,
    /// The session store is not waited for beyond this.
    pending_until: Option<Time>,
    /// The client's hello was processed: whether early data is accepted is known.
    has_chosen: bool,
    /// Destination of the client's very first packet.
    pub(super) original_destination: ConnectionId,
    pub(super) retry_source: Option<ConnectionId>,
    /// Source of the peer's first packet.
    pub(super) peer_source: Option<ConnectionId>,
    /// Destination of the client's Initial packets, until it knows the server's id.
    pub(super) client_destination: Option<ConnectionId>,
    /// For Initial packets of another version than the one in use, while such may come.
    pub(super) other_initial: Option<Box<OtherInitial>>,
    pub(super) reset_token: Option<ResetToken>,
    /// What the client's Initial packets carry.
    pub(super) token: Box<[u8]>,
    /// Came before the secret that seals.
    opening: Option<TrafficSecret>,
    failure: Option<HandshakeFailure>,
}

impl Negotiation {
    pub(super) fn new(tls: Tls, original_destination: ConnectionId) -> Self {
        Self {
            tls,
            needs_advance: false,
            is_pending: false,
            pending_until: None,
            has_chosen: false,
            original_destination,
            retry_source: None,
            peer_source: None,
            client_destination: None,
            other_initial: None,
            reset_token: None,
            token: Box::default(),
            opening: None,
            failure: None,
        }
    }

    /// From which id the keys of Initial packets are derived (RFC 9001 section 5.2).
    pub(super) fn initial_destination(&self) -> ConnectionId {
        self.retry_source.unwrap_or(self.original_destination)
    }
}

/// A packet that came before its keys.
#[derive(Debug)]
pub(super) struct HeldPacket {
    pub(super) bytes: Box<[u8]>,
    pub(super) mark: Codepoint,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Held {
    packets: Vec<HeldPacket>,
    bytes: usize,
}

impl Version {
    /// The same for TLS.
    #[must_use]
    pub const fn to_tls(self) -> tls::Version {
        match self {
            Self::V1 => tls::Version::V1,
            Self::V2 => tls::Version::V2,
        }
    }
}

impl ConnectionSettings {
    /// The transport parameters of a client whose own id is `source`.
    #[must_use]
    pub fn client_parameters(
        &self,
        version: Version,
        source: ConnectionId,
        random: u64,
    ) -> Vec<u8> {
        let parameters = TransportParameters {
            initial_source: Some(source),
            ..self.parameters(version)
        };
        let mut bytes = Vec::new();
        parameters.put(&mut bytes, random);
        bytes
    }
}

impl Connection {
    /// Keys of Initial packets.
    pub(super) fn set_initial_keys(&mut self, destination: &ConnectionId) {
        let version = self.version.to_tls();
        let secrets = InitialSecrets::derive(version, destination);
        let (seal, open) = match self.side {
            Side::Client => (secrets.client, secrets.server),
            Side::Server => (secrets.server, secrets.client),
        };
        if let Some(initial) = &mut self.initial {
            initial.seal = Some(tls::Keys::derive(version, &seal));
            initial.open = Some(tls::Keys::derive(version, &open));
        }
    }

    /// Whether [`Connection::poll_handshake`] has something to do, or is waited for.
    #[must_use]
    pub fn wants_handshake(&self) -> bool {
        !self.is_ending()
            && (self.negotiation.as_ref())
                .is_some_and(|negotiation| negotiation.needs_advance || negotiation.is_pending)
    }

    /// Lets the handshake go on, and with it packets that have waited for their keys. Ready when it
    /// has done what it could; pending while TLS waits for a key, a thread or the session store.
    pub fn poll_handshake(
        &mut self,
        cx: &mut Context<'_>,
        load: Load,
        now: Time,
        owner: &mut impl Owner,
    ) -> Poll<()> {
        self.trace_time(now);
        while self.wants_handshake() {
            let Some(negotiation) = &mut self.negotiation else {
                break;
            };
            if negotiation.is_pending {
                ready!(negotiation.tls.poll_pending(cx));
                negotiation.is_pending = false;
            }
            negotiation.needs_advance = false;
            let done = match negotiation.tls.advance(load) {
                Err(failure) => Err(self.note_failure(failure)),
                Ok(status) => self.go_on(status, now, owner),
            };
            if let Err(error) = done {
                self.fail(now, error);
            }
        }
        Poll::Ready(())
    }

    /// When the session store is waited for no longer.
    pub(super) fn end_of_waiting(&self) -> Option<Time> {
        let negotiation = self.negotiation.as_ref()?;
        let is_for_store = negotiation.is_pending && negotiation.tls.pending_timeout().is_some();
        negotiation.pending_until.filter(|_| is_for_store)
    }

    /// That time has come: the handshake goes on without the store.
    pub(super) fn stop_waiting(&mut self) {
        if let Some(negotiation) = &mut self.negotiation {
            negotiation.tls.pending_timed_out();
            negotiation.is_pending = false;
            negotiation.needs_advance = true;
        }
    }

    fn go_on(&mut self, status: Status, now: Time, owner: &mut impl Owner) -> Result<(), Error> {
        let Some(negotiation) = &mut self.negotiation else {
            return Ok(());
        };
        match status {
            Status::Pending => {
                negotiation.is_pending = true;
                if let Some(longest) = negotiation.tls.pending_timeout() {
                    negotiation.pending_until.get_or_insert(now + longest);
                }
            }
            Status::ParametersDue => {
                negotiation.needs_advance = true;
                if let Some(offer) = self.learn_parameters()? {
                    self.choose_version(&offer);
                }
                self.set_parameters(owner);
            }
            Status::WantRead | Status::Established => {
                self.learn_parameters()?;
                if let Some(negotiation) = &mut self.negotiation
                    // Before, the hello has come in part only.
                    && self.peer.are_known
                    && !std::mem::replace(&mut negotiation.has_chosen, true)
                    && let Tls::Server(tls) = &negotiation.tls
                {
                    owner.negotiated(tls);
                }
                self.take_tls_events()?;
                if status == Status::Established && matches!(self.state, Progress::Handshaking) {
                    self.establish(now, owner)?;
                }
                self.receive_held(now, owner);
            }
        }
        Ok(())
    }

    /// A server's transport parameters.
    fn set_parameters(&mut self, owner: &mut impl Owner) {
        let mut parameters = self.settings.parameters(self.version);
        let Some(negotiation) = &mut self.negotiation else {
            return;
        };
        parameters.original_destination = Some(negotiation.original_destination);
        parameters.retry_source = negotiation.retry_source;
        parameters.initial_source = Some(self.local_ids.first());
        parameters.stateless_reset_token = negotiation.reset_token;
        if self.settings.has_preferred_address() {
            let (id, reset_token) = owner.new_id();
            self.local_ids.add_preferred(id, reset_token);
            parameters.preferred_address = self.settings.preferred_address(id, reset_token);
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.parameters(true, &parameters);
        }
        let mut bytes = Vec::new();
        parameters.put(&mut bytes, owner.random());
        let mut early = self.settings.early_data_context.clone();
        if !early.is_empty() {
            parameters.put_early_limits(&mut early);
        }
        if let Tls::Server(tls) = &mut negotiation.tls {
            tls.set_transport_parameters(&bytes, &early);
        }
    }

    /// Reads the peer's transport parameters as soon as TLS has them. Returns what the peer says in
    /// them about versions, once.
    fn learn_parameters(&mut self) -> Result<Option<VersionInformation>, Error> {
        let Some(negotiation) = &self.negotiation else {
            return Ok(None);
        };
        if self.peer.are_known {
            return Ok(None);
        }
        let Some(bytes) = negotiation.tls.peer_parameters() else {
            return Ok(None);
        };
        let parameters = TransportParameters::parse(bytes, !self.side)?;
        let peer_source = negotiation.peer_source.unwrap_or(ConnectionId::EMPTY);
        match self.side {
            Side::Server => parameters.check_client_id(&peer_source)?,
            Side::Client => parameters.check_server_ids(
                &negotiation.original_destination,
                &peer_source,
                negotiation.retry_source.as_ref(),
            )?,
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.parameters(false, &parameters);
        }
        self.check_versions(parameters.version_information.as_ref())?;
        if self.side.is_client() && !self.is_early_data_accepted() {
            self.forget_early_data();
        }
        self.apply_parameters(&parameters)?;
        Ok(parameters.version_information)
    }

    pub(super) fn apply_parameters(
        &mut self,
        parameters: &TransportParameters,
    ) -> Result<(), Error> {
        self.peer = PeerParameters {
            max_idle_timeout_ms: parameters.max_idle_timeout_ms,
            ack_delay_exponent: parameters.ack_delay_exponent,
            max_udp_payload_size: u16::try_from(parameters.max_udp_payload_size)
                .unwrap_or(u16::MAX),
            active_connection_id_limit: parameters.active_connection_id_limit,
            are_known: true,
        };
        self.recovery
            .set_peer_max_ack_delay(Duration::from_millis(parameters.max_ack_delay_ms.into()));
        if let Some(reset_token) = parameters.stateless_reset_token {
            self.remote_ids.set_first_token(reset_token);
        }
        if let Some(preferred) = &parameters.preferred_address {
            // The server counts this id, also if this end never goes there (RFC 9000 section 9.6).
            self.remote_ids
                .on_new(1, 0, preferred.id, preferred.reset_token)?;
        }
        self.streams.set_peer_limits(&PeerLimits {
            max_data: parameters.initial_max_data,
            max_stream_data_bidi_local: parameters.initial_max_stream_data_bidi_local,
            max_stream_data_bidi_remote: parameters.initial_max_stream_data_bidi_remote,
            max_stream_data_uni: parameters.initial_max_stream_data_uni,
            max_streams_bidi: parameters.initial_max_streams_bidi,
            max_streams_uni: parameters.initial_max_streams_uni,
        })
    }

    /// Whether the server has taken early data.
    #[must_use]
    pub fn is_early_data_accepted(&self) -> bool {
        match self
            .negotiation
            .as_ref()
            .map(|negotiation| &negotiation.tls)
        {
            Some(Tls::Server(tls)) => tls.early_data_accepted(),
            Some(Tls::Client(tls)) => tls.early_data_accepted(),
            None => false,
        }
    }

    /// A client's early data was rejected: all of it is sent again.
    fn forget_early_data(&mut self) {
        if self.data.early.take().is_some() {
            self.trace_discarded(PacketType::ZeroRtt);
            let path = &mut self.paths.current.path;
            self.recovery
                .restart_space(path, Space::Data, &mut |_, _| {});
            self.streams.restart_sending();
        }
    }

    fn take_tls_events(&mut self) -> Result<(), Error> {
        loop {
            let negotiation = self.negotiation.as_mut();
            let Some(event) = negotiation.and_then(|negotiation| negotiation.tls.next_event())
            else {
                return Ok(());
            };
            match event {
                Event::Crypto { level, bytes } => self.push_crypto(level, &bytes),
                Event::WriteSecret { level, secret } => self.set_seal(level, secret),
                Event::ReadSecret { level, secret } => {
                    self.check_all_read(level)?;
                    self.set_open(level, secret);
                }
            }
        }
    }

    fn push_crypto(&mut self, level: Level, bytes: &[u8]) {
        match level {
            Level::Initial => self.initial.as_mut().map(|space| &mut space.crypto),
            Level::Handshake => self.handshake.as_mut().map(|space| &mut space.crypto),
            Level::ZeroRtt => None,
            Level::OneRtt => Some(self.data.crypto()),
        }
        .into_iter()
        .for_each(|crypto| crypto.push(bytes));
    }

    fn set_seal(&mut self, level: Level, secret: TrafficSecret) {
        let version = self.version.to_tls();
        match level {
            Level::Initial => {}
            Level::Handshake => {
                if let Some(handshake) = &mut self.handshake {
                    handshake.seal = Some(tls::Keys::derive(version, &secret));
                    self.recovery.on_handshake_keys();
                    self.trace_keys(PacketType::Handshake, true);
                }
            }
            Level::ZeroRtt => {
                self.set_early_keys(&secret);
                self.trace_keys(PacketType::ZeroRtt, true);
            }
            Level::OneRtt => {
                self.trace_keys(PacketType::OneRtt, true);
                let mut keys = DataKeys::new(version, secret);
                let opening = self.negotiation.as_mut().and_then(|n| n.opening.take());
                if let Some(opening) = opening {
                    keys.set_opening(opening);
                }
                if self.side.is_client() && self.data.early.take().is_some() {
                    // RFC 9001 section 4.9.3.
                    self.trace_discarded(PacketType::ZeroRtt);
                }
                self.data.keys = Some(Box::new(keys));
            }
        }
    }

    /// Early data stays with the original version (RFC 9369 section 4.1).
    fn set_early_keys(&mut self, secret: &TrafficSecret) {
        let version = self.original_version.to_tls();
        self.data.early = Some(Box::new(tls::Keys::derive(version, secret)));
    }

    /// RFC 9001 section 4.1.3: no message goes on when keys change.
    fn check_all_read(&self, level: Level) -> Result<(), Error> {
        let before = match level {
            Level::Handshake => &self.initial,
            Level::OneRtt => &self.handshake,
            Level::Initial | Level::ZeroRtt => return Ok(()),
        };
        if before
            .as_ref()
            .is_some_and(|space| space.crypto.has_unread())
        {
            let reason = "handshake bytes behind the last message of their level";
            return Err(Error::new(Code::PROTOCOL_VIOLATION, reason));
        }
        Ok(())
    }

    fn set_open(&mut self, level: Level, secret: TrafficSecret) {
        let version = self.version.to_tls();
        match level {
            Level::Initial => {}
            Level::Handshake => {
                if let Some(handshake) = &mut self.handshake {
                    handshake.open = Some(tls::Keys::derive(version, &secret));
                    self.trace_keys(PacketType::Handshake, false);
                }
            }
            Level::ZeroRtt => {
                self.set_early_keys(&secret);
                self.trace_keys(PacketType::ZeroRtt, false);
            }
            Level::OneRtt => {
                match (&mut self.data.keys, &mut self.negotiation) {
                    (Some(keys), _) => keys.set_opening(secret),
                    (None, Some(negotiation)) => negotiation.opening = Some(secret),
                    (None, None) => {}
                }
                self.trace_keys(PacketType::OneRtt, false);
            }
        }
    }

    /// CRYPTO data of the peer.
    ///
    /// # Errors
    /// It is too much, or TLS does not take it.
    pub(super) fn receive_crypto(
        &mut self,
        space: Space,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Error> {
        let (crypto, level) = match space {
            Space::Initial => (
                self.initial.as_mut().map(|space| &mut space.crypto),
                Level::Initial,
            ),
            Space::Handshake => (
                self.handshake.as_mut().map(|space| &mut space.crypto),
                Level::Handshake,
            ),
            Space::Data => (Some(self.data.crypto()), Level::OneRtt),
        };
        let Some(crypto) = crypto else {
            return Ok(());
        };
        let has_news = crypto.on_crypto(offset, data)?;
        let Some(negotiation) = &mut self.negotiation else {
            // Clients have nothing to say behind the handshake (RFC 9001 sections 4.4 and 6).
            return Err(Error::new(
                Code::crypto(ALERT_UNEXPECTED_MESSAGE),
                "a handshake message after the handshake",
            ));
        };
        if !has_news {
            return Ok(());
        }
        let mut taken = Ok(());
        crypto.read(&mut |bytes| {
            if taken.is_ok() {
                taken = negotiation.tls.receive(level, bytes);
            }
            bytes.len()
        });
        negotiation.needs_advance = true;
        taken.map_err(|failure| self.note_failure(failure))
    }

    fn note_failure(&mut self, failure: HandshakeFailure) -> Error {
        let code = match failure.close() {
            Close::Alert(alert) => Code::crypto(alert),
            Close::ProtocolViolation => Code::PROTOCOL_VIOLATION,
            Close::CryptoBufferExceeded => Code::CRYPTO_BUFFER_EXCEEDED,
        };
        let error = Error::new(code, failure.reason()).in_frame(CRYPTO_FRAME);
        if let Some(negotiation) = &mut self.negotiation {
            negotiation.failure = Some(failure);
        }
        error
    }

    /// Why TLS has failed, if it has.
    #[must_use]
    pub fn handshake_failure(&self) -> Option<&HandshakeFailure> {
        self.negotiation.as_ref()?.failure.as_ref()
    }

    /// A server's TLS, until [`Connection::release_tls`].
    #[must_use]
    pub fn server_tls(&self) -> Option<&ServerConnection> {
        match &self.negotiation.as_ref()?.tls {
            Tls::Server(tls) => Some(tls),
            Tls::Client(_) => None,
        }
    }

    /// The same, to refuse.
    fn server_tls_mut(&mut self) -> Option<&mut ServerConnection> {
        match &mut self.negotiation.as_mut()?.tls {
            Tls::Server(tls) => Some(tls),
            Tls::Client(_) => None,
        }
    }

    /// A client's TLS.
    pub fn client_tls_mut(&mut self) -> Option<&mut ClientConnection> {
        match &mut self.negotiation.as_mut()?.tls {
            Tls::Client(tls) => Some(tls),
            Tls::Server(_) => None,
        }
    }

    /// Refuses a handshake, as there is too much to do.
    pub fn refuse(&mut self, now: Time) {
        let refused = self.server_tls_mut().map(ServerConnection::refuse);
        if let Some(failure) = refused {
            let _ = self.note_failure(failure);
            let reason = "the server is overloaded";
            self.fail(now, Error::new(Code::CONNECTION_REFUSED, reason));
        }
    }

    /// A server needs nothing of TLS any more: tickets are sent, and what it told is known.
    pub fn release_tls(&mut self) {
        if self.side.is_server() && self.is_established() {
            self.negotiation = None;
            self.forget_tickets();
        }
    }

    /// The stream of tickets goes when they have arrived, and no more can follow.
    pub(super) fn forget_tickets(&mut self) {
        if self.negotiation.is_none()
            && (self.data.crypto.as_ref()).is_some_and(|crypto| crypto.is_all_acked())
        {
            self.data.crypto = None;
        }
    }

    /// The handshake is complete.
    pub(super) fn establish(&mut self, now: Time, owner: &mut impl Owner) -> Result<(), Error> {
        if !self.peer.are_known {
            let code = Code::crypto(ALERT_MISSING_EXTENSION);
            return Err(Error::new(code, "no transport parameters"));
        }
        self.state = Progress::Established;
        self.trace(|| TraceEvent::Established);
        owner.handshake_complete();
        self.local_ids
            .issue(self.peer.active_connection_id_limit, owner);
        self.active_at = now;
        if self.side.is_server() {
            self.once.handshake_done = true;
            self.confirm();
        }
        Ok(())
    }

    /// The handshake is confirmed: keys of the handshake go (RFC 9001 section 4.9.2).
    pub(super) fn confirm(&mut self) {
        if self.is_confirmed {
            return;
        }
        self.is_confirmed = true;
        self.discard_space(Space::Initial);
        self.discard_space(Space::Handshake);
        self.recovery.on_handshake_confirmed();
        let path = &mut self.paths.current.path;
        path.set_validated();
        let most = self.settings.max_datagram_size;
        path.set_mtu_ceiling(most.min(self.peer.max_udp_payload_size));
    }

    /// The keys of a space go, and all that is kept for it.
    pub(super) fn discard_space(&mut self, space: Space) {
        let (slot, packet_type): (&mut Option<Box<HandshakeSpace>>, _) = match space {
            Space::Initial => (&mut self.initial, PacketType::Initial),
            Space::Handshake => (&mut self.handshake, PacketType::Handshake),
            Space::Data => return,
        };
        if slot.take().is_some() {
            self.recovery
                .discard_space(&mut self.paths.current.path, space);
            self.trace_discarded(packet_type);
        }
        if space == Space::Initial {
            self.forget_other_version();
        }
    }

    /// Keeps a packet until its keys are there. Returns whether there is room.
    pub(super) fn hold(&mut self, bytes: &[u8], mark: Codepoint) -> bool {
        let held = self.held.get_or_insert_default();
        let has_room =
            held.packets.len() < MAX_HELD_PACKETS && held.bytes + bytes.len() <= MAX_HELD_BYTES;
        if has_room {
            held.bytes += bytes.len();
            let bytes = bytes.into();
            held.packets.push(HeldPacket { bytes, mark });
        }
        has_room
    }

    /// Whether keys for such a packet may still come.
    pub(super) fn may_hold(&self, packet_type: PacketType) -> bool {
        let Some(negotiation) = &self.negotiation else {
            return false;
        };
        matches!(self.state, Progress::Handshaking)
            && match packet_type {
                // Their keys come first, and go.
                PacketType::Initial => false,
                PacketType::ZeroRtt => self.side.is_server() && !negotiation.has_chosen,
                PacketType::Handshake | PacketType::OneRtt => true,
            }
    }

    /// Takes the packets that have waited for keys.
    fn receive_held(&mut self, now: Time, owner: &mut impl Owner) {
        let Some(held) = self.held.take() else {
            return;
        };
        let addresses = self.paths.current.addresses;
        for mut packet in held.packets {
            self.receive_packets(now, addresses, packet.mark, &mut packet.bytes, owner);
        }
    }

    /// An ended connection keeps only what its end needs.
    pub(super) fn forget_what_is_not_needed(&mut self) {
        self.held = None;
        self.paced_until = None;
    }
}

impl super::DataSpace {
    /// Session tickets, mostly.
    pub(super) fn crypto(&mut self) -> &mut CryptoStream {
        self.crypto
            .get_or_insert_with(|| Box::new(CryptoStream::new()))
    }
}

/// `unexpected_message`.
const ALERT_UNEXPECTED_MESSAGE: u8 = 10;
/// `missing_extension`, RFC 9001 section 8.2.
const ALERT_MISSING_EXTENSION: u8 = 109;
/// The type of CRYPTO frames.
const CRYPTO_FRAME: u64 = 0x06;
