//! The ClientHello (RFC 8446 section 4.1.2), read in place.
//!
//! Only what is needed to choose a server and a certificate is parsed. libssl reads the same bytes
//! afterwards and is the one to judge them. So anything odd is [`Parsed::Unusable`] here, never an
//! error: libssl answers with the right alert.

use std::borrow::Cow;

use crate::groups::openssl_name;
use crate::info::join;
use crate::ja4::{self, Transport};
use crate::signatures;

/// The longest possible ClientHello, without its header: every list at the maximum that its length
/// field allows. OpenSSL's limit is the same.
pub(crate) const MAX_HELLO_BYTES: usize =
    2 + 32 + (1 + 32) + (2 + 65_534) + (1 + 255) + (2 + 65_535);
/// The size that libssl accepts from any client. A larger hello needs one of the slots for large
/// hellos ([`HelloRecords`](crate::hello_records::HelloRecords)).
pub(crate) const USUAL_HELLO_BYTES: usize = 16 * 1024;

pub(crate) const RECORD_HEADER_BYTES: usize = 5;
pub(crate) const MESSAGE_HEADER_BYTES: usize = 4;
const HANDSHAKE_RECORD: u8 = 22;
/// The longest plaintext of a record (RFC 8446 section 5.1).
pub(crate) const MAX_FRAGMENT_BYTES: usize = 16_384;
const CLIENT_HELLO: u8 = 1;

pub(crate) const EXTENSION_SERVER_NAME: u16 = 0;
const EXTENSION_STATUS_REQUEST: u16 = 5;
const EXTENSION_SUPPORTED_GROUPS: u16 = 10;
/// The only kind of status there is (RFC 6066 section 8).
const STATUS_OCSP: u8 = 1;
const EXTENSION_SIGNATURE_ALGORITHMS: u16 = 13;
pub(crate) const EXTENSION_ALPN: u16 = 16;
pub(crate) const EXTENSION_QUIC_PARAMETERS: u16 = 57;
const EXTENSION_SESSION_TICKET: u16 = 35;
const EXTENSION_PRE_SHARED_KEY: u16 = 41;
const EXTENSION_EARLY_DATA: u16 = 42;
const EXTENSION_SUPPORTED_VERSIONS: u16 = 43;
const EXTENSION_ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;

/// What bytes from a new connection are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed<'a> {
    /// At least this many bytes more are needed.
    Incomplete(usize),
    /// Not a ClientHello as this module reads it.
    Unusable,
    /// The complete message; possibly joined from several records.
    Complete(Cow<'a, [u8]>),
}

/// Collects the handshake message at the start of `bytes`.
pub(crate) fn collect(bytes: &[u8]) -> Parsed<'_> {
    let mut message: Option<Cow<'_, [u8]>> = None;
    let mut rest = bytes;
    loop {
        let Some((header, body)) = rest.split_at_checked(RECORD_HEADER_BYTES) else {
            if rest.first().is_some_and(|byte| *byte != HANDSHAKE_RECORD) {
                return Parsed::Unusable;
            }
            return Parsed::Incomplete(RECORD_HEADER_BYTES - rest.len());
        };
        let Some(length) = fragment_length(header) else {
            return Parsed::Unusable;
        };
        let Some((fragment, after)) = body.split_at_checked(length) else {
            return Parsed::Incomplete(length - body.len());
        };
        rest = after;
        let joined = match message {
            None => Cow::Borrowed(fragment),
            Some(start) => {
                let mut joined = start.into_owned();
                joined.extend_from_slice(fragment);
                Cow::Owned(joined)
            }
        };
        match message_length(&joined) {
            Some(_) if joined[0] != CLIENT_HELLO => return Parsed::Unusable,
            Some(length) if length <= joined.len() => return Parsed::Complete(joined),
            Some(length) if length > MESSAGE_HEADER_BYTES + MAX_HELLO_BYTES => {
                return Parsed::Unusable;
            }
            _ => message = Some(joined),
        }
    }
}

