//! One connection of QUIC with its exchange: datagrams in, datagrams out.

use std::{
    rc::Rc,
    task::{Context, Waker},
    time::Instant,
};

use sealane_http::h3::{Channel, Code};
use sealane_quic::{Addresses, Connection, ConnectionId, Direction, Event, Target, Version};
use sealane_sys::socket::MAX_SEGMENTS;
use sealane_tls::{Load, quic::ClientOffer};

use super::{
    exchange::{Exchange, random_bytes},
    settings::Http3Settings,
    socket::{Socket, to_codepoint},
};
use crate::{
    Error,
    load::{Negotiated, Plan},
};

/// Batches that are received before the client sends anything: enough that acknowledgements are for
/// many packets, and few enough that the server does not wait for them.
const BATCHES_AT_ONCE: usize = 4;
/// Datagrams of one size that are sent with one call.
const DATAGRAMS_AT_ONCE: usize = MAX_SEGMENTS / 2;
/// The random bits for transport parameters. The upper ones make the number of a reserved one, of
/// which nginx 1.31 looks at the last 16 bits only: with more, it would take one in 4,000 for a
/// parameter that it knows.
const PARAMETER_BITS: u64 = (1 << 43) - 1;

pub(super) struct Line {
    quic: Connection,
    pub(super) exchange: Exchange,
    /// What the handshake has negotiated, once it is over.
    pub(super) negotiated: Option<Negotiated>,
    /// The client closes the connection.
    is_closing: bool,
    /// The connection has ended, and the server was told.
    is_over: bool,
    group: Option<String>,
    key_type: Option<&'static str>,
}

impl Line {
    /// A new connection to the server of `plan`.
    pub(super) fn new(
        settings: &Http3Settings,
        plan: &Plan,
        addresses: Addresses,
    ) -> Result<Self, Error> {
        let wanted = plan.http3.as_ref();
        let wanted = wanted.ok_or(Error::Closed("without a plan"))?;
        let version = Version::V1;
        // As browsers do: the address alone says whose packets these are.
        let source = ConnectionId::EMPTY;
        let random = u64::from_le_bytes(random_bytes()) & PARAMETER_BITS;
        let parameters = settings.quic.client_parameters(version, source, random);
        let offer = ClientOffer {
            protocols: &[b"h3"],
            transport_parameters: &parameters,
            ..ClientOffer::default()
        };
        let tls = settings
            .tls
            .connect_quic(plan.server_name.as_deref(), offer);
        let tls = tls.map_err(|error| Error::Tls {
            what: "prepare a TLS connection".into(),
            reason: error.to_string(),
        })?;
        let destination: [u8; 16] = random_bytes();
        let target = Target {
            version,
            destination: ConnectionId::new(&destination).unwrap_or(ConnectionId::EMPTY),
            source,
            token: &[],
            remembered: None,
            addresses,
        };
        let quic = Connection::client(settings.quic.clone(), tls, &target, settings.now());
        let pinned = plan.tls.as_ref();
        Ok(Self {
            quic,
            exchange: Exchange::new(settings, wanted.clone(), plan.expected),
            negotiated: None,
            is_closing: false,
            is_over: false,
            group: pinned.and_then(|pinned| pinned.group.clone()),
            key_type: pinned
                .and_then(|pinned| pinned.key_type)
                .map(|key| key.name()),
        })
    }

