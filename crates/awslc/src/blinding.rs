//! Blinding for RSA private operations that are computed outside AWS-LC.
//!
//! An attacker who chooses the number raised to the private exponent, and observes the processor's
//! power or its clock that follows the power (Hertzbleed), may learn something of the exponent even
//! if the time reveals nothing. With blinding, the number is first multiplied by r^e for a secret
//! random r, so that no one has chosen it; the result is then multiplied by 1/r. (RFC 8017 does not
//! require this; see Kocher, "Timing attacks on implementations of Diffie-Hellman, RSA, DSS, and
//! other systems", section 10.)
//!
//! ```text
//! (c r^e)^d / r = c^d r^(ed) / r = c^d   modulo n
//! ```
//!
//! AWS-LC blinds everything that it computes itself ([`PrivateKey::perform`]). [`RsaBlinding`] is
//! for computations elsewhere, and is built from AWS-LC's functions too.
//!
//! Drawing r takes an inverse, which costs as much as 300 multiplications. So a pair of r^e and 1/r
//! serves [`USES_PER_DRAW`] operations, and is squared for each. No two numbers are blinded with
//! the same factor, and an attacker who knows none of the squares cannot derive any other. An
//! RSA-2048 operation costs four multiplications plus its share of the draw.
//!
//! Pairs are kept in Montgomery form and applied with Montgomery multiplications of the modulus'
//! width, whose time does not depend on the numbers. The time of the inverse does, so the library
//! computes it for a number that it blinds first.

use std::ffi::c_int;
use std::fmt;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aws_lc_sys as sys;

use crate::PrivateKey;
use crate::error::{self, Error};
use crate::ffi::{check, check_ptr};

/// How often a random number is used, including its squares, before another is drawn. AWS-LC draws
/// after 32 uses, which costs 3 % of its own RSA-2048 operation and would be 8 % of one in a batch
/// of eight. This costs one percent.
const USES_PER_DRAW: u32 = 256;

/// Random factors for the private operations of one RSA key. Threads may share it.
pub struct RsaBlinding {
    modulus: Number,
    modulus_bytes: usize,
    exponent: Number,
    montgomery: Montgomery,
    pair: Mutex<Pair>,
}

impl RsaBlinding {
    /// Blinding for operations of `key`. Nothing is drawn before it is needed.
    ///
    /// # Errors
    ///
    /// When the key is not an RSA key, or the library has no memory.
    pub fn new(key: &PrivateKey) -> Result<Self, Error> {
        error::clear_queue();
        let workspace = Workspace::new()?;
        // SAFETY: the key is valid and a key of another kind gives null, which is checked; a
        // key has a modulus and an exponent, which live as long as it does and are copied.
        unsafe {
            let rsa = check_ptr("EVP_PKEY_get0_RSA", sys::EVP_PKEY_get0_RSA(key.as_ptr()))?;
            let modulus = Number::copied(sys::RSA_get0_n(rsa))?;
            Ok(Self {
                montgomery: Montgomery::new(&modulus, &workspace)?,
                modulus,
                modulus_bytes: sys::RSA_size(rsa) as usize,
                exponent: Number::copied(sys::RSA_get0_e(rsa))?,
                pair: Mutex::new(Pair {
                    factor: Number::new()?,
                    inverse: Number::new()?,
                    uses_left: 0,
                }),
            })
        }
    }

