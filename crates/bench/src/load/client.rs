//! One client: performs one operation after another and checks each.

use std::{cell::RefCell, rc::Rc, sync::Arc, time::Instant};

use crate::{
    Error,
    load::{
        ConnectionUse, Negotiated, Plan, Resumption,
        http2::{Batch, Http2},
        http3::{Http3, Http3Settings},
        keys::KeySequence,
        plan::write_with_key,
        stream::{Scratch, Stream},
        tls::{EarlyData, TlsSettings},
    },
    response::ResponseReader,
};
use sealane_awslc::Session;
use serde::Serialize;

/// What the clients of one event loop share.
#[derive(Clone)]
pub(super) struct EventLoop {
    tls: Option<Rc<TlsSettings>>,
    http3: Option<Rc<Http3Settings>>,
    scratch: Rc<RefCell<Scratch>>,
}

impl EventLoop {
    /// Settings and buffers for the clients of `plan`.
    pub(super) fn new(plan: &Plan) -> Result<Self, Error> {
        let tls = plan.tls.as_ref();
        let settings =
            |tls| TlsSettings::new(tls, plan.server_name.as_deref(), plan.http2.is_some());
        let http3 = tls.filter(|_| plan.http3.is_some());
        Ok(Self {
            tls: tls.map(settings).transpose()?.map(Rc::new),
            http3: http3.map(Http3Settings::new).transpose()?.map(Rc::new),
            scratch: Rc::new(Scratch::new()),
        })
    }
}

pub(super) struct Client {
    plan: Arc<Plan>,
    tls: Option<Rc<TlsSettings>>,
    http3_settings: Option<Rc<Http3Settings>>,
    scratch: Rc<RefCell<Scratch>>,
    reader: ResponseReader,
    /// The next request, if they differ.
    request: Vec<u8>,
    keys: Option<KeySequence>,
    stream: Option<Stream>,
    http2: Option<Http2>,
    http3: Option<Http3>,
    session: Option<Session>,
    /// What the first connection negotiated, for the report.
    pub(super) negotiated: Option<Negotiated>,
    /// Connections opened so far.
    pub(super) connections: u64,
    /// Body bytes received so far.
    pub(super) body_bytes: u64,
    /// The outcomes of early data so far.
    pub(super) early_data: EarlyDataCount,
}

/// Connections with early data, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EarlyDataCount {
    /// The server read it.
    pub accepted: u64,
    /// The server refused it, and the request was sent again.
    pub rejected: u64,
}

impl EarlyDataCount {
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            accepted: self.accepted - before.accepted,
            rejected: self.rejected - before.rejected,
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.rejected += other.rejected;
    }
}

impl Client {
    /// Client `number` of `plan`, from 0 on.
    pub(super) fn new(plan: Arc<Plan>, number: usize, shared: EventLoop) -> Self {
        let reader = ResponseReader::new(plan.expected);
        let keys = plan.keys.clone();
        Self {
            request: plan.request.clone(),
            keys: keys.map(|keys| KeySequence::new(keys, number, plan.clients)),
            plan,
            tls: shared.tls,
            http3_settings: shared.http3,
            scratch: shared.scratch,
            reader,
            stream: None,
            http2: None,
            http3: None,
            session: None,
            negotiated: None,
            connections: 0,
            body_bytes: 0,
            early_data: EarlyDataCount::default(),
        }
    }

