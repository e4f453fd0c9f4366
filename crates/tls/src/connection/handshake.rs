//! The steps of a handshake: collect the hello, choose the server, find its certificates, ask the
//! store, drive libssl here or in the pool, and perform the private-key operation.

use std::sync::Arc;
use std::time::Duration;

use sealane_awslc as awslc;
use sealane_awslc::{HandshakeStatus, KeyOperation, unix_time_s};

use super::quic::QuicHandshake;
use super::{
    AwaitedIdentities, Connection, ConnectionState, Question, Signing, Waiting, fatal_alert,
};
use crate::accelerator::job;
use crate::acceptor::{ACME_TLS, Acceptor, Selected};
use crate::client_hello::{
    self, ClientHello, EchOffer, MAX_HELLO_BYTES, Parsed, USUAL_HELLO_BYTES,
};
use crate::ech::EchOutcome;
use crate::error::Error;
use crate::hello_records::{Collected, LargeHello};
use crate::identities::{HelloFacts, Identities, IdentityAnswer};
use crate::ja4::Transport;
use crate::offload::Load;
use crate::offload::flight::Landed;
use crate::offload::pool::NotTaken;
use crate::server::{SentCertificate, ServerTls};
use crate::sessions::lookup::{Asking, LookupStep, Prepared};
use crate::sessions::outcome::SessionOutcome;

/// A ClientHello on its way to libssl.
struct Received<'a> {
    /// Its records, and perhaps what follows.
    records: &'a [u8],
    /// The message that counts, if it is whole: the one in them, or the one inside of that.
    message: Option<&'a [u8]>,
    /// The message inside of an encrypted one.
    inner: Option<&'a [u8]>,
    /// What it says, if it is well formed.
    hello: Option<ClientHello<'a>>,
    /// Its place, if it is a large one.
    large: Option<LargeHello>,
}

impl<'a> Received<'a> {
    /// What is to be looked up for it; `None` if it cannot be read.
    fn asking<'s>(
        &'s self,
        server: &ServerTls,
        identities: &'s Identities,
        quic: Option<&QuicHandshake>,
    ) -> Option<Asking<'s>>
    where
        'a: 's,
    {
        let (Some(hello), Some(message)) = (&self.hello, self.message) else {
            return None;
        };
        Some(Asking {
            version: server.rules().version(hello),
            hello,
            message,
            context_id: match quic {
                Some(quic) => identities.quic_context_id(quic.version),
                None => identities.context_id(),
            },
            now_s: unix_time_s(),
        })
    }
}

impl Connection {
    /// Collects the ClientHello. `None` once libssl has it and continues.
    pub(super) fn hello(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        load: Load,
    ) -> Result<Option<HandshakeStatus>, Error> {
        let ConnectionState::Hello { records, .. } = &mut self.state else {
            return Ok(None);
        };
        // Usually it arrives in one piece, and libssl reads it in place.
        if records.is_empty() && !matches!(client_hello::collect(input), Parsed::Incomplete(_)) {
            let message = *input;
            return self.start(message, None, input, output, load);
        }
        match records.push(input) {
            Collected::Incomplete => return Ok(Some(HandshakeStatus::WantRead)),
            Collected::TooLarge => {
                return Err(self.reject(Error::HelloTooLarge, output));
            }
            Collected::TooMany => {
                return Err(self.reject(Error::TooManyLargeHellos, output));
            }
            Collected::Ready => {}
        }
        let (records, large) = records.take();
        let mut collected = &records[..];
        match self.start(&records, large, &mut collected, output, load)? {
            Some(HandshakeStatus::Pending) => Ok(Some(HandshakeStatus::Pending)),
            _ => {
                debug_assert!(
                    collected.is_empty() || !self.is_established(),
                    "only the hello was collected"
                );
                // There may be input after the hello.
                Ok(None)
            }
        }
    }

