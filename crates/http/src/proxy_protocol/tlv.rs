//! TLVs of version 2 headers: type, length, value; and nginx's names for them
//! (`$proxy_protocol_tlv_NAME`).

use std::borrow::Cow;
use std::fmt;

/// Types of TLVs (specification, section 2.2).
#[allow(missing_docs)] // the names are the specification's
pub mod tlv_type {
    pub const ALPN: u8 = 0x01;
    pub const AUTHORITY: u8 = 0x02;
    pub const CRC32C: u8 = 0x03;
    pub const NOOP: u8 = 0x04;
    pub const UNIQUE_ID: u8 = 0x05;
    pub const SSL: u8 = 0x20;
    pub const SSL_VERSION: u8 = 0x21;
    pub const SSL_CN: u8 = 0x22;
    pub const SSL_CIPHER: u8 = 0x23;
    pub const SSL_SIG_ALG: u8 = 0x24;
    pub const SSL_KEY_ALG: u8 = 0x25;
    pub const NETNS: u8 = 0x30;
}

/// One TLV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// Its type, see [`tlv_type`].
    pub kind: u8,
    /// Its value.
    pub value: &'a [u8],
}

/// A TLV is longer than the header (nginx: `broken PROXY protocol TLV`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenTlv;

impl fmt::Display for BrokenTlv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broken PROXY protocol TLV")
    }
}

impl std::error::Error for BrokenTlv {}

/// The TLVs of a header, or those inside its `SSL` TLV, in order. Ends after the first broken one.
#[derive(Clone, Copy, Debug)]
pub struct Tlvs<'a> {
    rest: &'a [u8],
}

impl<'a> Tlvs<'a> {
    /// The TLVs in these bytes.
    pub fn new(bytes: &'a [u8]) -> Tlvs<'a> {
        Tlvs { rest: bytes }
    }

    /// The value of the first TLV of a type. Those after it are not examined.
    ///
    /// # Errors
    /// [`BrokenTlv`] when one before it is broken.
    pub fn find(self, kind: u8) -> Result<Option<&'a [u8]>, BrokenTlv> {
        for tlv in self {
            let tlv = tlv?;
            if tlv.kind == kind {
                return Ok(Some(tlv.value));
            }
        }
        Ok(None)
    }

    /// The value of `$proxy_protocol_tlv_NAME`; `None` if it was not sent.
    ///
    /// # Errors
    /// [`BrokenTlv`].
    pub fn value(self, name: TlvName) -> Result<Option<Cow<'a, [u8]>>, BrokenTlv> {
        let kind = match name {
            TlvName::Plain(kind) => return Ok(self.find(kind)?.map(Cow::Borrowed)),
            TlvName::Ssl(kind) => Some(kind),
            TlvName::SslVerify => None,
        };
        let Some(ssl) = self.find(tlv_type::SSL)? else {
            return Ok(None);
        };
        let ssl = SslTlv::parse(ssl)?;
        match kind {
            Some(kind) => Ok(ssl.tlvs.find(kind)?.map(Cow::Borrowed)),
            None => Ok(Some(Cow::Owned(ssl.verify.to_string().into_bytes()))),
        }
    }
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Result<Tlv<'a>, BrokenTlv>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let whole = std::mem::take(&mut self.rest);
        let Some((&[kind, high, low], rest)) = whole.split_first_chunk::<3>() else {
            return Some(Err(BrokenTlv));
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let Some((value, rest)) = rest.split_at_checked(length) else {
            return Some(Err(BrokenTlv));
        };
        self.rest = rest;
        Some(Ok(Tlv { kind, value }))
    }
}

/// The contents of the `SSL` TLV.
#[derive(Clone, Copy, Debug)]
pub struct SslTlv<'a> {
    /// How the client connected: over TLS, with a certificate on this connection, with one in this
    /// session.
    pub client: u8,
    /// 0 if the client's certificate was verified.
    pub verify: u32,
    /// The nested TLVs.
    pub tlvs: Tlvs<'a>,
}