    /// One operation: a request, with its own connection if the plan says so. Returns when the
    /// response began to arrive.
    pub(super) async fn operate(&mut self) -> Result<Option<Instant>, Error> {
        if self.plan.http2.is_some() {
            return self.operate_http2().await;
        }
        if self.plan.http3.is_some() {
            return self.operate_http3().await;
        }
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.connect().await?,
        };
        if let Some(keys) = &mut self.keys {
            write_with_key(&self.plan.request, keys.next(), &mut self.request);
        }
        stream.send(&self.request).await?;
        let completed = stream
            .receive(&self.request, &mut self.reader, &self.scratch)
            .await?;
        self.body_bytes += completed.body_bytes;
        let first_byte = stream.first_byte();
        if self.resumption() == Resumption::EarlyData {
            self.end_early(stream).await?;
            return Ok(first_byte);
        }
        if let Some(session) = stream.take_session() {
            self.session = Some(session);
        }
        match self.plan.connection_use {
            ConnectionUse::KeepAlive if completed.keep_alive => self.stream = Some(stream),
            ConnectionUse::EndedByClient => stream.close(&self.scratch).await?,
            ConnectionUse::KeepAlive | ConnectionUse::PerRequest => {
                stream.closed_by_server(&self.scratch).await?;
            }
        }
        Ok(first_byte)
    }

    /// A batch of concurrent requests on one connection.
    async fn operate_http2(&mut self) -> Result<Option<Instant>, Error> {
        let plan = Arc::clone(&self.plan);
        let (mut stream, mut http2) = match (self.stream.take(), self.http2.take()) {
            (Some(stream), Some(http2)) => (stream, http2),
            _ => {
                let wanted = plan.http2.clone();
                let wanted = wanted.ok_or(Error::Closed("without a plan"))?;
                (self.connect().await?, Http2::new(wanted))
            }
        };
        let mut batch = Batch::default();
        http2.ask()?;
        stream.send(&http2.outgoing).await?;
        http2.outgoing.clear();
        loop {
            let mut done = false;
            let open = stream
                .receive_plain(&self.scratch, |bytes| {
                    done = http2.take_in(bytes, &plan, &mut batch)?;
                    Ok(())
                })
                .await?;
            if !http2.outgoing.is_empty() {
                stream.send(&http2.outgoing).await?;
                http2.outgoing.clear();
            }
            if done {
                break;
            }
            if !open {
                return Err(Error::Closed("before it answered all requests"));
            }
        }
        self.body_bytes += batch.body_bytes;
        self.stream = Some(stream);
        self.http2 = Some(http2);
        Ok(batch.first_byte)
    }

    /// The same over QUIC, where a connection that is not kept is closed by the client.
    async fn operate_http3(&mut self) -> Result<Option<Instant>, Error> {
        let (plan, settings) = (&self.plan, &self.http3_settings);
        let (Some(wanted), Some(settings)) = (&plan.http3, settings) else {
            return Err(Error::Usage("HTTP/3 needs an https:// URL".into()));
        };
        let (http3, is_new) = match self.http3.take() {
            Some(http3) => (http3, false),
            None => (Http3::connect(settings, plan)?, true),
        };
        let batch = http3.fetch(wanted.streams).await?;
        self.body_bytes += batch.body_bytes;
        if is_new {
            self.connections += 1;
            if let Some(negotiated) = http3.negotiated() {
                self.check_negotiated(negotiated, false)?;
            }
        }
        match self.plan.connection_use {
            ConnectionUse::KeepAlive => self.http3 = Some(http3),
            ConnectionUse::PerRequest | ConnectionUse::EndedByClient => http3.close().await,
        }
        Ok(batch.first_byte)
    }

    fn resumption(&self) -> Resumption {
        let tls = self.tls.as_ref();
        tls.map_or(Resumption::Full, |tls| tls.resumption())
    }

    /// The end of an operation with early data. The server keeps the connection, as it may issue
    /// the next session only once the handshake is done; the client closes when it has received
    /// that.
    async fn end_early(&mut self, stream: Stream) -> Result<(), Error> {
        let early_data = stream.early_data();
        match early_data {
            EarlyData::None => {}
            EarlyData::Accepted => self.early_data.accepted += 1,
            EarlyData::Sent | EarlyData::Rejected => self.early_data.rejected += 1,
        }
        if early_data != EarlyData::None {
            self.check(&stream, true)?;
        }
        self.session = Some(stream.last_session(&self.scratch).await?);
        Ok(())
    }

    async fn connect(&mut self) -> Result<Stream, Error> {
        let resume = self.resumption() != Resumption::Full;
        if resume && self.connections > 0 && self.session.is_none() {
            return Err(Error::Negotiated {
                what: "resumption",
                wanted: "resumed handshakes".into(),
                got: "not possible, because the server has offered no session".into(),
            });
        }
        let session = self.session.as_ref().filter(|_| resume);
        let tls = self.tls.as_deref().map(|settings| (settings, session));
        let stream = Stream::connect(self.plan.address, tls, &self.scratch).await?;
        let offered = session.is_some();
        self.connections += 1;
        // With early data in flight the server has not sent anything yet.
        if stream.early_data() == EarlyData::None {
            self.check(&stream, offered)?;
        }
        Ok(stream)
    }

    /// Compares the negotiated parameters with the pinned ones.
    fn check(&mut self, stream: &Stream, offered: bool) -> Result<(), Error> {
        match stream.negotiated()? {
            Some(negotiated) => self.check_negotiated(negotiated, offered),
            None => Ok(()),
        }
    }

    fn check_negotiated(&mut self, negotiated: Negotiated, offered: bool) -> Result<(), Error> {
        if let Some(settings) = &self.tls {
            settings.check(&negotiated, offered)?;
            // The report shows the kind of connection that is being measured.
            if self
                .negotiated
                .as_ref()
                .is_none_or(|known| known.resumed != negotiated.resumed)
            {
                self.negotiated = Some(negotiated);
            }
        }
        Ok(())
    }

    /// Whether the client has a connection that the server has not closed.
    pub(super) fn is_connected(&self) -> bool {
        match &self.http3 {
            Some(http3) => http3.is_open(),
            None => (self.stream.as_ref()).is_some_and(|stream| stream.is_open(&self.scratch)),
        }
    }
}