    /// Chooses the server for the hello in `bytes`, and starts libssl on `input`.
    pub(super) fn start(
        &mut self,
        bytes: &[u8],
        large: Option<LargeHello>,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        load: Load,
    ) -> Result<Option<HandshakeStatus>, Error> {
        let ConnectionState::Hello { acceptor, .. } = &self.state else {
            return Ok(None);
        };
        let message = match client_hello::collect(bytes) {
            Parsed::Complete(message) => Some(message),
            _ => None,
        };
        let outer = message.as_deref().and_then(ClientHello::parse);
        if outer.as_ref().is_some_and(ClientHello::is_obsolete) {
            return Err(self.reject(Error::VersionTooLow, output));
        }
        let offered = outer.as_ref().and_then(ClientHello::ech);
        if offered == Some(EchOffer::Inner) {
            return Err(self.reject(Error::SplitMode, output));
        }
        let inner = match (acceptor.ech(), &outer) {
            (Some(keys), Some(outer)) => keys.open(outer, bytes)?,
            _ => None,
        };
        let ech = EchOutcome::of(outer.as_ref(), inner.is_some());
        // What is inside counts. libssl gets what has arrived, and opens it once more.
        let message = inner.as_deref().or(message.as_deref());
        let hello = message.and_then(ClientHello::parse);
        let name = hello.as_ref().and_then(ClientHello::server_name);
        let is_challenge = |hello: &ClientHello<'_>| hello.offers_only(ACME_TLS);
        let challenge = match (hello.as_ref(), name.as_deref()) {
            // RFC 8737 is about TLS over TCP.
            _ if self.quic.is_some() => None,
            (Some(hello), Some(name)) if is_challenge(hello) => acceptor.challenge(name),
            _ => None,
        };
        let (server, token) = match (challenge, acceptor.select(name.as_deref())) {
            (Some(server), Selected::Server(_, token)) => (server, token),
            (Some(server), Selected::Reject) => (server, 0),
            (None, Selected::Server(server, token)) => (server, token),
            (None, Selected::Reject) => {
                return Err(self.reject(Error::Rejected, output));
            }
        };
        self.token = token;
        self.server = Some(Arc::clone(&server));
        if server.rejects() {
            return Err(self.reject(Error::Rejected, output));
        }
        let transport = match self.quic {
            Some(_) => Transport::Quic,
            None => Transport::Tcp,
        };
        let offer = hello.as_ref().filter(|_| server.remembers_client_offer());
        self.client_offer = offer.map(|hello| Box::new(hello.offer(transport)));
        self.ech = ech;
        let acceptor = acceptor.clone();
        let received = Received {
            records: bytes,
            message,
            inner: inner.as_deref(),
            hello,
            large,
        };
        if let Some(quic) = &mut self.quic {
            quic.note_hello(hello.as_ref());
            if quic.parameters.is_none() {
                self.wait(received, input, server, Question::Parameters(acceptor));
                return Ok(Some(HandshakeStatus::Pending));
            }
        }
        let status = self.identify(received, server, &acceptor, input, output, load)?;
        Ok(Some(status))
    }

    /// Finds the certificates of the server that was chosen.
    fn identify(
        &mut self,
        received: Received<'_>,
        server: Arc<ServerTls>,
        acceptor: &Acceptor,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        load: Load,
    ) -> Result<HandshakeStatus, Error> {
        let found = match server.fixed_identities() {
            Some(identities) => IdentityAnswer::Ready(Ok(Arc::clone(identities))),
            None => {
                let facts = HelloFacts::new(received.hello.as_ref(), self.client_offer.as_deref());
                acceptor.identities(&server, self.token, facts)
            }
        };
        match found {
            IdentityAnswer::Ready(Ok(identities)) => {
                self.look_up(received, &server, identities, input, output, load)
            }
            IdentityAnswer::Ready(Err(why)) => Err(self.reject(Error::Certificate(why), output)),
            IdentityAnswer::Pending(asked) => {
                let question = Question::Identities(AwaitedIdentities::Asked(asked));
                self.wait(received, input, server, question);
                Ok(HandshakeStatus::Pending)
            }
        }
    }

    /// Asks what has to be known about the session and early data before libssl is started.
    fn look_up(
        &mut self,
        received: Received<'_>,
        server: &Arc<ServerTls>,
        identities: Arc<Identities>,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        load: Load,
    ) -> Result<HandshakeStatus, Error> {
        let resumption = server.resumption();
        let step = match received.asking(server, &identities, self.quic.as_deref()) {
            Some(asking) if resumption.is_involved() => resumption.begin(asking),
            _ => LookupStep::Ready(Prepared::default()),
        };
        match step {
            LookupStep::Ready(prepared) => {
                self.run(received, identities, prepared, input, output, load)
            }
            LookupStep::Wait(lookup) => {
                let question = Question::Session(identities, lookup);
                self.wait(received, input, Arc::clone(server), question);
                Ok(HandshakeStatus::Pending)
            }
        }
    }

    /// Keeps the hello until there is an answer.
    fn wait(
        &mut self,
        received: Received<'_>,
        input: &mut &[u8],
        server: Arc<ServerTls>,
        question: Question,
    ) {
        // Whatever follows the hello stays with the caller.
        let bytes = received.records;
        let hello_bytes = client_hello::records_length(bytes).min(bytes.len());
        *input = &input[hello_bytes.min(input.len())..];
        self.state = ConnectionState::Waiting(Box::new(Waiting {
            hello: bytes[..hello_bytes].to_vec(),
            inner: received.inner.map(<[u8]>::to_vec),
            server,
            question,
            large: received.large,
        }));
    }