/// How many bytes of a ClientHello follow a record's header; `None` if it cannot be a ClientHello.
pub(crate) fn fragment_length(header: &[u8]) -> Option<usize> {
    let &[kind, major, _, high, low] = header else {
        return None;
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    let is_one =
        kind == HANDSHAKE_RECORD && major == 3 && (1..=MAX_FRAGMENT_BYTES).contains(&length);
    is_one.then_some(length)
}

/// How many bytes the records of a complete hello take at the start of `bytes`.
pub(crate) fn records_length(bytes: &[u8]) -> usize {
    let (mut at, mut collected, mut expected) = (0, Vec::new(), None);
    while expected.is_none_or(|expected| collected.len() < expected) {
        let Some(header) = bytes.get(at..at + RECORD_HEADER_BYTES) else {
            break;
        };
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        at += RECORD_HEADER_BYTES;
        let fragment = bytes.get(at..at + length).unwrap_or(&[]);
        collected.extend_from_slice(fragment);
        expected = message_length(&collected);
        at += length;
    }
    at
}

/// The length, including the header, of the message that begins with these bytes.
pub(crate) fn message_length(message: &[u8]) -> Option<usize> {
    let header = message.get(..MESSAGE_HEADER_BYTES)?;
    let length = u32::from_be_bytes([0, header[1], header[2], header[3]]);
    Some(MESSAGE_HEADER_BYTES + length as usize)
}

/// The fields that matter, borrowed from the message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClientHello<'a> {
    legacy_version: u16,
    /// Suites in the client's order, two bytes each.
    cipher_suites: &'a [u8],
    server_name: Option<&'a [u8]>,
    groups: Option<&'a [u8]>,
    signature_algorithms: Option<&'a [u8]>,
    supported_versions: Option<&'a [u8]>,
    session_id: &'a [u8],
    session_ticket: Option<&'a [u8]>,
    /// All of them, as they came.
    extensions: &'a [u8],
    offers_session: bool,
    offers_early_data: bool,
    asks_for_staple: bool,
    psk: Option<Psk<'a>>,
    ech: Option<EchOffer>,
}

/// An encrypted hello (RFC 9849 section 5), as far as it concerns who may open it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EchOffer {
    /// There is a hello inside, for the key with this id, or something that looks like one.
    Outer { config_id: u8 },
    /// It is the hello from inside.
    Inner,
}

impl EchOffer {
    /// Reads the extension; `None` when it is not well formed.
    fn parse(data: &[u8]) -> Option<Self> {
        match data.split_first()? {
            (0, rest) => {
                // Behind the two algorithms.
                let config_id = *rest.get(4)?;
                Some(Self::Outer { config_id })
            }
            (1, _) => Some(Self::Inner),
            _ => None,
        }
    }
}

/// The first pre-shared key offered (RFC 8446 section 4.2.11), which is the only
/// one that libssl looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Psk<'a> {
    pub(crate) ticket: &'a [u8],
    pub(crate) binder: &'a [u8],
    /// Where in the message the list of binders begins; the binder covers everything before it.
    pub(crate) binders_at: usize,
}

impl<'a> Psk<'a> {
    /// Reads the extension, which must be the last of the message.
    fn parse(data: &'a [u8], message: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(data);
        let mut identities = Reader(reader.prefixed16()?);
        let ticket = identities.prefixed16()?;
        identities.take(4)?; // obfuscated age
        let binders_at = message.len().checked_sub(reader.0.len())?;
        let mut binders = Reader(reader.prefixed16()?);
        let binder = binders.prefixed8()?;
        reader.0.is_empty().then_some(Self {
            ticket,
            binder,
            binders_at,
        })
    }
}

/// What is remembered of a ClientHello for `$ssl_curves`, `$ssl_sigalgs` and `$ssl_ja4`, if one of
/// them is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientOffer {
    /// Groups of the key exchange, by number.
    pub(crate) groups: Box<[u16]>,
    /// Signature schemes that the client accepts, by number.
    pub(crate) schemes: Box<[u16]>,
    /// `$ssl_ja4`.
    pub(crate) ja4: Box<str>,
}

impl ClientOffer {
    /// The groups in the notation of `$ssl_curves`.
    pub(crate) fn curves(&self) -> String {
        join(self.groups.iter().copied(), openssl_name)
    }

    /// The schemes in the notation of `$ssl_sigalgs`.
    pub(crate) fn sigalgs(&self) -> String {
        join(self.schemes.iter().copied(), signatures::openssl_name)
    }
}

