//! SHA-1, SHA-256, HMAC-SHA-256 (RFC 2104) and HKDF-SHA-256 (RFC 5869).

use aws_lc_sys as sys;

/// The SHA-1 of `data`, for compatibility with existing fingerprints.
pub fn sha1(data: &[u8]) -> [u8; 20] {
    let mut digest = [0; 20];
    // SAFETY: the input slice is valid for its length, the output for 20 bytes.
    unsafe { sys::SHA1(data.as_ptr(), data.len(), digest.as_mut_ptr()) };
    digest
}

/// The SHA-256 of `data`.
pub fn sha256(data: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    // SAFETY: the input slice is valid for its length, the output for 32 bytes.
    unsafe { sys::SHA256(data.as_ptr(), data.len(), digest.as_mut_ptr()) };
    digest
}

/// The HMAC-SHA-256 of `data` under `key`.
pub fn hmac_sha256(key: &[u8], data: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    let mut length = 0;
    // SAFETY: every pointer comes with the length of its slice, the output has
    // the digest's 32 bytes.
    let result = unsafe {
        sys::HMAC(
            sys::EVP_sha256(),
            key.as_ptr().cast(),
            key.len(),
            data.as_ptr(),
            data.len(),
            digest.as_mut_ptr(),
            &mut length,
        )
    };
    assert!(!result.is_null(), "HMAC fails only without memory");
    digest
}

/// Fills `target` with HKDF-SHA-256 output of `secret`, `salt` and `info`.
///
/// # Panics
///
/// When `target` is longer than 8160 bytes, the most that HKDF-SHA-256 defines.
pub fn hkdf_sha256(target: &mut [u8], secret: &[u8], salt: &[u8], info: &[u8]) {
    // SAFETY: every pointer comes with the length of its slice; EVP_sha256
    // returns a static.
    let code = unsafe {
        sys::HKDF(
            target.as_mut_ptr(),
            target.len(),
            sys::EVP_sha256(),
            secret.as_ptr(),
            secret.len(),
            salt.as_ptr(),
            salt.len(),
            info.as_ptr(),
            info.len(),
        )
    };
    assert_eq!(code, 1, "HKDF fails only when the output is too long");
}
