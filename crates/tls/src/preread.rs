//! What a ClientHello says to somebody who only passes it on (`ssl_preread`).
//!
//! Nobody here answers the hello, so nothing is required of it beyond what nginx requires: what
//! it cannot read is passed on as well. Which odd hellos have a name and which do not decides where
//! they go, so the rules are nginx's, field by field.

use crate::client_hello::RECORD_HEADER_BYTES;

const HANDSHAKE_RECORD: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: [u8; 2] = [0, 0];
const ALPN: [u8; 2] = [0, 16];
const SUPPORTED_VERSIONS: [u8; 2] = [0, 43];
const TLS_1_3: [u8; 2] = [3, 4];

/// What the hello says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrereadHello {
    version: [u8; 2],
    server_name: Option<Box<[u8]>>,
    alpn: Option<Vec<u8>>,
}

impl PrereadHello {
    /// The newest version that is offered, in OpenSSL's notation; empty for an unknown one.
    pub fn protocol(&self) -> &'static str {
        match self.version {
            [0, 2] => "SSLv2",
            [3, 0] => "SSLv3",
            [3, 1] => "TLSv1",
            [3, 2] => "TLSv1.1",
            [3, 3] => "TLSv1.2",
            [3, 4] => "TLSv1.3",
            _ => "",
        }
    }

    /// The server name, as the client has written it; empty without one.
    pub fn server_name(&self) -> &[u8] {
        self.server_name.as_deref().unwrap_or_default()
    }

    /// The protocols offered with ALPN, separated by commas; empty without the extension.
    pub fn alpn(&self) -> &[u8] {
        self.alpn.as_deref().unwrap_or_default()
    }
}

/// How far a hello has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrereadStatus {
    /// More bytes are needed.
    Incomplete,
    /// It is none, or one that cannot be read: there is nothing to know.
    Unreadable,
    /// The whole hello.
    Complete(PrereadHello),
}

/// Reads a hello while it arrives.
///
/// Once the result is known, it stays what it is.
#[derive(Debug, Default)]
pub struct PrereadDecoder {
    /// Where the next record begins.
    at: usize,
    /// The messages in the records so far.
    message: Vec<u8>,
    result: Option<PrereadStatus>,
}

impl PrereadDecoder {
    /// Goes on with `received`: everything from the beginning of the connection.
    pub fn decode(&mut self, received: &[u8]) -> PrereadStatus {
        if let Some(result) = &self.result {
            return result.clone();
        }
        let status = self.next(received);
        if status != PrereadStatus::Incomplete {
            self.message = Vec::new();
            self.result = Some(status.clone());
        }
        status
    }

    fn next(&mut self, received: &[u8]) -> PrereadStatus {
        while let Some((header, body)) = received
            .get(self.at..)
            .and_then(|rest| rest.split_at_checked(RECORD_HEADER_BYTES))
        {
            let &[kind, major, third, fourth, low] = header else {
                return PrereadStatus::Unreadable;
            };
            // A hello of version 2 of SSL, or one in its form.
            if kind & 0x80 != 0 && third == CLIENT_HELLO && matches!(fourth, 0 | 3) {
                return PrereadStatus::Complete(PrereadHello {
                    version: [fourth, low],
                    ..PrereadHello::default()
                });
            }
            if kind != HANDSHAKE_RECORD || major != 3 {
                return PrereadStatus::Unreadable;
            }
            let length = usize::from(u16::from_be_bytes([fourth, low]));
            let Some(fragment) = body.get(..length) else {
                return PrereadStatus::Incomplete;
            };
            self.at += RECORD_HEADER_BYTES + length;
            self.message.extend_from_slice(fragment);
            match parse(&self.message) {
                Ok(hello) => return PrereadStatus::Complete(hello),
                Err(Gap::Malformed) => return PrereadStatus::Unreadable,
                Err(Gap::Incomplete) => {}
            }
        }
        PrereadStatus::Incomplete
    }
}

/// Why there is no hello.
enum Gap {
    Incomplete,
    Malformed,
}

/// The rest of a message, and how many bytes are left of it according to its header.
struct Cursor<'m> {
    rest: &'m [u8],
    left: usize,
}