impl<'a> SslTlv<'a> {
    /// Parses the TLV's value.
    ///
    /// # Errors
    /// [`BrokenTlv`] when it is too short.
    pub fn parse(value: &'a [u8]) -> Result<SslTlv<'a>, BrokenTlv> {
        let (&[client, verify @ ..], rest) = value.split_first_chunk::<5>().ok_or(BrokenTlv)?;
        Ok(SslTlv {
            client,
            verify: u32::from_be_bytes(verify),
            tlvs: Tlvs::new(rest),
        })
    }
}

/// Flags of [`SslTlv::client`].
pub mod ssl_client {
    /// The client is connected over TLS.
    pub const SSL: u8 = 1;
    /// It has shown a certificate on this connection.
    pub const CERT_CONN: u8 = 2;
    /// It has shown one in this session.
    pub const CERT_SESS: u8 = 4;
}

/// The contents of an `SSL` TLV that is being written.
#[derive(Clone, Debug)]
pub struct SslTlvBuilder(Vec<u8>);

impl SslTlvBuilder {
    /// Flags of [`ssl_client`], and 0 if the client's certificate was verified.
    pub fn new(client: u8, verify: u32) -> SslTlvBuilder {
        let mut value = vec![client];
        value.extend_from_slice(&verify.to_be_bytes());
        SslTlvBuilder(value)
    }

    /// Adds a nested TLV. One that is longer than a TLV can be is left out.
    pub fn push(&mut self, kind: u8, value: &[u8]) {
        if let Ok(length) = u16::try_from(value.len()) {
            self.0.push(kind);
            self.0.extend_from_slice(&length.to_be_bytes());
            self.0.extend_from_slice(value);
        }
    }

    /// The value of the TLV.
    pub fn value(&self) -> &[u8] {
        &self.0
    }
}

/// Which TLV a variable `$proxy_protocol_tlv_NAME` refers to. Determined once, from the
/// configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlvName {
    /// One of the header's own.
    Plain(u8),
    /// One inside `SSL`.
    Ssl(u8),
    /// `ssl_verify`: the result of the verification, in decimal.
    SslVerify,
}

/// Not the name of a TLV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownTlvName {
    /// The name.
    pub name: String,
}

impl fmt::Display for UnknownTlvName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown PROXY protocol TLV \"{}\"", self.name)
    }
}

impl std::error::Error for UnknownTlvName {}

impl TlvName {
    /// Parses a name: `alpn`, `authority`, `unique_id`, `ssl`, `netns`, `ssl_verify`,
    /// `ssl_version`, `ssl_cn`, `ssl_cipher`, `ssl_sig_alg`, `ssl_key_alg`, or a type by number:
    /// `0x20`, `ssl_0x21`.
    ///
    /// # Errors
    /// [`UnknownTlvName`], which nginx detects only when the variable is used.
    pub fn parse(name: &str) -> Result<TlvName, UnknownTlvName> {
        let unknown = || UnknownTlvName {
            name: name.to_owned(),
        };
        if let Some(inner) = name.strip_prefix("ssl_") {
            return Ok(match inner {
                "verify" => TlvName::SslVerify,
                "version" => TlvName::Ssl(tlv_type::SSL_VERSION),
                "cn" => TlvName::Ssl(tlv_type::SSL_CN),
                "cipher" => TlvName::Ssl(tlv_type::SSL_CIPHER),
                "sig_alg" => TlvName::Ssl(tlv_type::SSL_SIG_ALG),
                "key_alg" => TlvName::Ssl(tlv_type::SSL_KEY_ALG),
                _ => TlvName::Ssl(number(inner).ok_or_else(unknown)?),
            });
        }
        Ok(TlvName::Plain(match name {
            "alpn" => tlv_type::ALPN,
            "authority" => tlv_type::AUTHORITY,
            "unique_id" => tlv_type::UNIQUE_ID,
            "ssl" => tlv_type::SSL,
            "netns" => tlv_type::NETNS,
            _ => number(name).ok_or_else(unknown)?,
        }))
    }
}

/// `0x` and hexadecimal digits.
fn number(name: &str) -> Option<u8> {
    let digits = name.strip_prefix("0x")?;
    let is_hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hexadecimal.then(|| u8::from_str_radix(digits, 16).ok())?
}
