//! The few fields of a serialised session that are checked before libssl reads it.
//!
//! libssl writes a session as DER (the structure is described at the top of its `ssl/ssl_asn1.cc`).
//! Everything that arrives here was sealed by one of our servers or kept in its memory, so a
//! structure that does not match comes from another version of the library. It is treated as no
//! session, never as an error.

use std::ops::Range;

/// How far ahead of ours the clock of the node that made a session may be, in seconds: each may be
/// wrong by a minute either way. libssl refuses sessions from the future, so those within the
/// tolerance are re-dated to now, and those beyond it are not used.
pub const CLOCK_TOLERANCE_S: u64 = 150;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const TIME: u8 = 0xa1;
const TIMEOUT: u8 = 0xa2;
const PEER_CERTIFICATE: u8 = 0xa3;
const CONTEXT_ID: u8 = 0xa4;

/// The fields of a serialised session. The ranges refer to its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFacts {
    /// The protocol's number on the wire.
    pub version: u16,
    /// The cipher suite's number.
    pub suite: u16,
    /// When it was made, in seconds since the epoch.
    pub made_s: u64,
    /// How long it can be resumed from then on, in seconds.
    pub timeout_s: u64,
    secret: Range<usize>,
    made_at: Range<usize>,
    context_id: Range<usize>,
}

impl SessionFacts {
    /// Reads the fields; `None` if the bytes are not a session.
    pub fn parse(session: &[u8]) -> Option<Self> {
        let mut whole = Der {
            bytes: session,
            at: 0,
        };
        let body = whole.element(SEQUENCE)?;
        let mut fields = Der {
            bytes: session.get(..body.end)?,
            at: body.start,
        };
        fields.element(INTEGER)?; // version of the structure
        let version = fields.element(INTEGER)?;
        let suite = fields.element(OCTET_STRING)?;
        fields.element(OCTET_STRING)?; // session id
        let secret = fields.element(OCTET_STRING)?;
        let made_at = fields.tagged(TIME, INTEGER)?;
        let timeout = fields.tagged(TIMEOUT, INTEGER)?;
        if fields.peek() == Some(PEER_CERTIFICATE) {
            fields.element(PEER_CERTIFICATE)?;
        }
        let context_id = if fields.peek() == Some(CONTEXT_ID) {
            fields.tagged(CONTEXT_ID, OCTET_STRING)?
        } else {
            0..0
        };
        Some(Self {
            version: u16::try_from(number(session.get(version)?)?).ok()?,
            suite: u16::from_be_bytes(session.get(suite)?.try_into().ok()?),
            made_s: number(session.get(made_at.clone())?)?,
            timeout_s: number(session.get(timeout)?)?,
            secret,
            made_at,
            context_id,
        })
    }

    /// The pre-shared key of TLS 1.3, or the master secret of earlier versions.
    pub fn secret<'a>(&self, session: &'a [u8]) -> &'a [u8] {
        session.get(self.secret.clone()).unwrap_or(&[])
    }

    /// The identity of the server that the session is bound to.
    pub fn context_id<'a>(&self, session: &'a [u8]) -> &'a [u8] {
        session.get(self.context_id.clone()).unwrap_or(&[])
    }

    /// When it expires, in seconds since the epoch.
    pub fn expires_s(&self) -> u64 {
        self.made_s.saturating_add(self.timeout_s)
    }

    /// Whether it has expired at `now_s`, or comes from further in the future than clocks may
    /// differ.
    pub fn is_expired(&self, now_s: u64) -> bool {
        now_s >= self.expires_s() || self.made_s > now_s.saturating_add(CLOCK_TOLERANCE_S)
    }

    /// Re-dates a session from our future to now. Returns whether it was one.
    pub fn clamp(&mut self, session: &mut [u8], now_s: u64) -> bool {
        if self.made_s <= now_s {
            return false;
        }
        let Some(target) = session.get_mut(self.made_at.clone()) else {
            return false;
        };
        // The new time is at most CLOCK_TOLERANCE_S earlier, so it has as many bytes, except for a
        // few minutes in 2038, when libssl will not read it and the client makes a full handshake.
        // and the client makes a full handshake.
        let bytes = now_s.to_be_bytes();
        let Some(start) = bytes.len().checked_sub(target.len()) else {
            // Nine bytes: later than any date.
            return false;
        };
        target.copy_from_slice(&bytes[start..]);
        self.made_s = now_s;
        true
    }
}