    /// Takes what has come.
    pub(super) fn receive(&mut self, settings: &Http3Settings, socket: &Socket) {
        let batch = &mut *settings.received.borrow_mut();
        for _ in 0..BATCHES_AT_ONCE {
            match socket.receive(batch) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.exchange.fail(error),
            }
            let now = settings.now();
            self.exchange.set_time(now);
            for message in batch.messages_mut() {
                let mark = to_codepoint(message.ecn);
                for datagram in message.into_datagrams() {
                    let (quic, exchange) = (&mut self.quic, &mut self.exchange);
                    quic.receive(now, socket.addresses, mark, datagram, exchange);
                }
            }
        }
    }

    /// Does everything that is due after datagrams, a time-out or a request.
    pub(super) fn work(&mut self, settings: &Rc<Http3Settings>, socket: &Socket) {
        let now = settings.now();
        self.exchange.set_time(now);
        let mut cx = Context::from_waker(Waker::noop());
        // Nothing here keeps its keys elsewhere: it never waits.
        let load = Load::default();
        let _ = (self.quic).poll_handshake(&mut cx, load, now, &mut self.exchange);
        if self.quic.is_established() {
            self.note_handshake();
            self.send_requests();
            self.send_channels();
        }
        self.take_events();
        for (id, bytes) in self.exchange.consumed.drain(..) {
            self.quic.consumed(id, bytes, now);
        }
        // What came may be answered on a channel.
        if self.quic.is_established() {
            self.send_channels();
        }
        self.transmit(settings, socket);
        if self.quic.is_ending() {
            self.is_over = true;
            if let Some(reason) = self.quic.close_reason().filter(|_| !self.is_closing) {
                self.exchange.fail(Error::Http3(reason.to_string()));
            }
        }
    }

    fn note_handshake(&mut self) {
        if self.negotiated.is_some() {
            return;
        }
        let Some(tls) = self.quic.client_tls_mut() else {
            return;
        };
        // The client offers one group and one kind of key if they are pinned.
        self.negotiated = Some(Negotiated {
            protocol: "TLSv1.3".into(),
            suite: tls.cipher().into(),
            group: self.group.take().map(Into::into),
            key_type: self.key_type.map(Into::into),
            resumed: tls.is_session_reused(),
            stapled: false,
        });
    }

    /// Sends as many of the requests as the server allows now.
    fn send_requests(&mut self) {
        while self.exchange.wanted > 0 {
            let Some(id) = self.quic.open(Direction::Bidirectional) else {
                return;
            };
            match self.exchange.request(id) {
                Ok(bytes) => self.quic.write_up_to(id, bytes, true),
                Err(error) => return self.exchange.fail(error),
            };
        }
    }

    /// Sends what HTTP/3 has for its own streams.
    fn send_channels(&mut self) {
        for channel in Channel::ALL {
            if !self.exchange.has_outgoing(channel) {
                continue;
            }
            let open = self.exchange.channel(channel);
            let Some(id) = open.or_else(|| self.quic.open(Direction::Unidirectional)) else {
                continue;
            };
            let up_to = self.exchange.push_channel(channel, id);
            self.quic.write_up_to(id, up_to, false);
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.quic.next_event() {
            match event {
                Event::Readable { id } => self.quic.read(id, &mut self.exchange),
                Event::Acknowledged { id, up_to } => self.exchange.acknowledged(id, up_to),
                Event::Closed { id } => self.exchange.closed(id),
                Event::Reset { id, code } | Event::Stopped { id, code } => {
                    let code = code_name(code);
                    let id = id.to_wire();
                    self.exchange.fail(Error::Http3(format!(
                        "the server reset stream {id}: {code}"
                    )));
                }
                Event::Opened { .. } | Event::Available { .. } => {}
            }
        }
        while let Some(id) = self.exchange.unblocked.pop() {
            self.quic.read(id, &mut self.exchange);
        }
    }

    fn transmit(&mut self, settings: &Http3Settings, socket: &Socket) {
        let outbox = &mut *settings.outbox.borrow_mut();
        loop {
            outbox.bytes.clear();
            let now = settings.now();
            let most = DATAGRAMS_AT_ONCE;
            let sent = self.quic.transmit(now, outbox, most, &mut self.exchange);
            let Some(sent) = sent else {
                return;
            };
            if let Err(error) = socket.send(&outbox.bytes, sent.segment_bytes, sent.mark) {
                return self.exchange.fail(error);
            }
        }
    }

    /// When [`on_timeout`](Self::on_timeout) is to be called.
    pub(super) fn timeout(&self, settings: &Http3Settings) -> Option<Instant> {
        self.quic.timeout().map(|time| settings.instant(time))
    }

    /// The time has come, unless something has happened in the meantime.
    pub(super) fn on_timeout(&mut self, settings: &Http3Settings) {
        let now = settings.now();
        if self.quic.timeout().is_some_and(|time| time <= now) {
            self.quic.on_timeout(now);
        }
    }

    /// Closes the connection; [`work`](Self::work) tells the server.
    pub(super) fn close(&mut self, settings: &Http3Settings) {
        self.is_closing = true;
        self.quic.close(settings.now(), Code::H3_NO_ERROR.0);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(super) fn is_established(&self) -> bool {
        self.quic.is_established()
    }
}

/// A code of HTTP/3 by its name, if it has one.
fn code_name(code: u64) -> String {
    Code(code).to_string()
}
