//! Random bytes from the library's generator.

use aws_lc_sys as sys;

/// Makes the generator ready. Its first bytes take some 40 ms, as it measures the jitter of the
/// processor's clock; processes that are forked later have that behind them.
pub fn seed_random() {
    fill_random(&mut [0]);
}

/// Fills `target` with random bytes fit for keys.
///
/// The generator aborts the process if the kernel provides no entropy, so there is no error to
/// handle.
pub fn fill_random(target: &mut [u8]) {
    // SAFETY: the pointer and the length describe `target`.
    let code = unsafe { sys::RAND_bytes(target.as_mut_ptr(), target.len()) };
    assert_eq!(code, 1, "RAND_bytes aborts rather than fail");
}
