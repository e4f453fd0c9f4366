//! Well-known header names as small numbers.
//!
//! A name is compared once, when its line is parsed; everything after that compares a byte.

/// Declares the enum, its canonical spellings and the array of all values from one list, so
/// that they cannot drift apart.
macro_rules! known_headers {
    ($($variant:ident $name:literal),* $(,)?) => {
        /// A header name that has a meaning to the server or a proxied protocol.
        ///
        /// At most 128 of them, so that "which of these were sent" is a small set of bits
        /// ([`KnownSet`]).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)] // each variant is its header's name
        pub enum KnownHeader { $($variant),* }

        impl KnownHeader {
            /// Every value, in declaration order.
            pub const ALL: [KnownHeader; known_headers!(@count $($variant)*)] =
                [$(KnownHeader::$variant),*];

            /// The customary spelling.
            pub const fn name(self) -> &'static str {
                NAMES[self as usize]
            }
        }

        const NAMES: [&str; KnownHeader::ALL.len()] = [$($name),*];
    };
    (@count $($variant:ident)*) => { [$(known_headers!(@unit $variant)),*].len() };
    (@unit $variant:ident) => { () };
}

known_headers! {
    // Sent in requests.
    Host "Host",
    Connection "Connection",
    ContentLength "Content-Length",
    TransferEncoding "Transfer-Encoding",
    Te "TE",
    Trailer "Trailer",
    Expect "Expect",
    Upgrade "Upgrade",
    KeepAlive "Keep-Alive",
    ProxyConnection "Proxy-Connection",
    Http2Settings "HTTP2-Settings",
    UserAgent "User-Agent",
    Accept "Accept",
    AcceptEncoding "Accept-Encoding",
    AcceptLanguage "Accept-Language",
    AcceptCharset "Accept-Charset",
    Authorization "Authorization",
    ProxyAuthorization "Proxy-Authorization",
    Cookie "Cookie",
    Referer "Referer",
    Origin "Origin",
    Range "Range",
    IfRange "If-Range",
    IfMatch "If-Match",
    IfNoneMatch "If-None-Match",
    IfModifiedSince "If-Modified-Since",
    IfUnmodifiedSince "If-Unmodified-Since",
    Via "Via",
    Forwarded "Forwarded",
    XForwardedFor "X-Forwarded-For",
    XForwardedProto "X-Forwarded-Proto",
    XRealIp "X-Real-IP",
    Depth "Depth",
    Destination "Destination",
    Overwrite "Overwrite",
    Priority "Priority",
    EarlyData "Early-Data",
    // Sent in responses, or in both.
    Date "Date",
    CacheControl "Cache-Control",
    Pragma "Pragma",
    ContentType "Content-Type",
    ContentEncoding "Content-Encoding",
    ContentRange "Content-Range",
    ContentDisposition "Content-Disposition",
    Server "Server",
    LastModified "Last-Modified",
    Location "Location",
    Etag "ETag",
    AcceptRanges "Accept-Ranges",
    Expires "Expires",
    Age "Age",
    Vary "Vary",
    Allow "Allow",
    SetCookie "Set-Cookie",
    WwwAuthenticate "WWW-Authenticate",
    Link "Link",
    RetryAfter "Retry-After",
    Refresh "Refresh",
    AltSvc "Alt-Svc",
    StrictTransportSecurity "Strict-Transport-Security",
    ProxyAuthenticate "Proxy-Authenticate",
    // Sent by an origin to the server in front of it.
    Status "Status",
    XAccelRedirect "X-Accel-Redirect",
    XAccelExpires "X-Accel-Expires",
    XAccelLimitRate "X-Accel-Limit-Rate",
    XAccelBuffering "X-Accel-Buffering",
    XAccelCharset "X-Accel-Charset",
}

impl KnownHeader {
    /// The number of a name, whatever its case; `None` for every other name.
    ///
    /// Costs one table look-up and, when the slot is taken, one comparison.
    pub fn from_name(name: &[u8]) -> Option<KnownHeader> {
        let (&first, &last) = (name.first()?, name.last()?);
        let index = SLOTS[slot(name.len(), first, last, name[name.len() / 2])];
        let known = *KnownHeader::ALL.get(index as usize)?;
        let lower = LOWER_NAMES[index as usize].get(..name.len())?;
        (known.name().len() == name.len() && is_in_any_case(name, lower)).then_some(known)
    }
}

const _: () = assert!(KnownHeader::ALL.len() <= 128);

/// Which well-known headers a message carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownSet(u128);

impl KnownSet {
    /// Whether the header is among them.
    pub const fn contains(self, name: KnownHeader) -> bool {
        self.0 >> name as u8 & 1 != 0
    }

    /// Adds a header.
    pub const fn insert(&mut self, name: KnownHeader) {
        self.0 |= 1 << name as u8;
    }

    /// Takes a header out.
    pub(crate) const fn remove(&mut self, name: KnownHeader) {
        self.0 &= !(1 << name as u8);
    }
}