/// A non-negative DER integer.
fn number(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 9 || bytes[0] & 0x80 != 0 {
        return None;
    }
    bytes.iter().try_fold(0_u64, |value, byte| {
        Some(value.checked_mul(256)? + u64::from(*byte))
    })
}

/// A walk over consecutive elements.
struct Der<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Der<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The content of the next element, which must have this tag.
    fn element(&mut self, tag: u8) -> Option<Range<usize>> {
        if self.peek()? != tag {
            return None;
        }
        let mut at = self.at + 1;
        let first = usize::from(*self.bytes.get(at)?);
        at += 1;
        let length = match first {
            0..=0x7f => first,
            0x81 | 0x82 => {
                let count = first - 0x80;
                let length = self.bytes.get(at..at + count)?;
                at += count;
                length
                    .iter()
                    .fold(0, |value, byte| value * 256 + usize::from(*byte))
            }
            // Sessions are shorter than 64 KiB, as tickets are.
            _ => return None,
        };
        let content = at..at + length;
        self.bytes.get(content.clone())?;
        self.at = content.end;
        Some(content)
    }

    /// The content of an element that is alone inside an explicit tag.
    fn tagged(&mut self, outer: u8, inner: u8) -> Option<Range<usize>> {
        let body = self.element(outer)?;
        let mut nested = Der {
            bytes: self.bytes.get(..body.end)?,
            at: body.start,
        };
        let content = nested.element(inner)?;
        (content.end == body.end).then_some(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session as libssl writes it, with a made-up secret.
    fn session(made: &[u8], context_id: &[u8]) -> Vec<u8> {
        fn element(tag: u8, content: &[u8]) -> Vec<u8> {
            let mut bytes = vec![tag, u8::try_from(content.len()).expect("short")];
            bytes.extend_from_slice(content);
            bytes
        }
        let fields = [
            element(INTEGER, &[1]),
            element(INTEGER, &[3, 4]),
            element(OCTET_STRING, &[0x13, 1]),
            element(OCTET_STRING, &[]),
            element(OCTET_STRING, &[7; 32]),
            element(TIME, &element(INTEGER, made)),
            element(TIMEOUT, &element(INTEGER, &[0x01, 0x2c])),
            element(CONTEXT_ID, &element(OCTET_STRING, context_id)),
        ]
        .concat();
        element(SEQUENCE, &fields)
    }

    #[test]
    fn the_fields_are_where_libssl_puts_them() {
        let bytes = session(&[0x65, 0, 0, 0], b"identity");
        let facts = SessionFacts::parse(&bytes).expect("well formed");
        assert_eq!((facts.version, facts.suite), (0x0304, 0x1301));
        assert_eq!((facts.made_s, facts.timeout_s), (0x6500_0000, 300));
        assert_eq!(facts.secret(&bytes), [7; 32]);
        assert_eq!(facts.context_id(&bytes), b"identity");
        for cut in 0..bytes.len() {
            assert_eq!(SessionFacts::parse(&bytes[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn a_session_from_the_near_future_is_dated_now_and_one_from_afar_is_expired() {
        let made_s = 0x6500_0000;
        let mut bytes = session(&[0x65, 0, 0, 0], b"");
        let mut facts = SessionFacts::parse(&bytes).expect("well formed");
        assert!(!facts.is_expired(made_s - CLOCK_TOLERANCE_S));
        assert!(facts.is_expired(made_s - CLOCK_TOLERANCE_S - 1));
        assert!(!facts.is_expired(made_s + 299));
        assert!(facts.is_expired(made_s + 300));
        assert!(
            !facts.clamp(&mut bytes, made_s),
            "it is not from the future"
        );
        assert!(facts.clamp(&mut bytes, made_s - 60));
        let clamped = SessionFacts::parse(&bytes).expect("still well formed");
        assert_eq!(clamped.made_s, made_s - 60);
        assert_eq!(clamped, facts);
    }
}