    /// There is an answer, or there will be none.
    pub(super) fn go_on(
        &mut self,
        output: &mut Vec<u8>,
        load: Load,
    ) -> Result<HandshakeStatus, Error> {
        let ConnectionState::Waiting(waiting) =
            std::mem::replace(&mut self.state, ConnectionState::Closed)
        else {
            return Err(Error::NotEstablished);
        };
        let Waiting {
            hello: records,
            inner,
            server,
            question,
            large,
        } = *waiting;
        let outer = match client_hello::collect(&records) {
            Parsed::Complete(message) => Some(message),
            _ => None,
        };
        let message = inner.as_deref().or(outer.as_deref());
        let received = Received {
            records: &records,
            message,
            inner: inner.as_deref(),
            hello: message.and_then(ClientHello::parse),
            large,
        };
        let mut input = &records[..];
        let (identities, lookup) = match question {
            Question::Identities(AwaitedIdentities::Answered(Ok(identities))) => {
                return self.look_up(received, &server, identities, &mut input, output, load);
            }
            Question::Identities(AwaitedIdentities::Answered(Err(why))) => {
                return Err(self.reject(Error::Certificate(why), output));
            }
            Question::Identities(AwaitedIdentities::Asked(_)) => {
                return Err(Error::NotEstablished);
            }
            Question::Parameters(acceptor) => {
                return self.identify(received, server, &acceptor, &mut input, output, load);
            }
            Question::Session(identities, lookup) => (identities, lookup),
        };
        let step = match received.asking(&server, &identities, self.quic.as_deref()) {
            Some(asking) => server.resumption().go_on(lookup, asking),
            None => LookupStep::Ready(Prepared::default()),
        };
        match step {
            LookupStep::Ready(prepared) => {
                self.run(received, identities, prepared, &mut input, output, load)
            }
            LookupStep::Wait(lookup) => {
                let question = Question::Session(identities, lookup);
                self.wait(received, &mut input, server, question);
                Ok(HandshakeStatus::Pending)
            }
        }
    }

    /// Starts libssl on `input`, which begins with the hello.
    fn run(
        &mut self,
        received: Received<'_>,
        identities: Arc<Identities>,
        prepared: Prepared,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        load: Load,
    ) -> Result<HandshakeStatus, Error> {
        let hello = received.hello.as_ref();
        let Some(server) = self.server.clone() else {
            return Err(Error::NotEstablished);
        };
        let Some(chosen) = server.choose(&identities, hello) else {
            return Err(self.reject(Error::Rejected, output));
        };
        self.certificate = SentCertificate::Chosen(Arc::clone(&identities), chosen.identity);
        let mut tls = awslc::Connection::server(chosen.context)?;
        if self.quic.is_none()
            && input.len() > USUAL_HELLO_BYTES
            && client_hello::records_length(input) > USUAL_HELLO_BYTES
        {
            tls.allow_large_hello(MAX_HELLO_BYTES);
        }
        if let Some(suite) = chosen.tls13_suite {
            tls.restrict_tls13(suite)?;
        }
        if let Some(staple) = &chosen.staple {
            tls.set_ocsp_response(&staple.der)?;
        }
        if let Some(quic) = &self.quic {
            // With early data goes that tickets may allow it, which libssl decides with the hello.
            let takes_early_data = server.resumption().early.is_some()
                && (prepared.is_free_of_early_data(hello) || prepared.early_data);
            quic.start(&mut tls, &identities, takes_early_data, received.records)?;
            *input = &[];
        }
        self.session = SessionOutcome::begin(&mut tls, server.resumption(), prepared);
        // If that is not certain, it shows along the way whether the key is needed.
        if hello.is_some_and(|hello| server.signs_first_flight(&identities, hello))
            && self.leaves(load)
        {
            let (records, rest) =
                input.split_at(client_hello::records_length(input).min(input.len()));
            match self.hand_over(tls, records, None) {
                Ok(()) => {
                    *input = rest;
                    return Ok(HandshakeStatus::Pending);
                }
                Err(back) => tls = back.0,
            }
        }
        self.state = ConnectionState::Running(tls);
        self.advance(input, output, load)
    }

