//! Packing a connection for another process, and unpacking it there.

use sealane_awslc as awslc;

use super::{Connection, ConnectionState};
use crate::acceptor::{Acceptor, Selected};
use crate::client_hello::normal_name;
use crate::error::Error;
use crate::ktls::{KernelTransmit, Refusal, Sealing};
use crate::packed::{NotPackable, Packed, Sealer, UnpackError};
use crate::record_writer::RecordWriter;

impl Connection {
    /// Whether [`pack`](Self::pack) would succeed now.
    ///
    /// [`NotPackable::KeyUpdate`] and [`NotPackable::Unsent`] clear after an empty
    /// [`write`](Self::write) whose output was sent (or, if the kernel seals, after
    /// [`send_control`](Self::send_control) with `data_follows`). [`NotPackable::Unread`] clears
    /// with the next request.
    ///
    /// # Errors
    ///
    /// What keeps the connection here.
    pub fn check_packable(&self) -> Result<(), NotPackable> {
        match &self.state {
            ConnectionState::Running(tls) => {
                if let Sealing::On(kernel) = &self.ktls {
                    kernel.counts()?;
                }
                tls.check_movable()
            }
            ConnectionState::Closed => Err(NotPackable::Closed),
            _ => Err(NotPackable::Handshake),
        }
    }

    /// Ends this connection without telling the peer, and packs it for another process. All output
    /// must have been sent and all input given to [`read`](Self::read). The caller must pass on
    /// whatever ciphertext and plaintext it still holds. Unsent TLS 1.3 tickets are packed too.
    ///
    /// # Errors
    ///
    /// The connection as it was, and why it cannot leave now: see
    /// [`check_packable`](Self::check_packable).
    pub fn pack(mut self) -> Result<Packed, Box<(Self, NotPackable)>> {
        let sealer = self.check_packable().and_then(|()| self.sealer());
        let fingerprint = self.certificate.fingerprint();
        let (sealer, fingerprint) = match (sealer, fingerprint) {
            (Ok(sealer), Some(fingerprint)) => (sealer, fingerprint),
            (Err(reason), _) => return Err(Box::new((self, reason))),
            (_, None) => return Err(Box::new((self, NotPackable::Handshake))),
        };
        let ConnectionState::Running(tls) =
            std::mem::replace(&mut self.state, ConnectionState::Closed)
        else {
            return Err(Box::new((self, NotPackable::Closed)));
        };
        let server_name = tls.server_name().map(str::as_bytes).and_then(normal_name);
        let tls = match tls.into_bytes() {
            Ok(tls) => tls,
            Err(back) => {
                let (tls, reason) = *back;
                self.state = ConnectionState::Running(tls);
                return Err(Box::new((self, reason)));
            }
        };
        Ok(Packed {
            server_name: server_name.map(String::into_boxed_str),
            fingerprint,
            queue_time_us: self.queue_time_us,
            sizer: self.sizer,
            session: self.session,
            client_offer: self.client_offer.take(),
            ech: std::mem::take(&mut self.ech),
            sealer,
            refusal: match &self.ktls {
                Sealing::Off(refusal @ Refusal::Call { .. }) => Some(refusal.clone()),
                _ => None,
            },
            tls,
        })
    }

    /// Continues a connection of another process. The server is found by its name as for a new
    /// connection. [`Packed::certificate`] says whether it is still the server that the client
    /// believes it is talking to.
    ///
    /// Call [`settle_ktls`](Self::settle_ktls) as after a handshake: settings and kernel are
    /// checked again, and only a call that failed on this very socket is remembered. If the kernel
    /// seals, the socket must be the same one.
    ///
    /// # Errors
    ///
    /// Nothing was sealed then: the old process may still go on.
    pub fn unpack(acceptor: &Acceptor, packed: Packed) -> Result<Self, UnpackError> {
        let Selected::Server(server, token) = acceptor.select(packed.server_name()) else {
            return Err(UnpackError::NoServer);
        };
        let adopted = server.adopt(&packed.fingerprint);
        let adopted = adopted.ok_or(UnpackError::NoServer)?;
        let tls = awslc::Connection::from_bytes(adopted.context, packed.tls.expose())
            .map_err(|error| UnpackError::Library(Error::Library(error)))?;
        let certificate = adopted.certificate;
        if (packed.sealer == Sealer::Library) == tls.is_transmit_released() {
            return Err(UnpackError::Malformed("who seals"));
        }
        let mut ktls = match packed.refusal {
            Some(refusal) => Sealing::Off(refusal),
            None => Sealing::Pending,
        };
        let mut writer = None;
        match packed.sealer {
            Sealer::Library => {}
            Sealer::Writer { sequence } => {
                let same = RecordWriter::go_on(&tls, sequence);
                writer = Some(Box::new(same.ok_or(UnpackError::NoRecordWriter)?));
            }
            Sealer::Kernel(counts) => {
                let tls13 = tls.protocol() == "TLSv1.3";
                let kernel = KernelTransmit::new(server.ktls_policy(), tls13, counts);
                ktls = Sealing::On(Box::new(kernel));
            }
        }
        let remembers_offer = server.remembers_client_offer();
        Ok(Self {
            state: ConnectionState::Running(tls),
            server: Some(server),
            token,
            certificate,
            queue_time_us: packed.queue_time_us,
            sizer: packed.sizer,
            client_offer: packed.client_offer.filter(|_| remembers_offer),
            ech: packed.ech,
            session: packed.session,
            ktls,
            writer,
            quic: None,
        })
    }

    /// Who seals the records, for the other process.
    fn sealer(&self) -> Result<Sealer, NotPackable> {
        Ok(match (&self.ktls, &self.writer) {
            (Sealing::On(kernel), _) => Sealer::Kernel(kernel.counts()?),
            (_, Some(writer)) => Sealer::Writer {
                sequence: writer.sequence().ok_or(NotPackable::Closed)?,
            },
            (_, None) => Sealer::Library,
        })
    }
}

#[cfg(test)]
mod tests;