/// Whether `name` equals `lower` in any case. `lower` consists of lower-case letters, digits and
/// hyphens. Among these bit 6 marks the letters, and only letters may differ, in bit 5.
fn is_in_any_case(name: &[u8], lower: &[u8]) -> bool {
    let (name_words, name_rest) = name.as_chunks::<8>();
    let (lower_words, lower_rest) = lower.as_chunks::<8>();
    let mut difference = 0;
    for (&name, &lower) in name_words.iter().zip(lower_words) {
        let (name, lower) = (u64::from_ne_bytes(name), u64::from_ne_bytes(lower));
        let case_bits = (lower & 0x4040_4040_4040_4040) >> 1;
        difference |= (name ^ lower) & !case_bits;
    }
    for (&name, &lower) in name_rest.iter().zip(lower_rest) {
        difference |= u64::from((name ^ lower) & !((lower & 0x40) >> 1));
    }
    difference == 0 && name.len() == lower.len()
}

impl KnownHeader {
    /// The name in lower case.
    pub(crate) fn lower_name(self) -> &'static [u8] {
        &LOWER_NAMES[self as usize][..self.name().len()]
    }
}

/// Room for the longest name.
const MAX_NAME_BYTES: usize = 32;

/// The names in lower case, padded with zeros.
static LOWER_NAMES: [[u8; MAX_NAME_BYTES]; NAMES.len()] = lower_names();

const fn lower_names() -> [[u8; MAX_NAME_BYTES]; NAMES.len()] {
    let mut lower = [[0; MAX_NAME_BYTES]; NAMES.len()];
    let mut index = 0;
    while index < NAMES.len() {
        let name = NAMES[index].as_bytes();
        let mut at = 0;
        while at < name.len() {
            assert!(name[at].is_ascii_alphanumeric() || name[at] == b'-');
            lower[index][at] = name[at].to_ascii_lowercase();
            at += 1;
        }
        index += 1;
    }
    lower
}

/// Marks a slot without a name.
const EMPTY: u8 = u8::MAX;
const SLOT_COUNT: usize = 256;

/// The slot of every name; built at compile time, where two names in one slot are an error.
static SLOTS: [u8; SLOT_COUNT] = build_slots();

/// Hash of a name: its length and three of its letters, with case folded by setting bit 5 (which
/// also folds a few other characters together; the comparison tells them apart).
const fn slot(len: usize, first: u8, last: u8, middle: u8) -> usize {
    let first = (first | 0x20) as usize;
    let last = (last | 0x20) as usize;
    let middle = (middle | 0x20) as usize;
    (len * LEN_FACTOR + first * FIRST_FACTOR + last * LAST_FACTOR + middle) % SLOT_COUNT
}

// Found by trying small numbers until no two names collided. A new name that collides fails the
// build and requires another search.
const LEN_FACTOR: usize = 1;
const FIRST_FACTOR: usize = 92;
const LAST_FACTOR: usize = 113;

const fn build_slots() -> [u8; SLOT_COUNT] {
    let mut slots = [EMPTY; SLOT_COUNT];
    let mut index = 0;
    while index < NAMES.len() {
        let name = NAMES[index].as_bytes();
        let at = slot(
            name.len(),
            name[0],
            name[name.len() - 1],
            name[name.len() / 2],
        );
        assert!(
            slots[at] == EMPTY,
            "two header names share a slot: choose other factors"
        );
        slots[at] = index as u8;
        index += 1;
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_in_any_case() {
        for known in KnownHeader::ALL {
            let name = known.name();
            assert_eq!(KnownHeader::from_name(name.as_bytes()), Some(known));
            let upper = name.to_ascii_uppercase();
            assert_eq!(KnownHeader::from_name(upper.as_bytes()), Some(known));
            let lower = name.to_ascii_lowercase();
            assert_eq!(KnownHeader::from_name(lower.as_bytes()), Some(known));
        }
    }

    #[test]
    fn near_misses_are_not_found() {
        for name in [
            "",
            "H",
            "Hos",
            "Hostt",
            "Content_Length",
            "Content-Lengths",
            "X-Foo",
        ] {
            assert_eq!(KnownHeader::from_name(name.as_bytes()), None, "{name:?}");
        }
        // The slot's hash folds '-' with CR and '@' with '`'; the comparison must not.
        for name in [
            "Content\rLength",
            "Content-\u{c}ength",
            "Content-Lengt@",
            "content-lengt\u{8}",
        ] {
            assert_eq!(KnownHeader::from_name(name.as_bytes()), None, "{name:?}");
        }
    }

    #[test]
    fn one_changed_byte_is_not_found() {
        for known in KnownHeader::ALL {
            for at in 0..known.name().len() {
                for bit in (0..8).filter(|&bit| bit != 5) {
                    let mut name = known.name().as_bytes().to_vec();
                    name[at] ^= 1 << bit;
                    assert_ne!(KnownHeader::from_name(&name), Some(known), "{known:?} {at}");
                }
                let mut name = known.name().as_bytes().to_vec();
                name[at] ^= 1 << 5;
                let is_letter = known.name().as_bytes()[at].is_ascii_alphabetic();
                assert_eq!(KnownHeader::from_name(&name) == Some(known), is_letter);
            }
        }
    }
}
