//! A key on its way from the master to a key process: the bytes of its file and the passwords that
//! may decrypt it, or its URI and the PIN of its device, in memory that only the two have.
//!
//! ```text
//! "SLKD" | version | roles | decrypts | accelerator | is URI | passwords (texts) | key (text)
//! ```
//!
//! Numbers are four bytes, little-endian; texts and lists begin with their length.

use crate::rules::Roles;
use sealane_sys::file;
use sealane_sys::sealed_memory::{is_sealed_file, sealed_file, sealed_file_with};
use sealane_tls::{AcceleratorChoice, Secret, sha256};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use zeroize::Zeroizing;

const MAGIC: &[u8; 5] = b"SLKD\x03";

/// Largest deposit in bytes; no key file is as large.
const MAX_BYTES: u64 = 16 << 20;

/// Most passwords that are tried.
const MAX_PASSWORDS: usize = 4096;

/// A key to be held.
#[derive(Debug)]
pub struct Deposit<'a> {
    /// In whose place it signs.
    pub roles: Roles,
    /// Whether it may decrypt: a server offers the RSA key exchange.
    pub may_decrypt: bool,
    /// `ssl_accelerator`.
    pub accelerator: AcceleratorChoice,
    /// The lines of `ssl_password_file`, or the PIN.
    pub passwords: &'a [Secret],
    /// Where the key is.
    pub key: KeySource<'a>,
}