impl<'m> Cursor<'m> {
    fn take(&mut self, count: usize) -> Result<&'m [u8], Gap> {
        self.left = self.left.checked_sub(count).ok_or(Gap::Malformed)?;
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Gap::Incomplete)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], Gap> {
        let taken = self.take(COUNT)?;
        taken.try_into().map_err(|_| Gap::Malformed)
    }

    fn u8(&mut self) -> Result<usize, Gap> {
        self.array().map(|[byte]| usize::from(byte))
    }

    fn u16(&mut self) -> Result<usize, Gap> {
        self.array()
            .map(|bytes| usize::from(u16::from_be_bytes(bytes)))
    }
}

fn parse(message: &[u8]) -> Result<PrereadHello, Gap> {
    let mut cursor = Cursor {
        rest: message,
        left: 4,
    };
    let [kind, lengths @ ..] = cursor.array::<4>()?;
    if kind != CLIENT_HELLO {
        return Err(Gap::Malformed);
    }
    let [high, middle, low] = lengths;
    cursor.left = u32::from_be_bytes([0, high, middle, low]) as usize;
    let mut hello = PrereadHello {
        version: cursor.array()?,
        ..PrereadHello::default()
    };
    cursor.take(32)?; // random
    let session_id = cursor.u8()?;
    cursor.take(session_id)?;
    let suites = cursor.u16()?;
    cursor.take(suites)?;
    let compressions = cursor.u8()?;
    cursor.take(compressions)?;
    if cursor.left == 0 {
        return Ok(hello);
    }
    cursor.take(2)?; // length of the extensions
    while cursor.left > 0 {
        let [first, second, high, low] = cursor.array()?;
        match [first, second] {
            SERVER_NAME if hello.server_name.is_none() => {
                hello.server_name = Some(server_name(&mut cursor)?);
            }
            ALPN if hello.alpn.is_none() => hello.alpn = Some(alpn(&mut cursor)?),
            SUPPORTED_VERSIONS => {
                // Nobody sends it without TLS 1.3.
                let versions = cursor.u8()?;
                hello.version = TLS_1_3;
                cursor.take(versions)?;
            }
            _ => {
                cursor.take(usize::from(u16::from_be_bytes([high, low])))?;
            }
        }
    }
    Ok(hello)
}

/// The first name of the list (RFC 6066 section 3).
fn server_name(cursor: &mut Cursor<'_>) -> Result<Box<[u8]>, Gap> {
    let list = cursor.u16()?;
    let [kind, high, low] = cursor.array()?;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if kind != 0 {
        return Err(Gap::Malformed);
    }
    let behind = list.checked_sub(3 + length).ok_or(Gap::Malformed)?;
    let name = cursor.take(length)?.into();
    cursor.take(behind)?;
    Ok(name)
}

/// The protocols (RFC 7301 section 3.1), separated by commas.
fn alpn(cursor: &mut Cursor<'_>) -> Result<Vec<u8>, Gap> {
    let mut list = cursor.u16()?;
    let mut names = Vec::new();
    loop {
        let length = cursor.u8()?;
        if length == 0 {
            return Err(Gap::Malformed);
        }
        list = list.checked_sub(1 + length).ok_or(Gap::Malformed)?;
        names.extend_from_slice(cursor.take(length)?);
        if list == 0 {
            return Ok(names);
        }
        names.push(b',');
    }
}

