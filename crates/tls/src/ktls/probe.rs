//! Tests what this kernel can do for TLS.
//!
//! Version numbers prove little: distributions leave the module out, sandboxes refuse the calls,
//! and kernels have sent wrong bytes. So every suite seals a quarter of a MiB over the loopback,
//! sent the way responses are (a head with `MSG_MORE`, sendfile(2) in parts, an alert as its own
//! record type). The other end opens every record with AWS-LC and compares every byte. A suite that
//! fails is not used.
//!
//! | file | what |
//! |---|---|
//! | `probe.rs` | [`Capabilities`]: the tests and their outcome |
//! | `probe/unavailable.rs` | [`Unavailable`]: why not, and what to do about it |
//! | `probe/loopback.rs` | a connection to ourselves, driven from one thread |
//! | `probe/script.rs` | what is sent, and the same as what must arrive |
//! | `probe/records.rs` | records opened and sealed by the TLS library |

mod loopback;
mod records;
mod script;
#[cfg(test)]
mod tests;
mod unavailable;

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use sealane_sys::ktls::{self, Cipher, Version};

use loopback::Pair;
use records::RecordKeys;
use script::{Reception, Sample, Script};
pub use unavailable::{Flaw, Unavailable};

/// The time limit of one test. Usually a test takes a few milliseconds.
const TEST_TIME: Duration = Duration::from_secs(2);

/// The result of a test.
type Outcome = Result<(), Unavailable>;

/// What the kernel can do for TLS, determined by testing.
#[derive(Clone, Debug)]
pub struct Capabilities {
    transmit: [Outcome; SUITES],
    receive: [Outcome; SUITES],
    rekey: Outcome,
}

/// Protocol versions times ciphers.
const SUITES: usize = Version::ALL.len() * Cipher::ALL.len();

impl Capabilities {
    /// Tests sending with every suite, and changing the key of a connection. Bounded by two seconds
    /// per suite; on a kernel without the module it ends at once. Loads the module if this process
    /// may (`CAP_NET_ADMIN`).
    pub fn probe() -> Capabilities {
        Capabilities::try_out(false)
    }

    /// The same, and also tests receiving, which Sealane never uses, for operators who want to
    /// know.
    pub fn probe_with_receive() -> Capabilities {
        Capabilities::try_out(true)
    }

    /// No kernel TLS at all, for one reason.
    pub fn unavailable(reason: Unavailable) -> Capabilities {
        Capabilities {
            transmit: std::array::from_fn(|_| Err(reason.clone())),
            receive: std::array::from_fn(|_| Err(reason.clone())),
            rekey: Err(reason),
        }
    }

    /// A kernel that can do everything, for tests.
    #[cfg(test)]
    pub(crate) fn everything() -> Capabilities {
        Capabilities {
            transmit: [const { Ok(()) }; SUITES],
            receive: [const { Ok(()) }; SUITES],
            rekey: Ok(()),
        }
    }

    /// Whether the kernel may seal what is sent with this suite.
    ///
    /// # Errors
    /// Why not.
    pub fn transmit(&self, version: Version, cipher: Cipher) -> Result<(), &Unavailable> {
        self.transmit[index(version, cipher)].as_ref().copied()
    }

    /// Whether the kernel can change the key of a TLS 1.3 connection
    /// (KeyUpdate, RFC 8446 section 4.6.3): Linux 6.14 and later.
    ///
    /// # Errors
    /// Why not.
    pub fn rekey(&self) -> Result<(), &Unavailable> {
        self.rekey.as_ref().copied()
    }

    /// Whether the kernel can open what is received with this suite;
    /// [`Unavailable::NotProbed`] after [`Capabilities::probe`].
    ///
    /// # Errors
    /// Why not.
    pub fn receive(&self, version: Version, cipher: Cipher) -> Result<(), &Unavailable> {
        self.receive[index(version, cipher)].as_ref().copied()
    }