/// A key, or where it is.
#[derive(Clone, Copy, Debug)]
pub enum KeySource<'a> {
    /// What its file says.
    Pem(&'a [u8]),
    /// Its name in a device.
    Uri(&'a str),
    /// Its file, which this process does not read, with so many bytes.
    File(BorrowedFd<'a>, usize),
}

/// The same, as the key process gets it.
#[derive(Clone, Copy, Debug)]
pub enum DepositedKey<'a> {
    /// What its file says.
    Pem(&'a [u8]),
    /// Its name in a device.
    Uri(&'a str),
}

/// What was deposited.
#[derive(Debug)]
pub struct Deposited {
    pub(crate) roles: Roles,
    pub(crate) may_decrypt: bool,
    pub(crate) accelerator: AcceleratorChoice,
    passwords: Vec<Secret>,
    is_uri: bool,
    key: Secret,
    /// The hash of all of it.
    content: [u8; 32],
}

impl Deposit<'_> {
    /// Writes it into memory for the key process.
    ///
    /// # Errors
    ///
    /// When there is no such memory, or the key's file cannot be read.
    pub fn seal(&self) -> io::Result<OwnedFd> {
        let too_large = || io::Error::from(io::ErrorKind::FileTooLarge);
        let mut head = MAGIC.to_vec();
        head.push(u8::from(self.roles.server) | u8::from(self.roles.client) << 1);
        head.push(u8::from(self.may_decrypt));
        head.push(match self.accelerator {
            AcceleratorChoice::Auto => 0,
            AcceleratorChoice::Cpu => 1,
            AcceleratorChoice::Batch => 2,
        });
        let (is_uri, key, key_bytes) = match self.key {
            KeySource::Pem(pem) => (false, pem, pem.len()),
            KeySource::Uri(uri) => (true, uri.as_bytes(), uri.len()),
            KeySource::File(_, bytes) => (false, &[][..], bytes),
        };
        head.push(u8::from(is_uri));
        let count = u32::try_from(self.passwords.len()).map_err(|_| too_large())?;
        head.extend_from_slice(&count.to_le_bytes());
        let texts = self.passwords.iter().map(Secret::expose);
        let texts = texts.map(|text| (text, text.len()));
        let texts: Vec<(&[u8], usize)> = texts.chain([(key, key_bytes)]).collect();
        let bytes = head.len() + texts.iter().map(|(_, bytes)| 4 + bytes).sum::<usize>();
        if bytes as u64 > MAX_BYTES || self.passwords.len() > MAX_PASSWORDS {
            return Err(too_large());
        }
        // Below the limit above.
        let length = |bytes: &usize| u32::try_from(*bytes).unwrap_or(u32::MAX).to_le_bytes();
        let lengths: Vec<[u8; 4]> = texts.iter().map(|(_, bytes)| length(bytes)).collect();
        let texts = lengths.iter().zip(texts);
        let texts = texts.flat_map(|(length, (text, _))| [&length[..], text]);
        let pieces: Vec<&[u8]> = [&head[..]].into_iter().chain(texts).collect();
        match self.key {
            KeySource::File(file, bytes) => sealed_file_with(&pieces, file, bytes),
            _ => sealed_file(&pieces),
        }
    }
}

impl Deposited {
    /// Where the key is. A URI that is none has no characters.
    pub fn key(&self) -> DepositedKey<'_> {
        let key = self.key.expose();
        match self.is_uri {
            true => DepositedKey::Uri(std::str::from_utf8(key).unwrap_or_default()),
            false => DepositedKey::Pem(key),
        }
    }

    /// Passwords that may decrypt its file, or its PIN.
    pub fn passwords(&self) -> &[Secret] {
        &self.passwords
    }

    /// Whether the key needs a password.
    pub(crate) fn is_encrypted(&self) -> bool {
        let label = b"ENCRYPTED";
        let mut texts = self.key.expose().windows(label.len());
        !self.is_uri && texts.any(|text| text == label)
    }

    /// The same for the same key with the same passwords, and the same it may be used for.
    pub(crate) fn content(&self) -> &[u8; 32] {
        &self.content
    }

    /// Reads what [`Deposit::seal`] has written. Never blocks, whatever the descriptor is.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is something else.
    pub(crate) fn read(memory: BorrowedFd<'_>) -> io::Result<Self> {
        if !is_sealed_file(memory) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let memory = std::fs::File::from(memory.try_clone_to_owned()?);
        let size = memory.metadata()?.len();
        if size > MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let size = usize::try_from(size).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut bytes = Zeroizing::default();
        file::read_exact_at(memory.as_fd(), &mut bytes, size, 0)?;
        Self::parse(&bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let ([roles, may_decrypt, accelerator, is_uri], rest) = rest.split_first_chunk()?;
        let roles = match roles {
            1..=3 => Roles {
                server: roles & 1 != 0,
                client: roles & 2 != 0,
            },
            _ => return None,
        };
        let flag = |byte: u8| (byte <= 1).then_some(byte == 1);
        let (may_decrypt, is_uri) = (flag(*may_decrypt)?, flag(*is_uri)?);
        let accelerator = match accelerator {
            0 => AcceleratorChoice::Auto,
            1 => AcceleratorChoice::Cpu,
            2 => AcceleratorChoice::Batch,
            _ => return None,
        };
        let (count, mut rest) = number(rest).filter(|(count, _)| *count <= MAX_PASSWORDS)?;
        let mut passwords = Vec::new();
        for _ in 0..count {
            let (text, after) = text(rest)?;
            passwords.push(Secret::new(text.to_vec()));
            rest = after;
        }
        let (key, rest) = text(rest)?;
        rest.is_empty().then(|| Self {
            roles,
            may_decrypt,
            accelerator,
            passwords,
            is_uri,
            key: Secret::new(key.to_vec()),
            content: sha256(bytes),
        })
    }
}

fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((usize::try_from(u32::from_le_bytes(*number)).ok()?, rest))
}

fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = number(bytes)?;
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(key: KeySource<'_>) -> OwnedFd {
        let passwords = ["one", "two"].map(|it| Secret::new(it.as_bytes().to_vec()));
        let deposit = Deposit {
            roles: Roles::CLIENT,
            may_decrypt: true,
            accelerator: AcceleratorChoice::Batch,
            passwords: &passwords,
            key,
        };
        deposit.seal().expect("memory")
    }

    #[test]
    fn what_is_deposited_is_read() {
        let file = sealed_file(&[b"a key, and more"]).expect("memory");
        let mut contents = Vec::new();
        for (key, expected, is_uri) in [
            (KeySource::Pem(b"a key"), "a key", false),
            (KeySource::Uri("pkcs11:object=a"), "pkcs11:object=a", true),
            (KeySource::File(file.as_fd(), 5), "a key", false),
            (
                KeySource::Pem(b"PROC-TYPE: 4,ENCRYPTED"),
                "PROC-TYPE: 4,ENCRYPTED",
                false,
            ),
        ] {
            let read = Deposited::read(sealed(key).as_fd()).expect("readable");
            contents.push(*read.content());
            assert_eq!(read.is_encrypted(), expected.contains("ENCRYPTED"));
            assert_eq!(read.roles, Roles::CLIENT);
            assert!(read.may_decrypt);
            assert_eq!(read.accelerator, AcceleratorChoice::Batch);
            let passwords: Vec<_> = read.passwords().iter().map(Secret::expose).collect();
            assert_eq!(passwords, [b"one", b"two"]);
            match read.key() {
                DepositedKey::Pem(pem) => assert!(!is_uri && pem == expected.as_bytes()),
                DepositedKey::Uri(uri) => assert!(is_uri && uri == expected),
            }
        }
        // The same key, however it came.
        assert!(contents[0] == contents[2]);
        assert!(contents[0] != contents[1] && contents[0] != contents[3]);
    }

    #[test]
    fn what_may_change_or_block_is_not_read() {
        let (end, _other) = sealane_sys::socket::seqpacket_pair().expect("descriptors");
        let file = std::fs::File::open("/dev/zero").expect("it is there");
        for fd in [end.as_fd(), file.as_fd()] {
            let error = Deposited::read(fd).expect_err("it is not sealed");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn damage_is_found_and_never_a_panic() {
        let memory = sealed(KeySource::Pem(b"a key"));
        let mut bytes = Vec::new();
        file::read_at(memory.as_fd(), &mut bytes, 1000, 0).expect("readable");
        assert!(Deposited::parse(&bytes).is_some());
        for length in 0..bytes.len() {
            assert!(Deposited::parse(&bytes[..length]).is_none(), "{length}");
        }
        for at in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                let _ = Deposited::parse(&changed);
            }
        }
    }
}
