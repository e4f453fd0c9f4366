//! A connection whose records the kernel seals.
//!
//! libssl still reads, and still believes that it writes. What it wants to send comes out of its
//! guard in plaintext and is sent here as a record of its own type: alerts (21), and the answer to
//! a KeyUpdate (handshake, 22), after which the kernel gets the updated key.

use std::io;
use std::os::fd::BorrowedFd;

use sealane_awslc as awslc;
use sealane_awslc::{NotMovable, TransmitKeys};
use sealane_sys::ktls::{self, Keys, Version};

use super::keys_ended::KeysEnded;
use super::{ATTACH_CALL, KtlsPolicy, Refusal, SET_CALL, kernel_cipher};
use crate::control_records::{ALERT, HANDSHAKE, KEY_UPDATE};
use crate::record_writer::RecordWriter;

/// warning, close_notify (RFC 8446 section 6.1).
const CLOSE_NOTIFY: [u8; 2] = [1, 0];

/// The most plaintext in one record.
const RECORD_BYTES: u64 = 16_384;

/// Records that a call may make beyond its full ones: it may leave a partly filled record.
const CALL_RECORDS: u64 = 1;

/// The kernel's side of a connection.
pub(crate) struct KernelTransmit {
    /// An upper bound on the records sealed under the current key.
    records: u64,
    max_records: u64,
    /// KeyUpdates that the peer has asked for.
    key_updates: u32,
    max_key_updates: u32,
    /// TLS 1.3 on a kernel that can change the key of a connection.
    can_rekey: bool,
    /// An alert waiting to be sent.
    alert: Option<[u8; 2]>,
    /// The KeyUpdate has been sent, and the kernel must get this key next.
    next_keys: Option<TransmitKeys>,
    /// close_notify or a fatal alert has been sent: nothing may follow.
    ended: bool,
    /// Why the connection has to end, once it has to.
    keys_ended: Option<KeysEnded>,
}

/// The kernel's side of a connection, as another process needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelCounts {
    pub(crate) records: u64,
    pub(crate) key_updates: u32,
}

/// Hands the write direction of `tls` to the kernel, from libssl or from our own writer. Everything
/// sealed so far has been sent.
pub(super) fn take_over(
    policy: &KtlsPolicy,
    tls: &mut awslc::Connection,
    writer: Option<&mut RecordWriter>,
    socket: BorrowedFd<'_>,
) -> Result<KernelTransmit, Refusal> {
    let libssl_writes = writer.is_none();
    let exported;
    let keys = match writer {
        Some(writer) => writer.keys().map_err(|error| Refusal::keys(&error))?,
        None => {
            exported = tls.transmit_keys().map_err(|error| Refusal::keys(&error))?;
            &exported
        }
    };
    ktls::attach(socket).map_err(|error| Refusal::call(ATTACH_CALL, &error))?;
    set(socket, keys).map_err(|error| Refusal::call(SET_CALL, &error))?;
    // The kernel has the key: libssl must not use it again.
    if libssl_writes {
        tls.release_transmit();
    }
    let counts = KernelCounts {
        records: 0,
        key_updates: 0,
    };
    Ok(KernelTransmit::new(policy, keys.tls13, counts))
}

fn set(socket: BorrowedFd<'_>, keys: &TransmitKeys) -> io::Result<()> {
    let version = if keys.tls13 {
        Version::Tls13
    } else {
        Version::Tls12
    };
    let keys = Keys {
        version,
        cipher: kernel_cipher(keys.cipher),
        key: keys.key(),
        iv: keys.iv(),
        sequence: keys.sequence,
    };
    ktls::set_transmit(socket, &keys)
}

impl KernelTransmit {
    /// The kernel has the keys, and libssl is behind its guard. The limits are those of `policy`,
    /// whatever they were before.
    pub(crate) fn new(policy: &KtlsPolicy, tls13: bool, counts: KernelCounts) -> Self {
        let settings = &policy.settings;
        Self {
            records: counts.records,
            max_records: settings.max_key_records,
            key_updates: counts.key_updates,
            max_key_updates: settings.max_key_updates,
            can_rekey: tls13 && settings.capabilities.rekey().is_ok(),
            alert: None,
            next_keys: None,
            ended: false,
            keys_ended: None,
        }
    }

