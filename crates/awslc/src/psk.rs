//! The binder of a pre-shared key (RFC 8446 section 4.2.11.2), which proves that a ClientHello
//! comes from the holder of the session.
//!
//! libssl checks it too, but only after the ticket was opened and used. A register of early data
//! must know first, or forged hellos would fill it.

use aws_lc_sys as sys;
use zeroize::Zeroizing;

/// Length of the longest digest here, SHA-384, in bytes.
const MAX_DIGEST_BYTES: usize = 48;

/// Whether `binder` matches the key of a session with this suite and the ClientHello up to, and not
/// including, the length of its list of binders.
pub fn is_psk_binder_valid(suite: u16, key: &[u8], truncated_hello: &[u8], binder: &[u8]) -> bool {
    // The three suites of TLS 1.3 (RFC 8446 appendix B.4).
    let digest = match suite {
        // SAFETY: returns a pointer to a static.
        0x1301 | 0x1303 => unsafe { sys::EVP_sha256() },
        // SAFETY: as above.
        0x1302 => unsafe { sys::EVP_sha384() },
        _ => return false,
    };
    compute(digest, key, truncated_hello).is_some_and(|(expected, length)| {
        binder.len() == length
            // SAFETY: both have `length` readable bytes.
            && unsafe {
                sys::CRYPTO_memcmp(binder.as_ptr().cast(), expected.as_ptr().cast(), length) == 0
            }
    })
}

type Digest = Zeroizing<[u8; MAX_DIGEST_BYTES]>;

fn compute(digest: *const sys::EVP_MD, key: &[u8], hello: &[u8]) -> Option<(Digest, usize)> {
    let mut early_secret = Digest::new([0; MAX_DIGEST_BYTES]);
    let mut binder_key = Digest::new([0; MAX_DIGEST_BYTES]);
    let mut finished_key = Digest::new([0; MAX_DIGEST_BYTES]);
    let mut binder = Digest::new([0; MAX_DIGEST_BYTES]);
    // SAFETY: the digest is a static of the library with at most 48 bytes.
    let length = unsafe { sys::EVP_MD_size(digest) };
    let mut written = 0;
    // SAFETY: every pointer comes with its length, every target has room for the
    // longest digest used here; no salt means zeros.
    let code = unsafe {
        sys::HKDF_extract(
            early_secret.as_mut_ptr(),
            &mut written,
            digest,
            key.as_ptr(),
            key.len(),
            std::ptr::null(),
            0,
        )
    };
    if code != 1 {
        return None;
    }
    let nothing = hash(digest, &[])?;
    let transcript = hash(digest, hello)?;
    expand_label(
        digest,
        &early_secret[..length],
        b"tls13 res binder",
        &nothing[..length],
        &mut binder_key[..length],
    )?;
    expand_label(
        digest,
        &binder_key[..length],
        b"tls13 finished",
        &[],
        &mut finished_key[..length],
    )?;
    let mut written = 0;
    // SAFETY: as above.
    let result = unsafe {
        sys::HMAC(
            digest,
            finished_key.as_ptr().cast(),
            length,
            transcript.as_ptr(),
            length,
            binder.as_mut_ptr(),
            &mut written,
        )
    };
    (!result.is_null()).then_some((binder, length))
}

fn hash(digest: *const sys::EVP_MD, data: &[u8]) -> Option<Digest> {
    let mut target = Digest::new([0; MAX_DIGEST_BYTES]);
    let mut written = 0;
    // SAFETY: `target` has room for the longest digest used here.
    let code = unsafe {
        sys::EVP_Digest(
            data.as_ptr().cast(),
            data.len(),
            target.as_mut_ptr(),
            &mut written,
            digest,
            std::ptr::null_mut(),
        )
    };
    (code == 1).then_some(target)
}

/// HKDF-Expand-Label (RFC 8446 section 7.1); `label` comes with its prefix.
pub(crate) fn expand_label(
    digest: *const sys::EVP_MD,
    secret: &[u8],
    label: &[u8],
    transcript: &[u8],
    target: &mut [u8],
) -> Option<()> {
    // A length of two bytes, then label and digest, each preceded by a length byte.
    let mut info = [0; 4 + 32 + MAX_DIGEST_BYTES];
    info[1] = u8::try_from(target.len()).ok()?;
    let mut length = 2;
    for part in [label, transcript] {
        info[length] = u8::try_from(part.len()).ok()?;
        info.get_mut(length + 1..length + 1 + part.len())?
            .copy_from_slice(part);
        length += 1 + part.len();
    }
    // SAFETY: every pointer comes with the length of its slice; the digest is a
    // constant of the library.
    let code = unsafe {
        sys::HKDF_expand(
            target.as_mut_ptr(),
            target.len(),
            digest,
            secret.as_ptr(),
            secret.len(),
            info.as_ptr(),
            length,
        )
    };
    (code == 1).then_some(())
}
