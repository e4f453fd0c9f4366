//! One client: an operation after the other, each checked.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use crate::{
    Error,
    load::{
        ConnectionUse, Negotiated, Plan, Resumption,
        stream::{Scratch, Stream},
        tls::TlsSettings,
    },
    response::ResponseReader,
};
use sealane_awslc::Session;

pub(super) struct Client {
    plan: Arc<Plan>,
    tls: Option<Rc<TlsSettings>>,
    scratch: Rc<RefCell<Scratch>>,
    reader: ResponseReader,
    stream: Option<Stream>,
    session: Option<Session>,
    /// What the first connection negotiated, for the report.
    pub(super) negotiated: Option<Negotiated>,
    /// Connections opened so far.
    pub(super) connections: u64,
    /// Body bytes received so far.
    pub(super) body_bytes: u64,
}

impl Client {
    pub(super) fn new(
        plan: Arc<Plan>,
        tls: Option<Rc<TlsSettings>>,
        scratch: Rc<RefCell<Scratch>>,
    ) -> Self {
        let reader = ResponseReader::new(plan.expected);
        Self {
            plan,
            tls,
            scratch,
            reader,
            stream: None,
            session: None,
            negotiated: None,
            connections: 0,
            body_bytes: 0,
        }
    }

    /// One operation: a request, with the connection around it if the plan says so.
    pub(super) async fn operate(&mut self) -> Result<(), Error> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.connect().await?,
        };
        stream.send(&self.plan.request).await?;
        let completed = stream.receive(&mut self.reader, &self.scratch).await?;
        self.body_bytes += completed.body_bytes;
        if let Some(session) = stream.take_session() {
            self.session = Some(session);
        }
        if self.plan.connection_use == ConnectionUse::KeepAlive && completed.keep_alive {
            self.stream = Some(stream);
        } else {
            stream.closed_by_server(&self.scratch).await?;
        }
        Ok(())
    }

    async fn connect(&mut self) -> Result<Stream, Error> {
        let resume = self
            .tls
            .as_ref()
            .is_some_and(|tls| tls.resumption() == Resumption::Resumed);
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
        self.connections += 1;
        if let (Some(settings), Some(negotiated)) = (&self.tls, stream.negotiated()?) {
            settings.check(&negotiated, session.is_some())?;
            // The report shows the kind of connection that is measured.
            if self
                .negotiated
                .as_ref()
                .is_none_or(|known| known.resumed != negotiated.resumed)
            {
                self.negotiated = Some(negotiated);
            }
        }
        Ok(stream)
    }

    /// Whether the client holds a connection that the server has not closed.
    pub(super) fn is_connected(&self) -> bool {
        self.stream
            .as_ref()
            .is_some_and(|stream| stream.is_open(&self.scratch))
    }
}