/// The entry point for fuzzing. Reads any bytes without panicking, and checks that it makes no
/// difference in which pieces they arrive, and that what is known stays.
pub fn fuzz_preread_hello(bytes: &[u8]) {
    let at_once = PrereadDecoder::default().decode(bytes);
    let mut decoder = PrereadDecoder::default();
    let mut known = PrereadStatus::Incomplete;
    for end in 0..=bytes.len() {
        let status = decoder.decode(&bytes[..end]);
        if known != PrereadStatus::Incomplete {
            assert_eq!(status, known, "after {end} bytes");
        }
        known = status;
    }
    assert_eq!(known, at_once, "in pieces");
    if let PrereadStatus::Complete(hello) = known {
        assert!(hello.server_name().len() + hello.alpn().len() < bytes.len());
        let _ = hello.protocol();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hello with these extensions.
    fn message(extensions: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend_from_slice(&[7; 32]);
        body.extend_from_slice(&[0, 0, 2, 0x13, 0x01, 1, 0]);
        let mut list = Vec::new();
        for (kind, data) in extensions {
            list.extend_from_slice(&kind.to_be_bytes());
            list.extend_from_slice(&(data.len() as u16).to_be_bytes());
            list.extend_from_slice(data);
        }
        body.extend_from_slice(&(list.len() as u16).to_be_bytes());
        body.extend_from_slice(&list);
        let length = (body.len() as u32).to_be_bytes();
        [&[1][..], &length[1..], &body].concat()
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for fragment in message.chunks(size) {
            out.extend_from_slice(&[22, 3, 1]);
            out.extend_from_slice(&(fragment.len() as u16).to_be_bytes());
            out.extend_from_slice(fragment);
        }
        out
    }

    fn name(text: &[u8]) -> Vec<u8> {
        let list = (text.len() as u16 + 3).to_be_bytes();
        let length = (text.len() as u16).to_be_bytes();
        [&list[..], &[0], &length, text].concat()
    }

    fn whole(bytes: &[u8]) -> PrereadStatus {
        PrereadDecoder::default().decode(bytes)
    }

    const GREASE: u16 = 0x1a1a;

    #[test]
    fn name_version_and_protocols_are_read_however_the_hello_is_cut() {
        let message = message(&[
            (GREASE, b""),
            (0, &name(b"Db.Example")),
            (16, b"\0\x0c\x02h2\x08http/1.1"),
            (0xfe0d, &[0; 200]),
            (43, b"\x04\x1a\x1a\x03\x04"),
        ]);
        for size in [1, 2, 7, 100, 1 << 14] {
            let bytes = records(&message, size);
            let mut decoder = PrereadDecoder::default();
            for end in 0..bytes.len() {
                assert_eq!(decoder.decode(&bytes[..end]), PrereadStatus::Incomplete);
            }
            let PrereadStatus::Complete(hello) = decoder.decode(&bytes) else {
                panic!("it is complete");
            };
            assert_eq!(hello.server_name(), b"Db.Example");
            assert_eq!(hello.alpn(), b"h2,http/1.1");
            assert_eq!(hello.protocol(), "TLSv1.3");
        }
    }

    #[test]
    fn a_hello_may_say_nothing() {
        let PrereadStatus::Complete(hello) = whole(&records(&message(&[]), 1 << 14)) else {
            panic!("it is complete");
        };
        assert_eq!((hello.server_name(), hello.alpn()), (&b""[..], &b""[..]));
        assert_eq!(hello.protocol(), "TLSv1.2");
        let version_2 = [0x80, 46, 1, 3, 1, 0, 9];
        let PrereadStatus::Complete(hello) = whole(&version_2) else {
            panic!("it is complete");
        };
        assert_eq!(hello.protocol(), "TLSv1");
    }

    #[test]
    fn what_is_no_hello_stays_unreadable() {
        let long_name = [&[0, 9, 0, 0, 9][..], b"abc"].concat();
        let wrong = [
            b"GET / HTTP/1.1\r\n".to_vec(),
            vec![22, 2, 0, 0, 1, 1],
            records(&[2, 0, 0, 0], 4),
            records(&message(&[(0, &[0, 4, 1, 0, 1, 7])]), 1 << 14),
            records(&message(&[(0, &long_name)]), 1 << 14),
            records(&message(&[(16, b"\0\x02\0\0")]), 1 << 14),
            records(&message(&[(16, b"\0\x02\x05ab")]), 1 << 14),
        ];
        for bytes in wrong {
            let mut decoder = PrereadDecoder::default();
            assert_eq!(
                decoder.decode(&bytes),
                PrereadStatus::Unreadable,
                "{bytes:?}"
            );
            // Whatever follows.
            let good = records(&message(&[]), 1 << 14);
            assert_eq!(decoder.decode(&good), PrereadStatus::Unreadable);
        }
    }
}
