//! [`Packed`] as bytes.
//!
//! ```text
//! format (2) | library version (1 + n) | length of the rest (4)
//! server name (2 + n) | fingerprint (32) | queue time (4) | sizer (4 + 8)
//! resumed (1) | missed (1) | early data (1) | offer: known (1), groups (2 + n), schemes (2 + n)
//! encrypted hello: outcome (1), name outside (2 + n)
//! who seals: kind (1), what it needs | refusal: call (1), its text (2 + n)
//! libssl and the rest (4 + n)
//! ```
//!
//! Numbers are big-endian; lists and texts are prefixed with their length in bytes. Optional values
//! are 0 or empty if absent, otherwise their index in a list, counting from 1.

use sealane_awslc::{Secret, library_version};

use super::{MAX_PACKED_BYTES, Packed, Sealer, UnpackError};
use crate::client_hello::{ClientOffer, normal_name};
use crate::ech::{EchOutcome, MAX_OUTER_NAME_BYTES};
use crate::identities::Fingerprint;
use crate::ja4::JA4_BYTES;
use crate::ktls::{CALLS, KernelCounts, Refusal};
use crate::record_size::RecordSizer;
use crate::sessions::outcome::SessionOutcome;
use crate::sessions::stats::{EarlyVerdict, Missed, Resumed};

/// Changes with every change of the bytes or of their meaning.
pub(super) const FORMAT: u16 = 4;

/// The longest text of a failed call that is included.
const MAX_REFUSAL_BYTES: usize = 200;
/// Room for everything of a fixed length and the texts that are bounded.
const FIXED_BYTES: usize = 1536;

const ECH_NOT_TRIED: u8 = 0;
const ECH_GREASE: u8 = 1;
const ECH_ACCEPTED: u8 = 2;

const LIBRARY: u8 = 0;
const WRITER: u8 = 1;
const KERNEL: u8 = 2;

pub(super) fn write(packed: &Packed) -> Secret {
    let offer = packed.client_offer.as_deref();
    let groups = offer.map_or(&[][..], |offer| &offer.groups);
    let schemes = offer.map_or(&[][..], |offer| &offer.schemes);
    let lists = 2 * (groups.len() + schemes.len());
    let room = FIXED_BYTES + lists + packed.tls.expose().len();
    // Allocated at once, so that a growing vector leaves no secret behind.
    let mut body = Writer(Vec::with_capacity(room));
    body.0.extend_from_slice(&FORMAT.to_be_bytes());
    let version = library_version().as_bytes();
    // A truncated version still differs from any other that has it in full.
    let version = &version[..version.len().min(u8::MAX.into())];
    body.u8(version.len() as u8);
    body.0.extend_from_slice(version);
    let length_at = body.0.len();
    body.u32(0);
    body.list(packed.server_name.as_deref().unwrap_or("").as_bytes());
    body.0.extend_from_slice(&packed.fingerprint.0);
    body.u32(packed.queue_time_us);
    body.u32(packed.sizer.sent);
    body.u64(packed.sizer.last_write_ms);
    body.u8(place(&Resumed::ALL, packed.session.resumed()));
    body.u8(place(&Missed::ALL, packed.session.missed()));
    body.u8(place(&EarlyVerdict::ALL, packed.session.early_verdict()));
    body.u8(offer.is_some().into());
    for list in [groups, schemes] {
        // They came in a list with such a length.
        let list: Vec<u8> = list.iter().flat_map(|id| id.to_be_bytes()).collect();
        body.list(&list);
    }
    body.list(offer.map_or("", |offer| &offer.ja4).as_bytes());
    let (outcome, outer_name) = match &packed.ech {
        EchOutcome::NotTried => (ECH_NOT_TRIED, ""),
        EchOutcome::Grease => (ECH_GREASE, ""),
        EchOutcome::Accepted { outer_name } => (ECH_ACCEPTED, &**outer_name),
    };
    body.u8(outcome);
    body.list(outer_name.as_bytes());
    write_sealer(packed.sealer, &mut body);
    write_refusal(packed.refusal.as_ref(), &mut body);
    body.u32(length_of(packed.tls.expose()));
    body.0.extend_from_slice(packed.tls.expose());
    debug_assert!(body.0.capacity() == room, "nothing was left behind");
    let rest = length_of(&body.0[length_at + 4..]);
    body.0[length_at..length_at + 4].copy_from_slice(&rest.to_be_bytes());
    Secret::new(body.0)
}