impl<'a> ClientHello<'a> {
    /// Reads a whole message; `None` when it is not well formed.
    pub(crate) fn parse(message: &'a [u8]) -> Option<Self> {
        let message = message.get(..message_length(message)?)?;
        let mut body = Reader(&message[MESSAGE_HEADER_BYTES..]);
        let mut hello = Self {
            legacy_version: body.u16()?,
            ..Self::default()
        };
        body.take(32)?; // random
        hello.session_id = body.prefixed8()?;
        hello.cipher_suites = body.prefixed16()?;
        body.prefixed8()?; // compression methods
        if body.0.is_empty() {
            return Some(hello);
        }
        let mut extensions = Reader(body.prefixed16()?);
        hello.extensions = extensions.0;
        while !extensions.0.is_empty() {
            let kind = extensions.u16()?;
            let mut data = Reader(extensions.prefixed16()?);
            match kind {
                EXTENSION_SERVER_NAME => hello.server_name = host_name(data.prefixed16()?),
                EXTENSION_SUPPORTED_GROUPS => hello.groups = Some(data.prefixed16()?),
                EXTENSION_SIGNATURE_ALGORITHMS => {
                    hello.signature_algorithms = Some(data.prefixed16()?)
                }
                EXTENSION_SESSION_TICKET => hello.session_ticket = Some(data.0),
                EXTENSION_PRE_SHARED_KEY => {
                    hello.offers_session = true;
                    let is_last = extensions.0.is_empty();
                    hello.psk = Psk::parse(data.0, message).filter(|_| is_last);
                }
                EXTENSION_STATUS_REQUEST => {
                    hello.asks_for_staple = data.0.first() == Some(&STATUS_OCSP)
                }
                EXTENSION_ENCRYPTED_CLIENT_HELLO => hello.ech = EchOffer::parse(data.0),
                EXTENSION_EARLY_DATA => hello.offers_early_data = true,
                EXTENSION_SUPPORTED_VERSIONS => hello.supported_versions = Some(data.prefixed8()?),
                _ => {}
            }
        }
        Some(hello)
    }

    /// Whether it asks for an OCSP response (RFC 6066 section 8).
    pub(crate) fn asks_for_staple(&self) -> bool {
        self.asks_for_staple
    }

    /// The suites offered, most preferred first.
    pub(crate) fn suites(&self) -> impl Iterator<Item = u16> + use<'a> {
        numbers(self.cipher_suites)
    }

    /// What variables show of it.
    pub(crate) fn offer(&self, transport: Transport) -> ClientOffer {
        ClientOffer {
            groups: self.groups().into_iter().flatten().collect(),
            schemes: self.signature_schemes().into_iter().flatten().collect(),
            ja4: ja4::fingerprint(self, transport).into(),
        }
    }

    /// The versions offered, by their numbers.
    pub(crate) fn versions(&self) -> impl Iterator<Item = u16> + use<'a> {
        let legacy = self.supported_versions.is_none();
        let listed = numbers(self.supported_versions.unwrap_or_default());
        listed.chain(legacy.then_some(self.legacy_version))
    }

    /// Whether this is the one application protocol that the client offers.
    pub(crate) fn offers_only(&self, protocol: &[u8]) -> bool {
        let mut extensions = self.extensions();
        let alpn = extensions.find(|(kind, _)| *kind == EXTENSION_ALPN);
        // A list behind its length, of names each behind its own.
        let Some((_, [_, _, length, name @ ..])) = alpn else {
            return false;
        };
        usize::from(*length) == name.len() && name == protocol
    }

    /// Kinds and contents of the extensions, in the client's order.
    pub(crate) fn extensions(&self) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
        let mut rest = Reader(self.extensions);
        std::iter::from_fn(move || Some((rest.u16()?, rest.prefixed16()?)))
    }

    /// The groups offered; `None` without the extension.
    pub(crate) fn groups(&self) -> Option<impl Iterator<Item = u16> + use<'a>> {
        self.groups.map(numbers)
    }

    /// The signature schemes accepted; `None` without the extension.
    pub(crate) fn signature_schemes(&self) -> Option<impl Iterator<Item = u16> + use<'a>> {
        self.signature_algorithms.map(numbers)
    }

    /// Whether a TLS 1.3 session is offered for resumption (RFC 8446 section 4.2.11).
    pub(crate) fn offers_session(&self) -> bool {
        self.offers_session
    }

    /// That session, if it is well formed.
    pub(crate) fn psk(&self) -> Option<Psk<'a>> {
        self.psk
    }

    /// Whether early data follows (RFC 8446 section 4.2.10).
    pub(crate) fn offers_early_data(&self) -> bool {
        self.offers_early_data
    }

    /// The server name as it was sent.
    pub(crate) fn raw_server_name(&self) -> &'a [u8] {
        self.server_name.unwrap_or_default()
    }

    /// Whether there is an encrypted hello inside.
    pub(crate) fn ech(&self) -> Option<EchOffer> {
        self.ech
    }

    /// The session id of TLS 1.2 and below; in TLS 1.3 it means nothing.
    pub(crate) fn session_id(&self) -> &'a [u8] {
        self.session_id
    }

    /// The ticket of TLS 1.2 and below (RFC 5077), empty to ask for one; `None`
    /// without the extension.
    pub(crate) fn session_ticket(&self) -> Option<&'a [u8]> {
        self.session_ticket
    }

    /// Whether it is from SSL 3.0 or older, whatever else it offers (RFC 8446 appendix D.5).
    pub(crate) fn is_obsolete(&self) -> bool {
        self.legacy_version <= 0x0300
    }

    /// Whether a version (its number on the wire) is offered.
    pub(crate) fn offers_version(&self, wire: u16) -> bool {
        match self.supported_versions {
            Some(list) => numbers(list).any(|version| version == wire),
            // Before TLS 1.3 the highest version includes all below it.
            None => wire <= self.legacy_version.min(0x0303),
        }
    }

    /// The server name: lower case, without a dot at the end. `None` without the extension, and for
    /// anything that cannot be a host name. Like nginx, the default server is used then.
    pub(crate) fn server_name(&self) -> Option<String> {
        normal_name(self.server_name?)
    }

    /// The server name as the client sent it, if it is one that can be part of a path: it leads
    /// nowhere else.
    pub(crate) fn server_name_sent(&self) -> Option<&'a str> {
        let name = self.server_name?;
        let leads_up = name.windows(2).any(|pair| pair == b"..");
        normal_name(name).filter(|_| !leads_up)?;
        std::str::from_utf8(name).ok()
    }
}