    /// Blinds `number`, which must be below the modulus, big-endian and as long as the modulus,
    /// with a factor that is used only once. The returned value unblinds the result.
    ///
    /// # Errors
    ///
    /// When the number is of another length or not below the modulus, or the library has no
    /// memory. `number` is unchanged then.
    pub fn blind(&self, number: &mut [u8]) -> Result<RsaUnblinding<'_>, Error> {
        error::clear_queue();
        let workspace = Workspace::new()?;
        let mut blinded = self.number(number)?;
        let mut pair = self.lock();
        pair.advance(self, &workspace)?;
        self.montgomery
            .multiply(&mut blinded, &pair.factor, &workspace)?;
        let inverse = pair.inverse.copy()?;
        drop(pair);
        blinded.write(number)?;
        Ok(RsaUnblinding {
            blinding: self,
            inverse,
        })
    }

    fn number(&self, bytes: &[u8]) -> Result<Number, Error> {
        if bytes.len() != self.modulus_bytes {
            return Err(Error::local("RSA", "data of another length"));
        }
        let number = Number::read(bytes)?;
        // SAFETY: both are valid.
        if unsafe { sys::BN_ucmp(number.0, self.modulus.0) } >= 0 {
            return Err(Error::local("RSA", "data too large for the modulus"));
        }
        Ok(number)
    }

    fn lock(&self) -> MutexGuard<'_, Pair> {
        // A pair that was left half changed has no uses left.
        self.pair.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Unblinds the result of one operation.
pub struct RsaUnblinding<'a> {
    blinding: &'a RsaBlinding,
    inverse: Number,
}

impl RsaUnblinding<'_> {
    /// Turns `result`, which is that of the blinded number, into the result for the number itself.
    ///
    /// # Errors
    ///
    /// When the result is of another length or not below the modulus, or the library has no
    /// memory. `result` is unchanged then.
    pub fn unblind(self, result: &mut [u8]) -> Result<(), Error> {
        error::clear_queue();
        let workspace = Workspace::new()?;
        let mut number = self.blinding.number(result)?;
        self.blinding
            .montgomery
            .multiply(&mut number, &self.inverse, &workspace)?;
        number.write(result)
    }
}

/// r^e and 1/r in Montgomery form: the Montgomery product with a number in plain form is in plain
/// form.
struct Pair {
    factor: Number,
    inverse: Number,
    uses_left: u32,
}

impl Pair {
    /// Advances to a pair that has not been used before.
    fn advance(&mut self, blinding: &RsaBlinding, workspace: &Workspace) -> Result<(), Error> {
        // Stays at zero if one of the calls fails: then the next use draws again.
        match mem::take(&mut self.uses_left) {
            0 => {
                self.draw(blinding, workspace)?;
                self.uses_left = USES_PER_DRAW - 1;
            }
            uses_left => {
                blinding.montgomery.square(&mut self.factor, workspace)?;
                blinding.montgomery.square(&mut self.inverse, workspace)?;
                self.uses_left = uses_left - 1;
            }
        }
        Ok(())
    }

    fn draw(&mut self, blinding: &RsaBlinding, workspace: &Workspace) -> Result<(), Error> {
        let (factor, inverse) = (self.factor.0, self.inverse.0);
        let (modulus, montgomery) = (blinding.modulus.0, blinding.montgomery.0);
        let mut has_no_inverse: c_int = 0;
        // SAFETY: all are valid, and these functions allow that the result is the operand. The
        // two numbers that change are borrowed mutably, the others only read.
        unsafe {
            // The number is first r. The chance that r is divisible by p or q, and so has no
            // inverse, is that of guessing the key.
            let code = sys::BN_rand_range_ex(inverse, 1, modulus);
            check("BN_rand_range_ex", code)?;
            let code = sys::BN_mod_exp_mont(
                factor,
                inverse,
                blinding.exponent.0,
                modulus,
                workspace.0,
                montgomery,
            );
            check("BN_mod_exp_mont", code)?;
            let code = sys::BN_mod_inverse_blinded(
                inverse,
                &mut has_no_inverse,
                inverse,
                montgomery,
                workspace.0,
            );
            check("BN_mod_inverse_blinded", code)?;
            for number in [factor, inverse] {
                let code = sys::BN_to_montgomery(number, number, montgomery, workspace.0);
                check("BN_to_montgomery", code)?;
            }
        }
        Ok(())
    }
}

/// A `BIGNUM` of our own. The library wipes what it frees.
struct Number(*mut sys::BIGNUM);

// SAFETY: it is owned, and its memory belongs to no thread.
unsafe impl Send for Number {}
// SAFETY: the library takes what it only reads as const and does not change it.
unsafe impl Sync for Number {}