    fn try_out(with_receive: bool) -> Capabilities {
        // What no suite can change is checked once: no loopback, no module.
        if let Err(reason) = attach_once() {
            return Capabilities::unavailable(reason);
        }
        let sample = match Sample::new() {
            Ok(sample) => sample,
            Err(reason) => return Capabilities::unavailable(reason),
        };
        let mut found = Capabilities::unavailable(Unavailable::NotProbed);
        for (version, cipher) in suites() {
            found.transmit[index(version, cipher)] = try_transmit(version, cipher, &sample);
            if with_receive {
                found.receive[index(version, cipher)] = try_receive(version, cipher, &sample);
            }
        }
        found.rekey = found.try_rekey(&sample);
        found
    }

    /// With the first suite of TLS 1.3 that works.
    fn try_rekey(&self, sample: &Sample) -> Outcome {
        let outcome = |cipher| self.transmit(Version::Tls13, cipher);
        match Cipher::ALL
            .into_iter()
            .find(|cipher| outcome(*cipher).is_ok())
        {
            Some(cipher) => try_rekey(cipher, sample),
            None => outcome(Cipher::Aes128Gcm).map_err(Unavailable::clone),
        }
    }
}

/// Every suite, in the order of [`index`].
fn suites() -> impl Iterator<Item = (Version, Cipher)> {
    let with_ciphers = |version| Cipher::ALL.into_iter().map(move |cipher| (version, cipher));
    Version::ALL.into_iter().flat_map(with_ciphers)
}

fn index(version: Version, cipher: Cipher) -> usize {
    let version = match version {
        Version::Tls12 => 0,
        Version::Tls13 => Cipher::ALL.len(),
    };
    version
        + match cipher {
            Cipher::Aes128Gcm => 0,
            Cipher::Aes256Gcm => 1,
            Cipher::ChaCha20Poly1305 => 2,
        }
}

fn attach_once() -> Outcome {
    let pair = Pair::open(Instant::now() + TEST_TIME)?;
    attach(pair.sender.as_fd())
}

fn attach(socket: std::os::fd::BorrowedFd<'_>) -> Outcome {
    ktls::attach(socket).map_err(|error| Unavailable::of_attach(&error))
}

/// Sends a sample through the kernel and opens what arrives.
fn try_transmit(version: Version, cipher: Cipher, sample: &Sample) -> Outcome {
    let deadline = Instant::now() + TEST_TIME;
    let pair = Pair::open(deadline)?;
    attach(pair.sender.as_fd())?;
    let keys = RecordKeys::random(version, cipher);
    ktls::set_transmit(pair.sender.as_fd(), &keys.for_kernel())
        .map_err(|error| Unavailable::of_keys(version, cipher, &error))?;
    let script = Script::response(sample);
    script.play(&pair, keys, deadline)
}

/// Sends, changes the key, and sends again.
fn try_rekey(cipher: Cipher, sample: &Sample) -> Outcome {
    let deadline = Instant::now() + TEST_TIME;
    let pair = Pair::open(deadline)?;
    attach(pair.sender.as_fd())?;
    let (old, new) = (
        RecordKeys::random(Version::Tls13, cipher),
        RecordKeys::after_update(cipher),
    );
    ktls::set_transmit(pair.sender.as_fd(), &old.for_kernel())
        .map_err(|error| Unavailable::of_keys(Version::Tls13, cipher, &error))?;
    let script = Script::key_update(sample, new);
    script.play(&pair, old, deadline)
}

/// Sends records sealed by the TLS library and lets the kernel open them.
fn try_receive(version: Version, cipher: Cipher, sample: &Sample) -> Outcome {
    let deadline = Instant::now() + TEST_TIME;
    let pair = Pair::open(deadline)?;
    attach(pair.receiver.as_fd())?;
    let keys = RecordKeys::random(version, cipher);
    ktls::set_receive(pair.receiver.as_fd(), &keys.for_kernel())
        .map_err(|error| Unavailable::of_keys(version, cipher, &error))?;
    Reception::new(sample, &keys)?.play(&pair, keys, deadline)
}