fn write_sealer(sealer: Sealer, body: &mut Writer) {
    match sealer {
        Sealer::Library => body.u8(LIBRARY),
        Sealer::Writer { sequence } => {
            body.u8(WRITER);
            body.u64(sequence);
        }
        Sealer::Kernel(counts) => {
            body.u8(KERNEL);
            body.u64(counts.records);
            body.u32(counts.key_updates);
        }
    }
}

/// Writes the refusal of a failed call; the others are determined again.
fn write_refusal(refusal: Option<&Refusal>, body: &mut Writer) {
    let (call, error) = match refusal {
        Some(Refusal::Call { call, error }) => (Some(*call), error.as_str()),
        _ => (None, ""),
    };
    body.u8(place(&CALLS, call));
    let mut end = error.len().min(MAX_REFUSAL_BYTES);
    while !error.is_char_boundary(end) {
        end -= 1;
    }
    body.list(&error.as_bytes()[..end]);
}

pub(super) fn read(bytes: &[u8]) -> Result<Packed, UnpackError> {
    if bytes.len() > MAX_PACKED_BYTES {
        return Err(UnpackError::Malformed("too long"));
    }
    let mut body = Reader(bytes);
    if body.u16()? != FORMAT {
        return Err(UnpackError::OtherVersion);
    }
    let version_bytes = body.u8()?.into();
    if body.take(version_bytes)? != library_version().as_bytes() {
        return Err(UnpackError::OtherVersion);
    }
    if body.u32()? as usize != body.0.len() {
        return Err(UnpackError::Malformed("its length"));
    }
    let packed = Packed {
        server_name: read_name(&mut body)?,
        fingerprint: Fingerprint(*body.array()?),
        queue_time_us: body.u32()?,
        sizer: RecordSizer {
            sent: body.u32()?,
            last_write_ms: body.u64()?,
        },
        session: SessionOutcome::finished(
            body.one_of(&Resumed::ALL)?,
            body.one_of(&Missed::ALL)?,
            body.one_of(&EarlyVerdict::ALL)?,
        ),
        client_offer: read_offer(&mut body)?,
        ech: read_ech(&mut body)?,
        sealer: read_sealer(&mut body)?,
        refusal: read_refusal(&mut body)?,
        tls: {
            let length = body.u32()? as usize;
            Secret::new(body.take(length)?.to_vec())
        },
    };
    match body.0 {
        [] => Ok(packed),
        _ => Err(UnpackError::Malformed("data after the connection")),
    }
}

fn read_name(body: &mut Reader<'_>) -> Result<Option<Box<str>>, UnpackError> {
    let name = body.list()?;
    if name.is_empty() {
        return Ok(None);
    }
    let normal = normal_name(name).filter(|normal| normal.as_bytes() == name);
    let normal = normal.ok_or(UnpackError::Malformed("the server name"))?;
    Ok(Some(normal.into()))
}

fn read_offer(body: &mut Reader<'_>) -> Result<Option<Box<ClientOffer>>, UnpackError> {
    let known = body.flag()?;
    let mut read = || -> Result<Box<[u16]>, UnpackError> {
        let list = body.list()?;
        if list.len() % 2 != 0 || (!known && !list.is_empty()) {
            return Err(UnpackError::Malformed("the client's offer"));
        }
        let ids = list.chunks_exact(2);
        Ok(ids
            .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
            .collect())
    };
    let (groups, schemes) = (read()?, read()?);
    let ja4 = body.list()?;
    let is_fitting = known && ja4.len() == JA4_BYTES || ja4.is_empty();
    if !is_fitting || !ja4.iter().all(|byte| byte.is_ascii_graphic()) {
        return Err(UnpackError::Malformed("the client's fingerprint"));
    }
    let ja4 = String::from_utf8_lossy(ja4).into();
    Ok(known.then(|| {
        Box::new(ClientOffer {
            groups,
            schemes,
            ja4,
        })
    }))
}

