//! The numbers of RSA keys, and RSA's bare private operation, for computing it elsewhere and for
//! comparison.

use aws_lc_sys as sys;
use zeroize::Zeroizing;

use crate::PrivateKey;
use crate::error::Error;
use crate::ffi::{check, check_ptr};

/// The numbers of an RSA private key (RFC 8017 section 3.2), big-endian and without
/// leading zeros.
pub struct RsaNumbers {
    /// The modulus.
    pub modulus: Vec<u8>,
    /// The public exponent.
    pub exponent: Vec<u8>,
    /// p and q, the primes.
    pub primes: [Zeroizing<Vec<u8>>; 2],
    /// d modulo p - 1 and q - 1.
    pub exponents: [Zeroizing<Vec<u8>>; 2],
    /// 1 / q modulo p.
    pub coefficient: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for RsaNumbers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RsaNumbers(redacted)")
    }
}

impl PrivateKey {
    /// Generates an RSA key of `bits` with the public exponent 65537.
    ///
    /// # Errors
    ///
    /// When libcrypto does not support the size.
    pub fn generate_rsa(bits: u32) -> Result<Self, Error> {
        let bits = std::ffi::c_int::try_from(bits).unwrap_or(std::ffi::c_int::MAX);
        // SAFETY: each pointer is checked before it is used and freed once, and the key
        // takes a reference of its own to `rsa`.
        unsafe {
            let rsa = check_ptr("RSA_new", sys::RSA_new())?;
            let exponent = sys::BN_new();
            let mut made = check_ptr("BN_new", exponent).map(|_| ());
            if made.is_ok() {
                made = check("BN_set_word", sys::BN_set_word(exponent, 65537)).and_then(|()| {
                    let code = sys::RSA_generate_key_ex(rsa, bits, exponent, std::ptr::null_mut());
                    check("RSA_generate_key_ex", code)
                });
            }
            let key = made.and_then(|()| {
                let key = Self::owned(sys::EVP_PKEY_new(), "EVP_PKEY_new")?;
                check(
                    "EVP_PKEY_set1_RSA",
                    sys::EVP_PKEY_set1_RSA(key.as_ptr(), rsa),
                )?;
                Ok(key)
            });
            sys::BN_free(exponent);
            sys::RSA_free(rsa);
            key
        }
    }

    /// The numbers of an RSA key; `None` for other keys, and for those without primes.
    pub fn rsa_numbers(&self) -> Option<RsaNumbers> {
        // SAFETY: the key is valid; the RSA key and its numbers live as long as it does, and
        // null is handled by `number`.
        unsafe {
            let rsa = sys::EVP_PKEY_get0_RSA(self.as_ptr());
            if rsa.is_null() {
                return None;
            }
            Some(RsaNumbers {
                modulus: number(sys::RSA_get0_n(rsa))?.to_vec(),
                exponent: number(sys::RSA_get0_e(rsa))?.to_vec(),
                primes: [number(sys::RSA_get0_p(rsa))?, number(sys::RSA_get0_q(rsa))?],
                exponents: [
                    number(sys::RSA_get0_dmp1(rsa))?,
                    number(sys::RSA_get0_dmq1(rsa))?,
                ],
                coefficient: number(sys::RSA_get0_iqmp(rsa))?,
            })
        }
    }

    /// RSA's private operation without padding: `input` and the result are numbers below the
    /// modulus, big-endian and as long as the modulus.
    ///
    /// # Errors
    ///
    /// The key is not an RSA key, or `input` is not below the modulus or has another length.
    pub fn rsa_raw(&self, input: &[u8]) -> Result<Vec<u8>, Error> {
        // SAFETY: the key is valid and a key of another kind gives null, which is checked; the
        // output has the size that the library asks for.
        unsafe {
            let rsa = check_ptr("EVP_PKEY_get0_RSA", sys::EVP_PKEY_get0_RSA(self.as_ptr()))?;
            let mut output = vec![0; sys::RSA_size(rsa) as usize];
            let mut output_bytes = 0;
            let code = sys::RSA_sign_raw(
                rsa,
                &mut output_bytes,
                output.as_mut_ptr(),
                output.len(),
                input.as_ptr(),
                input.len(),
                sys::RSA_NO_PADDING,
            );
            check("RSA_sign_raw", code)?;
            output.truncate(output_bytes);
            Ok(output)
        }
    }
}

/// Whether AWS-LC raises this number to a private exponent: it is as long as the modulus and
/// neither 0, 1, n - 1 nor larger. A client may send any ciphertext, and must get the same answer
/// from whatever computes. Nothing about the number is secret: it is on the wire.
pub fn is_rsa_operand(number: &[u8], modulus: &[u8]) -> bool {
    let (Some((last, others)), Some((modulus_last, modulus_others))) =
        (number.split_last(), modulus.split_last())
    else {
        return false;
    };
    let is_tiny = *last <= 1 && others.iter().all(|byte| *byte == 0);
    // Numbers of equal length compare like their bytes. The modulus is odd.
    let is_below = (others, *last) < (modulus_others, *modulus_last & !1);
    number.len() == modulus.len() && is_below && !is_tiny
}

/// # Safety
///
/// `number` is null or valid.
pub(crate) unsafe fn number(number: *const sys::BIGNUM) -> Option<Zeroizing<Vec<u8>>> {
    if number.is_null() {
        return None;
    }
    // SAFETY: valid by the caller's promise, and the buffer has the number's size.
    unsafe {
        let mut bytes = Zeroizing::new(vec![0; sys::BN_num_bytes(number) as usize]);
        sys::BN_bn2bin(number, bytes.as_mut_ptr());
        Some(bytes)
    }
}