/// A server name normalised for lookup: see [`ClientHello::server_name`].
pub(crate) fn normal_name(name: &[u8]) -> Option<String> {
    let name = name.strip_suffix(b".").unwrap_or(name);
    let fits =
        |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b'\\' | b'?' | b'#' | b'@');
    if name.is_empty() || name.len() > 255 || !name.iter().all(fits) {
        return None;
    }
    Some(
        name.iter()
            .map(|byte| char::from(byte.to_ascii_lowercase()))
            .collect(),
    )
}

/// The first host name of a server_name list (RFC 6066 section 3).
fn host_name(list: &[u8]) -> Option<&[u8]> {
    let mut list = Reader(list);
    let kind = list.take(1)?;
    let name = list.prefixed16()?;
    (kind == [0]).then_some(name)
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u16> + use<'_> {
    bytes
        .chunks_exact(2)
        .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        let bytes = self.take(2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn prefixed8(&mut self) -> Option<&'a [u8]> {
        let length = self.take(1)?[0];
        self.take(usize::from(length))
    }

    fn prefixed16(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(usize::from(length))
    }
}

/// The entry point for fuzzing. Reads any bytes without panicking, and checks that bytes delivered
/// as requested give the same result as all at once.
pub fn fuzz_client_hello(bytes: &[u8]) {
    let at_once = collect(bytes);
    assert_eq!(collect_as_asked(bytes), at_once, "in pieces");
    let Parsed::Complete(message) = at_once else {
        return;
    };
    let length = records_length(bytes);
    assert_eq!(collect(&bytes[..length]), Parsed::Complete(message.clone()));
    assert!(
        matches!(collect(&bytes[..length - 1]), Parsed::Incomplete(_)),
        "the hello takes no byte less"
    );
    if let Some(hello) = ClientHello::parse(&message) {
        if let Some(name) = hello.server_name() {
            assert!(!name.is_empty() && name.len() <= 255 && name.is_ascii());
        }
        let _ = (hello.suites().count(), hello.offers_version(0x0304));
        if let Some(psk) = hello.psk() {
            assert!(psk.binders_at < message.len());
            assert!(hello.offers_session());
        }
        let _ = hello.groups().map(Iterator::count);
        let _ = hello.signature_schemes().map(Iterator::count);
    }
}

/// Reads on as a connection does: as many bytes more as are said to be missing.
fn collect_as_asked(bytes: &[u8]) -> Parsed<'_> {
    let mut available = 0;
    loop {
        match collect(&bytes[..available]) {
            Parsed::Incomplete(missing) if available < bytes.len() => {
                assert!(missing > 0, "progress needs bytes");
                available = (available + missing).min(bytes.len());
            }
            parsed => return parsed,
        }
    }
}