    /// Drives libssl for as long as it need not wait for anything.
    pub(super) fn advance(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        load: Load,
    ) -> Result<HandshakeStatus, Error> {
        loop {
            let ConnectionState::Running(tls) = &mut self.state else {
                return Err(Error::NotEstablished);
            };
            let status = tls.do_handshake(input, output)?;
            let wanted = match status {
                HandshakeStatus::Pending => tls.take_key_operation(),
                _ => None,
            };
            let Some(mut wanted) = wanted else {
                self.follow(status);
                return Ok(status);
            };
            let ConnectionState::Running(mut tls) =
                std::mem::replace(&mut self.state, ConnectionState::Closed)
            else {
                return Err(Error::NotEstablished);
            };
            if self.leaves(load) {
                match self.hand_over(tls, &[], Some(wanted)) {
                    Ok(()) => return Ok(HandshakeStatus::Pending),
                    Err(back) => match *back {
                        (connection, Some(operation)) => (tls, wanted) = (connection, operation),
                        _ => return Err(Error::NotEstablished),
                    },
                }
            }
            if !self.sign(tls, wanted) {
                return Ok(HandshakeStatus::Pending);
            }
        }
    }

    /// Hands the operation to the key's accelerator. Returns whether it is already done.
    fn sign(&mut self, tls: awslc::Connection, wanted: KeyOperation) -> bool {
        let Some(accelerator) = self.certificate.accelerator() else {
            return false;
        };
        let (job, mut pending) = job(wanted);
        accelerator.submit(job);
        let result = loop {
            match pending.try_take() {
                Some(result) => break Some(result),
                // Another thread may have taken the job and be computing it.
                None if !accelerator.work() => break None,
                None => {}
            }
        };
        let is_done = result.is_some();
        self.state = ConnectionState::Signing(Box::new(Signing {
            tls,
            job: pending,
            result,
        }));
        if is_done {
            self.signed();
        }
        is_done
    }

    /// Passes the accelerator's result to libssl.
    pub(super) fn signed(&mut self) {
        if let ConnectionState::Signing(signing) =
            std::mem::replace(&mut self.state, ConnectionState::Closed)
        {
            let mut signing = *signing;
            self.count_queue_time(signing.job.queue_time());
            signing.tls.complete_key_operation(signing.result.flatten());
            self.state = ConnectionState::Running(signing.tls);
        }
    }

    /// Whether a flight with a private-key operation leaves the worker now.
    fn leaves(&self, load: Load) -> bool {
        self.server
            .as_ref()
            .is_some_and(|server| server.flights_leave(&self.certificate, load))
    }

    /// Hands the handshake to the pool, or returns it if the pool is gone.
    fn hand_over(
        &mut self,
        tls: awslc::Connection,
        input: &[u8],
        wanted: Option<KeyOperation>,
    ) -> Result<(), NotTaken> {
        let pool = self.server.as_ref().and_then(|server| server.pool());
        let (Some(pool), Some(accelerator)) = (pool, self.certificate.accelerator()) else {
            return Err(Box::new((tls, wanted)));
        };
        let flight = pool.hand_over(tls, accelerator, input, wanted)?;
        self.state = ConnectionState::Away(flight);
        Ok(())
    }

    /// Takes back a flight that has landed; `None` if the pool has stopped.
    pub(super) fn land(
        &mut self,
        landed: Option<Box<Landed>>,
        output: &mut Vec<u8>,
    ) -> Result<HandshakeStatus, Error> {
        self.state = ConnectionState::Closed;
        let Some(landed) = landed else {
            return Err(Error::Stopping);
        };
        let landed = *landed;
        output.extend_from_slice(&landed.output);
        self.count_queue_time(landed.queue_time);
        self.state = ConnectionState::Running(landed.tls);
        let status = landed.status?;
        self.follow(status);
        Ok(status)
    }

    /// Records the progress of the handshake.
    fn follow(&mut self, status: HandshakeStatus) {
        if let (ConnectionState::Running(tls), Some(server)) = (&mut self.state, &self.server) {
            let is_done = status == HandshakeStatus::Done;
            debug_assert!(
                !is_done || tls.is_ech_accepted() == self.ech.is_accepted(),
                "the same keys open the same hello"
            );
            self.session.follow(tls, server.resumption(), is_done);
        }
    }

    fn count_queue_time(&mut self, time: Duration) {
        let time_us = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        self.queue_time_us = self.queue_time_us.saturating_add(time_us);
    }

    /// Ends the handshake before libssl is involved.
    fn reject(&mut self, error: Error, output: &mut Vec<u8>) -> Error {
        output.extend_from_slice(&fatal_alert(error.alert()));
        self.state = ConnectionState::Closed;
        error
    }
}
