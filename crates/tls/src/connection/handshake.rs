//! The steps of a handshake: collect the hello, choose the server, ask the store, drive libssl here
//! or in the pool, and perform the private-key operation.

use std::sync::Arc;
use std::time::Duration;

use sealane_awslc as awslc;
use sealane_awslc::{HandshakeStatus, KeyOperation, unix_time_s};

use super::{
    ALERT_DECODE_ERROR, ALERT_ILLEGAL_PARAMETER, ALERT_INTERNAL_ERROR, ALERT_PROTOCOL_VERSION,
    ALERT_UNRECOGNIZED_NAME, Connection, ConnectionState, Signing, Waiting, fatal_alert,
};
use crate::accelerator::job;
use crate::acceptor::Selected;
use crate::client_hello::{
    self, ClientHello, EchOffer, MAX_HELLO_BYTES, Parsed, USUAL_HELLO_BYTES,
};
use crate::ech::EchOutcome;
use crate::error::Error;
use crate::hello_records::{Collected, LargeHello};
use crate::offload::Load;
use crate::offload::flight::Landed;
use crate::offload::pool::NotTaken;
use crate::server::ServerTls;
use crate::sessions::lookup::{Lookup, LookupStep, Prepared};
use crate::sessions::outcome::SessionOutcome;

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
                return Err(self.reject(ALERT_DECODE_ERROR, Error::HelloTooLarge, output));
            }
            Collected::TooMany => {
                return Err(self.reject(ALERT_INTERNAL_ERROR, Error::TooManyLargeHellos, output));
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
    fn start(
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
            return Err(self.reject(ALERT_PROTOCOL_VERSION, Error::VersionTooLow, output));
        }
        let offered = outer.as_ref().and_then(ClientHello::ech);
        if offered == Some(EchOffer::Inner) {
            return Err(self.reject(ALERT_ILLEGAL_PARAMETER, Error::SplitMode, output));
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
        let Selected::Server(server, token) = acceptor.select(name.as_deref()) else {
            return Err(self.reject(ALERT_UNRECOGNIZED_NAME, Error::Rejected, output));
        };
        if server.rejects() {
            return Err(self.reject(ALERT_UNRECOGNIZED_NAME, Error::Rejected, output));
        }
        if server.remembers_client_offer() {
            let offer = hello.as_ref().map(ClientHello::offer);
            self.client_offer = offer.map(Box::new);
        }
        self.ech = ech;
        self.token = token;
        self.server = Some(Arc::clone(&server));
        let mut prepared = Prepared::default();
        if let (Some(hello), Some(message)) = (&hello, message)
            && server.resumption().is_involved()
        {
            let version = server.rules().version(hello);
            let now_s = unix_time_s();
            match server.resumption().begin(version, hello, message, now_s) {
                LookupStep::Ready(ready) => prepared = ready,
                LookupStep::Wait(lookup) => {
                    self.wait((bytes, inner.clone()), large, input, server, lookup);
                    return Ok(Some(HandshakeStatus::Pending));
                }
            }
        }
        let status = self.run(&server, hello.as_ref(), prepared, input, output, load)?;
        Ok(Some(status))
    }

    /// Keeps the hello at the start of `bytes`, and the one inside of it, until the store has
    /// answered.
    fn wait(
        &mut self,
        (bytes, inner): (&[u8], Option<Vec<u8>>),
        large: Option<LargeHello>,
        input: &mut &[u8],
        server: Arc<ServerTls>,
        lookup: Lookup,
    ) {
        // Whatever follows the hello stays with the caller.
        let hello_bytes = client_hello::records_length(bytes).min(bytes.len());
        *input = &input[hello_bytes.min(input.len())..];
        self.state = ConnectionState::Waiting(Box::new(Waiting {
            hello: bytes[..hello_bytes].to_vec(),
            inner,
            server,
            lookup,
            _large: large,
        }));
    }

    /// The store has answered, or will not answer.
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
            lookup,
            _large: large,
        } = *waiting;
        let Parsed::Complete(outer) = client_hello::collect(&records) else {
            return Err(Error::NotEstablished);
        };
        let message = inner.as_deref().unwrap_or(&outer);
        let hello = ClientHello::parse(message);
        let mut input = &records[..];
        let prepared = match &hello {
            None => Prepared::default(),
            Some(hello) => {
                let version = server.rules().version(hello);
                let now_s = unix_time_s();
                match server
                    .resumption()
                    .go_on(lookup, version, hello, message, now_s)
                {
                    LookupStep::Ready(prepared) => prepared,
                    LookupStep::Wait(lookup) => {
                        let hello = (&records[..], inner.clone());
                        self.wait(hello, large, &mut input, server, lookup);
                        return Ok(HandshakeStatus::Pending);
                    }
                }
            }
        };
        self.run(&server, hello.as_ref(), prepared, &mut input, output, load)
    }

    /// Starts libssl on `input`, which begins with the hello.
    fn run(
        &mut self,
        server: &ServerTls,
        hello: Option<&ClientHello<'_>>,
        prepared: Prepared,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        load: Load,
    ) -> Result<HandshakeStatus, Error> {
        let Some(chosen) = server.choose(hello) else {
            return Err(self.reject(ALERT_UNRECOGNIZED_NAME, Error::Rejected, output));
        };
        self.identity = chosen.identity;
        let mut tls = awslc::Connection::server(chosen.context)?;
        if input.len() > USUAL_HELLO_BYTES
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
        self.session = SessionOutcome::begin(&mut tls, server.resumption(), prepared);
        // If that is not certain, it shows along the way whether the key is needed.
        if hello.is_some_and(|hello| server.signs_first_flight(hello)) && self.leaves(load) {
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
        let Some(server) = &self.server else {
            return false;
        };
        let accelerator = server.accelerator(self.identity);
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
            .is_some_and(|server| server.flights_leave(self.identity, load))
    }

    /// Hands the handshake to the pool, or returns it if the pool is gone.
    fn hand_over(
        &mut self,
        tls: awslc::Connection,
        input: &[u8],
        wanted: Option<KeyOperation>,
    ) -> Result<(), NotTaken> {
        let server = self.server.as_ref();
        let Some((server, pool)) = server.and_then(|server| Some((server, server.pool()?))) else {
            return Err(Box::new((tls, wanted)));
        };
        let flight = pool.hand_over(tls, server.accelerator(self.identity), input, wanted)?;
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
    fn reject(&mut self, alert: u8, error: Error, output: &mut Vec<u8>) -> Error {
        output.extend_from_slice(&fatal_alert(alert));
        self.state = ConnectionState::Closed;
        error
    }
}