    /// The counts that another process needs to continue.
    ///
    /// # Errors
    ///
    /// When the connection has ended, or something is on its way that
    /// [`control`](Self::control) finishes.
    pub(crate) fn counts(&self) -> Result<KernelCounts, NotMovable> {
        if self.ended || self.keys_ended.is_some() {
            return Err(NotMovable::Closed);
        }
        if self.next_keys.is_some() {
            return Err(NotMovable::KeyUpdate);
        }
        if self.alert.is_some() {
            return Err(NotMovable::Unsent);
        }
        Ok(KernelCounts {
            records: self.records,
            key_updates: self.key_updates,
        })
    }

    /// Counts what was sent in one call.
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.records += bytes.div_ceil(RECORD_BYTES) + CALL_RECORDS;
    }

    /// How many bytes may be sent before [`control`](Self::control) must be called again, because
    /// the key may need to be changed.
    pub(crate) fn allowance_bytes(&self) -> u64 {
        self.max_records
            .saturating_sub(self.records + CALL_RECORDS)
            .saturating_mul(RECORD_BYTES)
    }

    /// Whether the current response should be the last on the connection: half of what the key may
    /// seal is used up, and there will be no other key.
    pub(crate) fn should_end(&self) -> bool {
        !self.can_rekey && self.records >= self.max_records / 2
    }

    /// Sends what libssl has to send. With `data_follows`, also sends what must precede more data:
    /// the answer to a KeyUpdate, or a fresh key.
    ///
    /// `Ok(Some(..))` says that the connection must end; close_notify has been
    /// sent.
    ///
    /// # Errors
    ///
    /// `WouldBlock`: call again when the socket is writable. Others end the
    /// connection.
    pub(crate) fn control(
        &mut self,
        tls: &mut awslc::Connection,
        socket: BorrowedFd<'_>,
        data_follows: bool,
    ) -> io::Result<Option<KeysEnded>> {
        if let Some(alert) = tls.take_alert() {
            self.alert = Some(alert);
        }
        self.send_alert(socket)?;
        if !data_follows {
            return Ok(None);
        }
        if self.ended {
            return match self.keys_ended {
                Some(ended) => Ok(Some(ended)),
                // Data after an alert that ends the connection would be a mistake of the caller.
                None => Err(io::ErrorKind::BrokenPipe.into()),
            };
        }
        if self.next_keys.is_none() {
            let due = tls.is_key_update_due();
            if !due && self.allowance_bytes() > 0 {
                return Ok(None);
            }
            if let Some(ended) = self.cannot_turn(due) {
                self.keys_ended = Some(ended);
                self.alert = Some(CLOSE_NOTIFY);
                self.send_alert(socket)?;
                return Ok(Some(ended));
            }
            // Under the old key: the message announces that the next record uses the new one.
            ktls::send_record(socket, HANDSHAKE, &KEY_UPDATE)?;
            self.key_updates += u32::from(due);
            let keys = tls.next_transmit_keys();
            self.next_keys = Some(keys.map_err(|error| io::Error::other(error.to_string()))?);
        }
        if let Some(keys) = &self.next_keys {
            set(socket, keys)?;
            self.next_keys = None;
            self.records = 0;
        }
        Ok(None)
    }

    fn cannot_turn(&self, asked_by_peer: bool) -> Option<KeysEnded> {
        match (self.can_rekey, asked_by_peer) {
            (false, true) => Some(KeysEnded::UpdateUnsupported),
            (false, false) => Some(KeysEnded::Exhausted),
            (true, true) if self.key_updates >= self.max_key_updates => {
                Some(KeysEnded::TooManyUpdates)
            }
            (true, _) => None,
        }
    }

    fn send_alert(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        if let Some(alert) = self.alert
            && !self.ended
        {
            ktls::send_record(socket, ALERT, &alert)?;
            self.alert = None;
            // In TLS 1.2, warnings other than close_notify do not end the connection.
            self.ended = alert[0] == FATAL || alert == CLOSE_NOTIFY;
        }
        Ok(())
    }
}

const FATAL: u8 = 2;