fn read_ech(body: &mut Reader<'_>) -> Result<EchOutcome, UnpackError> {
    let outcome = body.u8()?;
    let name = std::str::from_utf8(body.list()?).ok();
    let name = name.filter(|name| name.len() <= MAX_OUTER_NAME_BYTES);
    match (outcome, name) {
        (ECH_NOT_TRIED, Some("")) => Ok(EchOutcome::NotTried),
        (ECH_GREASE, Some("")) => Ok(EchOutcome::Grease),
        (ECH_ACCEPTED, Some(name)) => Ok(EchOutcome::Accepted {
            outer_name: name.into(),
        }),
        _ => Err(UnpackError::Malformed("the encrypted hello")),
    }
}

fn read_sealer(body: &mut Reader<'_>) -> Result<Sealer, UnpackError> {
    Ok(match body.u8()? {
        LIBRARY => Sealer::Library,
        WRITER => Sealer::Writer {
            sequence: body.u64()?,
        },
        KERNEL => Sealer::Kernel(KernelCounts {
            records: body.u64()?,
            key_updates: body.u32()?,
        }),
        _ => return Err(UnpackError::Malformed("who seals")),
    })
}

fn read_refusal(body: &mut Reader<'_>) -> Result<Option<Refusal>, UnpackError> {
    let malformed = UnpackError::Malformed("the refusal");
    let call = body.one_of(&CALLS)?;
    let error = body.list()?;
    if error.len() > MAX_REFUSAL_BYTES || (call.is_none() && !error.is_empty()) {
        return Err(malformed);
    }
    let error = str::from_utf8(error).map_err(|_| malformed)?.to_owned();
    Ok(call.map(|call| Refusal::Call { call, error }))
}

/// Where `value` is in `all`, from 1; 0 for none.
fn place<T: PartialEq>(all: &[T], value: Option<T>) -> u8 {
    let place = value.and_then(|value| all.iter().position(|one| *one == value));
    place.map_or(0, |place| u8::try_from(place + 1).unwrap_or(0))
}

/// Anything longer than 4 GiB is far beyond what [`read`] accepts.
fn length_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

struct Writer(Vec<u8>);

impl Writer {
    fn u8(&mut self, number: u8) {
        self.0.push(number);
    }

    fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    /// A list that is too long for its length field is left out.
    fn list(&mut self, bytes: &[u8]) {
        let length = u16::try_from(bytes.len()).unwrap_or(0);
        self.0.extend_from_slice(&length.to_be_bytes());
        self.0.extend_from_slice(&bytes[..length.into()]);
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], UnpackError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], UnpackError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8, UnpackError> {
        self.array().map(|[byte]| *byte)
    }

    fn u16(&mut self) -> Result<u16, UnpackError> {
        self.array().map(|bytes| u16::from_be_bytes(*bytes))
    }

    fn u32(&mut self) -> Result<u32, UnpackError> {
        self.array().map(|bytes| u32::from_be_bytes(*bytes))
    }

    fn u64(&mut self) -> Result<u64, UnpackError> {
        self.array().map(|bytes| u64::from_be_bytes(*bytes))
    }

    fn flag(&mut self) -> Result<bool, UnpackError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(UnpackError::Malformed("a flag")),
        }
    }

    fn list(&mut self) -> Result<&'a [u8], UnpackError> {
        let length = self.u16()?;
        self.take(length.into())
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Result<Option<T>, UnpackError> {
        match usize::from(self.u8()?) {
            0 => Ok(None),
            place => match all.get(place - 1) {
                Some(one) => Ok(Some(*one)),
                None => Err(UnpackError::Malformed("a fact of the handshake")),
            },
        }
    }
}

const SHORT: UnpackError = UnpackError::Malformed("it ends early");
