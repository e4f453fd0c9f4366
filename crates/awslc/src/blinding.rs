//! Blinding for RSA private operations that are computed elsewhere.
//!
//! Who chooses the number that is raised to the private exponent, and watches the power that the
//! processor takes, or its clock that follows it (Hertzbleed), may learn of the exponent what the
//! time does not tell. Multiplied by r^e before, with a secret random r, the number is
//! one that nobody chose; the result is multiplied by 1/r after (RFC 8017 does not ask for it;
//! Kocher, "Timing attacks on implementations of Diffie-Hellman, RSA, DSS, and other systems",
//! section 10):
//!
//! ```text
//! (c r^e)^d / r = c^d r^(ed) / r = c^d   modulo n
//! ```
//!
//! AWS-LC blinds all that it computes by itself ([`PrivateKey::perform`]). [`RsaBlinding`] is for
//! others, and made of its functions, too.
//!
//! To draw r takes an inverse and costs as much as 300 multiplications. So a pair of r^e and 1/r
//! serves [`USES_PER_DRAW`] operations, squared for each: no number is blinded with the factor of
//! another, and who knows none of the squares knows no other one either. An operation of RSA-2048
//! pays four multiplications, and its share of the draw.
//!
//! Pairs are kept in Montgomery form, and applied with Montgomery multiplications of the modulus'
//! width, whose time does not depend on the numbers. That of the inverse does, and the
//! library takes it of a number that it blinds first.

use std::ffi::c_int;
use std::fmt;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aws_lc_sys as sys;

use crate::PrivateKey;
use crate::error::{self, Error};
use crate::ffi::{check, check_ptr};

/// How often a random number is used, itself and its squares, before another is drawn. AWS-LC
/// draws after 32 uses, which is 3 % of its own operation of RSA-2048, and would be 8 % of one in a
/// batch of eight; this is one percent.
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
    /// For the operations of `key`. Nothing is drawn before it is needed.
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

    /// Blinds `number`, which is below the modulus, big-endian and as long as it is, with a
    /// factor that is used only once. What is given back unblinds the result.
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
        // A pair that was left between two states has no uses left.
        self.pair.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Unblinds the result of one operation.
pub struct RsaUnblinding<'a> {
    blinding: &'a RsaBlinding,
    inverse: Number,
}

impl RsaUnblinding<'_> {
    /// Makes `result`, which is that of the blinded number, the result of the number itself.
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

/// r^e and 1/r in Montgomery form: a product after Montgomery with a number in plain form is
/// in plain form.
struct Pair {
    factor: Number,
    inverse: Number,
    uses_left: u32,
}

impl Pair {
    /// Makes this a pair that was not used before.
    fn advance(&mut self, blinding: &RsaBlinding, workspace: &Workspace) -> Result<(), Error> {
        // None, should one of the calls fail: then the next use draws again.
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
            // The number is r first. The chance that it has p or q for a divisor, and no inverse,
            // is that of guessing the key.
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

    /// As wide as the bytes are, leading zeros or not: that makes the time of a multiplication
    /// the same for all.
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

/// A `BN_CTX`: where the library keeps numbers during a calculation, wiped when it is freed. An
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
