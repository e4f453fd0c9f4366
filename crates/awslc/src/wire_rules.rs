//! Rules of TLS 1.3 about client messages that libssl enforces with another alert than RFC 8446
//! specifies.
//!
//! libssl shows a server's callback ([`crate::callbacks::message`]) each record header and each
//! message before it examines them itself. Everything detected here fails in libssl too, so it is
//! enough to send the right alert first: libssl does not send a second one.

use aws_lc_sys as sys;

/// The longest record: plaintext, type, padding and tag (RFC 8446 section 5.2).
const MAX_RECORD_BYTES: u16 = (1 << 14) + 256;
const MESSAGE_HEADER_BYTES: usize = 4;
/// KeyUpdates that a client may send while no data passes in either direction. Each costs the
/// client 27 bytes and us three HKDF expansions, and none of them advances a request. libssl has
/// limits for empty records (32) and warnings (4), but none for these. BoringSSL and rustls use the
/// same number.
pub(crate) const MAX_KEY_UPDATES: u8 = 32;

/// The alert for an invalid header of a record that comes when the client must already encrypt.
/// Unencrypted alerts are left to libssl.
pub(crate) fn record_alert(header: [u8; 5], is_handshaking: bool) -> Option<i32> {
    let length = u16::from_be_bytes([header[3], header[4]]);
    match i32::from(header[0]) {
        sys::SSL3_RT_APPLICATION_DATA if length <= MAX_RECORD_BYTES => None,
        sys::SSL3_RT_APPLICATION_DATA => Some(sys::SSL_AD_RECORD_OVERFLOW),
        sys::SSL3_RT_CHANGE_CIPHER_SPEC if is_handshaking && length == 1 => None,
        sys::SSL3_RT_ALERT => None,
        _ => Some(sys::SSL_AD_UNEXPECTED_MESSAGE),
    }
}

/// The alert for an invalid header of an unencrypted record, in any version: a ChangeCipherSpec has
/// one byte.
pub(crate) fn plain_record_alert(header: [u8; 5]) -> Option<i32> {
    let is_ccs = i32::from(header[0]) == sys::SSL3_RT_CHANGE_CIPHER_SPEC;
    (is_ccs && header[3..] != [0, 1]).then_some(sys::SSL_AD_UNEXPECTED_MESSAGE)
}

/// The alert for an invalid message, given with its header. `digest_bytes` is the length of the
/// handshake's hash, if known.
pub(crate) fn message_alert(message: &[u8], digest_bytes: Option<usize>) -> Option<i32> {
    let (header, body) = message.split_at_checked(MESSAGE_HEADER_BYTES)?;
    match i32::from(header[0]) {
        // Section 4.6.3: only these two values are valid.
        sys::SSL3_MT_KEY_UPDATE => match body {
            [0 | 1] => None,
            [_] => Some(sys::SSL_AD_ILLEGAL_PARAMETER),
            _ => Some(sys::SSL_AD_DECODE_ERROR),
        },
        sys::SSL3_MT_FINISHED => match digest_bytes {
            Some(length) if body.len() != length => Some(sys::SSL_AD_DECODE_ERROR),
            _ => None,
        },
        // Section 4.4.3: PKCS #1 v1.5 signs certificates only.
        sys::SSL3_MT_CERTIFICATE_VERIFY => {
            let is_pkcs1 = matches!(body, [2 | 4 | 5 | 6, 1, ..]);
            is_pkcs1.then_some(sys::SSL_AD_ILLEGAL_PARAMETER)
        }
        _ => None,
    }
}

/// Whether a message is a KeyUpdate (RFC 8446 section 4.6.3).
pub(crate) fn is_key_update(message: &[u8]) -> bool {
    message.first().copied().map(i32::from) == Some(sys::SSL3_MT_KEY_UPDATE)
}

/// Whether a message is a HelloRetryRequest: a ServerHello with the special random value (RFC 8446
/// section 4.1.3).
pub(crate) fn is_hello_retry_request(message: &[u8]) -> bool {
    const RANDOM_AT: usize = MESSAGE_HEADER_BYTES + 2;
    const RANDOM: [u8; 32] = [
        0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8,
        0x91, 0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8,
        0x33, 0x9c,
    ];
    message.first().copied().map(i32::from) == Some(sys::SSL3_MT_SERVER_HELLO)
        && message.get(RANDOM_AT..RANDOM_AT + RANDOM.len()) == Some(&RANDOM[..])
}

#[cfg(test)]
mod tests;