impl Number {
    fn new() -> Result<Self, Error> {
        // SAFETY: allocates; null is checked.
        check_ptr("BN_new", unsafe { sys::BN_new() }).map(Self)
    }

    /// # Safety
    ///
    /// `number` is valid.
    unsafe fn copied(number: *const sys::BIGNUM) -> Result<Self, Error> {
        // SAFETY: valid by the caller's promise; null is checked.
        check_ptr("BN_dup", unsafe { sys::BN_dup(number) }).map(Self)
    }

    fn copy(&self) -> Result<Self, Error> {
        // SAFETY: valid as long as it is owned.
        unsafe { Self::copied(self.0) }
    }

    /// As wide as the bytes, including leading zeros: that makes the time of a multiplication the
    /// same for all numbers.
    fn read(bytes: &[u8]) -> Result<Self, Error> {
        // SAFETY: the pointer and the length describe `bytes`; null is checked.
        check_ptr("BN_bin2bn", unsafe {
            sys::BN_bin2bn(bytes.as_ptr(), bytes.len(), std::ptr::null_mut())
        })
        .map(Self)
    }

    fn write(&self, bytes: &mut [u8]) -> Result<(), Error> {
        // SAFETY: the pointer and the length describe `bytes`.
        check("BN_bn2bin_padded", unsafe {
            sys::BN_bn2bin_padded(bytes.as_mut_ptr(), bytes.len(), self.0)
        })
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        // SAFETY: owned, and freed once.
        unsafe { sys::BN_clear_free(self.0) }
    }
}

/// A `BN_MONT_CTX`: arithmetic modulo one number.
struct Montgomery(*mut sys::BN_MONT_CTX);

// SAFETY: it is owned, and its memory belongs to no thread.
unsafe impl Send for Montgomery {}
// SAFETY: nothing changes it after it was made; the library takes it as const.
unsafe impl Sync for Montgomery {}

impl Montgomery {
    fn new(modulus: &Number, workspace: &Workspace) -> Result<Self, Error> {
        // SAFETY: both are valid; null is checked.
        check_ptr("BN_MONT_CTX_new_for_modulus", unsafe {
            sys::BN_MONT_CTX_new_for_modulus(modulus.0, workspace.0)
        })
        .map(Self)
    }

    fn multiply(
        &self,
        number: &mut Number,
        factor: &Number,
        workspace: &Workspace,
    ) -> Result<(), Error> {
        // SAFETY: all are valid, and the result may be an operand.
        check("BN_mod_mul_montgomery", unsafe {
            sys::BN_mod_mul_montgomery(number.0, number.0, factor.0, self.0, workspace.0)
        })
    }

    fn square(&self, number: &mut Number, workspace: &Workspace) -> Result<(), Error> {
        // SAFETY: all are valid, and the result may be both operands.
        check("BN_mod_mul_montgomery", unsafe {
            sys::BN_mod_mul_montgomery(number.0, number.0, number.0, self.0, workspace.0)
        })
    }
}

impl Drop for Montgomery {
    fn drop(&mut self) {
        // SAFETY: owned, and freed once.
        unsafe { sys::BN_MONT_CTX_free(self.0) }
    }
}

/// A `BN_CTX`: the library's storage for numbers during a calculation, wiped when it is freed. An
/// empty one costs next to nothing.
struct Workspace(*mut sys::BN_CTX);

impl Workspace {
    fn new() -> Result<Self, Error> {
        // SAFETY: allocates; null is checked.
        check_ptr("BN_CTX_new", unsafe { sys::BN_CTX_new() }).map(Self)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // SAFETY: owned, and freed once.
        unsafe { sys::BN_CTX_free(self.0) }
    }
}

impl fmt::Debug for RsaBlinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RsaBlinding(redacted)")
    }
}

impl fmt::Debug for RsaUnblinding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RsaUnblinding(redacted)")
    }
}

#[cfg(test)]
mod tests;
